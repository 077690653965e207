"""Run a function over items in this process or in several. Knows nothing of what it runs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_IN_CHUNK = 16  # items sent at once, so that sending costs little beside the work
CHUNKS_AHEAD = 4  # per worker, so that none waits while results are taken

_is_stopping = False  # in a worker: SIGTERM has come
_is_busy = False  # in a worker: a job is running, or tidying up


def run_all(
    function: Callable[[Item], Result], items: Sequence[Item], jobs: int = 1
) -> Generator[Result, None, None]:
    """Results in the order of the items; `jobs` = 0 means one process per core.

    No more than a few chunks of items are under way or waiting to be taken at any time, however many there
    are. When the caller is interrupted, nothing else is begun and the processes end.
    """
    n_workers = min(jobs or os.cpu_count() or 1, len(items))
    if n_workers <= 1:
        yield from map(function, items)
        return
    # a fresh interpreter per worker: a forked one may inherit locks held by NumPy's threads
    context = multiprocessing.get_context("spawn")
    chunk = max(1, min(MOST_IN_CHUNK, len(items) // (8 * n_workers)))
    pool = ProcessPoolExecutor(n_workers, mp_context=context, initializer=_begin)
    waiting: deque[Future[list[Result]]] = deque()
    try:
        for first in range(0, len(items), chunk):
            with _ctrl_c_ignored():  # a terminal sends it to the workers too, who inherit this
                waiting.append(pool.submit(_run_chunk, function, items[first : first + chunk]))
            if len(waiting) >= CHUNKS_AHEAD * n_workers:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in multiprocessing.active_children():
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Prepare a worker: quiet, since what a job warns of comes back in its result, and easy to end."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _stop(*_: int | FrameType | None) -> None:
    """End by an exception, so that half-written files are removed."""
    global _is_stopping
    if _is_stopping and _is_busy:  # the first one is tidying up, and must not be disturbed
        return
    _is_stopping = True
    raise SystemExit(128 + signal.SIGTERM)


def _end_with_parent() -> None:
    """Wait for the end of the process that began this one, which may be killed without a word."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    while True:  # the first ends a job, the next the wait for another one
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)


def _run_chunk(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    return [_unless_stopping(function, item) for item in items]


def _unless_stopping(function: Callable[[Item], Result], item: Item) -> Result:
    global _is_busy
    if _is_stopping:  # the pool takes the exit of a job for its result, and goes on to the next
        raise SystemExit(128 + signal.SIGTERM)
    _is_busy = True
    try:
        return function(item)
    finally:
        _is_busy = False


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
