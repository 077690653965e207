"""Read files of networks that stage sleep: GSSC, U-Time and U-Sleep; write U-Sleep's.

GSSC writes a title, then epoch, time, stage and, except from the PyPI version, probabilities. U-Sleep writes
a stage per line, or intervals.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stageguard.files import file_error
from stageguard.formats.annotations import staged_rows
from stageguard.formats.file_format import (
    ANNOTATIONS,
    EPOCH_LENGTH,
    PROBABILITIES,
    SCORER,
    STAGES_ALONE,
    START,
    Contents,
    FileFormat,
)
from stageguard.formats.night import (
    FileOptions,
    Night,
    RawDensity,
    RawHypnogram,
)
from stageguard.formats.sniffing import (
    first_cells,
    first_lines,
    has_columns,
    holds_words,
    read_head,
)
from stageguard.formats.tables.delimited import read_rows, read_text, text_lines
from stageguard.formats.tables.probabilities import density_of_table, load_table
from stageguard.formats.tools.text import numbers_of_lines, read_stage_lines
from stageguard.formats.write import number, stage_words
from stageguard.night.stages import AASM5

WORDS = frozenset(("w", "n1", "n2", "n3", "rem", "r", "unknown", "out_of_bounds"))
COLUMNS = ("init_sec", "duration_sec", "stage")
UNSCORED = {"out_of_bounds": "?"}
USLEEP_WORDS = {"aasm5": {"R": "REM"}}


def read_gssc_stages(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the stages of GSSC: 0 W, 1 N1, 2 N2, 3 N3, 4 REM."""
    return numbers_of_lines(path, text_lines(path), options, numbering="yasa")


def read_gssc_probabilities(path: Path, options: FileOptions) -> RawDensity:
    """Read the probabilities of GSSC, whose epochs are timed by the column Time."""
    if _header(read_head(path)) is not None and _has_stages_alone(path):
        raise file_error(
            path,
            "has GSSC's stages but no probabilities, as the version on PyPI writes it. Write it with GSSC's "
            "main branch, or read the stages with read_hypnogram.",
        )
    raw = density_of_table(*load_table(path, read_text(path), options), options, expected=("stage",))
    return replace(raw, epoch_source="", usual_seconds=30.0, tool="GSSC")


def _header(head: bytes) -> tuple[str, ...] | None:
    """Return the column names below the title, or None."""
    lines = first_lines(head)
    if len(lines) < 2 or not lines[0].strip('"').startswith("Hypnogram of "):
        return None
    cells = first_cells(lines[1])
    return cells if cells[:3] == ("epoch", "time", "stage") else None


def _has_stages_alone(path: Path) -> bool:
    """Whether a file has no column of probabilities, or not GSSC's header."""
    return not any(cell.startswith("prob") for cell in _header(read_head(path)) or ())


def read_runs(path: Path, options: FileOptions) -> RawHypnogram:
    """Read onset, duration and stage of each run (`.tsv`)."""
    table = read_rows(path, COLUMNS)
    onsets, lasting = table.seconds("init_sec"), table.seconds("duration_sec")
    texts = [UNSCORED.get(text.casefold(), text) for text in table.column("stage")]
    return staged_rows(path, zip(table.lines, onsets, lasting, texts, strict=True), options, scheme=AASM5)


def write_hyp(night: Night, path: Path) -> Contents:
    """Write one stage per line (`.hyp`)."""
    words = stage_words(night.from_recording_start(), USLEEP_WORDS, "U-Sleep", "UNKNOWN")
    return {path: "\n".join(words) + "\n"}


def write_runs(night: Night, path: Path) -> Contents:
    """Write onset, duration and stage of each epoch, not of runs as U-Sleep does: this keeps its length."""
    words, seconds = stage_words(night, USLEEP_WORDS, "U-Sleep", "UNKNOWN"), number(night.any.epoch_seconds)
    rows = ((number(onset), seconds, word) for onset, word in zip(night.onsets, words, strict=True))
    return {path: "\n".join(map("\t".join, [COLUMNS, *rows])) + "\n"}


FORMATS = (
    FileFormat(
        "gssc-csv",
        "CSV of GSSC",
        (".csv",),
        lambda head, path: _header(head) is not None,
        stages=read_gssc_stages,
        probabilities=read_gssc_probabilities,
        loses=(START, EPOCH_LENGTH, SCORER),
        has_final_stages=_has_stages_alone,
    ),
    FileFormat(
        "usleep-hyp",
        "U-Sleep .hyp",
        (".hyp",),
        holds_words(WORDS, ".hyp"),
        stages=lambda path, options: read_stage_lines(path, UNSCORED, AASM5),
        write=write_hyp,
        loses=STAGES_ALONE,
        is_plain=True,
    ),
    FileFormat(
        "usleep-tsv",
        "U-Sleep .tsv",
        (".tsv",),
        has_columns(*COLUMNS),
        stages=read_runs,
        write=write_runs,
        loses=(PROBABILITIES, START, SCORER, ANNOTATIONS),
    ),
)
