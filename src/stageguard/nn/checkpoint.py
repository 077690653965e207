"""A trained network on disk: its card as JSON, its weights as safetensors."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from stageguard.base import checks, schema
from stageguard.base.errors import FileFormatError, InputError, ProfileError, did_you_mean, warn
from stageguard.base.extras import library
from stageguard.base.files import load_json, read_file, write_together
from stageguard.base.schema import REQUIRED
from stageguard.base.version import __version__
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.stages import StageScheme
from stageguard.nn.backbones import build_backbone, check_network
from stageguard.nn.data import read_features
from stageguard.nn.inference import soften, table_probabilities
from stageguard.nn.pytorch import EXTRA, NEEDED_BY, Tensor, nn, torch
from stageguard.nn.tables import Normalisation
from stageguard.profile.profile import Profile
from stageguard.signals.features import Features, Recipe

Trained = Literal["natural", "balanced"]


def _mapping(value: object, where: str) -> dict[str, Any]:
    return dict(checks.mapping(value, where))


def _names(value: object, where: str) -> tuple[str, ...]:
    names = schema.text_list(value, where)
    if len(set(names)) != len(names) or not names:
        raise InputError(f"{where} are not different from each other.")
    return names


@dataclass(frozen=True, slots=True)
class _ProfileEntry:
    """The profile's entry in the card."""

    name: str = schema.text()
    sha256: str = schema.text()
    definition: Mapping[str, Any] = schema.declare(REQUIRED, _mapping)


def _profile(value: object, where: str) -> Profile:
    """Return the profile of the card, after checking its SHA-256."""
    entry = schema.read_table(_ProfileEntry, value, where)
    try:
        profile = Profile.from_dict(entry.definition)
    except ProfileError as error:
        raise InputError(f"profile.definition: {error}") from None
    if entry.sha256 != profile.sha256:
        raise InputError("profile.sha256 is not that of profile.definition.")
    return profile


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """The features that a network takes."""

    recipe: str = schema.text(empty=True)  # name of the recipe
    # the recipe itself; None if the features came without one
    recipe_document: Mapping[str, Any] | None = schema.declare(REQUIRED, schema.optional(_mapping))
    names: tuple[str, ...] = schema.declare(REQUIRED, _names)  # in order
    n_frames: int = schema.count()  # per epoch


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A network's purpose and training: everything but its weights."""

    backbone: str = schema.text()
    network: Mapping[str, Any] = schema.declare(REQUIRED, check_network)  # options of the backbone
    # length of the training epochs
    epoch_seconds: float = schema.declare(REQUIRED, lambda value, where: checks.epoch_seconds(value))
    features: FeatureSet = schema.declare(REQUIRED, partial(schema.read_table, FeatureSet))
    normalisation: Normalisation = schema.declare(
        REQUIRED, partial(schema.read_table, Normalisation, complete=True)
    )
    # number of epochs in the network's window; None for a whole stretch
    length: int | None = schema.declare(REQUIRED, schema.optional(checks.count))
    # found on the validation subjects; 1 leaves the probabilities unchanged
    temperature: float = schema.number(positive=True)
    # whether stages were weighted in training, which the decoder needs to know
    trained: Trained = schema.choice(REQUIRED, "natural", "balanced")
    profile: Profile = schema.declare(REQUIRED, _profile)  # used in training, and by default for decoding
    # options, counts and validation results, for the record
    training: Mapping[str, Any] = schema.declare(REQUIRED, _mapping)

    @property
    def scheme(self) -> StageScheme:
        """The stages of the network's outputs, in order."""
        return self.profile.scheme

    def build(self) -> nn.Module:
        """Return the network, untrained."""
        return build_backbone(
            self.backbone,
            n_frames=self.features.n_frames,
            n_features=len(self.features.names),
            n_stages=self.scheme.n_stages,
            epoch_seconds=self.epoch_seconds,
            **self.network,
        )

    def feature_recipe(self, recording: str) -> Recipe:
        """Return the recipe of the network's features; the error for a missing recipe names the recording."""
        if self.features.recipe_document is None:
            raise InputError(
                f"{recording}: is a recording, and this network holds no recipe for its features (they were "
                f"called {self.features.recipe!r}). Compute them as for training, and give the tables."
            )
        return Recipe.from_dict(self.features.recipe_document)

    def columns(self, names: Sequence[str]) -> list[int]:
        """Return the indices of the network's features among names; the error names a missing feature."""
        wanted = self.features.names
        missing = [name for name in wanted if name not in names]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise InputError(
                f"has no feature {missing[0]!r}{more}, which this network was trained on (recipe "
                f"{self.features.recipe!r}, {len(wanted)} features).{did_you_mean(missing[0], names)}"
            )
        return [names.index(name) for name in wanted]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return {
            "backbone": self.backbone,
            "network": dict(self.network),
            "scheme": _scheme_document(self.scheme),
            "epoch_seconds": self.epoch_seconds,
            "features": schema.plain_table(self.features),
            "normalisation": schema.plain_table(self.normalisation),
            "length": self.length,
            "temperature": self.temperature,
            "trained": self.trained,
            "profile": {
                "name": self.profile.name,
                "sha256": self.profile.sha256,
                "definition": self.profile.to_dict(),
            },
            "training": dict(self.training),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ModelCard:
        """Return the card of a document that `to_dict` made; the error names the wrong key."""
        card = schema.read_table(cls, {key: value for key, value in document.items() if key != "scheme"})
        if "scheme" not in document:
            raise InputError("key 'scheme' is missing in the document.")
        if _mapping(document["scheme"], "scheme") != _scheme_document(card.scheme):
            raise InputError(f"scheme is not that of its profile ({', '.join(card.scheme.names)}).")
        strange = [name for name in card.normalisation.absolute if name not in card.features.names]
        if strange:
            raise InputError(f"normalisation.absolute names {strange[0]!r}, which is not among the features.")
        return card


def _scheme_document(scheme: StageScheme) -> dict[str, Any]:
    return {"name": scheme.name, "names": list(scheme.names), "wake": scheme.wake, "rem": scheme.rem}


safetensors = library("safetensors", NEEDED_BY, EXTRA)
codec = library("safetensors.torch", NEEDED_BY, EXTRA)

MODEL_LAYOUT = 1
LARGE_BYTES = 2**28  # a larger network is built only if its weights are as large; a changed card asks for any
WEIGHTS = "model.safetensors"
CARD = "model.json"


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A network and its card.

    Attributes
    ----------
    network : torch.nn.Module
        With its weights.
    card : ModelCard
        How it was trained, on which features and stages, and under which profile.
    """

    network: nn.Module
    card: ModelCard

    def accept(self, table: Features) -> Features:
        """Return the table with the network's features in the network's order; check that it fits."""
        card, where = self.card, table.recording
        try:
            columns = card.columns(table.names)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        if table.values.shape[1] != card.features.n_frames:
            raise InputError(
                f"{where}: has {table.values.shape[1]} frames per epoch, but this network was trained on "
                f"{card.features.n_frames}. Compute the features by the recipe {card.features.recipe!r}."
            )
        if table.epoch_seconds is not None and table.epoch_seconds != card.epoch_seconds:
            raise InputError(
                f"{where}: has epochs of {table.epoch_seconds:g} s, but this network was trained on "
                f"{card.epoch_seconds:g} s. Compute the features anew."
            )
        if table.scheme is not None and table.scheme != card.scheme:
            raise InputError(
                f"{where}: has the stages {', '.join(table.scheme.names)}, but this network was trained on "
                f"{', '.join(card.scheme.names)}. Read the table in that scheme."
            )
        if table.names == card.features.names:
            return table
        return replace(table, values=table.values[..., columns], names=card.features.names)

    def read(self, path: str | Path) -> Features:
        """Read the network's features from a file; other features are ignored."""
        return read_features(Path(path), choose=self.card.columns)

    def probabilities(
        self, table: Features, *, temperature: bool = True
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return stage probabilities per row of a table; NaN in epochs without a signal.

        With `temperature`, the temperature found in training is applied.
        """
        table = self.accept(table)
        card = self.card
        scale, n_stages = card.normalisation, card.scheme.n_stages
        raw = table_probabilities(self.network, table, scale, n_stages, length=card.length)
        return soften(raw, card.temperature if temperature else 1.0)

    def density(self, table: Features, *, temperature: bool = True) -> Hypnodensity:
        """Return stage probabilities from the table's first epoch to its last; NaN in gaps."""
        longest = max((b - a for a, b in table.stretches()), default=0)
        if self.card.length is not None and longest < self.card.length:
            warn(
                f"{table.recording}: at most {longest} epochs follow each other, fewer than the "
                f"{self.card.length} the network was trained on; the rest was padded."
            )
        assert table.epochs is not None
        rows = self.probabilities(table, temperature=temperature)
        index = table.epochs - table.epochs[0]
        densities = np.full((int(index[-1]) + 1, rows.shape[1]), np.nan)
        densities[index] = rows
        seconds = self.card.epoch_seconds
        offset = seconds * int(table.epochs[0])
        start = None if table.start is None else table.start + timedelta(seconds=offset)
        return Hypnodensity(
            densities, self.card.scheme, seconds, start, table.recording, offset_seconds=offset
        )


def save_model(model: TrainedModel, folder: str | Path, *, overwrite: bool = False) -> tuple[Path, Path]:
    """Write `model.safetensors` and `model.json` into a folder, both or neither."""
    folder = Path(folder)
    tensors = plain_tensors(model.network.state_dict())
    weights: bytes = codec.save(tensors)
    document = {
        "stageguard_model": MODEL_LAYOUT,
        "versions": {
            "stageguard": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "weights": {
            "file": WEIGHTS,
            "bytes": len(weights),
            "sha256": hashlib.sha256(weights).hexdigest(),
        },
        **model.card.to_dict(),
    }
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    paths = folder / WEIGHTS, folder / CARD
    write_together({paths[0]: weights, paths[1]: text}, overwrite=overwrite, make_folders=True)
    return paths


def load_model(path: str | Path, *, device: str | torch.device = "cpu") -> TrainedModel:
    """Read a network that ``stageguard train`` or a study wrote.

    Parameters
    ----------
    path : str or Path
        The folder, or either file in it.
    device : str or torch.device
        Where to put the network.

    Returns
    -------
    TrainedModel
        In evaluation mode. Nothing in the files is executed.

    Raises
    ------
    FileFormatError
        There is no network, or its two files do not belong together.

    Examples
    --------
    >>> model = load_model("model")
    >>> staged = sg.stage(model.read("features/night.npz"), model)
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path is {checks.shown(path)}, expected the folder of a network.")
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    if not (folder / CARD).is_file():
        raise FileFormatError(
            f"{path}: holds no {CARD}, so it is not a network of stageguard. Train one first."
        )
    document = _read_card(folder / CARD)
    try:
        about = document.pop("weights", None)
        card = ModelCard.from_dict(document)
        if about is None:
            raise InputError("key 'weights' is missing in the document.")
        weights = schema.read_table(_Weights, about, "weights")
        if (size := _n_bytes(card)) > max(weights.bytes, LARGE_BYTES):
            raise InputError(f"describes a network of {size:,} bytes, expected {weights.bytes:,}.")
        network = card.build()
        fixed = getattr(network, "training_length", None)
        if fixed is not None and card.length != fixed:
            raise InputError(f"length is {card.length}, expected {fixed}: the network takes no other.")
    except InputError as error:
        raise FileFormatError(f"{CARD}: {error} Copy it again, or train again.") from None
    tensors = _read_weights(folder / WEIGHTS, weights)
    if difference := first_difference(network.state_dict(), tensors):
        raise FileFormatError(
            f"{WEIGHTS}: does not fit the {card.backbone} that {CARD} describes: {difference}. It was "
            "written by another version, or one of the files was changed: train again."
        )
    network.load_state_dict(tensors)
    network.to(device).eval()
    return TrainedModel(network, card)


def _n_bytes(card: ModelCard) -> int:
    """Return the size of the card's network without building it; 0 for one that needs its memory at once."""
    try:
        with torch.device("meta"):
            tensors = card.build().state_dict().values()
    except (RuntimeError, NotImplementedError):
        return 0
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@dataclass(frozen=True, slots=True)
class _Weights:
    """The entry of the weights in the card's file."""

    file: str = schema.choice(schema.REQUIRED, WEIGHTS)
    bytes: int = schema.count()
    sha256: str = schema.text()


def first_difference(expected: Mapping[str, Tensor], got: Mapping[str, Tensor]) -> str:
    """Return the first difference of names or shapes, or "" if there is none."""
    for name, tensor in expected.items():
        if name not in got:
            return f"{name!r} is missing"
        if got[name].shape != tensor.shape:
            return f"{name!r} has shape {tuple(got[name].shape)}, expected {tuple(tensor.shape)}"
    unknown = [name for name in got if name not in expected]
    return f"{unknown[0]!r} is unknown" if unknown else ""


def plain_tensors(named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as safetensors needs them: on the CPU, contiguous, without shared memory."""
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in named.items()}


def _read_card(path: Path) -> dict[str, Any]:
    document = load_json(path)
    version = document.get("stageguard_model") if isinstance(document, dict) else None
    if version is None:
        raise FileFormatError(
            f"{path.name}: does not describe a network of stageguard. Name the right folder."
        )
    if type(version) is not int or version != MODEL_LAYOUT:
        versions = document.get("versions")
        made_by = versions.get("stageguard") if isinstance(versions, Mapping) else None
        made_by = made_by or "another version"
        raise FileFormatError(
            f"{path.name}: has layout {version!r}, written by stageguard {made_by}; this version "
            f"({__version__}) reads layout {MODEL_LAYOUT}. Use that version, or train again."
        )
    return {key: value for key, value in document.items() if key not in ("stageguard_model", "versions")}


def _read_weights(path: Path, weights: _Weights) -> dict[str, Tensor]:
    if not path.is_file():
        raise FileFormatError(f"{path.name}: is not beside {CARD}. Copy both files.")
    data = read_file(path, "weights")
    if len(data) != weights.bytes:
        raise FileFormatError(
            f"{path.name}: has {len(data):,} of {weights.bytes:,} bytes. It was cut short: copy it again, or "
            "train again."
        )
    if hashlib.sha256(data).hexdigest() != weights.sha256:
        raise FileFormatError(f"{path.name}: is not the file {CARD} was written with. Copy both files again.")
    try:
        return cast(dict[str, Tensor], codec.load(data))
    except safetensors.SafetensorError as error:
        raise FileFormatError(f"{path.name}: is not a safetensors file ({error}). Copy it again.") from None
