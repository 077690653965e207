"""The epochs a recording is cut into, whatever its signals."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from stageguard.base import checks
from stageguard.base.arrays import Floats
from stageguard.base.errors import Argument, InputError, Message
from stageguard.night.recording import Recording, Series, Signal

SLACK_SECONDS = 0.01  # a recording that ends this short of an epoch's end still holds the epoch


@dataclass(frozen=True, slots=True)
class EpochGrid:
    """Epochs of one length that follow each other from the recording's start."""

    n_epochs: int  # without a shorter rest at the end
    epoch_seconds: float
    start: datetime | None = None  # when the first epoch begins

    def __post_init__(self) -> None:
        """Check that there is an epoch."""
        if isinstance(self.n_epochs, bool) or int(self.n_epochs) != self.n_epochs or self.n_epochs < 1:
            raise InputError(f"n_epochs is {self.n_epochs!r}, expected a whole number of at least 1.")
        object.__setattr__(self, "n_epochs", int(self.n_epochs))
        object.__setattr__(self, "epoch_seconds", checks.epoch_seconds(self.epoch_seconds))
        checks.start(self.start)

    @classmethod
    def of(cls, recording: Recording, epoch_seconds: float | None = None) -> EpochGrid:
        """Return the whole epochs of a recording's longest signal, by default as long as in its scorings."""
        length = scored_epoch_seconds(recording) if epoch_seconds is None else epoch_seconds
        if length is None:
            raise InputError(
                Message(
                    f"recording {recording.id!r} has no scoring that would say how long an epoch is. Give ",
                    Argument("epoch_seconds"),
                    ", for example 30 for people or 4 for mice.",
                )
            )
        length = checks.epoch_seconds(length)
        seconds = max(map(end_seconds, recording.signals.values()), default=0.0)
        n_epochs = int((seconds + SLACK_SECONDS) // length)
        if n_epochs < 1:
            raise InputError(
                f"recording {recording.id!r} lasts {seconds:g} s, expected at least an epoch of {length:g} s."
            )
        return cls(n_epochs, length, recording.start)

    @property
    def edges(self) -> Floats:
        """Seconds since the start at which epochs begin, and at which the last one ends."""
        return np.asarray(np.arange(self.n_epochs + 1) * self.epoch_seconds, dtype=np.float64)


def end_seconds(signal: Signal | Series) -> float:
    """Return when a signal ends; the last measurement of a `Series` lasts as long as the median gap."""
    if isinstance(signal, Signal) or len(signal.times) < 2:
        return signal.seconds
    return signal.seconds + float(np.median(np.diff(signal.times)))


def scored_epoch_seconds(recording: Recording) -> float | None:
    """Return the epoch length of the recording's scorings; None where there are none."""
    lengths = {night.epoch_seconds for night in recording.scorings.values()}
    if len(lengths) > 1:
        listed = ", ".join(f"{length:g}" for length in sorted(lengths))
        raise InputError(
            Message(
                f"the scorings of recording {recording.id!r} have epochs of {listed} s. Give ",
                Argument("epoch_seconds"),
                ".",
            )
        )
    return next(iter(lengths), None)
