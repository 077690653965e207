"""What nights share: they can be written in any tool's format, and become other libraries' objects."""

from __future__ import annotations

import os
from typing import Any

from stageguard.base.lazy import load


class Exportable:
    """A night that can be saved, and shown as a table."""

    __slots__ = ()

    def save(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        overwrite: bool = False,
        *,
        annotations_from: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Write it in a tool's format; the `Written` returned has the files and what they could not carry."""
        save = load("formats.convert:save")
        return save(self, path, format=format, overwrite=overwrite, annotations_from=annotations_from)

    def to_frame(self) -> Any:
        """Return a `pandas.DataFrame` with one row per epoch."""
        return load("formats.tool_objects:to_frame")(self)


class ExportableStages(Exportable):
    """A night of stages, which other tools have objects for."""

    __slots__ = ()

    def to_yasa(self) -> Any:
        """Return a `yasa.Hypnogram` (0.8 and later), with the stager's probabilities where there are any."""
        return load("formats.tool_objects:to_yasa")(self)

    def to_mne(self) -> Any:
        """Return `mne.Annotations`, one per epoch."""
        return load("formats.tool_objects:to_mne")(self)
