"""The files `stats` writes: nights, group differences, hours, each with a codebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from stageguard.base.files import CELL_WORDS, write_together
from stageguard.base.version import __version__
from stageguard.formats.codebooks import table_with_codebook
from stageguard.formats.outputs import REVIEW_SENTENCE
from stageguard.measures.cohort import (
    CohortTable,
    MeasuredNight,
    codebook,
)
from stageguard.measures.groups import METHOD, GroupDifference
from stageguard.measures.statistics import StatisticsOptions
from stageguard.night.quantities import quantity_of

SCORING_NAMES = {"before": "argmax", "after": "guard", "expert": "expert"}

OWN_COLUMNS = {
    "id": {"Description": "Name of the night: the file's, without what tells its format"},
    "group": {"Description": "Group of the night"},
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


@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """Everything `stats` found."""

    nights: Sequence[MeasuredNight]
    facts: Sequence[Facts]
    table: CohortTable
    options: StatisticsOptions
    differences: Sequence[GroupDifference] = ()
    sources: Mapping[str, Any] = field(default_factory=dict)  # night -> files


def scoring_names(scorings: Iterable[str]) -> dict[str, str]:
    """Return how a table calls the scorings; stages that nothing was decoded from are no guard's."""
    present = set(scorings)
    return SCORING_NAMES | ({} if "before" in present else {"after": "scored"})


def write_cohort(cohort: Cohort, path: Path, *, overwrite: bool, spare: Iterable[Path] = ()) -> list[Path]:
    """Write the tables and their codebooks, all or none and none over a file to spare; returns the paths."""
    names = scoring_names(cohort.table.values)
    contents = _with_codebook(path, *_nights(cohort), _nights_codebook(cohort))
    if cohort.differences:
        rows = [difference_dict(difference, names).values() for difference in cohort.differences]
        codebook_of_groups = GROUP_COLUMNS | {"stageguard": _origin() | {"method": METHOD}}
        contents |= _with_codebook(
            path.with_name(f"{path.stem}-groups.tsv"), GROUP_COLUMNS, rows, codebook_of_groups
        )
    if any(each.hours for night in cohort.nights for each in night.measures.values()):
        header, hours = _hours(cohort.nights, names)
        codebook_of_hours = header | {"stageguard": _origin()}
        contents |= _with_codebook(path.with_name(f"{path.stem}-hours.tsv"), header, hours, codebook_of_hours)
    write_together(contents, overwrite=overwrite, spare=spare)
    return list(contents)


_with_codebook = partial(table_with_codebook, digits=10)


def difference_dict(found: GroupDifference, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a group difference in plain types, under the names of its columns."""
    result = found.result
    return {
        "measure": found.measure,
        "unit": quantity_of(found.measure).unit,
        "scoring": names[found.scoring],
        "group_1": found.first,
        "group_2": found.second,
        "n_1": result.n_first,
        "n_2": result.n_second,
        "mean_1": result.mean_first,
        "mean_2": result.mean_second,
        "sd_1": result.sd_first,
        "sd_2": result.sd_second,
        "difference": result.difference,
        "ci95_low": result.low,
        "ci95_high": result.high,
        "cohens_d": result.d,
        "d_ci95_low": result.d_low,
        "d_ci95_high": result.d_high,
    }


def _nights(cohort: Cohort) -> tuple[list[str], list[list[Any]]]:
    own = _own_columns(cohort)
    columns = cohort.table.columns()
    rows = []
    for place, (night, facts) in enumerate(zip(cohort.nights, cohort.facts, strict=True)):
        first = {"id": night.night_id} | {name: getattr(facts, name) for name in own if name != "id"}
        rows.append([*first.values(), *(float(values[place]) for values in columns.values())])
    return [*own, *columns], rows


def _own_columns(cohort: Cohort) -> list[str]:
    return [name for name in OWN_COLUMNS if name != "group" or any(facts.group for facts in cohort.facts)]


def _nights_codebook(cohort: Cohort) -> dict[str, Any]:
    options = cohort.options
    own = _origin() | {
        "convention": options.convention,
        "lights_off": options.lights_off,
        "lights_on": options.lights_on,
        "lights_on_phase": options.lights_on_phase,
        "lights": {night.night_id: lights for night in cohort.nights if (lights := night.lights)},
        "missing_value": "n/a",
        "text": CELL_WORDS,
        "assumptions": {night.night_id: _merged(night, "assumed") for night in cohort.nights},
        "reasons": {night.night_id: _merged(night, "reasons") for night in cohort.nights},
        "files": cohort.sources,
    }
    columns = {name: OWN_COLUMNS[name] for name in _own_columns(cohort)}
    return columns | codebook(cohort.table) | {"stageguard": own}


def _merged(night: MeasuredNight, name: str) -> dict[str, Any]:
    """Return by scoring what there is to say about it."""
    return {scoring: getattr(own, name) for scoring, own in night.measures.items() if getattr(own, name)}


def _hours(
    nights: Iterable[MeasuredNight], names: Mapping[str, str]
) -> tuple[dict[str, Any], list[list[Any]]]:
    """Return one row per night, scoring and hour."""
    stages: dict[str, None] = {}
    found = [
        (night.night_id, names[scoring], place, hour)
        for night in nights
        for scoring, own in night.measures.items()
        for place, hour in enumerate(own.hours)
    ]
    for *_, hour in found:
        stages |= dict.fromkeys(hour.stage_percent)
    header: dict[str, Any] = dict(HOUR_COLUMNS)
    header |= {f"percent_{s}": {"Description": f"Share of {s}", "Units": "% of scored time"} for s in stages}
    header |= {
        f"bouts_{s}": {"Description": f"Bouts of {s} that begin in it", "Units": "count"} for s in stages
    }
    rows = [
        [name, who, place, hour.name, hour.scored_minutes]
        + [hour.stage_percent.get(stage) for stage in stages]
        + [hour.bouts.get(stage) for stage in stages]
        for name, who, place, hour in found
    ]
    return header, rows


def _origin() -> dict[str, Any]:
    return {"version": __version__, "review": REVIEW_SENTENCE}
