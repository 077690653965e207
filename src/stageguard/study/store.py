"""The folder of a study: configuration, nights, and of every job what it predicted and how that was guarded.

study.json             configuration, versions, commit, fingerprint of the nights
cohort.npz             the nights; not to be published
predictions/KEY.json   how a stager was fitted
predictions/KEY.parquet  its probabilities of test and validation nights
jobs/KEY.json          the record of a job, or its error
stages/KEY.parquet     stages of the test nights by expert and variant
results.jsonl          all records in one file, read if there is no folder jobs
derived.json           numbers that tables need from the stages: see `derived`
shared                 only during a run: states that several networks go on from
lock                   only during a run
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.errors import OVERWRITE, FileFormatError, Message, MissingFileError, OutputExistsError
from stageguard.extras import library
from stageguard.files import (
    faults_named,
    file_error,
    load_json,
    parse_json,
    read_file,
    write_together,
)

BASE, PENALTY, PAPER, RELEASED, CALIBRATED = "base", "penalty", "paper", "released", "calibrated"
EXPERT, MAJORITY_CLASS = "expert", "majority class"
TITLES = {
    EXPERT: "expert",
    MAJORITY_CLASS: "most frequent stage",
    BASE: "argmax",
    "majority filter": "majority filter",
    "hmm": "plain HMM",
    CALIBRATED: "calibrated guard",
    "paper, no penalty": "published decoder, no penalty in training",
    PENALTY: "penalty in training alone",
    PAPER: "published method",
    RELEASED: "released code",
    "released, no penalty": "released decoder, no penalty in training",
    "paper, transitions alone": "penalty + transitions",
    "paper, no flip-flop": "without flip-flop (penalty + transitions + minimum bouts)",
    "paper, no transitions": "without transitions",
    "paper, no minimum bouts": "without minimum bouts",
    "paper, no quality": "without signal quality",
    "paper, exact flip-flop": "with the exact flip-flop",
}
GUARDED = (PAPER, RELEASED, CALIBRATED)
METRICS = {  # heading and decimals of each number in tables
    "tvr_percent": ("TVR (%)", 2),
    "fi": ("FI", 3),
    "accuracy": ("accuracy", 3),
    "kappa": ("κ", 3),
    "rare_recall": ("rare recall", 3),
    "f1_R": ("F1 of R", 3),
}
MAIN = ("tvr_percent", "fi", "accuracy", "kappa")  # of the main comparison

STUDY, COHORT, JOBS, PREDICTIONS, RESULTS = "study.json", "cohort.npz", "jobs", "predictions", "results.jsonl"
STAGES, DERIVED, SHARED, LOCK = "stages", "derived.json", "shared", "lock"
TABLES_FOLDER, FIGURES_FOLDER, PAGE = "tables", "figures", "report.md"
VERSIONED = ("numpy", "torch", "scipy")

# What the files hold, by key: a file without one of these, or with another kind of value, was edited.
Kinds = dict[str, Any]
NUMBER = int | float
ABOUT: Kinds = {"study": dict, "n_jobs": int, "begun": str, "versions": dict, "commit": str | None,
                "cohort_sha256": str}  # fmt: skip
CONFIGURED: Kinds = {"name": str, "title": str, "seed": int, "backbones": list, "cohort": dict, "split": dict,
                     "guard": dict, "robustness": dict}  # fmt: skip
JOB: Kinds = {"key": str, "backbone": str, "loss": str}
RECORD: Kinds = JOB | {
    **{"weight": NUMBER, "seed": int, "label_noise": NUMBER, "fold": int, "is_tuned": bool, "chosen": dict},
    **{"rows": list, "covariates": dict, "transitions": list, "stages": list, "epoch_seconds": NUMBER},
    **{"calibrated_by": str | None, "costs": dict},
}
COSTS: Kinds = {"forward_seconds": NUMBER, "training_seconds": NUMBER, "peak_memory_mb": NUMBER,
                "decode_seconds": dict}  # fmt: skip
ROW: Kinds = {"recording": str, "subject": str, "variant": str, "n_epochs": NUMBER}


@dataclass(frozen=True, slots=True)
class Results:
    """All stored results of a study, for tables and figures."""

    folder: Path
    about: Mapping[str, Any]  # study.json
    records: tuple[Mapping[str, Any], ...] = field(repr=False)  # jobs that are done
    failures: tuple[Mapping[str, Any], ...] = ()  # jobs that failed, with their error

    @property
    def study(self) -> Mapping[str, Any]:
        """The configuration's document."""
        study: Mapping[str, Any] = self.about["study"]
        return study

    @property
    def is_synthetic(self) -> bool:
        """Whether the nights are simulated."""
        return bool(self.about.get("synthetic", False))

    @property
    def n_jobs(self) -> int:
        """Number of jobs of the whole study."""
        return int(self.about["n_jobs"])

    @property
    def is_unfinished(self) -> bool:
        """Whether jobs are missing."""
        return len(self.records) < self.n_jobs

    @property
    def progress(self) -> str:
        """Number of jobs that are done, as in `4 of 80 jobs`."""
        return f"{len(self.records)} of {self.n_jobs} job{'s' * (self.n_jobs != 1)}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons why these are not the results of a complete study of real sleepers."""
        reasons = []
        if self.is_unfinished:
            reasons.append(f"UNFINISHED: {self.progress} done.")
        if self.study.get("smoke"):
            reasons.append("SMOKE version: small, to see that everything works; its numbers say nothing.")
        if self.is_synthetic:
            reasons.append("SYNTHETIC nights: nobody slept them, and they are no evidence about sleepers.")
        return tuple(reasons)

    def select(self, **wanted: Any) -> list[Mapping[str, Any]]:
        """Return the records whose fields have these values."""
        return [r for r in self.records if all(r[key] == value for key, value in wanted.items())]

    def main(self, backbone: str, loss: str) -> list[Mapping[str, Any]]:
        """Return a backbone's records of the main comparison: the study's seed, lambda and labels."""
        weight = self.study["guard"]["penalty_weight"] if loss == "penalty" else 0.0
        records = self.select(
            backbone=backbone, loss=loss, weight=weight, seed=self.study["seed"], label_noise=0.0
        )
        # with a tuning subject, the network of the fixed lambda is one of the variations
        is_tuned = loss == "penalty" and "tuning_subject" in self.study["split"]
        return [record for record in records if record["is_tuned"] == is_tuned]

    @property
    def _stagers(self) -> list[str]:
        return [*self.study["backbones"], *self.study.get("stagers", ())]

    @property
    def backbones(self) -> list[str]:
        """The networks and other stagers of the main comparison that have results."""
        return [name for name in self._stagers if self.main(name, "base")]

    @property
    def varied(self) -> str:
        """The network or stager that is varied."""
        return str(self.study["robustness"].get("backbone") or self._stagers[0])

    def of(self, backbone: str) -> list[Mapping[str, Any]]:
        """Return a backbone's records of the main comparison, of every loss."""
        return [r for loss in ("base", "penalty") for r in self.main(backbone, loss)]

    def experts(self) -> dict[str, Mapping[str, Any]]:
        """Return the row of the expert's stages by recording."""
        rows = (row for record in self.records if record["loss"] == "base" for row in record["rows"])
        return {row["recording"]: row for row in rows if row["variant"] == EXPERT}


def subject_means(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the mean by subject of pairs of subject and number."""
    by_subject: dict[str, list[float]] = {}
    for subject, number in pairs:
        by_subject.setdefault(subject, []).append(number)
    return {subject: float(np.mean(numbers)) for subject, numbers in sorted(by_subject.items())}


def values(records: Iterable[Mapping[str, Any]], variant: str, metric: str) -> dict[str, float]:
    """Return a metric by subject, averaged over nights; missing values are left out."""
    rows = (row for record in records for row in record["rows"] if row["variant"] == variant)
    return subject_means((row["subject"], row[metric]) for row in rows if row.get(metric) is not None)


def night_values(records: Iterable[Mapping[str, Any]], variant: str, metric: str) -> dict[str, float]:
    """Return a metric by recording."""
    return {
        row["recording"]: row[metric]
        for record in records
        for row in record["rows"]
        if row["variant"] == variant and row.get(metric) is not None
    }


def variants_in(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the variants of the records' rows, in order."""
    return list(dict.fromkeys(row["variant"] for record in records for row in record["rows"]))


def describe(study: Mapping[str, Any], cohort_sha256: str, *, n_jobs: int, synthetic: bool) -> dict[str, Any]:
    """Return the content of study.json."""
    return {
        "study": study,
        "n_jobs": n_jobs,
        "synthetic": synthetic,
        "cohort_sha256": cohort_sha256,
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "commit": commit(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that computed the numbers."""
    installed = {"python": platform.python_version()}
    for name in ("stageguard", *VERSIONED):
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed


def commit() -> str | None:
    """Return the commit of the source from which this package runs; None if it is installed otherwise."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def open_study(folder: Path, about: Mapping[str, Any], predictions: Mapping[str, str]) -> None:
    """Start a study in a folder, or continue it.

    A study of other nights or with predictions of other identities is an error; other guards are none.
    """
    path = folder / STUDY
    if path.exists():
        there = read_about(folder)
        stored = prediction_identities(folder)
        odd = [key for key, identity in stored.items() if predictions.get(key, identity) != identity]
        if odd:
            _refuse(folder, f"another configuration ({odd[0]} was trained otherwise)")
        same = parse_json(json.dumps(about["study"]))
        for key in ("name", "cohort", "seed", "split"):
            if there["study"].get(key) != same[key]:
                _refuse(folder, f"another configuration ({key} differs)")
        if there["cohort_sha256"] != about["cohort_sha256"]:
            _refuse(folder, "other nights")
        about = {**about, "begun": there["begun"]}
    write_together({path: _text(about)}, overwrite=True, make_folders=True)


def _refuse(folder: Path, what: str) -> NoReturn:
    raise OutputExistsError(
        Message(f"{folder} holds a study of {what}. ", OVERWRITE, " to begin anew, or choose another folder.")
    )


_FOLDERS = (JOBS, STAGES, PREDICTIONS, SHARED, TABLES_FOLDER, FIGURES_FOLDER)
_FILES = (STUDY, COHORT, RESULTS, DERIVED, PAGE)


def clear(folder: Path) -> None:
    """Remove a study from its folder."""
    for name in _FOLDERS:
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)


def other_files(folder: Path) -> list[str]:
    """Return the names in a folder that no study writes; all of them if there is no study."""
    own = (*_FOLDERS, *_FILES) if (folder / STUDY).is_file() else ()
    return sorted(path.name for path in folder.iterdir() if path.name not in (*own, LOCK))


def keep_records(folder: Path, keys: Collection[str]) -> None:
    """Remove the records of jobs that are no part of the study any more; their predictions stay."""
    for path in (folder / JOBS).glob("*.json"):
        if path.stem not in keys:
            path.unlink()


def save_prediction(folder: Path, key: str, facts: Mapping[str, Any], table: bytes) -> None:
    """Store what a stager predicted, and how it was fitted; both files or neither."""
    path = folder / PREDICTIONS / key
    contents: dict[Path, str | bytes] = {
        path.with_name(f"{key}.json"): _text(facts),
        path.with_name(f"{key}.parquet"): table,
    }
    write_together(contents, overwrite=True, make_folders=True)


def prediction_identities(folder: Path) -> dict[str, str]:
    """Return the identities of the stored predictions by key."""
    files = sorted((folder / PREDICTIONS).glob("*.json"))
    return {path.stem: _checked(path, load_json(path), {"identity": str})["identity"] for path in files}


def read_prediction(folder: Path, key: str) -> tuple[dict[str, Any], bytes] | None:
    """Return the facts and the table of a stored prediction; None if there is none that can be read."""
    path = folder / PREDICTIONS / f"{key}.json"
    if not path.is_file():
        return None
    table = read_file(path.with_name(f"{key}.parquet"), "an array")
    try:
        read_columns(table)
    except (OSError, ValueError):  # cut short or damaged: the stager is fitted again
        return None
    return load_json(path), table


def save_record(folder: Path, record: Mapping[str, Any], stages: bytes | None) -> None:
    """Store the record of a job, or its error, with its hash and its stages; both files or neither."""
    sealed = {**record, "sha256": _content_sha256(record)}
    contents: dict[Path, str | bytes] = {folder / JOBS / f"{record['key']}.json": _text(sealed, indent=None)}
    if stages is not None:
        contents[folder / STAGES / f"{record['key']}.parquet"] = stages
    write_together(contents, overwrite=True, make_folders=True)


def _content_sha256(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(record, indent=None).encode()).hexdigest()


def done_identities(folder: Path) -> dict[str, str]:
    """Return the identities of the jobs that are done, by key; not those that failed or were edited."""
    done = {}
    for path in _job_files(folder):
        try:
            record = _read_job(path)
        except FileFormatError:  # the job is done again
            continue
        if "error" not in record:
            done[record["key"]] = str(record.get("identity"))
    return done


def read_results(folder: str | Path) -> Results:
    """Read a study's folder."""
    folder = Path(folder)
    about, records = read_about(folder), list(_records(folder))
    return Results(
        folder,
        about,
        tuple(record for record in records if "error" not in record),
        tuple(record for record in records if "error" in record),
    )


def read_about(folder: Path) -> dict[str, Any]:
    """Return the content of study.json."""
    path = folder / STUDY
    if not path.is_file():
        raise MissingFileError(f"{folder}: holds no {STUDY}. Expected what `stageguard study run` wrote.")
    about = _checked(path, load_json(path), ABOUT)
    _checked(path, about["study"], CONFIGURED, "its study ")
    return about


def write_results(folder: Path) -> None:
    """Write all records into one file, to keep a study without its nights."""
    write_together({folder / RESULTS: results_text(folder)}, overwrite=True)


def study_text(results: Results) -> str:
    """Return the text of study.json."""
    return _text(results.about)


def results_text(folder: Path) -> str:
    """Return all records, one per line; the keys of a record's rows are written once."""
    return "".join(_text(_pack(record), indent=None) for record in _records(folder))


def _pack(record: Mapping[str, Any]) -> dict[str, Any]:
    rows = record.get("rows", [])
    if not rows:
        return dict(record)
    columns = list(rows[0])
    return dict(record) | {"columns": columns, "rows": [[row.get(key) for key in columns] for row in rows]}


def _unpack(record: Mapping[str, Any]) -> dict[str, Any]:
    columns = record.get("columns")
    if columns is None:
        return dict(record)
    rows = [dict(zip(columns, row, strict=True)) for row in record["rows"]]
    return {key: value for key, value in record.items() if key != "columns"} | {"rows": rows}


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    files, packed = _job_files(folder), folder / RESULTS
    if files:
        yield from map(_read_job, files)
    elif packed.is_file():
        for number, line in enumerate(read_file(packed, "text").splitlines(), start=1):
            where = f"line {number} "
            try:
                record = _unpack(parse_json(line))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                raise file_error(packed, f"{where}is no record of a job. Was it copied completely?") from None
            yield _checked_record(packed, record, where)


def _job_files(folder: Path) -> list[Path]:
    return sorted((folder / JOBS).glob("*.json"))


def _read_job(path: Path) -> dict[str, Any]:
    """Return the record of a job; one whose content is not that of its hash is refused."""
    record = _checked(path, load_json(path), JOB | {"sha256": str})
    if record.pop("sha256") != _content_sha256(record):
        raise file_error(path, "was edited: its hash is not that of its content. Run the study again.")
    return _checked_record(path, record)


def _checked_record(path: Path, record: Any, where: str = "") -> dict[str, Any]:
    if isinstance(record, dict) and "error" in record:
        return _checked(path, record, JOB | {"error": str}, where)
    _checked(path, record, RECORD, where)
    _checked(path, record["costs"], COSTS, f"{where}its costs ")
    for row in record["rows"]:
        _checked(path, row, ROW, f"{where}a row ")
        numbers = dict.fromkeys(row.keys() - ROW.keys(), NUMBER | None)
        _checked(path, row, numbers, f"{where}a row ")
    return dict(record)


def _checked(path: Path, document: Any, kinds: Kinds, where: str = "") -> dict[str, Any]:
    """Return a document that has values of these kinds by these keys; refuse any other in one line."""
    if not isinstance(document, dict):
        raise file_error(path, f"{where}is no table of keys: it was edited or damaged.")
    for key, kind in kinds.items():
        if key not in document:
            raise file_error(path, f"{where}has no {key!r}: it was edited or damaged.")
        if not isinstance(document[key], kind):
            shown = checks.shown(document[key])
            raise file_error(path, f"{where}has {shown} as {key!r}: it was edited or damaged.")
    return document


def read_stages(folder: Path, key: str) -> dict[str, Any]:
    """Return the stages of a job's test nights, column by column."""
    path = folder / STAGES / f"{key}.parquet"
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file. Stages of epochs lie where the study was run.")
    with faults_named(str(path)):
        return read_columns(read_file(path, "an array"))


def _text(document: Mapping[str, Any], indent: int | None = 1) -> str:
    return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False) + "\n"


def columns_as_parquet(columns: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return the bytes of a Parquet table; columns of text are written as codes."""
    arrow = library("pyarrow", "predictions of a study", "study")
    parquet = library("pyarrow.parquet", "predictions of a study", "study")
    arrays = {
        name: arrow.array(column).dictionary_encode() if column.dtype.kind == "U" else column
        for name, column in columns.items()
    }
    buffer = io.BytesIO()
    parquet.write_table(arrow.table(arrays), buffer, compression="zstd")
    return buffer.getvalue()


def read_columns(data: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of a Parquet table by name."""
    parquet = library("pyarrow.parquet", "predictions of a study", "study")
    table = parquet.read_table(io.BytesIO(data))
    columns = {name: table[name].to_numpy() for name in table.column_names}
    return {name: c.astype(np.str_) if c.dtype == object else c for name, c in columns.items()}
