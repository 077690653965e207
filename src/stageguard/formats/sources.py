"""From anything that can be read to a night to write: stages, probabilities and other annotations."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from stageguard.base.errors import FileFormatError, InputError, StageGuardWarning
from stageguard.base.files import file_error
from stageguard.formats import registry
from stageguard.formats.density import DensityOptions
from stageguard.formats.events import events_of
from stageguard.formats.file_format import FileFormat, Kind
from stageguard.formats.hypnogram import HypnogramFile, HypnogramOptions
from stageguard.formats.outgoing import Outgoing, outgoing_of_night
from stageguard.formats.read import (
    is_hypnogram,
    night_name,
    read_density_file,
    read_density_object,
    read_hypnogram_file,
)
from stageguard.guard.decoding import Decoding
from stageguard.night.align import merge_stages
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.night.timing import begun, reepoch

READ_AS: tuple[Kind, ...] = ("density", "hypnogram")
BOTH_N3 = "stages 3 and 4 of Rechtschaffen and Kales are both N3"
_STAGE_4 = re.compile(r"(?:(?:sleep[ _])?stage[ _]?|nrem|n|s)4(?: sleep)?(?:\|4)?", re.IGNORECASE)
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Reading:
    """What the caller says about a source, and what to do with it on the way."""

    format: str | None = None
    stages: tuple[str, ...] | None = None
    scheme: StageScheme | None = None
    epoch_seconds: float | None = None
    merge_to: StageScheme | None = None
    reepoch_to: float | None = None
    logits: bool = False
    log: bool = False
    pool_to_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class NamedNight(os.PathLike[str]):
    """A file whose night a list gives a name, and a start where the file tells none."""

    path: Path
    id: str
    start: datetime | None = None
    has_date: bool = True  # else only the time of day of the start is known

    def __fspath__(self) -> str:
        """Return the path."""
        return os.fspath(self.path)

    def name(self, night: Outgoing) -> Outgoing:
        """Return a night of this name and start."""
        notes = night.notes
        known = [part.start for part in (night.hypnogram, night.density) if part is not None]
        if self.start is not None and not self.has_date and None in known:
            notes += (f"only the time of its start is known: {self.start:%Y-%m-%d} is written as the date",)
        return replace(
            night,
            id=self.id,
            notes=notes,
            hypnogram=None if night.hypnogram is None else begun(night.hypnogram, self.start),
            density=None if night.density is None else begun(night.density, self.start),
        )


def outgoing_of(source: Any, reading: Reading | None = None) -> Outgoing:
    """Return a night to write, of a file, of an object of this package or of another library's."""
    reading = reading or Reading()
    if isinstance(source, str | os.PathLike):
        night = _of_file(Path(source), reading)
        night = source.name(night) if isinstance(source, NamedNight) else night
    elif isinstance(source, Decoding | Hypnogram | Hypnodensity):
        night = outgoing_of_night(source)
    else:
        night = _of_object(source, reading)
    return _changed(night, reading)


def _of_file(path: Path, reading: Reading) -> Outgoing:
    if path.is_dir():
        raise file_error(path, "is a folder, expected a file. Name the files in it.")
    form = _format_of(path, reading)
    if form is None:
        form = registry.chosen(path, "density", reading.format)
        density = _read_density(path, reading, reading.format)
        stages = _or_none(lambda: _read_stages(path, reading, form.name)) if form.holds_both else None
        night = Outgoing(None if stages is None else replace(stages.hypnogram, scorer=None))
        return replace(_with_density(night, density), id=night_name(path))
    scored = _read_stages(path, reading, reading.format)  # unnamed, so that numbers ask whose they are
    beside = _or_none(lambda: _read_density(path, reading, form.name)) if form.holds_both else None
    hypnogram = scored.hypnogram
    if hypnogram.scorer == path.name:  # nobody said who scored it
        hypnogram = replace(hypnogram, scorer=None)
    night = Outgoing(
        hypnogram,
        events=events_of(form, path),
        profile=scored.profile,
        notes=tuple(note for note in scored.notes if note not in scored.left_out) + _merged(form, path),
        left=_left_columns(form, path),
    )
    return replace(_with_density(night, beside), id=night_name(path))


def _format_of(path: Path, reading: Reading) -> FileFormat | None:
    """Return the format that a file's stages are read in, or None where its probabilities are meant."""
    name = reading.format
    by_name = next((form for form in registry.formats() if form.name == name), None)
    kinds = [] if by_name is None else [kind for kind in READ_AS if by_name.does(kind)]
    if name is not None and not kinds:
        registry.named(name, "density")  # says what there is
    is_scored = kinds == ["hypnogram"] if len(kinds) == 1 else is_hypnogram(path, reading.scheme)
    return registry.chosen(path, "hypnogram", name) if is_scored else None


def _left_columns(form: FileFormat, path: Path) -> tuple[str, ...]:
    """Return the columns of a table of stages that are not carried on, as one loss."""
    try:
        left = [] if form.left_columns is None else form.left_columns(path)
    except FileFormatError:  # what is wrong with it, its reader says
        return ()
    return (f"column{'s' * (len(left) > 1)} {', '.join(left)} of {path.name}",) if left else ()


def _merged(form: FileFormat, path: Path) -> tuple[str, ...]:
    """Say that a source has stage 4, which is N3 by the rules of today."""
    try:
        texts = {text.strip() for text in (() if form.stage_texts is None else form.stage_texts(path))}
    except FileFormatError:  # what is wrong with it, its reader says
        return ()
    is_there = "4" in texts if form.has_numbers else any(map(_STAGE_4.fullmatch, texts))
    return (BOTH_N3,) if is_there else ()


def _of_object(source: Any, reading: Reading) -> Outgoing:
    from stageguard.formats.objects import OBJECTS

    kind = next((each for each in OBJECTS if each.is_it(source)), None)
    options = HypnogramOptions(reading.scheme, reading.epoch_seconds, format=reading.format)
    density = DensityOptions(reading.stages, reading.epoch_seconds, format=reading.format)
    if kind is not None and kind.density is not None:
        found = _or_none(lambda: read_density_object(source, density))
        stages = _or_none(lambda: read_hypnogram_file(source, options))
        if found is not None or stages is not None:
            night = Outgoing(None if stages is None else stages.hypnogram)
            return _with_density(night, None if found is None else (found.density, found.notes))
        read_density_object(source, density)  # says why
    read = read_hypnogram_file(source, options)
    return Outgoing(read.hypnogram, notes=read.notes)


def _read_stages(path: Path, reading: Reading, format: str | None) -> HypnogramFile:
    return read_hypnogram_file(path, HypnogramOptions(reading.scheme, reading.epoch_seconds, format=format))


def _read_density(path: Path, reading: Reading, format: str | None) -> tuple[Hypnodensity, tuple[str, ...]]:
    options = DensityOptions(
        reading.stages,
        reading.epoch_seconds,
        logits=reading.logits,
        log=reading.log,
        scheme=reading.scheme,
        format=format,
        pool_to_seconds=reading.pool_to_seconds,
    )
    found = read_density_file(path, options)
    return found.density, found.notes


def _or_none(read: Callable[[], Found]) -> Found | None:
    try:
        return read()
    except (FileFormatError, InputError):
        return None


def _with_density(night: Outgoing, found: tuple[Hypnodensity, tuple[str, ...]] | None) -> Outgoing:
    """Return a night with its probabilities, which must be of the same epochs and stages as its labels."""
    if found is None:
        return night
    density, notes = found
    hypnogram = night.hypnogram
    if hypnogram is not None:
        merged = _or_none(lambda: density.merge(hypnogram.scheme))
        if merged is None or _epochs(merged) != _epochs(hypnogram):
            return replace(night, notes=(*night.notes, "its probabilities are of other epochs: left out"))
        density = merged
    return replace(night, density=density, notes=tuple(dict.fromkeys((*night.notes, *notes))))


def _epochs(night: Hypnogram | Hypnodensity) -> tuple[int, float]:
    return night.n_epochs, night.offset_seconds


def _changed(night: Outgoing, reading: Reading) -> Outgoing:
    """Return a night in the scheme and the epochs that are wanted."""
    hypnogram, density = night.hypnogram, night.density
    notes: list[str] = []
    with _noting(notes):
        if reading.merge_to is not None:
            hypnogram = None if hypnogram is None else merge_stages(hypnogram, reading.merge_to)
            density = None if density is None else merge_stages(density, reading.merge_to)
        before = hypnogram
        if reading.reepoch_to is not None:
            hypnogram = None if hypnogram is None else reepoch(hypnogram, reading.reepoch_to)
            density = None if density is None else reepoch(density, reading.reepoch_to)
    is_same = (hypnogram, density) == (night.hypnogram, night.density)
    return replace(
        night,
        hypnogram=hypnogram,
        density=density,
        decoding=night.decoding if is_same else None,
        notes=tuple(dict.fromkeys((*night.notes, *notes))),
        left=(*night.left, *_gone(before, hypnogram)),
    )


def _gone(before: Hypnogram | None, after: Hypnogram | None) -> tuple[str, ...]:
    """Say which stages longer epochs have no room for."""
    if before is None or after is None:
        return ()
    left = [name for name in before.scheme.names if name in before.stages and name not in after.stages]
    return (
        (f"stages that no epoch of {after.epoch_seconds:g} s has most of: {', '.join(left)}",) if left else ()
    )


@contextmanager
def _noting(notes: list[str]) -> Iterator[None]:
    """Turn this package's warnings into notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StageGuardWarning)
        yield
    notes += [
        str(each.message).rstrip(".") for each in caught if issubclass(each.category, StageGuardWarning)
    ]
