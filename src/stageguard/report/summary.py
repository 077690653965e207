"""The facts that a decoded night is summed up in: rows before and after, counts, what to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard.arrays import NAN
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import cuts_of, hypnogram_before, period_for
from stageguard.measures.intervals import Intervals, Method, hinges_of, intervals, why_withheld
from stageguard.measures.statistics import AASM, USUAL_NIGHT_HOURS, StatisticsOptions, lights_words
from stageguard.measures.validity import Validity, validity_of
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.quantities import (
    ALL_BOUTS,
    INDICATORS,
    JOINT,
    NIGHT,
    STEERED_MARK,
    Quantity,
    Steering,
    quantity_of,
)
from stageguard.profile.profile import Profile
from stageguard.report import words
from stageguard.report.numbers import interval_text

if TYPE_CHECKING:
    from stageguard.measures.cohort import CohortTable

# Quantities in tables of the command line: the joint score, indicators, statistics.
SHOWN = {quantity.key: quantity for quantity in (JOINT, *INDICATORS, *NIGHT, ALL_BOUTS) if quantity.shown}
DECODED_ROWS = tuple(key for key, quantity in SHOWN.items() if "decode" in quantity.shown)
# What the terminal shows of one night: the statistics to report, one of each.
HEADLINES = ("tst_minutes", "se_percent", "sol_minutes", "rem_latency_minutes", "waso_minutes")


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """A measure before and after, with the experts' range or the interval if there is one."""

    key: str
    before: float
    after: float
    low: float = NAN
    high: float = NAN
    before_place: str = ""
    after_place: str = ""
    reason: str = ""
    is_steered: bool = False  # whether the profile steered it
    hinge: tuple[int, int] | None = None  # first and last of the doubtful epochs that it depends on
    interval: tuple[float, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; places are below, inside or above the experts' range, or early."""
        row: dict[str, Any] = {"before": self.before, "after": self.after}
        if not isnan(self.low):
            row |= {"expert_low": self.low, "expert_high": self.high}
        if not isnan(self.low) or self.before_place or self.after_place:
            row |= {"before_place": self.before_place, "after_place": self.after_place}
        row |= {"steered": True} if self.is_steered else {}
        row |= {"depends_on_epochs": list(self.hinge)} if self.hinge else {}
        row |= {"interval": list(self.interval)} if self.interval else {}
        return row | ({"reason": self.reason} if self.reason else {})

    def cells(self, *, is_early_odd: bool = True) -> list[str]:
        """Return title, before, after, interval and advice as a table shows them."""
        quantity = SHOWN[self.key]
        before, after = (shown(value, quantity.decimals) for value in (self.before, self.after))
        ends = "" if self.interval is None else interval_text(*self.interval, quantity.decimals)
        early = "early: look at it" if is_early_odd and self.after_place == "early" else ""
        return [quantity.short_heading, before, after, ends, words.hinge_words(self.hinge) or early]


def shown(value: float, decimals: int) -> str:
    """Return a number as a table shows it."""
    return "n/a" if isnan(value) else f"{value:.{decimals}f}"


# What is shown instead if nights have epochs of different lengths: a pair of epochs is not always as long.
PER_HOUR = {"fragmentation_index": "transitions_per_hour", "tvr_percent": "tvr_per_hour"}


def shown_rows(cohort: CohortTable) -> list[Quantity]:
    """Return the quantities that tables of a cohort show: indicators, statistics, those of stages.

    If nights have epochs of several lengths, what is counted per epoch is shown per hour.
    """
    of_stages = [quantity_of(name) for name in cohort.names if name not in SHOWN]
    of_nights = [quantity for key, quantity in SHOWN.items() if key in cohort.names]
    rows = [quantity for quantity in (*of_nights, *of_stages) if "cohort" in quantity.shown]
    # one epoch length: numbers per epoch compare
    per_hour = PER_HOUR if len(cohort.epoch_lengths) > 1 else {}
    return [
        replace(quantity_of(per_hour[row.key]), shown=row.shown) if row.key in per_hour else row
        for row in rows
    ]


def titled(quantity: Quantity, title: str, cohort: CohortTable) -> str:
    """Return a title, marked if the profile steered the quantity."""
    return f"{title} {STEERED_MARK}" if cohort.is_steered(quantity) else title


def night_intervals(decoding: Decoding, options: StatisticsOptions) -> Intervals | None:
    """Return conformal intervals, else model intervals that are made for a coverage, else None."""
    profile = decoding.profile
    method: Method = "conformal"
    if not profile.intervals.get("errors") or decoding.is_foreign:
        if profile.posterior is None or why_withheld(decoding):
            return None
        method = "model"
    return intervals(
        decoding,
        method=method,
        lights_off=options.lights_off,
        lights_on=options.lights_on,
        min_first_rem_seconds=options.min_first_rem_seconds,
    )


def _rows(
    decoding: Decoding,
    valid: Sequence[Validity],
    options: StatisticsOptions,
    hinges: Mapping[str, tuple[int, int]],
    found: Intervals | None,
) -> list[BeforeAfter]:
    """Return the rows before and after; a measure that neither night has is left out."""
    nights = hypnogram_before(decoding), decoding.hypnogram
    statistics = [options.measure(night) for night in nights]
    indicators = [one.measured for one in valid]
    rows = []
    for key in DECODED_ROWS:
        if key in indicators[0]:
            was, now = (one[key] for one in indicators)
            place, new_place = ("" if each.place == "no band" else each.place for each in (was, now))
            row = BeforeAfter(
                *(key, was.value, now.value, now.low, now.high, place, new_place),
                reason=now.reason or was.reason,
            )
        else:
            before, after = (float(getattr(one, key)) for one in statistics)
            early, now_early = ("early" * SHOWN[key].is_early(value) for value in (before, after))
            reasons = [one.reasons[key] for one in statistics if isnan(getattr(one, key))]
            reason = reasons[-1] if reasons else ""  # rather that of the decoded night
            row = BeforeAfter(key, before, after, NAN, NAN, early, now_early, reason)
        if not (isnan(row.before) and isnan(row.after)):
            interval = None if found is None or key not in found or found[key].reason else found[key]
            ends = None if interval is None else (interval.low, interval.high)
            is_steered = SHOWN[key].follows in decoding.steered
            rows.append(replace(row, is_steered=is_steered, hinge=hinges.get(key), interval=ends))
    return rows


@dataclass(frozen=True, slots=True)
class RecordingFacts:
    """Facts about a recording, and the profile it is compared with."""

    profile_name: str
    profile_sha256: str
    stages: tuple[str, ...]
    n_epochs: int
    epoch_seconds: float

    @classmethod
    def of(cls, night: Hypnogram, profile: Profile) -> RecordingFacts:
        """Return the facts of a scored night."""
        return cls(profile.name, profile.sha256, night.scheme.names, night.n_epochs, night.epoch_seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        return {
            "profile": {"name": self.profile_name, "sha256": self.profile_sha256},
            "stages": list(self.stages),
            "n_epochs": self.n_epochs,
            "epoch_seconds": self.epoch_seconds,
        }


@dataclass(frozen=True, slots=True)
class JointScores:
    """The joint score before and after decoding, and the experts' threshold; NaN where there is none."""

    before: float = NAN
    after: float = NAN
    threshold: float = NAN

    @classmethod
    def of(cls, valid: Sequence[Validity]) -> JointScores:
        """Return the scores of a night before and after decoding."""
        before, after = (each.joint for each in valid)
        return cls(before.value, after.value, after.high)

    @property
    def looks_like_experts(self) -> bool | None:
        """Whether the decoded night looks like expert scoring; None if it cannot be judged."""
        return None if isnan(self.after) else self.after <= self.threshold


@dataclass(frozen=True, slots=True)
class RowMeasures:
    """The measures of a night in a cohort's table."""

    joint: JointScores
    early_rem_removed: tuple[str, ...]
    look_at: str  # why somebody should look at the night; empty if nothing says so

    def to_dict(self) -> dict[str, Any]:
        """Return what a sidecar keeps for tables, in plain types."""
        return {"early_rem_removed": list(self.early_rem_removed), "look_at": self.look_at}


def measures_of(decoding: Decoding, options: StatisticsOptions = AASM) -> RowMeasures:
    """Return the measures of a decoding for a cohort's table; `options` include its lights."""
    valid = _validities(decoding, options)
    aside = words.aside_words(decoding, valid[1])
    look_at = words.look_at_words(aside, hinges_of(decoding, options))
    return RowMeasures(JointScores.of(valid), words.early_rem_words(decoding), look_at)


def _validities(decoding: Decoding, options: StatisticsOptions) -> list[Validity]:
    """Return the validity before and after decoding."""
    profile, cuts = decoding.profile, cuts_of(decoding)
    period = period_for(decoding, profile, options.lights)
    nights = hypnogram_before(decoding), decoding.hypnogram
    return [validity_of(night, profile, period, cuts) for night in nights]


@dataclass(frozen=True, slots=True)
class DecodingSummary:
    """A decoding in numbers and sentences."""

    facts: RecordingFacts
    offset_seconds: float
    n_scored: int
    n_changed: int
    n_ties: int
    n_filled: int
    n_unscored: int
    joint: JointScores
    verdict: str
    indicators: tuple[BeforeAfter, ...]
    strength: str  # what the guard did
    assumptions: tuple[str, ...]
    advice: tuple[str, ...]
    lights: str
    aside: str  # loud, if no rule smoothed and the night is not as experts score
    early_rem_removed: tuple[str, ...]
    look_at: str  # why somebody should look at the night, in a few words
    # from here on only printed, not in `to_dict`
    remarks: tuple[str, ...]  # on ties and epochs without evidence
    is_early_rem_odd: bool  # whether REM soon after sleep onset calls for a look: not in animals
    interval_title: str = ""
    steered: frozenset[Steering] = frozenset()
    is_cautioned: bool = False  # whether the profile has a caution for the cohort

    @property
    def changed_percent(self) -> float:
        """Share of the epochs with evidence that decoding changed."""
        return 100 * self.n_changed / self.n_scored if self.n_scored else 0.0

    @property
    def measures(self) -> RowMeasures:
        """The measures of the night in a cohort's table."""
        return RowMeasures(self.joint, self.early_rem_removed, self.look_at)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        printed = ("remarks", "is_early_rem_odd", "interval_title", "steered", "is_cautioned")
        names = [field.name for field in fields(self)[1:] if field.name not in printed]
        values = {name: getattr(self, name) for name in names}
        values["indicators"] = {row.key: row.to_dict() for row in self.indicators}
        values["joint"] = asdict(self.joint) | {"looks_like_experts": self.joint.looks_like_experts}
        return self.facts.to_dict() | values


def summary_of(
    decoding: Decoding, options: StatisticsOptions = AASM, *, with_intervals: bool = False
) -> DecodingSummary:
    """Return the summary of a decoding; `options` include its lights.

    Intervals take longer than the rest together, so that they are only computed where one night is shown.
    """
    hypnogram, profile = decoding.hypnogram, decoding.profile
    valid, hinges = _validities(decoding, options), hinges_of(decoding, options)
    found = night_intervals(decoding, options) if with_intervals else None
    statistics = options.measure(hypnogram)
    is_told = statistics.is_of_longest_sleep or (
        profile.species == "human"
        and (statistics.tib_minutes >= 60 * USUAL_NIGHT_HOURS or options.lights != (None, None))
    )
    aside = words.aside_words(decoding, valid[1])
    ties = [f"{words.ties_words(decoding.n_ties)}."] if decoding.n_ties else []
    return DecodingSummary(
        facts=RecordingFacts.of(hypnogram, profile),
        offset_seconds=hypnogram.offset_seconds,
        n_scored=decoding.n_scored,
        n_changed=decoding.n_changed,
        n_ties=decoding.n_ties,
        n_filled=int(np.count_nonzero(decoding.filled)),
        n_unscored=int(np.count_nonzero(hypnogram.labels < 0)),
        joint=JointScores.of(valid),
        verdict=words.verdict_words(valid[1]),
        indicators=tuple(_rows(decoding, valid, options, hinges, found)),
        strength=words.done_words(decoding),
        assumptions=(*decoding.assumed, *(statistics.assumed if is_told else ())),
        advice=words.advice(decoding),
        lights=lights_words(hypnogram, *options.lights),
        aside=aside,
        early_rem_removed=words.early_rem_words(decoding),
        look_at=words.look_at_words(aside, hinges),
        remarks=(*ties, *words.unscored_words(decoding)),
        is_early_rem_odd=profile.species == "human",
        interval_title="" if found is None else interval_title(found),
        steered=decoding.steered,
        is_cautioned=words.is_cautioned(decoding),
    )


def interval_title(found: Intervals) -> str:
    """Return the heading of a column of intervals."""
    return f"{100 * found.level:.0f} % interval" if found.is_measured else "interval"
