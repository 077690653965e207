"""From anything that can be read to a night to write: stages, probabilities and other annotations."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from stageguard.base.errors import FileFormatError, InputError, StageGuardWarning
from stageguard.base.files import file_error
from stageguard.formats import registry
from stageguard.formats.density import DensityFile, DensityOptions
from stageguard.formats.events import read_events
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
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Reading:
    """What the caller says about a source, and what to do with it on the way."""

    options: DensityOptions = field(default_factory=DensityOptions)
    merge_to: StageScheme | None = None
    reepoch_to: float | None = None

    def stages(self, source: Any, format: str | None) -> HypnogramFile:
        """Read stages of a source in a format."""
        options = HypnogramOptions(self.options.scheme, self.options.epoch_seconds, format=format)
        return read_hypnogram_file(source, options)


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
        return replace(night.changed(lambda part: begun(part, self.start)), id=self.id, notes=notes)


def outgoing_of(source: Any, reading: Reading | None = None) -> Outgoing:
    """Return a night to write, of a file, of an object of this package or of another library's."""
    reading = reading or Reading()
    if isinstance(source, str | os.PathLike):
        night = _of_file(Path(source), reading)
        night = source.name(night) if isinstance(source, NamedNight) else night
    elif isinstance(source, Hypnodensity):
        night = _with_density(Outgoing(None), read_density_object(source, reading.options))
    elif isinstance(source, Decoding | Hypnogram):
        night = outgoing_of_night(source)
    else:
        night = _of_object(source, reading)
    return _changed(night, reading)


def _of_file(path: Path, reading: Reading) -> Outgoing:
    if path.is_dir():
        raise file_error(path, "is a folder, expected a file. Name the files in it.")
    form = _format_of(path, reading.options)
    if form is None:
        form = registry.chosen(path, "density", reading.options.format)
        density = read_density_file(path, reading.options)
        stages = _or_none(lambda: reading.stages(path, form.name)) if form.holds_both else None
        night = Outgoing(None if stages is None else replace(stages.hypnogram, scorer=None))
        return replace(_with_density(night, density), id=night_name(path))
    scored = reading.stages(path, reading.options.format)  # unnamed, so that numbers ask whose they are
    options = replace(reading.options, format=form.name)
    beside = _or_none(lambda: read_density_file(path, options)) if form.holds_both else None
    hypnogram = scored.hypnogram
    if hypnogram.scorer == path.name:  # nobody said who scored it
        hypnogram = replace(hypnogram, scorer=None)
    texts = {text.strip() for text in _told(form.stage_texts, path)}
    has_stage_4 = "4" in texts if form.has_numbers else any(map(_STAGE_4.fullmatch, texts))
    left = _told(form.left_columns, path)
    night = Outgoing(
        hypnogram,
        events=read_events(path, form.name),
        profile=scored.profile,
        id=night_name(path),
        notes=(*(note for note in scored.notes if note not in scored.left_out), *[BOTH_N3] * has_stage_4),
        left=(f"column{'s' * (len(left) > 1)} {', '.join(left)} of {path.name}",) if left else (),
    )
    return _with_density(night, beside)


def _format_of(path: Path, options: DensityOptions) -> FileFormat | None:
    """Return the format that a file's stages are read in, or None where its probabilities are meant."""
    name = options.format
    by_name = next((form for form in registry.formats() if form.name == name), None)
    kinds = [] if by_name is None else [kind for kind in READ_AS if by_name.does(kind)]
    if name is not None and not kinds:
        registry.named(name, "density")  # says what there is
    is_scored = kinds == ["hypnogram"] if len(kinds) == 1 else is_hypnogram(path, options.scheme)
    return registry.chosen(path, "hypnogram", name) if is_scored else None


def _told(read: Callable[[Path], Iterable[str]] | None, path: Path) -> list[str]:
    """Return what else a format tells about a file; what is wrong with it, its reader says."""
    try:
        return [] if read is None else list(read(path))
    except FileFormatError:
        return []


def _of_object(source: Any, reading: Reading) -> Outgoing:
    from stageguard.formats.objects import OBJECTS

    kind = next((each for each in OBJECTS if each.is_it(source)), None)
    options = reading.options
    if kind is not None and kind.density is not None:
        density = _or_none(lambda: read_density_object(source, options))
        scored = _or_none(lambda: reading.stages(source, options.format))
        if density is not None or scored is not None:
            return _with_density(Outgoing(None if scored is None else scored.hypnogram), density)
        read_density_object(source, options)  # says why
    read = reading.stages(source, options.format)
    return Outgoing(read.hypnogram, notes=read.notes)


def _or_none(read: Callable[[], Result]) -> Result | None:
    try:
        return read()
    except (FileFormatError, InputError):
        return None


def _with_density(night: Outgoing, read: DensityFile | None) -> Outgoing:
    """Return a night with its probabilities, which must be of the same epochs and stages as its labels."""
    if read is None:
        return night
    density, hypnogram = read.density, night.hypnogram
    if hypnogram is not None:
        merged = _or_none(lambda: read.density.merge(hypnogram.scheme))
        if merged is None or _epochs(merged) != _epochs(hypnogram):
            return replace(night, notes=(*night.notes, "its probabilities are of other epochs: left out"))
        density = merged
    return replace(night, density=density, notes=tuple(dict.fromkeys((*night.notes, *read.notes))))


def _epochs(night: Hypnogram | Hypnodensity) -> tuple[int, float]:
    return night.n_epochs, night.offset_seconds


def _changed(night: Outgoing, reading: Reading) -> Outgoing:
    """Return a night in the scheme and the epochs that are wanted; this package's warnings become notes."""
    merge_to, reepoch_to = reading.merge_to, reading.reepoch_to
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StageGuardWarning)
        merged = night if merge_to is None else night.changed(lambda part: merge_stages(part, merge_to))
        after = merged if reepoch_to is None else merged.changed(lambda part: reepoch(part, reepoch_to))
    messages = [each.message for each in caught if issubclass(each.category, StageGuardWarning)]
    is_same = (after.hypnogram, after.density) == (night.hypnogram, night.density)
    return replace(
        after,
        decoding=night.decoding if is_same else None,
        notes=tuple(dict.fromkeys((*night.notes, *(str(each).rstrip(".") for each in messages)))),
        left=(*night.left, *_gone(merged.hypnogram, after.hypnogram)),
    )


def _gone(before: Hypnogram | None, after: Hypnogram | None) -> tuple[str, ...]:
    """Say which stages longer epochs have no room for."""
    if before is None or after is None:
        return ()
    left = [name for name in before.scheme.names if name in before.stages and name not in after.stages]
    text = f"stages that no epoch of {after.epoch_seconds:g} s has most of: {', '.join(left)}"
    return (text,) if left else ()
