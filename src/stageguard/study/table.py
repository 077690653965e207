"""A table of texts and numbers, and its text in Markdown, LaTeX, CSV and TSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isnan, nan

from stageguard.measures.samples import Estimate

Cell = str | float | Estimate
Column = str | tuple[str, int]  # of texts, or of numbers with these decimals
FORMATS = ("md", "tex", "csv")

_LATEX = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%#_{}$"},
    "~": r"\~{}",
    "–": "--",
}
_LATEX |= {"±": r"$\pm$", "λ": r"$\lambda$", "κ": r"$\kappa$", "Δ": r"$\Delta$", "ε": r"$\epsilon$"}
_LATEX |= {"→": r"$\to$", "×": r"$\times$", "π": r"$\pi$", "−": "$-$", "γ": r"$\gamma$", "†": r"\dag{}"}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts and numbers; a number is shown with the decimals of its column."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    row_decimals: tuple[int, ...] = ()  # per row, where rows have units of their own

    @property
    def heads(self) -> list[str]:
        """The titles of the columns."""
        return [column if isinstance(column, str) else column[0] for column in self.columns]

    def text(self, form: str) -> str:
        """Return the table as Markdown, LaTeX, ``csv`` or ``tsv``."""
        if form in ("csv", "tsv"):
            return self._full_numbers("," if form == "csv" else "\t")
        return {"md": self._markdown, "tex": self._latex}[form]()

    def _cells(self, escape: Callable[[str], str]) -> list[list[str]]:
        """Return heads and cells as text."""
        places = [3 if isinstance(column, str) else column[1] for column in self.columns]
        lines = [[escape(head) for head in self.heads]]
        for k, row in enumerate(self.rows):
            decimals = [self.row_decimals[k]] * len(row) if self.row_decimals else places
            lines.append([escape(_text(cell, n)) for cell, n in zip(row, decimals, strict=True)])
        return lines

    def _markdown(self) -> str:
        head, *rows = self._cells(lambda text: text.replace("|", "\\|"))
        rule = ["---", *["--:"] * (len(head) - 1)]
        body = "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *rows))
        notes = "".join(f"\n{note}\n" for note in self.notes)
        return f"## {self.title}\n\n{body}\n{notes}"

    def _latex(self) -> str:
        head, *rows = (" & ".join(line) + " \\\\\n" for line in self._cells(_escape))
        shape = "l" + "r" * (len(self.columns) - 1)
        notes = "".join(f"\n\\par\\smallskip\\footnotesize {_escape(note)}" for note in self.notes)
        return (
            f"% {self.title}\n\\begin{{table}}\n\\caption{{{_escape(self.title)}.}}\n\\begin{{tabular}}"
            f"{{{shape}}}\n\\toprule\n{head}\\midrule\n{''.join(rows)}\\bottomrule\n"
            f"\\end{{tabular}}{notes}\n\\end{{table}}\n"
        )

    def _full_numbers(self, delimiter: str) -> str:
        """Return all digits; estimates have further columns for standard deviation, n, p and effect."""
        wide = [any(isinstance(row[k], Estimate) for row in self.rows) for k in range(len(self.columns))]
        buffer = io.StringIO()
        writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
        more = ("", ", sd", ", n", ", p", ", effect")
        pairs = list(zip(self.heads, wide, strict=True))
        writer.writerow([f"{head}{what}" for head, is_wide in pairs for what in more[: 5 if is_wide else 1]])
        for row in self.rows:
            cells: list[object] = []
            for cell, is_wide in zip(row, wide, strict=True):
                if isinstance(cell, Estimate):
                    cells += [cell.mean, cell.sd, cell.n, cell.p, cell.effect]
                else:
                    cells += [cell, *[""] * (4 * is_wide)]
            writer.writerow(["" if c != c else f"{c:.6g}" if isinstance(c, float) else c for c in cells])
        return buffer.getvalue()


def _text(cell: Cell, places: int) -> str:
    if isinstance(cell, str):
        return cell
    number, sd, stars = (cell.mean, cell.sd, cell.stars) if isinstance(cell, Estimate) else (cell, nan, "")
    if isnan(number):
        return "n/a"
    return f"{number:.{places}f}{'' if isnan(sd) else f' ± {sd:.{places}f}'}{stars}"


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
