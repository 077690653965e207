"""`plot_bland_altman`: a sleep statistic before and after decoding against the expert's, night by night."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from stageguard.base import checks
from stageguard.base.arrays import Floats
from stageguard.base.errors import InputError, did_you_mean
from stageguard.guard.decoding import Decoding
from stageguard.measures.agreement import common_scheme
from stageguard.measures.bland_altman import BlandAltman, bland_altman
from stageguard.measures.bouts import ScoredNight, check_aligned
from stageguard.measures.cohort import measure
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.quantities import quantity_of
from stageguard.plots.axes import COLUMN_WIDTH, GREY, MARKS, SERIES, STYLES, axes_for, names_for, tidy
from stageguard.plots.scorings import as_nights, series_of
from stageguard.profile.profile import Profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGIN, STEP = 0.97, 0.03  # of the width: where intervals stand, each series left of the one before


def plot_bland_altman(
    nights: Sequence[ScoredNight],
    experts: Sequence[Hypnogram],
    statistic: str = "tst_minutes",
    *,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how far a sleep statistic is off the expert's, over a cohort, after Bland and Altman.

    A point for each night: the difference from the expert over the mean of the two. Lines are the bias and
    the limits of agreement (1.96 standard deviations), bars on the right their 95 % intervals. Each night
    counts once, so that several nights of one subject make intervals too narrow.

    Parameters
    ----------
    nights : list of Decoding or Hypnogram
        Decodings are drawn before and after.
    experts : list of Hypnogram
        The expert's scoring of each night, of the same epochs.
    statistic : str
        A name of `stageguard.night.quantities`, such as ``tst_minutes``, ``stage_minutes_N3`` or, of
        decodings, ``fragmentation_index``. Nights that lack it are left out, and counted.
    names : list of str, optional
        What to call the scorings; by default before and after.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.
    """
    several, scored = as_nights(nights), as_nights(experts, "experts")
    if len(several) != len(scored):
        raise InputError(f"got {len(several)} nights and {len(scored)} expert scorings, expected as many.")
    given = series_of(several, 1)
    profiles = [night.profile if isinstance(night, Decoding) else None for night in several]
    said = names_for(names, [series.name for series in given], "scoring")
    title = _title(statistic)
    columns = [[_pair(*each) for each in zip(s.scorings, scored, range(1, len(scored) + 1), strict=True)]
               for s in given]  # fmt: skip
    compared = []
    for name, pairs in zip(said, columns, strict=True):
        first, second = (_values([pair[side] for pair in pairs], profiles, statistic) for side in (0, 1))
        numbers = bland_altman(first, second)
        if not numbers.n:
            raise InputError(f"no night has {statistic} both {name} and by the expert: nothing to draw.")
        compared.append(numbers)
    ax = tidy(axes_for(ax, COLUMN_WIDTH, 0.75 * COLUMN_WIDTH))
    ax.axhline(0, color=GREY, lw=0.8)
    for number, (name, numbers) in enumerate(zip(said, compared, strict=True)):
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
    """Return a scoring and the expert's of the same epochs in the same stages."""
    if not isinstance(expert, Hypnogram):
        raise InputError(f"expert {number} is {checks.shown(expert)}, expected a Hypnogram.")
    try:
        check_aligned(expert, scoring)
        scheme = common_scheme(expert.scheme, scoring.scheme)
    except InputError as error:
        raise InputError(f"night {number}: {error}") from None
    return scoring.merge(scheme), expert.merge(scheme)


def _values(scorings: Sequence[Hypnogram], profiles: Sequence[Profile | None], statistic: str) -> Floats:
    """Return the statistic of every scoring, NaN where it does not exist."""
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
