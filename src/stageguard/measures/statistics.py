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

In a recording of 20 h or more no moment is bedtime: SOL, SE and REM latency are NaN in all three.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from math import isnan
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from stageguard.base import checks
from stageguard.base.arrays import NAN, Labels
from stageguard.base.lazy import load
from stageguard.measures.bouts import ScoredNight, bouts_of, cycles_of, hypnogram_of, whole_epochs
from stageguard.measures.day import Stretch, hours_of, phases_of, zeitgeber_seconds
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.moments import Moment, lights_window
from stageguard.night.quantities import NIGHT, Need
from stageguard.night.stages import StageScheme, canonical_name

Convention = Literal["aasm", "yasa", "luna"]

CONVENTIONS = ("aasm", "yasa", "luna")
LONGEST_NIGHT_HOURS = 20.0  # our choice: longer recordings are days, in which no moment is bedtime
FIRST_REM_SECONDS = (
    120.0  # our choice, of 1 to 3 min: single false epochs do not count, and hardly a true bout is missed
)
MOST_UNSCORED = 0.5  # our choice: with more of TIB unscored, efficiencies would say little about sleep

# Luna's defaults for sleep that is set apart from the night
_APART_WAKE_SECONDS = 120 * 60.0
_APART_SLEEP_SECONDS = 5 * 60.0

_WHOLE: tuple[str, ...] = ("TIB is the whole recording: neither lights off nor lights on is given",)
_NO_OFF = ("TIB begins with the recording: lights off is not given",)
_NO_ON = ("TIB ends with the recording: lights on is not given",)
_LONGEST_NIGHT_MINUTES = 60.0 * LONGEST_NIGHT_HOURS
_UNSCORED_BYTE = UNSCORED % 256


class SleepStatistics(NamedTuple):  # a dataclass takes a fifth longer to make, and fits make many
    """Sleep statistics of one hypnogram. NaN where a quantity does not exist: see `reasons`.

    The numbers are those of `stageguard.night.quantities.NIGHT`.

    Attributes
    ----------
    convention : str
        The definitions: ``aasm``, ``yasa`` or ``luna``.
    lights_off_epoch, lights_on_epoch : int
        First epoch of TIB, and first epoch after it.
    shortest_rem_epochs : int
        Shortest REM bout that ends `rem_latency_bout_minutes`.
    awakenings, awakenings_with_final : float
        Wake bouts within SPT, and the same plus the final awakening.
    assumed : tuple of str
        What had to be assumed.
    zeitgeber : float or None
        How many seconds before TIB the light phase began; None without `lights_on_phase`.
    stage_epochs : tuple of int
        Epochs of each stage of the scheme.
    epochs : bytes
        Label of each epoch of TIB, 255 where unscored.
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
    shortest_rem_epochs: int
    assumed: tuple[str, ...]
    zeitgeber: float | None
    stage_epochs: tuple[int, ...]
    epochs: bytes

    @property
    def stage_minutes(self) -> Mapping[str, float]:
        """Minutes of every stage of the scheme, wake included."""
        minutes, counted = self.epoch_seconds / 60.0, zip(self.scheme.names, self.stage_epochs, strict=True)
        return {name: n_epochs * minutes for name, n_epochs in counted}

    @property
    def stage_percent(self) -> Mapping[str, float]:
        """Percent of TST, for every stage but wake; NaN without sleep."""
        wake, tst = self.scheme.wake, self.tst_minutes * 60.0 / self.epoch_seconds or NAN
        counted = zip(self.scheme.names, self.stage_epochs, strict=True)
        return {name: 100.0 * n_epochs / tst for name, n_epochs in counted if name != wake}

    @property
    def bouts(self) -> Mapping[str, int]:
        """Number of bouts of every stage, including those that lights cut."""
        stages = bouts_of(np.frombuffer(self.epochs, dtype=np.int8)).stages
        n_bouts = np.bincount(stages + 1, minlength=self.scheme.n_stages + 1)[1:].tolist()
        return dict(zip(self.scheme.names, n_bouts, strict=True))

    @property
    def cycles(self) -> float:
        """NREM-REM cycles, as `stageguard.measures.bouts` defines them."""
        return float(len(self.cycle_epochs)) if self._has_cycles else NAN

    @property
    def cycle_epochs(self) -> list[tuple[int, int]]:
        """First epoch and end of each cycle, counted from lights off; none where cycles are not defined."""
        return cycles_of(self.epochs, self.scheme, self.epoch_seconds) if self._has_cycles else []

    @property
    def _has_cycles(self) -> bool:
        return self._is_one_night and self.scheme.rem is not None and self.tst_minutes > 0.0

    @property
    def rem_latency_bout_minutes(self) -> float:
        """Latency of the first REM bout of `shortest_rem_epochs`, from where `rem_latency_minutes` counts."""
        if isnan(self.rem_latency_minutes):
            return NAN
        rem = _words(self.scheme).rem
        assert rem is not None
        bout = (self.epochs, rem, self.shortest_rem_epochs, self.epoch_seconds)
        return _bout_latency(self.rem_latency_minutes, *bout)

    @property
    def phases(self) -> Mapping[str, Stretch]:
        """Stage times in the ``light`` and in the ``dark``; empty unless `lights_on_phase` was given."""
        return phases_of(self.epochs, self.scheme, self.epoch_seconds, self.zeitgeber)

    @property
    def hours(self) -> tuple[Stretch, ...]:
        """Stage times hour by hour: after lights on, or without `lights_on_phase` from the start of TIB."""
        return hours_of(self.epochs, self.scheme, self.epoch_seconds, self.zeitgeber)

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
        """Return the numbers, without the epochs."""
        numbers = ", ".join(f"{key}={value:g}" for key, value in self.to_dict().items())
        return f"<SleepStatistics {self.convention}: {numbers}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        html: str = load("report.notebook:html_of")(self)
        return html

    @property
    def _is_one_night(self) -> bool:
        return self.tib_minutes < _LONGEST_NIGHT_MINUTES and self.zeitgeber is None

    def _why(self, needs: Collection[Need] = (), unbroken_minutes: int = 0) -> str:
        """Return why a number with these needs does not exist, the most general reason first."""
        n_epochs, n_unscored = len(self.epochs), self.epochs.count(_UNSCORED_BYTE)
        if "one night" in needs and not self._is_one_night:
            return "cycles are defined for one night of human sleep"
        if self.scheme.wake is None:
            return f"scheme {self.scheme.name!r} does not say which stage is wake"
        if n_epochs == n_unscored:
            return "no epoch is scored"
        if "bedtime" in needs and self.tib_minutes >= _LONGEST_NIGHT_MINUTES:
            hours = self.tib_minutes / 60.0
            return f"a recording of {hours:.1f} h is no single night: give lights off and lights on"
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
    hypnogram = hypnogram_of(night)
    scheme, epoch_seconds = hypnogram.scheme, hypnogram.epoch_seconds
    labels, first, assumed = _time_in_bed(hypnogram, convention, lights_off, lights_on)
    zeitgeber = None if lights_on_phase is None else zeitgeber_seconds(hypnogram, lights_on_phase, first)
    shortest_rem = _shortest_rem(min_first_rem_seconds, epoch_seconds)
    epochs, words = labels.tobytes(), _words(scheme)
    counts = [epochs.count(label) for label in words.counted]
    counts.insert(words.commonest, len(epochs) - epochs.count(_UNSCORED_BYTE) - sum(counts))
    numbers = _numbers(epochs, counts, words, epoch_seconds, convention)
    before = (convention, scheme, epoch_seconds, first, first + len(epochs))
    return SleepStatistics._make((*before, *numbers, shortest_rem, assumed, zeitgeber, tuple(counts), epochs))


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
        return sleep_statistics(night, **{each.name: getattr(self, each.name) for each in fields(self)})

    @property
    def lights(self) -> tuple[Moment | None, Moment | None]:
        """Lights off and lights on."""
        return self.lights_off, self.lights_on


def rem_latencies(
    hypnogram: Hypnogram, options: StatisticsOptions, labels: Labels | None = None
) -> tuple[float, float]:
    """Return `rem_latency_minutes` and `rem_latency_bout_minutes` without computing the other statistics.

    `labels`, if passed, replace those of the hypnogram.
    """
    seconds, words = hypnogram.epoch_seconds, _words(hypnogram.scheme)
    seen, *_ = _time_in_bed(hypnogram, options.convention, *options.lights, labels)
    epochs, minutes = seen.tobytes(), seconds / 60.0
    if words.wake is None or words.rem is None or len(epochs) * minutes >= _LONGEST_NIGHT_MINUTES:
        return NAN, NAN
    onset = epochs.find(words.rem)
    if onset < 0:
        return NAN, NAN
    asleep = 0 if options.convention == "yasa" else epochs.translate(words.letters).find(b"S")
    latency = (onset - asleep) * minutes
    return latency, _bout_latency(
        latency, epochs, words.rem, _shortest_rem(options.min_first_rem_seconds, seconds), seconds
    )


def _time_in_bed(
    hypnogram: Hypnogram,
    convention: Convention,
    lights_off: Moment | None,
    lights_on: Moment | None,
    labels: Labels | None = None,
) -> tuple[Labels, int, tuple[str, ...]]:
    """Return the labels of TIB, its first epoch, and what had to be assumed."""
    checks.choice(convention, "convention", CONVENTIONS)
    labels, first, assumed = hypnogram.labels if labels is None else labels, 0, _WHOLE
    if lights_off is not None or lights_on is not None:
        first, stop = lights_window(hypnogram, lights_off, lights_on)
        assumed = _NO_OFF if lights_off is None else _NO_ON if lights_on is None else ()
        labels = labels[first:stop]
    if convention == "luna":
        labels, n_left_out = _as_luna_sees(labels, hypnogram.scheme, hypnogram.epoch_seconds)
        first += n_left_out
    return labels, first, assumed


def _shortest_rem(min_first_rem_seconds: float, epoch_seconds: float) -> int:
    """Return the length in epochs from which a REM bout counts as lasting."""
    seconds = checks.number(min_first_rem_seconds, "min_first_rem_seconds", low=0.0)
    return max(1, whole_epochs(seconds, epoch_seconds))


def _bout_latency(
    latency: float, epochs: bytes, rem: bytes, shortest_rem: int, epoch_seconds: float
) -> float:
    """Return the latency of the first REM bout that is long enough, from that of the first REM epoch."""
    onset = epochs.find(rem * min(shortest_rem, len(epochs) + 1))
    later = onset - epochs.find(rem)
    return NAN if onset < 0 else latency + later * epoch_seconds / 60.0


class _Words(NamedTuple):
    """A scheme in bytes. To save time, the commonest stage is not counted: it is what is left."""

    letters: bytes  # table that turns a label into S (sleep), a blank (wake) or ? (unscored)
    wake: int | None
    rem: bytes | None
    counted: tuple[int, ...]
    commonest: int


def _numbers(
    epochs: bytes, counts: list[int], words: _Words, epoch_seconds: float, convention: Convention
) -> tuple[float, ...]:
    """Return the numbers of `SleepStatistics`, in its order, NaN where they do not exist."""
    n_epochs, n_scored, minutes = len(epochs), sum(counts), epoch_seconds / 60.0
    tib, unscored, as_yasa = n_epochs * minutes, (n_epochs - n_scored) * minutes, convention == "yasa"
    letters, wake, rem, *_ = words
    if wake is None or not (n_scored or as_yasa):
        return (tib, *[NAN] * 12, unscored)
    n_sleep = n_scored - counts[wake]
    is_trusted = convention != "aasm" or n_scored >= (1.0 - MOST_UNSCORED) * n_epochs
    has_bedtime = tib < _LONGEST_NIGHT_MINUTES
    se = 100.0 * n_sleep / n_epochs if is_trusted and has_bedtime else NAN
    if not n_sleep:
        return (tib, 0.0 if as_yasa else NAN, 0.0, NAN, se, *[NAN] * 8, unscored)
    text = epochs.translate(letters)  # S sleep, a blank for wake, ? unscored
    first, stop = text.find(b"S"), text.rfind(b"S") + 1
    inside = text[first:stop]
    spt = len(text.rstrip(b" ")) - first if convention == "luna" else stop - first
    n_waso = inside.count(b" ") if unscored else counts[wake] - (n_epochs - len(inside))  # outside is wake
    n_awakenings = len(inside.split()) - 1
    n_from_sleep = n_awakenings - (inside.count(b"? ") if unscored else 0) + text.startswith(b" ", stop)
    sol = sol_5min = sol_10min = rem_latency = NAN
    if has_bedtime:
        sol = first * minutes
        five, ten = _persistent_sleep(epoch_seconds)
        if (onset := text.find(five)) >= 0:
            sol_5min = onset * minutes
        if (onset := text.find(ten)) >= 0:
            sol_10min = onset * minutes
        if rem is not None and (onset := epochs.find(rem)) >= 0:
            rem_latency = (onset if as_yasa else onset - first) * minutes
    return (
        tib,
        spt * minutes,
        n_sleep * minutes,
        n_waso * minutes,
        se,
        100.0 * n_sleep / len(inside) if is_trusted else NAN,
        sol,
        sol_5min,
        sol_10min,
        rem_latency,
        float(n_awakenings),
        float(n_awakenings + (text.find(b" ", stop) >= 0)),
        n_from_sleep * 60.0 / (n_sleep * minutes),
        unscored,
    )


def _as_luna_sees(labels: Labels, scheme: StageScheme, epoch_seconds: float) -> tuple[Labels, int]:
    """Return the epochs Luna 1.7 would count, and how many unscored ones it leaves out before them."""
    letters = _words(scheme).letters
    text = labels.tobytes().translate(letters)
    n_apart = whole_epochs(_APART_SLEEP_SECONDS, epoch_seconds) - 1
    asleep = [epoch for epoch, letter in enumerate(text) if letter == ord("S")][: n_apart + 1]
    # find the latest of the first sleep that a long wake separates from the rest
    for last in range(min(n_apart, len(asleep)) - 1, -1, -1):
        following = asleep[last + 1] if last + 1 < len(asleep) else len(text)
        if text.count(b" ", asleep[last], following) * epoch_seconds > _APART_WAKE_SECONDS:
            labels = labels.copy()
            labels[asleep[: last + 1]] = UNSCORED
            text = labels.tobytes().translate(letters)
            break
    n_left_out = len(text) - len(text.lstrip(b"?"))
    if n_left_out == len(text):
        return labels, 0  # nothing is scored
    return labels[n_left_out : len(text.rstrip(b"?"))], n_left_out


@cache
def _words(scheme: StageScheme) -> _Words:
    letters, wake, rem = bytearray(b"?" * 256), scheme.wake_index, scheme.rem_index
    if wake is not None:
        letters[: scheme.n_stages] = b"S" * scheme.n_stages
        letters[wake] = ord(" ")
    meanings = [canonical_name(name) for name in scheme.names]
    commonest = next((k for k, meaning in enumerate(meanings) if meaning in ("N2", "N", "S")), 0)
    counted = tuple(k for k in range(scheme.n_stages) if k != commonest)
    return _Words(bytes(letters), wake, None if rem is None else bytes([rem]), counted, commonest)


@cache
def _persistent_sleep(epoch_seconds: float) -> tuple[bytes, bytes]:
    """Return 5 and 10 min of sleep as letters."""
    return b"S" * whole_epochs(300.0, epoch_seconds), b"S" * whole_epochs(600.0, epoch_seconds)


@cache
def _long_names(scheme: StageScheme) -> Mapping[str, str]:
    """Return YASA's names of the stages, where it has one."""
    names = {name: {"N": "NREM", "S": "SLEEP"}.get(canonical_name(name) or "", name) for name in scheme.names}
    names |= {} if scheme.wake is None else {scheme.wake: "WAKE"}
    return MappingProxyType(names | ({} if scheme.rem is None else {scheme.rem: "REM"}))
