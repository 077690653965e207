"""How far each epoch's signal can be trusted, by modality. Changes no signal and stages nothing.

>>> quality = sg.signal_quality(recording, "eeg-emg")
>>> sg.decode(density, "mouse-eeg-emg-3", quality=quality.beta)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, Protocol, cast

import numpy as np

from stageguard.base import checks
from stageguard.base.arrays import Floats, Mask
from stageguard.base.errors import InputError
from stageguard.night.epochs import EpochGrid, scored_epoch_seconds
from stageguard.night.recording import Recording

Rules = Literal["kdd2026", "graded"]

RULES: tuple[Rules, ...] = ("kdd2026", "graded")

# Modality -> the module that assesses it, imported when it is first needed. Each offers
# assess(recording, epochs, rules) -> (beta (n_epochs,), reasons, one per epoch and "" where clean).
MODALITIES = {
    "eeg-emg": "eeg_emg",
    "actigraphy": "actigraphy",
    "cardiorespiratory": "cardiorespiratory",
    "bioradar": "bioradar",
}

# Where no scoring says how long an epoch is. EEG is left out: 4 s for mice, 30 s for people.
EPOCH_SECONDS = {"actigraphy": 30.0, "cardiorespiratory": 30.0, "bioradar": 30.0}


class Assessor(Protocol):
    """What a modality's module offers."""

    def assess(self, recording: Recording, epochs: EpochGrid, rules: Rules) -> tuple[Floats, tuple[str, ...]]:
        """Return beta per epoch, and the reason for it, empty where the epoch is clean."""


@dataclass(frozen=True, slots=True, eq=False)
class SignalQuality:
    """How much of each epoch is lost, and why.

    Parameters
    ----------
    beta : array (n_epochs,)
        0 clean to 1 lost; what `decode` takes as `quality`.
    reasons : tuple of str
        One per epoch, such as "eeg: amplitude"; empty where beta is 0. Several are joined by "; ".
    epoch_seconds : float
        Length of an epoch.
    modality : str
        What was recorded.
    rules : {"kdd2026", "graded"}
        Thresholds as the paper prints them, or the share of the epoch that is bad.
    recording : str
        Name of the recording.
    """

    beta: Floats
    reasons: tuple[str, ...]
    epoch_seconds: float
    modality: str
    rules: Rules
    recording: str = ""

    def __post_init__(self) -> None:
        """Check that beta is a share, with a reason wherever it is not 0."""
        beta = np.asarray(self.beta, dtype=np.float64)
        if beta.ndim != 1 or len(beta) != len(self.reasons):
            raise InputError(
                f"beta has shape {beta.shape} and there are {len(self.reasons)} reasons, expected one of "
                "each per epoch."
            )
        if not ((beta >= 0) & (beta <= 1)).all():  # NaN is neither
            raise InputError("beta is not between 0 (clean) and 1 (lost) in every epoch.")
        for epoch, (value, reason) in enumerate(zip(beta, self.reasons, strict=True)):
            if (value > 0) != bool(reason):
                raise InputError(f"epoch {epoch} has beta {value:g}, but the reason {reason!r}.")
        object.__setattr__(self, "beta", checks.frozen_array(beta, np.float64))

    def __repr__(self) -> str:
        """Return length, rules, how many epochs are bad, and the recording."""
        return (
            f"<SignalQuality {self.n_epochs} epochs of {self.epoch_seconds:g} s, {self.modality}, rules "
            f"{self.rules}, {int(np.count_nonzero(self.beta))} bad, recording {self.recording!r}>"
        )

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return len(self.beta)

    @property
    def is_bad(self) -> Mask:
        """Whether each epoch has anything against it."""
        return self.beta > 0

    def counts(self) -> dict[str, int]:
        """Return how many epochs each reason concerns, the most frequent first."""
        return dict(
            Counter(part for reason in self.reasons if reason for part in reason.split("; ")).most_common()
        )


def signal_quality(
    recording: Recording, modality: str, *, epoch_seconds: float | None = None, rules: Rules = "kdd2026"
) -> SignalQuality:
    """Return how far each epoch of a recording can be trusted.

    Parameters
    ----------
    recording : Recording
        With the channels the modality needs.
    modality : {"eeg-emg", "actigraphy", "cardiorespiratory", "bioradar"}
        What was recorded.
    epoch_seconds : float, optional
        Length of an epoch. Default: that of the scoring; without one 30 s, but EEG must say it.
    rules : {"kdd2026", "graded"}
        "kdd2026": the paper's thresholds, an epoch is clean (0) or lost (1). "graded": the share of the
        epoch that is bad by robust thresholds, which also know flat lines, clipping and mains hum.

    Returns
    -------
    SignalQuality
        Beta and the reason for it, per epoch.
    """
    Recording.check(recording)
    checks.choice(modality, "modality", MODALITIES)
    checks.choice(rules, "rules", RULES)
    if epoch_seconds is None:
        epoch_seconds = scored_epoch_seconds(recording) or EPOCH_SECONDS.get(modality)
    epochs = EpochGrid.of(recording, epoch_seconds)
    assessor = cast(Assessor, import_module(f"stageguard.signals.quality.{MODALITIES[modality]}"))
    beta, reasons = assessor.assess(recording, epochs, rules)
    return SignalQuality(beta, reasons, epochs.epoch_seconds, modality, rules, recording.id)
