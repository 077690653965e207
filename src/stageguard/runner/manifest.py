"""The manifest of a run: a row for every night and every failure, its tables, and the loop that fills it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, get_type_hints

import numpy as np
import numpy.typing as npt

from stageguard.arrays import NAN
from stageguard.errors import StageGuardError, error_message
from stageguard.files import make_folder, open_text, read_cell, read_text, write_cell, write_text_atomic
from stageguard.formats.outputs import change_row, output_paths
from stageguard.measures.cohort import DecodedFacts
from stageguard.report.summary import DecodingSummary, JointScores, RecordingFacts, RowMeasures
from stageguard.report.words import done_words
from stageguard.runner.run import Outcome
from stageguard.runner.stopping import Stopped
from stageguard.version import __version__

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from stageguard.guard.decoding import Decoding
    from stageguard.guard.explain import Change

COHORT_TABLE, FAILURES_TABLE, METHODS_TEXT = "cohort.tsv", "failures.tsv", "methods.md"
MOST_IN_FULL = 40  # nights that are kept with their whole outcome
# The last column distinguishes the table from a user's table of the same name.
FAILURE_COLUMNS = ("id", "file", "error", "stageguard")
STRENGTH_COLUMNS = ("rule", "step", "transition_weight", "fi_before", "fi_after")


class ManifestRow(NamedTuple):
    """A decoded night in the manifest; NaN where a number does not exist."""

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
    look_at: str  # why somebody should look at the night; empty if nothing says so

    @classmethod
    def of(cls, night_id: str, file: str, decoding: Decoding, measures: RowMeasures) -> ManifestRow:
        """Return the row of a night that was decoded now."""
        strength, joint = decoding.strength, measures.joint
        return cls(
            night_id,
            file,
            n_epochs=decoding.hypnogram.n_epochs,
            n_changed=decoding.n_changed,
            rule=strength.rule,
            step=strength.step,
            transition_weight=_number(strength.transition_weight),
            fi_before=_number(strength.fi_before),
            fi_after=_number(strength.fi_after),
            joint_before=joint.before,
            joint_after=joint.after,
            joint_threshold=joint.threshold,
            early_rem_removed=len(measures.early_rem_removed),
            look_at=measures.look_at,
        )

    @classmethod
    def from_sidecar(cls, night_id: str, file: str, record: Mapping[str, Any]) -> ManifestRow:
        """Return the row of a night that an earlier run decoded."""
        strength, joint, measured = record["strength"], record.get("joint_score", {}), record["measured"]
        return cls(
            night_id,
            file,
            n_epochs=record["hypnogram"]["n_epochs"],
            n_changed=record["n_changed"],
            rule=strength["rule"],
            step=strength["step"],
            transition_weight=_number(strength["transition_weight"]),
            fi_before=_number(strength["fi_before"]),
            fi_after=_number(strength["fi_after"]),
            joint_before=_number(joint.get("before")),
            joint_after=_number(joint.get("after")),
            joint_threshold=_number(joint.get("threshold")),
            early_rem_removed=len(measured["early_rem_removed"]),
            look_at=measured.get("look_at", ""),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        values = (None if value != value else value for value in self)  # only NaN differs from itself
        return dict(zip(self._fields, values, strict=True))

    @classmethod
    def from_cells(cls, cells: Mapping[str, str]) -> ManifestRow:
        """Return the row that `cells` wrote, with its rounded numbers."""
        kinds = get_type_hints(cls)
        return cls(**{name: _value(cells[name], kinds[name]) for name in cls._fields})

    @property
    def strength(self) -> dict[str, Any]:
        """How strongly the night was decoded."""
        return {name: getattr(self, name) for name in STRENGTH_COLUMNS}

    @property
    def joint(self) -> JointScores:
        """The joint scores."""
        return JointScores(self.joint_before, self.joint_after, self.joint_threshold)

    @property
    def cells(self) -> dict[str, str]:
        """The row as text, by column."""
        return {column: _text(value) for column, value in zip(self._fields, self, strict=True)}


def columns_of(rows: Sequence[ManifestRow]) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of rows as arrays, by name."""
    kinds = get_type_hints(ManifestRow)
    columns = zip(*rows, strict=True) if rows else [()] * len(ManifestRow._fields)
    named = zip(ManifestRow._fields, columns, strict=True)
    return {name: np.array(values, kinds[name] if kinds[name] is not str else None) for name, values in named}


def _number(value: float | None) -> float:
    return NAN if value is None else float(value)


@dataclass(frozen=True, slots=True)
class DecodedNight:
    """A night that was decoded and written, now or by an earlier run."""

    row: ManifestRow
    notes: tuple[str, ...] = ()
    is_done_before: bool = False
    change_rows: tuple[tuple[str, ...], ...] = ()  # of a table: the night's rows in its table of changes


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedFile(DecodedNight):
    """A night with output files of its own; only nights shown in full have a `summary`."""

    facts: RecordingFacts
    n_filled: int
    strength: str
    outputs: Mapping[str, Path]
    decoded: DecodedFacts
    summary: DecodingSummary | None = None
    changes: tuple[Change, ...] | None = None
    posterior: Mapping[str, Any] | None = None  # its measures, if it was written

    @classmethod
    def fresh(
        cls,
        row: ManifestRow,
        decoding: Decoding,
        outputs: Mapping[str, Path | None],
        notes: Sequence[str],
        changes: Sequence[Change] | None = None,
        summary: DecodingSummary | None = None,
    ) -> DecodedFile:
        """Return a night that was decoded in this run."""
        return cls(
            row,
            tuple(notes if summary else dict.fromkeys((*notes, *decoding.assumed))),
            facts=RecordingFacts.of(decoding.hypnogram, decoding.profile),
            n_filled=int(np.count_nonzero(decoding.filled)),
            strength=done_words(decoding),
            outputs={kind: path for kind, path in outputs.items() if path is not None},
            decoded=DecodedFacts.of(decoding),
            summary=summary,
            changes=None if changes is None else tuple(changes),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        if self.summary is not None:
            data = self.summary.to_dict() | {"done_before": False}
        else:
            counts = {"n_changed": self.row.n_changed, "n_filled": self.n_filled, "strength": self.strength}
            data = {"done_before": self.is_done_before} | self.facts.to_dict() | counts
        outputs = {kind: str(path) for kind, path in self.outputs.items()}
        data |= {"strength_used": self.row.strength, "outputs": outputs, "notes": list(self.notes)}
        data |= {} if self.posterior is None else {"posterior": self.posterior}
        return data if self.changes is None else data | {"changes": [change_row(one) for one in self.changes]}


@dataclass(slots=True)
class Manifest:
    """The nights of a run: one row each, and the first few files in full."""

    nights: list[ManifestRow] = field(default_factory=list)
    failures: list[Outcome[Any]] = field(default_factory=list)
    first: list[Outcome[DecodedFile]] = field(default_factory=list)  # decoded now, up to a limit
    notes: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    files: list[tuple[ManifestRow, float, DecodedFacts]] = field(
        default_factory=list
    )  # with the epoch length
    change_rows: list[tuple[str, ...]] = field(default_factory=list)
    n_decoded: int = 0
    n_before: int = 0
    written: list[Path] = field(default_factory=list)  # besides the outputs of single nights
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # errors after the nights were written

    @property
    def n_nights(self) -> int:
        """How many nights there were, failed ones included."""
        return len(self.nights) + len(self.failures)

    @property
    def n_epochs(self) -> int:
        """How many epochs the decoded nights have."""
        return sum(row.n_epochs for row in self.nights)

    def add(self, outcome: Outcome[Any]) -> None:
        """Add the outcome of a night: a `DecodedNight`, or an error."""
        if outcome.error is not None:
            self.failures.append(outcome)
            return
        night: DecodedNight = outcome.result
        self.nights.append(night.row)
        self.change_rows += night.change_rows
        self.notes.update(night.notes)
        self.warnings.update(outcome.warnings)
        self.n_before += night.is_done_before
        self.n_decoded += not night.is_done_before
        if isinstance(night, DecodedFile):
            self.files.append((night.row, night.facts.epoch_seconds, night.decoded))
            is_shown = night.summary is not None or night.posterior is not None
            if is_shown and len(self.first) <= MOST_IN_FULL:
                self.first.append(outcome)

    def nights_text(self, earlier: Iterable[Iterable[str]] = ()) -> str:
        """Return the table of the decoded nights, below those of earlier runs; empty without any."""
        return table_text(ManifestRow._fields, chain(earlier, (row.cells.values() for row in self.nights)))

    def failures_text(self) -> str:
        """Return the table of the failures, empty without any."""
        rows = ((each.id, each.file, str(each.error), __version__) for each in self.failures)
        return table_text(FAILURE_COLUMNS, (map(write_cell, row) for row in rows))

    def write_tables(self, folder: Path) -> None:
        """Write the table of the nights and that of the failures into a folder of nights.

        A table of the same name with other columns stays as it is. Errors are not raised: the nights are
        written by now, and their results must still be shown.
        """
        for name, columns in ((COHORT_TABLE, ManifestRow._fields), (FAILURES_TABLE, FAILURE_COLUMNS)):
            path = folder / name
            try:
                if path.exists() and _header(path) != columns:
                    self.remarks.append(f"{path} is no table of decode's, so it was left as it is")
                elif text := self._text_of(path):
                    make_folder(folder)
                    write_text_atomic(path, text, overwrite=True)
                    self.written.append(path)
                elif name == FAILURES_TABLE:
                    path.unlink(missing_ok=True)
            except (StageGuardError, OSError) as error:
                self.problems.append(error_message(error))

    def _text_of(self, path: Path) -> str:
        """Return a table; that of the nights keeps the rows of earlier runs whose outputs still exist.

        A night that failed now keeps its earlier row, because its earlier output is unchanged.
        """
        if path.name == FAILURES_TABLE:
            return self.failures_text()
        now = {write_cell(row.id) for row in self.nights}
        return self.nights_text(
            row.values() for row in read_table(path)
            if row["id"] not in now and output_paths(path.parent / read_cell(row["id"])).sidecar.is_file()
        )  # fmt: skip


def recorded_outcomes(nights: Path, failures: Path) -> Iterable[Outcome[DecodedNight]]:
    """Yield the outcomes that the tables of a manifest record."""
    for cells in read_table(nights):
        row = ManifestRow.from_cells(cells)
        yield Outcome(row.file, row.id, DecodedNight(row, is_done_before=True))
    for cells in read_table(failures):
        night, file, error = (read_cell(cells[column]) for column in FAILURE_COLUMNS[:3])
        yield Outcome(file, night, error=f"{error}")


def table_text(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return rows of cells as a TSV; an empty text without any."""
    lines = ["\t".join(cells) for cells in rows]  # one by one: cells take ten times the memory of their line
    return "\n".join(["\t".join(columns), *lines, ""]) if lines else ""


def read_table(path: Path) -> list[dict[str, str]]:
    """Return the whole rows of a table that `table_text` wrote, by column; none without such a file."""
    if not path.is_file():
        return []
    header, *rows = (line.split("\t") for line in read_text(path).rstrip("\n").split("\n"))
    return [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]


def _header(path: Path) -> tuple[str, ...]:
    """Return the columns of a table, or none if it cannot be read."""
    try:
        with open_text(path) as file:
            return tuple(file.readline().rstrip("\n").split("\t"))
    except (OSError, UnicodeDecodeError):
        return ()


def _value(cell: str, kind: Any) -> Any:
    if kind is float:
        return NAN if cell == "n/a" else float(cell)
    return int(cell) if kind is int else read_cell(cell)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "n/a" if isnan(value) else f"{value:.6g}"
    return _cell(value) if isinstance(value, str) else str(value)


_cell = lru_cache(64)(write_cell)  # apart from ids, the rows share their few texts


class Source(Protocol):
    """Nights to decode, and where they are written."""

    def opened(self) -> AbstractContextManager[None]:
        """Hold what a run needs while it lasts."""

    def outcomes(self, jobs: int, executor: Executor | None) -> Generator[Outcome[DecodedNight], None, None]:
        """Decode and write the nights that no earlier run has; yield the outcomes of all, in order."""

    def finish(self, manifest: Manifest) -> None:
        """Write what is written once for all nights, and add it to the manifest."""


def decode_source(
    source: Source,
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    on_outcome: Callable[[Outcome[DecodedNight]], None] | None = None,
) -> Manifest:
    """Decode the nights of a source, and return the manifest of the run.

    `jobs` and `executor` are those of `run_all`; `on_outcome` is called with each outcome, in order.
    """
    manifest = Manifest()
    try:
        with source.opened():
            with closing(source.outcomes(jobs, executor)) as outcomes:
                for outcome in outcomes:
                    manifest.add(outcome)
                    if on_outcome is not None:
                        on_outcome(outcome)
            source.finish(manifest)
    except Stopped as stopped:
        n = len(manifest.nights)
        stopped.done = f"{n:,} night{'s' * (n != 1)} done. The same command goes on from there."
        raise
    return manifest
