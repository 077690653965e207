"""One job of a study: fit and predict, unless that is stored; then guard and measure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from stageguard.base.errors import StageGuardError, fault_text
from stageguard.nn.tables import fingerprint
from stageguard.study.jobs import FoldTask, Job
from stageguard.study.judging import judge_fold
from stageguard.study.predicting import Prediction, identity, predict_fold
from stageguard.study.splits import LeakError
from stageguard.study.store import read_prediction


@dataclass(frozen=True, slots=True, eq=False)
class FoldResult:
    """The result of a job; a prediction that was stored already is None."""

    prediction: Prediction | None
    record: dict[str, Any]
    stages: bytes | None  # None if guarding failed, as the record then says


def run_fold(task: FoldTask) -> FoldResult:
    """Do one job. Apart from times, the same job gives the same numbers wherever it runs."""
    config, cohort = task.read()
    wanted = identity(config, fingerprint(night.table for night in cohort.nights), task.job)
    stored = read_prediction(task.folder, task.job.key)
    if stored is not None and stored[0]["identity"] != wanted:
        stored = None
    prediction = predict_fold(task) if stored is None else Prediction(*stored)
    made = prediction if stored is None else None
    try:
        judged = judge_fold(config, cohort, task.job, prediction)
    except LeakError:
        raise
    except Exception as error:  # the prediction, which took longer, is kept
        text = str(error) if isinstance(error, StageGuardError) else fault_text(error)
        return FoldResult(made, failed(task.job, f"{task.job.key}: {text}"), None)
    return FoldResult(made, judged.record, judged.stages)


def failed(job: Job, error: str) -> dict[str, Any]:
    """Return the record of a job that failed."""
    return asdict(job) | {"key": job.key, "error": error}
