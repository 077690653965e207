"""Find the recordings that a command line names: files, or a dataset's folder."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
from click import UsageError

from stageguard.base.errors import InputError
from stageguard.base.files import exists_error
from stageguard.cli import options as opt
from stageguard.cli.command import option, packed
from stageguard.datasets import dataset as described
from stageguard.formats.recordings.read import SUFFIXES, read_recording_file
from stageguard.night.recording import Recording

recordings_argument = click.argument(
    "recordings",
    nargs=-1,
    required=True,
    type=opt.PATH,
    help="EDF, EDF+ or WFDB (.hea) files or folders of them; with --dataset the dataset's folder.",
)
channel_option = option(
    "--channel",
    metavar="ROLE=NAME",
    multiple=True,
    help="Which channel is eeg, emg, radar_i, ... Repeat it.",
)
dataset_option = option(
    "--dataset", metavar="NAME", help="Read the folders as this dataset (stageguard data)."
)
dataset_option_option = option(
    "--dataset-option", metavar="KEY=VALUE", multiple=True, help="An option of the dataset's. Repeat it."
)
recording_jobs_option = option(
    "--jobs", metavar="N", type=opt.COUNT, default=1, help="Recordings at a time; 0 means one per core."
)


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """Options for reading recordings."""

    channel: tuple[str, ...] = ()
    dataset: str | None = None
    dataset_option: tuple[str, ...] = ()
    scoring: Path | None = None


recording_options = packed(
    "given",
    RecordingOptions,
    channel_option,
    dataset_option,
    dataset_option_option,
    option(
        "--scoring",
        metavar="FILE",
        type=opt.PATH,
        help="Expert scoring of the one recording, where it holds none.",
    ),
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
    """

    file: str
    id: str
    folder: Path
    read: Callable[[], tuple[Recording, tuple[str, ...]]] = field(repr=False)
    modality: str = ""
    error: str | None = None

    @property
    def output(self) -> Path:
        """Folder and name of the outputs."""
        return self.folder / self.id

    def new_file(self, suffix: str, *, overwrite: bool) -> Path:
        """Return the path of an output; refuse an existing one now, before the work."""
        path = self.folder / (self.id + suffix)
        if path.exists() and not overwrite:
            raise exists_error(path)
        return path


def find_sources(paths: Sequence[Path], given: RecordingOptions, output: Path | None) -> list[Source]:
    """Return the recordings to read, in order; refuse options that do not go together."""
    dataset, scoring = given.dataset, given.scoring
    channels = opt.parse_pairs(given.channel, "--channel", "a role and a channel's name, such as eeg=C4-M1")
    options = opt.parse_dataset_options(given.dataset_option, "--dataset-option")
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
    sources = []
    for folder in paths:
        for entry in about.entries(folder, **options):
            read = partial(_read_entry, entry, channels)
            sources.append(Source(entry.id, _file_name(entry.id), output, read, modality))
    if not sources:
        raise InputError(f"{paths[0]} holds no recording of {dataset}. See: stageguard data show {dataset}")
    return sources


def with_channels(recording: Recording, channels: Mapping[str, str]) -> Recording:
    """Return a recording whose roles have other channels, which are given by name or by their old role."""
    if not channels:
        return recording
    signals = dict(recording.signals)
    by_name = {signal.name: signal for signal in signals.values()}
    for role, name in channels.items():
        channel = recording.signals.get(name) or by_name.get(name)
        if channel is None:
            recording.channel(name)  # raises an error that lists the channels
        assert channel is not None
        signals[role] = channel
    return dataclasses.replace(recording, signals=signals)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
    if not files:
        raise InputError(
            f"{path} holds no recording. Expected files named {', '.join(SUFFIXES)}; for a dataset in its "
            "own layout, name it with --dataset."
        )
    return files


def _read_file(
    path: Path, channels: Mapping[str, str], scoring: Path | None
) -> tuple[Recording, tuple[str, ...]]:

    file = read_recording_file(path, channels=channels or None, scoring=scoring)
    return file.recording, file.notes


def _read_entry(entry: Any, channels: Mapping[str, str]) -> tuple[Recording, tuple[str, ...]]:
    return with_channels(entry.read(), channels), ()


def _file_name(name: str) -> str:
    """Return a recording's name with characters that are safe in a file name."""
    return re.sub(r"[^\w.+-]+", "_", name).strip("._") or "recording"
