"""Sleep statistics of one night, as YASA and Luna users know them. Judges nothing and compares nothing.

==================  ==================================================================================
TIB                 lights off to lights on; without them, the recording
SOL                 lights off to the first epoch of sleep, or of 5 or 10 min of sleep without a break
SPT                 first to last epoch of sleep
TST                 epochs of sleep
WASO, awakenings    epochs, and bouts, of wake within SPT; the last awakening is counted beside them
SE, SME             TST in percent of TIB, of SPT
REM latency         first epoch of sleep to the first REM
SFI                 changes from sleep to wake per hour of TST, the last awakening included
==================  ==================================================================================

An unscored epoch is neither sleep nor wake, and ends a run of either. Conventions: ``aasm`` is the
above; ``yasa`` counts REM latency from lights off, and a night without sleep as SPT 0; ``luna``
takes unscored epochs at the ends out of TIB, lets SPT run to the last stretch of wake, and
disregards less than 5 min of sleep that more than 2 h of wake separate from the rest of the night.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Literal

import numpy as np

from stageguard import _checks
from stageguard._day import Moment, Stretch, hours_of, lights_window, phases_of, zeitgeber_seconds
from stageguard.bouts import Labels, ScoredNight, bouts_of, hypnogram_of, whole_epochs
from stageguard.cycles import count_cycles
from stageguard.hypnogram import UNSCORED
from stageguard.stages import StageScheme, canonical_name

Convention = Literal["aasm", "yasa", "luna"]

NAN = float("nan")
CONVENTIONS = ("aasm", "yasa", "luna")
LONGEST_NIGHT_HOURS = 20.0  # our choice: longer recordings are days, in which no moment is bedtime
MOST_UNSCORED = 0.5  # our choice: with more of TIB unscored, efficiencies would say little about sleep

# Luna's defaults for sleep that is set apart from the night
_APART_WAKE_SECONDS = 120 * 60.0
_APART_SLEEP_SECONDS = 5 * 60.0

_WHOLE = "TIB is the whole recording: neither lights off nor lights on is given"
_NO_OFF = "TIB begins with the recording: lights off is not given"
_NO_ON = "TIB ends with the recording: lights on is not given"


@dataclass(frozen=True, slots=True, eq=False)
class SleepStatistics:
    """What a study reports from one hypnogram. NaN fields have their reason in `reasons`.

    Attributes
    ----------
    convention : str
        Whose definitions: ``aasm``, ``yasa`` or ``luna``.
    lights_off_epoch, lights_on_epoch : int
        First epoch of TIB, and first epoch after it.
    awakenings, awakenings_with_final : float
        Wake bouts within SPT, and the same with the one that ended the night.
    stage_minutes : mapping
        Minutes of every stage of the scheme, wake included.
    stage_percent : mapping
        Percent of TST, for every stage but wake.
    bouts : mapping
        Number of bouts of every stage, those cut by lights included.
    reasons : mapping
        Name of a NaN field to why it is NaN.
    assumed : tuple of str
        What had to be assumed.
    """

    convention: Convention
    scheme: StageScheme
    epoch_seconds: float
    lights_off_epoch: int
    lights_on_epoch: int
    tib_minutes: float
    spt_minutes: float
    tst_minutes: float
    waso_minutes: float
    se_percent: float
    sme_percent: float
    sol_minutes: float
    sol_5min_minutes: float
    sol_10min_minutes: float
    rem_latency_minutes: float
    awakenings: float
    awakenings_with_final: float
    sfi_per_hour: float
    unscored_minutes: float
    stage_minutes: Mapping[str, float]
    stage_percent: Mapping[str, float]
    bouts: Mapping[str, int]
    reasons: Mapping[str, str]
    assumed: tuple[str, ...]
    labels: Labels = field(repr=False)
    zeitgeber: float | None = field(repr=False)

    @property
    def cycles(self) -> float:
        """NREM-REM cycles, as `stageguard.cycles` defines them; counted when asked for."""
        if "cycles" in self.reasons:
            return NAN
        return float(count_cycles(self.labels, self.scheme, self.epoch_seconds))

    @property
    def phases(self) -> Mapping[str, Stretch]:
        """Stage times in the ``light`` and in the ``dark``; empty unless `lights_on_phase` was given."""
        return phases_of(self.labels, self.scheme, self.epoch_seconds, self.zeitgeber)

    @property
    def hours(self) -> tuple[Stretch, ...]:
        """Stage times hour by hour."""
        return hours_of(self.labels, self.scheme, self.epoch_seconds, self.zeitgeber)

    def to_dict(self) -> dict[str, float]:
        """Return the numbers under the keys YASA users know; `units` has the unit of each."""
        values = {key: float(getattr(self, name)) for key, (name, _) in _KEYS.items()}
        values |= {_long_name(self.scheme, name): value for name, value in self.stage_minutes.items()}
        values |= {f"%{_long_name(self.scheme, name)}": value for name, value in self.stage_percent.items()}
        return values

    @property
    def units(self) -> Mapping[str, str]:
        """Unit of each number in `to_dict`."""
        units = {key: unit for key, (_, unit) in _KEYS.items()}
        units |= {_long_name(self.scheme, name): "min" for name in self.stage_minutes}
        units |= {f"%{_long_name(self.scheme, name)}": "% of TST" for name in self.stage_percent}
        return MappingProxyType(units)


_KEYS = {
    "TIB": ("tib_minutes", "min"),
    "SPT": ("spt_minutes", "min"),
    "WASO": ("waso_minutes", "min"),
    "TST": ("tst_minutes", "min"),
    "SE": ("se_percent", "% of TIB"),
    "SME": ("sme_percent", "% of SPT"),
    "SFI": ("sfi_per_hour", "per hour of TST"),
    "SOL": ("sol_minutes", "min"),
    "SOL_5min": ("sol_5min_minutes", "min"),
    "SOL_10min": ("sol_10min_minutes", "min"),
    "REM_latency": ("rem_latency_minutes", "min"),
    "NoA": ("awakenings", "count"),
    "NoA_total": ("awakenings_with_final", "count"),
    "NREMC": ("cycles", "count"),
    "UNS": ("unscored_minutes", "min"),
}


def sleep_statistics(
    night: ScoredNight,
    *,
    convention: Convention = "aasm",
    lights_off: Moment | None = None,
    lights_on: Moment | None = None,
    min_first_rem_seconds: float = 0.0,
    lights_on_phase: str | None = None,
) -> SleepStatistics:
    """Sleep statistics of one night.

    Parameters
    ----------
    night : Hypnogram or Decoding
        The scored night; of a decoding, what it decided.
    convention : {"aasm", "yasa", "luna"}
        Whose definitions to use where they differ: see `stageguard.statistics`.
    lights_off, lights_on : int, float, timedelta, datetime or str, optional
        When TIB begins and ends: the index of an epoch (a whole number), seconds from the start (a number
        with a decimal point), or a time; times of day such as ``"22:30"`` need a night with a start. The
        nearest boundary between epochs is taken.
    min_first_rem_seconds : float
        REM latency ends at the first REM bout of at least this length.
    lights_on_phase : str, optional
        For rodents: when the lights of a 12 h : 12 h cycle go on, such as ``"07:00"``. Gives `phases` and
        names `hours` by zeitgeber time.

    Returns
    -------
    SleepStatistics
        Named fields with their units; NaN, with a reason, where a quantity does not exist.
    """
    hypnogram = hypnogram_of(night)
    scheme, epoch_seconds, labels = hypnogram.scheme, hypnogram.epoch_seconds, hypnogram.labels
    _checks.choice(convention, "convention", CONVENTIONS)
    first, stop, assumed = 0, len(labels), (_WHOLE,)
    if lights_off is not None or lights_on is not None:
        first, stop = lights_window(hypnogram, lights_off, lights_on)
        assumed = (_NO_OFF,) if lights_off is None else (_NO_ON,) if lights_on is None else ()
        labels = labels[first:stop]
    zeitgeber = None if lights_on_phase is None else zeitgeber_seconds(hypnogram, lights_on_phase, first)
    if convention == "luna":
        labels, trimmed = _as_luna_sees(labels, scheme, epoch_seconds)
        first, stop = first + trimmed, first + trimmed + len(labels)
        zeitgeber = None if zeitgeber is None else zeitgeber + trimmed * epoch_seconds
    shortest_rem = 1
    if min_first_rem_seconds:
        seconds = _checks.number(min_first_rem_seconds, "min_first_rem_seconds", low=0.0)
        shortest_rem = max(1, whole_epochs(seconds, epoch_seconds))

    facts = _Facts(labels, scheme, epoch_seconds, convention, shortest_rem, lights_on_phase is not None)
    minutes, percent, bouts = _stages(facts)
    values = _values(facts, minutes)
    reasons = {name: _why(name, facts) for name, value in values.items() if value != value}
    if facts.no_cycles:
        reasons["cycles"] = facts.no_cycles
    return SleepStatistics(
        convention=convention,
        scheme=scheme,
        epoch_seconds=epoch_seconds,
        lights_off_epoch=first,
        lights_on_epoch=stop,
        **values,
        **minutes,
        reasons=MappingProxyType(reasons),
        assumed=assumed,
        labels=labels,
        zeitgeber=zeitgeber,
    )
