"""`stageguard features`: recordings in, what a network sees of them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from stageguard.base.errors import InputError, OutputExistsError, did_you_mean
from stageguard.cli.options import AsJson, Overwrite, check_epoch_seconds
from stageguard.cli.present import end, run_shown
from stageguard.cli.recordings import (
    Channel,
    DatasetName,
    DatasetOption,
    Jobs,
    Recordings,
    Scoring,
    Source,
    find_sources,
)
from stageguard.cli.terminal import console, count, one_line, print_json, print_list, table
from stageguard.formats.hypnogram import HypnogramOptions
from stageguard.formats.read import read_hypnogram_file
from stageguard.measures.experts import consensus
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Recording
from stageguard.runner.run import Outcome, succeeded
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
        metavar="SECONDS", callback=check_epoch_seconds, help="Epoch length. Default: the recipe's."
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
    outcomes = run_shown(
        partial(extract_one, request),
        sources,
        "Extracting",
        quiet=as_json,
        output_of=lambda source: source.output,
        jobs=jobs,
    )
    if as_json:
        print_json([outcome.to_dict() for outcome in outcomes])
    else:
        _print(succeeded(outcomes))
    end(outcomes, as_json=as_json)


@dataclass(frozen=True, slots=True)
class ExtractedRecording:
    """A recording whose features were written."""

    recording: str
    subject: str
    is_synthetic: bool
    recipe_name: str
    recipe_sha256: str
    n_epochs: int
    epoch_seconds: float
    n_frames: int
    features: tuple[str, ...]
    scaling: str
    n_without_signal: int
    n_scored: int
    notes: tuple[str, ...]
    output: Path

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        return {
            "recording": self.recording,
            "subject": self.subject,
            "is_synthetic": self.is_synthetic,
            "recipe": {"name": self.recipe_name, "sha256": self.recipe_sha256},
            "n_epochs": self.n_epochs,
            "epoch_seconds": self.epoch_seconds,
            "n_frames": self.n_frames,
            "n_features": len(self.features),
            "features": list(self.features),
            "scaling": self.scaling,
            "n_without_signal": self.n_without_signal,
            "n_scored": self.n_scored,
            "notes": list(self.notes),
            "output": str(self.output),
        }


def extract_one(request: Request, source: Source) -> ExtractedRecording:
    """Compute the features of one recording and write them."""
    path = source.folder / (source.id + request.suffix)
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
    return ExtractedRecording(
        recording.id,
        recording.subject,
        recording.is_synthetic,
        made.recipe.name,
        made.recipe.sha256,
        made.n_epochs,
        made.epoch_seconds,
        int(made.values.shape[1]),
        tuple(made.names),
        made.scaling,
        int((~made.has_signal).sum()),
        0 if scoring is None else int((scoring.labels[: made.n_epochs] >= 0).sum()),
        (*notes, *remarks),
        path,
    )


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


def _print(done: Sequence[Outcome[ExtractedRecording]]) -> None:
    if not done:
        return
    out, first = console(), done[0].result
    out.print(
        f"Recipe {first.recipe_name} ({first.recipe_sha256[:12]}): {count(len(first.features), 'feature')}, "
        f"{count(first.n_frames, 'frame')} per epoch of {first.epoch_seconds:g} s, scaling {first.scaling}"
    )
    numbers = ("epochs", "no signal", "scored", "seconds")
    shown = table("recording", "subject", *numbers, right=numbers)
    for outcome in done:
        made = outcome.result
        name = one_line(made.recording) + (" (synthetic)" if made.is_synthetic else "")
        cells = (f"{number:,}" for number in (made.n_epochs, made.n_without_signal, made.n_scored))
        shown.add_row(name, one_line(made.subject), *cells, f"{outcome.seconds:.1f}")
    out.print(shown)
    if len(done) == 1:
        print_list(out, "Assumed", first.notes)
    warned = [f"{each.result.recording}: {one_line(text)}" for each in done for text in each.warnings]
    print_list(out, "Warning", warned)
    if len(done) == 1:
        print_list(out, "Wrote", [first.output])
    else:
        out.print(f"Wrote {count(len(done), 'feature table')} to {first.output.parent}")
