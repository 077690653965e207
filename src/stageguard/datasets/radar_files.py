"""Radar files of one's own: arrays in npz or HDF5, channels in EDF."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from stageguard.base.extras import library
from stageguard.base.files import checked_file
from stageguard.datasets.samples import Array, broken, hdf5_samples, named, seen_through, spooled
from stageguard.formats.recordings.edf import read_edf_recording
from stageguard.night.recording import Samples, Signal

SUFFIXES = (".npz", ".h5", ".hdf5", ".edf")
_BLOCK_BYTES = 8 << 20


class RadarFile(Protocol):
    """A file whose channels and facts have names."""

    @property
    def path(self) -> Path:
        """Return where it is."""

    def names(self) -> tuple[str, ...]:
        """Return what it holds."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array."""

    def row(self, name: str, column: int | None, part: str | None) -> Samples:
        """Return one row of samples: a column of a matrix, the real or imaginary part of complex numbers."""

    def small(self, name: str) -> npt.NDArray[Any] | None:
        """Return a fact or a short array, or None where the file has none of this name."""

    def fact(self, name: str, fact: str) -> Any:
        """Return what the file says about one of its channels, such as its rate, or None."""


def open_radar_file(path: Path) -> RadarFile:
    """Return a file by its suffix."""
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _NpzFile(path)
    if suffix in (".h5", ".hdf5"):
        return _Hdf5File(path)
    if suffix == ".edf":
        raw = read_edf_recording(path)
        signals = {name: signal for name, signal in raw.signals.items() if isinstance(signal, Signal)}
        return _EdfFile(path, signals, raw.start, raw.subject)
    raise broken(path, f"is of no kind that is read here, expected {', '.join(SUFFIXES)}.")


@dataclass(frozen=True, slots=True)
class _NpzFile:
    """Arrays that numpy's savez or savez_compressed wrote."""

    path: Path

    def names(self) -> tuple[str, ...]:
        try:
            with self._archive() as archive:
                return tuple(name.removesuffix(".npy") for name in archive.namelist())
        except zipfile.BadZipFile:
            raise broken(self.path, "is no npz archive, or was not written completely.") from None

    def shape(self, name: str) -> tuple[int, ...]:
        with self._archive() as archive, archive.open(f"{name}.npy") as file:
            return _npy_header(self.path, file)[0]

    def row(self, name: str, column: int | None, part: str | None) -> Samples:
        shape = self.shape(name)
        return spooled(shape[time_axis(shape)], lambda: self._blocks(name, column, part), self.path)

    def small(self, name: str) -> npt.NDArray[Any] | None:
        if name not in self.names():
            return None
        with np.load(checked_file(self.path, "a recording"), allow_pickle=False) as archive:
            return np.asarray(archive[name])

    def fact(self, name: str, fact: str) -> Any:
        """Return ``<name>_<fact>``, or ``<fact>`` for all."""
        values = self.small(f"{name}_{fact}")
        values = self.small(fact) if values is None else values
        return None if values is None else values.item()

    def _archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(checked_file(self.path, "a recording"))

    def _blocks(self, name: str, column: int | None, part: str | None) -> Iterator[Array]:
        with self._archive() as archive, archive.open(f"{name}.npy") as file:
            shape, fortran, dtype = _npy_header(self.path, file)
            axis = time_axis(shape)
            length = shape[axis]
            width = int(np.prod(shape)) // length
            if fortran == (axis == 0):  # channels lie one after another: skip to the wanted one
                file.seek((column or 0) * length * dtype.itemsize, 1)
                width, column = 1, None
            rows_at_once = max(1, _BLOCK_BYTES // (dtype.itemsize * width))
            for first in range(0, length, rows_at_once):
                n_bytes = min(rows_at_once, length - first) * width * dtype.itemsize
                data = file.read(n_bytes)
                if len(data) < n_bytes:
                    raise broken(self.path, f"array {name!r} ends too early.")
                yield _numbers(np.frombuffer(data, dtype=dtype).reshape(-1, width)[:, column or 0], part)


def time_axis(shape: tuple[int, ...]) -> int:
    """Return the axis of time: the first, but for one or two rows of many samples."""
    return 1 if len(shape) == 2 and shape[0] <= 2 < shape[1] else 0


def _npy_header(path: Path, file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise broken(path, "holds Python objects, expected arrays of numbers or texts.")
    return shape, fortran, dtype


def _numbers(values: Array, part: str | None) -> Array:
    if values.dtype.kind != "c":
        return values
    return np.ascontiguousarray(values.imag if part == "imag" else values.real)


@dataclass(frozen=True, slots=True)
class _Hdf5File:
    """Datasets of an HDF5 file; facts are attributes, of the file or of a dataset, or datasets."""

    path: Path

    def names(self) -> tuple[str, ...]:
        names: list[str] = []
        with self._file() as file:
            file.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
        return tuple(names)

    def shape(self, name: str) -> tuple[int, ...]:
        with self._file() as file:
            return tuple(int(n) for n in file[name].shape)

    def row(self, name: str, column: int | None, part: str | None) -> Samples:
        shape = self.shape(name)
        axis = time_axis(shape)
        index = tuple(None if i == axis else column or 0 for i in range(len(shape)))
        row = hdf5_samples(self.path, name, shape[axis], index)
        return seen_through(partial(_numbers, part=part), row)

    def small(self, name: str) -> npt.NDArray[Any] | None:
        with self._file() as file:
            if name in file.attrs:
                return np.asarray(file.attrs[name])
            if name not in file:
                return None
            values = np.asarray(file[name][()])
        is_text = values.dtype.kind == "O"
        return np.array([_decoded(v) for v in values.ravel()]).reshape(values.shape) if is_text else values

    def fact(self, name: str, fact: str) -> Any:
        with self._file() as file:
            if name in file and fact in file[name].attrs:
                return _decoded(file[name].attrs[fact])
        value = self.small(fact)
        return None if value is None else _decoded(value.item())

    def _file(self) -> Any:
        return library("h5py", f"reading {named(self.path)}").File(self.path, "r")


def _decoded(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


@dataclass(frozen=True, slots=True)
class _EdfFile:
    """Channels of an EDF file, which tells rate and unit itself."""

    path: Path
    signals: dict[str, Signal] = field(repr=False)
    start: datetime | None = None
    subject: str | None = None

    def names(self) -> tuple[str, ...]:
        return tuple(self.signals)

    def shape(self, name: str) -> tuple[int, ...]:
        return (self.signals[name].n_samples,)

    def row(self, name: str, column: int | None, part: str | None) -> Samples:
        return self.signals[name].samples

    def small(self, name: str) -> npt.NDArray[Any] | None:
        return np.asarray(self.subject) if name == "subject" and self.subject else None

    def fact(self, name: str, fact: str) -> Any:
        signal = self.signals[name]
        return {"rate_hz": signal.rate_hz, "unit": signal.unit}.get(fact)
