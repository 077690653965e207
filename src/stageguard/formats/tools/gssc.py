"""Read the CSV of GSSC: a title, then epoch, time, stage and, except from the PyPI version, probabilities."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from stageguard.base.files import file_error
from stageguard.formats.file_format import EPOCH_LENGTH, SCORER, START, FileFormat
from stageguard.formats.raw_night import BOTH, FileOptions, RawDensity, RawNight, Reader
from stageguard.formats.sniffing import first_cells, first_lines, has_columns, read_head, whole_lines
from stageguard.formats.tables.delimited import lines_of, read_text
from stageguard.formats.tables.probabilities import density_of_text
from stageguard.formats.tools.text import numbers_of_lines

TOOL, SECONDS = "GSSC", 30.0


def read_gssc_csv(path: Path, options: FileOptions) -> RawNight:
    """Read the stages of GSSC (0 W, 1 N1, 2 N2, 3 N3, 4 REM) and, if there are any, its probabilities."""
    text = read_text(path)
    return RawNight(
        stages=lambda: numbers_of_lines(path, lines_of(path, text), options, numbering="yasa"),
        probabilities=partial(_density, path, text, options),
    )


def _density(path: Path, text: str, options: FileOptions) -> RawDensity:
    """Return the probabilities of GSSC, whose epochs are timed by the column Time."""
    if _header(read_head(path)) is not None and _has_stages_alone(path):
        raise file_error(
            path,
            "has GSSC's stages but no probabilities, as the version on PyPI writes it. Write it with GSSC's "
            "main branch, or read the stages with read_hypnogram.",
        )
    raw = density_of_text(path, text, options, expected=("stage",))
    return replace(raw, epoch_source="", usual_seconds=SECONDS, tool=TOOL)


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


def _is_hypnogram(head: bytes, path: Path) -> bool:
    """Whether GSSC wrote a file, with or without probabilities."""
    lines = whole_lines(head)
    has_title = bool(lines) and lines[0].startswith("Hypnogram of")
    return has_title and has_columns("epoch", "time", "stage")(head, path)


FORMATS = (
    FileFormat(
        "gssc-csv",
        "CSV of GSSC",
        (".csv",),
        lambda head, path: _header(head) is not None,
        sniff_hypnogram=_is_hypnogram,
        reader=Reader(BOTH, read_gssc_csv),
        loses=(START, EPOCH_LENGTH, SCORER),
        holds_both=True,
        has_final_stages=_has_stages_alone,
    ),
)
