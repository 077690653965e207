"""Events in signals, simulated recordings, and writers of files that several datasets share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from stageguard.files import SYNTHETIC_WORD
from stageguard.night.recording import Recording, Series, Signal
from stageguard.synthetic.sleepers import SCORER, SimulatedSleep, Sleeper
from stageguard.version import __version__

LARGEST_SHARE = 0.15  # of a recording that one event may take


@dataclass(frozen=True, slots=True)
class SignalEvent:
    """An artefact, a loss of a sensor or an apnoea."""

    kind: str  # such as "sensor loss"
    channel: str  # role of the affected signal; "" for all signals
    start_seconds: float  # since the recording's start
    seconds: float

    @property
    def end_seconds(self) -> float:
        """End of the event, since the recording's start."""
        return self.start_seconds + self.seconds

    def samples(self, rate_hz: float, n_samples: int) -> slice:
        """Return the samples of a signal during the event."""
        first = min(n_samples, round(self.start_seconds * rate_hz))
        return slice(first, min(n_samples, round(self.end_seconds * rate_hz)))


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated recording, and the truth about it."""

    recording: Recording  # as read from files, with the truth as its only scoring
    night: SimulatedSleep  # the truth, in the stages in which it was drawn
    events: tuple[SignalEvent, ...]  # artefacts, sensor losses and apnoeas, in order of time


def simulated_recording(
    name: str,
    signals: Mapping[str, Signal | Series],
    night: SimulatedSleep,
    sleeper: Sleeper,
    events: list[SignalEvent],
) -> Simulated:
    """Return the recording of a sleeper with its truth; events are sorted by time."""
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
) -> list[SignalEvent]:
    """Return events at random times; ``kinds`` are kind, channel, number per hour, range of seconds."""
    made = []
    for kind, channel, per_hour, lengths in kinds:
        for _ in range(int(rng.poisson(per_hour * seconds / 3600))):
            length = min(float(rng.uniform(*lengths)), LARGEST_SHARE * seconds)
            made.append(SignalEvent(kind, channel, float(rng.uniform(0, seconds - length)), length))
    return made


if TYPE_CHECKING:
    from edfio import EdfSignal
else:
    EdfSignal = Any  # edfio is loaded when a file is written

ROWS = 1 << 16  # rows to format at once


def signal_of(simulated: Simulated, role: str) -> Signal:
    """Return a channel that is evenly sampled."""
    signal = simulated.recording.signals[role]
    assert isinstance(signal, Signal)
    return signal


def write_rows(path: Path, rows: npt.NDArray[np.floating], row_format: str, *, header: str = "") -> None:
    """Write a table, each row by a format such as ``"%.5f,%d"``."""
    with path.open("x", encoding="ascii", newline="\n") as file:
        file.write(header)
        for first in range(0, len(rows), ROWS):
            some = rows[first : first + ROWS]
            file.write((f"{row_format}\n" * len(some)) % tuple(some.ravel().tolist()))


def edf_signal(signal: Signal, label: str, limits: tuple[float, float]) -> EdfSignal:
    """Return a channel for EDF, clipped at its limits as by an amplifier; uV are written as mV."""
    import edfio

    factor, unit = (1000.0, "mV") if signal.unit == "uV" else (1.0, signal.unit)
    return edfio.EdfSignal(
        np.clip(signal.read() / factor, *limits),
        signal.rate_hz,
        label=label,
        transducer_type=SYNTHETIC_WORD,
        physical_dimension=unit,
        physical_range=limits,
    )


def write_edf(
    path: Path, recording: Recording, signals: Sequence[EdfSignal], sex: Literal["F", "M", "X"] = "X"
) -> None:
    """Write signals as EDF, with a header that calls them synthetic."""
    import edfio

    start = recording.start
    edf = edfio.Edf(
        signals,
        patient=edfio.Patient(code=recording.subject, sex=sex, name=SYNTHETIC_WORD),
        recording=edfio.Recording(
            startdate=None if start is None else start.date(), equipment_code=f"stageguard_{__version__}"
        ),
        starttime=None if start is None else start.time(),
        data_record_duration=1,
    )
    edf.write(path)
