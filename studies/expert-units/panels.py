"""The nights of DOD-H and DOD-O that five experts scored, and what published networks made of DOD-H."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import stageguard as sg

FILES = {"DOD-H": "dod-h/dod_h.npz", "DOD-O": "dod-o/dod_o_scorers.npz"}
PEOPLE = {"DOD-H": "25 healthy adults", "DOD-O": "55 adults with sleep apnoea"}
NETWORKS = ("Chambon", "DeepSleepNet", "MixedNeuralNetwork", "SeqSleepNet", "SimpleNet", "Tsinalis")
EPOCH_SECONDS = 30.0


@dataclass(frozen=True)
class Panel:
    """One night: its five scorings, and labels or votes of stagers by name."""

    name: str
    experts: list[sg.Hypnogram]
    stagers: dict[str, np.ndarray]  # labels (n_epochs,) or votes (n_epochs, 5)


def panels(cohort: str) -> list[Panel]:
    """Return the nights of a cohort."""
    folder = os.environ.get("STAGEGUARD_DATA", "")
    path = Path(folder) / FILES[cohort]
    if not folder or not path.is_file():
        raise SystemExit(f"STAGEGUARD_DATA is {folder!r}, expected the folder with {FILES[cohort]}. Set it.")
    with np.load(path) as archive:
        names = [key.removesuffix("/scorers") for key in archive.files if key.endswith("/scorers")]
        return [
            Panel(
                name,
                [hypnogram(row, f"scorer {j}") for j, row in enumerate(archive[f"{name}/scorers"], start=1)],
                {
                    key.removeprefix(f"{name}/"): archive[key]
                    for key in archive.files
                    if key.startswith(f"{name}/") and not key.endswith("/scorers")
                },
            )
            for name in names
        ]


def hypnogram(labels: np.ndarray, scorer: str | None = None) -> sg.Hypnogram:
    """Return labels W N1 N2 N3 R as a hypnogram."""
    return sg.Hypnogram(np.asarray(labels, dtype=np.int8), "aasm5", EPOCH_SECONDS, scorer=scorer)
