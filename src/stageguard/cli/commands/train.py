"""`stageguard train`: feature tables in, a network out."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from stageguard.base.errors import StageGuardWarning
from stageguard.cli.options import AsJson, Device, Overwrite
from stageguard.cli.terminal import console, error_text, one_line, print_error, print_json, print_list
from stageguard.datasets.dataset import Entry
from stageguard.nn.data import dataset_tables, read_folder
from stageguard.nn.feature_table import FeatureTable
from stageguard.nn.options import TrainingConfig, read_config
from stageguard.profile.profile import Profile
from stageguard.signals.features.recipe import Recipe

if TYPE_CHECKING:
    from stageguard.nn.training import Progress

Config = Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="What to train, and on what.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FOLDER", help="For the network. Default: what the file says."),
]
Small = Annotated[bool, typer.Option("--small", help="The size for a computer without a GPU.")]
ComputeOn = Annotated[
    Device | None, typer.Option("--device", help="Where to compute. Default: what the file says.")
]


def train(
    config: Config,
    output: Output = None,
    small: Small = False,
    device: ComputeOn = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Train a staging network on feature tables, or on the recordings of a dataset.

    Writes model.safetensors, model.json and log.jsonl. An interrupted run goes on where it was.
    """
    from stageguard.nn.run_state import check_output  # loads torch, as the next
    from stageguard.nn.training import pick_device
    from stageguard.nn.training import train as run

    said = read_config(config)
    options, folder = said.options, output or said.output
    if small:
        options = replace(options, network=dict(options.network) | {"small": True})
    if device is not None:
        options = replace(options, device=device.value)
    pick_device(options.device)
    check_output(folder, overwrite=overwrite)  # before features are computed, which may take hours
    tables = _tables(said, options.load_profile(), config.parent, quiet=as_json)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StageGuardWarning)
        with _Watcher(quiet=as_json) as watcher:
            model = run(tables, options, folder, overwrite=overwrite, report=watcher)
    remarks = [one_line(w.message) for w in caught if issubclass(w.category, StageGuardWarning)]
    _print(model.card.training, folder, len(tables), model.card.temperature, remarks, as_json)


def _tables(said: TrainingConfig, profile: Profile, folder: Path, *, quiet: bool) -> list[FeatureTable]:
    """Return what the configuration says to learn from; recordings that cannot be used are named."""
    if said.dataset is None:
        return read_folder(said.data, profile.scheme)

    def report(entry: Entry, failure: Exception | None) -> None:
        if failure is not None:
            print_error(f"left out: {error_text(failure)}")
        elif not quiet:
            print(f"features of {entry.id}", file=sys.stderr)

    name = said.options.recipe
    recipe = Recipe.load(folder / name if name.endswith(".toml") else name)
    length = said.options.epoch_seconds
    return dataset_tables(
        said.dataset, said.data, recipe, profile.scheme, epoch_seconds=length, on_recording=report
    )


class _Watcher:
    """A progress bar with the parts of the loss on a terminal, a line per evaluation elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._task: Any = None
        self._kappa = ""

    def __enter__(self) -> Callable[[Progress], None]:
        if not self._quiet and sys.stderr.isatty():
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Bar(*columns, console=console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("Training", total=None)
        return self._see

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _see(self, progress: Progress) -> None:
        shown = progress.parts if self._bar is not None or progress.means is None else progress.means
        parts = "  ".join(f"{name} {value:.3f}" for name, value in shown.items())
        if progress.score is not None:
            self._kappa = f"  validation kappa {progress.score.kappa:.3f}"
        if self._bar is not None:
            text = f"{parts}{self._kappa}".replace("_", "-")
            self._bar.update(self._task, total=progress.n_steps, completed=progress.step, description=text)
        elif progress.score is not None and not self._quiet:
            line = f"step {progress.step} of {progress.n_steps}: {parts}{self._kappa}"
            print(line.replace("_", "-"), file=sys.stderr)


def _print(
    training: Any, folder: Path, n_tables: int, temperature: float, remarks: list[str], as_json: bool
) -> None:

    if as_json:
        report = {key: value for key, value in training.items() if key != "options"}
        print_json(report | {"output": str(folder), "temperature": temperature, "warnings": remarks})
        return
    out = console()
    out.print(
        f"Trained {training['options']['backbone']} on {training['n_training_recordings']} of {n_tables} "
        f"recordings, {training['n_training_subjects']} of {training['n_subjects']} subjects: kappa "
        f"{training['best_kappa']:.3f} on the others, at step {training['best_step']} of "
        f"{training['stopped_at']}."
    )
    print_list(out, "Warning", remarks)
    print_list(
        out, "Wrote", [str(folder / name) for name in ("model.safetensors", "model.json", "log.jsonl")]
    )
