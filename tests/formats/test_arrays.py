"""NumPy files in: plain numbers only, stages by name."""

from __future__ import annotations

import pickle
import zipfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from messages import mentions, naming
from stageguard.errors import FileFormatError
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_density, read_density_file

P = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [np.nan] * 3])
WNR = ["W", "N", "R"]


def refused(path: Path, **options: object) -> str:
    with pytest.raises(FileFormatError) as caught:
        read_density(path, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path.name}: ")
    return message.removeprefix(f"{path.name}: ")


def saved(folder: Path, array: object, name: str = "night.npy", **options: object) -> Path:
    path = folder / name
    np.save(path, array, **options)  # type: ignore[arg-type]
    return path


@pytest.mark.proves("npy")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_in_the_order_of_the_given_stages(tmp_path, dtype, order):
    path = saved(tmp_path, np.asarray(P[:, ::-1], dtype=dtype, order=order))
    density = read_density(path, stages=["R", "N", "W"], epoch_seconds=4)
    np.testing.assert_allclose(density.probabilities, P, atol=1e-3)
    assert density.scheme.names == ("W", "N", "R")
    assert density.epoch_seconds == 4


@pytest.mark.proves("npz")
def test_npz_carries_stages_epoch_length_and_start(tmp_path):
    path = tmp_path / "night.npz"
    start = datetime(2024, 5, 1, 22, 30)
    np.savez(path, probabilities=P, stages=np.array(WNR), epoch_seconds=4.0, start=start.isoformat(), extra=1)
    found = read_density_file(path, FileOptions())
    assert (found.density.epoch_seconds, found.density.start) == (4.0, start)
    assert found.notes == ("arrays ignored: extra",)
    np.testing.assert_array_equal(found.density.probabilities, P)
    assert read_density(path, epoch_seconds=4).epoch_seconds == 4
    with pytest.raises(FileFormatError, match=naming("4 s", "epoch_seconds=8")):
        read_density(path, epoch_seconds=8)


def test_pickles_are_never_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return Path.touch, (tmp_path / "exploded",)

    objects = np.array([[Bomb(), 1], [1, 1]], dtype=object)
    path = saved(tmp_path, objects, allow_pickle=True)
    expected = "holds Python objects, which could run code when loaded."
    assert refused(path, stages=["W", "S"]).startswith(expected)
    np.savez(tmp_path / "night.npz", probabilities=objects)
    assert refused(tmp_path / "night.npz", stages=["W", "S"]).startswith(expected)
    (tmp_path / "renamed.npy").write_bytes(pickle.dumps(Bomb()))
    assert mentions(refused(tmp_path / "renamed.npy", stages=["W", "S"]), "a Python pickle")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([["a", "b", "c"]]), ("probabilities", "real")),
        (P[:, :2], ("(3, 2)", 3, "W, N, R")),
        (P[0], ("(3,)", 3, "W, N, R")),
        (np.zeros((0, 3)), ("probabilities", "(0, 3)")),
        (np.zeros(2, dtype=[("W", float), ("N", float)]), ("array", "has named fields")),
        (P * [[2], [3], [1]], (0, "sums", 2, 1)),
        (P + 1j, ("probabilities", "complex128")),
    ],
)
def test_bad_arrays_are_refused_in_one_line(tmp_path, array, expected):
    assert mentions(refused(saved(tmp_path, array), stages=WNR), *expected)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"a": P, "b": P}, ("array", "'probabilities'")),
        ({"probabilities": P, "stages": np.arange(3)}, ("'stages'",)),
        ({"probabilities": P, "stages": np.array(WNR), "epoch_seconds": np.arange(2.0)},
         ("'epoch_seconds'", "one number")),
        ({"probabilities": P, "stages": np.array(WNR), "epoch_seconds": "x"},
         ("'epoch_seconds'", "'x'")),
        ({"probabilities": P, "stages": np.array(WNR), "start": "yesterday"},
         ("'start'", "'yesterday'")),
    ],
)  # fmt: skip
def test_bad_archives_are_refused_in_one_line(tmp_path, content, expected):
    np.savez(tmp_path / "night.npz", **content)
    assert mentions(refused(tmp_path / "night.npz"), *expected)


def test_files_that_are_not_what_their_names_say(tmp_path):
    (tmp_path / "night.npy").write_text("W,N,R\n1,0,0\n")
    assert read_density(tmp_path / "night.npy").probabilities.tolist() == [[1, 0, 0]]
    (tmp_path / "empty.npz").write_bytes(b"")
    assert mentions(refused(tmp_path / "empty.npz"), "0 bytes", "completely")
    with zipfile.ZipFile(tmp_path / "book.npz", "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")
    assert mentions(refused(tmp_path / "book.npz", stages=WNR), "an Excel workbook")


def test_what_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "night.npz"
    np.savez_compressed(path, probabilities=np.zeros((100_000, 3)))
    monkeypatch.setattr("stageguard.formats.tools.arrays.MOST_BYTES", 1_000_000)
    with pytest.raises(FileFormatError, match="would take 2 MB unpacked"):
        read_density(path, stages=WNR)
    header = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little")
    promise = "{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000, 3), }"
    (tmp_path / "night.npy").write_bytes(header + promise.ljust(117).encode() + b"\n")
    with pytest.raises(FileFormatError, match=r"memory|damaged"):
        read_density(tmp_path / "night.npy", stages=WNR)
