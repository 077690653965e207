"""One loop over the nights of a cohort, whether they come from files or from one table."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, Protocol

from stageguard.runner.manifest import DecodedNight, Manifest
from stageguard.runner.run import Outcome

if TYPE_CHECKING:
    from concurrent.futures import Executor


class Source(Protocol):
    """Nights to decode, and where they are written."""

    def opened(self) -> AbstractContextManager[None]:
        """Hold what a run needs while it lasts; if it is stopped, say what was finished."""

    def outcomes(self, jobs: int, executor: Executor | None) -> Generator[Outcome[DecodedNight], None, None]:
        """Decode and write the nights that no earlier run has; yield the outcomes of all, in order."""

    def finish(self, manifest: Manifest) -> None:
        """Write what is written once for all nights, and add it to the manifest."""


def decode_cohort(
    source: Source,
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    on_outcome: Callable[[Outcome[DecodedNight]], None] | None = None,
) -> Manifest:
    """Decode the nights of a source, and return the manifest of the run.

    Parameters
    ----------
    source : Source
        The nights: a `FileSource`, or what `table_source` returns.
    jobs : int
        Processes of this computer; 0 means one per core, 1 means this process.
    executor : Executor, optional
        Where to run instead of in processes of this computer.
    on_outcome : callable, optional
        Called with the outcome of each night, in order, as soon as it is in the manifest.
    """
    manifest = Manifest()
    with source.opened():
        with closing(source.outcomes(jobs, executor)) as outcomes:
            for outcome in outcomes:
                manifest.add(outcome)
                if on_outcome is not None:
                    on_outcome(outcome)
        source.finish(manifest)
    return manifest
