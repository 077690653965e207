"""Make the rows of a decoded night's table as bytes, all at once; `formats.outputs.COLUMNS` explains them.

Each column is a block of bytes as wide as its widest cell, padded with zeros that are removed at the end.
Cells with few possible values are looked up in a list, and so are the digits of a probability, three at a
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import Floats, Labels

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding

Block = npt.NDArray[np.uint8]  # (n_rows, n_bytes)

_SCALES = np.array([1e6, 1e7, 1e8, 1e9])  # for six digits of 0.1 to 1, 0.01 to 0.1, ... down to 0.0001
_BEFORE_DIGITS = ("0.", "0.0", "0.00", "0.000")
_TIE = 1e-6  # more than the rounding error of a product of two floats
_LONGEST_NUMBER = 12  # 1.23457e-300


def decoded_rows(decoding: Decoding, quality: npt.ArrayLike | None) -> bytes:
    """Return the rows of a decoding, each after a line end, with quality as the last column if given."""
    hypnogram = decoding.hypnogram
    labels, names = hypnogram.labels, hypnogram.scheme.names
    after, before = _words(names)
    about_before = 4 * decoding.argmax.astype(np.intp) + 2 * decoding.changed + decoding.filled
    blocks = [
        _times(hypnogram.n_epochs, float(hypnogram.epoch_seconds), hypnogram.offset_seconds),
        after.take(labels, axis=0),  # index -1 is the last
        before.take(about_before, axis=0),
        _probabilities(decoding.night.probabilities, labels),
    ]
    if quality is not None:
        values = np.asarray(quality, dtype=np.float64).tolist()
        blocks.append(_block([f"\t{value!r}" for value in values]))
    return np.hstack(blocks).tobytes().translate(None, b"\0")


def seconds_text(value: float) -> str:
    """Return seconds as text, without the rounding error of a sum of floats."""
    return f"{value:.9g}" if abs(value) < 1e8 else repr(value)


def probability_texts(probabilities: Floats, labels: Labels) -> list[str]:
    """Return the probability of each epoch's stage as text, n/a if there is none."""
    chosen = _chosen(probabilities, labels).tolist()
    return ["n/a" if p != p else f"{p:.6g}" for p in chosen]


def _chosen(probabilities: Floats, labels: Labels) -> Floats:
    """Return the probability of each epoch's stage, NaN if there is none."""
    chosen = probabilities[np.arange(len(labels)), np.maximum(labels, 0)]
    return np.where(labels >= 0, chosen, np.nan)


def _probabilities(probabilities: Floats, labels: Labels) -> Block:
    """Return the same as `probability_texts`, which is called only for rare values and near rounding ties."""
    chosen = _chosen(probabilities, labels)
    n_zeros = (chosen < 0.1).astype(np.int8) + (chosen < 0.01) + (chosen < 0.001)
    scaled = chosen * _SCALES.take(n_zeros)
    rounded = np.rint(scaled)
    is_plain = (chosen >= 1e-4) & (rounded < 1e6) & (np.abs(np.abs(scaled - rounded) - 0.5) > _TIE)
    digits = np.where(is_plain, rounded, 0.0).astype(np.int32)
    high = digits // 1000
    low = digits - 1000 * high
    before, heads, tails = _digits()
    parts = (before, n_zeros), (heads, high + 1000 * (low == 0)), (tails, low)
    block = np.hstack([texts.take(numbers, axis=0) for texts, numbers in parts])
    if not is_plain.all():
        others = np.flatnonzero(~is_plain)
        block[others] = _block(probability_texts(probabilities[others], labels[others]), block.shape[1])
    return block


@cache
def _digits() -> tuple[Block, Block, Block]:
    """Return blocks for a number below 1: the text before its six digits, the first and the last three.

    Zeros at the end are left out. So the first three digits are listed a second time without their final
    zeros, for numbers whose last three digits are zeros.
    """
    three = [f"{number:03d}" for number in range(1000)]
    ends = [digits.rstrip("0") for digits in three]
    width = _LONGEST_NUMBER - 6
    return _block(_BEFORE_DIGITS, width), _block([*three, *ends]), _block(ends)


@lru_cache(maxsize=4)
def _times(n_epochs: int, epoch_seconds: float, offset_seconds: float) -> Block:
    """Return a line end, onset and duration of every epoch; cached, as nights often have the same length."""
    duration = seconds_text(epoch_seconds)
    onsets = (seconds_text(offset_seconds + index * epoch_seconds) for index in range(n_epochs))
    return _block([f"\n{onset}\t{duration}\t" for onset in onsets])


@lru_cache(maxsize=4)
def _words(names: Sequence[str]) -> tuple[Block, Block]:
    """Return all possible cells of stage and label, and all of argmax stage, changed and filled."""
    stages = [*enumerate(names), (-1, "?")]
    after = [f"{stage}\t{label}\t" for label, stage in stages]
    flags = [f"{changed}\t{filled}\t" for changed, filled in product((0, 1), (0, 1))]
    before = [f"{stage}\t{flag}" for (_, stage), flag in product(stages, flags)]
    return _block(after), _block(before)


def _block(texts: Sequence[str], width: int | None = None) -> Block:
    """Return texts as rows of bytes."""
    cells = np.array([text.encode() for text in texts], dtype=None if width is None else f"S{width}")
    return cells.view(np.uint8).reshape(len(texts), -1)
