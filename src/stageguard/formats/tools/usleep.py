"""Read and write hypnograms of U-Time and U-Sleep: a stage per line, or intervals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from stageguard.formats.annotations import staged_rows
from stageguard.formats.file_format import (
    ANNOTATIONS,
    PROBABILITIES,
    SCORER,
    STAGES_ALONE,
    START,
    FileFormat,
)
from stageguard.formats.outgoing import Content, Outgoing, number, stage_words
from stageguard.formats.raw_night import FileOptions, RawHypnogram, of_stages
from stageguard.formats.sniffing import has_columns, holds_words, whole_lines
from stageguard.formats.tables.delimited import read_rows, stage_rows, text_lines
from stageguard.formats.tables.table import Table
from stageguard.formats.tools.text import read_stage_lines
from stageguard.night.stages import AASM5

WORDS = frozenset(("w", "n1", "n2", "n3", "rem", "r", "unknown", "out_of_bounds"))
_IDS = re.compile(r"\s*\d+(\.\d*)?\s*,\s*\d+(\.\d*)?\s*,\s*[A-Za-z?][\w ?]*")
COLUMNS = ("init_sec", "duration_sec", "stage")
UNSCORED = {"out_of_bounds": "?"}
USLEEP_WORDS = {"aasm5": {"R": "REM"}}


def read_ids(path: Path, options: FileOptions) -> RawHypnogram:
    """Read onset, duration and stage of each run (`.ids`), without a header."""
    return _runs(path, stage_rows(path, text_lines(path), -1, ",", COLUMNS), options)


def _runs(path: Path, table: Table, options: FileOptions) -> RawHypnogram:
    onsets, lasting = table.seconds("init_sec"), table.seconds("duration_sec")
    texts = [UNSCORED.get(text.casefold(), text) for text in table.column("stage")]
    return staged_rows(path, zip(table.lines, onsets, lasting, texts, strict=True), options, scheme=AASM5)


def write_hyp(night: Outgoing, path: Path) -> Content:
    """Write one stage per line (`.hyp`)."""
    words = stage_words(night.from_recording_start(), USLEEP_WORDS, "U-Sleep", "UNKNOWN")
    return Content({path: "\n".join(words) + "\n"})


def write_runs(night: Outgoing, path: Path, *, mark: str, header: Sequence[str] = ()) -> Content:
    """Write onset, duration and stage of each epoch, not of runs as U-Sleep does: this keeps its length."""
    words, seconds = stage_words(night, USLEEP_WORDS, "U-Sleep", "UNKNOWN"), number(night.epoch_seconds)
    rows = ((number(onset), seconds, word) for onset, word in zip(night.onsets, words, strict=True))
    return Content({path: "\n".join(map(mark.join, [header, *rows] if header else rows)) + "\n"})


def _is_ids(head: bytes, path: Path) -> bool:
    lines = whole_lines(head)
    return bool(lines) and all(map(_IDS.fullmatch, lines))


_LOSES = (PROBABILITIES, START, SCORER, ANNOTATIONS)
FORMATS = (
    FileFormat(
        "usleep-hyp",
        "U-Sleep .hyp",
        (".hyp",),
        holds_words(WORDS, ".hyp"),
        reader=of_stages(lambda path, options: read_stage_lines(path, UNSCORED, AASM5)),
        write=write_hyp,
        loses=STAGES_ALONE,
        is_plain=True,
    ),
    FileFormat(
        "usleep-ids",
        "U-Sleep .ids",
        (".ids",),
        _is_ids,
        reader=of_stages(read_ids),
        write=partial(write_runs, mark=","),
        loses=_LOSES,
    ),
    FileFormat(
        "usleep-tsv",
        "U-Sleep .tsv",
        (".tsv",),
        has_columns(*COLUMNS),
        reader=of_stages(lambda path, options: _runs(path, read_rows(path, COLUMNS), options)),
        write=partial(write_runs, mark="\t", header=COLUMNS),
        loses=_LOSES,
    ),
)
