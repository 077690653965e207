"""`stageguard stage`: recordings in, hypnograms out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import click
from click import UsageError

from stageguard.base.errors import InputError
from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.commands.decode import end_decoding, run_source
from stageguard.cli.recordings import channel_option, dataset_option, dataset_option_option
from stageguard.cli.terminal import JsonList, one_line
from stageguard.datasets import entries
from stageguard.formats.recordings.read import SUFFIXES as RECORDING_SUFFIXES
from stageguard.nn.data import SUFFIXES, feature_files, read_features
from stageguard.pipeline import QualityRules
from stageguard.profile.profile import Profile
from stageguard.runner.decode_files import FileSource
from stageguard.runner.manifest import MOST_IN_FULL
from stageguard.runner.run import check_folder
from stageguard.runner.stage_files import NamedStager, StageTask, StagingOptions, stage_task


@command
@click.argument(
    "recordings",
    nargs=-1,
    required=True,
    type=opt.PATH,
    help="Recordings (EDF, WFDB) or folders of them; for a network also feature tables (CSV, TSV, .npz).",
)
@option(
    "--stager",
    "stagers",
    metavar="NAME|MODEL",
    multiple=True,
    default=("yasa",),
    help="yasa, sleepecg, luna-pops, or the folder `train` wrote. Repeat it to combine several.",
)
@option("--output", "-o", metavar="FOLDER", type=opt.PATH, required=True, help="For the outputs.")
@option("--profile", "-p", metavar="NAME", help="Decode with this one, not the one that fits the stager.")
@opt.cohort
@option(
    "--channels",
    "derivations",
    metavar="C4-M1,C3-M2",
    help="The EEG to stage; several derivations are staged one by one and combined.",
)
@channel_option
@option(
    "--age", metavar="YEARS", type=click.FloatRange(min=0, max=130), help="Of the sleeper, if not recorded."
)
@option("--sex", type=click.Choice(["F", "M"]), help="Of the sleeper, if not recorded.")
@option("--report/--no-report", default=True, help="Whether to write a page about each night.")
@dataset_option
@dataset_option_option
@option(
    "--quality",
    metavar="graded|kdd2026|none",
    help="How to judge signals. Default: graded, with a kdd2026 profile kdd2026.",
)
@option(
    "--temperature/--no-temperature",
    default=None,
    help="Whether to soften a network as training found best. Default: yes, with a kdd2026 profile no.",
)
@option("--device", type=opt.DEVICE, default="auto", help="Where a network computes.")
@opt.overwrite
@opt.jobs
@opt.scheduler
@opt.as_json
def stage(
    recordings: tuple[Path, ...],
    stagers: tuple[str, ...],
    output: Path,
    profile: str | None,
    cohort: str | None,
    derivations: str | None,
    channel: tuple[str, ...],
    age: float | None,
    sex: str | None,
    report: bool,
    dataset: str | None,
    dataset_option: tuple[str, ...],
    quality: str | None,
    temperature: bool | None,
    device: str,
    overwrite: bool,
    jobs: int,
    scheduler: str | None,
    as_json: bool,
) -> None:
    """Stage recordings, then guard the stages.

    Finds the channels a stager needs by their names, stages, judges the signals, and decodes with the profile
    that fits the stager. Writes NAME.hypnodensity.csv, NAME.hypnogram.tsv with its .json, and
    NAME.report.html for each recording. A second call stages nothing again.

    Examples
    --------
    stageguard stage night.edf --stager yasa --output staged
    stageguard stage recordings --stager model --output staged --jobs 0
    """
    if quality not in (None, "graded", "kdd2026", "none"):
        raise UsageError(f"--quality is {quality!r}, expected graded, kdd2026 or none.")
    known = {"age": age, "sex": sex}
    options = StagingOptions(
        _channels(channel, derivations),
        {name: value for name, value in known.items() if value is not None},
        cast("QualityRules | None", quality),
        temperature,
    )
    named = tuple(NamedStager.of(name, device) for name in stagers)
    for stager in named:
        stager.profile()  # refuses a stager that does not exist before anything is read
    check_folder(output)
    dataset_options = opt.parse_dataset_options(dataset_option, "--dataset-option")
    endings = (*RECORDING_SUFFIXES, *(SUFFIXES if named[0].card_sha256 else ()))
    found = _find(recordings, dataset, dataset_options, output, endings)
    tasks = [
        StageTask(
            path,
            place,
            named,
            partial(_read, read, path, named[0]),
            None if profile is None else Profile.load(profile),
            options,
            cohort,
            overwrite=overwrite,
            report=report,
            durable=len(found) == 1,
            shares_profile=len(found) > 1,
            in_full=as_json or len(found) <= MOST_IN_FULL,
        )
        for path, place, read in found
    ]
    with JsonList(wanted=as_json) as printed:
        source = FileSource(tasks, output if len(tasks) > 1 else None, one_line, stage_task)
        manifest = run_source(
            source,
            jobs,
            scheduler,
            n_nights=len(tasks),
            as_json=as_json,
            show=printed.add_outcome,
            what="Staging",
        )
    next_steps = [] if as_json or not manifest.nights else [_review_line(tasks)]
    end_decoding(manifest, as_json=as_json, next_steps=next_steps)


def _channels(pairs: Sequence[str], derivations: str | None) -> dict[str, str | list[str]]:
    """Return the channels by role; --channels are those of the EEG."""
    channels: dict[str, str | list[str]] = dict(
        opt.parse_pairs(pairs, "--channel", "ROLE=LABEL such as eeg=C4-M1")
    )
    if derivations is None:
        return channels
    if "eeg" in channels:
        raise UsageError("--channels and --channel eeg=... both name the EEG. Keep one.")
    labels = [label.strip() for label in derivations.split(",")]
    if not all(labels):
        raise UsageError(f"--channels is {derivations!r}, expected names such as C4-M1,C3-M2.")
    return channels | {"eeg": labels}


def _find(
    paths: Sequence[Path],
    dataset: str | None,
    options: Mapping[str, Any],
    folder: Path,
    endings: Sequence[str],
) -> list[tuple[Path, Path, Any]]:
    """Return the file, the place of the outputs and the reader (None for a file) of each recording."""
    if dataset is None:
        if options:
            raise UsageError("--dataset-option needs --dataset: say which dataset it is.")
        files = [file for path in paths for file in _files(path, endings)]
        return [(file, folder / file.stem, None) for file in files]
    found = []
    for path in paths:
        listed = list(entries(dataset, path, **options))
        if not listed:
            raise InputError(f"{path} holds no recording of {dataset}. See: stageguard data show {dataset}")
        found += [(entry.files[0], folder / entry.id, entry.read) for entry in listed]
    return found


def _files(path: Path, endings: Sequence[str]) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = feature_files(path, endings)
    if not files:
        raise InputError(f"{path} holds nothing to stage. Expected files named {', '.join(endings)}.")
    return files


def _read(read: Any, path: Path, stager: NamedStager) -> Any:
    """Return a recording of a dataset, the path of a recording, or a table of a network's features."""
    if read is not None:
        return read()
    if path.suffix.lower() not in SUFFIXES:
        return path
    if not stager.card_sha256:
        raise InputError(f"{path.name}: is a table of features, which only a trained network can stage.")
    return read_features(path, choose=stager.load().card.columns)


def _review_line(tasks: Sequence[StageTask]) -> str:
    """Return how to review what was staged, one night with its signals."""
    first = tasks[0]
    if len(tasks) > 1:
        return f"Review:  stageguard review {first.output.parent}"
    signals = f" --edf {first.path}" if first.path.suffix.lower() == ".edf" else ""
    return f"Review:  stageguard review {first.beside('.hypnogram.tsv')}{signals}"
