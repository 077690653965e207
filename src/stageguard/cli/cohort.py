"""The nights of `stats`: read, measured, compared by groups, and written as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base.errors import InputError, Message, message_of
from stageguard.cli.inputs import Input, Inputs, lights_of, scoring_of
from stageguard.cli.present import run_shown
from stageguard.cli.scored_files import Experts, ReadOptions, ScoredFile, read_night
from stageguard.formats.cohort_files import Cohort, Facts, difference_dict, scoring_names, write_cohort
from stageguard.formats.companions import GroupedNight, read_groups
from stageguard.formats.sample_lists import in_list_words
from stageguard.measures.cohort import (
    CohortNight,
    MeasuredNight,
    cohort_table,
    measure_night,
)
from stageguard.measures.groups import METHOD, GroupDifference, group_differences
from stageguard.measures.statistics import StatisticsOptions
from stageguard.runner.run import Outcome

Groups = Mapping[str, GroupedNight]
MOST_LIGHTS = 5  # different ones that are printed


@dataclass(frozen=True, slots=True)
class Request:
    """What `stats` was asked for."""

    inputs: Inputs
    reading: ReadOptions
    measuring: StatisticsOptions
    by: Path | None = None
    expert: Path | None = None
    output: Path | None = None
    overwrite: bool = False
    samples: Path | None = None


@dataclass(frozen=True, slots=True)
class StatsNight:
    """What was measured of one night."""

    measured: MeasuredNight
    facts: Facts
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        facts, measures = self.facts, self.measured.measures
        content: dict[str, Any] = {
            "profile": facts.profile,
            "group": facts.group,
            "n_epochs": facts.n_epochs,
            "epoch_seconds": facts.epoch_seconds,
            "epochs_changed": facts.epochs_changed,
            "lights": self.measured.lights,
        }
        content |= {scoring: dict(each.values) for scoring, each in measures.items()}
        if {"before", "after"} <= measures.keys():
            before, after = content["before"], content["after"]
            content["delta"] = {name: after[name] - value for name, value in before.items()}
        reasons = {scoring: dict(each.reasons) for scoring, each in measures.items() if each.reasons}
        hours = {
            scoring: [_hour(one) for one in each.hours] for scoring, each in measures.items() if each.hours
        }
        return content | {"reasons": reasons, "notes": list(self.notes)} | ({"hours": hours} if hours else {})


@dataclass(slots=True)
class CohortResult:
    """What came of it: an outcome per file, the cohort unless every file failed, files written, remarks."""

    outcomes: list[Outcome[StatsNight]] = field(default_factory=list)
    cohort: Cohort | None = None
    written: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        content: dict[str, Any] = {"nights": [outcome.to_dict() for outcome in self.outcomes]}
        if self.cohort is not None and self.cohort.differences:
            names = scoring_names(self.cohort.table.values)
            content["groups"] = [difference_dict(found, names) for found in self.cohort.differences]
            content["method"] = METHOD
        return content | {"notes": self.notes, "outputs": [str(path) for path in self.written]}


def run_cohort(request: Request, *, quiet: bool) -> CohortResult:
    """Measure every file, compare groups where asked to, and write the tables."""
    groups = {} if request.by is None else read_groups(request.by)
    runner = _Runner(request, groups)
    nights = request.inputs.nights
    result = CohortResult(run_shown(runner.run, nights, "Measuring", quiet=quiet))
    result.notes = list(request.inputs.notes)
    if not runner.nights:
        return result
    table = cohort_table(runner.nights)
    differences: tuple[GroupDifference, ...] = ()
    if groups:
        name_of = {found.night_id: name for name, found in runner.group_of.items() if found}
        own = {name_of[row]: found for row, found in groups.items() if row in name_of}
        subjects = {name: found.subject for name, found in own.items() if found.subject is not None}
        try:
            differences = group_differences(
                table, {name: found.group for name, found in own.items()}, subjects=subjects
            )
        except InputError as error:
            failed = [outcome.error for outcome in result.outcomes if outcome.error is not None]
            if not failed:
                raise
            count = f" {len(failed)} files failed, the first: "
            raise InputError(Message(message_of(error), count, failed[0])) from None
    result.cohort = Cohort(runner.nights, runner.facts, table, request.measuring, differences, runner.sources)
    result.notes += runner.notes()
    if request.output is not None:
        files = [path for night in nights for path in night.files]
        read = [request.by, request.expert, request.samples, *files]
        read += [night.path.with_suffix(".json") for night in nights]  # where `decode` says what it did
        spare = [path for path in read if path is not None]
        result.written = write_cohort(result.cohort, request.output, overwrite=request.overwrite, spare=spare)
    return result


class _Runner:
    """Measures files one by one and keeps what the table needs."""

    def __init__(self, request: Request, groups: Groups) -> None:
        self._request, self._groups = request, groups
        named = {name: found.expert for name, found in groups.items() if found.expert is not None}
        self._experts = Experts(request.expert, named)
        listed = any(night.scoring not in (None, night.path) for night in request.inputs.nights)
        self._wants_experts = request.expert is not None or bool(named) or listed
        self.nights: list[MeasuredNight] = []
        self.facts: list[Facts] = []
        self.sources: dict[str, dict[str, str]] = {}
        self.group_of: dict[str, GroupedNight | None] = {}

    def run(self, night: Input) -> StatsNight:
        """Measure one night."""
        path, name = night.path, night.name
        scored = read_night(night, self._request.reading)
        if name in self.sources:
            raise InputError(
                f"is night {name!r} like {self.sources[name]['file']}. Rename one, or leave one out."
            )
        group = self._groups.get(name) or self._groups.get(path.name)
        key = name if group is None else group.night_id
        expert = self._experts.read(
            key if group and group.expert else name, scored.final, self._request.reading, scoring_of(night)
        )
        own = CohortNight(name, scored.before, scored.after, expert, scored.profile)
        asked = self._request.measuring
        lights = lights_of(night, asked.lights_off, asked.lights_on)
        measuring = replace(asked, lights_off=lights.off, lights_on=lights.on)
        try:
            measured = measure_night(own, measuring)
        except InputError as error:
            raise (in_list_words(error) if lights.is_listed else error) from None
        self.nights.append(measured)
        facts = _facts(scored, group)
        self.facts.append(facts)
        self.group_of[name] = group
        self.sources[name] = {"file": path.name}
        if expert is not None and expert.scorer is not None:
            self.sources[name]["expert"] = expert.scorer
        known = {"lights_off": lights.off, "lights_on": lights.on}
        options = {"lights_off": asked.lights_off, "lights_on": asked.lights_on}
        self.sources[name] |= {key: str(value) for key, value in known.items() if value != options[key]}
        return StatsNight(measured, facts, (*scored.notes, *lights.notes))

    def notes(self) -> list[str]:
        """Return what the reader of the tables should know."""
        notes = []
        names = [night.night_id for night in self.nights]
        if self._groups:
            used = {found.night_id for found in self.group_of.values() if found}
            without = [name for name in names if self.group_of[name] is None]
            notes += _listed("no group, so left out of the comparison", without)
            notes += _listed("in the table of groups, but not among the files", [*self._groups.keys() - used])
        if self._wants_experts:
            without = [night.night_id for night in self.nights if "expert" not in night.measures]
            notes += _listed("no expert's scoring", without)
        bare = [name for name, facts in zip(names, self.facts, strict=True) if facts.profile is None]
        notes += _listed("no profile (--profile), so validity is not measured", bare)
        assumed: dict[str, dict[str, None]] = {}
        for night in self.nights:
            for text in (text for own in night.measures.values() for text in own.assumed):
                assumed.setdefault(text, {}).setdefault(night.night_id)
        lights: dict[str, list[str]] = {}
        for night in self.nights:
            if night.lights:
                lights.setdefault(night.lights, []).append(night.night_id)
        if len(lights) > MOST_LIGHTS:
            notes.append("lights off and on differ from night to night: --json and the codebook list them")
        else:
            for text, of in lights.items():
                notes += [text] if len(of) == len(names) else _listed(text, of)
        for text, nights in assumed.items():
            notes += [text] if len(nights) == len(names) else _listed(text, list(nights))
        return notes


def _listed(what: str, names: list[str]) -> list[str]:
    """Return a remark on some nights, or none."""
    if not names:
        return []
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return [f"{what}: {', '.join(sorted(names)[:5])}{more}"]


def _facts(scored: ScoredFile, group: GroupedNight | None) -> Facts:
    changed = None
    if scored.before is not None and scored.after is not None:
        before, after = scored.before.labels, scored.after.labels
        changed = int(np.count_nonzero((before != after) & (before >= 0)))
    return Facts(
        None if group is None else group.group,
        None if scored.profile is None else scored.profile.name,
        scored.final.n_epochs,
        scored.final.epoch_seconds,
        changed,
    )


def _hour(hour: Any) -> dict[str, Any]:
    return {
        "hour": hour.name,
        "scored_minutes": hour.scored_minutes,
        "stage_percent": dict(hour.stage_percent),
        "bouts": dict(hour.bouts),
    }
