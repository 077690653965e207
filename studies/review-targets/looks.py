"""A scorer who answers as the expert did: look after look, by several orders of looking."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

import stageguard as sg
from stageguard.review import targets as t
from stageguard.review.night import GuardResult, NightUnderReview, guard_anyway
from stageguard.review.queue import queue_of
from stageguard.review.state import Pin, ReviewState

PROFILE = "human-psg-5"
MOST_LOOKS = 40
EVERY_LOOK_UNTIL = 10  # later, one order serves two looks, to halve the time
N_EPOCHS_OF_KAPPA = 80
SINGLE = ("tst_minutes", "sol_minutes", "waso_minutes", "rem_latency_minutes")


@dataclass
class Desk:
    """A night at some point of its review."""

    night: NightUnderReview
    truth: np.ndarray  # (n_epochs,) the expert's stages
    state: ReviewState
    result: GuardResult
    drawn: np.ndarray | None = None

    def look_at(self, first: int, last: int) -> int:
        """Answer a stretch as the expert did; return the number of keys that this takes."""
        pressed = keys(self.result.labels[first : last + 1], self.truth[first : last + 1])
        pins = dict(self.state.pins)
        pins |= {epoch: Pin(int(self.truth[epoch]), "expert") for epoch in range(first, last + 1)}
        self.state = replace(self.state, pins=pins)
        self.result = guard_anyway(self.night, self.state)
        self.drawn = None
        return pressed

    @property
    def draws(self) -> np.ndarray:
        """Draws given the answers, made once for each of them."""
        if self.drawn is None:
            self.drawn = self.answers.draws()
        return self.drawn

    @property
    def answers(self) -> t.Answers:
        seen = np.zeros(len(self.truth), dtype=bool)
        seen[list(self.state.pins)] = True
        return t.Answers(self.result.decoding, self.result.labels, seen, (0, len(self.truth)))


def open_desk(name: str, rows: np.ndarray, expert: np.ndarray) -> Desk:
    """Open a night; what the expert left unscored is what the guard says at first."""
    profile = sg.Profile.load(PROFILE)
    night = NightUnderReview(name, sg.Hypnodensity(rows, profile.scheme, 30.0), profile)
    state = night.opening_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = guard_anyway(night, state)
    truth = np.where((expert < 0) | (result.labels < 0), result.labels, expert).astype(np.int8)
    return Desk(night, truth, state, result)


def keys(shown: np.ndarray, truth: np.ndarray) -> int:
    """Count keys: Enter for what is right; for each wrong run the way there, its stage, and b to select."""
    if (shown == truth).all():
        return 1
    n_keys = place = 0
    edges = np.flatnonzero(np.diff(truth, prepend=-2, append=-2))
    for first, end in pairwise(edges):
        if (shown[first:end] == truth[first:end]).all():
            continue
        n_keys += (first - place) + 1 + (end - first > 1) + (end - first - 1)
        place = end - 1
    return int(n_keys) + 1  # Enter for the rest, or n to go on


Order = Callable[[Desk, np.random.Generator], list[tuple[int, int]]]


def by_value(desk: Desk, rng: np.random.Generator, units: Mapping[str, float]) -> list[tuple[int, int]]:
    return [(look.first, look.last) for look in t.looks_of(desk.answers, desk.draws, units)]


def by_queue(desk: Desk, rng: np.random.Generator) -> list[tuple[int, int]]:
    found = queue_of(desk.night, desk.state, desk.result).stretches
    return [(one.first, min(one.last, one.first + t.LONGEST_LOOK - 1)) for one in found]


def _pieces(desk: Desk) -> tuple[np.ndarray, np.ndarray]:
    confidence = desk.result.posterior.probabilities
    own = np.take_along_axis(confidence, np.maximum(desk.result.labels, 0)[:, None].astype(int), axis=1)[:, 0]
    answers = desk.answers
    unseen = ~answers.seen & (answers.labels >= 0)
    return t.stretches(answers.labels, own >= t.SURE, unseen), own


def by_confidence(desk: Desk, rng: np.random.Generator) -> list[tuple[int, int]]:
    pieces, own = _pieces(desk)
    lowest = [own[first:end].min() for first, end in pieces]
    return [(int(pieces[i, 0]), int(pieces[i, 1]) - 1) for i in np.argsort(lowest, kind="stable")]


def by_chance(desk: Desk, rng: np.random.Generator) -> list[tuple[int, int]]:
    pieces, _ = _pieces(desk)
    return [(int(first), int(end) - 1) for first, end in rng.permutation(pieces)]


def review(desk: Desk, order: Order, seed: int, *, intervals: bool) -> list[dict]:
    """Return a row before the first look and after each: the numbers, their intervals, epochs and keys."""
    rng, rows, queue, n_keys = np.random.default_rng(seed), [_row(desk, 0, intervals)], [], 0
    reached = rows[0].get("intervals")
    for n_looks in range(1, MOST_LOOKS + 1):
        if not queue:
            queue = order(desk, rng)[: 1 if n_looks <= EVERY_LOOK_UNTIL else 2]
        if queue:
            n_keys += desk.look_at(*queue.pop(0))
        fresh = intervals and bool(queue == [] and len(desk.state.pins) > rows[-1]["epochs"])
        rows.append(_row(desk, n_keys, fresh))
        if intervals:
            reached = rows[-1]["intervals"] = rows[-1].get("intervals", reached)
    return rows


def _row(desk: Desk, n_keys: int, intervals: bool) -> dict:
    of_night = desk.answers.statistics(desk.result.labels[None])
    row = {
        "epochs": len(desk.state.pins),
        "keys": n_keys,
        "numbers": {key: float(of_night[key][0]) for key in t.targetable(desk.night.scheme)},
    }
    if intervals:
        reached = t.reach_of(desk.answers, desk.draws, {})
        row["intervals"] = {key: (each.low, each.high) for key, each in reached.items()}
    return row


def kappa_after(desk: Desk, order: Order, seed: int) -> float:
    """Return kappa with the expert once so many epochs were looked at."""
    rng = np.random.default_rng(seed)
    while len(desk.state.pins) < N_EPOCHS_OF_KAPPA:
        found = order(desk, rng)
        if not found:
            break
        for first, last in found[:2]:
            room = N_EPOCHS_OF_KAPPA - len(desk.state.pins)
            if room > 0:
                desk.look_at(first, min(last, first + room - 1))
    return kappa(desk.truth, desk.result.labels)


def by_single_epochs(desk: Desk, rng: np.random.Generator) -> list[tuple[int, int]]:
    """The least sure epochs, one by one, as they are before the first answer."""
    _, own = _pieces(desk)
    unseen = [epoch for epoch in np.argsort(own, kind="stable").tolist() if epoch not in desk.state.pins]
    return [(epoch, epoch) for epoch in unseen]


def kappa(truth: np.ndarray, labels: np.ndarray) -> float:
    both = (truth >= 0) & (labels >= 0)
    table = np.zeros((5, 5))
    np.add.at(table, (truth[both], labels[both]), 1)
    table /= table.sum()
    chance = float(table.sum(axis=0) @ table.sum(axis=1))
    return (float(np.trace(table)) - chance) / (1 - chance)


def true_numbers(desk: Desk) -> dict[str, float]:
    found = desk.answers.statistics(desk.truth[None])
    return {key: float(found[key][0]) for key in t.targetable(desk.night.scheme)}
