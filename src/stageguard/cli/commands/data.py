"""`stageguard data`: list datasets, check a local copy, fetch open ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from stageguard.cli.console import Console, Text
from stageguard.cli.options import AsJson, parse_dataset_options, text_option
from stageguard.cli.parser import Argument, Exit, Option
from stageguard.cli.progress import Bar, size_words
from stageguard.cli.terminal import console, count, one_line, print_heading, print_json, table
from stageguard.datasets import Dataset, RemoteFile, dataset, dataset_names
from stageguard.datasets.local_copy import Check, Got, list_remote
from stageguard.datasets.local_copy import check as check_copy
from stageguard.datasets.local_copy import get as fetch

Name = Annotated[str, Argument(metavar="NAME", help="Name of a dataset: see stageguard data list.")]
Folder = Annotated[Path, Argument(metavar="FOLDER", help="Where the local copy is.")]
Target = Annotated[Path, Argument(metavar="FOLDER", help="Where to put it.")]
Said = Annotated[
    list[str] | None,
    text_option("KEY=VALUE", "An option of the dataset's reader: see data show.", "--option"),
]
Only = Annotated[
    list[str] | None,
    text_option("PATTERN", "Only files that match, such as 'labels/*'. Repeatable.", "--only"),
]
JustList = Annotated[bool, Option("--list", help="List the files and their sizes, and fetch nothing.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace files that differ from those published.")]
NoUnpack = Annotated[bool, Option("--no-unpack", help="Keep archives as they are.")]
Deep = Annotated[bool, Option("--deep", help="Read every sample, not only the ends of each signal.")]
NoDigests = Annotated[bool, Option("--no-digests", help="Do not compare with published digests.")]


def data(as_json: AsJson = False) -> None:
    """List the datasets, check a local copy, or fetch an open one.

    Examples
    --------
    stageguard data
    """
    list_datasets(as_json)


def list_datasets(as_json: AsJson = False) -> None:
    """List the datasets that can be read in their native layouts.

    Examples
    --------
    stageguard data list
    """
    known = [dataset(name) for name in dataset_names()]
    if as_json:
        print_json([facts(entry) for entry in known])
        return
    shown = table("name", "modality", "recordings", "access", "what it is", right=("recordings",))
    for entry in known:
        number = "" if entry.n_recordings is None else f"{entry.n_recordings:,}"
        shown.add_row(entry.name, entry.modality, number, entry.access, entry.title)
    out = console()
    out.print(shown)
    out.print("More about one, and how to get it: stageguard data show NAME")


def show(name: Name, as_json: AsJson = False) -> None:
    """Show what a dataset is, who may have it, and how it is read.

    Examples
    --------
    stageguard data show sleep-accel
    """
    named = dataset(name)
    if as_json:
        print_json(facts(named))
        return
    out = console()
    out.print(Text((named.name, "bold"), f"  {named.title}"))
    shown = table("", "", headed=False)
    for label, text in lines(named).items():
        if text:
            shown.add_row(label, one_line(text))
    out.print(shown)
    if named.options:
        print_heading(out, "Options of its reader (--option KEY=VALUE)")
        for key, text in named.options.items():
            out.print(one_line(f"{key}: {text}"), indent=2)


def check(
    name: Name,
    folder: Folder,
    said: Said = None,
    deep: Deep = False,
    no_digests: NoDigests = False,
    as_json: AsJson = False,
) -> None:
    """Check a local copy: what it holds, whether files are as published, and what cannot be read.

    Exits with 1 if something is wrong with a file. An incomplete copy is fine.

    Examples
    --------
    stageguard data check sleep-accel wrists
    """
    with _steps(quiet=as_json) as step:
        result = check_copy(
            dataset(name),
            folder,
            depth="all" if deep else "ends",
            digests=not no_digests,
            on_step=step,
            **parse_dataset_options(said, "--option"),
        )
    if as_json:
        print_json(report(result))
    else:
        print_check(result, console())
    if not result.is_fine:
        raise Exit(1)


def get(
    name: Name,
    folder: Target,
    only: Only = None,
    just_list: JustList = False,
    overwrite: Overwrite = False,
    no_unpack: NoUnpack = False,
    as_json: AsJson = False,
) -> None:
    """Fetch an open dataset. Interrupted files are resumed; files that are already there are kept.

    Examples
    --------
    stageguard data get sleep-accel sleep-accel --only 'labels/*'
    """
    source = dataset(name)
    files = list_remote(source, tuple(only or ()))
    if just_list:
        if as_json:
            print_json([{"path": file.path, "size": file.size, "url": file.url} for file in files])
        else:
            print_files(files, console())
        return
    got: list[Got] = []
    with Transfers(len(files), quiet=as_json) as transfers:
        for result in fetch(
            source, folder, overwrite=overwrite, unpack=not no_unpack, files=files, on_progress=transfers
        ):
            transfers.done(result)
            got.append(result)
    if as_json:
        rows = [
            {"path": result.file.path, "state": result.state, "problem": result.problem} for result in got
        ]
        print_json({"dataset": source.name, "folder": str(folder), "files": rows})
    else:
        print_got(source, folder, got, console())
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


@contextmanager
def _steps(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows on one line of the terminal which recording is being checked."""

    def show(text: str) -> None:
        if not quiet and sys.stderr.isatty():
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)

    try:
        yield lambda name, number, total: show(f"{number + 1} of {total}: {one_line(name)[:80]}")
    finally:
        show("")


class Transfers:
    """Progress of fetching files: a bar per file on a terminal, a line per file elsewhere."""

    def __init__(self, n_files: int, *, quiet: bool) -> None:
        self._n_files, self._n_done, self._quiet = n_files, 0, quiet
        self._is_watched = not quiet and sys.stderr.isatty()
        self._bar: Bar | None = None

    def __enter__(self) -> Transfers:
        """Return this object; nothing is shown yet."""
        return self

    def __call__(self, file: RemoteFile, have: int, total: int | None) -> None:
        """Show how much of a file has been fetched."""
        if not self._is_watched:
            return
        if self._bar is None:
            text = f"{self._n_done + 1} of {self._n_files}  {one_line(file.path)[-50:]}"
            self._bar = Bar(text, size_words)
        self._bar.update(completed=have, total=total)

    def done(self, got: Got) -> None:
        """Show the outcome of a file."""
        self._n_done += 1
        self._clear()
        if not self._is_watched and not self._quiet:
            text = f"{self._n_done} of {self._n_files}: {one_line(got.file.path)} ({got.state})"
            print(text, file=sys.stderr)

    def __exit__(self, *_: object) -> None:
        """Clear the terminal."""
        self._clear()

    def _clear(self) -> None:
        if self._bar is not None:
            self._bar.clear()
            self._bar = None


def report(result: Check) -> dict[str, Any]:
    """Return the findings of a check, for JSON."""
    return {
        "dataset": result.dataset.name,
        "folder": str(result.folder),
        "is_fine": result.is_fine,
        "is_complete": result.is_complete,
        "n_found": result.n_found,
        "n_readable": len(result.recordings),
        "n_subjects": result.n_subjects,
        "expected_recordings": result.dataset.n_recordings,
        "expected_subjects": result.dataset.n_subjects,
        "hours": result.hours,
        "n_compared": result.n_compared,
        "n_absent": result.n_absent,
        "problems": [asdict(problem) for problem in result.problems],
        "recordings": [asdict(recording) for recording in result.recordings],
    }


def print_check(result: Check, out: Console) -> None:
    """Print the findings of a check."""
    expected = result.dataset.n_recordings
    of_all = f" of {expected:,}" if expected is not None else ""
    scored = sum(bool(recording.scored_epochs) for recording in result.recordings)
    out.print(
        f"{count(len(result.recordings), 'recording')}{of_all} can be read: "
        f"{count(result.n_subjects, 'subject')}, {result.hours:,.1f} h, {scored:,} with a scoring."
    )
    simulated = sum(recording.is_synthetic for recording in result.recordings)
    if simulated:
        out.print(f"SYNTHETIC: {count(simulated, 'recording')} made up by the simulator.")
    if result.n_compared:
        out.print(f"{count(result.n_compared, 'file')} compared with what was published.")
    else:
        out.print("No published digests are known here, so no file was compared.")
    if result.n_absent:
        out.print(f"{count(result.n_absent, 'published file')} not here: a part of the dataset.")
    if result.is_fine:
        out.print("No problem was found.")
        return
    print_heading(out, count(len(result.problems), "problem"))
    _print_rows(
        out, [(each.what, each.kind, each.detail) for each in result.problems], "what", "problem", "detail"
    )


def print_files(files: Sequence[RemoteFile], out: Console) -> None:
    """Print the files that can be fetched."""
    rows = [(file.path, "" if file.size is None else size_words(file.size)) for file in files]
    _print_rows(out, rows, "file", "size", right=("size",))
    known = [file.size for file in files if file.size is not None]
    total = f", {size_words(sum(known))}" if known else ""
    out.print(f"{count(len(files), 'file')}{total}. Without --list they are fetched.")


def print_got(dataset: Dataset, folder: Path, got: Sequence[Got], out: Console) -> None:
    """Print the outcome of fetching."""
    states = [each.state for each in got]
    new, n_there = sum(state in ("fetched", "unpacked") for state in states), states.count("there")
    out.print(
        f"{count(new, 'file')} fetched into {folder}" + (f", {n_there:,} there already." if n_there else ".")
    )
    failed = [(each.file.path, each.problem) for each in got if each.state == "failed"]
    if failed:
        print_heading(out, f"{count(len(failed), 'file')} failed")
        _print_rows(out, failed, "file", "why")
        out.print("Run it again: what is there is kept, what broke off goes on.")
        return
    out.print(f"Licence: {dataset.licence or 'none stated'}.")
    if dataset.citation:
        out.print(f"Cite: {dataset.citation}")
    out.print(f"Check it: stageguard data check {dataset.name} {folder}")


def _print_rows(
    out: Console, rows: Sequence[Sequence[str]], *columns: str, right: tuple[str, ...] = ()
) -> None:
    """Print the first rows of a table, and how many more there are."""
    shown = table(*columns, right=right)
    for row in rows[:MOST_ROWS]:
        shown.add_row(*map(one_line, row))
    out.print(shown)
    if len(rows) > MOST_ROWS:
        out.print(f"... and {len(rows) - MOST_ROWS:,} more: --json lists all.")


SUBCOMMANDS = {"list": list_datasets, "show": show, "check": check, "get": get}
