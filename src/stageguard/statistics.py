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


class SleepStatistics(NamedTuple):
    """What a study reports from one hypnogram. NaN fields have their reason in `reasons`.

    Attributes
    ----------
    convention : str
        Whose definitions: ``aasm``, ``yasa`` or ``luna``.
    lights_off_epoch, lights_on_epoch : int
        First epoch of TIB, and first epoch after it.
    awakenings, awakenings_with_final : float
        Wake bouts within SPT, and the same with the one that ended the night.
    reasons : mapping
        Name of a NaN field to why it is NaN.
    assumed : tuple of str
        What had to be assumed.
    zeitgeber_seconds : float or None
        How long before lights off the light phase began; None without `lights_on_phase`.
    stage_epochs : tuple of int
        Number of epochs of each stage of the scheme.
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
    reasons: Mapping[str, str]
    assumed: tuple[str, ...]
    zeitgeber_seconds: float | None
    stage_epochs: tuple[int, ...]
    epochs: bytes
    bout_stages: bytes

    @property
    def stage_minutes(self) -> Mapping[str, float]:
        """Minutes of every stage of the scheme, wake included."""
        minutes = self.epoch_seconds / 60.0
        own = zip(self.scheme.names, self.stage_epochs, strict=True)
        return MappingProxyType({name: n * minutes for name, n in own})

    @property
    def stage_percent(self) -> Mapping[str, float]:
        """Percent of TST, for every stage but wake; NaN without sleep."""
        minutes, tst = self.epoch_seconds / 60.0, self.tst_minutes or NAN
        own = zip(self.scheme.names, self.stage_epochs, strict=True)
        percent = {name: 100.0 * n * minutes / tst for name, n in own if name != self.scheme.wake}
        return MappingProxyType(percent)

    @property
    def bouts(self) -> Mapping[str, int]:
        """Number of bouts of every stage, those that lights cut included."""
        names = enumerate(self.scheme.names)
        return MappingProxyType({name: self.bout_stages.count(label) for label, name in names})

    @property
    def cycles(self) -> float:
        """NREM-REM cycles, as `stageguard.cycles` defines them."""
        if "cycles" in self.reasons:
            return NAN
        return float(count_cycles(self.epochs, self.scheme, self.epoch_seconds))

    @property
    def phases(self) -> Mapping[str, Stretch]:
        """Stage times in the ``light`` and in the ``dark``; empty unless `lights_on_phase` was given."""
        return phases_of(self.epochs, self.scheme, self.epoch_seconds, self.zeitgeber_seconds)

    @property
    def hours(self) -> tuple[Stretch, ...]:
        """Stage times hour by hour: after lights on, or without `lights_on_phase` after lights off."""
        return hours_of(self.epochs, self.scheme, self.epoch_seconds, self.zeitgeber_seconds)

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

    def __repr__(self) -> str:
        """Return the numbers, without the epochs."""
        numbers = ", ".join(f"{key}={value:g}" for key, value in self.to_dict().items())
        return f"<SleepStatistics {self.convention}: {numbers}>"


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
# The numbers, in the order of the fields.
_NUMBERS = SleepStatistics._fields[5:19]
_NEEDS_BEDTIME = (
    *("se_percent", "sol_minutes", "sol_5min_minutes", "sol_10min_minutes"),
    "rem_latency_minutes",
)
_NO_REASONS: Mapping[str, str] = MappingProxyType({})


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
    labels, first, assumed = hypnogram.labels, 0, _WHOLE
    if lights_off is not None or lights_on is not None:
        first, stop = lights_window(hypnogram, lights_off, lights_on)
        assumed = _NO_OFF if lights_off is None else _NO_ON if lights_on is None else ()
        labels = labels[first:stop]
    if convention == "luna":
        labels, n_left_out = _as_luna_sees(labels, hypnogram.scheme, hypnogram.epoch_seconds)
        first += n_left_out
    zeitgeber = None if lights_on_phase is None else zeitgeber_seconds(hypnogram, lights_on_phase, first)
    shortest_rem = 1
    if min_first_rem_seconds:
        seconds = _checks.number(min_first_rem_seconds, "min_first_rem_seconds", low=0.0)
        shortest_rem = max(1, whole_epochs(seconds, hypnogram.epoch_seconds))

    epochs, bouts, words = labels.tobytes(), bout_stages(labels), _words(hypnogram.scheme)
    counts = tuple([epochs.count(label) for label in words.labels])
    it = _Night(epochs, bouts, words, counts, hypnogram.epoch_seconds, convention, shortest_rem)
    values = _values(it)
    reasons = _NO_REASONS
    if zeitgeber is not None or (total := sum(values)) != total:  # NaN as soon as one of them is
        reasons = _reasons(it, values, is_rodent=zeitgeber is not None)
    return SleepStatistics(
        convention,
        hypnogram.scheme,
        hypnogram.epoch_seconds,
        first,
        first + len(epochs),
        *values,
        reasons,
        assumed,
        zeitgeber,
        counts,
        epochs,
        bouts,
    )


class _Words(NamedTuple):
    """A scheme in bytes."""

    scheme: StageScheme
    labels: range
    letters: bytes  # table that turns label bytes into S (sleep), W (wake) and ? (unscored)
    wake: int | None
    rem: bytes | None


class _Night(NamedTuple):
    """What is to be measured."""

    epochs: bytes  # label per epoch of TIB
    bout_stages: bytes  # label per bout
    words: _Words
    counts: tuple[int, ...]  # epochs per stage
    epoch_seconds: float
    convention: Convention
    shortest_rem: int

    @property
    def is_long(self) -> bool:
        """Whether it is a day rather than a night."""
        return len(self.epochs) * self.epoch_seconds >= LONGEST_NIGHT_HOURS * 3600.0


def _values(it: _Night) -> tuple[float, ...]:
    """Return the numbers of `SleepStatistics`, in its order, NaN where they do not exist."""
    epochs, bouts, words, counts, epoch_seconds, convention, shortest_rem = it
    n_epochs, n_scored, minutes = len(epochs), sum(counts), epoch_seconds / 60.0
    tib, unscored = n_epochs * minutes, (n_epochs - n_scored) * minutes
    as_yasa = convention == "yasa"
    if words.wake is None or not (n_scored or as_yasa):
        return (tib, *[NAN] * (len(_NUMBERS) - 2), unscored)
    n_sleep = n_scored - counts[words.wake]
    is_trusted = as_yasa or n_scored >= (1.0 - MOST_UNSCORED) * n_epochs
    se = 100.0 * n_sleep / n_epochs if is_trusted and not it.is_long else NAN
    if not n_sleep:
        return (tib, 0.0 if as_yasa else NAN, 0.0, NAN, se, *[NAN] * (len(_NUMBERS) - 6), unscored)
    text, runs = epochs.translate(words.letters), bouts.translate(words.letters)
    first, stop, last_run = text.find(b"S"), text.rfind(b"S") + 1, runs.rfind(b"S")
    spt = (len(text.rstrip(b"W")) if convention == "luna" else stop) - first
    awakenings = runs.count(b"W", runs.find(b"S"), last_run)
    sol = sol_5min = sol_10min = rem_latency = NAN
    if not it.is_long:
        sol = first * minutes
        onset = text.find(b"S" * whole_epochs(300.0, epoch_seconds))
        sol_5min = onset * minutes if onset >= 0 else NAN
        onset = text.find(b"S" * whole_epochs(600.0, epoch_seconds)) if onset >= 0 else -1
        sol_10min = onset * minutes if onset >= 0 else NAN
        rem = epochs.find(words.rem * shortest_rem) if words.rem is not None else -1
        rem_latency = (rem if as_yasa else rem - first) * minutes if rem >= 0 else NAN
    return (
        tib,
        spt * minutes,
        n_sleep * minutes,
        text.count(b"W", first, stop) * minutes,
        se,
        100.0 * n_sleep / (stop - first) if is_trusted else NAN,
        sol,
        sol_5min,
        sol_10min,
        rem_latency,
        float(awakenings),
        float(awakenings + (b"W" in runs[last_run:])),
        runs.count(b"SW") * 60.0 / (n_sleep * minutes),
        unscored,
    )


def _reasons(it: _Night, values: tuple[float, ...], *, is_rodent: bool) -> Mapping[str, str]:
    """Return why each number that does not exist does not."""
    absent = [name for name, value in zip(_NUMBERS, values, strict=True) if value != value]
    if not _n_sleep(it):
        absent += ["stage_percent", "cycles"]
    elif it.words.rem is None:
        absent.append("cycles")
    reasons = {name: _why(name, it) for name in absent}
    if it.is_long or is_rodent:
        reasons["cycles"] = "cycles are defined for one night of human sleep"
    return MappingProxyType(reasons)


def _n_sleep(it: _Night) -> int:
    return 0 if it.words.wake is None else sum(it.counts) - it.counts[it.words.wake]


def _why(name: str, it: _Night) -> str:
    """Return why a number does not exist, the most general reason first."""
    scheme, n_epochs, n_scored = it.words.scheme, len(it.epochs), sum(it.counts)
    if scheme.wake is None:
        return f"scheme {scheme.name!r} does not say which stage is wake"
    if not n_scored:
        return "no epoch is scored"
    if it.is_long and name in _NEEDS_BEDTIME:
        hours = n_epochs * it.epoch_seconds / 3600.0
        return f"{hours:.1f} h are no single night and no moment is bedtime: give lights_off and lights_on"
    if not _n_sleep(it):
        return "no epoch is scored as sleep"
    if name in ("se_percent", "sme_percent"):
        return f"{n_epochs - n_scored} of {n_epochs} epochs are unscored"
    if name in ("sol_5min_minutes", "sol_10min_minutes"):
        return f"there are no {name.split('_')[1].removesuffix('min')} min of sleep without a break"
    if scheme.rem is None:
        return f"scheme {scheme.name!r} has no REM stage"
    seconds = it.shortest_rem * it.epoch_seconds
    return "there is no REM" + (f" bout of at least {seconds:g} s" if it.shortest_rem > 1 else "")


def _as_luna_sees(labels: Labels, scheme: StageScheme, epoch_seconds: float) -> tuple[Labels, int]:
    """Return the epochs Luna 1.7 would count, and how many unscored ones it leaves out before them."""
    text = labels.tobytes().translate(_words(scheme).letters)
    n_apart = whole_epochs(_APART_SLEEP_SECONDS, epoch_seconds) - 1
    asleep = [place for place, letter in enumerate(text) if letter == ord("S")][: n_apart + 1]
    # from the latest on, which of the first sleep does a long wake separate from the rest?
    for last in range(min(n_apart, len(asleep)) - 1, -1, -1):
        following = asleep[last + 1] if last + 1 < len(asleep) else len(text)
        if text.count(b"W", asleep[last], following) * epoch_seconds > _APART_WAKE_SECONDS:
            labels = labels.copy()
            labels[asleep[: last + 1]] = UNSCORED
            text = labels.tobytes().translate(_words(scheme).letters)
            break
    n_left_out = len(text) - len(text.lstrip(b"?"))
    if n_left_out == len(text):
        return labels, 0  # nothing is scored
    return labels[n_left_out : len(text.rstrip(b"?"))], n_left_out


@cache
def _words(scheme: StageScheme) -> _Words:
    letters = bytearray(b"?" * 256)
    if scheme.wake_index is not None:
        letters[: scheme.n_stages] = b"S" * scheme.n_stages
        letters[scheme.wake_index] = ord("W")
    rem = None if scheme.rem_index is None else bytes([scheme.rem_index])
    return _Words(scheme, range(scheme.n_stages), bytes(letters), scheme.wake_index, rem)


def _long_name(scheme: StageScheme, name: str) -> str:
    """Return YASA's name of a stage where it has one."""
    if name in (scheme.wake, scheme.rem):
        return "WAKE" if name == scheme.wake else "REM"
    return {"N": "NREM", "S": "SLEEP"}.get(canonical_name(name) or "", name)
