"""`stageguard predict`: a trained network and recordings in, hypnograms out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from stageguard.base.errors import InputError
from stageguard.base.files import exists_error, file_sha256
from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.decoded import print_cohort, print_night
from stageguard.cli.outcomes import finish, run_shown
from stageguard.cli.recordings import RecordingOptions, Source, staging_options
from stageguard.formats.outgoing import Outgoing
from stageguard.formats.outputs import output_paths, write_decoding
from stageguard.formats.raw_night import FileOptions
from stageguard.formats.recordings.read import SUFFIXES as RECORDING_SUFFIXES
from stageguard.formats.tools.stageguard import table_text
from stageguard.night.recording import Recording
from stageguard.nn.data import SUFFIXES, feature_files, read_features
from stageguard.pipeline import QualityRules, stage
from stageguard.profile.profile import Profile
from stageguard.report.summary import summary_of
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.manifest import DecodedFile, ManifestRow
from stageguard.signals.features import Features

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
@staging_options
@option(
    "--quality",
    type=click.Choice(get_args(QualityRules)),
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
    options: RecordingOptions,
    quality: QualityRules | None,
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
    _loaded.cache_clear()  # the files may have changed since an earlier call
    network = NamedModel.of(model, device)
    guard = network.load().card.profile if profile is None else Profile.load(profile)
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
        options.find(recordings, output, _stageable),
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


def _stageable(folder: Path) -> list[Path]:
    """Return the recordings and feature tables in a folder."""
    wanted = (*SUFFIXES, *RECORDING_SUFFIXES)
    files = feature_files(folder, wanted)
    if not files:
        raise InputError(f"{folder} holds nothing to stage. Expected files named {', '.join(wanted)}.")
    return files


def stage_and_write(
    source: Source,
    *,
    network: NamedModel,
    profile: Profile,
    cohort: str | None,
    quality: QualityRules | None,
    temperature: bool | None,
    overwrite: bool,
) -> DecodedFile:
    """Stage one recording, guard it, and write its outputs."""
    files = output_paths(source.output)
    densities = source.output.with_name(source.output.name + DENSITY_SUFFIX)
    existing = [path for path in (densities, files.tsv, files.sidecar) if path.exists()]
    if existing and not overwrite:
        raise exists_error(existing[0])
    model = network.load()
    recording: Recording | Features
    if source.path is not None and source.path.suffix.lower() not in RECORDING_SUFFIXES:
        recording = read_features(source.path, choose=model.card.columns)
    else:
        recording, _ = source.read()
    staged = stage(recording, model, profile, quality=quality, temperature=temperature, cohort=cohort)
    beta = None if staged.quality is None else staged.quality.beta
    reading = FileOptions(epoch_seconds=staged.density.epoch_seconds)
    options = DecodeOptions(reading, quality=beta, cohort=cohort, trained=model.card.trained)
    summary = summary_of(staged.decoding)
    written = write_decoding(
        staged.decoding,
        source.output,
        source_path=densities,  # recorded in the sidecar, so that verify finds it
        source_text=table_text(Outgoing(None, staged.density)),
        overwrite=overwrite,
        options=options.to_dict() | {"staging": list(staged.notes)},
        quality=beta,
        joint_score=asdict(summary.joint),
        measured=summary.measures.to_dict(),
    )
    outputs = {"density": densities, "tsv": written.tsv, "json": written.sidecar}
    row = ManifestRow.of(source.id, source.file, staged.decoding, summary.measures)
    return DecodedFile.fresh(row, staged.decoding, outputs, staged.notes, summary=summary)
