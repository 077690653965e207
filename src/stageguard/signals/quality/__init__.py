"""How far each epoch's signal can be trusted, by modality.

>>> quality = sg.signal_quality(recording, "eeg-emg")
>>> sg.decode(density, "mouse-eeg-emg-3", quality=quality.beta)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stageguard.base import checks
from stageguard.base.arrays import Floats, Mask
from stageguard.base.errors import InputError
from stageguard.base.lazy import load
from stageguard.night.epochs import EpochGrid, scored_epoch_seconds
from stageguard.night.recording import Recording
from stageguard.signals.modalities import modality_of

Rules = Literal["kdd2026", "graded"]

RULES: tuple[Rules, ...] = ("kdd2026", "graded")


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
    recorded = modality_of(modality)
    checks.choice(rules, "rules", RULES)
    if epoch_seconds is None:
        epoch_seconds = scored_epoch_seconds(recording) or recorded.default_epoch_seconds
    epochs = EpochGrid.of(recording, epoch_seconds)
    # Each module: beta (n_epochs,) and the reasons, one per epoch and "" where clean.
    beta, reasons = load(f"signals.quality.{recorded.module}:assess")(recording, epochs, rules)
    return SignalQuality(beta, reasons, epochs.epoch_seconds, modality, rules, recording.id)
