"""The evidence on which paths are scored, made from a stager's probabilities.

The order is fixed: temperature, biases, renormalise, clip, prior, quality, clock, pins. Short runs of epochs
without evidence are bridged, long ones are cut out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.base import checks
from stageguard.base.arrays import CLIP, Floats, Labels, Mask
from stageguard.base.errors import EpochNumber, InputError, Message, PinError, did_you_mean
from stageguard.guard.clock import ClockRules, NightClock
from stageguard.guard.options import DEFAULTS, GuardOptions
from stageguard.night.period import Period, runs
from stageguard.night.stages import StageScheme
from stageguard.profile.fingerprint import StagerFeatures
from stageguard.profile.parts import Calibration
from stageguard.profile.profile import Profile

LOG_CLIP = float(np.log(CLIP))
LONGEST_BRIDGE_SECONDS = 300.0

Spans = Sequence[tuple[int, int]]  # [first, end) of each stretch that is decoded by itself


@dataclass(slots=True)
class Night:
    """One recording on its way through the guard: probabilities, what the caller said of it, and cuts."""

    probabilities: Floats  # (n_epochs, n_stages) in the profile's order; NaN rows where there is no evidence
    argmax: Labels  # (n_epochs,) the stager's own choice, -1 on NaN rows
    epoch_seconds: float
    options: GuardOptions = DEFAULTS
    start: datetime | None = None
    source: str | None = None
    offset_seconds: float = 0.0  # from the beginning of the recording to the first epoch
    assumed: list[str] = field(default_factory=list)
    spans: tuple[tuple[int, int], ...] = ()  # [start, stop) of each stretch decoded by itself
    calibration: Calibration | None = None
    filled: Mask | None = None  # (n_epochs,) NaN rows that are bridged
    quality: Floats | None = None  # (n_epochs,) 0 clean, 1 lost
    pins: Mapping[int, int] = field(default_factory=dict)
    clock: NightClock | None = None
    period: Period | None = None  # the sleep period, which the rules measure; None: the whole recording
    segments: tuple[int, ...] = ()  # first epochs of later segments
    lights_off: int = 0  # the clock does not run before it
    lights_on: int | None = None  # the epoch, if it is given: the sleep period ends before it
    has_clock: bool = True  # False in a recording around the clock, which has no known night
    _base: Floats | None = None  # cache of `calibrated`

    def __copy__(self) -> Night:
        """Return a copy that shares all arrays; `copy.copy` by itself takes five times as long."""
        night = object.__new__(Night)
        for name in Night.__slots__:
            setattr(night, name, getattr(self, name))
        return night

    def counted_from(self, onsets: tuple[int, ...], rules: ClockRules) -> Night:
        """Return the same night with a clock that counts from these epochs; without onsets, with none."""
        if not onsets:
            return self.timed(None)
        ends = self.segments[0] if self.segments else None
        own = self.own_choice()
        if self.filled is not None:  # a short gap does not end a bout that lasts
            scored = np.maximum.accumulate(np.where(own >= 0, np.arange(len(own)), 0))
            own = np.where(self.filled, own[scored], own)
        return self.timed(NightClock(onsets, rules, own, self.lights_off, ends))

    def timed(self, clock: NightClock | None) -> Night:
        """Return the same night with this clock."""
        if clock is self.clock:  # nights are never changed once they are decoded
            return self
        night = copy(self)
        night.clock = clock
        return night

    def with_options(self, **changes: Any) -> Night:
        """Return the same night with other options."""
        night = copy(self)
        night.options = replace(self.options, **changes)
        return night

    def spans_asleep(self) -> Spans:
        """Return the stretches of the sleep period, which the rules measure."""
        if self.period is None or self.period[0] == self.period[1]:
            return self.spans
        first, stop = self.period
        return tuple(
            (max(begin, first), min(end, stop)) for begin, end in self.spans if begin < stop and first < end
        )

    def cut_at_period(self) -> Night:
        """Return the night cut at the ends of its sleep period, so that nothing outside counts inside.

        What is left without any evidence becomes a gap, however short it is.
        """
        if self.period is None or self.period[0] == self.period[1]:
            return self
        first, stop = self.period
        pieces = (
            (max(begin, low), min(end, high))
            for begin, end in self.spans
            for low, high in ((0, first), (first, stop), (stop, len(self.argmax)))
        )
        night = copy(self)
        night.spans = tuple(piece for piece in pieces if piece[0] < piece[1])
        if self.filled is not None:
            night.spans = tuple(span for span in night.spans if self._has_evidence(*span))
            decoded = np.zeros_like(self.filled)
            for span in night.spans:
                decoded[slice(*span)] = True
            night.filled = self.filled & decoded
        return night

    def _has_evidence(self, begin: int, end: int) -> bool:
        return bool((self.argmax[begin:end] >= 0).any()) or any(begin <= epoch < end for epoch in self.pins)

    @property
    def measured(self) -> Period:
        """The epochs that the rules measure: the sleep period, or the whole recording."""
        return (0, len(self.argmax)) if self.period is None else self.period

    @property
    def clock_epochs(self) -> Period:
        """The epochs in which sleep onset is looked for: of the sleep period, and of the first segment.

        After the first segment, the time since sleep onset is unknown.
        """
        first, stop = self.measured
        return max(first, self.lights_off), min((stop, *self.segments[:1]))

    def own_choice(self) -> Labels:
        """Return the stager's own choice, calibrated if the profile says so; -1 on NaN rows."""
        if self.calibration is None:
            return self.argmax
        return best_stages(self.probabilities, self.calibration, None)

    @property
    def is_plain(self) -> bool:
        """Whether the evidence is the probabilities as they stand."""
        untimed = self.clock is None and self.calibration is None and self.quality is None
        return untimed and self.filled is None and not self.pins

    @property
    def is_plain_but_for_clock(self) -> bool:
        """Whether the evidence is the probabilities, times the factors of the clock if there is one."""
        return self.calibration is None and self.quality is None and self.filled is None and not self.pins

    @property
    def is_complete(self) -> bool:
        """Whether every epoch is decoded."""
        spans = self.spans
        if len(spans) == 1:
            return spans[0] == (0, len(self.argmax))
        return sum(stop - start for start, stop in spans) == len(self.argmax)

    def fragmentation_index(self, labels: Labels) -> float:
        """Return the index of labels in the epochs that the rules measure; no pair is across segments."""
        first, stop = (0, len(labels)) if self.period is None else self.period
        if not self.segments and self.filled is None and self.is_complete:  # every pair counts: twice as fast
            inside = labels[first:stop]
            n_changes = int(np.count_nonzero(inside[1:] != inside[:-1]))
            return n_changes / (len(inside) - 1) if len(inside) > 1 else float("nan")
        bounds = (first, *(each for each in self.segments if first < each < stop), stop)
        return fragmentation_index(labels, tuple(pairwise(bounds)))

    def calibrated(self) -> Floats:
        """Return log-probabilities after temperature, biases, renormalising and clipping; NaN rows stay."""
        if self._base is None:
            self._base = log_probabilities(self.probabilities, self.calibration)
        return self._base

    def mean_probabilities(self) -> Floats:
        """Return the mean softmax of the epochs that the rules measure, per stage."""
        measured = slice(*self.measured)
        rows = self.probabilities[measured]
        rows = rows / _row_sums(rows)[:, None]
        if self.calibration is not None:
            rows = np.exp(self.calibrated()[measured])
        is_whole = not np.isnan(rows[:, 0]).any()  # then a sum is several times as fast as nanmean
        mean: Floats = rows.sum(axis=0) / len(rows) if is_whole else np.nanmean(rows, axis=0)
        return mean

    def choices(self, log_weight: Sequence[float] | None = None) -> Labels:
        """Return the likeliest stage of each epoch by itself, -1 on NaN rows.

        Pins and quality count only in epochs where the clock acts.
        """
        labels = best_stages(self.probabilities, self.calibration, log_weight)
        if self.clock is not None:
            timed = (labels >= 0) & self.clock.nats.any(axis=1)
            labels[timed] = self.evidence(log_weight)[timed].argmax(axis=1)
        return labels

    def evidence(self, log_weight: Sequence[float] | None) -> Floats:
        """Return log-evidence, `log_weight` (minus the weighted log prior) added: (n_epochs, n_stages)."""
        scores = self.calibrated()
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


def calibration_of(profile: Profile) -> Calibration | None:
    """Return a profile's calibration, None where it does nothing."""
    calibration = profile.calibration
    return None if calibration.temperature == 1.0 and not calibration.biases else calibration


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


def features_of(night: Night, ratio: float) -> StagerFeatures:
    """Return a night's features for a fingerprint; its epochs are `ratio` times as long as the profile's.

    They are those of the epochs that the rules measure, of all epochs if these are none.
    """
    fi = night.fragmentation_index(night.argmax)
    measured = slice(*night.measured) if night.measured[0] < night.measured[1] else slice(None)
    return StagerFeatures.of(night.probabilities[measured], night.argmax[measured], min(fi / ratio, 1.0))


def best_stages(
    probabilities: Floats, calibration: Calibration | None, log_weight: Sequence[float] | None
) -> Labels:
    """Return the likeliest stage of each row: the first of equals in the scheme, -1 on NaN rows.

    A temperature keeps the order of the stages. Without biases or a prior, the probabilities themselves are
    therefore compared, since logarithms would round them.
    """
    scores = probabilities
    biases = () if calibration is None else calibration.biases or ()
    if len(set(biases)) > 1 or log_weight is not None:
        scores = log_probabilities(probabilities, calibration)
        scores = scores if log_weight is None else scores + np.array(log_weight)
    is_known = ~np.isnan(probabilities[:, 0])
    return np.where(is_known, scores.argmax(axis=1), -1).astype(np.int8)


def _row_sums(probabilities: Floats) -> Floats:
    """Return exactly ``sum(axis=1)``; it is faster to add up columns if there are fewer than eight."""
    return reduce(np.add, probabilities.T) if probabilities.shape[1] < 8 else probabilities.sum(axis=1)


def clipped_rows(probabilities: Floats) -> Floats:
    """Return probabilities, renormalised and clipped."""
    sums = probabilities @ np.ones(probabilities.shape[1])  # several times faster than sum(axis=1)
    rows: Floats = probabilities / sums[:, None]
    return np.maximum(rows, CLIP, out=rows)


def log_probabilities(probabilities: Floats, calibration: Calibration | None) -> Floats:
    """Return log-probabilities after temperature and biases, renormalised and clipped."""
    if calibration is None:
        rows = clipped_rows(probabilities)
        return np.log(rows, out=rows)
    with np.errstate(divide="ignore"):  # rounding may have put a probability just below 0
        scores: Floats = np.log(np.maximum(probabilities, 0.0)) / calibration.temperature
    if calibration.biases is not None:
        scores += np.array(calibration.biases)
    top = scores.max(axis=1, keepdims=True)
    scores -= top + np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
    return np.maximum(scores, LOG_CLIP, out=scores)


def cut(
    missing: Mask, segments: Sequence[int], epoch_seconds: float
) -> tuple[tuple[tuple[int, int], ...], Mask]:
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


def check_segments(segments: Sequence[int] | None, n_epochs: int) -> tuple[int, ...]:
    """Return the first epoch of every segment, 0 included."""
    if segments is None:
        return (0,)
    starts = np.asarray(checks.array_of(segments, "segments", "read_density"))
    if starts.ndim != 1 or (starts.size and starts.dtype.kind not in "iu"):
        raise InputError(
            f"segments are {checks.shown(segments)}, expected a list of first epochs such as [0, 480]."
        )
    starts = starts.astype(np.int64)
    if starts.size and (starts[0] < 0 or starts[-1] >= n_epochs or np.any(np.diff(starts) <= 0)):
        raise InputError(
            f"segments are {starts.tolist()}, expected increasing first epochs from 0 to {n_epochs - 1}."
        )
    return tuple(sorted({0, *starts.tolist()}))


def check_quality(quality: npt.ArrayLike | None, n_epochs: int) -> Floats | None:
    """Return beta per epoch (0 clean, 1 lost), or None when all of it is clean."""
    if quality is None:
        return None
    checks.refuse_unordered(quality, "quality values")
    try:
        beta = np.asarray(checks.array_of(quality, "quality values", "signal_quality"), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            "quality holds no numbers, expected one value from 0 (clean) to 1 (lost) per epoch."
        ) from None
    if beta.shape != (n_epochs,):
        raise InputError(f"quality has shape {beta.shape}, expected one value per epoch: ({n_epochs},).")
    outside = ~((beta >= 0.0) & (beta <= 1.0))
    if outside.any():
        epoch = int(outside.argmax())
        raise InputError(
            Message(
                *(f"quality is {beta[epoch]:g} at epoch ", EpochNumber(epoch), ", expected 0 (clean) to 1 "),
                "(lost). Give 1 where the signal is missing.",
            )
        )
    if np.all(beta == 1.0):
        raise InputError(
            "quality is 1 (lost) at every epoch, expected evidence for at least one. "
            "0 is clean and 1 is lost: is it the other way round?"
        )
    return beta if beta.any() else None


def check_pins(pins: Mapping[int, str | int], scheme: StageScheme, n_epochs: int) -> dict[int, int]:
    """Return pinned stages by epoch, in order of time."""
    checked: dict[int, int] = {}
    if not isinstance(pins, Mapping):
        raise PinError(
            f"pins is {checks.shown(pins)}, expected epochs and their stages, such as {{120: 'R'}}."
        )
    for epoch, stage in pins.items():
        if isinstance(epoch, bool) or not isinstance(epoch, int | np.integer):
            raise PinError(f"pin {epoch!r}: expected the index of an epoch, a whole number from 0.")
        if not 0 <= epoch < n_epochs:
            bounds = EpochNumber(0), " to ", EpochNumber(n_epochs - 1)
            raise PinError(
                Message("pin at epoch ", EpochNumber(int(epoch)), " is out of range, expected ", *bounds, ".")
            )
        checked[int(epoch)] = _stage_index(stage, scheme, int(epoch))
    return dict(sorted(checked.items()))


def _stage_index(stage: str | int, scheme: StageScheme, epoch: int) -> int:
    if isinstance(stage, int | np.integer) and not isinstance(stage, bool):
        if 0 <= stage < scheme.n_stages:
            return int(stage)
        wanted = f" is stage {stage}, expected 0 to {scheme.n_stages - 1}."
        raise PinError(Message("pin at epoch ", EpochNumber(epoch), wanted))
    try:
        return scheme.index(stage)  # type: ignore[arg-type]  # index says what it expected
    except InputError:
        known, hint = ", ".join(scheme.names), did_you_mean(str(stage), scheme.names)
        wanted = f" is {stage!r}, expected one of {known}.{hint}"
        raise PinError(Message("pin at epoch ", EpochNumber(epoch), wanted)) from None
