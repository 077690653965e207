"""By what a profile knows nights again: how its stager's nights look, and marks of those that taught it.

A night is marked by each of its experts' scorings, by their consensus and by the stager's most probable
stages, since comparisons have the expert's scoring, or an output of decode without its probabilities.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from stageguard import checks, schema
from stageguard.arrays import Floats, Labels
from stageguard.errors import InputError
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.stages import StageScheme
from stageguard.profile.parts import per_stage

# A night is foreign when more than MOST_OUTSIDE of the four features are outside: beyond the stager's nights
# by more than ROOM of their range, and by more than LEAST_ROOM, for rounding and nights that are all alike.
MOST_OUTSIDE = 1
ROOM = 0.5
LEAST_ROOM = 0.01
_DIGITS = 4
MARK_DIGITS = 16  # of the SHA-256: a million nights have the same mark by chance once in 37 million times
_MARK = re.compile(rf"[0-9a-f]{{{MARK_DIGITS}}}")

Range = tuple[float, float, float]  # lowest, median, highest over nights


@dataclass(frozen=True, slots=True, eq=False)
class StagerFeatures:
    """Features by which a night is compared with a stager's nights, without any scoring."""

    fragmentation_index: float  # of argmax, at the profile's epoch length; NaN if no epochs are adjacent
    entropy: float  # mean over the rows, in nats
    sharpness: float  # mean over the rows of the highest probability
    shares: Floats  # (n_stages,) shares of the stages in argmax
    confidences: Floats  # (n_stages,) mean highest probability where argmax is the stage; NaN if it never is
    overlaps: Floats  # (n_stages, n_stages) mean product of two stages' probabilities, high where rows waver

    @classmethod
    def of(cls, probabilities: Floats, argmax: Labels, fragmentation_index: float) -> StagerFeatures:
        """Return the features of a night; rows of NaN are left out."""
        known = argmax >= 0
        rows = probabilities[known] / probabilities[known].sum(axis=1, keepdims=True)  # (n_known, n_stages)
        logs = np.log(rows, where=rows > 0, out=np.zeros_like(rows))
        highest = rows.max(axis=1)
        n_epochs = np.bincount(argmax[known], minlength=rows.shape[1])  # (n_stages,)
        totals = np.bincount(argmax[known], highest, minlength=rows.shape[1])
        return cls(
            fragmentation_index,
            float(-(rows * logs).sum(axis=1).mean()),
            float(highest.mean()),
            n_epochs / len(rows),
            np.divide(totals, n_epochs, where=n_epochs > 0, out=np.full(len(totals), np.nan)),
            rows.T @ rows / len(rows),
        )


def _range(value: object, where: str) -> Range:
    triple = checks.items(value, where, checks.number)
    if len(triple) != 3 or not triple[0] <= triple[1] <= triple[2]:
        raise InputError(f"{where} is {checks.shown(value)}, expected [lowest, median, highest].")
    return triple[0], triple[1], triple[2]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Lowest, median and highest of each of a stager's `StagerFeatures` over its nights."""

    n_nights: int = schema.whole(low=1)
    fragmentation_index: Range = schema.declare(schema.REQUIRED, _range)
    entropy: Range = schema.declare(schema.REQUIRED, _range)
    sharpness: Range = schema.declare(schema.REQUIRED, _range)
    shares: Mapping[str, Range] = schema.declare(schema.REQUIRED, lambda value, where: value)

    @classmethod
    def of(cls, nights: Sequence[StagerFeatures], scheme: StageScheme) -> Fingerprint:
        """Return the fingerprint of a stager from the features of its nights."""
        shares = np.array([night.shares for night in nights])  # (n_nights, n_stages)
        return cls(
            n_nights=len(nights),
            fragmentation_index=_range_over([night.fragmentation_index for night in nights]),
            entropy=_range_over([night.entropy for night in nights]),
            sharpness=_range_over([night.sharpness for night in nights]),
            shares={name: _range_over(shares[:, i]) for i, name in enumerate(scheme.names)},
        )

    def outside(self, night: StagerFeatures) -> tuple[str, ...]:
        """Return the features of a night that are outside the stager's; the shares of all stages are one."""
        values = {
            "fragmentation index": (night.fragmentation_index, self.fragmentation_index),
            "entropy": (night.entropy, self.entropy),
            "sharpness": (night.sharpness, self.sharpness),
        }
        shares = zip(night.shares.tolist(), self.shares.values(), strict=True)
        unlike = [name for name, (value, known) in values.items() if _is_outside(value, known)]
        if any(_is_outside(share, known) for share, known in shares):
            unlike.append("stage shares")
        return tuple(unlike)

    def is_foreign(self, night: StagerFeatures) -> bool:
        """Whether a night is most likely of another stager, or of people unlike those of the fingerprint."""
        return len(self.outside(night)) > MOST_OUTSIDE


def _range_over(values: Sequence[float] | Floats) -> Range:
    known = np.asarray(values)[~np.isnan(values)]
    low, middle, high = (float(f"{value:.{_DIGITS}g}") for value in np.percentile(known, (0, 50, 100)))
    return low, middle, high


def _is_outside(value: float, known: Range) -> bool:
    low, _, high = known
    room = max(ROOM * (high - low), LEAST_ROOM)
    return value < low - room or value > high + room  # NaN is neither


def read_fingerprint(value: object, where: str, scheme: StageScheme) -> Fingerprint:
    """Return the fingerprint, with its shares by stage."""
    fingerprint = schema.read_table(Fingerprint, value, where)
    shares: Mapping[str, Any] = per_stage(_range)(fingerprint.shares, f"{where}.shares", scheme)
    if len(shares) < scheme.n_stages:
        raise InputError(f"{where}.shares lacks a stage, expected one each for {', '.join(scheme.names)}.")
    return replace(fingerprint, shares=MappingProxyType(dict(shares)))


def mark_of(labels: Labels) -> str | None:
    """Return the mark of the labels from the first to the last scored epoch; None if none is scored."""
    scored = np.flatnonzero(labels != UNSCORED)
    if not len(scored):
        return None
    part = np.ascontiguousarray(labels[scored[0] : scored[-1] + 1], dtype=np.int8)
    return hashlib.sha256(part.tobytes()).hexdigest()[:MARK_DIGITS]


def read_marks(value: object, where: str, scheme: StageScheme) -> tuple[str, ...]:
    """Return the marks, sorted."""
    marks = checks.items(value, where, checks.text)
    for mark in marks:
        if not _MARK.fullmatch(mark):
            raise InputError(f"{where} has {mark[:40]!r}, expected {MARK_DIGITS} hexadecimal digits.")
    return tuple(sorted(set(marks)))
