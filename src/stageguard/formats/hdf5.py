"""Open HDF5 files, also MAT-files of version 7.3, that hold all of their data themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.files import file_error, local_file
from stageguard.lazy import library

MOST_BYTES = 2**30  # of a dataset that is read whole


@contextmanager
def opened_hdf5(path: Path, what: str, extra: str | None = "recordings") -> Iterator[Any]:
    """Open an HDF5 file; refuse links, and data that lie in other files, wherever they are in it.

    `what` begins the error if the library is missing, and `extra` installs it.
    """
    h5py = library("h5py", what, extra)
    facts = local_file(path).stat()
    foreign = _foreign_part(path, facts.st_mtime_ns, facts.st_size)
    if foreign is not None:
        raise file_error(path, foreign, " Save a copy that holds its data itself.")
    with h5py.File(local_file(path), "r") as file:
        yield file


@lru_cache(maxsize=64)  # samples are read slice by slice, each time from a file that is opened anew
def _foreign_part(path: Path, *_: int) -> str | None:
    """Return what in a file leads elsewhere, or None."""
    h5py = library("h5py", f"reading {path.name}")

    def of_link(name: bytes, link: Any) -> str | None:
        if link.type != h5py.h5l.TYPE_HARD:
            return f"its {_quote(name)} is a link to another place or file, expected data."
        return None

    def of_item(name: str, item: Any) -> str | None:
        if isinstance(item, h5py.Dataset) and (item.is_virtual or item.external):
            return f"the data of its {_quote(name)} lie in other files, expected them in this one."
        return None

    with h5py.File(local_file(path), "r") as file:
        problem: str | None = file.id.links.visit(of_link, info=True) or file.visititems(of_item)
        return problem


def _quote(name: str | bytes) -> str:
    return repr((name.decode("utf-8", "replace") if isinstance(name, bytes) else name)[:60])


def values_of(path: Path, dataset: Any) -> npt.NDArray[Any]:
    """Return all values of a dataset; refuse one that would fill the memory."""
    if dataset.size * dataset.dtype.itemsize > MOST_BYTES:
        found = f"{dataset.size:,} values of {dataset.dtype.itemsize:,} bytes"
        problem = f"{_quote(dataset.name)} holds {found}, expected at most {MOST_BYTES:,} bytes."
        raise file_error(path, problem)
    return np.asarray(dataset[()])
