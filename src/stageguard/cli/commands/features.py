"""`stageguard features`: recordings in, what a network sees of them out. Parses and prints only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from stageguard.base.errors import InputError, OutputExistsError, did_you_mean
from stageguard.cli.options import AsJson, Overwrite, _check_epoch_seconds
from stageguard.cli.present import print_problems
from stageguard.cli.recordings import (
    Channel,
    DatasetName,
    DatasetOption,
    Jobs,
    Recordings,
    Scoring,
    Source,
    find_sources,
    run_each,
)
from stageguard.cli.terminal import console, count, one_line, print_json, print_list, table
from stageguard.formats.hypnogram import HypnogramOptions
from stageguard.formats.read import read_hypnogram_file
from stageguard.measures.experts import consensus
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Recording
from stageguard.signals.features import features as compute
from stageguard.signals.features.recipe import Recipe, recipes
from stageguard.signals.features.tables import write_features


class Format(StrEnum):
    """Kinds of feature tables."""

    npz = "npz"
    tsv = "tsv"


def _print_recipes(wanted: bool) -> None:
    if wanted:
        shown = table("recipe", "modality", "epoch", "what", right=("epoch",))
        for recipe in map(Recipe.load, recipes()):
            shown.add_row(recipe.name, recipe.modality, f"{recipe.epoch_seconds:g} s", recipe.summary)
        console().print(shown)
        raise typer.Exit


RecipeName = Annotated[
    str, typer.Option("--recipe", "-r", metavar="NAME", help="Name (see --recipes) or a .toml file.")
]
ListRecipes = Annotated[
    bool,
    typer.Option("--recipes", callback=_print_recipes, is_eager=True, help="List built-in recipes and exit."),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="For the feature tables.")]
EpochSeconds = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", callback=_check_epoch_seconds, help="Epoch length. Default: the recipe's."
    ),
]
Calibration = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Stages of some epochs of the one recording, to scale its features by."
    ),
]
Scorer = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Whose stages to write. Default: the only one's, or the consensus."),
]
FormatOption = Annotated[Format, typer.Option("--format", help="TSV where an epoch is one frame.")]


@dataclass(frozen=True, slots=True)
class Request:
    """What to do with every recording."""

    recipe: Any
    epoch_seconds: float | None
    calibration: Path | None
    scorer: str | None
    suffix: str
    overwrite: bool


def features(
    recordings: Recordings,
    recipe: RecipeName,
    output: Output,
    recipes: ListRecipes = False,
    epoch_seconds: EpochSeconds = None,
    channel: Channel = None,
    dataset: DatasetName = None,
    dataset_option: DatasetOption = None,
    scoring: Scoring = None,
    scorer: Scorer = None,
    calibration: Calibration = None,
    format: FormatOption = Format.npz,
    overwrite: Overwrite = False,
    jobs: Jobs = 1,
    as_json: AsJson = False,
) -> None:
    """Turn recordings into feature tables, with their stages where they are scored.

    Writes NAME.npz for each recording: what `train` and `predict` read.
    """
    loaded = Recipe.load(recipe)
    sources = find_sources(recordings, dataset, dataset_option, channel, scoring, output)
    if calibration is not None and len(sources) != 1:
        raise typer.BadParameter("--calibration belongs to one recording: give the recordings one by one.")
    request = Request(loaded, epoch_seconds, calibration, scorer, f".{format}", overwrite)
    reports = run_each(partial(extract_one, request), sources, jobs, "Extracting", quiet=as_json)
    if as_json:
        print_json(reports)
    else:
        _print([report for report in reports if report["ok"]])
    print_problems(reports, as_json=as_json)
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)


def extract_one(request: Request, source: Source) -> dict[str, Any]:
    """Compute the features of one recording and write them; returns the report."""
    path = source.place / (source.name + request.suffix)
    if path.exists() and not request.overwrite:  # before the work, not after it
        raise OutputExistsError(f"{path} exists already. Use --overwrite to replace it.")
    recording, notes = source.read()
    length = request.epoch_seconds or request.recipe.epoch_seconds
    calibration = None
    if request.calibration is not None:
        calibration = _read_calibration(request.calibration, length)
    made = compute(recording, request.recipe, epoch_seconds=length, calibration=calibration)
    scoring, remarks = _scoring(recording, request.scorer, made.epoch_seconds)
    write_features(
        made, path, scoring=scoring, is_synthetic=recording.is_synthetic, overwrite=request.overwrite
    )
    return {
        "recording": recording.id,
        "subject": recording.subject,
        "is_synthetic": recording.is_synthetic,
        "recipe": {"name": made.recipe.name, "sha256": made.recipe.sha256},
        "n_epochs": made.n_epochs,
        "epoch_seconds": made.epoch_seconds,
        "n_frames": int(made.values.shape[1]),
        "n_features": len(made.names),
        "features": list(made.names),
        "scaling": made.scaling,
        "n_without_signal": int((~made.has_signal).sum()),
        "n_scored": 0 if scoring is None else int((scoring.labels[: made.n_epochs] >= 0).sum()),
        "notes": [*notes, *remarks],
        "output": str(path),
    }


def _read_calibration(path: Path, epoch_seconds: float) -> Hypnogram:

    return read_hypnogram_file(path, HypnogramOptions(default_epoch_seconds=epoch_seconds)).hypnogram


def _scoring(
    recording: Recording, scorer: str | None, epoch_seconds: float
) -> tuple[Hypnogram | None, list[str]]:
    """Return the stages to write, and remarks on where they come from."""
    nights = recording.scorings
    if scorer is not None:
        if scorer not in nights:
            known = ", ".join(nights) or "none"
            raise InputError(
                f"recording {recording.id!r} has no scorer {scorer!r}; it has: {known}."
                f"{did_you_mean(scorer, nights)}"
            )
        nights = {scorer: nights[scorer]}
    if not nights:
        return None, ["no scoring, so no stages"]
    fitting = {name: night for name, night in nights.items() if night.epoch_seconds == epoch_seconds}
    remarks = [
        f"scoring {name!r} left out: it has epochs of {night.epoch_seconds:g} s"
        for name, night in nights.items()
        if name not in fitting
    ]
    if len(fitting) < 2:
        return next(iter(fitting.values()), None), remarks
    merged = consensus(list(fitting.values()))
    return merged, [*remarks, f"stages are the {merged.scorer}"]


def _print(reports: Sequence[dict[str, Any]]) -> None:

    if not reports:
        return
    out = console()
    recipe, first = reports[0]["recipe"], reports[0]
    out.print(
        f"Recipe {recipe['name']} ({recipe['sha256'][:12]}): {count(first['n_features'], 'feature')}, "
        f"{count(first['n_frames'], 'frame')} per epoch of {first['epoch_seconds']:g} s, scaling "
        f"{first['scaling']}"
    )
    numbers = ("epochs", "no signal", "scored", "seconds")
    shown = table("recording", "subject", *numbers, right=numbers)
    for report in reports:
        name = one_line(report["recording"]) + (" (synthetic)" if report["is_synthetic"] else "")
        cells = (f"{report[key]:,}" for key in ("n_epochs", "n_without_signal", "n_scored"))
        shown.add_row(name, one_line(report["subject"]), *cells, f"{report['seconds']:.1f}")
    out.print(shown)
    if len(reports) == 1:
        print_list(out, "Assumed", first["notes"])
    print_list(out, "Warning", [f"{r['recording']}: {text}" for r in reports for text in r["warnings"]])
    if len(reports) == 1:
        print_list(out, "Wrote", [first["output"]])
    else:
        folder = Path(first["output"]).parent
        out.print(f"Wrote {count(len(reports), 'feature table')} to {folder}")
