"""`stageguard data`: which datasets are read, what a local copy holds, fetching open ones. Parses only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from stageguard.datasets.getting import Got

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a dataset: see stageguard data list.")]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the local copy is.")]
Target = Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to put it.")]
Said = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of the dataset's reader: see data show."),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="PATTERN", help="Only files that match, such as 'labels/*'. Repeatable."),
]
JustList = Annotated[bool, typer.Option("--list", help="List the files and their sizes, and fetch nothing.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that differ from those published.")
]
NoUnpack = Annotated[bool, typer.Option("--no-unpack", help="Keep archives as they are.")]
Deep = Annotated[bool, typer.Option("--deep", help="Read every sample, not only the ends of each signal.")]
NoDigests = Annotated[bool, typer.Option("--no-digests", help="Do not compare with published digests.")]

data_app = typer.Typer(
    help="Datasets: list them, check a local copy, fetch open ones.", rich_markup_mode=None
)


@data_app.callback(invoke_without_command=True)
def data(context: typer.Context, as_json: AsJson = False) -> None:
    """List the datasets, check a local copy, or fetch an open one."""
    if context.invoked_subcommand is None:
        list_datasets(as_json)


@data_app.command("list")
def list_datasets(as_json: AsJson = False) -> None:
    """List the datasets that are read in their native layouts."""
    from stageguard.cli.data_present import facts
    from stageguard.cli.terminal import console, print_json, table
    from stageguard.datasets import dataset, dataset_names

    known = [dataset(name) for name in dataset_names()]
    if as_json:
        print_json([facts(each) for each in known])
        return
    shown = table("name", "modality", "recordings", "access", "what it is", right=("recordings",))
    for each in known:
        number = "" if each.n_recordings is None else f"{each.n_recordings:,}"
        shown.add_row(each.name, each.modality, number, each.access, each.title)
    out = console()
    out.print(shown)
    out.print("More about one, and how to get it: stageguard data show NAME")


@data_app.command("show")
def show(name: Name, as_json: AsJson = False) -> None:
    """Show what a dataset is, who may have it, and how it is read."""
    from rich.padding import Padding
    from rich.text import Text

    from stageguard.cli.data_present import facts, lines
    from stageguard.cli.terminal import console, escaped, print_heading, print_json, table
    from stageguard.datasets import dataset

    found = dataset(name)
    if as_json:
        print_json(facts(found))
        return
    out = console()
    out.print(Text.assemble((found.name, "bold"), f"  {found.title}"))
    shown = table("", "")
    shown.show_header = False
    for label, text in lines(found).items():
        if text:
            shown.add_row(label, escaped(text))
    out.print(shown)
    if found.options:
        print_heading(out, "Options of its reader (--option KEY=VALUE)")
        for key, text in found.options.items():
            out.print(Padding(escaped(f"{key}: {text}"), (0, 0, 0, 2), expand=False))


@data_app.command("check")
def check(
    name: Name,
    folder: Folder,
    said: Said = None,
    deep: Deep = False,
    no_digests: NoDigests = False,
    as_json: AsJson = False,
) -> None:
    """Check a local copy: what is there, whether it is as published, and what cannot be read.

    Exits with 1 when something is wrong with what is there. A part of a dataset is fine.
    """
    from stageguard.cli.data_present import Steps, print_check, report
    from stageguard.cli.terminal import console, print_json
    from stageguard.datasets import dataset
    from stageguard.datasets.checking import check as run

    found = dataset(name)
    with Steps(quiet=as_json) as step:
        result = run(
            found,
            folder,
            depth="all" if deep else "ends",
            digests=not no_digests,
            on_step=step,
            **_options(said or []),
        )
    if as_json:
        print_json(report(result))
    else:
        print_check(result, console())
    if not result.is_fine:
        raise typer.Exit(1)


@data_app.command("get")
def get(
    name: Name,
    folder: Target,
    only: Only = None,
    just_list: JustList = False,
    overwrite: Overwrite = False,
    no_unpack: NoUnpack = False,
    as_json: AsJson = False,
) -> None:
    """Fetch an open dataset. What broke off goes on where it stopped; what is there is not fetched again."""
    from stageguard.cli.data_present import Transfers, print_files, print_got
    from stageguard.cli.terminal import console, print_json
    from stageguard.datasets import dataset
    from stageguard.datasets.getting import get as run
    from stageguard.datasets.getting import list_remote

    found = dataset(name)
    files = list_remote(found, tuple(only or ()))
    if just_list:
        if as_json:
            print_json([{"path": file.path, "size": file.size, "url": file.url} for file in files])
        else:
            print_files(files, console())
        return
    got: list[Got] = []
    with Transfers(files, quiet=as_json) as transfers:
        for each in run(
            found, folder, overwrite=overwrite, unpack=not no_unpack, files=files, on_progress=transfers
        ):
            transfers.done(each)
            got.append(each)
    if as_json:
        rows = [{"path": each.file.path, "state": each.state, "problem": each.problem} for each in got]
        print_json({"dataset": found.name, "folder": str(folder), "files": rows})
    else:
        print_got(found, folder, got, console())
    if any(each.state == "failed" for each in got):
        raise typer.Exit(1)


def _options(said: list[str]) -> dict[str, Any]:
    """Return the options of a reader: true, false and numbers as what they are, the rest as text."""
    options: dict[str, Any] = {}
    for each in said:
        key, mark, text = each.partition("=")
        if not mark or not key.strip():
            raise typer.BadParameter(f"{each!r} is not of the form KEY=VALUE, such as group=4-hour.")
        value: Any = {"true": True, "false": False}.get(text.strip().lower(), text.strip())
        for kind in (int, float):
            if isinstance(value, str):
                try:
                    value = kind(value)
                except ValueError:
                    continue
        options[key.strip()] = value
    return options
