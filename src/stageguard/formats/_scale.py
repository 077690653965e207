"""Tell probabilities, log-probabilities and logits apart, and make probabilities of them. Reads no file.

What is assumed is said. Numbers that could be more than one of them are an error, and so are rows that do not
sum to the same: nobody knows what such a row means.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stageguard.errors import Argument, InputError, Message
from stageguard.hypnodensity import ROUNDING, SUM_TOLERANCE, FloatMatrix, explain_bad_probabilities

FloatVector = npt.NDArray[np.float64]

# Probabilities that something shook (interpolation, a smoother) stay near [0, 1], and their sums near 1.
SHAKEN_VALUES = (-0.5, 1.5)
SHAKEN_SUMS = (0.5, 1.5)
EDGE = 1e-9  # of the sum of decimals


def to_probabilities(
    matrix: FloatMatrix, names: Sequence[str], *, logits: bool = False, log: bool = False
) -> tuple[FloatMatrix, tuple[str, ...]]:
    """Probabilities of what was read, and what was assumed to make them.

    Parameters
    ----------
    matrix : array, shape (n_epochs, n_stages)
        A row of NaN is an epoch without evidence.
    names : sequence of str
        Stage names, for the message.
    logits, log : bool
        It is known that these are logits, or natural log-probabilities. Else they are told apart.
    """
    if logits:
        return _softmax(matrix, "logits"), ()
    if log:
        return _same_sums(_exponential(matrix), names)
    with np.errstate(invalid="ignore", over="ignore"):
        sums = matrix @ np.ones(matrix.shape[1])
    if matrix.min() >= -ROUNDING and np.abs(sums - 1).max() <= SUM_TOLERANCE:
        return matrix, ()
    scored = np.asarray(~np.isnan(matrix).all(axis=1))
    if not scored.any() or np.isnan(matrix[scored]).any():
        return matrix, ()  # whoever checks probabilities names the row that is NaN in part
    if matrix[scored].min() >= -ROUNDING:
        return _same_sums(matrix, names)
    return _with_negative(matrix, names, scored)


def _same_sums(matrix: FloatMatrix, names: Sequence[str]) -> tuple[FloatMatrix, tuple[str, ...]]:
    """Rows divided by their sum where that is the same for all of them."""
    with np.errstate(invalid="ignore", over="ignore"):
        sums = matrix.sum(axis=1)
    known = sums[~np.isnan(sums)]
    if not np.isfinite(known).all():
        raise explain_bad_probabilities(matrix, names)
    if (np.abs(known - 1) <= SUM_TOLERANCE).all():
        return matrix, ()
    off = np.nan_to_num(np.abs(sums - 1))
    if (off <= SUM_TOLERANCE + EDGE).all():  # decimals that are off by exactly the tolerance
        at_edge = off > SUM_TOLERANCE - EDGE
        n_rows = int(at_edge.sum())
        note = f"{n_rows} row{'s' * (n_rows != 1)} off by {SUM_TOLERANCE:g}: divided by the sum"
        return matrix / np.where(at_edge, sums, 1.0)[:, None], (note,)
    usual = float(np.median(known))
    varies = np.abs(known - usual) > SUM_TOLERANCE * usual
    if len(known) > 1 and usual > 0 and not varies.any():
        return matrix / sums[:, None], (f"rows sum to {usual:.6g}: divided by their sums",)
    most_vary = 2 * np.count_nonzero(varies) >= len(known)
    if len(known) < 2 or most_vary or abs(usual - 1) <= SUM_TOLERANCE:
        raise explain_bad_probabilities(matrix, names)
    row = int(np.flatnonzero(~np.isnan(sums))[np.argmax(varies)])
    raise InputError(
        f"probabilities: row {row} sums to {sums[row]:.6g} and most others to {usual:.6g}, expected the same "
        "sum in every row. Correct the row, or set all of it to NaN (no evidence)."
    )


def _with_negative(
    matrix: FloatMatrix, names: Sequence[str], scored: npt.NDArray[np.bool_]
) -> tuple[FloatMatrix, tuple[str, ...]]:
    """Logits or log-probabilities, where it is clear which of them."""
    values = matrix[scored]
    with np.errstate(invalid="ignore", over="ignore"):
        sums = values.sum(axis=1)
        is_row_fine = (values >= -ROUNDING).all(axis=1) & (np.abs(sums - 1) <= SUM_TOLERANCE)
        adds_up = np.abs(np.exp(np.minimum(values, 1.0)).sum(axis=1) - 1) <= SUM_TOLERANCE
    if is_row_fine.any() or (np.abs(sums - 1) <= SUM_TOLERANCE).all() or np.isposinf(values).any():
        raise explain_bad_probabilities(matrix, names)
    if values.max() <= SUM_TOLERANCE:
        if adds_up.all():
            note = "read as natural log-probabilities: none is above 0, and their exponentials sum to 1"
            return _exponential(matrix), (note,)
        row = int(np.flatnonzero(scored)[np.argmin(adds_up)])
        raise InputError(
            Message(
                f"row {row} has no value above 0, but its exponentials do not sum to 1: logarithms to "
                "another base, or not normalised? Pass ",
                Argument("logits", True),
                " if their softmax is meant, else convert them first.",
            )
        )
    if _is_inside(values, SHAKEN_VALUES) and _is_inside(sums, SHAKEN_SUMS):
        row = int(np.flatnonzero(scored)[np.argmax((values < -ROUNDING).any(axis=1))])
        column = int(np.argmax(matrix[row] < -ROUNDING))
        raise InputError(
            Message(
                f"row {row} has {matrix[row, column]:.6g} for {names[column]}: these may be logits, or "
                "probabilities that something pushed below 0. Pass ",
                Argument("logits", True),
                ", or correct them.",
            )
        )
    return _softmax(matrix, "logits"), ("read as logits: the softmax was taken",)


def _is_inside(values: npt.NDArray[np.float64], limits: tuple[float, float]) -> bool:
    return bool(values.min() >= limits[0] and values.max() <= limits[1])


def _exponential(matrix: FloatMatrix) -> FloatMatrix:
    _peaks(matrix, "log-probabilities")
    with np.errstate(over="ignore"):
        return np.exp(matrix)


def _softmax(matrix: FloatMatrix, kind: str) -> FloatMatrix:
    weights = np.exp(matrix - _peaks(matrix, kind)[:, None])
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _peaks(matrix: FloatMatrix, kind: str) -> FloatVector:
    """Largest value of each row, 0 where there is no evidence; rows without a finite one are refused."""
    missing = np.isnan(matrix).all(axis=1)
    peak = np.asarray(matrix.max(axis=1, where=~np.isnan(matrix), initial=-np.inf))
    bad = ~missing & ~np.isfinite(peak)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"row {row} has no finite largest value ({peak[row]}), so it cannot be read as {kind}. "
            "Leave the row empty where there is no evidence."
        )
    return np.where(missing, 0.0, peak)
