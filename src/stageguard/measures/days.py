"""Whole days of a person: every sleep by itself, and what the days have in common.

==================  ==================================================================================
sleep               as `stageguard.night.sleeps` finds it; guarded and measured by itself
day                 noon to noon, named by the date on which it begins; a sleep belongs to the day of
                    its middle
main sleep          the sleep of a day with the most minutes asleep; the others are naps
missing             neither scored nor guarded: non-wear and gaps, which are neither sleep nor wake
mid-sleep           halfway from the first to the end of the last epoch of the main sleep's sleep
SRI                 sleep regularity index of Phillips et al. 2017: how much more often than not a
                    person is in the same state, asleep or awake, at two moments 24 h apart, from
                    -100 to 100; pairs of which one is missing do not count
==================  ==================================================================================

A day of which more than half is missing is not a day: its sleeps are listed, and do not count over days.
Between sleeps a person counts as awake wherever the recording is scored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from math import isnan
from statistics import fmean, stdev
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from stageguard.arrays import DAY_SECONDS, NAN
from stageguard.errors import Argument, InputError, Message
from stageguard.extras import library
from stageguard.guard.decode import decode
from stageguard.guard.decoding import Decoding
from stageguard.guard.inputs import check_quality
from stageguard.measures.statistics import SleepStatistics, sleep_statistics
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.night import later
from stageguard.night.period import Period
from stageguard.night.sleeps import Lights, find_sleeps
from stageguard.night.timing import part_of, require_night, seconds_between
from stageguard.profile.known_stagers import Training
from stageguard.profile.night_stages import density_of_labels
from stageguard.profile.profile import Profile, as_profile
from stageguard.values import ComparedByValue

NOON = time(12)
MOST_MISSING = 0.5  # of a day


@dataclass(frozen=True, slots=True, eq=False)
class Sleep(ComparedByValue):
    """One sleep of a recording of days.

    Attributes
    ----------
    first, end : int
        Its first epoch in the recording, and the epoch after its last one.
    kind : "main" or "nap"
        Whether it is the longest sleep of its day.
    date : date
        The day it belongs to: the noon before its middle.
    hypnogram : Hypnogram
        The stages, guarded where there are probabilities.
    decoding : Decoding or None
        What the guard did; None without a profile.
    statistics : SleepStatistics
        The sleep statistics of this sleep; without lights, time in bed is not known, and TIB is the stretch.
    onset, offset : datetime or None
        When its first epoch of sleep begins and its last one ends.
    """

    first: int
    end: int
    kind: Literal["main", "nap"]
    date: date
    hypnogram: Hypnogram
    decoding: Decoding | None
    statistics: SleepStatistics
    onset: datetime | None
    offset: datetime | None

    @property
    def middle(self) -> datetime | None:
        """Halfway from onset to offset."""
        return None if self.onset is None or self.offset is None else _middle(self.onset, self.offset)


@dataclass(frozen=True, slots=True, eq=False)
class Day(ComparedByValue):
    """One day, from noon to noon, and the sleeps that belong to it."""

    date: date
    sleeps: tuple[Sleep, ...]
    missing_percent: float

    @property
    def counts(self) -> bool:
        """Whether no more than half of it is missing."""
        return self.missing_percent <= 100.0 * MOST_MISSING

    @property
    def main(self) -> Sleep | None:
        """The main sleep, if there is any sleep."""
        return next((sleep for sleep in self.sleeps if sleep.kind == "main"), None)

    @property
    def naps(self) -> tuple[Sleep, ...]:
        """The other sleeps."""
        return tuple(sleep for sleep in self.sleeps if sleep.kind == "nap")

    def hours_after_noon(self, moment: datetime | None) -> float:
        """Return a moment by the clock on the wall, in hours after the noon with which the day begins."""
        if moment is None:
            return NAN
        return (moment.replace(tzinfo=None) - datetime.combine(self.date, NOON)).total_seconds() / 3600.0


def _of_main(key: str) -> Callable[[Day], float]:
    return lambda day: NAN if day.main is None else float(getattr(day.main.statistics, key))


def _clock_of(key: str) -> Callable[[Day], float]:
    return lambda day: NAN if day.main is None else day.hours_after_noon(getattr(day.main, key))


def _minutes_asleep(sleeps: Sequence[Sleep]) -> float:
    return sum((sleep.statistics.tst_minutes for sleep in sleeps), 0.0)


@dataclass(frozen=True, slots=True)
class DayQuantity:
    """What is told of each day, and over days by mean and SD."""

    key: str
    name: str  # in tables
    title: str  # in the codebook
    unit: str
    decimals: int
    of: Callable[[Day], float]


CLOCK = "h after noon"  # shown as a time of day
DAY_QUANTITIES = (
    DayQuantity("onset_hours", "onset", "Onset of the main sleep", CLOCK, 2, _clock_of("onset")),
    DayQuantity("offset_hours", "end", "End of the main sleep", CLOCK, 2, _clock_of("offset")),
    DayQuantity("mid_sleep_hours", "mid-sleep", "Middle of the main sleep", CLOCK, 2, _clock_of("middle")),
    DayQuantity(
        "tst_minutes", "TST", "Total sleep time of the main sleep", "min", 1, _of_main("tst_minutes")
    ),
    DayQuantity(
        *("waso_minutes", "WASO", "Wake after sleep onset in the main sleep", "min", 1),
        _of_main("waso_minutes"),
    ),
    DayQuantity(
        *("sme_percent", "SME", "Sleep maintenance efficiency of the main sleep", "% of SPT", 1),
        _of_main("sme_percent"),
    ),
    DayQuantity("naps", "naps", "Naps", "count", 1, lambda day: float(len(day.naps))),
    DayQuantity("nap_minutes", "in naps", "Sleep in naps", "min", 1, lambda day: _minutes_asleep(day.naps)),
    DayQuantity(
        *("day_tst_minutes", "total", "Total sleep time of the day", "min", 1),
        lambda day: _minutes_asleep(day.sleeps),
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class Days(ComparedByValue):
    """The sleeps and days of one recording.

    Attributes
    ----------
    hypnogram : Hypnogram
        The whole recording: guarded stages in sleeps, wake between them, unscored where it is missing.
    sleeps : tuple of Sleep
        All sleeps, in order.
    days : tuple of Day
        All days that the recording touches, in order, also those that do not count.
    """

    hypnogram: Hypnogram
    sleeps: tuple[Sleep, ...]
    days: tuple[Day, ...]

    @property
    def counted(self) -> tuple[Day, ...]:
        """The days of which no more than half is missing."""
        return tuple(day for day in self.days if day.counts)

    @property
    def n_days(self) -> int:
        """How many days count."""
        return len(self.counted)

    @property
    def mean(self) -> dict[str, float]:
        """Mean over the days that count, by the key of each of `DAY_QUANTITIES`; NaN where none has it."""
        return {quantity.key: fmean(self._values(quantity) or [NAN]) for quantity in DAY_QUANTITIES}

    @property
    def sd(self) -> dict[str, float]:
        """Standard deviation over days; NaN with fewer than two."""
        numbers = {quantity.key: self._values(quantity) for quantity in DAY_QUANTITIES}
        return {key: stdev(values) if len(values) > 1 else NAN for key, values in numbers.items()}

    @property
    def sri(self) -> float:
        """The sleep regularity index; NaN without two known moments 24 h apart."""
        hypnogram = self.hypnogram
        wake = hypnogram.scheme.names.index(str(hypnogram.scheme.wake))
        states = np.where(hypnogram.labels == UNSCORED, -1, hypnogram.labels != wake)
        return sleep_regularity(states, hypnogram.epoch_seconds)

    def _values(self, quantity: DayQuantity) -> list[float]:
        return [value for value in map(quantity.of, self.counted) if not isnan(value)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain types: a row per sleep, a row per day, and one over days."""
        return {
            "sleeps": [_sleep_row(number, sleep) for number, sleep in enumerate(self.sleeps, start=1)],
            "days": [day_row(day) for day in self.days],
            "over_days": {"n_days": self.n_days, "sri": self.sri, "mean": self.mean, "sd": self.sd},
        }

    def to_frame(self) -> Any:
        """Return a `pandas.DataFrame` with a row per day."""
        return library("pandas", "to_frame()", "formats").DataFrame([day_row(day) for day in self.days])


def day_row(day: Day) -> dict[str, Any]:
    """Return a day as a row of a table."""
    numbers = {quantity.key: quantity.of(day) for quantity in DAY_QUANTITIES}
    head = {"date": day.date.isoformat(), "counts": day.counts, "missing_percent": day.missing_percent}
    return head | numbers


def _sleep_row(number: int, sleep: Sleep) -> dict[str, Any]:
    times = {
        name: None if moment is None else moment.isoformat()
        for name, moment in (("onset", sleep.onset), ("offset", sleep.offset), ("mid_sleep", sleep.middle))
    }
    return {
        "sleep": number,
        "kind": sleep.kind,
        "date": sleep.date.isoformat(),
        "first_epoch": sleep.first,
        "n_epochs": sleep.end - sleep.first,
        **times,
        "n_changed": None if sleep.decoding is None else int(sleep.decoding.changed.sum()),
        "statistics": sleep.statistics.to_dict(),
    }


def days(
    source: Hypnogram | Hypnodensity,
    profile: Profile | str | None = None,
    *,
    lights: Lights | None = None,
    timezone: str | None = None,
    quality: npt.ArrayLike | None = None,
    cohort: str | None = None,
    stager: str | None = None,
    trained: Training | None = None,
    strength: float | Literal["off"] | None = None,
) -> Days:
    """Find the sleeps in a recording of a person, guard and measure each, and summarise the days.

    Parameters
    ----------
    source : Hypnodensity or Hypnogram
        A recording of any length that says when it starts.
    profile : Profile or str, optional
        As for `decode`; probabilities need one. Stages without a profile are measured as they are. A profile
        of animals is refused: they sleep around the clock.
    lights : sequence of (lights off, lights on), optional
        Times in bed; see `find_sleeps`.
    timezone : str, optional
        Where the person was, such as ``"Europe/Berlin"``: a start in another zone is turned into its local
        time, and days on which the clock changes there have 23 or 25 h.
    quality, cohort, stager, trained, strength
        As for `decode`; `quality` has a number per epoch of the recording.

    Returns
    -------
    Days
        The sleeps with their decodings and statistics, the days, and means over days.

    Raises
    ------
    InputError
        The recording does not say when it starts, or lights do not fit it.

    Examples
    --------
    >>> import stageguard as sg
    >>> from datetime import datetime
    >>> night = [0] * 120 + [1] * 900 + [0] * 1860
    >>> found = sg.days(sg.Hypnogram(night * 7, "ws2", 30, datetime(2024, 1, 1, 22)))
    >>> found.n_days, found.mean["tst_minutes"], round(found.sri)
    (7, 450.0, 100)
    """
    require_night(source)
    if source.start is None:
        raise InputError(
            Message("days need to know when the recording starts. Give ", Argument("start"), ".")
        )
    start = _local(source.start, timezone)
    if profile is None and isinstance(source, Hypnogram):
        stretches = find_sleeps(source, lights or ())
        parts = [part_of(source, first, end) for first, end in stretches]
        return _days_of(replace(source, start=start), stretches, [(part, None) for part in parts])
    used = _human(profile)
    if isinstance(source, Hypnogram):
        source = density_of_labels(source, used, stager)
    beta = check_quality(quality, source.n_epochs)
    labels = source.argmax
    if beta is not None:  # a lost signal is missing, whatever the stager made of it
        labels = np.where(beta >= 1.0, np.int8(UNSCORED), labels)
    known = Hypnogram(
        *(labels, source.scheme, source.epoch_seconds, source.start, used.name),
        offset_seconds=source.offset_seconds,
    )
    stretches = find_sleeps(known, lights or ())
    decodings: list[Decoding] = []
    if stretches:
        decodings = decode(
            [part_of(source, first, end) for first, end in stretches],
            used,
            quality=None if beta is None else [beta[first:end] for first, end in stretches],
            cohort=cohort,
            stager=stager,
            trained=trained,
            strength=strength,
        )
    guarded = [(decoding.hypnogram, decoding) for decoding in decodings]
    return _days_of(replace(known, start=start).merge(used.scheme), stretches, guarded)


def _local(start: datetime, timezone: str | None) -> datetime:
    """Return a start in a time zone; a start without any is local time already."""
    if timezone is None:
        return start
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # most recordings name no zone

    try:
        zone = ZoneInfo(timezone)
    except (ValueError, OSError, ZoneInfoNotFoundError, TypeError):
        raise InputError(
            Message(Argument("timezone"), f" is {timezone!r}, expected a name such as 'Europe/Berlin'.")
        ) from None
    return start.replace(tzinfo=zone) if start.tzinfo is None else start.astimezone(zone)


def _human(profile: Profile | str | None) -> Profile:
    """Return a profile of people."""
    if profile is None:
        raise InputError(Message("probabilities need a profile. Give ", Argument("profile"), "."))
    used = as_profile(profile)
    if used.species != "human":
        raise InputError(
            f"profile {used.name!r} is of the species {used.species!r}, which sleeps around the clock. "
            "Its recordings are decoded and measured as they are, by decode and stats."
        )
    return used


def _days_of(
    known: Hypnogram, stretches: Sequence[Period], nights: Sequence[tuple[Hypnogram, Decoding | None]]
) -> Days:
    """Return the days of a recording whose scored epochs are `known`, from the stages of each sleep."""
    start = known.start
    assert start is not None  # `days` refuses a recording without
    wake = known.scheme.names.index(str(known.scheme.wake))
    labels = np.where(known.labels == UNSCORED, UNSCORED, wake).astype(np.int8)
    sleeps = list[Sleep]()
    for (first, end), (hypnogram, decoding) in zip(stretches, nights, strict=True):
        labels[first:end] = hypnogram.labels
        sleeps.append(_sleep(first, end, later(start, first * known.epoch_seconds), hypnogram, decoding))
    whole = known.with_rows(labels)
    rows = list[Day]()
    last = day_of(later(start, whole.n_epochs * whole.epoch_seconds - 1e-3))
    for n_days in range((last - day_of(start)).days + 1):
        day = day_of(start) + timedelta(days=n_days)
        own = [sleep for sleep in sleeps if sleep.date == day]
        main = max(own, key=lambda sleep: sleep.statistics.tst_minutes, default=None)
        own = [replace(sleep, kind="main" if sleep is main else "nap") for sleep in own]
        rows.append(Day(day, tuple(own), _missing_percent(whole, day)))
    return Days(whole, tuple(sleep for row in rows for sleep in row.sleeps), tuple(rows))


def _sleep(first: int, end: int, start: datetime, hypnogram: Hypnogram, decoding: Decoding | None) -> Sleep:
    """Return a sleep that begins at `start`, a nap unless its day has none that is longer."""
    scheme = hypnogram.scheme
    wake = scheme.names.index(str(scheme.wake))
    asleep = np.flatnonzero((hypnogram.labels != UNSCORED) & (hypnogram.labels != wake))
    edges = (int(asleep[0]), int(asleep[-1]) + 1) if len(asleep) else (0, hypnogram.n_epochs)
    moments = [later(start, edge * hypnogram.epoch_seconds) for edge in edges]
    onset, offset = moments if len(asleep) else (None, None)
    day, statistics = day_of(_middle(*moments)), sleep_statistics(hypnogram)
    return Sleep(first, end, "nap", day, hypnogram, decoding, statistics, onset, offset)


def _middle(onset: datetime, offset: datetime) -> datetime:
    return later(onset, seconds_between(onset, offset) / 2.0)


def day_of(moment: datetime) -> date:
    """Return the day of a moment, by the clock on the wall: the date of the last noon."""
    return (moment.replace(tzinfo=None) - timedelta(hours=NOON.hour)).date()


def day_edges(whole: Hypnogram, day: date) -> tuple[float, float]:
    """Return where a day begins and ends in a recording, in epochs, which may lie outside of it."""
    start = whole.start
    assert start is not None  # `days` refuses a recording without
    noons = (datetime.combine(day + timedelta(days=n), NOON, start.tzinfo) for n in (0, 1))
    begin, end = (seconds_between(start, noon) / whole.epoch_seconds for noon in noons)
    return begin, end  # 23 h or 25 h apart where the clock changes


def _missing_percent(whole: Hypnogram, day: date) -> float:
    """Return how much of a day is not scored, also because the recording does not cover it."""
    begin, end = day_edges(whole, day)
    first, stop = (min(max(round(edge), 0), whole.n_epochs) for edge in (begin, end))
    n_scored = int(np.count_nonzero(whole.labels[first:stop] != UNSCORED))
    return max(0.0, 100.0 * (1.0 - n_scored / (end - begin)))


def sleep_regularity(states: npt.ArrayLike, epoch_seconds: float) -> float:
    """Return the sleep regularity index of states per epoch: 1 asleep, 0 awake, -1 unknown."""
    values = np.asarray(states)
    n_day = round(DAY_SECONDS / epoch_seconds)
    before, after = values[:-n_day], values[n_day:]
    is_known = (before >= 0) & (after >= 0)
    if not is_known.any():
        return NAN
    return 200.0 * float(np.mean(before[is_known] == after[is_known])) - 100.0
