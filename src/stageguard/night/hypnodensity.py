"""A hypnodensity: stage probabilities per epoch, and the checks on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import ROUNDING, SUM_TOLERANCE, Floats, Labels, Mask
from stageguard.errors import InputError, warn
from stageguard.night.hypnogram import NO_PROBABILITIES
from stageguard.night.night import EpochTable, Exportable
from stageguard.night.stages import StageScheme, as_scheme, canonical_name

# Labels stood in for by shares: typical of several stagers, or counted on scored nights of their own stager.
FromLabels = Literal["typical", "own"]
ROUNDED = 0.02  # a row whose sum is off by no more may have been rounded to few digits


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Hypnodensity(EpochTable, Exportable):
    """Stage probabilities of one recording, as a stager gave them.

    Parameters
    ----------
    probabilities : array, shape (n_epochs, n_stages)
        Rows sum to 1; a row of NaN is an epoch without evidence. Kept as read-only float64.
    scheme : StageScheme
        What the columns mean.
    epoch_seconds : float
        Epoch length.
    start : datetime or None
        When the first epoch begins; the recording began `offset_seconds` before.
    source : str or None
        Which stager, or which file, it came from.
    assumed, offset_seconds : tuple of str, float
        What a reader assumed, and where the recording began, as in `Hypnogram`.
    from_labels : {"typical", "own"} or None
        None for a stager's probabilities. Else the stager gave labels alone, and the rows are shares of what
        experts say where stagers ("typical") or this stager ("own") give such a label.
    stager : str or None
        The stager whose format it was read in, by the name that `stagers` and the table of known stagers
        have; the guard knows from it how the stager was trained.

    Examples
    --------
    >>> import stageguard as sg
    >>> sg.Hypnodensity([[0.9, 0.1], [0.4, 0.6]], "ws2", 30).argmax.tolist()
    [0, 1]
    """

    probabilities: Floats
    scheme: StageScheme
    epoch_seconds: float
    start: datetime | None = None
    source: str | None = None
    assumed: tuple[str, ...] = field(default=(), compare=False, repr=False)
    offset_seconds: float = 0.0
    from_labels: FromLabels | None = None
    stager: str | None = field(default=None, compare=False, repr=False)

    @property
    def rows(self) -> Floats:
        """The probabilities."""
        return self.probabilities

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return len(self.probabilities)

    def with_rows(self, rows: npt.NDArray[Any], **changes: Any) -> Hypnodensity:
        """Return a density with other probabilities, and with other fields as in `changes`."""
        described = {item.name: getattr(self, item.name) for item in fields(Hypnodensity)[1:]}
        return Hypnodensity(rows, **{**described, **changes})

    def __post_init__(self) -> None:
        """Check everything once, and make the probabilities read-only."""
        self._check_description("source")
        if self.from_labels is not None:
            checks.choice(self.from_labels, "from_labels", ("typical", "own"))
        if self.stager is not None:
            checks.text(self.stager, "stager", empty=False)
        matrix = as_float_matrix(self.probabilities, self.scheme.n_stages, self.scheme.names)
        check_probabilities(matrix, self.scheme.names)
        object.__setattr__(self, "probabilities", checks.frozen_array(matrix, np.float64))

    def merge(self, scheme: StageScheme | str) -> Hypnodensity:
        """Return the density in a coarser scheme, summing the probabilities of merged stages."""
        coarser = as_scheme(scheme)
        if coarser == self.scheme:
            return self
        return self.with_rows(merge_columns(self.probabilities, self.scheme, coarser), scheme=coarser)

    @property
    def argmax(self) -> Labels:
        """The most probable label per epoch: the first of equals, -1 where there is no evidence."""
        labels: Labels = self.probabilities.argmax(axis=1).astype(np.int8)
        labels[np.isnan(self.probabilities[:, 0])] = -1
        labels.flags.writeable = False  # as in `Hypnogram.labels` and `Decoding.argmax`
        return labels

    def __eq__(self, other: object) -> bool:
        """Compare all fields but `assumed` by content; NaN rows are equal to NaN rows."""
        if not isinstance(other, Hypnodensity):
            return NotImplemented
        return self._is_equal(other)

    def __hash__(self) -> int:
        """Hash all fields but the probabilities' values, whose NaN and -0 have many bit patterns."""
        return hash((self.n_epochs, *self._description()))

    def _facts(self) -> list[str]:
        n_empty = int(np.count_nonzero(np.isnan(self.probabilities[:, 0])))
        return [
            *EpochTable._facts(self),
            *([f"{n_empty} without evidence"] if n_empty else []),
            *([f"from {self.source!r}"] if self.source else []),
            *([f"labels by {self.from_labels} confusions"] if self.from_labels else []),
        ]


def as_float_matrix(
    array: npt.ArrayLike, n_stages: int, names: Sequence[str], *, what: str = "probabilities"
) -> Floats:
    """Return anything array-like as a C-ordered float64 matrix (n_epochs, n_stages); names are for messages.

    An array that is such a matrix already is not copied. A row that is masked becomes a row of NaN; so does
    one that is masked in part, with a warning.
    """
    if type(array) is np.ndarray and array.dtype == np.float64 and array.flags.c_contiguous:
        matrix = array
    else:
        matrix = _converted(array, what)
    if matrix.ndim != 2 or matrix.shape[1] != n_stages or n_stages < 2 or not len(matrix):
        raise _explain_bad_shape(matrix, n_stages, names, what)
    return matrix


def merge_columns(matrix: Floats, finer: StageScheme, coarser: StageScheme) -> Floats:
    """Return the probabilities in a coarser scheme, summed over the stages that are merged."""
    merged = np.zeros((len(matrix), coarser.n_stages))
    targets = finer.merge_map(coarser)
    # summed in order of names: the last digit may decide a tie, and must not depend on the order of columns
    for name in sorted(finer.names, key=lambda name: (canonical_name(name) or "", name)):
        stage = finer.names.index(name)
        merged[:, targets[stage]] += matrix[:, stage]
    return merged


def check_probabilities(matrix: Floats, names: Sequence[str]) -> None:
    """Raise InputError unless every row is a distribution over the stages, or NaN throughout."""
    with np.errstate(invalid="ignore", over="ignore"):
        sums = matrix @ np.ones(matrix.shape[1])  # several times faster than sum(axis=1)
    if matrix.min() >= -ROUNDING:  # False as soon as there is a NaN
        valid = sums.min() >= 1 - SUM_TOLERANCE and sums.max() <= 1 + SUM_TOLERANCE
    else:
        whole_rows = np.count_nonzero(np.isnan(matrix)) == matrix.shape[1] * np.count_nonzero(np.isnan(sums))
        valid = whole_rows and not (matrix < -ROUNDING).any() and not (np.abs(sums - 1) > SUM_TOLERANCE).any()
    if not valid:
        raise explain_bad_probabilities(matrix, names)


def are_probabilities(matrix: Floats) -> bool:
    """Whether numbers said to be logits are clearly probabilities: no row is negative, all sum to 1."""
    rows = matrix[~np.isnan(matrix).all(axis=1)]
    is_one = np.abs(rows.sum(axis=1) - 1.0) <= SUM_TOLERANCE
    return len(rows) > 1 and bool(rows.min() >= 0.0 and is_one.all())


def refuse_probabilities(matrix: Floats) -> None:
    """Refuse to take the softmax of logits that are clearly probabilities already."""
    if are_probabilities(matrix):
        raise InputError(
            "every value is from 0 to 1 and every row sums to 1: these are probabilities, expected logits "
            "where logits=True."
        )


def softmax(matrix: Floats) -> Floats:
    """Return the probabilities of logits; refuse rows without a softmax, and probabilities."""
    refuse_probabilities(matrix)
    top = matrix.max(axis=1, keepdims=True)  # NaN or infinite where a row has no softmax
    wrong = ~np.isfinite(top[:, 0]) & ~np.isnan(matrix).all(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"logits: row {row} holds {matrix[row].tolist()}, expected finite numbers, or a whole row of NaN."
        )
    odds = np.exp(matrix - top)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def explain_bad_probabilities(matrix: Floats, names: Sequence[str]) -> InputError:
    """Return the error that names the first bad row of a matrix known not to hold probabilities."""
    missing = np.isnan(matrix)
    partly_missing = np.any(missing, axis=1) & ~np.all(missing, axis=1)
    outside = (matrix < -ROUNDING) | np.isinf(matrix)
    with np.errstate(invalid="ignore", over="ignore"):
        sums = matrix.sum(axis=1)
    deviation = np.nan_to_num(np.abs(sums - 1))
    bad = partly_missing | outside.any(axis=1) | (deviation > SUM_TOLERANCE)
    # the check before may have summed in another order, so that no row is bad by these sums
    row = int(bad.argmax() if bad.any() else deviation.argmax())
    found = f"probabilities: row {row}"
    if partly_missing[row]:
        name = names[missing[row].tolist().index(True)]
        return InputError(f"{found} is NaN for {name} but not for every stage, expected all of it or none.")
    if outside[row].any():
        column = int(outside[row].argmax())
        found += f" has {matrix[row, column]:.6g} for {names[column]}, expected values from 0 to 1."
    else:
        found += f" sums to {sums[row]:.6g}, expected 1 (within {SUM_TOLERANCE:g})."
        if deviation[row] <= ROUNDED:
            found += f" normalize=True rescales rows that sum to {1 - ROUNDED:g}–{1 + ROUNDED:g}."
            return InputError(found)
    values = matrix[~missing.any(axis=1)]
    if 2 * np.count_nonzero(bad) > len(values):
        found += _look_alike(values)
    return InputError(found)


def _look_alike(values: Floats) -> str:
    """Return which option reads numbers that are mostly no probabilities, or nothing."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = values.sum(axis=1)
    if values.max() <= SUM_TOLERANCE and np.allclose(np.exp(values).sum(axis=1), 1, atol=1e-2):
        return " Log-probabilities need log=True."
    if np.isfinite(values).all() and not np.allclose(sums, 1, atol=SUM_TOLERANCE):
        return " Logits need logits=True."
    return ""


def _converted(array: npt.ArrayLike, what: str) -> Floats:
    plain = checks.array_of(array, what, "read_density")
    if plain.ndim == 1 and len(plain) and all(isinstance(value, str) for value in plain.tolist()):
        first = checks.shown(str(plain[0]))
        raise InputError(f"{what} are texts such as {first}, expected numbers. These are {NO_PROBABILITIES}")
    if plain.dtype.kind == "O":
        raise InputError(
            f"{what} are Python objects, expected numbers. Convert them first: np.asarray(x, dtype=float)."
        )
    if plain.dtype.kind not in "fiu":
        names = {"U": "text", "S": "text", "T": "text", "b": "true/false values", "c": "complex numbers"}
        kind = names.get(plain.dtype.kind, f"of type {plain.dtype}")
        raise InputError(f"{what} are {kind}, expected real numbers, one column per stage.")
    if type(plain) is not np.ndarray and isinstance(plain, np.ma.MaskedArray):  # np.ma takes long to import
        return _unmasked(plain, what)
    return np.asarray(plain, dtype=np.float64, order="C")


def _unmasked(array: np.ma.MaskedArray[Any, Any], what: str) -> Floats:
    mask: Mask = np.ma.getmaskarray(array)
    if array.ndim == 2:
        is_missing = np.any(mask, axis=1)
        partly = np.flatnonzero(is_missing & ~mask.all(axis=1))
        if partly.size:
            warn(
                f"{what}: {len(partly):,} of {len(array):,} rows are masked in part (the first is row "
                f"{partly[0]}) and count as missing: their epochs have no evidence."
            )
        mask = np.broadcast_to(is_missing[:, None], array.shape)
    matrix = np.array(array.data, dtype=np.float64, order="C")
    matrix[mask] = np.nan
    return matrix


def _explain_bad_shape(matrix: Floats, n_stages: int, names: Sequence[str], what: str) -> InputError:
    shape = matrix.shape
    if n_stages < 2:
        return InputError(
            f"{what}: one stage ({', '.join(names)}) leaves nothing to decide, expected 2 or more."
        )
    if matrix.size == 0:
        return InputError(f"{what} are empty (shape {shape}), expected at least one epoch.")
    expected = f"expected (epochs, {n_stages}) for {', '.join(names)}"
    hint = ""
    if matrix.ndim == 1 and np.array_equal(matrix, np.round(matrix)):
        hint = f" These look like {NO_PROBABILITIES}"
    elif matrix.ndim == 2 and shape[0] == n_stages:
        hint = " Stages come second: transpose it."
    return InputError(f"{what} have shape {shape}, {expected}.{hint}")
