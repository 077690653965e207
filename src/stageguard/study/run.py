"""`run_study`: every fold of every stager, on this computer or a cluster, resumable.

A job fits a stager, keeps its probabilities of nights it has not seen, guards and measures them. Predictions
and measures are apart, so that a change of guards trains nothing again.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.arrays import NAN, Labels
from stageguard.documents import plain, sha256_of
from stageguard.errors import MissingFileError, OutputError, OutputExistsError
from stageguard.files import locked, read_file, write_together
from stageguard.measures.agreement import cohen_kappa
from stageguard.measures.bouts import contingency
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.nn.pytorch import torch
from stageguard.profile.profile import Profile
from stageguard.runner.run import check_folder, run_files
from stageguard.study import store
from stageguard.study.config import BASE, Job, StudyConfig, jobs_of, study_of
from stageguard.study.nights import (
    LeakError,
    StudyCohort,
    StudyNight,
    check_leaks,
    cohort_bytes,
    cohort_of,
    make_folds,
    read_cohort,
)
from stageguard.study.stagers import BOOSTING_OPTIONS, FLIP_FLOP_NATS, PENALTY_WEIGHTS, fit_stager
from stageguard.study.store import ARGMAX, EXPERT, GUARDED, MAJORITY_CLASS, PAPER, Results, Rows
from stageguard.study.tables import check_groups
from stageguard.study.variants import calibrate, learn, measure, measure_panel, shape, variants_of

TEST, VALIDATION = "test", "validation"
N_TIMED = 5  # times that work is done to say how long it takes

Records = list[dict[str, Any]]
Prediction = tuple[Mapping[str, Any], Mapping[str, Any]]  # probabilities by night, and facts in JSON types


@dataclass(frozen=True, slots=True)
class FoldTask:
    """A job with everything that a worker needs; it can be sent to other processes and machines."""

    study: Mapping[str, Any]  # the configuration's document, its paths absolute
    folder: Path  # of the study
    job: Job
    id: str  # name of the job
    file: str  # the same, as it begins an error
    error: str | None = None


@lru_cache(maxsize=2)
def _read_nights(path: Path, modified: float) -> StudyCohort:
    return cohort_of(read_file(path), str(path))


def run_fold(task: FoldTask) -> Records:
    """Return the rows of a job. Apart from times, the same job gives the same wherever it runs."""
    path = task.folder / store.NIGHTS
    try:
        cohort = _read_nights(path, path.stat().st_mtime)
    except FileNotFoundError:
        raise MissingFileError(f"{path}: is not seen from this worker, expected a shared folder.") from None
    config, job = study_of(task.study), task.job
    identity = prediction_identity(config, cohort.fingerprint, job)
    stored: Prediction | None = store.read_prediction(task.folder, job)
    if stored is None or stored[1]["identity"] != identity:
        stored = predict_fold(config, cohort, task, identity)
    return judge_fold(config, cohort, task, stored)


def prediction_identity(config: StudyConfig, tables: str, job: Job) -> str:
    """Return a SHA-256 of all that a prediction follows from; `tables` is the fingerprint of the nights.

    How predictions are guarded is no part of it, so that they serve any guard.
    """
    paper = Profile.load(config.guard.paper)
    about: dict[str, Any] = {"job": asdict(job), "nights": tables, "split": plain(config.split)}
    about["seed"] = config.seed
    about["rare"] = [] if job.loss == BASE else [(pair.source, pair.target) for pair in paper.rare]
    if job.backbone in config.stagers:
        about["options"] = {"share": config.training.get("validation_share"), **BOOSTING_OPTIONS}
    else:
        options = config.options(job.backbone, seed=job.seed, weight=job.penalty_weight)
        about["options"] = plain(replace(options, profile="any"), defaults=True)
    if job.is_tuned:
        about["chosen from"] = [PENALTY_WEIGHTS, FLIP_FLOP_NATS, paper.sha256]
    return sha256_of(about)


def judgement_identity(config: StudyConfig, prediction: str) -> str:
    """Return a SHA-256 of all that a job's rows follow from; profiles count by content, not by name."""
    robust = config.robustness
    profiles = {key: Profile.load(name).sha256 for key, name in config.guard.profiles.items()}
    rules = [*robust.rare_probabilities], [*robust.minimum_scales]
    guard = plain(config.guard, defaults=True) | profiles
    return sha256_of({"prediction": prediction, "guard": guard, "rules": rules})


def predict_fold(config: StudyConfig, cohort: StudyCohort, task: FoldTask, identity: str) -> Prediction:
    """Fit a job's stager; store its probabilities of test nights and of others that it did not learn from."""
    job = task.job
    fold = make_folds(cohort.subjects, config.split, config.seed)[job.fold]
    training, test = fold.sides(cohort.nights)
    check_leaks(fold, training, test, {})
    tuning = [night for night in cohort.nights if night.subject == config.split.tuning_subject]
    with _one_thread():
        began = time.process_time()
        stager = fit_stager(config, job, training, tuning, shared=task.folder / store.SHARED)
        seconds = time.process_time() - began
        nights = {f"{TEST}/{night.recording}": night for night in test}
        nights |= {f"{VALIDATION}/{night.recording}": night for night in stager.validation}
        rows = {key: stager.density(n.table).probabilities.astype("f4") for key, n in nights.items()}
        forward = _shortest_seconds(lambda: stager.density(test[0].table))
    facts = {**stager.about, "training_seconds": round(seconds, 3), "forward_seconds": forward}
    about = {"identity": identity, "training_subjects": list(fold.training), "facts": facts}
    store.write_arrays(task.folder / store.PREDICTIONS / f"{job.key}.npz", rows, about)
    return rows, about


def judge_fold(config: StudyConfig, cohort: StudyCohort, task: FoldTask, prediction: Prediction) -> Records:
    """Guard the test nights of a job and store their stages; return a row per night and variant."""
    (stored, about), job = prediction, task.job
    fold = make_folds(cohort.subjects, config.split, config.seed)[job.fold]
    training, test = fold.sides(cohort.nights)
    tested = _densities(test, stored, TEST)
    identity, facts = judgement_identity(config, about["identity"]), about["facts"]
    config = config.with_gamma(facts.get("chosen_nats"))
    learned = learn(config, training)
    if job.loss == BASE and not job.label_noise:
        held_out = [night for night in training if f"{VALIDATION}/{night.recording}" in stored]
        densities = _densities(held_out, stored, VALIDATION)
        learned = calibrate(learned, densities, held_out, job.backbone)
    sources = {"the stager": about["training_subjects"], "the transition matrix": learned.subjects}
    check_leaks(fold, training, test, sources | {"the calibration": learned.calibrated_on})
    experts = [night.expert() for night in test]
    staged: list[tuple[dict[str, Any], list[Labels]]] = []
    if job.loss == BASE:
        common = np.int8(np.argmax(list(learned.shares.values())))
        counted = {"transitions": np.ravel(learned.paper.transitions).tolist()}
        staged.append(({"variant": EXPERT, "change": "", **counted}, [expert.labels for expert in experts]))
        most = [np.where(expert.labels < 0, expert.labels, common) for expert in experts]
        staged.append(({"variant": MAJORITY_CLASS, "change": ""}, most))
    for variant in variants_of(job.loss, config, learned):
        seconds = _shortest_seconds(lambda v=variant: v.apply(tested[:1], test[:1], job.backbone))  # type: ignore[misc]
        labels = variant.apply(tested, test, job.backbone)
        staged.append((variant.way | {"decode_seconds": seconds}, labels))
    stages = {
        store.stages_key({"loss": job.loss, **way, "recording": night.recording}): labels
        for way, nights in staged
        for night, labels in zip(test, nights, strict=True)
    }
    store.write_arrays(task.folder / store.STAGES / f"{job.key}.npz", stages, {})
    chosen = learned.calibrated.provenance if learned.calibrated else {}
    facts = {"n_training_subjects": len(fold.training), **facts}
    of_job = {"identity": identity, "calibrated_by": chosen.get("chosen") or chosen.get("choice"), **facts}
    base, rows = Profile.load(config.guard.base), []
    for number, (night, expert) in enumerate(zip(test, experts, strict=True)):
        argmax = tested[number].argmax
        for way, nights in staged:
            own = nights[number]
            row: dict[str, Any] = measure(expert, own, learned.paper.tvr_pairs)
            row |= measure_panel(night.panel(), None if way["variant"] == EXPERT else own)
            row["changed_percent"] = 100 * float(np.mean((own != argmax)[expert.labels >= 0]))
            if not way["change"] and way["variant"] != MAJORITY_CLASS:
                row |= shape(expert, own, base)
            row = {key: _rounded(value) for key, value in row.items()}
            who = {"recording": night.recording, "subject": night.subject}
            rows.append({"study": config.name, **asdict(job), **who, **way, **row, **of_job})
    return rows


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _densities(nights: Sequence[StudyNight], stored: Mapping[str, Any], part: str) -> list[Hypnodensity]:
    """Return the stored probabilities of nights."""
    pairs = [(stored[f"{part}/{night.recording}"], night.expert()) for night in nights]
    return [Hypnodensity(p, e.scheme, e.epoch_seconds, offset_seconds=e.offset_seconds) for p, e in pairs]


def _shortest_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of some work, the best of several times."""
    moments = [time.process_time()]
    for _ in range(N_TIMED):
        work()
        moments.append(time.process_time())
    return round(float(np.diff(moments).min()), 6)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute in one thread: one worker per core fills a machine, and sums are the same everywhere."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run_study(
    config: StudyConfig,
    folder: str | Path,
    *,
    data: Path = Path(),
    jobs: int = 1,
    executor: Executor | None = None,
    overwrite: bool = False,
    guard_again: bool = False,
    report: Callable[[int, int, str], None] | None = None,
) -> Results:
    """Run all jobs of a study that are not done yet, and return its results.

    A failed job is stored with its error, and tried again by the next run. A leak ends the run. Predictions
    are kept: if only guards or tables of the configuration have changed, nothing is trained again, and with
    `guard_again` all of them are guarded and measured anew. The folder is new or empty, or that of an earlier
    run of the same study, which is resumed, or removed to `overwrite` it. `data` is the base of relative
    paths in the configuration. `jobs` is the number of processes, 0 for one per core; the workers of an
    `executor` must be able to write to the folder. `report` is called after every job with the numbers of
    jobs that are done and that there are, and the job's name.
    """
    folder = Path(folder).absolute()
    with _locked_folder(folder):
        about, identities = prepare_study(config, folder, data=data, overwrite=overwrite)
        kept = {} if guard_again else _stored(folder, identities)
        document, n_done = plain(config.at(data)), len(kept)
        store.write_results(folder, about, store.joined(kept.values()))
        tasks = [FoldTask(document, folder, j, j.key, j.key) for j in identities if j not in kept]
        outcomes = run_files(run_fold, tasks, jobs=jobs, executor=executor, fatal=(LeakError,), singly=True)
        for task, outcome in zip(tasks, outcomes, strict=True):
            n_done += 1
            if outcome.ok:
                kept[task.job] = store.rows_of(outcome.result)
            else:
                about["failures"].append(str(outcome.error))
            store.write_results(folder, about, store.joined(kept.values()))
            if report is not None:
                report(n_done, len(identities), task.id)
        shutil.rmtree(folder / store.SHARED, ignore_errors=True)
        rows = store.joined(kept.values())
        store.write_results(folder, about, compare_stages(Results(folder, about, rows)))
        return store.read_results(folder)


def _stored(folder: Path, identities: Mapping[Job, str]) -> dict[Job, Rows]:
    """Return the rows of an earlier run by job, of jobs that would give the same again."""
    rows = store.read_rows(folder)
    found = store.distinct(rows, (*store.JOB, "identity")) if len(rows) else []
    done = {Job(**{name: each[name] for name in store.JOB}): each["identity"] for each in found}
    kept = [job for job, identity in done.items() if identities.get(job) == identity]
    return {job: store.select(rows, **asdict(job)) for job in kept}


@contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Make and lock a study's folder while the block runs; a second run in it is an error."""
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / store.LOCK
    try:
        with locked(lock):
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
    except BlockingIOError:
        raise OutputError(f"cannot write to {folder}: another run is writing there.") from None
    finally:
        with suppress(OSError):  # not empty: it has results
            folder.rmdir()


def prepare_study(
    config: StudyConfig, folder: Path, *, data: Path = Path(), overwrite: bool = False
) -> tuple[dict[str, Any], dict[Job, str]]:
    """Write a new study's nights and description; return that, and by job what its rows follow from.

    An earlier study is removed last, when everything that can be refused has been.
    """
    document, config = plain(config), config.at(data)
    path = folder / store.NIGHTS
    is_new = overwrite or not (folder / store.ABOUT).exists()
    if is_new and folder.exists() and (names := store.other_files(folder)):
        raise OutputExistsError(f"{folder} holds other files ({names[0]}). Choose a new or empty folder.")
    content = cohort_bytes(read_cohort(config.cohort)) if is_new else read_file(path)
    cohort = cohort_of(content, str(path))
    config.check(cohort.epoch_seconds)
    subjects = {night.subject: dict(night.covariates) for night in cohort.nights}
    check_groups(config.robustness, subjects)
    jobs = jobs_of(config, len(make_folds(cohort.subjects, config.split, config.seed)))
    predictions = {job: prediction_identity(config, cohort.fingerprint, job) for job in jobs}
    profiles = {key: Profile.load(name) for key, name in config.guard.profiles.items()}
    about: dict[str, Any] = {
        "study": document,
        "environment": store.environment(),
        "profiles": {key: {"name": each.name, "sha256": each.sha256} for key, each in profiles.items()},
        "nights_sha256": hashlib.sha256(content).hexdigest(),
        "synthetic": cohort.is_synthetic,
        "n_jobs": len(jobs),
        "stages": list(config.scheme.names),
        "epoch_seconds": cohort.epoch_seconds,
        "rare": plain(profiles["paper"].tvr_pairs),
        "joint_threshold": None if (joint := profiles["base"].joint) is None else joint.threshold,
        "subjects": subjects,
        "failures": [],
    }
    if is_new:
        store.clear(folder)
        write_together({path: content, folder / store.ABOUT: store.json_text(about)}, make_folders=True)
    else:
        _check_same(store.read_about(folder), about)
    return about, {job: judgement_identity(config, each) for job, each in predictions.items()}


def _check_same(before: Mapping[str, Any], about: dict[str, Any]) -> None:
    """Refuse the folder of a study of other nights, or of stagers fitted otherwise; other guards are none."""
    old, new = ({**each["study"], "nights": each["nights_sha256"]} for each in (before, about))
    for key in ("name", "cohort", "nights", "split", "seed", "training"):
        if old.get(key) != new.get(key):
            found = f"the folder holds a study of another configuration ({key} differs)"
            raise OutputExistsError(f"{found}. Use overwrite=True (--overwrite) to begin anew.")
    about["environment"]["begun"] = before["environment"]["begun"]


def compare_stages(results: Results) -> Rows:
    """Return the rows with what needs the stages of several jobs of the main comparison.

    ``epochs_unlike_paper`` counts the epochs scored by the expert that differ from the published method.
    ``kappa_with_usleep`` and ``equal_with_usleep`` are Cohen's kappa with that network by the same variant,
    and the share of equal epochs; each two networks are compared once.
    """
    names, rows = results.backbones, results.rows
    stages = {name: results.stages(name) for name in names}
    main = {tuple(job.values()) for name in names for job in store.distinct(results.main(name), store.JOB)}
    pairs = [f"{what}_with_{name}" for name in names[1:] for what in ("kappa", "equal")]
    added = {name: np.full(len(rows), NAN) for name in ("epochs_unlike_paper", *pairs)}
    for number, row in enumerate(rows.select([*store.JOB, *store.WAY, "recording"]).to_pylist()):
        if tuple(row[name] for name in store.JOB) not in main:
            continue
        own, key, who = stages[row["backbone"]], store.stages_key(row), {"recording": row["recording"]}
        whole = own.get(store.stages_key({"loss": results.trained, "variant": PAPER, **who}))
        if whole is not None:
            scored = own[store.stages_key({"loss": BASE, "variant": EXPERT, **who})] >= 0
            added["epochs_unlike_paper"][number] = np.count_nonzero((own[key] != whole) & scored)
        is_compared = row["variant"] in (ARGMAX, *GUARDED) and not row["change"]
        for other in names[names.index(row["backbone"]) + 1 :] if is_compared else ():
            if key in stages[other]:
                counted = contingency(own[key], stages[other][key], len(results.about["stages"]))
                equal = np.trace(counted) / n if (n := counted.sum()) else NAN
                added[f"kappa_with_{other}"][number] = _rounded(cohen_kappa(counted))
                added[f"equal_with_{other}"][number] = _rounded(float(equal))
    return store.with_columns(rows, added)
