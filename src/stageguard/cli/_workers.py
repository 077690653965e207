"""Run a function over items in this process or in several. Knows nothing of what it runs."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def _be_quiet() -> None:
    """Leave warnings to the process that started this one; what a job warns of comes back in its result."""
    warnings.simplefilter("ignore")


def run_all(function: Callable[[Item], Result], items: Sequence[Item], jobs: int = 1) -> Iterator[Result]:
    """Results in the order of the items; `jobs` = 0 means one process per core."""
    n_workers = min(jobs or os.cpu_count() or 1, len(items))
    if n_workers <= 1:
        yield from map(function, items)
        return
    # a fresh interpreter per worker: a forked one may inherit locks held by NumPy's threads
    context = multiprocessing.get_context("spawn")
    chunk = max(1, len(items) // (8 * n_workers))
    with ProcessPoolExecutor(n_workers, mp_context=context, initializer=_be_quiet) as pool:
        yield from pool.map(function, items, chunksize=chunk)
