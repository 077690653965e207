"""Turn stretches of bad time into beta and reasons. Decides what is bad nowhere."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from stageguard.extraction._windows import bad_share

Floats = npt.NDArray[np.float64]
Stretches = dict[str, tuple[Floats, Floats]]

LEAST_SHARE = 1e-3  # of an epoch; less is rounding


def from_stretches(stretches: Stretches, edges: Floats) -> tuple[Floats, tuple[str, ...]]:
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
    shares = {reason: bad_share(edges, *pair) for reason, pair in stretches.items()}
    return named(bad_share(edges, starts, ends), shares)


def named(beta: Floats, shares: Mapping[str, Floats]) -> tuple[Floats, tuple[str, ...]]:
    """Return beta, 0 where it is next to nothing, and the reasons that have a share in it."""
    beta = np.where(beta < LEAST_SHARE, 0.0, np.clip(beta, 0.0, 1.0))
    names = list(shares)
    rows = np.stack(list(shares.values()), axis=1)
    reasons = [""] * len(beta)
    for epoch in np.flatnonzero(beta):
        named_here = [names[place] for place in np.flatnonzero(rows[epoch] >= LEAST_SHARE)]
        reasons[epoch] = "; ".join(named_here or [names[int(rows[epoch].argmax())]])
    return beta, tuple(reasons)
