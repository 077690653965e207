"""The kernels: one contract, two implementations, `reference` in NumPy and the compiled `_core`.

`active` is the compiled module where it can be imported, else `reference`. Both have the functions below,
with the same positional arguments and the same results, and both trust their arguments. `reference` computes
in logarithms and is the specification; tests compare both with independent oracles.

Arguments
---------
pieces : list of contiguous float64 (n_epochs, n_stages)
    Stretches of nights, each decoded by itself: log-evidence, or likelihoods where `products` is true.
products : bool
    Whether pieces, weight, stay and change are probabilities; otherwise all are logarithms. Rows of
    probabilities are divided by their sums and clipped (at `clip`, where that is an argument). The sums over
    an automaton take logarithms; there, `products` only says how to compute inside.
table : int32 (n_pieces,), or one for all
    The row of the rules for each piece.
weight : float64 (n_pieces, n_stages), or one row for all
    Factors of the probability of each stage, or nats added to its logarithm.
stay, change, minimum, censored
    Bouts: float64 (n_tables, n_stages) and (n_tables, n_stages ** 2), int32 (n_stages,), bool. Scores of
    staying and of each switch, shortest complete bouts, whether the first bout may be cut by the start.
penalty_nats, window_epochs : float, int
    The greedy flip-flop, read off each path's past.
stage, first, source, weight, initial, final_weight
    An automaton: int32 (n_states,), (n_states + 1,), (n_edges,), then float64 (n_tables, n_edges) and twice
    (n_tables, n_states). Edges into state j are ``first[j] : first[j + 1]``, in the order that wins ties.
labels, regions : int8 (n_epochs of all pieces,), int64 (n_regions, 3)
    A path, and rows (piece, first epoch, end) within which it is pinned.
streams : uint64 (n_pieces, n_draws)
    The seed of each draw.
n_threads : int
    The last positional argument of every function. It changes no result.
clock : list of float64 (up to n_epochs, n_stages), one per piece; by keyword
    Factors of the first rows in `argmax` and `structured`, or nats added to them if they are logarithms.
rooms : list of writable float64 (n_epochs, n_stages), or None, one per piece; by keyword
    Memory to which `argmax` and `check_and_decode` first copy each piece, because its owner may change it.

Functions
---------
argmax(pieces, weight)
    labels, stage changes per piece, whether some row of the piece is not a distribution.
check_and_decode(pieces, table, weight, *bouts)
    `argmax` and `structured` together, of probabilities: labels of argmax, labels of the best paths, and per
    piece the stage changes of argmax, whether some row is not a distribution (then no path is searched for),
    score and stage changes of the path, and how many labels differ.
sleep_onsets(labels, wake, restart_epochs, start, stop)
    the first epoch of sleep, and of sleep after each unbroken wake that restarts the clock.
clock_factors(rows, wake, onsets, start, stop)
    factors of the first epochs by a clock that counts from these onsets: `rows` from onset on.
structured(pieces, products, table, weight, *bouts),
greedy(pieces, products, table, weight, *bouts, *flip_flop), automaton(pieces, table, *automaton)
    labels, score per piece (-inf where no path exists), stage changes per piece: Viterbi.
keep_greedy(pieces, labels, regions, table, ...), keep_automaton(pieces, labels, regions, table, ...)
    score per piece, score per region with the region pinned to its labels.
smooth(pieces, products, clip, table, weight, *bouts), smooth_automaton(pieces, products, table, *automaton)
    log-sum over paths per piece, marginals (n_epochs of all pieces, n_stages), certified per piece: whether
    nothing underflowed.
draw(..., streams), draw_automaton(..., streams)
    labels, log-sum per piece, certified per piece; other arguments as in `smooth` and `smooth_automaton`.
draw_each(pieces, streams)
    labels, every epoch drawn by itself.
forward_backward(pieces, table, *automaton, want_edges)
    log-sum per piece, marginals, expected uses of each edge (n_pieces, n_edges).
read_numbers(cells), read_rows(text, delimiter, width)
    the numbers of a tuple of texts, or of a table in rows of `width` cells, as Python's `float` reads them;
    None if a cell is no plain number, a row has another width, or the kernels leave it to `float`.

Labels of all pieces are one flat int8 array, piece after piece; of draws, draw after draw within a piece.
Other results of decoders are lists with an item per piece. `Stream` decodes one row at a time: see
`reference_stream`. `check_and_decode`, `structured`, `smooth` and `draw` take up to MOST_STAGES stages and
minimum bouts of LONGEST_MINIMUM epochs, `greedy` and `keep_greedy` up to MOST_STAGES stages, all others any
number. The compiled `smooth` and `draw` take only products; what underflows is summed over an automaton.
Consecutive pieces that are one night under several tables are decoded LANES at a time: by `structured`, of
products, in about the time of one piece, by `automaton` in about the time of two. `check_and_decode` decodes
LANES nights at a time, whatever their lengths. Ties: prefer to stay, then the stage that comes first in the
scheme, then the older bout.
"""

from __future__ import annotations

import os
import sys
import warnings
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.errors import StageGuardWarning

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
    warnings.warn(
        "the compiled core is missing: decoding works, but takes about 100 to 500 times as long. To get it, "
        f"{TO_COMPILE}. `stageguard doctor` tells whether it worked.",
        StageGuardWarning,
        stacklevel=2,
    )


def for_stages(n_stages: int) -> Any:
    """Return kernels whose `greedy` and `structured` take this many stages: the compiled ones up to five."""
    return active if n_stages <= active.MOST_STAGES else import_module(REFERENCE)


def is_reference() -> bool:
    """Whether the kernels in use are those in NumPy."""
    return bool(active.__name__ == REFERENCE)


@cache
def no_weight(n_stages: int) -> Floats:
    """Return the row of weights, for all pieces, that changes no probability."""
    return np.ones((1, n_stages))


EPOCHS_PER_THREAD = 20_000  # fewer are decoded before another thread has begun


def threads_for(n_pieces: int, n_epochs: int | None = None) -> int:
    """Return how many threads to decode pieces on: one in a worker process, else as many as pay off.

    Worker processes are started one per processor.
    """
    most = n_pieces if n_epochs is None else min(n_pieces, max(1, n_epochs // EPOCHS_PER_THREAD))
    if most < 2:
        return min(n_pieces, 1)
    processes = sys.modules.get("multiprocessing.process")  # imported in every worker
    if processes is not None and processes.parent_process() is not None:
        return 1
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(most, processors)
