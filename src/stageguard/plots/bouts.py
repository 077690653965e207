"""`plot_bouts`: how long stages last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError
from stageguard.measures.bouts import ScoredNight, bouts_of
from stageguard.night.colours import stage_shade, top_down
from stageguard.night.hypnogram import UNSCORED
from stageguard.plots.axes import (
    COLUMN_WIDTH,
    INK,
    SERIES,
    STYLES,
    Axes,
    ScoringSeries,
    axes_for,
    names_for,
    series_of,
    tidy,
)

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
                    f"{', '.join(scoring.scheme.names)} of another, expected the same."
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
