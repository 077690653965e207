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
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from threading import Lock
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
BROKEN = (
    "a process at work ended: by hand, for want of memory, or because it could not start (in a script, call "
    "stageguard below `if __name__ == '__main__':`). Run it again, in fewer processes: finished nights stay."
)


def run_all(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    jobs: int = 1,
    executor: Executor | None = None,
    at_once: int = MOST_IN_CHUNK,
) -> Generator[Result, None, None]:
    """Yield results in the order of the items; `jobs` = 0 means one process per processor.

    Of a sequence, at most `at_once` items go to a process together; items that are made while they are
    taken, such as chunks of a table, go one by one, and only a few are made ahead. Instead of processes an
    `executor` gets them, which the caller shuts down. When the caller is interrupted, no other item is begun
    and the processes end.
    """
    n_items = len(items) if isinstance(items, Sized) else None
    n_workers = min(jobs or available_processors(), MOST_WORKERS, n_items or sys.maxsize)
    if executor is None and n_workers == 1:
        yield from map(function, items)
        return
    size = max(1, min(at_once, (n_items or 1) // (64 if executor else 8 * n_workers)))
    left = iter(items)
    chunks = iter(lambda: list(islice(left, size)), [])
    try:
        if executor is None:
            LOGGER.info("%d processes, up to %d items sent at once", n_workers, size)
            with _own_processes(function, n_workers) as submit:
                yield from _in_order(submit, chunks, CHUNKS_AHEAD * n_workers)
        else:
            most = MADE_AHEAD_ELSEWHERE if n_items is None else AHEAD_ELSEWHERE
            yield from _run_on(executor, function, chunks, most)
    except BrokenExecutor:
        raise ClusterError(BROKEN) from None


def _in_order(
    submit: Callable[[list[Item]], Future[list[Result]]],
    chunks: Iterable[list[Item]],
    most: int,
    seconds: float | None = None,
) -> Generator[Result, None, None]:
    """Submit a window of chunks and yield their results in order; at the end, cancel those not begun."""
    waiting: deque[Future[list[Result]]] = deque()
    try:
        for chunk in chunks:
            waiting.append(submit(chunk))
            while waiting and (len(waiting) >= most or waiting[0].done()):
                yield from waiting.popleft().result(seconds)
        while waiting:
            yield from waiting.popleft().result(seconds)
    finally:
        for future in waiting:
            future.cancel()


# processes of this computer


@contextmanager
def _own_processes(function: Callable[[Item], Result], n_workers: int) -> Iterator[Any]:
    """Yield a function that submits a chunk of items to new processes, which end with the block."""
    if runs_the_script_again():
        raise SystemExit(1)  # the parent says why
    # a fresh interpreter per worker: a forked one may inherit locks held by NumPy's threads
    context = multiprocessing.get_context("spawn")
    with sparing_children():  # a terminal sends its signals to all processes of the command
        # each worker gets the function only once, with the data that all items share
        pool = ProcessPoolExecutor(n_workers, context, _begin, (function,))

    def submit(chunk: list[Item]) -> Future[list[Result]]:
        with sparing_children():
            return pool.submit(_run_chunk, chunk)

    try:
        yield submit
    except BaseException:
        workers = list((getattr(pool, "_processes", None) or {}).values())
        manager = getattr(pool, "_executor_manager_thread", None)
        pool.shutdown(wait=False, cancel_futures=True)
        _end(workers)
        if manager is not None:  # Python's exit would wake it, and fail if it closes its pipe just then
            manager.join(END_SECONDS)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


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


_work: Callable[[Any], Any] | None = None  # in a worker: the function to call on each item


def _begin(function: Callable[[Any], Any]) -> None:
    """Prepare a worker: silence warnings, which are part of results, and let it end with its parent."""
    global _work
    _work = function
    warnings.simplefilter("ignore")
    for kind in TERMINAL_SIGNALS:
        signal.signal(kind, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    threading.Thread(target=_end_with_parent, daemon=True).start()


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
    try:
        return [_work(item) for item in items]
    except SystemExit:  # the executor would go on with the next chunk
        os._exit(128 + signal.SIGTERM)


# executors and clusters

_one_at_a_time = Lock()  # Python's record of warnings belongs to the process, not to the thread


class ClusterError(StageGuardError, RuntimeError):
    """Processes or a cluster cannot do the work."""


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
        if found != __version__ and not isinstance(found, OSError):  # which tells that the worker has left
            has = f"stageguard {found}" if isinstance(found, str) else f"no stageguard ({found})"
            raise ClusterError(f"worker {worker} has {has}, expected {__version__} as here.")


def _run_on(
    executor: Executor, function: Callable[[Item], Result], chunks: Iterable[list[Item]], most: int
) -> Generator[Result, None, None]:
    """Run chunks of items on an executor; an error of a cluster is one line."""
    seconds: float | None = getattr(executor, "task_seconds", None)
    client = getattr(executor, "_client", None)  # of Dask: the function goes to each worker only once
    held: Any = function if client is None else client.submit(_same, function, pure=False)

    def submit(chunk: list[Item]) -> Future[list[Result]]:
        return executor.submit(_call_each, __version__, held, chunk)

    try:
        yield from _in_order(submit, chunks, most, seconds)
    except (StageGuardError, BrokenExecutor):
        raise
    except Exception as error:
        if seconds is None:
            raise
        if isinstance(error, TimeoutError | FutureTimeoutError):
            what = f"a task gave no result within {seconds / 60:g} min. Look at its worker, or wait longer."
        else:
            what = (
                f"the cluster lost a task ({type(error).__name__}): {error}. Look at the logs of its workers."
            )
        raise ClusterError(what) from error


def _same(value: Any) -> Any:
    return value


def _call_each(expected: str, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Call a function on each of some items, with the expected version; threads of a process take turns."""
    if package_version() != expected:
        raise ClusterError(f"a worker has stageguard {package_version()}, expected {expected} as here.")
    with _one_at_a_time:
        return [function(item) for item in items]
