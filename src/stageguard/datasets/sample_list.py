"""Any recordings with their scorings, by a list in a TSV or CSV file.

    id    subject  edf             scoring            lights_off  lights_on  channel:eeg  age
    p1n1  p1       p1/night1.edf   p1/night1.xml      22:58:00    06:41      C4-M1        43
    p1n2  p1       p1/night2.edf   p1/night2.tsv      120         n/a        C4-M1        43

Only `edf` is required. Paths are relative to the list's folder. `channel:ROLE` maps a channel to a role,
`unit:ROLE` gives its unit if the file does not, and `scoring:NAME` is the scoring of a further scorer.
`start` is the start of a recording whose file does not contain it. All other columns are covariates.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from stageguard.arrays import DAY_SECONDS
from stageguard.datasets import Entry
from stageguard.errors import InputError
from stageguard.formats.companions import MOMENT_WORDS, START_WORDS, numbered_rows, parse_moment, parse_start
from stageguard.formats.recordings.read import EXPERT, read_recording
from stageguard.night.recording import Recording
from stageguard.night.timing import seconds_from_start

OWN_COLUMNS = ("id", "subject", "edf", "scoring", "start", "lights_off", "lights_on")
PREFIXES = ("channel:", "unit:", "scoring:")
NAMES = ("recordings.tsv", "samples.tsv", "recordings.csv", "samples.csv")


def find(folder: Path, *, table: str | Path | None = None) -> Iterator[Entry]:
    """Yield an entry per line; `folder` may be the list itself."""
    if table is not None:
        path = folder / table  # which may be absolute
    elif folder.is_file():
        path = folder
    else:
        path = next((folder / name for name in NAMES if (folder / name).is_file()), folder / NAMES[0])
    if not path.is_file():
        raise InputError(f"{path} is not there, expected a list with the columns id, subject, edf, scoring.")
    for _, row in numbered_rows(path):
        recording = path.parent / row["edf"]
        name = row.get("id") or recording.stem
        subject = row.get("subject") or name
        scorings = {
            column.partition(":")[2] or EXPERT: path.parent / cell
            for column, cell in row.items()
            if column == "scoring" or column.startswith("scoring:")
        }
        files = (recording, *scorings.values())
        missing = tuple(os.path.relpath(file, path.parent) for file in files if not file.is_file())
        read = partial(read_row, recording, name, subject, scorings, dict(row))
        yield Entry(name, subject, tuple(file for file in files if file.is_file()) or files, read, missing)


def read_row(
    path: Path, name: str, subject: str, scorings: Mapping[str, Path], row: Mapping[str, str]
) -> Recording:
    """Read the recording of one line of the list."""
    channels, units = (
        {column.partition(":")[2]: cell for column, cell in row.items() if column.startswith(prefix)}
        for prefix in ("channel:", "unit:")
    )
    recording = read_recording(
        path, id=name, subject=subject, channels=channels, units=units, scoring=dict(scorings) or None
    )
    facts = {
        column: _value(cell)
        for column, cell in row.items()
        if column not in OWN_COLUMNS and not column.startswith(PREFIXES)
    }
    if recording.start is None and "start" in row:
        try:
            recording = replace(recording, start=parse_start(row["start"]))
        except ValueError:
            raise InputError(f"{name}: start is {row['start'][:40]!r}, expected {START_WORDS}.") from None
    off = _lights(row, recording, "lights_off")
    on = _lights(row, recording, "lights_on", after=off or 0.0)
    if off is not None and on is not None and on <= off:
        moments = f"lights_on ({row['lights_on']}) is before lights_off ({row['lights_off']})"
        raise InputError(f"{name}: {moments}.")
    return replace(
        recording,
        covariates={**recording.covariates, **facts},
        lights_off_seconds=recording.lights_off_seconds if off is None else off,
        lights_on_seconds=recording.lights_on_seconds if on is None else on,
    )


def _lights(row: Mapping[str, str], recording: Recording, what: str, after: float = 0.0) -> float | None:
    """Return when lights went off or on, in seconds since the recording's start, by a cell of its line."""
    if what not in row:
        return None
    text = row[what]
    try:
        seconds = seconds_from_start(recording.start, parse_moment(text), what, after=after)
    except ValueError as error:
        why = error if isinstance(error, InputError) else f"{what} is {text[:40]!r}, expected {MOMENT_WORDS}."
        raise InputError(f"{recording.id}: {why}") from None
    if not -DAY_SECONDS <= seconds <= recording.seconds + DAY_SECONDS:
        lasts = f"the start of a recording of {recording.seconds:,.0f} s"
        raise InputError(f"{recording.id}: {what} is {text!r}, {seconds:,.0f} s from {lasts}.")
    return seconds


def _value(cell: str) -> float | str:
    try:
        return float(cell) if "_" not in cell else cell
    except ValueError:
        return cell
