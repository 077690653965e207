"""Render what commands found: on the terminal, as JSON lines, and as tables by the suffix of their file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click import UsageError

from stageguard.cli.terminal import Console, json_text
from stageguard.files import write_together
from stageguard.report.table import Piece, Table
from stageguard.runner.stopping import unstopped


def check_suffix(path: Path | None, *suffixes: str, option: str = "--output") -> None:
    """Refuse a name of an output whose suffix does not say what to write."""
    if path is not None and path.suffix.lower() not in suffixes:
        raise UsageError(f"{option} is {str(path)!r}, expected a name that ends in {' or '.join(suffixes)}.")


def write_tables(
    path: Path, tables: Mapping[str, Table], *, overwrite: bool, spare: Iterable[Path] = ()
) -> list[Path]:
    """Write tables, all or none; the keys end the names of their files, and codebooks stand beside .tsv."""
    texts: dict[Path, str | bytes] = {}
    for ending, table in tables.items():
        texts |= table.files(path.with_name(f"{path.stem}{ending}{path.suffix}"))
    write_together(texts, overwrite=overwrite, make_folders=True, spare=spare)
    return list(texts)


def print_line(record: Any) -> None:
    """Print plain types, or what has `to_dict`, as one line of JSON at once: a pipeline reads as it goes."""
    content = record.to_dict() if hasattr(record, "to_dict") else record
    with unstopped():  # a signal must not cut a line in two
        print(json_text(content, levels=0), flush=True)


def show(table: Table, out: Console) -> None:
    """Print a table below its title."""
    if table.title:
        out.heading(table.title)
    heads = [f">{each.head}" if each.digits is not None else each.head for each in table.columns]
    out.table(heads, table.shown(), headed=any(each.head for each in table.columns))
    for note in table.notes:
        out.print(note)


@dataclass(slots=True)
class Answer:
    """What a command tells people: sentences, tables, remarks under headings."""

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
            show(table, out)
        for sentence in self.after:
            out.print(sentence)
        for heading, items in self.remarks.items():
            out.list(heading, items)
