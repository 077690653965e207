"""Write the files of `stats`: nights, group differences, estimates, errors, hours, each with a codebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stageguard.files import CELL_WORDS, write_together
from stageguard.formats.outputs import REVIEW_SENTENCE, table_with_codebook
from stageguard.measures.cohort import (
    ERRORS_METHOD,
    ArchitectureError,
    CohortTable,
    GroupDifference,
    MeasuredScorings,
    codebook,
    cohort_table,
)
from stageguard.measures.grade import NOT_GRADED, GradeCard
from stageguard.measures.samples import METHOD_OF_GROUPS
from stageguard.measures.statistics import StatisticsOptions
from stageguard.night.quantities import quantity_of
from stageguard.version import __version__

SCORING_NAMES = {"before": "argmax", "after": "guard", "expert": "expert"}

OWN_COLUMNS = {
    "id": {"Description": "Name of the night: the file's, without what tells its format"},
    "group": {"Description": "Group of the night"},
    "start": {"Description": "When the sleep begins; without a clock, seconds since the recording starts"},
    "end": {"Description": "When it ends, likewise"},
    "profile": {"Description": "Profile whose bands and uncommon transitions were used; n/a without one"},
    "n_epochs": {"Description": "Epochs of the recording", "Units": "count"},
    "epoch_seconds": {"Description": "Length of an epoch", "Units": "s"},
    "epochs_changed": {"Description": "Epochs whose stage decoding changed", "Units": "count"},
}
GROUP_COLUMNS = {
    "measure": {"Description": "What was measured; the codebook of the nights says what it is"},
    "unit": {"Description": "Unit of means, standard deviations and difference"},
    "scoring": {
        "Description": "Whose stages",
        "Levels": {"argmax": "the stager's most probable", "guard": "decoded", "expert": "the expert's"}
        | {"scored": "those of a hypnogram without a before"},
    },
    "group_1": {"Description": "First group"},
    "group_2": {"Description": "Second group"},
    "n_1": {"Description": "Values in the first group", "Units": "count"},
    "n_2": {"Description": "Values in the second group", "Units": "count"},
    "mean_1": {"Description": "Mean of the first group", "Units": "see unit"},
    "mean_2": {"Description": "Mean of the second group", "Units": "see unit"},
    "sd_1": {"Description": "Standard deviation (n - 1) of the first group", "Units": "see unit"},
    "sd_2": {"Description": "Standard deviation (n - 1) of the second group", "Units": "see unit"},
    "difference": {"Description": "Mean of the first minus mean of the second group", "Units": "see unit"},
    "ci95_low": {
        "Description": "Welch's 95 % confidence interval of the difference, low",
        "Units": "see unit",
    },
    "ci95_high": {"Description": "The same, high", "Units": "see unit"},
    "cohens_d": {"Description": "Difference in pooled standard deviations", "Units": "1"},
    "d_ci95_low": {"Description": "95 % confidence interval of d (noncentral t), low", "Units": "1"},
    "d_ci95_high": {"Description": "The same, high", "Units": "1"},
    "steered": {
        "Description": "Whether the rule that set the strength brought it to what it aims at, on some nights",
        "Levels": {"yes": "it tells of the rule, not of the sleepers", "no": "not steered"},
    },
}
ERROR_COLUMNS = {
    "quantity": {"Description": "What the error is of; its name ends in the unit"},
    "n": {"Description": "Subjects with an error", "Units": "count"},
    "before_mean": {"Description": "Mean absolute error of the stager's most probable stages"},
    "before_sd": {"Description": "Its standard deviation (n - 1)"},
    "after_mean": {"Description": "Mean absolute error of decoded stages, or of those without a before"},
    "after_sd": {"Description": "Its standard deviation (n - 1)"},
    "improvement_percent": {"Description": "How much less the mean error is after; below 0 it grew"},
    "p": {"Description": "Wilcoxon signed-rank test of after against before, two-sided", "Units": "1"},
    "rank_biserial": {"Description": "Effect size: -1 where every error is less after", "Units": "1"},
}
HOUR_COLUMNS = {
    "id": OWN_COLUMNS["id"],
    "scoring": GROUP_COLUMNS["scoring"],
    "place": {"Description": "Place of the hour in the recording, counted from 0"},
    "hour": {"Description": "Hour after lights on: ZT 0 is the first"},
    "scored_minutes": {"Description": "Scored time in this hour", "Units": "min"},
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a row says about a night besides its measures."""

    group: str | None
    profile: str | None
    n_epochs: int
    epoch_seconds: float
    epochs_changed: int | None
    start: str | None = None  # of a sleep, where rows are sleeps
    end: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """All results of `stats`."""

    nights: Sequence[MeasuredScorings]
    facts: Sequence[Facts]
    table: CohortTable
    options: StatisticsOptions
    differences: Sequence[GroupDifference] = ()
    errors: Sequence[ArchitectureError] = ()  # of sleep architecture, against experts
    sources: Mapping[str, Any] = field(default_factory=dict)  # night -> files
    card: GradeCard | None = None  # that grades the statistics of the nights

    @property
    def compared(self) -> CohortTable:
        """The table to set beside experts: each night on the epochs that its expert scored."""
        return cohort_table([night.compared for night in self.nights])

    @property
    def grade(self) -> dict[str, Any] | None:
        """The mark of each statistic, and the card it is from; None without a card."""
        if self.card is None:
            return None
        marks = {name: self.card.mark(name) for name in self.table.names}
        return {"card_sha256": self.card.sha256, "stager": self.card.facts.stager, "marks": marks}


def scoring_names(scorings: Iterable[str]) -> dict[str, str]:
    """Return the names of scorings in a table; stages without a before are scored, not the guard's."""
    present = set(scorings)
    return SCORING_NAMES | ({} if "before" in present else {"after": "scored"})


def write_cohort(cohort: Cohort, path: Path, *, overwrite: bool, spare: Iterable[Path] = ()) -> list[Path]:
    """Write the tables and codebooks, all or none, and never over a file in `spare`; return the paths."""
    names = scoring_names(cohort.table.values)
    differences = [list(difference_dict(each, names).values()) for each in cohort.differences]
    errors = [list(each.to_dict().values()) for each in cohort.errors]
    tables: list[tuple[str, Mapping[str, Any], list[list[Any]], dict[str, Any]]] = [
        ("", *_nights(cohort), _nights_origin(cohort)),
        ("-groups", GROUP_COLUMNS, differences, {"method": METHOD_OF_GROUPS}),
        ("-errors", ERROR_COLUMNS, errors, {"method": ERRORS_METHOD}),
        ("-hours", *_hours(cohort.nights, names), {}),
    ]
    contents: dict[Path, str | bytes] = {}
    for ending, header, rows, facts in tables:
        if rows or not ending:
            file = path if not ending else path.with_name(f"{path.stem}{ending}.tsv")
            origin = {"version": __version__, "review": REVIEW_SENTENCE, **facts}
            contents |= table_with_codebook(file, header, rows, {**header, "stageguard": origin}, digits=10)
    write_together(contents, overwrite=overwrite, spare=spare)
    return list(contents)


def difference_dict(compared: GroupDifference, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a group difference in plain types, under the names of its columns."""
    unit, scoring, result = quantity_of(compared.measure).unit, names[compared.scoring], compared.result
    values = (
        *(compared.measure, unit, scoring, compared.first, compared.second),
        *(result.n_first, result.n_second, result.mean_first, result.mean_second),
        *(result.sd_first, result.sd_second, result.difference, result.low, result.high),
        *(result.d, result.d_low, result.d_high, "yes" if compared.is_steered else "no"),
    )
    return dict(zip(GROUP_COLUMNS, values, strict=True))


def _nights(cohort: Cohort) -> tuple[dict[str, Any], list[list[Any]]]:
    """Return the codebook of the nights' columns, and one row per night."""
    absent = {name for name in ("group", "start", "end") if not any(getattr(f, name) for f in cohort.facts)}
    head = {name: meaning for name, meaning in OWN_COLUMNS.items() if name not in absent}
    columns = cohort.table.columns()
    rows = []
    for index, (night, facts) in enumerate(zip(cohort.nights, cohort.facts, strict=True)):
        known = [getattr(facts, name) for name in head if name != "id"]
        rows.append([night.night_id, *known, *(float(values[index]) for values in columns.values())])
    return head | codebook(cohort.table), rows


def _nights_origin(cohort: Cohort) -> dict[str, Any]:
    options = cohort.options
    return {
        "convention": options.convention,
        "lights_off": options.lights_off,
        "lights_on": options.lights_on,
        "lights_on_phase": options.lights_on_phase,
        "lights": {night.night_id: lights for night in cohort.nights if (lights := night.lights)},
        "missing_value": "n/a",
        "text": CELL_WORDS,
        "assumptions": {night.night_id: _by_scoring(night, "assumed") for night in cohort.nights},
        "reasons": {night.night_id: _by_scoring(night, "reasons") for night in cohort.nights},
        "files": cohort.sources,
        "grade": cohort.grade or NOT_GRADED,
    }


def _by_scoring(night: MeasuredScorings, name: str) -> dict[str, Any]:
    return {scoring: getattr(each, name) for scoring, each in night.measures.items() if getattr(each, name)}


def _hours(
    nights: Iterable[MeasuredScorings], names: Mapping[str, str]
) -> tuple[dict[str, Any], list[list[Any]]]:
    """Return the codebook of the hours' columns, and one row per night, scoring and hour."""
    hours = [
        (night.night_id, names[scoring], place, hour)
        for night in nights
        for scoring, measures in night.measures.items()
        for place, hour in enumerate(measures.hours)
    ]
    stages = dict.fromkeys(stage for *_, hour in hours for stage in hour.stage_percent)
    header: dict[str, Any] = dict(HOUR_COLUMNS)
    header |= {f"percent_{s}": {"Description": f"Share of {s}", "Units": "% of scored time"} for s in stages}
    header |= {
        f"bouts_{s}": {"Description": f"Bouts of {s} that begin in it", "Units": "count"} for s in stages
    }
    rows = [
        [name, scoring, place, hour.name, hour.scored_minutes]
        + [hour.stage_percent.get(stage) for stage in stages]
        + [hour.bouts.get(stage) for stage in stages]
        for name, scoring, place, hour in hours
    ]
    return header, rows
