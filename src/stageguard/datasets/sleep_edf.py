"""Sleep-EDF Expanded: cassette and telemetry nights as published by PhysioNet.

`SC4ssNE0-PSG.edf` is night N of subject ss of the cassette study, `ST7ssNJ0-PSG.edf` of the telemetry study.
The name of a scoring has the same first seven letters, then the scorer's letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stageguard import checks
from stageguard.arrays import DAY_SECONDS
from stageguard.datasets import Entry, dataset_error, reading
from stageguard.errors import MissingExtraError, warn
from stageguard.files import local_file
from stageguard.formats.recordings.edf import read_edf_header
from stageguard.formats.recordings.read import crop_recording, read_recording
from stageguard.formats.tables.delimited import read_delimited
from stageguard.lazy import library
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.recording import Recording

STUDIES = {"cassette": "SC4", "telemetry": "ST7"}
_PSG = re.compile(r"((?:SC4|ST7)(\d{2})(\d)[A-Z])[A-Z0-9]-PSG\.edf", re.IGNORECASE)
_PERSON = re.compile(r"\b(Female|Male)_(\d{1,3})yr\b", re.IGNORECASE)


class StudyRow(NamedTuple):
    """Facts of a study's table about one night."""

    lights_off: float | None = None  # seconds of the day
    facts: Mapping[str, float | str] = {}


def find(
    folder: Path,
    *,
    study: str | None = None,
    around_sleep_minutes: float | None = None,
) -> Iterator[Entry]:
    """Yield an entry per night, in order of names."""
    if study is not None:
        checks.choice(study, "study", STUDIES)
    if around_sleep_minutes is not None:
        around_sleep_minutes = checks.number(around_sleep_minutes, "around_sleep_minutes", low=0)
    scorings: dict[str, list[Path]] = {}
    recordings: dict[str, Path] = {}
    for path in sorted(folder.rglob("S*.edf")):
        if match := _PSG.fullmatch(path.name):
            recordings.setdefault(match[1].upper(), path)
        elif path.name.lower().endswith("-hypnogram.edf"):
            scorings.setdefault(path.name[:7].upper(), []).append(path)
    nights = read_tables(folder)
    for key, path in recordings.items():
        if key.startswith(STUDIES.get(study or "", "S")):
            hypnograms = tuple(sorted(scorings.get(key, ())))
            missing = () if hypnograms else (f"{key}?-Hypnogram.edf",)
            night = nights.get(key[:6], StudyRow())
            read = partial(read_night, path, hypnograms, night, around_sleep_minutes)
            yield Entry(key[:6], key[:5], (path, *hypnograms), read, missing)


def read_night(
    path: Path, scorings: Sequence[Path], night: StudyRow, around_sleep_minutes: float | None = None
) -> Recording:
    """Read one night; scorers are named by the letter in their files' names."""
    key = path.name[:6].upper()
    by_scorer = {f"scorer {scoring.name[7].upper()}": scoring for scoring in scorings}
    recording = read_recording(path, id=key, subject=key[:5], scoring=by_scorer, trailing=True)
    facts: dict[str, float | str] = {"night": float(key[5])}
    facts["study"] = next(name for name, prefix in STUDIES.items() if key.startswith(prefix))
    if person := _PERSON.search(read_edf_header(path).patient):
        facts |= {"sex": person[1][0].upper(), "age": float(person[2])}
    lights_off, start = None, recording.start
    if night.lights_off is not None and start is not None:
        began = timedelta(hours=start.hour, minutes=start.minute, seconds=start.second).total_seconds()
        lights_off = (night.lights_off - began - start.microsecond / 1e6) % DAY_SECONDS
        lights_off = lights_off if lights_off < recording.seconds else None
    recording = replace(
        recording,
        covariates={**recording.covariates, **facts, **night.facts},
        lights_off_seconds=recording.lights_off_seconds if lights_off is None else lights_off,
        source="Sleep-EDF",
    )
    return recording if around_sleep_minutes is None else around_sleep(recording, around_sleep_minutes)


def around_sleep(recording: Recording, minutes: float) -> Recording:
    """Cut the recording to its sleep, with some minutes before the first and after the last sleep epoch."""
    ends: list[float] = []
    epoch_seconds = 1.0
    for night in recording.scorings.values():
        asleep = np.flatnonzero((night.labels != UNSCORED) & (night.labels != night.scheme.wake_index))
        if len(asleep):
            epoch_seconds = night.epoch_seconds
            ends += [asleep[0] * epoch_seconds, (asleep[-1] + 1) * epoch_seconds]
    if not ends:
        return recording
    margin = round(minutes * 60 / epoch_seconds) * epoch_seconds
    return crop_recording(recording, max(min(ends) - margin, 0.0), min(max(ends) + margin, recording.seconds))


def read_tables(folder: Path) -> dict[str, StudyRow]:
    """Return nights by the first six letters of their files, from SC- and ST-subjects (.csv or .xls)."""
    nights: dict[str, StudyRow] = {}
    for name, parse in (("SC-subjects", _cassette), ("ST-subjects", _telemetry)):
        for path in sorted((*folder.rglob(f"{name}.csv"), *folder.rglob(f"{name}.xls")))[:1]:
            try:
                with reading(path.name):
                    nights |= dict(parse(path, _sheet_rows(path)))
            except MissingExtraError as error:
                warn(f"{error} Lights off is left out.")
    return nights


def _sheet_rows(path: Path) -> Sequence[Sequence[object]]:
    if path.suffix == ".csv":
        table = read_delimited(path, fallback="latin-1")
        return (table.header, *table.rows)
    sheet = library("xlrd", f"reading {path.name}").open_workbook(str(local_file(path))).sheet_by_index(0)
    return [sheet.row_values(row) for row in range(sheet.nrows)]


def _cassette(path: Path, rows: Sequence[Sequence[object]]) -> Iterator[tuple[str, StudyRow]]:
    """Yield nights of the cassette study. Columns: subject, night, age, sex (F=1), LightsOff."""
    header = [str(cell).strip().casefold() for cell in rows[0]] if rows else []
    if header and not {"subject", "night", "lightsoff"} <= set(header):
        found = ", ".join(header)[:80]
        raise dataset_error(path, f"has the columns {found}, expected subject, night and LightsOff.")
    for row in rows[1:]:
        cells = dict(zip(header, row, strict=False))
        if (key := _key("SC4", cells["subject"], cells["night"])) is not None:
            yield key, StudyRow(_clock(cells["lightsoff"]))


def _telemetry(path: Path, rows: Sequence[Sequence[object]]) -> Iterator[tuple[str, StudyRow]]:
    """Yield nights of the telemetry study.

    Two header rows, then: Nr, Age, M1/F2, night nr and lights off with placebo, the same with temazepam.
    """
    for row in rows[2:]:
        for drug, column in (("placebo", 3), ("temazepam", 5)) if len(row) >= 7 else ():
            if (key := _key("ST7", row[0], row[column])) is not None:
                yield key, StudyRow(_clock(row[column + 1]), {"drug": drug})


def _key(study: str, subject: object, night: object) -> str | None:
    """Return the first letters of a night's files, or None if a cell is no number."""
    try:
        return f"{study}{int(float(str(subject))):02d}{int(float(str(night)))}"
    except (ValueError, OverflowError):
        return None


def _clock(cell: object) -> float | None:
    """Return the second of the day from 23:30, 23:30:00, or Excel's fraction of a day."""
    if match := re.fullmatch(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", str(cell).strip()):
        return int(match[1]) * 3600.0 + int(match[2]) * 60.0 + int(match[3] or 0)
    try:
        share = float(str(cell))
    except ValueError:
        return None
    return round(share % 1 * DAY_SECONDS, 3) if np.isfinite(share) else None
