"""Files as scored nights: hypnograms, probabilities by their argmax or decoded, and experts' scorings."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from errno import ENOENT
from pathlib import Path

import typer

from stageguard.base.errors import Argument, FileFormatError, InputError, message_of
from stageguard.base.files import file_error
from stageguard.cli.inputs import Input, is_own, night_id
from stageguard.cli.options import Reading, column_names
from stageguard.cli.recognising import Wanted, is_night
from stageguard.formats.density import DensityOptions
from stageguard.formats.hypnogram import HypnogramFile, HypnogramOptions
from stageguard.formats.outputs import JSON_SUFFIX, TSV_SUFFIX
from stageguard.formats.read import is_hypnogram, read_density_file, read_hypnogram_file
from stageguard.formats.registry import formats, named
from stageguard.formats.sample_lists import MOMENT_WORDS, START_WORDS, parse_moment, parse_start
from stageguard.guard.decode import decode
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import hypnogram_before
from stageguard.measures.day import Moment
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.night.timing import begun, recording_start
from stageguard.profile.profile import Profile
from stageguard.runner.decode_files import DecodeOptions, decode_file, own_scheme, special, start_of
from stageguard.runner.verify import decode_recorded

SCORED = Wanted("hypnogram")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read the files, as the command line said it."""

    profile: Profile | None = None
    scheme: StageScheme | None = None
    stages: tuple[str, ...] | None = None
    epoch_seconds: float | None = None
    start: datetime | None = None
    logits: bool = False
    log: bool = False
    decode: bool = False  # probabilities with the profile, instead of taking their argmax only
    format: str | None = None
    pool_to_seconds: float | None = None
    scoring_format: str | None = None

    @property
    def wanted(self) -> Wanted:
        """What in a folder counts as a night."""
        own = () if self.profile is None else self.profile.scheme.names
        return Wanted("hypnogram", self.format, (*own, *(self.stages or ())))

    @property
    def density(self) -> DensityOptions:
        """How to read files of probabilities."""
        profile = self.profile
        return DensityOptions(
            stages=self.stages,
            epoch_seconds=self.epoch_seconds,
            default_epoch_seconds=None if profile is None else profile.epoch_seconds,
            logits=self.logits,
            log=self.log,
            scheme=own_scheme(None if profile is None else profile.scheme),
            format=self.format,
            pool_to_seconds=self.pool_to_seconds,
        )


def read_options(
    reading: Reading,
    *,
    profile: str | None = None,
    scheme: str | None = None,
    scoring_format: str | None = None,
    start: str | None = None,
    decode: bool = False,
) -> ReadOptions:
    """Return what the command line said, checked and loaded."""
    if scoring_format is not None:
        named(scoring_format, "hypnogram")  # an unknown one is said once, not for every file
    return ReadOptions(
        profile=None if profile is None else Profile.load(profile),
        scheme=None if scheme is None else StageScheme.named(str(scheme)),
        stages=column_names(reading.stages),
        epoch_seconds=reading.epoch_seconds,
        start=read_start(start),
        logits=reading.logits,
        log=reading.log,
        decode=decode,
        format=reading.format,
        pool_to_seconds=reading.pool,
        scoring_format=scoring_format,
    )


@dataclass(frozen=True, slots=True)
class ScoredFile:
    """What a file says about a night: the stager's argmax, the final scoring, or both."""

    path: Path
    before: Hypnogram | None
    after: Hypnogram | None
    profile: Profile | None
    notes: tuple[str, ...] = ()

    @property
    def night_id(self) -> str:
        """Name of the night: the file's, without what tells its format."""
        return night_id(self.path)

    @property
    def final(self) -> Hypnogram:
        """The scoring that counts: the decoded or scored stages where there are any, else the argmax."""
        found = self.after if self.after is not None else self.before
        assert found is not None
        return found


def read_scored(path: Path, options: ReadOptions) -> ScoredFile:
    """Read a hypnogram, or the probabilities' argmax, in the profile's scheme where there is one."""
    if path.is_dir():
        raise file_error(path, "is a folder, expected a file. Name the files in it.")
    problem = special(path)
    if problem is not None:
        raise InputError(problem)
    scheme = options.scheme or (None if options.profile is None else options.profile.scheme)
    is_scored = _is_scored(path, scheme, options)
    found = _read_hypnogram(path, options) if is_scored else _read_probabilities(path, options)
    return dataclasses.replace(
        found,
        before=None if found.before is None else begun(found.before, options.start),
        after=None if found.after is None else begun(found.after, options.start),
    )


def read_night(night: Input, options: ReadOptions) -> ScoredFile:
    """Read a night of a command's inputs; a listed recording says when it began."""
    night.refuse()
    start = start_of(night.edf, night.start)
    return read_scored(night.path, options if start is None else dataclasses.replace(options, start=start))


def _is_scored(path: Path, scheme: StageScheme | None, options: ReadOptions) -> bool:
    """Whether a file holds stages: by the format that was named, else by its content."""
    format = options.format
    if format is None:
        return is_hypnogram(path, scheme)
    kinds = {
        kind
        for kind in ("density", "hypnogram")
        for form in formats()
        if form.name == format and form.does(kind)
    }
    if kinds == {"density", "hypnogram"}:
        return is_hypnogram(path, scheme)
    return kinds == {"hypnogram"}


def _read_hypnogram(path: Path, options: ReadOptions) -> ScoredFile:
    profile = options.profile
    seconds = None if profile is None else profile.epoch_seconds
    default = None if profile is None else profile.scheme
    asked = HypnogramOptions(
        options.scheme,
        options.epoch_seconds,
        default_scheme=default,
        default_epoch_seconds=seconds,
        format=_scoring_format(path, options),
    )
    found = read_scoring(path, asked)
    scheme = found.hypnogram.scheme if profile is None else profile.scheme
    argmax = None if found.argmax is None else found.argmax.merge(scheme)
    return ScoredFile(path, argmax, found.hypnogram.merge(scheme), profile or found.profile, found.notes)


def _scoring_format(path: Path, options: ReadOptions) -> str | None:
    """Return the format that was named for scorings; what `decode` wrote is known without."""
    if path.name.endswith(TSV_SUFFIX):
        return None
    return options.scoring_format or options.format


def read_scoring(path: Path, options: HypnogramOptions) -> HypnogramFile:
    """Read a hypnogram; an error that asks for its format asks for it in this option's words."""
    try:
        return read_hypnogram_file(path, options)
    except FileFormatError as error:
        raise FileFormatError(message_of(error).replace_parts(_as_scoring_format)) from None


def _as_scoring_format(part: object) -> object:
    if isinstance(part, Argument) and part.name == "format":
        return Argument("scoring_format", part.value)
    return part


def _read_probabilities(path: Path, options: ReadOptions) -> ScoredFile:
    profile = options.profile
    found = read_density_file(path, options.density)
    density = found.density
    if profile is not None and options.decode:
        decoding = decode(density, profile)
        return ScoredFile(path, hypnogram_before(decoding), decoding.hypnogram, profile, found.notes)
    scheme = options.scheme or (density.scheme if profile is None else profile.scheme)
    density = density.merge(scheme)
    argmax = Hypnogram(
        density.argmax(),
        density.scheme,
        density.epoch_seconds,
        density.start,
        "argmax",
        offset_seconds=density.offset_seconds,
    )
    return ScoredFile(path, argmax, None, profile, found.notes)


def read_moment(text: str | None, option: str) -> Moment | None:
    """Return when lights went off or on, as an option says it."""
    try:
        return None if text is None else parse_moment(text)
    except ValueError:
        raise InputError(f"{option} is {text!r}, expected {MOMENT_WORDS}.") from None


def read_start(text: str | None) -> datetime | None:
    """Return when a recording begins, as --start says it."""
    try:
        return None if text is None else parse_start(text)
    except ValueError:
        raise InputError(f"--start is {text!r}, expected {START_WORDS}.") from None


class Experts:
    """Expert scorings by the name of the night."""

    def __init__(self, place: Path | None, named: Mapping[str, Path] | None = None) -> None:
        self._named = dict(named or {})
        self._file: Path | None = None
        self._folder: dict[str, list[Path]] = {}
        self._others: dict[str, list[Path]] = {}
        problem = None if place is None else special(place)
        if problem is not None:
            raise InputError(problem)
        if place is not None and not place.exists():
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(place))
        if place is not None and place.is_dir():
            files = [path for path in sorted(place.iterdir()) if path.is_file() and not is_own(path)]
            scored = [form for form in formats() if form.does("hypnogram")]
            plain = {suffix for form in scored if form.is_plain for suffix in form.suffixes}
            known = tuple(suffix for form in scored for suffix in form.suffixes)
            for path in files:
                if path.suffix.lower() in plain:
                    self._folder.setdefault(night_id(path), []).append(path)
            for path in files:  # other formats, of nights that have none of those
                if path.name.lower().endswith(known) and night_id(path) not in self._folder:
                    self._others.setdefault(night_id(path), []).append(path)
            self._folder |= self._others
            if not self._folder:
                raise InputError(
                    f"{place} holds no hypnogram, expected files such as night.tsv or night.txt."
                )
        else:
            self._file = place

    @property
    def kind(self) -> str:
        """Where scorings are looked for, in a word."""
        return "folder" if self._folder else "list"

    def path_for(self, name: str) -> Path | None:
        """Return the file that holds the expert's scoring of a night, or None."""
        if name in self._named:
            return self._named[name]
        if self._file is not None:
            return self._file
        found = self._folder.get(name, [])
        if len(found) > 1 and name in self._others:  # a recording may lie beside its scoring
            found = [path for path in found if is_night(path, SCORED)] or found
        if len(found) > 1:
            listed = " and ".join(path.name for path in found[:2])
            raise InputError(f"the expert of {name!r} may be {listed}, expected one file. Keep one.")
        return found[0] if found else None

    def read(
        self, name: str, night: Hypnogram | None, options: ReadOptions, listed: Path | None = None
    ) -> Hypnogram | None:
        """Read the expert's scoring of a night; what its file does not say is taken from the night.

        `listed` is the file that a sample list names, which goes before a folder's.
        """
        path = listed or self.path_for(name)
        return None if path is None else read_expert(path, night, options)


def read_expert(path: Path, night: Hypnogram | None, options: ReadOptions) -> Hypnogram:
    """Read an expert's scoring; what its file does not say, scheme to start, is taken from the night."""
    format = None if path.name.endswith(TSV_SUFFIX) else options.scoring_format
    given = HypnogramOptions(options.scheme, options.epoch_seconds, format=format)
    if night is not None:
        given = dataclasses.replace(
            given, default_scheme=night.scheme, default_epoch_seconds=night.epoch_seconds
        )
    expert = read_scoring(path, given).hypnogram
    return begun(expert, options.start if night is None else recording_start(night))


def decode_night(
    night: Path,
    profile: Profile | None,
    options: DecodeOptions,
    start: datetime | None,
    source: Path | None = None,
) -> tuple[Decoding, tuple[str, ...]]:
    """Decode probabilities with a profile, or an output of `decode` as it records; also returns remarks.

    `source` is where the probabilities of an output are, when they are not beside it.
    """
    if night.name.endswith((TSV_SUFFIX, JSON_SUFFIX)):
        if profile is not None or options.to_dict() != DecodeOptions().to_dict():
            raise typer.BadParameter(
                f"{night.name} records its profile and options: leave them out, or name the probabilities."
            )
        return decode_recorded(night, start, source)
    if profile is None:
        raise typer.BadParameter("Missing option '--profile' / '-p': probabilities come without one.")
    return decode_file(night, profile, options, start)
