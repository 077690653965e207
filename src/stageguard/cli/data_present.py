"""What `stageguard data` shows: facts, checks, files, progress. Reads and fetches nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stageguard.cli.terminal import console, count, escaped, print_heading, table

if TYPE_CHECKING:
    from rich.console import Console

    from stageguard.datasets import Dataset, RemoteFile
    from stageguard.datasets.checking import Check
    from stageguard.datasets.getting import Got

MOST_ROWS = 40


def facts(dataset: Dataset) -> dict[str, Any]:
    """Return what is known of a dataset, for JSON."""
    return {
        "name": dataset.name,
        "title": dataset.title,
        "modality": dataset.modality,
        "access": dataset.access,
        "n_subjects": dataset.n_subjects,
        "n_recordings": dataset.n_recordings,
        "licence": dataset.licence,
        "ethics": dataset.ethics,
        "url": dataset.url,
        "how_to_get": dataset.how_to_get,
        "citation": dataset.citation,
        "page": f"docs/{dataset.page}",
        "options": dict(dataset.options),
    }


def lines(dataset: Dataset) -> dict[str, str]:
    """Return what is known of a dataset, by heading."""
    size = [
        count(number, noun)
        for number, noun in ((dataset.n_subjects, "subject"), (dataset.n_recordings, "recording"))
        if number is not None
    ]
    access = {
        "open": "open: anybody may fetch it",
        "gated": "gated: whoever signs an agreement",
        "private": "not public",
    }
    return {
        "modality": dataset.modality,
        "size": ", ".join(size),
        "access": access[dataset.access],
        "to get it": dataset.how_to_get,
        "home": dataset.url,
        "licence": dataset.licence or "none stated",
        "ethics": dataset.ethics or "none stated",
        "cite": dataset.citation,
        "page": f"docs/{dataset.page}",
    }


class Steps:
    """A line on the terminal that says what is being checked."""

    def __init__(self, *, quiet: bool) -> None:
        self._is_shown = not quiet and sys.stderr.isatty()

    def __enter__(self) -> Steps:
        """Begin."""
        return self

    def __call__(self, name: str, number: int, total: int) -> None:
        """Say what is checked now."""
        if self._is_shown:
            sys.stderr.write(f"\r\x1b[2K{number + 1} of {total}: {escaped(name)[:80]}")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        """Clear the terminal."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


class Transfers:
    """Progress of the files that are fetched: bars on a terminal, a line per file elsewhere."""

    def __init__(self, files: tuple[RemoteFile, ...], *, quiet: bool) -> None:
        self._n_files, self._n_done, self._quiet = len(files), 0, quiet
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Transfers:
        """Begin."""
        if not self._quiet and sys.stderr.isatty():
            from rich import progress

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(),
                progress.DownloadColumn(),
                progress.TransferSpeedColumn(),
                progress.TimeRemainingColumn(),
                console=console(stderr=True),
                transient=True,
            )
            self._bar.start()
        return self

    def __call__(self, file: RemoteFile, have: int, total: int | None) -> None:
        """Say how far a file has come."""
        if self._bar is None:
            return
        if self._task is None:
            text = f"{self._n_done + 1} of {self._n_files}  {escaped(file.path)[-50:]}"
            self._task = self._bar.add_task(text, total=total, completed=have)
        self._bar.update(self._task, completed=have, total=total)

    def done(self, got: Got) -> None:
        """Say what became of a file."""
        self._n_done += 1
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = None
        elif not self._quiet:
            print(
                f"{self._n_done} of {self._n_files}: {escaped(got.file.path)} ({got.state})", file=sys.stderr
            )

    def __exit__(self, *_: object) -> None:
        """Clear the terminal."""
        if self._bar is not None:
            self._bar.stop()


def report(result: Check) -> dict[str, Any]:
    """Return what a check found, for JSON."""
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
        "problems": [{"what": p.what, "kind": p.kind, "detail": p.detail} for p in result.problems],
        "recordings": [
            {
                "id": one.id,
                "subject": one.subject,
                "hours": one.hours,
                "channels": list(one.channels),
                "scored_epochs": one.scored_epochs,
                "is_synthetic": one.is_synthetic,
            }
            for one in result.recordings
        ],
    }


def print_check(result: Check, out: Console) -> None:
    """Print what a check found."""
    expected = result.dataset.n_recordings
    of_all = f" of {expected:,}" if expected is not None else ""
    scored = sum(bool(one.scored_epochs) for one in result.recordings)
    out.print(
        f"{count(len(result.recordings), 'recording')}{of_all} can be read: "
        f"{count(result.n_subjects, 'subject')}, {result.hours:,.1f} h, {scored:,} with a scoring."
    )
    simulated = sum(one.is_synthetic for one in result.recordings)
    if simulated:
        out.print(f"SYNTHETIC: {count(simulated, 'recording')} made up by the simulator.")
    if result.n_compared:
        out.print(f"{count(result.n_compared, 'file')} compared with what was published.")
    else:
        out.print("No published digests are known here, so that no file could be compared.")
    if result.n_absent:
        out.print(f"{count(result.n_absent, 'published file')} not here: a part of the dataset.")
    if result.is_fine:
        out.print("Nothing is wrong with what is here.")
        return
    print_heading(out, f"{count(len(result.problems), 'problem')}")
    shown = table("what", "problem", "detail")
    for each in result.problems[:MOST_ROWS]:
        shown.add_row(escaped(each.what), each.kind, escaped(each.detail))
    out.print(shown)
    if len(result.problems) > MOST_ROWS:
        out.print(f"... and {len(result.problems) - MOST_ROWS:,} more: --json lists all.")


def print_files(files: tuple[RemoteFile, ...], out: Console) -> None:
    """Print what could be fetched."""
    shown = table("file", "size", right=("size",))
    for file in files[:MOST_ROWS]:
        shown.add_row(escaped(file.path), "" if file.size is None else _size(file.size))
    out.print(shown)
    if len(files) > MOST_ROWS:
        out.print(f"... and {len(files) - MOST_ROWS:,} more: --json lists all.")
    known = [file.size for file in files if file.size is not None]
    total = f", {_size(sum(known))}" if known else ""
    out.print(f"{count(len(files), 'file')}{total}. Without --list they are fetched.")


def print_got(dataset: Dataset, folder: Path, got: list[Got], out: Console) -> None:
    """Print what became of the files."""
    states = [each.state for each in got]
    new = sum(state in ("fetched", "unpacked") for state in states)
    there = states.count("there")
    out.print(
        f"{count(new, 'file')} fetched into {folder}" + (f", {there:,} there already." if there else ".")
    )
    failed = [each for each in got if each.state == "failed"]
    if failed:
        print_heading(out, f"{count(len(failed), 'file')} failed")
        shown = table("file", "why")
        for each in failed[:MOST_ROWS]:
            shown.add_row(escaped(each.file.path), escaped(each.problem))
        out.print(shown)
        out.print("Run it again: what is there is kept, what broke off goes on.")
        return
    out.print(f"Licence: {dataset.licence or 'none stated'}.")
    if dataset.citation:
        out.print(f"Cite: {dataset.citation}")
    out.print(f"Check it: stageguard data check {dataset.name} {folder}")


def _size(n_bytes: int) -> str:
    size, units = float(n_bytes), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:,.0f} {units[0]}" if units[0] == "bytes" else f"{size:,.1f} {units[0]}"
