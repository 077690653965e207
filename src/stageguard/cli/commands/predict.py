"""`stageguard predict`: a trained network and recordings in, hypnograms out. Parses and prints only."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stageguard.base.errors import OutputExistsError, StageGuardWarning
from stageguard.cli.decode_file import DecodeOptions, describe
from stageguard.cli.options import AsJson, Cohort, Device, Overwrite
from stageguard.cli.present import print_cohort, print_night, print_problems
from stageguard.cli.staging import Input, find_inputs, prepare
from stageguard.cli.terminal import failure_text, one_line, print_json, progress
from stageguard.formats.outgoing import Outgoing
from stageguard.formats.outputs import output_paths, write_decoding
from stageguard.formats.own_table import table_text
from stageguard.guard.decode import decode
from stageguard.profile.profile import Profile

if TYPE_CHECKING:
    from stageguard.nn.checkpoint import TrainedModel

DENSITY_SUFFIX = ".hypnodensity.csv"

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder `train` wrote.")]
Recordings = Annotated[
    list[Path],
    typer.Argument(
        metavar="RECORDINGS",
        help="Recordings (EDF, WFDB), feature tables (CSV, TSV, .npz), or folders of them.",
    ),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="For the outputs.")]
Decoder = Annotated[
    str | None,
    typer.Option("--profile", "-p", metavar="NAME", help="Decode with this one, not the model's own."),
]
DatasetName = Annotated[
    str | None,
    typer.Option("--dataset", metavar="NAME", help="The folders hold this dataset, in its own layout."),
]
Channels = Annotated[
    list[str] | None,
    typer.Option(
        "--channel", metavar="ROLE=LABEL", help="Which channel of the files plays a role, such as eeg."
    ),
]
Rules = Annotated[
    str | None,
    typer.Option(
        "--quality",
        metavar="graded|kdd2026|none",
        help="How to judge signals. Default: graded, with a kdd2026 profile kdd2026.",
    ),
]
ComputeOn = Annotated[Device, typer.Option("--device", help="Where to compute.")]


def predict(
    model: Model,
    recordings: Recordings,
    output: Output,
    profile: Decoder = None,
    cohort: Cohort = None,
    dataset: DatasetName = None,
    channel: Channels = None,
    quality: Rules = None,
    device: ComputeOn = Device.auto,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Stage recordings with a trained network, then decode.

    A recording's signal quality and features are computed first, by the recipe the network was trained with.
    Writes NAME.hypnodensity.csv, NAME.hypnogram.tsv and NAME.hypnogram.json for each recording.
    """
    from stageguard.nn.checkpoint import load_model  # loads torch, as the next
    from stageguard.nn.training import pick_device

    if quality not in (None, "graded", "kdd2026", "none"):
        raise typer.BadParameter(f"--quality is {quality!r}, expected graded, kdd2026 or none.")
    network = load_model(model, device=pick_device(device))
    decoder = network.card.profile if profile is None else Profile.load(profile)
    if quality is None:
        quality = "kdd2026" if decoder.reproduces_paper else "graded"
    inputs = find_inputs(recordings, dataset, _pairs(channel or []))
    reports = [
        _stage(one, network, decoder, cohort, quality, output, overwrite=overwrite)
        for one in progress(inputs, "Staging", len(inputs), quiet=as_json)
    ]
    if as_json:
        print_json([{key: value for key, value in report.items() if key != "table"} for report in reports])
    elif len(reports) > 1:
        print_cohort(reports)
    elif reports[0]["ok"]:
        print_night(reports[0])
    print_problems(reports, as_json=as_json)
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)


def _pairs(given: list[str]) -> dict[str, str]:
    """Return labels by role."""
    pairs = {}
    for one in given:
        role, equals, label = one.partition("=")
        if not (equals and role.strip() and label.strip()):
            raise typer.BadParameter(f"--channel is {one!r}, expected ROLE=LABEL such as eeg=C4-M1.")
        pairs[role.strip()] = label.strip()
    return pairs


def _stage(
    one: Input,
    model: TrainedModel,
    profile: Profile,
    cohort: str | None,
    quality: str,
    output: Path,
    *,
    overwrite: bool,
) -> dict[str, Any]:
    """Stage one recording and write its outputs; a failure comes back as its one-line `error`."""
    began = time.perf_counter()
    report: dict[str, Any] = {"file": str(one.path), "ok": False}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StageGuardWarning)
        try:
            place = output / one.name
            report |= _stage_and_write(one, model, profile, cohort, quality, place, overwrite=overwrite)
        except Exception as error:
            report["error"] = failure_text(error, one.path).replace(
                f"{one.path.name}: {one.name}: ", f"{one.path.name}: ", 1
            )
            return report
    report["warnings"] = [one_line(w.message) for w in caught if issubclass(w.category, StageGuardWarning)]
    report["seconds"] = time.perf_counter() - began
    report["ok"] = True
    return report


def _stage_and_write(
    one: Input,
    model: TrainedModel,
    profile: Profile,
    cohort: str | None,
    quality: str,
    place: Path,
    *,
    overwrite: bool,
) -> dict[str, Any]:

    files, densities = output_paths(place), place.with_name(place.name + DENSITY_SUFFIX)
    held = [path for path in (densities, files.tsv, files.sidecar) if path.exists()]
    if held and not overwrite:
        raise OutputExistsError(f"{held[0]} exists already. Use --overwrite to replace it.")
    prepared = prepare(one, model.card, quality)
    density = model.density(prepared.table)
    decoding = decode(density, profile, quality=prepared.beta, cohort=cohort, trained=model.card.trained)
    notes = [
        f"staged by {model.card.backbone}, trained on {model.card.trained} stage frequencies, "
        f"temperature {model.card.temperature:.3f}",
        *prepared.notes,
    ]
    options = DecodeOptions(
        epoch_seconds=density.epoch_seconds,
        quality=prepared.beta,
        cohort=cohort,
        trained=model.card.trained,
    )
    written = write_decoding(
        decoding,
        place,
        source_path=densities,  # named in the sidecar as what was decoded, so that verify finds it
        source_text=table_text(Outgoing(None, density)),
        overwrite=overwrite,
        options=options.to_dict(),
        quality=prepared.beta,
        notes=notes,
    )
    outputs = {"density": str(densities), "tsv": str(written.tsv), "json": str(written.sidecar)}
    return describe(decoding) | {"outputs": outputs, "notes": notes}
