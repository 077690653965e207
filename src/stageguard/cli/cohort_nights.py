"""Read and measure the nights of a cohort one by one, with their lights, groups and expert scorings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from click import UsageError

from stageguard.cli.graded_files import refuse_ungraded
from stageguard.cli.scored_files import Experts, ReadOptions, ScoredFile, read_expert, read_night
from stageguard.errors import InputError
from stageguard.formats.companions import ListRow, read_groups
from stageguard.formats.density import listed
from stageguard.measures.cohort import CohortNight, MeasuredScorings, measure_night
from stageguard.measures.grade import GradeCard
from stageguard.measures.statistics import StatisticsOptions
from stageguard.report.summary import measures_of
from stageguard.runner.inputs import Input, lights_of, scoring_of

Groups = Mapping[str, ListRow]


@dataclass(frozen=True, slots=True)
class MeasuredInput:
    """One night as it was read, and its measures."""

    scored: ScoredFile
    scorings: CohortNight
    measured: MeasuredScorings
    measuring: StatisticsOptions  # with the lights of the night
    group: ListRow | None
    notes: tuple[str, ...]
    look_at: str  # why somebody should look at the night; empty if nothing says so


@dataclass(frozen=True, slots=True)
class CohortReader:
    """Reads and measures nights."""

    reading: ReadOptions
    measuring: StatisticsOptions
    groups: Groups
    experts: Experts
    card: GradeCard | None = None  # nights that it does not grade are refused

    @classmethod
    def of(
        cls,
        reading: ReadOptions,
        measuring: StatisticsOptions,
        by: Path | None,
        expert: Path | None,
        grade: Path | None,
    ) -> CohortReader:
        """Return a reader with the groups of a table and the experts that a path or the table names."""
        groups = {} if by is None else read_groups(by)
        named = {name: row.expert for name, row in groups.items() if row.expert is not None}
        card = None if grade is None else GradeCard.load(grade)
        return cls(reading, measuring, groups, Experts(expert, named), card)

    def refuse_one_expert(self, option: str) -> None:
        """Refuse a file with one night's scoring for several nights."""
        if self.experts.is_one_file:
            raise UsageError(
                f"{option} names one night's scoring: name a folder, or a table with the columns id and "
                "stage."
            )

    def group_notes(self, nights: Iterable[tuple[str, ListRow | None]]) -> list[str]:
        """Return remarks on nights without a group, and on rows of the table of groups without a night."""
        if not self.groups:
            return []
        rows = dict(nights)
        without = [name for name, group in rows.items() if group is None]
        used = {group.night_id for group in rows.values() if group is not None}
        return [
            *listed_nights("no group, so left out of the comparison", without),
            *listed_nights("in the table of groups, but not among the files", self.groups.keys() - used),
        ]

    def read(self, night: Input) -> MeasuredInput:
        """Read one night with its expert, and measure every scoring of it."""
        scored = read_night(night, self.reading)
        if self.card is not None:
            refuse_ungraded(self.card, night.path, scored)
        group = self.groups.get(night.id) or self.groups.get(night.path.name)
        expert_id = group.night_id if group and group.expert else night.id
        path = scoring_of(night) or self.experts.path_for(expert_id)
        expert = None if path is None else read_expert(path, scored.final, self.reading)
        lights = lights_of(night, *self.measuring.lights)
        measuring = replace(self.measuring, lights_off=lights.off, lights_on=lights.on)
        scorings = CohortNight(
            *(night.id, scored.before, scored.after, expert, scored.profile),
            *(scored.steered, scored.decoded, scored.period),
        )
        measured = measure_night(scorings, measuring)
        notes = [*scored.notes, *lights.notes]
        decoding = scored.decoding
        look_at = scored.recorded.look_at if decoding is None else measures_of(decoding, measuring).look_at
        return MeasuredInput(scored, scorings, measured, measuring, group, tuple(notes), look_at)


def grouping(
    nights: Iterable[tuple[str, ListRow | None]], groups: Groups
) -> tuple[dict[str, str], dict[str, str]]:
    """Return groups and subjects by night id, in the order of the table of groups."""
    nights = list(nights)
    id_of = {row.night_id: name for name, row in nights if row is not None}
    if groups and not id_of:
        names = listed([name for name, _ in nights], 3)
        raise InputError(
            f"no night is in the table of groups: the nights are called {names}, the ids of the table are "
            f"{listed(list(groups), 3)}. Expected the same names."
        )
    rows = {id_of[name]: row for name, row in groups.items() if name in id_of}
    subjects = {name: row.subject for name, row in rows.items() if row.subject}
    return {name: row.group for name, row in rows.items()}, subjects


def listed_nights(what: str, names: Iterable[str]) -> list[str]:
    """Return a remark that names some nights, or nothing if there are none."""
    names = sorted(names)
    if not names:
        return []
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return [f"{what}: {', '.join(names[:5])}{more}"]
