"""SLEEPBRL: bioradar nights with sleep stages from PhysioNet, or your own radar recordings."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from defusedxml.ElementTree import fromstring  # type: ignore[import-untyped]

from stageguard.base.errors import InputError
from stageguard.base.files import checked_file, faults_named, is_synthetic
from stageguard.datasets import Entry
from stageguard.datasets.radar import MAPPING, find_mapped, find_standard, radar_files
from stageguard.datasets.samples import broken
from stageguard.formats.annotations import stage_epochs
from stageguard.formats.raw_night import Event
from stageguard.formats.recordings.edf import read_edf_recording
from stageguard.formats.recordings.wfdb import read_wfdb_annotations
from stageguard.formats.tables.delimited import read_delimited
from stageguard.formats.xml import children, local_name
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.recording import Recording, Series, Signal
from stageguard.night.stages import AASM5, SCHEMES, UNSCORED_NAME, StageScheme

EPOCH_SECONDS = 30.0
CODES = {"W": "W", "1": "N1", "2": "N2", "3": "N3", "4": "N3", "R": "R"}
N_PAIRS = 8

_RECORD = re.compile(r"(sbj\d+)\.edf", re.IGNORECASE)
_COVARIATES = {"age": "age", "sex": "sex", "gender": "sex", "bmi": "bmi", "ahi": "ahi"}
Cell = str | float | None

_MOST_COLUMNS = 16_384  # of a spreadsheet
_LARGEST = 32 << 20  # bytes of one part of a workbook; a table of subjects is never this large


def find(
    folder: Path, *, scheme: str = "wnr3", pair: int = 1, mapping: str | Path | None = None
) -> Iterator[Entry]:
    """Find radar recordings: by a mapping file, else PhysioNet's, else files with arrays of standard names.

    PhysioNet's recordings have eight I/Q pairs: S5 and S6 become "radar_i_3" and "radar_q_3". The pair chosen
    by ``pair`` has no number.
    """
    if not 1 <= pair <= N_PAIRS:
        raise InputError(f"pair is {pair}, expected 1 to {N_PAIRS}.")
    if scheme not in SCHEMES:
        raise InputError(f"scheme is {scheme!r}, expected one of {', '.join(SCHEMES)}.")
    mapped = folder / MAPPING if mapping is None else Path(mapping)
    if mapping is not None or mapped.is_file():
        yield from find_mapped(folder, mapped)
        return
    files = radar_files(folder)
    records = [path for path in files if _RECORD.fullmatch(path.name)]
    if not files:
        raise InputError(
            f"{folder} holds no radar recording. Expected sbj01.edf and sbj01.edf.atr from PhysioNet, or "
            f"npz, HDF5 or EDF files with a {MAPPING}."
        )
    if not records:
        yield from find_standard(folder, files)
        return
    facts = _subjects(folder)
    for path in records:
        subject = path.stem.lower()
        names = (path.with_name(f"{path.name}.atr"), path.with_suffix(".atr"))
        scoring = next((name for name in names if name.is_file()), None)
        paths = (path,) if scoring is None else (path, scoring)
        missing = (f"{path.name}.atr",) if scoring is None else ()
        reader = partial(_read, path, scoring, SCHEMES[scheme], pair, facts.get(subject, {}))
        yield Entry(subject, subject, paths, reader, missing)


def _read(
    path: Path, scoring: Path | None, scheme: StageScheme, pair: int, facts: dict[str, float | str]
) -> Recording:
    raw = read_edf_recording(path)
    signals: dict[str, Signal | Series] = {}
    for number in (pair, *(n for n in range(1, N_PAIRS + 1) if n != pair)):
        for letter, name in (("i", f"S{2 * number - 1}"), ("q", f"S{2 * number}")):
            if name in raw.signals:
                signals[f"radar_{letter}" + ("" if number == pair else f"_{number}")] = raw.signals[name]
    if "radar_i" not in signals or "radar_q" not in signals:
        there = ", ".join(raw.signals) or "none"
        raise broken(
            path, f"has no channels S{2 * pair - 1} and S{2 * pair} (I/Q pair {pair}); it has: {there}."
        )
    main = signals["radar_i"]
    assert isinstance(main, Signal)
    night = None if scoring is None else _scoring(scoring, main, scheme)
    subject = path.stem.lower()
    return Recording(
        subject,
        subject,
        signals,
        {} if night is None else {"expert": night},
        start=raw.start,
        covariates={**raw.covariates, **facts},
        is_synthetic=is_synthetic(path),
        source="SLEEPBRL",
    )


def _scoring(path: Path, signal: Signal, scheme: StageScheme) -> Hypnogram:
    """Read stages from the texts of annotations, one per epoch or per change of stage."""
    annotations = read_wfdb_annotations(path)
    staged = [mark for mark in annotations.marks if mark.text.strip()]
    if not staged:
        raise broken(path, "has no stages among its annotations.")
    rate = annotations.rate_hz or signal.rate_hz
    intervals = []
    for mark in staged:
        text = mark.text.strip().upper()
        if text not in CODES and text not in ("?", "U", "M", "MT"):
            raise broken(
                path, f"stage {text!r} at {mark.sample / rate:g} s is not one of {', '.join(CODES)}."
            )
        intervals.append(Event(mark.sample / rate, None, CODES.get(text, UNSCORED_NAME)))
    stages = stage_epochs(path, intervals, EPOCH_SECONDS).stages
    labels = np.array([UNSCORED if s == UNSCORED_NAME else AASM5.index(s) for s in stages], dtype=np.int8)
    return Hypnogram(labels, AASM5, EPOCH_SECONDS, scorer="expert").merge(scheme)


def _subjects(folder: Path) -> dict[str, dict[str, float | str]]:
    """Return facts about the subjects, from the first workbook or CSV file that lists them."""
    for path in sorted(folder.glob("*.xlsx")) + sorted(folder.glob("*.csv")):
        if path.suffix == ".xlsx":
            rows = read_workbook(path)
        else:
            table = read_delimited(path)
            rows = [list[Cell](table.header), *(list[Cell](row) for row in table.rows)]
        heads = [str(cell or "").strip().lower() for cell in rows[0]] if rows else []
        if heads and heads[0] in ("subject", "record", "id", "sbj"):
            return dict(filter(None, (_facts(heads, row) for row in rows[1:])))
    return {}


def _facts(heads: list[str], row: list[Cell]) -> tuple[str, dict[str, float | str]] | None:
    if not row or row[0] is None:
        return None
    name = str(row[0]).strip().lower()
    number = re.fullmatch(r"(?:sbj)?0*(\d+)(?:\.0)?", name)
    facts: dict[str, float | str] = {}
    for head, cell in zip(heads[1:], row[1:], strict=False):
        key = next((_COVARIATES[word] for word in re.findall(r"[a-z]+", head) if word in _COVARIATES), None)
        if key is None or cell in (None, ""):
            continue
        try:
            facts[key] = float(cell)
        except ValueError:
            facts[key] = str(cell).strip()
    return (f"sbj{int(number[1]):02d}" if number else name), facts


def read_workbook(path: Path) -> list[list[Cell]]:
    """Return the rows of the first sheet; empty cells are None."""
    with faults_named(path.name):
        try:
            archive = zipfile.ZipFile(checked_file(path, "a list"))
        except zipfile.BadZipFile:
            raise broken(path, "is no Excel workbook (.xlsx).") from None
        with archive:
            names = archive.namelist()
            sheets = sorted(name for name in names if re.fullmatch(r"xl/worksheets/sheet\d+\.xml", name))
            if not sheets:
                raise broken(path, "is no Excel workbook (.xlsx).")
            shared = "xl/sharedStrings.xml"
            texts = [_text(item) for item in _part(path, archive, shared)] if shared in names else []
            rows = [row for data in children(_part(path, archive, sheets[0]), "sheetData") for row in data]
            return [_row(path, row, texts) for row in rows]


def _part(path: Path, archive: zipfile.ZipFile, name: str) -> Any:
    if archive.getinfo(name).file_size > _LARGEST:
        raise broken(path, "is too large for a table of subjects.")
    return fromstring(archive.read(name), forbid_dtd=True)


def _row(path: Path, row: Any, texts: list[str]) -> list[Cell]:
    cells: list[Cell] = []
    for cell in row:
        letters = re.match(r"[A-Z]*", cell.get("r", ""))
        column = 0
        for letter in letters[0] if letters else "":  # A is 1, Z is 26, AA is 27
            column = column * 26 + ord(letter) - ord("A") + 1
        if column > _MOST_COLUMNS:
            raise broken(path, f"has a cell in column {column:,}, expected at most {_MOST_COLUMNS:,}.")
        index = column - 1 if column else len(cells)
        cells += [None] * (index + 1 - len(cells))
        cells[index] = _cell(cell, texts)
    return cells


def _cell(cell: Any, texts: list[str]) -> Cell:
    value = next((_text(part) for part in cell if local_name(part) in ("v", "is")), "")
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
