"""The figures of a study, in colours for red-green blind readers and for printing in grey."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stageguard.arrays import Floats
from stageguard.errors import InputError, MissingFileError
from stageguard.extras import library
from stageguard.measures.bouts import bouts_of, pair_counts
from stageguard.plots.bouts import draw_matrix, draw_survival, transition_shares
from stageguard.profile.profile import Profile
from stageguard.study.comparison import signed_errors
from stageguard.study.derived import staged_nights
from stageguard.study.store import (
    BASE,
    CALIBRATED,
    EXPERT,
    GUARDED,
    MAIN,
    METRICS,
    PAPER,
    PENALTY,
    RELEASED,
    TITLES,
    Results,
    values,
    variants_in,
)

# Okabe and Ito's palette; each variant also has its own mark.
COLOURS = {
    EXPERT: "#000000",
    BASE: "#E69F00",
    PAPER: "#0072B2",
    RELEASED: "#56B4E9",
    CALIBRATED: "#009E73",
    PENALTY: "#CC79A7",
}
MARKS = {EXPERT: "o", BASE: "s", PAPER: "^", RELEASED: "<", CALIBRATED: "D", PENALTY: "v"}


LONGEST = 8  # epochs
RARE, RARE_GONE, USUAL, SAME = "#F4B183", "#A9D8B8", "#BFD7EA", "#EEEEEE"
GONE_BELOW = 1.0  # percent, below which a rare transition is marked as gone

Nights = Mapping[str, Mapping[str, Any]]


STAGE_COLOURS = ("#E69F00", "#0072B2", "#CC79A7", "#009E73", "#56B4E9")
SHOWN = (EXPERT, BASE, *GUARDED)
SHORT = {BASE: "argmax", PAPER: "published", RELEASED: "released", CALIBRATED: "calibrated"}


def _complete_nights(results: Results, backbone: str) -> Nights:
    """Return the nights that have the stages of every variant: not those of a fold that failed."""
    nights = staged_nights(results, backbone)
    variants = set().union(*nights.values())
    complete = {name: columns for name, columns in nights.items() if columns.keys() >= variants}
    if not complete:
        raise InputError(f"{results.folder}: no night of {backbone} has the stages of every variant.")
    return complete


def new_figure(
    results: Results,
    n_rows: int,
    n_columns: int,
    size: tuple[float, float],
    *,
    of: str | None = None,
    widths: Sequence[float] | None = None,
) -> tuple[Any, Any]:
    """Return a figure and its axes, titled by the study and, with `of`, the network."""
    library("matplotlib", "figures of a study", "study")
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained", dpi=150)
    axes = figure.subplots(n_rows, n_columns, squeeze=False, width_ratios=widths)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    network = "" if of is None else f", {of}"
    synthetic = " (SYNTHETIC)" if results.is_synthetic else ""
    figure.suptitle(f"{results.study['title']}{network}{synthetic}", fontsize=10)
    return figure, axes


def _shown_in(nights: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the variants, and the expert, that all nights have."""
    return [v for v in SHOWN if all(v in night for night in nights.values())]


def bouts_figure(results: Results, night: str | None = None) -> Any:
    """Draw the bout lengths of every stage: expert, argmax, guarded."""
    backbone = results.backbones[0]
    nights = _complete_nights(results, backbone)
    record = results.records[0]
    stages, minutes = record["stages"], record["epoch_seconds"] / 60
    figure, axes = new_figure(results, 1, len(stages), (3.2 * len(stages), 3.0), of=backbone)
    for k, stage in enumerate(stages):
        ax = axes[0, k]
        for variant in _shown_in(nights):
            bouts = [bouts_of(each[variant].astype(np.int8)) for each in nights.values()]
            lengths = np.concatenate([b.lengths[b.stages == k] for b in bouts]) * minutes
            # a guard that steps aside lies on argmax, which is drawn broader to be seen
            width = 3.5 if variant == BASE else 1.3
            draw_survival(ax, lengths, color=COLOURS[variant], label=TITLES[variant], lw=width)
        ax.set(xscale="log", title=stage, xlabel="bout length (min)")
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter("")  # minutes between powers of ten would overlap
    axes[0, 0].set_ylabel("bouts at least as long (%)")
    axes[0, 0].legend(fontsize=7, frameon=False)
    return figure


def matrices_figure(results: Results, night: str | None = None) -> Any:
    """Draw the transition probabilities of expert, argmax and guarded stages."""
    backbone = results.backbones[0]
    nights = _complete_nights(results, backbone)
    stages = results.records[0]["stages"]
    shown = _shown_in(nights)
    figure, axes = new_figure(results, 1, len(shown), (2.6 * len(shown), 3.6), of=backbone)
    for ax, variant in zip(axes[0], shown, strict=True):
        pairs = np.sum(
            [pair_counts(n[variant].astype(np.int8), len(stages)) for n in nights.values()], axis=0
        )
        draw_matrix(ax, transition_shares(pairs), stages)
        ax.set(title=TITLES[variant], xlabel="to")
        ax.title.set_fontsize(8)
    axes[0, 0].set_ylabel("from")
    return figure


def reduction_figure(results: Results, night: str | None = None) -> Any:
    """Draw TVR, FI, accuracy and kappa of every network, before and after."""
    names = results.backbones
    metrics = {m: METRICS[m][0] for m in MAIN if values(results.of(names[0]), BASE, m)}
    figure, axes = new_figure(results, 1, len(metrics), (2.5 * len(metrics) + 1, 0.5 * len(names) + 1.7))
    for ax, (metric, title) in zip(axes[0], metrics.items(), strict=True):
        for variant in (BASE, *GUARDED):
            by_network = [values(results.of(name), variant, metric) for name in names]
            points = [(np.mean(list(v.values())), k) for k, v in enumerate(by_network) if v]
            if points:
                x, y = zip(*points, strict=True)
                size = 10 if variant == BASE else 5  # a guard that steps aside lies on argmax
                ax.plot(x, y, MARKS[variant], color=COLOURS[variant], label=TITLES[variant], ms=size)
        if metric in ("tvr_percent", "fi"):
            expert = values(results.of(names[0]), EXPERT, metric)
            ax.axvline(np.mean(list(expert.values())), color="black", lw=1, ls=":", label=TITLES[EXPERT])
        ax.set(title=title)
        ax.set_yticks(range(len(names)), names if metric == next(iter(metrics)) else [""] * len(names))
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.grid(axis="y", lw=0.3)
    handles, labels = axes[0, min(1, len(metrics) - 1)].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=7, frameon=False)
    return figure


def night_figure(results: Results, night: str | None = None) -> Any:
    """Draw the hypnogram and the hypnodensity of one night, by default the first."""
    backbone = results.backbones[0]
    nights = _complete_nights(results, backbone)
    name = night or min(nights)
    if name not in nights:
        raise MissingFileError(
            f"night {name!r} is not in this study. There are: {', '.join(sorted(nights)[:8])}"
        )
    chosen, record = nights[name], results.records[0]
    stages = record["stages"]
    hours = chosen["epoch"] * record["epoch_seconds"] / 3600
    shown = _shown_in({name: chosen})
    figure, axes = new_figure(results, len(shown) + 1, 1, (8.0, 1.2 * len(shown) + 1.9))
    rows = np.array([chosen[f"p_{stage}"] for stage in stages])
    axes[0, 0].stackplot(hours, np.nan_to_num(rows), colors=STAGE_COLOURS, labels=stages, lw=0)
    axes[0, 0].set(ylabel="probability", ylim=(0, 1), xlim=(hours[0], hours[-1]))
    axes[0, 0].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7, frameon=False)
    order = _heights(stages)
    for ax, variant in zip(axes[1:, 0], shown, strict=True):
        labels = chosen[variant].astype(float)
        height = np.array([*order, np.nan])[chosen[variant].astype(int)]
        ax.step(hours, np.where(labels < 0, np.nan, height), where="post", color=COLOURS[variant], lw=0.9)
        ax.set(xlim=(hours[0], hours[-1]), ylim=(min(order) - 0.4, max(order) + 0.4))
        ax.set_yticks(order, stages, fontsize=7)
        ax.set_title(TITLES[variant], fontsize=8, loc="left")
    axes[-1, 0].set_xlabel(f"hours, {name}, {backbone}")
    return figure


def _heights(stages: list[str]) -> list[float]:
    """Return the height of each stage: wake at the top, then REM, then deeper sleep."""
    depth = {"W": 0.0, "R": -1.0, "N1": -2.0, "N": -2.0, "Light": -2.0, "S": -2.0, "N2": -3.0, "N3": -4.0}
    return [depth.get(stage, -float(k)) for k, stage in enumerate(stages)]


def curves_figure(results: Results, night: str | None = None) -> Any:
    """Draw the effects of lambda and of the scale of the minimum bouts."""
    varied = results.varied
    penalised = results.select(backbone=varied, loss="penalty", seed=results.study["seed"], label_noise=0.0)
    records = results.of(varied)
    weights = sorted({record["weight"] for record in penalised})
    by_weight = {w: [r for r in penalised if r["weight"] == w] for w in weights}
    prefix = "paper, minimum x "
    scales = {float(v.removeprefix(prefix)): v for v in variants_in(records) if v.startswith(prefix)}
    drawn = ("tvr_percent", "fi", "kappa", "f1_R")
    metrics = {m: METRICS[m][0] for m in drawn if values(records, PAPER, m)}
    n_rows = 2 if weights else 1
    figure, axes = new_figure(results, n_rows, len(metrics), (2.5 * len(metrics), 2.3 * n_rows), of=varied)
    for k, (metric, title) in enumerate(metrics.items()):
        axes[0, k].set_title(title)
        for variant in (PENALTY, PAPER) if weights else ():
            at_zero = values(records, BASE if variant == PENALTY else "paper, no penalty", metric)
            points = [(w, values(group, variant, metric)) for w, group in by_weight.items()]
            _line(axes[0, k], [(0.0, at_zero), *points], variant)
            axes[0, k].set_xlabel("λ")
        _line(axes[-1, k], [(s, values(records, v, metric)) for s, v in sorted(scales.items())], PAPER)
        axes[-1, k].set_xlabel("minimum bouts ×")
    if weights:
        axes[0, 0].legend(fontsize=7, frameon=False)
    return figure


def _line(ax: Any, points: list[tuple[float, dict[str, float]]], variant: str) -> None:
    known = [(x, float(np.mean(list(v.values())))) for x, v in points if v]
    if known:
        x, y = zip(*known, strict=True)
        ax.plot(x, y, MARKS[variant] + "-", color=COLOURS[variant], label=TITLES[variant], ms=4, lw=1.2)


def bland_altman_figure(results: Results, night: str | None = None) -> Any:
    """Draw the errors of TST and WASO, night by night."""
    metrics = {"tst_minutes": "TST (min)", "waso_minutes": "WASO (min)"}
    backbone = results.backbones[0]
    records = results.of(backbone)
    figure, axes = new_figure(results, 1, len(metrics), (4.2 * len(metrics), 3.0), of=backbone)
    for ax, (metric, title) in zip(axes[0], metrics.items(), strict=True):
        for number, variant in enumerate((BASE, *GUARDED)):
            errors = [error for _, error in signed_errors(results, records, variant, metric)]
            if errors:
                spread = number + np.linspace(-0.25, 0.25, len(errors)) * (len(errors) > 1)
                ax.plot(spread, errors, MARKS[variant], color=COLOURS[variant], ms=4, alpha=0.7)
                ax.hlines(np.mean(errors), number - 0.35, number + 0.35, color=COLOURS[variant])
        ax.axhline(0, color="black", lw=0.8, ls=":")
        ax.set_xticks(range(len(SHORT)), list(SHORT.values()), fontsize=8)
        ax.set(title=f"{title}: error by night", ylabel="stages less expert (min)")
    return figure


def effect_figure(results: Results, night: str | None = None) -> Any:
    """Draw the lengths of bouts, percentages of transitions before and after, and reductions by network."""
    backbone = results.backbones[0]
    nights = _complete_nights(results, backbone)
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


# All figures by name, in the order of the report.
FIGURES: Mapping[str, Callable[[Results, str | None], Any]] = {
    "effect": effect_figure,
    "reduction": reduction_figure,
    "bouts": bouts_figure,
    "transitions": matrices_figure,
    "night": night_figure,
    "curves": curves_figure,
    "errors": bland_altman_figure,
}


def image(figure: Any, form: str) -> bytes:
    """Return a figure as png, pdf or svg; the bytes are the same every time."""
    buffer = io.BytesIO()
    metadata = (
        {"Software": None} if form == "png" else {"CreationDate": None} if form == "pdf" else {"Date": None}
    )
    matplotlib = library("matplotlib", "figures of a study", "study")
    with matplotlib.rc_context({"svg.hashsalt": "stageguard"}):  # otherwise ids inside an SVG are random
        figure.savefig(buffer, format=form, metadata=metadata)
    return buffer.getvalue()
