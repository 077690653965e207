"""Make a night to write from anything that can be read: stages, probabilities and other annotations."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from stageguard.base.arrays import DAY_SECONDS
from stageguard.base.errors import FileFormatError, InputError, StageGuardWarning
from stageguard.base.files import file_error
from stageguard.formats import registry
from stageguard.formats.density import DensityFile, DensityOptions
from stageguard.formats.file_format import FileFormat, Kind
from stageguard.formats.hypnogram import HypnogramFile, HypnogramOptions
from stageguard.formats.outgoing import Event, Outgoing, outgoing_of_night
from stageguard.formats.read import (
    is_hypnogram,
    night_name,
    read_density_file,
    read_density_object,
    read_hypnogram_file,
)
from stageguard.formats.tables.timing import TOLERANCE
from stageguard.guard.decoding import Decoding
from stageguard.night.align import merge_stages
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.night.timing import begun, elapsed, part_of, reepoch

READ_AS: tuple[Kind, ...] = ("density", "hypnogram")
BOTH_N3 = "stages 3 and 4 of Rechtschaffen and Kales are both N3"
PREFIX = "Event "
MOST_TEXTS = 3
_STAGE_4 = re.compile(r"(?:(?:sleep[ _])?stage[ _]?|nrem|n|s)4(?: sleep)?(?:\|4)?", re.IGNORECASE)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read a source, and what to change before it is written."""

    options: DensityOptions = field(default_factory=DensityOptions)
    merge_to: StageScheme | None = None
    reepoch_to: float | None = None

    def stages(self, source: Any, format: str | None) -> HypnogramFile:
        """Read the stages of a source in a format."""
        options = HypnogramOptions(self.options.scheme, self.options.epoch_seconds, format=format)
        return read_hypnogram_file(source, options)


@dataclass(frozen=True, slots=True)
class NamedNight(os.PathLike[str]):
    """A file whose night gets its name from a sample list, and its start if the file tells none."""

    path: Path
    id: str
    start: datetime | None = None
    has_date: bool = True  # if not, only the time of day of the start is known

    def __fspath__(self) -> str:
        """Return the path."""
        return os.fspath(self.path)

    def name(self, night: Outgoing) -> Outgoing:
        """Return a night with this name and start."""
        notes = night.notes
        known = [part.start for part in (night.hypnogram, night.density) if part is not None]
        if self.start is not None and not self.has_date and None in known:
            notes += (f"only the time of its start is known: {self.start:%Y-%m-%d} is written as the date",)
        return replace(night.changed(lambda part: begun(part, self.start)), id=self.id, notes=notes)


def outgoing_of(source: Any, reading: Reading | None = None) -> Outgoing:
    """Return a night to write from a file, or from an object of this package or another library."""
    reading = reading or Reading()
    if isinstance(source, str | os.PathLike):
        night = _of_file(Path(source), reading)
        night = source.name(night) if isinstance(source, NamedNight) else night
    elif isinstance(source, Hypnodensity) and reading.options != DensityOptions():
        night = _with_density(Outgoing(None), read_density_object(source, reading.options))
    elif isinstance(source, Decoding | Hypnogram | Hypnodensity):
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
    scored = reading.stages(path, reading.options.format)  # not form.name: refuse bare numbers
    options = replace(reading.options, format=form.name)
    beside = _or_none(lambda: read_density_file(path, options)) if form.holds_both else None
    hypnogram = scored.hypnogram
    if hypnogram.scorer == path.name:  # the file does not say who scored it
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
    """Return the format to read a file's stages in, or None if its probabilities are meant."""
    name = options.format
    by_name = next((form for form in registry.formats() if form.name == name), None)
    kinds = [] if by_name is None else [kind for kind in READ_AS if by_name.does(kind)]
    if name is not None and not kinds:
        registry.named(name, "density")  # raises an error that lists the formats
    is_scored = kinds == ["hypnogram"] if len(kinds) == 1 else is_hypnogram(path, options.scheme)
    return registry.chosen(path, "hypnogram", name) if is_scored else None


def _told(read: Callable[[Path], Iterable[str]] | None, path: Path) -> list[str]:
    """Return texts that a format's function reads from a file, or none if the file is damaged."""
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
        read_density_object(source, options)  # raises the error again
    read = reading.stages(source, options.format)
    return Outgoing(read.hypnogram, notes=read.notes)


def _or_none(read: Callable[[], Result]) -> Result | None:
    try:
        return read()
    except (FileFormatError, InputError):
        return None


def _with_density(night: Outgoing, read: DensityFile | None) -> Outgoing:
    """Return a night with its probabilities if they have the same epochs and stages as its labels."""
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
    """Return a night in the wanted scheme and epoch length; this package's warnings become notes."""
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
    """Return a remark on stages that vanish in longer epochs."""
    if before is None or after is None:
        return ()
    left = [name for name in before.scheme.names if name in before.stages and name not in after.stages]
    text = f"stages that no epoch of {after.epoch_seconds:g} s has most of: {', '.join(left)}"
    return (text,) if left else ()


def read_events(path: Path, format: str | None = None) -> tuple[Event, ...]:
    """Return the annotations other than stages in a file, by onset; none if the format has none."""
    form = registry.chosen(path, "hypnogram", format)
    events = () if form.events is None else form.events(path)
    return tuple(sorted(events, key=lambda event: event.onset))


def with_events_of(night: Outgoing, path: Path, *, is_placed: bool = True) -> Outgoing:
    """Return a night with the annotations of another file, aligned by their clocks.

    With `is_placed`, unscored epochs are added from the recording's start to the night's.
    """
    form = registry.detect(path, "hypnogram")
    if form.events is None:
        known = ", ".join(each.name for each in registry.formats() if each.events is not None)
        raise InputError(f"{path.name}: {form.title} has no annotations besides stages. Known: {known}.")
    events = read_events(path, form.name)
    theirs = None if form.recording_start is None else form.recording_start(path)
    ours = night.any.start
    if theirs is None or ours is None:
        note = f"annotations of {path.name} count from the night's first epoch: a start is not known"
        return _with(night, _moved(events, night.offset_seconds), (note,))
    begins, notes = _begins(path, theirs, ours)
    lasts = night.any.n_epochs * night.epoch_seconds
    if begins + lasts <= 0 or begins >= _ends(form, path, events):
        raise InputError(
            f"the night begins at {ours:%Y-%m-%d %H:%M:%S}, but {path.name} at {theirs:%Y-%m-%d %H:%M:%S}: "
            f"they do not overlap. {''.join(f'Assumed: {note}. ' for note in notes)}Is it another night's?"
        )
    if begins < 0 or not is_placed:
        if begins < 0:
            notes += (f"the night begins {-begins:g} s before {path.name}: times count from its first epoch",)
        return _with(night, _moved(events, night.offset_seconds - begins), notes)
    night_events = _moved(night.events, begins - night.offset_seconds)
    placed, more = _placed(replace(night, events=night_events), begins, path)
    return _with(placed, events, notes + more)


def _begins(path: Path, theirs: datetime, ours: datetime) -> tuple[float, tuple[str, ...]]:
    """Return the seconds from the recording's start to the night's; a missing time zone is the other's."""
    notes: tuple[str, ...] = ()
    if theirs.tzinfo is None and ours.tzinfo is not None:
        theirs = theirs.replace(tzinfo=ours.tzinfo)
        notes = (f"{path.name} tells no time zone: taken to be that of the night",)
    elif ours.tzinfo is None and theirs.tzinfo is not None:
        ours = ours.replace(tzinfo=theirs.tzinfo)
        notes = (f"the night tells no time zone: taken to be that of {path.name}",)
    return round(elapsed(theirs, ours), 9), notes


def _ends(form: FileFormat, path: Path, events: Sequence[Event]) -> float:
    """Return the length of a recording: that of its signals, else a day more than its annotations."""
    seconds = None if form.recording_seconds is None else form.recording_seconds(path)
    if seconds is not None:
        return seconds
    return max((event.onset + (event.seconds or 0.0) for event in events), default=0.0) + DAY_SECONDS


def _placed(night: Outgoing, begins: float, path: Path) -> tuple[Outgoing, tuple[str, ...]]:
    """Return a night with unscored epochs before it, so that less than one epoch of offset is left."""
    seconds = night.epoch_seconds
    n_before = int(begins / seconds + TOLERANCE)
    rest = round(begins - n_before * seconds, 9)
    notes: tuple[str, ...] = ()
    if rest < 0:  # closer to the next epoch than readers distinguish
        notes = (f"epochs begin {-rest:g} s later, with the epochs of {path.name}",)
        rest = 0.0
    if n_before:
        many = f"{n_before:,} unscored epoch{'s' * (n_before != 1)}"
        notes = (f"{path.name} begins {begins:g} s before the night: {many} put before it", *notes)
    placed = night.changed(lambda part: replace(part_of(part, -n_before, part.n_epochs), offset_seconds=rest))
    return placed, notes


def _moved(events: Sequence[Event], seconds: float) -> tuple[Event, ...]:
    return tuple(replace(event, onset=round(event.onset + seconds, 9)) for event in events)


def _with(night: Outgoing, events: Sequence[Event], notes: tuple[str, ...]) -> Outgoing:
    merged = sorted((*night.events, *events), key=lambda event: event.onset)
    return replace(night, events=tuple(merged), notes=(*night.notes, *notes))


def with_plain_events(form: FileFormat, night: Outgoing) -> tuple[Outgoing, tuple[str, ...]]:
    """Rename other annotations that a reader of this format takes for stages; also return what is lost."""
    is_taken = [] if form.are_taken is None else form.are_taken(night)
    if not any(is_taken):
        return night, ()
    pairs = list(zip(night.events, is_taken, strict=True))
    events = tuple(
        replace(event, text=PREFIX + event.text, concept="") if taken else event for event, taken in pairs
    )
    texts = sorted({event.text[:40] for event, taken in pairs if taken})
    shown = ", ".join(texts[:MOST_TEXTS]) + ", ..." * (len(texts) > MOST_TEXTS)
    n_renamed = sum(is_taken)
    names = f"name{'s' * (n_renamed != 1)} of {n_renamed:,} other annotation{'s' * (n_renamed != 1)}"
    return replace(night, events=events), (
        f"{names} ({shown}): {PREFIX!r} is put before, since readers would take it for a stage",
    )
