"""A posterior as a table of probabilities, with a sidecar and draws beside it.

The table is one that `read_density` reads back: the stages are its columns, digits are kept, and epochs
without evidence are rows of NaN.
"""

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
from stageguard.formats.outputs import LAYOUT_VERSION, REVIEW_SENTENCE, describe_file, plain

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding
    from stageguard.guard.posterior import Posterior

TABLE_SUFFIX = ".posterior.csv"
SIDECAR_SUFFIX = ".posterior.json"
DRAWS_SUFFIX = ".draws.npz"
TIMING = {
    "onset": {"Description": "Start of the epoch, from the start of the recording", "Units": "s"},
    "duration": {"Description": "Length of the epoch", "Units": "s"},
}
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
    """Nights drawn from a posterior, (n, n_epochs), and the seed that gives them again."""

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
    """Write `<path>.posterior.csv`, its sidecar and, where there are any, `<path>.draws.npz`, or nothing.

    Parameters
    ----------
    posterior, decoding
        The marginals, and the decoding whose strength they have.
    path : path-like
        Folder and stem of the outputs, for example `out/night`; missing folders are made.
    source_path : path-like
        The probabilities' file; its name and SHA-256 go into the sidecar.
    draws : Draws, optional
        What to write beside it.
    overwrite : bool
        Replace existing outputs; otherwise they are an OutputExistsError.
    options : mapping, optional
        How the file was read, in JSON types.
    notes : sequence of str
        What was assumed or ignored while reading.
    """
    stem, source = Path(path), Path(source_path)
    places = [stem.with_name(stem.name + suffix) for suffix in (TABLE_SUFFIX, SIDECAR_SUFFIX, DRAWS_SUFFIX)]
    table = table_text(posterior).encode()
    drawn = None if draws is None else _draws_bytes(posterior, draws)
    own = {
        "layout": LAYOUT_VERSION,
        "review": REVIEW_SENTENCE,
        "posterior": {
            "file": places[0].name,
            "sha256": hashlib.sha256(table).hexdigest(),
            "n_epochs": posterior.n_epochs,
            "epoch_seconds": posterior.epoch_seconds,
            "offset_seconds": posterior.offset_seconds,
            "start": posterior.start.isoformat() if posterior.start else None,
            "scheme": {"name": posterior.scheme.name, "stages": list(posterior.scheme.names)},
            "log_evidence": posterior.log_evidence,
            "transition_weight": posterior.transition_weight,
            "prior_exponent": posterior.prior_exponent,
            "meaning": MEANING,
        },
        "draws": _draws_entry(places[2], draws, drawn),
        "best_path_score": decoding.score,
        "input": describe_file(source),
        "options": dict(options or {}),
        "profile": {
            "name": decoding.profile.name,
            "sha256": decoding.profile.sha256,
            "definition": decoding.profile.to_dict(),
        },
        "assumptions": [*posterior.assumed, *notes],
        "provenance": decoding.provenance(),
    }
    stages = {
        name: {"Description": f"Probability of {name} given the whole night and the profile", "Units": "1"}
        for name in posterior.scheme.names
    }
    sidecar = {**TIMING, **stages, "stageguard": plain(own)}
    contents: dict[Path, str | bytes] = {
        places[0]: table,
        places[1]: json.dumps(sidecar, indent=2, allow_nan=False) + "\n",
    }
    if drawn is not None:
        contents[places[2]] = drawn
    write_together(contents, overwrite=overwrite, make_folders=True, spare=(source,))
    return WrittenPosterior(places[0], places[1], None if drawn is None else places[2])


def table_text(posterior: Posterior) -> str:
    """Return onset, duration and one column per stage, in digits that read back exactly."""
    seconds = float(posterior.epoch_seconds)
    lines = [",".join((*TIMING, *posterior.scheme.names))]
    for epoch, row in enumerate(posterior.probabilities.tolist()):
        cells = ("NaN" if value != value else repr(value) for value in row)
        onset = posterior.offset_seconds + epoch * seconds
        lines.append(f"{onset:.12g},{seconds:.12g},{','.join(cells)}")
    return "\n".join(lines) + "\n"


def _draws_bytes(posterior: Posterior, draws: Draws) -> bytes:
    held = io.BytesIO()
    np.savez_compressed(
        held,
        labels=draws.labels,
        stages=np.array(posterior.scheme.names),
        epoch_seconds=np.array(posterior.epoch_seconds),
        offset_seconds=np.array(posterior.offset_seconds),
        seed=np.array(draws.seed),
    )
    return held.getvalue()


def _draws_entry(place: Path, draws: Draws | None, data: bytes | None) -> dict[str, Any] | None:
    if draws is None or data is None:
        return None
    return {
        "file": place.name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "n": len(draws.labels),
        "seed": draws.seed,
        "labels": "int8 (n, n_epochs), index of the stage; -1 without evidence for more than five minutes",
    }
