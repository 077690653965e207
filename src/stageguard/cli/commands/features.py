"""`stageguard features`: recordings in, feature tables for networks out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import click

from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.outcomes import finish, run_shown
from stageguard.cli.recordings import (
    RecordingOptions,
    Source,
    recording_jobs_option,
    recording_options,
    recordings_argument,
)
from stageguard.cli.terminal import Console, count, one_line
from stageguard.errors import InputError, did_you_mean
from stageguard.measures.experts import consensus
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Recording
from stageguard.runner.executors import Cluster
from stageguard.runner.run import Outcome
from stageguard.signals.features import Recipe, recipes, write_features
from stageguard.signals.features import features as compute


def _print_recipes(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if not is_asked or ctx.resilient_parsing:
        return
    rows = [
        (recipe.name, recipe.modality, f"{recipe.epoch_seconds:g} s", recipe.summary)
        for recipe in map(Recipe.load, recipes())
    ]
    Console().table(("recipe", "modality", ">epoch", "what"), rows)
    ctx.exit()


@command
@recordings_argument
@option("--recipe", "-r", metavar="NAME", required=True, help="Name (see --recipes) or a .toml file.")
@option("--output", "-o", metavar="FOLDER", type=opt.PATH, required=True, help="For the feature tables.")
@option(
    "--recipes",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_recipes,
    help="List built-in recipes and exit.",
)
@option("--epoch-seconds", metavar="SECONDS", type=opt.SECONDS, help="Epoch length. Default: the recipe's.")
@recording_options
@option("--scorer", metavar="NAME", help="Whose stages to write. Default: the only one's, or the consensus.")
@opt.overwrite
@recording_jobs_option
@opt.cluster
@opt.as_json
def features(
    recordings: tuple[Path, ...],
    recipe: str,
    output: Path,
    epoch_seconds: float | None,
    options: RecordingOptions,
    scorer: str | None,
    overwrite: bool,
    jobs: int,
    cluster: Cluster | None,
    as_json: bool,
) -> None:
    """Turn recordings into feature tables, with stages if they are scored.

    Writes NAME.npz for each recording, which `train` and `predict` read.

    Examples
    --------
    stageguard features wrists --dataset sleep-accel --recipe actigraphy --output tables
    """
    loaded = Recipe.load(recipe)
    sources = options.find(recordings, output)
    outcomes = run_shown(
        partial(_extract, loaded, epoch_seconds, scorer, overwrite),
        sources,
        "Extracting",
        quiet=as_json,
        output_of=attrgetter("output"),
        jobs=jobs,
        cluster=cluster,
    )
    finish(outcomes, _show, as_json=as_json)


@dataclass(frozen=True, slots=True)
class ExtractedRecording:
    """A recording whose features were written."""

    recording: str
    subject: str
    is_synthetic: bool
    recipe: Mapping[str, str]
    n_epochs: int
    epoch_seconds: float
    n_frames: int
    n_features: int
    features: tuple[str, ...]
    scaling: str
    n_without_signal: int
    n_scored: int
    notes: tuple[str, ...]
    output: Path

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        return asdict(self) | {"output": str(self.output)}


def _extract(
    recipe: Recipe,
    epoch_seconds: float | None,
    scorer: str | None,
    overwrite: bool,
    source: Source,
) -> ExtractedRecording:
    """Compute the features of one recording and write them."""
    path = source.new_file(".npz", overwrite=overwrite)
    recording, notes = source.read()
    length = epoch_seconds or recipe.epoch_seconds
    made = compute(recording, recipe, epoch_seconds=length)
    scoring, remarks = _scoring(recording, scorer, length)
    write_features(made, path, scoring=scoring, is_synthetic=recording.is_synthetic, overwrite=overwrite)
    return ExtractedRecording(
        recording=recording.id,
        subject=recording.subject,
        is_synthetic=recording.is_synthetic,
        recipe={"name": recipe.name, "sha256": recipe.sha256},
        n_epochs=made.n_epochs,
        epoch_seconds=length,
        n_frames=int(made.values.shape[1]),
        n_features=len(made.names),
        features=tuple(made.names),
        scaling=made.scaling,
        n_without_signal=int((~made.has_signal).sum()),
        n_scored=0 if scoring is None else int((scoring.labels[: made.n_epochs] >= 0).sum()),
        notes=(*notes, *remarks),
        output=path,
    )


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


def _show(done: Sequence[Outcome[ExtractedRecording]], out: Console) -> None:
    first = done[0].result
    out.print(
        f"Recipe {first.recipe['name']} ({first.recipe['sha256'][:12]}): "
        f"{count(first.n_features, 'feature')}, "
        f"{count(first.n_frames, 'frame')} per epoch of {first.epoch_seconds:g} s, scaling {first.scaling}"
    )
    rows = []
    for outcome in done:
        made = outcome.result
        name = made.recording + (" (synthetic)" if made.is_synthetic else "")
        counts = made.n_epochs, made.n_without_signal, made.n_scored
        rows.append((name, made.subject, *counts, f"{outcome.seconds:.1f}"))
    out.table(("recording", "subject", ">epochs", ">no signal", ">scored", ">seconds"), rows)
    if len(done) == 1:
        out.list("Assumed", first.notes)
    warned = [f"{each.result.recording}: {one_line(text)}" for each in done for text in each.warnings]
    out.list("Warning", warned)
    if len(done) == 1:
        out.list("Wrote", [first.output])
    else:
        out.print(f"Wrote {count(len(done), 'feature table')} to {first.output.parent}")
