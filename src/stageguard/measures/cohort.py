"""Many nights as one table of measures, before and after decoding, with a codebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import isnan
from typing import Any

import numpy as np

from stageguard.arrays import NAN, Floats
from stageguard.errors import InputError, MissingExtraError
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import DayPart, bouts_of, period_for
from stageguard.measures.samples import (
    Difference,
    Estimate,
    compare_samples,
    estimate,
    improvement_percent,
    paired,
)
from stageguard.measures.statistics import AASM, StatisticsOptions, lights_words
from stageguard.measures.validity import Validity, validity_of
from stageguard.night.align import on_epochs_of, where_scored
from stageguard.night.hypnodensity import FromLabels
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.period import Period
from stageguard.night.quantities import NIGHT, PHASE, STAGE, STEERED_BY, Quantity, Steering, quantity_of
from stageguard.night.stages import WNR3
from stageguard.profile.profile import Profile

# Scorings of a night, and where each comes from.
SCORINGS = {
    "before": "the stager's most probable stages (argmax)",
    "after": "the stages after decoding; of a night that was not decoded, its own stages",
    "expert": "the expert's scoring, on the epochs that the expert scored",
}


@dataclass(frozen=True, slots=True)
class Measures:
    """All measures of one scored night, and the reasons for those that are NaN."""

    values: Mapping[str, float]
    reasons: Mapping[str, str]
    assumed: tuple[str, ...] = ()
    hours: tuple[DayPart, ...] = ()
    validity: Validity | None = None  # None without a profile


@dataclass(frozen=True, slots=True)
class DecodedFacts:
    """What the Methods paragraph of a cohort needs to know of how one night was decoded."""

    n_scored: int  # epochs with a stage of the stager's
    n_changed: int  # of them with another one in the output
    step: str  # of the strength rule, as in `Strength.step`
    transition_weight: float
    n_unscored: int = 0  # this and the rest: missing in outputs of earlier versions
    has_lights_off: bool = False
    has_lights_on: bool = False
    from_labels: FromLabels | None = None
    n_ties: int = 0

    @property
    def has_lights(self) -> bool:
        """Whether lights cut the recording."""
        return self.has_lights_off or self.has_lights_on

    @classmethod
    def of(cls, decoding: Decoding) -> DecodedFacts:
        """Return the facts of a decoded night."""
        return cls(
            decoding.n_scored,
            decoding.n_changed,
            decoding.strength.step,
            decoding.strength.transition_weight,
            int(np.count_nonzero(decoding.hypnogram.labels < 0)),
            decoding.night.lights_off > 0,
            decoding.night.lights_on is not None,
            decoding.from_labels,
            decoding.n_ties,
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> DecodedFacts:
        """Return the facts that a sidecar records."""
        return cls(
            int(record["n_scored"]),
            int(record["n_changed"]),
            str(record["strength"]["step"]),
            float(record["strength"]["transition_weight"]),
            int(record.get("n_unscored", 0)),
            bool(record.get("has_lights_off", False)),
            bool(record.get("has_lights_on", False)),
            record.get("provenance", {}).get("from_labels"),
            int(record.get("n_ties", 0)),
        )


@dataclass(frozen=True, slots=True)
class CohortNight:
    """One night of a cohort in up to three scorings; without a profile, validity is not measured."""

    night_id: str
    before: Hypnogram | None = None  # the stager's argmax
    after: Hypnogram | None = None  # the decoded hypnogram, or the only one
    expert: Hypnogram | None = None
    profile: Profile | None = None
    steered: frozenset[Steering] = frozenset()  # what the profile steered on it
    decoded: DecodedFacts | None = None  # if it was decoded, and they are known
    period: Period | None = None  # the sleep period that it was decoded with, if it is known

    @property
    def scorings(self) -> dict[str, Hypnogram]:
        """The scorings that exist, the expert's in the stages and on the epochs of the others."""
        other = self.after if self.after is not None else self.before
        expert = self.expert
        if expert is not None and other is not None:
            # the expert may have scored finer stages, or begun at another epoch
            expert = on_epochs_of(other, expert).merge(other.scheme)
        scorings = {"before": self.before, "after": self.after, "expert": expert}
        return {name: scoring for name, scoring in scorings.items() if scoring is not None}

    @property
    def n_changed(self) -> int | None:
        """Number of epochs whose stage decoding changed; None if nothing was decoded."""
        if self.decoded is not None:
            return self.decoded.n_changed
        if self.before is None or self.after is None:
            return None
        before, after = self.before.labels, self.after.labels
        return int(np.count_nonzero((before != after) & (before >= 0)))


@dataclass(frozen=True, slots=True)
class MeasuredScorings:
    """A night of a cohort and its measures by scoring."""

    night_id: str
    measures: Mapping[str, Measures]
    steered: frozenset[Steering] = frozenset()
    epoch_seconds: float = NAN
    # measures on the epochs that the expert scored, of scorings that have others, too
    on_expert_epochs: Mapping[str, Measures] = field(default_factory=dict)
    lights: str = ""  # where lights cut the night, in words

    @property
    def compared(self) -> MeasuredScorings:
        """The night as it compares with its expert: on the epochs that the expert scored."""
        return replace(self, measures={**self.measures, **self.on_expert_epochs})


def measure(
    night: Hypnogram,
    profile: Profile | None = None,
    options: StatisticsOptions = AASM,
    period: Period | None = None,
) -> Measures:
    """Return sleep statistics and, if there is a profile, validity indicators of one scored night.

    Values have the keys of `stageguard.night.quantities`. The indicators are those of a `period`, by default
    the scoring's own.
    """
    statistics = options.measure(night)
    stages, reasons = statistics.scheme.names, dict(statistics.reasons)
    values = {quantity.key: float(getattr(statistics, quantity.key)) for quantity in NIGHT}
    values["bouts"] = float(sum(statistics.bouts.values()))
    for kind in (quantity.key for quantity in STAGE):
        by_stage: Mapping[str, float] = getattr(statistics, kind)
        values |= {f"{kind}_{stage}": float(by_stage[stage]) for stage in stages if stage in by_stage}
        reasons |= {f"{kind}_{stage}": reasons[kind] for stage in stages if kind in reasons}
    for phase, stretch in statistics.phases.items():
        for kind in (quantity.key for quantity in PHASE):
            values |= {f"{kind}_{stage}_{phase}": float(getattr(stretch, kind)[stage]) for stage in stages}
    valid = None
    if profile is not None:
        valid = validity_of(night, profile, period or period_for(night, profile, options.lights))
        values |= {name: float(indicator.value) for name, indicator in valid.measured.items()}
        reasons |= {name: each.reason for name, each in valid.measured.items() if each.reason}
    hours = statistics.hours if options.lights_on_phase is not None else ()
    return Measures(values, reasons, statistics.assumed, hours, valid)


def measure_night(night: CohortNight, options: StatisticsOptions = AASM) -> MeasuredScorings:
    """Measure every scoring of a night in the same way, the stager's and the decoded one in one period."""
    if not (scorings := night.scorings):
        raise InputError(f"night {night.night_id!r} has no scoring, expected before, after or expert.")
    # lights that are given now replace the period it was decoded with
    period = night.period if options.lights == (None, None) else None
    if period is None and night.profile is not None and night.before is not None:
        period = period_for(night.before, night.profile, options.lights)
    periods = {"before": period, "after": period}
    on_expert_epochs = {}
    if (expert := scorings.get("expert")) is not None:
        # else a stager would be charged with sleep in epochs that nobody checked
        left = expert.labels == UNSCORED
        on_expert_epochs = {
            name: where_scored(expert, scoring)
            for name, scoring in scorings.items()
            if (scoring.labels[left] != UNSCORED).any()
        }
    whole, compared = (
        {name: measure(each, night.profile, options, periods.get(name)) for name, each in given.items()}
        for given in (scorings, on_expert_epochs)
    )
    first = next(iter(scorings.values()))
    lights = lights_words(first, *options.lights)
    return MeasuredScorings(night.night_id, whole, night.steered, first.epoch_seconds, compared, lights)


@dataclass(frozen=True, slots=True, eq=False)
class CohortTable:
    """Measures of many nights."""

    night_ids: tuple[str, ...]
    names: tuple[str, ...]  # of the measures
    values: Mapping[str, Floats] = field(repr=False)  # by scoring (n_nights, n_measures), NaN where absent
    n_steered: Mapping[Steering, int] = field(default_factory=dict)  # nights on which each was steered
    epoch_lengths: frozenset[float] = frozenset()  # of the nights, in seconds

    def is_steered(self, quantity: Quantity) -> bool:
        """Whether the profile steered a quantity on some nights."""
        return quantity.follows is not None and self.n_steered.get(quantity.follows, 0) > 0

    def columns(self) -> dict[str, Floats]:
        """Return the numbers of each column: `<measure>_before`, `_after`, `_delta`, `_expert`.

        If nothing was decoded, there is no after: the stages' own column is `<measure>`.
        """
        return {
            self.column(name, key): each for name in self.names for key, each in self.columns_of(name).items()
        }

    def column(self, name: str, key: str) -> str:
        """Return the name of a column."""
        return name if key == "after" and "before" not in self.values else f"{name}_{key}"

    def columns_of(self, name: str) -> dict[str, Floats]:
        """Return the columns of one measure that exist: before, after, delta, expert."""
        columns = {key: self.of(name, key) for key in SCORINGS if key in self.values}
        if {"before", "after"} <= columns.keys():
            expert = {"expert": columns.pop("expert")} if "expert" in columns else {}
            columns |= {"delta": columns["after"] - columns["before"]} | expert
        return columns

    def of(self, name: str, scoring: str) -> Floats:
        """Return one measure of all nights in one scoring."""
        return self.values[scoring][:, self.names.index(name)]


def cohort_table(nights: Sequence[MeasuredScorings]) -> CohortTable:
    """Return the measures of many nights as one table; a measure that a night lacks is NaN."""
    if not nights:
        raise InputError("no night is given, expected at least one.")
    night_ids = tuple(night.night_id for night in nights)
    if repeated := [name for name, n_nights in Counter(night_ids).items() if n_nights > 1]:
        raise InputError(f"two nights are named {repeated[0]!r}, expected a name of its own for each.")
    names = tuple(
        dict.fromkeys(name for night in nights for one in night.measures.values() for name in one.values)
    )
    values = {
        scoring: np.array([_row(night.measures.get(scoring), names) for night in nights])
        for scoring in SCORINGS
        if any(scoring in night.measures for night in nights)
    }
    n_steered = count_steered(night.steered for night in nights)
    return CohortTable(
        night_ids, names, values, n_steered, frozenset(night.epoch_seconds for night in nights)
    )


def _row(measures: Measures | None, names: Sequence[str]) -> list[float]:
    return [NAN if measures is None else measures.values.get(name, NAN) for name in names]


def count_steered(nights: Iterable[frozenset[Steering]]) -> dict[Steering, int]:
    """Return on how many nights each was steered; empty if nothing was."""
    counted = Counter(what for steered in nights for what in steered)
    return {what: counted[what] for what in STEERED_BY if what in counted}


def codebook(table: CohortTable) -> dict[str, dict[str, str]]:
    """Return the description and the unit of each column of a table."""
    book = {}
    for name, scoring in [(each, key) for each in table.names for key in table.columns_of(each)]:
        quantity, column = quantity_of(name), table.column(name, scoring)
        whose = "after minus before" if scoring == "delta" else SCORINGS[scoring]
        whose = "of the stages in the file" if column == name else whose
        if (what := quantity.follows) in table.n_steered and scoring in ("after", "delta"):
            assert what is not None
            whose += f"; {STEERED_BY[what]} on {table.n_steered[what]} nights"
        book[column] = {"Description": f"{quantity.description}; {whose}", "Units": quantity.unit}
    return book


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """One measure compared between two groups, in one scoring."""

    measure: str
    scoring: str
    first: str
    second: str
    result: Difference
    is_steered: bool = False  # whether the profile steered it on some nights


def group_differences(
    table: CohortTable, groups: Mapping[str, str], *, subjects: Mapping[str, str] | None = None
) -> tuple[GroupDifference, ...]:
    """Compare each pair of groups in every measure and scoring: the group named first minus the second.

    `groups` and `subjects` are by night. Nights without a group are left out; nights of one subject are
    averaged, since they are not independent.
    """
    present = {groups[name] for name in table.night_ids if name in groups}
    levels = [level for level in dict.fromkeys(groups.values()) if level in present]
    if len(levels) < 2:
        which = f"all are in {levels[0]!r}" if levels else "none has a group"
        raise InputError(f"of {len(table.night_ids)} nights {which}, expected two groups or more.")
    units = _subjects_of(table.night_ids, groups, subjects or {})
    differences = []
    for first, second in combinations(levels, 2):
        for name in table.names:
            for scoring in table.values:
                column = table.of(name, scoring)
                result = compare_samples(*(_subject_means(column, units[level]) for level in (first, second)))
                is_steered = scoring == "after" and table.is_steered(quantity_of(name))
                differences.append(GroupDifference(name, scoring, first, second, result, is_steered))
    return tuple(differences)


def _subjects_of(
    nights: Sequence[str], groups: Mapping[str, str], subjects: Mapping[str, str]
) -> dict[str, list[list[int]]]:
    """Return, by group, the rows of each of its subjects; a night without a subject counts as a person."""
    by_group: dict[str, dict[tuple[str, str], list[int]]] = {}
    group_of: dict[str, str] = {}
    for row, name in enumerate(nights):
        if name not in groups:
            continue
        group, subject = groups[name], subjects.get(name)
        if subject is not None and group_of.setdefault(subject, group) != group:
            both = f"{group_of[subject]!r} and {group!r}"
            raise InputError(f"subject {subject!r} is in the groups {both}, expected one.")
        unit = ("night", name) if subject is None else ("subject", subject)
        by_group.setdefault(group, {}).setdefault(unit, []).append(row)
    return {group: list(rows_of.values()) for group, rows_of in by_group.items()}


def _subject_means(column: Floats, units: list[list[int]]) -> Floats:
    """Return the mean of each subject's nights, NaN left out."""
    existing = [column[rows][~np.isnan(column[rows])] for rows in units]
    return np.array([values.mean() if len(values) else NAN for values in existing])


# Errors of sleep architecture against an expert: the key of a row, and its title, in the order of tables.
ARCHITECTURE = {
    "tst_minutes": "TST (min)",
    "se_percent": "SE (%)",
    "rem_latency_minutes": "REM latency (min)",
    "waso_minutes": "WASO (min)",
    "nrem_bout_minutes": "mean NREM bout (min)",
    "rem_bout_minutes": "mean REM bout (min)",
    "awakenings": "awakenings",
}
# For each of them, a quantity that the profile steers likewise.
STEERED_LIKE = {key: quantity_of("bouts" if key.endswith("bout_minutes") else key) for key in ARCHITECTURE}
_BOUTS = {"nrem_bout_minutes": "N", "rem_bout_minutes": "R"}
ERRORS_METHOD = (
    "Absolute error of each night on the epochs its expert scored, nights of one subject averaged; mean ± "
    "standard deviation over subjects. If a night lacks the REM that its expert scored, it is taken to start "
    "at the end, in bouts of 0 min. p: two-sided Wilcoxon signed-rank test of after against before for each "
    "row, not corrected for the number of rows."
)

Errors = Mapping[str, Mapping[str, float]]  # scoring -> quantity -> absolute error of one night


@dataclass(frozen=True, slots=True)
class ArchitectureError:
    """Mean absolute error of one quantity, by scoring."""

    quantity: str
    before: Estimate  # of nobody if nothing was decoded
    after: Estimate  # compared with before
    improvement_percent: float

    @property
    def n_subjects(self) -> int:
        """Number of subjects that have an error, before or after."""
        return max(self.before.n, self.after.n)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        before, after = self.before, self.after
        return {
            "quantity": self.quantity,
            "n": self.n_subjects,
            "before_mean": before.mean,
            "before_sd": before.sd,
            "after_mean": after.mean,
            "after_sd": after.sd,
            "improvement_percent": self.improvement_percent,
            "p": after.p,
            "rank_biserial": after.effect,
        }


def architecture(night: Hypnogram, options: StatisticsOptions = AASM) -> dict[str, float]:
    """Return the quantities of `ARCHITECTURE`; NaN where a night does not have one."""
    statistics, bouts = options.measure(night), _mean_bouts(night)
    return {name: bouts[name] if name in bouts else float(getattr(statistics, name)) for name in ARCHITECTURE}


def _mean_bouts(night: Hypnogram) -> dict[str, float]:
    """Return the mean lengths of NREM and REM bouts; NaN if the stages do not tell them apart."""
    try:
        bouts = bouts_of(night.merge(WNR3).labels)
    except InputError:
        return dict.fromkeys(_BOUTS, NAN)
    lengths = {name: bouts.lengths[bouts.stages == WNR3.index(stage)] for name, stage in _BOUTS.items()}
    minutes = night.epoch_seconds / 60
    return {name: float(each.mean()) * minutes if len(each) else NAN for name, each in lengths.items()}


def night_errors(scorings: Mapping[str, Hypnogram], options: StatisticsOptions = AASM) -> Errors:
    """Return the absolute errors of a night's other scorings against the one called `expert`.

    Epochs that the expert left unscored do not count. A quantity that either side does not have is left out,
    apart from REM that is never shown: see `never_shown`.
    """
    expert = scorings["expert"]
    # the length that both could have scored: beyond it no REM can come
    minutes = np.count_nonzero(expert.labels != UNSCORED) * expert.epoch_seconds / 60
    truth = architecture(expert, options)
    errors: dict[str, dict[str, float]] = {}
    for name, scoring in scorings.items():
        if name != "expert":
            values = architecture(where_scored(expert, scoring), options)
            # a night whose REM was removed must not drop out of the mean error of REM latency
            values = {k: never_shown(k, minutes) if isnan(value) else value for k, value in values.items()}
            differences = {key: abs(values[key] - value) for key, value in truth.items()}
            errors[name] = {key: error for key, error in differences.items() if not isnan(error)}
    return errors


def never_shown(quantity: str, minutes: float) -> float:
    """Return the value of a quantity that the expert has and a night of so many minutes does not.

    REM then comes at the end of the night, in bouts of no length, so that removing all REM is an error. Other
    quantities are NaN, which leaves the night out.
    """
    return {"rem_latency_minutes": minutes, "rem_bout_minutes": 0.0}.get(quantity, NAN)


def architecture_errors(
    nights: Mapping[str, Errors], subjects: Mapping[str, str] | None = None
) -> tuple[list[ArchitectureError], str]:
    """Return the mean absolute errors of all nights, and why there is no test, if there is none.

    `nights` are the `night_errors` of each; by default every night is of a different subject.
    """
    rows, missing = [], ""
    for quantity in ARCHITECTURE:
        before, after = (
            _by_subject(nights, subjects or {}, scoring, quantity) for scoring in ("before", "after")
        )
        if not before and not after:
            continue
        try:
            compared = paired(before, after)
        # without scipy the means are still worth showing
        except MissingExtraError as error:
            compared, missing = estimate(after), str(error)
        gain = improvement_percent(before, after)
        rows.append(ArchitectureError(quantity, estimate(before), compared, gain))
    return rows, missing


def _by_subject(
    nights: Mapping[str, Errors], subjects: Mapping[str, str], scoring: str, quantity: str
) -> dict[str, float]:
    """Return the mean error of each subject's nights."""
    errors: dict[str, list[float]] = {}
    for night, by_scoring in nights.items():
        if quantity in by_scoring.get(scoring, {}):
            # several nights of one person are not independent
            errors.setdefault(subjects.get(night, night), []).append(by_scoring[scoring][quantity])
    return {subject: float(np.mean(each)) for subject, each in errors.items()}
