"""Read and write this package's tables: CSV with stage and probabilities per epoch, outputs of `decode`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from stageguard.errors import InputError
from stageguard.files import file_error
from stageguard.formats.file_format import (
    ANNOTATIONS,
    OTHER_PROBABILITIES,
    SCORER,
    Contents,
    FileFormat,
    always_final,
)
from stageguard.formats.night import (
    FileOptions,
    Night,
    RawDensity,
    RawHypnogram,
    night_of,
)
from stageguard.formats.outputs import (
    OWN_FORMAT,
    OWN_HEAD,
    TSV_SUFFIX,
    is_own_table,
    output_paths,
    output_texts,
)
from stageguard.formats.sniffing import first_row
from stageguard.formats.tables.delimited import as_moment, read_text, rows_of, text_lines
from stageguard.formats.tables.probabilities import density_of_table, load_table
from stageguard.formats.tables.table import Table
from stageguard.formats.tools.text import stages_of_lines
from stageguard.formats.write import GENERAL, number
from stageguard.guard.decoding import Decoding
from stageguard.lazy import library
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram, later

RESERVED = frozenset((*OWN_HEAD, "epoch", "id", "label", "scorer", "start"))


def read_stages(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the stages of this package's CSV."""
    lines = text_lines(path)
    raw = stages_of_lines(path, lines, options)
    return replace(raw, start=raw.start or _start(rows_of(path, lines, ("onset", "time"))))


def read_probabilities(path: Path, options: FileOptions) -> RawDensity:
    """Read the probabilities of this package's CSV."""
    table, stages = load_table(path, read_text(path), options)
    raw = density_of_table(table, stages, options, expected=("stage",), fills_lead=False)
    return replace(raw, start=raw.start or _start(table))


def write_stage_table(night: Night, path: Path) -> Contents:
    """Write a row per epoch: when, how long, which stage, and the probability of each stage."""
    return {path: table_text(night)}


def write_own_tsv(night: Night, path: Path) -> Contents:
    """Write table and sidecar of a decoding; refuse a hypnogram, which has no evidence and profile."""
    if night.decoding is None:
        raise InputError(
            f"{TSV_SUFFIX} is what decoding gives, with its profile and evidence. Write stages alone as "
            f"{GENERAL}, or another format."
        )
    return output_texts(night.decoding, output_paths(path), None, {}, None, ())


def table_text(night: Night) -> str:
    """Return this package's CSV; its digits read back exactly."""
    columns = stage_columns(night)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(map(_cell, column) for column in columns.values()), strict=True))
    return stream.getvalue()


def stage_columns(night: Night) -> dict[str, Sequence[Any]]:
    """Return the columns of a night by name; onsets count from the recording's start."""
    taken = [name for name in night.any.scheme.names if name.casefold() in RESERVED]
    if taken:
        raise InputError(
            f"the stage {taken[0]!r} has the name of another column of the table. Rename it, or write "
            "another format."
        )
    onsets, start = night.onsets, night.recording_start
    columns: dict[str, Sequence[Any]] = {"onset": onsets, "duration": [night.any.epoch_seconds] * len(onsets)}
    columns["time"] = [None if start is None else later(start, onset) for onset in onsets]
    if night.scoring is not None:
        columns["stage"] = night.scoring.stages.tolist()
    if night.probabilities is not None:
        names, cells = night.any.scheme.names, night.probabilities.probabilities.T.tolist()
        columns |= dict(zip(names, cells, strict=True))
    return columns


def to_frame(night: Decoding | Hypnogram | Hypnodensity) -> Any:
    """Return a `pandas.DataFrame` with a row per epoch, indexed by time, or by epoch if the start is unknown.

    The columns are onset and duration in seconds; stage for a hypnogram; the probability of each stage if
    there are any; and for a decoding also argmax_stage, changed and filled.
    """
    pandas = library("pandas", "to_frame()", "formats")
    given = night_of(night)
    onsets, start, decoding = given.onsets, given.recording_start, given.decoding
    columns: dict[str, Any] = {"onset": onsets, "duration": [given.any.epoch_seconds] * len(onsets)}
    if given.scoring is not None:
        columns["stage"] = given.scoring.stages.astype(object)
    if decoding is not None:
        names = (*decoding.hypnogram.scheme.names, "?")
        columns["argmax_stage"] = [names[label] for label in decoding.argmax.tolist()]
        columns["changed"], columns["filled"] = decoding.changed, decoding.filled
    if given.probabilities is not None:
        columns |= dict(zip(given.any.scheme.names, given.probabilities.probabilities.T, strict=True))
    index = pandas.RangeIndex(len(onsets), name="epoch")
    if start is not None:
        index = pandas.Timestamp(start) + pandas.to_timedelta(onsets, unit="s")
        index.name = "time"
    return pandas.DataFrame(columns, index=index)


def _cell(value: Any) -> str:
    """Return a cell that reads back exactly; empty if missing."""
    if value is None or value != value:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    return number(value) if isinstance(value, int | float) else str(value)


def _start(table: Table) -> datetime | None:
    """Return when the first epoch begins, if the table tells."""
    names = [name.casefold() for name in table.header]
    if "onset" not in names or "time" not in names:
        raise file_error(table.path, "has no header with the columns onset, time. Was it written completely?")
    text = table.column(names.index("time"))[0]
    return as_moment(table.path, table.lines[0], text) if text else None


def _has_probabilities(head: bytes, path: Path) -> bool:
    cells = first_row(head)
    return cells[:3] == OWN_HEAD[:3] and len({*cells} - {*OWN_HEAD}) > 1


STAGE_TABLE = FileFormat(
    GENERAL,
    "a table of stages and probabilities written by stageguard",
    (".csv",),
    _has_probabilities,
    sniff_stages=lambda head, path: first_row(head)[: len(OWN_HEAD)] == OWN_HEAD,
    stages=read_stages,
    probabilities=read_probabilities,
    write=write_stage_table,
    loses=(SCORER, ANNOTATIONS),
    has_final_stages=always_final,
    writes_probabilities_alone=True,
)
FORMATS = (
    FileFormat(
        OWN_FORMAT,
        "a hypnogram written by stageguard",
        (TSV_SUFFIX,),
        is_own_table,
        stages=lambda path, options: stages_of_lines(path, text_lines(path), options),
        write=write_own_tsv,
        loses=(OTHER_PROBABILITIES, ANNOTATIONS),
        holds_decoding=True,
    ),
    STAGE_TABLE,
)
