"""Write nights in any tool's format, and convert from one to another.

Files appear complete or not at all, and never replace a file that was read. The written content is read back,
to find what the format cannot store.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from stageguard import checks
from stageguard.errors import (
    FileFormatError,
    InputError,
    StageGuardError,
    StageGuardWarning,
)
from stageguard.files import as_path, check_places, write_together
from stageguard.formats import registry
from stageguard.formats.density import DensityFile, existing_file
from stageguard.formats.events import by_onset, with_events_of, with_plain_events
from stageguard.formats.file_format import FileFormat
from stageguard.formats.losses import lost_events, lost_in
from stageguard.formats.night import BOTH, FileOptions
from stageguard.formats.outgoing import Outgoing, outgoing_of_night
from stageguard.formats.read import (
    ParsedFile,
    density_options,
    is_hypnogram,
    night_name,
    parse_density,
    parse_hypnogram,
    read_density_object,
    read_hypnogram_file,
)
from stageguard.guard.decoding import Decoding
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme, as_scheme
from stageguard.night.timing import with_start
from stageguard.storage import location, names_file

ARGMAX_NOTE = "stages are the most probable ones, not decoded"
BOTH_N3 = "stages 3 and 4 of Rechtschaffen and Kales are both N3"
_STAGE_4 = re.compile(r"(?:(?:sleep[ _])?stage[ _]?|nrem|n|s)4(?: sleep)?(?:\|4)?", re.IGNORECASE)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: the files, the main file first, and what their format could not store.

    Attributes
    ----------
    files : tuple of Path
        The written files.
    format : str
        Name of the format.
    lost : tuple of str
        What reading the files will not give back.
    notes : tuple of str
        What was assumed.
    """

    files: tuple[Path, ...]
    format: str
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The main file."""
        return self.files[0]

    def __str__(self) -> str:
        """Return files, format and losses in one line."""
        more = f" and {', '.join(path.name for path in self.files[1:])}" if self.files[1:] else ""
        lost = f"; lost: {', '.join(self.lost)}" if self.lost else "; nothing lost"
        return f"{self.path}{more} ({self.format}){lost}"


def save(
    night: Decoding | Hypnogram | Hypnodensity,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    overwrite: bool = False,
    annotations_from: str | os.PathLike[str] | None = None,
    spare: Iterable[Path] = (),
) -> Written:
    """Write a night in the format of a tool.

    Parameters
    ----------
    night : Decoding, Hypnogram or Hypnodensity
        What to write.
    path : path-like
        The file.
    format : str, optional
        Name of the format (see docs/formats.md); by default the only format with the suffix of `path`.
    overwrite : bool
        Replace an existing file, which is an error otherwise.
    annotations_from : path-like, optional
        A file whose other annotations (arousals, apnoeas, lights) are written, too: EDF+, NSRR or Profusion
        XML, Luna .annot, BIDS events. The night is aligned with that recording by their clocks; epochs before
        the night are unscored.
    spare : iterable of Path
        Files that were read, which are never replaced.

    Returns
    -------
    Written
        The files, and what the format could not carry.
    """
    target = as_path(path, "path")
    form = _format_for(target, format, "format", is_density=isinstance(night, Hypnodensity))
    outgoing = outgoing_of(night, FileOptions())
    spare = list(spare)
    if annotations_from is not None:
        source = as_path(annotations_from, "annotations_from")
        outgoing = with_events_of(outgoing, source, is_placed=not form.holds_decoding)
        spare.append(source)
    return _write(form, replace(outgoing, id=target.stem), target, overwrite=overwrite, spare=spare)


def convert(
    source: Any,
    target: str | os.PathLike[str],
    *,
    format: str | None = None,
    target_format: str | None = None,
    stages: Sequence[str] | None = None,
    scheme: StageScheme | str | None = None,
    epoch_seconds: float | None = None,
    column: str | None = None,
    merge_to: StageScheme | str | None = None,
    reepoch_to: float | None = None,
    annotations_from: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    logits: bool = False,
    log: bool = False,
    pool_to_seconds: float | None = None,
    normalize: bool = False,
) -> Written:
    """Convert a night from any format that can be read to any that can be written.

    Parameters
    ----------
    source : path-like, object, or list of these
        Anything that `read_hypnogram` or `read_density` reads, or a decoding. Arousals, apnoeas and other
        annotations are converted, too, if the target can hold them. A list of nights becomes one Parquet
        file.
    target : path-like
        The file to write.
    format, target_format : str, optional
        Names of the formats, if content or name are ambiguous.
    stages, scheme, epoch_seconds : optional
        What the source does not say about itself: names of its columns, its scheme, its epoch length.
    column : str, optional
        Which stages of the source, as in `read_hypnogram`: a column, or an annotator of a BIDS table.
    merge_to : StageScheme or str, optional
        A coarser scheme for the target, such as "wnr3".
    reepoch_to : float, optional
        Another epoch length for the target, in seconds.
    annotations_from : path-like, optional
        Another file whose annotations other than stages are written, too; see `save`.
    overwrite : bool
        Replace an existing target, which is an error otherwise.
    logits, log, pool_to_seconds, normalize : optional
        How to read probabilities, as in `read_density`.

    Returns
    -------
    Written
        The files, what the target's format could not carry, and what was assumed.
    """
    path = as_path(target, "target")
    form = _format_for(path, target_format, "target_format")
    options = density_options(
        format,
        stages,
        epoch_seconds,
        logits=logits,
        log=log,
        pool_to_seconds=pool_to_seconds,
        normalize=normalize,
    )
    options = replace(
        options,
        scheme=None if scheme is None else as_scheme(scheme),
        column=None if column is None else checks.text(column, "column"),
    )
    reshape = Reshape(
        None if merge_to is None else as_scheme(merge_to),
        None if reepoch_to is None else checks.epoch_seconds(reepoch_to),
    )
    beside = None if annotations_from is None else as_path(annotations_from, "annotations_from")
    if isinstance(source, list) and all(map(_is_night, source)):
        _refuse_list(source, form, has_annotations=beside is not None)
        spare = [location(night) for night in source if names_file(night)]
        nights = [reshape(outgoing_of(night, options)) for night in source]
        return _write_cohort(form, nights, path, overwrite=overwrite, spare=spare)
    night = reshape(outgoing_of(source, options))
    spare = [location(source)] if names_file(source) else []
    if beside is not None:
        night = with_events_of(night, beside, is_placed=not form.holds_decoding)
        spare.append(beside)
    return _write(form, replace(night, id=night.id or path.stem), path, overwrite=overwrite, spare=spare)


def _write(
    form: FileFormat, night: Outgoing, path: Path, *, overwrite: bool, spare: Iterable[Path]
) -> Written:
    density = night.density
    if night.hypnogram is None and density is not None and not form.writes_probabilities_alone:
        labels = Hypnogram(
            density.argmax,
            density.scheme,
            density.epoch_seconds,
            density.start,
            offset_seconds=density.offset_seconds,
        )
        night = replace(night, hypnogram=labels, notes=(*night.notes, ARGMAX_NOTE))
    written, renamed = with_plain_events(form, night)
    assert form.write is not None
    content = form.write(written, path)
    check_places(content.files, overwrite=overwrite)
    lost = (*lost_in(form, written, content), *renamed)
    write_together(content.files, overwrite=overwrite, make_folders=True, spare=spare)
    return Written(tuple(content.files), form.name, lost, (*night.notes, *content.notes))


def _write_cohort(
    form: FileFormat, nights: Sequence[Outgoing], path: Path, *, overwrite: bool, spare: Iterable[Path]
) -> Written:
    from stageguard.formats.tools.parquet import write_cohort

    nights = [
        replace(night, id=night.id or f"night-{number}") for number, night in enumerate(nights, start=1)
    ]
    ids = [night.id for night in nights]
    twice = next((name for name in ids if ids.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"two nights are called {twice!r}, expected names that tell them apart. Rename a file."
        )
    content = write_cohort(nights, path)
    events = [event for night in nights for event in night.events]
    left = [loss for night in nights for loss in night.left]
    lost = left + lost_events(replace(nights[0], events=tuple(events)), content)
    if any(night.profile is not None for night in nights):
        lost.append("profile")
    write_together(content.files, overwrite=overwrite, make_folders=True, spare=spare)
    notes = dict.fromkeys(note for night in nights for note in night.notes)
    return Written(tuple(content.files), form.name, tuple(lost), tuple(notes))


def _refuse_list(sources: Sequence[Any], form: FileFormat, *, has_annotations: bool) -> None:
    """Refuse nights that one file cannot hold."""
    if not sources:
        raise InputError("got an empty list, expected one or more nights to convert.")
    if not form.holds_cohort:
        raise InputError(
            f"got a list of {len(sources)} night{'s' * (len(sources) != 1)}, but {form.name} holds one. "
            "Convert them one by one, or write one .parquet file."
        )
    if has_annotations:
        raise InputError("annotations_from belongs to one night, got several. Convert them one by one.")


def _is_night(source: Any) -> bool:
    """Whether an item of a list is a night, rather than the stage of an epoch."""
    if isinstance(source, str):
        return location(source).exists()
    return names_file(source) or isinstance(source, Decoding | Hypnogram | Hypnodensity)


def _format_for(path: Path, name: str | None, argument: str, *, is_density: bool = False) -> FileFormat:
    """Return the format to write: the named one, or the only one with the suffix of the file."""
    if name is not None:
        return registry.named(name, "write")
    able = [form for form in registry.formats() if form.does("write")]
    fitting = _longest_match(
        path, [form for form in able if form.writes_probabilities_alone or not is_density]
    )
    if len(fitting) == 1:
        return fitting[0]
    which = f"{argument}"
    if fitting:
        listed = ", ".join(f"{form.name} ({form.title})" for form in fitting)
        raise InputError(f"{path.name}: may be several formats. Say which with {which}: {listed}.")
    of_stages = _longest_match(path, able)
    if len(of_stages) == 1:
        stages_name = of_stages[0].name
        raise InputError(
            f"{path.name}: {stages_name} holds stages, but there are only "
            "probabilities. Decode them first. For the most probable ones say it: "
            f"{argument}={stages_name!r}."
        )
    listed = ", ".join(form.name for form in able if form.writes_probabilities_alone or not is_density)
    raise InputError(f"{path.name}: no format has such a name. Say which with {which}: {listed}.")


def _longest_match(path: Path, able: Sequence[FileFormat]) -> list[FileFormat]:
    """Return the formats with the longest suffix that a name ends with."""
    lower = path.name.lower()
    lengths = [max((len(s) for s in form.suffixes if lower.endswith(s)), default=0) for form in able]
    longest = max(lengths)
    return [form for form, length in zip(able, lengths, strict=True) if longest and length == longest]


@dataclass(frozen=True, slots=True)
class ListedFile(os.PathLike[str]):
    """A file whose night gets its name from a sample list, and its start if the file tells none."""

    path: Path
    id: str
    start: datetime | None = None
    has_date: bool = True  # if not, only the time of day of the start is known

    def __fspath__(self) -> str:
        """Return the path."""
        return str(self.path)

    def name(self, night: Outgoing) -> Outgoing:
        """Return a night with this name and start."""
        notes = night.notes
        starts = [part.start for part in (night.hypnogram, night.density) if part is not None]
        if self.start is not None and not self.has_date and None in starts:
            notes += (f"only the time of its start is known: {self.start:%Y-%m-%d} is written as the date",)
        return replace(night.changed(lambda part: with_start(part, self.start)), id=self.id, notes=notes)


def outgoing_of(source: Any, options: FileOptions) -> Outgoing:
    """Return a night to write from a file, or from an object of this package or another library."""
    if names_file(source):
        if isinstance(source, ListedFile):
            return source.name(_read_file(existing_file(source.path), options))
        return _read_file(existing_file(source), options)
    if isinstance(source, Hypnodensity) and options != FileOptions():
        return _add_density(Outgoing(None), read_density_object(source, options))
    if isinstance(source, Decoding | Hypnogram | Hypnodensity):
        return outgoing_of_night(source)
    return _read_object(source, options)


def _read_file(path: Path, options: FileOptions) -> Outgoing:
    if not _holds_stages(path, options):
        registry.detect(path, "density", name=options.format)  # a wrong name is told before a wrong kind
        density, parsed = parse_density(path, options)
        stages = _try(lambda: parsed.hypnogram(options)) if parsed.form.holds_both else None
        night = Outgoing(None if stages is None else replace(stages.hypnogram, scorer=None))
        return replace(_add_density(night, density), id=night_name(path))
    scored, parsed = parse_hypnogram(path, options)
    beside = _try(lambda: parsed.density(options)) if parsed.form.holds_both else None
    hypnogram = scored.hypnogram
    if hypnogram.scorer == path.name:  # the file does not say who scored it
        hypnogram = replace(hypnogram, scorer=None)
    left = list(_try(parsed.night.left_columns) or ())
    night = Outgoing(
        hypnogram,
        events=by_onset(parsed.night.events()),
        profile=scored.profile,
        id=night_name(path),
        notes=(
            *(note for note in scored.notes if note not in scored.left_out),
            *[BOTH_N3] * _has_stage_4(parsed),
        ),
        left=(f"column{'s' * (len(left) > 1)} {', '.join(left)} of {path.name}",) if left else (),
    )
    return _add_density(night, beside)


def _holds_stages(path: Path, options: FileOptions) -> bool:
    """Whether the stages of a file are meant, rather than its probabilities."""
    name = options.format
    by_name = next((form for form in registry.formats() if form.name == name), None)
    if name is not None and (by_name is None):
        registry.named(name, "density")  # raises an error that lists the formats
    if by_name is not None and by_name.reader.parts != BOTH:
        return by_name.does("hypnogram")
    return is_hypnogram(path, options.scheme)


def _has_stage_4(parsed: ParsedFile) -> bool:
    """Whether stage 4 of Rechtschaffen and Kales is among the stages."""
    texts = {text.strip() for text in parsed.night.stage_texts()}
    return "4" in texts if parsed.form.has_numbers else any(map(_STAGE_4.fullmatch, texts))


def _read_object(source: Any, options: FileOptions) -> Outgoing:
    from stageguard.formats.objects import OBJECTS

    kind = next((kind for kind in OBJECTS if kind.is_it(source)), None)
    if kind is not None and kind.does("density"):
        density = _try(lambda: read_density_object(source, options))
        scored = _try(lambda: read_hypnogram_file(source, options))
        if density is not None or scored is not None:
            return _add_density(Outgoing(None if scored is None else scored.hypnogram), density)
        read_density_object(source, options)  # raises the error again
    read = read_hypnogram_file(source, options)
    return Outgoing(read.hypnogram, notes=read.notes)


def _try(read: Callable[[], Result]) -> Result | None:
    try:
        return read()
    except (FileFormatError, InputError):
        return None


def _add_density(night: Outgoing, read: DensityFile | None) -> Outgoing:
    """Return a night with its probabilities if they have the same epochs and stages as its labels."""
    if read is None:
        return night
    density, hypnogram = read.density, night.hypnogram
    if hypnogram is not None:
        merged = _try(lambda: read.density.merge(hypnogram.scheme))
        if merged is None or _epochs(merged) != _epochs(hypnogram):
            return replace(night, notes=(*night.notes, "its probabilities are of other epochs: left out"))
        density = merged
    return replace(night, density=density, notes=tuple(dict.fromkeys((*night.notes, *read.notes))))


def _epochs(night: Hypnogram | Hypnodensity) -> tuple[int, float]:
    return night.n_epochs, night.offset_seconds


@dataclass(frozen=True, slots=True)
class Reshape:
    """A coarser scheme and another epoch length for nights that are converted; None keeps what they have."""

    merge_to: StageScheme | None = None
    reepoch_to: float | None = None

    def __call__(self, night: Outgoing) -> Outgoing:
        """Return a night in this scheme and epoch length; this package's warnings become notes."""
        merge_to, reepoch_to = self.merge_to, self.reepoch_to
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", StageGuardWarning)
            merged = night if merge_to is None else night.changed(lambda part: part.merge(merge_to))
            after = merged if reepoch_to is None else merged.changed(lambda part: part.reepoch(reepoch_to))
        said = [str(one.message).rstrip(".") for one in caught if issubclass(one.category, StageGuardWarning)]
        is_same = (after.hypnogram, after.density) == (night.hypnogram, night.density)
        return replace(
            after,
            decoding=night.decoding if is_same else None,
            notes=tuple(dict.fromkeys((*night.notes, *said))),
            left=(*night.left, *_lost_stages(merged.hypnogram, after.hypnogram)),
        )


def _lost_stages(before: Hypnogram | None, after: Hypnogram | None) -> tuple[str, ...]:
    """Return a remark on stages that vanish in longer epochs."""
    if before is None or after is None:
        return ()
    left = [name for name in before.scheme.names if name in before.stages and name not in after.stages]
    text = f"stages that no epoch of {after.epoch_seconds:g} s has most of: {', '.join(left)}"
    return (text,) if left else ()


def formats_for(night: Hypnogram) -> tuple[FileFormat, ...]:
    """Return the formats that can hold a scoring of these stages and epochs.

    They are found by trying: a writer returns its content, and writes no file.
    """
    every_stage = np.arange(night.scheme.n_stages, dtype=np.int8)
    short = outgoing_of_night(replace(night, labels=every_stage))
    return tuple(form for form in registry.formats() if form.does("write") and _can_hold(form, short))


def _can_hold(form: FileFormat, night: Outgoing) -> bool:
    assert form.write is not None
    try:
        form.write(night, Path(f"night{form.written_suffix}"))
    except StageGuardError:
        return False
    return True
