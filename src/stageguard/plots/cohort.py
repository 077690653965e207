"""`plot_bouts` and `plot_bland_altman`: how long stages last, and sleep statistics against experts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError, did_you_mean
from stageguard.guard.decoding import Decoding
from stageguard.measures.agreement import common_scheme
from stageguard.measures.bouts import (
    ScoredNight,
    bouts_of,
    cuts_of,
    expert_of,
    hypnogram_before,
    hypnogram_of,
)
from stageguard.measures.cohort import measure
from stageguard.measures.samples import BlandAltman, bland_altman
from stageguard.night.align import on_epochs_of, where_scored
from stageguard.night.colours import stage_shade, top_down
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.quantities import quantity_of
from stageguard.plots.axes import COLUMN_WIDTH, GREY, INK, Axes, axes_for, names_for, tidy

# Okabe and Ito's orange, blue, black, green and purple, with line styles for print in grey.
SERIES = ("#E69F00", "#0072B2", "#000000", "#009E73", "#CC79A7")
STYLES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
MARKS = ("o", "^", "s", "D", "v")
MARGIN, STEP = 0.97, 0.03  # position of the first series' intervals and step to the next, in axes widths


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Scorings of several nights by one scorer, and the epochs of each that begin a new segment."""

    name: str
    scorings: tuple[Hypnogram, ...]
    cuts: tuple[Sequence[int], ...]


def as_nights(nights: Any, what: str = "nights") -> list[ScoredNight]:
    """Return one night or several nights as a list; an empty list is an error."""
    several = [nights] if isinstance(nights, Hypnogram | Decoding) else nights
    if isinstance(several, str) or not isinstance(several, Iterable) or not (listed := list(several)):
        raise InputError(f"{what} are {checks.shown(nights)}, expected Hypnograms or Decodings, one or more.")
    for night in listed:
        hypnogram_of(night)
    return listed


def series_of(nights: Any, number: int) -> list[Series]:
    """Return the series of nights: before and after for decodings, one series for hypnograms."""
    several = as_nights(nights)
    scorings, cuts = tuple(map(hypnogram_of, several)), tuple(map(cuts_of, several))
    decoded = [night for night in several if isinstance(night, Decoding)]
    if len(decoded) == len(several):
        before = tuple(map(hypnogram_before, decoded))
        return [Series("before", before, cuts), Series("after", scorings, cuts)]
    if decoded:
        raise InputError("nights are hypnograms and decodings, expected a list of one or of the other.")
    scorers = {scoring.scorer for scoring in scorings}
    name = scorers.pop() if len(scorers) == 1 else None
    return [Series(name or f"scoring {number}", scorings, cuts)]


def plot_bouts(
    nights: ScoredNight | Sequence[ScoredNight],
    *others: ScoredNight | Sequence[ScoredNight],
    stages: str | Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the percentage of complete bouts of each stage that last at least as long as a time.

    A bout is complete if there is a scored epoch of another stage on either side, as in
    `stageguard.validity`. The axis of time is logarithmic.

    Parameters
    ----------
    nights, *others : Hypnogram or Decoding, or a list of them
        The scorings to compare; the bouts of a list are pooled. A decoding is drawn before and after.
    stages : str or list of str, optional
        Stages to draw, by default all. Colours are scorings for a single stage, and stages for several.
    names : list of str, optional
        Names of the scorings. Default: before and after, or the scorer.
    ax : matplotlib.axes.Axes, optional
        Where to draw. Default: a new figure.
    """
    series = [each for k, given in enumerate((nights, *others), start=1) for each in series_of(given, k)]
    titles = names_for(names, [each.name for each in series], "scoring")
    scheme = series[0].scorings[0].scheme
    for other in (scoring.scheme for each in series for scoring in each.scorings):
        if other != scheme:
            found = f"{', '.join(scheme.names)} of one night and {', '.join(other.names)} of another"
            raise InputError(f"stages are {found}, expected the same.")
    wanted = [stages] if isinstance(stages, str) else stages
    if wanted is not None and not isinstance(wanted, Iterable):
        raise InputError(f"stages is {checks.shown(stages)}, expected names such as ['N3', 'R'].")
    chosen = top_down(scheme) if wanted is None else [scheme.index(stage) for stage in wanted]
    is_one = len(chosen) == 1
    colours = {stage: stage_shade(scheme, stage).light for stage in chosen}
    ax = tidy(axes_for(ax, COLUMN_WIDTH, 0.75 * COLUMN_WIDTH))
    for number, (each, name) in enumerate(zip(series, titles, strict=True)):
        for stage in chosen:
            lengths, counts = np.unique(minutes := bout_minutes(each, stage), return_counts=True)
            at_least = 100.0 * counts[::-1].cumsum()[::-1] / max(1, len(minutes))
            parts = [name] * (len(series) > 1 or is_one) + [scheme.names[stage]] * (not is_one)
            colour = SERIES[number % len(SERIES)] if is_one else colours[stage]
            ax.step(lengths, at_least, where="pre", color=colour, ls=STYLES[number % len(STYLES)], lw=1.3,
                    label=f"{', '.join(parts)} (n = {len(minutes):,})")  # fmt: skip
    ax.set_xscale("log")
    ax.set(ylim=(0, 103), xlabel="Bout length (min)", ylabel="Bouts at least as long (%)")
    ax.xaxis.set_major_formatter("{x:g}")
    handles = ax.get_lines()
    if len(series) > 1 and not is_one:  # a line for each stage and scoring would cover the curves
        handles = [ax.plot([], [], color=colours[k], label=scheme.names[k])[0] for k in chosen]
        styles = zip(titles, STYLES * len(titles), strict=False)
        handles += [ax.plot([], [], color=INK, ls=style, label=name)[0] for name, style in styles]
    place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if len(handles) > 4 else {"loc": "best"}
    ax.legend(handles=handles, frameon=False, fontsize="small", **place)
    return ax


def bout_minutes(series: Series, stage: int) -> Floats:
    """Return the lengths of the complete bouts of a stage, over all nights."""
    lengths = [np.zeros(0)]
    for scoring, cuts in zip(series.scorings, series.cuts, strict=True):
        bouts = bouts_of(np.insert(scoring.labels, list(cuts), UNSCORED))
        counted = bouts.lengths[bouts.complete & (bouts.stages == stage)]
        lengths.append(counted * scoring.epoch_seconds / 60.0)
    return np.concatenate(lengths)


def plot_bland_altman(
    experts: Sequence[Hypnogram],
    nights: Sequence[ScoredNight],
    statistic: str = "tst_minutes",
    *,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a Bland-Altman plot: a sleep statistic compared with the expert's, over a cohort.

    Each point is a night: the difference from the expert against the mean of the two. Lines are the bias and
    the limits of agreement (1.96 standard deviations); bars on the right are their 95 % intervals. Each night
    counts once, on the epochs that its expert scored; several nights of one subject make the intervals too
    narrow.

    Parameters
    ----------
    experts : list of Hypnogram
        The expert's scoring of each night, with the same epochs.
    nights : list of Decoding or Hypnogram
        A decoding is drawn before and after.
    statistic : str
        A name of `stageguard.night.quantities`, such as ``tst_minutes``, ``stage_minutes_N3`` or, for
        decodings, ``fragmentation_index``. Nights without it are left out; the legend has their number.
    names : list of str, optional
        Names of the scorings. Default: before and after, or the scorer.
    ax : matplotlib.axes.Axes, optional
        Where to draw. Default: a new figure.
    """
    several = as_nights(nights)
    scored = [expert_of(expert) for expert in as_nights(experts, "experts")]
    if len(several) != len(scored):
        raise InputError(f"got {len(several)} nights and {len(scored)} expert scorings, expected as many.")
    series = series_of(several, 1)
    titles = names_for(names, [each.name for each in series], "scoring")
    title = quantity_of(checks.text(statistic, "statistic")).short_heading
    compared = []
    for name, each in zip(titles, series, strict=True):
        rows = zip(each.scorings, scored, several, range(1, len(scored) + 1), strict=True)
        pairs = np.array([_pair(*row, statistic) for row in rows])
        numbers = bland_altman(pairs[:, 0], pairs[:, 1])
        if not numbers.n:
            raise InputError(f"no night has {statistic} both {name} and by the expert: nothing to draw.")
        compared.append(numbers)
    ax = tidy(axes_for(ax, COLUMN_WIDTH, 0.75 * COLUMN_WIDTH))
    ax.axhline(0, color=GREY, lw=0.8)
    for number, (name, numbers) in enumerate(zip(titles, compared, strict=True)):
        n_nights = f"{numbers.n:,}" + (f" of {len(several):,}" if numbers.n < len(several) else "")
        _draw(ax, number, f"{name} (n = {n_nights})", numbers)
    ax.margins(x=0.12)
    ax.set(xlabel=f"{title}, mean of both", ylabel=f"{title}, minus expert")
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False, fontsize="small")
    return ax


def _pair(
    scoring: Hypnogram, expert: ScoredNight, night: ScoredNight, number: int, statistic: str
) -> tuple[float, float]:
    """Return a statistic of a scoring and of its expert, in the same stages, where the expert scored."""
    if not isinstance(expert, Hypnogram):
        raise InputError(f"expert {number} is {checks.shown(expert)}, expected a Hypnogram.")
    try:
        expert = on_epochs_of(scoring, expert)
        scheme = common_scheme(expert.scheme, scoring.scheme)
    except InputError as error:
        raise InputError(f"night {number}: {error}") from None
    profile = night.profile if isinstance(night, Decoding) and night.profile.scheme == scheme else None
    known = [measure(each.merge(scheme), profile).values for each in (where_scored(expert, scoring), expert)]
    if statistic not in known[0]:
        raise InputError(
            f"statistic is {statistic!r}, which is not measured of {', '.join(scheme.names)}. "
            f"Known: {', '.join(known[0])}.{did_you_mean(statistic, known[0])}"
        )
    return known[0][statistic], known[1][statistic]


def _draw(ax: Axes, number: int, label: str, numbers: BlandAltman) -> None:
    """Draw points, bias, limits, and the intervals of these three near the right edge."""
    colour, style = SERIES[number % len(SERIES)], STYLES[number % len(STYLES)]
    ax.plot(numbers.means, numbers.differences, MARKS[number % len(MARKS)], color=colour, ms=4, alpha=0.75,
            mew=0, label=label)  # fmt: skip
    ax.axhline(numbers.bias, color=colour, lw=1.6, ls=style)
    if numbers.n < 2:
        return
    for limit in (numbers.low, numbers.high):
        ax.axhline(limit, color=colour, lw=0.9, ls=style)
    margins = [numbers.limit_margin, numbers.bias_high - numbers.bias, numbers.limit_margin]
    x = [MARGIN - STEP * number] * 3
    ax.errorbar(x, [numbers.low, numbers.bias, numbers.high], yerr=margins, fmt="none", ecolor=colour,
                elinewidth=1.4, capsize=2.5, transform=ax.get_yaxis_transform())  # fmt: skip
