"""Many nights as one table, before and after decoding, with a codebook. Reads and writes no files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stageguard.base.arrays import NAN, Floats
from stageguard.base.errors import InputError
from stageguard.measures.bouts import ScoredNight, hypnogram_of
from stageguard.measures.day import Moment, Stretch, lights_words
from stageguard.measures.statistics import Convention, SleepStatistics, sleep_statistics
from stageguard.measures.validity import validity
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile

# Scoring of a night -> whose it is.
SCORINGS = {
    "before": "the stager's most probable stages (argmax)",
    "after": "the stages decoded from them, or those of a hypnogram without a before",
    "expert": "the expert's scoring",
}

# Measure -> its title and, after a colon, what it is; and its unit. Measures of a stage are `<name>_<stage>`.
NIGHT_QUANTITIES = {
    "tib_minutes": ("Time in bed: lights off to lights on, or the recording", "min"),
    "spt_minutes": ("Sleep period time: first to last epoch of sleep", "min"),
    "tst_minutes": ("Total sleep time: epochs of sleep", "min"),
    "se_percent": ("Sleep efficiency: total sleep time in time in bed", "% of TIB"),
    "sme_percent": ("Sleep maintenance efficiency: total sleep time in the sleep period", "% of SPT"),
    "sol_minutes": ("Sleep onset latency: to the first epoch of sleep", "min"),
    "sol_5min_minutes": ("Latency to 5 min of sleep: without a break", "min"),
    "sol_10min_minutes": ("Latency to 10 min of sleep: without a break", "min"),
    "rem_latency_minutes": (
        "REM latency: from sleep onset, or from lights off by the yasa convention",
        "min",
    ),
    "waso_minutes": ("Wake after sleep onset: within the sleep period", "min"),
    "awakenings": ("Awakenings: wake bouts within the sleep period", "count"),
    "awakenings_with_final": ("Awakenings and the final one: wake bouts after sleep onset", "count"),
    "cycles": ("NREM-REM cycles: after Feinberg and Floyd", "count"),
    "sfi_per_hour": ("Sleep fragmentation index: changes from sleep to wake", "per hour of TST"),
    "unscored_minutes": ("Unscored time: within time in bed", "min"),
}
VALIDITY_QUANTITIES = {
    "fragmentation_index": ("Fragmentation index: stage changes", "per adjacent scored pair"),
    "transitions_per_hour": ("Stage changes per hour: of adjacent scored pairs", "per hour"),
    "tvr_percent": ("Uncommon transitions (TVR): those the profile counts", "% of adjacent scored pairs"),
    "tvr_per_change_percent": (
        "Uncommon transitions per change: those the profile counts",
        "% of stage changes",
    ),
    "tvr_per_hour": ("Uncommon transitions per hour: those the profile counts", "per hour"),
    "paper_tvr_percent": ("W to R and R to N: of the stages merged to W, N, R", "% of adjacent scored pairs"),
    "flips_per_hour": ("Flips per hour: A-B-A where B lasts one epoch", "per hour"),
}
STAGE_QUANTITIES = {
    "stage_minutes": ("Time in {stage}", "min"),
    "stage_percent": ("Share of {stage}", "% of TST"),
    "bouts": ("Bouts of {stage}", "count"),
    "mean_bout_minutes": ("Mean bout of {stage}: of complete bouts", "min"),
    "median_bout_minutes": ("Median bout of {stage}: of complete bouts", "min"),
    "one_epoch_bouts_percent": ("One-epoch bouts of {stage}: of complete bouts", "% of complete bouts"),
}
PHASE_QUANTITIES = {
    "stage_minutes": ("Time in {stage} in the {phase} phase", "min"),
    "stage_percent": ("Share of {stage} in the {phase} phase", "% of scored time"),
    "bouts": ("Bouts of {stage} in the {phase} phase: those that begin in it", "count"),
    "mean_bout_minutes": ("Mean bout of {stage} in the {phase} phase: of bouts that begin in it", "min"),
}
PHASES = ("light", "dark")
QUANTITIES = NIGHT_QUANTITIES | {"bouts": ("Bouts: of any stage", "count")} | VALIDITY_QUANTITIES


@dataclass(frozen=True, slots=True)
class StatisticsOptions:
    """How to take sleep statistics: see `stageguard.sleep_statistics`."""

    convention: Convention = "aasm"
    lights_off: Moment | None = None
    lights_on: Moment | None = None
    min_first_rem_seconds: float = 0.0
    lights_on_phase: str | None = None

    def measure(self, night: ScoredNight) -> SleepStatistics:
        """Return the statistics of a night."""
        return sleep_statistics(
            night,
            convention=self.convention,
            lights_off=self.lights_off,
            lights_on=self.lights_on,
            min_first_rem_seconds=self.min_first_rem_seconds,
            lights_on_phase=self.lights_on_phase,
        )


@dataclass(frozen=True, slots=True)
class Measures:
    """Every number of one scored night, and why those that are NaN do not exist."""

    values: Mapping[str, float]
    reasons: Mapping[str, str]
    assumed: tuple[str, ...] = ()
    hours: tuple[Stretch, ...] = ()
    lights: str = ""  # where lights cut the night, in words


@dataclass(frozen=True, slots=True)
class CohortNight:
    """One night of a cohort in up to three scorings.

    Attributes
    ----------
    night_id : str
        Names the row.
    before, after, expert : Hypnogram or None
        The stager's argmax, the decoded (or only) hypnogram, and an expert's.
    profile : Profile or None
        Whose bands and uncommon pairs to use; without one, validity is not measured.
    """

    night_id: str
    before: Hypnogram | None = None
    after: Hypnogram | None = None
    expert: Hypnogram | None = None
    profile: Profile | None = None

    @property
    def scorings(self) -> dict[str, Hypnogram]:
        """Those there are, an expert's in the stages of the others."""
        other = self.after if self.after is not None else self.before
        expert = self.expert
        if expert is not None and other is not None:
            expert = expert.merge(other.scheme)
        found = {"before": self.before, "after": self.after, "expert": expert}
        return {name: scoring for name, scoring in found.items() if scoring is not None}


@dataclass(frozen=True, slots=True)
class MeasuredNight:
    """A night of a cohort and its measures by scoring."""

    night_id: str
    measures: Mapping[str, Measures]

    @property
    def lights(self) -> str:
        """Where lights cut the night, in words; empty without lights."""
        return next(iter(self.measures.values())).lights


def measure(
    night: ScoredNight, profile: Profile | None = None, options: StatisticsOptions | None = None
) -> Measures:
    """Return sleep statistics and, where the profile is known, validity indicators of one scored night.

    Parameters
    ----------
    night : Hypnogram or Decoding
        The scored night; of a decoding, what it decided.
    profile : Profile, optional
        Whose uncommon pairs to count.
    options : StatisticsOptions, optional
        Convention, lights off and on.

    Returns
    -------
    Measures
        Values by the names of `QUANTITIES` and `STAGE_QUANTITIES`.
    """
    options = options or StatisticsOptions()
    statistics = options.measure(night)
    stages = hypnogram_of(night).scheme.names
    values = {name: float(getattr(statistics, name)) for name in NIGHT_QUANTITIES}
    values["bouts"] = float(sum(statistics.bouts.values()))
    reasons = dict(statistics.reasons)
    for kind in ("stage_minutes", "stage_percent", "bouts"):
        by_stage: Mapping[str, float] = getattr(statistics, kind)
        values |= {f"{kind}_{stage}": float(by_stage[stage]) for stage in stages if stage in by_stage}
        if kind in reasons:
            reasons |= {f"{kind}_{stage}": reasons[kind] for stage in stages}
    for phase, stretch in statistics.phases.items():
        for kind in PHASE_QUANTITIES:
            values |= {f"{kind}_{stage}_{phase}": float(getattr(stretch, kind)[stage]) for stage in stages}
    if profile is not None:
        valid = validity(night, profile, lights_off=options.lights_off, lights_on=options.lights_on)
        for name, indicator in valid.indicators.items():
            values[name] = float(indicator.value)
            if indicator.reason:
                reasons[name] = indicator.reason
    hours = statistics.hours if options.lights_on_phase is not None else ()
    lights_at = lights_words(hypnogram_of(night), options.lights_off, options.lights_on)
    return Measures(values, reasons, statistics.assumed, hours, lights_at)


def measure_night(night: CohortNight, options: StatisticsOptions | None = None) -> MeasuredNight:
    """Measure every scoring of a night in the same way."""
    measures = {name: measure(scoring, night.profile, options) for name, scoring in night.scorings.items()}
    if not measures:
        raise InputError(f"night {night.night_id!r} has no scoring, expected before, after or expert.")
    return MeasuredNight(night.night_id, measures)


@dataclass(frozen=True, slots=True, eq=False)
class CohortTable:
    """Measures of many nights.

    Attributes
    ----------
    night_ids : tuple of str
        One per row.
    names : tuple of str
        The measures.
    values : mapping
        By scoring, an array (n_nights, n_measures); NaN where a number does not exist.
    """

    night_ids: tuple[str, ...]
    names: tuple[str, ...]
    values: Mapping[str, Floats] = field(repr=False)

    def columns(self) -> dict[str, Floats]:
        """Return the numbers of each column: `<measure>_before`, `_after`, `_delta`, `_expert`."""
        columns = {}
        for place, name in enumerate(self.names):
            for scoring in ("before", "after"):
                if scoring in self.values:
                    columns[f"{name}_{scoring}"] = self.values[scoring][:, place]
            if {"before", "after"} <= self.values.keys():
                columns[f"{name}_delta"] = self.delta(name)
            if "expert" in self.values:
                columns[f"{name}_expert"] = self.values["expert"][:, place]
        return columns

    def of(self, name: str, scoring: str) -> Floats:
        """Return one measure of all nights, as one scoring has it."""
        return self.values[scoring][:, self.names.index(name)]

    def delta(self, name: str) -> Floats:
        """Return after minus before."""
        return self.of(name, "after") - self.of(name, "before")


def cohort_table(nights: Sequence[MeasuredNight]) -> CohortTable:
    """Return the measures of many nights as one table; a measure some nights lack is NaN there."""
    if not nights:
        raise InputError("no night is given, expected at least one.")
    twice = _first_twice(night.night_id for night in nights)
    if twice is not None:
        raise InputError(f"two nights are named {twice!r}, expected a name of its own for each.")
    names = tuple(
        dict.fromkeys(name for night in nights for own in night.measures.values() for name in own.values)
    )
    scorings = [name for name in SCORINGS if any(name in night.measures for night in nights)]
    values = {scoring: np.full((len(nights), len(names)), NAN) for scoring in scorings}
    for row, night in enumerate(nights):
        for scoring, own in night.measures.items():
            values[scoring][row] = [own.values.get(name, NAN) for name in names]
    return CohortTable(tuple(night.night_id for night in nights), names, values)


def describe_measure(name: str) -> tuple[str, str]:
    """Return what a measure is, and its unit."""
    if name in QUANTITIES:
        return QUANTITIES[name]
    for phase in PHASES:
        for kind, (text, unit) in PHASE_QUANTITIES.items():
            if name.startswith(f"{kind}_") and name.endswith(f"_{phase}"):
                stage = name.removeprefix(f"{kind}_").removesuffix(f"_{phase}")
                return text.format(stage=stage, phase=phase), unit
    for kind, (text, unit) in STAGE_QUANTITIES.items():
        if name.startswith(f"{kind}_"):
            return text.format(stage=name.removeprefix(f"{kind}_")), unit
    raise InputError(f"unknown measure {name!r}.")


def codebook(table: CohortTable) -> dict[str, dict[str, str]]:
    """Return what each column of a table is, with its unit."""
    book = {}
    for column in table.columns():
        name, _, scoring = column.rpartition("_")
        text, unit = describe_measure(name)
        whose = "after minus before" if scoring == "delta" else SCORINGS[scoring]
        book[column] = {"Description": f"{text}; {whose}", "Units": unit}
    return book


def _first_twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
