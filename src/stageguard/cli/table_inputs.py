"""Replace tables of many nights among the inputs of a command by their nights."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from stageguard.cli.inputs import Input, Inputs
from stageguard.formats.cohort_split import split_table
from stageguard.formats.outputs import TSV_SUFFIX

_kept: list[TemporaryDirectory[str]] = []  # removed when this process ends


def with_table_nights(inputs: Inputs) -> Inputs:
    """Replace every table that has the column id by its nights."""
    nights: list[Input] = []
    for night in inputs.nights:
        files = {} if night.error is not None else nights_of(night.path)
        nights += [replace(night, path=path, id=name, table=night.path) for name, path in files.items()] or [
            night
        ]
    return replace(inputs, nights=tuple(nights), is_cohort=inputs.is_cohort or len(nights) > 1)


def nights_of(path: Path) -> dict[str, Path]:
    """Return a temporary file for each night of a table, by id; none for any other file."""
    is_table = re.search(r"\.(csv|tsv|parquet|pq)$", path.name.lower()) and not path.name.endswith(TSV_SUFFIX)
    if not is_table or not path.is_file():
        return {}
    folder = TemporaryDirectory(prefix="stageguard-")
    files: dict[str, Path] = {}
    try:
        files = split_table(path, Path(folder.name))
    except UnicodeDecodeError:  # not text: reading it as a night will raise the error
        return {}
    finally:
        if not files:
            folder.cleanup()
    if files:
        _kept.append(folder)
    return files
