"""`stageguard study`: train and test networks fold by fold, with tables and figures of the results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import click
from click import UsageError
from click.exceptions import Exit

from stageguard.cli import options as opt
from stageguard.cli.command import group, option
from stageguard.cli.terminal import Console, count, print_error, print_json, print_warning, progress_bar
from stageguard.errors import InputError
from stageguard.runner.pool import Cluster
from stageguard.runner.stopping import Stopped, stoppable

folder_argument = click.argument("folder", type=opt.HERE, help="What `study run` wrote.")
form_option = option(
    "--format", "form", type=click.Choice(["md", "tex", "csv"]), default="md", help="Of what is printed."
)


@group
def study() -> None:
    """Train and test networks fold by fold, and show the results.

    Examples
    --------
    stageguard study run mice.toml --output mice
    """
    raise UsageError(f"say what to do: {', '.join(study.commands)}.", click.get_current_context())


@study.command("status")
@folder_argument
@opt.as_json
def status(folder: Path, as_json: bool) -> None:
    """Show how far a study has come.

    Examples
    --------
    stageguard study status mice
    """
    from stageguard.study.store import read_results

    results = read_results(folder)
    facts = {
        "study": results.config.name,
        "synthetic": results.about["synthetic"],
        "smoke": results.config.smoke,
        "jobs": results.about["n_jobs"],
        "done": results.n_done,
        "failed": results.about["failures"],
        "commit": results.about["environment"]["commit"],
    }
    if as_json:
        print_json(facts)
        return
    out = Console()
    smoke = " (smoke version)" if facts["smoke"] else ""
    out.print(f"{facts['study']}{smoke}: {results.progress} done, {len(facts['failed'])} failed")
    for failure in facts["failed"]:
        out.print(failure)


@study.command("run")
@click.argument(
    "config", metavar="STUDY.toml", type=opt.HERE, help="What to run, such as studies/mouse-sim.toml."
)
@opt.output("FOLDER", "New, or that of an earlier run, which goes on.", opt.HERE, required=True)
@option("--smoke", is_flag=True, help="The small version, to see that everything works.")
@opt.jobs
@opt.cluster
@option(
    "--timeout", metavar="MINUTES", type=opt.Number(min=0.01), help="Longest wait for a fold of a cluster."
)
@opt.overwrite
@option("--guard-again", is_flag=True, help="Guard all stored predictions again.")
@opt.as_json
def run(
    config: Path,
    output: Path,
    smoke: bool,
    jobs: int,
    cluster: Cluster | None,
    timeout: float | None,
    overwrite: bool,
    guard_again: bool,
    as_json: bool,
) -> None:
    """Train, predict, guard and measure every fold, then write all tables and the figure.

    Finished folds are kept, so a stopped run goes on where it was. A fold that fails is named at the end and
    tried again by the next run. If only guards or tables of the study have changed, nothing is trained again.

    Examples
    --------
    stageguard study run mice.toml --output mice
    """
    from stageguard.runner.pool import executor_for
    from stageguard.study.config import read_study
    from stageguard.study.figures import write_report
    from stageguard.study.run import run_study

    settings = read_study(config, smoke=smoke)
    if cluster is not None and timeout is not None:
        cluster = replace(cluster, task_minutes=timeout)
    n_done = 0
    with progress_bar(settings.name, quiet=as_json) as move_bar, executor_for(cluster) as executor:

        def report(done: int, total: int, key: str) -> None:
            nonlocal n_done
            n_done = done
            move_bar(total=total, completed=done, description=key)

        try:
            with stoppable():
                results = run_study(
                    settings,
                    output,
                    data=config.absolute().parent,
                    jobs=jobs,
                    executor=executor,
                    overwrite=overwrite,
                    guard_again=guard_again,
                    report=report,
                )
        except Stopped as stopped:
            stopped.done = f"{count(n_done, 'job')} done; the same command goes on"
            raise
    write_report(results)
    failed = results.about["failures"]
    if as_json:
        print_json({"folder": str(output), "done": results.n_done, "failed": failed})
    else:
        Console().print(f"{results.progress} done. Tables and figure: {output}")
    if failed:
        print_error(f"{count(len(failed), 'job')} failed: {failed[0]}")
        raise Exit(1)


@study.command("table")
@folder_argument
@option("--name", "-n", metavar="NAME", multiple=True, help="Which ones; repeatable. Default: all.")
@form_option
def table(folder: Path, name: tuple[str, ...], form: Literal["md", "tex", "csv"]) -> None:
    """Print tables of stored results, in Markdown, LaTeX or CSV.

    Examples
    --------
    stageguard study table mice --name main
    """
    from stageguard.study.figures import check_results
    from stageguard.study.store import read_results
    from stageguard.study.tables import TABLES

    results = read_results(folder)
    check_results(results)
    if form == "csv":  # CSV has no place for notes
        for warning in results.warnings:
            print_warning(warning)
    for each in name or TABLES:
        if each not in TABLES:
            raise InputError(f"there is no table {each!r}. Tables: {', '.join(TABLES)}.")
        print(TABLES[each](results).text(form))


@study.command("compare")
@click.argument(
    "folders", metavar="FOLDER...", nargs=-1, required=True, type=opt.HERE, help="What `study run` wrote."
)
@opt.output("FOLDER", "Write the tables there in all formats.", opt.HERE)
@form_option
def compare(folders: tuple[Path, ...], output: Path | None, form: Literal["md", "tex", "csv"]) -> None:
    """Print tables over several studies: the main comparison side by side, errors of sleep architecture.

    Examples
    --------
    stageguard study compare mice --output tables
    """
    from stageguard.study.figures import check_results, write_tables
    from stageguard.study.store import read_results
    from stageguard.study.tables import across_tables

    studies = [read_results(folder) for folder in folders]
    for results in studies:
        check_results(results)
    tables = across_tables(studies)
    if output is not None:
        for path in write_tables(tables, output):
            Console().print(f"Wrote {path}")
        return
    for table in tables.values():
        print(table.text(form))


@study.command("report")
@folder_argument
def report(folder: Path) -> None:
    """Write all tables and the figure.

    Examples
    --------
    stageguard study report mice
    """
    from stageguard.study.figures import write_report
    from stageguard.study.store import read_results

    for path in write_report(read_results(folder)):
        Console().print(f"Wrote {path}")
