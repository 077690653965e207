"""`run_study`: every fold of every stager, on this computer or a cluster, resumable."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from stageguard.errors import OutputError, OutputExistsError
from stageguard.files import file_sha256, locked
from stageguard.runner.run import Outcome, check_folder, run_files
from stageguard.study import store
from stageguard.study.config import StudyConfig
from stageguard.study.derived import write_derived
from stageguard.study.fold import (
    FoldResult,
    failure_record,
    judgement_identity,
    prediction_identity,
    run_fold,
)
from stageguard.study.groups import check_groups
from stageguard.study.jobs import FoldTask, Job, LeakError, jobs_of, make_folds
from stageguard.study.nights import StudyCohort, load_cohort, read_cohort, save_cohort


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """Progress of a run; `error` is that of the job that just ended."""

    done: int
    total: int
    key: str
    seconds: float  # duration of the job
    error: str | None = None


@dataclass(frozen=True, slots=True)
class _JobIdentities:
    """A job with the identities of its prediction and of its record."""

    job: Job
    prediction: str
    record: str


def prepare_study(
    config: StudyConfig, folder: Path, *, data: Path = Path(), overwrite: bool = False
) -> list[_JobIdentities]:
    """Write a study's nights and description, or check those of an earlier run; return all jobs.

    Folders in the configuration are relative to `data`. An earlier study is removed last, when everything
    that can be refused has been.
    """
    check_folder(folder)
    nights = folder / store.COHORT
    if overwrite or not nights.exists():
        if folder.exists() and (names := store.other_files(folder)):
            raise OutputExistsError(f"{folder} holds other files ({names[0]}). Choose a new or empty folder.")
        cohort = read_cohort(config.cohort, data)
        _check_config(config, cohort)
        folder.mkdir(parents=True, exist_ok=True)
        store.clear(folder)
        save_cohort(cohort, nights)
    cohort = load_cohort(nights)
    _check_config(config, cohort)
    jobs = _job_identities(config, cohort)
    about = store.describe(
        config.to_dict(), file_sha256(nights, "an array"), n_jobs=len(jobs), synthetic=cohort.is_synthetic
    )
    store.open_study(folder, about, {each.job.key: each.prediction for each in jobs})
    return jobs


def _check_config(config: StudyConfig, cohort: StudyCohort) -> None:
    """Refuse what does not fit the nights, before hours of work."""
    make_folds(cohort.subjects, config.split, config.seed)
    config.check_nights(cohort.epoch_seconds)
    check_groups(config, cohort)


def _job_identities(config: StudyConfig, cohort: StudyCohort) -> list[_JobIdentities]:
    wanted = []
    for job in jobs_of(config, len(make_folds(cohort.subjects, config.split, config.seed))):
        prediction = prediction_identity(config, cohort.fingerprint, job)
        wanted.append(_JobIdentities(job, prediction, judgement_identity(config, prediction)))
    return wanted


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock a study's folder while the block runs; a second run in it is an error."""
    check_folder(folder)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / store.LOCK
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(lock))
        except BlockingIOError:
            raise OutputError(
                f"cannot write to {folder}: another run is writing there. Wait for it, or choose another "
                "folder."
            ) from None
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            if is_new:
                with suppress(OSError):  # not empty: it has results
                    folder.rmdir()


def run_study(
    config: StudyConfig,
    folder: str | Path,
    *,
    data: Path = Path(),
    jobs: int = 1,
    executor: Executor | None = None,
    overwrite: bool = False,
    guard_again: bool = False,
    report: Callable[[StudyProgress], None] | None = None,
) -> store.Results:
    """Run all jobs of a study that are not done yet, and return its results.

    A failed job is stored with its error, and tried again by the next run. A leak ends the run. Predictions
    are kept: if only guards or tables of the configuration have changed, nothing is trained again.

    Parameters
    ----------
    config : StudyConfig
        The study, from `read_study`.
    folder : str or Path
        A new or empty folder, or that of an earlier run of the same study, which is resumed.
    data : Path
        Base of relative folders in the configuration.
    jobs : int
        Number of processes on this computer, each with one thread; 0 means one per core.
    executor : Executor, optional
        Where to run the jobs instead. All workers must be able to read the folder.
    overwrite : bool
        Whether to remove an earlier study from the folder first.
    guard_again : bool
        Whether to guard and measure all stored predictions again, as after a change of this package.
    report : callable, optional
        Called after every job.
    """
    folder = Path(folder).absolute()
    with _lock_folder(folder):
        wanted = prepare_study(config, folder, data=data, overwrite=overwrite)
        done = {} if guard_again else store.done_identities(folder)
        store.keep_records(folder, {each.job.key for each in wanted})
        missing = [each.job for each in wanted if done.get(each.job.key) != each.record]
        n_done = len(wanted) - len(missing)
        document = config.to_dict()
        tasks = [FoldTask(document, folder / store.COHORT, job) for job in missing]
        outcomes = run_files(run_fold, tasks, jobs=jobs, executor=executor, fatal=(LeakError,), singly=True)
        for task, outcome in zip(tasks, outcomes, strict=True):
            n_done += 1
            error = _store_outcome(folder, task.job, outcome)
            if report is not None:
                report(StudyProgress(n_done, len(wanted), task.id, outcome.seconds, error))
        shutil.rmtree(folder / store.SHARED, ignore_errors=True)
        store.write_results(folder)
        results = store.read_results(folder)
        write_derived(results)
        return results


def _store_outcome(folder: Path, job: Job, outcome: Outcome[FoldResult]) -> str | None:
    """Store the result of a job; return its error, if it failed."""
    if not outcome.ok:
        store.save_record(folder, failure_record(job, str(outcome.error)), None)
        return str(outcome.error)
    result = outcome.result
    if result.prediction is not None:
        store.save_prediction(folder, job.key, result.prediction.facts, result.prediction.table)
    store.save_record(folder, result.record, result.stages)
    return result.record.get("error")
