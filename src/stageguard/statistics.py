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
from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple

from stageguard import _checks
from stageguard._day import Moment, Stretch, hours_of, lights_window, phases_of, zeitgeber_seconds
from stageguard.bouts import Labels, ScoredNight, bout_stages, hypnogram_of, whole_epochs
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

_WHOLE: tuple[str, ...] = ("TIB is the whole recording: neither lights off nor lights on is given",)
_NO_OFF = ("TIB begins with the recording: lights off is not given",)
_NO_ON = ("TIB ends with the recording: lights on is not given",)
_UNSCORED_BYTE = UNSCORED % 256


class SleepStatistics(NamedTuple):
    """What a study reports from one hypnogram. NaN where a quantity does not exist: see `reasons`.

    Attributes
    ----------
    convention : str
        Whose definitions: ``aasm``, ``yasa`` or ``luna``.
    lights_off_epoch, lights_on_epoch : int
        First epoch of TIB, and first epoch after it.
    awakenings, awakenings_with_final : float
        Wake bouts within SPT, and the same with the one that ended the night.
    shortest_rem_epochs : int
        What REM latency took for a first REM bout.
    assumed : tuple of str
        What had to be assumed.
    zeitgeber : float or None
        How many seconds before TIB the light phase began; None without `lights_on_phase`.
    epochs, bout_stages : bytes
        Label of each epoch of TIB and of each of its bouts, 255 where unscored.
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
    epochs: bytes
    bout_stages: bytes

    @property
    def stage_minutes(self) -> Mapping[str, float]:
        """Minutes of every stage of the scheme, wake included."""
        minutes, count = self.epoch_seconds / 60.0, self.epochs.count
        names = enumerate(self.scheme.names)
        return MappingProxyType({name: count(label) * minutes for label, name in names})

    @property
    def stage_percent(self) -> Mapping[str, float]:
        """Percent of TST, for every stage but wake; NaN without sleep."""
        tst, wake = self.tst_minutes or NAN, self.scheme.wake
        own = self.stage_minutes.items()
        return MappingProxyType({name: 100.0 * minutes / tst for name, minutes in own if name != wake})

    @property
    def bouts(self) -> Mapping[str, int]:
        """Number of bouts of every stage, those that lights cut included."""
        names = enumerate(self.scheme.names)
        return MappingProxyType({name: self.bout_stages.count(label) for label, name in names})

    @property
    def cycles(self) -> float:
        """NREM-REM cycles, as `stageguard.cycles` defines them."""
        if self._why_no_cycles() is not None:
            return NAN
        return float(count_cycles(self.epochs, self.scheme, self.epoch_seconds))

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
        """Name of each field that is NaN, and why it is."""
        absent = [name for name in _NUMBERS if getattr(self, name) != getattr(self, name)]
        reasons = {name: self._why(name) for name in absent}
        if not self.tst_minutes > 0.0:
            reasons["stage_percent"] = self._why("stage_percent")
        if (no_cycles := self._why_no_cycles()) is not None:
            reasons["cycles"] = no_cycles
        return MappingProxyType(reasons)

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
        units |= {_long_name(self.scheme, name): "min" for name in self.scheme.names}
        units |= {f"%{_long_name(self.scheme, name)}": "% of TST" for name in self.scheme.sleep}
        return MappingProxyType(units)

    def __repr__(self) -> str:
        """Return the numbers, without the epochs."""
        numbers = ", ".join(f"{key}={value:g}" for key, value in self.to_dict().items())
        return f"<SleepStatistics {self.convention}: {numbers}>"

    def _why(self, name: str) -> str:
        """Return why a number does not exist, the most general reason first."""
        n_epochs, n_unscored = len(self.epochs), self.epochs.count(_UNSCORED_BYTE)
        if self.scheme.wake is None:
            return f"scheme {self.scheme.name!r} does not say which stage is wake"
        if n_epochs == n_unscored:
            return "no epoch is scored"
        if name in _NEEDS_BEDTIME and _is_long(self.tib_minutes):
            hours = self.tib_minutes / 60.0
            return (
                f"{hours:.1f} h are no single night and no moment is bedtime: give lights_off and lights_on"
            )
        if not self.tst_minutes:
            return "no epoch is scored as sleep"
        if name in ("se_percent", "sme_percent"):
            return f"{n_unscored} of {n_epochs} epochs are unscored"
        if name in ("sol_5min_minutes", "sol_10min_minutes"):
            return f"there are no {name.split('_')[1].removesuffix('min')} min of sleep without a break"
        if self.scheme.rem is None:
            return f"scheme {self.scheme.name!r} has no REM stage"
        seconds = self.shortest_rem_epochs * self.epoch_seconds
        return "there is no REM" + (f" bout of {seconds:g} s" if self.shortest_rem_epochs > 1 else "")

    def _why_no_cycles(self) -> str | None:
        if _is_long(self.tib_minutes) or self.zeitgeber is not None:
            return "cycles are defined for one night of human sleep"
        if self.scheme.rem is None or not self.tst_minutes > 0.0:
            return self._why("cycles")
        return None


# Field and unit behind each key of `to_dict`.
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
_NUMBERS = SleepStatistics._fields[5:19]
_NEEDS_BEDTIME = (
    *("se_percent", "sol_minutes", "sol_5min_minutes", "sol_10min_minutes"),
    "rem_latency_minutes",
)


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
    if convention not in CONVENTIONS:
        _checks.choice(convention, "convention", CONVENTIONS)
    scheme, epoch_seconds, labels = hypnogram.scheme, hypnogram.epoch_seconds, hypnogram.labels
    first, assumed = 0, _WHOLE
    if lights_off is not None or lights_on is not None:
        first, stop = lights_window(hypnogram, lights_off, lights_on)
        assumed = _NO_OFF if lights_off is None else _NO_ON if lights_on is None else ()
        labels = labels[first:stop]
    if convention == "luna":
        labels, n_left_out = _as_luna_sees(labels, scheme, epoch_seconds)
        first += n_left_out
    zeitgeber = None if lights_on_phase is None else zeitgeber_seconds(hypnogram, lights_on_phase, first)
    shortest_rem = 1
    if min_first_rem_seconds:
        seconds = _checks.number(min_first_rem_seconds, "min_first_rem_seconds", low=0.0)
        shortest_rem = max(1, whole_epochs(seconds, epoch_seconds))
    epochs, bouts = labels.tobytes(), bout_stages(labels)
    numbers = _numbers(epochs, bouts, scheme, epoch_seconds, convention, shortest_rem)
    before = (convention, scheme, epoch_seconds, first, first + len(epochs))
    return SleepStatistics._make((*before, *numbers, shortest_rem, assumed, zeitgeber, epochs, bouts))


def _numbers(
    epochs: bytes,
    bouts: bytes,
    scheme: StageScheme,
    epoch_seconds: float,
    convention: Convention,
    shortest_rem: int,
) -> tuple[float, ...]:
    """Return the numbers of `SleepStatistics`, in its order, NaN where they do not exist."""
    n_epochs, n_unscored = len(epochs), epochs.count(_UNSCORED_BYTE)
    n_scored, minutes, as_yasa = n_epochs - n_unscored, epoch_seconds / 60.0, convention == "yasa"
    tib, unscored = n_epochs * minutes, n_unscored * minutes
    letters, rem = _alphabet(scheme)
    if scheme.wake is None or not (n_scored or as_yasa):
        return (tib, *[NAN] * 12, unscored)
    is_trusted = as_yasa or n_scored >= (1.0 - MOST_UNSCORED) * n_epochs
    has_bedtime = not _is_long(tib)
    text, runs = epochs.translate(letters), bouts.translate(letters)
    first, stop, last_run = text.find(b"S"), text.rfind(b"S") + 1, runs.rfind(b"S")
    if not stop:
        spt, se = (0.0 if as_yasa else NAN), (0.0 if is_trusted and has_bedtime else NAN)
        return (tib, spt, 0.0, NAN, se, *[NAN] * 8, unscored)
    n_waso = text.count(b"W", first, stop)
    n_sleep = n_scored - n_waso - text.count(b"W", 0, first) - text.count(b"W", stop)
    spt_stop = len(text.rstrip(b"W")) if convention == "luna" else stop
    awakenings = runs.count(b"W", runs.find(b"S"), last_run)
    sol = sol_5min = sol_10min = rem_latency = NAN
    if has_bedtime:
        sol = first * minutes
        five, ten = _persistent_sleep(epoch_seconds)
        if (onset := text.find(five)) >= 0:
            sol_5min = onset * minutes
        if (onset := text.find(ten)) >= 0:
            sol_10min = onset * minutes
        if rem is not None and (onset := epochs.find(rem * shortest_rem)) >= 0:
            rem_latency = (onset if as_yasa else onset - first) * minutes
    return (
        tib,
        (spt_stop - first) * minutes,
        n_sleep * minutes,
        n_waso * minutes,
        100.0 * n_sleep / n_epochs if is_trusted and has_bedtime else NAN,
        100.0 * n_sleep / (stop - first) if is_trusted else NAN,
        sol,
        sol_5min,
        sol_10min,
        rem_latency,
        float(awakenings),
        float(awakenings + (b"W" in runs[last_run:])),
        runs.count(b"SW") * 3600.0 / (n_sleep * epoch_seconds),
        unscored,
    )


def _is_long(minutes: float) -> bool:
    """Whether it is a day rather than a night."""
    return minutes >= LONGEST_NIGHT_HOURS * 60.0


def _as_luna_sees(labels: Labels, scheme: StageScheme, epoch_seconds: float) -> tuple[Labels, int]:
    """Return the epochs Luna 1.7 would count, and how many unscored ones it leaves out before them."""
    letters, _ = _alphabet(scheme)
    text = labels.tobytes().translate(letters)
    n_apart = whole_epochs(_APART_SLEEP_SECONDS, epoch_seconds) - 1
    asleep = [place for place, letter in enumerate(text) if letter == ord("S")][: n_apart + 1]
    # from the latest on, which of the first sleep does a long wake separate from the rest?
    for last in range(min(n_apart, len(asleep)) - 1, -1, -1):
        following = asleep[last + 1] if last + 1 < len(asleep) else len(text)
        if text.count(b"W", asleep[last], following) * epoch_seconds > _APART_WAKE_SECONDS:
            labels = labels.copy()
            labels[asleep[: last + 1]] = UNSCORED
            text = labels.tobytes().translate(letters)
            break
    n_left_out = len(text) - len(text.lstrip(b"?"))
    if n_left_out == len(text):
        return labels, 0  # nothing is scored
    return labels[n_left_out : len(text.rstrip(b"?"))], n_left_out


@cache
def _alphabet(scheme: StageScheme) -> tuple[bytes, bytes | None]:
    """Return the table that turns label bytes into S (sleep), W (wake) and ? (unscored), and REM's byte."""
    letters = bytearray(b"?" * 256)
    if scheme.wake_index is not None:
        letters[: scheme.n_stages] = b"S" * scheme.n_stages
        letters[scheme.wake_index] = ord("W")
    return bytes(letters), None if scheme.rem_index is None else bytes([scheme.rem_index])


@cache
def _persistent_sleep(epoch_seconds: float) -> tuple[bytes, bytes]:
    """Return 5 and 10 min of sleep."""
    return b"S" * whole_epochs(300.0, epoch_seconds), b"S" * whole_epochs(600.0, epoch_seconds)


def _long_name(scheme: StageScheme, name: str) -> str:
    """Return YASA's name of a stage where it has one."""
    if name in (scheme.wake, scheme.rem):
        return "WAKE" if name == scheme.wake else "REM"
    return {"N": "NREM", "S": "SLEEP"}.get(canonical_name(name) or "", name)
