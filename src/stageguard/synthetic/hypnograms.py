"""The true stages of a night or day of a made-up sleeper."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from stageguard.night.hypnogram import Hypnogram
from stageguard.synthetic.chain import draw
from stageguard.synthetic.noise import stream
from stageguard.synthetic.people import Sleeper
from stageguard.synthetic.sleepers import Kind, day_clock, night_clock

SCORER = "synthetic truth"
DATE = datetime(2000, 1, 1)  # of every simulated recording
LIGHTS_OFF_HOUR = 22.75  # usual hour at which people go to sleep
LIGHTS_ON_PHASE = 7.0  # hour at which a mouse's lights go on
LARGEST_WAKEFUL_SHARE = 0.15  # of a short recording, before lights off and after lights on each


@dataclass(frozen=True, slots=True)
class Night:
    """The truth about one recording."""

    hypnogram: Hypnogram  # with the start of the recording
    lights_off_seconds: float | None = None  # since the start; None for mice
    lights_on_seconds: float | None = None

    @property
    def seconds(self) -> float:
        """Length of the recording."""
        return self.hypnogram.n_epochs * self.hypnogram.epoch_seconds


def draw_night(
    kind: Kind, sleeper: Sleeper, seed: int, hours: float, awake_minutes: tuple[float, float] = (0.0, 0.0)
) -> Night:
    """Return a night of somebody; `awake_minutes` are means, before lights off and after lights on."""
    rng = stream(seed, "hypnogram", sleeper.number)
    n_epochs = max(1, int(hours * 3600 / kind.epoch_seconds))
    evening, morning = (
        _wakeful_epochs(rng, minutes, n_epochs, kind.epoch_seconds) for minutes in awake_minutes
    )
    n_dark = n_epochs - evening - morning
    clock = night_clock(kind, rng, n_dark * kind.epoch_seconds / 3600, sleeper.factors)
    labels = np.full(n_epochs, kind.scheme.wake_index, dtype=np.int8)
    labels[evening : evening + n_dark] = draw(rng, kind.law, clock, n_dark, kind.begin)
    lights_off_hour = LIGHTS_OFF_HOUR + float(np.clip(rng.normal(0, 0.6), -1.5, 1.5))
    start = DATE + timedelta(seconds=round(lights_off_hour * 3600) - evening * kind.epoch_seconds)
    hypnogram = Hypnogram(labels, kind.scheme, kind.epoch_seconds, start, SCORER)
    return Night(hypnogram, evening * kind.epoch_seconds, (evening + n_dark) * kind.epoch_seconds)


def draw_day(kind: Kind, sleeper: Sleeper, seed: int, hours: float, *, start_hour: float = 0.0) -> Night:
    """Return a stretch of a mouse's life; `start_hour` is counted from the moment the lights go on."""
    rng = stream(seed, "hypnogram", sleeper.number)
    n_epochs = max(1, int(hours * 3600 / kind.epoch_seconds))
    clock = day_clock(kind, hours, start_hour, sleeper.factors)
    labels = draw(rng, kind.law, clock, n_epochs, kind.begin)
    start = DATE + timedelta(hours=LIGHTS_ON_PHASE + start_hour)
    return Night(Hypnogram(labels, kind.scheme, kind.epoch_seconds, start, SCORER))


def _wakeful_epochs(rng: np.random.Generator, minutes: float, n_epochs: int, epoch_seconds: float) -> int:
    drawn = rng.gamma(6.0, minutes / 6.0) * 60 / epoch_seconds if minutes else 0.0
    return int(min(drawn, LARGEST_WAKEFUL_SHARE * n_epochs))
