"""Watch recordings as PhysioNet has Sleep-Accel: text files of acceleration, heart rate, steps and stages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.night.recording import Series
from stageguard.synthetic.events import Simulated
from stageguard.synthetic.layouts import write_rows

CODES = {"W": 0, "N1": 1, "N2": 2, "N3": 3, "R": 5}
READ_OPTIONS = ""
FILE_LIST = {
    "txt": """motion/syntheticNNN_acceleration.txt      seconds, x, y, z in g, as in Sleep-Accel
heart_rate/syntheticNNN_heartrate.txt     seconds, beats per minute
steps/syntheticNNN_steps.txt              seconds, steps in the days before
labels/syntheticNNN_labeled_sleep.txt     seconds, stage: 0 W, 1 N1, 2 N2, 3 N3, 5 REM""",
}
FILES = {  # role -> folder, ending, format
    "acceleration": ("motion", "acceleration", "%.5f %.6f %.6f %.6f"),
    "heart_rate": ("heart_rate", "heartrate", "%.5f,%d"),
    "steps": ("steps", "steps", "%.4f,%d"),
}


def name_of(number: int, layout: str) -> str:
    """Return a subject's name, which begins the names of the files."""
    return f"synthetic{number:03d}"


def write(made: Simulated, folder: Path, layout: str) -> None:
    """Write one recording."""
    subject = made.recording.subject
    for role, (subfolder, ending, row_format) in FILES.items():
        series = made.recording.signals[role]
        assert isinstance(series, Series)
        (folder / subfolder).mkdir(parents=True, exist_ok=True)
        rows = np.column_stack([series.times, series.values])
        write_rows(folder / subfolder / f"{subject}_{ending}.txt", rows, row_format)
    night = made.night.hypnogram
    (folder / "labels").mkdir(exist_ok=True)
    lines = (
        f"{round(epoch * night.epoch_seconds)} {CODES[night.scheme.names[label]]}\n"
        for epoch, label in enumerate(night.labels.tolist())
    )
    (folder / "labels" / f"{subject}_labeled_sleep.txt").write_text("".join(lines), encoding="ascii")


def finish(subjects: Sequence[Any], folder: Path, layout: str) -> None:
    """Write nothing: the dataset has no tables of its own."""
