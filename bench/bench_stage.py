"""How much of `sg.stage` is the guard: YASA on a simulated night of eight hours, from the EDF file.

Processor time of the parts that the call consists of, called one by one, taking turns with the whole.
Needs yasa.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

from _common import Row, race, report

import stageguard as sg
from stageguard.pipeline import staging_of
from stageguard.signals.quality import signal_quality
from stageguard.synthetic import Plan, simulate_cohort

GOAL_PERCENT = 1.0
ROUNDS = 3


def rows_of(edf: Path) -> list[Row]:
    """Return the time of the whole call, and the shares of guard and signal quality."""
    staging = staging_of(edf, "yasa")
    assert staging.quality is not None
    beta, recording = staging.quality.beta, sg.read_recording(edf)
    best = race(
        {
            "whole": lambda: sg.stage(edf, "yasa"),
            "guard": lambda: sg.decode(
                staging.density, staging.profile, quality=beta, trained=staging.trained
            ),
            "quality": lambda: signal_quality(recording, "polysomnography", epoch_seconds=30.0),
        },
        rounds=ROUNDS,
    )
    what = f"sg.stage by YASA, T = {staging.density.n_epochs}"
    return [
        Row(f"{what}: the guard", 100 * best["guard"] / best["whole"], "% of the call", GOAL_PERCENT),
        Row(f"{what}: signal quality", 100 * best["quality"] / best["whole"], "% of the call"),
        Row(f"{what}: the whole call", best["whole"], "s"),
    ]


def main() -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        simulate_cohort(Plan("polysomnography", 1, 8.0, 1), Path(folder) / "lab")
        (edf,) = Path(folder).rglob("*.edf")
        report("stage", "From a recording to a hypnogram", rows_of(edf))


if __name__ == "__main__":
    main()
