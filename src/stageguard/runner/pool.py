"""Run a function over many items in order: in this process, in several, on an executor or a Dask cluster."""

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
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from threading import Lock
from types import FrameType
from typing import Any, TypeVar

from stageguard import checks
from stageguard.errors import InputError, StageGuardError
from stageguard.guard.kernels import available_processors
from stageguard.lazy import library
from stageguard.runner.stopping import TERMINAL_SIGNALS, sparing_children
from stageguard.version import __version__

LOGGER = logging.getLogger("stageguard.runner")
Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_IN_CHUNK = 16  # items sent at once, so that sending costs little compared with the work
CHUNKS_AHEAD = 4  # chunks under way per process, so that none waits while results are taken
AHEAD_ELSEWHERE = 256  # chunks under way on an executor: an adaptive cluster grows by what waits
MADE_AHEAD_ELSEWHERE = 32  # likewise, of items that are made while they are taken: some MB each
MOST_WORKERS = 61 if sys.platform == "win32" else sys.maxsize  # a pool of processes refuses more on Windows
END_SECONDS = 20.0  # time for a process to tidy up before it is killed
LOCAL = "local"
CONNECT_SECONDS = 10.0  # for a scheduler to answer, and for the first worker unless the user says
TASK_MINUTES = 120.0  # the default limit for one task on a cluster
LOST = "the process at work was killed: by hand, or for want of memory."
UNSTARTED = (
    "processes to work in cannot start. In a script, call stageguard below `if __name__ == '__main__':`; "
    "else run it in one process (--jobs 1)."
)


def run_all(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    jobs: int = 1,
    lost: Callable[[Item], Result] | None = None,
    executor: Executor | None = None,
    at_once: int = MOST_IN_CHUNK,
) -> Generator[Result, None, None]:
    """Yield results in the order of the items; `jobs` = 0 means one process per processor.

    Of a sequence, at most `at_once` items go to a process together; items that are made while they are
    taken, such as chunks of a table, go one by one, and only a few are made ahead. Instead of processes an
    `executor` gets them, which the caller shuts down. When the caller is interrupted, no other item is begun
    and the processes end. When a process is killed, the items under way are repeated one by one; one that
    kills its process again gets its result from `lost`, or without it raises StageGuardError.
    """
    if executor is not None:
        yield from _run_on(executor, function, items, at_once)
        return
    n_workers = min(jobs or available_processors(), MOST_WORKERS)
    size = 1
    if isinstance(items, Sized):
        n_workers = max(1, min(n_workers, len(items)))
        size = max(1, min(at_once, len(items) // (8 * n_workers)))
    if n_workers == 1:
        yield from map(function, items)
        return
    LOGGER.info("%d processes, up to %d items sent at once", n_workers, size)
    left = iter(items)
    chunks = iter(lambda: list(islice(left, size)), [])
    while True:
        under_way: deque[list[Item]] = deque()
        try:
            yield from _run_chunks(function, chunks, n_workers, under_way)
        except BrokenProcessPool:
            again = [item for chunk in under_way for item in chunk]
            LOGGER.warning("a process was killed; %d items are repeated one by one", len(again))
            yield from _run_singly(function, again, lost)
        else:
            return


def _run_singly(
    function: Callable[[Item], Result], items: Sequence[Item], lost: Callable[[Item], Result] | None
) -> Generator[Result, None, None]:
    """Run items one after the other in one process, so that a kill points to one item."""
    left = deque([item] for item in items)
    while left:
        under_way: deque[list[Item]] = deque()
        try:
            for result in _run_chunks(function, iter(list(left)), 1, under_way):
                left.popleft()
                yield result
        except BrokenProcessPool:
            if lost is None:
                raise StageGuardError(f"{LOST} Run it again with fewer processes (jobs=1).") from None
            yield lost(left.popleft()[0])


def _run_chunks(
    function: Callable[[Item], Result],
    chunks: Iterator[list[Item]],
    n_workers: int,
    under_way: deque[list[Item]],
) -> Generator[Result, None, None]:
    """Yield the results of chunks from new processes; `under_way` holds those without results yet."""
    if runs_the_script_again():
        raise SystemExit(1)  # the parent says why
    # a fresh interpreter per worker: a forked one may inherit locks held by NumPy's threads
    context = multiprocessing.get_context("spawn")
    has_begun = context.RawValue("b", 0)  # without a lock, which a killed process could hold
    with sparing_children():  # a terminal sends its signals to all processes of the command
        # each worker gets the function only once, with the data that all items share
        pool = ProcessPoolExecutor(n_workers, context, _begin, (has_begun, function))

    def submit(chunk: list[Item]) -> Future[list[Result]]:
        under_way.append(chunk)
        with sparing_children():
            return pool.submit(_run_chunk, chunk)

    try:
        for results in _in_order(submit, chunks, CHUNKS_AHEAD * n_workers):
            under_way.popleft()
            yield from results
    except BaseException as error:
        workers = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        _end(workers)
        if isinstance(error, BrokenProcessPool) and not has_begun.value:  # new workers would fail, too
            raise StageGuardError(UNSTARTED) from None
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _in_order(
    submit: Callable[[Item], Future[Result]],
    items: Iterable[Item],
    most: int,
    seconds: float | None = None,
) -> Generator[Result, None, None]:
    """Submit a window of items and yield their results in order; at the end, cancel those not begun."""
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(submit(item))
            while waiting and (len(waiting) >= most or waiting[0].done()):
                yield waiting.popleft().result(seconds)
        while waiting:
            yield waiting.popleft().result(seconds)
    finally:
        for future in waiting:
            future.cancel()


def runs_the_script_again() -> bool:
    """Whether this process is a worker that runs the caller's script, because its calls are not guarded."""
    return getattr(multiprocessing.current_process(), "_inheriting", False)


def _end(workers: Sequence[multiprocessing.process.BaseProcess]) -> None:
    """Interrupt processes, give them time to remove half-written files, and kill what is left."""
    for worker in workers:
        worker.terminate()
    deadline = time.monotonic() + END_SECONDS
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))
        if worker.is_alive():
            worker.kill()
            worker.join()


# in a worker

_work: Callable[[Any], Any] | None = None  # the function to call on each item


def _begin(has_begun: Any, function: Callable[[Any], Any]) -> None:
    """Prepare a worker: silence warnings, which are part of results, and let it end with its parent."""
    global _work
    _work, has_begun.value = function, 1
    warnings.simplefilter("ignore")
    for kind in TERMINAL_SIGNALS:
        signal.signal(kind, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGTERM, _stop)


def _stop(*_: int | FrameType | None) -> None:
    """End what is under way by an exception, once, so that half-written files are removed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + signal.SIGTERM)


def _end_with_parent() -> None:
    """End this process when its parent has ended, even if the parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(END_SECONDS / 4)
        os._exit(128 + signal.SIGTERM)


def _run_chunk(items: Sequence[Any]) -> list[Any]:
    assert _work is not None
    results = []
    for item in items:
        if signal.getsignal(signal.SIGTERM) is not _stop:  # it was called: begin nothing more
            os._exit(128 + signal.SIGTERM)
        results.append(_work(item))
    return results


# executors and clusters

_one_at_a_time = Lock()  # Python's record of warnings belongs to the process, not to the thread


class ClusterError(StageGuardError, RuntimeError):
    """A cluster cannot do the work."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where to run, and how long to wait for it.

    `scheduler` is the address of a Dask scheduler, "local" for one on this computer with a worker per core, a
    `distributed.Client`, or any `concurrent.futures.Executor`.
    """

    scheduler: object
    wait_minutes: float | None = None  # for the first worker
    task_minutes: float = TASK_MINUTES  # for a task


@contextmanager
def executor_for(cluster: Cluster | None) -> Iterator[Executor | None]:
    """Yield an executor, or None for processes of this computer.

    An executor or a client of the caller's stays open. Workers without this package, or with another version
    of it, are an error.
    """
    scheduler = None if cluster is None else cluster.scheduler
    if cluster is None or isinstance(scheduler, Executor):
        yield scheduler if isinstance(scheduler, Executor) else None
        return
    with _client_of(scheduler) as client:
        _check_workers(client, cluster.wait_minutes)
        executor: Executor = client.get_executor(pure=False)
        executor.task_seconds = 60 * cluster.task_minutes  # type: ignore[attr-defined]
        yield executor


@contextmanager
def _client_of(scheduler: object) -> Iterator[Any]:
    distributed = sys.modules.get("distributed")  # who has a client has imported it
    if distributed is not None and isinstance(scheduler, distributed.Client):
        yield scheduler
        return
    if not isinstance(scheduler, str) or (scheduler != LOCAL and "://" not in scheduler):
        raise InputError(
            f"scheduler is {checks.shown(scheduler)}, expected an address such as tcp://host:8786, local, a "
            "client of Dask or an executor."
        )
    distributed = library("distributed", "a cluster", "cluster")
    if scheduler == LOCAL:
        # its pages, on this computer alone, need bokeh
        place = "127.0.0.1:0" if find_spec("bokeh") else None
        options = {"threads_per_worker": 1, "dashboard_address": place, "silence_logs": 50}
        with (
            distributed.LocalCluster(**options) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            if place is not None:
                LOGGER.info("dashboard of the local cluster: %s", client.dashboard_link)
            yield client
        return
    try:
        client = distributed.Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:  # a TimeoutError is an OSError
        raise ClusterError(
            f"no scheduler answers at {scheduler} within {CONNECT_SECONDS:g} s ({type(error).__name__}). "
            "Start one with: dask scheduler"
        ) from None
    with client:
        yield client


def package_version() -> str:
    """Return the version of this package in the process that is asked."""
    return __version__


def _check_workers(client: Any, wait_minutes: float | None) -> None:
    """Refuse a cluster without workers, after a while, or with workers without this version of the package.

    An adaptive cluster may begin without workers: the task sent here makes it start one.
    """
    if not client.scheduler_info(n_workers=-1)["workers"]:
        seconds = CONNECT_SECONDS if wait_minutes is None else 60 * wait_minutes
        first = client.submit(int, pure=False)  # which any worker can do
        try:
            first.result(timeout=seconds)
        except (TimeoutError, FutureTimeoutError):
            raise ClusterError(
                f"the scheduler has no worker after {seconds:g} s. Start some with: dask worker ADDRESS "
                "--nthreads 1, or wait longer (--wait-for-workers MINUTES)."
            ) from None
        finally:
            first.cancel()
    for worker, found in client.run(package_version, on_error="return").items():
        if found != __version__:
            has = f"stageguard {found}" if isinstance(found, str) else f"no stageguard ({found})"
            raise ClusterError(f"worker {worker} has {has}, expected {__version__} as here.")


def _run_on(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], at_once: int
) -> Generator[Result, None, None]:
    """Run chunks of items on an executor, of which only so many wait at a time."""
    is_sized = isinstance(items, Sized)
    size = max(1, min(at_once, len(items) // 64)) if isinstance(items, Sized) else 1
    seconds: float | None = getattr(executor, "task_seconds", None)
    left = iter(items)
    chunks = iter(lambda: list(islice(left, size)), [])

    client = getattr(executor, "_client", None)  # of Dask: the function goes to each worker only once
    held: Any = function if client is None else client.submit(_same, function, pure=False)

    def submit(chunk: list[Item]) -> Future[list[Result]]:
        return executor.submit(_call_each, __version__, held, chunk)

    most = AHEAD_ELSEWHERE if is_sized else MADE_AHEAD_ELSEWHERE
    try:
        for results in _in_order(submit, chunks, most, seconds):
            yield from results
    except StageGuardError:
        raise
    except BrokenExecutor as error:
        raise ClusterError(
            f"the executor broke ({type(error).__name__}): a process of it was killed, by hand or for want "
            "of memory. The same call with a new one goes on from there."
        ) from None
    except (TimeoutError, FutureTimeoutError) as error:
        if seconds is None:
            raise
        raise ClusterError(
            f"a task gave no result within {seconds / 60:g} min. Is its worker stuck, or the limit too low?"
        ) from error
    except Exception as error:
        if seconds is None:
            raise
        raise ClusterError(
            f"the cluster lost a task ({type(error).__name__}): {error}. Look at the logs of its workers."
        ) from error


def _same(value: Any) -> Any:
    return value


def _call_each(expected: str, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Call a function on each of some items, with the expected version; threads of a process take turns."""
    if package_version() != expected:
        raise ClusterError(f"a worker has stageguard {package_version()}, expected {expected} as here.")
    with _one_at_a_time:
        return [function(item) for item in items]
