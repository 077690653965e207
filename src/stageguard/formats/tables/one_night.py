"""Refuse tables that hold rows of several recordings, channels or scorers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from stageguard.files import file_error
from stageguard.formats.density import listed
from stageguard.formats.night import Where
from stageguard.formats.tables.table import Table, cell_text

# If a column of such a name has several values, the file holds more than one night. Names are without marks.
_WHOSE = ("subject", "subj", "sub", "participant", "patient", "person", "case", "animal", "mouse", "rat")
_WHICH = ("recording", "record", "rec", "night", "session", "ses", "visit", "study", "file", "edffile")
NIGHT_COLUMNS = {
    *(f"{name}{ending}" for name in (*_WHOSE, *_WHICH) for ending in ("", "id", "no", "name")),
    *("id", "pid", "sid", "uid", "nsrrid", "fold", "filepath", "edf"),
}
PART_COLUMNS = {
    **dict.fromkeys(("channel", "ch", "electrode"), "channels"),
    **dict.fromkeys(("scorer", "rater", "annotator"), "scorers"),
}
DECODED_COLUMNS = frozenset(("stage", "label", "argmax_stage"))  # in all outputs of `decode`


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """Return the name of a column in lower case without blanks, underscores, points and hyphens."""
    return re.sub(r"[\s_.\-]+", "", name.casefold())


def is_night_column(name: str) -> bool:
    """Whether a column of this name says which recording, channel or scorer a row belongs to."""
    return plain_name(name) in NIGHT_COLUMNS or plain_name(name) in PART_COLUMNS


def refuse_several(table: Table, *, of_channels: bool = True) -> None:
    """Refuse a table if a column or a level of its index tells several nights, channels or scorers apart.

    Unless `of_channels`, rows may be of several channels, as events are.
    """
    for column, name in enumerate(table.header):
        if is_night_column(name) and (of_channels or PART_COLUMNS.get(name) != "channels"):
            _refuse_many(table.path, name, table.column(column), table.header)
    for name, cells in table.index.columns:
        if is_night_column(name):
            texts = [cell_text(cell) for cell in np.asarray(cells).tolist()]
            _refuse_many(table.path, name, texts, table.header)


def _refuse_many(path: Where, name: str, cells: Sequence[str], header: Sequence[str]) -> None:
    """Refuse a table if its column `name` has several values and does not number the rows."""
    values = list(dict.fromkeys(cells))
    if len(values) < 2 or (len(values) == len(cells) and _counts(values)):
        return
    what = PART_COLUMNS.get(plain_name(name), "recordings")
    advice = f"Keep the rows of one, for example with pandas: table[table[{name!r}] == {values[0][:40]!r}]."
    if what == "channels":
        advice = "Keep the rows of one, or read each and put them together with sg.combine."
    elif name.strip().casefold() == "id" and not isinstance(path, str):
        advice = f"To decode all of them: stageguard decode {path.name} --output out.csv, or out.parquet."
        if DECODED_COLUMNS.issubset(header):
            advice = "Outputs of decode are read whole by compare and stats."
    many = f"{len(values):,} {what} by its column {name} ({listed(values, 4)})"
    raise file_error(path, f"holds {many}, expected one. {advice}")


def _counts(cells: Sequence[str]) -> bool:
    """Whether cells number the rows."""
    try:
        numbers = [int(cell) for cell in cells]
    except ValueError:
        return False
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))
