"""Tables, and their text in Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import isnan

from stageguard.measures.samples import Estimate

Cell = str | float | Estimate
FORMATS = {"md": "Markdown", "tex": "LaTeX", "csv": "CSV"}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts and numbers; a number is shown with the decimals of its column."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...] = field(repr=False)
    decimals: tuple[int, ...] = ()  # per column; 3 for further columns
    notes: tuple[str, ...] = ()
    row_decimals: tuple[int, ...] = ()  # per row, where rows have units of their own
    bold: frozenset[tuple[int, int]] = frozenset()  # rows and columns of cells that stand out

    def text(self, form: str) -> str:
        """Return the table in a format of `FORMATS`, or as ``tsv``."""
        if form in ("csv", "tsv"):
            return self._delimited("," if form == "csv" else "\t")
        return {"md": self._markdown, "tex": self._latex}[form]()

    def with_rows(self, *rows: tuple[Cell, ...]) -> Table:
        """Return the table with more rows at its end."""
        return replace(self, rows=(*self.rows, *rows))

    def _places(self, row: int, column: int) -> int:
        if self.row_decimals:
            return self.row_decimals[row]
        return self.decimals[column] if column < len(self.decimals) else 3

    def _cells(self, escape: Callable[[str], str], bold: str) -> list[list[str]]:
        """Return the texts of all cells; `bold` is how a cell that stands out is written."""
        texts = [
            [escape(_cell_text(cell, self._places(i, k))) for k, cell in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]
        for row, column in self.bold:
            texts[row][column] = bold.format(texts[row][column])
        return texts

    def _markdown(self) -> str:
        rule = ["---", *["--:"] * (len(self.columns) - 1)]
        cells = self._cells(_in_markdown, "**{}**")
        lines = [[_in_markdown(column) for column in self.columns], rule, *cells]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        notes = "".join(f"\n{note}\n" for note in self.notes)
        return f"## {self.title}\n\n{body}\n{notes}"

    def _latex(self) -> str:
        heads = " & ".join(_escape(column) for column in self.columns)
        lines = [" & ".join(row) for row in self._cells(_escape, r"\textbf{{{}}}")]
        body = "".join(f"{line} \\\\\n" for line in lines)
        shape = "l" + "r" * (len(self.columns) - 1)
        notes = "".join(f"\n\\par\\smallskip\\footnotesize {_escape(note)}" for note in self.notes)
        return (
            f"% {self.title}\n\\begin{{table}}\n\\caption{{{_escape(self.title)}.}}\n"
            f"\\begin{{tabular}}{{{shape}}}\n\\toprule\n{heads} \\\\\n\\midrule\n{body}\\bottomrule\n"
            f"\\end{{tabular}}{notes}\n\\end{{table}}\n"
        )

    def _delimited(self, delimiter: str) -> str:
        """Return full numbers; estimates have further columns for standard deviation, n, p and effect."""
        wide = [any(isinstance(row[k], Estimate) for row in self.rows) for k in range(len(self.columns))]
        head = []
        for column, is_wide in zip(self.columns, wide, strict=True):
            head += [
                column,
                *([f"{column}, {what}" for what in ("sd", "n", "p", "effect")] if is_wide else []),
            ]
        buffer = io.StringIO()
        writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
        writer.writerow(head)
        for row in self.rows:
            cells: list[object] = []
            for cell, is_wide in zip(row, wide, strict=True):
                e = cell if isinstance(cell, Estimate) else None
                numbers = (e.mean, e.sd, e.n, e.p, e.effect) if e else (cell, *[""] * 4 * is_wide)
                cells += [_number(value) for value in numbers]
            writer.writerow(cells)
        return buffer.getvalue()


def _number(value: object) -> object:
    if isinstance(value, float):
        return "" if isnan(value) else f"{value:.6g}"
    return value


def _in_markdown(text: str) -> str:
    return text.replace("|", "\\|")


def _cell_text(cell: Cell, places: int) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Estimate):
        if isnan(cell.mean):
            return "n/a"
        sd = "" if isnan(cell.sd) else f" ± {cell.sd:.{places}f}"
        return f"{cell.mean:.{places}f}{sd}{cell.stars}"
    return "n/a" if isnan(cell) else f"{cell:.{places}f}"


_LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
_LATEX |= {
    "±": r"$\pm$",
    "λ": r"$\lambda$",
    "κ": r"$\kappa$",
    "Δ": r"$\Delta$",
    "→": r"$\to$",
    "ε": r"$\epsilon$",
}
_LATEX |= {"†": r"\dag{}"}
_LATEX |= {"×": r"$\times$", "π": r"$\pi$", "−": "$-$", "–": "--", "γ": r"$\gamma$", "$": r"\$", "~": r"\~{}"}


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
