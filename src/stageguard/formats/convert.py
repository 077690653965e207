"""Write nights in any tool's format, and convert from one to another.

Files appear complete or not at all, and never replace a file that was read. Each format declares what it
cannot store.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from stageguard import checks
from stageguard.errors import InputError, StageGuardError, StageGuardWarning
from stageguard.files import as_path, write_together
from stageguard.formats import registry
from stageguard.formats.events import MOST_TEXTS, with_events_of, with_plain_events
from stageguard.formats.file_format import (
    ANNOTATIONS,
    DETAILS,
    LEAD,
    NAMES,
    OTHER_PROBABILITIES,
    PROBABILITIES,
    SCORER,
    STAGES,
    START,
    TYPES,
    ZONE,
    FileFormat,
)
from stageguard.formats.night import FileOptions, Night, night_of
from stageguard.formats.read import density_options, read_night
from stageguard.formats.write import standard_scheme
from stageguard.guard.decoding import Decoding
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme, as_scheme
from stageguard.night.timing import with_start
from stageguard.storage import location, names_file

ARGMAX_NOTE = "stages are the most probable ones, not decoded"


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
    given = night_of(night)
    spare = list(spare)
    if annotations_from is not None:
        source = as_path(annotations_from, "annotations_from")
        given = with_events_of(given, source, is_placed=not form.holds_decoding)
        spare.append(source)
    return _write(form, replace(given, id=target.stem), target, overwrite=overwrite, spare=spare)


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
        nights = [reshape(_read(night, options)) for night in source]
        return _write_cohort(form, nights, path, overwrite=overwrite, spare=spare)
    night = reshape(_read(source, options))
    spare = [location(source)] if names_file(source) else []
    if beside is not None:
        night = with_events_of(night, beside, is_placed=not form.holds_decoding)
        spare.append(beside)
    return _write(form, replace(night, id=night.id or path.stem), path, overwrite=overwrite, spare=spare)


def _write(form: FileFormat, night: Night, path: Path, *, overwrite: bool, spare: Iterable[Path]) -> Written:
    density = night.probabilities
    if night.scoring is None and density is not None and not form.writes_probabilities_alone:
        labels = Hypnogram(
            density.argmax,
            density.scheme,
            density.epoch_seconds,
            density.start,
            offset_seconds=density.offset_seconds,
        )
        night = replace(night, scoring=labels, notes=(*night.notes, ARGMAX_NOTE))
    written, renamed = with_plain_events(form, night)
    assert form.write is not None
    contents = form.write(written, path)
    write_together(contents, overwrite=overwrite, make_folders=True, spare=spare)
    return Written(tuple(contents), form.name, (*lost_in(form, written), *renamed), night.notes)


def lost_in(form: FileFormat, night: Night) -> tuple[str, ...]:
    """Return what a night has that its file in this format will not have."""
    scoring, part, events = night.scoring, night.any, night.events
    start = part.start
    has = {
        PROBABILITIES: night.probabilities is not None,
        OTHER_PROBABILITIES: night.probabilities is not None,
        STAGES: scoring is not None,
        NAMES: standard_scheme(part.scheme)[0] != part.scheme,
        START: start is not None,
        ZONE: start is not None and start.tzinfo is not None,
        LEAD: part.offset_seconds % part.epoch_seconds != 0,
        SCORER: scoring is not None and scoring.scorer is not None,
        TYPES: any(event.kind for event in events),
        DETAILS: any(event.channel or event.details for event in events),
    }
    lost = [*night.lost, *(loss for loss in form.loses if loss != ANNOTATIONS and has.get(loss, True))]
    if night.profile is not None and not form.holds_decoding:
        lost.append("profile")
    if events and form.events is None:
        kinds = list(dict.fromkeys(event.text[:40] for event in events))
        shown = ", ".join(kinds[:MOST_TEXTS]) + ", ..." * (len(kinds) > MOST_TEXTS)
        lost.append(f"{len(events):,} other annotation{'s' * (len(events) != 1)} ({shown})")
    return tuple(dict.fromkeys(lost))


def _write_cohort(
    form: FileFormat, nights: Sequence[Night], path: Path, *, overwrite: bool, spare: Iterable[Path]
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
    contents = write_cohort(nights, path)
    write_together(contents, overwrite=overwrite, make_folders=True, spare=spare)
    lost = dict.fromkeys(loss for night in nights for loss in lost_in(form, night))
    notes = dict.fromkeys(note for night in nights for note in night.notes)
    return Written(tuple(contents), form.name, tuple(lost), tuple(notes))


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
    if fitting:
        listed = ", ".join(f"{form.name} ({form.title})" for form in fitting)
        raise InputError(f"{path.name}: may be several formats. {_as_in(argument, fitting)}: {listed}.")
    what = "probabilities alone" if is_density else "nights"
    able = [form for form in able if form.writes_probabilities_alone or not is_density]
    listed = ", ".join(form.name for form in able)
    raise InputError(f"{path.name}: no format of {what} is called so. {_as_in(argument, able)}: {listed}.")


def _as_in(argument: str, able: list[FileFormat]) -> str:
    """Return how to say which format is meant."""
    return f"Say which, as in {argument}={able[0].name!r}"


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

    def name(self, night: Night) -> Night:
        """Return a night with this name and start."""
        notes = night.notes
        starts = [part.start for part in (night.scoring, night.probabilities) if part is not None]
        if self.start is not None and not self.has_date and None in starts:
            notes += (f"only the time of its start is known: {self.start:%Y-%m-%d} is written as the date",)
        return replace(night.changed(lambda part: with_start(part, self.start)), id=self.id, notes=notes)


def _read(source: Any, options: FileOptions) -> Night:
    if isinstance(source, ListedFile):
        return source.name(read_night(source.path, options))
    return read_night(source, options)


@dataclass(frozen=True, slots=True)
class Reshape:
    """A coarser scheme and another epoch length for nights that are converted; None keeps what they have."""

    merge_to: StageScheme | None = None
    reepoch_to: float | None = None

    def __call__(self, night: Night) -> Night:
        """Return a night in this scheme and epoch length; this package's warnings become notes."""
        merge_to, reepoch_to = self.merge_to, self.reepoch_to
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", StageGuardWarning)
            after = night if merge_to is None else night.changed(lambda part: part.merge(merge_to))
            after = after if reepoch_to is None else after.changed(lambda part: part.reepoch(reepoch_to))
        said = [str(one.message).rstrip(".") for one in caught if issubclass(one.category, StageGuardWarning)]
        is_same = (after.scoring, after.probabilities) == (night.scoring, night.probabilities)
        return replace(
            after,
            decoding=night.decoding if is_same else None,
            notes=tuple(dict.fromkeys((*night.notes, *said))),
        )


def formats_for(night: Hypnogram) -> tuple[FileFormat, ...]:
    """Return the formats that can hold a scoring of these stages and epochs.

    They are found by trying: a writer returns its content, and writes no file.
    """
    every_stage = np.arange(night.scheme.n_stages, dtype=np.int8)
    short = night_of(replace(night, labels=every_stage))
    return tuple(form for form in registry.formats() if form.does("write") and _can_hold(form, short))


def _can_hold(form: FileFormat, night: Night) -> bool:
    assert form.write is not None
    try:
        form.write(night, Path(f"night{form.written_suffix}"))
    except StageGuardError:
        return False
    return True
