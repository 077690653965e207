"""`plot_hypnogram` and `plot_density`: the stages of a night, and their probabilities, over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats, Mask
from stageguard.errors import InputError
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import ScoredNight, hypnogram_before, hypnogram_of
from stageguard.night.colours import stage_shade, top_down
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.timing import Moment, lights_window
from stageguard.plots.axes import (
    FULL_WIDTH,
    GAP,
    GREY,
    INK,
    Axes,
    TimeAxis,
    axes_for,
    columns_of,
    names_for,
    steps,
    tidy,
)

ROW, NAME, STRIP = 0.17, 1.4, 1.0  # inches per row; height of a lane's name and of its changes, in rows
TALLEST = 0.42  # half the height of a full column, in rows


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """One scoring, and for a decoding its changed epochs."""

    name: str
    scoring: Hypnogram
    changed: Mask | None = None


def plot_hypnogram(
    night: ScoredNight,
    *others: ScoredNight,
    names: Sequence[str] | None = None,
    lights_off: Moment | None = None,
    lights_on: Moment | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the stages of a night, and other scorings of it below.

    Wake is at the top and deep sleep at the bottom, REM is a bar in its colour, and unscored epochs are
    grey. If there are more epochs than a page can show, each stage has a row whose height is its share of a
    column of epochs; the label of the axis states the length of a column.

    Parameters
    ----------
    night, *others : Hypnogram or Decoding
        Scorings of one recording, with any stages and epoch lengths, placed by their starts or else by their
        offsets. A decoding is drawn before and after, with marks where it changed the stage.
    names : list of str, optional
        Names of the lanes. Default: before and after, or the scorer.
    lights_off, lights_on : float, timedelta, datetime or str, optional
        When lights went off and on, as in `stageguard.sleep_statistics`; drawn as vertical lines.
    ax : matplotlib.axes.Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The x-axis is in dates if a night has a start, otherwise in hours or minutes.
    """
    lanes = _lanes([night, *others], names)
    time = TimeAxis([lane.scoring for lane in lanes])
    heights = [lane.scoring.scheme.n_stages + (lane.changed is not None) * STRIP for lane in lanes]
    is_named = len(lanes) > 1 or names is not None
    total = sum(heights) + is_named * NAME * len(lanes)
    ax = tidy(axes_for(ax, FULL_WIDTH, 0.6 + ROW * max(total, 4)))
    gathered = [columns_of(lane.scoring.n_epochs) for lane in lanes]
    widths = [
        c.width * lane.scoring.epoch_seconds for c, lane in zip(gathered, lanes, strict=True) if c.width > 1
    ]
    time.draw(ax, max(widths, default=0.0))  # first, as setting a date axis is slow with many artists
    ticks: dict[float, str] = {}
    top = 0.0
    for number, (lane, height) in enumerate(zip(lanes, heights, strict=True)):
        if is_named:
            top -= NAME
            ax.annotate(lane.name, (0.0, top), xycoords=ax.get_yaxis_transform(), xytext=(4, 2),
                        textcoords="offset points", fontweight="bold", fontsize="small")  # fmt: skip
        ticks |= _draw_lane(ax, lane, time.edges(number, lane.scoring, gathered[number]), top)
        top -= height
    ax.set_ylim(top, 0.0)
    ax.set_yticks(list(ticks), list(ticks.values()))
    ax.tick_params(axis="y", length=0)
    _draw_lights(ax, lanes[0].scoring, time, lights_off, lights_on)
    return ax


def _lanes(nights: Sequence[ScoredNight], names: Sequence[str] | None) -> list[Lane]:
    lanes: list[Lane] = []
    n_decoded = sum(isinstance(night, Decoding) for night in nights)
    for number, night in enumerate(nights, start=1):
        scoring = hypnogram_of(night)
        if isinstance(night, Decoding):
            of = f" ({night.profile.name})" if n_decoded > 1 else ""
            lanes += [Lane("before", hypnogram_before(night)), Lane(f"after{of}", scoring, night.changed)]
        else:
            lanes.append(Lane(scoring.scorer or f"scoring {number}", scoring))
    titles = names_for(names, [lane.name for lane in lanes], "lane")
    return [replace(lane, name=name) for name, lane in zip(titles, lanes, strict=True)]


def _draw_lane(ax: Axes, lane: Lane, edges: Floats, top: float) -> dict[float, str]:
    """Draw a scoring below `top`; return the heights of its rows with their labels."""
    scoring = lane.scoring
    labels, scheme = scoring.labels, scoring.scheme
    order = top_down(scheme)
    rows = {stage: top - rank - 0.5 for rank, stage in enumerate(order)}
    columns = columns_of(len(labels))
    bottom = top - scheme.n_stages
    unscored = columns.means(labels == UNSCORED)
    if unscored.any():
        steps(ax, np.where(unscored > 0, bottom + unscored * scheme.n_stages, np.nan), edges, baseline=bottom,
                  fill=True, color=GAP, lw=0, label="unscored", zorder=0.5)  # fmt: skip
    if columns.width > 1:
        for stage, row in rows.items():
            share = TALLEST * columns.means(labels == stage)
            steps(ax, row + share, edges, baseline=row - share, fill=True, lw=0,
                      color=stage_shade(scheme, stage).light, label=scheme.names[stage])  # fmt: skip
    else:
        height = np.array([*(rows[stage] for stage in range(scheme.n_stages)), np.nan])[labels]
        steps(ax, height, edges, baseline=None, color=INK, lw=0.8, label=lane.name)
        if scheme.rem_index is not None:
            rem = np.where(labels == scheme.rem_index, height, np.nan)
            colour = stage_shade(scheme, scheme.rem_index).light
            steps(ax, rem, edges, baseline=None, color=colour, lw=3.5, capstyle="butt", label=scheme.rem)
    ticks = {row: scheme.names[stage] for stage, row in rows.items()}
    if lane.changed is not None:
        low = bottom - 0.8 * STRIP
        share = columns.means(lane.changed)
        steps(ax, np.where(share > 0, low + 0.5 * share, np.nan), edges, baseline=low, fill=True, color=INK,
                  lw=0.5, snap=False, label="changed")  # fmt: skip
        ticks[low + 0.25] = "changed"
    return ticks


def _draw_lights(
    ax: Axes, scoring: Hypnogram, time: TimeAxis, lights_off: Moment | None, lights_on: Moment | None
) -> None:
    epochs = lights_window(scoring, lights_off, lights_on)
    for name, moment, epoch in zip(("off", "on"), (lights_off, lights_on), epochs, strict=True):
        if moment is not None:
            x = float(time.at(time.began[0] + epoch * scoring.epoch_seconds))
            ax.axvline(x, color=GREY, lw=1, ls=(0, (4, 2)), label=f"lights {name}")
            ax.annotate(f"lights {name}", (x, 1.0), xycoords=ax.get_xaxis_transform(), xytext=(0, 2),
                        textcoords="offset points", ha="center", va="bottom", fontsize="small",
                        color=GREY)  # fmt: skip


def plot_density(night: Hypnodensity | Decoding, *, ax: Axes | None = None) -> Axes:
    """Draw the probabilities of all stages over a night, wake at the top and deep sleep at the bottom.

    Epochs without evidence are grey. If there are more epochs than a page can show, the mean over columns of
    epochs is drawn; the label of the axis states the length of a column.

    Parameters
    ----------
    night : Hypnodensity or Decoding
        Probabilities, such as those of a stager or a `Posterior`; for a decoding, those that were decoded.
    ax : matplotlib.axes.Axes, optional
        Where to draw. Default: a new figure.
    """
    density = night.density if isinstance(night, Decoding) else night
    if not isinstance(density, Hypnodensity):
        raise InputError(
            f"the night is {checks.shown(night)}, expected a Hypnodensity or a Decoding. A hypnogram has no "
            "probabilities: draw it with sg.plot_hypnogram."
        )
    columns = columns_of(density.n_epochs)
    has_evidence = ~np.isnan(density.probabilities[:, 0])
    known = columns.means(has_evidence)
    sums = columns.means(np.where(has_evidence[:, None], density.probabilities, 0.0))
    means = np.divide(sums, known[:, None], out=np.full(sums.shape, np.nan), where=known[:, None] > 0)
    scheme, order = density.scheme, top_down(density.scheme)[::-1]
    tops = np.minimum(np.cumsum(means[:, order], axis=1), 1.0)
    time = TimeAxis([density])
    edges = time.edges(0, density, columns)
    ax = tidy(axes_for(ax, FULL_WIDTH, max(1.6, 0.4 + 0.19 * scheme.n_stages)))
    time.draw(ax, columns.width * density.epoch_seconds if columns.width > 1 else 0.0)
    floor = np.where(known > 0, 0.0, np.nan)
    # reversed below, so that the legend has the order of the picture
    patches = []
    for rank, stage in enumerate(order):
        colour = stage_shade(scheme, stage).light
        patches.append(steps(ax, tops[:, rank], edges, baseline=floor, fill=True, color=colour, lw=0,
                                 label=scheme.names[stage]))  # fmt: skip
        floor = tops[:, rank]
    patches.reverse()
    if not has_evidence.all():
        gaps = np.where(known < 1, 1.0, np.nan)
        gap = steps(ax, gaps, edges, baseline=known * 0.0, fill=True, color=GAP, lw=0, label="no evidence",
                        zorder=0.5)  # fmt: skip
        patches.append(gap)
    ax.set(ylim=(0.0, 1.0), ylabel="Probability")
    ax.legend(handles=patches, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
    return ax
