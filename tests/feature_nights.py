"""Made-up feature tables: small nights whose stages show in their features, in memory and as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from stageguard.night.stages import WNR3, StageScheme
from stageguard.nn.options import TrainingOptions
from stageguard.signals.features import Features

NAMES = ("theta", "delta", "muscle", "clock")


def feature_table(
    seed: int, subject: str | None = None, n_epochs: int = 90, scheme: StageScheme = WNR3, **changes: Any
) -> Features:
    """A night in bouts of 15 epochs; the first features show the stage, the last is the clock."""
    rng = np.random.default_rng(seed)
    bouts = rng.permutation(np.arange(-(-n_epochs // 15)) % scheme.n_stages)
    labels = np.repeat(bouts, 15)[:n_epochs]
    features = rng.normal(size=(n_epochs, len(NAMES)))
    features[:, :3] += 2.5 * np.eye(3)[labels % 3]
    features[:, 3] = np.arange(n_epochs) / 120
    fields = {
        "recording": f"night{seed}",
        "subject": f"s{seed}" if subject is None else subject,
        "values": features,
        "names": NAMES,
        "labels": labels,
        "scheme": scheme,
    }
    return Features(**(fields | changes))


def cohort(n_subjects: int = 5) -> list[Features]:
    return [feature_table(seed) for seed in range(n_subjects)]


def options(**changes: Any) -> TrainingOptions:
    """A run of a second or two."""
    fast: dict[str, Any] = {
        "backbone": "accusleep",
        "profile": "human-psg-3",
        "network": {"width": 0.125, "window_epochs": 3},
        "penalty_weight": 0.0,
        "absolute": ("clock",),
        "sequence_epochs": 20,
        "steps": 24,
        "batch_size": 4,
        "learning_rate": 1e-2,
        "evaluate_every": 8,
        "device": "cpu",
    }
    return TrainingOptions(**(fast | changes))


def write_csv(path: Path, table: Features, *, with_stage: bool = True) -> Path:
    assert table.labels is not None and table.epochs is not None
    header = ["subject", "epoch", *(["stage"] if with_stage else []), *table.names]
    rows = [",".join(header)]
    for k in range(table.n_epochs):
        own = [str(table.subject), str(table.epochs[k])]
        if with_stage:
            own.append((*WNR3.names, "?")[table.labels[k]])
        cells = ["" if np.isnan(v) else repr(float(v)) for v in table.values[k, 0]]
        rows.append(",".join([*own, *cells]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n")
    return path
