"""Keep a trained network with all it takes to use it, as safetensors and JSON."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from stageguard.base import schema
from stageguard.base.errors import FileFormatError, InputError
from stageguard.base.extras import library
from stageguard.base.files import parse_json, read_file, write_together
from stageguard.base.version import __version__
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.nn.card import ModelCard
from stageguard.nn.data import read_features
from stageguard.nn.feature_table import FeatureTable
from stageguard.nn.inference import soften, table_probabilities
from stageguard.nn.pytorch import EXTRA, NEEDED_BY, Tensor, nn, torch, warn

safetensors = library("safetensors", NEEDED_BY, EXTRA)
codec = library("safetensors.torch", NEEDED_BY, EXTRA)

LAYOUT_VERSION = 1
WEIGHTS = "model.safetensors"
CARD = "model.json"


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A network and its card."""

    network: nn.Module
    card: ModelCard

    def accept(self, table: FeatureTable) -> FeatureTable:
        """Return the table with the network's features in the network's order, or say what does not fit."""
        card, where = self.card, table.recording
        try:
            columns = card.columns(table.names)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
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
        return replace(table, features=table.features[..., columns], names=card.features)

    def read(self, path: str | Path) -> FeatureTable:
        """Read the network's features from a file; whatever else is in it does no harm."""
        return read_features(Path(path), choose=self.card.columns)

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
            warn(
                f"{table.recording}: at most {longest} epochs follow each other, fewer than the "
                f"{self.card.length} the network was trained on; the rest was padded."
            )
        assert table.epochs is not None
        rows = self.probabilities(table)
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
    """Write `model.safetensors` and `model.json` into a folder, both or none."""
    folder = Path(folder)
    tensors = plain_tensors(model.network.state_dict())
    weights: bytes = codec.save(tensors)
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
    paths = folder / WEIGHTS, folder / CARD
    write_together({paths[0]: weights, paths[1]: text}, overwrite=overwrite, make_folders=True)
    return paths


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
        about = {key: document.pop(key) for key in ("weights",) if key in document}
        card = ModelCard.from_dict(document)
        weights = schema.read_table(_File, about).weights
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


@dataclass(frozen=True, slots=True)
class _Weights:
    """What the card says of the file of weights."""

    file: str = schema.choice(schema.REQUIRED, WEIGHTS)
    bytes: int = schema.count()
    sha256: str = schema.text()


@dataclass(frozen=True, slots=True)
class _File:
    """What stands in the file beside the card."""

    weights: _Weights = schema.declare(schema.REQUIRED, partial(schema.read_table, _Weights))


def first_difference(expected: Mapping[str, Tensor], got: Mapping[str, Tensor]) -> str:
    """Return how tensors differ from those expected, by name and shape; nothing where they do not."""
    for name, tensor in expected.items():
        if name not in got:
            return f"{name!r} is missing"
        if got[name].shape != tensor.shape:
            return f"{name!r} has shape {tuple(got[name].shape)}, expected {tuple(tensor.shape)}"
    unknown = [name for name in got if name not in expected]
    return f"{unknown[0]!r} is unknown" if unknown else ""


def plain_tensors(named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as safetensors wants them: on the CPU, contiguous, none sharing memory."""
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in named.items()}


def _read_card(path: Path) -> dict[str, Any]:
    try:
        document = parse_json(read_file(path, "JSON").decode())
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
    if type(version) is not int or version != LAYOUT_VERSION:
        versions = document.get("versions")
        made_by = versions.get("stageguard") if isinstance(versions, Mapping) else None
        made_by = made_by or "another version"
        raise FileFormatError(
            f"{path.name}: has layout {version!r}, written by stageguard {made_by}; this version "
            f"({__version__}) reads layout {LAYOUT_VERSION}. Use that version, or train again."
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
