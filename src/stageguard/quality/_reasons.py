"""Put flags of several rules and channels together into beta and reasons. Decides no threshold."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


def from_epochs(flags: Mapping[str, Booleans]) -> tuple[Floats, tuple[str, ...]]:
    """Return beta 1 for every epoch that a rule flags, and the names of the rules that do.

    Parameters
    ----------
    flags : mapping of str to array (n_epochs,)
        By rule, such as "eeg: amplitude".
    """
    beta = np.any(list(flags.values()), axis=0).astype(np.float64)
    return beta, _names(flags)


def from_segments(flags: Mapping[str, Booleans]) -> tuple[Floats, tuple[str, ...]]:
    """Return the share of segments that any rule flags, and the names of the rules that do.

    Parameters
    ----------
    flags : mapping of str to array (n_epochs, n_segments)
        By rule.
    """
    beta = np.any(list(flags.values()), axis=0).mean(axis=1)
    return beta, _names({name: np.asarray(flag.any(axis=1)) for name, flag in flags.items()})


def worst(parts: list[tuple[Floats, tuple[str, ...]]]) -> tuple[Floats, tuple[str, ...]]:
    """Return the largest beta of several channels, and all of their reasons."""
    beta = np.max([part[0] for part in parts], axis=0)
    reasons = tuple(
        "; ".join(filter(None, epoch)) for epoch in zip(*(part[1] for part in parts), strict=True)
    )
    return beta, reasons


def runs_of(flags: Booleans, at_least: int) -> Booleans:
    """Return the flags that stand in a row of at least so many."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    kept = np.zeros(len(flags), dtype=bool)
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        kept[first:end] = end - first >= at_least
    return kept


def _names(flags: Mapping[str, Booleans]) -> tuple[str, ...]:
    rows = np.stack(list(flags.values()), axis=1)
    names = list(flags)
    found = np.flatnonzero(rows.any(axis=1))
    reasons = [""] * len(rows)
    for epoch in found:
        reasons[epoch] = "; ".join(names[rule] for rule in np.flatnonzero(rows[epoch]))
    return tuple(reasons)
