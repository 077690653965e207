"""Put flags of several rules and channels together into beta and reasons."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stageguard.base.arrays import Floats, Mask
from stageguard.signals.windows import covered_share, runs

Assessed = tuple[Floats, tuple[str, ...]]  # beta (n_epochs,); the reasons, one per epoch, "" where clean
Stretches = dict[str, tuple[Floats, Floats]]  # bad time by reason: starts and ends in seconds

LEAST_SHARE = 1e-3  # of an epoch; less is rounding


def from_epochs(flags: Mapping[str, Mask]) -> Assessed:
    """Return beta 1 for every epoch that a rule flags, and the names of the rules that do.

    Parameters
    ----------
    flags : mapping of str to array (n_epochs,)
        By rule, such as "eeg: amplitude".
    """
    beta = np.any(list(flags.values()), axis=0).astype(np.float64)
    return beta, _names(flags)


def from_segments(flags: Mapping[str, Mask]) -> Assessed:
    """Return the share of segments that any rule flags, and the names of the rules that do.

    Parameters
    ----------
    flags : mapping of str to array (n_epochs, n_segments)
        By rule.
    """
    beta = np.any(list(flags.values()), axis=0).mean(axis=1)
    return beta, _names({name: np.asarray(flag.any(axis=1)) for name, flag in flags.items()})


def worst(parts: list[Assessed]) -> Assessed:
    """Return the largest beta of several channels, and all of their reasons."""
    beta = np.max([part[0] for part in parts], axis=0)
    reasons = tuple(
        "; ".join(filter(None, epoch)) for epoch in zip(*(part[1] for part in parts), strict=True)
    )
    return beta, reasons


def runs_of(flags: Mask, at_least: int) -> Mask:
    """Return the flags that stand in a row of at least so many."""
    kept = np.zeros(len(flags), dtype=bool)
    for first, end in zip(*runs(flags), strict=True):
        kept[first:end] = end - first >= at_least
    return kept


def _names(flags: Mapping[str, Mask]) -> tuple[str, ...]:
    rows = np.stack(list(flags.values()), axis=1)
    names = list(flags)
    flagged = np.flatnonzero(rows.any(axis=1))
    reasons = [""] * len(rows)
    for epoch in flagged:
        reasons[epoch] = "; ".join(names[rule] for rule in np.flatnonzero(rows[epoch]))
    return tuple(reasons)


def from_stretches(stretches: Stretches, edges: Floats) -> Assessed:
    """Return the share of each epoch that is bad for any reason, and the reasons.

    Parameters
    ----------
    stretches : mapping of str to (starts, ends)
        Bad time in seconds, by reason; stretches may overlap.
    edges : array (n_epochs + 1,)
        Of the epochs, in seconds.
    """
    starts = np.concatenate([pair[0] for pair in stretches.values()])
    ends = np.concatenate([pair[1] for pair in stretches.values()])
    shares = {reason: covered_share(edges, *pair) for reason, pair in stretches.items()}
    return named(covered_share(edges, starts, ends), shares)


def named(beta: Floats, shares: Mapping[str, Floats]) -> Assessed:
    """Return beta, 0 where it is next to nothing, and the reasons that have a share in it."""
    beta = np.where(beta < LEAST_SHARE, 0.0, np.clip(beta, 0.0, 1.0))
    names = list(shares)
    rows = np.stack(list(shares.values()), axis=1)
    reasons = [""] * len(beta)
    for epoch in np.flatnonzero(beta):
        named_here = [names[rule] for rule in np.flatnonzero(rows[epoch] >= LEAST_SHARE)]
        reasons[epoch] = "; ".join(named_here or [names[int(rows[epoch].argmax())]])
    return beta, tuple(reasons)
