"""What a written file loses: its content is read back, and compared with the night."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from stageguard.errors import FileFormatError, InputError, OutputError
from stageguard.formats.events import MOST_TEXTS
from stageguard.formats.file_format import FileFormat
from stageguard.formats.night import FileOptions
from stageguard.formats.outgoing import Content, Outgoing, standard_scheme
from stageguard.formats.read import read_density_file, read_hypnogram_file
from stageguard.formats.tables.timing import TOLERANCE
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.timing import part_of


@dataclass(frozen=True, slots=True)
class _Copy:
    """A written night in a temporary folder, and the night that reading it should return."""

    path: Path
    form: FileFormat
    night: Outgoing

    def read(self, options: FileOptions) -> Hypnogram | FileFormatError | InputError:
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
    named = in_standard_scheme(given)
    standard = named.scheme
    candidates = (given,) if standard == given.scheme else (given, named)
    names = f"names of the stages (written as {', '.join(standard.names)})"
    attempts = [(wanted, FileOptions(), list[str]()) for wanted in candidates]
    for wanted in candidates:
        name, seconds = wanted.scheme.name, wanted.epoch_seconds
        how = f"scheme={name!r}" if name != "custom" else "its scheme"
        scheme, length = f"scheme (give {how} when reading)", _lost_epoch_length(seconds)
        attempts += [
            (wanted, FileOptions(epoch_seconds=seconds), [length]),
            (wanted, FileOptions(scheme=wanted.scheme), [scheme]),
            (wanted, FileOptions(scheme=wanted.scheme, epoch_seconds=seconds), [scheme, length]),
        ]
    is_read = False
    for wanted, options, lost in attempts:
        back = copy.read(options)
        if isinstance(back, Hypnogram) and is_same(back, wanted):
            return [*[names] * (wanted is not given), *lost, *_lost_words(back, wanted)]
        is_read = is_read or isinstance(back, Hypnogram)
    if not is_read:  # too little content for a reader that does not guess
        reason = str(back).removeprefix(f"{copy.path.name}: ").partition(". ")[0].rstrip(".")
        return [f"the way back: stageguard will not read it ({reason})"]
    raise OutputError(
        f"{copy.path.name}: other stages than given would come back from {copy.form.title}, so it is not "
        "written. Choose another format, and report this."
    )


def in_standard_scheme(given: Hypnogram) -> Hypnogram:
    """Return the same stages in the standard scheme that has them, if there is one."""
    standard, places = standard_scheme(given.scheme)
    return replace(given, labels=np.append(places, -1)[given.labels].astype(np.int8), scheme=standard)


def is_same(back: Hypnogram, wanted: Hypnogram) -> bool:
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
    options = FileOptions(scheme=density.scheme, format=copy.form.name)
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
    return f"epoch length (give epoch_seconds={float(seconds):g} when reading)"
