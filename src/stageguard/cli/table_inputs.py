"""Cohorts in one table among the inputs of a command, as one night after the other."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from stageguard.base.lazy import load
from stageguard.cli.inputs import Input, Inputs
from stageguard.formats.outputs import TSV_SUFFIX

_kept: list[TemporaryDirectory[str]] = []  # of this process: removed when it ends


def with_table_nights(inputs: Inputs) -> Inputs:
    """Put the nights of every table with the column id in its place."""
    nights: list[Input] = []
    for night in inputs.nights:
        found = {} if night.error is not None else nights_of(night.path)
        nights += [replace(night, path=path, id=name, table=night.path) for name, path in found.items()] or [
            night
        ]
    return replace(inputs, nights=tuple(nights), is_cohort=inputs.is_cohort or len(nights) > 1)


def nights_of(path: Path) -> dict[str, Path]:
    """Return a file for each night of a table, by id; none of anything else."""
    is_table = re.search(r"\.(csv|tsv|parquet|pq)$", path.name.lower()) and not path.name.endswith(TSV_SUFFIX)
    if not is_table or not path.is_file():
        return {}
    folder = TemporaryDirectory(prefix="stageguard-")
    found: dict[str, Path] = {}
    try:
        found = load("formats.cohort_split:split_table")(path, Path(folder.name))
    except UnicodeDecodeError:  # no text, which whoever reads it as a night says
        return {}
    finally:
        if not found:
            folder.cleanup()
    if found:
        _kept.append(folder)
    return found
