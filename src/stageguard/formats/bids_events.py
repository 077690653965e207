"""Read stages of BIDS event tables, with what their JSON says about them. Reads no other events.

BIDS has no rule for sleep stages yet: they are texts of `trial_type`, or of a column of their own whose
numbers the JSON beside it explains.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from stageguard.formats._density_file import file_error, listed
from stageguard.formats._json_file import load_json
from stageguard.formats._stage_codes import BOAS, names_of
from stageguard.formats._stage_rows import StageRows, as_number, read_rows
from stageguard.formats._staged_annotations import Annotation, annotated
from stageguard.formats.hypnograms import (
    STAGE_COLUMNS,
    UNSCORED_WORDS,
    HypnogramOptions,
    RawHypnogram,
    is_stage,
)

BOAS_COLUMNS = ("stage_hum", "stage_ai")


def read_bids_events(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Stages of `*_events.tsv` or `*_hypnogram.tsv`; other events are left alone."""
    table = read_rows(path, ("onset", "duration"))
    levels = _levels(path)
    known = (*STAGE_COLUMNS, "value")
    column = next((name for name in known if name in table.header and _may_be(table, name, levels)), None)
    if column is None:
        raise file_error(
            path,
            f"has the columns {listed(table.header)}, none of them with names of sleep stages. Give numbers "
            f"their names in {path.with_suffix('.json').name}, under Levels.",
        )
    meanings = levels.get(column, {})
    texts = [_text(path, cell, meanings) for cell in table.column(column)]
    return _annotated(path, table, texts, options)


def _text(path: Path, cell: str, meanings: dict[str, str]) -> str:
    """Return what a cell says: its own text, or what a number of its stands for."""
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


def read_boas_events(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Stages of the Bitbrain Open Access Sleep dataset: those of the experts where they are there."""
    table = read_rows(path, ("onset", "duration"))
    columns = [name for name in BOAS_COLUMNS if name in table.header]
    if not columns:
        raise file_error(path, f"has no column {' or '.join(BOAS_COLUMNS)}.")
    codes = table.numbers(path, columns[0])
    stages = names_of(path, codes.tolist(), BOAS, what="line", first=table.lines[0])
    raw = _annotated(path, table, [f"Sleep stage {stage}" for stage in stages], options)
    return replace(raw, notes=(*raw.notes, f"stages are those of the column {columns[0]}"))


def _annotated(path: Path, table: StageRows, texts: list[str], options: HypnogramOptions) -> RawHypnogram:
    onsets = table.numbers(path, "onset").tolist()
    lasting = []
    for line, cell in zip(table.lines, table.column("duration"), strict=True):
        seconds = as_number(cell)
        if seconds is None and cell.casefold() not in UNSCORED_WORDS:
            raise file_error(path, f"line {line}, column 'duration': expected seconds, got {cell[:40]!r}.")
        lasting.append(seconds or None)
    rows = zip(onsets, lasting, texts, strict=True)
    annotations = [Annotation(onset, seconds, text) for onset, seconds, text in rows]
    return annotated(path, annotations, options, only_stages=True)


def _may_be(table: StageRows, name: str, levels: dict[str, dict[str, str]]) -> bool:
    """Whether a column holds texts, or numbers that the JSON explains."""
    if name in levels:
        return True
    cells = [cell for cell in table.column(name) if cell.casefold() not in UNSCORED_WORDS]
    return bool(cells) and not all(as_number(cell) is not None for cell in cells)


def _levels(path: Path) -> dict[str, dict[str, str]]:
    """Return what the JSON beside a table says about the values of its columns."""
    beside = path.with_suffix(".json")
    if not beside.is_file():
        return {}
    content: Any = load_json(beside)
    found = {}
    for column, told in content.items() if isinstance(content, dict) else ():
        levels = told.get("Levels") if isinstance(told, dict) else None
        if isinstance(levels, dict):
            found[str(column).casefold()] = {_key(str(key)): _meaning(value) for key, value in levels.items()}
    return found


def _meaning(value: object) -> str:
    """Text of a level, which newer versions of BIDS put into a mapping."""
    return str(value.get("Description", "")) if isinstance(value, dict) else str(value)


def _key(cell: str) -> str:
    number = as_number(cell)
    return f"{number:g}" if number is not None else cell.strip()
