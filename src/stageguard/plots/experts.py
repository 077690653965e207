"""`plot_bland_altman`: sleep statistics against experts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError, did_you_mean
from stageguard.guard.decoding import Decoding
from stageguard.measures.agreement import common_scheme
from stageguard.measures.bouts import ScoredNight, expert_of
from stageguard.measures.cohort import measure
from stageguard.measures.samples import BlandAltman, bland_altman
from stageguard.night.align import on_epochs_of, where_scored
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.quantities import quantity_of
from stageguard.plots.axes import (
    COLUMN_WIDTH,
    GREY,
    MARKS,
    SERIES,
    STYLES,
    Axes,
    as_nights,
    axes_for,
    names_for,
    series_of,
    tidy,
)
from stageguard.profile.profile import Profile

MARGIN, STEP = 0.97, 0.03  # position of the first series' intervals and step to the next, in axes widths


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
    all_series = series_of(several, 1)
    profiles = [night.profile if isinstance(night, Decoding) else None for night in several]
    titles = names_for(names, [series.name for series in all_series], "scoring")
    title = _title(statistic)
    columns = [[_pair(*each) for each in zip(s.scorings, scored, range(1, len(scored) + 1), strict=True)]
               for s in all_series]  # fmt: skip
    compared = []
    for name, pairs in zip(titles, columns, strict=True):
        first, second = (_values([pair[side] for pair in pairs], profiles, statistic) for side in (0, 1))
        numbers = bland_altman(first, second)
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


def _title(statistic: str) -> str:
    quantity = quantity_of(checks.text(statistic, "statistic"))
    return quantity.short_heading


def _pair(scoring: Hypnogram, expert: ScoredNight, number: int) -> tuple[Hypnogram, Hypnogram]:
    """Return a scoring and the expert's scoring in the same stages, on the epochs that the expert scored."""
    if not isinstance(expert, Hypnogram):
        raise InputError(f"expert {number} is {checks.shown(expert)}, expected a Hypnogram.")
    try:
        expert = on_epochs_of(scoring, expert)
        scheme = common_scheme(expert.scheme, scoring.scheme)
    except InputError as error:
        raise InputError(f"night {number}: {error}") from None
    return where_scored(expert, scoring).merge(scheme), expert.merge(scheme)


def _values(scorings: Sequence[Hypnogram], profiles: Sequence[Profile | None], statistic: str) -> Floats:
    """Return the statistic of every scoring; NaN where it does not exist."""
    values = []
    for scoring, profile in zip(scorings, profiles, strict=True):
        known = measure(scoring, profile if profile and profile.scheme == scoring.scheme else None).values
        if statistic not in known:
            raise InputError(
                f"statistic is {statistic!r}, which is not measured of {', '.join(scoring.scheme.names)}. "
                f"Known: {', '.join(known)}.{did_you_mean(statistic, known)}"
            )
        values.append(known[statistic])
    return np.array(values)


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
