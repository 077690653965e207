"""The paper's figure of what its constraints do: bout lengths, transitions before and after, reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.measures.bouts import bouts_of, pair_counts
from stageguard.plots.bouts import transition_shares
from stageguard.profile.profile import Profile
from stageguard.study.derived import staged_nights
from stageguard.study.names import BASE, EXPERT, PAPER, TITLES
from stageguard.study.plotting import COLOURS, MARKS, new_figure
from stageguard.study.store import Results, values

LONGEST = 8  # epochs
RARE, RARE_GONE, USUAL, SAME = "#F4B183", "#A9D8B8", "#BFD7EA", "#EEEEEE"
GONE_BELOW = 1.0  # percent, below which a rare transition is marked as gone

Nights = Mapping[str, Mapping[str, Any]]


def effect_figure(results: Results, night: str | None = None) -> Any:
    """Draw the lengths of bouts, percentages of transitions before and after, and reductions by network."""
    backbone = results.backbones[0]
    nights = staged_nights(results, backbone)
    stages = results.records[0]["stages"]
    figure, axes = new_figure(results, 1, 3, (11.5, 3.6), of=backbone, widths=(1.0, 1.35, 1.2))
    _bouts(axes[0, 0], nights)
    _transitions(axes[0, 1], nights, stages, Profile.load(results.study["guard"]["paper"]).tvr_pairs)
    _reductions(axes[0, 2], results)
    return figure


def _bouts(ax: Any, nights: Nights) -> None:
    lengths = np.arange(1, LONGEST + 1)
    for variant in (EXPERT, BASE, PAPER):
        found = [bouts_of(each[variant].astype(np.int8)).lengths for each in nights.values()]
        counts = np.bincount(np.concatenate(found), minlength=LONGEST + 1)
        shares = counts[1 : LONGEST + 1] / counts.sum()
        style = {EXPERT: "-", BASE: "--", PAPER: "-."}[variant]
        ax.plot(
            lengths, shares, style, marker=MARKS[variant], color=COLOURS[variant], label=TITLES[variant], ms=4
        )
    ax.set_title("(a) bout lengths", fontsize=9)
    ax.set(xlabel="bout length (epochs)", ylabel="proportion of bouts", ylim=(0, None))
    ax.set_xticks(lengths)
    ax.legend(fontsize=7, frameon=False)


def _transitions(ax: Any, nights: Nights, stages: Sequence[str], rare: Sequence[tuple[str, str]]) -> None:
    """Draw two matrices side by side, of argmax and of the published method, with rare pairs marked."""
    n_stages = len(stages)
    for side, variant in enumerate((BASE, PAPER)):
        counted = [pair_counts(each[variant].astype(np.int8), n_stages) for each in nights.values()]
        percent = 100 * transition_shares(np.sum(counted, axis=0))
        left = side * (n_stages + 2.4)
        _matrix(ax, percent, stages, rare, left, is_after=variant == PAPER)
        ax.text(left + n_stages / 2, -1.1, TITLES[variant], ha="center", va="bottom", fontsize=8)
    middle = n_stages + 0.8
    ax.text(middle, n_stages / 2, "⇒", ha="center", va="center", fontsize=14)
    pairs = ", ".join(f"{a}→{b}" for a, b in rare) or "none"
    gone = f"green: rare and now below {GONE_BELOW:g} %"
    below = f"from row to column; orange: rare ({pairs});\n{gone}; blue: others"
    ax.text(middle, n_stages + 0.35, below, ha="center", va="top", fontsize=6.5)
    ax.set(xlim=(-0.8, 2 * n_stages + 2.6), ylim=(n_stages + 1.2, -1.8))
    ax.set_title("(b) transitions (%)", fontsize=9)
    ax.set_axis_off()


def _matrix(
    ax: Any,
    percent: Floats,
    stages: Sequence[str],
    rare: Sequence[tuple[str, str]],
    left: float,
    *,
    is_after: bool,
) -> None:
    from matplotlib.patches import Rectangle

    for row, source in enumerate(stages):
        ax.text(left - 0.15, row + 0.5, source, ha="right", va="center", fontsize=7)
        ax.text(left + row + 0.5, -0.15, source, ha="center", va="bottom", fontsize=7)
        for column, target in enumerate(stages):
            value = percent[row, column]
            is_rare = (source, target) in rare
            colour = SAME if row == column else USUAL
            if is_rare:
                colour = RARE_GONE if is_after and value < GONE_BELOW else RARE
            ax.add_patch(Rectangle((left + column, row), 1, 1, facecolor=colour, edgecolor="white"))
            places = 1 if value < 10 else 0
            text = "–" if row == column or np.isnan(value) else f"{value:.{places}f}"
            ax.text(left + column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7)


def _reductions(ax: Any, results: Results) -> None:
    """Draw how far the published method lowers TVR and FI, by network."""
    names = results.backbones
    series = {"tvr_percent": ("TVR (percentage points)", 1.0), "fi": ("FI × 10", 10.0)}
    for number, (metric, (title, factor)) in enumerate(series.items()):
        found = [[values(results.of(name), v, metric) for v in (BASE, PAPER)] for name in names]
        places = [k for k, (before, after) in enumerate(found) if before and after]
        heights = [factor * (_mean(found[k][0]) - _mean(found[k][1])) for k in places]
        if places:
            x = np.array(places) + 0.36 * (number - 0.5)
            ax.bar(x, heights, 0.34, color=(COLOURS[BASE], COLOURS[PAPER])[number], label=title)
    ax.axhline(0, color="black", lw=0.6)
    ax.set_xticks(range(len(names)), names, rotation=35, ha="right", fontsize=7)
    ax.set_title("(c) reduction by network", fontsize=9)
    ax.set(ylabel="argmax less published method")
    ax.legend(fontsize=7, frameon=False)


def _mean(by_subject: Mapping[str, float]) -> float:
    return float(np.mean(list(by_subject.values())))
