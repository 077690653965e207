"""A progress bar on standard error, which disappears at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar

from stageguard.cli.console import width_of

Item = TypeVar("Item")

BAR_WIDTH = 30
SECONDS_BETWEEN = 0.1  # between two drawings


class Bar:
    """One line of the terminal: a description, a bar, how much of how much, and the time left."""

    def __init__(self, what: str, words: Callable[[int], str] = "{:,}".format) -> None:
        self._what, self._words = what, words
        self._total: int | None = None
        self._completed, self._drawn = 0, 0.0
        self._begun = monotonic()

    def update(
        self, *, total: int | None = None, completed: int | None = None, description: str | None = None
    ) -> None:
        """Set what is known of the progress, and draw the bar now and then."""
        self._total = self._total if total is None else total
        self._completed = self._completed if completed is None else completed
        self._what = self._what if description is None else description
        now = monotonic()
        if now - self._drawn >= SECONDS_BETWEEN:
            self._drawn = now
            line = self.line(now - self._begun)[: max(width_of(sys.stderr, 80) - 1, 1)]
            print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)

    def line(self, seconds: float) -> str:
        """Return the line to show after a number of seconds."""
        if not self._total:
            return f"{self._what}  {self._words(self._completed)}"
        share = min(self._completed / self._total, 1.0)
        bar = ("#" * round(BAR_WIDTH * share)).ljust(BAR_WIDTH, ".")
        left = round(seconds / share - seconds) if share else None
        time = "" if left is None else f"  {left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left"
        return f"{self._what}  {bar}  {self._words(self._completed)} of {self._words(self._total)}{time}"

    def clear(self) -> None:
        """Leave an empty line behind."""
        print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


@contextmanager
def progress_bar(what: str, *, quiet: bool) -> Iterator[Callable[..., None] | None]:
    """Yield a function that moves a bar (total, completed, description), or None without a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    bar = Bar(what)
    bar.update()
    try:
        yield bar.update
    finally:
        bar.clear()


def progress(items: Iterable[Item], what: str, n_items: int, *, quiet: bool) -> Iterable[Item]:
    """Yield the items, with a bar if there are several and standard error is a terminal."""
    with progress_bar(what, quiet=quiet or n_items < 2) as move_bar:
        for number, item in enumerate(items, 1):
            yield item
            if move_bar is not None:
                move_bar(total=n_items, completed=number)


def size_words(n_bytes: int) -> str:
    """Return a size, as in `1.5 MB`."""
    size, units = float(n_bytes), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{n_bytes:,} bytes" if units[0] == "bytes" else f"{size:,.1f} {units[0]}"
