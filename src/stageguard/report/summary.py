"""The summary of a decoding for people: the rows of a before/after table, counts, remarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import exp, isnan
from typing import Any

import numpy as np

from stageguard.arrays import NAN
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import cuts_of, hypnogram_before, period_for
from stageguard.measures.cohort import CohortTable
from stageguard.measures.intervals import hinges_of
from stageguard.measures.rare import early_rem_removed
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
from stageguard.profile.rules import BandRule
from stageguard.report.guard_words import advice, in_short, other_causes, reason

# Quantities in tables of the command line: the joint score, indicators, statistics.
SHOWN = {quantity.key: quantity for quantity in (JOINT, *INDICATORS, *NIGHT, ALL_BOUTS) if quantity.shown}
MOST_OUTSIDE = 4  # indicators that are named if no rule smoothed
DECODED_ROWS = tuple(key for key, quantity in SHOWN.items() if "decode" in quantity.shown)


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """A measure before and after, and the experts' range if the profile has one."""

    key: str
    before: float
    after: float
    low: float = NAN
    high: float = NAN
    before_place: str = ""
    after_place: str = ""
    reason: str = ""
    is_steered: bool = False  # whether the profile steered it
    limit: float = NAN  # up to which the rule leaves a night alone
    hinge: tuple[int, int] | None = None  # first and last of the doubtful epochs that it depends on

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; places are below, inside or above the experts' range, or early."""
        row: dict[str, Any] = {"before": self.before, "after": self.after}
        if not isnan(self.low):
            row |= {"expert_low": self.low, "expert_high": self.high}
        if not isnan(self.low) or self.before_place or self.after_place:
            row |= {"before_place": self.before_place, "after_place": self.after_place}
        row |= {"steered": True} if self.is_steered else {}
        row |= {} if isnan(self.limit) else {"left_alone_up_to": self.limit}
        row |= {"depends_on_epochs": list(self.hinge)} if self.hinge else {}
        return row | ({"reason": self.reason} if self.reason else {})

    def cells(self) -> list[str]:
        """Return title, before, after and expert range as a table shows them."""
        decimals = SHOWN[self.key].decimals
        band = "" if isnan(self.low) else f"{self.low:.{decimals}f} to {self.high:.{decimals}f}"
        band += "" if isnan(self.limit) else f"; left alone up to {self.limit:.{decimals}f}"
        values = ((self.before, self.before_place), (self.after, self.after_place))
        cells = [f"{shown(value, decimals)} {place}".strip() for value, place in values]
        mark = f" {STEERED_MARK}" if self.is_steered else ""
        return [SHOWN[self.key].heading + mark, *cells, band]


def hinge_words(hinge: tuple[int, int] | None) -> str:
    """Return the advice to look at the doubtful epochs that a number depends on; empty without any."""
    if hinge is None:
        return ""
    return f"{_depends_words(hinge)}: look at {'it' if hinge[0] == hinge[1] else 'them'}"


def _depends_words(hinge: tuple[int, int]) -> str:
    first, last = (epoch + 1 for epoch in hinge)
    return f"depends on epoch {first:,}" if first == last else f"depends on epochs {first:,}–{last:,}"


def shown(value: float, decimals: int) -> str:
    """Return a number as a table shows it."""
    return "n/a" if isnan(value) else f"{value:.{decimals}f}"


# What is shown instead if nights have epochs of different lengths: a pair of epochs is not always as long.
PER_HOUR = {"fragmentation_index": "transitions_per_hour", "tvr_percent": "tvr_per_hour"}


def mixed_epochs_words(lengths: Iterable[float]) -> str:
    """Return the remark on nights whose epochs have several lengths."""
    shown_lengths = " and ".join(f"{length:g} s" for length in sorted(lengths))
    why = "numbers per epoch do not compare"
    return f"epochs last {shown_lengths}: stage changes are shown per hour, since {why}"


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


def looking_like_experts(judged: Sequence[bool | None]) -> str:
    """Return in words how many nights look like expert scoring; None is a night that cannot be judged."""
    n_unjudged = sum(verdict is None for verdict in judged)
    left_out = f" {n_unjudged:,} night{'s' * (n_unjudged != 1)} cannot be judged." if n_unjudged else ""
    n_alike = sum(verdict is True for verdict in judged)
    count = f"{len(judged):,} night{'s' * (len(judged) != 1)}"
    are = "is" if len(judged) == 1 else "are"
    return f"{n_alike:,} of {count} {are} like 9 of 10 expert nights.{left_out}"


def _rows(
    nights: Sequence[Hypnogram],
    valid: Sequence[Validity],
    options: StatisticsOptions,
    *,
    steered: frozenset[Steering],
    hinges: Mapping[str, tuple[int, int]],
) -> list[BeforeAfter]:
    """Return the rows of the before/after table; a measure that neither night has is left out."""
    statistics = [options.measure(night) for night in nights]
    indicators = [one.measured for one in valid]
    rows = []
    for key in DECODED_ROWS:
        if key in indicators[0]:
            was, now = (one[key] for one in indicators)
            row = BeforeAfter(
                key,
                was.value,
                now.value,
                now.low,
                now.high,
                before_place="" if was.place == "no band" else was.place,
                after_place="" if now.place == "no band" else now.place,
                reason=now.reason or was.reason,
            )
        else:
            before, after = (float(getattr(one, key)) for one in statistics)
            reasons = [one.reasons[key] for one in statistics if isnan(getattr(one, key))]
            row = BeforeAfter(
                key,
                before,
                after,
                before_place="early" * SHOWN[key].is_early(before),
                after_place="early" * SHOWN[key].is_early(after),
                reason=reasons[-1] if reasons else "",  # rather that of the decoded night
            )
        if not (isnan(row.before) and isnan(row.after)):
            rows.append(replace(row, is_steered=SHOWN[key].follows in steered, hinge=hinges.get(key)))
    return rows


def early_rem_words(decoding: Decoding) -> tuple[str, ...]:
    """Describe each early REM of the stager that decoding removed: when, how long, and how well supported."""
    minutes = decoding.epoch_seconds / 60.0
    words = []
    for event in early_rem_removed(decoding):
        since = event.minutes_since_onset
        when = "before sleep onset" if isnan(since) else f"{since:.3g} min after sleep onset"
        long = f"{event.n_epochs * minutes:.3g} min long"
        if event.n_removed < event.n_epochs:
            long = f"{event.n_removed * minutes:.3g} of {event.n_epochs * minutes:.3g} min"
        words.append(
            f"{decoding.profile.scheme.rem} {when} (epoch {event.epoch + 1}), {long}; the stager gave REM "
            f"{odds(event.bout_evidence_nats / event.n_epochs)}"
        )
    return tuple(words)


def odds(nats: float) -> str:
    """Return a difference of log-probabilities as odds, as in ``5 : 1``."""
    # beyond this the odds are only "more than 99 : 1"
    ratio = exp(min(abs(nats), 10.0))
    shown_ratio = "more than 99" if ratio > 99 else f"{ratio:.2g}"
    return f"{shown_ratio} : 1" if nats >= 0 else f"1 : {shown_ratio}"


def deed_words(decoding: Decoding) -> str:
    """Return what the guard did and, if no rule smoothed the night, what else changed it."""
    strength = decoding.strength
    is_by_others = strength.step in ("untouched", "hard") and decoding.changed.any()
    by = f" Changed only by {' and '.join(other_causes(decoding))}." if is_by_others else ""
    return f"{in_short(strength)}{by}"


def aside_words(decoding: Decoding, valid: Validity) -> str:
    """Return how a night that no rule smoothed differs from expert scorings; empty if it does not.

    Most expert nights are outside some band, so the joint score decides, if there is one, and uncommon
    transitions.
    """
    if decoding.strength.step not in ("untouched", "hard"):
        return ""
    # uncommon transitions count by themselves: few of them hardly move the joint score
    if valid.looks_like_experts and valid.indicators["tvr_percent"].place != "above":
        return ""
    outside = [
        f"{quantity_of(key).label} {_with_unit(quantity_of(key), each.value)} ({each.place})"
        for key, each in valid.indicators.items()
        if each.place in ("below", "above")
    ]
    if not outside:
        return ""
    more = f"; and {len(outside) - MOST_OUTSIDE} more" if len(outside) > MOST_OUTSIDE else ""
    named = "; ".join(outside[:MOST_OUTSIDE])
    did = "The guard did not smooth it"
    if decoding.night.clock is not None and decoding.changed.any():
        did = "Only the clock changed it"
    return f"LOOK AT THIS NIGHT. {did}, and it is outside the range of expert scoring: {named}{more}."


def _with_unit(quantity: Quantity, value: float) -> str:
    """Return a number with its unit where that is short: minutes or per cent."""
    unit = quantity.unit.split()[0]
    return shown(value, quantity.decimals) + (f" {unit}" if unit in ("%", "min") else "")


def range_note(decoding: Decoding, rows: Sequence[BeforeAfter]) -> str:
    """Return why a night that satisfies the strength's rule lies outside the experts' range; else empty."""
    rule, strength = decoding.profile.strength, decoding.strength
    place = next((row.after_place for row in rows if row.key == "fragmentation_index"), "")
    if not isinstance(rule, BandRule) or place not in ("above", "below"):
        return ""
    if not strength.fi_low <= strength.fi_after <= strength.fi_high:
        return ""
    factor = rule.cap if place == "above" else rule.floor
    times = {2.0: "twice", 0.5: "half"}.get(factor, f"{factor:g} times")
    return f"FI: the rule stops at {times} the experts' mean; single expert nights lie in the range shown."


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
    return RowMeasures(
        joint=JointScores.of(valid),
        early_rem_removed=early_rem_words(decoding),
        look_at=_look_at(aside_words(decoding, valid[1]), hinges_of(decoding, options)),
    )


def _look_at(aside: str, hinges: Mapping[str, tuple[int, int]]) -> str:
    """Return in a few words why somebody should look at a night."""
    reasons = ["not smoothed, and outside the range of expert scoring"] * bool(aside)
    reasons += [f"{SHOWN[key].title} {_depends_words(hinge)}" for key, hinge in hinges.items()]
    return "; ".join(reasons)


def _validities(decoding: Decoding, options: StatisticsOptions) -> list[Validity]:
    """Return the validity before and after decoding."""
    profile, cuts = decoding.profile, cuts_of(decoding)
    period = period_for(decoding, profile, options.lights)
    nights = hypnogram_before(decoding), decoding.hypnogram
    return [validity_of(night, profile, period, cuts) for night in nights]


@dataclass(frozen=True, slots=True)
class DecodingSummary:
    """A decoding in numbers and remarks."""

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
    strength: str
    assumptions: tuple[str, ...]
    advice: tuple[str, ...]
    range_note: str
    lights: str
    aside: str  # loud, if no rule smoothed and the night is not as experts score
    early_rem_removed: tuple[str, ...]
    look_at: str  # why somebody should look at the night, in a few words
    # from here on only printed, not in `to_dict`
    deed: str  # what the guard did, in a sentence
    is_early_rem_odd: bool  # whether REM soon after sleep onset calls for a look: not in animals
    steered: frozenset[Steering] = frozenset()

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
        printed = ("deed", "is_early_rem_odd", "steered")
        names = [field.name for field in fields(self)[1:] if field.name not in printed]
        values = {name: getattr(self, name) for name in names}
        values["indicators"] = {row.key: row.to_dict() for row in self.indicators}
        values["joint"] = asdict(self.joint) | {"looks_like_experts": self.joint.looks_like_experts}
        return self.facts.to_dict() | values


def summary_of(decoding: Decoding, options: StatisticsOptions = AASM) -> DecodingSummary:
    """Return the summary of a decoding; `options` include its lights."""
    hypnogram, profile = decoding.hypnogram, decoding.profile
    nights = hypnogram_before(decoding), hypnogram
    valid = _validities(decoding, options)
    statistics = options.measure(hypnogram)
    is_told = statistics.is_of_longest_sleep or (
        profile.species == "human"
        and (statistics.tib_minutes >= 60 * USUAL_NIGHT_HOURS or options.lights != (None, None))
    )
    hinges, aside = hinges_of(decoding, options), aside_words(decoding, valid[1])
    rows = [
        replace(row, limit=decoding.strength.limit) if row.key == "fragmentation_index" else row
        for row in _rows(nights, valid, options, steered=decoding.steered, hinges=hinges)
    ]
    return DecodingSummary(
        facts=RecordingFacts.of(hypnogram, profile),
        offset_seconds=hypnogram.offset_seconds,
        n_scored=decoding.n_scored,
        n_changed=decoding.n_changed,
        n_ties=decoding.n_ties,
        n_filled=int(np.count_nonzero(decoding.filled)),
        n_unscored=int(np.count_nonzero(hypnogram.labels < 0)),
        joint=JointScores.of(valid),
        verdict=valid[1].verdict,
        indicators=tuple(rows),
        strength=reason(decoding.strength),
        assumptions=(*decoding.assumed, *(statistics.assumed if is_told else ())),
        advice=advice(decoding),
        range_note=range_note(decoding, rows),
        lights=lights_words(hypnogram, *options.lights),
        aside=aside,
        early_rem_removed=early_rem_words(decoding),
        look_at=_look_at(aside, hinges),
        deed=deed_words(decoding),
        is_early_rem_odd=profile.species == "human",
        steered=decoding.steered,
    )
