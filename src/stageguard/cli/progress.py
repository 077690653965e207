"""A progress bar on standard error, which disappears at the end. Rich draws it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

Item = TypeVar("Item")

SECONDS_BETWEEN = 0.1  # between two drawings


@contextmanager
def progress_bar(what: str, *, quiet: bool, in_bytes: bool = False) -> Iterator[Callable[..., None] | None]:
    """Yield a function that moves a bar (total, completed, description), or None without a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    amount: ProgressColumn = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), amount, TimeLeft())
    # Drawn by the calls alone: a thread that draws would be copied into forked workers.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    with bar:
        task, drawn = bar.add_task(what, total=None), monotonic()
        bar.refresh()

        def move(
            *, total: int | None = None, completed: int | None = None, description: str | None = None
        ) -> None:
            nonlocal drawn
            bar.update(task, total=total, completed=completed, description=description)
            if monotonic() - drawn >= SECONDS_BETWEEN:
                drawn = monotonic()
                bar.refresh()

        yield move


def progress(items: Iterable[Item], what: str, n_items: int, *, quiet: bool) -> Iterable[Item]:
    """Yield the items, with a bar if there are several and standard error is a terminal."""
    with progress_bar(what, quiet=quiet or n_items < 2) as move_bar:
        for number, item in enumerate(items, 1):
            yield item
            if move_bar is not None:
                move_bar(total=n_items, completed=number)


def size_words(n_bytes: int) -> str:
    """Return a size, as in `1.5 MB`."""
    from rich.filesize import decimal

    return decimal(n_bytes)
