"""Find the recordings that a command line names: files, or a dataset's folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from click import UsageError

from stageguard.cli import options as opt
from stageguard.cli.command import more, packed
from stageguard.datasets import dataset as described
from stageguard.errors import InputError
from stageguard.formats.recordings.read import SUFFIXES, read_recording
from stageguard.night.recording import Recording
from stageguard.storage import is_folder

channel_option = more(
    "--channel", "ROLE=NAME", "Which channel is eeg, emg, radar_i, ...; repeatable.", multiple=True
)
dataset_option = more("--dataset", "NAME", "Read the folders as this dataset (stageguard doctor --data).")
dataset_option_option = more(
    "--dataset-option", "KEY=VALUE", "An option of the dataset's reader; repeatable.", multiple=True
)


@dataclass(frozen=True, slots=True)
class Source:
    """A recording that is read when needed, possibly in another process.

    Parameters
    ----------
    file : str
        The file, or the dataset's id of the recording.
    id : str
        Name of the outputs.
    folder : Path
        Folder of the outputs.
    read : callable
        Returns the recording and remarks on how it was read.
    modality : str
        The dataset's modality, if it has one.
    files : tuple of Path
        All files that are read, the main one first.
    is_of_dataset : bool
        Whether a dataset's reader reads it.
    """

    file: str
    id: str
    folder: Path
    read: Callable[[], tuple[Recording, tuple[str, ...]]] = field(repr=False)
    modality: str = ""
    files: tuple[Path, ...] = ()
    is_of_dataset: bool = False
    error: str | None = None

    @property
    def output(self) -> Path:
        """Folder and name of the outputs."""
        return self.folder / self.id


def recording_files(folder: Path) -> list[Path]:
    """Return the recordings in a folder."""
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
    if not files:
        raise InputError(
            f"{folder} holds no recording. Expected files named {', '.join(SUFFIXES)}; for a dataset in its "
            "own layout, name it with --dataset."
        )
    return files


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """How to find and read recordings."""

    channels: Mapping[str, str]  # by role
    dataset: str | None
    dataset_options: Mapping[str, Any]

    @classmethod
    def parsed(
        cls,
        channel: tuple[str, ...],
        dataset: str | None,
        dataset_option: tuple[str, ...],
    ) -> RecordingOptions:
        """Return the options of a command line; refuse those that do not go together."""
        if dataset is None and dataset_option:
            raise UsageError("--dataset-option needs --dataset: say which dataset it is.")
        channels = opt.parse_pairs(channel, "--channel", "a role and a channel's name, such as eeg=C4-M1")
        return cls(channels, dataset, opt.parse_dataset_options(dataset_option, "--dataset-option"))

    def find(
        self,
        paths: Sequence[Path],
        output: Path | None,
        files_in: Callable[[Path], Sequence[Path]] = recording_files,
    ) -> list[Source]:
        """Return the recordings to read, in order; `files_in` returns those in a folder."""
        if self.dataset is not None:
            return self._of_dataset(self.dataset, paths, output)
        files = [file for path in paths for file in (files_in(path) if is_folder(path) else [path])]
        return [
            Source(str(file), file.stem, output or file.parent, partial(self._read_file, file), files=(file,))
            for file in files
        ]

    def _of_dataset(self, name: str, folders: Sequence[Path], output: Path | None) -> list[Source]:
        if output is None:
            raise UsageError("--dataset needs --output: say where to write, the dataset stays as it is.")
        about = described(name)
        modality = "" if about.modality == "any" else about.modality
        sources = [
            Source(
                *(entry.id, _file_name(entry.id), output, partial(self._read_entry, entry), modality),
                files=entry.files,
                is_of_dataset=True,
            )
            for folder in folders
            for entry in about.entries(folder, **self.dataset_options)
        ]
        if not sources:
            raise InputError(
                f"{folders[0]} holds no recording of {name}. See: stageguard doctor --data {name}"
            )
        return sources

    def _read_file(self, path: Path) -> tuple[Recording, tuple[str, ...]]:
        recording = read_recording(path, channels=self.channels or None)
        return recording, recording.notes

    def _read_entry(self, entry: Any) -> tuple[Recording, tuple[str, ...]]:
        return entry.read().with_channels(self.channels), ()


staging_options = packed(
    "options", RecordingOptions.parsed, dataset_option, dataset_option_option, channel_option
)


def _file_name(name: str) -> str:
    """Return a recording's name with characters that are safe in a file name."""
    return re.sub(r"[^\w.+-]+", "_", name).strip("._") or "recording"
