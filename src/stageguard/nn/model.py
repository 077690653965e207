"""A trained network and its card: what it takes and gives, how it stages, how it is stored.

A network is a folder with `model.json`, the card, and `model.safetensors`, the weights. The card, and what
networks of every kind have in common, need no torch.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from stageguard import checks, documents
from stageguard.arrays import Floats, Floats32
from stageguard.documents import EpochSeconds, Positive, Text
from stageguard.errors import FileFormatError, InputError, StageGuardError, fault_text, warn
from stageguard.files import load_json, read_file, write_together
from stageguard.lazy import library
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.stages import StageScheme
from stageguard.nn.backbones import build_backbone
from stageguard.nn.data import Normalisation, check_names, read_features, soften, stage_windows
from stageguard.profile.profile import Profile
from stageguard.profile.stagers import Training
from stageguard.signals.features import Features, Recipe
from stageguard.version import __version__

if TYPE_CHECKING:
    import torch
    from torch import nn

LAYOUT = 1  # of the documents that `train` and `export_onnx` write
WEIGHTS, CARD = "model.safetensors", "model.json"
NO_CARD = ("stageguard_model", "versions", "scheme")  # entries of a document that are not read back


def _stored_profile(value: Any, where: str) -> Profile:
    try:
        return Profile.from_dict(checks.mapping(value, where)["definition"])
    except (StageGuardError, KeyError) as error:
        raise InputError(f"{where}.definition: {error}") from None


if TYPE_CHECKING:
    StoredProfile = Profile
else:
    StoredProfile = Annotated[Any, _stored_profile]


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """The features that a network takes."""

    recipe: str  # name of the recipe
    recipe_document: Mapping[str, Any] | None  # None if the features came without one
    names: tuple[str, ...]  # in order
    n_frames: int  # per epoch


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A network's purpose and training: everything but its weights."""

    backbone: Text
    network: Mapping[str, Any]  # options of the backbone
    epoch_seconds: EpochSeconds
    features: FeatureSet
    normalisation: Normalisation
    length: int | None  # number of epochs in the network's window; None for a whole stretch
    temperature: Positive  # found on the validation subjects; 1 leaves the probabilities unchanged
    # whether stages were weighted in training, which the decoder needs to know; None if nobody knows
    trained: Training | None
    profile: StoredProfile  # used in training, and by default for decoding
    training: Mapping[str, Any]  # options, counts and validation results, for the record

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
            found = f"{recording}: is a recording, and this network holds no recipe for its features"
            raise InputError(f"{found}, {self.features.recipe!r}, expected a table of features.")
        return Recipe.from_dict(self.features.recipe_document)

    def accept(self, table: Features) -> Features:
        """Return the table with the network's features in the network's order; check that it fits."""
        features = self.features
        try:
            check_names(features.names, table.names)
        except InputError as error:
            raise InputError(f"{table.recording}: {error}") from None
        for what, own, wanted in (
            ("frames per epoch", table.values.shape[1], features.n_frames),
            ("seconds per epoch", table.epoch_seconds, self.epoch_seconds),
            ("as stages", table.scheme and table.scheme.names, self.scheme.names),
        ):
            if own is not None and own != wanted:
                raise InputError(f"{table.recording}: has {own} {what}, expected {wanted} as in training.")
        if table.names == features.names:
            return table
        columns = [table.names.index(name) for name in features.names]
        return replace(table, values=table.values[..., columns], names=features.names)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        profile, scheme, roles = self.profile, self.scheme, ("name", "names", "wake", "rem")
        document = {name: documents.plain(getattr(self, name), defaults=True) for name in self.__slots__}
        return document | {
            "scheme": {role: documents.plain(getattr(scheme, role)) for role in roles},
            "features": {n: documents.plain(getattr(self.features, n)) for n in FeatureSet.__slots__},
            "profile": {"name": profile.name, "sha256": profile.sha256, "definition": profile.to_dict()},
        }


def card_document(card: ModelCard) -> dict[str, Any]:
    """Return a card with the layout of its document and the versions that wrote it."""
    versions = {
        "stageguard": __version__,
        "torch": library("torch", "a network", "torch").__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    return {"stageguard_model": LAYOUT, "versions": versions, **card.to_dict()}


def read_card(document: Any) -> tuple[ModelCard, dict[str, Any]]:
    """Return the card of a document, and the document's entries besides it."""
    layout = document.get("stageguard_model") if isinstance(document, dict) else None
    if layout != LAYOUT:
        raise InputError(f"layout is {layout!r}, expected {LAYOUT}, the one stageguard {__version__} reads.")
    table = {key: value for key, value in document.items() if key not in NO_CARD}
    rest = {key: table.pop(key) for key in ("weights", "output") if key in table}
    record = checks.mapping(table.get("training", {}), "training")  # which may hold anything
    return replace(documents.read_fields(ModelCard, table | {"training": {}}), training=record), rest


class CardedNetwork(ABC):
    """A network with a card: it stages tables of the features that the card names."""

    __slots__ = ()
    card: ModelCard
    extra: ClassVar[str]  # the extra that installs what runs it

    @abstractmethod
    def run(self, windows: Floats32) -> Floats:
        """Return probabilities (windows, epochs, stages) of normalised features (windows, epochs, ...)."""

    def read(self, path: str | Path) -> Features:
        """Read the network's features from a file; other features are ignored."""
        return read_features(Path(path), only=self.card.features.names)

    def raw_probabilities(self, table: Features) -> Floats:
        """Return the network's own probabilities per row of a table; NaN in epochs without a signal."""
        accepted = self.card.accept(table)
        scaled = self.card.normalisation(accepted)
        result = np.full((table.n_epochs, self.card.scheme.n_stages), np.nan)
        for a, b in accepted.stretches():
            result[a:b] = stage_windows(scaled[a:b], self.card.length, self.run)
        return result

    def probabilities(self, table: Features, *, temperature: bool = True) -> Floats:
        """Return stage probabilities per row of a table; NaN in epochs without a signal.

        With `temperature`, the temperature found in training is applied.
        """
        return soften(self.raw_probabilities(table), self.card.temperature if temperature else 1.0)

    def density(self, table: Features, *, temperature: bool = True) -> Hypnodensity:
        """Return stage probabilities from the table's first epoch to its last; NaN in gaps."""
        length = self.card.length
        longest = max((b - a for a, b in table.stretches()), default=0)
        if length is not None and longest < length:
            warn(
                f"{table.recording}: at most {longest} epochs follow each other, fewer than the {length} the "
                "network was trained on; the rest was padded."
            )
        assert table.epochs is not None
        rows = self.probabilities(table, temperature=temperature)
        index = table.epochs - table.epochs[0]
        density = np.full((int(index[-1]) + 1, rows.shape[1]), np.nan)
        density[index] = rows
        seconds = self.card.epoch_seconds
        offset = seconds * int(table.epochs[0])
        start = None if table.start is None else table.start + timedelta(seconds=offset)
        return Hypnodensity(density, self.card.scheme, seconds, start, table.recording, offset_seconds=offset)


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel(CardedNetwork):
    """A network with its weights, and its card."""

    network: nn.Module
    card: ModelCard  # how it was trained, on which features and stages, and under which profile
    extra: ClassVar[str] = "torch"

    def run(self, windows: Floats32) -> Floats:
        """Return probabilities (windows, epochs, stages) of normalised features (windows, epochs, ...)."""
        from stageguard.nn.pytorch import run_network

        return run_network(self.network, windows)


def save_model(model: TrainedModel, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write `model.safetensors` and `model.json` into a folder, both or neither."""
    codec = library("safetensors.torch", "stageguard.nn", "torch")
    tensors = model.network.state_dict()
    weights: bytes = codec.save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    )
    about = {"file": WEIGHTS, "bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()}
    document = card_document(model.card) | {"weights": about}
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    contents: dict[Path, str | bytes] = {Path(folder) / WEIGHTS: weights, Path(folder) / CARD: text}
    write_together(contents, overwrite=overwrite, make_folders=True)


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

    Examples
    --------
    >>> model = load_model("model")
    >>> staged = sg.stage(model.read("features/night.npz"), model)
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path is {checks.shown(path)}, expected the folder of a network.")
    library("torch", "stageguard.nn", "torch")  # which the next needs, and does not name
    codec = library("safetensors.torch", "stageguard.nn", "torch")
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    for name in (CARD, WEIGHTS):
        if not (folder / name).is_file():
            raise FileFormatError(f"{path}: holds no {name}, expected the folder that `train` wrote.")
    weights = read_file(folder / WEIGHTS)
    try:
        card, rest = read_card(load_json(folder / CARD))
        stored = checks.mapping(rest.get("weights"), "weights").get("sha256")
        network = card.build()
    except InputError as error:
        raise FileFormatError(f"{CARD}: {error}") from None
    if hashlib.sha256(weights).hexdigest() != stored:
        raise FileFormatError(f"{WEIGHTS}: is not the file {CARD} was written with, or was cut short.")
    try:
        network.load_state_dict(codec.load(weights))
    except Exception as error:  # of torch, or of safetensors
        raise FileFormatError(f"{WEIGHTS}: does not fit {CARD} ({fault_text(error)}).") from None
    return TrainedModel(network.to(device).eval(), card)
