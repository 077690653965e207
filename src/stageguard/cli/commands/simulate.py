"""`stageguard simulate`: a made-up cohort in a dataset's own layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

import click

from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.terminal import Console, count, print_json, progress
from stageguard.runner.pool import run_all
from stageguard.synthetic.cohort import WRITTEN, Plan, Subject, simulate_cohort


@command
@option("--modality", "-m", type=click.Choice(WRITTEN), required=True, help="What is recorded.")
@opt.output("FOLDER", "For the cohort; a new or empty folder.", opt.HERE, required=True)
@option("--subjects", "-n", metavar="N", type=int, default=4, help="How many, up to 999.")
@option(
    "--hours", metavar="H", type=float, help="Length of each recording. Default: 4 for mice, 8 for people."
)
@option("--seed", metavar="S", type=int, default=0, help="Same seed, same cohort, to the byte.")
@opt.overwrite
@opt.jobs
@opt.as_json
def simulate(
    modality: str,
    output: Path,
    subjects: int,
    hours: float | None,
    seed: int,
    overwrite: bool,
    jobs: int,
    as_json: bool,
) -> None:
    """Write a made-up cohort with a known truth, in the layout of a real dataset.

    The folder appears when it is complete. --overwrite replaces an earlier simulation; a folder that holds
    anything else is never touched.

    Examples
    --------
    stageguard simulate --modality actigraphy --subjects 3 --hours 1 --seed 1 --output wrists
    """
    plan = Plan(modality, subjects, hours, seed)

    def run(task: Callable[[int], Subject], numbers: Sequence[int]) -> Iterable[Subject]:
        with closing(run_all(task, numbers, jobs)) as results:
            yield from progress(results, "Simulating", len(numbers), quiet=as_json)

    made = simulate_cohort(plan, output, overwrite=overwrite, run=run)
    if as_json:
        subjects_made = [
            {
                "subject": subject.subject,
                "covariates": dict(subject.covariates),
                "n_events": len(subject.events),
            }
            for subject in made
        ]
        print_json(plan.to_dict() | {"output": str(output), "subjects": subjects_made})
    else:
        _print(plan, made, output)


def _print(plan: Plan, made: Sequence[Subject], folder: Path) -> None:
    out = Console()
    noun = "mouse" if plan.recorded.is_mouse else "subject"
    who = f"{len(made)} mice" if noun == "mouse" and len(made) != 1 else count(len(made), noun)
    out.print(
        f"SYNTHETIC: {who}, {plan.hours:g} h of {plan.modality} each, made up with seed {plan.seed}. "
        "No evidence about real sleepers."
    )
    facts = [name for name in ("age", "osa", "sex") if name in made[0].covariates]
    rows = []
    for subject in made:
        values = (subject.covariates[name] for name in facts)
        cells = [f"{value:g}" if isinstance(value, float) else value for value in values]
        rows.append((subject.subject, *cells, len(subject.events)))
    columns = [f">{name}" if name == "age" else name for name in facts]
    out.table(("subject", *columns, ">events"), rows)
    unit = " --dataset-option unit=uV" if plan.recorded.dataset == "accusleep" else ""
    out.print(f"Wrote {folder}. The truth about it: {folder / 'synthetic.json'}")
    stager = "yasa" if plan.modality == "polysomnography" else "model.onnx"
    out.print(
        f"Go on:  stageguard stage {folder} --dataset {plan.recorded.dataset}{unit} --stager {stager} "
        "-o staged",
        whole_line=True,
    )
