"""Write a trained network as one ONNX file, with its card inside."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from stageguard import checks
from stageguard.errors import InputError
from stageguard.extras import library
from stageguard.files import as_path, check_places, write_together
from stageguard.nn.checkpoint import TrainedModel, model_document
from stageguard.nn.onnx_file import EXTRA, INPUT, METADATA, NEEDED_BY, OUTPUT, SUFFIX, OnnxModel, open_session
from stageguard.nn.pytorch import nn, torch

OPSET = 17
EXAMPLE = (2, 24)  # windows and epochs of the input that is traced
TRIED = ((1, 24), (3, 7), (1, 61))  # others, on which the file must agree with the network
MOST_DIFFERENT = 1e-4  # probability


def export_onnx(model: TrainedModel, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a trained network and its card as one ONNX file, which stages without torch.

    The input ``features`` are normalised features (windows, epochs, frames, features), the output ``logits``
    is (windows, epochs, stages); windows are any number, and so are epochs, unless the network takes only
    those it was trained on. The card is JSON in the metadata property ``stageguard``. The file is run once
    on random features and written only if it agrees with the network.

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

    Raises
    ------
    InputError
        The network holds what cannot be exported, or the exported one computes something else.

    Examples
    --------
    >>> export_onnx(load_model("model"), "model.onnx")
    >>> staged = sg.stage("night.edf", "model.onnx")
    """
    if not isinstance(model, TrainedModel):
        raise InputError(f"model is {checks.shown(model)}, expected a TrainedModel. Use load_model(folder).")
    target = as_path(path, "path")
    if target.suffix.lower() != SUFFIX:
        raise InputError(f"{target.name}: expected a name that ends with {SUFFIX}.")
    check_places([target], overwrite=overwrite)
    onnx = library("onnx", NEEDED_BY, EXTRA)
    network = copy.deepcopy(model.network).cpu().eval()
    proto = onnx.load_model_from_string(_traced(network, model))
    document = model_document(model.card) | {"output": OUTPUT}
    onnx.helper.set_model_props(proto, {METADATA: json.dumps(document, allow_nan=False, ensure_ascii=False)})
    data: bytes = proto.SerializeToString()
    _compare(network, model, data)
    write_together({target: data}, overwrite=overwrite, make_folders=True)
    return target


def _traced(network: nn.Module, model: TrainedModel) -> bytes:
    """Return the network as ONNX, traced: torch's other exporter takes no recurrent layers of any length."""
    length = getattr(network, "training_length", None)
    axes = {0: "windows"} if length is not None else {0: "windows", 1: "epochs"}
    buffer: Any = io.BytesIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")  # of the exporter, about itself
            torch.onnx.export(
                network,
                (_example(model, *EXAMPLE),),
                buffer,
                dynamo=False,
                opset_version=OPSET,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_axes={INPUT: axes, OUTPUT: axes},
            )
    except Exception as error:  # the exporter raises many kinds
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"the network {model.card.backbone!r} cannot be exported: {type(error).__name__}: {reason}"
        ) from None
    data: bytes = buffer.getvalue()
    return data


def _example(model: TrainedModel, n_windows: int, n_epochs: int) -> torch.Tensor:
    """Return random features; a network that takes one length only gets that one."""
    features, length = model.card.features, getattr(model.network, "training_length", None)
    shape = (n_windows, length or n_epochs, features.n_frames, len(features.names))
    generator = np.random.default_rng(n_windows * 1000 + n_epochs)
    return torch.from_numpy(generator.normal(size=shape).astype(np.float32))


def _compare(network: nn.Module, model: TrainedModel, data: bytes) -> None:
    """Refuse a file whose probabilities differ from the network's: tracing may have fixed what varies."""
    exported = OnnxModel(model.card, open_session(data))
    for sizes in TRIED:
        features = _example(model, *sizes)
        with torch.inference_mode():
            expected = network(features).double().softmax(-1).numpy()
        difference = float(np.abs(exported.run(features.numpy()) - expected).max())
        if not difference <= MOST_DIFFERENT:
            raise InputError(
                f"the exported {model.card.backbone!r} differs from the network by {difference:.2g} on "
                f"random features, expected at most {MOST_DIFFERENT:g}. Nothing was written."
            )
