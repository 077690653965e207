"""`stageguard stage`: recordings in, hypnograms out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, get_args

import click
from click import UsageError

from stageguard.cli import options as opt
from stageguard.cli.command import MORE, command, more, option
from stageguard.cli.decoded import end_decoding, print_outcome
from stageguard.cli.terminal import outcome_bar
from stageguard.datasets import dataset as described
from stageguard.errors import InputError
from stageguard.formats.recordings.read import SUFFIXES as RECORDING_SUFFIXES
from stageguard.night.recording import Recording
from stageguard.nn.data import SUFFIXES, feature_files, read_features
from stageguard.pipeline import QualityRules, fitting_profile
from stageguard.profile.profile import Profile
from stageguard.runner.decode_files import FileSource
from stageguard.runner.manifest import MOST_IN_FULL, decode_source
from stageguard.runner.pool import Cluster, executor_for
from stageguard.runner.run import check_folder
from stageguard.runner.stage_files import NamedStager, StageTask, StagingOptions, stage_task
from stageguard.signals.features import Features
from stageguard.storage import is_folder


@command
@click.argument(
    "recordings",
    nargs=-1,
    required=True,
    type=opt.PATH,
    help="Recordings (EDF, WFDB) or folders of them; for a network also feature tables.",
)
@option(
    "--stager",
    "stagers",
    metavar="NAME|MODEL",
    multiple=True,
    default=("yasa",),
    help="yasa, sleepecg, luna-pops:FOLDER, a network or .onnx; repeatable.",
)
@opt.output("FOLDER", "Folder of the outputs.", opt.OutputType(), required=True)
@option("--profile", "-p", metavar="NAME", help="Default: the profile that fits the stager.")
@option("--channels", "derivations", metavar="C4-M1,C3-M2", help="The EEG to stage; several are combined.")
@option("--report/--no-report", default=True, help="Whether to write a page about each night.")
@opt.overwrite
@opt.jobs
@opt.as_json
@opt.cohort
@more("--dataset", "NAME", "Read the folders as this dataset (stageguard doctor --data).")
@more("--dataset-option", "KEY=VALUE", "An option of the dataset's reader; repeatable.", multiple=True)
@more("--channel", "ROLE=NAME", "Which channel is eeg, emg, radar_i, ...; repeatable.", multiple=True)
@more("--age", "YEARS", "Of the sleeper, if not recorded.", type=click.FloatRange(min=0, max=130))
@more("--sex", "F|M", "Of the sleeper, if not recorded.", type=click.Choice(["F", "M"]))
@more(
    *("--quality", "RULES", "How to judge signals: graded, kdd2026 or none. Default: by the profile."),
    type=click.Choice(get_args(QualityRules)),
)
@option(
    "--temperature/--no-temperature",
    default=None,
    heading=MORE,
    help="Whether to soften a network as its training found best.",
)
@more("--device", "auto|cpu|cuda", "Where a network computes.", type=opt.DEVICE, default="auto")
@opt.cluster
def stage(
    recordings: tuple[Path, ...],
    stagers: tuple[str, ...],
    output: Path,
    profile: str | None,
    derivations: str | None,
    report: bool,
    overwrite: bool,
    jobs: int,
    as_json: bool,
    cohort: str | None,
    dataset: str | None,
    dataset_option: tuple[str, ...],
    channel: tuple[str, ...],
    age: float | None,
    sex: str | None,
    quality: QualityRules | None,
    temperature: bool | None,
    device: str,
    cluster: Cluster | None,
) -> None:
    """Stage recordings, judge their signals, and decode the stages.

    Writes NAME.hypnodensity.csv, NAME.hypnogram.tsv with its .json, and NAME.report.html. Channels are found
    by their names. A second call stages nothing again.

    Examples
    --------
    stageguard stage psg.edf --stager yasa --output staged
    """
    if dataset is None and dataset_option:
        raise UsageError("--dataset-option needs --dataset: say which dataset it is.")
    by_role = opt.parse_pairs(channel, "--channel", "a role and a channel's name, such as eeg=C4-M1")
    sleeper = {"age": age, "sex": sex}
    staging = StagingOptions(
        _channels(by_role, derivations),
        {name: value for name, value in sleeper.items() if value is not None},
        quality,
        temperature,
    )
    named = tuple(NamedStager.of(name, device) for name in stagers)
    fitting = fitting_profile([stager.load() for stager in named])  # refuses a stager that does not exist
    guard = fitting if profile is None else Profile.load(profile)
    check_folder(output)
    endings = (*RECORDING_SUFFIXES, *(SUFFIXES if named[0].card_sha256 else ()))
    if dataset is not None:
        found = _of_dataset(dataset, recordings, dataset_option, by_role)
    else:
        listed = (_stageable(path, endings) if is_folder(path) else [path] for path in recordings)
        found = [Source(str(file), file.stem, (file,)) for files in listed for file in files]
    tasks = [
        StageTask(
            source.file,
            source.files,
            output / source.id,
            named,
            partial(_read, source, named[0]),
            guard,
            staging,
            cohort,
            overwrite=overwrite,
            report=report,
            durable=len(found) == 1,
            shares_profile=len(found) > 1,
            in_full=as_json or len(found) <= MOST_IN_FULL,
        )
        for source in found
    ]
    with (
        executor_for(cluster) as executor,
        outcome_bar(
            "Staging", len(tasks), quiet=as_json, show=print_outcome if as_json else None
        ) as on_outcome,
    ):
        source = FileSource(tasks, output if len(tasks) > 1 else None, stage_task)
        manifest = decode_source(source, jobs=jobs, executor=executor, on_outcome=on_outcome)
    next_steps = [_review_line(tasks)] if manifest.nights else []
    end_decoding(manifest, as_json=as_json, next_steps=next_steps)


def _channels(by_role: Mapping[str, str], derivations: str | None) -> dict[str, str | Sequence[str]]:
    """Return the channels by role; --channels are those of the EEG."""
    if derivations is None:
        return dict(by_role)
    if "eeg" in by_role:
        raise UsageError("--channels and --channel eeg=... both name the EEG. Keep one.")
    labels = [label.strip() for label in derivations.split(",")]
    if not all(labels):
        raise UsageError(f"--channels is {derivations!r}, expected names such as C4-M1,C3-M2.")
    return {**by_role, "eeg": labels}


def _stageable(folder: Path, endings: Sequence[str]) -> list[Path]:
    files = feature_files(folder, endings)
    if not files:
        raise InputError(f"{folder} holds nothing to stage. Expected files named {', '.join(endings)}.")
    return files


@dataclass(frozen=True, slots=True)
class Source:
    """A recording to stage, read when needed, possibly in another process."""

    file: str  # or the dataset's id of it
    id: str  # name of the outputs
    files: tuple[Path, ...]  # all that are read, the main one first
    entry: Any = None  # of a dataset, which reads it
    channels: Mapping[str, str] = field(default_factory=dict)


def _of_dataset(
    name: str, folders: Sequence[Path], options: Sequence[str], channels: Mapping[str, str]
) -> list[Source]:
    """Return the recordings of local copies of a dataset."""
    about = described(name)
    reader = opt.parse_dataset_options(options, "--dataset-option")
    entries = [entry for folder in folders for entry in about.entries(folder, **reader)]
    if not entries:
        raise InputError(f"{folders[0]} holds no recording of {name}. See: stageguard doctor --data {name}")
    names = [re.sub(r"[^\w.+-]+", "_", entry.id).strip("._") or "recording" for entry in entries]
    both = zip(entries, names, strict=True)
    return [Source(entry.id, name, entry.files, entry, channels) for entry, name in both]


def _read(source: Source, stager: NamedStager) -> Recording | Features | Path:
    """Return a recording of a dataset, the path of a recording, or a table of a network's features."""
    if source.entry is not None:
        recording: Recording = source.entry.read().with_channels(source.channels)
        return recording
    (file,) = source.files
    if file.suffix.lower() not in SUFFIXES:
        return file
    if not stager.card_sha256:
        raise InputError(f"{file.name}: is a table of features, which only a trained network can stage.")
    return read_features(file, only=stager.load().card.features.names)


def _review_line(tasks: Sequence[StageTask]) -> str:
    """Return how to review what was staged, one night with its signals."""
    first = tasks[0]
    if len(tasks) > 1:
        return f"stageguard review {quote(str(first.output.parent))}"
    recording = first.files[0]
    signals = f" --edf {quote(str(recording))}" if recording.suffix.lower() == ".edf" else ""
    return f"stageguard review {quote(str(first.beside('.hypnogram.tsv')))}{signals}"
