"""Marks of the nights that taught a profile, by which comparisons with experts recognise them.

A night is marked by each of its experts' scorings, by their consensus and by the stager's most probable
stages, since comparisons have the expert's scoring, or an output of decode without its probabilities.
"""

from __future__ import annotations

import hashlib
import re

import numpy as np

from stageguard.base import checks
from stageguard.base.arrays import Labels
from stageguard.base.errors import InputError
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.stages import StageScheme

DIGITS = 16  # of the SHA-256: a million nights have the same mark by chance once in 37 million times
_MARK = re.compile(rf"[0-9a-f]{{{DIGITS}}}")


def mark_of(labels: Labels) -> str | None:
    """Return the mark of the labels from the first to the last scored epoch; None if none is scored."""
    scored = np.flatnonzero(labels != UNSCORED)
    if not len(scored):
        return None
    part = np.ascontiguousarray(labels[scored[0] : scored[-1] + 1], dtype=np.int8)
    return hashlib.sha256(part.tobytes()).hexdigest()[:DIGITS]


def read_marks(value: object, where: str, scheme: StageScheme) -> tuple[str, ...]:
    """Return the marks, sorted."""
    marks = checks.items(value, where, checks.text)
    for mark in marks:
        if not _MARK.fullmatch(mark):
            raise InputError(f"{where} has {mark[:40]!r}, expected {DIGITS} hexadecimal digits.")
    return tuple(sorted(set(marks)))
