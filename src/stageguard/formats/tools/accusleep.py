"""Labels of AccuSleep (MAT-files) and of AccuSleePy (CSV, also with confidences)."""

from __future__ import annotations

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
from stageguard.formats.hypnogram import NUMBERINGS, HypnogramOptions, RawHypnogram, names_of
from stageguard.formats.mat import read_matrix
from stageguard.formats.outgoing import Content, Outgoing, stage_words
from stageguard.formats.sniffing import begins_with, first_cells, first_lines, has_columns
from stageguard.formats.tables.delimited import read_rows
from stageguard.night.stages import WNR3

EPOCH_SECONDS = 2.5  # AccuSleep's; no file tells
COLUMN = "brain_state"
DIGITS = {"R": "1", "W": "2", "N": "3", "?": "-1"}


def read_csv(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Read a column `brain_state`: 1 REM, 2 Wake, 3 NREM, -1 undefined."""
    table = read_rows(path, (COLUMN,))
    codes = table.seconds(COLUMN)
    stages = names_of(path, codes.tolist(), NUMBERINGS["accusleep"].codes, what="line", first=table.lines[0])
    return _raw(path, stages, options)


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
    stages = names_of(path, values.tolist(), NUMBERINGS["accusleep"].codes, what="epoch", first=0)
    return _raw(path, stages, options)


def _labels(path: Path) -> npt.NDArray[Any]:
    with open_file(path, "a recording") as file:
        head = file.read(1024)
    if head.startswith(b"MATLAB 7.3"):
        h5py = library("h5py", f"reading {path.name}", extra="formats")
        with h5py.File(checked_file(path, "a recording"), "r") as file:
            if "labels" not in file:
                raise _no_labels(path, list(file))
            if file["labels"].size > MOST_EPOCHS:
                raise file_error(path, f"'labels' has {file['labels'].size:,} values. Is it damaged?")
            return np.asarray(file["labels"][()])
    return read_matrix(path, "labels", MOST_EPOCHS)


def _no_labels(path: Path, names: list[str]) -> StageGuardError:
    return file_error(path, f"holds {listed(names) or 'nothing'}, expected a variable 'labels' of AccuSleep.")


def _raw(path: Path, stages: tuple[str, ...], options: HypnogramOptions) -> RawHypnogram:
    seconds = options.epoch_seconds
    notes: tuple[str, ...] = ("labels are read as 1 REM, 2 Wake, 3 NREM: AccuSleep's own numbers",)
    if seconds is None:
        check_usual(path, EPOCH_SECONDS, options.default_epoch_seconds, "AccuSleep")
        notes += (f"the file does not say how long an epoch is: AccuSleep's {EPOCH_SECONDS:g} s assumed",)
    lines = tuple(range(1, len(stages) + 1))
    return RawHypnogram(stages, lines, epoch_seconds=seconds or EPOCH_SECONDS, scheme=WNR3, notes=notes)


def _is_csv(head: bytes, path: Path) -> bool:
    lines = first_lines(head)
    return bool(lines) and COLUMN in first_cells(lines[0])


FORMATS = (
    FileFormat(
        "accusleepy-csv",
        "labels and confidences of AccuSleePy",
        (".csv",),
        _is_csv,
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
