"""What programs leave around plain tables: numbered headers, spaces, empty rows. Reads no number."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_DELIMITED = re.compile(rb"[\t;,]")
_LOOKED_AT = 65_536  # bytes in which a delimiter is looked for


def n_counted(cells: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return how many columns a first line counts from 0, as pandas does without names; 0 where it does not.

    A nameless index may stand before them. Two columns may be a row of probabilities too, 0 and 1: then one
    of the rows below must hold something else than whole numbers.
    """
    counts = list(cells[1:] if cells and not cells[0] else cells)
    if len(counts) < 2 or counts != [str(place) for place in range(len(counts))]:
        return 0
    is_whole = all(re.fullmatch(r"\d*", cell) for row in rows for cell in row)
    return 0 if len(counts) == 2 and is_whole else len(counts)


def uncommented(line: str) -> str:
    """Return a line without the mark of a comment, which NumPy puts before names of columns."""
    return line.lstrip("#").lstrip() if line.startswith("#") else line


def tabbed(data: bytes, stage_of: Callable[[str], str | None]) -> tuple[bytes, bool]:
    """Return a table whose cells are separated by spaces with tabs instead, and whether it was one.

    Only text without any other delimiter is one, if its first line names stages or holds numbers alone.
    """
    if _DELIMITED.search(data, 0, _LOOKED_AT) or b" " not in data[:_LOOKED_AT]:
        return data, False
    lines = data[:_LOOKED_AT].decode(errors="replace").split("\n")
    heads = [uncommented(line).split() for line in lines[:20]]
    numbers = next((line.split() for line in lines if line.strip() and not line.startswith("#")), [])
    is_named = any(len(cells) > 1 and all(map(stage_of, cells)) for cells in heads)
    if len(numbers) < 2 or not (is_named or all(map(_is_number, numbers))):
        return data, False
    rows = (b"\t".join(line.split()) for line in data.split(b"\n"))
    return b"\n".join(rows), True


def without_empty_rows(body: bytes, delimiter: str) -> tuple[bytes, int]:
    """Return rows without those at the end whose cells are all empty, and how many these were."""
    blank = f" \t{delimiter}".encode()
    end, n_rows = len(body), 0
    while (begin := body.rfind(b"\n", 0, end)) >= 0 and not body[begin + 1 : end].strip(blank):
        end, n_rows = begin, n_rows + 1
    if not body[:end].strip(blank + b"\n"):
        return body, 0
    return body[:end], n_rows


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell
