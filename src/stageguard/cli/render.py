"""Render what commands found: on the terminal, as JSON lines, and as files by their suffix."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Any

from click import UsageError

from stageguard.cli.terminal import Console, Piece, json_text
from stageguard.files import write_cell
from stageguard.formats.outputs import REVIEW_SENTENCE, plain
from stageguard.runner.stopping import unstopped
from stageguard.study.table import Table as PaperTable
from stageguard.version import __version__

Cell = None | str | int | float | Piece  # a text with a style, such as ("above", "yellow"), is coloured
TABLE_SUFFIXES = (".tsv", ".md", ".tex")
SIGNIFICANT = 10  # digits of numbers in files


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name in files, and its title, unit and meaning for people."""

    key: str
    title: str | None = None  # by default the key
    digits: int | None = None  # decimals of its numbers for people; a column of words has none
    unit: str = ""
    meaning: str = ""
    levels: Mapping[str, str] = field(default_factory=dict)  # what its words mean

    @property
    def head(self) -> str:
        """What people see above the column."""
        return self.key if self.title is None else self.title

    def describe(self) -> dict[str, Any]:
        """Return the entry of a codebook."""
        entry = {"Description": self.meaning, "Units": self.unit, "Levels": dict(self.levels)}
        return {name: value for name, value in entry.items() if value}

    def shown(self, cell: Cell) -> str | Piece:
        """Return a cell as people see it."""
        if isinstance(cell, tuple):
            return cell
        if isinstance(cell, float):
            return "n/a" if isnan(cell) else f"{cell:,.{self.digits or 0}f}"
        return "n/a" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell


def words(*titles: str) -> tuple[Column, ...]:
    """Return columns of words, which begin at the left."""
    return tuple(Column(title) for title in titles)


def numbers(*titles: str, digits: int = 0) -> tuple[Column, ...]:
    """Return columns of numbers, which end at the right; a text in them is shown as it is."""
    return tuple(Column(title, digits=digits) for title in titles)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts and numbers."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]] = field(repr=False)  # of cells
    title: str = ""
    notes: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)  # what a codebook says of the table as a whole

    def show(self, out: Console) -> None:
        """Print the table below its title."""
        if self.title:
            out.heading(self.title)
        heads = [f">{each.head}" if each.digits is not None else each.head for each in self.columns]
        out.table(heads, self._shown(), headed=any(each.head for each in self.columns))
        for note in self.notes:
            out.print(note)

    def text(self, suffix: str) -> str:
        """Return the table as the text of a file: all digits in .tsv, those for people in .md and .tex."""
        if suffix == ".tsv":
            lines = [[each.key for each in self.columns], *(map(_full, row) for row in self.rows)]
            return "".join("\t".join(line) + "\n" for line in lines)
        rows = [tuple(cell[0] if isinstance(cell, tuple) else cell for cell in row) for row in self._shown()]
        heads = tuple(each.head for each in self.columns)
        return PaperTable(self.title, heads, tuple(rows), tuple(self.notes)).text(suffix.removeprefix("."))

    def codebook(self) -> dict[str, Any]:
        """Return what the columns of the table mean, and its facts."""
        about = {"version": __version__, "review": REVIEW_SENTENCE, **self.facts}
        return {each.key: each.describe() for each in self.columns} | {"stageguard": about}

    def _shown(self) -> list[list[str | Piece]]:
        return [
            [column.shown(cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows
        ]


def _full(cell: Cell) -> str:
    """Return a cell of a file: `n/a` where there is nothing."""
    if isinstance(cell, tuple):
        cell = cell[0]
    if cell is None or cell == "" or (isinstance(cell, float) and isnan(cell)):
        return "n/a"
    if isinstance(cell, float):
        return f"{cell:.{SIGNIFICANT}g}"
    return write_cell(cell) if isinstance(cell, str) else str(cell)


def check_output(path: Path, suffixes: Sequence[str]) -> None:
    """Refuse a name of an output whose suffix does not say what to write."""
    if path.suffix.lower() not in suffixes:
        expected = " or ".join(suffixes)
        raise UsageError(f"--output is {str(path)!r}, expected a name that ends in {expected}.")


def table_files(path: Path, tables: Mapping[str, Table]) -> dict[Path, str]:
    """Return the texts of .tsv tables and of their codebooks; the keys end the names of the files."""
    texts = {}
    for ending, table in tables.items():
        file = path.with_name(f"{path.stem}{ending}{path.suffix}")
        texts[file] = table.text(".tsv")
        book = json.dumps(plain(table.codebook()), indent=2, ensure_ascii=False, allow_nan=False)
        texts[file.with_suffix(".json")] = f"{book}\n"
    return texts


def print_line(record: Mapping[str, Any]) -> None:
    """Print an object as one line of JSON at once, so that a pipeline can read as it goes."""
    with unstopped():  # a signal must not cut a line in two
        print(json_text(record, levels=0), flush=True)


@dataclass(slots=True)
class Answer:
    """What a command tells people: sentences, tables, remarks under headings, and what to do next."""

    lead: list[Piece] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    remarks: dict[str, Iterable[object]] = field(default_factory=dict)  # such as Warning, Note, Wrote

    def show(self) -> None:
        """Print the answer."""
        out = Console()
        for piece in self.lead:
            out.print(piece)
        for table in self.tables:
            table.show(out)
        for sentence in self.after:
            out.print(sentence)
        for heading, items in self.remarks.items():
            out.list(heading, items)
