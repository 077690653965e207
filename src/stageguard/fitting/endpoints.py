"""What studies report of a recording, and how far an output is off in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np

from stageguard.base.arrays import Labels, Mask
from stageguard.measures.statistics import LONGEST_NIGHT_HOURS, sleep_statistics
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.quantities import ALL_BOUTS, REPORTED, REPORTED_OF_STAGE
from stageguard.night.stages import StageScheme

Kind = Literal["night", "day"]

OF_A_NIGHT = tuple(quantity.key for quantity in REPORTED)
LATENCIES = tuple(quantity.key for quantity in REPORTED if quantity.is_latency)
ONE_PERCENT_STEP = 0.1  # what counts as one step of a percentage; of minutes it is an epoch, of counts one
SHORT_EPOCH_SECONDS = 15.0  # shorter ones are scored in rodents, which sleep around the clock


@dataclass(frozen=True, slots=True, eq=False)
class Endpoints:
    """The statistics of recordings in one scheme and epoch length.

    Attributes
    ----------
    kind : str
        ``night``: TST, SE, SOL, REM latency, WASO, awakenings and bouts; ``day``, where no moment is
        bedtime: minutes and bouts of every stage.
    """

    scheme: StageScheme
    epoch_seconds: float
    kind: Kind
    _known: dict[tuple[int, bytes], tuple[float, ...]] = field(default_factory=dict, repr=False)

    @classmethod
    def suited(
        cls, scheme: StageScheme, epoch_seconds: float, n_epochs: Sequence[int], kind: Kind | None = None
    ) -> Endpoints:
        """Return a night's, or a day's where epochs are short, a recording is long or wake is unknown."""
        is_long = max(n_epochs) * epoch_seconds >= LONGEST_NIGHT_HOURS * 3600.0
        is_day = is_long or epoch_seconds < SHORT_EPOCH_SECONDS or scheme.wake is None
        return cls(scheme, epoch_seconds, kind or ("day" if is_day else "night"))

    @property
    def names(self) -> tuple[str, ...]:
        """The statistics, in order."""
        return tuple(name for name, _ in _names_and_units(self.kind, self.scheme.names))

    def of(self, labels: Labels) -> tuple[float, ...]:
        """Return the statistics of labels, -1 unscored; NaN where one does not exist."""
        begins = (np.diff(labels, prepend=UNSCORED) != 0) & (labels != UNSCORED)
        if self.kind == "day":
            n, minutes = self.scheme.n_stages, self.epoch_seconds / 60.0
            epochs = np.bincount(labels[labels != UNSCORED], minlength=n) * minutes
            return (*epochs.tolist(), *np.bincount(labels[begins], minlength=n).astype(float).tolist())
        statistics = sleep_statistics(Hypnogram(labels, self.scheme, self.epoch_seconds))
        return (*(float(getattr(statistics, name)) for name in OF_A_NIGHT), float(np.count_nonzero(begins)))

    def errors(self, number: int, expert: Labels, labels: Labels, both: Mask) -> tuple[float, ...]:
        """Return how far labels are off the expert's night `number`, over the epochs both have scored.

        In steps: epochs for minutes, counts, tenths of a percent. NaN where the expert's night has no such
        statistic; where only the output has none, sleep or REM that never comes counts as coming at the end,
        and anything else as 0.
        """
        key = (number, both.tobytes())  # the same for every candidate: outputs differ in no gap
        if key not in self._known:
            self._known[key] = self.of(np.where(both, expert, UNSCORED).astype(np.int8))
        output = self.of(np.where(both, labels, UNSCORED).astype(np.int8))
        end = len(labels) * self.epoch_seconds / 60.0
        steps = []
        step_of = {"min": self.epoch_seconds / 60.0, "%": ONE_PERCENT_STEP}
        names = _names_and_units(self.kind, self.scheme.names)
        for (name, unit), shown, wanted in zip(names, output, self._known[key], strict=True):
            if math.isnan(shown):
                shown = end if name in LATENCIES else 0.0
            steps.append(abs(shown - wanted) / step_of.get(unit, 1.0))
        return tuple(steps)


@cache
def _names_and_units(kind: Kind, stages: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    if kind == "night":
        return tuple((quantity.key, quantity.short_unit) for quantity in (*REPORTED, ALL_BOUTS))
    return tuple(
        (f"{quantity.reported_key}_{stage}", quantity.short_unit)
        for quantity in REPORTED_OF_STAGE
        for stage in stages
    )
