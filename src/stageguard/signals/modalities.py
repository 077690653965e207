"""The one table of modalities: what is recorded, the modules that know it, the cohorts that imitate it."""

from __future__ import annotations

from dataclasses import dataclass

from stageguard.base import checks

VARIANTS = ("adult", "narcolepsy", "infant")


@dataclass(frozen=True, slots=True)
class Modality:
    """What is recorded, and how the dataset that the paper uses for it is imitated.

    Parameters
    ----------
    name : str
        As in ``signal_quality(recording, name)``, in recipes and in datasets.
    roles : tuple of str
        Channels that show a recording to be of this modality.
    default_epoch_seconds : float or None
        Epoch length where no scoring says it; None where it depends on the species.
    recipe : str
        Built-in recipe that suits the imitated dataset.
    profile : str
        Fitted profile that the bouts and transitions of simulated adults are those of.
    dataset : str
        Whose native layout is written; `stageguard.datasets` reads it by this name.
    is_mouse : bool
        Whether the sleepers of the dataset are mice.
    scheme, epoch_seconds : str, float
        Stages and epochs the paper uses for the dataset.
    hours : float
        Length of a simulated recording unless another is asked for.
    evening_minutes, morning_minutes : float
        Mean time awake before lights off and after lights on.
    layouts : tuple of str
        Kinds of files, the usual one first.
    variants : tuple of str
        Whose sleep can be simulated.
    """

    name: str
    roles: tuple[str, ...]
    default_epoch_seconds: float | None
    recipe: str
    profile: str
    dataset: str
    is_mouse: bool
    scheme: str
    epoch_seconds: float
    hours: float
    evening_minutes: float
    morning_minutes: float
    layouts: tuple[str, ...]
    variants: tuple[str, ...]

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
        default_epoch_seconds=None,  # 4 s for mice, 30 s for people
        recipe="mouse-eeg-emg",
        profile="mouse-eeg-emg-3",
        dataset="accusleep",
        is_mouse=True,
        scheme="wnr3",
        epoch_seconds=4.0,
        hours=4.0,
        evening_minutes=0.0,
        morning_minutes=0.0,
        layouts=("mat", "parquet", "csv"),
        variants=("adult", "narcolepsy"),
    ),
    Modality(
        name="actigraphy",
        roles=("acceleration", "counts"),
        default_epoch_seconds=30.0,
        recipe="actigraphy",
        profile="human-actigraphy-2",
        dataset="sleep-accel",
        is_mouse=False,
        scheme="ws2",
        epoch_seconds=30.0,
        hours=8.0,
        evening_minutes=30.0,
        morning_minutes=20.0,
        layouts=("txt",),
        variants=VARIANTS,
    ),
    Modality(
        name="cardiorespiratory",
        roles=("ecg", "beats"),
        default_epoch_seconds=30.0,
        recipe="cardiorespiratory",
        profile="human-cardiorespiratory-3",
        dataset="shhs",
        is_mouse=False,
        scheme="wnr3",
        epoch_seconds=30.0,
        hours=8.0,
        evening_minutes=12.0,
        morning_minutes=8.0,
        layouts=("edf",),
        variants=VARIANTS,
    ),
    Modality(
        name="bioradar",
        roles=("radar_i", "radar_q", "radar_phase"),
        default_epoch_seconds=30.0,
        recipe="bioradar",
        profile="human-bioradar-3",
        dataset="sleepbrl",
        is_mouse=False,
        scheme="wnr3",
        epoch_seconds=30.0,
        hours=8.0,
        evening_minutes=12.0,
        morning_minutes=8.0,
        layouts=("npz", "edf"),
        variants=VARIANTS,
    ),
)
MODALITIES = {modality.name: modality for modality in _ALL}


def modality_of(name: object) -> Modality:
    """Return a modality by name."""
    return MODALITIES[checks.choice(name, "modality", MODALITIES)]
