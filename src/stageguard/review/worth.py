"""Which epochs of a night are worth a look, and how many errors are left where nobody looked.

An epoch is worth a look, unless a person has set it or agreed with it, for one of three reasons:

========  ===============================================================================================
rule      a shortest bout, the flip-flop window or the clock overruled a stager that was `SURE` or more
given up  the guard took another stage than the stager, `GIVEN_UP_NATS` or more of evidence against it
unsure    the posterior of the stage it has is below `DOUBTFUL`
========  ===============================================================================================

Neighbours with the same reason and the same stages are one stretch. Stretches are ordered by the change in
minutes that is to be expected from correcting them: `d` x `m`. `d` is the doubt, averaged over the epochs of
the stretch: of each, the larger of what the posterior and what the stager's probabilities leave to stages
other than the one it has. `m` is how far the statistic that moves most, of the minutes of each stage, total
sleep time, sleep onset latency, wake after sleep onset and REM latency, moves when every epoch of the stretch
gets the stage that is the most probable of the others: by the stager where the guard overruled it, else by
the posterior. A statistic that appears or disappears moves by what it was or is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, log

import numpy as np

from stageguard.base.arrays import Floats, Labels, Mask
from stageguard.base.records import dataclass
from stageguard.guard.explain import Change, explain
from stageguard.measures.statistics import SleepStatistics
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.quantities import quantity_of
from stageguard.review.night import NightUnderReview, Outcome
from stageguard.review.state import ReviewState

# Our choices; of a simulated night of 840 epochs they leave some 90 stretches.
SURE = 0.8
GIVEN_UP_NATS = log(4.0)
DOUBTFUL = 0.75
REASONS = ("", "unsure", "given up", "rule")  # the last that holds
MOVED = ("tst_minutes", "sol_minutes", "waso_minutes", "rem_latency_minutes")
HARD_RULES = ("minimum bout", "flip-flop", "clock")
UNCALIBRATED = (
    "Expected errors are right as far as the stager's probabilities are: they were not calibrated on scored "
    "nights, and stagers are usually too sure."
)
CALIBRATED = "Expected errors rest on probabilities that were calibrated on scored nights of this stager."


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring epochs that are worth a look for one reason."""

    first: int
    last: int
    epoch: int  # the one with most doubt
    reason: str
    gain_minutes: float
    moves: str  # the statistic that moves most, as people call it

    def text(self, names: Sequence[str], labels: Labels, argmax: Labels) -> str:
        """Return why it is worth a look, epochs counted from 1."""
        n = self.last - self.first + 1
        where = f"Epoch {self.first + 1}" if n == 1 else f"Epochs {self.first + 1} to {self.last + 1}"
        stage = names[labels[self.first]]
        why = {
            "unsure": f"{stage}, but not sure",
            "given up": f"{stage} against the stager's {names[argmax[self.first]]}",
            "rule": f"{stage} by a rule; the stager is sure of {names[argmax[self.first]]}",
        }[self.reason]
        return f"{where}: {why}. {self.moves} would move by {self.gain_minutes:.1f} min on average."


@dataclass(frozen=True, slots=True)
class Worth:
    """What was changed in a night, what is worth a look, and how many errors are expected to be left."""

    changes: tuple[Change, ...]
    stretches: tuple[Stretch, ...]  # most worth first
    expected_errors: float | None  # in epochs nobody looked at; None where there are no probabilities
    expected_errors_if_done: float | None  # and outside the stretches
    note: str

    @property
    def is_finished(self) -> bool:
        """Whether all that is worth a look was looked at; without probabilities, nobody can tell."""
        return self.expected_errors is not None and not self.stretches


def worth(night: NightUnderReview, state: ReviewState, outcome: Outcome) -> Worth:
    """Return what is worth a look under a person's decisions."""
    posterior, decoding = outcome.posterior, outcome.decoding
    if posterior is None or decoding is None:
        return Worth((), (), None, None, "There are no probabilities: score every epoch.")
    changes = explain(decoding)
    labels, rows = outcome.labels, np.arange(night.n_epochs)
    scored = labels != UNSCORED
    unseen = scored.copy()
    unseen[list(state.seen)] = False
    chosen = np.where(scored, labels, 0)
    errors = np.where(scored, 1.0 - np.nan_to_num(posterior.probabilities)[rows, chosen], 0.0)
    reasons = np.where(unseen, _reasons(night, changes, errors), 0)
    by_stager = 1.0 - night.density.probabilities[rows, chosen]  # NaN where there is no evidence
    doubt = np.fmax(errors, by_stager)
    others = _others(night, labels, posterior.probabilities)
    stretches = _stretches(night, labels, reasons, doubt, others)
    left = errors * unseen
    in_queue = reasons > 0
    calibrated = _is_calibrated(outcome)
    return Worth(
        changes,
        tuple(sorted(stretches, key=lambda one: -one.gain_minutes)),
        float(left.sum()),
        float(left[~in_queue].sum()),
        CALIBRATED if calibrated else UNCALIBRATED,
    )


def _is_calibrated(outcome: Outcome) -> bool:
    decoding = outcome.decoding
    if decoding is None or decoding.is_of_other_stager:
        return False
    return decoding.night.calibration is not None and "cross_validation" in decoding.profile.provenance


def _reasons(night: NightUnderReview, changes: Sequence[Change], errors: Floats) -> np.ndarray:
    """Return an index of `REASONS` for each epoch."""
    reasons = np.where(errors > 1.0 - DOUBTFUL, 1, 0)
    for change in changes:
        here = slice(change.first_epoch, change.first_epoch + change.n_epochs)
        given_up = change.evidence_nats / change.n_epochs
        if change.rule in HARD_RULES and change.probability_before >= SURE:
            reasons[here] = 3
        elif change.rule != "pin" and given_up >= GIVEN_UP_NATS:
            reasons[here] = 2
    return reasons


def _others(night: NightUnderReview, labels: Labels, posterior: Floats) -> Labels:
    """Return the most probable other stage: the stager's where it was overruled, else the posterior's."""
    left = np.nan_to_num(posterior).copy()
    scored = labels != UNSCORED
    left[np.flatnonzero(scored), labels[scored]] = -1.0
    overruled = scored & (night.argmax != labels) & (night.argmax != UNSCORED)
    others: Labels = np.where(overruled, night.argmax, left.argmax(axis=1)).astype(np.int8)
    return others


def _stretches(
    night: NightUnderReview, labels: Labels, reasons: np.ndarray, doubt: Floats, others: Labels
) -> list[Stretch]:
    """Return the stretches with what is expected from correcting each."""
    measure = night.statistics.measure
    before = measure(night.hypnogram(labels))
    breaks: Mask = np.ones(len(labels) + 1, dtype=bool)
    breaks[1:-1] = (reasons[1:] != reasons[:-1]) | (labels[1:] != labels[:-1]) | (others[1:] != others[:-1])
    edges = np.flatnonzero(breaks)
    found = []
    for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if not reasons[first]:
            continue
        corrected = labels.copy()
        corrected[first:end] = others[first:end]
        minutes, moves = largest_move(before, measure(night.hypnogram(corrected)))
        here = doubt[first:end]
        gain = float(here.mean()) * minutes
        epoch = first + int(here.argmax())
        found.append(Stretch(first, end - 1, epoch, REASONS[reasons[first]], gain, moves))
    return found


def largest_move(before: SleepStatistics, after: SleepStatistics) -> tuple[float, str]:
    """Return by how many minutes the statistic moves that moves most, and what it is called."""
    moves = {
        f"Time in {stage}": (minutes, after.stage_minutes[stage])
        for stage, minutes in before.stage_minutes.items()
    }
    moves |= {quantity_of(key).title: (getattr(before, key), getattr(after, key)) for key in MOVED}
    sizes = {name: _apart(*pair) for name, pair in moves.items()}
    name = max(sizes, key=lambda name: sizes[name])
    return sizes[name], name


def _apart(one: float, other: float) -> float:
    if isnan(one) or isnan(other):
        return 0.0 if isnan(one) and isnan(other) else abs(other if isnan(one) else one)
    return abs(other - one)
