"""Tables that hold more than one night, channel or scorer, by the columns that name them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from stageguard.base.files import file_error
from stageguard.formats.density import Where, listed

# A column of such a name that has several values: more than one night in the file.
NIGHT_COLUMNS = (
    *("id", "recording", "recording_id", "record_id", "night", "night_id", "session", "session_id"),
    *("subject", "subject_id", "subjectid", "participant", "participant_id", "patient", "patient_id"),
    *("file", "filename"),
)
PART_COLUMNS = {
    **dict.fromkeys(("channel", "ch", "electrode"), "channels"),
    **dict.fromkeys(("scorer", "rater", "annotator"), "scorers"),
}


@lru_cache(maxsize=4096)
def is_night_column(name: str) -> bool:
    """Whether a column of this name says which recording, channel or scorer a row is of."""
    return re.sub(r"[\s_.\-]+", "_", name.casefold()) in (*NIGHT_COLUMNS, *PART_COLUMNS)


def refuse_many(path: Where, name: str, cells: Sequence[str] | None) -> None:
    """Refuse a table of several nights, channels or scorers by a column that names them."""
    values = list(dict.fromkeys(cells or ()))
    if len(values) < 2 or (len(values) == len(cells or ()) and _counts(values)):
        return
    what = PART_COLUMNS.get(name.casefold(), "recordings")
    more = " or read each and put them together with sg.combine." if what == "channels" else (
        f" for example with pandas: table[table[{name!r}] == {values[0][:40]!r}]."
    )  # fmt: skip
    raise file_error(
        path,
        f"holds {len(values):,} {what} by its column {name} ({listed(values, 4)}), expected one. Keep the "
        f"rows of one of them,{more}",
    )


def _counts(cells: Sequence[str]) -> bool:
    """Whether cells are a count of rows."""
    try:
        numbers = [int(cell) for cell in cells]
    except ValueError:
        return False
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))
