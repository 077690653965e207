"""Read the hypnodensity of Stanford STAGES: bare numbers, five per 15 s.

The stages are wake, S1, S2, S3/4 and REM, in this order. Numbers are separated by commas or spaces.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stageguard.files import file_error
from stageguard.formats.file_format import NUMBERS_ALONE, FileFormat
from stageguard.formats.raw_night import FileOptions, RawDensity, of_probabilities
from stageguard.formats.sniffing import all_numbers, first_lines
from stageguard.formats.tables.delimited import read_text
from stageguard.formats.tables.table import is_number

SUFFIXES = (".hypnodensity.txt", ".hypnodensity.csv")
STAGES = ("W", "N1", "N2", "N3", "R")
TOOL, USUAL_SECONDS = "Stanford STAGES", 15.0


def read_stanford_stages(path: Path, options: FileOptions) -> RawDensity:
    """Read the probabilities in a `.hypnodensity.txt`."""
    rows = []
    lines = read_text(path).rstrip().split("\n")
    for number, line in enumerate(lines, start=1):
        cells = line.replace(",", " ").split()
        if len(cells) != len(STAGES):
            raise file_error(
                path, f"line {number} has {len(cells)} numbers, expected {len(STAGES)}: W, N1, N2, N3, R."
            )
        for cell in cells:
            if not is_number(cell):
                raise file_error(path, f"line {number}: expected a number, got {cell[:40]!r}.")
        rows.append([float(cell) for cell in cells])
    names = STAGES if options.stages is None else tuple(options.stages)
    if len(names) != len(STAGES):
        raise file_error(path, f"has {len(STAGES)} columns, got {len(names)} names in stages.")
    assumed = f"columns read as {', '.join(names)}, the order of {TOOL}"
    return RawDensity(
        np.array(rows),
        names,
        notes=(assumed,) if options.stages is None else (),
        lines=range(1, len(rows) + 1),
        usual_seconds=USUAL_SECONDS,
        tool=TOOL,
    )


def _is_stanford(head: bytes, path: Path) -> bool:
    """Whether a file has a suffix of Stanford STAGES, and five numbers in its first line."""
    lines = first_lines(head)
    cells = lines[0].replace(",", " ").split() if lines else []
    return path.name.lower().endswith(SUFFIXES) and len(cells) == len(STAGES) and all_numbers(cells)


FORMATS = (
    FileFormat(
        "stanford-stages",
        "a hypnodensity of Stanford STAGES",
        SUFFIXES,
        _is_stanford,
        reader=of_probabilities(read_stanford_stages),
        loses=NUMBERS_ALONE,
    ),
)
