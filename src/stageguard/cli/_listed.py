"""Nights by a sample list: a table of files, ids and lights. Reads the list only, not the files it names."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, time
from pathlib import Path
from typing import TYPE_CHECKING

from stageguard.cli._inputs import Input, night_id
from stageguard.datasets.sample_list import numbered_rows
from stageguard.errors import InputError
from stageguard.formats._density_file import file_error, listed
from stageguard.formats._file_format import Kind
from stageguard.formats._sniffing import HEAD_BYTES, UTF16_MARKS

if TYPE_CHECKING:
    from stageguard.measures.day import Moment

FILE_COLUMNS = ("probabilities", "scoring", "edf")
LIST_SUFFIXES = (".tsv", ".csv")
LONGEST_DAY = 7 * 86_400.0  # seconds after the start that lights may change


def is_sample_list(path: Path) -> bool:
    """Whether a table is a sample list: its header has `id` and a column that names files."""
    if path.suffix.lower() not in LIST_SUFFIXES or not path.is_file():
        return False
    with path.open("rb") as file:
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
    off, on = (parse_light(path, number, column, row.get(column)) for column in ("lights_off", "lights_on"))
    return Input(own, name, where.get("scoring"), where.get("edf"), off, on, error, is_listed=True)


def in_list_words(error: InputError) -> InputError:
    """Return what is wrong with lights as a matter of the list's columns, not of options."""
    text = str(error)
    for column in ("lights_off", "lights_on"):
        text = text.replace(f"{column} is ", f"the list has {column} ")
    return InputError(
        text.replace(
            "Give start= to the Hypnogram, or an epoch index or seconds",
            "Name its edf in the list, or seconds",
        )
    )


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


def parse_light(path: Path, number: int, column: str, text: str | None) -> Moment | None:
    """Return when lights went off or on: seconds since the start, a time of day, or a date with a time."""
    if text is None:
        return None
    try:
        if re.fullmatch(r"\d{1,7}(\.\d*)?", text):
            seconds = float(text)
            if seconds <= LONGEST_DAY:
                return seconds
        elif re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
            time.fromisoformat(text.zfill(8 if text.count(":") == 2 else 5))
            return text
        elif text[:4].isdecimal() and text[4:5] == "-":
            return datetime.fromisoformat(text)
    except ValueError:
        pass
    raise file_error(
        path, f"row {number}: {column} {text[:40]!r} is no time, expected seconds since the start, a time "
        "such as 22:58, or a date with a time."
    )  # fmt: skip
