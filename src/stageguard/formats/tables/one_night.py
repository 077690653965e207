"""Refuse tables that hold rows of several recordings, channels or scorers, or times under unknown names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from stageguard.arrays import Floats, Indices
from stageguard.files import file_error
from stageguard.formats.density import listed
from stageguard.formats.night import Where
from stageguard.formats.tables.row_times import parse_cells
from stageguard.formats.tables.table import NAMELESS, Table, cell_text
from stageguard.formats.tables.timing import TOLERANCE, RowTimes
from stageguard.night.stages import canonical_name

# If a column of such a name has several values, the file holds more than one night. Names are without marks.
NIGHT_COLUMNS = frozenset(
    (
        *("id", "recording", "recordingid", "recordid", "record", "rec", "recid", "recordingname", "nsrrid"),
        *("night", "nightid", "nightno", "session", "sessionid", "ses", "visit", "visitid", "fold"),
        *("subject", "subjectid", "subjectname", "subj", "subjid", "sub", "subid", "pid", "sid", "uid"),
        *("participant", "participantid", "patient", "patientid", "person", "personid", "case", "caseid"),
        *("animal", "animalid", "mouse", "mouseid", "rat", "ratid", "study", "studyid"),
        *("file", "filename", "fileid", "filepath", "edf", "edffile"),
    )
)
PART_COLUMNS = {
    **dict.fromkeys(("channel", "ch", "electrode"), "channels"),
    **dict.fromkeys(("scorer", "rater", "annotator"), "scorers"),
}
# Columns that may have one value for many rows although the rows are of one night.
OF_ONE_NIGHT = frozenset(
    (
        *("stage", "sleepstage", "stages", "stagen", "label", "labels", "pred", "preds", "prediction"),
        *("predicted", "ypred", "ytrue", "true", "truth", "target", "hypno", "hypnogram", "argmax", "class"),
        *("cycle", "sleepcycle", "nremcycle", "cyclenumber", "hour", "lights", "light", "position"),
        *("bodyposition", "artefact", "artifact", "movement", "arousal", "valid", "flag"),
    )
)
DECODED_COLUMNS = frozenset(("stage", "label", "argmax_stage"))  # in all outputs of `decode`
SHORTEST_RUN = 3  # rows of one value in a column that may tell recordings apart
NEXT_STEP = 1.5  # of the usual step: a longer one is a gap


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """Return the name of a column in lower case without blanks, underscores, points and hyphens."""
    return re.sub(r"[\s_.\-]+", "", name.casefold())


@lru_cache(maxsize=4096)
def is_night_column(name: str) -> bool:
    """Whether a column of this name says which recording, channel or scorer a row belongs to."""
    return plain_name(name) in NIGHT_COLUMNS or plain_name(name) in PART_COLUMNS


def refuse_several(table: Table, *, of_channels: bool = True) -> None:
    """Refuse a table if a column or a level of its index tells several nights, channels or scorers apart.

    Unless `of_channels`, rows may be of several channels, as events are.
    """
    for column, name in enumerate(table.header):
        if is_night_column(name) and (of_channels or PART_COLUMNS.get(name) != "channels"):
            refuse_many(table.path, name, table.column(column), table.header)
    for name, cells in table.index.columns:
        if is_night_column(name):
            texts = [cell_text(cell) for cell in np.asarray(cells).tolist()]
            refuse_many(table.path, name, texts, table.header)


def refuse_many(path: Where, name: str, cells: Sequence[str], header: Sequence[str]) -> None:
    """Refuse a table if its column `name` tells several nights, channels or scorers apart."""
    values = list(dict.fromkeys(cells))
    if len(values) < 2 or (len(values) == len(cells) and _counts(values)):
        return
    what = PART_COLUMNS.get(plain_name(name), "recordings")
    more = " or read each and put them together with sg.combine." if what == "channels" else (
        f" for example with pandas: table[table[{name!r}] == {values[0][:40]!r}]."
    )  # fmt: skip
    if name.strip().casefold() == "id" and not isinstance(path, str):
        is_decoded = DECODED_COLUMNS.issubset(header)
        more += (
            " This is an output of decode: check, compare and stats read all of it."
            if is_decoded
            else f" To decode all of them: stageguard decode {path.name} --output out.csv, or out.parquet."
        )
    raise file_error(
        path,
        f"holds {len(values):,} {what} by its column {name} ({listed(values, 4)}), expected one. Keep the "
        f"rows of one of them,{more}",
    )


def _counts(cells: Sequence[str]) -> bool:
    """Whether cells number the rows."""
    try:
        numbers = [int(cell) for cell in cells]
    except ValueError:
        return False
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def refuse_runs(
    where: Where, columns: Iterable[tuple[str, Sequence[str] | Floats]], times: RowTimes, *, can_decode: bool
) -> None:
    """Ask about a column of unknown meaning if it may tell recordings apart, unless times show one night.

    Such a column has several values, each in rows that follow one another, or all of them in turn. Times that
    go on without a gap where its value changes are those of one night. If `can_decode`, a table of all nights
    could be decoded.
    """
    for name, cells in columns:
        if plain_name(name) in OF_ONE_NIGHT:
            continue
        values = _recordings(cells)
        if len(values) < 2 or _goes_on(times, _changes(cells)):
            continue
        shown = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
        whole = (
            f", or name the column id and decode all of them: stageguard decode {where.name} --output out.csv"
            if can_decode and not isinstance(where, str)
            else ""
        )
        raise file_error(
            where,
            f"its column {name[:40]} has {len(values):,} values, each in rows that follow one another "
            f"({listed(shown, 4)}): are these recordings? If so, keep the rows of one, for example with "
            f"pandas: table[table[{name[:40]!r}] == {shown[0][:40]!r}]{whole}. If not, remove the column.",
        )


def refuse_untold_times(
    where: Where, columns: Iterable[tuple[str, Sequence[str] | Floats]], times: RowTimes
) -> None:
    """Ask about a column of unknown meaning that may say which epochs are missing, unless others say it.

    Such a column holds dates or times, or numbers that increase, but not in equal steps. An index without a
    name has its own remark.
    """
    if times.onset is not None or times.epoch is not None:
        return
    for name, cells in columns:
        if name.casefold() in NAMELESS or plain_name(name) in OF_ONE_NIGHT or len(cells) < SHORTEST_RUN:
            continue
        if (found := _as_times(cells)) is None:
            continue
        row, what = found
        before, after = (
            f"{each:.10g}" if isinstance(each, float) else each for each in cells[row - 1 : row + 1]
        )
        raise file_error(
            where,
            f"its column {name[:40]} holds {what} ({before[:40]} is followed by {after[:40]}): does it say "
            "when epochs begin? If so, name it time (dates or times), onset (seconds from the start) or "
            "epoch (a count). If not, remove the column.",
        )


def _as_times(cells: Sequence[str] | Floats) -> tuple[int, str] | None:
    """Return a row of a column that may tell times, and what the column holds; None of any other column."""
    if isinstance(cells, np.ndarray):
        values, is_dated = cells, False
    else:
        parsed = parse_cells(cells)
        if parsed is None:
            return None
        values, is_dated = parsed.values, parsed.kind != "numbers"
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.diff(values)
    if is_dated:
        return (int(np.argmax(steps != 0)) + 1, "times") if steps.any() else None
    usual = float(np.median(steps))
    if not (np.isfinite(steps).all() and (steps > 0).all()):
        return None
    uneven = np.abs(steps - usual) > TOLERANCE * usual
    return (int(np.argmax(uneven)) + 1, "numbers that increase in unequal steps") if uneven.any() else None


def _changes(cells: Sequence[str] | Floats) -> Indices:
    """Return the rows whose value differs from that of the row before; NaN equals NaN."""
    values = cells if isinstance(cells, np.ndarray) else np.array(cells, dtype=object)
    one, other = values[:-1], values[1:]
    return np.flatnonzero((one != other) & ((one == one) | (other == other))) + 1


def _recordings(cells: Sequence[str] | Floats) -> list[Any]:
    """Return the values of a column that may tell recordings apart; none of any other column."""
    starts = [0, *_changes(cells).tolist()]
    values = [cells[row] for row in starts]
    if len(starts) > len(cells) // SHORTEST_RUN:
        n_values = next((row for row in starts[1:] if cells[row] == cells[0]), len(cells))
        if len(cells) % n_values or any(cell != cells[row % n_values] for row, cell in enumerate(cells)):
            return []
        values = list(cells[:n_values]) if n_values < len(cells) else []
    elif np.diff([*starts, len(cells)]).min() < SHORTEST_RUN:
        return []
    is_distinct = len(set(map(str, values))) == len(values)
    return values if is_distinct and not _is_measured(values) else []


def _is_measured(values: Iterable[Any]) -> bool:
    """Whether values are stages, or numbers with decimals, which name no recordings."""
    texts = [str(value).strip() for value in values]
    return all(canonical_name(text) is not None or not text for text in texts) or any(
        re.fullmatch(r"[+-]?\d*\.\d*[1-9]\d*(e[+-]?\d+)?", text.casefold()) for text in texts
    )


def _goes_on(times: RowTimes, changes: Indices) -> bool:
    """Whether rows follow one another in time, without a gap, where a column changes."""
    if times.onset is None or not len(changes):
        return False
    steps = np.diff(times.onset)
    usual = np.median(steps) if times.lasting is None else times.lasting[changes - 1]
    at_changes = steps[changes - 1]
    return bool(((at_changes > 0) & (at_changes <= NEXT_STEP * usual)).all())
