"""The kernels: one contract, two implementations, `reference` in NumPy and the compiled `_core`.

`active` is the compiled module where it can be imported, else `reference`. Both have the functions below,
with the same arguments and the same results, and both trust their arguments. `reference` computes in
logarithms and is the specification; tests compare both with independent oracles.

Arguments
---------
rows : contiguous float64 (n_epochs, n_stages)
    One night, or one stretch of it: log-evidence, or probabilities where `products` is true, which are
    divided by their sums and clipped (at `clip`, where that is an argument).
spans : sequence of (first, end)
    Stretches of the night, each decoded by itself.
weight : float64 (n_stages,)
    Factors of the probability of each stage; ignored with logarithms, which include it.
stay, change, minimum, censored
    Bouts: float64 (n_tables, n_stages) and (n_tables, n_stages ** 2), int32 (n_stages,), bool. Scores of
    staying and of each switch, shortest complete bouts, whether the first bout may be cut by the start. A
    table is a transition weight; where one is meant, it is the first row. They are probabilities if the rows
    are, else logarithms.
clock : float64 (up to n_epochs, n_stages) or None
    Factors of the first rows; logarithms include it already.
penalty_nats, window_epochs : float, int
    The greedy flip-flop, read off each path's past.
stage, first, source, weight, initial, final_weight
    An automaton: int32 (n_states,), (n_states + 1,), (n_edges,), then float64 (n_edges,) and twice
    (n_states,). Edges into state j are ``first[j] : first[j + 1]``, in the order that wins ties. It takes
    log-evidence; where `products` is an argument, that only says how to compute inside.
labels, regions : int8 (n_epochs,), int64 (n_regions, 2)
    A path, and where ``[first, end)`` it is pinned.
streams : uint64 (n_draws,)
    The seed of each draw.
n_threads : int
    It changes no result.

Functions
---------
curve(rows, spans, products, weight, *bouts)
    stage changes (-1 without a path) and epochs in each stage, at every transition weight of the tables: what
    strength rules ask. The compiled one takes four weights at a time.
path(rows, spans, products, weight, *bouts, clock)
    labels, -1 outside of the spans, and their score: Viterbi at one transition weight.
argmax(rows, weight, clock)
    labels, and whether some row is not a distribution.
greedy(rows, products, weight, *bouts, *flip_flop), automaton(rows, *automaton)
    labels and score (-inf where no path exists).
keep_greedy(rows, labels, regions, ...), keep_automaton(rows, labels, regions, *automaton)
    score, and the score with each region pinned to its labels.
smooth(rows, clip, weight, *bouts, clock), smooth_automaton(rows, products, *automaton)
    marginals, log-sum over paths, and whether nothing underflowed.
draw(rows, clip, weight, *bouts, streams, n_threads, clock), draw_automaton(rows, products, ..., streams, ...)
    labels (n_draws, n_epochs), log-sum, and whether nothing underflowed.
draw_tables(rows, weight, *bouts, streams, n_threads)
    labels (n_draws, n_epochs), and the draws in which something underflowed: `weight` (n_draws, n_stages) and
    the bouts have a row per draw, and nothing is clipped.
draw_each(rows, streams, n_threads)
    labels (n_draws, n_epochs), every epoch drawn by itself.
sleep_onsets(labels, wake, restart_epochs, start, stop)
    the first epoch of sleep, and of sleep after each unbroken wake that restarts the clock.
clock_factors(rows, wake, onsets, start, stop)
    factors of the first epochs by a clock that counts from these onsets: `rows` from onset on.
read_numbers(cells), read_rows(text, delimiter, width)
    the numbers of a tuple of texts, or of a table in rows of `width` cells, as Python's `float` reads them;
    None if a cell is no plain number, a row has another width, or the kernels leave it to `float`.

`curve`, `path`, `smooth` and `draw` take up to MOST_STAGES stages and minimum bouts of LONGEST_MINIMUM
epochs (`smooth` and the draws one stage more, for wake before sleep), `greedy` and `keep_greedy` up to
MOST_STAGES stages, all others any number. Ties: prefer to stay, then the stage that comes first in the
scheme, then the older bout.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from stageguard.errors import warn

# pip keeps the wheel that it once built without a compiler, and would install it again.
TO_COMPILE = (
    "install a C++17 compiler, then stageguard again: "
    "pip install --force-reinstall --no-cache-dir --no-deps stageguard (in a clone: . instead of stageguard)"
)
REFERENCE = "stageguard.guard.kernels.reference"  # loaded only if needed
active: Any
try:
    active = import_module("stageguard.guard.kernels._core._native")
except ImportError:
    active = import_module(REFERENCE)
    warn(
        "the compiled core is missing: decoding works, but takes about 100 to 500 times as long. To get it, "
        f"{TO_COMPILE}. `stageguard doctor` tells whether it worked."
    )


def for_stages(n_stages: int) -> Any:
    """Return kernels whose `greedy` takes this many stages: the compiled ones up to five."""
    return active if n_stages <= active.MOST_STAGES else import_module(REFERENCE)


def threads_for(n_items: int) -> int:
    """Return how many threads to work on: one in a worker process, else up to one per processor.

    Worker processes are started one per processor.
    """
    if n_items < 2:
        return 1
    processes = sys.modules.get("multiprocessing.process")  # imported in every worker
    if processes is not None and processes.parent_process() is not None:
        return 1
    return min(n_items, available_processors())


def available_processors() -> int:
    """Return how many processors this process may use, which a scheduler or container may have limited."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
