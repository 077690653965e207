"""Read and write BIDS event tables with sleep stages, and the JSON beside them.

BIDS has no rule for sleep stages yet: they are texts of `trial_type`, or in another column whose numbers are
explained in the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from stageguard.files import file_error, load_json
from stageguard.formats.annotations import row_events, stages_among
from stageguard.formats.density import listed
from stageguard.formats.file_format import (
    BIDS_ENDINGS,
    DETAILS,
    OTHER_PROBABILITIES,
    TYPES,
    Contents,
    FileFormat,
)
from stageguard.formats.hypnogram import STAGE_COLUMNS, UNSCORED_WORDS, is_stage
from stageguard.formats.night import Event, Events, FileOptions, Night, RawHypnogram
from stageguard.formats.sniffing import has_columns
from stageguard.formats.tables.delimited import read_rows
from stageguard.formats.tables.table import Table, as_number
from stageguard.formats.write import number, plain_text, stage_texts, stage_words
from stageguard.lazy import load
from stageguard.night.stages import SCHEMES, UNSCORED_NAME, canonical_name

TIMES = ("onset", "duration")
OWN_KEY = "StageGuard"
MISSING = "n/a"


def read_bids_stages(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the stages of `*_events.tsv` or `*_hypnogram.tsv`."""
    table, sidecar = read_rows(path, TIMES), read_sidecar(path)
    column, meanings = _stage_column(path, table, sidecar)
    texts = [_text(path, cell, meanings) for cell in table.column(column)]
    return with_record(path, _stages_of_rows(path, table, texts, options), sidecar.get(OWN_KEY))


def read_bids_events(path: Path) -> Events:
    """Read the events other than stages."""
    return row_events(read_rows(path, TIMES))


def read_sidecar(path: Path) -> dict[str, Any]:
    """Return the JSON beside a table, empty if there is none."""
    beside = path.with_suffix(".json")
    content = load_json(beside) if beside.is_file() else None
    return content if isinstance(content, dict) else {}


def _stage_column(path: Path, table: Table, sidecar: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the column of stages, by name or by numbers that the JSON explains, and these meanings."""
    levels = {
        # in newer versions of BIDS, the text of a level is in a mapping
        str(column).casefold(): {
            _key(str(key)): str(text.get("Description", "") if isinstance(text, dict) else text)
            for key, text in entry["Levels"].items()
        }
        for column, entry in sidecar.items()
        if isinstance(entry, dict) and isinstance(entry.get("Levels"), dict)
    }
    known = (*STAGE_COLUMNS, "value")
    column = next((name for name in known if name in table.header and _may_be(table, name, levels)), None)
    if column is None:
        raise file_error(
            path,
            f"has the columns {listed(table.header)}, none of them with names of sleep stages. Give numbers "
            f"their names in {path.with_suffix('.json').name}, under Levels.",
        )
    return column, levels.get(column, {})


def write_bids_events(night: Night, path: Path) -> Contents:
    """Write `*_events.tsv`, a row per epoch and other annotation, and the JSON that explains them."""
    texts = stage_texts(night, "BIDS")
    confidence = _confidence(night)
    header = ["onset", "duration", "trial_type", *(["confidence"] if confidence else [])]
    seconds = number(night.any.epoch_seconds)
    rows = [
        (onset, (number(onset), seconds, text, *([confidence[epoch]] if confidence else [])))
        for epoch, (onset, text) in enumerate(zip(night.onsets, texts, strict=True))
    ]
    for event in night.events:
        lasting = MISSING if event.seconds is None else number(event.seconds)
        cells = (number(event.onset), lasting, plain_text(event.text), *([MISSING] if confidence else []))
        rows.append((event.onset, cells))
    rows.sort(key=lambda row: row[0])
    table = "\n".join("\t".join(cells) for cells in (header, *(cells for _, cells in rows))) + "\n"
    sidecar = json.dumps(_sidecar(night, bool(confidence)), indent=2, allow_nan=False) + "\n"
    return {path: table, path.with_suffix(".json"): sidecar}


def _confidence(night: Night) -> list[str]:
    """Return the stager's probability of each epoch's stage; none without probabilities."""
    if night.probabilities is None or night.scoring is None:
        return []
    rows = zip(night.density.probabilities.tolist(), night.hypnogram.labels.tolist(), strict=True)
    values = [row[label] if label >= 0 else float("nan") for row, label in rows]
    return [MISSING if value != value else f"{value:.6g}" for value in values]


def _sidecar(night: Night, has_confidence: bool) -> dict[str, Any]:
    """Return column meanings in the form of BIDS, and under our own key what BIDS has no word for."""
    from stageguard.version import __version__

    hypnogram = night.hypnogram
    profile = night.profile
    method = "manual or unknown" if profile is None else "automatic"
    names = stage_words(night, {name: {} for name in SCHEMES}, "BIDS")
    levels = {
        f"Sleep stage {name}": "Unscored" if name == UNSCORED_NAME else f"Sleep stage {name}"
        for name in dict.fromkeys((*sorted({*names} - {UNSCORED_NAME}), UNSCORED_NAME))
    }
    columns: dict[str, Any] = {
        "onset": {"Description": "Start, from the start of the recording", "Units": "s"},
        "duration": {"Description": "How long it lasts", "Units": "s"},
        "trial_type": {"Description": "Sleep stage of the epoch, or another annotation", "Levels": levels},
    }
    if has_confidence:
        columns["confidence"] = {"Description": "The stager's probability of the stage", "Units": "1"}
    start = hypnogram.start
    record = {
        "Version": __version__,
        "AnnotationMethod": method,
        "Scorer": hypnogram.scorer,
        "Scheme": {"Name": hypnogram.scheme.name, "Stages": list(hypnogram.scheme.names)},
        "EpochSeconds": hypnogram.epoch_seconds,
        "OffsetSeconds": hypnogram.offset_seconds,
        "NumberOfEpochs": hypnogram.n_epochs,
        "Start": None if start is None else start.isoformat(),
        "Profile": None if profile is None else {"Name": profile.name, "SHA256": profile.sha256},
        "Methods": None if night.decoding is None else load("report.methods:methods_text")(night.decoding),
    }
    return columns | {OWN_KEY: record}


def with_record(path: Path, raw: RawHypnogram, record: object) -> RawHypnogram:
    """Add the start, the scorer and the scheme that this package recorded in the JSON."""
    if not isinstance(record, dict):
        return raw
    start, scorer, scheme = record.get("Start"), record.get("Scorer"), record.get("Scheme")
    name = scheme.get("Name") if isinstance(scheme, dict) else None
    try:
        moment = None if start is None else datetime.fromisoformat(str(start))
    except ValueError:
        raise file_error(
            path.with_suffix(".json"), f"has the start {str(start)[:40]!r}, expected a date and time."
        ) from None
    offset = record.get("OffsetSeconds")
    # reading adds whole epochs before the first as unscored
    seconds_before = offset - raw.offset_seconds if isinstance(offset, int | float) else 0.0
    known = SCHEMES.get(name) if isinstance(name, str) else None
    if known is not None and not {*raw.stages} <= {*known.names, UNSCORED_NAME}:
        known = None  # the table was edited
    return replace(
        raw,
        start=raw.start if moment is None else moment - timedelta(seconds=seconds_before),
        scorer=scorer if isinstance(scorer, str) and scorer else raw.scorer,
        scheme=known or raw.scheme,
    )


def _text(path: Path, cell: str, meanings: dict[str, str]) -> str:
    """Return the text of a cell, or the meaning of its number."""
    if as_number(cell) is None or cell in UNSCORED_WORDS:
        return meanings.get(cell, cell) if not is_stage(cell, None) else cell
    meaning = meanings.get(_key(cell), "")
    if not meaning or not is_stage(meaning, None):
        raise file_error(
            path,
            f"{path.with_suffix('.json').name} says {meaning[:40]!r} for {cell[:20]}, expected a stage such "
            "as W, N1, N2, N3, REM, or Unscored.",
        )
    return meaning


def _stages_of_rows(path: Path, table: Table, texts: list[str], options: FileOptions) -> RawHypnogram:
    onsets, cells = table.seconds("onset").tolist(), table.column("duration")
    lasting = [as_number(cell) or None for cell in cells]
    for row, cell in enumerate(cells):
        if as_number(cell) is None and cell.casefold() not in UNSCORED_WORDS:
            raise table.cell_error(row, "duration", "seconds", cell)
    _refuse_missing(path, table, texts, lasting)
    annotations = list(map(Event, onsets, lasting, texts))
    return stages_among(path, annotations, options, only_stages=True)


def _refuse_missing(path: Path, table: Table, texts: Sequence[str], lasting: Sequence[float | None]) -> None:
    """Refuse stages that are bare names without a duration, which may be anything."""
    if any(text.casefold().startswith(("sleep stage", "stage")) for text in texts):
        return
    for line, text, seconds in zip(table.lines, texts, lasting, strict=True):
        if seconds is None and canonical_name(text) is not None:
            raise file_error(
                path,
                f"line {line} has the stage {text[:40]!r} without a duration, expected the seconds it lasts. "
                "Fill the column duration.",
            )


def _may_be(table: Table, name: str, levels: dict[str, dict[str, str]]) -> bool:
    """Whether a column holds texts, or numbers that the JSON explains."""
    if name in levels:
        return True
    cells = [cell for cell in table.column(name) if cell.casefold() not in UNSCORED_WORDS]
    return bool(cells) and not all(as_number(cell) is not None for cell in cells)


def _key(cell: str) -> str:
    number = as_number(cell)
    return f"{number:g}" if number is not None else cell.strip()


def _is_bids(head: bytes, path: Path) -> bool:
    """Whether a file has the name and columns of BIDS events, or of the hypnogram proposed for BIDS."""
    is_named = path.name.lower().endswith(BIDS_ENDINGS)
    return is_named and has_columns(*TIMES)(head, path)


FORMATS = (
    FileFormat(
        "bids-events",
        "BIDS events",
        BIDS_ENDINGS,
        _is_bids,
        stages=read_bids_stages,
        events=read_bids_events,
        write=write_bids_events,
        loses=(OTHER_PROBABILITIES, TYPES, DETAILS),
        tells_events_by_text=True,
    ),
)
