"""Things that happen to signals: artefacts, loss of a sensor, apnoeas; and the recording they happen to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from stageguard.night.recording import Recording, Series, Signal
from stageguard.synthetic.people import Sleeper
from stageguard.synthetic.sleepers import SCORER, Night

LARGEST_SHARE = 0.15  # of a short recording that one event may take


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Parameters
    ----------
    kind : str
        Such as "sensor loss".
    channel : str
        Role of the signal concerned; "" for all of them.
    start_seconds, seconds : float
        When, since the recording's start, and for how long.
    """

    kind: str
    channel: str
    start_seconds: float
    seconds: float

    @property
    def end_seconds(self) -> float:
        """When it ends."""
        return self.start_seconds + self.seconds

    def samples(self, rate_hz: float, n_samples: int) -> slice:
        """Return the samples of a signal that it concerns."""
        first = min(n_samples, round(self.start_seconds * rate_hz))
        return slice(first, min(n_samples, round(self.end_seconds * rate_hz)))


@dataclass(frozen=True, slots=True)
class Simulated:
    """A made-up recording, and what is true about it.

    Parameters
    ----------
    recording : Recording
        What a reader would give: signals, covariates, and the truth as the only scoring.
    night : Night
        The truth in the stages it was drawn in.
    events : tuple of Event
        Artefacts, losses and apnoeas, in the order of their time.
    """

    recording: Recording
    night: Night
    events: tuple[Event, ...]


def simulated(
    name: str, signals: Mapping[str, Signal | Series], night: Night, sleeper: Sleeper, events: list[Event]
) -> Simulated:
    """Return the recording of a sleeper with its truth; events are put into the order of their time."""
    truth = night.hypnogram
    recording = Recording(
        name,
        name,
        signals,
        {SCORER: truth},
        truth.start,
        night.lights_off_seconds,
        night.lights_on_seconds,
        sleeper.covariates,
        is_synthetic=True,
        source="synthetic",
    )
    in_order = sorted(events, key=lambda event: (event.start_seconds, event.kind, event.channel))
    return Simulated(recording, night, tuple(in_order))


def scatter_events(
    rng: np.random.Generator, seconds: float, kinds: Iterable[tuple[str, str, float, tuple[float, float]]]
) -> list[Event]:
    """Return events at random times that stay inside the recording.

    `kinds` has the kind, the channel, how many there are per hour, and the range of their length in seconds.
    """
    made = []
    for kind, channel, per_hour, lengths in kinds:
        for _ in range(int(rng.poisson(per_hour * seconds / 3600))):
            length = min(float(rng.uniform(*lengths)), LARGEST_SHARE * seconds)
            made.append(Event(kind, channel, float(rng.uniform(0, seconds - length)), length))
    return made
