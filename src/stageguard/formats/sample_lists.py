"""Sample lists: a TSV or CSV with a row per night, which names its files, and its start and lights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, time
from pathlib import Path

from stageguard.base.checks import MISSING_WORDS
from stageguard.base.errors import Argument, InputError, did_you_mean, message_of
from stageguard.base.files import file_error, read_cell
from stageguard.formats.tables.delimited import read_delimited
from stageguard.measures.day import Moment

SOME_DAY = date(2000, 1, 1)  # a time of day without a date; which day matters to no statistic
START_WORDS = "a time such as 22:30 or 2024-05-01T22:30"
MOMENT_WORDS = f"seconds since the beginning of the recording, or {START_WORDS}"
COLUMN_WORDS = {
    "lights_off": "lights_off of the list",
    "lights_on": "lights_on of the list",
    "start": "its start or its edf in the list",
}


def numbered_rows(path: Path, files: Sequence[str] = ("edf",)) -> list[tuple[int, dict[str, str]]]:
    """Read the lines of a list with their numbers, as editors count; each names one of `files` at least."""
    columns = ", ".join(dict.fromkeys(("id", "subject", *files, "scoring")))
    table = read_delimited(path, comments=True, utf16=True, expected=f"a header such as: {columns}")
    header = [_column(name) for name in table.header]
    _check_header(path, header, files)
    rows: list[tuple[int, dict[str, str]]] = []
    lines: dict[str, int] = {}
    for line, cells in zip(table.lines, table.rows, strict=True):
        row = _row(path, line, header, cells, files)
        name = row.get("id") or Path(next(row[column] for column in files if column in row)).stem
        if name in lines:
            raise file_error(
                path, f"line {line} is {name!r} again, after line {lines[name]}. Give each its own id."
            )
        lines[name] = line
        rows.append((line, row))
    if not rows:
        raise file_error(path, "has a header but no rows, expected one row per recording.")
    return rows


def _row(
    path: Path, line: int, header: Sequence[str], cells: Sequence[str], files: Sequence[str]
) -> dict[str, str]:
    row = {name: cell for name, cell in zip(header, cells, strict=True) if cell.lower() not in MISSING_WORDS}
    row |= {name: read_cell(row[name]) for name in ("id", "subject") if name in row}
    if not any(column in row for column in files):
        named = [column for column in files if column in header]
        raise file_error(path, f"line {line} names no file in its column {' or '.join(named)}.")
    return row


def _column(name: str) -> str:
    prefix, mark, rest = name.strip().partition(":")
    return f"{prefix.strip().lower()}{mark}{rest.strip()}" if mark else prefix.lower().replace(" ", "_")


def _check_header(path: Path, header: Sequence[str], files: Sequence[str]) -> None:
    twice = next((name for place, name in enumerate(header) if name in header[:place]), None)
    if twice is not None:
        raise file_error(path, f"has the column {twice!r} twice. Keep one.")
    if not any(column in header for column in files):
        shown, wanted = ", ".join(header)[:80], " or ".join(files)
        raise file_error(
            path, f"has no column {wanted}, expected one; it has: {shown}.{did_you_mean(files[0], header)}"
        )
    bad = next((name for name in header if name.endswith(":") or name.startswith(":")), None)
    if bad is not None:
        raise file_error(path, f"has the column {bad!r}, expected such as channel:eeg or scoring:second.")


def parse_moment(text: str) -> Moment:
    """Return a time as `sleep_statistics` takes it, or raise ValueError: see `MOMENT_WORDS`."""
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d*)?s?", text):
        return float(text.removesuffix("s"))
    if "-" in text:
        return datetime.fromisoformat(text)
    _time_of_day(text)
    return text


def parse_start(text: str) -> datetime:
    """Return when a recording begins, or raise ValueError; a bare time of day is put on some day."""
    text = text.strip()
    return datetime.fromisoformat(text) if "-" in text else datetime.combine(SOME_DAY, _time_of_day(text))


def _time_of_day(text: str) -> time:
    if not re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
        raise ValueError(text)
    return time.fromisoformat(f"0{text}" if text[1] == ":" else text)


def in_list_words(error: InputError) -> InputError:
    """Return what is wrong with lights as a matter of the list's columns, not of options."""

    def say(part: object) -> object:
        return COLUMN_WORDS.get(part.name, part) if isinstance(part, Argument) else part

    return InputError(message_of(error).replace_parts(say))
