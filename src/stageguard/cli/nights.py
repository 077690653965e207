"""The nights of a command line as they are read: scored, with experts, in groups, or to be reviewed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from errno import ENOENT
from pathlib import Path
from typing import Any, cast

from click import UsageError

from stageguard.cli import options as opt
from stageguard.cli.command import packed
from stageguard.cli.terminal import count, naming_nights, with_names
from stageguard.errors import FileFormatError, InputError, NoInputError
from stageguard.files import file_error
from stageguard.formats.companions import ListRow, read_groups
from stageguard.formats.density import DEFAULT_EPOCH_SECONDS, listed
from stageguard.formats.file_format import Kind
from stageguard.formats.hypnogram import column_of_stages
from stageguard.formats.night import NOTHING_RECORDED, FileOptions, Night, Recorded
from stageguard.formats.outputs import TSV_SUFFIX, describe_file, is_output, output_paths, read_sidecar
from stageguard.formats.read import has_column, is_hypnogram, read_density_file, read_hypnogram_file
from stageguard.formats.registry import formats, named
from stageguard.formats.sniffing import first_lines, read_head
from stageguard.guard.decode import decode
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import hypnogram_before
from stageguard.measures.cohort import CohortNight, DecodedFacts, MeasuredScorings, measure_night
from stageguard.measures.experts import refuse_copies
from stageguard.measures.grade import GradeCard, GradedNight, GradeFacts, measure_panel, one_of
from stageguard.measures.statistics import StatisticsOptions
from stageguard.night.align import SPARE_EPOCHS, align, end_together, on_epochs_of
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.period import Period
from stageguard.night.quantities import Steering
from stageguard.night.stages import StageScheme
from stageguard.night.timing import Moment, recording_start, with_start
from stageguard.profile.profile import Profile
from stageguard.report.summary import measures_of
from stageguard.runner.decode_one import DecodeOptions, decode_file, reading_with, start_of
from stageguard.runner.inputs import (
    Input,
    Inputs,
    Wanted,
    describe_by,
    find_densities,
    find_inputs,
    is_named_after,
    is_night,
    is_own,
    is_sample_list,
    lights_of,
    natural,
    night_id,
    nights_of,
    read_samples,
    scoring_of,
    with_table_nights,
)
from stageguard.runner.run import collect_warnings
from stageguard.runner.verify import decode_recorded
from stageguard.storage import is_folder

KINDS: tuple[Kind, ...] = ("density", "hypnogram")
Lights = tuple[Moment | None, Moment | None]
ALIGNED_BY = "--align --expert-epoch-seconds"


def listed_nights(what: str, names: Iterable[str]) -> list[str]:
    """Return a remark that names some nights, or nothing if there are none."""
    return [f"{what}: {listed(found, 5)}"] if (found := sorted(names)) else []


# One scored night


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read the files."""

    profile: Profile | None = None
    scheme: StageScheme | None = None
    density: FileOptions = field(default_factory=FileOptions)
    scoring_format: str | None = None
    start: datetime | None = None
    decode: bool = False  # whether to decode probabilities instead of taking only their argmax
    expert_epoch_seconds: float | None = None  # where it differs from that of the nights
    column: str | None = None  # of the stages in tables of scorings

    @property
    def wanted(self) -> Wanted:
        """Which files in a folder count as nights."""
        names = () if self.profile is None else self.profile.scheme.names
        return Wanted("hypnogram", self.density.format, (*names, *(self.density.stages or ())))

    def of_hypnogram(self, scheme: StageScheme | None, epoch_seconds: float | None) -> FileOptions:
        """Return how to read a hypnogram; scheme and epoch length are used where nothing else says them."""
        return FileOptions(
            scheme=self.scheme,
            epoch_seconds=self.density.epoch_seconds,
            default_scheme=scheme,
            default_epoch_seconds=epoch_seconds,
            format=self.scoring_format,
            column=self.column,
        )


def read_options(options: ReadOptions, *, profile: str | None = None, **changes: Any) -> ReadOptions:
    """Return options that are checked, and with the profile loaded."""
    if options.scoring_format is not None:
        named(options.scoring_format, "hypnogram")  # refuse an unknown format once, not for every file
    loaded = None if profile is None else Profile.load(profile)
    density = options.density if loaded is None else reading_with(loaded, options.density)
    return replace(options, profile=loaded, density=density, **changes)


def _scored_reading(
    scheme: str | None, scoring_format: str | None, column: str | None, **reading: Any
) -> ReadOptions:
    stages = None if scheme is None else StageScheme.named(scheme)
    return ReadOptions(None, stages, opt.file_options(**reading), scoring_format, column=column)


scored_reading_options = packed(
    "reading", _scored_reading, *opt.READING, opt.scheme, opt.scoring_format, opt.column
)


@dataclass(frozen=True, slots=True)
class ScoredFile:
    """A night in a file: the stager's argmax, the final scoring, or both."""

    before: Hypnogram | None
    after: Hypnogram | None
    profile: Profile | None
    notes: tuple[str, ...] = ()
    decoding: Decoding | None = None  # if probabilities were decoded now
    recorded: Recorded = NOTHING_RECORDED  # by `decode`, if it wrote the file
    is_length_assumed: bool = False  # whether neither file nor options said how long an epoch is

    @property
    def steered(self) -> frozenset[Steering]:
        """What the profile steered on this night."""
        return self.recorded.steered if self.decoding is None else self.decoding.steered

    @property
    def decoded(self) -> DecodedFacts | None:
        """How the night was decoded, if it is known."""
        return self.recorded.decoded if self.decoding is None else DecodedFacts.of(self.decoding)

    @property
    def period(self) -> Period | None:
        """The sleep period that the night was decoded with, if it is known."""
        if self.decoding is None:
            return self.recorded.period
        return self.decoding.period if self.decoding.profile.measures_sleep_period else None

    @property
    def final(self) -> Hypnogram:
        """The final scoring: the decoded or scored stages if there are any, else the argmax."""
        final = self.after if self.after is not None else self.before
        assert final is not None
        return final

    def starting(self, start: datetime | None) -> ScoredFile:
        """Return the night with a start where its file says none."""
        both = self.before, self.after
        before, after = (None if each is None else with_start(each, start) for each in both)
        return replace(self, before=before, after=after)


def find_scored(files: Sequence[Path], samples: Path | None, options: ReadOptions) -> Inputs:
    """Return the scored nights, or nights of probabilities, in files, lists and tables."""
    return with_table_nights(find_inputs(files, samples, options.wanted))


def read_night(night: Input, options: ReadOptions) -> ScoredFile:
    """Read a night of a command's inputs; it begins when its recording or the sample list says."""
    start = start_of(night.edf, night.start)
    return read_scored(night.path, options if start is None else replace(options, start=start))


def read_scored(path: Path, options: ReadOptions) -> ScoredFile:
    """Read a hypnogram or probabilities, in the profile's scheme if there is a profile."""
    if is_folder(path):
        raise file_error(path, "is a folder, expected a file. Name the files in it.")
    scheme = options.scheme or (None if options.profile is None else options.profile.scheme)
    if has_column(path, options.column) or _is_scored(path, scheme, options.density.format):
        return _read_hypnogram(path, options).starting(options.start)
    try:
        return _read_probabilities(path, options).starting(options.start)
    except FileFormatError as error:
        name = column_of_stages(first_lines(read_head(path)))
        if name is None:
            raise
        why = f"has no column named stage, but stages in {name[:40]}. Say so: "
        raise file_error(path, why, f"column={name!r}", ".") from error


def _is_scored(path: Path, scheme: StageScheme | None, format: str | None) -> bool:
    """Whether a file holds stages, by the named format, else by its content."""
    able = {kind for form in formats() if form.name == format for kind in KINDS if form.does(kind)}
    return is_hypnogram(path, scheme) if format is None or len(able) == 2 else "hypnogram" in able


def _read_hypnogram(path: Path, options: ReadOptions) -> ScoredFile:
    profile = options.profile
    reading = options.of_hypnogram(
        None if profile is None else profile.scheme, options.density.default_epoch_seconds
    )
    file = read_scoring(path, replace(reading, format=reading.format or options.density.format))
    own = file.hypnogram.scheme
    scheme = own if profile is None else profile.scheme
    return ScoredFile(
        None if file.before is None else file.before.merge(scheme),
        file.hypnogram if profile is None else file.hypnogram.merge(scheme),
        profile or file.profile,
        file.notes,
        recorded=file.recorded if scheme == own else NOTHING_RECORDED,
        is_length_assumed=file.is_length_assumed,
    )


def read_scoring(path: Path, options: FileOptions) -> Night:
    """Read a hypnogram; outputs of `decode` need no --scoring-format."""
    return read_hypnogram_file(
        path, replace(options, format=None) if path.name.endswith(TSV_SUFFIX) else options
    )


def _read_probabilities(path: Path, options: ReadOptions) -> ScoredFile:
    profile = options.profile
    file = read_density_file(path, options.density)
    if profile is not None and options.decode:
        decoding = decode(file.density, profile)
        read = ScoredFile(hypnogram_before(decoding), decoding.hypnogram, profile, file.notes, decoding)
        return replace(read, is_length_assumed=file.is_length_assumed)
    scheme = options.scheme or (file.density.scheme if profile is None else profile.scheme)
    argmax = argmax_of(file.density.merge(scheme))
    return ScoredFile(argmax, None, profile, file.notes, is_length_assumed=file.is_length_assumed)


def argmax_of(density: Hypnodensity) -> Hypnogram:
    """Return the most probable stages of a hypnodensity."""
    labels, scheme, seconds = density.argmax, density.scheme, density.epoch_seconds
    return Hypnogram(labels, scheme, seconds, density.start, "argmax", offset_seconds=density.offset_seconds)


def decode_night(
    night: Path,
    profile: Profile | None,
    options: DecodeOptions,
    start: datetime | None,
    source: Path | None = None,
) -> tuple[Decoding, tuple[str, ...]]:
    """Decode probabilities with a profile, or an output of `decode` as recorded; also return remarks.

    `source` holds the probabilities of an output if they are not beside it.
    """
    if is_output(night):
        if profile is not None or options.to_dict() != DecodeOptions().to_dict():
            raise UsageError(
                f"{night.name} records its profile and options: leave them out, or name the probabilities."
            )
        return decode_recorded(night, start, source)
    if profile is None:
        raise UsageError("missing option --profile / -p: probabilities come without one.")
    return decode_file(night, profile, options, start)


# Experts


class Experts:
    """Expert scorings by the name of the night: in a folder, a table of nights, one file, or as listed."""

    def __init__(self, source: Path | None, named: Mapping[str, Path] | None = None) -> None:
        self._named = dict(named or {})
        self._file: Path | None = None
        self._found: dict[str, list[Path]] = {}
        self._doubtful: set[str] = set()  # nights without a file of a plain format
        self.kind = "list"  # where the scorings are, in one word for messages
        if source is None:
            return
        if not source.exists():
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(source))
        if is_folder(source):
            self.kind = "folder"
            self._search(source)
        elif of_table := nights_of(source):
            self.kind = "table"
            self._found = {name: [path] for name, path in of_table.items()}
        else:
            self._file = source

    def _search(self, folder: Path) -> None:
        files = [path for path in sorted(folder.iterdir()) if path.is_file() and not is_own(path)]
        ids = {night_id(path) for path in files if is_output(path)}  # beside them may lie what was decoded
        files = [path for path in files if night_id(path) in ids or not is_named_after(path.name, ids)]
        scored = [form for form in formats() if form.does("hypnogram")]
        plain = tuple(suffix for form in scored if form.is_plain for suffix in form.suffixes)
        others = tuple(suffix for form in scored for suffix in form.suffixes)
        for path in files:
            if path.suffix.lower() in plain:
                self._found.setdefault(night_id(path), []).append(path)
        for path in files:
            name = night_id(path)
            if path.name.lower().endswith(others) and (name in self._doubtful or name not in self._found):
                self._doubtful.add(name)
                self._found.setdefault(name, []).append(path)
        if not self._found:
            raise InputError(f"{folder} holds no hypnogram, expected files such as night.tsv or night.txt.")

    @property
    def names(self) -> list[str]:
        """The nights of a folder or table."""
        return list(self._found or self._named)

    @property
    def is_one_file(self) -> bool:
        """Whether one file is the scoring of every night."""
        return self._file is not None

    @property
    def are_named(self) -> bool:
        """Whether a folder, a file or a table of groups names any scorings."""
        return bool(self._named or self._found or self._file)

    def path_for(self, name: str) -> Path | None:
        """Return the file that holds the expert's scoring of a night, or None."""
        if name in self._named or self._file is not None:
            return self._named.get(name, self._file)
        paths = self._found.get(name, [])
        if len(paths) > 1 and name in self._doubtful:  # a recording may lie beside its scoring
            paths = [path for path in paths if is_night(path, Wanted("hypnogram"))] or paths
        if len(paths) > 1:
            both = " and ".join(path.name for path in paths[:2])
            raise InputError(f"the expert of {name!r} may be {both}, expected one file. Keep one.")
        return paths[0] if paths else None


def read_expert(
    path: Path, night: Hypnogram, options: ReadOptions, remedy: str = f"stageguard compare {ALIGNED_BY}"
) -> Hypnogram:
    """Read an expert's scoring; scheme, epoch length and start default to those of the night.

    `remedy` is said where the file does not tell how long its epochs are, and they are not the night's.
    """
    reading = options.of_hypnogram(night.scheme, night.epoch_seconds)
    seconds = options.expert_epoch_seconds or reading.epoch_seconds
    file = read_scoring(path, replace(reading, epoch_seconds=seconds))
    if file.is_length_assumed:
        refuse_guess(path, file.hypnogram, night, remedy)
    return with_start(file.hypnogram, recording_start(night))


def refuse_guess(path: Path, scored: Hypnogram, other: Hypnogram, option: str) -> None:
    """Refuse a file that does not say how long an epoch is, unless its epochs are as many as the other's.

    At the usual length, epochs that one of them left unscored at its end may be missing in the other.
    """
    is_usual = other.epoch_seconds == DEFAULT_EPOCH_SECONDS
    are_as_many = is_usual or abs(scored.n_epochs - other.n_epochs) <= SPARE_EPOCHS
    if scored.epoch_seconds == other.epoch_seconds and are_as_many and end_together(scored, other):
        return
    total = other.n_epochs * other.epoch_seconds
    seconds = round(total / scored.n_epochs)
    is_likely = abs(seconds * scored.n_epochs - total) <= other.epoch_seconds
    raise InputError(
        f"{path.name} has {scored.n_epochs:,} epochs of unknown length, expected {other.n_epochs:,} of "
        f"{other.epoch_seconds:g} s{f' ({seconds} s would fit)' if is_likely else ''}. If it is of this "
        f"night, give {option} SECONDS."
    )


# A cohort: lights, groups and experts


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
    groups: Mapping[str, ListRow]
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
            self.card.refuse_other(scored.final, facts_of(night.path, scored))
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
        notes = (*scored.notes, *lights.notes)
        decoding = scored.decoding
        look_at = scored.recorded.look_at if decoding is None else measures_of(decoding, measuring).look_at
        return MeasuredInput(scored, scorings, measured, measuring, group, notes, look_at)


def grouping(
    nights: Iterable[tuple[str, ListRow | None]], groups: Mapping[str, ListRow]
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


# Nights to be graded by several experts


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
    sources: list[Path | None] = [each for path in paths for each in _folders_in(path)]
    if not sources and named:
        sources = [None]
    paths_of = Counter(path.name for path in sources if path is not None)
    experts = []
    for i, path in enumerate(sources):
        scorings = Experts(path, None if i else named)
        name = "expert" if path is None else path.name
        for column in columns:
            whose = column if len(sources) == 1 else f"{name} {column}"
            experts.append(Expert(whose, path, scorings, column))
        if not columns:
            experts.append(Expert(str(path) if paths_of[name] > 1 else name, path, scorings))
    return tuple(experts)


def _folders_in(path: Path) -> list[Path]:
    """Return the folders in a folder that holds nothing else, a folder per expert; else the path itself."""
    if not is_folder(path):
        return [path]
    inside = [each for each in sorted(path.iterdir(), key=natural) if not each.name.startswith(".")]
    return inside if inside and all(is_folder(each) for each in inside) else [path]


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
    lights: Lights
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
        scored = read_night(night, self.options)
        both = list(zip(paths, self.experts, strict=True))
        panel = [None if path is None else self._scoring(path, one, night.path, scored) for path, one in both]
        with naming_nights([*(_name(path, one) for path, one in both), night.file]):
            refuse_copies(panel, scored.final, scored.before)
        final = scored.final
        if self.align:
            names = [night.path.name, *(path.name for path in paths if path is not None)]
            seconds = next(each.epoch_seconds for each in panel if each is not None)
            (cut, *panel), _ = aligned([final, *panel], names, seconds)
            final = final if cut is None else cut
        measuring = StatisticsOptions(lights_off=lights.off, lights_on=lights.on)
        person = who.subject if who else night.id
        measured = measure_panel(night.id, person, final, panel, measuring)
        pairs = tuple(None if each is None else (each, final) for each in panel)
        files = self._describe(night, paths, (lights.off, lights.on))
        notes = (*scored.notes, *lights.notes)
        return GradedFile(replace(measured, files=files), facts_of(night.path, scored), notes, pairs)

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

    def _describe(self, night: Input, paths: Sequence[Path | None], lights: Lights) -> dict[str, Any]:
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


def _name(path: Path | None, expert: Expert) -> str:
    is_file = expert.column is None and expert.scorings.kind == "folder"
    return str(path) if is_file else expert.name


def aligned(
    scorings: Sequence[Hypnogram | None], names: Sequence[str], epoch_seconds: float
) -> tuple[list[Hypnogram | None], list[str]]:
    """Cut scorings to the epochs they share; also return remarks. `names` are of those that are there."""
    with collect_warnings(), naming_nights(names):
        found = align(*(each for each in scorings if each is not None), epoch_seconds=epoch_seconds)
    placed = iter(cast(tuple[Hypnogram, ...], found.nights))
    notes = dict.fromkeys(with_names(note, names) for note in found.notes)
    return [None if each is None else next(placed) for each in scorings], list(notes)


def facts_of(path: Path, scored: ScoredFile) -> GradeFacts:
    """Return stager, cohort and profile of a night, as its output of `decode` records them."""
    if scored.before is None or scored.after is None or scored.profile is None:
        return GradeFacts()
    options = read_sidecar(output_paths(path).sidecar)["options"] if is_output(path) else {}
    profile = scored.profile
    return GradeFacts(options.get("stager"), options.get("cohort"), profile.name, profile.sha256)


def one_card(found: Sequence[GradeFacts], stager: str | None, cohort: str | None) -> GradeFacts:
    """Return the facts that all nights share; refuse nights of several profiles or stagers."""
    return GradeFacts(
        stager or one_of("stager", [facts.stager for facts in found]),
        cohort or one_of("cohort", [facts.cohort for facts in found]),
        one_of("profile", [facts.profile for facts in found]),
        one_of("profile", [facts.profile_sha256 for facts in found]),
    )


# Nights to be reviewed


def find_reviewed(
    files: Sequence[Path], samples: Path | None, profile: Profile | None, options: DecodeOptions
) -> Inputs:
    """Return the nights that files, folders and a sample list name.

    They are probabilities with a profile, else outputs of `decode`.
    """
    if not files and samples is None:
        raise NoInputError("Missing argument NIGHT: name files, folders, or a list (--list).")
    nights: list[Input] = []
    notes: list[str] = []
    for path in files:
        if samples is None and is_sample_list(path):
            nights += _listed(path)
        elif profile is not None:
            found = find_densities([path], None, profile, options)
            nights += found.nights
            notes += found.notes
        else:
            nights += [Input(output, night_id(output)) for output in _outputs(path)]
    if samples is not None and nights:
        nights, more = describe_by(samples, nights)
        notes += more
    elif samples is not None:
        nights = _listed(samples)
    return Inputs(tuple(nights), tuple(notes))


def with_files(found: Inputs, edf: Path | None, scoring: Path | None) -> Inputs:
    """Return nights with their recordings and scorings: each a file, or a folder with one for each."""
    names, notes = [night.id for night in found.nights], list(found.notes)
    edfs = {} if edf is None else _matched("--edf", edf, names)
    scorings = {} if scoring is None else _matched("--scoring", scoring, names)
    for option, files in (("--edf", edfs), ("--scoring", scorings)):
        notes += listed_nights(f"without {option}", set(names) - set(files)) if files else []
    nights = (
        replace(night, edf=edfs.get(night.id, night.edf), scoring=scorings.get(night.id, night.scoring))
        for night in found.nights
    )
    return Inputs(tuple(nights), tuple(notes))


def _listed(path: Path) -> list[Input]:
    """Return the nights of a sample list; what is reviewed is in its column `probabilities`."""
    nights = read_samples(path, "hypnogram")
    for night in nights:
        if night.path in (night.scoring, night.edf):
            raise InputError(
                f"{path.name}: night {night.id!r} has no probabilities, expected a file in that column. "
                "Stage the recording first: stageguard stage."
            )
    return nights


def _outputs(path: Path) -> list[Path]:
    """Return the outputs of `decode` in a folder, or the file itself."""
    if not path.is_dir():
        return [path]
    outputs = sorted(file for file in path.iterdir() if file.name.endswith(TSV_SUFFIX))
    if not outputs:
        raise InputError(
            f"{path} holds no outputs of decode. Review probabilities with --profile, or decode first."
        )
    return outputs


def _matched(option: str, source: Path, names: Sequence[str]) -> dict[str, Path]:
    """Return the file for each night: the one file, or those of a folder that have the nights' names."""
    if not is_folder(source):
        if len(names) > 1:
            raise UsageError(
                f"{option} is one file for {count(len(names), 'night')}, expected a folder of files named "
                "like the nights, or a list (--list)."
            )
        return {names[0]: source}
    files = Experts(source) if option == "--scoring" else Experts(None, recording_files(source))
    known = {name: path for name in names if (path := files.path_for(name)) is not None}
    if not known:
        raise InputError(
            f"no file in {source} is named like a night: there are {listed(files.names, 3)}, and the nights "
            f"are {listed(names, 3)}. Expected the same names."
        )
    return known


def recording_files(folder: Path) -> dict[str, Path]:
    """Return the recordings in a folder by the name of their night; two of one name are an error."""
    from stageguard.formats.recordings.read import SUFFIXES

    found: dict[str, Path] = {}
    for path in sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES):
        other = found.setdefault(night_id(path), path)
        if other is not path:
            raise InputError(
                f"{other.name} and {path.name} are both named like night {night_id(path)!r}. Keep one."
            )
    if not found:
        raise InputError(f"{folder} holds no recording. Expected files named {', '.join(SUFFIXES)}.")
    return found
