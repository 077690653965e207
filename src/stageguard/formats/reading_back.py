"""What a format lost of a night, found by reading back what was made for it."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from stageguard.base.errors import Argument, FileFormatError, InputError, Message, OutputError
from stageguard.formats.density import DensityOptions
from stageguard.formats.file_format import FileFormat
from stageguard.formats.hypnogram import HypnogramOptions
from stageguard.formats.outgoing import Content, Outgoing, standard_scheme
from stageguard.formats.read import read_density_file, read_hypnogram_file
from stageguard.formats.staged_intervals import TOLERANCE
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.timing import part_of

MOST_TEXTS = 3


@dataclass(frozen=True, slots=True)
class _Copy:
    """A written night in a temporary folder, and what should come back from it."""

    path: Path
    form: FileFormat
    night: Outgoing

    def read(self, options: HypnogramOptions) -> Hypnogram | FileFormatError | InputError:
        """Return the stages that come back, or why none do."""
        try:
            return read_hypnogram_file(self.path, replace(options, format=self.form.name)).hypnogram
        except (FileFormatError, InputError) as error:
            return error

    def gives(self, options: HypnogramOptions, wanted: Hypnogram) -> bool:
        """Whether the wanted stages come back."""
        back = self.read(options)
        return isinstance(back, Hypnogram) and _is_same(back, wanted)


def lost_in(form: FileFormat, night: Outgoing, content: Content) -> tuple[str, ...]:
    """Return what the files cannot give back, in words for the user.

    Raises
    ------
    OutputError
        Other stages or probabilities would come back than those that were given.
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
    """Say how many other annotations are not in the files, and what they are."""
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
    plain = copy.read(HypnogramOptions())
    for wanted in candidates:
        if isinstance(plain, Hypnogram) and _is_same(plain, wanted):
            return [*[names] * (wanted is not given), *_lost_words(plain, wanted)]
    back = plain
    is_read = isinstance(plain, Hypnogram)
    for wanted in candidates:
        back = copy.read(HypnogramOptions(wanted.scheme, wanted.epoch_seconds))
        if not isinstance(back, Hypnogram) or not _is_same(back, wanted):
            is_read = is_read or isinstance(back, Hypnogram)
            continue
        lost = [names] * (wanted is not given)
        if not copy.gives(HypnogramOptions(epoch_seconds=wanted.epoch_seconds), wanted):
            name = wanted.scheme.name
            how = Argument("scheme", name) if name != "custom" else "its scheme"
            lost.append(Message("scheme (give ", how, " when reading)"))
        if not copy.gives(HypnogramOptions(wanted.scheme), wanted):
            lost.append(_lost_epoch_length(wanted.epoch_seconds))
        return lost + _lost_words(back, wanted)
    if not is_read:  # too little for a reader that takes nothing for a stage unless it is sure
        reason = str(back).removeprefix(f"{copy.path.name}: ").partition(". ")[0].rstrip(".")
        return [f"the way back: stageguard will not read it ({reason})"]
    raise OutputError(
        f"{copy.path.name}: other stages than given would come back from {copy.form.title}, so it is not "
        "written. Choose another format, and report this."
    )


def _is_same(found: Hypnogram, wanted: Hypnogram) -> bool:
    """Whether stages and epochs are the same, apart from digits of the epoch length."""
    wanted = part_of(wanted, -_n_added(found, wanted), wanted.n_epochs)
    is_near = abs(found.epoch_seconds - wanted.epoch_seconds) <= 1e-3 * wanted.epoch_seconds
    return is_near and found.scheme == wanted.scheme and np.array_equal(found.labels, wanted.labels)


def _n_added(found: Hypnogram | Hypnodensity, wanted: Hypnogram | Hypnodensity) -> int:
    """Return how many epochs from the recording's start to the first a reader has added as unscored."""
    n_before = int(wanted.offset_seconds / wanted.epoch_seconds + TOLERANCE)
    return n_before if found.n_epochs == wanted.n_epochs + n_before else 0


def _lost_words(back: Hypnogram, wanted: Hypnogram) -> list[str]:
    """Say what is lost besides stages: of the start, the scorer, the epoch length and the offset."""
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
    given = copy.night.density
    assert given is not None
    standard, places = standard_scheme(given.scheme)
    options = DensityOptions(scheme=given.scheme, format=copy.form.name, epoch_seconds=None)
    try:
        back = read_density_file(copy.path, options).density
    except (FileFormatError, InputError):
        back = read_density_file(copy.path, replace(options, epoch_seconds=given.epoch_seconds)).density
    given = part_of(given, -_n_added(back, given), given.n_epochs)
    is_own = back.scheme.names == given.scheme.names
    expected = given.probabilities if is_own else given.probabilities[:, np.argsort(places)]
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
        if back.start != given.start:
            lost.append("start time")
        if back.epoch_seconds != given.epoch_seconds:
            lost.append(_lost_epoch_length(given.epoch_seconds))
        lost += _lost_offset(back, given)
    return lost


def _lost_epoch_length(seconds: float) -> str:
    return Message("epoch length (give ", Argument("epoch_seconds", float(seconds)), " when reading)")
