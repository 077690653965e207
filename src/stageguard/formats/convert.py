"""Write nights in any tool's format, and convert from one to another.

Files appear complete or not at all, and never replace a file that was read. The written content is read back,
to find what the format cannot store.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from stageguard.base import checks
from stageguard.base.errors import Argument, FileFormatError, InputError, Message, OutputError, message_of
from stageguard.base.files import as_path, check_places, write_together
from stageguard.formats import registry
from stageguard.formats.density import DensityOptions
from stageguard.formats.file_format import FileFormat
from stageguard.formats.hypnogram import HypnogramOptions
from stageguard.formats.outgoing import Content, Outgoing, standard_scheme
from stageguard.formats.read import density_options, read_density_file, read_hypnogram_file
from stageguard.formats.sources import MOST_TEXTS, Reading, outgoing_of, with_events_of, with_plain_events
from stageguard.formats.tables.timing import TOLERANCE
from stageguard.guard.decoding import Decoding
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme, as_scheme
from stageguard.night.timing import part_of

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
    outgoing = outgoing_of(night)
    spare = list(spare)
    if annotations_from is not None:
        source = as_path(annotations_from, "annotations_from")
        outgoing = with_events_of(outgoing, source, is_placed=not form.holds_decoding)
        spare.append(source)
    try:
        return _write(form, replace(outgoing, id=target.stem), target, overwrite=overwrite, spare=spare)
    except InputError as error:  # errors of writers name an argument of `convert`
        raise InputError(message_of(error).replace_parts(_merging_by_hand)) from None


def _merging_by_hand(part: object) -> object:
    """Replace the argument `merge_to` of `convert` by a call of `merge_stages`."""
    if isinstance(part, Argument) and part.name == "merge_to":
        return Argument("merge_to", part.value, f"sg.merge_stages(night, {part.value!r})")
    return part


def convert(
    source: Any,
    target: str | os.PathLike[str],
    *,
    format: str | None = None,
    target_format: str | None = None,
    stages: Sequence[str] | None = None,
    scheme: StageScheme | str | None = None,
    epoch_seconds: float | None = None,
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
        annotations are converted, too, if the target can hold them. A list becomes one Parquet file.
    target : path-like
        The file to write.
    format, target_format : str, optional
        Names of the formats, if content or name are ambiguous.
    stages, scheme, epoch_seconds : optional
        What the source does not say about itself: names of its columns, its scheme, its epoch length.
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
    reading = Reading(
        replace(options, scheme=None if scheme is None else as_scheme(scheme)),
        None if merge_to is None else as_scheme(merge_to),
        None if reepoch_to is None else checks.epoch_seconds(reepoch_to),
    )
    beside = None if annotations_from is None else as_path(annotations_from, "annotations_from")
    if isinstance(source, list) and all(map(_is_night, source)):
        _refuse_list(source, form, has_annotations=beside is not None)
        return _write_cohort(form, source, reading, path, overwrite=overwrite)
    night = outgoing_of(source, reading)
    spare = [Path(source)] if isinstance(source, str | os.PathLike) else []
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
            density.argmax(),
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
    form: FileFormat, sources: Sequence[Any], reading: Reading, path: Path, *, overwrite: bool
) -> Written:
    from stageguard.formats.tools.parquet import write_cohort

    nights = []
    for number, source in enumerate(sources, start=1):
        night = outgoing_of(source, reading)
        nights.append(replace(night, id=night.id or f"night-{number}"))
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
    spare = [Path(source) for source in sources if isinstance(source, str | os.PathLike)]
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
        raise InputError(
            Message(
                Argument("annotations_from"), " belongs to one night, got several. Convert them one by one."
            )
        )


def _is_night(source: Any) -> bool:
    """Whether an item of a list is a night, rather than the stage of an epoch."""
    if isinstance(source, str):
        return Path(source).exists()
    return isinstance(source, os.PathLike | Decoding | Hypnogram | Hypnodensity)


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
    which = Argument("target_format", python=argument)
    if fitting:
        listed = ", ".join(f"{form.name} ({form.title})" for form in fitting)
        raise InputError(
            Message(f"{path.name}: may be several formats. Say which with ", which, f": {listed}.")
        )
    of_stages = _longest_match(path, able)
    if len(of_stages) == 1:
        stages_name = of_stages[0].name
        raise InputError(
            Message(
                f"{path.name}: {stages_name} holds stages, but there are only probabilities. Decode them "
                "first. For the most probable ones say it: ",
                Argument("target_format", stages_name, f"{argument}={stages_name!r}"),
                ".",
            )
        )
    listed = ", ".join(form.name for form in able if form.writes_probabilities_alone or not is_density)
    raise InputError(
        Message(f"{path.name}: no format has such a name. Say which with ", which, f": {listed}.")
    )


def _longest_match(path: Path, able: Sequence[FileFormat]) -> list[FileFormat]:
    """Return the formats with the longest suffix that a name ends with."""
    lower = path.name.lower()
    lengths = [max((len(s) for s in form.suffixes if lower.endswith(s)), default=0) for form in able]
    longest = max(lengths)
    return [form for form, length in zip(able, lengths, strict=True) if longest and length == longest]


@dataclass(frozen=True, slots=True)
class _Copy:
    """A written night in a temporary folder, and the night that reading it should return."""

    path: Path
    form: FileFormat
    night: Outgoing

    def read(self, options: HypnogramOptions) -> Hypnogram | FileFormatError | InputError:
        """Return the stages in the copy, or the error of reading it."""
        try:
            return read_hypnogram_file(self.path, replace(options, format=self.form.name)).hypnogram
        except (FileFormatError, InputError) as error:
            return error


def lost_in(form: FileFormat, night: Outgoing, content: Content) -> tuple[str, ...]:
    """Return what is lost when the files are read back, in words for the user.

    Raises
    ------
    OutputError
        Reading the files would return other stages or probabilities.
    """
    lost = [*night.left, *content.lost]
    if night.density is not None and not content.has_probabilities:
        lost.append("probabilities")
    if night.hypnogram is not None and not content.has_stages:
        lost.append("stages")
    if night.profile is not None and not content.has_profile:
        lost.append("profile")
    lost += lost_events(night, content)
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path, data in content.files.items():
            (Path(folder) / path.name).write_bytes(data.encode() if isinstance(data, str) else data)
        copy = _Copy(Path(folder) / next(iter(content.files)).name, form, night)
        if content.has_stages and night.hypnogram is not None and form.does("hypnogram"):
            lost += _lost_stages(copy, night.hypnogram)
        if content.has_probabilities and form.does("density"):
            lost += _lost_probabilities(copy, content)
    return tuple(dict.fromkeys(lost))


def lost_events(night: Outgoing, content: Content) -> list[str]:
    """Return how many other annotations are lost, and what is lost of those in the files."""
    n_lost = len(night.events) - content.n_events
    kept = night.events if content.n_events else ()
    words = {"kind": "type", "channel": "channel", "details": "details"}
    parts = [
        word
        for name, word in words.items()
        if name not in content.keeps and any(getattr(event, name) for event in kept)
    ]
    lost = [f"{' and '.join(parts)} of other annotations"] if parts else []
    if not n_lost:
        return lost
    kinds = Counter(event.text for event in night.events).most_common()
    shown = ", ".join(text[:40] for text, _ in kinds[:MOST_TEXTS]) + ", ..." * (len(kinds) > MOST_TEXTS)
    return [*lost, f"{n_lost:,} other annotation{'s' * (n_lost != 1)} ({shown})"]


def _lost_stages(copy: _Copy, given: Hypnogram) -> list[str]:
    standard, places = standard_scheme(given.scheme)
    named = replace(given, labels=np.append(places, -1)[given.labels].astype(np.int8), scheme=standard)
    candidates = (given,) if standard == given.scheme else (given, named)
    names = f"names of the stages (written as {', '.join(standard.names)})"
    attempts = [(wanted, HypnogramOptions(), list[str]()) for wanted in candidates]
    for wanted in candidates:
        name, seconds = wanted.scheme.name, wanted.epoch_seconds
        how = Argument("scheme", name) if name != "custom" else "its scheme"
        scheme, length = Message("scheme (give ", how, " when reading)"), _lost_epoch_length(seconds)
        attempts += [
            (wanted, HypnogramOptions(epoch_seconds=seconds), [length]),
            (wanted, HypnogramOptions(wanted.scheme), [scheme]),
            (wanted, HypnogramOptions(wanted.scheme, seconds), [scheme, length]),
        ]
    is_read = False
    for wanted, options, lost in attempts:
        back = copy.read(options)
        if isinstance(back, Hypnogram) and _is_same(back, wanted):
            return [*[names] * (wanted is not given), *lost, *_lost_words(back, wanted)]
        is_read = is_read or isinstance(back, Hypnogram)
    if not is_read:  # too little content for a reader that does not guess
        reason = str(back).removeprefix(f"{copy.path.name}: ").partition(". ")[0].rstrip(".")
        return [f"the way back: stageguard will not read it ({reason})"]
    raise OutputError(
        f"{copy.path.name}: other stages than given would come back from {copy.form.title}, so it is not "
        "written. Choose another format, and report this."
    )


def _is_same(back: Hypnogram, wanted: Hypnogram) -> bool:
    """Whether stages and epochs are the same, apart from rounding of the epoch length."""
    wanted = part_of(wanted, -_n_added(back, wanted), wanted.n_epochs)
    is_near = abs(back.epoch_seconds - wanted.epoch_seconds) <= 1e-3 * wanted.epoch_seconds
    return is_near and back.scheme == wanted.scheme and np.array_equal(back.labels, wanted.labels)


def _n_added(back: Hypnogram | Hypnodensity, wanted: Hypnogram | Hypnodensity) -> int:
    """Return how many unscored epochs the reader has added before the first, from the recording's start."""
    n_before = int(wanted.offset_seconds / wanted.epoch_seconds + TOLERANCE)
    return n_before if back.n_epochs == wanted.n_epochs + n_before else 0


def _lost_words(back: Hypnogram, wanted: Hypnogram) -> list[str]:
    """Return what is lost besides stages: of start, scorer, epoch length and offset."""
    lost = []
    wanted = part_of(wanted, -_n_added(back, wanted), wanted.n_epochs)
    start = wanted.start
    if start is not None and back.start != start:
        plain = start.replace(tzinfo=None)
        if back.start is None:
            lost.append("start time")
        elif back.start == plain:
            lost.append("time zone")
        else:
            near = abs((back.start.replace(tzinfo=None) - plain).total_seconds()) < 1
            lost.append("fractions of a second of the start time" if near else "start time")
    if wanted.scorer is not None and back.scorer != wanted.scorer:
        lost.append("scorer")
    if back.epoch_seconds != wanted.epoch_seconds:
        lost.append("digits of the epoch length")
    return lost + _lost_offset(back, wanted)


def _lost_offset(back: Hypnogram | Hypnodensity, wanted: Hypnogram | Hypnodensity) -> list[str]:
    if abs(back.offset_seconds - wanted.offset_seconds) <= 1e-6:
        return []
    return [f"{wanted.offset_seconds:g} s from the recording's start to the first epoch"]


def _lost_probabilities(copy: _Copy, content: Content) -> list[str]:
    density = copy.night.density
    assert density is not None
    standard, places = standard_scheme(density.scheme)
    options = DensityOptions(scheme=density.scheme, format=copy.form.name, epoch_seconds=None)
    try:
        back = read_density_file(copy.path, options).density
    except (FileFormatError, InputError):
        back = read_density_file(copy.path, replace(options, epoch_seconds=density.epoch_seconds)).density
    density = part_of(density, -_n_added(back, density), density.n_epochs)
    is_own = back.scheme.names == density.scheme.names
    expected = density.probabilities if is_own else density.probabilities[:, np.argsort(places)]
    if not is_own and back.scheme.names != standard.names:
        raise OutputError(
            f"{copy.path.name}: other stages than given would come back. Choose another format."
        )
    if back.probabilities.shape != expected.shape or not np.allclose(
        back.probabilities, expected, rtol=0, atol=1e-3, equal_nan=True
    ):
        raise OutputError(
            f"{copy.path.name}: other probabilities than given would come back. Choose another format."
        )
    lost = []
    if not np.allclose(back.probabilities, expected, rtol=0, atol=1e-12, equal_nan=True):
        lost.append("digits of the probabilities")
    if copy.night.hypnogram is None or not content.has_stages:
        if back.start != density.start:
            lost.append("start time")
        if back.epoch_seconds != density.epoch_seconds:
            lost.append(_lost_epoch_length(density.epoch_seconds))
        lost += _lost_offset(back, density)
    return lost


def _lost_epoch_length(seconds: float) -> str:
    return Message("epoch length (give ", Argument("epoch_seconds", float(seconds)), " when reading)")
