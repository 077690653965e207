"""`stageguard predict`: a trained network and recordings in, hypnograms out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from click import UsageError

from stageguard.base.errors import InputError
from stageguard.base.files import exists_error, file_sha256
from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.decoded import print_cohort, print_night
from stageguard.cli.outcomes import finish, run_shown
from stageguard.cli.recordings import channel_option, dataset_option, dataset_option_option
from stageguard.datasets import entries
from stageguard.formats.outgoing import Outgoing
from stageguard.formats.outputs import output_paths, write_decoding
from stageguard.formats.raw_night import FileOptions
from stageguard.formats.recordings.read import SUFFIXES as RECORDING_SUFFIXES
from stageguard.formats.recordings.read import read_recording
from stageguard.formats.tools.stageguard import table_text
from stageguard.night.recording import Recording
from stageguard.nn.data import SUFFIXES, feature_files, read_features
from stageguard.pipeline import QualityRules, stage
from stageguard.profile.profile import Profile
from stageguard.report.summary import summary_of
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.manifest import DecodedFile, ManifestRow

if TYPE_CHECKING:
    from stageguard.nn.checkpoint import TrainedModel

DENSITY_SUFFIX = ".hypnodensity.csv"


@command
@click.argument("model", type=opt.PATH, help="The folder `train` wrote.")
@click.argument(
    "recordings",
    nargs=-1,
    required=True,
    type=opt.PATH,
    help="Recordings (EDF, WFDB), feature tables (CSV, TSV, .npz), or folders of them.",
)
@option("--output", "-o", metavar="FOLDER", type=opt.PATH, required=True, help="For the outputs.")
@option("--profile", "-p", metavar="NAME", help="Decode with this one, not the model's own.")
@opt.cohort
@dataset_option
@dataset_option_option
@channel_option
@option(
    "--quality",
    metavar="graded|kdd2026|none",
    help="How to judge signals. Default: graded, with a kdd2026 profile kdd2026.",
)
@option(
    "--temperature/--no-temperature",
    default=None,
    help="Whether to soften as training found best. Default: yes, with a kdd2026 profile no.",
)
@option("--device", type=opt.DEVICE, default="auto", help="Where to compute.")
@opt.overwrite
@opt.scheduler
@opt.as_json
def predict(
    model: Path,
    recordings: tuple[Path, ...],
    output: Path,
    profile: str | None,
    cohort: str | None,
    dataset: str | None,
    dataset_option: tuple[str, ...],
    channel: tuple[str, ...],
    quality: str | None,
    temperature: bool | None,
    device: str,
    overwrite: bool,
    scheduler: str | None,
    as_json: bool,
) -> None:
    """Stage recordings with a trained network, then decode.

    Signal quality and features are computed first, with the recipe that the network was trained with. Writes
    NAME.hypnodensity.csv, NAME.hypnogram.tsv and NAME.hypnogram.json for each recording.

    Examples
    --------
    stageguard predict model tables --output staged
    """
    if quality not in (None, "graded", "kdd2026", "none"):
        raise UsageError(f"--quality is {quality!r}, expected graded, kdd2026 or none.")
    _loaded.cache_clear()  # the files may have changed since an earlier call
    network = NamedModel.of(model, device)
    guard = network.load().card.profile if profile is None else Profile.load(profile)
    channels = opt.parse_pairs(channel, "--channel", "ROLE=LABEL such as eeg=C4-M1")
    dataset_options = opt.parse_dataset_options(dataset_option, "--dataset-option")
    tasks = find_tasks(recordings, dataset, channels, output, dataset_options)

    outcomes = run_shown(
        partial(
            stage_and_write,
            network=network,
            profile=guard,
            cohort=cohort,
            quality=quality,
            temperature=temperature,
            overwrite=overwrite,
        ),
        tasks,
        "Staging",
        quiet=as_json,
        output_of=attrgetter("output"),
        scheduler=scheduler,
    )
    finish(outcomes, print_cohort, show_one=print_night, as_json=as_json)


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A trained network by its folder, so that every process loads it once instead of being sent it."""

    path: Path
    device: str
    card_sha256: str

    @classmethod
    def of(cls, path: Path, device: str) -> NamedModel:
        """Return the network in a folder; `load` refuses a folder without one."""
        from stageguard.nn.checkpoint import CARD  # loads torch

        card = (path if path.is_dir() else path.parent) / CARD
        return cls(path.absolute(), device, file_sha256(card, "JSON") if card.is_file() else "")

    def load(self) -> TrainedModel:
        """Return the network, which the process keeps for the next recordings."""
        if NamedModel.of(self.path, self.device).card_sha256 not in ("", self.card_sha256):
            raise InputError(f"{self.path} holds another network than at the start. Stage the rest again.")
        return _loaded(self)


@lru_cache(maxsize=1)
def _loaded(named: NamedModel) -> TrainedModel:
    from stageguard.nn.checkpoint import load_model  # these two load torch
    from stageguard.nn.training import pick_device

    return load_model(named.path, device=pick_device(named.device))


@dataclass(frozen=True, slots=True)
class StageTask:
    """A feature table, or a recording that is read when needed, and where the outputs go."""

    path: Path
    output: Path
    read: Callable[[], Recording] | None = field(repr=False, default=None)  # None: a feature table
    error: str | None = None

    @property
    def file(self) -> str:
        """The path as text."""
        return str(self.path)

    @property
    def id(self) -> str:
        """The name of the outputs."""
        return self.output.name


def find_tasks(
    paths: Sequence[Path],
    dataset: str | None,
    channels: Mapping[str, str],
    folder: Path,
    options: Mapping[str, Any] | None = None,
) -> list[StageTask]:
    """Return the recordings and feature tables to stage, in order; `options` are the dataset's."""
    if dataset is None:
        if options:
            raise UsageError("--dataset-option needs --dataset: say which dataset it is.")
        return [_file_task(file, channels, folder) for path in paths for file in _files(path)]
    if channels:
        raise InputError(
            "--channel is for single files; a dataset knows its channels. Leave one of them out."
        )
    tasks: list[StageTask] = []
    for path in paths:
        listed = list(entries(dataset, path, **(options or {})))
        if not listed:
            raise InputError(f"{path} holds no recording of {dataset}. See: stageguard data show {dataset}")
        tasks += [StageTask(entry.files[0], folder / entry.id, entry.read) for entry in listed]
    return tasks


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    wanted = (*SUFFIXES, *RECORDING_SUFFIXES)
    files = feature_files(path, wanted)
    if not files:
        raise InputError(f"{path} holds nothing to stage. Expected files named {', '.join(wanted)}.")
    return files


def _file_task(file: Path, channels: Mapping[str, str], folder: Path) -> StageTask:
    is_recording = file.suffix.lower() in RECORDING_SUFFIXES
    read = partial(read_recording, file, channels=channels or None) if is_recording else None
    return StageTask(file, folder / file.stem, read)


def stage_and_write(
    task: StageTask,
    *,
    network: NamedModel,
    profile: Profile,
    cohort: str | None,
    quality: str | None,
    temperature: bool | None,
    overwrite: bool,
) -> DecodedFile:
    """Stage one recording, guard it, and write its outputs."""
    files = output_paths(task.output)
    densities = task.output.with_name(task.output.name + DENSITY_SUFFIX)
    existing = [path for path in (densities, files.tsv, files.sidecar) if path.exists()]
    if existing and not overwrite:
        raise exists_error(existing[0])
    model = network.load()
    recording = read_features(task.path, choose=model.card.columns) if task.read is None else task.read()
    rules = cast("QualityRules | None", quality)
    staged = stage(recording, model, profile, quality=rules, temperature=temperature, cohort=cohort)
    beta = None if staged.quality is None else staged.quality.beta
    reading = FileOptions(epoch_seconds=staged.density.epoch_seconds)
    options = DecodeOptions(reading, quality=beta, cohort=cohort, trained=model.card.trained)
    summary = summary_of(staged.decoding)
    written = write_decoding(
        staged.decoding,
        task.output,
        source_path=densities,  # recorded in the sidecar, so that verify finds it
        source_text=table_text(Outgoing(None, staged.density)),
        overwrite=overwrite,
        options=options.to_dict() | {"staging": list(staged.notes)},
        quality=beta,
        joint_score=asdict(summary.joint),
        measured=summary.measures.to_dict(),
    )
    outputs = {"density": densities, "tsv": written.tsv, "json": written.sidecar}
    row = ManifestRow.of(task.id, task.file, staged.decoding, summary.measures)
    return DecodedFile.fresh(row, staged.decoding, outputs, staged.notes, summary=summary)
