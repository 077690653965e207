"""Read the CSV of wav2sleep: `Timestamp,pred`, and the expert's `Stage` if the recording has one.

Times are the ends of epochs of 30 s, and numbers those of its four stages.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stageguard.formats.file_format import PROBABILITIES, SCORER, START, FileFormat
from stageguard.formats.raw_night import FileOptions, RawHypnogram, of_stages
from stageguard.formats.sniffing import has_columns
from stageguard.formats.tables.delimited import read_rows
from stageguard.formats.tables.table import IndexColumns, Meaning
from stageguard.formats.tools.text import read_numbered_table

SUFFIX = ".preds.csv"
COLUMNS = ("timestamp", "pred")


def read_wav2sleep(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the stages that wav2sleep predicted."""
    table = read_rows(path, COLUMNS)
    times = IndexColumns(meanings={"timestamp": Meaning("end", 1.0, True)})
    table = replace(table, header=COLUMNS, columns=[table.column(name) for name in COLUMNS], index=times)
    return read_numbered_table(path, table, "wav2sleep", replace(options, column=COLUMNS[1]))


def _is_wav2sleep(head: bytes, path: Path) -> bool:
    return path.name.lower().endswith(SUFFIX) and has_columns(*COLUMNS)(head, path)


FORMATS = (
    FileFormat(
        "wav2sleep-csv",
        "predictions of wav2sleep",
        (SUFFIX,),
        _is_wav2sleep,
        reader=of_stages(read_wav2sleep),
        loses=(PROBABILITIES, f"{START}, unless its times are dates", SCORER),
    ),
)
