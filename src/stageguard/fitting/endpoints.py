"""The statistics that studies report of a recording, and an output's errors in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stageguard.arrays import Floats, Labels, Mask
from stageguard.measures.statistics import LONGEST_NIGHT_HOURS, SHORT_EPOCH_SECONDS, sleep_statistics
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.quantities import ALL_BOUTS, REPORTED, REPORTED_OF_STAGE
from stageguard.night.stages import StageScheme

Kind = Literal["night", "day"]

ONE_PERCENT_STEP = 0.1  # one step of a percentage; a step of minutes is an epoch, of counts one


@dataclass(frozen=True, slots=True, eq=False)
class SleepEndpoints:
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

    @classmethod
    def for_nights(
        cls, scheme: StageScheme, epoch_seconds: float, n_epochs: Sequence[int], kind: Kind | None = None
    ) -> SleepEndpoints:
        """Return endpoints of a night, or of a day if epochs are short, recordings long or wake unknown."""
        # such recordings have no bedtime, so that latencies and efficiency do not exist
        is_long = max(n_epochs) * epoch_seconds >= LONGEST_NIGHT_HOURS * 3600.0
        is_day = is_long or epoch_seconds < SHORT_EPOCH_SECONDS or scheme.wake is None
        return cls(scheme, epoch_seconds, kind or ("day" if is_day else "night"))

    @property
    def names(self) -> tuple[str, ...]:
        """The statistics, in order."""
        if self.kind == "night":
            return tuple(quantity.key for quantity in (*REPORTED, ALL_BOUTS))
        kinds = [quantity.reported_key for quantity in REPORTED_OF_STAGE]
        return tuple(f"{kind}_{stage}" for kind in kinds for stage in self.scheme.names)

    def of(self, labels: Labels) -> list[float]:
        """Return the statistics of a scoring, -1 unscored; NaN where one does not exist."""
        found = sleep_statistics(Hypnogram(labels, self.scheme, self.epoch_seconds))
        if self.kind == "night":
            return [*(getattr(found, quantity.key) for quantity in REPORTED), sum(found.bouts.values())]
        return [value for each in REPORTED_OF_STAGE for value in getattr(found, each.key).values()]

    def errors(self, expert: Labels, labels: Labels, both: Mask) -> Floats:
        """Return the errors of outputs (n_outputs, n_epochs) against an expert's night, where both scored.

        Errors are in steps: epochs for minutes, counts, tenths of a percent. They are NaN if the expert's
        night has no such statistic. If only the output has none, sleep or REM that never comes counts as
        coming at the end, and anything else as 0.
        """
        expected: list[list[float]] = []
        for i, mask in enumerate(both):
            # most outputs have the same gaps: the expert is then measured once for all
            is_same = i > 0 and np.array_equal(mask, both[i - 1])
            expected.append(expected[-1] if is_same else self.of(np.where(mask, expert, np.int8(UNSCORED))))
        shown = np.array([self.of(own) for own in np.where(both, labels, np.int8(UNSCORED))])
        minutes = self.epoch_seconds / 60.0
        if self.kind == "night":
            quantities = [*REPORTED, ALL_BOUTS]
        else:
            quantities = [each for each in REPORTED_OF_STAGE for _ in self.scheme.names]
        # sleep that never comes must cost more than sleep that comes late
        end = labels.shape[1] * minutes
        never = np.array([end if quantity.is_latency else 0.0 for quantity in quantities])
        step_of = {"min": minutes, "%": ONE_PERCENT_STEP}
        steps = np.array([step_of.get(quantity.short_unit, 1.0) for quantity in quantities])
        return np.asarray(np.abs(np.where(np.isnan(shown), never, shown) - np.array(expected)) / steps)
