"""Where the outputs of several nights go. Writes nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from stageguard.base.errors import OutputError
from stageguard.cli.inputs import Input


class OutputStems:
    """Folder and stem of each night's outputs; two nights may not share one."""

    def __init__(self, nights: Sequence[Input], folder: Path | None) -> None:
        self._folder = folder
        self._owners: dict[Path, Input] = {}
        for night in nights:
            self._owners.setdefault(self._stem(night).absolute(), night)

    def of(self, night: Input) -> Path:
        """Return the stem for a night's outputs; one that an earlier night has is an error."""
        stem = self._stem(night)
        owner = self._owners[stem.absolute()]
        if owner is not night:
            raise OutputError(
                f"{night.path.name}: has the same output as {owner.path}. Write it into another folder with "
                "--output, or give each an id of its own in a sample list."
            )
        return stem

    def _stem(self, night: Input) -> Path:
        return (night.path.parent if self._folder is None else self._folder) / night.name


def check_folder(folder: Path | None) -> None:
    """Refuse a folder that cannot be written to, before hours of work."""
    if folder is None:
        return
    place = next((one for one in (folder, *folder.absolute().parents) if one.exists()), folder)
    if not place.is_dir():
        raise OutputError(f"cannot write to {folder}: {place} is a file, expected a folder.")
    if not os.access(place, os.W_OK | os.X_OK):
        raise OutputError(
            f"cannot write to {folder}: {place} is not yours to write to. Choose another folder."
        )
