"""Datasets in their native layouts, as one `Recording` after another.

>>> from stageguard.datasets import recordings
>>> for recording in recordings("accusleep", "data/accusleep"):
...     print(recording.id, recording.subject, recording.seconds / 3600)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from stageguard.base.errors import InputError, StageGuardError, did_you_mean
from stageguard.datasets.dataset import Dataset, Entry, RemoteFile
from stageguard.night.recording import Recording

__all__ = [
    "Dataset",
    "Entry",
    "RemoteFile",
    "dataset",
    "dataset_names",
    "entries",
    "recordings",
]

# Each is read by the module of its name, which holds its DATASET. To add one: a module, and its name here.
_NAMES = ("accusleep", "sleep-accel", "sleepbrl", "shhs", "sleep-edf", "slpdb", "dod", "sample-list")


def dataset_names() -> tuple[str, ...]:
    """Return the names of all datasets."""
    return _NAMES


def dataset(name: str) -> Dataset:
    """Return what is known of a dataset.

    Raises
    ------
    InputError
        No dataset has this name.
    """
    key = name.strip().lower().replace("_", "-")
    if key not in _NAMES:
        hint = did_you_mean(name, _NAMES)
        raise InputError(f"no dataset {name!r}; there are: {', '.join(_NAMES)}.{hint}")
    module = import_module(f"stageguard.datasets.{key.replace('-', '_')}")
    described: Dataset = module.DATASET
    return described


def entries(name: str, folder: str | Path, **options: Any) -> Iterator[Entry]:
    """Find the recordings of a dataset in a folder, without reading their signals; see `recordings`.

    Yields
    ------
    Entry
        With the recording's id, its subject, its files, and ``read()``.
    """
    return dataset(name).entries(folder, **options)


def recordings(
    name: str,
    folder: str | Path,
    *,
    on_error: Callable[[Entry, Exception], None] | None = None,
    **options: Any,
) -> Iterator[Recording]:
    """Read the recordings of a dataset, one at a time.

    Parameters
    ----------
    name : str
        Name of the dataset.
    folder : path-like
        Where the local copy is.
    on_error : callable, optional
        Called with the entry and the error when a recording cannot be read, which is then left out. By
        default the error is raised.
    **options
        The dataset's own; see ``dataset(name).options``.

    Yields
    ------
    Recording
        Each with its subject. Long signals stay in their files until a slice of them is asked for.
    """
    for entry in entries(name, folder, **options):
        try:
            recording = entry.read()
        except (StageGuardError, OSError) as error:
            if on_error is None or isinstance(error, ImportError):
                raise
            on_error(entry, error)
            continue
        yield recording
