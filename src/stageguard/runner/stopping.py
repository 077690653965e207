"""Turn Ctrl-C and SIGTERM into one exception that says what was finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], object] | signal.Handlers


class Stopped(BaseException):
    """Raised when a signal asks the command to end; `done` says what was finished until then."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number
        self.done = ""

    @property
    def exit_code(self) -> int:
        """The exit code that shells use: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self.signal_number

    def __str__(self) -> str:
        """Return the line to print."""
        return f"stopped: {self.done}" if self.done else "stopped"


def _raise(signal_number: int, _: FrameType | None) -> None:
    # a second signal must not interrupt the cleanup that the first one began
    signal.signal(signal_number, signal.SIG_IGN)
    raise Stopped(signal_number)


@contextmanager
def handled(
    handler: Handler,
    kinds: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM),
    *,
    replaces: Callable[[Any], bool] = lambda before: True,
) -> Iterator[None]:
    """Handle signals while the block runs, if in the main thread and `replaces` accepts the old handler."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {kind: signal.getsignal(kind) for kind in kinds if is_main}
    for kind, old in before.items():
        if replaces(old):
            signal.signal(kind, handler)
    try:
        yield
    finally:
        for kind, old in before.items():
            signal.signal(kind, old)


def stoppable() -> AbstractContextManager[None]:
    """Raise `Stopped` on Ctrl-C and SIGTERM while the block runs, unless they are ignored, as under nohup."""
    return handled(_raise, replaces=lambda before: before is not signal.SIG_IGN)


@contextmanager
def unstopped() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the block has ended."""
    received: list[int] = []
    try:
        with handled(lambda number, _: received.append(number), replaces=callable):
            yield
    finally:
        if received:
            signal.raise_signal(received[0])
