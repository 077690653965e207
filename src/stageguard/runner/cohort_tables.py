"""What is kept of each decoded night of a run, and the tables `cohort.tsv` and `failures.tsv` about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, field
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

from stageguard.base.arrays import NAN
from stageguard.base.errors import Message, StageGuardError, error_message
from stageguard.base.files import open_text, read_cell, read_text, write_cell, write_text_atomic
from stageguard.base.version import __version__
from stageguard.formats.outputs import output_paths
from stageguard.measures.summary import JointScores
from stageguard.runner.decode_files import DecodedNight
from stageguard.runner.run import Outcome

COHORT_TABLE, FAILURES_TABLE = "cohort.tsv", "failures.tsv"
MOST_IN_FULL = 40  # nights that are kept with everything said of them
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
    joint_before: float
    joint_after: float
    joint_threshold: float

    @property
    def joint(self) -> JointScores:
        """The joint scores."""
        return JointScores(self.joint_before, self.joint_after, self.joint_threshold)


@dataclass(slots=True)
class Tally:
    """All that is remembered of the nights of a run: a row of numbers each, and the first few in full."""

    nights: list[NightRow] = field(default_factory=list)
    failures: list[Outcome[DecodedNight]] = field(default_factory=list)
    first: list[Outcome[DecodedNight]] = field(default_factory=list)  # the decoded ones, while they are few
    notes: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    n_decoded: int = 0
    n_before: int = 0

    @property
    def n_nights(self) -> int:
        """How many there were."""
        return len(self.nights) + len(self.failures)

    def add(self, outcome: Outcome[DecodedNight]) -> None:
        """Take what is needed of a night."""
        if outcome.error is not None:
            self.failures.append(outcome)
            return
        night = outcome.result
        used = night.strength_used
        numbers = (used.transition_weight, used.fi_before, used.fi_after, *astuple(night.joint))
        self.nights.append(
            NightRow(
                *(outcome.id, outcome.file, night.facts.n_epochs, night.n_changed, used.rule, used.step),
                *(NAN if value is None else float(value) for value in numbers),
            )
        )
        self.notes.update(night.notes)
        self.warnings.update(outcome.warnings)
        if night.summary is None:
            self.n_before += 1
            return
        self.n_decoded += 1
        if len(self.first) <= MOST_IN_FULL:
            self.first.append(outcome)


def write_tables(
    tally: Tally, folder: Path, say: Callable[[object], str] = str
) -> tuple[list[Path], list[str], list[Message]]:
    """Write the cohort's table and the failures, in the words of `say`, into a folder.

    A table of the same name that `decode` did not write stays as it is. Returns what was written, remarks,
    and what could not be written: by then the nights are, and their results must not go untold.
    """
    written: list[Path] = []
    remarks: list[str] = []
    problems: list[Message] = []
    failures = [
        [_text(cell) for cell in (failure.id, failure.file, say(failure.error), __version__)]
        for failure in tally.failures
    ]
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
            problems.append(error_message(error))
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
