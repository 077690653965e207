"""Read many plain decimal numbers from bytes at once, each exactly as `float` reads it. Knows no table.

Digits are taken eight at a time: eight characters are one 64-bit word, and three multiplications turn it
into the number it spells. A number of up to 19 digits is then one integer over a power of ten. Where both are
exact the quotient is correctly rounded; else the remainder of the division is worked out in doubled precision
and corrects it. What is written in any other way, or lies too near to the middle between two numbers, is
left to `float`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import Floats, Indices, Mask

PADDING = 24  # characters that must precede the first number and follow the last: they are loaded, and masked
MOST_FRACTION = 22  # digits behind the point
MOST_EXACT = 22  # the largest power of ten that a float64 holds exactly
MOST_WHOLE = 7  # digits before the point
BLOCK = 1 << 13  # numbers at a time, so that what is worked on stays in the cache

Words = npt.NDArray[np.uint64]

_U = np.uint64
_ZEROS = _U(0x3030303030303030)  # "00000000"
_HIGH = _U(0xF0F0F0F0F0F0F0F0)
_SIX = _U(0x0606060606060606)
_DIGITS = _U(0x3333333333333333)
_PAIRS = _U(0x000000FF000000FF)
_MUL_1 = _U(100 + (1_000_000 << 32))
_MUL_2 = _U(1 + (10_000 << 32))
# Powers of ten as sums of two numbers, 10^0 to 10^(22 + 99).
_POWERS = np.array([float(10**n) for n in range(MOST_FRACTION + 100)])
_POWER_RESTS = np.array([float(10**n - int(float(10**n))) for n in range(MOST_FRACTION + 100)])
_WHOLE_POWERS = np.array([10 ** min(k, 19) for k in range(PADDING + 1)], dtype=np.uint64)
_POINTS = _U(0x2E2E2E2E2E2E2E2E)  # "........"
_ONES = _U(0x0101010101010101)
_TOPS = _U(0x8080808080808080)
_EXACT = _U(2**53)
_SPLIT = 134217729.0  # 2^27 + 1, after Veltkamp


def _tail_masks() -> npt.NDArray[np.uint64]:
    """Masks that keep the last n of 24 characters, as three words, for n from 0 to 24."""
    keep = np.arange(PADDING)[None, :] >= PADDING - np.arange(PADDING + 1)[:, None]
    return np.where(keep, 0xFF, 0).astype(np.uint8).view("<u8").astype(np.uint64)


_MASKS = np.ascontiguousarray(_tail_masks().T)  # (3, 25)


def read_decimals(data: bytes, first: Indices, end: Indices) -> tuple[Floats, Mask]:
    """Numbers at ``data[first:end]``, and which of them were read; the others are NaN.

    Read are an optional minus, up to 7 digits, up to 22 digits behind a point, and a negative exponent of two
    digits such as e-05. `data` begins and ends with `PADDING` characters that belong to no number.
    """
    values, is_read = np.full(len(first), np.nan), np.zeros(len(first), dtype=np.bool_)
    for low in range(0, len(first), BLOCK):
        part = slice(low, low + BLOCK)
        values[part], is_read[part] = _read_block(data, first[part], end[part])
    return values, is_read


def _read_block(data: bytes, first: Indices, end: Indices) -> tuple[Floats, Mask]:
    characters = np.frombuffer(data, dtype=np.uint8)
    words = np.ndarray(len(data) - 7, dtype="V8", buffer=data, strides=(1,))  # eight from every character on
    values, is_read = _read_usual(characters, words, first, end)
    rest = (~is_read).nonzero()[0]
    if len(rest):
        values[rest], is_read[rest] = _read_any(characters, words, first[rest], end[rest])
    return values, is_read


def _read_usual(
    characters: npt.NDArray[np.uint8], words: npt.NDArray[np.void], first: Indices, end: Indices
) -> tuple[Floats, Mask]:
    """Read one digit, a point, and up to 22 digits: what probabilities are, nearly always."""
    digit = characters[first] - np.uint8(ord("0"))  # what is no digit wraps to a large number
    n_fraction = end - first - 2
    is_read = (characters[first + 1] == ord(".")) & (digit <= 9)
    is_read &= (n_fraction - 1).view(np.uint64) < MOST_FRACTION  # from 1 to 22: what is below wraps, too
    n_fraction[~is_read] = 0
    fraction = _fractions(words, end, n_fraction, is_read)
    digits = digit.astype(np.uint64) * _WHOLE_POWERS.take(n_fraction) + fraction
    is_read &= (n_fraction <= 18) | (digit == 0)  # else 64 bits do not hold the digits
    return _quotients(digits, n_fraction, is_read), is_read


def _read_any(
    characters: npt.NDArray[np.uint8], words: npt.NDArray[np.void], first: Indices, end: Indices
) -> tuple[Floats, Mask]:
    """Read a minus, several digits before the point or no point at all, and an exponent, too."""
    is_negative = characters[first] == ord("-")
    start = first + is_negative
    end, exponent = _exponents(characters, start, end)
    point = _points(words, start, end)
    n_whole, n_fraction = point - start, np.maximum(end - point - 1, 0)
    is_read = ((n_whole - 1).view(np.uint64) < MOST_WHOLE) & (n_fraction <= MOST_FRACTION)
    n_whole[~is_read] = n_fraction[~is_read] = 0
    whole, is_number = _wholes(words, start, n_whole)
    is_read &= is_number
    fraction = _fractions(words, end, n_fraction, is_read)
    is_read &= whole.astype(np.float64) * _POWERS.take(n_fraction) < 8e18  # else 64 bits do not hold them
    digits = whole * _WHOLE_POWERS.take(n_fraction) + fraction
    values = _quotients(digits, n_fraction + exponent, is_read)
    if is_negative.any():
        values[is_negative] *= -1.0
    return values, is_read


def _fractions(words: npt.NDArray[np.void], end: Indices, n_fraction: Indices, is_read: Mask) -> Words:
    """Digits behind the point as whole numbers; clears what is not all digits, or too long for 64 bits."""
    fraction = np.zeros(len(end), dtype=np.uint64)
    for place in range((int(n_fraction.max(initial=0)) + 7) // 8):  # eights, from the last to the first
        word = _masked(words[end - 8 * (place + 1)].view("<u8"), _MASKS[2 - place].take(n_fraction))
        is_read &= _all_digits(word)
        eight = _eight_digits(word)
        if place == 2:
            is_read &= eight < 1000
        fraction += eight * _U(10 ** (8 * place))
    return fraction


def _quotients(digits: Words, power: Indices, is_read: Mask) -> Floats:
    """Digits over powers of ten, NaN where not read; clears those too near to the middle of two numbers."""
    values: Floats = digits.astype(np.float64) / _POWERS.take(power)
    inexact = (((digits > _EXACT) | (power > MOST_EXACT)) & is_read & (digits > 0)).nonzero()[0]
    if len(inexact):
        values[inexact], is_sure = _corrected(digits[inexact], power[inexact])
        is_read[inexact[~is_sure]] = False
    values[~is_read] = np.nan
    return values


def _wholes(words: npt.NDArray[np.void], start: Indices, n_whole: Indices) -> tuple[Words, Mask]:
    """Numbers before the point, and which of them are digits only."""
    word = _masked(words[start + n_whole - 8].view("<u8"), _MASKS[2].take(n_whole))
    return _eight_digits(word), _all_digits(word)


def _exponents(characters: npt.NDArray[np.uint8], start: Indices, end: Indices) -> tuple[Indices, Indices]:
    """Where the digits end, and what to divide by as a power of ten: 5 for e-05, 0 for no exponent."""
    exponent = np.zeros(len(end), dtype=np.intp)
    some = ((characters[end - 4] | 0x20) == ord("e")).nonzero()[0]
    if not len(some):
        return end, exponent
    some = some[(end[some] - 4 > start[some]) & (characters[end[some] - 3] == ord("-"))]
    tens, ones = (characters[end[some] - place].astype(np.intp) - ord("0") for place in (2, 1))
    is_number = (tens >= 0) & (tens <= 9) & (ones >= 0) & (ones <= 9)
    some = some[is_number]
    exponent[some] = (10 * tens + ones)[is_number]
    end = end.copy()
    end[some] -= 4
    return end, exponent


def _points(words: npt.NDArray[np.void], start: Indices, end: Indices) -> Indices:
    """Where the digits before the point end: at the point, or at the end where there is none."""
    word = words[start].view("<u8") ^ _POINTS
    found = (word - _ONES) & ~word & _TOPS  # the lowest bit that is set belongs to the first point
    n_before = (((found - _U(1)) & _ONES) * _ONES >> _U(56)).astype(np.intp) - 1
    return np.minimum(np.where(found > 0, start + n_before, end), end)


def _masked(words: npt.NDArray[np.void] | Words, masks: Words) -> Words:
    """Replace the characters that are not kept by zeros."""
    return _ZEROS ^ ((words ^ _ZEROS) & masks)  # type: ignore[operator]


def _all_digits(words: Words) -> Mask:
    return np.asarray(((words & _HIGH) | (((words + _SIX) & _HIGH) >> _U(4))) == _DIGITS)


def _eight_digits(words: Words) -> Words:
    """Return the numbers that eight digits spell, the first one in the lowest byte."""
    pairs = words - _ZEROS
    pairs = pairs * _U(10) + (pairs >> _U(8))
    return ((pairs & _PAIRS) * _MUL_1 + ((pairs >> _U(16)) & _PAIRS) * _MUL_2) >> _U(32)


def _corrected(digits: Words, power: Indices) -> tuple[Floats, Mask]:
    """Nearest float64 of digits / 10^power, and where that is certain."""
    high = digits.astype(np.float64)
    low = (digits - high.astype(np.uint64)).astype(np.int64).astype(np.float64)
    scale = _POWERS[power]
    quotient = high / scale
    product, error = _two_product(quotient, scale)
    remainder = ((high - product) - error + low - quotient * _POWER_RESTS[power]) / scale
    # too near to the middle between two numbers for the last bits of the remainder
    steps = remainder / np.spacing(quotient)
    apart = np.abs(steps - np.rint(steps))
    is_sure = (np.abs(apart - 0.5) > 1e-6) & (np.abs(apart - 0.25) > 1e-6)
    return quotient + remainder, is_sure


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Product and its exact rounding error, after Dekker."""
    product = a * b
    a_high = _SPLIT * a
    a_high = a_high - (a_high - a)
    b_high = _SPLIT * b
    b_high = b_high - (b_high - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
