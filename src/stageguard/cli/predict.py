"""`stageguard predict`: a trained network and feature tables in, hypnograms out. Parses and prints only."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stageguard.cli._options import AsJson, Cohort, Overwrite

if TYPE_CHECKING:
    from stageguard.hypnodensity import Hypnodensity
    from stageguard.nn.checkpoint import TrainedModel
    from stageguard.profile import Profile

DENSITY_SUFFIX = ".hypnodensity.csv"

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder `train` wrote.")]
Recordings = Annotated[
    list[Path],
    typer.Argument(metavar="RECORDINGS", help="Feature tables (CSV, TSV or .npz), or folders of them."),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="For the outputs.")]
Decoder = Annotated[
    str | None,
    typer.Option("--profile", "-p", metavar="NAME", help="Decode with this one, not the model's own."),
]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to compute.")]


def predict(
    model: Model,
    recordings: Recordings,
    output: Output,
    profile: Decoder = None,
    cohort: Cohort = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Stage recordings with a trained network, then decode.

    Writes NAME.hypnodensity.csv, NAME.hypnogram.tsv and NAME.hypnogram.json for each recording.
    """
    from stageguard.cli._present import print_cohort, print_night, print_problems
    from stageguard.cli._terminal import print_json, progress
    from stageguard.errors import InputError
    from stageguard.nn.checkpoint import load_model
    from stageguard.nn.data import SUFFIXES
    from stageguard.nn.options import DEVICES
    from stageguard.nn.training import pick_device
    from stageguard.profile import Profile

    if device not in DEVICES:
        raise typer.BadParameter(f"--device is {device!r}, expected auto, cpu or cuda.")
    network = load_model(model, device=pick_device(device))
    decoder = network.card.profile if profile is None else Profile.load(profile)
    files = [file for path in recordings for file in _files(path, SUFFIXES)]
    if not files:
        raise InputError(
            f"{recordings[0]} holds no feature table. Expected files named {', '.join(SUFFIXES)}."
        )
    twins = [file for k, file in enumerate(files) if file.stem in {other.stem for other in files[:k]}]
    if twins:
        raise InputError(f"{twins[0]}: another recording has the same output. Stage it into another folder.")
    reports = [
        _stage(file, network, decoder, cohort, output, overwrite=overwrite)
        for file in progress(files, "Staging", len(files), quiet=as_json)
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


def _files(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix.lower() in suffixes)


def _stage(
    file: Path, model: TrainedModel, profile: Profile, cohort: str | None, output: Path, *, overwrite: bool
) -> dict[str, Any]:
    """Stage one recording and write its outputs; a failure comes back as its one-line `error`."""
    from stageguard.cli._terminal import error_text
    from stageguard.errors import StageGuardError, StageGuardWarning

    began = time.perf_counter()
    report: dict[str, Any] = {"file": str(file), "ok": False}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StageGuardWarning)
        try:
            report |= _stage_and_write(file, model, profile, cohort, output / file.stem, overwrite=overwrite)
        except (StageGuardError, OSError) as error:
            report["error"] = error_text(error, file).replace(
                f"{file.name}: {file.stem}: ", f"{file.name}: ", 1
            )
            return report
    report["warnings"] = [str(w.message) for w in caught if issubclass(w.category, StageGuardWarning)]
    report["seconds"] = time.perf_counter() - began
    report["ok"] = True
    return report


def _stage_and_write(
    file: Path, model: TrainedModel, profile: Profile, cohort: str | None, place: Path, *, overwrite: bool
) -> dict[str, Any]:
    from stageguard._files import write_together
    from stageguard.cli._decode_file import DecodeOptions, describe
    from stageguard.decoding import decode
    from stageguard.errors import OutputExistsError
    from stageguard.formats.outputs import output_paths, write_decoding
    from stageguard.nn.data import read_features

    table = read_features(file)
    density = model.density(table)
    decoding = decode(density, profile, cohort=cohort, trained=model.card.trained)
    assert table.epochs is not None
    first = int(table.epochs[0])
    notes = [
        f"staged by {model.card.backbone}, trained on {model.card.trained} stage frequencies, "
        f"temperature {model.card.temperature:.3f}",
        *([f"the table begins with epoch {first}, which is epoch 0 here"] if first else []),
    ]
    densities = place.with_name(place.name + DENSITY_SUFFIX)
    # the table goes first: the hypnogram's sidecar names it as what was decoded, so that verify finds it
    files = output_paths(place)
    held = [path for path in (files.tsv, files.sidecar) if path.exists()]
    if held and not overwrite:
        raise OutputExistsError(f"{held[0]} exists already. Pass overwrite=True to replace it.")
    write_together({densities: _density_text(density)}, overwrite=overwrite, make_folders=True)
    written = write_decoding(
        decoding,
        place,
        source_path=densities,
        overwrite=overwrite,
        options=DecodeOptions(
            epoch_seconds=density.epoch_seconds, cohort=cohort, trained=model.card.trained
        ).to_dict(),
        notes=notes,
    )
    outputs = {"density": str(densities), "tsv": str(written.tsv), "json": str(written.sidecar)}
    return describe(decoding) | {"outputs": outputs, "notes": notes}


def _density_text(density: Hypnodensity) -> str:
    """Stage-named columns, a row per epoch, empty where there is no evidence; digits read back exactly."""
    rows = (
        ",".join("" if value != value else repr(value) for value in row)
        for row in density.probabilities.tolist()
    )
    return "\n".join([",".join(density.scheme.names), *rows]) + "\n"
