"""The table of modalities: channels, recipes, profiles, and the datasets that synthetic cohorts imitate."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from stageguard import checks


@dataclass(frozen=True, slots=True)
class Modality:
    """A kind of recording, and how synthetic cohorts imitate the dataset that the paper uses for it."""

    name: str  # as in ``signal_quality(recording, name)``, in recipes and in datasets
    module: str  # of `signals`, see `measures`
    roles: tuple[str, ...]  # channels by which a recording is recognised as this modality
    recipe: str  # built-in recipe that suits the imitated dataset
    profile: str  # fitted profile; simulated adults have its bouts and transitions
    dataset: str  # imitated dataset; synthetic cohorts are written in its layout
    awake_minutes: tuple[float, float] = (12.0, 8.0)  # mean time before lights off and after lights on
    hours: float = 8.0  # default length of a simulated recording
    scheme: str = "wnr3"  # stages the paper uses for the dataset
    epoch_seconds: float = 30.0  # the paper's
    is_mouse: bool = False

    @property
    def default_epoch_seconds(self) -> float | None:
        """Epoch length of signal quality without a scoring; None for EEG, where it depends on the species."""
        return None if self.is_mouse else 30.0

    @property
    def measures(self) -> Any:
        """The modality's module of signals.

        It has ``RECIPE``, the class of its recipes; ``extract(recording, epochs, recipe)``, features
        (n_epochs, n_frames, n_features) and their names; and ``assess(recording, epochs, rules)``, beta and
        the reasons for it per epoch, "" where clean.
        """
        return import_module(f"stageguard.signals.{self.module}")


_TABLE = (
    # name, module, roles, recipe, profile, dataset
    Modality(
        *("eeg-emg", "eeg", ("eeg",), "mouse-eeg-emg", "mouse-eeg-emg-3", "accusleep"),
        hours=4.0,
        epoch_seconds=4.0,
        is_mouse=True,
    ),
    Modality(
        *("actigraphy", "actigraphy", ("acceleration", "counts")),
        *("actigraphy", "human-actigraphy-2", "sleep-accel"),
        awake_minutes=(30.0, 20.0),
        scheme="ws2",
    ),
    Modality(
        *("cardiorespiratory", "cardiorespiratory", ("ecg", "beats")),
        *("cardiorespiratory", "human-cardiorespiratory-3", "shhs"),
    ),
    Modality(
        *("bioradar", "radar", ("radar_i", "radar_q", "radar_phase")),
        *("bioradar", "human-bioradar-3", "sleepbrl"),
    ),
    Modality(
        *("polysomnography", "eeg", ("eog",), "human-eeg-emg", "human-psg-5", "shhs"),
        scheme="aasm5",
    ),
)
MODALITIES = {modality.name: modality for modality in _TABLE}


def modality_of(name: object) -> Modality:
    """Return a modality by name."""
    return MODALITIES[checks.choice(name, "modality", MODALITIES)]
