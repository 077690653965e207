"""What a network sees of a recording: features by a recipe, epoch by epoch.

>>> made = sg.features(recording, "mouse-eeg-emg")
>>> made.values.shape, made.names[:2]
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from stageguard.base import checks
from stageguard.base.arrays import Floats32, Mask
from stageguard.base.errors import InputError
from stageguard.night.epochs import EpochGrid
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Recording
from stageguard.signals.features.recipe import Recipe as Recipe
from stageguard.signals.features.recipe import modality_module
from stageguard.signals.features.recipe import recipes as recipes
from stageguard.signals.features.scaling import scale


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Features of one recording.

    Parameters
    ----------
    values : array (n_epochs, n_frames, n_features)
        An epoch without a signal is NaN throughout.
    names : tuple of str
        Name of each feature; a unit ends the name where there is one.
    epoch_seconds : float
        Length of an epoch.
    recipe : Recipe
        How they were computed.
    scaling : {"robust", "mixture", "none"}
        What was done to all but the absolute features.
    recording, subject : str
        Which recording it was, and whose.
    """

    values: Floats32
    names: tuple[str, ...]
    epoch_seconds: float
    recipe: Recipe
    scaling: str = "none"
    recording: str = ""
    subject: str = ""

    def __post_init__(self) -> None:
        """Check the shape, and that an epoch has all of its features or none."""
        values = np.asarray(self.values)
        if values.ndim != 3 or values.shape[2] != len(self.names) or 0 in values.shape:
            raise InputError(
                f"features have shape {values.shape} and {len(self.names)} names, expected (epochs, frames, "
                "features) with a name for each feature."
            )
        bad = ~np.isfinite(values)
        bad[np.isnan(values).all(axis=(1, 2))] = False
        if bad.any():
            row, _, column = (int(i) for i in np.argwhere(bad)[0])
            raise InputError(
                f"feature {self.names[column]!r} is not a number in epoch {row}, but others of it are."
            )
        object.__setattr__(self, "values", checks.frozen_array(values, np.float32))

    def __repr__(self) -> str:
        """Return shape, recipe and recording."""
        n_epochs, n_frames, n_features = self.values.shape
        return (
            f"<Features {n_epochs} epochs of {self.epoch_seconds:g} s, {n_frames} frames of {n_features} "
            f"features, recipe {self.recipe.name!r}, scaling {self.scaling}, recording {self.recording!r}>"
        )

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return len(self.values)

    @property
    def has_signal(self) -> Mask:
        """Whether each epoch has features at all."""
        return ~np.isnan(self.values[:, 0, 0])

    @property
    def absolute(self) -> tuple[str, ...]:
        """Features whose level means the same in every recording, so that no later step may rescale them."""
        if self.scaling == "mixture":
            return self.names
        return _absolute(self.names, self.recipe)


def features(
    recording: Recording,
    recipe: str | Path | Recipe,
    *,
    epoch_seconds: float | None = None,
    calibration: Hypnogram | None = None,
) -> Features:
    """Return what a network sees of a recording.

    Parameters
    ----------
    recording : Recording
        With the channels the recipe needs.
    recipe : Recipe, or str or Path
        A recipe, the name of a built-in one, or the path of a TOML file.
    epoch_seconds : float, optional
        Length of an epoch. Default: the recipe's.
    calibration : Hypnogram, optional
        Stages of some epochs of this very recording, from its start; the others are unscored. Features are
        then scaled by the mean and spread of a mixture of the stages in fixed shares, so that a recording
        with little sleep is not stretched to look like any other.

    Returns
    -------
    Features
        Values (epochs, frames, features) with their names.
    """
    Recording.check(recording)
    if not isinstance(recipe, Recipe | str | Path):
        raise InputError(
            f"the recipe is {checks.shown(recipe)}, expected its name or file: {', '.join(recipes())}."
        )
    recipe = recipe if isinstance(recipe, Recipe) else Recipe.load(recipe)
    length = recipe.epoch_seconds if epoch_seconds is None else epoch_seconds
    epochs = EpochGrid.of(recording, length)
    values, names = modality_module(recipe.modality).extract(recording, epochs, recipe)
    values, done = scale(values, names, _absolute(names, recipe), recipe.scaling, epochs, calibration)
    return Features(values, tuple(names), epochs.epoch_seconds, recipe, done, recording.id, recording.subject)


def _absolute(names: tuple[str, ...], recipe: Recipe) -> tuple[str, ...]:
    return tuple(name for name in names if any(fnmatchcase(name, pattern) for pattern in recipe.absolute))
