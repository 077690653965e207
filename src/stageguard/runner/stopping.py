"""Turn Ctrl-C, SIGTERM and a closed terminal into one exception that says what was finished."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], object] | signal.Handlers

# what a terminal sends, also to workers: Ctrl-C, and where the system has it, that it was closed
TERMINAL_SIGNALS = (signal.SIGINT, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
STOPS = (*TERMINAL_SIGNALS, signal.SIGTERM)
_came: list[int] = []  # signals of the block that `stoppable` runs


class Stopped(BaseException):
    """Raised when a signal asks the command to end; `done` says what was finished until then."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number
        self.done = ""

    @property
    def exit_code(self) -> int:
        """The exit code that shells use: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
        return 128 + self.signal_number

    def __str__(self) -> str:
        """Return the line to print."""
        return f"stopped: {self.done}" if self.done else "stopped"


@contextmanager
def handled(handler: Handler, replaces: Callable[[Any], bool]) -> Iterator[None]:
    """Handle `STOPS` while the block runs, if in the main thread and `replaces` accepts the old handler."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {kind: signal.getsignal(kind) for kind in STOPS if is_main}
    for kind, old in before.items():
        if replaces(old):
            signal.signal(kind, handler)
    try:
        yield
    finally:
        for kind, old in before.items():
            signal.signal(kind, old)


def raise_if_stopped() -> None:
    """Raise a `Stopped` that was swallowed on its way; called before each piece of work."""
    if _came:
        raise Stopped(_came[-1])


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` on every one of `STOPS` while the block runs, unless it is ignored, as under nohup.

    A library may swallow a `Stopped` (a module that is being imported may, and so may compiled code that
    calls back), or make an error of its own of it: such an error is a `Stopped` here, and a swallowed one is
    raised again by `raise_if_stopped` or the next signal. Tidying up after one is not interrupted by another.
    """
    _came.clear()

    def stop(signal_number: int, _: FrameType | None) -> None:
        error = sys.exc_info()[1]
        while error is not None and not isinstance(error, Stopped):
            error = error.__context__
        if error is None:
            _came.append(signal_number)
            raise Stopped(signal_number)

    with handled(stop, lambda before: before is not signal.SIG_IGN):
        try:
            yield
        except Exception as error:
            if _came:
                raise Stopped(_came[-1]) from error
            raise
        finally:
            _came.clear()


@contextmanager
def unstopped() -> Iterator[None]:
    """Delay `STOPS` until the block has ended."""
    received: list[int] = []
    try:
        with handled(lambda number, _: received.append(number), callable):
            yield
    finally:
        if received:
            signal.raise_signal(received[0])


@contextmanager
def sparing_children() -> Iterator[None]:
    """Keep `TERMINAL_SIGNALS` from processes that the block starts; this process gets them afterwards."""
    with unstopped():
        if not hasattr(signal, "pthread_sigmask"):
            yield
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL_SIGNALS)  # which children inherit
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
