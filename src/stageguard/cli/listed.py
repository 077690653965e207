"""Nights by a sample list: a table of files, ids and lights. Reads the list only, not the files it names."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from stageguard.base.errors import Argument, InputError, message_of
from stageguard.base.files import file_error, open_file
from stageguard.cli.inputs import Input, night_id
from stageguard.datasets.sample_list import (
    MOMENT_WORDS,
    START_WORDS,
    numbered_rows,
    parse_moment,
    parse_start,
)
from stageguard.formats.density import listed
from stageguard.formats.file_format import Kind
from stageguard.formats.sniffing import HEAD_BYTES, UTF16_MARKS

Parsed = TypeVar("Parsed")
FILE_COLUMNS = ("probabilities", "scoring", "edf")
LIST_SUFFIXES = (".tsv", ".csv")


def is_sample_list(path: Path) -> bool:
    """Whether a table is a sample list: its header has `id` and a column that names files."""
    if path.suffix.lower() not in LIST_SUFFIXES or not path.is_file():
        return False
    with open_file(path, "a recording") as file:
        head = file.read(HEAD_BYTES)
    text = head.decode("utf-16" if head.startswith(UTF16_MARKS) else "utf-8-sig", errors="replace")
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    cells = {cell.strip(' "').casefold() for cell in re.split(r"[\t;,]", next(lines, ""))}
    return "id" in cells and not cells.isdisjoint(FILE_COLUMNS)


def read_samples(path: Path, kind: Kind) -> list[Input]:
    """Return the nights of a list: probabilities to decode, or these or else scorings to judge."""
    columns = ("probabilities",) if kind == "density" else FILE_COLUMNS
    used = ("probabilities", "edf") if kind == "density" else FILE_COLUMNS  # no scoring is decoded
    found = [_sample(path, number, row, columns, used) for number, row in numbered_rows(path, columns)]
    return _once_each(path, found)


def describe_by(path: Path, nights: Sequence[Input]) -> tuple[list[Input], list[str]]:
    """Return nights with what a list says of them by their ids, and a remark on rows without a night."""
    rows = {}
    for number, row in numbered_rows(path, ("id", *FILE_COLUMNS)):
        name = row.get("id") or night_id(Path(next(row[column] for column in FILE_COLUMNS if column in row)))
        found = _sample(path, number, row | {"id": name}, (), ("scoring", "edf"))
        source = path.parent / row["probabilities"] if "probabilities" in row else None
        rows[name] = dataclasses.replace(found, source=source if source and _is_file(source) else None)
    without = [night.name for night in nights if night.name not in rows]
    if without:
        raise file_error(path, f"has no row for {listed(without, 3)}, expected their ids. Add them.")
    described = [dataclasses.replace(rows[night.name], path=night.path) for night in nights]
    given = {night.name for night in nights}
    rest = [name for name in rows if name not in given]
    return described, [f"in {path.name}, but not among the files: {listed(rest, 5)}"] if rest else []


def _sample(
    path: Path, number: int, row: Mapping[str, str], columns: Sequence[str], used: Sequence[str]
) -> Input:
    """Return the night of a row: the first of `columns` is its file, and those `used` must be there."""
    where = {column: path.parent / row[column] for column in used if column in row}
    own = next((where[column] for column in columns if column in where), Path())
    name = row.get("id") or night_id(own)
    if Path(name).name != name or name.startswith(".") or "\\" in name:
        raise file_error(path, f"row {number}: the id {name[:40]!r} cannot name a file. Leave out / and \\.")
    gone = [column for column, file in where.items() if not _is_file(file)]
    error = None
    if gone:
        error = f"{path.name}, row {number}: {gone[0]} {row[gone[0]][:200]} is not there. Correct the list."
    return Input(
        own,
        name,
        where.get("scoring"),
        where.get("edf"),
        _moment(path, number, row, "lights_off", parse_moment, MOMENT_WORDS),
        _moment(path, number, row, "lights_on", parse_moment, MOMENT_WORDS),
        error,
        is_listed=True,
        start=_moment(path, number, row, "start", parse_start, START_WORDS),
    )


COLUMN_WORDS = {
    "lights_off": "lights_off of the list",
    "lights_on": "lights_on of the list",
    "start": "its start or its edf in the list",
}


def in_list_words(error: InputError) -> InputError:
    """Return what is wrong with lights as a matter of the list's columns, not of options."""

    def say(part: object) -> object:
        return COLUMN_WORDS.get(part.name, part) if isinstance(part, Argument) else part

    return InputError(message_of(error).replace_parts(say))


def _once_each(path: Path, nights: list[Input]) -> list[Input]:
    """Refuse names that differ in case only: their outputs would be one file on many systems."""
    first: dict[str, str] = {}
    for night in nights:
        other = first.setdefault(night.name.casefold(), night.name)
        if other != night.name:
            raise file_error(path, f"the ids {other!r} and {night.name!r} differ in case only. Rename one.")
    return nights


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long, for one
        return False


def _moment(
    path: Path, number: int, row: Mapping[str, str], column: str, parse: Callable[[str], Parsed], words: str
) -> Parsed | None:
    """Return the time in a cell of the list, or None where it is empty."""
    if column not in row:
        return None
    try:
        return parse(row[column])
    except ValueError:
        raise file_error(
            path, f"row {number}: {column} {row[column][:40]!r} is no time, expected {words}."
        ) from None
