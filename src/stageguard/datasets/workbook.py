"""The first sheet of an Excel workbook (.xlsx) as rows of texts and numbers. Evaluates nothing."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

from defusedxml.ElementTree import fromstring  # type: ignore[import-untyped]

from stageguard.base.files import checked_file
from stageguard.datasets.samples import broken

Cell = str | float | None

_LARGEST = 32 << 20  # bytes of one part; a table of subjects is never this long


def read_workbook(path: Path) -> list[list[Cell]]:
    """Return the rows of the first sheet; cells without content are None."""
    try:
        with zipfile.ZipFile(checked_file(path, "a list")) as archive:
            names = archive.namelist()
            sheet = next(
                iter(sorted(n for n in names if re.fullmatch(r"xl/worksheets/sheet\d+\.xml", n))), None
            )
            if sheet is None:
                raise broken(path, "is no Excel workbook (.xlsx).")
            shared = "xl/sharedStrings.xml"
            texts = [_text(item) for item in _parts(path, archive, shared)] if shared in names else []
            rows = [row for data in _parts(path, archive, sheet) if _tag(data) == "sheetData" for row in data]
    except zipfile.BadZipFile:
        raise broken(path, "is no Excel workbook (.xlsx).") from None
    return [_row(row, texts) for row in rows]


def _parts(path: Path, archive: zipfile.ZipFile, name: str) -> Any:
    if archive.getinfo(name).file_size > _LARGEST:
        raise broken(path, "is too large for a table of subjects.")
    return fromstring(archive.read(name), forbid_dtd=True)


def _row(row: Any, texts: list[str]) -> list[Cell]:
    cells: list[Cell] = []
    for cell in row:
        letters = re.match(r"[A-Z]+", cell.get("r", ""))
        place = len(cells)
        if letters:  # A is 0, Z is 25, AA is 26
            place = 0
            for letter in letters[0]:
                place = place * 26 + ord(letter) - ord("A") + 1
            place -= 1
        cells += [None] * (place + 1 - len(cells))
        cells[place] = _cell(cell, texts)
    return cells


def _cell(cell: Any, texts: list[str]) -> Cell:
    value = next((_text(part) for part in cell if _tag(part) in ("v", "is")), "")
    kind = cell.get("t", "n")
    if kind == "s" and value.isdigit() and int(value) < len(texts):
        return texts[int(value)]
    if kind in ("str", "inlineStr", "e", "b"):
        return value
    try:
        return float(value) if value else None
    except ValueError:
        return value


def _text(element: Any) -> str:
    return "".join(element.itertext()).strip()


def _tag(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]
