"""The four modalities: which dataset each imitates, in which stages and epochs. Makes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from stageguard.base.errors import InputError, did_you_mean

VARIANTS = ("adult", "narcolepsy", "infant")


@dataclass(frozen=True, slots=True)
class Modality:
    """What is recorded, and how the dataset that the paper uses for it is imitated.

    Parameters
    ----------
    name : str
        As everywhere in the package.
    dataset : str
        Whose native layout is written; `stageguard.datasets` reads it by this name.
    profile : str
        Fitted profile that the bouts and transitions of adults are those of.
    scheme, epoch_seconds : str, float
        Stages and epochs the paper uses for the dataset.
    hours : float
        Length of a recording unless another is asked for.
    evening_minutes, morning_minutes : float
        Mean time awake before lights off and after lights on.
    layouts : tuple of str
        Kinds of files, the usual one first.
    variants : tuple of str
        Whose sleep can be simulated.
    module, layout_module : str
        Below this package: what makes the signals, and what writes them.
    """

    name: str
    dataset: str
    profile: str
    scheme: str
    epoch_seconds: float
    hours: float
    evening_minutes: float
    morning_minutes: float
    layouts: tuple[str, ...]
    variants: tuple[str, ...]
    module: str
    layout_module: str

    @property
    def is_mouse(self) -> bool:
        """Whether the sleepers are mice."""
        return "mouse" in self.profile

    def signals(self) -> Any:
        """Return the module that makes the signals."""
        return import_module(f"stageguard.synthetic.{self.module}")

    def layout(self) -> Any:
        """Return the module that writes them."""
        return import_module(f"stageguard.synthetic.layouts.{self.layout_module}")


_ALL = (
    Modality(
        name="eeg-emg",
        dataset="accusleep",
        profile="mouse-eeg-emg-3",
        scheme="wnr3",
        epoch_seconds=4.0,
        hours=4.0,
        evening_minutes=0.0,
        morning_minutes=0.0,
        layouts=("mat", "parquet", "csv"),
        variants=("adult", "narcolepsy"),
        module="eeg_emg",
        layout_module="accusleep",
    ),
    Modality(
        name="actigraphy",
        dataset="sleep-accel",
        profile="human-actigraphy-2",
        scheme="ws2",
        epoch_seconds=30.0,
        hours=8.0,
        evening_minutes=30.0,
        morning_minutes=20.0,
        layouts=("txt",),
        variants=VARIANTS,
        module="actigraphy",
        layout_module="sleep_accel",
    ),
    Modality(
        name="cardiorespiratory",
        dataset="shhs",
        profile="human-cardiorespiratory-3",
        scheme="wnr3",
        epoch_seconds=30.0,
        hours=8.0,
        evening_minutes=12.0,
        morning_minutes=8.0,
        layouts=("edf",),
        variants=VARIANTS,
        module="cardiorespiratory",
        layout_module="shhs",
    ),
    Modality(
        name="bioradar",
        dataset="sleepbrl",
        profile="human-bioradar-3",
        scheme="wnr3",
        epoch_seconds=30.0,
        hours=8.0,
        evening_minutes=12.0,
        morning_minutes=8.0,
        layouts=("npz", "edf"),
        variants=VARIANTS,
        module="bioradar",
        layout_module="sleepbrl",
    ),
)
MODALITIES = {modality.name: modality for modality in _ALL}


def modality_of(name: str) -> Modality:
    """Return a modality by name."""
    if name not in MODALITIES:
        known = ", ".join(MODALITIES)
        raise InputError(f"modality is {name!r}, expected one of {known}.{did_you_mean(name, MODALITIES)}")
    return MODALITIES[name]
