"""SLEEPBRL: bioradar nights with sleep stages from PhysioNet, or your own radar recordings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from stageguard import checks
from stageguard.datasets import Entry
from stageguard.datasets.radar import MAPPING, find_mapped, find_standard, radar_files
from stageguard.datasets.samples import Cell, dataset_error, sheet_rows
from stageguard.errors import MissingExtraError, warn
from stageguard.files import is_synthetic
from stageguard.formats.annotations import stage_epochs
from stageguard.formats.raw_night import Event
from stageguard.formats.recordings.edf import read_edf_recording
from stageguard.formats.recordings.wfdb import read_wfdb_annotations
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.recording import Recording, Series, Signal
from stageguard.night.stages import AASM5, SCHEMES, UNSCORED_NAME, StageScheme

EPOCH_SECONDS = 30.0
CODES = {"W": "W", "1": "N1", "2": "N2", "3": "N3", "4": "N3", "R": "R"}
N_PAIRS = 8

_RECORD = re.compile(r"(sbj\d+)\.edf", re.IGNORECASE)
_COVARIATES = {"age": "age", "sex": "sex", "gender": "sex", "bmi": "bmi", "ahi": "ahi"}


def find(
    folder: Path, *, scheme: str = "wnr3", pair: int = 1, mapping: str | Path | None = None
) -> Iterator[Entry]:
    """Find radar recordings: by a mapping file, else PhysioNet's, else files with arrays of standard names.

    PhysioNet's recordings have eight I/Q pairs: S5 and S6 become "radar_i_3" and "radar_q_3". The pair chosen
    by ``pair`` has no number.
    """
    checks.whole(pair, "pair", low=1, high=N_PAIRS)
    checks.choice(scheme, "scheme", SCHEMES)
    mapped = folder / MAPPING if mapping is None else Path(mapping)
    if mapping is not None or mapped.is_file():
        yield from find_mapped(folder, mapped)
        return
    files = radar_files(folder)
    records = [path for path in files if _RECORD.fullmatch(path.name)]
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
        raise dataset_error(
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
        raise dataset_error(path, "has no stages among its annotations.")
    rate = annotations.rate_hz or signal.rate_hz
    intervals = []
    for mark in staged:
        text = mark.text.strip().upper()
        if text not in CODES and text not in ("?", "U", "M", "MT"):
            raise dataset_error(
                path, f"stage {text!r} at {mark.sample / rate:g} s is not one of {', '.join(CODES)}."
            )
        intervals.append(Event(mark.sample / rate, None, CODES.get(text, UNSCORED_NAME)))
    stages = stage_epochs(path, intervals, EPOCH_SECONDS).stages
    labels = np.array([UNSCORED if s == UNSCORED_NAME else AASM5.index(s) for s in stages], dtype=np.int8)
    return Hypnogram(labels, AASM5, EPOCH_SECONDS, scorer="expert").merge(scheme)


def _subjects(folder: Path) -> dict[str, dict[str, float | str]]:
    """Return facts about the subjects, from the first workbook or CSV file that lists them."""
    for path in sorted(folder.glob("*.xlsx")) + sorted(folder.glob("*.csv")):
        try:
            rows = sheet_rows(path)
        except MissingExtraError as error:
            warn(f"{error} Age and sex are left out.")
            continue
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
        except (TypeError, ValueError):
            facts[key] = str(cell).strip()
    return (f"sbj{int(number[1]):02d}" if number else name), facts
