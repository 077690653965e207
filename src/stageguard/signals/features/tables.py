"""Features as files that training reads: .npz, or TSV where an epoch is one frame."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base.errors import Argument, InputError, Message
from stageguard.base.files import write_cell, write_together
from stageguard.night.hypnogram import Hypnogram
from stageguard.signals.features import Features

SUFFIXES = (".npz", ".tsv")


def write_features(
    features: Features,
    path: str | Path,
    *,
    scoring: Hypnogram | None = None,
    is_synthetic: bool = False,
    overwrite: bool = False,
) -> Path:
    """Write the features of one recording, complete or not at all; missing folders are made.

    Parameters
    ----------
    features : Features
        What to write.
    path : path-like
        Ends in .npz or .tsv; the name before that is the recording's.
    scoring : Hypnogram, optional
        Its expert stages; must have epochs of the same length. Epochs it does not reach are unscored.
    is_synthetic : bool
        Whether the recording was simulated; the file says so.
    overwrite : bool
        Replace an existing file.
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
    if abs(scoring.epoch_seconds - features.epoch_seconds) > 1e-6:
        raise InputError(
            Message(
                f"recording {features.recording!r} is scored in epochs of {scoring.epoch_seconds:g} s, its "
                f"features have {features.epoch_seconds:g} s. Give ",
                Argument("epoch_seconds", float(scoring.epoch_seconds)),
                ".",
            )
        )
    stages = [str(name) for name in scoring.stages[: features.n_epochs]]
    return stages + ["?"] * (features.n_epochs - len(stages))


def _archive(features: Features, stages: list[str] | None, is_synthetic: bool) -> bytes:
    content: Mapping[str, Any] = {
        "features": features.values,
        "names": np.array(features.names),
        "subject": np.array(features.subject),
        "recording": np.array(features.recording),
        "epoch": np.arange(features.n_epochs),
        "epoch_seconds": np.array(features.epoch_seconds),
        "recipe": np.array(json.dumps(features.recipe.to_dict(), allow_nan=False)),
        "recipe_sha256": np.array(features.recipe.sha256),
        "scaling": np.array(features.scaling),
        "absolute": np.array(features.absolute, dtype=np.str_),
        "is_synthetic": np.array(is_synthetic),
        **({} if stages is None else {"stage": np.array(stages)}),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **content)
    return buffer.getvalue()


def _table(features: Features, stages: list[str] | None) -> str:
    n_frames = features.values.shape[1]
    if n_frames != 1:
        raise InputError(
            f"recipe {features.recipe.name!r} makes {n_frames} frames per epoch, but a table has one row for "
            "each. Write .npz instead."
        )
    header = ["subject", "epoch", *([] if stages is None else ["stage"]), *features.names]
    subject = write_cell(features.subject)
    lines = ["\t".join(header)]
    for epoch, row in enumerate(features.values[:, 0].tolist()):
        cells = [subject, str(epoch), *([] if stages is None else [stages[epoch]])]
        lines.append("\t".join([*cells, *("n/a" if value != value else f"{value:.8g}" for value in row)]))
    return "\n".join(lines) + "\n"
