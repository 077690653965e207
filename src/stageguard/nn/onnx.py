"""A network as one ONNX file with its card inside: written from a trained one, run without torch.

The file's metadata property ``stageguard`` holds the card as JSON: that of a network `export_onnx` wrote,
or the few facts of `OnnxMetadata` for a network of somebody else.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats, Floats32
from stageguard.documents import Count, EpochSeconds, Positive, read_fields
from stageguard.errors import FileFormatError, InputError, MissingExtraError, StageGuardError, fault_text
from stageguard.files import as_path, check_places, read_file, write_together
from stageguard.lazy import library
from stageguard.night.hypnodensity import are_probabilities, check_probabilities
from stageguard.nn.data import Normalisation
from stageguard.nn.model import (
    CardedNetwork,
    FeatureSet,
    ModelCard,
    TrainedModel,
    card_document,
    read_card,
)
from stageguard.profile.profile import Profile, profiles
from stageguard.profile.stagers import Training
from stageguard.signals.features import Recipe, recipes

SUFFIX = ".onnx"
NEEDED_BY = "an ONNX file"
METADATA = "stageguard"  # the metadata property that holds the card
INPUT, OUTPUT = "features", "logits"  # names in files that `export_onnx` writes
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64}
OPSET = 17
TRIED = ((2, 24), (1, 24), (3, 7), (1, 61))  # windows and epochs: traced, and then compared with the network
MOST_DIFFERENT = 1e-4  # probability

Output = Literal["logits", "probabilities"]
Axis = Literal["windows", "epochs", "frames", "features"]
AXES: tuple[Axis, ...] = ("windows", "epochs", "frames", "features")


@dataclass(frozen=True, slots=True)
class OnnxMetadata:
    """What a network of somebody else must say of itself, as JSON in the metadata property `stageguard`."""

    stages: tuple[str, ...]  # of the outputs, in their order
    epoch_seconds: EpochSeconds
    recipe: str | Mapping[str, Any]  # name of a built-in recipe, or the recipe itself
    features: tuple[str, ...]  # of the recipe, in order
    profile: str  # name of a built-in profile
    output: Output
    # axes of the input; one that is left out has size 1, and without "windows" they come one by one
    layout: tuple[Axis, ...] = AXES
    frames: Count = 1  # per epoch
    length: Count | None = None  # of a window; None: all epochs at once
    normalisation: Literal["night", "none"] = "night"
    temperature: Positive = 1.0
    trained: Training | None = None
    name: str = "network"

    def network(self, session: Any) -> OnnxModel:
        """Return such a network."""
        if isinstance(self.recipe, str):  # never a file
            recipe = Recipe.load(checks.choice(self.recipe, "recipe", recipes()))
        else:
            recipe = Recipe.from_dict(self.recipe)
        profile = Profile.load(checks.choice(self.profile, "profile", profiles()))
        scheme = profile.scheme
        labels = [scheme.index(stage) for stage in self.stages]
        if sorted(labels) != list(range(scheme.n_stages)):
            wanted = f"those of profile {profile.name!r}: {', '.join(scheme.names)}"
            raise InputError(f"stages are {', '.join(self.stages)}, expected {wanted}.")
        card = ModelCard(
            backbone=self.name,
            network={},
            epoch_seconds=self.epoch_seconds,
            features=FeatureSet(recipe.name, recipe.to_dict(), self.features, self.frames),
            normalisation=Normalisation(kind=self.normalisation),
            length=self.length,
            temperature=self.temperature,
            trained=self.trained,
            profile=profile,
            training={},
        )
        order = tuple(labels.index(label) for label in range(scheme.n_stages))
        return OnnxModel(card, session, self.output, self.layout, order)


@dataclass(frozen=True, slots=True, eq=False)
class OnnxModel(CardedNetwork):
    """A network of an ONNX file, and its card."""

    card: ModelCard  # its features, stages and profile
    session: Any  # of onnxruntime
    output: Output = "logits"  # what the network returns
    layout: tuple[Axis, ...] = AXES  # of its input
    order: tuple[int, ...] = ()  # the column of the output for each stage
    extra: ClassVar[str] = "onnx"

    def run(self, windows: Floats32) -> Floats:
        """Return probabilities (windows, epochs, stages) of normalised features (windows, epochs, ...)."""
        shape: list[Any] = self.session.get_inputs()[0].shape
        is_one = "windows" not in self.layout or shape[self.layout.index("windows")] == 1
        rows = np.concatenate([self._rows(part) for part in (windows[:, None] if is_one else [windows])])
        if self.output == "probabilities":
            check_probabilities(rows, self.card.scheme.names)
        elif are_probabilities(rows):
            found = "the network's output is probabilities: every row is from 0 to 1 and sums to 1"
            raise InputError(f"{found}, but its metadata property {METADATA!r} says logits.")
        else:
            odds = np.exp(rows - rows.max(axis=1, keepdims=True))
            rows = odds / odds.sum(axis=1, keepdims=True)
        return np.asarray(rows.reshape(*windows.shape[:2], -1))

    def _rows(self, windows: Floats32) -> Floats:
        """Return the network's output for windows, a checked row per epoch."""
        given, first = self.session.get_inputs()[0], self.session.get_outputs()[0]
        axes = [AXES.index(axis) for axis in self.layout]
        rest = [axis for axis in range(len(AXES)) if axis not in axes]  # of size 1
        try:
            inputs = windows.transpose([*axes, *rest]).reshape([windows.shape[axis] for axis in axes])
            (output,) = self.session.run([first.name], {given.name: inputs.astype(TYPES[given.type])})
        except Exception as error:  # onnxruntime raises many kinds
            reason = " ".join(str(error).split())[:300]
            raise InputError(f"the network cannot be run: {reason}") from None
        names, (n_windows, n_epochs) = self.card.scheme.names, windows.shape[:2]
        shape = np.shape(output)
        if shape[-1:] != (len(names),) or np.size(output) != n_windows * n_epochs * len(names):
            wanted = f"({n_windows}, {n_epochs}, {len(names)}) for {n_windows} windows of {n_epochs} epochs"
            raise InputError(f"the network returned shape {shape}, expected {wanted}: the stages last.")
        rows = np.asarray(output, dtype=np.float64).reshape(-1, len(names))[
            :, self.order or range(len(names))
        ]
        if not np.isfinite(rows).all():
            n_wrong = np.count_nonzero(~np.isfinite(rows).all(axis=1))
            raise InputError(f"the network gave NaN or infinity at {n_wrong:,} of {len(rows):,} epochs.")
        return np.asarray(rows)


def load_onnx(path: str | os.PathLike[str]) -> OnnxModel:
    """Read a network from an ONNX file, and run it once to see that it fits its card; torch is not needed.

    Parameters
    ----------
    path : path-like
        A file that `export_onnx` wrote, or one with the facts of a network in its metadata property
        ``stageguard``.

    Returns
    -------
    OnnxModel
        To be used as a stager: ``sg.stage(recording, model)``.

    Examples
    --------
    >>> model = load_onnx("model.onnx")
    >>> staged = sg.stage("night.edf", model)
    """
    file = as_path(path, "path")
    data = read_file(file)
    try:
        session = _open_session(data)
        document = json.loads(session.get_modelmeta().custom_metadata_map.get(METADATA, "null"))
        if not isinstance(document, dict):
            raise InputError(f"has no card in its metadata property {METADATA!r}, expected one as JSON.")
        if "stageguard_model" in document:
            network = OnnxModel(read_card(document)[0], session)
        else:
            network = read_fields(OnnxMetadata, document).network(session)
        network.run(_example(network.card.features, 1, network.card.length or 12))
    except MissingExtraError:
        raise
    except (StageGuardError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{file.name}: {error}") from None
    return network


def _open_session(data: bytes) -> Any:
    runtime = library("onnxruntime", NEEDED_BY, "onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # what is wrong is in the exception
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # other jobs need the cores, too
    try:
        # without a second try, which would print what it does
        return runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"], enable_fallback=0)
    except Exception as error:  # onnxruntime raises many kinds
        raise InputError(f"onnxruntime cannot load it: {fault_text(error)}") from None


def _example(features: FeatureSet, n_windows: int, n_epochs: int) -> Floats32:
    """Return random features."""
    generator = np.random.default_rng(n_windows * 1000 + n_epochs)
    shape = (n_windows, n_epochs, features.n_frames, len(features.names))
    return generator.normal(size=shape).astype(np.float32)


def export_onnx(model: TrainedModel, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a trained network and its card as one ONNX file, which stages without torch.

    The input ``features`` are normalised features (windows, epochs, frames, features), the output ``logits``
    is (windows, epochs, stages); windows are any number, and so are epochs, unless the network takes only
    those it was trained on. The card is JSON in the metadata property ``stageguard``. The file is run on
    random features and written only if it agrees with the network.

    Parameters
    ----------
    model : TrainedModel
        As `load_model` returns it.
    path : path-like
        Where to write it; ends with ``.onnx``.
    overwrite : bool
        Whether to replace a file.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> export_onnx(load_model("model"), "model.onnx")
    >>> staged = sg.stage("night.edf", "model.onnx")
    """
    from stageguard.nn.pytorch import torch

    target = as_path(path, "path")
    if target.suffix.lower() != SUFFIX:
        raise InputError(f"{target.name}: expected a name that ends with {SUFFIX}.")
    check_places([target], overwrite=overwrite)
    onnx, card = library("onnx", NEEDED_BY, "onnx"), model.card
    network = copy.deepcopy(model.network).cpu().eval()
    length: Any = network.training_length  # a network that takes one length only gets that one
    examples = [torch.from_numpy(_example(card.features, n, length or epochs)) for n, epochs in TRIED]
    axes = {0: "windows"} if length else {0: "windows", 1: "epochs"}
    buffer: Any = io.BytesIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")  # of the exporter, about itself
            # traced: torch's other exporter takes no recurrent layers of any length
            torch.onnx.export(
                network,
                (examples[0],),
                buffer,
                dynamo=False,
                opset_version=OPSET,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_axes={INPUT: axes, OUTPUT: axes},
            )
    except Exception as error:  # the exporter raises many kinds
        raise InputError(f"the network {card.backbone!r} cannot be exported: {fault_text(error)}") from None
    proto = onnx.load_model_from_string(buffer.getvalue())
    document = card_document(card) | {"output": OUTPUT}
    onnx.helper.set_model_props(proto, {METADATA: json.dumps(document, allow_nan=False, ensure_ascii=False)})
    data: bytes = proto.SerializeToString()
    exported = OnnxModel(card, _open_session(data))
    for features in examples:
        with torch.inference_mode():
            expected = network(features).double().softmax(-1).numpy()
        difference = float(np.abs(exported.run(features.numpy()) - expected).max())
        if not difference <= MOST_DIFFERENT:  # tracing may have fixed what varies
            found = f"the exported {card.backbone!r} differs from the network by {difference:.2g}"
            raise InputError(f"{found} on random features, expected at most {MOST_DIFFERENT:g}.")
    write_together({target: data}, overwrite=overwrite, make_folders=True)
    return target
