"""Sleep statistics of one night, as YASA and Luna users know them.

==================  ==================================================================================
TIB                 lights off to lights on; without them, the recording
SOL                 lights off to the first epoch of sleep, or of 5 or 10 min of sleep without a break
SPT                 first to last epoch of sleep
TST                 epochs of sleep
WASO, awakenings    epochs, and bouts, of wake within SPT; the last awakening is counted separately
SE, SME             TST in percent of TIB, of SPT
REM latency         first epoch of sleep to the first REM, and to the first REM bout that lasts
SFI                 changes from sleep to wake per hour of TST, the last awakening included
==================  ==================================================================================

An unscored epoch is neither sleep nor wake, and ends a run of either. Conventions:

* ``aasm`` is the above, and gives no efficiency when more than half of TIB is unscored.
* ``yasa`` counts REM latency from lights off, and takes SPT as 0 in a night without sleep.
* ``luna`` takes unscored epochs at the ends out of TIB, lets SPT run to the last stretch of wake, and
  disregards less than 5 min of sleep that more than 2 h of wake separate from all later sleep.

In a recording of 20 h or more no moment is bedtime: SOL and SE are NaN in all three. Without lights, such a
recording of a person is measured in the sleep period of its longest sleep (`stageguard.night.period`), and
`assumed` says so. Elsewhere REM latency is NaN, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import isnan
from typing import Literal, get_args

import numpy as np

from stageguard import checks
from stageguard.arrays import NAN, ComparedByValue, Floats, Indices, Labels, Mask
from stageguard.lazy import ShownInNotebooks
from stageguard.measures.bouts import (
    DayPart,
    ScoredNight,
    bouts_of,
    cycles_of,
    hours_of,
    hypnogram_of,
    phases_of,
    runs_of,
    stage_counts,
    whole_epochs,
    zeitgeber_seconds,
)
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.period import period_of
from stageguard.night.quantities import NIGHT, REPORTED, STAGE, Need
from stageguard.night.stages import StageScheme, canonical_name
from stageguard.night.timing import Moment, lights_window

Convention = Literal["aasm", "yasa", "luna"]

LONGEST_NIGHT_HOURS = 20.0  # our choice: longer recordings are days, in which no moment is bedtime
USUAL_NIGHT_HOURS = 12.0  # our choice: a longer recording without lights may hold hours out of bed
SHORT_EPOCH_SECONDS = 15.0  # shorter epochs are scored in rodents, which sleep around the clock
FIRST_REM_SECONDS = 120.0  # our choice, of 1 to 3 min: no single false epoch counts, hardly a bout is missed
MOST_UNSCORED = 0.5  # our choice: with more of TIB unscored, efficiencies would say little about sleep
# Luna's defaults for a little sleep long before all other sleep, which it disregards
_LONG_WAKE_SECONDS = 120 * 60.0
_LITTLE_SLEEP_SECONDS = 5 * 60.0
MINUTES_OF_STAGE = next(quantity for quantity in STAGE if quantity.key == "stage_minutes")


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class SleepStatistics(ComparedByValue, ShownInNotebooks):
    """Sleep statistics of one hypnogram. NaN where a quantity does not exist: see `reasons`.

    The numbers are those of `stageguard.night.quantities.NIGHT`.
    """

    convention: Convention
    scheme: StageScheme
    epoch_seconds: float
    lights_off_epoch: int  # first epoch of TIB
    lights_on_epoch: int  # first epoch after TIB
    labels: Labels  # of each epoch of TIB, -1 where unscored
    stage_epochs: tuple[int, ...]  # of each stage of the scheme
    shortest_rem_epochs: int  # of a REM bout that ends `rem_latency_bout_minutes`
    day_hours: float  # length of what lights bound if it is 20 h or more, else NaN
    assumed: tuple[str, ...]
    zeitgeber: float | None  # seconds before TIB at which the light phase began, with `lights_on_phase`
    tib_minutes: float
    unscored_minutes: float
    spt_minutes: float = NAN
    tst_minutes: float = NAN
    waso_minutes: float = NAN
    se_percent: float = NAN
    sme_percent: float = NAN
    sol_minutes: float = NAN
    sol_5min_minutes: float = NAN
    sol_10min_minutes: float = NAN
    rem_latency_minutes: float = NAN
    rem_latency_bout_minutes: float = NAN
    awakenings: float = NAN  # wake bouts within SPT
    awakenings_with_final: float = NAN
    sfi_per_hour: float = NAN

    @property
    def stage_minutes(self) -> Mapping[str, float]:
        """Minutes of every stage of the scheme, wake included."""
        minutes = [n_epochs * (self.epoch_seconds / 60.0) for n_epochs in self.stage_epochs]
        return dict(zip(self.scheme.names, minutes, strict=True))

    @property
    def stage_percent(self) -> Mapping[str, float]:
        """Percent of TST, for every stage but wake; NaN without sleep."""
        # shares of no sleep do not exist, rather than being 0
        wake, tst = self.scheme.wake, self.tst_minutes * 60.0 / self.epoch_seconds or NAN
        counted = zip(self.scheme.names, self.stage_epochs, strict=True)
        return {name: 100.0 * n_epochs / tst for name, n_epochs in counted if name != wake}

    @property
    def bouts(self) -> Mapping[str, int]:
        """Number of bouts of every stage, including those that lights cut."""
        n_bouts = stage_counts(bouts_of(self.labels).stages, self.scheme.n_stages)
        return dict(zip(self.scheme.names, n_bouts.tolist(), strict=True))

    @property
    def cycles(self) -> float:
        """NREM-REM cycles, as `stageguard.measures.bouts` defines them."""
        return float(len(self.cycle_epochs)) if self._has_cycles else NAN

    @property
    def cycle_epochs(self) -> list[tuple[int, int]]:
        """First epoch and end of each cycle, counted from lights off; none where cycles are not defined."""
        return cycles_of(self.labels, self.scheme, self.epoch_seconds) if self._has_cycles else []

    @property
    def _has_cycles(self) -> bool:
        return self._is_one_night and self.scheme.rem is not None and self.tst_minutes > 0.0

    @property
    def phases(self) -> Mapping[str, DayPart]:
        """Stage times in the ``light`` and in the ``dark``; empty unless `lights_on_phase` was given."""
        return phases_of(self.labels, self.scheme, self.epoch_seconds, self.zeitgeber)

    @property
    def hours(self) -> tuple[DayPart, ...]:
        """Stage times hour by hour: after lights on, or without `lights_on_phase` from the start of TIB."""
        return hours_of(self.labels, self.scheme, self.epoch_seconds, self.zeitgeber)

    @property
    def reasons(self) -> Mapping[str, str]:
        """Name of each field that is NaN, and the reason."""
        absent = [quantity for quantity in NIGHT if isnan(getattr(self, quantity.key))]
        reasons = {quantity.key: self._why(quantity.needs, quantity.unbroken_minutes) for quantity in absent}
        if not self.tst_minutes > 0.0:
            reasons["stage_percent"] = self._why()
        return reasons

    def to_dict(self) -> dict[str, float]:
        """Return the numbers under the keys YASA users know; `units` has the unit of each."""
        return {key: value for key, value, _ in self._numbers_and_units()}

    @property
    def units(self) -> Mapping[str, str]:
        """Unit of each number in `to_dict`."""
        return {key: unit for key, _, unit in self._numbers_and_units()}

    def _numbers_and_units(self) -> Iterator[tuple[str, float, str]]:
        long = _long_names(self.scheme)
        yield from ((each.yasa_key, float(getattr(self, each.key)), each.unit) for each in NIGHT)
        yield from ((long[name], value, "min") for name, value in self.stage_minutes.items())
        yield from ((f"%{long[name]}", value, "% of TST") for name, value in self.stage_percent.items())

    def __repr__(self) -> str:
        """Return the numbers, without the labels."""
        numbers = ", ".join(f"{key}={value:g}" for key, value in self.to_dict().items())
        return f"<SleepStatistics {self.convention}: {numbers}>"

    @property
    def has_bedtime(self) -> bool:
        """Whether lights off, or the beginning of the recording, is bedtime."""
        return isnan(self.day_hours)

    @property
    def is_of_longest_sleep(self) -> bool:
        """Whether it was measured in the longest sleep of a long recording, as `assumed` says."""
        return self._is_one_night and not self.has_bedtime

    @property
    def _is_one_night(self) -> bool:
        return self.tib_minutes < 60.0 * LONGEST_NIGHT_HOURS and self.zeitgeber is None

    def _why(self, needs: Collection[Need] = (), unbroken_minutes: int = 0) -> str:
        """Return why a number with these needs does not exist, the most general reason first."""
        n_epochs = len(self.labels)
        n_unscored = n_epochs - sum(self.stage_epochs)
        # mice sleep in bouts all day, and a day of a person holds naps: neither has cycles
        if "one night" in needs and not self._is_one_night:
            return "cycles are defined for one night of human sleep"
        # without a wake stage no epoch is known to be sleep, whatever else is missing
        if self.scheme.wake is None:
            return f"scheme {self.scheme.name!r} does not say which stage is wake"
        if n_epochs == n_unscored:
            return "no epoch is scored"
        is_of_rem = "REM" in needs or "REM bout" in needs
        if "bedtime" in needs and not self.has_bedtime and not (is_of_rem and self.is_of_longest_sleep):
            return f"a recording of {self.day_hours:.1f} h is no single night: give lights off and lights on"
        # from here on the night is known, and is short of sleep
        if not self.tst_minutes:
            return "no epoch is scored as sleep"
        if "scored half" in needs:
            return f"{n_unscored} of {n_epochs} epochs are unscored"
        if "unbroken sleep" in needs:
            return f"there are no {unbroken_minutes} min of sleep without a break"
        if self.scheme.rem is None:
            return f"scheme {self.scheme.name!r} has no REM stage"
        if "REM bout" in needs and not isnan(self.rem_latency_minutes):
            return f"there is no REM bout of {self.shortest_rem_epochs * self.epoch_seconds:g} s"
        return "there is no REM"


def sleep_statistics(
    night: ScoredNight,
    *,
    convention: Convention = "aasm",
    lights_off: Moment | None = None,
    lights_on: Moment | None = None,
    min_first_rem_seconds: float = FIRST_REM_SECONDS,
    lights_on_phase: str | None = None,
) -> SleepStatistics:
    """Return the sleep statistics of one night.

    Parameters
    ----------
    night : Hypnogram or Decoding
        The scored night; of a decoding, its hypnogram.
    convention : {"aasm", "yasa", "luna"}
        Whose definitions to use where they differ: see `stageguard.measures.statistics`.
    lights_off, lights_on : float, timedelta, datetime or str, optional
        When TIB begins and ends: seconds since the beginning of the recording, or a time; times of day such
        as ``"22:30"`` need a night with a start. The nearest boundary between epochs is taken.
    min_first_rem_seconds : float
        `rem_latency_bout_minutes` ends at the first REM bout of at least this length.
    lights_on_phase : str, optional
        For rodents: when the lights of a 12 h : 12 h cycle go on, such as ``"07:00"``. Gives `phases` and
        names `hours` by zeitgeber time.

    Returns
    -------
    SleepStatistics
        Named fields with their units; NaN, with a reason, where a quantity does not exist.

    Raises
    ------
    InputError
        The convention is unknown, or lights are outside the night or without a start to count from.

    Examples
    --------
    >>> import stageguard as sg
    >>> night = sg.Hypnogram([0, 0, 2, 2, 4, 0, 2], "aasm5", 30)  # W W N2 N2 R W N2
    >>> found = sg.sleep_statistics(night)
    >>> found.tst_minutes, found.sol_minutes, found.rem_latency_minutes, found.waso_minutes
    (2.0, 1.0, 1.0, 0.5)
    """
    options = StatisticsOptions(convention, lights_off, lights_on, min_first_rem_seconds, lights_on_phase)
    return options.measure(night)


# What had to be assumed of TIB, by whether lights off and lights on are given.
ASSUMED_OF_TIB: Mapping[tuple[bool, bool], tuple[str, ...]] = {
    (False, False): ("TIB is the whole recording: neither lights off nor lights on is given",),
    (False, True): ("TIB begins with the recording: lights off is not given",),
    (True, False): ("TIB ends with the recording: lights on is not given",),
    (True, True): (),
}


@dataclass(frozen=True, slots=True)
class StatisticsOptions:
    """How to take sleep statistics: see `stageguard.sleep_statistics`."""

    convention: Convention = "aasm"
    lights_off: Moment | None = None
    lights_on: Moment | None = None
    min_first_rem_seconds: float = FIRST_REM_SECONDS
    lights_on_phase: str | None = None

    def measure(self, night: ScoredNight) -> SleepStatistics:
        """Return the statistics of a night."""
        hypnogram = hypnogram_of(night)
        scheme, epoch_seconds = hypnogram.scheme, hypnogram.epoch_seconds
        convention = self.convention
        checks.choice(convention, "convention", get_args(Convention))
        first, stop = lights_window(hypnogram, *self.lights)
        hours = (stop - first) * epoch_seconds / 3600.0
        is_day = hours >= LONGEST_NIGHT_HOURS
        assumed = ASSUMED_OF_TIB[self.lights_off is not None, self.lights_on is not None]
        may_be_person = self.lights_on_phase is None and epoch_seconds >= SHORT_EPOCH_SECONDS
        if is_day and self.lights == (None, None) and may_be_person and scheme.wake is not None:
            begin, end = period_of(hypnogram.labels, scheme.wake_index, epoch_seconds)
            if begin < end:
                where = f" (epochs {begin + 1:,} to {end:,})"
                rule = longest_sleep_words(f"a recording of {hours:.1f} h", where)
                assumed = (f"{rule}: give lights off and lights on",)
                first, stop = begin, end
        elif hours >= USUAL_NIGHT_HOURS and self.lights == (None, None) and may_be_person:
            assumed = (assumed[0].replace("recording", f"recording of {hours:.1f} h"),)
        labels = hypnogram.labels[first:stop]
        # Luna trims after lights are known, so that its first epoch may lie later than lights off
        if convention == "luna":
            labels, n_left_out = _epochs_luna_counts(labels, scheme, epoch_seconds)
            first += n_left_out
        # counted from TIB, since hours and phases are those of TIB
        lights_on_phase = self.lights_on_phase
        zeitgeber = None if lights_on_phase is None else zeitgeber_seconds(hypnogram, lights_on_phase, first)
        shortest_rem = checks.number(self.min_first_rem_seconds, "min_first_rem_seconds", low=0.0)
        # 0 s asks for any REM: the shortest bout there is
        shortest_rem_epochs = max(1, whole_epochs(shortest_rem, epoch_seconds))
        stage_epochs = stage_counts(labels, scheme.n_stages).tolist()
        return SleepStatistics(
            convention=convention,
            scheme=scheme,
            epoch_seconds=epoch_seconds,
            lights_off_epoch=first,
            lights_on_epoch=first + len(labels),
            labels=labels,
            stage_epochs=tuple(stage_epochs),
            shortest_rem_epochs=shortest_rem_epochs,
            day_hours=hours if is_day else NAN,
            assumed=assumed,
            zeitgeber=zeitgeber,
            tib_minutes=len(labels) * (epoch_seconds / 60.0),
            unscored_minutes=(len(labels) - sum(stage_epochs)) * (epoch_seconds / 60.0),
            **_numbers_of_sleep(
                labels, scheme, epoch_seconds, convention, shortest_rem_epochs, has_bedtime=not is_day
            ),
        )

    @property
    def lights(self) -> tuple[Moment | None, Moment | None]:
        """Lights off and lights on."""
        return self.lights_off, self.lights_on


def longest_sleep_words(of: str, where: str = "") -> str:
    """Return where recordings are measured that are so long that no moment is bedtime."""
    period = f"the sleep period of the longest sleep{where}"
    return f"TIB is {period} of {of} without lights, so that SOL and SE do not exist"


def is_of_days(n_epochs: int, epoch_seconds: float) -> bool:
    """Whether a recording of a person is so long that, without lights, its longest sleep is measured."""
    return n_epochs * epoch_seconds >= 3600 * LONGEST_NIGHT_HOURS and epoch_seconds >= SHORT_EPOCH_SECONDS


AASM = StatisticsOptions()  # of the whole recording, where nothing else is asked for


def lights_words(hypnogram: Hypnogram, lights_off: Moment | None, lights_on: Moment | None) -> str:
    """Return where lights cut a night, as in ``lights off at 60 s (epoch 3)``; empty without lights."""
    first, stop = lights_window(hypnogram, lights_off, lights_on)
    words = []
    for which, moment, epoch in (("off", lights_off, first), ("on", lights_on, stop)):
        if moment is not None:
            clock = hypnogram.clock_at(epoch)
            time = "" if clock is None else f"{clock:%H:%M:%S}, "
            seconds = hypnogram.offset_seconds + epoch * hypnogram.epoch_seconds
            words.append(f"lights {which} at {time}{seconds:.10g} s (epoch {epoch + 1:,})")
    return ", ".join(words)


def _epochs_luna_counts(labels: Labels, scheme: StageScheme, epoch_seconds: float) -> tuple[Labels, int]:
    """Return the epochs that Luna 1.7 counts, and how many unscored ones it leaves out before them."""
    if scheme.wake is None:
        return labels, 0
    is_wake = labels == scheme.wake_index
    asleep = np.flatnonzero((labels != UNSCORED) & ~is_wake)
    n_little = min(whole_epochs(_LITTLE_SLEEP_SECONDS, epoch_seconds) - 1, len(asleep))
    # of the first sleep, disregard as much as a long wake separates from the rest
    for n_first in range(n_little, 0, -1):
        next_sleep = asleep[n_first] if n_first < len(asleep) else len(labels)
        n_awake = np.count_nonzero(is_wake[asleep[n_first - 1] : next_sleep])
        if n_awake * epoch_seconds > _LONG_WAKE_SECONDS:
            labels = labels.copy()
            labels[asleep[:n_first]] = UNSCORED
            break
    scored = np.flatnonzero(labels != UNSCORED)
    if not len(scored):
        return labels, 0
    return labels[scored[0] : scored[-1] + 1], int(scored[0])


def _numbers_of_sleep(
    labels: Labels,
    scheme: StageScheme,
    epoch_seconds: float,
    convention: Convention,
    shortest_rem_epochs: int,
    *,
    has_bedtime: bool,
) -> dict[str, float]:
    """Return the numbers about sleep in TIB that exist, by the fields of `SleepStatistics`.

    They are defined at the head of this module.
    """
    n_epochs, minutes = len(labels), epoch_seconds / 60.0
    is_scored = labels != UNSCORED
    n_scored = int(np.count_nonzero(is_scored))
    # YASA gives 0 min of sleep of a night that nobody scored, others give nothing
    if scheme.wake is None or (n_scored == 0 and convention != "yasa"):
        return {}
    is_wake = labels == scheme.wake_index
    is_asleep = is_scored & ~is_wake
    asleep = np.flatnonzero(is_asleep)
    n_asleep = len(asleep)
    # around the clock REM has no latency; by YASA it counts from lights off
    has_onset = has_bedtime or (convention != "yasa" and n_epochs * minutes < 60.0 * LONGEST_NIGHT_HOURS)
    # otherwise an efficiency would tell how much was scored, not how well somebody slept
    is_scored_enough = convention != "aasm" or n_scored >= (1.0 - MOST_UNSCORED) * n_epochs
    numbers = {"tst_minutes": n_asleep * minutes}
    if is_scored_enough and has_bedtime:
        numbers["se_percent"] = 100.0 * n_asleep / n_epochs
    if n_asleep == 0:
        return numbers | ({"spt_minutes": 0.0} if convention == "yasa" else {})
    onset, stop = int(asleep[0]), int(asleep[-1]) + 1
    # Luna lets an unscored end belong to SPT, since it may be sleep; scored wake does not
    end_of_spt = int(np.flatnonzero(~is_wake)[-1]) + 1 if convention == "luna" else stop
    n_waso, n_awakenings = int(np.count_nonzero(is_wake[onset:stop])), len(runs_of(is_wake[onset:stop]))
    # wake after an unscored epoch is not known to follow sleep
    n_sleep_to_wake = int(np.count_nonzero(is_asleep[:-1] & is_wake[1:]))
    numbers |= {
        "spt_minutes": (end_of_spt - onset) * minutes,
        "waso_minutes": n_waso * minutes,
        "awakenings": float(n_awakenings),
        "awakenings_with_final": float(n_awakenings + bool(is_wake[stop:].any())),
        "sfi_per_hour": n_sleep_to_wake * 60.0 / (n_asleep * minutes),
    }
    if is_scored_enough:
        numbers["sme_percent"] = 100.0 * n_asleep / (stop - onset)
    if has_bedtime:
        sleep = runs_of(is_asleep)
        numbers["sol_minutes"] = onset * minutes
        numbers["sol_5min_minutes"] = _onset(sleep, whole_epochs(300.0, epoch_seconds)) * minutes
        numbers["sol_10min_minutes"] = _onset(sleep, whole_epochs(600.0, epoch_seconds)) * minutes
    if has_onset and scheme.rem is not None:
        rem = runs_of(labels == scheme.rem_index)
        first_rem, lasting_rem = _onset(rem, 1), _onset(rem, shortest_rem_epochs)
        # by YASA, SOL is a part of REM latency
        latency = (first_rem - (0 if convention == "yasa" else onset)) * minutes
        # one latency is the other plus a whole number of epochs: they agree where the first bout lasts
        numbers["rem_latency_minutes"] = latency
        numbers["rem_latency_bout_minutes"] = latency + (lasting_rem - first_rem) * epoch_seconds / 60.0
    return numbers


def _onset(runs: Indices, shortest_epochs: int) -> float:
    """Return the first epoch of the first run of at least so many epochs; NaN without one."""
    lasting = runs[runs[:, 1] - runs[:, 0] >= shortest_epochs]
    return float(lasting[0, 0]) if len(lasting) else NAN


def _long_names(scheme: StageScheme) -> Mapping[str, str]:
    """Return YASA's names of the stages, where it has one."""
    names = {name: {"N": "NREM", "S": "SLEEP"}.get(canonical_name(name) or "", name) for name in scheme.names}
    named = {scheme.wake: "WAKE", scheme.rem: "REM"}
    return {name: named.get(name, long) for name, long in names.items()}


def statistics_of_many(labels: Labels, scheme: StageScheme, epoch_seconds: float) -> dict[str, Floats]:
    """Return reported statistics and minutes of stages of many scorings (n, n_epochs) of one time in bed.

    Each is an array (n,), NaN where the statistic does not exist, by the convention ``aasm``.
    """
    n, n_epochs = labels.shape
    minutes = epoch_seconds / 60.0
    values = {quantity.key: np.full(n, NAN) for quantity in REPORTED}
    for index, stage in enumerate(scheme.names):
        values[MINUTES_OF_STAGE.of(stage).key] = (labels == index).sum(axis=1) * minutes
    if scheme.wake is None or not n_epochs:
        return values
    is_scored, is_wake = labels != UNSCORED, labels == scheme.wake_index
    asleep = is_scored & ~is_wake
    n_scored, has_sleep = is_scored.sum(axis=1), asleep.any(axis=1)
    tst = np.where(n_scored > 0, asleep.sum(axis=1) * minutes, NAN)
    first, last = _first(asleep), n_epochs - 1 - _first(asleep[:, ::-1])
    place = np.arange(n_epochs)
    wake_inside = is_wake & (place >= first[:, None]) & (place <= last[:, None])
    begins = wake_inside.copy()
    begins[:, 1:] &= ~is_wake[:, :-1]
    values["tst_minutes"] = tst
    values["waso_minutes"] = np.where(has_sleep, wake_inside.sum(axis=1) * minutes, NAN)
    values["awakenings"] = np.where(has_sleep, begins.sum(axis=1), NAN)
    if n_epochs * minutes < 60.0 * LONGEST_NIGHT_HOURS:
        is_scored_enough = n_scored >= (1.0 - MOST_UNSCORED) * n_epochs
        values["se_percent"] = np.where(is_scored_enough, 100.0 * tst / (n_epochs * minutes), NAN)
        values["sol_minutes"] = np.where(has_sleep, first * minutes, NAN)
        if scheme.rem is not None:
            is_rem = labels == scheme.rem_index
            latency = (_first(is_rem) - first) * minutes
            values["rem_latency_minutes"] = np.where(is_rem.any(axis=1), latency, NAN)
    return values


def _first(flags: Mask) -> Indices:
    """Return the first place that is set in each row; 0 where none is."""
    places: Indices = flags.argmax(axis=1)
    return places
