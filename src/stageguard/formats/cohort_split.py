"""Split a cohort's table into one file per night, for commands that read nights one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

from stageguard.errors import FileFormatError, ProfileError, record_fault, warn
from stageguard.files import (
    file_error,
    file_sha256,
    read_cell,
    write_text_atomic,
)
from stageguard.formats.cohort import (
    ID,
    OWN_COLUMNS,
    TABLE_SUFFIXES,
    CellRow,
    check_id,
    is_parquet,
    table_rows,
)
from stageguard.formats.outputs import (
    LAYOUT_VERSION,
    NOT_AS_WRITTEN,
    TSV_SUFFIX,
    describe_profile,
    output_paths,
    read_sidecar,
)
from stageguard.formats.shared_profile import keep_profile, recorded_profile
from stageguard.formats.tables.delimited import read_delimited
from stageguard.guard.decoding import steered_by

FEW = 3  # this many nights of one row each at the beginning mean that the ids number epochs
_PLAIN_NAME = re.compile(r"[\w.@+=-]{1,100}")


def split_table(path: Path, folder: Path) -> dict[str, Path]:
    """Write each night of a table to its own file in a folder; return the files by id.

    The result is empty if the file is not a table of several nights. Nights of a table that `decode` wrote
    become outputs as `decode` writes them for single files.
    """
    if path.suffix.lower() not in TABLE_SUFFIXES:
        return {}
    rows = table_rows(path)
    header = next(rows, [])
    columns = [number for number, name in enumerate(header) if name.strip().casefold() == ID]
    if len(columns) != 1:
        return {}
    (column,) = columns
    is_decoded = {*OWN_COLUMNS} <= {*header}
    suffix, delimiter = (TSV_SUFFIX, "\t") if is_decoded else (".csv", ",")
    seen, files, n_rows, n_short = dict[str, tuple[str, int]](), dict[str, Path](), 0, 0
    for name, of_night in groupby(rows, key=lambda row: row[column] if column < len(row) else ""):
        check_id(name, (path.name, n_rows + 1), seen)
        night = [[cell for number, cell in enumerate(row) if number != column] for row in (header, *of_night)]
        n_rows += len(night) - 1
        n_short += len(night) == 2
        if n_short == FEW == len(files) + 1:
            return {}
        if is_decoded and not is_parquet(path):
            name = read_cell(name)
        stem = name if _PLAIN_NAME.fullmatch(name) else f"night {len(files) + 1}"
        files[name] = folder / f"{stem}{suffix}"
        write_text_atomic(files[name], _text(night, delimiter), overwrite=True)
    if len(files) < 2:
        return {}
    if is_decoded:
        _write_sidecars(path, files)
    return files


def _write_sidecars(path: Path, found: Mapping[str, Path]) -> None:
    """Write sidecars for the nights of a decoded table, from the records beside the table, if any."""
    sidecar, nights = (path.with_name(f"{path.name}.{what}") for what in ("json", "nights.tsv"))
    if not sidecar.is_file() or not nights.is_file():
        return
    record = read_sidecar(sidecar)
    try:
        profile = recorded_profile(sidecar, record["profile"])
        if record["table"]["sha256"] != file_sha256(path):
            warn(f"{path.name}: {NOT_AS_WRITTEN}, so it was edited. See: stageguard verify {path.name}")
        options = record["run"]["options"]
        acting = profile.for_nights_of(options.get("stager"), options.get("cohort"))
        rows = read_delimited(nights, delimiter="\t", quotes=False).records()
        of_night = {read_cell(row[ID]): row for row in rows}
        for name, file in found.items():
            row = of_night[name]
            steered = steered_by(row["step"], acting.prior_exponent, acting.calibration.biases)
            of_file = {
                "layout": LAYOUT_VERSION,
                "hypnogram": {"n_epochs": int(row["n_epochs"]), "sha256": file_sha256(file), "start": None},
                "options": options,
                "profile": describe_profile(profile, is_shared=True),
                "strength": {"step": row["step"]},
                "steered": sorted(steered),
            }
            text = json.dumps({"stageguard": of_file})
            write_text_atomic(output_paths(file).sidecar, text, overwrite=True)
        keep_profile(profile, next(iter(found.values())).parent)
    except FileFormatError:
        raise
    except (KeyError, TypeError, ValueError, ProfileError) as error:
        raise file_error(sidecar, record_fault(error)) from None


def _text(rows: Iterable[CellRow], delimiter: str) -> str:
    if delimiter == "\t":
        return "\n".join(map(delimiter.join, rows)) + "\n"
    quoted = ([f'"{cell}"' if "," in cell else cell for cell in row] for row in rows)
    return "\n".join(map(delimiter.join, quoted)) + "\n"
