"""Time of the night and time of day as features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stageguard.base import schema
from stageguard.base.arrays import Floats
from stageguard.base.errors import InputError
from stageguard.night.epochs import EpochGrid
from stageguard.signals.windows import IF_PRESENT, Columns

LOW_POINT_HOURS = 5.0  # when the body's drive to be awake is lowest


@dataclass(frozen=True, slots=True)
class Clock:
    """Which features of time to add."""

    elapsed: bool = schema.flag(True)  # hours since the start, and their cosine as in Walch et al. (2019)
    # cosine and sine of the clock, where the recording says when it began
    time_of_day: str = schema.choice("if present", *IF_PRESENT)


def clock_features(epochs: EpochGrid, options: Clock, recording: str) -> Columns:
    """Return features of time, by name, each at the start of the epochs.

    ``elapsed_cosine`` is Walch's clock proxy: -cos(2 pi (t - 5 h) / 24 h) with t from the first epoch.
    ``clock_cosine`` and ``clock_sine`` are the same wave and the one six hours later with t the time of day,
    lowest at 5 and at 11 o'clock.
    """
    hours = epochs.edges[:-1] / 3600.0
    columns: Columns = {}
    if options.elapsed:
        columns["hours"] = hours
        columns["elapsed_cosine"] = -np.cos(_angle(hours))
    start = epochs.start
    if options.time_of_day == "always" and start is None:
        raise InputError(
            f"recording {recording!r} does not say when it began, expected a date and time for the clock "
            "features. Give it, or set clock.time_of_day = 'never' in the recipe."
        )
    if options.time_of_day != "never" and start is not None:
        hour_of_day = start.hour + start.minute / 60 + (start.second + start.microsecond / 1e6) / 3600
        angle = _angle(hour_of_day + hours)
        columns["clock_cosine"] = -np.cos(angle)
        columns["clock_sine"] = -np.sin(angle)
    return columns


def _angle(hours: Floats) -> Floats:
    return np.asarray((hours - LOW_POINT_HOURS) * (2 * np.pi / 24.0))
