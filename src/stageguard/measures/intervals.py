"""Intervals for a night's sleep statistics.

There are two kinds, which must not be mixed up. *Conformal* intervals come from the errors on scored nights:
they are wide enough to have covered the experts there, whatever the reason for the errors. *Model* intervals
come from draws of the posterior. Under a profile with `posterior` rules each draw lets the stager be wrong in
its own way all night, and how often such intervals hold an expert's value was measured on stagers and cohorts
that the rules were not chosen on. Under any other they reflect only the stager's own doubt, and promise no
coverage.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from stageguard import checks
from stageguard.arrays import DAY_SECONDS, NAN, ComparedByValue
from stageguard.errors import InputError, warn
from stageguard.guard.decoding import Decoding
from stageguard.guard.posterior import path_marginals, sample_like
from stageguard.measures.bouts import ScoredNight, hypnogram_of
from stageguard.measures.expert_errors import TABLE_EPOCH_SECONDS, expert_errors
from stageguard.measures.statistics import (
    AASM,
    FIRST_REM_SECONDS,
    Convention,
    SleepStatistics,
    StatisticsOptions,
    sleep_statistics,
)
from stageguard.measures.validity import validity
from stageguard.night.align import on_epochs_of
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.quantities import REPORTED_OF_STAGE, WITH_INTERVAL
from stageguard.night.timing import Moment
from stageguard.profile.profile import Profile

Method = Literal["conformal", "model"]
Ends = tuple[float, float, str]  # low and high end of an interval, and why there is none

DEFAULT_LEVEL = 0.9
DEFAULT_DRAWS = 200
WITHHELD = "withheld: coverage was not measured on such nights"
LEAST_COVERAGE = 0.85  # below it, 90 % intervals of nights unlike expert scoring are withheld
SHARES_OUTSIDE = ("repaired", "unsure")  # what `tune` says of stage shares outside the range of experts
OF_GOOD_STAGERS = (
    "No stager is named: coverage is that of good stagers. Do not report intervals of a stager that was "
    "trained on other people or signals."
)
_LATENCIES = ("sol_minutes", "rem_latency_minutes", "rem_latency_bout_minutes")
_UNITS = {each.reported_key or each.key: each.short_unit for each in (*WITH_INTERVAL, *REPORTED_OF_STAGE)}


@dataclass(frozen=True, slots=True, eq=False)
class Interval(ComparedByValue):
    """A statistic and its interval."""

    value: float  # of the decoded night; NaN if it does not exist
    low: float  # ends within what is possible; NaN if there is no interval, see `reason`
    high: float
    unit: str  # ``min``, ``%``, or nothing for counts
    reason: str = ""
    measured_coverage: float = NAN  # share of scored nights whose expert value lay in such an interval


@dataclass(frozen=True, slots=True, eq=False)
class Intervals(ComparedByValue, Mapping[str, Interval]):
    """Intervals of a night by statistic."""

    method: Method
    level: float  # coverage they are made for; NaN for model intervals that promise none
    n_nights: int  # scored nights behind them; 0 for model intervals
    by_statistic: Mapping[str, Interval]
    kind: str = ""  # of night that the coverage of model intervals was measured for: see `kind_of`

    def __getitem__(self, name: str) -> Interval:
        """Return the interval of one statistic."""
        return self.by_statistic[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the statistics' names."""
        return iter(self.by_statistic)

    def __len__(self) -> int:
        """Return the number of statistics."""
        return len(self.by_statistic)

    @property
    def is_measured(self) -> bool:
        """Whether their coverage was measured on scored nights."""
        shares = [interval.measured_coverage for interval in self.values()]
        return not math.isnan(self.level) and not all(map(math.isnan, shares))

    def __repr__(self) -> str:
        """Return an overview."""
        level = "" if math.isnan(self.level) else f", {self.level:.0%}"
        level += f" from {self.n_nights} nights" if self.n_nights else ""
        return f"<Intervals of {len(self)} statistics, {self.method}{level}>"


def intervals(
    decoding: Decoding,
    *,
    method: Method | None = None,
    level: float = DEFAULT_LEVEL,
    n: int = DEFAULT_DRAWS,
    seed: int = 0,
    convention: Convention = "aasm",
    lights_off: Moment | None = None,
    lights_on: Moment | None = None,
    min_first_rem_seconds: float | None = None,
) -> Intervals:
    """Return intervals for the statistics that studies report of a night.

    Parameters
    ----------
    decoding : Decoding
        A decoded night. Conformal intervals need a profile that `stageguard.fit` made from scored nights;
        they are withheld, with a warning, unless the night is of the profile's cohort and stager. Model
        intervals of a profile with `posterior` rules are withheld as `why_withheld` says.
    method : "conformal" or "model", optional
        From errors on scored nights, or from draws of the posterior. Default: conformal if the profile holds
        errors on scored nights, else model.
    level : float
        Coverage of conformal intervals, or share of the draws within model intervals: 0.5 to 0.99.
    n, seed : int
        Number of draws and their seed, for model intervals.
    convention, lights_off, lights_on
        As in `stageguard.sleep_statistics`.
    min_first_rem_seconds : float, optional
        Shortest REM bout that ends `rem_latency_bout_minutes`; by default that of the profile's fit, or 2 min
        without a fit.

    Returns
    -------
    Intervals
        One for each of TST, SE, SOL, both REM latencies, WASO, awakenings, and minutes and bouts per stage.

    Raises
    ------
    InputError
        `method` is "conformal" and the profile holds no errors on scored nights, or an option is out of
        range.

    Examples
    --------
    >>> import stageguard as sg
    >>> night = sg.decode(sg.simulate_night("human-psg-3", hours=2, seed=1).density, "human-psg-3")
    >>> found = sg.intervals(night, method="model")["tst_minutes"]
    >>> found.low <= found.high
    True
    """
    if not isinstance(decoding, Decoding):
        raise InputError(f"the night is a {type(decoding).__name__}, expected what decode() returned.")
    profile = decoding.profile
    if method is None:
        method = "conformal" if profile.intervals.get("errors") else "model"
    checks.choice(method, "method", ("conformal", "model"))
    level = checks.number(level, "level", low=0.5, high=0.99)
    usual = shortest_first_rem(profile)
    shortest = usual if min_first_rem_seconds is None else min_first_rem_seconds
    options = StatisticsOptions(convention, lights_off, lights_on, shortest)
    statistics = options.measure(decoding)
    values, tib = reported(statistics), statistics.tib_minutes
    if method == "conformal":
        kind, promised, n_nights = "", level, int(profile.intervals.get("n_nights", 0))
        ends = _conformal(decoding, statistics, values, level)
        covered = _measured(decoding, "coverage", level)
    else:
        kind, n_nights = "" if profile.posterior is None else kind_of(decoding), 0
        # draws at the strength of the path know the stager's doubt, not its bias: they promise no coverage
        promised = level if kind else NAN
        ends, covered = dict.fromkeys(values, (NAN, NAN, WITHHELD)), {}
        if not why_withheld(decoding):
            draws = [reported(options.measure(draw)) for draw in _draws(decoding, n, seed)]
            ends = _model(draws, level, tib if kind else NAN)
            covered = _measured(decoding, "model_coverage", level)
            if (rules := profile.posterior) is not None:
                low, high, reason = ends["sol_minutes"]
                ends["sol_minutes"] = low / rules.sol_factor, high * rules.sol_factor, reason
                if not covered and math.isclose(level, DEFAULT_LEVEL):
                    covered = (rules.coverage or {}).get(kind, {})
    if options.lights != (None, None) or convention != "aasm":
        covered = {}  # coverage was measured for statistics with the default options
    elif shortest != usual:
        covered = {name: share for name, share in covered.items() if name != "rem_latency_bout_minutes"}
    # no statistic can exceed the night, and no count its epochs
    highest = {"min": tib, "%": 100.0, "": tib * 60 / statistics.epoch_seconds}
    by_statistic = {}
    for name, value in values.items():
        (low, high, reason), unit = ends[name], unit_of(name)
        if not reason:
            low, high = (min(max(end, 0.0), highest[unit]) for end in (low, high))
        by_statistic[name] = Interval(value, low, high, unit, reason, float(covered.get(name, NAN)))
    return Intervals(method, promised, n_nights, by_statistic, kind)


def reported(statistics: SleepStatistics) -> dict[str, float]:
    """Return the statistics that get intervals, by name."""
    values = {quantity.key: float(getattr(statistics, quantity.key)) for quantity in WITH_INTERVAL}
    by_kind = {kind.reported_key: getattr(statistics, kind.key) for kind in REPORTED_OF_STAGE}
    for stage in statistics.scheme.names:
        values |= {f"{kind}_{stage}": float(by_stage[stage]) for kind, by_stage in by_kind.items()}
    return values


def unit_of(name: str) -> str:
    """Return the unit of a reported statistic: ``min``, ``%``, or nothing for counts."""
    return _UNITS[name] if name in _UNITS else _UNITS[name.partition("_")[0]]


def shortest_first_rem(profile: Profile) -> float:
    """Return the length in seconds from which a REM bout counts as lasting."""
    return float(profile.intervals.get("min_first_rem_seconds", FIRST_REM_SECONDS))


def errors(experts: Sequence[Hypnogram], outputs: Sequence[ScoredNight]) -> dict[str, list[float]]:
    """Return expert minus output, by statistic and night; NaN if either does not exist.

    Either night is measured as it is, whatever the other one leaves unscored, as the output of a new night
    will be. The outputs must not have been fitted on these experts: leave subjects out in turn.
    """
    rows = []
    for expert, output in zip(experts, map(hypnogram_of, outputs), strict=True):
        matched = on_epochs_of(output, expert).merge(output.scheme)
        truth, measured = (reported(sleep_statistics(scored)) for scored in (matched, output))
        rows.append({name: truth[name] - measured[name] for name in truth})
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def by_person(errors: Sequence[float], groups: Sequence[str]) -> list[list[float]]:
    """Return the errors of each person whose nights have the statistic."""
    people: dict[str, list[float]] = {}
    for error, group in zip(errors, groups, strict=True):
        if not math.isnan(error):
            people.setdefault(group, []).append(error)
    return list(people.values())


def half_width(errors: Sequence[Sequence[float]], level: float) -> float:
    """Return the half width of an interval that covers `level` of the nights of new people.

    It is the conformal quantile of the absolute errors of n people, each of whom weighs 1 / (n + 1), shared
    among that person's nights: with one night each, the ceil((n + 1) * level)-th smallest. Where people are
    too few for that quantile but nights enough, it is the largest error; inf with too few nights.
    """
    sizes = np.abs([error for nights in errors for error in nights])
    if len(sizes) < fewest_nights(level):
        return math.inf
    # n + 1, for the new person: the nights of one are alike, so that they count as one
    weights = np.array([1 / len(nights) for nights in errors for _ in nights]) / (len(errors) + 1)
    order = np.argsort(sizes)
    place = int(np.searchsorted(np.cumsum(weights[order]), level - 1e-9))
    return float(sizes[order][min(place, len(sizes) - 1)])


def fewest_nights(level: float) -> int:
    """Return the number of scored nights below which no error is large enough."""
    return math.ceil(level / (1 - level) - 1e-9)


def coverage(errors: Sequence[float], groups: Sequence[str], level: float = DEFAULT_LEVEL) -> tuple[int, int]:
    """Count nights that the errors on other people would have covered, of those that can be judged."""
    n_covered = n_judged = 0
    values, owners = np.asarray(errors, dtype=float), np.asarray(groups)
    for group in dict.fromkeys(groups):
        # errors of the same person are alike, and would cover too well
        others = owners != group
        width = half_width(by_person(values[others].tolist(), owners[others].tolist()), level)
        own = np.abs(values[owners == group])
        if math.isfinite(width):
            n_judged += int(np.count_nonzero(~np.isnan(own)))
            n_covered += int(np.count_nonzero(own <= width + 1e-9))
    return n_covered, n_judged


def kind_of(night: Decoding) -> str:
    """Return which kind of night it is, as coverage was measured: one of `KINDS_OF_NIGHT`.

    ``unlike``: it does not look like expert scoring, by the joint score of the decoded stages. Else
    ``labels``: no more is known of the stager; ``flickering``: the stager's own choice changes stage more
    often than on 95 % of expert nights; ``good``: neither.
    """
    if night.profile.joint is not None and validity(night, night.profile).looks_like_experts is False:
        return "unlike"
    if night.from_labels is not None:
        return "labels"
    band = night.profile.bands.get("fragmentation_index")
    ratio = night.epoch_seconds / night.profile.epoch_seconds
    flickers = band is not None and night.night.fragmentation_index(night.argmax) > band.high * ratio
    return "flickering" if flickers else "good"


def why_withheld(night: Decoding) -> str:
    """Return `WITHHELD` if a night gets no model intervals under a profile with `posterior` rules, else "".

    So it is if `tune` found the stager's stage shares outside the range of experts, if the profile cautions
    against the night's cohort, or if the night does not look like expert scoring and such nights were covered
    in less than 85 %.
    """
    profile, cohort = night.profile, night.cohort
    if profile.posterior is None:
        return ""
    has_odd_shares = profile.provenance.get("shares") in SHARES_OUTSIDE and not night.is_foreign
    is_of_profile = profile.cohort is not None and profile.is_for(profile.stager, cohort)
    is_cautioned = not is_of_profile and cohort is not None and profile.caution_for(cohort) is not None
    measured = (profile.posterior.coverage or {}).get("unlike", {})
    is_covered = bool(measured) and sum(measured.values()) / len(measured) >= LEAST_COVERAGE
    if has_odd_shares or is_cautioned or (not is_covered and kind_of(night) == "unlike"):
        return WITHHELD
    return ""


def _measured(night: Decoding, key: str, level: float) -> Mapping[str, float]:
    """Return the coverage on scored nights, if it was measured at this level, for this cohort and stager."""
    fitted = night.profile.intervals
    is_like = not night.is_foreign and math.isclose(level, fitted.get("level_of_coverage", DEFAULT_LEVEL))
    return dict(fitted.get(key, {})) if is_like else {}


def _conformal(
    night: Decoding, statistics: SleepStatistics, values: Mapping[str, float], level: float
) -> dict[str, Ends]:
    """Return the ends of each statistic by the errors on scored nights; none for another cohort or stager."""
    profile = night.profile
    if not (errors_of := profile.intervals.get("errors")):
        found = f"profile {profile.name!r} holds no errors on scored nights"
        raise InputError(f"{found}, expected one made by stageguard fit, or method='model'.")
    # errors of one cohort covered between .37 and .997 of nights elsewhere
    if night.is_foreign:
        warn(
            f"conformal intervals are withheld: the errors are of stager {profile.stager!r} and cohort "
            f"{profile.cohort!r}, the night is of stager {night.stager!r} and cohort {night.cohort!r}. Name "
            "stager and cohort, or use method='model'."
        )
        return dict.fromkeys(values, (NAN, NAN, WITHHELD))
    ends: dict[str, Ends] = {}
    for name, value in values.items():
        past = errors_of.get(name, ())
        width, n_nights = half_width(past, level), sum(map(len, past))
        if math.isnan(value):
            ends[name] = NAN, NAN, statistics.reasons[name]
        elif math.isinf(width):
            needed = f"{n_nights} scored nights have it, expected {fewest_nights(level)} or more"
            ends[name] = NAN, NAN, needed
        else:
            ends[name] = value - width, value + width, ""
    return ends


def _model(draws: Sequence[Mapping[str, float]], level: float, never: float) -> dict[str, Ends]:
    """Return the ends of each statistic over draws; sleep or REM that never comes is as late as `never`."""
    table = np.array([list(draw.values()) for draw in draws])  # (n_draws, n_statistics)
    limits = [(1 - level) / 2, (1 + level) / 2]
    ends: dict[str, Ends] = {}
    for name, whole, column in zip(draws[0], np.quantile(table, limits, axis=0).T, table.T, strict=True):
        existing = column[~np.isnan(column)]
        # a quantity absent from most draws has no typical value, only a rare one
        if len(existing) <= len(draws) // 2:
            ends[name] = NAN, NAN, "does not exist in most draws"
            continue
        if len(existing) < len(draws):
            kept = np.where(np.isnan(column), never, column) if name in _LATENCIES else existing
            whole = np.quantile(existing if math.isnan(never) else kept, limits)
        ends[name] = float(whole[0]), float(whole[1]), ""
    return ends


def _draws(night: Decoding, n: int, seed: int) -> Iterator[Hypnogram]:
    """Yield nights drawn from the posterior at the strength the night was decoded with."""
    decoded = night.hypnogram
    described = decoded.scheme, decoded.epoch_seconds, decoded.start, "draw", (), decoded.offset_seconds
    for labels in sample_like(night, n=n, seed=seed):
        yield Hypnogram.trusted(labels, *described)


# A latency is read off one epoch. If that epoch, or one that would come before it, is doubtful, the number
# may be off by an hour: somebody should look at it.
HINGING = ("tst_minutes", "sol_minutes", "waso_minutes", "rem_latency_minutes", "rem_latency_bout_minutes")
MOST_EPOCHS = 5
# Our choice: the next stage is at least a third as probable as the one that is shown. On 25 nights of DOD-H
# (votes of 20 networks) SOL was wrong by 43 min on the nights this marks and by 5 on the others, WASO by 63
# and 26, REM latency by 48 and 22.
LEAST_ODDS = 1.0 / 3.0


def hinges_of(decoding: Decoding, options: StatisticsOptions = AASM) -> dict[str, tuple[int, int]]:
    """Return the first and last of the fewest doubtful epochs that move a statistic, by statistic.

    It moves if up to five doubtful epochs in a row of five, each with its next most probable stage, change it
    by more than one expert differs from another, or make it appear or vanish.
    """
    scheme, labels = decoding.profile.scheme, decoding.hypnogram.labels
    tables = expert_errors(scheme.name) if decoding.epoch_seconds == TABLE_EPOCH_SECONDS else ()
    is_night = len(labels) * decoding.epoch_seconds <= DAY_SECONDS  # every flip measures the recording anew
    if not tables or decoding.profile.species != "human" or not is_night:
        return {}
    known = [key for key in HINGING if all(key in table.errors for table in tables)]
    limits = {key: float(np.mean([table.errors[key] for table in tables])) for key in known}
    epochs = np.arange(len(labels))
    others = np.nan_to_num(path_marginals(decoding))
    shown = others[epochs, labels]
    others[epochs, labels] = -1.0
    second = others.argmax(axis=1).astype(np.int8)
    # no statistic here tells one stage of NREM from another
    own = [index for index in (scheme.wake_index, scheme.rem_index) if index is not None]
    matters = np.isin(labels, own) | np.isin(second, own)
    doubtful = np.flatnonzero((labels >= 0) & (others.max(axis=1) >= LEAST_ODDS * shown) & matters)
    was = options.measure(decoding)
    found: dict[str, tuple[float, tuple[int, int]]] = {}
    for first in doubtful.tolist():
        flipped = labels.copy()
        cost = 0.0
        for epoch in doubtful[(doubtful >= first) & (doubtful < first + MOST_EPOCHS)].tolist():
            flipped[epoch] = second[epoch]
            cost += math.log(shown[epoch] / others[epoch].max())
            now = options.measure(replace(decoding.hypnogram, labels=flipped))
            for key, limit in limits.items():
                before, after = getattr(was, key), getattr(now, key)
                moves = math.isnan(before) != math.isnan(after) or abs(after - before) > limit
                if moves and (key not in found or cost < found[key][0]):
                    found[key] = cost, (first, epoch)
    return {key: place for key, (_, place) in found.items()}
