"""Ctrl-C and SIGTERM as one exception that says what was finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(BaseException):
    """Somebody wants the command to end; `done` says what was finished until then."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number
        self.done = ""

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C and 143 after SIGTERM, as shells have it."""
        return 128 + self.signal_number

    def __str__(self) -> str:
        """Return the line to print."""
        return f"stopped: {self.done}" if self.done else "stopped"


def _raise(signal_number: int, _: FrameType | None) -> None:
    # a second one must not interrupt the tidying up that the first one began
    signal.signal(signal_number, signal.SIG_IGN)
    raise Stopped(signal_number)


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` on Ctrl-C and SIGTERM while the block runs."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may ask for signals
        yield
        return
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = {kind: signal.getsignal(kind) for kind in kinds}
    for kind in kinds:
        if before[kind] is not signal.SIG_IGN:  # as under nohup
            signal.signal(kind, _raise)
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


@contextmanager
def unstopped() -> Iterator[None]:
    """Put off Ctrl-C and SIGTERM until the block is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = {kind: signal.getsignal(kind) for kind in kinds}
    for kind in kinds:
        if callable(before[kind]):
            signal.signal(kind, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
        if came:
            signal.raise_signal(came[0])
