"""A table of texts and numbers whose columns say what they mean, and its text in four formats."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

from stageguard.files import CELL_WORDS, write_cell
from stageguard.formats.outputs import REVIEW_SENTENCE, plain
from stageguard.measures.samples import Estimate
from stageguard.version import __version__

Piece = str | tuple[str, str]  # a text, or a text and its style, such as `bold red`
Cell = None | str | int | float | Estimate | tuple[str, str]


class Full(NamedTuple):
    """How a format for programs writes numbers."""

    delimiter: str
    digits: int  # significant ones
    missing: str


FULL = {"tsv": Full("\t", 10, "n/a"), "csv": Full(",", 6, "")}
_LATEX = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%#_{}$"},
    "~": r"\~{}",
    "–": "--",
}
_LATEX |= {"±": r"$\pm$", "λ": r"$\lambda$", "κ": r"$\kappa$", "Δ": r"$\Delta$", "ε": r"$\epsilon$"}
_LATEX |= {"→": r"$\to$", "×": r"$\times$", "π": r"$\pi$", "−": "$-$", "γ": r"$\gamma$", "†": r"\dag{}"}


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


def words(*titles: str) -> tuple[Column, ...]:
    """Return columns of words, which begin at the left."""
    return tuple(Column(title) for title in titles)


def numbers(*titles: str, digits: int = 0) -> tuple[Column, ...]:
    """Return columns of numbers, which end at the right; a text in them is shown as it is."""
    return tuple(Column(title, digits=digits) for title in titles)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts and numbers, notes below them, and facts about them all for the codebook."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]] = field(repr=False)  # of cells
    title: str = ""
    notes: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    row_digits: Sequence[int] = ()  # decimals by row, where rows have units of their own

    @property
    def heads(self) -> list[str]:
        """What people see above the columns."""
        return [each.head for each in self.columns]

    def shown(self) -> list[list[Piece]]:
        """Return the cells as people see them."""
        lines = []
        for k, row in enumerate(self.rows):
            digits = self.row_digits[k] if self.row_digits else None
            cells = zip(self.columns, row, strict=True)
            lines.append([_shown(cell, each.digits if digits is None else digits) for each, cell in cells])
        return lines

    def text(self, form: str) -> str:
        """Return the table as `tsv` or `csv` with all digits, or as `md` or `tex` with those for people."""
        return {"md": self._markdown, "tex": self._latex}.get(form, lambda: self._full(FULL[form]))()

    def codebook(self) -> dict[str, Any]:
        """Return what the columns mean, and the facts."""
        about = {"version": __version__, "review": REVIEW_SENTENCE, "text": CELL_WORDS, **self.facts}
        return {each.key: each.describe() for each in self.columns} | {"stageguard": about}

    def files(self, path: Path) -> dict[Path, str]:
        """Return the text of a table for a path, and of its codebook if it is a .tsv."""
        form = path.suffix.lower().removeprefix(".")
        if form != "tsv":
            return {path: self.text(form)}
        book = json.dumps(plain(self.codebook()), indent=2, ensure_ascii=False, allow_nan=False)
        return {path: self.text(form), path.with_suffix(".json"): f"{book}\n"}

    def _lines(self, escape: Callable[[str], str]) -> Iterator[list[str]]:
        yield list(map(escape, self.heads))
        for row in self.shown():
            yield [escape(cell[0] if isinstance(cell, tuple) else cell) for cell in row]

    def _markdown(self) -> str:
        head, *rows = self._lines(lambda text: text.replace("|", "\\|"))
        rule = ["---", *["--:"] * (len(head) - 1)]
        body = "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *rows))
        notes = "".join(f"\n{note}\n" for note in self.notes)
        return f"## {self.title}\n\n{body}\n{notes}"

    def _latex(self) -> str:
        head, *rows = (" & ".join(line) + " \\\\\n" for line in self._lines(_escape))
        shape = "l" + "r" * (len(self.columns) - 1)
        notes = "".join(f"\n\\par\\smallskip\\footnotesize {_escape(note)}" for note in self.notes)
        return (
            f"% {self.title}\n\\begin{{table}}\n\\caption{{{_escape(self.title)}.}}\n\\begin{{tabular}}"
            f"{{{shape}}}\n\\toprule\n{head}\\midrule\n{''.join(rows)}\\bottomrule\n"
            f"\\end{{tabular}}{notes}\n\\end{{table}}\n"
        )

    def _full(self, full: Full) -> str:
        """Return all digits; estimates have further columns for standard deviation, n, p and effect."""
        wide = [any(isinstance(row[k], Estimate) for row in self.rows) for k in range(len(self.columns))]
        more = ("", ", sd", ", n", ", p", ", effect")
        lines: list[list[Any]] = [
            [
                f"{column.key}{what}"
                for column, is_wide in zip(self.columns, wide, strict=True)
                for what in more[: 5 if is_wide else 1]
            ]
        ]
        for row in self.rows:
            cells: list[Any] = []
            for cell, is_wide in zip(row, wide, strict=True):
                if isinstance(cell, Estimate):
                    cells += [cell.mean, cell.sd, cell.n, cell.p, cell.effect]
                else:
                    cells += [cell, *[""] * (4 * is_wide)]
            lines.append([_written(cell, full) for cell in cells])
        if full.delimiter == "\t":  # no cell holds a tab or a quote that would matter
            return "".join("\t".join(line) + "\n" for line in lines)
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(lines)
        return buffer.getvalue()


def _written(cell: Any, full: Full) -> str:
    """Return a cell for programs."""
    if isinstance(cell, tuple):
        cell = cell[0]
    if cell is None or cell == "" or cell != cell:
        return full.missing
    if isinstance(cell, float):
        return f"{cell:.{full.digits}g}"
    return write_cell(cell) if isinstance(cell, str) else str(cell)


def _shown(cell: Any, digits: int | None) -> Piece:
    """Return a cell for people: `n/a` for what does not exist, and means as in `402.2 ± 78.6`."""
    if isinstance(cell, str | tuple):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    number, sd, stars = (cell.mean, cell.sd, cell.stars) if isinstance(cell, Estimate) else (cell, nan, "")
    if number is None or isnan(number):
        return "n/a"
    digits = digits or 0
    return f"{number:,.{digits}f}{'' if isnan(sd) else f' ± {sd:,.{digits}f}'}{stars}"


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
