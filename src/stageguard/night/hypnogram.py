"""A hypnogram: one stage label per epoch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import Labels
from stageguard.errors import InputError
from stageguard.night.night import EpochTable, ExportableStages, later
from stageguard.night.stages import UNSCORED_NAME, StageScheme, as_scheme

UNSCORED = -1
NO_PROBABILITIES = (
    "stages without probabilities. decode, stats, check and compare take them, in Python as a Hypnogram, "
    "which sg.read_hypnogram returns."
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Hypnogram(EpochTable, ExportableStages):
    """Stage labels of one recording.

    Parameters
    ----------
    labels : array of int, shape (n_epochs,)
        Indices of ``scheme.names``, or ``UNSCORED`` (-1). Kept as read-only int8.
    scheme : StageScheme
        What the labels mean.
    epoch_seconds : float
        Epoch length.
    start : datetime or None
        When the first epoch begins; the recording began `offset_seconds` before.
    scorer : str or None
        Who or what scored it.
    assumed : tuple of str
        What a reader assumed or left out, one remark each. Hypnograms that differ only in it are equal.
    offset_seconds : float
        Seconds from the beginning of the recording to the first epoch: 0 where the recording begins with it.

    Examples
    --------
    >>> import stageguard as sg
    >>> sg.Hypnogram([0, 2, -1], "aasm5", 30).stages.tolist()
    ['W', 'N2', '?']
    """

    labels: Labels
    scheme: StageScheme
    epoch_seconds: float
    start: datetime | None = None
    scorer: str | None = None
    assumed: tuple[str, ...] = field(default=(), compare=False, repr=False)
    offset_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Check everything once, and make the labels read-only."""
        self._check_description("scorer")
        object.__setattr__(self, "labels", _checked_labels(self.labels, self.scheme))

    @property
    def rows(self) -> Labels:
        """The labels."""
        return self.labels

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return len(self.labels)

    def with_rows(self, rows: npt.NDArray[Any], **changes: Any) -> Hypnogram:
        """Return a hypnogram with other labels, and with other fields as in `changes`."""
        return replace(self, labels=rows, **changes)

    @property
    def stages(self) -> npt.NDArray[np.str_]:
        """Stage names per epoch, ``"?"`` where unscored."""
        # the name of UNSCORED comes last, where the index -1 finds it
        return np.array((*self.scheme.names, UNSCORED_NAME))[self.labels]

    def merge(self, scheme: StageScheme | str) -> Hypnogram:
        """Return the hypnogram in a coarser scheme, or unchanged if that is its scheme."""
        coarser = as_scheme(scheme)
        if coarser == self.scheme:
            return self
        stages = np.append(self.scheme.merge_map(coarser), UNSCORED).astype(np.int8)  # -1 finds the last
        return self.with_rows(stages[self.labels], scheme=coarser)

    def clock_at(self, epoch: int) -> datetime | None:
        """Return when an epoch begins, or None when the start is not known."""
        return None if self.start is None else later(self.start, epoch * self.epoch_seconds)

    def __eq__(self, other: object) -> bool:
        """Compare all fields but `assumed` by content."""
        if not isinstance(other, Hypnogram):
            return NotImplemented
        return self._is_equal(other)

    def __hash__(self) -> int:
        """Hash all fields but `assumed` by content."""
        return hash((self.labels.tobytes(), *self._description()))

    def _facts(self) -> list[str]:
        n_unscored = int(np.count_nonzero(self.labels == UNSCORED))
        return [
            *EpochTable._facts(self),
            *([f"{n_unscored} unscored"] if n_unscored else []),
            *([f"by {self.scorer!r}"] if self.scorer else []),
        ]


def _checked_labels(labels: object, scheme: StageScheme) -> Labels:
    array = checks.array_of(labels, "labels", "read_hypnogram")
    checks.refuse_unordered(labels, "labels")
    if array.ndim != 1:
        raise InputError(f"labels have shape {array.shape}, expected one label per epoch: (n_epochs,).")
    if array.size == 0:
        raise InputError("labels are empty, expected at least one epoch.")
    if array.dtype.kind not in "iu":
        raise InputError(
            f"labels are of type {array.dtype}, expected whole numbers. Names are read by sg.read_hypnogram."
        )
    array = checks.unmasked(array, UNSCORED)
    low, high = array.min(), array.max()
    if low < UNSCORED or high >= scheme.n_stages:
        wrong = int(np.argmax((array < UNSCORED) | (array >= scheme.n_stages)))
        raise InputError(
            f"label {array[wrong]} at index {wrong} is not a stage of scheme {scheme.name!r}, expected 0 to "
            f"{scheme.n_stages - 1}, or {UNSCORED} for unscored."
        )
    return checks.frozen_array(array, np.int8)
