"""Run a function over many items: in this process, in several processes, or on an executor."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from types import FrameType
from typing import Any, TypeVar

from stageguard.errors import StageGuardError
from stageguard.guard.kernels import available_processors
from stageguard.runner.executors import broken_executors_named, n_threads, sender
from stageguard.runner.stopping import TERMINAL_SIGNALS, sparing_children

LOGGER = logging.getLogger("stageguard.runner")

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_IN_CHUNK = 16  # items sent at once, so that sending costs little compared with the work
CHUNKS_AHEAD = 4  # chunks under way per worker, so that none waits while results are taken
FEWEST_AHEAD = 64  # chunks under way on an executor: an adaptive cluster grows by what waits
MOST_MADE_AHEAD = 32  # items made while they are taken that wait on an executor: blocks of some MB each
MOST_WORKERS = 61 if sys.platform == "win32" else sys.maxsize  # a pool of processes refuses more on Windows
LONGEST_END_SECONDS = 20.0  # time for a worker to finish its last file before it is killed
LOST = "the process at work was killed: by hand, or for want of memory."
UNSTARTED = (
    "processes to work in cannot start. In a script, call stageguard below `if __name__ == '__main__':`; "
    "else run it in one process (--jobs 1)."
)

_work: Callable[[Any], Any] | None = None  # in a worker: the function to call on each item
_is_stopping = False  # in a worker: SIGTERM was received
_is_busy = False  # in a worker: a job is running, or cleaning up


def run_all(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    jobs: int = 1,
    lost: Callable[[Item], Result] | None = None,
    executor: Executor | None = None,
    at_once: int = MOST_IN_CHUNK,
) -> Generator[Result, None, None]:
    """Yield results in the order of the items; `jobs` = 0 means one process per processor.

    Items that are made while they are taken, such as the blocks of a table, go to the processes one by one.
    Of a sequence, at most `at_once` items go to a process together, and their results come back together. An
    `executor` gets them likewise, and decides how many run at a time; the caller shuts it down.

    Only a few chunks of items are under way or waiting to be taken at any time. When the caller is
    interrupted, no other item is begun and the processes end. When a process is killed, the items that were
    under way are repeated one by one. An item that kills its process again gets its result from `lost`, or
    without `lost` raises StageGuardError.
    """
    if executor is not None:
        yield from _run_on(executor, function, items, at_once)
        return
    n_workers = min(jobs or available_processors(), MOST_WORKERS)
    if isinstance(items, Sized):
        n_workers = max(1, min(n_workers, len(items)))
    size = _chunk_size(items, n_workers, at_once)
    if n_workers == 1:
        yield from map(function, items)
        return
    LOGGER.info("%d processes, up to %d items sent at once", n_workers, size)
    chunks = _chunks(items, size)
    under_way: deque[list[Item]] = deque()

    def taken() -> Iterator[list[Item]]:
        for chunk in chunks:
            under_way.append(chunk)
            yield chunk

    is_done = False
    while not is_done:
        try:
            for results in _run_chunks(function, taken(), n_workers):
                under_way.popleft()
                yield from results
            is_done = True
        except BrokenProcessPool:
            again = [item for chunk in under_way for item in chunk]
            under_way.clear()
            LOGGER.warning("a process was killed; %d items are repeated one by one", len(again))
            yield from _run_singly(function, again, lost)


def _run_on(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], at_once: int
) -> Generator[Result, None, None]:
    """Run chunks of items on an executor, of which only so many wait at a time."""
    size = _chunk_size(items, n_threads(executor), at_once)
    LOGGER.info("%d threads of an executor, up to %d items sent at once", n_threads(executor), size)

    def most() -> int:
        n_ahead = max(FEWEST_AHEAD, CHUNKS_AHEAD * n_threads(executor))
        return n_ahead if isinstance(items, Sized) else min(n_ahead, MOST_MADE_AHEAD)

    with broken_executors_named():
        for results in _in_order(sender(function, executor), _chunks(items, size), most):
            yield from results


def _chunk_size(items: Iterable[Any], n_workers: int, at_once: int) -> int:
    """Return how many items go to a worker together: one if they are made while they are taken."""
    return max(1, min(at_once, len(items) // (8 * n_workers))) if isinstance(items, Sized) else 1


def _chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    left = iter(items)
    while chunk := list(islice(left, size)):
        yield chunk


def runs_the_script_again() -> bool:
    """Whether this process is a worker that runs the caller's script, because its calls are not guarded."""
    return getattr(multiprocessing.current_process(), "_inheriting", False)


def _in_order(
    submit: Callable[[Item], Future[Result]], items: Iterable[Item], most: Callable[[], int]
) -> Generator[Result, None, None]:
    """Submit a window of items and yield their results in order; at the end, cancel those not begun."""
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(submit(item))
            while waiting and (len(waiting) >= most() or waiting[0].done()):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _run_chunks(
    function: Callable[[Item], Result], chunks: Iterable[Sequence[Item]], n_workers: int
) -> Generator[list[Result], None, None]:
    if runs_the_script_again():
        raise SystemExit(1)  # the parent says why
    # a fresh interpreter per worker: a forked one may inherit locks held by NumPy's threads
    context = multiprocessing.get_context("spawn")
    with sparing_children():  # the first event starts a process that tracks semaphores
        has_begun = context.Event()
    # each worker gets the function only once, with the data that all items share
    pool = ProcessPoolExecutor(n_workers, context, initializer=_begin, initargs=(has_begun, function))

    def submit(chunk: Sequence[Item]) -> Future[list[Result]]:
        with sparing_children():  # a terminal sends its signals to the workers, too
            return pool.submit(_run_chunk, chunk)

    try:
        yield from _in_order(submit, chunks, lambda: CHUNKS_AHEAD * n_workers)
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        _end(multiprocessing.active_children())
        if isinstance(error, BrokenProcessPool) and not has_begun.is_set():  # new workers would fail, too
            raise StageGuardError(UNSTARTED) from None
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _end(workers: Sequence[BaseProcess]) -> None:
    """End processes; wait for them, since each may finish the file it is writing, then kill the rest."""
    deadline = time.monotonic() + LONGEST_END_SECONDS
    while workers and time.monotonic() < deadline:
        for worker in workers:
            worker.terminate()  # the first call ends the job, the next the wait for another job
        workers[0].join(0.2)
        workers = [worker for worker in workers if worker.is_alive()]
    for worker in workers:
        worker.kill()
        worker.join()


def _run_singly(
    function: Callable[[Item], Result], items: Sequence[Item], lost: Callable[[Item], Result] | None
) -> Generator[Result, None, None]:
    """Run items one after the other in one process, so that a kill points to one item."""
    n_done = 0
    while n_done < len(items):
        try:
            for results in _run_chunks(function, [[item] for item in items[n_done:]], 1):
                n_done += 1
                yield from results
        except BrokenProcessPool:
            if lost is None:
                raise StageGuardError(f"{LOST} Run it again with fewer processes (jobs=1).") from None
            n_done += 1
            yield lost(items[n_done - 1])


def _begin(has_begun: Event, function: Callable[[Any], Any]) -> None:
    """Prepare a worker: silence warnings, which are part of results, and let it end with its parent."""
    global _work
    _work = function
    has_begun.set()
    warnings.simplefilter("ignore")
    for kind in TERMINAL_SIGNALS:
        signal.signal(kind, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGTERM, _stop)  # last: before this a worker has nothing to clean up, and just ends


def _stop(*_: int | FrameType | None) -> None:
    """End the worker by an exception, so that half-written files are removed."""
    global _is_stopping
    if _is_stopping and _is_busy:  # the cleanup after the first signal must not be disturbed
        return
    _is_stopping = True
    raise SystemExit(128 + signal.SIGTERM)


def _end_with_parent() -> None:
    """End this process when its parent has ended, even if the parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    while True:  # the first signal ends the job, the next the wait for another job
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)


def _run_chunk(items: Sequence[Any]) -> list[Any]:
    global _is_busy
    assert _work is not None
    results = []
    for item in items:
        if _is_stopping:  # the pool takes a job's SystemExit for its result, and starts the next job
            raise SystemExit(128 + signal.SIGTERM)
        _is_busy = True
        try:
            results.append(_work(item))
        finally:
            _is_busy = False
    return results
