"""What may accompany nights: signal quality per epoch, pinned epochs, tables of groups and subjects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.checks import MISSING_WORDS
from stageguard.base.errors import PinError
from stageguard.base.files import file_error, open_file, read_cell
from stageguard.formats.tables.delimited import is_number, read_delimited

QUALITY_COLUMNS = ("quality", "beta", "sqi")
PIN_COLUMNS = ("epoch", "stage")
GROUP_COLUMNS = ("id", "group")
MOST_DIGITS = 9  # of an epoch's index: a recording of 30 years in epochs of 1 s has as many


@dataclass(frozen=True, slots=True)
class GroupedNight:
    """A line of a table of groups; `subject` and `expert` are None where there is no such column or cell."""

    night_id: str
    group: str
    subject: str | None = None
    expert: Path | None = None


def read_quality(path: Path) -> Floats:
    """One number per epoch (0 clean, 1 lost): a 1-D .npy, a bare column, or a table's `quality` column."""
    if path.suffix.lower() == ".npy":
        try:
            with open_file(path, "an array") as file:
                values = np.load(file, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise file_error(path, f"is not a readable .npy array ({str(error)[:80]}).") from None
        if values.ndim != 1 or values.dtype.kind not in "biuf":
            raise file_error(
                path, f"expected one number per epoch, got shape {values.shape} of {values.dtype}."
            )
        return np.asarray(values, dtype=np.float64)
    table = read_delimited(path, kind="text")
    if len(table.header) == 1 and is_number(table.header[0]):
        cells = [table.header[0], *table.column(0)]
    else:
        header = [cell.casefold() for cell in table.header]
        column = next((header.index(name) for name in QUALITY_COLUMNS if name in header), None)
        if column is None:
            raise file_error(
                path, f"has no column named {' or '.join(QUALITY_COLUMNS)}: {', '.join(table.header)}."
            )
        cells = list(table.column(column))
    for epoch, cell in enumerate(cells):
        if not is_number(cell):
            raise file_error(path, f"epoch {epoch}: expected a quality between 0 and 1, got {cell[:40]!r}.")
    return np.array([float(cell) for cell in cells])


def parse_pins(texts: Sequence[str]) -> dict[int, str]:
    """Pins from `120=R` items or from tables with the columns epoch and stage.

    Epochs count from 0. An epoch pinned twice to different stages is an error.
    """
    pairs: list[tuple[str, str]] = []
    for text in texts:
        if "=" in text and not Path(text).is_file():
            pairs += [_item(part) for part in text.split(",") if part.strip()]
        else:
            pairs += _pin_table(Path(text))
    pins: dict[int, str] = {}
    for epoch, stage in pairs:
        if not epoch.strip().isdecimal() or len(epoch.strip()) > MOST_DIGITS:
            raise PinError(
                f"a pin needs an epoch index counted from 0, got {epoch[:40]!r}. Write it as 120=R."
            )
        index = int(epoch)
        if pins.setdefault(index, stage) != stage:
            raise PinError(f"epoch {index} is pinned to {pins[index]!r} and to {stage!r}. Keep one.")
    return pins


def _item(text: str) -> tuple[str, str]:
    epoch, mark, stage = text.partition("=")
    if not mark or not stage.strip():
        raise PinError(f"cannot read the pin {text.strip()!r}. Write it as epoch=stage, for example 120=R.")
    return epoch.strip(), stage.strip()


def _pin_table(path: Path) -> list[tuple[str, str]]:
    if not path.is_file():
        raise PinError(
            f"{str(path)!r} is neither a file nor a pin. Write pins as 120=R, or name a table with the "
            "columns epoch and stage."
        )
    return [(row["epoch"], row["stage"]) for _, row in _records(path, PIN_COLUMNS)]


NO_GROUP = MISSING_WORDS - {"none"}  # which is a group, as in apnoea: none, mild, severe


def read_groups(path: Path) -> dict[str, GroupedNight]:
    """Nights by id from a table with the columns id and group, and optionally subject and expert.

    `expert` is the path of an expert's hypnogram, from the table's own folder.
    """
    rows = _nights(path, GROUP_COLUMNS, leaves_out=True)  # a night without a group is said to be left out
    return {
        name: GroupedNight(name, cells["group"], cells.get("subject") or None, _expert(path, cells))
        for name, cells in rows.items()
    }


COLUMNS = ("id", "subject")


@dataclass(frozen=True, slots=True)
class SubjectNight:
    """A line of a table of subjects; `group` and `expert` are None where there is no such column or cell."""

    night_id: str
    subject: str
    group: str | None = None
    expert: Path | None = None


def read_subjects(path: Path) -> dict[str, SubjectNight]:
    """Nights by id from a table with the columns id and subject, and optionally group and expert.

    `group` is what must stay together when nights are split, if that is more than the subject; `expert`
    is the path of an expert's hypnogram, from the table's own folder.
    """
    return {
        name: SubjectNight(name, cells["subject"], cells.get("group") or None, _expert(path, cells))
        for name, cells in _nights(path, COLUMNS).items()
    }


def _expert(path: Path, cells: Mapping[str, str]) -> Path | None:
    return path.parent / cells["expert"] if cells.get("expert") else None


def _nights(path: Path, columns: Sequence[str], *, leaves_out: bool = False) -> dict[str, dict[str, str]]:
    """Cells of each night by its id, which are empty where they say that something is missing.

    Rows whose second of `columns` is missing are left out, or an error.
    """
    nights: dict[str, dict[str, str]] = {}
    for line, cells in _records(path, columns):
        name, value = (read_cell(cells[column]) for column in columns)
        if leaves_out and name and value.casefold() in NO_GROUP - {""}:
            continue
        cells |= dict(zip(columns, (name, value), strict=True))
        cells |= {column: "" for column, cell in cells.items() if cell.casefold() in NO_GROUP}
        empty = [column for column in columns if not cells[column]]
        if empty:
            raise file_error(path, f"line {line} has no {empty[0]}.")
        if name in nights:
            raise file_error(path, f"line {line} names {name!r} again. Expected one row per night.")
        nights[name] = cells
    if not nights:
        raise file_error(path, "has a header but no rows. Expected one row per night.")
    return nights


def _records(path: Path, columns: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """Line and cells of each row of a table that has these columns, in any case."""
    table = read_delimited(path)
    header = tuple(name.casefold() for name in table.header)
    if not all(name in header for name in columns):
        there = ", ".join(table.header)
        raise file_error(path, f"expected the columns {' and '.join(columns)}, got: {there}.")
    return list(zip(table.lines, replace(table, header=header).records(), strict=True))
