"""How nights are handed to files and other tools: what their types share. Writes nothing itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stageguard.formats.writing import Written


class HandsOver:
    """A night that can be saved, and shown as a table."""

    __slots__ = ()

    def save(
        self: Any,
        path: str | os.PathLike[str],
        format: str | None = None,
        overwrite: bool = False,
        *,
        annotations_from: str | os.PathLike[str] | None = None,
    ) -> Written:
        """Write it in a tool's format; returns the files, and what the format could not carry."""
        from stageguard.formats.writing import save

        return save(self, path, format=format, overwrite=overwrite, annotations_from=annotations_from)

    def to_frame(self: Any) -> Any:
        """Return a `pandas.DataFrame` with one row per epoch."""
        from stageguard.formats.tool_objects import to_frame

        return to_frame(self)


class HandsOverStages(HandsOver):
    """A night of stages, which other tools have objects for."""

    __slots__ = ()

    def to_yasa(self: Any) -> Any:
        """Return a `yasa.Hypnogram` (0.8 and later), with the stager's probabilities where there are any."""
        from stageguard.formats.tool_objects import to_yasa

        return to_yasa(self)

    def to_mne(self: Any) -> Any:
        """Return `mne.Annotations`, one per epoch."""
        from stageguard.formats.tool_objects import to_mne

        return to_mne(self)
