"""Keep a trained network with all it takes to use it: safetensors and JSON, no pickle. Trains nothing."""

from __future__ import annotations

import hashlib
import json
import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from stageguard import __version__
from stageguard._files import write_together
from stageguard.errors import FileFormatError, InputError, StageGuardWarning, did_you_mean
from stageguard.hypnodensity import Hypnodensity
from stageguard.nn.backbones import build_backbone
from stageguard.nn.data import FeatureTable
from stageguard.nn.inference import soften, table_probabilities
from stageguard.nn.normalise import Normalisation
from stageguard.profile import Profile
from stageguard.stages import StageScheme

LAYOUT_VERSION = 1
WEIGHTS = "model.safetensors"
CARD = "model.json"

Trained = Literal["natural", "balanced"]


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a network is for and how it was made; everything but its weights.

    Parameters
    ----------
    backbone, network : str, mapping
        Name of the network and the options it was built with.
    scheme : StageScheme
        The stages its outputs mean, in order.
    epoch_seconds : float
        Length of the epochs it was trained on.
    recipe : str
        How the features were computed, in a name of the user's.
    recipe_document : mapping or None
        The recipe itself, as its file says it; None where features came without one.
    features : tuple of str
        Their names, in order.
    n_frames : int
        Frames per epoch.
    normalisation : Normalisation
        How features are scaled.
    length : int or None
        Epochs it is shown at a time; None for a whole stretch.
    temperature : float
        Found on the validation subjects; 1 leaves the probabilities as they are.
    trained : "natural" or "balanced"
        Whether stages were weighted in training; the decoder needs to know.
    profile : Profile
        Whose transitions were learned from, and the one to decode with.
    training : mapping
        Options, counts and validation results, for the record.
    """

    backbone: str
    network: Mapping[str, Any]
    scheme: StageScheme
    epoch_seconds: float
    recipe: str
    recipe_document: Mapping[str, Any] | None
    features: tuple[str, ...]
    n_frames: int
    normalisation: Normalisation
    length: int | None
    temperature: float
    trained: Trained
    profile: Profile
    training: Mapping[str, Any]

    def build(self) -> nn.Module:
        """Return the network, untrained."""
        return build_backbone(
            self.backbone,
            n_frames=self.n_frames,
            n_features=len(self.features),
            n_stages=self.scheme.n_stages,
            **self.network,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return {
            "backbone": self.backbone,
            "network": dict(self.network),
            "scheme": {
                "name": self.scheme.name,
                "names": list(self.scheme.names),
                "wake": self.scheme.wake,
                "rem": self.scheme.rem,
            },
            "epoch_seconds": self.epoch_seconds,
            "features": {
                "recipe": self.recipe,
                "recipe_document": None if self.recipe_document is None else dict(self.recipe_document),
                "names": list(self.features),
                "n_frames": self.n_frames,
            },
            "normalisation": self.normalisation.to_dict(),
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
        """Return what `to_dict` described."""
        features = document["features"]
        return cls(
            backbone=str(document["backbone"]),
            network=dict(document["network"]),
            scheme=StageScheme(**(document["scheme"] | {"names": tuple(document["scheme"]["names"])})),
            epoch_seconds=float(document["epoch_seconds"]),
            recipe=str(features["recipe"]),
            recipe_document=features.get("recipe_document"),
            features=tuple(features["names"]),
            n_frames=int(features["n_frames"]),
            normalisation=Normalisation.from_dict(document["normalisation"]),
            length=None if document["length"] is None else int(document["length"]),
            temperature=float(document["temperature"]),
            trained=cast(Trained, document["trained"]),
            profile=Profile.from_dict(document["profile"]["definition"]),
            training=dict(document["training"]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A network and its card."""

    network: nn.Module
    card: ModelCard

    def accept(self, table: FeatureTable) -> FeatureTable:
        """Return the table with the network's features in the network's order, or say what does not fit."""
        card, where = self.card, table.recording
        missing = [name for name in card.features if name not in table.names]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise InputError(
                f"{where}: has no feature {missing[0]!r}{more}, which this network was trained on "
                f"(recipe {card.recipe!r}, {len(card.features)} features)."
                f"{did_you_mean(missing[0], table.names)}"
            )
        if table.features.shape[1] != card.n_frames:
            raise InputError(
                f"{where}: has {table.features.shape[1]} frames per epoch, but this network was trained on "
                f"{card.n_frames}. Compute the features by the recipe {card.recipe!r}."
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
        if table.names == card.features:
            return table
        columns = [table.names.index(name) for name in card.features]
        return replace(table, features=table.features[..., columns], names=card.features)

    def probabilities(self, table: FeatureTable) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Calibrated stage probabilities per row of a table; NaN rows where an epoch has no signal."""
        table = self.accept(table)
        raw = table_probabilities(
            self.network,
            table,
            self.card.normalisation,
            self.card.scheme.n_stages,
            length=self.card.length,
        )
        return soften(raw, self.card.temperature)

    def density(self, table: FeatureTable) -> Hypnodensity:
        """Stage probabilities from the table's first epoch to its last; gaps are rows without evidence."""
        longest = max((b - a for a, b in table.stretches()), default=0)
        if self.card.length is not None and longest < self.card.length:
            warnings.warn(
                f"{table.recording}: at most {longest} epochs follow each other, fewer than the "
                f"{self.card.length} the network was trained on; the rest was padded.",
                StageGuardWarning,
                stacklevel=2,
            )
        assert table.epochs is not None
        rows = self.probabilities(table)
        place = table.epochs - table.epochs[0]
        whole = np.full((int(place[-1]) + 1, rows.shape[1]), np.nan)
        whole[place] = rows
        return Hypnodensity(whole, self.card.scheme, self.card.epoch_seconds, table.start, table.recording)


def save_model(model: TrainedModel, folder: str | Path, *, overwrite: bool = False) -> tuple[Path, Path]:
    """Write `model.safetensors` and `model.json` into a folder, both or none."""
    folder = Path(folder)
    tensors = plain_tensors(model.network.state_dict())
    weights = save(tensors)
    document = {
        "stageguard_model": LAYOUT_VERSION,
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
    places = folder / WEIGHTS, folder / CARD
    write_together({places[0]: weights, places[1]: text}, overwrite=overwrite, make_folders=True)
    return places


def load_model(path: str | Path, *, device: str | torch.device = "cpu") -> TrainedModel:
    """Read a network from the folder `save_model` wrote to, or from either file in it.

    Raises
    ------
    FileFormatError
        The files are incomplete, changed, or of another version; one line says which and what to do.
    """
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    if not (folder / CARD).is_file():
        raise FileFormatError(
            f"{path}: holds no {CARD}, so it is not a network of stageguard. Train one first."
        )
    document = _read_card(folder / CARD)
    try:
        card = ModelCard.from_dict(document)
        said = document["weights"]
        n_bytes, digest = int(said["bytes"]), str(said["sha256"])
    except (KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{CARD}: lacks or garbles {error}. Copy it again, or train again.") from None
    network = card.build()
    tensors = _read_weights(folder / WEIGHTS, n_bytes, digest)
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        first = " ".join(str(error).split())[:160]
        raise FileFormatError(
            f"{WEIGHTS}: does not fit the {card.backbone} that {CARD} describes ({first}). "
            "It was written by another version: train again."
        ) from None
    network.to(device).eval()
    return TrainedModel(network, card)


def plain_tensors(named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as safetensors wants them: on the CPU, contiguous, none sharing memory."""
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in named.items()}


def _read_card(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{path.name}: is not readable JSON ({error}). It may be cut short: copy it again, or train "
            "again."
        ) from None
    version = document.get("stageguard_model") if isinstance(document, dict) else None
    if version is None:
        raise FileFormatError(
            f"{path.name}: does not describe a network of stageguard. Name the right folder."
        )
    if version != LAYOUT_VERSION:
        made_by = (document.get("versions") or {}).get("stageguard", "another version")
        raise FileFormatError(
            f"{path.name}: has layout {version!r}, written by stageguard {made_by}; this version "
            f"({__version__}) reads layout {LAYOUT_VERSION}. Use that version, or train again."
        )
    return cast(dict[str, Any], document)


def _read_weights(path: Path, n_bytes: int, digest: str) -> dict[str, Tensor]:
    if not path.is_file():
        raise FileFormatError(f"{path.name}: is not beside {CARD}. Copy both files.")
    data = path.read_bytes()
    if len(data) != n_bytes:
        raise FileFormatError(
            f"{path.name}: has {len(data):,} of {n_bytes:,} bytes. It was cut short: copy it again, or train "
            "again."
        )
    if hashlib.sha256(data).hexdigest() != digest:
        raise FileFormatError(f"{path.name}: is not the file {CARD} was written with. Copy both files again.")
    try:
        return load(data)
    except SafetensorError as error:
        raise FileFormatError(f"{path.name}: is not a safetensors file ({error}). Copy it again.") from None
