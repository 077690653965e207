"""The folder of a study: `results.json` and `results.parquet`, from which every table follows.

results.json     configuration, environment, profiles, folds, jobs that failed
results.parquet  a row per night and variant, which `JOB` and `WAY` name, with numbers
nights.npz       the nights; this file and the folders below hold epochs and are not to be published
predictions      by job, a stager's probabilities of test and validation nights, and how it was fitted
stages           by job, the stages of the test nights by expert and variant: see `stages_key`
shared, lock     only during a run: states that several networks go on from, and who writes
"""

from __future__ import annotations

import io
import json
import platform
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.documents import read_fields
from stageguard.errors import FileFormatError, InputError, MissingFileError
from stageguard.files import faults_named, file_error, load_json, read_file, write_together
from stageguard.lazy import library
from stageguard.measures.cohort import ARCHITECTURE
from stageguard.study.config import BASE, PENALTY, Job, StudyConfig

# Columns that name a job: a stager of one fold, and how it was trained.
JOB = ("backbone", "loss", "penalty_weight", "is_tuned", "seed", "label_noise", "fold")
# Columns that name how its probabilities became stages. A change of the published rules may have a value and
# a pair of stages that it is about.
WAY = ("variant", "change", "value", "pair")

# Types of columns that every study has, filled or not.
COLUMNS = {
    **dict.fromkeys(("study", *JOB, *WAY, "recording", "subject", "identity", "calibrated_by"), "string"),
    **dict.fromkeys(("penalty_weight", "label_noise", "value", "chosen_weight", "chosen_nats"), "float64"),
    **dict.fromkeys(("step_seconds", "decode_seconds"), "float64"),
    **{"is_tuned": "bool", "seed": "int64", "fold": "int64"},
}

# What the stages show of each sleep statistic less what the expert's do, signed; see `variants.measure`.
ERRORS = {metric: f"{metric}_error" for metric in ARCHITECTURE}

EXPERT, MAJORITY_CLASS, ARGMAX = "expert", "majority class", "argmax"
PAPER, RELEASED, CALIBRATED = GUARDED = ("paper", "released", "calibrated")

ABOUT_KEYS = ("n_jobs", "stages", "failures", "synthetic", "environment")  # what tables need of results.json
ABOUT, ROWS, NIGHTS, PREDICTIONS = "results.json", "results.parquet", "nights.npz", "predictions"
STAGES, SHARED, LOCK, TABLES_FOLDER, FIGURES = "stages", "shared", "lock", "tables", "figures"
_FOLDERS, _FILES = (STAGES, PREDICTIONS, SHARED, TABLES_FOLDER, FIGURES), (ABOUT, ROWS, NIGHTS)

Rows = Any  # a pyarrow.Table, which has no types


def arrow(module: str = "") -> Any:
    """Return pyarrow, or one of its modules."""
    return library(f"pyarrow{module}", "the results of a study", "study")


@dataclass(frozen=True, eq=False)
class Results:
    """All stored results of a study, for tables and figures."""

    folder: Path
    about: Mapping[str, Any]  # results.json
    rows: Rows = field(repr=False)  # results.parquet
    _found: dict[Any, Rows] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def config(self) -> StudyConfig:
        """The study's configuration."""
        return read_fields(StudyConfig, self.about["study"])

    @cached_property
    def n_done(self) -> int:
        """Number of jobs that are done."""
        return len(distinct(self.rows, JOB))

    @property
    def progress(self) -> str:
        """Number of jobs that are done, as in `4 of 80 jobs`."""
        n_jobs = self.about["n_jobs"]
        return f"{self.n_done} of {n_jobs} job{'s' * (n_jobs != 1)}"

    @property
    def warnings(self) -> list[str]:
        """Reasons why these are not the results of a complete study of real sleepers."""
        reasons = []
        if self.n_done < self.about["n_jobs"]:
            reasons.append(f"UNFINISHED: {self.progress} done.")
        if self.config.smoke:
            reasons.append("SMOKE version: small, to see that everything works; its numbers say nothing.")
        if self.about["synthetic"]:
            reasons.append("SYNTHETIC nights: nobody slept them, and they are no evidence about sleepers.")
        return reasons

    @cached_property
    def _main(self) -> dict[str, Rows]:
        config = self.config
        usual = select(self.rows, seed=config.seed, label_noise=0.0)
        # with a tuning subject, the network of the fixed lambda is one of the variations
        is_tuned = config.split.tuning_subject is not None
        penalised = select(usual, loss=PENALTY, penalty_weight=config.guard.penalty_weight, is_tuned=is_tuned)
        both = joined([select(usual, loss=BASE), penalised])
        return {name: select(both, backbone=name) for name in config.names}

    def main(self, name: str) -> Rows:
        """Return a network's rows of the main comparison: the study's seed, lambda and labels."""
        return self._main.get(name, self.rows.slice(0, 0))

    @cached_property
    def backbones(self) -> list[str]:
        """The networks and other stagers of the main comparison that have results."""
        return [name for name, rows in self._main.items() if len(select(rows, loss=BASE))]

    @cached_property
    def trained(self) -> str:
        """The loss of the networks that the published method guards: with the penalty, if there are such."""
        return PENALTY if len(select(self.rows, loss=PENALTY)) else BASE

    def of(self, name: str, variant: str, *, loss: str | None = None, change: str = "") -> Rows:
        """Return a network's rows of the main comparison by one variant; `PENALTY` is argmax with that loss.

        By default the published and the released rules are those of the network trained with the penalty, or
        of a stager that is not trained with it.
        """
        key = name, variant, loss, change
        if variant == PENALTY:
            variant, loss = ARGMAX, PENALTY
        if key not in self._found:
            found = select(self.main(name), variant=variant, change=change)
            if loss is None:
                has_both = variant in (PAPER, RELEASED) and PENALTY in found["loss"].to_pylist()
                loss = PENALTY if has_both else BASE
            self._found[key] = select(found, loss=loss)
        return self._found[key]

    def stages(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Return the stages of a network's test nights by loss, variant and recording: see `stages_key`."""
        stages: dict[str, npt.NDArray[Any]] = {}
        for facts in distinct(self.main(name), JOB):
            stages |= read_arrays(self.folder / STAGES / f"{Job(**facts).key}.npz")[0]
        return stages


def stages_key(row: Mapping[str, Any]) -> str:
    """Return the name of a night's stages by a variant."""
    facts = [row["loss"], *(row.get(name) for name in WAY), row["recording"]]
    return "/".join(str(fact) for fact in facts if fact not in ("", None))


def select(rows: Rows, **facts: object) -> Rows:
    """Return the rows whose columns have these values; None is missing."""
    compute = arrow(".compute")
    columns = {name: rows[name] for name in facts}
    masks = [c.is_null() if facts[n] is None else compute.equal(c, facts[n]) for n, c in columns.items()]
    return rows.filter(reduce(compute.and_, masks)) if masks else rows


def distinct(rows: Rows, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the combinations of values in columns, in the order of their first rows."""
    found: list[dict[str, Any]] = rows.group_by(list(names), use_threads=False).aggregate([]).to_pylist()
    return found


def means(rows: Rows, metric: str) -> dict[str, float]:
    """Return a metric by subject, averaged over nights that have it; of errors, their size."""
    by_subject: dict[str, list[float]] = {}
    values = rows[metric].to_pylist() if metric in rows.column_names else []
    for subject, value in zip(rows["subject"].to_pylist(), values, strict=bool(values)):
        if value is not None:
            by_subject.setdefault(subject, []).append(abs(value) if metric in ERRORS.values() else value)
    return {subject: sum(found) / len(found) for subject, found in sorted(by_subject.items())}


def by_night(rows: Rows, metric: str) -> dict[str, float]:
    """Return a metric by recording; nights without it are left out."""
    if metric not in rows.column_names:
        return {}
    known = rows.select(["recording", metric]).drop_null().sort_by("recording")
    return dict(zip(known["recording"].to_pylist(), known[metric].to_pylist(), strict=True))


def rows_of(records: Sequence[Mapping[str, Any]]) -> Rows:
    """Return rows as a table; what one does not have is missing, and so is NaN."""
    names = dict.fromkeys(name for record in records for name in record)
    columns = {name: [record.get(name) for record in records] for name in names}
    return arrow().table({name: arrow().array(values, from_pandas=True) for name, values in columns.items()})


def joined(tables: Iterable[Rows]) -> Rows:
    """Return tables below each other, sorted by job; a column that one does not have is missing there."""
    pa = arrow()
    empty = pa.table({name: pa.array([], kind) for name, kind in COLUMNS.items()})
    together = pa.concat_tables([empty, *tables], promote_options="default")
    return together.sort_by([(name, "ascending") for name in JOB])


def with_columns(rows: Rows, added: Mapping[str, Any]) -> Rows:
    """Return rows with further columns of numbers, or other ones; NaN is missing."""
    for name, values in added.items():
        rows = rows.drop_columns([name]) if name in rows.column_names else rows
        rows = rows.append_column(name, arrow().array(values, from_pandas=True))
    return rows


def read_results(folder: str | Path) -> Results:
    """Read a study's results."""
    return Results(Path(folder), read_about(Path(folder)), read_rows(Path(folder)))


def read_about(folder: Path) -> dict[str, Any]:
    """Return the content of results.json."""
    path = folder / ABOUT
    if not path.is_file():
        raise MissingFileError(f"{folder}: holds no {ABOUT}. Expected what `stageguard study run` wrote.")
    about: dict[str, Any] = load_json(path)
    try:
        read_fields(StudyConfig, about["study"])
        return {key: about[key] for key in (*ABOUT_KEYS, *about)}
    except (InputError, KeyError, TypeError) as error:
        raise file_error(path, f"was edited or damaged ({error}).") from None


def read_rows(folder: Path) -> Rows:
    """Return results.parquet, without rows if no job is done yet."""
    path = folder / ROWS
    if not path.is_file():
        return joined([])
    with faults_named(str(path)):
        return joined([arrow(".parquet").read_table(io.BytesIO(read_file(path)))])


def write_results(folder: Path, about: Mapping[str, Any], rows: Rows) -> None:
    """Write results.json and results.parquet, both or neither."""
    buffer = io.BytesIO()
    arrow(".parquet").write_table(rows, buffer, compression="zstd")
    write_together({folder / ROWS: buffer.getvalue(), folder / ABOUT: json_text(about)}, overwrite=True)


def json_text(document: Mapping[str, Any]) -> str:
    """Return a document as JSON."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]], about: Mapping[str, Any]) -> None:
    """Write arrays of epochs, with facts about them in JSON types."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{**arrays, "about": np.array(json.dumps(about))})  # type: ignore[arg-type]
    write_together({path: buffer.getvalue()}, overwrite=True, make_folders=True)


def read_arrays(path: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return what `write_arrays` wrote."""
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file. Epochs lie where the study was run.")
    with faults_named(str(path)), np.load(io.BytesIO(read_file(path))) as archive:
        return {name: archive[name] for name in archive.files}, json.loads(str(archive["about"]))


def read_prediction(folder: Path, job: Job) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]] | None:
    """Return the probabilities and facts of a stored prediction; None if there is none that can be read."""
    try:
        return read_arrays(folder / PREDICTIONS / f"{job.key}.npz")
    except (MissingFileError, FileFormatError):  # if it was cut short, the stager is fitted again
        return None


def environment() -> dict[str, Any]:
    """Return when, from which commit and with what versions numbers are computed."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True) if shutil.which("git") else None
    facts = {"begun": datetime.now(UTC).isoformat(timespec="seconds"), "python": platform.python_version()}
    commit = done.stdout.strip() or None if done else None  # None if it is no clone
    libraries = ("stageguard", "numpy", "torch", "scipy")
    return {**facts, "commit": commit, **{name: version(name) for name in libraries}}


def clear(folder: Path) -> None:
    """Remove a study from its folder."""
    for name in _FOLDERS:
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)


def other_files(folder: Path) -> list[str]:
    """Return the names in a folder that no study writes; all of them if there is no study."""
    own = (*_FOLDERS, *_FILES) if (folder / ABOUT).is_file() else ()
    return sorted(path.name for path in folder.iterdir() if path.name not in (*own, LOCK))
