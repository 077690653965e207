"""The one table of modalities: what is recorded, the modules that know it, the cohorts that imitate it."""

from __future__ import annotations

from dataclasses import dataclass

from stageguard.base import checks


@dataclass(frozen=True, slots=True)
class Modality:
    """What is recorded, and how the dataset that the paper uses for it is imitated.

    Parameters
    ----------
    name : str
        As in ``signal_quality(recording, name)``, in recipes and in datasets.
    roles : tuple of str
        Channels that show a recording to be of this modality.
    recipe : str
        Built-in recipe that suits the imitated dataset.
    profile : str
        Fitted profile that the bouts and transitions of simulated adults are those of.
    dataset : str
        Whose native layout is written; `stageguard.datasets` reads it by this name.
    layouts : tuple of str
        Kinds of files, the usual one first.
    evening_minutes, morning_minutes : float
        Mean time awake before lights off and after lights on.
    hours : float
        Length of a simulated recording unless another is asked for.
    scheme, epoch_seconds : str, float
        Stages and epochs the paper uses for the dataset.
    default_epoch_seconds : float or None
        Epoch length of signal quality where no scoring says it; None where it depends on the species.
    is_mouse : bool
        Whether the sleepers of the dataset are mice.
    variants : tuple of str
        Whose sleep can be simulated.
    """

    name: str
    roles: tuple[str, ...]
    recipe: str
    profile: str
    dataset: str
    layouts: tuple[str, ...]
    evening_minutes: float = 12.0
    morning_minutes: float = 8.0
    hours: float = 8.0
    scheme: str = "wnr3"
    epoch_seconds: float = 30.0
    default_epoch_seconds: float | None = 30.0
    is_mouse: bool = False
    variants: tuple[str, ...] = ("adult", "narcolepsy", "infant")

    @property
    def module(self) -> str:
        """Name of its module in `signals.quality`, `signals.features` and `synthetic`."""
        return self.name.replace("-", "_")

    @property
    def layout_module(self) -> str:
        """Name of the module in `synthetic.layouts` that writes its dataset."""
        return self.dataset.replace("-", "_")


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
)
MODALITIES = {modality.name: modality for modality in _ALL}


def modality_of(name: object) -> Modality:
    """Return a modality by name."""
    return MODALITIES[checks.choice(name, "modality", MODALITIES)]
