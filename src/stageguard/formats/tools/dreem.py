"""Read hypnograms of the Dreem Open Datasets: a JSON list, or an array in HDF5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from stageguard.errors import StageGuardError
from stageguard.files import damaged_file, file_error
from stageguard.formats.density import MOST_EPOCHS, listed
from stageguard.formats.file_format import (
    EPOCH_LENGTH,
    PROBABILITIES,
    SCORER,
    STAGES_ALONE,
    FileFormat,
)
from stageguard.formats.hdf5 import opened_hdf5, values_of
from stageguard.formats.hypnogram import NUMBERINGS, number_list, numbered_stages
from stageguard.formats.night import FileOptions, RawHypnogram
from stageguard.formats.sniffing import begins_with, is_number_list

EPOCH_SECONDS = 30.0


def read_json(path: Path, options: FileOptions) -> RawHypnogram:
    """Read a list of numbers: -1 not scored, 0 W, 1 N1, 2 N2, 3 N3, 4 REM."""
    if options.format is None:
        raise file_error(
            path,
            "is a bare list of numbers, and tools number stages differently. Say whose: ",
            "format='dreem-json'",
            f" for 4 REM at 30 s, or {' or '.join(f'numbers-{each}' for each in NUMBERINGS)}.",
        )
    return _stages(path, number_list(path))


def read_h5(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the array `hypnogram` of a night."""
    try:
        with opened_hdf5(path, f"reading {path.name}", extra="formats") as file:
            if "hypnogram" not in file:
                raise file_error(path, f"holds {listed(list(file))}, expected an array named hypnogram.")
            if not 0 < file["hypnogram"].size <= MOST_EPOCHS:
                raise file_error(path, f"its hypnogram has {file['hypnogram'].size:,} values.")
            values = np.ravel(np.asarray(values_of(path, file["hypnogram"]), dtype=np.float64))
            start = _start(file.attrs.get("start_time"))
    except (StageGuardError, MemoryError):
        raise
    except Exception as error:  # a damaged file makes the library raise almost anything
        raise damaged_file(path, error) from None
    return replace(_stages(path, values.tolist()), start=start)


def _stages(path: Path, codes: Sequence[float]) -> RawHypnogram:
    raw = numbered_stages(path, codes, NUMBERINGS["yasa"], what="epoch")
    return replace(raw, epoch_seconds=EPOCH_SECONDS)


def _start(value: object) -> datetime | None:
    """Return when a night began, from seconds since 1970, or None."""
    try:
        seconds = float(np.ravel(np.asarray(value, dtype=np.float64))[0])
        return datetime.fromtimestamp(seconds, tz=UTC).replace(tzinfo=None) if seconds > 0 else None
    except (TypeError, ValueError, IndexError, OverflowError, OSError):
        return None


FORMATS = (
    FileFormat(
        "dreem-json",
        "Dreem scorer's JSON list",
        (".json",),
        is_number_list,
        stages=read_json,
        loses=STAGES_ALONE,
    ),
    FileFormat(
        "dreem-h5",
        "Dreem night (.h5)",
        (".h5", ".hdf5"),
        begins_with(b"\x89HDF\r\n\x1a\n"),
        stages=read_h5,
        loses=(PROBABILITIES, EPOCH_LENGTH, SCORER),
    ),
)
