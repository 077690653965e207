"""The folder of a study: configuration, nights, and one record and one table of predictions per job.

study.json             configuration, versions, commit, fingerprint of the nights
cohort.npz             the nights; not to be published
jobs/KEY.json          the record of a job, or its error
predictions/KEY.parquet
results.jsonl          all records in one file, read if there is no folder jobs
derived.json           numbers that tables need from the predictions: see `derived`
lock                   only during a run
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base.errors import OVERWRITE, Message, MissingFileError, OutputExistsError
from stageguard.base.extras import library
from stageguard.base.files import load_json, open_file, parse_json, read_file, read_text, write_together
from stageguard.base.records import dataclass
from stageguard.study.names import EXPERT

STUDY, COHORT, JOBS, PREDICTIONS, RESULTS = "study.json", "cohort.npz", "jobs", "predictions", "results.jsonl"
DERIVED, LOCK = "derived.json", "lock"
VERSIONED = ("numpy", "torch", "scipy")


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
    def n_jobs(self) -> int | None:
        """Number of jobs of the whole study; None if unknown."""
        return self.about.get("n_jobs")

    @property
    def is_unfinished(self) -> bool:
        """Whether jobs are missing."""
        return self.n_jobs is not None and len(self.records) < self.n_jobs

    @property
    def progress(self) -> str:
        """Number of jobs that are done, as in `4 of 80 jobs`."""
        total = "" if self.n_jobs is None else f" of {self.n_jobs}"
        return f"{len(self.records)}{total} job{'s' * ((self.n_jobs or len(self.records)) != 1)}"

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
        seed = self.study["seed"]
        return self.select(backbone=backbone, loss=loss, weight=weight, seed=seed, label_noise=0.0)

    @property
    def backbones(self) -> list[str]:
        """The networks of the main comparison that have results."""
        return [name for name in self.study["backbones"] if self.main(name, "base")]

    def of(self, backbone: str) -> list[Mapping[str, Any]]:
        """Return a backbone's records of the main comparison, of every loss."""
        return [r for loss in ("base", "penalty", "semi-markov") for r in self.main(backbone, loss)]

    def experts(self) -> dict[str, Mapping[str, Any]]:
        """Return the row of the expert's stages by recording."""
        rows = (row for record in self.records if record["loss"] == "base" for row in record["rows"])
        return {row["recording"]: row for row in rows if row["variant"] == EXPERT}


def values(records: Iterable[Mapping[str, Any]], variant: str, metric: str) -> dict[str, float]:
    """Return a metric by subject, averaged over nights; missing values are left out."""
    by_subject: dict[str, list[float]] = {}
    for record in records:
        for row in record["rows"]:
            if row["variant"] == variant and row.get(metric) is not None:
                by_subject.setdefault(row["subject"], []).append(row[metric])
    return {subject: float(np.mean(numbers)) for subject, numbers in sorted(by_subject.items())}


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


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(read_file(path, "an array")).hexdigest()


def open_study(folder: Path, about: Mapping[str, Any]) -> None:
    """Start a study in a folder, or continue the same study; another study is an error."""
    path = folder / STUDY
    if not path.exists():
        write_together({path: _text(about)}, make_folders=True)
        return
    there = load_json(path)
    for key, what in (("study", "another configuration"), ("cohort_sha256", "other nights")):
        if there.get(key) != parse_json(json.dumps(about[key])):
            raise OutputExistsError(
                Message(
                    f"{folder} holds a study of {what}. ",
                    OVERWRITE,
                    " to begin anew, or choose another folder.",
                )
            )


def save_record(folder: Path, record: Mapping[str, Any], predictions: bytes | None) -> None:
    """Store the record of a job, or its error, with its predictions; both files or neither."""
    contents: dict[Path, str | bytes] = {folder / JOBS / f"{record['key']}.json": _text(record, indent=None)}
    if predictions is not None:
        contents[folder / PREDICTIONS / f"{record['key']}.parquet"] = predictions
    write_together(contents, overwrite=True, make_folders=True)


def done_keys(folder: Path) -> set[str]:
    """Return the keys of the jobs that are done and did not fail."""
    return {record["key"] for record in _records(folder) if "error" not in record}


def read_results(folder: str | Path) -> Results:
    """Read a study's folder."""
    folder = Path(folder)
    path = folder / STUDY
    if not path.is_file():
        raise MissingFileError(f"{folder}: holds no {STUDY}. Expected what `stageguard study run` wrote.")
    records, about = list(_records(folder)), load_json(path)
    if "n_jobs" not in about and (folder / COHORT).is_file():
        from stageguard.study.jobs import count_jobs  # loads torch

        about["n_jobs"] = count_jobs(about["study"], folder / COHORT)
    return Results(
        folder,
        about,
        tuple(record for record in records if "error" not in record),
        tuple(record for record in records if "error" in record),
    )


def write_results(folder: Path) -> None:
    """Write all records into one file, to keep a study without its nights."""
    write_together({folder / RESULTS: results_text(folder)}, overwrite=True)


def study_text(results: Results) -> str:
    """Return the text of study.json."""
    return _text(results.about)


def results_text(folder: Path) -> str:
    """Return all records, one per line; the keys of a record's rows are written once."""
    return "".join(_text(_packed(record), indent=None) for record in _records(folder))


def _packed(record: Mapping[str, Any]) -> dict[str, Any]:
    rows = record.get("rows", [])
    if not rows:
        return dict(record)
    columns = list(rows[0])
    return dict(record) | {"columns": columns, "rows": [[row.get(key) for key in columns] for row in rows]}


def _unpacked(record: Mapping[str, Any]) -> dict[str, Any]:
    columns = record.get("columns")
    if columns is None:
        return dict(record)
    rows = [dict(zip(columns, row, strict=True)) for row in record["rows"]]
    return {key: value for key, value in record.items() if key != "columns"} | {"rows": rows}


def _records(folder: Path) -> Iterable[dict[str, Any]]:
    files = sorted((folder / JOBS).glob("*.json"))
    if files:
        yield from (load_json(path) for path in files)
    elif (folder / RESULTS).is_file():
        lines = read_text(folder / RESULTS, "text").splitlines()
        yield from (_unpacked(parse_json(line)) for line in lines)


def read_predictions(folder: Path, key: str) -> dict[str, Any]:
    """Return the predictions of a job, column by column."""
    parquet = library("pyarrow.parquet", "predictions of a study", "study")
    path = folder / PREDICTIONS / f"{key}.parquet"
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file. Predictions lie where the study was run.")
    with open_file(path, "an array") as file:
        table = parquet.read_table(file)
    return {name: table[name].to_numpy() for name in table.column_names}


def _text(document: Mapping[str, Any], indent: int | None = 1) -> str:
    return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False) + "\n"
