"""Quality and pins from files: what is read, what is refused."""

from __future__ import annotations

import pytest

from messages import naming
from stageguard.errors import FileFormatError, PinError
from stageguard.formats.companions import parse_pins


def test_pins_from_items_and_tables_are_joined(tmp_path):
    table = tmp_path / "pins=mine.csv"  # an existing file is a file, whatever its name
    table.write_text("stage,epoch\nR,8\nW,1\n")
    assert parse_pins(["120=REM, 121=R", str(table)]) == {119: "REM", 120: "R", 7: "R", 0: "W"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch,label\n1,R\n", ("columns", "label")),
        ("epoch,stage\n1\n", (2, 1, "cell", 2)),
    ],
)
def test_bad_pin_tables_are_one_line(tmp_path, text, message):
    (tmp_path / "pins.csv").write_text(text)
    with pytest.raises(FileFormatError, match=naming(*message)):
        parse_pins([str(tmp_path / "pins.csv")])


@pytest.mark.parametrize("text", ["-1=R", "1.5=R", "=R", "abc"])
def test_pins_need_an_epoch_index(text):
    with pytest.raises(PinError):
        parse_pins([text])


def test_a_pin_with_thousands_of_digits_is_one_line(tmp_path):
    path = tmp_path / "pins.csv"
    path.write_text(f"epoch,stage\n{'9' * 5_000},R\n")
    with pytest.raises(PinError, match=r"^a pin has the epoch '9{40}' and"):
        parse_pins([str(path)])
