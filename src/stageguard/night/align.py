"""Bring nights together: one epoch length, one scheme, the same epochs, one density. Decides no stage.

What is cut or assumed is told, by notes and by a warning: never in silence.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from stageguard.base import checks
from stageguard.base.arrays import CLIP, Floats, Labels
from stageguard.base.errors import FIRST_NIGHT, Argument, InputError, Message, NightNumber, StageGuardWarning
from stageguard.night.common_epochs import (
    TIE,
    Night,
    between_lights,
    cut_notes,
    find_shifts,
    part_of,
    refuse_apart,
)
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.stages import StageScheme

METHODS = ("mean", "log-pool")
KEEP = ("common", "first")


@dataclass(frozen=True, slots=True)
class Aligned:
    """Nights that cover the same epochs, in the order they were given, and what was done to get there."""

    nights: tuple[Night, ...]
    notes: tuple[str, ...] = ()


@overload
def merge_stages(night: Hypnogram, scheme: StageScheme | str) -> Hypnogram: ...
@overload
def merge_stages(night: Hypnodensity, scheme: StageScheme | str) -> Hypnodensity: ...
def merge_stages(night: Night, scheme: StageScheme | str) -> Night:
    """Return a night in a coarser scheme: 5 stages to 4, 3 or 2.

    Labels are renamed, and probabilities of merged stages are summed.
    """
    _require_night(night)
    return night.merge(scheme)


@overload
def reepoch(night: Hypnogram, epoch_seconds: float) -> Hypnogram: ...
@overload
def reepoch(night: Hypnodensity, epoch_seconds: float) -> Hypnodensity: ...
def reepoch(night: Night, epoch_seconds: float) -> Night:
    """Return a night in epochs of another length.

    Parameters
    ----------
    night : Hypnogram or Hypnodensity
        Epochs of any length.
    epoch_seconds : float
        Length of the epochs wanted, shorter or longer; it need not be a multiple.

    Returns
    -------
    Hypnogram or Hypnodensity
        A hypnogram's epoch gets the stage that holds for most of it; of two that hold equally long, that of
        the epoch before, else the first. Probabilities are averaged over the time they hold. An epoch of
        which less than half was scored, or has evidence, is unscored, or NaN. A rest at the end that is
        shorter than an epoch is dropped, with a warning.
    """
    _require_night(night)
    old, new = night.epoch_seconds, checks.epoch_seconds(epoch_seconds)
    if abs(old - new) <= TIE * old:
        return night
    rest = night.n_epochs * old - int(night.n_epochs * old / new + TIE) * new
    if rest > TIE * new:
        _tell((f"the last {rest:g} s are shorter than an epoch of {new:g} s and are left out",))
    if isinstance(night, Hypnodensity):
        pooled = _averaged(night.probabilities, old, new)
        return Hypnodensity(
            *(pooled, night.scheme, new, night.start, night.source, night.assumed, night.offset_seconds)
        )
    labels = reepoch_labels(night.labels, old, new)
    return replace(night, labels=labels, epoch_seconds=new)


def align(
    *nights: Night,
    epoch_seconds: float | None = None,
    keep: str = "common",
    lights_off: datetime | float | None = None,
    lights_on: datetime | float | None = None,
    tolerance_seconds: float = 1.0,
) -> Aligned:
    """Cut nights of one recording to the same epochs: a scoring and probabilities, or several of each.

    Parameters
    ----------
    *nights : Hypnogram or Hypnodensity
        Two or more.
    epoch_seconds : float, optional
        Length of the epochs wanted. Without it all must have the same.
    keep : {"common", "first"}
        The epochs that all have, or those of the first night; others are then unscored, or NaN.
    lights_off, lights_on : datetime or float, optional
        Only epochs that lie wholly between these: times, or seconds from the beginning of the recording of
        the first night.
    tolerance_seconds : float
        Clocks that differ by less, after whole epochs, are one. More is an error, since no stage is moved
        against the signal.

    Returns
    -------
    Aligned
        Starts tell which epochs belong together. A night without one is of the recording of the first that
        has one, and its `offset_seconds` tells where it lies there. Where only some have a time zone, it is
        that of the others too. Nights of different lengths lose their last epochs, and a light's time
        before the start may be that of the next day. Each is a note, and a warning. All have the start that
        is known, and the first night's offset.
    """
    if len(nights) < 2:
        raise InputError(f"got {len(nights)} night{'s' * (len(nights) != 1)} to align, expected two or more.")
    for night in nights:
        _require_night(night)
    tolerance = checks.number(tolerance_seconds, "tolerance_seconds", low=0)
    checks.choice(keep, "keep", KEEP)
    nights = tuple(_same_length(nights, epoch_seconds))
    shifts, notes = find_shifts(nights, tolerance)
    first, end = 0, nights[0].n_epochs
    if keep == "common":
        first = max(shifts)
        end = min(shift + night.n_epochs for shift, night in zip(shifts, nights, strict=True))
    refuse_apart(nights, shifts, first, end, notes)
    for place, (shift, night) in enumerate(zip(shifts, nights, strict=True), start=1):
        notes += cut_notes(place, first - shift, shift + night.n_epochs - end)
    first, end, told = between_lights(nights[0], first, end, lights_off, lights_on)
    notes += told
    if notes:
        _tell(notes)
    kept = [part_of(n, first - shift, end - shift) for shift, n in zip(shifts, nights, strict=True)]
    start = next((night.start for night in kept if night.start is not None), None)
    offset = kept[0].offset_seconds
    return Aligned(tuple(replace(night, start=start, offset_seconds=offset) for night in kept), notes)


def combine(
    densities: Sequence[Hypnodensity] | Aligned,
    *,
    method: str = "mean",
    weights: Sequence[float] | None = None,
) -> Hypnodensity:
    """Return one density of several: of channels, or of stagers.

    Parameters
    ----------
    densities : sequence of Hypnodensity, or Aligned
        Of the same epochs and the same scheme (see `align` and `merge_stages`).
    method : {"mean", "log-pool"}
        The weighted arithmetic mean, or the weighted geometric mean brought to a sum of 1: the second lets a
        stager that excludes a stage weigh more.
    weights : sequence of float, optional
        One per density, not negative; by default equal. Only their ratios count.

    Returns
    -------
    Hypnodensity
        An epoch without evidence in some of them is that of the others; without evidence in all of them it
        stays without.
    """
    given = densities.nights if isinstance(densities, Aligned) else densities
    parts = _listed(given, "densities", "a list of densities")
    checks.choice(method, "method", METHODS)
    _refuse_different(parts)
    shares = _weights(weights, len(parts))
    stack = np.stack([part.probabilities for part in parts])  # stager, epoch, stage
    has_evidence = ~np.isnan(stack[:, :, 0])
    share = np.where(has_evidence, shares[:, None], 0.0)
    total = share.sum(axis=0)
    known = total > 0
    share[:, known] /= total[known]
    values = np.where(has_evidence[:, :, None], stack, 0.5)
    if method == "mean":
        pooled = (share[:, :, None] * values).sum(axis=0)
    else:
        logs = (share[:, :, None] * np.log(np.maximum(values, CLIP))).sum(axis=0)
        pooled = np.exp(logs - logs.max(axis=1, keepdims=True))
    pooled[~known] = np.nan
    pooled[known] /= pooled[known].sum(axis=1, keepdims=True)
    names = [part.source or "?" for part in parts]
    source = f"{method} of {', '.join(names)}"
    start = next((part.start for part in parts if part.start is not None), None)
    return Hypnodensity(
        pooled,
        parts[0].scheme,
        parts[0].epoch_seconds,
        start,
        source,
        offset_seconds=parts[0].offset_seconds,
    )


def reepoch_labels(labels: npt.ArrayLike, epoch_seconds: float, wanted_seconds: float) -> Labels:
    """Return labels for epochs of another length, by the rule of `reepoch`; a rest is dropped.

    Parameters
    ----------
    labels : array of int (n_epochs,)
        Places in a scheme; -1 where unscored.
    epoch_seconds, wanted_seconds : float
        Length of the epochs given, and of those wanted.
    """
    given = np.asarray(labels)
    old, new = checks.epoch_seconds(epoch_seconds), checks.epoch_seconds(wanted_seconds)
    if old == new:
        return given.astype(np.int8)
    edges = _edges(len(given), old, new)
    stages = np.unique(given[given != UNSCORED])
    if not len(stages):
        return np.full(len(edges) - 1, UNSCORED, dtype=np.int8)
    # share[k, t]: seconds of new epoch t that stage k holds, from the time it has held until each edge
    share = np.stack([np.diff(_held((given == stage).astype(np.float64), old, edges)) for stage in stages])
    best = share.max(axis=0)
    result = np.where(share.sum(axis=0) >= new * (0.5 - TIE), stages[share.argmax(axis=0)], UNSCORED)
    is_tied = (share >= best - new * TIE).sum(axis=0) > 1
    for epoch in np.flatnonzero(is_tied & (result != UNSCORED)):
        tied = stages[share[:, epoch] >= best[epoch] - new * TIE]
        first = int(edges[epoch] / old + TIE)
        inside = given[first : int(np.ceil(edges[epoch + 1] / old - TIE))]
        stays = epoch and result[epoch - 1] in tied
        result[epoch] = result[epoch - 1] if stays else next(label for label in inside if label in tied)
    return result.astype(np.int8)


def _averaged(matrix: Floats, old: float, new: float) -> Floats:
    """Probabilities averaged over the time they hold within each new epoch."""
    edges = _edges(len(matrix), old, new)
    has_evidence = ~np.isnan(matrix[:, 0])
    held = np.diff(_held(has_evidence.astype(np.float64), old, edges))
    filled = np.where(has_evidence[:, None], matrix, 0.0)
    sums = np.stack([np.diff(_held(column, old, edges)) for column in filled.T], axis=1)
    known = held >= new * (0.5 - TIE)
    pooled = np.full(sums.shape, np.nan)
    pooled[known] = np.maximum(sums[known], 0.0)
    pooled[known] /= pooled[known].sum(axis=1, keepdims=True)
    return pooled


def _edges(n_old: int, old: float, new: float) -> Floats:
    n_new = int(n_old * old / new + TIE)
    if n_new < 1:
        raise InputError(
            f"{n_old} epochs of {old:g} s last {n_old * old:g} s, expected one epoch of {new:g} s."
        )
    return np.arange(n_new + 1, dtype=np.float64) * new


def _held(values: Floats, old: float, edges: Floats) -> Floats:
    """Integral of values that hold for an epoch each, from the start to each edge."""
    until = np.concatenate([[0.0], np.cumsum(values) * old])
    held: Floats = np.interp(edges, np.arange(len(until)) * old, until)
    return held


def _same_length(nights: Sequence[Night], epoch_seconds: float | None) -> list[Night]:
    if epoch_seconds is not None:
        return [reepoch(night, epoch_seconds) for night in nights]
    lengths = sorted({night.epoch_seconds for night in nights})
    if lengths[-1] - lengths[0] > TIE * lengths[0]:
        shown = " and ".join(f"{length:g} s" for length in lengths)
        raise InputError(
            Message(
                f"epochs last {shown}, expected one length. Choose it: ",
                Argument("reepoch_to", float(lengths[-1]), f"epoch_seconds={lengths[-1]:g}"),
                ".",
            )
        )
    return list(nights)


_MERGE = Message("Merge the finer one: ", Argument("merge", python="density.merge(scheme)"))
_REEPOCH = Message("Use ", Argument("reepoch", python="align(..., epoch_seconds=...)"))
_ALIGN = Argument("align", python="align(...)")
_CUT = Message("Cut them to the same: ", _ALIGN)


def _refuse_different(parts: Sequence[Any]) -> None:
    if not parts:
        raise InputError("got no densities to combine, expected one or more.")
    for place, part in enumerate(parts, start=1):
        if not isinstance(part, Hypnodensity):
            hint = " For hypnograms there is consensus." if isinstance(part, Hypnogram) else ""
            shown = checks.shown(part)[:60]
            raise InputError(Message(NightNumber(place), f" is {shown}, expected a Hypnodensity.{hint}"))
        for what, mine, first, do in (
            ("scheme", part.scheme.name, parts[0].scheme.name, _MERGE),
            ("epoch length", part.epoch_seconds, parts[0].epoch_seconds, _REEPOCH),
            ("number of epochs", part.n_epochs, parts[0].n_epochs, _CUT),
        ):
            if mine != first:
                raise InputError(
                    Message(
                        NightNumber(place), f" has the {what} {mine}, ", FIRST_NIGHT, f" {first}. ", do, "."
                    )
                )
        if part.scheme != parts[0].scheme:
            raise InputError(
                Message(NightNumber(place), " has other stages than ", FIRST_NIGHT, ". Merge them first.")
            )
        if part.start is not None and parts[0].start is not None:
            if part.start != parts[0].start:
                begins = f" begins at {part.start}, ", FIRST_NIGHT, f" at {parts[0].start}. Use "
                raise InputError(Message(NightNumber(place), *begins, _ALIGN, "."))
        elif part.offset_seconds != parts[0].offset_seconds:
            raise InputError(
                Message(
                    NightNumber(place),
                    f" begins {part.offset_seconds:g} s after the recording's start, ",
                    FIRST_NIGHT,
                    f" {parts[0].offset_seconds:g} s, expected the same epochs. Use ",
                    _ALIGN,
                    ".",
                )
            )


def _weights(weights: Sequence[float] | None, n_parts: int) -> Floats:
    if weights is None:
        return np.ones(n_parts)
    listed = _listed(weights, "weights", "a list with one number per density")
    given = np.array([checks.number(weight, "a weight", low=0) for weight in listed])
    if len(given) != n_parts:
        raise InputError(f"got {len(given)} weights for {n_parts} densities, expected one each.")
    if not given.max() > 0:
        raise InputError("all weights are 0, expected one above 0.")
    scaled: Floats = given / given.max()  # so that no sum of them is too large for a float
    return scaled


def _require_night(night: object) -> None:
    if not isinstance(night, Night):
        raise InputError(
            f"a night is {checks.shown(night)}, expected a Hypnogram or a Hypnodensity. Read it first."
        )


def _listed(given: Any, what: str, expected: str) -> tuple[Any, ...]:
    if isinstance(given, Night) or not isinstance(given, Collection):
        raise InputError(f"{what} is {checks.shown(given)}, expected {expected}.")
    return tuple(given)


def _tell(notes: Sequence[str]) -> None:
    joined = [part for note in notes for part in ("; ", note)][1:]
    warnings.warn(StageGuardWarning(Message(*joined, ".")), stacklevel=3)
