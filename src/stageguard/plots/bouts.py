"""`plot_bouts` and `plot_transitions`: how long stages last, and which stage follows which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats, Ints
from stageguard.errors import InputError
from stageguard.measures.bouts import ScoredNight, bouts_of, cuts_of, hypnogram_of, pair_counts
from stageguard.night.colours import stage_shade, top_down
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.stages import StageScheme
from stageguard.plots.axes import (
    COLUMN_WIDTH,
    INK,
    SERIES,
    STYLES,
    Axes,
    ScoringSeries,
    as_nights,
    axes_for,
    names_for,
    series_of,
    tidy,
)
from stageguard.profile.profile import Profile

KINDS = ("survival", "histogram")


def plot_bouts(
    nights: ScoredNight | Sequence[ScoredNight],
    *others: ScoredNight | Sequence[ScoredNight],
    stages: str | Sequence[str] | None = None,
    kind: Literal["survival", "histogram"] = "survival",
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the lengths of the complete bouts of each stage, on a logarithmic axis.

    A bout is complete if there is a scored epoch of another stage on either side, as in
    `stageguard.validity`.

    Parameters
    ----------
    nights, *others : Hypnogram or Decoding, or a list of them
        The scorings to compare; the bouts of a list are pooled. A decoding is drawn before and after.
    stages : str or list of str, optional
        Stages to draw, by default all. Colours are scorings for a single stage, and stages for several.
    kind : {"survival", "histogram"}
        Percentage of bouts that last at least as long, or that are in bins of 1, 2 to 3, 4 to 7, ... epochs.
    names : list of str, optional
        Names of the scorings. Default: before and after, or the scorer.
    ax : matplotlib.axes.Axes, optional
        Where to draw. Default: a new figure.
    """
    checks.choice(kind, "kind", KINDS)
    all_series = [
        series for k, each in enumerate((nights, *others), start=1) for series in series_of(each, k)
    ]
    titles = names_for(names, [series.name for series in all_series], "scoring")
    scheme = all_series[0].scorings[0].scheme
    for series in all_series:
        for scoring in series.scorings:
            if scoring.scheme != scheme:
                raise InputError(
                    f"stages are {', '.join(scheme.names)} of one night and "
                    f"{', '.join(scoring.scheme.names)} of another, expected the same. Use sg.merge_stages."
                )
    wanted = [stages] if isinstance(stages, str) else stages
    if wanted is not None and not isinstance(wanted, Iterable):
        raise InputError(f"stages is {checks.shown(stages)}, expected names such as ['N3', 'R'].")
    chosen = top_down(scheme) if wanted is None else [scheme.index(stage) for stage in wanted]
    shortest = min(scoring.epoch_seconds for series in all_series for scoring in series.scorings) / 60.0
    ax = tidy(axes_for(ax, COLUMN_WIDTH, 0.75 * COLUMN_WIDTH))
    for number, (series, name) in enumerate(zip(all_series, titles, strict=True)):
        for stage in chosen:
            lengths = bout_minutes(series, stage)
            is_one = len(chosen) == 1
            colour = SERIES[number % len(SERIES)] if is_one else stage_shade(scheme, stage).light
            parts = [name] * (len(all_series) > 1 or is_one) + [scheme.names[stage]] * (not is_one)
            label = f"{', '.join(parts)} (n = {len(lengths):,})"
            style = STYLES[number % len(STYLES)]
            if kind == "survival":
                draw_survival(ax, lengths, color=colour, ls=style, lw=1.3, label=label)
            else:
                _draw_histogram(ax, lengths, shortest, color=colour, ls=style, lw=1.3, label=label)
    ax.set_xscale("log")
    ax.set_ylim(0, 103 if kind == "survival" else None)
    ax.set_xlabel("Bout length (min)")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_ylabel("Bouts at least as long (%)" if kind == "survival" else "Bouts (%)")
    handles = ax.get_lines() if kind == "survival" else ax.patches
    if len(all_series) > 1 and len(chosen) > 1:  # a line for each stage and scoring would cover the curves
        handles = [
            ax.plot([], [], color=stage_shade(scheme, k).light, label=scheme.names[k])[0] for k in chosen
        ]
        styles = zip(titles, STYLES * len(titles), strict=False)
        handles += [ax.plot([], [], color=INK, ls=style, label=name)[0] for name, style in styles]
    place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if len(handles) > 4 else {"loc": "best"}
    ax.legend(handles=handles, frameon=False, fontsize="small", **place)
    return ax


def bout_minutes(series: ScoringSeries, stage: int) -> Floats:
    """Return the lengths of the complete bouts of a stage, over all nights."""
    lengths = [np.zeros(0)]
    for scoring, cuts in zip(series.scorings, series.cuts, strict=True):
        bouts = bouts_of(np.insert(scoring.labels, list(cuts), UNSCORED))
        counted = bouts.lengths[bouts.complete & (bouts.stages == stage)]
        lengths.append(counted * scoring.epoch_seconds / 60.0)
    return np.concatenate(lengths)


def draw_survival(ax: Axes, lengths: Floats, **style: object) -> None:
    """Draw the percentage of bouts that last at least as long; without bouts, only a line in the legend."""
    values, counts = np.unique(lengths, return_counts=True)
    at_least = 100.0 * counts[::-1].cumsum()[::-1] / max(1, len(lengths))
    ax.step(values, at_least, where="pre", **style)  # type: ignore[arg-type]


def _draw_histogram(ax: Axes, lengths: Floats, epoch_minutes: float, **style: object) -> None:
    """Draw the percentage of bouts in bins of doubling width, the first of which is one epoch."""
    longest = lengths.max() / epoch_minutes if len(lengths) else 1.0
    n_bins = int(np.floor(np.log2(longest + 0.5))) + 1
    edges = (2.0 ** np.arange(n_bins + 1) - 0.5) * epoch_minutes
    percent = 100.0 * np.histogram(lengths, edges)[0] / max(1, len(lengths))
    ax.stairs(percent, edges, **style)  # type: ignore[arg-type]


WIDEST = 24  # total letters of the stages' names; beyond, names are vertical
DARK = 0.3  # probability above which a number is white on its dark colour


def plot_transitions(
    nights: ScoredNight | Sequence[ScoredNight] | Profile, *, ax: Axes | None = None
) -> Axes:
    """Draw the probability of each stage in the epoch that follows each stage.

    Parameters
    ----------
    nights : Hypnogram or Decoding, a list of them, or Profile
        Pairs of adjacent scored epochs are counted; those of a list are pooled. For a decoding, its decoded
        stages are counted. The transitions of a profile are drawn as they are.
    ax : matplotlib.axes.Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A row per stage, a column per following stage; a stage that does not occur has dashes.
    """
    if isinstance(nights, Profile):
        scheme, matrix = nights.scheme, np.array(nights.transitions)
    else:
        scheme, matrix = _transition_matrix(as_nights(nights))
    size = max(COLUMN_WIDTH * 0.8, 0.42 * scheme.n_stages)
    ax = axes_for(ax, size, size)
    draw_matrix(ax, matrix, scheme.names)
    ax.set(xlabel="To", ylabel="From")
    return ax


def _transition_matrix(nights: Sequence[ScoredNight]) -> tuple[StageScheme, Floats]:
    """Return the transition probabilities of all nights together."""
    scorings = [hypnogram_of(night) for night in nights]
    scheme, seconds = scorings[0].scheme, scorings[0].epoch_seconds
    counts = np.zeros((scheme.n_stages, scheme.n_stages))
    for number, (night, scoring) in enumerate(zip(nights, scorings, strict=True), start=1):
        if scoring.scheme != scheme or scoring.epoch_seconds != seconds:
            raise InputError(
                f"night {number} has the stages {', '.join(scoring.scheme.names)} and epochs of "
                f"{scoring.epoch_seconds:g} s, the first has {', '.join(scheme.names)} and {seconds:g} s, "
                "expected the same. Use sg.merge_stages or sg.reepoch."
            )
        labels = np.insert(scoring.labels, list(cuts_of(night)), UNSCORED)
        counts += pair_counts(labels, scheme.n_stages)
    return scheme, transition_shares(counts)


def transition_shares(counts: Floats | Ints) -> Floats:
    """Return the rows of counts as shares; NaN for a stage without pairs."""
    totals = counts.sum(axis=1, keepdims=True)
    shares: Floats = np.divide(counts, totals, out=np.full(counts.shape, np.nan), where=totals > 0)
    return shares


def draw_matrix(ax: Axes, matrix: Floats, names: Sequence[str]) -> None:
    """Draw transition probabilities as numbers on shades of blue, by the square root to show small ones."""
    ax.imshow(np.sqrt(np.nan_to_num(matrix)), cmap="Blues", vmin=0, vmax=1)
    for (row, column), value in np.ndenumerate(matrix):
        text = "–" if np.isnan(value) else f"{value:.3f}".lstrip("0") if value < 1 else "1"
        colour = "white" if value > DARK else "black"
        ax.text(column, row, text or "0", ha="center", va="center", fontsize="small", color=colour)
    is_long = max(map(len, names)) * len(names) > WIDEST
    ax.set_xticks(range(len(names)), names, rotation=90 if is_long else 0)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
