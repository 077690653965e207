"""Where lights, hours and phases cut a recording, and stage times per piece."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from stageguard.base import checks
from stageguard.base.arrays import DAY_SECONDS, NAN, Indices, Labels
from stageguard.base.errors import Argument, InputError, Message
from stageguard.measures.bouts import bouts_of
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.night.timing import recording_start

Moment = float | timedelta | datetime | str  # a number is seconds since the beginning of the recording

LIGHT_PHASE_SECONDS = 43200.0  # 12 h of light and 12 h of darkness

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """An hour or a phase of a recording.

    Attributes
    ----------
    name : str
        ``light``, ``dark``, ``ZT 3`` (fourth hour after lights on) or ``hour 3`` (fourth hour of TIB).
    n_epochs : int
        Epochs in it; the first and the last hour may be cut short.
    scored_minutes : float
        How much of it is scored.
    stage_minutes, stage_percent : mapping
        Time per stage, in minutes and in percent of the scored time (NaN where nothing is scored).
    bouts : mapping
        Bouts per stage that begin in it.
    mean_bout_minutes : mapping
        Their mean length, wherever they end; NaN where there is none.
    """

    name: str
    n_epochs: int
    scored_minutes: float
    stage_minutes: Mapping[str, float]
    stage_percent: Mapping[str, float]
    bouts: Mapping[str, int]
    mean_bout_minutes: Mapping[str, float]


def lights_window(
    hypnogram: Hypnogram, lights_off: Moment | None, lights_on: Moment | None
) -> tuple[int, int]:
    """Return [first, stop) of the epochs between lights off and lights on, to the nearest epoch."""
    n_epochs = hypnogram.n_epochs
    first = 0 if lights_off is None else _epoch_at(hypnogram, lights_off, "lights_off", 0)
    stop = n_epochs if lights_on is None else _epoch_at(hypnogram, lights_on, "lights_on", first)
    if not first < stop:
        raise InputError(
            f"lights are off from epoch {first} and on from epoch {stop} of {n_epochs}, "
            "expected at least one epoch between them."
        )
    return first, stop


def lights_words(hypnogram: Hypnogram, lights_off: Moment | None, lights_on: Moment | None) -> str:
    """Say where lights cut a night, as in ``lights off at 60 s (epoch 2)``; nothing without lights."""
    if lights_off is None and lights_on is None:
        return ""
    first, stop = lights_window(hypnogram, lights_off, lights_on)
    words = []
    for which, moment, epoch in (("off", lights_off, first), ("on", lights_on, stop)):
        if moment is not None:
            clock = hypnogram.clock_at(epoch)
            time = "" if clock is None else f"{clock:%H:%M:%S}, "
            seconds = hypnogram.offset_seconds + epoch * hypnogram.epoch_seconds
            words.append(f"lights {which} at {time}{seconds:.10g} s (epoch {epoch:,})")
    return ", ".join(words)


def zeitgeber_seconds(hypnogram: Hypnogram, lights_on_phase: str, first: int) -> float:
    """Return how long before an epoch the lights of a 12 h : 12 h cycle went on."""
    clock = _clock_seconds(lights_on_phase, "lights_on_phase")
    start = _time_of_day(hypnogram, lights_on_phase, "lights_on_phase")
    return (start + first * hypnogram.epoch_seconds - clock) % DAY_SECONDS


def phases_of(
    epochs: bytes, scheme: StageScheme, epoch_seconds: float, zeitgeber: float | None
) -> Mapping[str, Stretch]:
    """Return what happened in the light and in the dark, all days together; empty without a light cycle."""
    if zeitgeber is None:
        return {}
    labels = np.frombuffer(epochs, dtype=np.int8)
    elapsed = np.arange(len(labels)) * epoch_seconds + zeitgeber
    in_dark = (elapsed % DAY_SECONDS >= LIGHT_PHASE_SECONDS).astype(np.intp)
    both = _stretches(labels, scheme, epoch_seconds, in_dark, ["light", "dark"])
    return {stretch.name: stretch for stretch in both}


def hours_of(
    epochs: bytes, scheme: StageScheme, epoch_seconds: float, zeitgeber: float | None
) -> tuple[Stretch, ...]:
    """Return what happened hour by hour: hours after lights on, or of the recording without a light cycle."""
    labels = np.frombuffer(epochs, dtype=np.int8)
    elapsed = np.arange(len(labels)) * epoch_seconds + (zeitgeber or 0.0)
    hours = (elapsed // 3600.0).astype(np.intp)
    numbers = range(int(hours[0]), int(hours[-1]) + 1)
    names = [f"hour {n}" if zeitgeber is None else f"ZT {n % 24}" for n in numbers]
    return tuple(_stretches(labels, scheme, epoch_seconds, hours - hours[0], names))


def _stretches(
    labels: Labels, scheme: StageScheme, epoch_seconds: float, stretch_of: Indices, names: list[str]
) -> list[Stretch]:
    """Return one stretch per name; `stretch_of` says to which each epoch belongs."""
    minutes, width = epoch_seconds / 60.0, scheme.n_stages + 1
    size, shape = len(names) * width, (len(names), width)
    bouts = bouts_of(labels)
    column = stretch_of[bouts.starts] * width + bouts.stages + 1  # column 0: unscored
    epochs = np.bincount(stretch_of * width + labels + 1, minlength=size).reshape(shape)
    n_bouts = np.bincount(column, minlength=size).reshape(shape)
    lengths = np.bincount(column, weights=bouts.lengths, minlength=size).reshape(shape)
    stretches = []
    for name, n_epochs, n, length in zip(names, epochs, n_bouts, lengths, strict=True):
        n_scored = int(n_epochs[1:].sum())
        share = n_epochs[1:] / n_scored if n_scored else np.full(width - 1, NAN)
        mean = np.divide(length[1:], n[1:], out=np.full(width - 1, NAN), where=n[1:] > 0)
        stretches.append(
            Stretch(
                name=name,
                n_epochs=int(n_epochs.sum()),
                scored_minutes=n_scored * minutes,
                stage_minutes=_named(scheme, n_epochs[1:] * minutes),
                stage_percent=_named(scheme, 100.0 * share),
                bouts=dict(zip(scheme.names, n[1:].tolist(), strict=True)),
                mean_bout_minutes=_named(scheme, mean * minutes),
            )
        )
    return stretches


def _named(scheme: StageScheme, values: npt.NDArray[np.floating]) -> Mapping[str, float]:
    return dict(zip(scheme.names, values.tolist(), strict=True))


def _epoch_at(hypnogram: Hypnogram, moment: Moment, what: str, after: int) -> int:
    """Return the epoch that begins nearest to a moment given in seconds or as a time."""
    n_epochs, epoch_seconds = hypnogram.n_epochs, hypnogram.epoch_seconds
    seconds = _seconds_from_start(hypnogram, moment, what, after * epoch_seconds)
    epoch = math.floor(seconds / epoch_seconds + 0.5)
    if not 0 <= epoch <= n_epochs:
        began = recording_start(hypnogram)
        begins = "" if began is None else f" ({began:%H:%M:%S})"
        hours = (seconds + hypnogram.offset_seconds) / 3600
        raise _wrong_moment(
            what,
            f"{checks.shown(moment)}, {hours:.2f} h after the recording starts{begins}, "
            f"expected a moment within its {n_epochs * epoch_seconds / 3600:.2f} h.",
        )
    return epoch


def _seconds_from_start(hypnogram: Hypnogram, moment: Moment, what: str, after: float) -> float:
    """Return seconds from the first epoch to a moment, which counts from the beginning of the recording."""
    if isinstance(moment, str):
        ahead = _clock_seconds(moment, what) - _time_of_day(hypnogram, moment, what)
        seconds = ahead % DAY_SECONDS
        while what == "lights_on" and seconds <= after:  # the next morning, or the one after
            seconds += DAY_SECONDS
        return seconds
    if not isinstance(moment, datetime):
        seconds_in = moment.total_seconds() if isinstance(moment, timedelta) else moment
        try:
            return checks.number(seconds_in, what, low=0) - hypnogram.offset_seconds
        except InputError:
            raise _wrong_moment(
                what,
                f"{checks.shown(moment)}, expected seconds since the beginning of the recording, or a time "
                "such as '22:30'.",
            ) from None
    _time_of_day(hypnogram, moment, what)
    assert hypnogram.start is not None
    if (moment.tzinfo is None) != (hypnogram.start.tzinfo is None):
        raise _wrong_moment(
            what,
            f"{moment} and the recording starts at {hypnogram.start}, "
            "expected both with a time zone or both without.",
        )
    return (moment - hypnogram.start).total_seconds()


def _time_of_day(hypnogram: Hypnogram, moment: str | datetime, what: str) -> float:
    """Return when the recording starts, in seconds after midnight."""
    start = hypnogram.start
    if start is None:
        raise _wrong_moment(
            what,
            f"the time {str(moment)!r}, but when the recording starts is not known. Give ",
            Argument("start", python="start=... to the Hypnogram"),
            "." if what == "lights_on_phase" else ", or seconds since the beginning of the recording.",
        )
    return start.hour * 3600.0 + start.minute * 60.0 + start.second + start.microsecond / 1e6


def _clock_seconds(text: str, what: str) -> float:
    match = _CLOCK.fullmatch(str(text).strip())
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (24, 0, 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise _wrong_moment(
            what,
            f"{checks.shown(text)}, expected a time of day such as '07:00'",
            "." if what == "lights_on_phase" else ", or a number of seconds.",
        )
    return hours * 3600.0 + minutes * 60.0 + seconds


def _wrong_moment(what: str, *problem: object) -> InputError:
    return InputError(Message(Argument(what), " is ", *problem))
