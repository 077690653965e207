"""`run_study`: every fold of every network, on this computer or a cluster, resumable."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from stageguard.base.errors import OutputError, OutputExistsError
from stageguard.base.files import locked
from stageguard.base.records import dataclass
from stageguard.runner.run import check_folder, run_files
from stageguard.study import store
from stageguard.study.cohorts import load_cohort, read_cohort, save_cohort
from stageguard.study.config import StudyConfig
from stageguard.study.derived import write_derived
from stageguard.study.jobs import FoldTask, Job, jobs_of, run_fold
from stageguard.study.splits import LeakError, make_folds


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """Progress of a run; `error` is that of the job that just ended."""

    done: int
    total: int
    key: str
    seconds: float  # duration of the job
    error: str | None = None


def prepare_study(config: StudyConfig, folder: Path, *, data: Path = Path()) -> list[Job]:
    """Write a study's nights and description, or check those of an earlier run; return all jobs.

    Folders in the configuration are relative to `data`.
    """
    check_folder(folder)
    nights = folder / store.COHORT
    if not nights.exists():
        if folder.exists() and any(path.name != store.LOCK for path in folder.iterdir()):
            raise OutputExistsError(f"{folder} holds other files. Choose a new or empty folder.")
        cohort = read_cohort(config.cohort, data)
        make_folds(cohort.subjects, config.split, config.seed)  # raises its errors before hours of work
        folder.mkdir(parents=True, exist_ok=True)
        save_cohort(cohort, nights)
    cohort = load_cohort(nights)
    sha256 = store.file_sha256(nights)
    jobs = jobs_of(config, len(make_folds(cohort.subjects, config.split, config.seed)))
    about = store.describe(config.to_dict(), sha256, n_jobs=len(jobs), synthetic=cohort.is_synthetic)
    store.open_study(folder, about)
    return jobs


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
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
    report: Callable[[StudyProgress], None] | None = None,
) -> store.Results:
    """Run all jobs of a study that are not done yet, and return its results.

    A failed job is stored with its error, and tried again by the next run. A leak ends the run.

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
    report : callable, optional
        Called after every job.
    """
    folder = Path(folder).absolute()
    with _alone(folder):
        return _run_alone(config, folder, data, jobs, executor, overwrite=overwrite, report=report)


def _run_alone(
    config: StudyConfig,
    folder: Path,
    data: Path,
    jobs: int,
    executor: Executor | None,
    *,
    overwrite: bool,
    report: Callable[[StudyProgress], None] | None,
) -> store.Results:
    if overwrite and (folder / store.STUDY).is_file():
        for name in (store.JOBS, store.PREDICTIONS):
            shutil.rmtree(folder / name, ignore_errors=True)
        for name in (store.STUDY, store.COHORT, store.RESULTS, store.DERIVED):
            (folder / name).unlink(missing_ok=True)
    wanted = prepare_study(config, folder, data=data)
    done = store.done_keys(folder)
    document = config.to_dict()
    tasks = [FoldTask(document, folder / store.COHORT, job) for job in wanted if job.key not in done]
    n_done = len(wanted) - len(tasks)
    outcomes = run_files(run_fold, tasks, jobs=jobs, executor=executor, fatal=(LeakError,), singly=True)
    for task, outcome in zip(tasks, outcomes, strict=True):
        n_done += 1
        if outcome.ok:
            store.save_record(folder, outcome.result.record, outcome.result.predictions)
        else:
            failed = asdict(task.job) | {"key": task.id, "error": str(outcome.error)}
            store.save_record(folder, failed, None)
        if report is not None:
            error = None if outcome.ok else str(outcome.error)
            report(StudyProgress(n_done, len(wanted), task.id, outcome.seconds, error))
    store.write_results(folder)
    results = store.read_results(folder)
    write_derived(results)
    return results
