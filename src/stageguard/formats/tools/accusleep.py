"""Labels of AccuSleep (MAT-files) and of AccuSleePy (CSV, also with confidences)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.base.errors import StageGuardError
from stageguard.base.extras import library
from stageguard.base.files import checked_file, file_error, open_file
from stageguard.formats.confidence_tables import read_accusleepy_csv
from stageguard.formats.density import MOST_EPOCHS, check_usual, listed
from stageguard.formats.file_format import (
    ANNOTATIONS,
    LEAD,
    NUMBERS_ALONE,
    OTHER_PROBABILITIES,
    SCORER,
    STAGES_ALONE,
    FileFormat,
    always_final,
)
from stageguard.formats.hypnogram import NUMBERINGS, HypnogramOptions, RawHypnogram, numbered_stages
from stageguard.formats.mat import read_matrix
from stageguard.formats.outgoing import Content, Outgoing, stage_words
from stageguard.formats.sniffing import begins_with, first_row, has_columns
from stageguard.formats.tables.delimited import read_rows

EPOCH_SECONDS = 2.5  # AccuSleep's; no file tells
COLUMN = "brain_state"
DIGITS = {"R": "1", "W": "2", "N": "3", "?": "-1"}


def read_csv(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Read a column `brain_state`: 1 REM, 2 Wake, 3 NREM, -1 undefined."""
    table = read_rows(path, (COLUMN,))
    codes = table.seconds(COLUMN)
    return _staged(path, codes.tolist(), options, what="line", first=table.lines[0])


def write_csv(night: Outgoing, path: Path) -> Content:
    """Write the column `brain_state` as AccuSleePy reads it."""
    words = stage_words(night.from_recording_start(), {"wnr3": {}}, "AccuSleePy")
    return Content({path: "\n".join([COLUMN, *(DIGITS[word] for word in words)]) + "\n"})


def read_mat(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Read a vector `labels` of a MAT-file, version 5 to 7, or 7.3 (through h5py)."""
    try:
        values = np.ravel(_labels(path))
    except (StageGuardError, MemoryError):
        raise
    except Exception as error:  # a damaged file makes the libraries raise almost anything
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise file_error(path, f"is damaged or cut short ({reason}).") from None
    if not 0 < len(values) <= MOST_EPOCHS or values.dtype.kind not in "iuf":
        raise file_error(path, f"'labels' holds {len(values):,} {values.dtype} values, expected numbers.")
    return _staged(path, values.tolist(), options, what="epoch", first=0)


def _labels(path: Path) -> npt.NDArray[Any]:
    with open_file(path, "a recording") as file:
        head = file.read(1024)
    if head.startswith(b"MATLAB 7.3"):
        h5py = library("h5py", f"reading {path.name}", extra="formats")
        with h5py.File(checked_file(path, "a recording"), "r") as file:
            if "labels" not in file:
                names = listed(list(file)) or "nothing"
                raise file_error(path, f"holds {names}, expected a variable 'labels' of AccuSleep.")
            if file["labels"].size > MOST_EPOCHS:
                raise file_error(path, f"'labels' has {file['labels'].size:,} values. Is it damaged?")
            return np.asarray(file["labels"][()])
    return read_matrix(path, "labels", MOST_EPOCHS)


def _staged(
    path: Path, codes: list[float], options: HypnogramOptions, *, what: str, first: int
) -> RawHypnogram:
    seconds = options.epoch_seconds
    notes: tuple[str, ...] = ("labels are read as 1 REM, 2 Wake, 3 NREM: AccuSleep's own numbers",)
    if seconds is None:
        check_usual(path, EPOCH_SECONDS, options.default_epoch_seconds, "AccuSleep")
        notes += (f"the file does not say how long an epoch is: AccuSleep's {EPOCH_SECONDS:g} s assumed",)
    raw = numbered_stages(path, codes, NUMBERINGS["accusleep"], what=what, first=first)
    return replace(raw, epoch_seconds=seconds or EPOCH_SECONDS, notes=notes)


FORMATS = (
    FileFormat(
        "accusleepy-csv",
        "labels and confidences of AccuSleePy",
        (".csv",),
        lambda head, path: COLUMN in first_row(head),
        sniff_hypnogram=has_columns(COLUMN),
        density=read_accusleepy_csv,
        hypnogram=read_csv,
        write=write_csv,
        loses=(OTHER_PROBABILITIES, *NUMBERS_ALONE, LEAD, SCORER, ANNOTATIONS),
        has_final_stages=always_final,
    ),
    FileFormat(
        "accusleep-mat",
        "AccuSleep labels (.mat)",
        (".mat",),
        begins_with(b"MATLAB "),
        hypnogram=read_mat,
        loses=STAGES_ALONE,
    ),
)
