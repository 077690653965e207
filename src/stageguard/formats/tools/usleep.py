"""Hypnograms of U-Time and U-Sleep: a stage per line, or intervals."""

from __future__ import annotations

import re
from pathlib import Path

from stageguard.formats.annotations import staged_rows
from stageguard.formats.file_format import ANNOTATIONS, PROBABILITIES, SCORER, STAGES_ALONE, START, FileFormat
from stageguard.formats.hypnogram import HypnogramOptions, RawHypnogram
from stageguard.formats.outgoing import Content, Outgoing, number, stage_words
from stageguard.formats.sniffing import has_columns, holds_words, whole_lines
from stageguard.formats.tables.delimited import TextTable, read_rows, stage_rows, text_lines
from stageguard.formats.tools.text import read_stage_lines
from stageguard.night.stages import AASM5

WORDS = frozenset(("w", "n1", "n2", "n3", "rem", "r", "unknown", "out_of_bounds"))
_IDS = re.compile(r"\s*\d+(\.\d*)?\s*,\s*\d+(\.\d*)?\s*,\s*[A-Za-z?][\w ?]*")
COLUMNS = ("init_sec", "duration_sec", "stage")
UNSCORED = {"out_of_bounds": "?"}
USLEEP_WORDS = {"aasm5": {"R": "REM"}}


def read_ids(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Read onset, duration and stage of each run (`.ids`), without a header."""
    return _runs(path, stage_rows(path, text_lines(path), -1, ",", COLUMNS), options)


def _runs(path: Path, table: TextTable, options: HypnogramOptions) -> RawHypnogram:
    onsets, lasting = table.seconds("init_sec"), table.seconds("duration_sec")
    texts = [UNSCORED.get(text.casefold(), text) for text in table.column("stage")]
    return staged_rows(path, zip(table.lines, onsets, lasting, texts, strict=True), options, scheme=AASM5)


def write_hyp(night: Outgoing, path: Path) -> Content:
    """Write one stage per line (`.hyp`)."""
    return Content({path: "\n".join(_words(night.from_recording_start())) + "\n"})


def write_ids(night: Outgoing, path: Path) -> Content:
    """Write onset, duration and stage of each epoch (`.ids`), without a header."""
    return Content({path: "\n".join(_lines(night, ",")) + "\n"})


def write_tsv(night: Outgoing, path: Path) -> Content:
    """Write the same with a header (`.tsv`)."""
    return Content({path: "\n".join(["\t".join(COLUMNS), *_lines(night, "\t")]) + "\n"})


def _words(night: Outgoing) -> list[str]:
    return stage_words(night, USLEEP_WORDS, "U-Sleep", "UNKNOWN")


def _lines(night: Outgoing, mark: str) -> list[str]:
    # one line per epoch, where U-Sleep joins runs of equal stages: so the epoch length is told
    seconds, rows = number(night.epoch_seconds), zip(night.onsets, _words(night), strict=True)
    return [mark.join((number(onset), seconds, word)) for onset, word in rows]


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
        hypnogram=lambda path, options: read_stage_lines(path, UNSCORED, AASM5),
        write=write_hyp,
        loses=STAGES_ALONE,
        is_plain=True,
    ),
    FileFormat(
        "usleep-ids", "U-Sleep .ids", (".ids",), _is_ids, hypnogram=read_ids, write=write_ids, loses=_LOSES
    ),
    FileFormat(
        "usleep-tsv",
        "U-Sleep .tsv",
        (".tsv",),
        has_columns(*COLUMNS),
        hypnogram=lambda path, options: _runs(path, read_rows(path, COLUMNS), options),
        write=write_tsv,
        loses=_LOSES,
    ),
)
