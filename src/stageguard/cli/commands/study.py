"""`stageguard study`: train and test networks fold by fold, with tables and figures of the results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from stageguard.base.errors import InputError
from stageguard.cli.options import AsJson, Overwrite, output_option, text_option
from stageguard.cli.parser import Argument, Exit, Option, UsageError
from stageguard.cli.progress import progress_bar
from stageguard.cli.terminal import console, count, print_error, print_json, print_warning
from stageguard.runner.stopping import Stopped, stoppable

Config = Annotated[Path, Argument("STUDY.toml", "What to run, such as studies/mouse-sim.toml.")]
Folder = Annotated[Path, Argument("FOLDER", "What `study run` wrote.")]
Output = Annotated[Path, output_option("FOLDER", "New, or that of an earlier run, which goes on.")]
Smoke = Annotated[bool, Option("--smoke", help="The small version, to see that everything works.")]
GuardAgain = Annotated[bool, Option("--guard-again", help="Guard all stored predictions again.")]
Jobs = Annotated[int, Option(min=0, metavar="N", help="Folds at a time, a core each; 0 means one per core.")]
Scheduler = Annotated[
    str | None, text_option("tcp://HOST:PORT|local", "Run on a Dask cluster; its workers see FOLDER.")
]
Timeout = Annotated[
    float | None, Option(min=0.01, metavar="MINUTES", help="Longest wait for a fold of a cluster.")
]
Names = Annotated[
    list[str] | None, text_option("NAME", "Which ones; repeatable. Default: all.", "--name", "-n")
]
Night = Annotated[str | None, text_option("RECORDING", "Whose hypnogram is drawn. Default: the first.")]
Publish = Annotated[Path | None, text_option("FOLDER", "Write there what may be shown without the nights.")]
TableFormat = Annotated[Literal["md", "tex", "csv"], Option("--format", help="Of what is printed.")]


def study() -> None:
    """Train and test networks fold by fold, and show the results.

    Examples
    --------
    stageguard study run mice.toml --output mice
    """
    raise UsageError(f"say what to do: {', '.join(SUBCOMMANDS)}.")


def status(folder: Folder, as_json: AsJson = False) -> None:
    """Show how far a study has come.

    Examples
    --------
    stageguard study status mice
    """
    from stageguard.study.store import read_results

    results = read_results(folder)
    facts = {
        "study": results.study["name"],
        "synthetic": results.is_synthetic,
        "smoke": bool(results.study.get("smoke")),
        "jobs": results.n_jobs,
        "done": len(results.records),
        "failed": [failure["error"] for failure in results.failures],
        "commit": results.about["commit"],
    }
    if as_json:
        print_json(facts)
        return
    out = console()
    smoke = " (smoke version)" if facts["smoke"] else ""
    out.print(f"{facts['study']}{smoke}: {results.progress} done, {len(results.failures)} failed")
    for failure in results.failures:
        out.print(failure["error"])


def run(
    config: Config,
    output: Output,
    smoke: Smoke = False,
    jobs: Jobs = 1,
    scheduler: Scheduler = None,
    timeout: Timeout = None,
    overwrite: Overwrite = False,
    guard_again: GuardAgain = False,
    as_json: AsJson = False,
) -> None:
    """Train, predict, guard and measure every fold, then write all tables and figures.

    Finished folds are kept, so a stopped run goes on where it was. A fold that fails is named at the end and
    tried again by the next run. If only guards or tables of the study have changed, nothing is trained again.

    Examples
    --------
    stageguard study run mice.toml --output mice
    """
    from stageguard.runner.executors import executor_for
    from stageguard.study.config import read_study
    from stageguard.study.report import write_report
    from stageguard.study.run import StudyProgress, run_study

    settings = read_study(config, smoke=smoke)
    n_done = 0
    with progress_bar(settings.name, quiet=as_json) as move_bar, executor_for(scheduler, timeout) as executor:

        def report(done: StudyProgress) -> None:
            nonlocal n_done
            n_done = done.done
            if move_bar is not None:
                move_bar(total=done.total, completed=done.done, description=done.key)

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
    page = write_report(results)
    if as_json:
        failed = [failure["error"] for failure in results.failures]
        print_json({"report": str(page), "done": len(results.records), "failed": failed})
    else:
        console().print(f"{results.progress} done. Tables and figures: {page}")
    if results.failures:
        print_error(f"{count(len(results.failures), 'job')} failed: {results.failures[0]['error']}")
        raise Exit(1)


def table(folder: Folder, name: Names = None, form: TableFormat = "md") -> None:
    """Print tables of stored results, in Markdown, LaTeX or CSV.

    Examples
    --------
    stageguard study table mice --name main
    """
    from stageguard.study.catalogue import TABLES
    from stageguard.study.report import check_results
    from stageguard.study.store import read_results

    results = read_results(folder)
    check_results(results)
    if form == "csv":  # CSV has no place for notes
        for warning in results.warnings:
            print_warning(warning)
    for each in name or TABLES:
        if each not in TABLES:
            raise InputError(f"there is no table {each!r}. Tables: {', '.join(TABLES)}.")
        print(TABLES[each](results).text(form))


def compare(
    folders: Annotated[
        list[Path], Argument("FOLDER...", "What `study run` or `study report --publish` wrote.")
    ],
    output: Annotated[Path | None, output_option("FOLDER", "Write the tables there in all formats.")] = None,
    form: TableFormat = "md",
) -> None:
    """Print tables over several studies: the main comparison side by side, errors of sleep architecture.

    Examples
    --------
    stageguard study compare results/mice mice
    """
    from stageguard.study.across import across_tables
    from stageguard.study.report import check_results, write_tables
    from stageguard.study.store import read_results

    studies = [read_results(folder) for folder in folders]
    for results in studies:
        check_results(results)
    tables = {table.name: table for table in across_tables(studies)}
    if output is not None:
        for path in write_tables(tables, output):
            console().print(f"Wrote {path}")
        return
    for table in tables.values():
        print(table.text(form))


def figure(
    folder: Folder,
    output: Annotated[Path | None, output_option("FOLDER", "Default: FOLDER/figures.")] = None,
    name: Names = None,
    night: Night = None,
    form: Annotated[Literal["png", "pdf", "svg"], Option("--format", help="Of the files.")] = "png",
) -> None:
    """Draw figures of stored results.

    Examples
    --------
    stageguard study figure mice --name night --format svg
    """
    from stageguard.study.report import write_figures
    from stageguard.study.store import read_results

    for path in write_figures(read_results(folder), name or (), (form,), night, output):
        console().print(f"Wrote {path}")


def report(folder: Folder, night: Night = None, publish: Publish = None) -> None:
    """Write all tables and figures, and one page that shows them.

    Examples
    --------
    stageguard study report mice
    stageguard study report mice --publish results/mice
    """
    from stageguard.study import report as reports
    from stageguard.study.store import read_results

    results = read_results(folder)
    page = reports.publish(results, publish, night) if publish else reports.write_report(results, night)
    console().print(f"Wrote {page}")


SUBCOMMANDS = {
    "run": run,
    "status": status,
    "table": table,
    "compare": compare,
    "figure": figure,
    "report": report,
}
