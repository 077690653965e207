"""Measure files of one stager's probabilities one by one, and write the profile tuned on them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from stageguard.errors import OutputExistsError
from stageguard.files import make_folder
from stageguard.fitting.tune import MeasuredNight, measure
from stageguard.formats.night import FileOptions
from stageguard.guard.night import GuardOptions
from stageguard.profile.profile import Profile
from stageguard.profile.stagers import Training
from stageguard.runner.decode_one import read_with, refuse_output

TUNED_PROFILE = "tuned-profile.toml"


class TuneTask(NamedTuple):
    """One file to measure."""

    path: Path
    id: str
    profile: Profile
    options: FileOptions
    trained: Training | None = None
    error: str | None = None  # why the file cannot be read

    @property
    def file(self) -> str:
        """The path as text."""
        return str(self.path)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredFile:
    """What one file tells about its stager."""

    night: MeasuredNight
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        night = self.night
        numbers = {"fragmentation_index": night.stager_fi, "sharpness": night.sharpness}
        return numbers | {"notes": list(self.notes)}


def measure_task(task: TuneTask) -> MeasuredFile:
    """Read and measure one file."""
    refuse_output(task.path)
    read = read_with(task.path, task.profile, task.options, task.profile)
    options = GuardOptions(trained=task.trained)
    return MeasuredFile(measure(read.density, task.profile, options), read.notes)


def keep_tuned(profile: Profile, folder: Path, *, overwrite: bool) -> Path:
    """Write a tuned profile beside the nights decoded with it, unless the same one is there already."""
    path = folder / TUNED_PROFILE
    if path.exists() and not overwrite:
        if Profile.load(path) == profile:
            return path
        raise OutputExistsError(
            f"{path} was tuned on other nights. Decode with it (--profile {path}), or use overwrite=True."
        )
    make_folder(folder)
    profile.save(path, overwrite=True)
    return path
