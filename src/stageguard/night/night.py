"""What hypnograms and hypnodensities share: rows of epochs, their times, and export to other tools."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.lazy import ShownInNotebooks, load
from stageguard.night.stages import StageScheme, as_scheme


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
        """Return the night itself, which is in main memory whatever the device.

        Trainers such as Lightning's move every output of a network by calling ``to``; an output without it
        they take apart and fill again, which a frozen night refuses.
        """
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


class EpochTable:
    """A frozen dataclass whose first field has a row per epoch; the others describe the rows."""

    __slots__ = ()
    scheme: StageScheme
    epoch_seconds: float
    start: datetime | None
    assumed: tuple[str, ...]
    offset_seconds: float

    @property
    @abstractmethod
    def rows(self) -> npt.NDArray[Any]:
        """The first field: labels, or probabilities."""

    @abstractmethod
    def with_rows(self, rows: npt.NDArray[Any], **changes: Any) -> Self:
        """Return a night with other rows, and with other fields as in `changes`."""

    @classmethod
    def trusted(cls, rows: npt.NDArray[Any], *described: Any) -> Self:
        """Return a night from the values of all fields, in order, without checks; the rows become read-only.

        The caller must not keep a view of the rows that can be written to.
        """
        night, put = object.__new__(cls), object.__setattr__
        rows.flags.writeable = False
        for name, value in zip(cls.__match_args__, (rows, *described), strict=True):  # type: ignore[attr-defined]
            put(night, name, value)
        return night

    def blank(self, n_epochs: int) -> npt.NDArray[Any]:
        """Return rows of epochs about which nothing is known: NaN, or unscored."""
        fill = np.nan if self.rows.dtype.kind == "f" else -1
        return np.full((n_epochs, *self.rows.shape[1:]), fill, dtype=self.rows.dtype)

    @property
    @abstractmethod
    def n_epochs(self) -> int:
        """Number of epochs."""

    def _check_description(self, author: str) -> None:
        """Check every field but the rows; `author` is the field that names their source."""
        object.__setattr__(self, "scheme", as_scheme(self.scheme))
        object.__setattr__(self, "epoch_seconds", checks.epoch_seconds(self.epoch_seconds))
        checks.start(self.start)
        if getattr(self, author) is not None:
            checks.text(getattr(self, author), author)
        object.__setattr__(self, "assumed", checks.remarks(self.assumed))
        offset_seconds = checks.number(self.offset_seconds, "offset_seconds", low=0)
        object.__setattr__(self, "offset_seconds", offset_seconds)

    def _description(self) -> tuple[Any, ...]:
        """Return the fields that are compared, without the rows."""
        return tuple(getattr(self, f.name) for f in fields(self)[1:] if f.compare)  # type: ignore[arg-type]

    def _is_equal(self, other: EpochTable) -> bool:
        """Compare all fields but `assumed` by content; NaN rows are equal to NaN rows."""
        return self._description() == other._description() and np.array_equal(
            self.rows, other.rows, equal_nan=self.rows.dtype.kind == "f"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle so that the rows are read-only again when unpickled, without another check."""
        return type(self).trusted, tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        """Return the length and other facts of the night, on one line."""
        return f"<{type(self).__name__} {', '.join(self._facts())}>"

    def _facts(self) -> list[str]:
        return [
            f"{self.n_epochs} epochs of {self.epoch_seconds:g} s, {self.scheme.name}",
            *([f"from {self.offset_seconds:g} s"] if self.offset_seconds else []),
        ]
