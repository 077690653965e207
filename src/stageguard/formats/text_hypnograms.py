"""Read and write text and tables with a stage per epoch, or onset and duration. No number is a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from stageguard.errors import ProfileError
from stageguard.formats._density_file import file_error, listed
from stageguard.formats._outgoing import Content, Outgoing
from stageguard.formats._stage_rows import FloatVector, StageRows, as_number, rows_below, text_lines
from stageguard.formats._staged_annotations import COARSE, Annotation, annotated, named_intervals, raw_of
from stageguard.formats._staged_intervals import stage_epochs
from stageguard.formats._timing import read_timing
from stageguard.formats.hypnograms import (
    UNSCORED_WORDS,
    HypnogramOptions,
    RawHypnogram,
    is_stage,
    stage_column,
)
from stageguard.formats.outputs import TSV_SUFFIX, output_paths, read_sidecar
from stageguard.formats.tables import DELIMITERS, HEADER_SEARCH_LINES, split_line
from stageguard.profile import Profile
from stageguard.stages import UNSCORED_NAME, StageScheme, canonical_name

ARGMAX_COLUMN = "argmax_stage"
ONSET_COLUMNS = frozenset(("start", "begin", "init_sec", "start_sec", "onset_sec", "end", "stop", "end_sec"))
DURATION_COLUMNS = frozenset(("dur", "duration_sec", "duration_s", "lasting"))
EVENT_COLUMNS = frozenset(("trial_type", "description", "label", "annotation"))


def read_text_hypnogram(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Stages of a table with a column for them, or of text with one stage per line."""
    lines = text_lines(path)
    table = find_table(path, lines)
    if table is not None:
        return from_table(path, table, options)
    first = lines[0].strip()
    if not is_stage(first, options.scheme or options.default_scheme):
        raise file_error(
            path,
            f"line 1 is {first[:40]!r}, expected a stage name such as W, N1, N2, N3, R, or a header with a "
            "column named stage. Numbers are not read, since tools number stages differently.",
        )
    if len(lines) == 1 and canonical_name(first) in COARSE:
        raise file_error(path, f"holds {first!r} and nothing else. Was it written completely?")
    return read_stage_lines(path)


def write_text(night: Outgoing, path: Path) -> Content:
    """Write one stage name per line, ? where unscored."""
    return Content({path: "\n".join(night.stages("text").stages.tolist()) + "\n"})


def find_table(path: Path, lines: Sequence[str]) -> StageRows | None:
    """Return the table below the first line that names a column of stages, or None."""
    for number, line in enumerate(lines[:HEADER_SEARCH_LINES]):
        for delimiter in DELIMITERS:
            header = split_line(line, delimiter)
            if stage_column(header) is not None:
                return rows_below(path, lines, number, delimiter, header)
    return None


def from_table(path: Path, table: StageRows, options: HypnogramOptions) -> RawHypnogram:
    """Stages of a table's rows: one row per epoch, or stages with onset and duration."""
    place = stage_column(table.header)
    if place is None:
        raise file_error(
            path,
            f"has the columns {listed(table.header)}, expected one named stage. Rename the right one.",
        )
    name = table.header[place]
    if {"onset", "duration"} <= set(table.header) and not _is_tiled(path, table):
        return _from_events(path, table, name, options)
    _refuse_uneven(path, table)
    recorded = _recorded(path)
    return RawHypnogram(
        table.column(name),
        tuple(table.lines),
        epoch_seconds=row_seconds(path, table),
        start=None if recorded is None else recorded[1],
        profile=None if recorded is None else recorded[0],
        argmax=table.column(ARGMAX_COLUMN) if ARGMAX_COLUMN in table.header else None,
        notes=_other_columns(table, name),
        scorer=None if recorded is None else f"StageGuard {recorded[0].name}",
    )


def _refuse_uneven(path: Path, table: StageRows) -> None:
    """Refuse rows that are of different lengths by a column of another name than onset and duration."""
    for name in sorted((ONSET_COLUMNS | DURATION_COLUMNS) & set(table.header)):
        values = [as_number(cell) for cell in table.column(name)]
        known = np.array([value for value in values if value is not None])
        if len(known) < len(values):
            continue
        steps = np.diff(known) if name in ONSET_COLUMNS else known
        if len(steps) and np.ptp(steps) > 0.01 * abs(steps[0]):
            raise file_error(
                path,
                f"its rows are of different lengths by the column {name}, expected one row per epoch, or "
                "columns named onset and duration.",
            )


def _other_columns(table: StageRows, name: str) -> tuple[str, ...]:
    others = [each for each in table.header if each.startswith("stage") and each not in (name, "stage_n")]
    return (f"stages are those of the column {name}; left out: {listed(others)}",) if others else ()


def read_stage_lines(
    path: Path, words: Mapping[str, str] | None = None, scheme: StageScheme | None = None
) -> RawHypnogram:
    """One stage per line; words (in lower case) that are another tool's own are replaced."""
    lines = [line.strip() for line in text_lines(path)]
    for number, line in enumerate(lines, start=1):
        if not line:
            raise file_error(path, f"line {number} is empty. Write ? for an unscored epoch.")
    stages = tuple((words or {}).get(line.casefold(), line) for line in lines)
    return RawHypnogram(stages, tuple(range(1, len(lines) + 1)), scheme=scheme)


def _is_tiled(path: Path, table: StageRows) -> bool:
    """Whether every row is one epoch that begins where the last one ended, from 0 on."""
    cells = (table.column("onset"), table.column("duration"))
    if any(as_number(cell) is None for column in cells for cell in column):
        return False
    onsets, lasting = (np.array(column, dtype=np.float64) for column in cells)
    if not lasting[0] > 0 or np.abs(lasting - lasting[0]).max() > 1e-6:
        return False
    expected = lasting[0] * np.arange(len(onsets))
    return bool(np.abs(onsets - expected).max() <= 0.01 * lasting[0])


def _from_events(path: Path, table: StageRows, name: str, options: HypnogramOptions) -> RawHypnogram:
    """Stages with onset and duration, in seconds: runs of epochs, with gaps that nobody scored."""
    onsets = table.numbers(path, "onset")
    lasting = [as_number(cell) for cell in table.column("duration")]
    for line, seconds, cell in zip(table.lines, lasting, table.column("duration"), strict=True):
        if seconds is None and cell.casefold() not in UNSCORED_WORDS:
            raise file_error(path, f"line {line}, column 'duration': expected seconds, got {cell[:40]!r}.")
    if name in EVENT_COLUMNS:
        rows = zip(onsets.tolist(), lasting, table.column(name), strict=True)
        annotations = [Annotation(onset, seconds or None, text) for onset, seconds, text in rows]
        return annotated(path, annotations, options, only_stages=True)
    texts = [text or UNSCORED_NAME for text in table.column(name)]
    intervals = named_intervals(path, table.lines, onsets.tolist(), lasting, texts, options)
    return raw_of(stage_epochs(path, intervals, options.epoch_seconds))


def row_seconds(path: Path, table: StageRows) -> float | None:
    """Length of an epoch where a table tells it; rows that skip epochs are refused."""
    if "duration" in table.header:
        lasting = table.numbers(path, "duration")
        different = np.flatnonzero(np.abs(lasting - lasting[0]) > 1e-6)
        if len(different):
            place = int(different[0])
            raise file_error(
                path,
                f"line {table.lines[place]} lasts {lasting[place]:g} s and the first row {lasting[0]:g} s. "
                "Expected one row per epoch, all of one length, or a column onset.",
            )
        return float(lasting[0])
    columns: dict[str, FloatVector] = {}
    for name in ("onset", "epoch"):
        if name in table.header and as_number(table.rows[0][table.header.index(name)]) is not None:
            columns[name] = table.numbers(path, name)
    timing = read_timing(path, columns, table.lines)
    if timing.places is not None:
        line = table.lines[int(np.argmax(np.diff(timing.places) > 1)) + 1]
        raise file_error(path, f"epochs are missing before line {line}. Write ? for unscored epochs.")
    return timing.epoch_seconds


def _recorded(path: Path) -> tuple[Profile, datetime | None] | None:
    """Profile and start that `decode` recorded beside its table, or None."""
    sidecar = output_paths(path).sidecar
    if not path.name.endswith(TSV_SUFFIX) or not sidecar.is_file():
        return None
    record = read_sidecar(sidecar)
    try:
        start = record["hypnogram"]["start"]
        profile = Profile.from_dict(record["profile"]["definition"])
        return profile, None if start is None else datetime.fromisoformat(start)
    except (KeyError, TypeError, ValueError, ProfileError) as error:
        raise file_error(sidecar, f"is incomplete or was edited ({error!r}).") from None
