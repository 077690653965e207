"""The epochs of a night that are worth a look, and the errors expected in epochs that nobody looked at.

An epoch that nobody has set or agreed with is worth a look for one of five reasons:

========  ===============================================================================================
changed   it had another stage when the scorer saw the night first, before decisions about other epochs
rule      minimum bout, flip-flop window or clock overruled a stager that was `SURE` or more
given up  the guard chose another stage than the stager, against `GIVEN_UP_NATS` or more of evidence
unsure    the posterior of the epoch's stage is below `DOUBTFUL`
disagree  derivations or stagers that were combined chose different stages
========  ===============================================================================================

Adjacent epochs with the same reason and the same stages are one stretch. Stretches that changed come first;
all others are ordered by the expected change in minutes from correcting them: `d` x `m`. `d` is the mean
doubt over the epochs of the stretch. The doubt of an epoch is the probability of all stages but its own, by
the posterior or by the stager, whichever is larger. `m` is the largest change of a statistic if every epoch
of the stretch gets its most probable other stage: that of the stager where the guard overruled it, else that
of the posterior. The statistics are the minutes of each stage, total sleep time, sleep onset latency, wake
after sleep onset and REM latency. A statistic that appears or disappears changes by its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, log

import numpy as np

from stageguard.arrays import Floats, Labels, Mask
from stageguard.guard.explain import Change, explain
from stageguard.measures.statistics import SleepStatistics
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.quantities import quantity_of
from stageguard.review.night import GuardResult, NightUnderReview, first_labels
from stageguard.review.state import ReviewState

# Our choices; they give some 90 stretches for a simulated night of 840 epochs.
SURE = 0.8
GIVEN_UP_NATS = log(4.0)
DOUBTFUL = 0.75
REASONS = ("", "disagree", "unsure", "given up", "rule", "changed")  # of several, the last one counts
MOVED = ("tst_minutes", "sol_minutes", "waso_minutes", "rem_latency_minutes")
HARD_RULES = ("minimum bout", "flip-flop", "clock")
UNCALIBRATED = (
    "Expected errors are right as far as the stager's probabilities are: they were not calibrated on scored "
    "nights, and stagers are usually too sure."
)
CALIBRATED = "Expected errors rest on probabilities that were calibrated on scored nights of this stager."


@dataclass(frozen=True, slots=True)
class QueueStretch:
    """Adjacent epochs that are worth a look for one reason."""

    first: int
    last: int
    epoch: int  # the epoch with most doubt
    reason: str
    gain_minutes: float
    moves: str  # name of the statistic that changes most
    first_stage: int  # the stage that the scorer saw first

    def text(self, names: Sequence[str], labels: Labels, argmax: Labels) -> str:
        """Return why the stretch is worth a look; epochs count from 1."""
        n = self.last - self.first + 1
        where = f"Epoch {self.first + 1}" if n == 1 else f"Epochs {self.first + 1} to {self.last + 1}"
        stage = names[labels[self.first]]
        why = {
            "disagree": f"{stage}, but derivations or stagers disagree",
            "unsure": f"{stage}, but not sure",
            "given up": f"{stage} against the stager's {names[argmax[self.first]]}",
            "rule": f"{stage} by a rule; the stager is sure of {names[argmax[self.first]]}",
            "changed": f"{stage}, but {(*names, 'unscored')[self.first_stage]} before your decisions",
        }[self.reason]
        return f"{where}: {why}. {self.moves} would move by {self.gain_minutes:.1f} min on average."


@dataclass(frozen=True, slots=True)
class Queue:
    """The changes of a night, the stretches that are worth a look, and the expected remaining errors."""

    changes: tuple[Change, ...]
    stretches: tuple[QueueStretch, ...]  # those that changed first, then by gain
    expected_errors: float | None  # in epochs that nobody looked at; None without probabilities
    expected_errors_if_done: float | None  # likewise, after all stretches were reviewed
    note: str

    @property
    def is_finished(self) -> bool:
        """Whether no stretch is left; False without probabilities, as nobody can tell."""
        return self.expected_errors is not None and not self.stretches


def queue_of(night: NightUnderReview, state: ReviewState, result: GuardResult) -> Queue:
    """Return what is worth a look under a person's decisions."""
    posterior, decoding = result.posterior, result.decoding
    if posterior is None or decoding is None:
        return Queue((), (), None, None, "There are no probabilities: score every epoch.")
    changes = explain(decoding)
    labels, rows = result.labels, np.arange(night.n_epochs)
    scored = labels != UNSCORED
    unseen = scored.copy()
    unseen[list(state.pins)] = False
    chosen = np.where(scored, labels, 0)
    errors = np.where(scored, 1.0 - np.nan_to_num(posterior.probabilities)[rows, chosen], 0.0)
    first = first_labels(night, state)
    reasons = np.where(labels != first, REASONS.index("changed"), _reasons(night, changes, errors))
    reasons = np.where(unseen, reasons, 0)
    by_stager = 1.0 - night.density.probabilities[rows, chosen]  # NaN where there is no evidence
    doubt = np.fmax(errors, by_stager)
    others = _second_choices(night, labels, posterior.probabilities)
    stretches = _stretches(night, labels, first, reasons, doubt, others)
    left = errors * unseen
    in_queue = reasons > 0
    calibrated = _is_calibrated(result)
    return Queue(
        changes,
        tuple(sorted(stretches, key=lambda one: (one.reason != "changed", -one.gain_minutes))),
        float(left.sum()),
        float(left[~in_queue].sum()),
        CALIBRATED if calibrated else UNCALIBRATED,
    )


def _is_calibrated(result: GuardResult) -> bool:
    decoding = result.decoding
    if decoding is None or decoding.is_foreign:
        return False
    return decoding.night.calibration is not None and "cross_validation" in decoding.profile.provenance


def _reasons(night: NightUnderReview, changes: Sequence[Change], errors: Floats) -> np.ndarray:
    """Return an index of `REASONS` for each epoch."""
    reasons = np.zeros(night.n_epochs, dtype=np.intp)
    if night.disagreement is not None:
        reasons[night.disagreement > 0] = REASONS.index("disagree")
    reasons[errors > 1.0 - DOUBTFUL] = REASONS.index("unsure")
    for change in changes:
        here = slice(change.first_epoch, change.first_epoch + change.n_epochs)
        given_up = change.evidence_nats / change.n_epochs
        if change.rule in HARD_RULES and change.probability_before >= SURE:
            reasons[here] = REASONS.index("rule")
        elif change.rule != "pin" and given_up >= GIVEN_UP_NATS:
            reasons[here] = REASONS.index("given up")
    return reasons


def _second_choices(night: NightUnderReview, labels: Labels, posterior: Floats) -> Labels:
    """Return the most probable other stage: the stager's if it was overruled, else the posterior's."""
    left = np.nan_to_num(posterior).copy()
    scored = labels != UNSCORED
    left[np.flatnonzero(scored), labels[scored]] = -1.0
    overruled = scored & (night.argmax != labels) & (night.argmax != UNSCORED)
    others: Labels = np.where(overruled, night.argmax, left.argmax(axis=1)).astype(np.int8)
    return others


def _stretches(
    night: NightUnderReview,
    labels: Labels,
    first_seen: Labels,
    reasons: np.ndarray,
    doubt: Floats,
    others: Labels,
) -> list[QueueStretch]:
    """Return the stretches with the expected gain from correcting each."""
    measure = night.statistics.measure
    before = measure(night.hypnogram(labels))
    breaks: Mask = np.zeros(len(labels) + 1, dtype=bool)
    breaks[[0, -1]] = True
    for by_epoch in (reasons, labels, others):
        breaks[1:-1] |= by_epoch[1:] != by_epoch[:-1]
    is_changed = reasons == REASONS.index("changed")
    breaks[1:-1] |= is_changed[1:] & (first_seen[1:] != first_seen[:-1])
    edges = np.flatnonzero(breaks)
    stretches = []
    for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if not reasons[first]:
            continue
        corrected = labels.copy()
        corrected[first:end] = others[first:end]
        minutes, moves = largest_move(before, measure(night.hypnogram(corrected)))
        here = doubt[first:end]
        gain = float(here.mean()) * minutes
        epoch = first + int(here.argmax())
        reason, was = REASONS[reasons[first]], int(first_seen[first])
        stretches.append(QueueStretch(first, end - 1, epoch, reason, gain, moves, was))
    return stretches


def largest_move(before: SleepStatistics, after: SleepStatistics) -> tuple[float, str]:
    """Return the largest change of a statistic in minutes, and the statistic's name."""
    moves = {
        f"Time in {stage}": (minutes, after.stage_minutes[stage])
        for stage, minutes in before.stage_minutes.items()
    }
    moves |= {quantity_of(key).title: (getattr(before, key), getattr(after, key)) for key in MOVED}
    sizes = {name: _difference(*pair) for name, pair in moves.items()}
    name = max(sizes, key=lambda name: sizes[name])
    return sizes[name], name


def _difference(one: float, other: float) -> float:
    if isnan(one) or isnan(other):
        return 0.0 if isnan(one) and isnan(other) else abs(other if isnan(one) else one)
    return abs(other - one)
