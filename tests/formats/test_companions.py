"""Quality and pins from files: what is read, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from stageguard.base.errors import FileFormatError, PinError
from stageguard.formats.companions import parse_pins, read_quality


@pytest.mark.parametrize(
    "text",
    [
        "0\n0.5\n1\n",
        "quality\n0\n0.5\n1\n",
        "epoch;Beta\n0;0\n1;0.5\n2;1\n",
        "\ufeffsqi\tx\n0\t9\n0.5\t9\n1\t9\n",
    ],
)
def test_quality_from_text(tmp_path, text):
    path = tmp_path / "beta.tsv"
    path.write_text(text, encoding="utf-8")
    assert read_quality(path).tolist() == [0, 0.5, 1]


def test_quality_from_an_array(tmp_path):
    np.save(tmp_path / "beta.npy", np.array([0, 1], dtype=np.float32))
    assert read_quality(tmp_path / "beta.npy").tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "beta.csv: is empty, expected a header and rows."),
        ("epoch,noise\n0,1\n", "beta.csv: has no column named quality or beta or sqi: epoch, noise."),
        ("quality\n0\nlots\n", "beta.csv: epoch 1: expected a quality between 0 and 1, got 'lots'."),
        ("epoch,quality\n0,1\n1\n", "beta.csv: line 3 has 1 cell, the header has 2."),
    ],
)
def test_bad_quality_is_one_line(tmp_path, text, message):
    (tmp_path / "beta.csv").write_text(text)
    with pytest.raises(FileFormatError) as caught:
        read_quality(tmp_path / "beta.csv")
    assert str(caught.value) == message


def test_bad_quality_arrays_are_one_line(tmp_path):
    path = tmp_path / "beta.npy"
    np.save(path, np.zeros((3, 2)))
    with pytest.raises(
        FileFormatError, match=r"expected one number per epoch, got shape \(3, 2\) of float64\."
    ):
        read_quality(path)
    np.save(path, np.array([object()]), allow_pickle=True)
    with pytest.raises(FileFormatError, match=r"is not a readable \.npy array"):
        read_quality(path)
    path.write_bytes(b"")
    with pytest.raises(FileFormatError, match=r"is not a readable \.npy array"):
        read_quality(path)


def test_pins_from_items_and_tables_are_joined(tmp_path):
    table = tmp_path / "pins=mine.csv"  # an existing file is a file, whatever its name
    table.write_text("stage,epoch\nR,7\nW,0\n")
    assert parse_pins(["120=REM, 121=R", str(table)]) == {120: "REM", 121: "R", 7: "R", 0: "W"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch,label\n1,R\n", r"expected the columns epoch and stage, got: epoch, label\."),
        ("epoch,stage\n1\n", r"line 2 has 1 cell, the header has 2\."),
    ],
)
def test_bad_pin_tables_are_one_line(tmp_path, text, message):
    (tmp_path / "pins.csv").write_text(text)
    with pytest.raises(FileFormatError, match=message):
        parse_pins([str(tmp_path / "pins.csv")])


@pytest.mark.parametrize("text", ["-1=R", "1.5=R", "=R", "abc"])
def test_pins_need_an_epoch_index(text):
    with pytest.raises(PinError):
        parse_pins([text])


def test_a_pin_with_thousands_of_digits_is_one_line(tmp_path):
    path = tmp_path / "pins.csv"
    path.write_text(f"epoch,stage\n{'9' * 5_000},R\n")
    with pytest.raises(PinError, match=r"^a pin needs an epoch index counted from 0, got '9{40}'\. Write"):
        parse_pins([str(path)])
