"""Combine the densities of several stagers or channels into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stageguard import checks
from stageguard.arrays import CLIP, Floats
from stageguard.errors import InputError
from stageguard.night.align import Aligned
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.timing import Night

METHODS = ("mean", "log-pool")


def combine(
    densities: Sequence[Hypnodensity] | Aligned,
    *,
    method: str = "mean",
    weights: Sequence[float] | None = None,
) -> Hypnodensity:
    """Combine the probabilities of several channels or stagers into one density.

    Parameters
    ----------
    densities : sequence of Hypnodensity, or Aligned
        Densities of the same epochs in the same scheme (see `align` and `Hypnodensity.merge`).
    method : {"mean", "log-pool"}
        The weighted arithmetic mean, or the weighted geometric mean scaled to a sum of 1. In the second, a
        stager that excludes a stage has more influence.
    weights : sequence of float, optional
        One per density, not negative; by default equal. Only their ratios count.

    Returns
    -------
    Hypnodensity
        A density without evidence for an epoch is left out there. An epoch without evidence in any of them
        has none in the result.

    Examples
    --------
    >>> import stageguard as sg
    >>> eeg, eog = (sg.read_density(([row], ["W", "N", "R"])) for row in ([0.6, 0.3, 0.1], [0.2, 0.3, 0.5]))
    >>> sg.combine([eeg, eog], weights=[3, 1]).probabilities.round(2).tolist()
    [[0.5, 0.3, 0.2]]
    """
    nights = densities.nights if isinstance(densities, Aligned) else densities
    parts = _listed(nights, "densities", "a list of densities")
    checks.choice(method, "method", METHODS)
    _refuse_different(parts)
    shares = _weights(weights, len(parts))
    stack = np.stack([part.probabilities for part in parts])  # (n_densities, n_epochs, n_stages)
    has_evidence = ~np.isnan(stack[:, :, 0])
    share = np.where(has_evidence, shares[:, None], 0.0)
    total = share.sum(axis=0)
    known = total > 0
    share[:, known] /= total[known]
    values = np.where(has_evidence[:, :, None], stack, 0.5)
    if method == "mean":
        pooled = _total(share[:, :, None] * values)
    else:
        logs = _total(share[:, :, None] * np.log(np.maximum(values, CLIP)))
        pooled = np.exp(logs - logs.max(axis=1, keepdims=True))
    pooled[~known] = np.nan
    pooled[known] /= pooled[known].sum(axis=1, keepdims=True)
    source = f"{method} of {', '.join(part.source or '?' for part in parts)}"
    start = next((part.start for part in parts if part.start is not None), None)
    stager = parts[0].stager if len({part.stager for part in parts}) == 1 else None
    combined: Hypnodensity = parts[0].with_rows(pooled, start=start, source=source, assumed=(), stager=stager)
    return combined


def _total(parts: Floats) -> Floats:
    """Return sums over densities that do not depend on their order: equal evidence for two stages ties."""
    total: Floats = np.sort(parts, axis=0).sum(axis=0)
    return total


def _refuse_different(parts: Sequence[Any]) -> None:
    if not parts:
        raise InputError("got no densities to combine, expected one or more.")
    for number, part in enumerate(parts, start=1):
        if not isinstance(part, Hypnodensity):
            raise InputError(f"night {number} is {checks.shown(part)}, expected a Hypnodensity.")
        first = parts[0]
        has_clock = part.start is not None and first.start is not None
        begins = part.start if has_clock else f"{part.offset_seconds:g} s"
        other = first.start if has_clock else f"{first.offset_seconds:g} s"
        for what, value, expected in (
            ("scheme", part.scheme.name, first.scheme.name),
            ("stages", part.scheme.names, first.scheme.names),
            ("epoch length", part.epoch_seconds, first.epoch_seconds),
            ("number of epochs", part.n_epochs, first.n_epochs),
            ("start", begins, other),
        ):
            if value != expected:
                raise InputError(
                    f"night {number} has the {what} {value} and night 1 {expected}, expected the same; use "
                    "merge(...) and align(...)."
                )


def _weights(weights: Sequence[float] | None, n_parts: int) -> Floats:
    if weights is None:
        return np.ones(n_parts)
    listed = _listed(weights, "weights", "a list with one number per density")
    numbers = np.array([checks.number(weight, "a weight", low=0) for weight in listed])
    if len(numbers) != n_parts:
        raise InputError(f"got {len(numbers)} weights for {n_parts} densities, expected one each.")
    if not numbers.max() > 0:
        raise InputError("all weights are 0, expected one above 0.")
    scaled: Floats = numbers / numbers.max()  # so that their sum cannot overflow
    return scaled


def _listed(given: Any, what: str, expected: str) -> tuple[Any, ...]:
    if isinstance(given, Night) or not checks.has_items(given):
        raise InputError(f"{what} is {checks.shown(given)}, expected {expected}.")
    return tuple(given)
