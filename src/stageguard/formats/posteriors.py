"""Write a posterior as a table that `read_density` reads, with a sidecar and draws beside it."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard.base.arrays import Labels
from stageguard.base.files import write_together
from stageguard.formats.outputs import (
    COLUMNS,
    LAYOUT_VERSION,
    POSTERIOR_SUFFIXES,
    REVIEW_SENTENCE,
    describe_file,
    describe_night,
    describe_profile,
    plain,
)

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding
    from stageguard.guard.posterior import Posterior

TIMING = {name: COLUMNS[name] for name in ("onset", "duration")}
MEANING = (
    "Under the profile and the stager's own probabilities: where the stager is sure and wrong, so is this. "
    "How far sleep statistics may be off is told by errors on scored nights, not by these numbers."
)


@dataclass(frozen=True, slots=True)
class WrittenPosterior:
    """Where a posterior was written; `draws` is None without draws."""

    table: Path
    sidecar: Path
    draws: Path | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Nights drawn from a posterior, (n, n_epochs), and the seed to draw them again."""

    labels: Labels
    seed: int


def write_posterior(
    posterior: Posterior,
    decoding: Decoding,
    path: str | os.PathLike[str],
    *,
    source_path: str | os.PathLike[str],
    draws: Draws | None = None,
    overwrite: bool = False,
    options: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> WrittenPosterior:
    """Write `<path>.posterior.csv`, its sidecar and, with draws, `<path>.draws.npz`: all or nothing.

    The posterior was made with the strength of the decoding; the other arguments are as in `write_decoding`.
    """
    stem, source = Path(path), Path(source_path)
    table, sidecar, drawn = (stem.with_name(stem.name + suffix) for suffix in POSTERIOR_SUFFIXES)
    rows = table_text(posterior).encode()
    contents: dict[Path, str | bytes] = {table: rows}
    entry = None
    if draws is not None:
        contents[drawn], entry = _drawn(posterior, draws, drawn)
    entries = {
        "layout": LAYOUT_VERSION,
        "review": REVIEW_SENTENCE,
        "posterior": {
            **describe_night(posterior, table, rows),
            "log_evidence": posterior.log_evidence,
            "transition_weight": posterior.transition_weight,
            "prior_exponent": posterior.prior_exponent,
            "meaning": MEANING,
        },
        "draws": entry,
        "best_path_score": decoding.score,
        "input": describe_file(source),
        "options": dict(options or {}),
        "profile": describe_profile(decoding.profile, decoding.profile.to_dict()),
        "assumptions": [*posterior.assumed, *notes],
        "provenance": decoding.provenance(),
    }
    stages = {
        name: {"Description": f"Probability of {name} given the whole night and the profile", "Units": "1"}
        for name in posterior.scheme.names
    }
    text = json.dumps({**TIMING, **stages, "stageguard": plain(entries)}, indent=2, allow_nan=False)
    contents[sidecar] = text + "\n"
    write_together(contents, overwrite=overwrite, make_folders=True, spare=(source,))
    return WrittenPosterior(table, sidecar, None if draws is None else drawn)


def table_text(posterior: Posterior) -> str:
    """Return onset, duration and one column per stage, in digits that read back exactly."""
    seconds = float(posterior.epoch_seconds)
    lines = [",".join((*TIMING, *posterior.scheme.names))]
    for epoch, row in enumerate(posterior.probabilities.tolist()):
        cells = ("NaN" if value != value else repr(value) for value in row)
        onset = posterior.offset_seconds + epoch * seconds
        lines.append(f"{onset:.12g},{seconds:.12g},{','.join(cells)}")
    return "\n".join(lines) + "\n"


def _drawn(posterior: Posterior, draws: Draws, path: Path) -> tuple[bytes, dict[str, Any]]:
    """Return the file of draws, and its entry in the sidecar."""
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        labels=draws.labels,
        stages=np.array(posterior.scheme.names),
        epoch_seconds=np.array(posterior.epoch_seconds),
        offset_seconds=np.array(posterior.offset_seconds),
        seed=np.array(draws.seed),
    )
    entry = {
        "file": path.name,
        "sha256": hashlib.sha256(buffer.getvalue()).hexdigest(),
        "n": len(draws.labels),
        "seed": draws.seed,
        "labels": "int8 (n, n_epochs), index of the stage; -1 without evidence for more than five minutes",
    }
    return buffer.getvalue(), entry
