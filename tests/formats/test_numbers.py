"""Numbers of a table's column, read by the compiled core and by Python: the same bits, the same errors."""

from __future__ import annotations

import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stageguard.errors import FileFormatError
from stageguard.formats.tables.table import Table
from stageguard.guard import kernels
from stageguard.guard.kernels import reference

ODD = [
    *(
        "",
        "nan",
        "NaN",
        "NA",
        "n/a",
        "inf",
        "-inf",
        "infinity",
        "nan(1)",
        "+1",
        "-0",
        ".5",
        "5.",
        ".",
        "-",
        "e5",
    ),
    *(
        "1e5",
        "1E-5",
        "1e",
        "1e999",
        "1e-400",
        "4.9e-324",
        "1_000",
        "0x1p3",
        "1,5",
        "1 2",
        "\u0661",
        "−1",
        "W",
    ),
    *("0.1", "123456789012345678901234567890", "2.2250738585072011e-308", "9007199254740993", "\ud800"),
]
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.one_of(
    NUMBERS.map(repr),
    NUMBERS.map(lambda number: f"{number:.17g}"),
    st.floats(0, 1).map(lambda number: f"{number:.6f}"),
    st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)


def column(cells, delimiter=","):
    """What a column of these cells is read as: the numbers, bit by bit, or the message."""
    made = Table(Path("t.csv"), ("W",), [tuple(cells)], range(2, len(cells) + 2), delimiter)
    try:
        numbers, has_commas = made.numbers(0)
    except FileFormatError as error:
        return str(error)
    return [struct.pack("d", number) for number in numbers], has_commas


def both(cells, delimiter=","):
    """The same read by each of the kernels."""
    active = kernels.active
    read = column(cells, delimiter)
    kernels.active = reference
    try:
        return read, column(cells, delimiter)
    finally:
        kernels.active = active


@given(st.lists(PLAIN, min_size=1, max_size=20))
def test_plain_numbers_are_those_of_python(cells):
    compiled, python = both(cells)
    assert compiled == python
    assert compiled[0] == [struct.pack("d", float(cell)) for cell in cells]


@given(
    st.lists(st.one_of(PLAIN, st.sampled_from(ODD), st.text(max_size=5)), max_size=8), st.sampled_from(",;\t")
)
def test_whatever_stands_in_a_column_is_read_the_same_or_refused_the_same(cells, delimiter):
    compiled, python = both(cells, delimiter)
    assert compiled == python


def test_a_wide_header_over_empty_lines_takes_no_memory():
    rows = "\n" * 10_000_000 + "1,0"  # with one number per cell: 8 PB
    assert kernels.active.read_rows(rows, ",", 10**8) is None
