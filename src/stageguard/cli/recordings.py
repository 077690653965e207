"""Recordings as commands are given them: files, or a dataset's folder."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from stageguard.base.errors import InputError, OutputExistsError
from stageguard.base.records import dataclass
from stageguard.cli.options import parse_dataset_options, parse_pairs
from stageguard.cli.parser import Argument, Option, UsageError
from stageguard.datasets import dataset as described
from stageguard.formats.recordings.read import SUFFIXES, read_recording_file
from stageguard.night.recording import Recording

Recordings = Annotated[
    list[Path],
    Argument(
        metavar="RECORDINGS",
        help="EDF, EDF+ or WFDB (.hea) files or folders of them; with --dataset the dataset's folder.",
    ),
]
Channel = Annotated[
    list[str] | None,
    Option("--channel", metavar="ROLE=NAME", help="Which channel is eeg, emg, radar_i, ... Repeat it."),
]
DatasetName = Annotated[
    str | None,
    Option("--dataset", metavar="NAME", help="Read the folders as this dataset (stageguard data)."),
]
DatasetOption = Annotated[
    list[str] | None,
    Option("--dataset-option", metavar="KEY=VALUE", help="An option of the dataset's. Repeat it."),
]
Scoring = Annotated[
    Path | None,
    Option(metavar="FILE", help="Expert scoring of the one recording, where it holds none."),
]
Jobs = Annotated[int, Option(min=0, metavar="N", help="Recordings at a time; 0 means one per core.")]


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """What recordings are, besides their paths."""

    channel: Channel = None
    dataset: DatasetName = None
    dataset_option: DatasetOption = None
    scoring: Scoring = None


@dataclass(frozen=True, slots=True)
class Source:
    """A recording that is read when its turn comes; can be sent to another process.

    Parameters
    ----------
    file : str
        The file, or the dataset's id of it.
    id : str
        Name of its outputs.
    folder : Path
        For its outputs.
    read : callable
        Returns the recording and remarks on how it was read.
    modality : str
        The dataset's, where it has one.
    """

    file: str
    id: str
    folder: Path
    read: Callable[[], tuple[Recording, tuple[str, ...]]] = field(repr=False)
    modality: str = ""
    error: str | None = None

    @property
    def output(self) -> Path:
        """Folder and name of its outputs."""
        return self.folder / self.id

    def new_file(self, suffix: str, *, overwrite: bool) -> Path:
        """Return the path of an output, and refuse one that is there: before the work, not after it."""
        path = self.folder / (self.id + suffix)
        if path.exists() and not overwrite:
            raise OutputExistsError(f"{path} exists already. Use --overwrite to replace it.")
        return path


def find_sources(paths: Sequence[Path], given: RecordingOptions, output: Path | None) -> list[Source]:
    """Return what there is to read, in order, checked against the options that go together."""
    dataset, scoring = given.dataset, given.scoring
    channels = parse_pairs(given.channel, "--channel", "a role and a channel's name, such as eeg=C4-M1")
    options = parse_dataset_options(given.dataset_option, "--dataset-option")
    if dataset is None:
        if options:
            raise UsageError("--dataset-option needs --dataset: say which dataset it is.")
        files = [file for path in paths for file in _files(path)]
        if scoring is not None and len(files) != 1:
            raise UsageError("--scoring belongs to one recording: give the recordings one by one.")
        return [
            Source(str(file), file.stem, output or file.parent, partial(_read_file, file, channels, scoring))
            for file in files
        ]
    if scoring is not None:
        raise UsageError("--scoring is for files; a dataset brings its own scorings.")
    if output is None:
        raise UsageError("--dataset needs --output: say where to write, the dataset stays as it is.")

    about = described(dataset)
    modality = "" if about.modality == "any" else about.modality
    found = []
    for folder in paths:
        for entry in about.entries(folder, **options):
            read = partial(_read_entry, entry, channels)
            found.append(Source(entry.id, _file_name(entry.id), output, read, modality))
    if not found:
        raise InputError(f"{paths[0]} holds no recording of {dataset}. See: stageguard data show {dataset}")
    return found


def with_channels(recording: Recording, channels: Mapping[str, str]) -> Recording:
    """Return a recording in which roles are played by the channels named, by their name or their old role."""
    if not channels:
        return recording
    signals = dict(recording.signals)
    by_name = {signal.name: signal for signal in signals.values()}
    for role, name in channels.items():
        found = recording.signals.get(name) or by_name.get(name)
        if found is None:
            recording.channel(name)  # raises, and lists what there is
        assert found is not None
        signals[role] = found
    return dataclasses.replace(recording, signals=signals)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
    if not found:
        raise InputError(
            f"{path} holds no recording. Expected files named {', '.join(SUFFIXES)}; for a dataset in its "
            "own layout, name it with --dataset."
        )
    return found


def _read_file(
    path: Path, channels: Mapping[str, str], scoring: Path | None
) -> tuple[Recording, tuple[str, ...]]:

    found = read_recording_file(path, channels=channels or None, scoring=scoring)
    return found.recording, found.notes


def _read_entry(entry: Any, channels: Mapping[str, str]) -> tuple[Recording, tuple[str, ...]]:
    return with_channels(entry.read(), channels), ()


def _file_name(name: str) -> str:
    """Return a recording's name as one for a file."""
    return re.sub(r"[^\w.+-]+", "_", name).strip("._") or "recording"
