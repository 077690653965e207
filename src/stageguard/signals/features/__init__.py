"""Features of a recording, epoch by epoch, as a recipe defines them: the input of a network.

>>> made = sg.features(recording, "mouse-eeg-emg")
>>> made.values.shape, made.names[:2]
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard import checks, schema
from stageguard.arrays import Floats, Floats32, Ints, Mask
from stageguard.errors import Argument, EpochNumber, InputError, Message, did_you_mean
from stageguard.files import write_cell, write_together
from stageguard.formats.tables.timing import MOST_MISSING
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.recording import EpochGrid, Recording
from stageguard.night.stages import WNR3, StageScheme, canonical_name
from stageguard.schema import plain_table, read_table, read_toml
from stageguard.signals.modalities import modality_of
from stageguard.signals.windows import MAD_TO_SD
from stageguard.values import ComparedByValue

FOLDER = Path(__file__).with_name("recipes")

_WORDS = ("name", "summary", "modality", "epoch_seconds", "absolute", "scaling", "provenance")
_REQUIRED = ("name", "modality", "epoch_seconds")


@dataclass(frozen=True, slots=True)
class Scaling:
    """How features of different recordings are brought to one scale.

    "robust" subtracts the recording's median and divides by 1.4826 times the median distance from it. With
    scored epochs for calibration, the z-score of a mixture of stages is used instead.
    """

    method: str = schema.choice("robust", "robust", "none")
    clip: float = schema.number(0.0, low=0.0)  # largest scaled value, positive or negative; 0 for no limit
    # share of each stage in the mixture of calibration epochs
    weights: Mapping[str, float] = schema.shares({"W": 0.35, "N": 0.55, "R": 0.10})


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Recipe(schema.Document):
    """How to turn a recording into the input of a network.

    A recipe is made from a document with the keys of a recipe file: see `load` and `from_dict`. The whole
    document is checked at once. Two recipes are equal if their documents, with defaults filled in, are equal.
    """

    name: str
    summary: str
    modality: str  # what must have been recorded
    epoch_seconds: float  # default length of an epoch
    absolute: tuple[str, ...]  # features that mean the same everywhere and are not scaled; wildcards allowed
    scaling: Scaling  # of all other features
    settings: Any  # the modality's options
    provenance: Mapping[str, Any]  # where the choices come from
    _cache: dict[str, Any]

    def __init__(self, document: Mapping[str, object]) -> None:
        for name, value in {**_parse(document), "_cache": {}}.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_dict(cls, document: Mapping[str, object]) -> Recipe:
        """Return a recipe from a mapping with the keys of a recipe file."""
        return cls(document)

    @classmethod
    def load(cls, name_or_path: str | Path) -> Recipe:
        """Return a built-in recipe by name, or your own by the path of its TOML file."""
        if isinstance(name_or_path, str) and name_or_path in recipes():
            return _built_in(name_or_path)
        path = Path(name_or_path)
        if isinstance(name_or_path, Path) or path.suffix == ".toml":
            return _from_file(path)
        raise InputError(
            f"unknown recipe {name_or_path!r}. Built in: {', '.join(recipes())}; for one's own, give the "
            f"path of a .toml file.{did_you_mean(name_or_path, recipes())}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the complete document in plain TOML types, with every default."""
        return {
            "name": self.name,
            "summary": self.summary,
            "modality": self.modality,
            "epoch_seconds": self.epoch_seconds,
            "absolute": list(self.absolute),
            "scaling": plain_table(self.scaling),
            **plain_table(self.settings),
            "provenance": plain_table(self.provenance),
        }

    def replace(self, **changes: object) -> Recipe:
        """Return a recipe with some keys of its document changed."""
        return Recipe({**self.to_dict(), **changes})

    def __repr__(self) -> str:
        """Return name, modality and the first digits of the hash."""
        return f"<Recipe {self.name!r}, {self.modality}, sha256 {self.sha256[:12]}>"


def recipes() -> list[str]:
    """Return the names of the built-in recipes."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def _parse(document: Mapping[str, object]) -> dict[str, Any]:
    if not isinstance(document, Mapping):
        raise InputError(f"a recipe is {checks.shown(document)}, expected a table of keys.")
    for key in _REQUIRED:
        if key not in document:
            raise InputError(f"key {key!r} is missing from the recipe. Required: {', '.join(_REQUIRED)}.")
    modality = modality_of(document["modality"])
    settings = modality.measures.SETTINGS
    options = tuple(item.name for item in fields(settings))
    checks.known_keys(map(str, document), f"a recipe for {modality.name}", (*_WORDS, *options))
    return {
        "name": checks.text(document["name"], "name", empty=False),
        "summary": checks.text(document.get("summary", ""), "summary"),
        "modality": modality.name,
        "epoch_seconds": checks.epoch_seconds(document["epoch_seconds"]),
        "absolute": schema.text_list(document.get("absolute", ()), "absolute"),
        "scaling": read_table(Scaling, document.get("scaling", {}), "scaling"),
        "settings": read_table(settings, {key: document[key] for key in options if key in document}),
        "provenance": MappingProxyType(dict(checks.mapping(document.get("provenance", {}), "provenance"))),
    }


@cache
def _built_in(name: str) -> Recipe:
    return _from_file(FOLDER / f"{name}.toml")


def _from_file(path: Path) -> Recipe:
    try:
        return Recipe(read_toml(path, "a recipe"))
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file. Give a built-in name ({', '.join(recipes())}) or the path of a .toml."
        ) from None


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
    # how all features but the absolute ones were scaled: "robust", "mixture" of scored stages, or "none"
    scaling: str = "none"

    def __post_init__(self) -> None:
        """Check shapes and numbers."""
        where, names = self.recording, tuple(self.names)
        values = _checked_values(where, self.values, names)
        n_epochs = len(values)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "epochs", _checked_epochs(where, self.epochs, n_epochs))
        if self.labels is not None:
            if self.scheme is None:
                raise InputError(f"{where}: has labels but no scheme to say what they mean. Give scheme.")
            object.__setattr__(self, "labels", _checked_labels(where, self.labels, n_epochs, self.scheme))
        if self.epoch_seconds is not None:
            try:
                object.__setattr__(self, "epoch_seconds", checks.epoch_seconds(self.epoch_seconds))
            except InputError as error:
                raise InputError(f"{where}: {error}") from None

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
        if self.scaling == "mixture":
            return self.names
        return _absolute(self.names, () if self.recipe is None else self.recipe.get("absolute", ()))

    def stretches(self) -> list[tuple[int, int]]:
        """Return rows ``(first, end)`` of each stretch of consecutive epochs with a signal."""
        assert self.epochs is not None
        rows = np.flatnonzero(self.has_signal)
        if not len(rows):
            return []
        breaks = np.flatnonzero(np.diff(self.epochs[rows]) != 1) + 1
        return [(int(piece[0]), int(piece[-1]) + 1) for piece in np.split(rows, breaks)]


def _checked_values(where: str, given: npt.ArrayLike, names: Sequence[str]) -> Floats32:
    """Return features as (epochs, frames, features) in single precision."""
    values = checks.unmasked(np.asanyarray(given), np.nan)
    if values.dtype.kind not in "biuf":
        raise InputError(f"{where}: features are {values.dtype}, expected real numbers.")
    values = values[:, None, :] if values.ndim == 2 else values
    if values.ndim != 3 or 0 in values.shape:
        raise InputError(
            f"{where}: features have shape {values.shape}, expected (epochs, features) or "
            "(epochs, frames, features) with at least one of each."
        )
    if len(names) != values.shape[2] or len(set(names)) != len(names):
        raise InputError(
            f"{where}: {len(set(names))} different feature names for {values.shape[2]} features. "
            "Give each its own."
        )
    with np.errstate(over="ignore"):  # too large numbers become infinite and are reported below
        features = values.astype(np.float32, copy=False)
    bad = ~np.isfinite(features)
    empty = np.isnan(features).all(axis=(1, 2))
    bad[empty] = False
    if bad.any():
        row, frame, column = (int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            Message(
                f"{where}: feature {names[column]!r} is {values[row, frame, column]} in epoch ",
                EpochNumber(row),
                ", expected a number. Fill it, or leave all features of an epoch without signal empty.",
            )
        )
    if empty.all():
        raise InputError(f"{where}: no epoch has a feature. Expected at least one epoch with a signal.")
    return checks.frozen_array(features, np.float32)


def _checked_epochs(where: str, given: npt.ArrayLike | None, n_epochs: int) -> Ints:
    values = np.arange(n_epochs) if given is None else np.asarray(given)
    epochs = values.astype(np.int64) if values.dtype.kind in "iu" else np.zeros(0, dtype=np.int64)
    if epochs.shape != (n_epochs,) or (np.diff(epochs) < 1).any():
        raise InputError(f"{where}: epoch indices are not {n_epochs} increasing whole numbers. Sort them.")
    n_missing = int(epochs[-1]) - int(epochs[0]) + 1 - n_epochs
    if n_missing > MOST_MISSING:
        row = int(np.argmax(np.diff(epochs))) + 1
        raise InputError(
            f"{where}: epoch {epochs[row]} comes after {epochs[row - 1]}, so that {n_missing:,} are missing; "
            f"expected at most {MOST_MISSING:,}. Are the indices right?"
        )
    return epochs


def _checked_labels(where: str, labels: npt.ArrayLike, n_epochs: int, scheme: StageScheme) -> Ints:
    values = checks.unmasked(np.asanyarray(labels), UNSCORED)
    if values.shape != (n_epochs,) or values.dtype.kind not in "iu":
        raise InputError(
            f"{where}: labels have shape {values.shape} of {values.dtype}, expected {n_epochs} whole numbers."
        )
    wrong = (values < UNSCORED) | (values >= scheme.n_stages)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            Message(
                *(
                    f"{where}: label {values[row]} in epoch ",
                    EpochNumber(row),
                    " is out of range, expected 0 to ",
                ),
                f"{scheme.n_stages - 1} ({', '.join(scheme.names)}) or -1 where unscored.",
            )
        )
    return values.astype(np.int64)


def features(
    recording: Recording,
    recipe: str | Path | Recipe,
    *,
    epoch_seconds: float | None = None,
    calibration: Hypnogram | None = None,
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
    calibration : Hypnogram, optional
        Stages of some epochs of this recording, counted from its start; the others are unscored. Features
        are then scaled by the mean and spread of a mixture of the stages in fixed shares. Without it, a
        recording with little sleep is stretched until it looks like any other.

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
    values, names = modality_of(recipe.modality).measures.extract(recording, epochs, recipe.settings)
    values, done = scale(
        values, names, _absolute(names, recipe.absolute), recipe.scaling, epochs, calibration
    )
    return Features(
        recording.id,
        recording.subject,
        values,
        names,
        epoch_seconds=epochs.epoch_seconds,
        recipe=recipe.to_dict(),
        start=recording.start,
        scaling=done,
    )


def _absolute(names: tuple[str, ...], patterns: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns))


MIN_CALIBRATION_EPOCHS = 3  # of each stage, as in AccuSleep


def scale(
    values: Floats32,
    names: tuple[str, ...],
    absolute: tuple[str, ...],
    scaling: Scaling,
    epochs: EpochGrid,
    calibration: Hypnogram | None,
) -> tuple[Floats32, str]:
    """Return the features, all but the absolute ones on a common scale, and the name of the scaling."""
    has_signal = ~np.isnan(values[:, 0, 0])
    if calibration is None and (scaling.method == "none" or not has_signal.any()):
        return values, "none"
    if calibration is None:
        centre, spread = robust_moments(values[has_signal])
        done = "robust"
    else:
        centre, spread = _calibrate(values, has_signal, scaling, epochs, calibration)
        done = "mixture"
    kept = [names.index(name) for name in absolute]
    centre[kept], spread[kept] = 0.0, 1.0
    scaled = ((values - centre) / spread).astype(np.float32)
    if scaling.clip:
        moved = [column for column in range(len(names)) if column not in kept]
        scaled[..., moved] = np.clip(scaled[..., moved], -scaling.clip, scaling.clip)
    return scaled, done


def robust_moments(values: npt.NDArray[np.floating]) -> tuple[Floats, Floats]:
    """Return median and 1.4826 times the median distance from it, per feature; 1 for a constant feature."""
    flat = values.reshape(-1, values.shape[-1]).astype(np.float64)
    centre = np.median(flat, axis=0)
    spread = MAD_TO_SD * np.median(np.abs(flat - centre), axis=0)
    # the standard deviation where more than half of the values are equal
    spread = _divisor(spread, centre, flat.std(axis=0))
    return centre, _divisor(spread, centre, 1.0)


def _divisor(spread: Floats, centre: Floats, otherwise: Floats | float) -> Floats:
    """Return the spread by which to divide, or the other one where it is but a rounding error."""
    return np.where(spread > 1e-9 * np.maximum(1.0, np.abs(centre)), spread, otherwise)


def mixture_moments(
    values: npt.NDArray[np.floating], labels: npt.NDArray[np.integer], weights: npt.ArrayLike
) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of a mixture of the stages, with weights as their shares.

    The mean is the weighted mean of the stages' means; the variance is the weighted mean of their variances
    plus the weighted squared distance of their means from it (the law of total variance), as in AccuSleep
    (Barger et al. 2019). Labels index the weights. The weights need not sum to 1.
    """
    share = np.asarray(weights, dtype=np.float64)
    share = share / share.sum()
    groups = [values[labels == stage].astype(np.float64) for stage in range(len(share))]
    means = np.stack([group.mean(axis=0) for group in groups])
    variances = np.stack([group.var(axis=0, ddof=1) for group in groups])
    centre = share @ means
    spread = np.sqrt(share @ variances + share @ (means - centre) ** 2)
    return centre, _divisor(spread, centre, 1.0)


def _calibrate(
    values: Floats32,
    has_signal: Mask,
    scaling: Scaling,
    epochs: EpochGrid,
    calibration: Any,
) -> tuple[Floats, Floats]:
    """Return mean and spread of the mixture of stages, from the epochs scored in the calibration."""
    if not isinstance(calibration, Hypnogram):
        raise InputError(f"calibration is {checks.shown(calibration)}, expected a Hypnogram.")
    if calibration.epoch_seconds != epochs.epoch_seconds:
        raise InputError(
            f"calibration has epochs of {calibration.epoch_seconds:g} s, the features have "
            f"{epochs.epoch_seconds:g} s. Score some epochs of that length."
        )
    if calibration.n_epochs > epochs.n_epochs:
        raise InputError(
            f"calibration has {calibration.n_epochs} epochs, the recording {epochs.n_epochs}. Expected "
            "stages of this very recording, from its start."
        )
    stage_of = _stage_indices(calibration, tuple(scaling.weights))
    labels = np.full(epochs.n_epochs, -1)
    labels[: calibration.n_epochs] = np.append(stage_of, -1)[calibration.labels]
    labels[~has_signal] = -1
    for index, stage in enumerate(scaling.weights):
        n_found = int(np.count_nonzero(labels == index))
        if n_found < MIN_CALIBRATION_EPOCHS:
            raise InputError(
                f"calibration has {n_found} epochs of {stage} with a signal, expected at least "
                f"{MIN_CALIBRATION_EPOCHS} of each of {', '.join(scaling.weights)}. Score some more."
            )
    rows = labels >= 0
    n_frames = values.shape[1]
    flat = values[rows].reshape(-1, values.shape[2])
    return mixture_moments(flat, np.repeat(labels[rows], n_frames), list(scaling.weights.values()))


def _stage_indices(calibration: Hypnogram, stages: tuple[str, ...]) -> Ints:
    """Return the index of each stage of the calibration among the mixture's stages, or -1."""
    scheme = calibration.scheme
    wanted = {canonical_name(stage) or stage: index for index, stage in enumerate(stages)}
    indices = np.array(
        [wanted.get(canonical_name(name) or name, -1) for name in scheme.names], dtype=np.int64
    )
    if (indices < 0).any() and set(wanted) == set(WNR3.names):
        try:
            merged = scheme.merge_map(WNR3)
        except InputError:
            return indices
        return np.array([wanted[WNR3.names[index]] for index in merged], dtype=np.int64)
    return indices


SUFFIXES = (".npz", ".tsv")


def write_features(
    features: Features,
    path: str | Path,
    *,
    scoring: Hypnogram | None = None,
    is_synthetic: bool = False,
    overwrite: bool = False,
) -> Path:
    """Write the features of one recording, with its stages, to a .npz or .tsv file, completely or not at all.

    A scoring must have epochs of the same length. Epochs after its end are unscored.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"cannot write features as {path.name!r}, expected a name ending in .npz or .tsv.")
    stages = None if scoring is None else aligned_stages(features, scoring)
    made: bytes | str
    if path.suffix.lower() == ".npz":
        made = _archive(features, stages, is_synthetic)
    else:
        made = _table(features, stages)
    write_together({path: made}, overwrite=overwrite, make_folders=True)
    return path


def aligned_stages(features: Features, scoring: Hypnogram) -> list[str]:
    """Return the stage of each epoch by name, "?" where the scoring has none."""
    seconds = features.epoch_seconds
    if seconds is not None and abs(scoring.epoch_seconds - seconds) > 1e-6:
        raise InputError(
            Message(
                f"recording {features.recording!r} is scored in epochs of {scoring.epoch_seconds:g} s, its "
                f"features have {seconds:g} s. Give ",
                Argument("epoch_seconds", float(scoring.epoch_seconds)),
                ".",
            )
        )
    stages = [str(name) for name in scoring.stages[: features.n_epochs]]
    return stages + ["?"] * (features.n_epochs - len(stages))


def _archive(features: Features, stages: list[str] | None, is_synthetic: bool) -> bytes:
    recipe = features.recipe
    content: Mapping[str, Any] = {
        "features": features.values,
        "names": features.names,
        "subject": features.subject,
        "recording": features.recording,
        "epoch": features.epochs,
        "epoch_seconds": features.epoch_seconds,
        "recipe": None if recipe is None else json.dumps(recipe, allow_nan=False),
        "recipe_sha256": None if recipe is None else Recipe.from_dict(recipe).sha256,
        "scaling": features.scaling,
        "absolute": np.array(features.absolute, dtype=np.str_),
        "is_synthetic": is_synthetic,
        "stage": stages,
    }
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {name: np.array(value) for name, value in content.items() if value is not None}
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _table(features: Features, stages: list[str] | None) -> str:
    n_frames = features.values.shape[1]
    if n_frames != 1:
        raise InputError(
            f"there are {n_frames} frames per epoch, but a table has one row for each epoch. Write .npz "
            "instead."
        )
    header = ["subject", "epoch", *([] if stages is None else ["stage"]), *features.names]
    subject = write_cell(features.subject or "")
    lines = ["\t".join(header)]
    for epoch, row in enumerate(features.values[:, 0].tolist()):
        cells = [subject, str(epoch), *([] if stages is None else [stages[epoch]])]
        lines.append("\t".join([*cells, *("n/a" if value != value else f"{value:.8g}" for value in row)]))
    return "\n".join(lines) + "\n"
