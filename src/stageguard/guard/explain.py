"""`explain`: each change of a decoded night, and the rule that decided it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Literal

import numpy as np

from stageguard.arrays import ComparedByValue, Floats, Indices, Labels, Mask
from stageguard.errors import InputError
from stageguard.guard.automaton import Durations, compile_tables, weigh
from stageguard.guard.decoding import Decoding
from stageguard.guard.night import Night
from stageguard.guard.solver import Solver, solver_for
from stageguard.night.period import runs
from stageguard.profile.profile import Profile
from stageguard.profile.rules import Setting

Rule = Literal[
    "pin",
    "calibration",
    "prior",
    "quality",
    "clock",
    "minimum bout",
    "flip-flop",
    "transition",
    "several together",
]

# Fills the epochs before the first one; it equals no stage, and not -1 either.
_NOBODY = -2

# Stands for minus infinity, so that gains and losses by forbidden steps can be added up.
FORBIDDEN_NATS = -1000.0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Change(ComparedByValue):
    """A run of epochs whose stage differs from the stager's choice.

    Over a night, the sum of ``prior_nats - evidence_nats`` is the score of the output minus that of the
    stager's own choice. If a minimum bout forbids that choice, it is scored without the minimum; a step of
    probability 0 counts as -1000 nats.
    """

    first_epoch: int
    n_epochs: int
    onset_seconds: float  # from the beginning of the recording
    clock: datetime | None  # when it begins by the clock, if the night has a start
    before: tuple[str, ...]  # stage of each epoch by the stager
    after: tuple[str, ...]  # as decoded
    probability_before: float  # of these stages by the stager, averaged over the epochs
    probability_after: float
    # what decided: "calibration" is temperature and biases, "prior" the weight of the stages' shares, "clock"
    # the time since sleep onset; "several together" if no single rule did
    rule: Rule
    evidence_nats: float  # given up: of the stager's choice minus of the decoded stages, as weighed
    prior_nats: float  # gained in transitions, bout lengths and the flip-flop window
    score: float  # of the decoded night
    counterfactual_score: float  # of the best night that keeps the stager's choice; -inf if none may

    @property
    def margin_nats(self) -> float:
        """Cost of keeping the stager's choice; inf where the rules forbid it."""
        return self.score - self.counterfactual_score

    def __repr__(self) -> str:
        """Return the change on one line."""
        last = self.first_epoch + self.n_epochs - 1
        where = f"epoch {last}" if self.n_epochs == 1 else f"epochs {self.first_epoch}-{last}"
        stages = f"{in_bouts(self.before)} -> {in_bouts(self.after)}"
        return f"<Change {where}: {stages}, by {self.rule}, margin {self.margin_nats:.2f} nats>"


def explain(decoding: Decoding) -> tuple[Change, ...]:
    """Return every change of a decoded night, in order of time.

    Parameters
    ----------
    decoding : Decoding
        What `decode` returned.

    Returns
    -------
    tuple of Change
        One per stretch of changed epochs, none across a cut of the recording. Together they are the whole
        difference between the stager's own choice and the output, in epochs and in nats.

    Examples
    --------
    >>> import stageguard as sg
    >>> result = sg.decode([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]], "kdd2026-actigraphy")
    >>> sg.explain(result)
    (<Change epoch 1: S -> W, by transition, margin 2.51 nats>,)
    """
    if not isinstance(decoding, Decoding):
        raise InputError(f"the night is a {type(decoding).__name__}, expected what decode() returned.")
    regions = _regions(decoding)
    if not regions:
        return ()
    night, names = decoding.night, decoding.profile.scheme.names
    rules = _deciding_rules(decoding, regions)
    solver = solver_for(decoding.profile, decoding.epoch_seconds)
    kept = solver.keep(night, decoding.setting, night.argmax, regions).tolist()
    evidence = _evidence_given_up(decoding)
    prior = _prior_gained(decoding, regions)
    changes = []
    for i, (first, end) in enumerate(regions):
        before, after = night.argmax[first:end], decoding.hypnogram.labels[first:end]
        epochs, probabilities = np.arange(first, end), night.probabilities
        changes.append(
            Change(
                first_epoch=first,
                n_epochs=end - first,
                onset_seconds=decoding.hypnogram.offset_seconds + first * decoding.epoch_seconds,
                clock=decoding.hypnogram.clock_at(first),
                before=tuple(names[s] for s in before),
                after=tuple(names[s] for s in after),
                probability_before=float(probabilities[epochs, before].mean()),
                probability_after=float(probabilities[epochs, after].mean()),
                rule=rules[i],
                evidence_nats=float(evidence[first:end].sum()),
                prior_nats=prior[i],
                score=decoding.score,
                counterfactual_score=kept[i],
            )
        )
    return tuple(changes)


def changed_by(decoding: Decoding) -> dict[Rule, int]:
    """Return how many epochs each rule changed, as `explain` says it, without its margins."""
    counts: Counter[Rule] = Counter()
    regions = _regions(decoding)
    for rule, (first, end) in zip(_deciding_rules(decoding, regions), regions, strict=True):
        counts[rule] += end - first
    return dict(counts)


def in_bouts(stages: Sequence[str]) -> str:
    """Write W W W N2 as W×3 N2."""
    bouts = ((name, len(list(group))) for name, group in groupby(stages))
    return " ".join(name if n == 1 else f"{name}×{n}" for name, n in bouts)


def _regions(result: Decoding) -> list[tuple[int, int]]:
    """Return the stretches of changed epochs, none across a cut: each span is decoded by itself."""
    return [
        (start + first, start + end)
        for start, stop in result.night.spans
        for first, end in runs(result.changed[start:stop])
    ]


def _without_pins(night: Night) -> Night:
    return replace(night, pins={}) if night.pins else night


def _evidence_given_up(result: Decoding) -> Floats:
    """Return evidence of the stager's choice minus that of the output, per epoch (0 if nothing changed)."""
    scores = _without_pins(result.night).evidence(result.setting.stage_nats)
    given_up = np.zeros(len(scores))
    rows = np.flatnonzero(result.changed)
    before, after = result.night.argmax[rows], result.hypnogram.labels[rows]
    given_up[rows] = scores[rows, before] - scores[rows, after]
    return given_up


def _prior_gained(result: Decoding, regions: Sequence[tuple[int, int]]) -> list[float]:
    """Return what each change, made in order of time, adds to the path's score besides evidence."""
    if result.setting.is_free:
        return [0.0] * len(regions)
    score = PathScorer(result.profile, result.epoch_seconds, result.setting.transition_weight)
    output = result.hypnogram.labels
    hybrid = np.where(result.changed, result.night.argmax, output)  # the stager's path, gaps bridged
    starts = [start for start, _ in result.night.spans]
    began, ends = _bout_starts(output), len(hybrid) - _bout_starts(hybrid[::-1])[::-1]
    gained = []
    for first, end in regions:
        low, high = result.night.spans[bisect_right(starts, first) - 1]
        # only epochs nearby matter: the window on either side and, if bout lengths count, the bouts next to
        # the change with one epoch more, so that they do not look cut
        left, right = first - score.window_epochs, end + score.window_epochs
        if score.counts_lengths:
            left = min(left, int(began[first - 1]) - 1) if first > low else left
            right = max(right, int(ends[end]) + 1) if end < high else right
        low, high = max(low, left), min(high, right)
        before = hybrid[low:high].copy()
        hybrid[first:end] = output[first:end]
        gained.append(score(hybrid[low:high]) - score(before))
    return gained


def _bout_starts(labels: Labels) -> Indices:
    """Return the first epoch of each epoch's bout, (n_epochs,)."""
    begins = np.ones(len(labels), dtype=bool)
    begins[1:] = labels[1:] != labels[:-1]
    starts: Indices = np.maximum.accumulate(np.where(begins, np.arange(len(labels)), 0))
    return starts


def _deciding_rules(result: Decoding, regions: Sequence[tuple[int, int]]) -> list[Rule]:
    """Return for each region the rule that decided it.

    That is the rule without which the stager's choice would have stood. If several rules would each have
    overruled it, it is the first one that does so alone.
    """
    argmax, output, nats = result.night.argmax, result.hypnogram.labels, result.setting.stage_nats
    pinned = np.zeros(len(argmax), dtype=bool)
    pinned[list(result.night.pins)] = True
    agreeing: list[tuple[Rule, Mask]] = []
    timeless = result.night.timed(None)
    if result.night.calibration is not None:
        agreeing.append(("calibration", timeless.choices() == output))
    if nats is not None:
        agreeing.append(("prior", timeless.choices(nats) == output))
    if result.night.clock is not None:
        agreeing.append(("clock", result.night.choices(nats) == output))
    without = [(rule, labels == argmax) for rule, labels in _labels_of(_ablations(result))]
    alone = [(rule, labels == output) for rule, labels in _labels_of(_single_rules(result))]
    decided: list[Rule] = []
    for first, end in regions:
        here = slice(first, end)
        by_evidence = [rule for rule, agrees in agreeing if agrees[here].all()]
        if pinned[here].all():
            decided.append("pin")
        elif by_evidence:
            decided.append(by_evidence[0])
        else:
            decided.append(_most(without, here) or _most(alone, here) or "several together")
    return decided


def _most(variants: Sequence[tuple[Rule, Mask]], here: slice) -> Rule | None:
    """Return the rule that holds in most epochs of a region, if in more than half; in a tie the first."""
    share, rule = max(
        ((float(holds[here].mean()), -i) for i, (_, holds) in enumerate(variants)), default=(0.0, 0)
    )
    return variants[-rule][0] if share > 0.5 else None


Variant = tuple[Rule, Solver, Night, Setting]  # a night decoded otherwise, and the rule that this shows


def _labels_of(variants: Iterator[Variant]) -> list[tuple[Rule, Labels]]:
    return [
        (rule, solver.path(night, setting, may_fail=True).labels) for rule, solver, night, setting in variants
    ]


def _ablations(result: Decoding) -> Iterator[Variant]:
    """Yield the night without each rule that acts on it, the most specific rule first."""
    profile, night, seconds, setting = result.profile, result.night, result.epoch_seconds, result.setting
    solver = solver_for(profile, seconds)
    if night.pins:
        yield "pin", solver, _without_pins(night), setting
    if night.quality is not None:
        yield "quality", solver, replace(night, quality=None), setting
    if night.clock is not None:
        yield "clock", solver, night.timed(None), setting
    if not setting.is_free:
        if profile.min_bout_seconds:
            yield "minimum bout", solver_for(_without(profile, "min_bout_seconds"), seconds), night, setting
        if profile.flip_flop.penalty_nats:
            yield "flip-flop", solver_for(_without(profile, "flip_flop"), seconds), night, setting
        yield "transition", solver, night, setting._replace(transition_weight=0.0)
    if setting.stage_nats is not None:
        yield "prior", solver, night, setting._replace(stage_nats=None)
    if night.calibration is not None:
        yield "calibration", solver, replace(night, calibration=None, _logs=None), setting


def _single_rules(result: Decoding) -> Iterator[Variant]:
    """Yield the night under transitions alone, minimum bouts alone, and the flip-flop window alone."""
    profile, night, seconds, setting = result.profile, result.night, result.epoch_seconds, result.setting
    if night.clock is not None:
        yield "clock", solver_for(profile, seconds), night, setting._replace(is_free=True)
    if setting.is_free:
        return
    at_zero = setting._replace(transition_weight=0.0)
    flip, minimum = _without(profile, "flip_flop"), _without(profile, "min_bout_seconds")
    yield "transition", solver_for(_without(flip, "min_bout_seconds"), seconds), night, setting
    yield "minimum bout", solver_for(flip, seconds), night, at_zero
    yield "flip-flop", solver_for(minimum, seconds), night, at_zero


def _without(profile: Profile, key: str) -> Profile:
    """Return the profile without one of its rules, from its cache."""
    return profile._once(("without", key), lambda: profile.replace(**{key: None}))


class PathScorer:
    """Score of a path by a profile's transitions, bout lengths and flip-flop window, in nats.

    Minimum bouts do not count, so that a path which they forbid has a score, too. A transition or bout length
    of probability 0 counts as -1000 nats.
    """

    def __init__(self, profile: Profile, epoch_seconds: float, transition_weight: float) -> None:
        tables = compile_tables(profile, epoch_seconds)
        self._stay = np.maximum(weigh(tables.stay, transition_weight), FORBIDDEN_NATS)
        self._change = np.maximum(weigh(tables.change, transition_weight), FORBIDDEN_NATS)
        self._weight = transition_weight
        self._profile = profile
        flip = profile.flip_flop
        self._flip_nats, self._window = flip.penalty_nats, flip.window_epochs

    def __call__(self, labels: Labels) -> float:
        """Return the score of one stretch without gaps."""
        before, after = labels[:-1], labels[1:]
        moved = before != after
        total = float(self._stay[after[~moved]].sum() + self._change[before[moved], after[moved]].sum())
        if self.counts_lengths:
            total += self._bout_lengths(labels)
        if self._flip_nats:
            total -= self._flip_nats * self._count_flips(labels, np.flatnonzero(moved) + 1)
        return total

    @property
    def window_epochs(self) -> int:
        """Number of epochs next to a change whose transitions and flips it can alter."""
        return self._window if self._flip_nats else 1

    @property
    def counts_lengths(self) -> bool:
        """Whether bout lengths count, which also changes next to a bout alter."""
        return bool(self._profile.durations) and self._weight > 0

    def _bout_lengths(self, labels: Labels) -> float:
        names, total = self._profile.scheme.names, 0.0
        for name, table in self._profile.durations.items():
            for first, end in runs(labels == names.index(name)):
                lengths = Durations.from_table(table, end - first)
                is_cut = end == len(labels) or (first == 0 and self._profile.ends == "censored")
                known: Floats = lengths.log_survival if is_cut else lengths.log_length
                total += max(self._weight * float(known[end - first - 1]), FORBIDDEN_NATS)
        return total

    def _count_flips(self, labels: Labels, changes: np.ndarray[tuple[int], np.dtype[np.intp]]) -> int:
        """Count changes to a stage that was seen 2 to `window_epochs` epochs before."""
        padded = np.concatenate([np.full(self._window, _NOBODY, dtype=labels.dtype), labels])
        back = np.arange(2, self._window + 1)
        earlier = padded[changes[:, None] + self._window - back]  # (n_changes, window - 1)
        return int(np.count_nonzero((earlier == labels[changes][:, None]).any(axis=1)))
