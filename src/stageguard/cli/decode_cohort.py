"""What is kept of each decoded night, and the tables about all of them. Prints nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

from stageguard.base.arrays import NAN
from stageguard.base.errors import StageGuardError
from stageguard.base.files import open_text, read_cell, read_text, write_cell, write_text_atomic
from stageguard.base.version import __version__
from stageguard.cli.inputs import COHORT_TABLE, FAILURES_TABLE
from stageguard.cli.present import MOST_ROWS
from stageguard.cli.terminal import error_text
from stageguard.formats.outputs import output_paths

# The last column tells the table from one that somebody else keeps under the same name.
FAILURE_COLUMNS = ("id", "file", "error", "stageguard")


class NightRow(NamedTuple):
    """A night in the table of a cohort."""

    id: str
    file: str
    n_epochs: int
    n_changed: int
    rule: str
    step: str
    transition_weight: float
    fi_before: float
    fi_after: float


class Failure(NamedTuple):
    """A night that could not be decoded."""

    id: str
    file: str
    error: str


@dataclass(slots=True)
class Tally:
    """All that is remembered of the reports of a run: a row of numbers each, and the first few in full."""

    nights: list[NightRow] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    first: list[dict[str, Any]] = field(default_factory=list)  # the decoded ones, as long as they are few
    notes: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    n_decoded: int = 0
    n_before: int = 0

    @property
    def n_nights(self) -> int:
        """How many there were."""
        return len(self.nights) + len(self.failures)

    def add(self, report: Mapping[str, Any]) -> None:
        """Take what is needed from a report."""
        if not report["ok"]:
            self.failures.append(Failure(report["id"], report["file"], report["error"]))
            return
        strength = report["strength_used"]
        numbers = (strength[key] for key in ("transition_weight", "fi_before", "fi_after"))
        self.nights.append(
            NightRow(
                report["id"],
                report["file"],
                report["n_epochs"],
                report["n_changed"],
                strength["rule"],
                strength["step"],
                *(NAN if value is None else float(value) for value in numbers),
            )
        )
        self.notes.update(report["notes"])
        self.warnings.update(report["warnings"])
        if report["done_before"]:
            self.n_before += 1
            return
        self.n_decoded += 1
        if len(self.first) <= MOST_ROWS:
            self.first.append(dict(report))


def write_tables(tally: Tally, folder: Path) -> tuple[list[Path], list[str], list[str]]:
    """Write the cohort's table and the failures into a folder.

    A table of the same name that `decode` did not write stays as it is. Returns what was written, remarks,
    and what could not be written: by then the nights are, and their results must not go untold.
    """
    written: list[Path] = []
    remarks: list[str] = []
    problems: list[str] = []
    failures = [[_text(value) for value in (*failure, __version__)] for failure in tally.failures]
    for name, columns in ((COHORT_TABLE, NightRow._fields), (FAILURES_TABLE, FAILURE_COLUMNS)):
        path = folder / name
        try:
            rows = failures if name == FAILURES_TABLE else _with_earlier(tally, folder)
            if path.exists() and not _is_ours(path, columns):
                remarks.append(f"{path} is no table of decode's, so it was left as it is")
            elif rows:
                folder.mkdir(parents=True, exist_ok=True)
                write_text_atomic(path, _tsv(columns, rows), overwrite=True)
                written.append(path)
            elif name == FAILURES_TABLE:
                path.unlink(missing_ok=True)
        except (StageGuardError, OSError) as error:
            problems.append(error_text(error))
    return written, remarks, problems


def _with_earlier(tally: Tally, folder: Path) -> list[list[str]]:
    """Rows of this run, behind those of earlier ones whose outputs are still there.

    A night that failed now keeps the row of its output from before, which nothing has touched.
    """
    path = folder / COHORT_TABLE
    rows: list[list[str]] = []
    if path.is_file() and _is_ours(path, NightRow._fields):
        now = {write_cell(row.id) for row in tally.nights}
        old = [line.split("\t") for line in read_text(path, "text").split("\n")[1:]]
        rows += [
            row for row in old
            if len(row) == len(NightRow._fields) and row[0] not in now
            and output_paths(folder / read_cell(row[0])).sidecar.is_file()
        ]  # fmt: skip
    return rows + [[_text(value) for value in row] for row in tally.nights]


def _is_ours(path: Path, columns: Iterable[str]) -> bool:
    try:
        with open_text(path, "text") as file:
            return file.readline().rstrip("\n") == "\t".join(columns)
    except (OSError, UnicodeDecodeError):
        return False


def _tsv(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(["\t".join(columns), *map("\t".join, rows)]) + "\n"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "n/a" if isnan(value) else f"{value:.6g}"
    return write_cell(value) if isinstance(value, str) else str(value)
