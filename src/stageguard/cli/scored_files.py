"""Read any input of check, stats and compare as scored nights, one file after the other. Prints nothing."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import typer

from stageguard.base.errors import Argument, FileFormatError, InputError, StageGuardWarning, message_of
from stageguard.base.files import file_error
from stageguard.cli.decode_file import own_scheme
from stageguard.cli.inputs import Input, special, start_of
from stageguard.cli.inputs import night_id as night_id
from stageguard.cli.recognising import Wanted
from stageguard.cli.terminal import failure_text, in_options, warned_of
from stageguard.datasets.sample_list import MOMENT_WORDS, START_WORDS, parse_moment, parse_start
from stageguard.formats.density import DensityOptions
from stageguard.formats.hypnogram import HypnogramFile, HypnogramOptions
from stageguard.formats.outputs import TSV_SUFFIX
from stageguard.formats.read import is_hypnogram, read_density_file, read_hypnogram_file
from stageguard.formats.registry import formats, named
from stageguard.guard.decode import decode
from stageguard.measures.bouts import hypnogram_before
from stageguard.measures.day import Moment
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.night.timing import begun
from stageguard.profile.profile import Profile

Item = TypeVar("Item", Path, Input)


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


def read_options(
    profile: str | None,
    scheme: str | None,
    stages: str | None,
    epoch_seconds: float | None,
    *,
    start: str | None = None,
    logits: bool = False,
    log: bool = False,
    decode: bool = False,
    format: str | None = None,
    pool: float | None = None,
    scoring_format: str | None = None,
) -> ReadOptions:
    """Return what the command line said, checked and loaded."""
    if logits and log:
        raise typer.BadParameter("--logits and --log exclude each other: give the one the files hold.")
    if scoring_format is not None:
        named(scoring_format, "hypnogram")  # an unknown one is said once, not for every file
    return ReadOptions(
        profile=None if profile is None else Profile.load(profile),
        scheme=None if scheme is None else StageScheme.named(str(scheme)),
        stages=None if stages is None else tuple(part.strip() for part in stages.split(",")),
        epoch_seconds=epoch_seconds,
        start=read_start(start),
        logits=logits,
        log=log,
        decode=decode,
        format=format,
        pool_to_seconds=pool,
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
    seconds = None if profile is None else profile.epoch_seconds
    own = own_scheme(None if profile is None else profile.scheme)
    reading = DensityOptions(
        options.stages,
        options.epoch_seconds,
        seconds,
        options.logits,
        options.log,
        own,
        options.format,
        options.pool_to_seconds,
    )
    found = read_density_file(path, reading)
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


def run_each(items: Sequence[Item], function: Callable[[Item], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a report per file; a failure is a report with its one-line `error`."""
    for item in items:
        path = _path_of(item)
        report: dict[str, Any] = {"file": str(path), "ok": False}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", StageGuardWarning)
            try:
                report |= function(item) | {"ok": True}
            except typer.BadParameter:  # about the command, not about the file
                raise
            except Exception as error:
                report["error"] = failure_text(error, path)
        if "notes" in report:
            report["notes"] = [in_options(note) for note in report["notes"]]
        report["warnings"] = warned_of(caught)
        yield report


def _path_of(item: Path | Input) -> Path:
    return item.path if isinstance(item, Input) else item


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
