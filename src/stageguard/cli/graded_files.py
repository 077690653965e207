"""Read a stager's nights with the experts who scored them, to be graded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from click import UsageError

from stageguard.cli.scored_files import (
    ALIGNED_BY,
    Experts,
    ReadOptions,
    ScoredFile,
    read_expert,
    read_night,
    refuse_guess,
)
from stageguard.cli.terminal import naming_nights
from stageguard.errors import InputError
from stageguard.files import real_path
from stageguard.formats.companions import ListRow
from stageguard.formats.outputs import describe_file, is_output, output_paths, read_sidecar
from stageguard.formats.read import has_column
from stageguard.measures.experts import refuse_copies
from stageguard.measures.grade import GradeCard, GradedNight, GradeFacts, measure_panel, one_of
from stageguard.measures.statistics import StatisticsOptions
from stageguard.night.align import align, on_epochs_of
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.timing import Moment
from stageguard.runner.inputs import Input, lights_of, natural
from stageguard.runner.run import collect_warnings
from stageguard.storage import is_folder


@dataclass(frozen=True, slots=True)
class Expert:
    """One expert: a folder, file or table of scorings, and the column that is this expert's."""

    name: str
    source: Path | None
    scorings: Experts
    column: str | None = None

    def describe(self, path: Path, night: str, folder: Path) -> dict[str, Any]:
        """Return the entry of a card for the file with a scoring."""
        if self.scorings.kind == "table" and self.source is not None:
            return describe_file(self.source, folder=folder) | {"night": night}
        return describe_file(path, folder=folder)


def find_experts(
    paths: Sequence[Path], columns: Sequence[str], named: Mapping[str, Path]
) -> tuple[Expert, ...]:
    """Return the experts: each path is one, each folder in a folder of folders, or each named column.

    `named` are scorings that lists name, which are the first expert's.
    """
    sources = [each for path in paths for each in _folders_in(path)]
    seen: dict[Path, Path] = {}
    for path in sources:
        first = seen.setdefault(real_path(path), path)
        if first is not path:
            raise UsageError(f"{str(path)!r} is named twice, expected each expert once. Leave one out.")
    if not sources:
        listed = Experts(None, named)
        experts = [Expert("expert", None, listed, column) for column in columns or (None,)] if named else []
    else:
        opened = [(path, Experts(path, named if path is sources[0] else None)) for path in sources]
        experts = [
            Expert(path.name, path, scorings, column)
            for path, scorings in opened
            for column in columns or (None,)
        ]
    return tuple(replace(each, name=_unique(each, experts)) for each in experts)


def _folders_in(path: Path) -> list[Path]:
    """Return the folders in a folder that holds nothing else, a folder per expert; else the path itself."""
    if not is_folder(path):
        return [path]
    inside = [each for each in sorted(path.iterdir(), key=natural) if not each.name.startswith(".")]
    return inside if inside and all(is_folder(each) for each in inside) else [path]


def _unique(expert: Expert, experts: Sequence[Expert]) -> str:
    """Return a name that tells an expert from the others."""
    for name in (expert.column or expert.name, f"{expert.name} {expert.column or ''}".strip()):
        if sum(name in (each.column or each.name, f"{each.name} {each.column}") for each in experts) == 1:
            return name
    return f"{expert.source} {expert.column or ''}".strip()


@dataclass(frozen=True, slots=True)
class GradedFile:
    """A measured night, and how its file says it was made."""

    night: GradedNight
    facts: GradeFacts
    notes: tuple[str, ...]
    pairs: tuple[tuple[Hypnogram, Hypnogram] | None, ...]  # each expert's scoring and the night

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        scored_by = sum(self.night.scored_by)
        return {"person": self.night.person, "n_experts": scored_by, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class GradeReader:
    """Reads nights and measures them by stager and experts."""

    options: ReadOptions
    experts: Sequence[Expert]
    people: Mapping[str, ListRow]
    lights: tuple[Moment | None, Moment | None]
    align: bool
    folder: Path  # of the card, from which the paths of files are recorded

    def read(self, night: Input) -> GradedFile:
        """Read and measure one night."""
        who = self.people.get(night.id) or self.people.get(night.path.name)
        if self.people and who is None:
            raise InputError(f"night {night.id!r} is not in the table of subjects, expected a row for it.")
        paths = [expert.scorings.path_for(night.id) for expert in self.experts]
        n_scored = sum(path is not None for path in paths)
        if n_scored < min(2, len(paths)):
            raise InputError(
                f"{n_scored} of {len(paths)} experts scored night {night.id!r}, expected "
                f"{'two or more' if len(paths) > 1 else 'a scoring of this name'}."
            )
        lights = lights_of(night, *self.lights)
        graded = self.measure(night, paths, (lights.off, lights.on), who.subject if who else night.id)
        entry = self._describe(night, paths, (lights.off, lights.on))
        return replace(graded, night=replace(graded.night, files=entry), notes=(*graded.notes, *lights.notes))

    def measure(
        self,
        night: Input,
        paths: Sequence[Path | None],
        lights: tuple[Moment | None, Moment | None],
        person: str,
    ) -> GradedFile:
        """Measure one night by the experts' files, None where one did not score it."""
        scored = read_night(night, self.options)
        panel = [
            None if path is None else self._scoring(path, expert, night.path, scored)
            for path, expert in zip(paths, self.experts, strict=True)
        ]
        named = [
            str(path) if expert.column is None and expert.scorings.kind == "folder" else expert.name
            for path, expert in zip(paths, self.experts, strict=True)
        ]
        with naming_nights([*named, night.file]):
            refuse_copies(panel, scored.final, scored.before)
        measuring = StatisticsOptions(lights_off=lights[0], lights_on=lights[1])
        final = scored.final
        if self.align:
            names = [night.path.name, *(path.name for path in paths if path is not None)]
            final, panel = _aligned(final, panel, names)
        measured = measure_panel(night.id, person, final, panel, measuring)
        pairs = tuple(None if each is None else (each, final) for each in panel)
        return GradedFile(measured, facts_of(night.path, scored), scored.notes, pairs)

    def _scoring(self, path: Path, expert: Expert, night: Path, scored: ScoredFile) -> Hypnogram:
        """Return an expert's scoring of a night, on its epochs unless they are aligned later."""
        options = self.options
        if expert.column is not None:
            if not has_column(path, expert.column):
                raise InputError(f"{path.name} has no column {expert.column!r}, expected one for the expert.")
            options = replace(options, column=expert.column)
        scoring = read_expert(path, scored.final, options, ALIGNED_BY)
        if scored.is_length_assumed:
            refuse_guess(night, scored.final, scoring, "--epoch-seconds")
        if self.align:
            return scoring
        with naming_nights([path.name if expert.column is None else expert.name, night.name]):
            return on_epochs_of(scored.final, scoring)

    def _describe(
        self,
        night: Input,
        paths: Sequence[Path | None],
        lights: tuple[Moment | None, Moment | None],
    ) -> dict[str, Any]:
        """Return the entry of a card on the files of a night."""
        described = describe_file(night.table or night.path, folder=self.folder)
        moments = {"lights_off": lights[0], "lights_on": lights[1], "start": night.start}
        return {
            "night": described | ({"night": night.id} if night.table else {}),
            "experts": [
                None if path is None else expert.describe(path, night.id, self.folder)
                for path, expert in zip(paths, self.experts, strict=True)
            ],
        } | {
            key: value.isoformat() if isinstance(value, datetime) else str(value)
            for key, value in moments.items()
            if value is not None
        }


def is_decoded(scored: ScoredFile) -> bool:
    """Whether a file is an output of `decode`."""
    return scored.before is not None and scored.after is not None


def facts_of(path: Path, scored: ScoredFile) -> GradeFacts:
    """Return stager, cohort and profile of a night, as its output of `decode` records them."""
    if not is_decoded(scored) or scored.profile is None:
        return GradeFacts()
    options = read_sidecar(output_paths(path).sidecar)["options"] if is_output(path) else {}
    profile = scored.profile
    return GradeFacts(options.get("stager"), options.get("cohort"), profile.name, profile.sha256)


def refuse_ungraded(card: GradeCard, path: Path, scored: ScoredFile) -> None:
    """Refuse a night of another stager, profile or scheme than those of a card."""
    card.refuse_other(scored.final, facts_of(path, scored))


def one_card(found: Sequence[GradeFacts], stager: str | None, cohort: str | None) -> GradeFacts:
    """Return the facts that all nights share; refuse nights of several profiles or stagers."""
    return GradeFacts(
        stager or one_of("stager", [facts.stager for facts in found]),
        cohort or one_of("cohort", [facts.cohort for facts in found]),
        one_of("profile", [facts.profile for facts in found]),
        one_of("profile", [facts.profile_sha256 for facts in found]),
    )


def _aligned(
    night: Hypnogram, panel: Sequence[Hypnogram | None], names: Sequence[str]
) -> tuple[Hypnogram, list[Hypnogram | None]]:
    """Cut a night and its scorings to the epochs they share, at the first expert's epoch length."""
    there = [j for j, scoring in enumerate(panel) if scoring is not None]
    scorings = [scoring for scoring in panel if scoring is not None]
    with collect_warnings(), naming_nights(names):
        cut = align(night, *scorings, epoch_seconds=scorings[0].epoch_seconds).nights
    hypnograms = [each for each in cut if isinstance(each, Hypnogram)]
    placed = dict(zip(there, hypnograms[1:], strict=True))
    return hypnograms[0], [placed.get(j) for j in range(len(panel))]
