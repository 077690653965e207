"""Read the two feature cohorts of this study as feature tables in three stages. Trains nothing.

The data are looked for under the folder named by the environment variable ``STAGEGUARD_DATA``; they are
public, but not part of this repository.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from stageguard.night.stages import WNR3
from stageguard.nn.tables import FeatureTable

ACCEL_NAMES = ("hours", "activity_count", "heart_rate_variability", "clock_cosine", "circadian")
# What means the same every night keeps its level; everything else is scaled night by night.
ABSOLUTE = {"sleep-edf": (), "sleep-accel": ("hours", "clock_cosine", "circadian")}
EPOCH_SECONDS = 30.0


def data_folder() -> Path:
    folder = os.environ.get("STAGEGUARD_DATA")
    if not folder:
        raise SystemExit("set STAGEGUARD_DATA to the folder that holds sleep-edfx and sleep-accel")
    return Path(folder)


def sleep_edf() -> list[FeatureTable]:
    """26 subjects, mostly two nights each; 80 features per epoch."""
    import pandas as pd

    frame = pd.read_parquet(data_folder() / "sleep-edfx" / "sleep_edfx_cassette_26.parquet")
    about = ["subject_id", "night_id", "age", "sex", "epoch_idx", "t0_sec", "stage"]
    names = tuple(name for name in frame.columns if name not in about)
    stage = {"W": 0, "N1": 1, "N2": 1, "N3": 1, "REM": 2}
    tables = []
    for (subject, night), rows in frame.groupby(["subject_id", "night_id"], sort=True, observed=True):
        rows = rows.sort_values("epoch_idx")
        labels = rows["stage"].map(stage).fillna(-1).to_numpy(dtype=np.int64)
        tables.append(
            FeatureTable(
                f"{subject}-{night}",
                str(subject),
                rows[list(names)].to_numpy(dtype=np.float32),
                names,
                rows["epoch_idx"].to_numpy(dtype=np.int64),
                labels,
                WNR3,
                EPOCH_SECONDS,
            )
        )
    return tables


def sleep_accel() -> list[FeatureTable]:
    """31 subjects, one night each; five features per epoch from a wrist-worn watch."""
    tables = []
    path = data_folder() / "sleep-accel" / "sleep_accel_walch_features.npz"
    with np.load(path) as archive:
        for subject in archive.files:
            rows = archive[subject]
            epochs = np.rint(rows[:, 0] * 3600 / EPOCH_SECONDS).astype(np.int64)
            labels = np.select([rows[:, 5] == 0, rows[:, 5] == 5], [0, 2], default=1).astype(np.int64)
            features = rows[:, :5].astype(np.float32)
            tables.append(
                FeatureTable(subject, subject, features, ACCEL_NAMES, epochs, labels, WNR3, EPOCH_SECONDS)
            )
    return tables


READERS = {"sleep-edf": sleep_edf, "sleep-accel": sleep_accel}


def folds(tables: list[FeatureTable], n_folds: int = 4, seed: int = 42) -> list[set[str]]:
    """Test subjects of each fold; nobody is in two."""
    subjects = sorted({str(table.subject) for table in tables})
    order = np.random.default_rng(seed).permutation(subjects)
    return [set(part.tolist()) for part in np.array_split(order, n_folds)]
