"""A night on its way through the guard: read and checked once, cut at gaps, and its evidence for each stage.

The evidence is made in a fixed order: temperature, biases, renormalise, clip, prior, quality, clock, pins.
Short runs of epochs without evidence are bridged, long ones are cut out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import CLIP, Array, Floats, Labels, Mask
from stageguard.errors import InputError, PinError, did_you_mean
from stageguard.guard import kernels
from stageguard.guard.automaton import minimum_epochs
from stageguard.guard.clock import ClockRules, NightClock
from stageguard.lazy import load
from stageguard.night.hypnodensity import (
    FromLabels,
    Hypnodensity,
    as_float_matrix,
    check_probabilities,
    softmax,
)
from stageguard.night.hypnogram import ExportableStages, Hypnogram
from stageguard.night.period import Period, period_of, runs
from stageguard.night.stages import StageScheme
from stageguard.night.timing import Moment, lights_window
from stageguard.profile.labels import density_of_labels, in_profile_order
from stageguard.profile.parts import Calibration
from stageguard.profile.profile import Profile
from stageguard.profile.stagers import KNOWN_STAGERS, Training

Pins = Mapping[int, str | int]
Segments = Sequence[int] | npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """The options of `decode`, `posterior` and `sample`; `stageguard.decode` describes each.

    For a batch, quality, pins, segments, lights_off and lights_on are lists with one entry per night.
    """

    stages: Sequence[str] | None = None
    epoch_seconds: float | None = None
    quality: Any = None
    pins: Any = None
    segments: Any = None
    lights_off: Any = None
    lights_on: Any = None
    cohort: str | None = None
    stager: str | None = None
    trained: Training | None = None
    strength: float | Literal["off"] | None = None
    logits: bool = False
    log: bool = False

    @property
    def scale(self) -> str:
        """What the numbers are: probabilities, logits or log-probabilities."""
        if self.logits:
            return "logits"
        return "log-probabilities" if self.log else "probabilities"

    def of_each_night(self, n_nights: int) -> list[GuardOptions]:
        """Return the options of every night of a batch."""
        names = ("quality", "pins", "segments", "lights_off", "lights_on")
        values = [per_night(getattr(self, name), n_nights, name) for name in names]
        return [replace(self, **dict(zip(names, each, strict=True))) for each in zip(*values, strict=True)]


DEFAULTS = GuardOptions()


class OptionKeywords(TypedDict, total=False):
    """The fields of `GuardOptions` as a caller may give them; lists of options are for lists of nights."""

    stages: Sequence[str] | None
    epoch_seconds: float | None
    quality: npt.ArrayLike | Sequence[npt.ArrayLike | None] | None
    pins: Pins | Sequence[Pins | None] | None
    segments: Segments | Sequence[Segments | None] | None
    lights_off: Moment | Sequence[Moment | None] | None
    lights_on: Moment | Sequence[Moment | None] | None
    cohort: str | None
    stager: str | None
    trained: Training | None
    strength: float | Literal["off"] | None
    logits: bool
    log: bool


def per_night(values: Any, n_nights: int, what: str) -> list[Any]:
    """Return an option of a batch as a list with one value per night."""
    if values is None:
        return [None] * n_nights
    is_list = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes)
    if not is_list or len(values) != n_nights:
        got = f"{len(values)} of them" if is_list else checks.shown(values)
        raise InputError(f"{what}: got {got} for {n_nights} nights, expected one (or None) per night.")
    return list(values)


OneNight = Hypnodensity | Hypnogram | Array
Spans = tuple[tuple[int, int], ...]  # [first, end) of each stretch that is decoded by itself
LOG_CLIP = float(np.log(CLIP))
ROUNDING = 1e-9  # of a probability: stages that differ by less are tied
UNSAID_TRAINING = "how the stager was trained is not said: taken as class-balanced"

LABELS_ALONE = {
    "typical": "labels have no probabilities: typical confusions are used",
    "own": "labels have no probabilities: the stager's confusions on scored nights are used",
}

AROUND_THE_CLOCK_HOURS = 24.0  # a sleep period of this length holds several nights
LONGEST_BRIDGE_SECONDS = 300.0  # without evidence, which neighbours decide; longer is a gap


_UNCHECKED: Any = None  # instead of labels, until a night that was read is checked


@dataclass(slots=True)
class Night:
    """One recording on its way through the guard: probabilities, what the caller said of it, and cuts."""

    profile: Profile  # by which it is decoded
    probabilities: Floats  # (n_epochs, n_stages) in the profile's order; NaN rows where there is no evidence
    epoch_seconds: float
    options: GuardOptions = DEFAULTS
    start: datetime | None = None
    source: str | None = None
    offset_seconds: float = 0.0  # from the beginning of the recording to the first epoch
    assumed: list[str] = field(default_factory=list)
    from_labels: FromLabels | None = None  # which confusions stand for a stager's labels
    spans: Spans = ()  # [start, stop) of each stretch decoded by itself
    calibration: Calibration | None = None
    filled: Mask | None = None  # (n_epochs,) NaN rows that are bridged
    quality: Floats | None = None  # (n_epochs,) 0 clean, 1 lost
    pins: Mapping[int, int] = field(default_factory=dict)
    clock: NightClock | None = None
    period: Period = (0, 0)  # what the rules measure: the sleep period, or the whole recording
    segments: tuple[int, ...] = ()  # first epochs of later segments
    is_whole: bool = True  # every epoch has evidence and follows the one before it
    lights_off: int = 0  # the clock does not run before it
    lights_on: int | None = None  # the epoch, if it is given: the sleep period ends before it
    argmax: Labels = _UNCHECKED  # (n_epochs,) the stager's own choice, -1 on NaN rows
    own: Labels = _UNCHECKED  # (n_epochs,) the same after the profile's calibration
    stager: str | None = None  # whose format the probabilities were read in
    has_clock: bool = True  # False for some cohorts, and around the clock, where no night is known
    uncut: Night | None = None  # before it was cut at its sleep period
    _logs: Floats | None = field(default=None, compare=False)  # cache of `calibrated`

    @classmethod
    def read(cls, density: Any, profile: Profile, options: GuardOptions) -> Night:
        """Return a night ready to be decoded: read, checked, cut at segments and gaps, with its sleep period.

        Nothing is checked after this.
        """
        night = read_night(density, profile, options)
        night.profile = used = profile.for_nights_of(options.stager, options.cohort)
        matrix = night.probabilities
        night.argmax, is_bad = kernels.active.argmax(matrix, np.ones(profile.scheme.n_stages))
        night.spans = ((0, len(matrix)),)
        # on most nights there is nothing to cut, nothing to fill
        if is_bad or not (options.quality is options.pins is options.segments is None):
            _cut_and_fill(night, is_bad=is_bad)
        if options.cohort is not None:
            caution = used.caution_for(options.cohort)
            night.has_clock = caution is None or caution.clock
            if not night.has_clock:
                night.assumed.append(f"the clock does not run for {options.cohort!r}")
        _find_period(night, used)
        return night

    def counted_from(self, onsets: tuple[int, ...], rules: ClockRules) -> Night:
        """Return the same night with a clock that counts from these epochs; without onsets, with none."""
        if not onsets:
            return replace(self, clock=None)
        own = self.own
        if self.filled is not None:  # a short gap does not end a bout that lasts
            scored = np.maximum.accumulate(np.where(own >= 0, np.arange(len(own)), 0))
            own = np.where(self.filled, own[scored], own)
        ends = self.segments[0] if self.segments else len(own)
        return replace(self, clock=NightClock(onsets, rules, own, self.lights_off, ends))

    def timed(self, clock: NightClock | None) -> Night:
        """Return the same night with this clock."""
        return self if clock is self.clock else replace(self, clock=clock)

    def cut_at_period(self) -> Night:
        """Return the night cut at the ends of its sleep period, so that nothing outside counts inside.

        What is left without any evidence becomes a gap, however short it is.
        """
        first, stop = self.period
        if first == stop:
            return self
        spans = []
        for begin, end in self.spans:
            for low, high in ((0, first), (first, stop), (stop, len(self.argmax))):
                piece = max(begin, low), min(end, high)
                if piece[0] < piece[1] and (self.filled is None or self._has_evidence(*piece)):
                    spans.append(piece)
        filled = None
        if self.filled is not None:
            filled = np.zeros_like(self.filled)
            for begin, end in spans:
                filled[begin:end] = self.filled[begin:end]
        return replace(self, uncut=self, spans=tuple(spans), filled=filled)

    def _has_evidence(self, begin: int, end: int) -> bool:
        return bool((self.argmax[begin:end] >= 0).any()) or any(begin <= epoch < end for epoch in self.pins)

    @property
    def density(self) -> Hypnodensity:
        """The probabilities, in the profile's stage order."""
        about = (self.epoch_seconds, self.start, self.source, (), self.offset_seconds, self.from_labels)
        return Hypnodensity(self.probabilities, self.profile.scheme, *about, self.stager)

    @property
    def is_plain(self) -> bool:
        """Whether the evidence is the probabilities, times the factors of the clock if there is one."""
        return self.calibration is None and self.quality is None and self.filled is None and not self.pins

    def fragmentation_index(self, labels: Labels, period: Period | None = None) -> float:
        """Return the index of labels in a period, by default in the epochs that the rules measure.

        No pair is across segments.
        """
        first, stop = self.period if period is None else period
        if self.is_whole:  # every pair counts: twice as fast
            inside = labels[first:stop]
            n_changes = int(np.count_nonzero(inside[1:] != inside[:-1]))
            return n_changes / (len(inside) - 1) if len(inside) > 1 else float("nan")
        bounds = (first, *(each for each in self.segments if first < each < stop), stop)
        return fragmentation_index(labels, tuple(pairwise(bounds)))

    def calibrated(self) -> Floats:
        """Return log-probabilities after temperature, biases, renormalising and clipping; NaN rows stay."""
        if self._logs is None:
            self._logs = log_probabilities(self.probabilities, self.calibration)
        return self._logs

    def mean_probabilities(self) -> Floats:
        """Return the mean softmax of the epochs that the rules measure, per stage."""
        first, stop = self.period
        if self.calibration is None:
            rows = self.probabilities[first:stop]
            rows = rows / rows.sum(axis=1, keepdims=True)
        else:
            rows = np.exp(self.calibrated()[first:stop])
        mean: Floats = np.nanmean(rows, axis=0)
        return mean

    def choices(self, log_weight: Sequence[float] | None = None) -> Labels:
        """Return the likeliest stage of each epoch by itself, -1 on NaN rows.

        Pins and quality count only in epochs where the clock acts.
        """
        return _likeliest(self.choice_scores(log_weight), self.probabilities)

    def choice_scores(self, log_weight: Sequence[float] | None = None) -> Floats:
        """Return the scores of the stages that `choices` compares: (n_epochs, n_stages)."""
        scores = _stage_scores(self.probabilities, self.calibration, log_weight)
        if self.clock is None:
            return scores
        is_timed = self.clock.nats.any(axis=1, keepdims=True)
        return np.where(is_timed, self.evidence(log_weight), scores)

    def evidence(self, log_weight: Sequence[float] | None, floor: float = 0.0) -> Floats:
        """Return log-evidence, `log_weight` (minus the weighted log prior) added: (n_epochs, n_stages).

        Probabilities below `floor` count as that.
        """
        scores = self.calibrated()
        if floor > CLIP:
            scores = np.maximum(scores, np.log(floor))
        if log_weight is not None:
            scores = scores + np.array(log_weight)
        uniform = -np.log(scores.shape[1])
        if self.quality is not None:
            beta = self.quality[:, None]
            scores = (1.0 - beta) * scores + beta * uniform
        if self.filled is not None:
            scores = np.where(np.isnan(self.probabilities[:, :1]), uniform, scores)
        if self.clock is not None:
            scores = scores + self.clock.nats
        if self.pins:
            scores = scores.copy()
            for epoch, stage in self.pins.items():
                kept = scores[epoch, stage]
                scores[epoch] = -np.inf
                scores[epoch, stage] = kept
        return np.ascontiguousarray(scores)


def is_batch(nights: object) -> bool:
    """Whether the caller passed several nights: a list of matrices or densities, or one stacked array."""
    if type(nights) is np.ndarray:
        return nights.ndim == 3
    if isinstance(nights, list | tuple):
        return len(nights) == 0 or (nights[0] is not None and checks.n_dimensions(nights[0]) in (2, None))
    return hasattr(nights, "__array__") and checks.n_dimensions(nights) == 3


def _is_stage_names(night: Any) -> bool:
    """Whether the caller passed the name of a stage per epoch; None is an epoch that is not scored."""
    if getattr(night, "ndim", None) == 1 and hasattr(night, "tolist"):  # an array or a series
        night = night.tolist()
    if not isinstance(night, list | tuple) or not any(isinstance(name, str) for name in night):
        return False
    return all(isinstance(name, str | None) for name in night)


def read_night(density: Any, profile: Profile, options: GuardOptions) -> Night:
    """Return a night in the profile's stage order, not checked yet, with what was assumed."""
    assumed: list[str] = []
    if type(density) is not np.ndarray or density.ndim != 2:
        if checks.names_columns(density) or _is_stage_names(density):
            density = load("formats.read:night_for")(density, profile, options)
            options = replace(options, stages=None, epoch_seconds=None, logits=False, log=False)
            assumed += density.assumed
        if isinstance(density, Hypnogram):
            density = density_of_labels(density, profile.for_nights_of(options.stager, options.cohort))
        if isinstance(density, Hypnodensity):
            return _of_density(density, profile, options, assumed)
        if isinstance(density, ExportableStages):
            got = type(density).__name__
            raise InputError(f"got a {got}, expected probabilities per epoch and stage. Pass its density.")
    names = profile.scheme.names if options.stages is None else checks.stage_names(options.stages)
    is_matrix = type(density) is np.ndarray and density.dtype == np.float64 and density.flags.c_contiguous
    is_plain = options.logits is options.log is False
    if is_matrix and is_plain and len(density) and density.shape[1:] == (len(names),):
        matrix = density  # as usual
    else:
        matrix = _as_probabilities(density, names, options)
    if options.stages is None:
        assumed.append(f"columns are {', '.join(names)}: the profile's order")
    else:
        matrix = in_profile_order(matrix, names, profile, assumed)
    epoch_seconds = profile.epoch_seconds
    if options.epoch_seconds is None:
        assumed.append(f"epochs last {epoch_seconds:g} s: the profile's epoch length")
    else:
        epoch_seconds = checks.epoch_seconds(options.epoch_seconds)
    matrix = np.array(matrix, order="C")  # whoever owns the memory may write to it, and no result may change
    return Night(profile, matrix, epoch_seconds, options, assumed=assumed)


def _cut_and_fill(night: Night, *, is_bad: bool) -> None:
    """Check quality, pins and segments of a night, cut it at segments and long gaps, and bridge short gaps.

    The kernel says only that some row is wrong: rows of NaN are gaps, all others are refused.
    """
    matrix, options, scheme = night.probabilities, night.options, night.profile.scheme
    n_epochs = len(matrix)
    night.quality = check_quality(options.quality, n_epochs)
    if options.pins is not None:
        night.pins = check_pins(options.pins, scheme, n_epochs)
    segments = check_segments(options.segments, n_epochs)
    if not is_bad and len(segments) == 1:
        return
    if is_bad:
        check_probabilities(matrix, scheme.names)
    missing: Mask = np.isnan(matrix[:, 0])
    if missing.all():
        raise InputError(f"probabilities: all {n_epochs} rows are NaN, expected evidence for an epoch.")
    night.argmax = np.where(missing, np.int8(-1), night.argmax)
    missing[list(night.pins)] = False  # a pinned epoch is evidence enough
    night.spans, filled = cut(missing, segments, night.epoch_seconds)
    night.segments, night.is_whole = segments[1:], False
    if filled.any() or (np.isnan(matrix[list(night.pins), 0]).any() if night.pins else False):
        night.filled = filled


def _of_density(density: Hypnodensity, profile: Profile, options: GuardOptions, assumed: list[str]) -> Night:
    is_scaled = checks.flag(options.logits, "logits") or checks.flag(options.log, "log")
    if options.stages is not None or options.epoch_seconds is not None or is_scaled:
        raise InputError("stages, epoch_seconds, logits and log describe a bare array, got a Hypnodensity.")
    matrix = density.probabilities
    if density.scheme.names != profile.scheme.names:
        matrix = in_profile_order(matrix, density.scheme.names, profile, assumed)
    if density.from_labels is not None:
        assumed.append(LABELS_ALONE[density.from_labels])
    known = KNOWN_STAGERS.get(density.stager or "")
    if known is not None and options.trained is None:
        options = replace(options, trained=known.trained)
    about = (density.start, density.source, density.offset_seconds, assumed, density.from_labels)
    return Night(profile, matrix, density.epoch_seconds, options, *about, stager=density.stager)


def _as_probabilities(night: Any, names: Sequence[str], options: GuardOptions) -> Floats:
    is_logits, is_log = checks.flag(options.logits, "logits"), checks.flag(options.log, "log")
    if is_logits and is_log:
        raise InputError("logits=True and log=True exclude each other. Log-probabilities are log=True.")
    matrix = as_float_matrix(night, len(names), names, what=options.scale)
    if is_logits:
        return softmax(matrix)
    if not is_log:
        return matrix
    if np.nanmax(matrix, initial=-np.inf) > 1e-3:
        row = int(np.nanargmax(np.nanmax(matrix, axis=1)))
        got = f" holds {np.nanmax(matrix[row]):.6g}, expected values up to 0. Logits are logits=True."
        raise InputError(f"log-probabilities: row {row}{got}")
    return np.asarray(np.exp(matrix))


def assumptions(profile: Profile, night: Night) -> tuple[str, ...]:
    """Return what has to be assumed about a night, its cohort and its stager."""
    assumed = list(night.assumed)
    rule, cohort, trained = profile.strength, night.options.cohort, night.options.trained
    if rule is not None and rule.asks_training and night.from_labels is None:
        known = KNOWN_STAGERS.get(night.stager or "")
        if trained is None:
            assumed.append(UNSAID_TRAINING)
        elif known is not None and known.trained == trained:
            assumed.append(f"{known.name} was trained on {trained} class frequencies: {known.trained_source}")
    if cohort is not None and profile.caution_for(cohort) is None and profile.cohort is None:
        listed = ", ".join(caution.cohort for caution in profile.not_for if caution.cohort) or "no cohort"
        assumed.append(f"no caution is known for {cohort!r}; profile {profile.name} has one for {listed}")
    was_repaired = profile.shares is not None and profile.shares.repair is not None
    if was_repaired and cohort is not None and profile.caution_for(cohort) is not None:
        assumed.append(f"the repair of stage shares is off for {cohort!r}")
    if not profile.is_for(stager := night.options.stager, cohort):
        assumed.append(_about_foreign(profile, stager, cohort))
    if night.epoch_seconds != profile.epoch_seconds:
        assumed.append(_conversion(profile, night.epoch_seconds))
    return tuple(assumed)


def _about_foreign(profile: Profile, stager: str | None, cohort: str | None) -> str:
    """Say whose the profile is, whose the night is, and how it is decoded then."""
    named = (("stager", profile.stager, stager), ("cohort", profile.cohort, cohort))
    given = [(what, own, "not named" if name is None else repr(name)) for what, own, name in named if own]
    apart = [f"the profile is for {what} {own!r}, the night's is {name}" for what, own, name in given]
    done = "without what it learned there" if profile.base is None else f"by its base {profile.base.name!r}"
    return f"{'; '.join(apart)}: decoded {done}"


def _conversion(profile: Profile, epoch_seconds: float) -> str:
    minimum = minimum_epochs(profile, epoch_seconds)
    bouts = [
        f"{name} {profile.min_bout_seconds[name]:g} s = {minimum[i]} epochs"
        for i, name in enumerate(profile.scheme.names)
        if name in profile.min_bout_seconds
    ]
    shown = f"; minimum bouts: {', '.join(bouts)}" if bouts else ""
    return f"transitions for {profile.epoch_seconds:g} s epochs are rescaled to {epoch_seconds:g} s{shown}"


def _find_period(night: Night, profile: Profile) -> None:
    """Set the stager's own choice after a profile's calibration, its sleep period, and where the clock runs.

    The period lies within lights off and lights on. It is that of the stager's own choice, before any rule,
    so that whatever lies around the night changes nothing in it. The profile's clock does not run in a
    recording around the clock, unless lights off says when the night begins.
    """
    calibration, options = profile.calibration, night.options
    night.own = night.argmax
    if calibration.temperature != 1.0 or calibration.biases:
        night.calibration = calibration
        night.own = best_stages(night.probabilities, calibration, None)
    first, stop = 0, len(night.argmax)
    night.period = first, stop
    if options.lights_off is not None or options.lights_on is not None:
        described = (night.start, None, (), night.offset_seconds)
        recorded = Hypnogram.trusted(night.argmax.view(), profile.scheme, night.epoch_seconds, *described)
        first, stop = lights_window(recorded, options.lights_off, options.lights_on)
    night.lights_off = first
    is_asleep = profile.measures_sleep_period
    if is_asleep:
        night.lights_on = None if options.lights_on is None else stop
        night.period = period_of(night.own, profile.scheme.wake_index, night.epoch_seconds, first, stop)
    begin, end = night.period
    hours = (end - begin) * night.epoch_seconds / 3600.0
    runs_clock = profile.clock is not None and night.has_clock and options.lights_off is None
    if runs_clock and hours >= AROUND_THE_CLOCK_HOURS:
        night.has_clock = False
        what = "sleep period" if is_asleep else "recording"
        night.assumed.append(
            f"the profile's clock does not run in a {what} of {hours:.1f} h, where no sleep is known to be "
            "the night's: lights_off says when it begins"
        )


def cut(missing: Mask, segments: Sequence[int], epoch_seconds: float) -> tuple[Spans, Mask]:
    """Return the stretches to decode and the missing epochs within them.

    Runs of missing epochs up to five minutes are bridged, at the ends too; longer ones are gaps. A
    stretch with no evidence at all is a gap however short it is.
    """
    spans: list[tuple[int, int]] = []
    filled = np.zeros(len(missing), dtype=bool)
    bounds = [*segments, len(missing)]
    for begin, end in pairwise(bounds):
        gap = np.zeros(end - begin, dtype=bool)
        for start, stop in runs(missing[begin:end]):
            gap[start:stop] = (stop - start) * epoch_seconds > LONGEST_BRIDGE_SECONDS + 1e-9
        for start, stop in runs(~gap):
            if not missing[begin + start : begin + stop].all():
                spans.append((begin + start, begin + stop))
                filled[begin + start : begin + stop] = missing[begin + start : begin + stop]
    return tuple(spans), filled


def check_segments(segments: Segments | None, n_epochs: int) -> tuple[int, ...]:
    """Return the first epoch of every segment, 0 included."""
    if segments is None:
        return (0,)
    starts = checks.array_of(segments, "segments", "read_density")
    if starts.ndim != 1 or (starts.size and starts.dtype.kind not in "iu"):
        raise InputError(f"segments are {checks.shown(segments)}, expected first epochs such as [0, 480].")
    starts = starts.astype(np.int64)
    if starts.size and (starts[0] < 0 or starts[-1] >= n_epochs or np.any(np.diff(starts) <= 0)):
        wanted = f"expected increasing first epochs from 0 to {n_epochs - 1}"
        raise InputError(f"segments are {starts.tolist()}, {wanted}.")
    return tuple(sorted({0, *starts.tolist()}))


def check_quality(quality: npt.ArrayLike | None, n_epochs: int) -> Floats | None:
    """Return beta per epoch (0 clean, 1 lost), or None when all of it is clean."""
    if quality is None:
        return None
    try:
        beta = np.asarray(checks.array_of(quality, "quality values", "signal_quality"), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError("quality holds no numbers, expected 0 (clean) to 1 (lost) per epoch.") from None
    if beta.shape != (n_epochs,):
        raise InputError(f"quality has shape {beta.shape}, expected one value per epoch: ({n_epochs},).")
    outside = ~((beta >= 0.0) & (beta <= 1.0))
    if outside.any():
        epoch = int(outside.argmax())
        raise InputError(f"quality is {beta[epoch]:g} at epoch {epoch}, expected 0 (clean) to 1 (lost).")
    if np.all(beta == 1.0):
        raise InputError("quality is 1 (lost) at every epoch, expected evidence for at least one.")
    return beta if beta.any() else None


def check_pins(pins: Mapping[int, str | int], scheme: StageScheme, n_epochs: int) -> dict[int, int]:
    """Return pinned stages by epoch, in order of time."""
    checked: dict[int, int] = {}
    if not isinstance(pins, Mapping):
        raise PinError(f"pins is {checks.shown(pins)}, expected stages by epoch, such as {{120: 'R'}}.")
    for epoch, stage in pins.items():
        if isinstance(epoch, bool) or not isinstance(epoch, int | np.integer):
            raise PinError(f"pin {epoch!r}: expected the index of an epoch, a whole number from 0.")
        if not 0 <= epoch < n_epochs:
            raise PinError(f"pin at epoch {epoch + 1} (index {epoch}), the night has {n_epochs:,}.")
        checked[int(epoch)] = _stage_index(stage, scheme, int(epoch))
    return dict(sorted(checked.items()))


def _stage_index(stage: str | int, scheme: StageScheme, epoch: int) -> int:
    if isinstance(stage, int | np.integer) and not isinstance(stage, bool):
        if 0 <= stage < scheme.n_stages:
            return int(stage)
        wanted = f" is stage {stage}, expected 0 to {scheme.n_stages - 1}."
        raise PinError(f"pin at epoch {epoch + 1} (index {epoch}){wanted}")
    try:
        return scheme.index(stage)  # type: ignore[arg-type]  # index says what it expected
    except InputError:
        known, hint = ", ".join(scheme.names), did_you_mean(str(stage), scheme.names)
        wanted = f" is {stage!r}, expected one of {known}.{hint}"
        raise PinError(f"pin at epoch {epoch + 1} (index {epoch}){wanted}") from None


def fragmentation_index(labels: Labels, spans: Sequence[tuple[int, int]]) -> float:
    """Return stage changes per pair of adjacent scored epochs within the spans; NaN without a pair."""
    changes = pairs = 0
    for start, stop in spans:
        inside = labels[start:stop]
        before, after = inside[:-1], inside[1:]
        changed = before != after
        if len(inside) and inside.min() < 0:
            scored = (before >= 0) & (after >= 0)
            pairs += int(np.count_nonzero(scored))
            changed &= scored
        else:
            pairs += len(before)
        changes += int(np.count_nonzero(changed))
    return changes / pairs if pairs else float("nan")


def best_stages(
    probabilities: Floats, calibration: Calibration | None, log_weight: Sequence[float] | None
) -> Labels:
    """Return the likeliest stage of each row: the first of equals in the scheme, -1 on NaN rows."""
    return _likeliest(_stage_scores(probabilities, calibration, log_weight), probabilities)


def _likeliest(scores: Floats, probabilities: Floats) -> Labels:
    """Return the first stage with the largest score of each row, -1 where the probabilities are NaN."""
    return np.where(np.isnan(probabilities[:, 0]), -1, scores.argmax(axis=1)).astype(np.int8)


def _stage_scores(
    probabilities: Floats, calibration: Calibration | None, log_weight: Sequence[float] | None
) -> Floats:
    """Return what decides for a stage in each row.

    A temperature keeps the order of the stages. Without biases or a prior, the probabilities themselves are
    therefore compared, since logarithms would round them.
    """
    biases = () if calibration is None else calibration.biases or ()
    if len(set(biases)) <= 1 and log_weight is None:
        return probabilities
    scores = log_probabilities(probabilities, calibration)
    return scores if log_weight is None else scores + np.array(log_weight)


def settle_ties(labels: Labels, scores: Floats, spans: Spans) -> Labels:
    """Return labels in which ties of scores follow their neighbours.

    A tie goes to the stage of the epoch before if it is among the tied, else to that of the epoch after, else
    to the first in the scheme. In a row of ties, a settled one counts as decided. Stretches know nothing of
    each other. Rows of NaN are not tied.
    """
    # sums of merged stages that are equal on paper differ by rounding; (n_epochs, n_stages)
    is_best: Mask = scores >= scores[np.arange(len(labels)), labels][:, None] - ROUNDING
    is_open: Mask = (is_best.sum(axis=1) > 1) & (labels >= 0)
    if not is_open.any():
        return labels
    tied, settled = np.flatnonzero(is_open).tolist(), labels.copy()
    firsts, lasts = {first for first, _ in spans}, {end - 1 for _, end in spans}
    for epochs, step, edges in ((tied, -1, firsts), (tied[::-1], 1, lasts)):
        for epoch in epochs:
            if not is_open[epoch] or epoch in edges or is_open[epoch + step]:
                continue
            stage = settled[epoch + step]
            if is_best[epoch, stage]:
                settled[epoch], is_open[epoch] = stage, False
    return settled


def log_probabilities(probabilities: Floats, calibration: Calibration | None) -> Floats:
    """Return log-probabilities after temperature and biases, renormalised and clipped."""
    if calibration is None:
        sums = probabilities @ np.ones(probabilities.shape[1])  # several times faster than sum(axis=1)
        rows: Floats = probabilities / sums[:, None]
        np.maximum(rows, CLIP, out=rows)
        return np.log(rows, out=rows)
    with np.errstate(divide="ignore"):  # rounding may have put a probability just below 0
        scores: Floats = np.log(np.maximum(probabilities, 0.0)) / calibration.temperature
    if calibration.biases is not None:
        scores += np.array(calibration.biases)
    top = scores.max(axis=1, keepdims=True)
    scores -= top + np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
    return np.maximum(scores, LOG_CLIP, out=scores)
