"""Nights of epochs: what hypnograms and hypnodensities share, and the hypnogram, a label per epoch."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import ComparedByValue, Floats, Labels, Mask
from stageguard.errors import InputError, warn
from stageguard.lazy import ShownInNotebooks, load
from stageguard.night.stages import UNSCORED_NAME, StageScheme, as_scheme

UNSCORED = -1
TIE = 1e-9  # shares of an epoch that differ by less are equal
NO_PROBABILITIES = (
    "stages without probabilities. decode, stats, check and compare take them, in Python as a Hypnogram, "
    "which sg.read_hypnogram returns."
)


def later(start: datetime, seconds: float) -> datetime:
    """Return the moment some seconds after `start`, in its time zone, also across a change of clocks."""
    if start.tzinfo is None:
        return start + timedelta(seconds=seconds)
    return (start.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(start.tzinfo)


class Exportable(ShownInNotebooks):
    """A night that can be saved in any tool's format, and shown as a table."""

    __slots__ = ()

    def save(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        overwrite: bool = False,
        *,
        annotations_from: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Write the night in a tool's format; return a `Written` with the files and what they cannot hold."""
        save: Callable[..., Any] = load("formats.convert:save")
        return save(self, path, format=format, overwrite=overwrite, annotations_from=annotations_from)

    def to_frame(self) -> Any:
        """Return a `pandas.DataFrame` with one row per epoch."""
        to_frame: Callable[[Exportable], Any] = load("formats.tools.stageguard:to_frame")
        return to_frame(self)

    def to(self, device: object, **options: object) -> Self:
        """Return the night itself: trainers such as Lightning's call this on every output of a network."""
        return self


class ExportableStages(Exportable):
    """A night of stages that can also be turned into other tools' objects."""

    __slots__ = ()

    def to_yasa(self) -> Any:
        """Return a `yasa.Hypnogram` (0.8 and later), with the stager's probabilities where there are any."""
        to_yasa: Callable[[ExportableStages], Any] = load("formats.tools.yasa:to_yasa")
        return to_yasa(self)

    def to_mne(self) -> Any:
        """Return `mne.Annotations`, one per epoch."""
        to_mne: Callable[[ExportableStages], Any] = load("formats.tools.mne:to_mne")
        return to_mne(self)


class EpochTable(ComparedByValue):
    """A frozen dataclass whose first field has a row per epoch; the others describe the rows."""

    __slots__ = ()
    __match_args__: tuple[str, ...]  # names of the fields
    scheme: StageScheme
    epoch_seconds: float
    start: datetime | None
    assumed: tuple[str, ...]
    offset_seconds: float

    @property
    def rows(self) -> npt.NDArray[Any]:
        """The first field: labels, or probabilities."""
        rows: npt.NDArray[Any] = getattr(self, self.__match_args__[0])
        return rows

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return len(self.rows)

    @abstractmethod
    def with_rows(self, rows: npt.NDArray[Any], **changes: Any) -> Self:
        """Return a night with other rows, and with other fields as in `changes`."""

    @classmethod
    def trusted(cls, rows: npt.NDArray[Any], *described: Any) -> Self:
        """Return a night from the values of all fields, in order, without checks; the rows become read-only.

        The caller must not keep a view of the rows that can be written to.
        """
        night = object.__new__(cls)
        rows.flags.writeable = False
        for name, value in zip(cls.__match_args__, (rows, *described), strict=True):
            object.__setattr__(night, name, value)
        return night

    def reepoch(self, epoch_seconds: float) -> Self:
        """Return the night in epochs of another length, shorter or longer.

        In a hypnogram, a new epoch gets the stage that holds longest in it; in a tie, the stage of the epoch
        before, else the stage that comes first. Probabilities are averaged over the time they hold. An epoch
        of which less than half was scored, or has evidence, is unscored, or NaN. A rest at the end that is
        shorter than an epoch is dropped, with a warning.

        Examples
        --------
        >>> import stageguard as sg
        >>> sg.read_hypnogram(["W", "W", "N", "N"], epoch_seconds=15).reepoch(30).stages.tolist()
        ['W', 'N']
        """
        old, new = self.epoch_seconds, checks.epoch_seconds(epoch_seconds)
        if abs(old - new) <= TIE * old:
            return self
        rest = self.n_epochs * old - int(self.n_epochs * old / new + TIE) * new
        if rest > TIE * new:
            warn(f"the last {rest:g} s are shorter than an epoch of {new:g} s and are left out.")
        change = _averaged if self.rows.dtype.kind == "f" else reepoch_labels
        return self.with_rows(change(self.rows, old, new), epoch_seconds=new)

    def _check_description(self, author: str) -> None:
        """Check every field but the rows; `author` is the field that names their source."""
        checks.moment(self.start, "start")
        if getattr(self, author) is not None:
            checks.text(getattr(self, author), author)
        for name, value in (
            ("scheme", as_scheme(self.scheme)),
            ("epoch_seconds", checks.epoch_seconds(self.epoch_seconds)),
            ("assumed", checks.items(self.assumed, "assumed", checks.text)),
            ("offset_seconds", checks.number(self.offset_seconds, "offset_seconds", low=0)),
        ):
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle so that the rows are read-only again when unpickled, without another check."""
        return type(self).trusted, tuple(getattr(self, name) for name in self.__match_args__)

    def __repr__(self) -> str:
        """Return the length and other facts of the night, on one line."""
        return f"<{type(self).__name__} {', '.join(self._facts())}>"

    def _facts(self) -> list[str]:
        facts = [f"{self.n_epochs} epochs of {self.epoch_seconds:g} s, {self.scheme.name}"]
        return facts + ([f"from {self.offset_seconds:g} s"] if self.offset_seconds else [])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Hypnogram(EpochTable, ExportableStages):
    """Stage labels of one recording.

    Examples
    --------
    >>> import stageguard as sg
    >>> sg.Hypnogram([0, 2, -1], "aasm5", 30).stages.tolist()
    ['W', 'N2', '?']
    """

    labels: Labels  # (n_epochs,) indices of `scheme.names`, or `UNSCORED` (-1); kept as read-only int8
    scheme: StageScheme  # what the labels mean; the name of a standard scheme will do
    epoch_seconds: float
    start: datetime | None = None  # when the first epoch begins
    scorer: str | None = None  # who or what scored it
    assumed: tuple[str, ...] = field(default=(), compare=False, repr=False)  # by a reader, one remark each
    offset_seconds: float = 0.0  # from the beginning of the recording to the first epoch

    def __post_init__(self) -> None:
        """Check everything once, and make the labels read-only."""
        self._check_description("scorer")
        object.__setattr__(self, "labels", _checked_labels(self.labels, self.scheme))

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

    def _facts(self) -> list[str]:
        n_unscored = int(np.count_nonzero(self.labels == UNSCORED))
        return [
            *EpochTable._facts(self),
            *([f"{n_unscored} unscored"] if n_unscored else []),
            *([f"by {self.scorer!r}"] if self.scorer else []),
        ]


def _checked_labels(labels: object, scheme: StageScheme) -> Labels:
    array = checks.array_of(labels, "labels", "read_hypnogram")
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
        found = f"shape {array.shape} and type {array.dtype}"
        raise InputError(f"labels have {found}, expected a whole number per epoch.")
    wrong = (array < UNSCORED) | (array >= scheme.n_stages)
    if wrong.any():
        raise InputError(
            f"label {array[wrong][0]} at index {int(wrong.argmax())} is not a stage of scheme "
            f"{scheme.name!r}, expected 0 to {scheme.n_stages - 1}, or {UNSCORED} for unscored."
        )
    return checks.frozen_array(array, np.int8)


def reepoch_labels(labels: npt.ArrayLike, epoch_seconds: float, wanted_seconds: float) -> Labels:
    """Return labels for epochs of another length, by the rule of `EpochTable.reepoch`; a rest is dropped."""
    old_labels = np.asarray(labels)
    old, new = checks.epoch_seconds(epoch_seconds), checks.epoch_seconds(wanted_seconds)
    if old == new:
        return old_labels.astype(np.int8)
    edges = _edges(len(old_labels), old, new)
    stages = np.unique(old_labels[old_labels != UNSCORED])
    if not len(stages):
        return np.full(len(edges) - 1, UNSCORED, dtype=np.int8)
    # (n_stages, n_new): seconds of each new epoch that a stage holds
    share = np.stack([_integrals(old_labels == stage, old, edges) for stage in stages])
    best = share.max(axis=0)
    result = np.where(share.sum(axis=0) >= new * (0.5 - TIE), stages[share.argmax(axis=0)], UNSCORED)
    is_tied = (share >= best - new * TIE).sum(axis=0) > 1
    for epoch in np.flatnonzero(is_tied & (result != UNSCORED)):
        tied = stages[share[:, epoch] >= best[epoch] - new * TIE]
        first = int(edges[epoch] / old + TIE)
        inside = old_labels[first : int(np.ceil(edges[epoch + 1] / old - TIE))]
        stays = epoch and result[epoch - 1] in tied
        result[epoch] = result[epoch - 1] if stays else next(label for label in inside if label in tied)
    return result.astype(np.int8)


def _averaged(matrix: Floats, old: float, new: float) -> Floats:
    """Return probabilities averaged over the time they hold within each new epoch."""
    edges = _edges(len(matrix), old, new)
    has_evidence = ~np.isnan(matrix[:, 0])
    seconds = _integrals(has_evidence, old, edges)
    filled = np.where(has_evidence[:, None], matrix, 0.0)
    sums = np.stack([_integrals(column, old, edges) for column in filled.T], axis=1)
    known = seconds >= new * (0.5 - TIE)
    pooled = np.full(sums.shape, np.nan)
    pooled[known] = np.maximum(sums[known], 0.0)
    pooled[known] /= pooled[known].sum(axis=1, keepdims=True)
    return pooled


def _edges(n_old: int, old: float, new: float) -> Floats:
    n_new = int(n_old * old / new + TIE)
    if n_new < 1:
        found = f"{n_old} epochs of {old:g} s last {n_old * old:g} s"
        raise InputError(f"{found}, expected one epoch of {new:g} s.")
    return np.arange(n_new + 1, dtype=np.float64) * new


def _integrals(values: Floats | Mask, old: float, edges: Floats) -> Floats:
    """Return integrals from edge to edge of values that hold for an old epoch each."""
    until = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64) * old])
    return np.diff(np.interp(edges, np.arange(len(until)) * old, until))
