"""Read Luna's POPS and SOAP tables of one row per epoch, from text and from lunapi. Runs no Luna.

Epochs count from 1, from the recording's start, and excluded ones may be left out: a row belongs where its
`E` says. Text comes from destrat, or from Luna's text tables; lunapi returns frames of objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard._input_files import open_file
from stageguard.formats._density_file import DensityOptions, RawDensity, Where, file_error, listed
from stageguard.formats._several import refuse_many
from stageguard.formats._sniffing import HEAD_BYTES, header_cells
from stageguard.formats._timing import MOST_MISSING, row_name

TOOL, USUAL_SECONDS = "Luna", 30.0
FIVE = ("PP_W", "PP_N1", "PP_N2", "PP_N3", "PP_R")
THREE = ("PP_W", "PP_NR", "PP_R")


def is_pops(header: Sequence[str]) -> bool:
    """Whether columns are named as Luna names posteriors."""
    names = {name.upper() for name in header}
    return {"E", "PP_W", "PP_R"} <= names


def read_luna_pops(path: Path, options: DensityOptions) -> RawDensity:
    """Posteriors of a text table."""
    from stageguard.formats.tables import load_table

    with open_file(path, "a recording") as file:
        header = header_cells(file.read(HEAD_BYTES))
    options = replace(options, stages=options.stages or _posteriors(path, header))
    table = load_table(path, options, "e")
    refuse_many(path, "CH", table.texts(path, "ch"))
    texts = {name: table.texts(path, name) for name in ("flag", "start", "stop")}
    epochs = next(iter(table.timing.values()), None)
    if epochs is None:
        raise file_error(path, "has no numbers in its column E. Expected Luna's table of one row per epoch.")
    return _placed(path, table.values, table.layout.names, epochs, texts, table.lines)


def density_of_pops(where: Where, columns: Sequence[tuple[str, Any]], options: DensityOptions) -> RawDensity:
    """Posteriors of the columns of a frame that lunapi returned."""
    from stageguard.formats.frames import numbers_of
    from stageguard.formats.tables import choose_columns

    header = [name for name, _ in columns]
    places, names = choose_columns(where, header, options.stages or _posteriors(where, header))
    values = np.column_stack([numbers_of(where, *columns[place]) for place in places])
    by_name = {name.casefold(): cells for name, cells in columns}
    texts = {
        name: [str(cell) for cell in np.asarray(by_name[name]).tolist()] if name in by_name else None
        for name in ("flag", "start", "stop", "ch")
    }
    refuse_many(where, "CH", texts["ch"])
    return _placed(where, values, names, numbers_of(where, "E", by_name["e"]), texts, None)


def _posteriors(where: Where, header: Iterable[str]) -> tuple[str, ...]:
    """Columns to read: Luna may write PP_NR, the sum of three others, beside them."""
    names = {name.upper() for name in header}
    for columns in (FIVE, THREE):
        if names >= set(columns):
            return columns
    found = sorted(name for name in names if name.startswith("PP_"))
    has = f"the posteriors {listed(found)}" if found else "no posteriors of Luna"
    raise file_error(where, f"has {has}, expected {', '.join(FIVE)}, or {', '.join(THREE)}.")


def _placed(
    where: Where,
    values: npt.NDArray[np.float64],
    names: tuple[str, ...],
    epochs: npt.NDArray[np.float64],
    texts: dict[str, list[str] | None],
    lines: Sequence[int] | None,
) -> RawDensity:
    """Put rows where their epochs are, counted from the recording's start."""
    odd = ~((epochs >= 1) & (epochs == np.rint(epochs)) & (epochs < 1e9))
    odd[1:] |= ~(np.diff(epochs) > 0)
    if odd.any():
        row = int(np.argmax(odd))
        raise file_error(
            where,
            f"{row_name(lines, row)}, column 'E': got {epochs[row]:.10g}, expected to count up from 1.",
        )
    places = epochs.astype(np.intp) - 1
    n_missing = int(places[-1]) + 1 - len(places)
    if n_missing > MOST_MISSING:
        raise file_error(where, f"leaves out {n_missing:,} epochs, expected at most {MOST_MISSING:,}.")
    notes = []
    if n_missing:
        notes.append(
            f"{n_missing:,} epoch{'s' * (n_missing != 1)} that Luna left out: read as without evidence"
        )
    excluded = _excluded(texts["flag"], len(values)) & ~np.isnan(values).all(axis=1)
    if excluded.any():
        values = np.where(excluded[:, None], np.nan, values)
        n_excluded = int(np.count_nonzero(excluded))
        notes.append(f"{n_excluded:,} with FLAG -1 (excluded): read as without evidence")
    return RawDensity(
        values,
        names,
        epoch_seconds=_seconds(texts["start"], texts["stop"]),
        notes=tuple(notes),
        lines=lines,
        places=places if n_missing else None,
        usual_seconds=USUAL_SECONDS,
        tool=TOOL,
    )


def _excluded(flags: list[str] | None, n_rows: int) -> npt.NDArray[np.bool_]:
    if flags is None:
        return np.zeros(n_rows, dtype=np.bool_)
    return np.array([flag.strip() in ("-1", "-1.0") for flag in flags], dtype=np.bool_)


def _seconds(starts: list[str] | None, stops: list[str] | None) -> float | None:
    """Epoch length by the first row's clock or seconds, where both are there."""
    if not starts or not stops:
        return None
    start, stop = _clock(starts[0]), _clock(stops[0])
    if start is None or stop is None:
        return None
    seconds = round((stop - start) % 86_400, 3)
    return seconds if seconds > 0 else None


def _clock(text: str) -> float | None:
    """Seconds of a number, or of a time of day."""
    try:
        return float(text)
    except ValueError:
        pass
    for layout in ("%H:%M:%S", "%H:%M:%S.%f", "%H.%M.%S"):
        try:
            moment = datetime.strptime(text, layout)
        except ValueError:
            continue
        return moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6
    return None
