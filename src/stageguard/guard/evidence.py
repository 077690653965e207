"""The evidence on which paths are scored, made from a stager's probabilities.

The order is fixed: temperature, biases, renormalise, clip, prior, quality, clock, pins. Short runs of epochs
without evidence are bridged, long ones are cut out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from itertools import pairwise

import numpy as np

from stageguard.arrays import CLIP, Floats, Labels, Mask
from stageguard.guard.clock import ClockRules, NightClock
from stageguard.guard.options import DEFAULTS, GuardOptions
from stageguard.night.hypnodensity import FromLabels
from stageguard.night.period import Period
from stageguard.profile.parts import Calibration
from stageguard.profile.profile import Profile

LOG_CLIP = float(np.log(CLIP))

Spans = tuple[tuple[int, int], ...]  # [first, end) of each stretch that is decoded by itself


@dataclass(slots=True)
class Night:
    """One recording on its way through the guard: probabilities, what the caller said of it, and cuts."""

    profile: Profile  # by which it is decoded
    probabilities: Floats  # (n_epochs, n_stages) in the profile's order; NaN rows where there is no evidence
    argmax: Labels  # (n_epochs,) the stager's own choice, -1 on NaN rows
    own: Labels  # (n_epochs,) the same after the profile's calibration
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
    stager: str | None = None  # whose format the probabilities were read in
    has_clock: bool = True  # False for some cohorts, and around the clock, where no night is known
    uncut: Night | None = None  # before it was cut at its sleep period
    _base: Floats | None = field(default=None, compare=False)  # cache of `calibrated`

    def __copy__(self) -> Night:
        """Return a copy that shares all arrays; `copy.copy` by itself takes five times as long."""
        night = object.__new__(Night)
        for name in Night.__slots__:
            setattr(night, name, getattr(self, name))
        return night

    def counted_from(self, onsets: tuple[int, ...], rules: ClockRules) -> Night:
        """Return the same night with a clock that counts from these epochs; without onsets, with none."""
        night, clock = copy(self), None
        if onsets:
            own = self.own
            if self.filled is not None:  # a short gap does not end a bout that lasts
                scored = np.maximum.accumulate(np.where(own >= 0, np.arange(len(own)), 0))
                own = np.where(self.filled, own[scored], own)
            ends = self.segments[0] if self.segments else len(own)
            clock = NightClock(onsets, rules, own, self.lights_off, ends)
        night.clock = clock
        return night

    def timed(self, clock: NightClock | None) -> Night:
        """Return the same night with this clock."""
        if clock is self.clock:  # nights are never changed once they are decoded
            return self
        night = copy(self)
        night.clock = clock
        return night

    def spans_asleep(self) -> Spans:
        """Return the stretches of the sleep period, which the rules measure; without sleep, all."""
        first, stop = self.period
        if first == stop:
            return self.spans
        return tuple(
            [(max(begin, first), min(end, stop)) for begin, end in self.spans if begin < stop and first < end]
        )

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
        night = copy(self)
        night.uncut = self
        night.spans = tuple(spans)
        if self.filled is not None:
            decoded = np.zeros_like(self.filled)
            for begin, end in spans:
                decoded[begin:end] = True
            night.filled = self.filled & decoded
        return night

    def _has_evidence(self, begin: int, end: int) -> bool:
        return bool((self.argmax[begin:end] >= 0).any()) or any(begin <= epoch < end for epoch in self.pins)

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
        if self._base is None:
            self._base = log_probabilities(self.probabilities, self.calibration)
        return self._base

    def mean_probabilities(self) -> Floats:
        """Return the mean softmax of the epochs that the rules measure, per stage."""
        first, stop = self.period
        if self.calibration is None:
            rows = self.probabilities[first:stop]
            # exactly sum(axis=1); it is faster to add up columns if there are fewer than eight
            sums = reduce(np.add, rows.T) if rows.shape[1] < 8 else rows.sum(axis=1)
            rows = rows / sums[:, None]
        else:
            rows = np.exp(self.calibrated()[first:stop])
        has_all = not np.isnan(rows[:, 0]).any()  # then a sum is several times as fast as nanmean
        mean: Floats = rows.sum(axis=0) / len(rows) if has_all else np.nanmean(rows, axis=0)
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


@dataclass(frozen=True, slots=True, eq=False)
class StagerFeatures:
    """How a stager's night looks, without any scoring."""

    fragmentation_index: float  # of argmax, at the profile's epoch length; NaN if no epochs are adjacent
    entropy: float  # mean over the rows, in nats
    sharpness: float  # mean over the rows of the highest probability
    shares: Floats  # (n_stages,) shares of the stages in argmax
    confidences: Floats  # (n_stages,) mean highest probability where argmax is the stage; NaN if it never is
    overlaps: Floats  # (n_stages, n_stages) mean product of two stages' probabilities, high where rows waver

    @classmethod
    def of(cls, probabilities: Floats, argmax: Labels, fragmentation_index: float) -> StagerFeatures:
        """Return the features of a night; rows of NaN are left out."""
        known = argmax >= 0
        rows = probabilities[known] / probabilities[known].sum(axis=1, keepdims=True)  # (n_known, n_stages)
        logs = np.log(rows, where=rows > 0, out=np.zeros_like(rows))
        highest = rows.max(axis=1)
        n_epochs = np.bincount(argmax[known], minlength=rows.shape[1])  # (n_stages,)
        totals = np.bincount(argmax[known], highest, minlength=rows.shape[1])
        return cls(
            fragmentation_index,
            float(-(rows * logs).sum(axis=1).mean()),
            float(highest.mean()),
            n_epochs / len(rows),
            np.divide(totals, n_epochs, where=n_epochs > 0, out=np.full(len(totals), np.nan)),
            rows.T @ rows / len(rows),
        )


def features_of(night: Night, ratio: float) -> StagerFeatures:
    """Return a night's features; its epochs are `ratio` times as long as the profile's.

    They are those of the epochs that the rules measure, of all epochs if these are none.
    """
    fi = night.fragmentation_index(night.argmax)
    measured = slice(*night.period) if night.period[0] < night.period[1] else slice(None)
    return StagerFeatures.of(night.probabilities[measured], night.argmax[measured], min(fi / ratio, 1.0))


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


ROUNDING = 1e-9  # of a probability: stages that differ by less are tied


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
