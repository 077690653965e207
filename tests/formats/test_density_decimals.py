"""Numbers read in blocks are those that `float` reads, to the last bit."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stageguard.formats.tables.decimals import PADDING, read_decimals


def read(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    data = b" " * PADDING + ",".join(texts).encode() + b"," + b" " * PADDING
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord(","))
    first = np.concatenate([[PADDING], ends[:-1] + 1])
    return read_decimals(data, first, ends)


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


def assert_same(texts: list[str]) -> np.ndarray:
    values, is_read = read(texts)
    for text, value, known in zip(texts, values.tolist(), is_read.tolist(), strict=True):
        assert bits(value) == bits(float(text) if known else np.nan), text
    return is_read


@pytest.mark.parametrize(
    ("texts", "share"),
    [
        (lambda x: repr(x), 0.999),
        (lambda x: f"{x:.6f}", 1.0),
        (lambda x: f"{x:.17g}", 0.999),
        (lambda x: f"-{x:.4f}", 1.0),
        (lambda x: f"{x * 1e6:.3f}", 1.0),
        (lambda x: str(int(x * 1e6)), 1.0),
        (lambda x: repr(x * 1e-5), 0.999),
        (lambda x: f"{x * 1e-60:.8e}", 0.999),
        (lambda x: str(np.float32(x)), 0.999),
    ],
)
def test_numbers_as_programs_write_them(texts, share):
    numbers = np.random.default_rng(3).random(20_000).tolist()
    assert assert_same([texts(x) for x in numbers]).mean() >= share


@given(st.lists(st.floats(-1e7, 1e7, allow_subnormal=False).map(repr), min_size=1, max_size=20))
@settings(max_examples=300)
def test_any_number_is_read_as_float_reads_it(texts):
    assert_same(texts)


@given(st.lists(st.text("0123456789.-+eE_ naif", max_size=26), min_size=1, max_size=20))
@settings(max_examples=500)
def test_what_is_read_is_a_number_of_python_too(texts):
    values, is_read = read(texts)
    for text, value, known in zip(texts, values.tolist(), is_read.tolist(), strict=True):
        if known:
            assert bits(value) == bits(float(text)), text


@given(st.integers(1, 10**19) | st.integers(10**19, 10**24), st.integers(0, 22), st.integers(0, 99))
@settings(max_examples=500)
def test_halfway_cases_and_long_digits(digits, n_fraction, exponent):
    text = str(digits).rjust(n_fraction + 1, "0")
    text = f"{text[: len(text) - n_fraction]}.{text[len(text) - n_fraction :]}" if n_fraction else text
    assert_same([text, f"{text}e-{exponent:02d}"])


@pytest.mark.parametrize(
    "text",
    ["", "-", ".5", "+1", "1e5", "1_0", "0x1", " 1", "1 ", "nan", "inf", "12345678", "1.2.3", "é"],
)
def test_what_is_written_otherwise_is_left_to_others(text):
    values, is_read = read([text, "0.5"])
    assert not is_read[0]
    assert np.isnan(values[0])
    assert (values[1], is_read[1]) == (0.5, True)


def test_digits_that_64_bits_do_not_hold_are_left_to_python():
    texts = [
        "0.99999999999999999999",
        "0.18446744073709551617",
        "9.999999999999999999",
        "9.9999999999999999999",
    ]
    values, is_read = read(texts)
    assert is_read.tolist() == [False, False, True, False]
    assert values[2] == 10.0


def test_the_middle_between_two_numbers_is_left_to_python():
    """2^53 + 1 lies between two float64; what rounding the remainder decides must not be luck."""
    values, is_read = read(["0.9007199254740993", "9007.199254740993", "0.5000000000000000555111512312578"])
    for text, value, known in zip(
        ["0.9007199254740993", "9007.199254740993"], values.tolist(), is_read.tolist(), strict=False
    ):
        assert not known or value == float(text)
    assert not is_read[2]
