"""Read files as scored nights: hypnograms, probabilities (argmax or decoded) and experts' scorings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from errno import ENOENT
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click import UsageError

from stageguard.cli import options as opt
from stageguard.cli.command import MORE, option, packed
from stageguard.errors import FileFormatError, InputError
from stageguard.files import file_error
from stageguard.formats.density import DEFAULT_EPOCH_SECONDS
from stageguard.formats.events import read_events
from stageguard.formats.file_format import Kind
from stageguard.formats.hypnogram import column_of_stages
from stageguard.formats.night import NOTHING_RECORDED, FileOptions, Night, Recorded
from stageguard.formats.outputs import TSV_SUFFIX, is_output
from stageguard.formats.read import (
    has_column,
    is_hypnogram,
    read_density_file,
    read_hypnogram_file,
)
from stageguard.formats.registry import formats, named
from stageguard.formats.sniffing import first_lines, read_head
from stageguard.guard.decode import decode
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import hypnogram_before
from stageguard.measures.cohort import DecodedFacts
from stageguard.night.align import SPARE_EPOCHS, end_together
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.period import Period
from stageguard.night.quantities import Steering
from stageguard.night.stages import StageScheme
from stageguard.night.timing import recording_start, with_start
from stageguard.profile.profile import Profile
from stageguard.runner.decode_one import DecodeOptions, decode_file, reading_with, start_of
from stageguard.runner.inputs import (
    Input,
    Inputs,
    Wanted,
    find_inputs,
    is_named_after,
    is_night,
    is_own,
    night_id,
    nights_of,
    with_table_nights,
)
from stageguard.runner.verify import decode_recorded
from stageguard.storage import is_folder

if TYPE_CHECKING:
    from stageguard.formats.night import Event

KINDS: tuple[Kind, ...] = ("density", "hypnogram")


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


def read_options(
    options: ReadOptions, *, profile: str | None = None, start: datetime | None = None, decode: bool = False
) -> ReadOptions:
    """Return options that are checked, and with the profile loaded."""
    if options.scoring_format is not None:
        named(options.scoring_format, "hypnogram")  # refuse an unknown format once, not for every file
    loaded = None if profile is None else Profile.load(profile)
    density = options.density if loaded is None else reading_with(loaded, options.density)
    return replace(options, profile=loaded, density=density, start=start, decode=decode)


def _scored_reading(
    scheme: str | None, scoring_format: str | None, column: str | None, **reading: Any
) -> ReadOptions:
    return ReadOptions(
        scheme=None if scheme is None else StageScheme.named(scheme),
        density=opt.file_options(**reading),
        scoring_format=scoring_format,
        column=column,
    )


scored_reading_options = packed(
    "reading",
    _scored_reading,
    *opt.READING,
    opt.scheme,
    opt.scoring_format,
    option(
        "--column",
        metavar="NAME",
        heading=MORE,
        help="Column of the stages in tables of scorings, or annotator of a BIDS table with several.",
    ),
)


@dataclass(frozen=True, slots=True)
class ScoredFile:
    """A night in a file: the stager's argmax, the final scoring, or both."""

    path: Path
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


def read_scored(path: Path, options: ReadOptions) -> ScoredFile:
    """Read a hypnogram or probabilities, in the profile's scheme if there is a profile."""
    if is_folder(path):
        raise file_error(path, "is a folder, expected a file. Name the files in it.")
    scheme = options.scheme or (None if options.profile is None else options.profile.scheme)
    is_scored = has_column(path, options.column) or _is_scored(path, scheme, options.density.format)
    read = _read_hypnogram if is_scored else _read_probabilities
    try:
        scored = read(path, options)
    except FileFormatError as error:
        name = None if is_scored else column_of_stages(first_lines(read_head(path)))
        if name is None:
            raise
        why = f"has no column named stage, but stages in {name[:40]}. Say so: "
        raise file_error(path, why, f"column={name!r}", ".") from error
    return replace(
        scored,
        before=None if scored.before is None else with_start(scored.before, options.start),
        after=None if scored.after is None else with_start(scored.after, options.start),
    )


def find_scored(files: Sequence[Path], samples: Path | None, options: ReadOptions) -> Inputs:
    """Return the scored nights, or nights of probabilities, in files, lists and tables."""
    return with_table_nights(find_inputs(files, samples, options.wanted))


def read_night(night: Input, options: ReadOptions) -> ScoredFile:
    """Read a night of a command's inputs; it begins when its recording or the sample list says."""
    start = start_of(night.edf, night.start)
    return read_scored(night.path, options if start is None else replace(options, start=start))


def _is_scored(path: Path, scheme: StageScheme | None, format: str | None) -> bool:
    """Whether a file holds stages, by the named format, else by its content."""
    of_name = [form for form in formats() if form.name == format]
    has_densities, has_stages = (any(form.does(kind) for form in of_name) for kind in KINDS)
    if format is None or (has_densities and has_stages):
        return is_hypnogram(path, scheme)
    return has_stages


def _read_hypnogram(path: Path, options: ReadOptions) -> ScoredFile:
    profile = options.profile
    scheme = None if profile is None else profile.scheme
    reading = options.of_hypnogram(scheme, options.density.default_epoch_seconds)
    file = read_scoring(path, replace(reading, format=reading.format or options.density.format))
    scheme = file.hypnogram.scheme if profile is None else profile.scheme
    final = file.hypnogram if profile is None else file.hypnogram.merge(profile.scheme)
    argmax = None if file.before is None else file.before.merge(scheme)
    recorded = file.recorded if scheme == file.hypnogram.scheme else NOTHING_RECORDED
    return ScoredFile(
        *(path, argmax, final, profile or file.profile, file.notes),
        recorded=recorded,
        is_length_assumed=file.is_length_assumed,
    )


def read_scoring(path: Path, options: FileOptions) -> Night:
    """Read a hypnogram; errors name the option --scoring-format, which outputs of `decode` do not need."""
    if path.name.endswith(TSV_SUFFIX):
        options = replace(options, format=None)

    return read_hypnogram_file(path, options)


def _read_probabilities(path: Path, options: ReadOptions) -> ScoredFile:
    profile = options.profile
    file = read_density_file(path, options.density)
    if profile is not None and options.decode:
        decoding = decode(file.density, profile)
        before = hypnogram_before(decoding)
        return ScoredFile(
            *(path, before, decoding.hypnogram, profile, file.notes, decoding),
            is_length_assumed=file.is_length_assumed,
        )
    density = file.density.merge(
        options.scheme or (file.density.scheme if profile is None else profile.scheme)
    )
    argmax = Hypnogram(
        density.argmax,
        density.scheme,
        density.epoch_seconds,
        density.start,
        "argmax",
        offset_seconds=density.offset_seconds,
    )
    return ScoredFile(path, argmax, None, profile, file.notes, is_length_assumed=file.is_length_assumed)


class Experts:
    """Expert scorings by the name of the night."""

    def __init__(self, source: Path | None, named: Mapping[str, Path] | None = None) -> None:
        self._named = dict(named or {})
        self._file: Path | None = None
        self._is_table = False
        self._folder: dict[str, list[Path]] = {}
        self._others: dict[str, list[Path]] = {}
        if source is None:
            return
        if not source.exists():
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(source))
        if not is_folder(source):
            of_table = nights_of(source)
            self._folder = {name: [path] for name, path in of_table.items()}
            self._is_table = bool(of_table)
            self._file = None if of_table else source
            return
        files = [path for path in sorted(source.iterdir()) if path.is_file() and not is_own(path)]
        ids = {night_id(path) for path in files if is_output(path)}  # beside them may lie what was decoded
        files = [path for path in files if night_id(path) in ids or not is_named_after(path.name, ids)]
        scored = [form for form in formats() if form.does("hypnogram")]
        plain = {suffix for form in scored if form.is_plain for suffix in form.suffixes}
        known = tuple(suffix for form in scored for suffix in form.suffixes)
        for path in files:
            if path.suffix.lower() in plain:
                self._folder.setdefault(night_id(path), []).append(path)
        for path in files:  # other formats, for nights without a file in a plain format
            if path.name.lower().endswith(known) and night_id(path) not in self._folder:
                self._others.setdefault(night_id(path), []).append(path)
        self._folder |= self._others
        if not self._folder:
            raise InputError(f"{source} holds no hypnogram, expected files such as night.tsv or night.txt.")

    @property
    def kind(self) -> str:
        """Where the scorings are, in one word for messages."""
        return ("table" if self._is_table else "folder") if self._folder else "list"

    @property
    def names(self) -> list[str]:
        """The nights of a folder or table."""
        return list(self._folder)

    @property
    def is_one_file(self) -> bool:
        """Whether one file is the scoring of every night."""
        return self._file is not None

    @property
    def are_named(self) -> bool:
        """Whether a folder, a file or a table of groups names any scorings."""
        return bool(self._named or self._folder or self._file)

    def path_for(self, name: str) -> Path | None:
        """Return the file that holds the expert's scoring of a night, or None."""
        if name in self._named:
            return self._named[name]
        if self._file is not None:
            return self._file
        paths = self._folder.get(name, [])
        if len(paths) > 1 and name in self._others:  # a recording may lie beside its scoring
            paths = [path for path in paths if is_night(path, Wanted("hypnogram"))] or paths
        if len(paths) > 1:
            listed = " and ".join(path.name for path in paths[:2])
            raise InputError(f"the expert of {name!r} may be {listed}, expected one file. Keep one.")
        return paths[0] if paths else None


ALIGNED_BY = "--align --expert-epoch-seconds"


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
        f"{path.name} has {scored.n_epochs:,} epochs and does not say how long they are, expected "
        f"{other.n_epochs:,} as in the other file, which last {other.epoch_seconds:g} s each"
        f"{f' ({seconds} s each would be as long)' if is_likely else ''}. Is it of this night? Then say how "
        f"long its epochs are: {option} SECONDS."
    )


def read_annotations(path: Path, format: str | None) -> tuple[Event, ...]:
    """Return the annotations in an expert's file that are not stages, such as arousals."""
    if path.name.endswith(TSV_SUFFIX):  # outputs of `decode` hold only stages
        return ()
    return read_events(path, format)


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
