"""The row of each decoded night of a run, and the tables `cohort.tsv` and `failures.tsv` made from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from stageguard.base.arrays import NAN
from stageguard.base.errors import Message, StageGuardError, error_message
from stageguard.base.files import open_text, read_cell, read_text, write_cell, write_text_atomic
from stageguard.base.version import __version__
from stageguard.formats.outputs import output_paths
from stageguard.guard.effect import Effect
from stageguard.guard.strength import Strength
from stageguard.measures.estimates import Estimates
from stageguard.measures.summary import JointScores
from stageguard.runner.decode_files import DecodedNight, StrengthUsed
from stageguard.runner.run import Outcome

COHORT_TABLE, FAILURES_TABLE, METHODS_TEXT = "cohort.tsv", "failures.tsv", "methods.md"
MOST_IN_FULL = 40  # nights that are kept with their whole outcome
# The last column distinguishes the table from a user's table of the same name.
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
    early_rem_removed: int
    rem_latency_estimate_minutes: float
    rem_latency_estimator: str
    early_rem_kept_minutes: float  # after sleep onset; NaN if the estimate passes over no early REM
    expected: Mapping[str, float]  # expected minutes of sleep and of every stage, one column each

    @classmethod
    def of(
        cls,
        night_id: str,
        file: str,
        n_epochs: int,
        n_changed: int,
        *,
        strength: StrengthUsed | Strength,
        joint: JointScores,
        n_early_rem_removed: int,
        estimates: Estimates | None,
    ) -> NightRow:
        """Return the row of a decoded night."""
        numbers = (strength.transition_weight, strength.fi_before, strength.fi_after)
        weight, before, after = (NAN if value is None else float(value) for value in numbers)
        latency, estimator, kept, expected = NAN, "n/a", NAN, dict[str, float]()
        if estimates is not None:
            latency, estimator = estimates.rem_latency_minutes, estimates.rem_latency_estimator
            kept = estimates.early_rem_kept_minutes
            expected = estimates.best.minutes
        return cls(
            id=night_id,
            file=file,
            n_epochs=n_epochs,
            n_changed=n_changed,
            rule=strength.rule,
            step=strength.step,
            transition_weight=weight,
            fi_before=before,
            fi_after=after,
            joint_before=joint.before,
            joint_after=joint.after,
            joint_threshold=joint.threshold,
            early_rem_removed=n_early_rem_removed,
            rem_latency_estimate_minutes=latency,
            rem_latency_estimator=estimator,
            early_rem_kept_minutes=kept,
            expected=expected,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types for `from_dict`."""
        expected = {key: None if value != value else value for key, value in self.expected.items()}
        values = (None if value != value else value for value in self[:-1])  # only NaN differs from itself
        return dict(zip(self._fields, (*values, expected), strict=True))

    @classmethod
    def from_dict(cls, recorded: Mapping[str, Any]) -> NightRow:
        """Return the row that `to_dict` described."""
        values: dict[str, Any] = {key: NAN if value is None else value for key, value in recorded.items()}
        expected = {key: NAN if value is None else value for key, value in recorded["expected"].items()}
        return cls(**{**values, "expected": expected})

    @classmethod
    def from_cells(cls, cells: Mapping[str, str]) -> NightRow:
        """Return the row that `cells` wrote, with its rounded numbers."""
        kinds = get_type_hints(cls)
        values = {name: _value(cells[name], kinds[name]) for name in cls._fields[:-1]}
        expected = {key: _value(text, float) for key, text in cells.items() if key not in values}
        return cls(**values, expected=expected)

    @property
    def joint(self) -> JointScores:
        """The joint scores."""
        return JointScores(self.joint_before, self.joint_after, self.joint_threshold)

    @property
    def cells(self) -> dict[str, str]:
        """The row as text, by column."""
        values = dict(zip(self._fields[:-1], self, strict=False)) | dict(self.expected)
        return {column: _text(value) for column, value in values.items()}


# A table that begins with these columns was written by `decode`; later columns depend on the stages.
OWN_COLUMNS = NightRow._fields[: NightRow._fields.index("fi_after") + 1]


@dataclass(slots=True)
class Tally:
    """The nights of a run: one row each, and the first few in full."""

    nights: list[NightRow] = field(default_factory=list)
    failures: list[Outcome[DecodedNight]] = field(default_factory=list)
    first: list[Outcome[DecodedNight]] = field(default_factory=list)  # decoded nights in full, up to a limit
    notes: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    effects: list[tuple[NightRow, float, Effect]] = field(default_factory=list)  # with the epoch length
    n_decoded: int = 0
    n_before: int = 0

    @property
    def n_nights(self) -> int:
        """How many nights there were, failed ones included."""
        return len(self.nights) + len(self.failures)

    def add(self, outcome: Outcome[DecodedNight]) -> None:
        """Add a night."""
        if outcome.error is not None:
            self.failures.append(outcome)
            return
        night = outcome.result
        row = NightRow.of(
            *(outcome.id, outcome.file, night.facts.n_epochs, night.n_changed),
            strength=night.strength_used,
            joint=night.joint,
            n_early_rem_removed=night.n_early_rem_removed,
            estimates=night.estimates,
        )
        self.nights.append(row)
        if night.effect is not None:
            self.effects.append((row, night.facts.epoch_seconds, night.effect))
        self.notes.update(night.notes)
        self.warnings.update(outcome.warnings)
        if night.is_done_before:
            self.n_before += 1
            return
        self.n_decoded += 1
        if night.summary is not None and len(self.first) <= MOST_IN_FULL:
            self.first.append(outcome)


def write_tables(
    tally: Tally, folder: Path, say: Callable[[object], str] = str
) -> tuple[list[Path], list[str], list[Message]]:
    """Write the cohort's table and the table of failures, worded by `say`, into a folder.

    A table of the same name that `decode` did not write stays as it is. Return the written files, remarks and
    errors. Errors are not raised: the nights are written by now, and their results must still be shown.
    """
    written: list[Path] = []
    remarks: list[str] = []
    problems: list[Message] = []
    failures = [
        dict(zip(FAILURE_COLUMNS, map(_text, cells), strict=True))
        for cells in ((night.id, night.file, say(night.error), __version__) for night in tally.failures)
    ]
    for name, own_columns in ((COHORT_TABLE, OWN_COLUMNS), (FAILURES_TABLE, FAILURE_COLUMNS)):
        path = folder / name
        try:
            rows = failures if name == FAILURES_TABLE else _with_earlier(tally, folder)
            if path.exists() and _header(path)[: len(own_columns)] != own_columns:
                remarks.append(f"{path} is no table of decode's, so it was left as it is")
            elif rows:
                folder.mkdir(parents=True, exist_ok=True)
                write_text_atomic(path, table_text(rows), overwrite=True)
                written.append(path)
            elif name == FAILURES_TABLE:
                path.unlink(missing_ok=True)
        except (StageGuardError, OSError) as error:
            problems.append(error_message(error))
    return written, remarks, problems


def _with_earlier(tally: Tally, folder: Path) -> list[dict[str, str]]:
    """Return the rows of earlier runs whose outputs still exist, then the rows of this run.

    A night that failed now keeps its earlier row, because its earlier output is unchanged.
    """
    path = folder / COHORT_TABLE
    rows: list[dict[str, str]] = []
    header = _header(path) if path.is_file() else ()
    if header[: len(OWN_COLUMNS)] == OWN_COLUMNS:
        now = {write_cell(row.id) for row in tally.nights}
        old = [line.split("\t") for line in read_text(path, "text").split("\n")[1:]]
        rows += [
            dict(zip(header, row, strict=True)) for row in old
            if len(row) == len(header) and row[0] not in now
            and output_paths(folder / read_cell(row[0])).sidecar.is_file()
        ]  # fmt: skip
    return rows + [row.cells for row in tally.nights]


def _header(path: Path) -> tuple[str, ...]:
    """Return the columns of a table, or none if it cannot be read."""
    try:
        with open_text(path, "text") as file:
            return tuple(file.readline().rstrip("\n").split("\t"))
    except (OSError, UnicodeDecodeError):
        return ()


def table_text(rows: Sequence[Mapping[str, str]]) -> str:
    """Return rows as a TSV with every column that any row has; an empty text without rows."""
    if not rows:
        return ""
    columns = list(dict.fromkeys(column for row in (*rows[-1:], *rows) for column in row))
    lines = [columns, *([row.get(column, "n/a") for column in columns] for row in rows)]
    return "\n".join(map("\t".join, lines)) + "\n"


def read_table(path: Path) -> list[dict[str, str]]:
    """Return the rows that `table_text` wrote, by column; none if there is no such file."""
    if not path.is_file():
        return []
    header, *rows = (line.split("\t") for line in read_text(path, "text").rstrip("\n").split("\n"))
    return [dict(zip(header, row, strict=True)) for row in rows]


def _value(cell: str, kind: Any) -> Any:
    if kind is float:
        return NAN if cell == "n/a" else float(cell)
    return int(cell) if kind is int else read_cell(cell)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "n/a" if isnan(value) else f"{value:.6g}"
    return _cell(value) if isinstance(value, str) else str(value)


_cell = lru_cache(64)(write_cell)  # apart from ids, the rows share their few texts
