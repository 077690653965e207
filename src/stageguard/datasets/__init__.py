"""Datasets in their native layouts, as one `Recording` after another.

>>> from stageguard.datasets import recordings
>>> for recording in recordings("accusleep", "data/accusleep"):
...     print(recording.id, recording.subject, recording.seconds / 3600)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from stageguard.base.errors import InputError, StageGuardError, did_you_mean
from stageguard.base.files import read_toml
from stageguard.base.lazy import load
from stageguard.datasets.dataset import Dataset, Entry, RemoteFile, osf_files, physionet_files
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


@cache
def _catalogue() -> dict[str, dict[str, Any]]:
    return read_toml(Path(__file__).with_name("catalogue.toml"), "the catalogue of datasets")


def dataset_names() -> tuple[str, ...]:
    """Return the names of all datasets."""
    return tuple(_catalogue())


def dataset(name: str) -> Dataset:
    """Return what is known of a dataset; a name that is none is an InputError."""
    key = name.strip().lower().replace("_", "-")
    if key not in _catalogue():
        hint = did_you_mean(name, _catalogue())
        raise InputError(f"no dataset {name!r}; there are: {', '.join(_catalogue())}.{hint}")
    facts = dict(_catalogue()[key])
    physionet, osf = facts.pop("physionet", None), facts.pop("osf", None)
    if physionet is not None:
        facts["files"] = partial(physionet_files, project=physionet)
    elif osf is not None:
        facts["files"] = partial(osf_files, node=osf)
    elif facts["access"] == "open":
        facts["files"] = _deferred(key, "list_files")
    return Dataset(name=key, find=_deferred(key, "find"), **facts)


def _deferred(name: str, function: str) -> Callable[..., Any]:
    """Return a function of a dataset's module, which is imported when it is called."""
    reference = f"datasets.{name.replace('-', '_')}:{function}"
    return lambda *arguments, **options: load(reference)(*arguments, **options)


def entries(name: str, folder: str | Path, **options: Any) -> Iterator[Entry]:
    """Find the recordings of a dataset in a folder, without reading their signals; see `recordings`."""
    return dataset(name).entries(folder, **options)


def recordings(
    name: str,
    folder: str | Path,
    *,
    on_error: Callable[[Entry, Exception], None] | None = None,
    **options: Any,
) -> Iterator[Recording]:
    """Read the recordings of a dataset, one at a time; options are the dataset's own.

    Long signals stay in their files until a slice of them is asked for. `on_error` is called with the entry
    and the error of a recording that cannot be read, which is then left out; by default it is raised.
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
