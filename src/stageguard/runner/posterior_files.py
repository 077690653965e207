"""Decode a file, and write its posterior and draws beside the hypnogram."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from stageguard.errors import OutputExistsError
from stageguard.files import read_file
from stageguard.formats.outputs import Draws, WrittenPosterior, write_posterior
from stageguard.guard.decoding import Decoding
from stageguard.guard.posterior import Posterior, posterior_like, sample_like
from stageguard.runner.decode_files import DecodeTask, decode_task
from stageguard.runner.decode_one import decode_file, start_of
from stageguard.runner.manifest import DecodedFile

UNSURE_BELOW = 0.9  # epochs whose most probable stage is less probable than this deserve a look


def decode_with_posterior(task: DecodeTask, n_draws: int | None, seed: int) -> DecodedFile:
    """Decode and write one file as `decode_task` does, with its posterior; what is there already stays."""
    night = decode_file(task.path, task.profile, task.options, start_of(task.edf, task.start))
    decoding, notes = night
    decoded = decode_task(task, lambda: night)
    posterior = posterior_like(decoding)
    draws = None if n_draws is None else Draws(sample_like(decoding, n=n_draws, seed=seed), seed)

    def write(output: Path, *, overwrite: bool) -> WrittenPosterior:
        options = task.options.to_dict()
        return write_posterior(
            posterior,
            decoding,
            output,
            source_path=task.path,
            draws=draws,
            overwrite=overwrite,
            options=options,
            notes=notes,
        )

    try:
        written = write(task.output, overwrite=task.overwrite)
    except OutputExistsError:  # of an earlier run, if this one would write the same
        with TemporaryDirectory(prefix="stageguard-") as folder:
            again = _files(write(Path(folder, task.output.name), overwrite=False))
            there = {kind: task.output.with_name(path.name) for kind, path in again.items()}
            if not all(
                there[kind].is_file() and read_file(there[kind]) == read_file(path)
                for kind, path in again.items()
            ):
                raise
        written = WrittenPosterior(there["posterior"], there["posterior_json"], there.get("draws"))
    measured = measures_of(posterior, decoding, draws)
    return replace(decoded, outputs={**decoded.outputs, **_files(written)}, posterior=measured)


def _files(written: WrittenPosterior) -> dict[str, Path]:
    files = {"posterior": written.table, "posterior_json": written.sidecar, "draws": written.draws}
    return {kind: path for kind, path in files.items() if path is not None}


def measures_of(posterior: Posterior, decoding: Decoding, draws: Draws | None) -> Mapping[str, Any]:
    """Return what is told about a posterior, in plain types."""
    known = posterior.probabilities[~np.isnan(posterior.probabilities[:, 0])]
    entropy = -(known * np.log2(np.where(known > 0, known, 1.0))).sum(axis=1)
    minutes = posterior.epoch_seconds / 60
    labels, names = decoding.hypnogram.labels, posterior.scheme.names
    return {
        "n_without_evidence": posterior.n_epochs - len(known),
        "log_evidence": posterior.log_evidence,
        "best_path_score": decoding.score,
        "transition_weight": posterior.transition_weight,
        "mean_entropy_bits": float(entropy.mean()) if len(known) else float("nan"),
        "n_unsure": int(np.count_nonzero(known.max(axis=1) < UNSURE_BELOW)),
        "unsure_below": UNSURE_BELOW,
        "expected_minutes": dict(zip(names, (known.sum(axis=0) * minutes).tolist(), strict=True)),
        "decoded_minutes": {
            name: float(np.count_nonzero(labels == stage)) * minutes for stage, name in enumerate(names)
        },
        "n_draws": None if draws is None else len(draws.labels),
        "seed": None if draws is None else draws.seed,
    }
