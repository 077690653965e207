"""`stageguard data`: list datasets, check a local copy, fetch open ones."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.exceptions import Exit

from stageguard.cli import options as opt
from stageguard.cli.command import group, option
from stageguard.cli.terminal import Console, count, one_line, print_json, progress_bar
from stageguard.datasets import Dataset, dataset, dataset_names
from stageguard.datasets.local_copy import CopyCheck, Got, list_remote
from stageguard.datasets.local_copy import check as check_copy
from stageguard.datasets.local_copy import get as fetch

name_argument = click.argument("name", help="Name of a dataset: see stageguard data list.")


@group
@opt.as_json
def data(as_json: bool) -> None:
    """List the datasets, check a local copy, or fetch an open one.

    Examples
    --------
    stageguard data
    """
    _list(as_json=as_json)


@data.command("list")
@opt.as_json
def list_datasets(as_json: bool) -> None:
    """List the datasets that can be read in their native layouts.

    Examples
    --------
    stageguard data list
    """
    _list(as_json=as_json)


def _list(*, as_json: bool) -> None:
    known = [dataset(name) for name in dataset_names()]
    if as_json:
        print_json([facts(entry) for entry in known])
        return
    rows = [
        (entry.name, entry.modality, entry.n_recordings or "", entry.access, entry.title) for entry in known
    ]
    out = Console()
    out.table(("name", "modality", ">recordings", "access", "what it is"), rows)
    out.print("More about one, and how to get it: stageguard data show NAME")


@data.command("show")
@name_argument
@opt.as_json
def show(name: str, as_json: bool) -> None:
    """Show what a dataset is, who may have it, and how it is read.

    Examples
    --------
    stageguard data show sleep-accel
    """
    named = dataset(name)
    if as_json:
        print_json(facts(named))
        return
    out = Console()
    out.print((named.name, "bold"), f"  {named.title}")
    out.table(("", ""), [line for line in lines(named).items() if line[1]], headed=False)
    if named.options:
        out.heading("Options of its reader (--option KEY=VALUE)")
        for key, text in named.options.items():
            out.print(one_line(f"{key}: {text}"), indent=2)


@data.command("check")
@name_argument
@click.argument("folder", type=opt.HERE, help="Where the local copy is.")
@option(
    "--option",
    "said",
    metavar="KEY=VALUE",
    multiple=True,
    help="An option of the dataset's reader: see data show.",
)
@option("--deep", is_flag=True, help="Read every sample, not only the ends of each signal.")
@option("--no-digests", is_flag=True, help="Do not compare with published digests.")
@opt.as_json
def check(
    name: str, folder: Path, said: tuple[str, ...], deep: bool, no_digests: bool, as_json: bool
) -> None:
    """Check a local copy: what it holds, whether files are as published, and what cannot be read.

    Exits with 1 if something is wrong with a file. An incomplete copy is fine.

    Examples
    --------
    stageguard data check sleep-accel wrists
    """
    with progress_bar("Checking", quiet=as_json) as move_bar:

        def step(name: str, number: int, total: int) -> None:
            if move_bar is not None:
                move_bar(total=total, completed=number, description=one_line(name)[:80])

        result = check_copy(
            dataset(name),
            folder,
            deep=deep,
            digests=not no_digests,
            on_step=step,
            **opt.parse_dataset_options(said, "--option"),
        )
    if as_json:
        print_json(report(result))
    else:
        print_check(result, Console())
    if result.problems:
        raise Exit(1)


@data.command("get")
@name_argument
@click.argument("folder", type=opt.HERE, help="Where to put it.")
@option(
    "--only", metavar="PATTERN", multiple=True, help="Only files that match, such as 'labels/*'. Repeatable."
)
@option("--list", "just_list", is_flag=True, help="List the files, and fetch nothing.")
@option("--overwrite", is_flag=True, help="Replace files that differ from those published.")
@opt.as_json
def get(
    name: str, folder: Path, only: tuple[str, ...], just_list: bool, overwrite: bool, as_json: bool
) -> None:
    """Fetch an open dataset from PhysioNet. Files that are already there are kept.

    Examples
    --------
    stageguard data get sleep-accel sleep-accel --only 'labels/*'
    """
    source = dataset(name)
    files = list_remote(source, only)
    if just_list:
        if as_json:
            print_json([{"path": file.path, "url": file.url} for file in files])
        else:
            out = Console()
            _print_rows([(file.path,) for file in files], ("file",), out)
            out.print(f"{count(len(files), 'file')}. Without --list they are fetched.")
        return
    got: list[Got] = []
    for result in fetch(folder, files, overwrite=overwrite):
        got.append(result)
        if not as_json:
            text = f"{len(got)} of {len(files)}: {one_line(result.file.path)} ({result.state})"
            print(text, file=sys.stderr)
    if as_json:
        rows = [
            {"path": result.file.path, "state": result.state, "problem": result.problem} for result in got
        ]
        print_json({"dataset": source.name, "folder": str(folder), "files": rows})
    else:
        print_got(source, folder, got, Console())
    if any(result.state == "failed" for result in got):
        raise Exit(1)


MOST_ROWS = 40
ACCESS = {
    "open": "open: anybody may fetch it",
    "gated": "gated: whoever signs an agreement",
    "private": "not public",
}
FACTS = ("name", "title", "modality", "access", "n_subjects", "n_recordings", "licence", "ethics", "url",
         "how_to_get", "citation")  # fmt: skip


def facts(dataset: Dataset) -> dict[str, Any]:
    """Return the facts about a dataset, for JSON."""
    page = {"page": f"docs/{dataset.page}", "options": dict(dataset.options)}
    return {name: getattr(dataset, name) for name in FACTS} | page


def lines(dataset: Dataset) -> dict[str, str]:
    """Return the facts about a dataset as texts, by heading."""
    counts = ((dataset.n_subjects, "subject"), (dataset.n_recordings, "recording"))
    return {
        "modality": dataset.modality,
        "size": ", ".join(count(number, noun) for number, noun in counts if number is not None),
        "access": ACCESS[dataset.access],
        "to get it": dataset.how_to_get,
        "home": dataset.url,
        "licence": dataset.licence or "none stated",
        "ethics": dataset.ethics or "none stated",
        "cite": dataset.citation,
        "page": f"docs/{dataset.page}",
    }


def report(result: CopyCheck) -> dict[str, Any]:
    """Return the findings of a check, for JSON."""
    return {
        "dataset": result.dataset.name,
        "folder": str(result.folder),
        "is_fine": not result.problems,
        "n_found": result.n_found,
        "n_readable": len(result.recordings),
        "n_subjects": len({recording["subject"] for recording in result.recordings}),
        "expected_recordings": result.dataset.n_recordings,
        "expected_subjects": result.dataset.n_subjects,
        "hours": sum(recording["hours"] for recording in result.recordings),
        "n_compared": result.n_compared,
        "n_absent": result.n_absent,
        "problems": [asdict(problem) for problem in result.problems],
        "recordings": result.recordings,
    }


def print_check(result: CopyCheck, out: Console) -> None:
    """Print the findings of a check."""
    found = report(result)
    expected = result.dataset.n_recordings
    of_all = f" of {expected:,}" if expected is not None else ""
    scored = sum(bool(recording["scored_epochs"]) for recording in result.recordings)
    out.print(
        f"{count(len(result.recordings), 'recording')}{of_all} can be read: "
        f"{count(found['n_subjects'], 'subject')}, {found['hours']:,.1f} h, {scored:,} with a scoring."
    )
    simulated = sum(recording["is_synthetic"] for recording in result.recordings)
    if simulated:
        out.print(f"SYNTHETIC: {count(simulated, 'recording')} made up by the simulator.")
    if result.n_compared:
        out.print(f"{count(result.n_compared, 'file')} compared with what was published.")
    else:
        out.print("No published digests are known here, so no file was compared.")
    if result.n_absent:
        out.print(f"{count(result.n_absent, 'published file')} not here: a part of the dataset.")
    if not result.problems:
        out.print("No problem was found.")
        return
    out.heading(count(len(result.problems), "problem"))
    problems = [(each.what, each.kind, each.detail) for each in result.problems]
    _print_rows(problems, ("what", "problem", "detail"), out)


def print_got(dataset: Dataset, folder: Path, got: Sequence[Got], out: Console) -> None:
    """Print the outcome of fetching."""
    states = [each.state for each in got]
    new, n_there = states.count("fetched"), states.count("there")
    out.print(
        f"{count(new, 'file')} fetched into {folder}" + (f", {n_there:,} there already." if n_there else ".")
    )
    failed = [(each.file.path, each.problem) for each in got if each.state == "failed"]
    if failed:
        out.heading(f"{count(len(failed), 'file')} failed")
        _print_rows(failed, ("file", "why"), out)
        out.print("Run it again: what is there is kept.")
        return
    out.print(f"Licence: {dataset.licence or 'none stated'}.")
    if dataset.citation:
        out.print(f"Cite: {dataset.citation}")
    out.print(f"Check it: stageguard data check {dataset.name} {folder}")


def _print_rows(rows: Sequence[Sequence[str]], columns: Sequence[str], out: Console) -> None:
    """Print the first rows of a table, and how many more there are."""
    out.table(columns, rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        out.print(f"... and {len(rows) - MOST_ROWS:,} more: --json lists all.")
