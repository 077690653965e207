"""`stageguard train`: feature tables in, a network out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.terminal import Console, error_text, print_error, print_json, progress_bar
from stageguard.files import exists_error
from stageguard.nn.data import dataset_tables, read_folder
from stageguard.nn.options import TrainingConfig, read_config
from stageguard.profile.profile import Profile, as_profile
from stageguard.runner.run import collect_warnings
from stageguard.signals.features import Features, Recipe

if TYPE_CHECKING:
    from stageguard.nn.model import ModelCard
    from stageguard.nn.training import TrainingProgress


@command
@click.argument("config", metavar="CONFIG.toml", type=opt.HERE, help="What to train, and on what.")
@opt.output("FOLDER", "For the network. Default: what the file says.", opt.HERE)
@option("--onnx", metavar="MODEL.onnx", type=opt.PATH, help="Also write the network as one ONNX file.")
@option("--small", is_flag=True, help="The size for a computer without a GPU.")
@option("--device", type=opt.DEVICE, help="Where to compute. Default: what the file says.")
@opt.overwrite
@opt.as_json
def train(
    config: Path,
    output: Path | None,
    onnx: Path | None,
    small: bool,
    device: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Train a staging network on feature tables, or on the recordings of a dataset.

    Writes model.safetensors, model.json and log.jsonl. An interrupted run goes on where it stopped. The ONNX
    file stages without torch.

    Examples
    --------
    stageguard train config.toml --small --onnx model.onnx
    """
    from stageguard.nn.training import check_output, pick_device  # which loads torch
    from stageguard.nn.training import train as run

    configured = read_config(config)
    options, folder = configured.options, output or Path(configured.output)
    if small:
        options = replace(options, network=dict(options.network) | {"small": True})
    if device is not None:
        options = replace(options, device=cast(Any, device))  # which click has checked
    pick_device(options.device)
    check_output(folder, overwrite=overwrite)  # before features are computed, which may take hours
    if onnx is not None and onnx.exists() and not overwrite:
        raise exists_error(onnx)
    tables = _tables(configured, as_profile(options.profile), config.parent, quiet=as_json)
    with collect_warnings() as warned, progress_bar("Training", quiet=as_json) as move_bar:
        watch = _watcher(move_bar, quiet=as_json)
        model = run(tables, options, folder, overwrite=overwrite, report=watch)
    written = [folder / name for name in ("model.safetensors", "model.json", "log.jsonl")]
    if onnx is not None:
        from stageguard.nn.onnx import export_onnx

        written.append(export_onnx(model, onnx, overwrite=overwrite))
    _print(model.card, written, warned, as_json=as_json)


def _tables(said: TrainingConfig, profile: Profile, folder: Path, *, quiet: bool) -> list[Features]:
    """Return the tables to train on, as configured; print recordings that cannot be used."""
    if said.dataset is None:
        return read_folder(Path(said.data), profile.scheme)
    name = said.recipe
    recipe = Recipe.load(folder / name if name.endswith(".toml") else name)
    tables = []
    for entry, table in dataset_tables(
        said.dataset,
        Path(said.data),
        recipe,
        profile.scheme,
        epoch_seconds=said.epoch_seconds,
        options=said.dataset_options,
    ):
        if isinstance(table, Exception):
            print_error(f"left out: {error_text(table)}")
            continue
        tables.append(table)
        if not quiet:
            print(f"features of {entry.id}", file=sys.stderr)
    return tables


def _watcher(move_bar: Callable[..., None], *, quiet: bool) -> Callable[[TrainingProgress], None]:
    """Return a function that shows the parts of the loss on a bar, or without a bar a line per evaluation."""
    kappa, has_bar = "", sys.stderr.isatty() and not quiet

    def watch(progress: TrainingProgress) -> None:
        nonlocal kappa
        parts = progress.parts if has_bar or progress.means is None else progress.means
        losses = "  ".join(f"{name} {value:.3f}" for name, value in parts.items())
        if progress.score is not None:
            kappa = f"  validation kappa {progress.score.kappa:.3f}"
        text = f"{losses}{kappa}".replace("_", "-")
        move_bar(total=progress.n_steps, completed=progress.step, description=text)
        if not has_bar and progress.score is not None and not quiet:
            print(f"step {progress.step} of {progress.n_steps}: {text}", file=sys.stderr)

    return watch


def _print(card: ModelCard, written: Sequence[Path], remarks: Sequence[str], *, as_json: bool) -> None:
    training = card.training
    if as_json:
        report = {key: value for key, value in training.items() if key != "options"}
        print_json(
            report | {"output": str(written[0].parent), "temperature": card.temperature, "warnings": remarks}
        )
        return
    out = Console()
    out.print(
        f"Trained {training['options']['backbone']} on {training['n_training_recordings']} of "
        f"{training['n_recordings']} recordings, {training['n_training_subjects']} of "
        f"{training['n_subjects']} subjects: kappa {training['best_kappa']:.3f} on the others, at step "
        f"{training['best_step']} of {training['stopped_at']}."
    )
    out.list("Warning", remarks)
    out.list("Wrote", written)
