"""The statistics that studies report of a recording, and an output's errors in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import Floats, Labels, Mask, count_true
from stageguard.measures.statistics import LONGEST_NIGHT_HOURS, MOST_UNSCORED
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.quantities import ALL_BOUTS, REPORTED, REPORTED_OF_STAGE
from stageguard.night.stages import StageScheme

Kind = Literal["night", "day"]

OF_A_NIGHT = tuple(quantity.key for quantity in REPORTED)
LATENCIES = tuple(quantity.key for quantity in REPORTED if quantity.is_latency)
ONE_PERCENT_STEP = 0.1  # one step of a percentage; a step of minutes is an epoch, of counts one
SHORT_EPOCH_SECONDS = 15.0  # shorter epochs are scored in rodents, which sleep around the clock


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
        return tuple(name for name, _ in _names_and_units(self.kind, self.scheme.names))

    def of(self, labels: Labels) -> Floats:
        """Return the statistics (n_outputs, n_statistics) of outputs (n_outputs, n_epochs), -1 unscored.

        NaN where one does not exist; the numbers equal those of `stageguard.sleep_statistics`.
        """
        scored = labels != UNSCORED
        begins = scored.copy()
        # a bout begins where the stage changes, or after a gap
        begins[:, 1:] &= labels[:, 1:] != labels[:, :-1]
        columns: tuple[npt.NDArray[Any], ...]
        if self.kind == "night":
            columns = (*self._of_night(labels, scored), count_true(begins))
        else:
            stages = [labels == stage for stage in range(self.scheme.n_stages)]
            minutes = self.epoch_seconds / 60.0
            columns = (
                *(count_true(stage) * minutes for stage in stages),
                *(count_true(stage & begins) for stage in stages),
            )
        return np.stack(columns, axis=1).astype(np.float64)

    def _of_night(self, labels: Labels, scored: Mask) -> list[Floats]:
        """Return the statistics of a night, without bouts, in the order of OF_A_NIGHT."""
        n_epochs, minutes = labels.shape[1], self.epoch_seconds / 60.0
        if self.scheme.wake is None:
            return [np.full(len(labels), np.nan) for _ in OF_A_NIGHT]
        wake = labels == self.scheme.wake_index
        asleep = scored & ~wake
        n_asleep, n_scored = count_true(asleep), count_true(scored)
        sleeps, epochs = n_asleep > 0, np.arange(n_epochs)
        # argmax finds the first True; backwards, the last
        onset, stop = asleep.argmax(axis=1), n_epochs - asleep[:, ::-1].argmax(axis=1)
        inside = wake & (epochs >= onset[:, None]) & (epochs < stop[:, None])
        awakes = inside.copy()
        awakes[:, 1:] &= ~inside[:, :-1]
        rem = labels == self.scheme.rem_index if self.scheme.rem is not None else np.zeros_like(wake)
        has_bedtime = n_epochs * minutes < LONGEST_NIGHT_HOURS * 60.0
        is_half_scored = n_scored >= (1.0 - MOST_UNSCORED) * n_epochs
        values = {
            "tst_minutes": (n_asleep * minutes, n_scored > 0),
            "se_percent": (100.0 * n_asleep / n_epochs, (n_scored > 0) & is_half_scored & has_bedtime),
            "sol_minutes": (onset * minutes, sleeps & has_bedtime),
            "rem_latency_minutes": ((rem.argmax(axis=1) - onset) * minutes, rem.any(axis=1) & has_bedtime),
            "waso_minutes": (count_true(inside) * minutes, sleeps),
            "awakenings": (count_true(awakes), sleeps),
        }
        return [np.where(exists, value, np.nan) for value, exists in map(values.__getitem__, OF_A_NIGHT)]

    def errors(self, expert: Labels, labels: Labels, both: Mask) -> Floats:
        """Return the errors of outputs (n_outputs, n_epochs) against an expert's night, where both scored.

        Errors are in steps: epochs for minutes, counts, tenths of a percent. They are NaN if the expert's
        night has no such statistic. If only the output has none, sleep or REM that never comes counts as
        coming at the end, and anything else as 0.
        """
        # most outputs have the same gaps: the expert is then measured once for all
        same_gaps = both[:1] if (both == both[0]).all() else both
        expected = self.of(np.where(same_gaps, expert, np.int8(UNSCORED)))
        shown = self.of(np.where(both, labels, np.int8(UNSCORED)))
        end = labels.shape[1] * self.epoch_seconds / 60.0
        names = _names_and_units(self.kind, self.scheme.names)
        # sleep that never comes must cost more than sleep that comes late
        never = np.array([end if name in LATENCIES else 0.0 for name, _ in names])
        step_of = {"min": self.epoch_seconds / 60.0, "%": ONE_PERCENT_STEP}
        steps = np.array([step_of.get(unit, 1.0) for _, unit in names])
        return np.asarray(np.abs(np.where(np.isnan(shown), never, shown) - expected) / steps)


@cache
def _names_and_units(kind: Kind, stages: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    if kind == "night":
        return tuple((quantity.key, quantity.short_unit) for quantity in (*REPORTED, ALL_BOUTS))
    return tuple(
        (f"{quantity.reported_key}_{stage}", quantity.short_unit)
        for quantity in REPORTED_OF_STAGE
        for stage in stages
    )
