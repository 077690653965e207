"""Read and write this package's tables: CSV with stage and probabilities per epoch, outputs of `decode`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from stageguard.errors import InputError
from stageguard.files import file_error
from stageguard.formats.file_format import (
    ANNOTATIONS,
    OTHER_PROBABILITIES,
    SCORER,
    FileFormat,
    always_final,
)
from stageguard.formats.night import (
    BOTH,
    ONLY_STAGES,
    FileOptions,
    RawDensity,
    RawHypnogram,
    RawNight,
    Reader,
)
from stageguard.formats.outgoing import GENERAL, Content, Outgoing, number, outgoing_of_night
from stageguard.formats.outputs import (
    OWN_FORMAT,
    OWN_HEAD,
    TSV_SUFFIX,
    is_own_table,
    output_paths,
    output_texts,
)
from stageguard.formats.sniffing import first_row
from stageguard.formats.tables.delimited import as_moment, lines_of, read_text, rows_of, text_lines
from stageguard.formats.tables.probabilities import density_of_table, load_table
from stageguard.formats.tables.table import Table
from stageguard.formats.tools.text import stages_of_lines, unread_columns
from stageguard.guard.decoding import Decoding
from stageguard.lazy import library
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram, later

RESERVED = frozenset((*OWN_HEAD, "epoch", "id", "label", "scorer", "start"))


def read_stage_table(path: Path, options: FileOptions) -> RawNight:
    """Read this package's CSV."""
    text = read_text(path)
    return RawNight(
        stages=partial(_table_stages, path, text, options),
        probabilities=partial(_table_density, path, text, options),
    )


def _table_stages(path: Path, text: str, options: FileOptions) -> RawHypnogram:
    lines = lines_of(path, text)
    raw = stages_of_lines(path, lines, options)
    return replace(raw, start=raw.start or _start(rows_of(path, lines, ("onset", "time"))))


def _table_density(path: Path, text: str, options: FileOptions) -> RawDensity:
    table, stages = load_table(path, text, options)
    raw = density_of_table(table, stages, options, expected=("stage",), fills_lead=False)
    return replace(raw, start=raw.start or _start(table))


def read_own_tsv(path: Path, options: FileOptions) -> RawNight:
    """Read the stages of an output of `decode`."""
    lines = text_lines(path)
    return RawNight(
        stages=partial(stages_of_lines, path, lines, options),
        left_columns=partial(_left_columns, path, lines),
    )


def write_stage_table(night: Outgoing, path: Path) -> Content:
    """Write a row per epoch: when, how long, which stage, and the probability of each stage."""
    return Content({path: table_text(night)}, has_probabilities=night.density is not None)


def write_own_tsv(night: Outgoing, path: Path) -> Content:
    """Write table and sidecar of a decoding; refuse a hypnogram, which has no evidence and profile."""
    if night.decoding is None:
        raise InputError(
            f"{TSV_SUFFIX} is what decoding gives, with its profile and evidence. Write stages alone as "
            f"{GENERAL}, or another format."
        )
    contents = output_texts(night.decoding, output_paths(path), None, {}, None, ())
    return Content(contents, has_probabilities=True, has_profile=True, lost=(OTHER_PROBABILITIES,))


def table_text(night: Outgoing) -> str:
    """Return this package's CSV; its digits read back exactly."""
    columns = stage_columns(night)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(map(_cell, column) for column in columns.values()), strict=True))
    return stream.getvalue()


def stage_columns(night: Outgoing) -> dict[str, Sequence[Any]]:
    """Return the columns of a night by name; onsets count from the recording's start."""
    taken = [name for name in night.scheme.names if name.casefold() in RESERVED]
    if taken:
        raise InputError(
            f"the stage {taken[0]!r} has the name of another column of the table. Rename it, or write "
            "another format."
        )
    onsets, start = night.onsets, night.recording_start
    columns: dict[str, Sequence[Any]] = {"onset": onsets, "duration": [night.epoch_seconds] * len(onsets)}
    columns["time"] = [None if start is None else later(start, onset) for onset in onsets]
    if night.hypnogram is not None:
        columns["stage"] = night.hypnogram.stages.tolist()
    if night.density is not None:
        columns |= dict(zip(night.scheme.names, night.density.probabilities.T.tolist(), strict=True))
    return columns


def to_frame(night: Decoding | Hypnogram | Hypnodensity) -> Any:
    """Return a `pandas.DataFrame` with a row per epoch, indexed by time, or by epoch if the start is unknown.

    The columns are onset and duration in seconds; stage for a hypnogram; the probability of each stage if
    there are any; and for a decoding also argmax_stage, changed and filled.
    """
    pandas = library("pandas", "to_frame()", "formats")
    outgoing = outgoing_of_night(night)
    seconds, n_epochs, start = outgoing.epoch_seconds, outgoing.any.n_epochs, outgoing.recording_start
    columns: dict[str, Any] = {"onset": outgoing.onsets, "duration": [seconds] * n_epochs}
    if outgoing.hypnogram is not None:
        columns["stage"] = outgoing.hypnogram.stages.astype(object)
    if outgoing.decoding is not None:
        decoding = outgoing.decoding
        names = (*decoding.hypnogram.scheme.names, "?")
        columns["argmax_stage"] = [names[label] for label in decoding.argmax.tolist()]
        columns["changed"], columns["filled"] = decoding.changed, decoding.filled
    if outgoing.density is not None:
        columns |= dict(zip(outgoing.scheme.names, outgoing.density.probabilities.T, strict=True))
    index = pandas.RangeIndex(n_epochs, name="epoch")
    if start is not None:
        index = pandas.Timestamp(start) + pandas.to_timedelta(outgoing.onsets, unit="s")
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


def _left_columns(path: Path, lines: Sequence[str]) -> list[str]:
    # a label is the index of the stage in its scheme
    table = rows_of(path, lines, ("onset", "duration"))
    return unread_columns(table, ("onset", "duration", "stage", "label"))


STAGE_TABLE = FileFormat(
    GENERAL,
    "a table of stages and probabilities written by stageguard",
    (".csv",),
    _has_probabilities,
    sniff_hypnogram=lambda head, path: first_row(head)[: len(OWN_HEAD)] == OWN_HEAD,
    reader=Reader(BOTH, read_stage_table),
    write=write_stage_table,
    loses=(SCORER, ANNOTATIONS),
    holds_both=True,
    has_final_stages=always_final,
    writes_probabilities_alone=True,
)
FORMATS = (
    FileFormat(
        OWN_FORMAT,
        "a hypnogram written by stageguard",
        (TSV_SUFFIX,),
        is_own_table,
        reader=Reader(ONLY_STAGES, read_own_tsv),
        write=write_own_tsv,
        loses=(OTHER_PROBABILITIES, ANNOTATIONS),
        holds_decoding=True,
    ),
    STAGE_TABLE,
)
