"""Features of a recording, epoch by epoch, as a recipe defines them: the input of a network.

>>> made = sg.features(recording, "mouse-eeg-emg")
>>> made.values.shape, made.names[:2]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from stageguard import checks, documents
from stageguard.arrays import ComparedByValue, Floats32, Ints, Mask
from stageguard.documents import NotNegative, Range, Text
from stageguard.errors import InputError, MissingFileError
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.recording import EpochGrid, Recording
from stageguard.night.stages import StageScheme
from stageguard.signals.modalities import modality_of
from stageguard.signals.windows import MAD_TO_SD

FOLDER = Path(__file__).with_name("recipes")
MOST_MISSING = 100_000  # epochs that one recording may leave out


@dataclass(frozen=True, slots=True)
class Scaling:
    """How features of different recordings are brought to one scale.

    "robust" subtracts the recording's median and divides by 1.4826 times the median distance from it.
    """

    method: Literal["robust", "none"] = "robust"
    clip: NotNegative = 0.0  # largest scaled value, positive or negative; 0 for no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to turn a recording into the input of a network; each modality adds its own options.

    `load` and `from_dict` return the class of the recipe's modality.
    """

    name: Text
    summary: str = ""
    modality: str  # what must have been recorded
    epoch_seconds: Annotated[float, Range(0.001, 86_400)]  # default length of an epoch
    absolute: tuple[Text, ...] = ()  # features that mean the same everywhere: not scaled; wildcards allowed
    scaling: Scaling = field(default_factory=Scaling)  # of all other features
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))  # of the choices

    @staticmethod
    def from_dict(document: Mapping[str, object]) -> Recipe:
        """Return a recipe from a mapping with the keys of a recipe file."""
        table = dict(checks.mapping(document, "a recipe"))
        if "modality" not in table:
            raise InputError("key 'modality' is missing in the recipe.")
        table.pop("spo2", None)  # recipes of earlier networks have this table, and weights for a mixture
        if isinstance(table.get("scaling"), Mapping):
            table["scaling"] = {key: each for key, each in table["scaling"].items() if key != "weights"}
        recipe: Recipe = documents.read_fields(modality_of(table["modality"]).measures.RECIPE, table)
        return recipe

    @staticmethod
    def load(name_or_path: str | Path) -> Recipe:
        """Return a built-in recipe by name, or your own by the path of its TOML file."""
        path = Path(name_or_path)
        if path.suffix != ".toml":
            path = FOLDER / f"{checks.choice(str(name_or_path), 'recipe', recipes())}.toml"
        try:
            return Recipe.from_dict(documents.read_toml(path, "a recipe"))
        except FileNotFoundError:
            raise MissingFileError(f"{path}: no such file, expected a recipe.") from None
        except InputError as error:
            raise InputError(f"{path.name}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return the complete document in plain TOML types, with every default."""
        document: dict[str, Any] = documents.plain(self, defaults=True)
        return document

    @property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the document, the same however it is formatted."""
        return documents.sha256_of(self.to_dict())

    def replace(self, **changes: object) -> Recipe:
        """Return a recipe with some keys of its document changed."""
        return Recipe.from_dict({**self.to_dict(), **changes})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the document."""
        return Recipe.from_dict, (self.to_dict(),)


def recipes() -> list[str]:
    """Return the names of the built-in recipes."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Features(ComparedByValue):
    """Features of one recording, epoch by epoch, and the expert's stages if known.

    An epoch without a signal is NaN throughout. A single missing number is an error.
    """

    recording: str  # name of the recording
    subject: str | None  # required in training, to keep the nights of one person together
    values: Floats32  # (n_epochs, n_frames, n_features)
    names: tuple[str, ...]  # of the features
    epochs: Ints | None = None  # indices in the recording, with gaps
    labels: Ints | None = None  # index in the scheme, -1 where unscored
    scheme: StageScheme | None = None
    epoch_seconds: float | None = None
    recipe: Mapping[str, Any] | None = None  # the recipe's document
    start: datetime | None = None  # of epoch 0
    scaling: str = "none"  # how all features but the absolute ones were scaled: "robust" or "none"

    def __post_init__(self) -> None:
        """Check shapes and numbers."""
        where, names = self.recording, tuple(self.names)
        values = _checked_values(where, self.values, names)
        n_epochs = len(values)
        epochs = _whole(np.arange(n_epochs) if self.epochs is None else self.epochs)
        if epochs.shape != (n_epochs,) or (np.diff(epochs) < 1).any():
            raise InputError(f"{where}: epoch indices are not {n_epochs} increasing whole numbers.")
        missing = int(epochs[-1]) - int(epochs[0]) + 1 - n_epochs
        if missing > MOST_MISSING:
            raise InputError(f"{where}: the epochs leave out {missing:,}, expected at most {MOST_MISSING:,}.")
        changes: dict[str, Any] = {"values": values, "names": names, "epochs": epochs}
        if self.labels is not None:
            if self.scheme is None:
                raise InputError(f"{where}: has labels but no scheme to say what they mean. Give scheme.")
            labels, n_stages = _whole(self.labels), self.scheme.n_stages
            if labels.shape != (n_epochs,) or (labels < UNSCORED).any() or (labels >= n_stages).any():
                wanted = f"from 0 to {n_stages - 1} ({', '.join(self.scheme.names)}), or -1 where unscored"
                raise InputError(f"{where}: labels are not {n_epochs} whole numbers {wanted}.")
            changes["labels"] = labels
        if self.epoch_seconds is not None:
            changes["epoch_seconds"] = checks.epoch_seconds(self.epoch_seconds)
        for name, value in changes.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Return shape, recipe, scaling and recording."""
        n_epochs, n_frames, n_features = self.values.shape
        seconds = "" if self.epoch_seconds is None else f" of {self.epoch_seconds:g} s"
        recipe = "" if self.recipe is None else f"recipe {self.recipe['name']!r}, "
        shape = f"{n_epochs} epochs{seconds}, {n_frames} frames of {n_features} features"
        return f"<Features {shape}, {recipe}scaling {self.scaling}, recording {self.recording!r}>"

    @property
    def n_epochs(self) -> int:
        """Number of epochs in the table."""
        return len(self.values)

    @property
    def has_signal(self) -> Mask:
        """Whether each epoch has features at all."""
        return ~np.isnan(self.values[:, 0, 0])

    @property
    def absolute(self) -> tuple[str, ...]:
        """Features whose level means the same in every recording; no later step may rescale them."""
        return _absolute(self.names, () if self.recipe is None else self.recipe.get("absolute", ()))

    def stretches(self) -> list[tuple[int, int]]:
        """Return rows ``(first, end)`` of each stretch of consecutive epochs with a signal."""
        assert self.epochs is not None
        rows = np.flatnonzero(self.has_signal)
        breaks = np.flatnonzero(np.diff(self.epochs[rows]) != 1) + 1
        return [(int(piece[0]), int(piece[-1]) + 1) for piece in np.split(rows, breaks) if len(piece)]


def _whole(given: npt.ArrayLike) -> Ints:
    """Return whole numbers; nothing for other ones."""
    values = checks.array_of(given, "numbers of epochs", "read_hypnogram")
    return values.astype(np.int64) if values.dtype.kind in "iu" else np.zeros(0, dtype=np.int64)


def _checked_values(where: str, given: npt.ArrayLike, names: Sequence[str]) -> Floats32:
    """Return features as (epochs, frames, features) in single precision."""
    values = checks.array_of(given, f"{where}: features", "features")
    if values.dtype.kind not in "biuf":
        raise InputError(f"{where}: features are {values.dtype}, expected real numbers.")
    values = values[:, None, :] if values.ndim == 2 else values
    if values.ndim != 3 or 0 in values.shape:
        wanted = "(epochs, features) or (epochs, frames, features) with at least one of each"
        raise InputError(f"{where}: features have shape {values.shape}, expected {wanted}.")
    if len(names) != values.shape[2] or len(set(names)) != len(names):
        n_names = len(set(names))
        raise InputError(f"{where}: {n_names} different feature names for {values.shape[2]} features.")
    with np.errstate(over="ignore"):  # too large numbers become infinite and are reported below
        features = values.astype(np.float32, copy=False)
    empty = np.asarray(np.isnan(features).all(axis=(1, 2)))
    bad = ~np.isfinite(features) & ~empty[:, None, None]
    if bad.any():
        row, frame, column = (int(i) for i in np.argwhere(bad)[0])
        found = f"feature {names[column]!r} is {values[row, frame, column]} in epoch {row}"
        raise InputError(f"{where}: {found}, expected a number, or NaN for all features of an epoch.")
    if empty.all():
        raise InputError(f"{where}: no epoch has a feature. Expected at least one epoch with a signal.")
    return checks.frozen_array(features, np.float32)


def features(
    recording: Recording,
    recipe: str | Path | Recipe,
    *,
    epoch_seconds: float | None = None,
) -> Features:
    """Return the features of a recording, which are the input of a network.

    Parameters
    ----------
    recording : Recording
        With the channels the recipe needs.
    recipe : Recipe, or str or Path
        A recipe, the name of a built-in one, or the path of a TOML file.
    epoch_seconds : float, optional
        Length of an epoch. Default: the recipe's.

    Returns
    -------
    Features
        Values (epochs, frames, features) with their names.
    """
    Recording.check(recording)
    recipe = recipe if isinstance(recipe, Recipe) else Recipe.load(recipe)
    epochs = EpochGrid.of(recording, recipe.epoch_seconds if epoch_seconds is None else epoch_seconds)
    values, names = modality_of(recipe.modality).measures.extract(recording, epochs, recipe)
    values, scaling = _scale(values, names, recipe)
    return Features(
        recording.id,
        recording.subject,
        values,
        names,
        epoch_seconds=epochs.epoch_seconds,
        recipe=recipe.to_dict(),
        start=recording.start,
        scaling=scaling,
    )


def _absolute(names: tuple[str, ...], patterns: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns))


def _scale(values: Floats32, names: tuple[str, ...], recipe: Recipe) -> tuple[Floats32, str]:
    """Return the features, all but the absolute ones on a common scale, and the name of the scaling."""
    has_signal = ~np.isnan(values[:, 0, 0])
    if recipe.scaling.method == "none" or not has_signal.any():
        return values, "none"
    flat = values[has_signal].reshape(-1, values.shape[2]).astype(np.float64)
    centre = np.median(flat, axis=0)
    spread = MAD_TO_SD * np.median(np.abs(flat - centre), axis=0)
    for otherwise in (flat.std(axis=0), 1.0):  # where more than half of the values, or all, are equal
        spread = np.where(spread > 1e-9 * np.maximum(1.0, np.abs(centre)), spread, otherwise)
    absolute = _absolute(names, recipe.absolute)
    is_scaled, clip = np.array([name not in absolute for name in names]), recipe.scaling.clip or np.inf
    scaled = np.clip((values - centre) / spread, -clip, clip)
    return np.where(is_scaled, scaled, values).astype(np.float32), "robust"
