"""Read one recording from a file: its channels by role, its scorings aligned with it.

The recording is cut where the epochs of its scorings begin, so that no stage is shifted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

import numpy as np

from stageguard.arrays import DAY_SECONDS
from stageguard.errors import FileFormatError, InputError, MissingFileError, warn
from stageguard.files import as_path, faults_named, file_error, is_stream, is_synthetic, kept_file, open_file
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_hypnogram_file
from stageguard.formats.recordings.edf import MAGIC, NO_DATE
from stageguard.formats.recordings.raw import (
    RawRecording,
    crop,
    scale_samples,
    subtract_samples,
    to_standard,
)
from stageguard.formats.recordings.roles import find_label, guess_roles
from stageguard.formats.recordings.wfdb import read_wfdb_recording
from stageguard.formats.tools.edf_annotations import read_annotated_edf
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.recording import SLACK_SECONDS, Recording, Series, Signal
from stageguard.night.timing import seconds_between
from stageguard.storage import is_folder, location
from stageguard.units import known_unit

Scoring = str | os.PathLike[str] | Hypnogram
Channels = Mapping[str, Signal | Series]  # by label
SUFFIXES = (".edf", ".bdf", ".rec", ".hea")  # of recordings in a folder
USUAL_UNITS = {"spo2": "%", "heart_rate": "bpm"}  # assumed if a file gives none
EMBEDDED, EXPERT = "annotations", "expert"
SNAP = 0.01  # of an epoch, because clocks of two files are rounded to seconds


def read_recording(
    path: str | os.PathLike[str] | bytes | bytearray | BinaryIO,
    *,
    id: str | None = None,
    subject: str | None = None,
    channels: Mapping[str, str] | None = None,
    scoring: Scoring | Mapping[str, Scoring] | None = None,
    units: Mapping[str, str] | None = None,
    trailing: bool = False,
) -> Recording:
    """Read one recording from a file; signals stay in the file until a slice is needed.

    Parameters
    ----------
    path : path-like, bytes or binary file
        EDF, EDF+ (also with gaps, which are NaN), or the header (.hea) of a WFDB record, on this computer or
        at an address (s3://..., with the extra `remote`). Bytes, or what an object open for reading gives,
        are kept in a temporary file until the process ends.
    id : str, optional
        What to call the recording; by default the file's name.
    subject : str, optional
        Whose recording it is; by default what the file says, else the file's name.
    channels : mapping of str to str, optional
        Role -> label, for channels whose label does not tell the role: ``{"eeg": "C4-M1"}``. A label "A-B"
        that is not in the file is the difference of its channels A and B.
    scoring : path-like, Hypnogram, or mapping of str to these, optional
        The expert scoring, or several by scorer. By default the sleep stages in the file's annotations.
    units : mapping of str to str, optional
        Unit of a channel by role or label, if the file gives none.
    trailing : bool
        For datasets known for scored epochs beyond the end of their recordings: they are left out without a
        warning.

    Returns
    -------
    Recording
        Voltages in uV. Channels of known kind by role ("eeg", "eeg_2", "emg", "ecg", ...), others by label.
        Its `notes` say what was assumed or left out.

    Raises
    ------
    FileFormatError
        With one line that names the file and says what is wrong.
    InputError
        A channel in `channels` does not exist; the message lists those that do.
    """
    path = kept_file(path) if is_stream(path) else as_path(path, "path")
    with faults_named(path.name):
        try:
            raw = _read_raw(path)
        except FileNotFoundError as error:
            raise MissingFileError(
                f"{error.filename or path}: No such file or directory, expected a recording. Check its name."
            ) from None
    recording = build_recording(path, raw, id=id, subject=subject, channels=channels, units=units)
    named, notes = _scorings(path, raw, recording, scoring)
    recording = replace(recording, notes=recording.notes + notes)
    return lay_over(recording, named, trailing=trailing) if named else recording


def build_recording(
    path: Path,
    raw: RawRecording,
    *,
    id: str | None = None,
    subject: str | None = None,
    channels: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    roles: Mapping[str, str] | None = None,
) -> Recording:
    """Return a recording whose channels have roles; a dataset's `roles` (role -> label) replace the guess."""
    notes = list(raw.notes)
    notes += [f"channel {label!r} left out: {why}" for label, why in raw.unreadable.items()]
    if not raw.signals:
        raise file_error(path, "holds no readable signals" + (f": {notes[-1]}." if notes else "."))
    left = _with_units(path, raw, units or {}, channels or {}, notes)
    chosen = {role: _channel_for(path, raw, left, role, label) for role, label in (channels or {}).items()}
    for signal in chosen.values():
        left.pop(signal.name, None)
    guessed = _guess_roles(left) if roles is None else roles
    guessed = {role: label for role, label in guessed.items() if label in left and role not in chosen}
    if guessed and roles is None:
        notes.append("roles by label: " + ", ".join(f"{role} = {label}" for role, label in guessed.items()))
    for role, label in guessed.items():
        chosen[role] = signal = left.pop(label)
        unit = USUAL_UNITS.get(re.sub(r"_\d+$", "", role))
        if unit is not None and not signal.unit and isinstance(signal, Signal):
            notes.append(f"channel {label!r} has no unit: {unit} assumed")
            chosen[role] = replace(signal, unit=unit)
    chosen |= {label: signal for label, signal in left.items() if label not in chosen}
    if subject is None and raw.subject is None:
        notes.append(f"subject {path.stem!r} is the file's name")
    return Recording(
        id or path.stem,
        subject or raw.subject or path.stem,
        chosen,
        start=raw.start,
        lights_off_seconds=raw.lights_off_seconds,
        lights_on_seconds=raw.lights_on_seconds,
        covariates=raw.covariates,
        is_synthetic=raw.is_synthetic or is_synthetic(path),
        source=path.name,
        notes=tuple(notes),
    )


def _read_raw(path: Path) -> RawRecording:
    """Return what a file holds; a WFDB header is text, so its suffix tells it."""
    if is_folder(path):
        raise file_error(path, "is a folder, expected a recording. Name the file in it.")
    if path.suffix.lower() == ".hea":
        return read_wfdb_recording(path)
    with open_file(path) as file:
        head = file.read(8)
    if not head.startswith((MAGIC, b"\xffBIOSEMI")):
        content = f"begins with {head.decode('latin-1')!r}" if head else "is empty (0 bytes)"
        raise file_error(path, f"{content}, expected EDF or EDF+, or the header (.hea) of a WFDB record.")
    return read_annotated_edf(path)


def _guess_roles(signals: Channels) -> Mapping[str, str]:
    return guess_roles({label: (s.unit, getattr(s, "rate_hz", None)) for label, s in signals.items()})


def _with_units(
    path: Path, raw: RawRecording, units: Mapping[str, str], channels: Mapping[str, str], notes: list[str]
) -> dict[str, Signal | Series]:
    """Return channels with the units a caller gave; refuse a unit for a channel that has one in the file."""
    signals = dict(raw.signals)
    guessed = _guess_roles(signals) if units else {}
    for name, unit in units.items():
        label = find_label(channels.get(name, guessed.get(name, name)), list(signals), name, path.name)
        signal = signals.get(label) if isinstance(label, str) else None
        if not isinstance(signal, Signal) or known_unit(signal.unit) is not None:
            found = f"in {signal.unit} by the file" if signal else "not one channel of signals"
            raise InputError(
                f"channel {label!r} of {path.name} is {found}, got units={unit!r}. Leave it out."
            )
        wanted, *scale = to_standard(unit, signal.name)
        signals[signal.name] = replace(signal, samples=scale_samples(signal.samples, *scale), unit=wanted)
        notes.append(f"channel {label!r} is in {unit}, as given")
    return signals


def _channel_for(path: Path, raw: RawRecording, signals: Channels, role: str, wanted: str) -> Signal | Series:
    """Return the channel a caller mapped to a role."""
    if wanted in raw.unreadable:
        raise file_error(path, f"channel {wanted!r} cannot be read: {raw.unreadable[wanted]}.")
    label = find_label(wanted, list(signals), role, path.name)
    if isinstance(label, str):
        return signals[label]
    first, second = (signals[part] for part in label)
    if not (isinstance(first, Signal) and isinstance(second, Signal)) or (
        (first.rate_hz, first.unit, first.n_samples) != (second.rate_hz, second.unit, second.n_samples)
    ):
        raise InputError(f"{first!r} and {second!r} of {path.name} cannot be subtracted.")
    samples = subtract_samples(first.samples, second.samples)
    return Signal(f"{first.name}-{second.name}", samples, first.rate_hz, first.unit)


def _scorings(
    path: Path, raw: RawRecording, recording: Recording, given: Scoring | Mapping[str, Scoring] | None
) -> tuple[dict[str, tuple[Hypnogram, float]], tuple[str, ...]]:
    """Return scorings by scorer, each with the second at which it begins, and remarks."""
    is_own = given is None
    if given is None:
        given = {EMBEDDED: path} if raw.has_scoring else {}
    scorings: dict[str, tuple[Hypnogram, float]] = {}
    notes: tuple[str, ...] = ()
    for name, each in (given if isinstance(given, Mapping) else {EXPERT: given}).items():
        if isinstance(each, Hypnogram):
            label, night, has_clock = f"the scoring {name!r}", each, each.start is not None
        else:
            scored = read_hypnogram_file(each, FileOptions())
            label, night = location(each).name, scored.hypnogram
            has_clock = scored.has_clock and not is_own and recording.start not in (None, NO_DATE)
            notes += tuple(f"{label}: {note}" for note in scored.notes)
        begins = begins_after(night, recording) if has_clock else night.offset_seconds
        if begins is None:
            raise InputError(
                f"{label} begins at {night.start:%Y-%m-%d %H:%M:%S}, but recording {recording.id!r} at "
                f"{recording.start:%Y-%m-%d %H:%M:%S} and lasts {recording.seconds:,.0f} s: they do not "
                "overlap. Is it another night's?"
            )
        if begins:
            notes += (f"{label} begins {begins:g} s after the recording, by their clocks",)
        scorings[name] = night, begins
    return scorings, notes


def lay_over(
    recording: Recording, scorings: Mapping[str, tuple[Hypnogram, float]], *, trailing: bool = False
) -> Recording:
    """Return the recording with scorings by scorer, each with the second at which it begins.

    Scored epochs beyond the recording's end are left out, with a warning unless `trailing`.
    """
    cuts = {name: _cut(begins, night.epoch_seconds) for name, (night, begins) in scorings.items()}
    if len({round(cut, 3) for cut in cuts.values()}) > 1:
        shown = ", ".join(f"{name} {cut:g} s" for name, cut in cuts.items())
        raise FileFormatError(
            f"{recording.id}: its scorings begin at different places within an epoch ({shown}). Give one."
        )
    cut = next(iter(cuts.values()), 0.0)
    notes: tuple[str, ...] = ()
    if cut:
        recording = crop_recording(recording, cut, recording.seconds)
        notes = (f"its epochs begin {cut:g} s after the recording: the signals before that are left out",)
    fitted = {
        name: fit(night, recording, begins - cut, trailing=trailing)
        for name, (night, begins) in scorings.items()
    }
    return replace(recording, scorings=fitted, notes=recording.notes + notes)


def _cut(begins: float, epoch_seconds: float) -> float:
    """Return the seconds from the recording's start to the first boundary between epochs."""
    cut = begins % epoch_seconds
    return 0.0 if min(cut, epoch_seconds - cut) <= SNAP * epoch_seconds else cut


def fit(night: Hypnogram, recording: Recording, begins: float = 0.0, *, trailing: bool = False) -> Hypnogram:
    """Return a hypnogram with exactly the recording's epochs; epochs that `night` lacks are unscored."""
    n_epochs = int((recording.seconds + SLACK_SECONDS) // night.epoch_seconds)
    if n_epochs < 1:
        raise FileFormatError(
            f"{recording.id}: lasts {recording.seconds:g} s, expected at least one scored epoch of "
            f"{night.epoch_seconds:g} s."
        )
    shift = round(begins / night.epoch_seconds)
    labels = np.full(n_epochs, UNSCORED, dtype=np.int8)
    first, end = max(shift, 0), min(shift + night.n_epochs, n_epochs)
    if first < end:
        labels[first:end] = night.labels[first - shift : end - shift]
    n_scored = int((night.labels != UNSCORED).sum())
    n_lost = n_scored - int((labels != UNSCORED).sum())
    if n_scored and n_lost == n_scored:
        raise FileFormatError(
            f"{recording.id}: none of the {n_scored:,} scored epochs lies within the recording of "
            f"{recording.seconds:,.0f} s. Does the scoring belong to it?"
        )
    if n_lost > 1 and not trailing:
        text = (
            f"{recording.id}: {n_lost:,} of {n_scored:,} scored epochs lie outside the recording of "
            f"{recording.seconds:,.0f} s and are left out. Does the scoring belong to it?"
        )
        warn(text)
    return Hypnogram(labels, night.scheme, night.epoch_seconds, recording.start, night.scorer)


def begins_after(night: Hypnogram, recording: Recording) -> float | None:
    """Return the seconds from a recording's start to its scoring's, by their clocks; None without overlap.

    If a clock is missing, both begin together. Files of one night may have different dates, since dates are
    often removed: then their times of day count, if they agree to within an epoch.
    """
    scored, recorded = night.start, recording.start
    if scored is None or recorded is None or (scored.tzinfo is None) != (recorded.tzinfo is None):
        return 0.0
    shift = seconds_between(recorded, scored)
    if -night.n_epochs * night.epoch_seconds < shift < recording.seconds:
        return shift
    of_day = (shift + DAY_SECONDS / 2) % DAY_SECONDS - DAY_SECONDS / 2
    return of_day if abs(of_day) <= max(1.0, night.epoch_seconds) else None


def crop_recording(recording: Recording, first_seconds: float, end_seconds: float) -> Recording:
    """Return the part of a recording between two times; scorings are cut at the nearest epochs."""
    parts = {role: crop(signal, first_seconds, end_seconds) for role, signal in recording.signals.items()}
    start = None if recording.start is None else recording.start + timedelta(seconds=first_seconds)
    scorings = {}
    for name, night in recording.scorings.items():
        first, end = (round(at / night.epoch_seconds) for at in (first_seconds, end_seconds))
        scorings[name] = Hypnogram(
            night.labels[max(first, 0) : end], night.scheme, night.epoch_seconds, start, night.scorer
        )
    lights_off, lights_on = recording.lights_off_seconds, recording.lights_on_seconds
    return replace(
        recording,
        signals={role: part for role, part in parts.items() if part is not None},
        start=start,
        scorings=scorings,
        lights_off_seconds=None if lights_off is None else lights_off - first_seconds,
        lights_on_seconds=None if lights_on is None else lights_on - first_seconds,
    )
