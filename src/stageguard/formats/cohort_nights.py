"""The nights of a cohort's table, whatever holds it: their names, chunks of them, and how rows become one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from stageguard.arrays import SUM_TOLERANCE
from stageguard.checks import MISSING_WORDS
from stageguard.errors import FileFormatError, StageGuardError, error_message
from stageguard.files import file_error
from stageguard.formats.density import MOST_EPOCHS, build_density, listed
from stageguard.formats.raw_night import FileOptions, RawDensity
from stageguard.formats.tables.one_night import is_night_column
from stageguard.formats.tables.table import Cells
from stageguard.night.hypnodensity import Hypnodensity

ID = "id"
OWN_COLUMNS = ("onset", "duration", "stage", "label", "argmax_stage", "changed", "filled", "probability")


@dataclass(frozen=True, slots=True)
class TableNight:
    """A night of a cohort's table, or why it cannot be read."""

    id: str
    file: str  # its name, or its place in the dataset
    row: int = 0  # of that file where the night begins, counted from 1; 0 if that is not known
    density: Hypnodensity | None = None
    notes: tuple[str, ...] = ()
    error: str | None = None
    has_negative: bool = False  # then its numbers were read as logits or log-probabilities


@dataclass(frozen=True, slots=True)
class Chunk:
    """Nights that are read, decoded and written together."""

    number: int
    folder: str  # of the dataset, such as site=A; empty for none


class CohortTable(Protocol):
    """A table of many nights; it can be sent to other processes, and so can its chunks."""

    def describe(self) -> dict[str, Any]:
        """Return what identifies its content, in JSON types."""

    def chunks(self) -> Iterable[Any]:
        """Return chunks of nights, in order and the same each time."""

    def reading(self) -> Callable[[Any], Iterator[TableNight]]:
        """Return what yields the nights of a chunk, those with wrong rows with an error.

        A fault of the table itself, such as a row without an id, raises FileFormatError.
        """

    def knowing_its_first(self) -> CohortTable:
        """Return the table with what its first readable night shows of all, which may read some rows."""


@dataclass(slots=True)
class IdOrder:
    """The ids seen so far, to check that the rows of a night are together."""

    path: Path | str
    finished: set[str] = field(default_factory=set)

    def check(self, name: str, row: int) -> None:
        """Refuse a row without an id, and an id that occurs again after other nights; rows count from 1."""
        if name.strip().casefold() in MISSING_WORDS:
            raise file_error(
                self.path,
                f"row {row:,} has no {ID}, expected the name of its night in every row. Are cells merged? "
                "Fill them down.",
            )
        if name in self.finished:
            raise file_error(
                self.path,
                f"night {name[:40]!r} begins again at row {row:,}, after other nights. Expected the rows of "
                f"a night together: sort the table by {ID} first, and by time within it.",
            )

    def check_blanks(self, name: str) -> None:
        """Refuse an id that begins or ends with a space, which may split a night in two without notice."""
        if name != name.strip():
            raise file_error(
                self.path, f"the {ID} {name[:40]!r} has a blank at an end, expected none. Remove it."
            )

    def check_length(self, name: str, n_rows: int) -> None:
        """Refuse a night that is impossibly long, before it fills the memory."""
        if n_rows > MOST_EPOCHS:
            raise file_error(
                self.path,
                f"night {name[:40]!r} has more than {MOST_EPOCHS:,} rows, expected the {ID} of one night. "
                "Are several nights under one id?",
            )


def same_kind(night: TableNight, first: TableNight | None) -> TableNight:
    """Refuse a night whose numbers are of another kind than the first's, since one stager wrote the table."""
    if first is None or night.density is None or night.has_negative == first.has_negative:
        return night
    kinds = {True: "numbers below 0, as logits have", False: "probabilities"}
    problem = (
        f"{night.file}, night {night.id[:40]}: holds {kinds[night.has_negative]}, "
        f"and night {first.id[:40]} {kinds[first.has_negative]}. Expected the "
        "same in every night: write all of them as probabilities."
    )
    return replace(night, density=None, notes=(), error=problem)


def id_column(path: Path | str, header: Sequence[str]) -> int:
    """Return the index of the column of ids; refuse a table without one or with two."""
    refuse_decoded(path, header)
    columns = [column for column, name in enumerate(header) if name.strip().casefold() == ID]
    if len(columns) == 1:
        return columns[0]
    if columns:
        raise file_error(path, f"has {len(columns)} columns {ID!r}, expected one. Keep one of them.")
    others = [name for name in header if is_night_column(name)]
    rename = f" Rename {others[0]!r} to it, if that names the nights." if others else ""
    raise file_error(
        path,
        f"has no column {ID!r} that names the night of each row, and the output is named as a table of many "
        "nights. If this is one night, name a folder for the output, or a .tsv. "
        f"Columns: {listed(header)}.{rename}",
    )


def refuse_decoded(path: Path | str, header: Sequence[str]) -> None:
    """Refuse the columns of an output of `decode`."""
    if {*OWN_COLUMNS} <= {*header}:
        raise file_error(
            path, "is an output of decode, expected the stager's probabilities. Name the table it came from."
        )


@dataclass(frozen=True, slots=True)
class NightReader:
    """How rows of a night become probabilities, in any process."""

    path: Path
    options: FileOptions
    density: Callable[[Sequence[Cells]], RawDensity]  # can be sent to another process
    remarks: tuple[str, ...] = ()

    def night(self, name: str, columns: Sequence[Cells], file: str, row: int = 0) -> TableNight:
        """Return the night in these rows, or its error."""
        try:
            raw = self.density(columns)
            density = build_density(self.path, raw, self.options)
        except FileFormatError as error:
            where = f"{file}, night {name[:40]}: "
            return TableNight(name, file, row, error=f"{where}{error.reason or error}")
        except StageGuardError as error:
            return TableNight(name, file, row, error=error_message(error))
        values = np.asarray(raw.values)
        has_negative = values.dtype.kind in "fiu" and bool((values < -SUM_TOLERANCE).any())
        notes = density.notes + self.remarks
        return TableNight(name, file, row, density.density, notes, has_negative=has_negative)


def joined(before: Cells, after: Cells) -> Cells:
    """Return the cells of one column, one part behind the other."""
    return np.concatenate((before, after)) if isinstance(before, np.ndarray) else [*before, *after]
