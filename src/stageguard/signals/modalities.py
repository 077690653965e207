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
    roles: tuple[str, ...]  # channels by which a recording is recognised as this modality
    recipe: str  # built-in recipe that suits the imitated dataset
    profile: str  # fitted profile; simulated adults have its bouts and transitions
    dataset: str  # imitated dataset; synthetic cohorts are written in its layout
    layouts: tuple[str, ...]  # kinds of files, the usual one first
    evening_minutes: float = 12.0  # mean time awake before lights off
    morning_minutes: float = 8.0  # mean time awake after lights on
    hours: float = 8.0  # default length of a simulated recording
    scheme: str = "wnr3"  # stages the paper uses for the dataset
    epoch_seconds: float = 30.0  # the paper's
    # epoch length of signal quality for a recording without a scoring; None if it depends on the species
    default_epoch_seconds: float | None = 30.0
    is_mouse: bool = False
    variants: tuple[str, ...] = ("adult", "narcolepsy", "infant")  # whose sleep can be simulated
    judged_as: str | None = None  # modality whose signal quality and features it shares; None: its own

    @property
    def module(self) -> str:
        """Name of the modality's module in `synthetic`."""
        return self.name.replace("-", "_")

    @property
    def measures(self) -> Any:
        """The modality's module of signals.

        It has ``SETTINGS``, the options of its recipes; ``extract(recording, epochs, settings)``, features
        (n_epochs, n_frames, n_features) and their names; and ``assess(recording, epochs, rules)``, beta and
        the reasons for it per epoch, "" where clean.
        """
        return import_module(f"stageguard.signals.{(self.judged_as or self.name).replace('-', '_')}")


_ALL = (
    Modality(
        name="eeg-emg",
        roles=("eeg",),
        recipe="mouse-eeg-emg",
        profile="mouse-eeg-emg-3",
        dataset="accusleep",
        layouts=("mat", "parquet", "csv"),
        evening_minutes=0.0,
        morning_minutes=0.0,
        hours=4.0,
        epoch_seconds=4.0,
        default_epoch_seconds=None,  # 4 s for mice, 30 s for people
        is_mouse=True,
        variants=("adult", "narcolepsy"),
    ),
    Modality(
        name="actigraphy",
        roles=("acceleration", "counts"),
        recipe="actigraphy",
        profile="human-actigraphy-2",
        dataset="sleep-accel",
        layouts=("txt",),
        evening_minutes=30.0,
        morning_minutes=20.0,
        scheme="ws2",
    ),
    Modality(
        name="cardiorespiratory",
        roles=("ecg", "beats"),
        recipe="cardiorespiratory",
        profile="human-cardiorespiratory-3",
        dataset="shhs",
        layouts=("edf",),
    ),
    Modality(
        name="bioradar",
        roles=("radar_i", "radar_q", "radar_phase"),
        recipe="bioradar",
        profile="human-bioradar-3",
        dataset="sleepbrl",
        layouts=("npz", "edf"),
    ),
    Modality(
        name="polysomnography",
        roles=("eog",),
        recipe="human-eeg-emg",
        profile="human-psg-5",
        dataset="shhs",
        layouts=("edf",),
        scheme="aasm5",
        judged_as="eeg-emg",
    ),
)
MODALITIES = {modality.name: modality for modality in _ALL}


def modality_of(name: object) -> Modality:
    """Return a modality by name."""
    return MODALITIES[checks.choice(name, "modality", MODALITIES)]
