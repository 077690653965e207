"""Nights of one recording: brought to the same stages and epochs, compared with experts, and averaged.

`align` cuts nights to what they share. `on_epochs_of` is the one check behind each comparison with an expert:
both must have epochs of one length and begin together. They may end apart: stagers drop the last, incomplete
epoch, and experts leave epochs unscored after the night.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stageguard import checks
from stageguard.arrays import CLIP, Floats
from stageguard.errors import InputError, warn
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import TIE, UNSCORED, Hypnogram
from stageguard.night.timing import (
    Night,
    part_of,
    require_night,
    seconds_between,
)

SAME_SECONDS = 1.0  # recorders keep whole seconds, so beginnings that differ by no more are the same
SPARE_EPOCHS = 1  # scored epochs that the longer of two scorings may have after the end of the other


@dataclass(frozen=True, slots=True)
class Aligned:
    """Nights that cover the same epochs, in the order of the arguments, and notes on what was done."""

    nights: tuple[Night, ...]
    notes: tuple[str, ...] = ()


def align(*nights: Night, epoch_seconds: float | None = None) -> Aligned:
    """Cut nights of one recording to the epochs they share: a scoring and probabilities, or several of each.

    Parameters
    ----------
    *nights : Hypnogram or Hypnodensity
        Two or more nights.
    epoch_seconds : float, optional
        Length of the resulting epochs. Without it, all nights must have epochs of the same length.

    Returns
    -------
    Aligned
        Nights are matched by their starts, which must be whole epochs apart to a second. A night without a
        start is taken to be of the same recording as the first night that has one, and is placed by its
        `offset_seconds`. What was assumed or left out is a note, and a warning. All nights get the known
        start, and the first night's offset.

    Examples
    --------
    >>> import stageguard as sg
    >>> expert = sg.read_hypnogram(["W", "W", "N", "N"], epoch_seconds=30)
    >>> stager = sg.read_hypnogram(["W", "N"], epoch_seconds=60)
    >>> [night.stages.tolist() for night in sg.align(expert, stager, epoch_seconds=30).nights]
    [['W', 'W', 'N', 'N'], ['W', 'W', 'N', 'N']]
    """
    if len(nights) < 2:
        raise InputError(f"got {len(nights)} night{'s' * (len(nights) != 1)} to align, expected two or more.")
    for night in nights:
        require_night(night)
    if epoch_seconds is not None:
        nights = tuple(night.reepoch(epoch_seconds) for night in nights)
    lengths = sorted({night.epoch_seconds for night in nights})
    if lengths[-1] - lengths[0] > TIE * lengths[0]:
        found = " and ".join(f"{length:g} s" for length in lengths)
        raise InputError(f"epochs last {found}, expected one length; choose it with epoch_seconds=.")
    firsts, notes = _first_epochs(nights)
    ends = [first + night.n_epochs for first, night in zip(firsts, nights, strict=True)]
    low, high = max(firsts), min(ends)
    if low >= high:
        spans = "; ".join(f"epochs {first} to {end - 1}" for first, end in zip(firsts, ends, strict=True))
        raise InputError(f"the nights have no epoch in common: {spans}, counted from the first one's start.")
    for number, (first, end) in enumerate(zip(firsts, ends, strict=True), start=1):
        if (first, end) != (low, high):
            kept = f"epochs {low - first + 1:,} to {high - first:,} of {end - first:,}"
            notes += [f"night {number}: {kept} are kept"]
    if notes:
        warn("; ".join(notes) + ".")
    parts = [part_of(night, low - first, high - first) for first, night in zip(firsts, nights, strict=True)]
    start = next((part.start for part in parts if part.start is not None), None)
    offset = parts[0].offset_seconds
    return Aligned(tuple(replace(part, start=start, offset_seconds=offset) for part in parts), tuple(notes))


def _first_epochs(nights: Sequence[Night]) -> tuple[list[int], list[str]]:
    """Return the number of epochs from the first night's start to each night's, and notes on assumptions."""
    seconds = nights[0].epoch_seconds
    base = next((night for night in nights if night.start is not None), nights[0])
    shifts = []
    for number, night in enumerate(nights, start=1):
        apart = _seconds_after(base, night)
        shifts.append(round(apart / seconds))
        rest = abs(apart - shifts[-1] * seconds)
        if rest > max(SAME_SECONDS, TIE * seconds):
            off = f"{rest:g} s off its grid of {seconds:g} s, expected at most {SAME_SECONDS:g} s"
            first = nights.index(base) + 1
            raise InputError(f"night {number} begins {apart:g} s after night {first}, {off}.")
    unknown = [str(number) for number, night in enumerate(nights, start=1) if night.start is None]
    notes = []
    if unknown and (any(shifts) or len({night.n_epochs for night in nights}) > 1):
        notes = [f"start not known of night {', '.join(unknown)}: placed by offsets in one recording"]
    return [shift - shifts[0] for shift in shifts], notes


def _seconds_after(night: Night, other: Night) -> float:
    """Return how long after a night another begins: by clock, else by offset."""
    if night.start is not None and other.start is not None:
        return seconds_between(night.start, other.start)
    return other.offset_seconds - night.offset_seconds


# ---- an expert's scoring of a night


def on_epochs_of(night: Hypnogram, expert: Hypnogram) -> Hypnogram:
    """Return an expert's scoring on the epochs of a night, or raise an error if it is of other epochs.

    Epochs after the night's last are left out, and those that the expert lacks there are unscored; no more
    than `SPARE_EPOCHS` of either may be scored.
    """
    own, seconds = expert.epoch_seconds, night.epoch_seconds
    if abs(own - seconds) > TIE * seconds:
        lengths = f"the expert's epochs last {own:.12g} s and the night's {seconds:.12g} s"
        raise InputError(f"{lengths}, expected the same.")
    after, tolerance = _seconds_after(night, expert), min(SAME_SECONDS, seconds / 2)
    if abs(after) > tolerance:
        when = f"{abs(after):.12g} s {'after' if after > 0 else 'before'}"
        same = f"expected the same start (within {tolerance:g} s)"
        raise InputError(f"the expert's scoring begins {when} the night, {same}.")
    if not end_together(night, expert):
        last = int(np.flatnonzero(expert.labels != UNSCORED).max(initial=-1)) + 1
        found = f"the expert scored up to epoch {last} and the night has {night.n_epochs} epochs"
        raise InputError(f"{found}, expected the same ({SPARE_EPOCHS} more at the end, or unscored ones).")
    matched = expert if expert.n_epochs == night.n_epochs else part_of(expert, 0, night.n_epochs)
    start = expert.start if night.start is None else night.start
    if (matched.start, matched.offset_seconds) == (start, night.offset_seconds):
        return matched
    return replace(matched, start=start, offset_seconds=night.offset_seconds)


def end_together(one: Hypnogram, other: Hypnogram) -> bool:
    """Whether two nights have the same number of epochs, but for unscored ones and `SPARE_EPOCHS` more."""
    longer = one if one.n_epochs > other.n_epochs else other
    rest = longer.labels[min(one.n_epochs, other.n_epochs) :]
    return int(np.count_nonzero(rest != UNSCORED)) <= SPARE_EPOCHS


def where_scored(expert: Hypnogram, scoring: Hypnogram) -> Hypnogram:
    """Return a scoring of the expert's epochs without those that the expert left unscored."""
    labels = np.where(expert.labels == UNSCORED, np.int8(UNSCORED), scoring.labels)
    return replace(scoring, labels=labels)


# ---- one density of several


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
        Densities of the same epochs in the same scheme (see `align` and their `merge`).
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
    checks.choice(method, "method", ("mean", "log-pool"))
    parts = _combinable(densities.nights if isinstance(densities, Aligned) else densities)
    shares = _weights([1.0] * len(parts) if weights is None else weights, len(parts))
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
    return parts[0].with_rows(pooled, start=start, source=source, assumed=(), stager=stager)


def _total(parts: Floats) -> Floats:
    """Return sums over densities that do not depend on their order: equal evidence for two stages ties."""
    total: Floats = np.sort(parts, axis=0).sum(axis=0)
    return total


def _combinable(parts: object) -> Sequence[Hypnodensity]:
    """Refuse what is no list of densities of the same epochs and stages."""
    if not isinstance(parts, list | tuple) or not parts:
        raise InputError(f"densities is {checks.shown(parts)}, expected a list of densities.")
    for number, part in enumerate(parts, start=1):
        if not isinstance(part, Hypnodensity):
            raise InputError(f"night {number} is {checks.shown(part)}, expected a Hypnodensity.")
        found, expected = _frame(parts[0], part), _frame(parts[0], parts[0])
        if found != expected:
            raise InputError(f"night {number} has {found}, expected {expected}.")
    return parts


def _frame(first: Hypnodensity, part: Hypnodensity) -> str:
    epochs = f"{part.n_epochs} epochs of {part.epoch_seconds:.12g} s"
    after = f"{_seconds_after(first, part):.12g} s after night 1"
    return f"the stages {', '.join(part.scheme.names)} and {epochs}, {after}"


def _weights(weights: Sequence[float], n_parts: int) -> Floats:
    if not hasattr(weights, "__len__") or len(weights) != n_parts:
        raise InputError(f"weights is {checks.shown(weights)}, expected {n_parts} numbers, one per density.")
    numbers = np.array([checks.number(weight, "a weight", low=0) for weight in weights])
    if not numbers.max() > 0:
        raise InputError("all weights are 0, expected one above 0.")
    scaled: Floats = numbers / numbers.max()  # so that their sum cannot overflow
    return scaled
