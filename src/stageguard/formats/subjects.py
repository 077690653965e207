"""Read whose night each file is. Judges nothing about them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stageguard.formats._density_file import file_error
from stageguard.formats.companions import MISSING, _rows

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
    rows = _rows(path)
    header = [cell.casefold() for cell in rows[0]]
    if not all(name in header for name in COLUMNS):
        raise file_error(path, f"expected the columns id and subject, got: {', '.join(rows[0])}.")
    nights: dict[str, SubjectNight] = {}
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise file_error(path, f"row {number} has {len(row)} cells, the header has {len(header)}.")
        cells = dict(zip(header, row, strict=True))
        cells |= {column: "" for column, cell in cells.items() if cell.casefold() in MISSING}
        name, subject = (cells[column] for column in COLUMNS)
        if not name or not subject:
            raise file_error(path, f"row {number} has no {'subject' if name else 'id'}.")
        if name in nights:
            raise file_error(path, f"row {number} names {name!r} again. Expected one row per night.")
        expert = cells.get("expert")
        nights[name] = SubjectNight(
            name, subject, cells.get("group") or None, path.parent / expert if expert else None
        )
    if not nights:
        raise file_error(path, "has a header but no rows. Expected one row per night.")
    return nights
