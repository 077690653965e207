"""A trained network on disk: its card as JSON, its weights as safetensors."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from stageguard import checks, schema
from stageguard.arrays import Floats, Floats32
from stageguard.errors import FileFormatError, InputError
from stageguard.extras import library
from stageguard.files import load_json, read_file, write_together
from stageguard.nn.card import MODEL_LAYOUT, CardedNetwork, ModelCard, plain_document
from stageguard.nn.inference import stretch_probabilities
from stageguard.nn.pytorch import EXTRA, NEEDED_BY, Tensor, nn, torch
from stageguard.version import __version__

safetensors = library("safetensors", NEEDED_BY, EXTRA)
codec = library("safetensors.torch", NEEDED_BY, EXTRA)

LARGE_BYTES = 2**28  # a larger network is built only if its weights are as large; a changed card asks for any
WEIGHTS = "model.safetensors"
CARD = "model.json"


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel(CardedNetwork):
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
    extra: ClassVar[str] = EXTRA

    def stage_stretch(self, features: Floats32) -> Floats:
        """Return probabilities (n_epochs, n_stages) of normalised features of an unbroken stretch."""
        return stretch_probabilities(self.network, features, length=self.card.length)


def model_document(card: ModelCard) -> dict[str, Any]:
    """Return a card with the layout of its document and the versions that wrote it."""
    return {
        "stageguard_model": MODEL_LAYOUT,
        "versions": {
            "stageguard": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        **card.to_dict(),
    }


def save_model(model: TrainedModel, folder: str | Path, *, overwrite: bool = False) -> tuple[Path, Path]:
    """Write `model.safetensors` and `model.json` into a folder, both or neither."""
    folder = Path(folder)
    tensors = plain_tensors(model.network.state_dict())
    weights: bytes = codec.save(tensors)
    about = {"file": WEIGHTS, "bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()}
    document = model_document(model.card) | {"weights": about}
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
    document = plain_document(load_json(folder / CARD), CARD)
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
