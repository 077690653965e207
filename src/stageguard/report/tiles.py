"""What stands at the top of a report: the facts of the recording, and the four numbers to see first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stageguard.guard.decoding import Decoding
from stageguard.report.measures import Measured
from stageguard.report.numbers import ABSENT, count, difference, duration, shown


@dataclass(frozen=True, slots=True)
class Tile:
    """A number worth seeing first."""

    name: str
    value: str
    detail: str


def facts(decoding: Decoding) -> Iterator[str]:
    """Return what was recorded."""
    hypnogram = decoding.hypnogram
    if hypnogram.start is not None:
        yield f"starts {hypnogram.start:%Y-%m-%d %H:%M:%S}"
    yield duration(hypnogram.n_epochs * hypnogram.epoch_seconds)
    yield f"{count(hypnogram.n_epochs, 'epoch')} of {hypnogram.epoch_seconds:g} s"
    yield f"stages {' '.join(hypnogram.scheme.names)}"
    yield f"profile {decoding.profile.name}"
    if decoding.cohort:
        yield f"cohort {decoding.cohort}"


def tiles(decoding: Decoding, measured: Measured) -> Iterator[Tile]:
    """Return four numbers: how much changed, how often stages change, sleep, and agreement or wake."""
    n_changed = int(np.count_nonzero(decoding.changed))
    n_scored = int(np.count_nonzero(decoding.argmax >= 0))
    yield Tile("Epochs changed", f"{100 * decoding.changed_share:.1f} %", f"{n_changed:,} of {n_scored:,}")
    own, now = (
        column.validity.indicators["transitions_per_hour"] for column in (measured.before, measured.after)
    )
    band = "no expert band" if math.isnan(now.low) else f"experts {shown(now.low, 1)} to {shown(now.high, 1)}"
    yield Tile("Stage changes per hour", _change(own.value, now.value), band)
    before, after = measured.before.statistics, measured.after.statistics
    slept = ABSENT if math.isnan(after.tst_minutes) else duration(60 * after.tst_minutes)
    changed = difference(after.tst_minutes, before.tst_minutes, 1)
    same = after.tst_minutes == before.tst_minutes
    yield Tile("Total sleep time", slept, "unchanged by decoding" if same else f"{changed} min by decoding")
    if measured.agreement is not None and measured.expert is not None:
        own_kappa, kappa = (found.kappa for found in measured.agreement)
        name = f"Agreement with the {measured.expert.name}"
        yield Tile(name, f"κ {_change(own_kappa, kappa, 2)}", "1 is perfect, 0 is chance")
    else:
        yield Tile("Wake after sleep onset", _change(before.waso_minutes, after.waso_minutes), "minutes")


def _change(before: float, after: float, decimals: int = 1) -> str:
    return f"{shown(before, decimals)} → {shown(after, decimals)}"
