"""Where work runs: on processes of this computer, on an executor, or on a Dask cluster."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Lock
from typing import Any

from stageguard import checks
from stageguard.errors import InputError, StageGuardError
from stageguard.lazy import library
from stageguard.version import __version__

LOGGER = logging.getLogger("stageguard.runner")

LOCAL = "local"
CONNECT_SECONDS = 10.0  # for a scheduler to answer, and for the first worker unless the user says
TASK_MINUTES = 120.0  # the default limit for one task
LOOK_SECONDS = 10.0  # between two looks at how many threads a cluster has

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
    of it, are an error, whenever they join. So is a task that exceeds the limit.
    """
    if cluster is None:
        yield None
        return
    scheduler = cluster.scheduler
    if isinstance(scheduler, Executor):
        yield scheduler
        return
    with _client_of(scheduler) as client:
        check_workers(client, cluster.wait_minutes)
        yield ClusterExecutor(client, 60 * cluster.task_minutes)


@contextmanager
def _client_of(scheduler: object) -> Iterator[Any]:
    if _is_client(scheduler):
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


def _is_client(scheduler: object) -> bool:
    distributed = sys.modules.get("distributed")  # who has a client has imported it
    return distributed is not None and isinstance(scheduler, distributed.Client)


# versions of workers


def package_version() -> str:
    """Return the version of this package on the computer that runs the call."""
    return __version__


def _version_text() -> str:
    from stageguard.runner import executors

    return executors.package_version()


def check_workers(client: Any, wait_minutes: float | None = None) -> None:
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
    for worker, text in client.run(_version_text, on_error="return").items():
        _refuse_version(worker, text)


def _refuse_version(worker: str, version: object, expected: str | None = None) -> None:
    """Refuse a worker by its version, or by the error that asking for it gave."""
    expected = expected or __version__
    if version == expected:
        return
    is_other = isinstance(version, str)
    has = f"stageguard {version}" if is_other else f"no stageguard ({type(version).__name__})"
    raise ClusterError(
        f"worker {worker} has {has}, expected {expected} as here. Install the same version everywhere."
    )


# sending


def call_each(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Call a function on each of some items; threads of one process take turns."""
    with _one_at_a_time:
        return [function(item) for item in items]


def _call_each_on_worker(expected: str, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Call a function on each of some items, on a worker of the expected version."""
    if package_version() != expected:
        from distributed import get_worker

        _refuse_version(get_worker().address, package_version(), expected)
    return call_each(function, items)


def _same(value: Any) -> Any:
    return value


class ClusterExecutor(Executor):
    """A Dask client as an executor; waiting too long for a result is an error."""

    def __init__(self, client: Any, seconds: float) -> None:
        self._client, self._seconds = client, seconds
        self._n_threads, self._looked = 1, -LOOK_SECONDS

    @property
    def dashboard(self) -> str | None:
        """The address of the cluster's pages, if it has any."""
        link: str | None = self._client.dashboard_link
        return link

    @property
    def n_threads(self) -> int:
        """How many tasks the workers run at a time, as of a few seconds ago; they may come and go."""
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
            self._n_threads, self._looked = max(1, sum(each["nthreads"] for each in workers)), now
        return self._n_threads

    def submit(self, function: Callable[..., Any], /, *items: Any, **options: Any) -> Future[Any]:
        """Send a call to a worker; if the worker dies, Dask repeats the call on another."""
        return self._sent(self._client.submit(function, *items, pure=False, **options))

    def sender(self, function: Callable[[Any], Any]) -> Callable[[Sequence[Any]], Future[list[Any]]]:
        """Return what sends items to be called by a function, which goes to each worker only once.

        The function is the result of a task and not scattered: if all workers that hold it die, Dask makes
        it again, whereas scattered data would be lost.
        """
        held = self._client.submit(_same, function, pure=False)

        def send(items: Sequence[Any]) -> Future[list[Any]]:
            return self._sent(self._client.submit(_call_each_on_worker, __version__, held, items, pure=False))

        return send

    def _sent(self, sent: Any) -> Future[Any]:
        future: Future[Any] = _ClusterFuture(self._client, sent, self._seconds)
        return future


class _ClusterFuture(Future[Any]):
    """The result that a worker will return."""

    def __init__(self, client: Any, sent: Any, seconds: float) -> None:
        super().__init__()
        self._client, self._sent, self._seconds = client, sent, seconds

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result."""
        seconds = self._seconds if timeout is None else timeout
        try:
            return self._sent.result(timeout=seconds)
        except (TimeoutError, FutureTimeoutError):
            raise ClusterError(
                f"a task gave no result within {seconds / 60:g} min. Is its worker stuck, or the limit too "
                "low?"
            ) from None
        except StageGuardError:
            raise
        except Exception as error:
            if type(error).__name__ in ("KilledWorker", "CancelledError", "FutureCancelledError"):
                raise ClusterError(
                    f"the cluster lost a task ({type(error).__name__}): its workers died one after the "
                    "other, or the scheduler went away. Look at their logs; for want of memory, give fewer "
                    "threads to each."
                ) from None
            check_workers(self._client)  # one that has joined since may lack the package
            raise

    def done(self) -> bool:
        """Whether there is a result, or an error."""
        return bool(self._sent.done())

    def cancel(self) -> bool:
        """Ask the cluster not to begin the call."""
        self._sent.cancel()
        return True


def sender(
    function: Callable[[Any], Any], executor: Executor
) -> Callable[[Sequence[Any]], Future[list[Any]]]:
    """Return what sends items to an executor, to be called by a function."""
    if isinstance(executor, ClusterExecutor):
        return executor.sender(function)
    return lambda items: executor.submit(call_each, function, items)


def n_threads(executor: Executor) -> int:
    """Return how many tasks an executor runs at a time, as far as it says."""
    if isinstance(executor, ClusterExecutor):
        return executor.n_threads
    return getattr(executor, "_max_workers", None) or 1  # of both executors of Python


@contextmanager
def broken_executors_named() -> Iterator[None]:
    """Turn the error of an executor whose process was killed into one line."""
    try:
        yield
    except BrokenExecutor as error:
        raise ClusterError(
            f"the executor broke ({type(error).__name__}): a process of it was killed, by hand or for want "
            "of memory. The same call with a new one goes on from there."
        ) from None
