"""Windows around epochs, and numbers missing in some of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stageguard.base.arrays import Floats, Floats32, Ints, Mask
from stageguard.base.errors import InputError
from stageguard.night.epochs import EpochGrid


def window_edges(epochs: EpochGrid, seconds: float) -> tuple[Floats, Floats]:
    """Return start and end of a window around the middle of each epoch.

    At the ends of the recording the window is moved inside it and keeps its length, unless the recording is
    shorter.
    """
    edges = epochs.edges
    length = min(max(seconds, epochs.epoch_seconds), float(edges[-1]))
    middle = (edges[:-1] + edges[1:]) / 2
    first = np.clip(middle - length / 2, 0.0, edges[-1] - length)
    return first, first + length


def bad_share(edges: Floats, starts: Floats, ends: Floats) -> Floats:
    """Return the share of each epoch inside stretches of time, which may overlap.

    Parameters
    ----------
    edges : array (n_epochs + 1,)
        Of the epochs, in seconds.
    starts, ends : array (n,)
        Of the stretches, in seconds.
    """
    if not len(starts):
        return np.zeros(len(edges) - 1)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    starts = np.maximum(starts, np.append(-np.inf, ends[:-1]))  # what overlaps counts once
    ends = np.maximum(starts, ends)
    points = np.stack([starts, ends], axis=1).ravel()
    inside = np.append(0.0, np.cumsum(ends - starts))
    values = np.stack([inside[:-1], inside[1:]], axis=1).ravel()
    seconds = np.diff(np.interp(edges, points, values))
    return np.asarray(np.clip(seconds / np.diff(edges), 0.0, 1.0))


def runs(flags: Mask) -> tuple[Ints, Ints]:
    """Return first and end (exclusive) of each run of True."""
    steps = np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8))
    return np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)


def assemble(columns: Mapping[str, Floats], known: Mask, what: str) -> tuple[Floats32, tuple[str, ...]]:
    """Return columns of features as an array (n_epochs, 1, n_features), and their names.

    Parameters
    ----------
    columns : mapping of str to array (n_epochs,)
        Features by name, NaN where not known.
    known : array (n_epochs,)
        Whether the epoch has a signal; one without is NaN throughout. In all others, what is missing is
        interpolated between the epochs that have it.
    what : str
        Name of the recording, for the message.
    """
    rows = np.flatnonzero(known)
    if not len(rows):
        raise InputError(f"{what}: no epoch has a usable signal. Check the channels, their times and units.")
    values = np.full((len(known), 1, len(columns)), np.nan, dtype=np.float32)
    for place, (name, column) in enumerate(columns.items()):
        there = np.flatnonzero(np.isfinite(column))
        if not len(there):
            raise InputError(
                f"{what}: feature {name!r} could not be computed in any epoch. Check its channel, or leave "
                "it out of the recipe."
            )
        values[rows, 0, place] = np.interp(rows, there, column[there])
    return values, tuple(columns)
