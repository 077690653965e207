"""A hypnodensity: stage probabilities per epoch, and the one place where probabilities are checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import ROUNDING, SUM_TOLERANCE, Floats, Labels
from stageguard.errors import InputError
from stageguard.night.hypnogram import UNSCORED, EpochTable, Exportable
from stageguard.night.stages import StageScheme, as_scheme, canonical_name

# Labels stood in for by shares: typical of several stagers, or counted on scored nights of their own stager.
FromLabels = Literal["typical", "own"]
ROUNDED = 0.02  # a row whose sum is off by no more may have been rounded to few digits


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Hypnodensity(EpochTable, Exportable):
    """Stage probabilities of one recording, as a stager gave them.

    Examples
    --------
    >>> import stageguard as sg
    >>> sg.Hypnodensity([[0.9, 0.1], [0.4, 0.6]], "ws2", 30).argmax.tolist()
    [0, 1]
    """

    # (n_epochs, n_stages): rows sum to 1, or are NaN where there is no evidence; kept as read-only float64
    probabilities: Floats
    scheme: StageScheme  # what the columns mean; the name of a standard scheme will do
    epoch_seconds: float
    start: datetime | None = None  # when the first epoch begins
    source: str | None = None  # the stager, or the file, it came from
    assumed: tuple[str, ...] = field(default=(), compare=False, repr=False)  # by a reader, one remark each
    offset_seconds: float = 0.0  # from the beginning of the recording to the first epoch
    from_labels: FromLabels | None = None  # None for probabilities that a stager gave
    # the stager whose format it was read in: the guard knows from it how the stager was trained
    stager: str | None = field(default=None, compare=False, repr=False)

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

    def with_rows(self, rows: npt.NDArray[Any], **changes: Any) -> Hypnodensity:
        """Return a density with other probabilities, and with other fields as in `changes`."""
        described = {item.name: getattr(self, item.name) for item in fields(Hypnodensity)[1:]}
        return Hypnodensity(rows, **{**described, **changes})

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
        labels[np.isnan(self.probabilities[:, 0])] = UNSCORED
        labels.flags.writeable = False  # as in `Hypnogram.labels` and `Decoding.argmax`
        return labels

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

    An array that is such a matrix already is not copied.
    """
    given = checks.array_of(array, what, "read_density")
    if given.dtype.kind not in "fiu":
        kind = {"U": "text", "O": "Python objects"}.get(given.dtype.kind, f"of type {given.dtype}")
        raise InputError(f"{what} are {kind}, expected real numbers, one column per stage.")
    if given.ndim != 2 or given.shape[1] != n_stages or not len(given):
        expected = f"(epochs, {n_stages}) for {', '.join(names)}"
        raise InputError(f"{what} have shape {given.shape}, expected {expected}.")
    return np.asarray(given, dtype=np.float64, order="C")


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


def explain_bad_probabilities(matrix: Floats, names: Sequence[str]) -> InputError:
    """Return the error that names the first bad row of a matrix known not to hold probabilities."""
    with np.errstate(invalid="ignore", over="ignore"):
        sums = matrix.sum(axis=1)
    off = np.where(np.isnan(matrix).all(axis=1), 0.0, np.nan_to_num(np.abs(sums - 1), nan=np.inf))
    bad = (matrix < -ROUNDING).any(axis=1) | (off > SUM_TOLERANCE)
    # the check before may have summed in another order, so that no row is bad by these sums
    row = int(bad.argmax() if bad.any() else off.argmax())
    values = ", ".join(f"{name} {value:.6g}" for name, value in zip(names, matrix[row], strict=True))
    return InputError(
        f"probabilities: row {row} sums to {sums[row]:.6g}, expected 1 (within {SUM_TOLERANCE:g}) of values "
        f"from 0 to 1; it holds {values}."
    )


def are_probabilities(matrix: Floats) -> bool:
    """Whether numbers said to be logits are clearly probabilities: no row is negative, all sum to 1."""
    rows = matrix[~np.isnan(matrix).all(axis=1)]
    is_one = np.abs(rows.sum(axis=1) - 1.0) <= SUM_TOLERANCE
    return len(rows) > 1 and bool(rows.min() >= 0.0 and is_one.all())


def refuse_probabilities(matrix: Floats) -> None:
    """Refuse to take the softmax of logits that are clearly probabilities already."""
    if are_probabilities(matrix):
        raise InputError("logits: no value is negative and every row sums to 1: these are probabilities.")


def softmax(matrix: Floats) -> Floats:
    """Return the probabilities of logits; refuse rows without a softmax, and probabilities."""
    refuse_probabilities(matrix)
    top = matrix.max(axis=1, keepdims=True)  # NaN or infinite where a row has no softmax
    wrong = ~np.isfinite(top[:, 0]) & ~np.isnan(matrix).all(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(f"logits: row {row} holds {matrix[row].tolist()}, expected finite numbers, or NaN.")
    odds = np.exp(matrix - top)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
