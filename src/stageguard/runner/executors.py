"""Where work runs: on processes of this computer, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from typing import Any

from stageguard.base.errors import InputError, StageGuardError
from stageguard.base.extras import library
from stageguard.base.version import __version__

LOCAL = "local"
CONNECT_SECONDS = 10.0
TASK_MINUTES = 120.0  # the default limit for one task


class ClusterError(StageGuardError, RuntimeError):
    """A cluster cannot do the work."""


@contextmanager
def executor_for(scheduler: str | None, timeout_minutes: float | None = None) -> Iterator[Executor | None]:
    """Yield an executor on a Dask scheduler, or None for processes of this computer.

    `scheduler` is the scheduler's address, or "local" to start one here with a worker per core. Workers
    without this package, or with another version of it, are an error. So is a task that exceeds the limit.
    """
    if scheduler is None:
        yield None
        return
    if scheduler != LOCAL and "://" not in scheduler:
        raise InputError(
            f"scheduler is {scheduler!r}, expected an address such as tcp://host:8786, or local."
        )
    distributed = library("distributed", "a cluster", "cluster")
    with _client(distributed, scheduler) as client:
        check_workers(client)
        yield ClusterExecutor(client, 60 * (timeout_minutes or TASK_MINUTES))


@contextmanager
def _client(distributed: Any, scheduler: str) -> Iterator[Any]:
    if scheduler == LOCAL:
        options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
        with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
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
    """Return the version of this package on the computer that runs the call."""
    return __version__


def check_workers(client: Any) -> None:
    """Refuse a cluster that has no workers, or workers without this version of the package."""
    if not client.scheduler_info(n_workers=-1)["workers"]:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except Exception as error:
            raise ClusterError(
                f"the scheduler has no worker after {CONNECT_SECONDS:g} s ({type(error).__name__}). "
                "Start some with: dask worker ADDRESS --nthreads 1"
            ) from None
    versions = client.run(_version_text, on_error="return")
    for worker, text in versions.items():
        if text != __version__:
            has = f"stageguard {text}" if isinstance(text, str) else f"no stageguard ({type(text).__name__})"
            raise ClusterError(
                f"worker {worker} has {has}, expected {__version__} as here. Install the same version "
                "everywhere."
            )


def _version_text() -> str:
    from stageguard.runner import executors

    return executors.package_version()


class ClusterExecutor(Executor):
    """A Dask client as an executor; waiting too long for a result is an error."""

    def __init__(self, client: Any, seconds: float) -> None:
        self._client, self._seconds = client, seconds

    def submit(self, function: Callable[..., Any], /, *items: Any, **options: Any) -> Future[Any]:
        """Send a call to a worker; if the worker dies, Dask repeats the call on another."""
        sent = self._client.submit(function, *items, pure=False, **options)
        future: Future[Any] = _ClusterFuture(sent, self._seconds)
        return future


class _ClusterFuture(Future[Any]):
    """The result that a worker will return."""

    def __init__(self, sent: Any, seconds: float) -> None:
        super().__init__()
        self._sent, self._seconds = sent, seconds

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
            if type(error).__name__ not in ("KilledWorker", "CancelledError", "FutureCancelledError"):
                raise
            raise ClusterError(
                f"the cluster lost a task ({type(error).__name__}): its workers died one after the other, or "
                "the scheduler went away. Look at their logs; for want of memory, give fewer threads to each."
            ) from None

    def cancel(self) -> bool:
        """Ask the cluster not to begin the call."""
        self._sent.cancel()
        return True
