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
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stageguard import checks
from stageguard.arrays import NAN
from stageguard.errors import Argument, InputError, Message, did_you_mean, warn
from stageguard.guard.decoding import Decoding
from stageguard.guard.posterior import sample_like
from stageguard.measures.bouts import ScoredNight
from stageguard.measures.statistics import (
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
from stageguard.values import ComparedByValue

Method = Literal["conformal", "model"]
Ends = tuple[float, float, str]  # low and high end of an interval, and why there is none

DEFAULT_LEVEL = 0.9
DEFAULT_DRAWS = 200
WITHHELD = "withheld: the errors are of another cohort or stager"
LEAST_COVERAGE = 0.85  # below it, 90 % intervals of nights unlike expert scoring are withheld
# why a night has no model intervals, though its profile has rules for them
UNLIKE_COHORT = "withheld: coverage was not measured on such people"
UNLIKE_EXPERTS = "withheld: the night does not look like expert scoring"
UNLIKE_SHARES = "withheld: the stager's stage shares are outside the range of experts"  # of all its nights
SHARES_OUTSIDE = ("repaired", "unsure")  # what `tune` says of such shares
OF_GOOD_STAGERS = (
    "No stager is named: coverage is that of good stagers. Do not report intervals of a stager that was "
    "trained on other people or signals."
)
_LATENCIES = ("sol_minutes", "rem_latency_minutes", "rem_latency_bout_minutes")
_UNITS = {each.reported_key or each.key: each.short_unit for each in (*WITH_INTERVAL, *REPORTED_OF_STAGE)}


@dataclass(frozen=True, slots=True, eq=False)
class Interval(ComparedByValue):
    """A statistic and its interval.

    Attributes
    ----------
    value : float
        The value of the decoded night; NaN if it does not exist.
    low, high : float
        Ends of the interval, within what is possible; NaN if there is none, see `reason`.
    unit : str
        ``min``, ``%``, or nothing for counts.
    reason : str
        Why there is no interval, else empty.
    measured_coverage : float
        Share of scored nights whose expert value lay in such an interval; NaN if it was not measured: at
        another level, for another cohort, or for a statistic measured otherwise than in the fit.
    """

    value: float
    low: float
    high: float
    unit: str
    reason: str = ""
    measured_coverage: float = NAN


@dataclass(frozen=True, slots=True, eq=False)
class Intervals(ComparedByValue, Mapping[str, Interval]):
    """Intervals of a night by statistic.

    Attributes
    ----------
    method : str
        ``conformal`` or ``model``.
    level : float
        Coverage that they are made for; NaN for model intervals of a profile without `posterior` rules, which
        promise none.
    n_nights : int
        Number of scored nights behind them; 0 for model intervals.
    kind : str
        Of model intervals that are made for a coverage: the kind of night for which it was measured,
        ``good``, ``flickering``, ``labels`` or ``unlike`` expert scoring.
    """

    method: Method
    level: float
    n_nights: int
    by_statistic: Mapping[str, Interval]
    kind: str = ""

    def __getitem__(self, name: str) -> Interval:
        """Return the interval of one statistic."""
        try:
            return self.by_statistic[name]
        except KeyError:
            hint = did_you_mean(str(name), self.by_statistic)
            raise KeyError(f"no interval of {name!r}, expected one of {', '.join(self)}.{hint}") from None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the statistics' names."""
        return iter(self.by_statistic)

    def __len__(self) -> int:
        """Return the number of statistics."""
        return len(self.by_statistic)

    @property
    def is_measured(self) -> bool:
        """Whether their coverage was measured on scored nights."""
        return not math.isnan(self.level) and any(
            not math.isnan(interval.measured_coverage) for interval in self.values()
        )

    def __repr__(self) -> str:
        """Return an overview; `str` has the numbers."""
        level = "" if math.isnan(self.level) else f", {self.level:.0%}"
        level += f" from {self.n_nights} nights" if self.n_nights else ""
        return f"<Intervals of {len(self)} statistics, {self.method}{level}>"

    def __str__(self) -> str:
        """Return one line per statistic, with the coverage if it was measured."""
        coverage = f"{self.level:.0%} " if self.is_measured else ""
        meaning = "errors on scored nights"
        if self.method == "model":
            meaning = (
                "the stager's own doubt: they promise no coverage" if not self.kind else "posterior draws"
            )
        lines = [f"{coverage}{self.method} intervals ({meaning})"]
        for name, interval in self.items():
            shown = f"{interval.low:.1f} to {interval.high:.1f}" if not interval.reason else interval.reason
            share = interval.measured_coverage
            covered = "" if math.isnan(share) else f"  (covered {share:.0%})"
            lines.append(f"{name:<24} {interval.value:>8.1f}  {shown}{covered}")
        return "\n".join(lines)


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
        A decoded night. Conformal intervals need a profile that `stageguard.fit` made from scored nights.
        They are withheld, with a warning, if the night is of another cohort or stager than the profile's, or
        if its cohort is not named. Model intervals of a profile with `posterior` rules are withheld, each
        with its reason, if `tune`
        found the stager's stage shares outside the range of experts, if the night is of a cohort that the
        profile cautions against, or if it does not look like expert scoring and such nights were covered in
        less than 85 %.
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
    method = default_method(decoding.profile) if method is None else method
    checks.choice(method, "method", ("conformal", "model"))
    level = checks.number(level, "level", low=0.5, high=0.99)
    usual = shortest_first_rem(decoding.profile)
    shortest = usual if min_first_rem_seconds is None else min_first_rem_seconds
    # errors of one cohort covered between .37 and .997 of nights elsewhere
    if method == "conformal" and decoding.is_foreign and _errors_of(decoding.profile):
        warn(_withheld_words(decoding))
    options, kind = StatisticsOptions(convention, lights_off, lights_on, shortest), ""
    statistics = options.measure(decoding)
    values = reported(statistics)
    if method == "conformal":
        ends = _conformal(decoding.profile, values, statistics.reasons, level)
        if decoding.is_foreign:
            ends = dict.fromkeys(values, (NAN, NAN, WITHHELD))
        covered = _measured_coverage(decoding, "coverage", level)
        promised, n_nights = level, int(decoding.profile.intervals.get("n_nights", 0))
    else:
        kind = "" if decoding.profile.posterior is None else kind_of(decoding)
        reason = why_withheld(decoding)
        if reason:
            ends = dict.fromkeys(values, (NAN, NAN, reason))
        else:
            draws = [reported(options.measure(draw)) for draw in _draws(decoding, n, seed)]
            ends = _model(draws, level, statistics.tib_minutes if kind else NAN)
            if (rules := decoding.profile.posterior) is not None:
                low, high, why = ends["sol_minutes"]
                ends["sol_minutes"] = low / rules.sol_factor, high * rules.sol_factor, why
        own = _measured_coverage(decoding, "model_coverage", level)
        covered = {} if reason else own or _coverage_of_kind(decoding, kind, level)
        # draws at the strength of the path know the stager's doubt, not its bias: they promise no coverage
        promised, n_nights = level if kind else NAN, 0
    if convention != "aasm" or lights_off is not None or lights_on is not None:
        covered = {}  # coverage was measured for statistics with the default options
    elif shortest != usual:
        covered = {name: share for name, share in covered.items() if name != "rem_latency_bout_minutes"}
    return Intervals(method, promised, n_nights, _within_the_possible(statistics, ends, covered), kind)


def default_method(profile: Profile) -> Method:
    """Return the kind of intervals that a profile gives if none is asked for."""
    return "conformal" if _errors_of(profile) else "model"


def _within_the_possible(
    statistics: SleepStatistics, ends: Mapping[str, Ends], covered: Mapping[str, float]
) -> dict[str, Interval]:
    """Return the intervals by statistic, none beyond 0, 100 % or the length of the night."""
    tib = statistics.tib_minutes
    # no statistic can exceed the night, and no count its epochs
    highest = {"min": tib, "%": 100.0, "": tib * 60 / statistics.epoch_seconds}
    by_statistic = {}
    for name, value in reported(statistics).items():
        low, high, reason = ends[name]
        unit = unit_of(name)
        if not reason:
            low, high = (min(max(end, 0.0), highest[unit]) for end in (low, high))
        by_statistic[name] = Interval(value, low, high, unit, reason, float(covered.get(name, NAN)))
    return by_statistic


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


def errors(
    experts: Sequence[Hypnogram],
    outputs: Sequence[ScoredNight],
    *,
    min_first_rem_seconds: float = FIRST_REM_SECONDS,
) -> dict[str, list[float]]:
    """Return expert minus output, by statistic and night; NaN if either does not exist.

    Either night is measured as it is, whatever the other one leaves unscored, as the output of a new night
    will be. The outputs must not have been fitted on these experts: leave subjects out in turn.
    """
    if len(experts) != len(outputs):
        raise InputError(
            f"there are {len(experts)} experts' nights and {len(outputs)} outputs, expected pairs."
        )
    rows = []
    for expert, output in zip(experts, outputs, strict=True):
        night = output if isinstance(output, Hypnogram) else output.hypnogram
        matched = on_epochs_of(night, expert).merge(night.scheme)
        truth, measured = (
            reported(sleep_statistics(scored, min_first_rem_seconds=min_first_rem_seconds))
            for scored in (matched, output)
        )
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

    Parameters
    ----------
    errors : list of lists of float
        The errors of each person's nights.
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
    """Count nights that the other groups' errors would have covered, of those that can be judged.

    Groups are subjects: a night is judged by errors on other people.
    """
    n_covered = n_judged = 0
    values, owners = np.asarray(errors, dtype=float), np.asarray(groups)
    for group in dict.fromkeys(groups):
        # errors of the same person are alike, and would cover too well
        others = owners != group
        width = half_width(by_person(values[others].tolist(), owners[others].tolist()), level)
        for value in values[owners == group]:
            if not math.isnan(value) and math.isfinite(width):
                n_judged += 1
                n_covered += bool(abs(value) <= width + 1e-9)
    return n_covered, n_judged


def origin_of(night: Decoding) -> str:
    """Return in words where the profile's errors come from, and where the night does."""
    profile = night.profile
    named = (("stager", profile.stager, night.stager), ("cohort", profile.cohort, night.cohort))
    own = [f"{what} {name!r}" for what, name, _ in named if name is not None]
    given = [f"{what} {name!r}" for what, own, name in named if own is not None and name is not None]
    return f"{' and '.join(own)}, the night is of {' and '.join(given) or 'none that is named'}"


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


def is_withheld(reason: str) -> bool:
    """Whether there could be an interval, but not for this night."""
    return reason in (WITHHELD, UNLIKE_COHORT, UNLIKE_EXPERTS, UNLIKE_SHARES)


def why_withheld(night: Decoding) -> str:
    """Return why a night gets no model intervals under a profile with `posterior` rules, else ""."""
    profile = night.profile
    if profile.posterior is None:
        return ""
    if profile.provenance.get("shares") in SHARES_OUTSIDE and not night.is_foreign:
        return UNLIKE_SHARES
    is_of_profile = profile.cohort is not None and profile.is_for(profile.stager, night.cohort)
    if night.cohort is not None and not is_of_profile and profile.caution_for(night.cohort) is not None:
        return UNLIKE_COHORT
    measured = (profile.posterior.coverage or {}).get("unlike", {})
    is_covered = bool(measured) and sum(measured.values()) / len(measured) >= LEAST_COVERAGE
    return UNLIKE_EXPERTS if not is_covered and kind_of(night) == "unlike" else ""


def _coverage_of_kind(night: Decoding, kind: str, level: float) -> Mapping[str, float]:
    """Return the coverage of model intervals for a kind of night, if it was measured at this level."""
    rules = night.profile.posterior
    if rules is None or rules.coverage is None or not math.isclose(level, DEFAULT_LEVEL):
        return {}
    return rules.coverage.get(kind, {})


def _withheld_words(night: Decoding) -> Message:
    """Return why a night gets no conformal intervals, and what to do."""
    parts: list[object] = [f"conformal intervals are withheld: the errors are from {origin_of(night)}. "]
    profile, named = night.profile, list[object]()
    if night.stager is None and profile.stager is not None:
        named.append(Argument("stager", profile.stager))
    if night.cohort is None and profile.cohort is not None:
        named += [", ", Argument("cohort", profile.cohort)] if named else [Argument("cohort", profile.cohort)]
    if named and profile.is_for(night.stager or profile.stager, night.cohort or profile.cohort):
        parts += ["If it is theirs, say so (", *named, "); else ask for "]
    else:
        parts.append("Fit a profile to it, or ask for ")
    return Message(*parts, Argument("method", "model"), ".")


def _errors_of(profile: Profile) -> Mapping[str, Sequence[Sequence[float]]]:
    errors: Mapping[str, Sequence[Sequence[float]]] = profile.intervals.get("errors", {})
    return errors


def _measured_coverage(night: Decoding, key: str, level: float) -> Mapping[str, float]:
    """Return the coverage on scored nights, if it was measured at this level, for this cohort and stager."""
    fitted = night.profile.intervals
    is_like = not night.is_foreign and math.isclose(level, fitted.get("level_of_coverage", DEFAULT_LEVEL))
    return dict(fitted.get(key, {})) if is_like else {}


def _conformal(
    profile: Profile, values: Mapping[str, float], reasons: Mapping[str, str], level: float
) -> dict[str, Ends]:
    errors_of = _errors_of(profile)
    if not errors_of:
        raise InputError(
            Message(
                f"profile {profile.name!r} holds no errors on scored nights, so there is no conformal "
                "interval. Fit one to your stager with stageguard fit, or ask for ",
                Argument("method", "model"),
                ".",
            )
        )
    ends: dict[str, Ends] = {}
    for name, value in values.items():
        past_errors = errors_of.get(name, ())
        width = half_width(past_errors, level)
        if math.isnan(value):
            ends[name] = NAN, NAN, reasons[name]
        elif math.isinf(width):
            n_nights = sum(map(len, past_errors))
            reason = f"{n_nights} scored nights have it, expected {fewest_nights(level)} or more"
            ends[name] = NAN, NAN, reason
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
        if len(existing) > len(draws) // 2:
            if len(existing) < len(draws):
                kept = np.where(np.isnan(column), never, column) if name in _LATENCIES else existing
                whole = np.quantile(existing if math.isnan(never) else kept, limits)
            low, high = whole
            ends[name] = float(low), float(high), ""
        else:
            ends[name] = NAN, NAN, "does not exist in most draws"
    return ends


def _draws(night: Decoding, n: int, seed: int) -> Iterator[Hypnogram]:
    """Yield nights drawn from the posterior at the strength the night was decoded with."""
    decoded = night.hypnogram
    described = decoded.scheme, decoded.epoch_seconds, decoded.start, "draw", (), decoded.offset_seconds
    for labels in sample_like(night, n=n, seed=seed):
        yield Hypnogram.trusted(labels, *described)
