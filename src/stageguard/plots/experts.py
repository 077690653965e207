"""`plot_bands` and `plot_bland_altman`: indicators in their expert bands, and statistics against experts."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError, did_you_mean
from stageguard.guard.decoding import Decoding
from stageguard.measures.agreement import common_scheme
from stageguard.measures.bouts import ScoredNight, expert_of, period_for
from stageguard.measures.cohort import measure
from stageguard.measures.samples import BlandAltman, bland_altman
from stageguard.measures.validity import Indicator, validity_of
from stageguard.night.align import on_epochs_of, where_scored
from stageguard.night.colours import PAGE
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.quantities import indicators_of, quantity_of
from stageguard.plots.axes import (
    COLUMN_WIDTH,
    FULL_WIDTH,
    GREY,
    INK,
    MARKS,
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
from stageguard.profile.profile import Profile, as_profile

BAND = PAGE["band"].light
REACH = 0.6  # largest distance of a drawn value from the band, as a share of the band's width
ROW = 0.22  # inches
APART = 0.3  # of a row, between two series


def plot_bands(
    nights: ScoredNight | Sequence[ScoredNight],
    profile: Profile | str | None = None,
    *,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the indicators of one night or of many against the ranges of expert scorings.

    All bands are drawn with the same width. A value inside its band is drawn to scale; a value outside is
    squeezed towards the edge. The right side shows the values of one night, or the share of several nights
    inside the band.

    Parameters
    ----------
    nights : Hypnogram or Decoding, or a list of them
        A decoding is drawn before and after.
    profile : Profile or str, optional
        The profile with the bands. Default: that of the decodings.
    names : list of str, optional
        Names of the scorings. Default: before and after, or the scorer.
    ax : matplotlib.axes.Axes, optional
        Where to draw. Default: a new figure.
    """
    several = as_nights(nights)
    chosen = _profile_of(several, profile)
    all_series = series_of(several, 1)
    titles = names_for(names, [series.name for series in all_series], "scoring")
    measured = [_indicators(series, chosen) for series in all_series]  # by series, by night
    quantities = indicators_of(chosen.scheme.names)
    keys = [key for key in quantities if any(_has_band(of[key]) for each in measured for of in each)]
    if not keys:
        raise InputError(
            f"profile {chosen.name!r} has no band that applies to these nights: nothing to draw."
        )
    ax = tidy(axes_for(ax, FULL_WIDTH, 0.9 + ROW * len(keys)))
    ax.axvspan(0.0, 1.0, color=BAND, lw=0, zorder=0)
    rows = np.arange(len(keys), dtype=np.float64)
    size, alpha = (6, 1.0) if len(several) == 1 else (4, 0.5)
    for number, (name, each) in enumerate(zip(titles, measured, strict=True)):
        shift = APART * (number - (len(all_series) - 1) / 2)
        points = [
            [(band_place(of[key]), row + shift) for of in each] for key, row in zip(keys, rows, strict=True)
        ]
        x, y = np.array([point for line in points for point in line]).T
        ax.plot(x, y, MARKS[number % len(MARKS)], color=SERIES[number % len(SERIES)], mew=0, ms=size,
                alpha=alpha, label=name)  # fmt: skip
    for key, row in zip(keys, rows, strict=True):
        texts = [_summary([of[key] for of in each], quantities[key].decimals) for each in measured]
        ax.text(1.01, row, " → ".join(texts), transform=ax.get_yaxis_transform(), va="center",
                fontsize="small", color=INK)  # fmt: skip
    ax.set_yticks(rows, [quantities[key].label for key in keys])
    ax.set_ylim(len(keys) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", lw=0.3, color=GREY, alpha=0.4)
    ax.set_axisbelow(True)
    ax.set_xlim(-REACH - 0.05, 1 + REACH + 0.05)
    ax.set_xticks([-REACH / 2, 0.0, 0.5, 1.0, 1 + REACH / 2], ["below", "", "expert band", "", "above"])
    what = "value" if len(several) == 1 else f"inside, of {len(several):,} nights"
    ax.text(1.01, -0.6, f"{' → '.join(titles)}\n{what}", transform=ax.get_yaxis_transform(), va="bottom",
            fontsize="small", color=GREY)  # fmt: skip
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(titles), frameon=False, fontsize="small")
    return ax


def band_place(indicator: Indicator) -> float:
    """Return the position of a value: 0 to 1 inside its band, squeezed outside."""
    low, high, value = indicator.low, indicator.high, indicator.value
    if not (_has_band(indicator) and isfinite(value)):
        return float("nan")
    width = high - low
    share = (value - low) / width if width else 0.5 + np.sign(value - low)
    beyond = max(share - 1.0, -share, 0.0)
    squeezed = REACH * beyond / (1.0 + beyond)
    return float(1.0 + squeezed if share > 1.0 else -squeezed if share < 0.0 else share)


def _profile_of(nights: Sequence[ScoredNight], profile: Profile | str | None) -> Profile:
    if profile is not None:
        return as_profile(profile)
    own = {night.profile.sha256: night.profile for night in nights if isinstance(night, Decoding)}
    if len(own) != 1:
        which = "were decoded under several" if own else "are hypnograms, which have none"
        raise InputError(f"nights {which}: say whose bands to draw, with profile=.")
    return next(iter(own.values()))


def _indicators(series: ScoringSeries, profile: Profile) -> list[dict[str, Indicator]]:
    return [
        dict(validity_of(scoring, profile, period_for(night, profile), cuts).indicators)
        for scoring, cuts, night in zip(series.scorings, series.cuts, series.nights, strict=True)
    ]


def _has_band(indicator: Indicator) -> bool:
    return isfinite(indicator.low) and isfinite(indicator.high)


def _summary(indicators: Sequence[Indicator], decimals: int) -> str:
    """Return the value of one night, or the share of several nights inside the band, as text."""
    if len(indicators) == 1:
        value = indicators[0].value
        return f"{value:.{decimals}f}" if isfinite(value) else "–"
    judged = [each.place == "inside" for each in indicators if each.place != "no band"]
    return f"{100 * np.mean(judged):.0f} %" if judged else "–"


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
