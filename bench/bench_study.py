"""Two processes against one on a study that is bound by the processor: folds done per second."""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path

from _common import Row, report

from stageguard.study.config import study_of
from stageguard.study.run import prepare_study, run_study

GOAL = 1.7
# Eight folds of some ten seconds each; the nights are simulated before the clock starts.
STUDY = {
    "name": "bench",
    "title": "Bench",
    "backbones": ["seqsleepnet"],
    "cohort": {"source": "simulated", "modality": "eeg-emg", "subjects": 4, "hours": 0.5},
    "guard": {"paper": "kdd2026-mouse-eeg-emg", "base": "mouse-eeg-emg-3"},
    "training": {"network": {"small": True}, "steps": 90, "batch_size": 16, "validation_share": 0.3},
}


def seconds(folder: Path, jobs: int) -> tuple[float, int]:
    """Return how long the folds take, start of the processes included, and how many there are."""
    study = study_of(STUDY)
    n_jobs = prepare_study(study, folder)[0]["n_jobs"]
    begin = time.perf_counter()
    results = run_study(study, folder, jobs=jobs)
    took = time.perf_counter() - begin
    assert not results.failures and results.n_done == n_jobs
    return took, n_jobs


def main() -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        one, n_jobs = seconds(Path(folder) / "one", 1)
        two, _ = seconds(Path(folder) / "two", 2)
    rows = [
        Row(f"{n_jobs} folds of a network, one process", one, "s"),
        Row(f"{n_jobs} folds of a network, two processes", two, "s"),
        Row("two processes", one / two, "× one", goal=GOAL, better="more"),
    ]
    report("study", "A study on two cores", rows)


if __name__ == "__main__":
    main()
