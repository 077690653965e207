"""A network in an ONNX file, run by onnxruntime. Without torch.

The file's metadata property ``stageguard`` holds its card as JSON: that of a network which `export_onnx`
wrote, or the few facts of `OnnxMetadata` for a network of somebody else. A file is refused before it runs if
it needs other files, operators that onnxruntime does not have, or a loop that nothing bounds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from stageguard import checks, schema
from stageguard.arrays import Floats, Floats32
from stageguard.errors import (
    FileFormatError,
    InputError,
    MissingExtraError,
    MissingFileError,
    StageGuardError,
)
from stageguard.extras import library
from stageguard.files import as_path, damaged_file, file_error, parse_json, read_file
from stageguard.night.hypnodensity import are_probabilities, check_probabilities
from stageguard.nn.card import (
    CardedNetwork,
    FeatureSet,
    ModelCard,
    Trained,
    different_names,
    plain_document,
    plain_mapping,
)
from stageguard.nn.tables import Normalisation
from stageguard.nn.windows import average_windows
from stageguard.profile.profile import Profile, profiles
from stageguard.schema import REQUIRED
from stageguard.signals.features import Recipe

EXTRA = "onnx"
NEEDED_BY = "an ONNX file"
SUFFIX = ".onnx"
METADATA = "stageguard"  # the metadata property that holds the card
INPUT, OUTPUT = "features", "logits"  # names in files that `export_onnx` writes
AXES = ("windows", "epochs", "frames", "features")
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")  # of the operators that onnxruntime has
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
LONGEST_REASON = 200  # characters of what another library says

Output = Literal["logits", "probabilities"]


def _recipe(value: object, where: str) -> Recipe:
    """Return a built-in recipe by name, or the recipe of a document; never one from a file."""
    if isinstance(value, str) and not value.endswith(".toml"):
        return Recipe.load(value)
    return Recipe.from_dict(plain_mapping(value, where))


def _profile(value: object, where: str) -> Profile:
    """Return a built-in profile by name; never one from a file."""
    return Profile.load(checks.choice(value, where, profiles()))


def _layout(value: object, where: str) -> tuple[str, ...]:
    layout = different_names(value, where)
    for axis in layout:
        checks.choice(axis, where, AXES)
    if "epochs" not in layout or "features" not in layout:
        raise InputError(f"{where} is {', '.join(layout)}, expected epochs and features among them.")
    return layout


@dataclass(frozen=True, slots=True)
class OnnxMetadata:
    """What a network of somebody else must say of itself, as JSON in the metadata property `stageguard`."""

    stages: tuple[str, ...] = schema.declare(REQUIRED, different_names)  # of the outputs, in their order
    epoch_seconds: float = schema.declare(REQUIRED, lambda value, where: checks.epoch_seconds(value))
    recipe: Recipe = schema.declare(REQUIRED, _recipe)  # its name, or the recipe itself
    features: tuple[str, ...] = schema.declare(REQUIRED, different_names)  # of the recipe, in order
    profile: Profile = schema.declare(REQUIRED, _profile)  # by its name
    output: Output = schema.choice(REQUIRED, "logits", "probabilities")
    # axes of the input; one that is left out has size 1, and without "windows" they come one by one
    layout: tuple[str, ...] = schema.declare(AXES, _layout)
    frames: int = schema.count(1)  # per epoch
    length: int | None = schema.declare(None, schema.optional(checks.count))  # of a window; None: all epochs
    normalisation: str = schema.choice("night", "night", "none")
    temperature: float = schema.number(1.0, positive=True)
    trained: Trained | None = schema.declare(
        None, schema.optional(lambda value, where: checks.choice(value, where, ("natural", "balanced")))
    )
    name: str = schema.text("network")

    def card(self) -> ModelCard:
        """Return the card of such a network."""
        recipe = self.recipe
        return ModelCard(
            backbone=self.name,
            network={},
            epoch_seconds=self.epoch_seconds,
            features=FeatureSet(recipe.name, recipe.to_dict(), self.features, self.frames),
            normalisation=Normalisation(kind=self.normalisation),
            length=self.length,
            temperature=self.temperature,
            trained=self.trained,
            profile=self.profile,
            training={},
        )

    def order(self) -> tuple[int, ...]:
        """Return the column of the output that holds each stage of the profile."""
        scheme = self.profile.scheme
        labels = [scheme.index(stage) for stage in self.stages]
        if sorted(labels) != list(range(scheme.n_stages)):
            raise InputError(
                f"stages are {', '.join(self.stages)}, expected those of profile {self.profile.name!r}: "
                f"{', '.join(scheme.names)}."
            )
        return tuple(labels.index(label) for label in range(scheme.n_stages))


@dataclass(frozen=True, slots=True, eq=False)
class OnnxModel(CardedNetwork):
    """A network of an ONNX file, and its card.

    Attributes
    ----------
    card : ModelCard
        Its features, stages and profile.
    output : {"logits", "probabilities"}
        What the network returns.
    layout : tuple of str
        Axes of its input.
    """

    card: ModelCard
    session: Any
    output: Output = "logits"
    layout: tuple[str, ...] = AXES
    order: tuple[int, ...] = ()  # the column of the output for each stage
    extra: ClassVar[str] = EXTRA

    def stage_stretch(self, features: Floats32) -> Floats:
        """Return probabilities (n_epochs, n_stages) of normalised features of an unbroken stretch."""
        n_epochs, length = len(features), self.card.length
        if length is None:
            whole: Floats = self.run(features[None])[0]
            return whole
        if n_epochs < length:
            padding = np.zeros((length - n_epochs, *features.shape[1:]), dtype=np.float32)
            features = np.concatenate([features, padding])

        def run(starts: Sequence[int]) -> Floats:
            return self.run(np.stack([features[start : start + length] for start in starts]))

        return average_windows(n_epochs, length, run)

    def run(self, windows: Floats32) -> Floats:
        """Return probabilities (n_windows, n_epochs, n_stages) of normalised features with `AXES`."""
        shape: list[Any] = self.session.get_inputs()[0].shape
        is_one = "windows" not in self.layout or shape[self.layout.index("windows")] == 1
        parts = windows[:, None] if is_one else [windows]
        rows = np.concatenate([self._rows(part) for part in parts])
        if self.output == "probabilities":
            check_probabilities(rows, self.card.scheme.names)
        elif are_probabilities(rows):
            raise InputError(
                "every row of the network's output is from 0 to 1 and sums to 1: these are probabilities, "
                f"but its metadata property {METADATA!r} says that its output is logits. Say 'probabilities' "
                "there."
            )
        else:
            odds = np.exp(rows - rows.max(axis=1, keepdims=True))
            rows = odds / odds.sum(axis=1, keepdims=True)
        return np.asarray(rows.reshape(*windows.shape[:2], -1))

    def _rows(self, windows: Floats32) -> Floats:
        (given,), (first, *_) = self.session.get_inputs(), self.session.get_outputs()
        axes = [AXES.index(axis) for axis in self.layout]
        rest = [axis for axis in range(len(AXES)) if axis not in axes]  # of size 1
        inputs = windows.transpose([*axes, *rest]).reshape([windows.shape[axis] for axis in axes])
        try:
            (output,) = self.session.run([first.name], {given.name: inputs.astype(TYPES[given.type])})
        except Exception as error:  # onnxruntime raises many kinds
            raise InputError(f"the network cannot be run: {_reason(error)}") from None
        return self._checked(output, windows.shape[0], windows.shape[1])

    def _checked(self, output: object, n_windows: int, n_epochs: int) -> Floats:
        names = self.card.scheme.names
        n_stages = len(names)
        shape: tuple[int, ...] = output.shape if isinstance(output, np.ndarray) else ()
        if len(shape) < 2 or shape[-1] != n_stages or np.prod(shape) != n_windows * n_epochs * n_stages:
            raise InputError(
                f"the network returned shape {tuple(shape)} for {n_windows} windows of {n_epochs} epochs, "
                f"expected ({n_windows}, {n_epochs}, {n_stages}): the stages last."
            )
        matrix: npt.NDArray[Any] = np.asarray(output)
        rows = matrix.astype(np.float64).reshape(-1, n_stages)[:, self.order or range(n_stages)]
        wrong = ~np.isfinite(rows).all(axis=1)
        if wrong.any():
            raise InputError(
                f"the network gave NaN or infinity at {np.count_nonzero(wrong):,} of {len(rows):,} epochs, "
                f"expected numbers for {', '.join(names)}."
            )
        return np.asarray(rows)


def load_onnx(path: str | os.PathLike[str]) -> OnnxModel:
    """Read a network from an ONNX file; torch is not needed.

    Parameters
    ----------
    path : path-like
        A file that `export_onnx` wrote, or one with the facts of a network in its metadata property
        ``stageguard``.

    Returns
    -------
    OnnxModel
        To be used as a stager: ``sg.stage(recording, model)``.

    Raises
    ------
    FileFormatError
        It is no ONNX file, has no card, does not fit its card, or needs what is not in the file.

    Examples
    --------
    >>> model = load_onnx("model.onnx")
    >>> staged = sg.stage("night.edf", model)
    """
    file = as_path(path, "path")
    try:
        data = read_file(file, "an ONNX file")
    except FileNotFoundError:
        raise MissingFileError(f"{file}: No such file, expected an ONNX file. Check its name.") from None
    except IsADirectoryError:
        raise file_error(file, "is a folder, expected an ONNX file. Name the file in it.") from None
    try:
        return _model_of(_parsed(file, data), data)
    except UnicodeDecodeError as error:  # of a name in the file
        raise damaged_file(file, error) from None
    except MissingExtraError:
        raise
    except StageGuardError as error:
        raise FileFormatError(f"{file.name}: {str(error).removeprefix(f'{file.name}: ')}") from None


def _parsed(path: Path, data: bytes) -> Any:
    """Return the file's content, after refusing what must not run."""
    onnx = library("onnx", NEEDED_BY, EXTRA)
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # of the protobuf library
        raise damaged_file(path, f"no ONNX file, or cut short: {_reason(error)}") from None
    if not model.ir_version or not model.graph.node:
        raise file_error(path, "is no ONNX file, or holds no network. Export it again.")
    known = {*DOMAINS, *(function.domain for function in model.functions)}
    for node in _nodes(model):
        if node.domain not in known:
            raise file_error(
                path,
                f"needs the operator {_short(node.op_type)} of {_short(node.domain)}, which onnxruntime does "
                "not have. Export it with standard operators.",
            )
        if node.op_type == "Loop":
            raise file_error(path, "holds a Loop, whose end nothing bounds. Export it without loops.")
    external = onnx.TensorProto.EXTERNAL
    if any(tensor.data_location == external or tensor.external_data for tensor in _tensors(model)):
        raise file_error(
            path,
            "keeps weights in other files, which are not read. Export it without external data.",
        )
    return model


def _graphs(model: Any) -> Iterator[Any]:
    """Yield the graphs of a model and those inside their nodes."""
    waiting = [model.graph, *(info.algorithm for info in model.training_info)]
    waiting += [info.initialization for info in model.training_info]
    waiting += list(model.functions)  # they have nodes, as graphs do
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                waiting += [attribute.g] if attribute.HasField("g") else []
                waiting += list(attribute.graphs)


def _nodes(model: Any) -> Iterator[Any]:
    for graph in _graphs(model):
        yield from graph.node


def _tensors(model: Any) -> Iterator[Any]:
    for graph in _graphs(model):
        sparse = list(getattr(graph, "sparse_initializer", ()))
        yield from getattr(graph, "initializer", ())
        for node in graph.node:
            for attribute in node.attribute:
                yield from [attribute.t] if attribute.HasField("t") else []
                yield from attribute.tensors
                sparse += [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
                sparse += list(attribute.sparse_tensors)
        for tensor in sparse:
            yield from (tensor.values, tensor.indices)


def _model_of(model: Any, data: bytes) -> OnnxModel:
    """Return the network with its card, checked against each other."""
    properties = {item.key: item.value for item in model.metadata_props}
    if METADATA not in properties:
        raise InputError(
            f"has no metadata property {METADATA!r}, so that its features and stages are not known. Add one "
            "with JSON: stages, epoch_seconds, recipe, features, profile and output (see docs/onnx.md)."
        )
    try:
        document = parse_json(properties[METADATA])
    except (ValueError, RecursionError) as error:
        raise InputError(f"its metadata property {METADATA!r} is not JSON ({_reason(error)}).") from None
    try:
        if isinstance(document, Mapping) and "stageguard_model" in document:
            network = OnnxModel(_own_card(document), None)
        else:
            said = schema.read_table(OnnxMetadata, document)
            network = OnnxModel(said.card(), None, said.output, said.layout, said.order())
    except StageGuardError as error:
        raise InputError(f"metadata property {METADATA!r}: {error}") from None
    network = replace(network, session=open_session(data))
    _check_shapes(network)
    return network


def _own_card(document: Mapping[str, Any]) -> ModelCard:
    plain = plain_document(document, "its card")
    if plain.pop("output", None) != "logits":
        raise InputError("output is not 'logits', which is all that this version of stageguard exports.")
    return ModelCard.from_dict(plain)


def open_session(data: bytes) -> Any:
    """Return a session of onnxruntime for the content of a file that was checked."""
    runtime = library("onnxruntime", NEEDED_BY, EXTRA)
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # what is wrong is in the exception
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # other jobs need the cores, too
    try:
        # without a second try, which would print what it does
        return runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"], enable_fallback=0)
    except Exception as error:  # onnxruntime raises many kinds
        raise InputError(f"onnxruntime cannot load it: {_reason(error)}") from None


def _check_shapes(network: OnnxModel) -> None:
    """Refuse a network whose inputs or outputs are not those of its card; sizes by name may be any."""
    card, inputs, outputs = network.card, network.session.get_inputs(), network.session.get_outputs()
    listed = ", ".join(f"{_short(item.name)} {item.type}" for item in inputs) or "none"
    if len(inputs) != 1 or inputs[0].type not in TYPES:
        raise InputError(f"its inputs are {listed}, expected one of floating-point numbers.")
    layout, shape = network.layout, list(inputs[0].shape)
    if len(shape) != len(layout):
        raise InputError(
            f"its input has {len(shape)} axes, expected {len(layout)}: {', '.join(layout)}. Say which in the "
            "key 'layout'."
        )
    if card.features.n_frames > 1 and "frames" not in layout:
        raise InputError(f"its layout has no frames, and its epochs have {card.features.n_frames} of them.")
    wanted = {"frames": card.features.n_frames, "features": len(card.features.names), "windows": 1}
    for axis, size in zip(layout, shape, strict=True):
        if not isinstance(size, int):
            continue
        expected = card.length if axis == "epochs" else wanted[axis]
        if size != expected:
            words = "any number of" if expected is None else f"{expected} of its"
            raise InputError(f"its input takes {size} {axis}, expected {words} {axis} by its card.")
    if not outputs:
        raise InputError(f"it has no output, expected {card.scheme.n_stages} columns.")
    last = outputs[0].shape[-1:] if outputs[0].shape and outputs[0].name else []
    if last and isinstance(last[0], int) and last[0] != card.scheme.n_stages:
        raise InputError(
            f"its output has {last[0]} columns, expected {card.scheme.n_stages}: "
            f"{', '.join(card.scheme.names)}."
        )


def _reason(error: Exception) -> str:
    return _short(" ".join(str(error).split()) or type(error).__name__, LONGEST_REASON)


def _short(text: str, length: int = 40) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
