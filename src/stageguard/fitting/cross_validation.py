"""Choose a candidate by subject-wise cross-validation, and check the choice by an outer cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from stageguard.arrays import Labels
from stageguard.fitting.candidates import (
    ARGMAX,
    BIASES,
    DEFAULT,
    FEW_SUBJECTS_GAIN,
    FEWEST_SUBJECTS,
    Candidate,
    Scope,
)
from stageguard.fitting.decoder import Tempered, decode_prepared, decode_weights
from stageguard.fitting.judging import Criterion, JudgedCandidate, judge
from stageguard.fitting.label_shares import of_training
from stageguard.fitting.material import Material
from stageguard.fitting.scoring import OutputScore, Scores, paired_error, paired_errors, score_night
from stageguard.fitting.training import FitBase, Training, train
from stageguard.guard.evidence import Night
from stageguard.profile.parts import Calibration
from stageguard.profile.profile import Profile

if TYPE_CHECKING:
    from concurrent.futures import Executor

Folds = list[tuple[Material, Material]]  # training nights, held-out nights
Output = Literal["argmax", "default", "fitted"]
OUTPUTS: tuple[Output, ...] = get_args(Output)  # of held-out nights, in this order


@dataclass(frozen=True, slots=True)
class Choosing:
    """How candidates are compared, the same in every round of cross-validation."""

    base: FitBase
    criterion: Criterion
    n_folds: int
    seed: int
    scope: Scope | None = None  # of all nights, so that a choice on part of them is made as on all
    tick: Callable[[], None] | None = None  # called after every fold
    executor: Executor | None = None  # runs the folds of `held_out`; None runs them here


@dataclass(frozen=True, slots=True)
class Selection:
    """What cross-validation on some nights chose."""

    rows: tuple[JudgedCandidate, ...]
    chosen: Candidate
    base: FitBase
    biases_gain: tuple[float, float]  # in kappa over simpler candidates: mean and standard error

    def train(self, candidate: Candidate, material: Material, *, biases: bool = True) -> Training:
        """Learn what a candidate needs from some nights."""
        training = train(self.base, material, biases=biases)
        training.fit_totals([candidate.rule] if candidate.totals else [])
        return training


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Nights decoded by profiles fitted without them, and by the default, in the order of `nights`."""

    nights: Material
    labels: tuple[Labels, ...]  # by the fitted profiles
    argmax: tuple[Labels, ...]
    default: tuple[Labels, ...]  # by the default profiles
    profiles: tuple[Profile, ...]  # with which each night was decoded
    default_profiles: tuple[Profile, ...]  # tuned, if at all, without the night
    scores: Scores  # rows as in `OUTPUTS`
    chosen: tuple[Candidate, ...]  # in each round

    @property
    def subjects(self) -> list[str]:
        """The subject of each night."""
        return [night.subject for night in self.nights.nights]

    def in_callers_order(self) -> HeldOut:
        """Return the same in the caller's order of nights."""
        order = np.argsort([night.number for night in self.nights.nights]).tolist()
        names = ("labels", "argmax", "default", "profiles", "default_profiles")
        arranged = {name: tuple(getattr(self, name)[i] for i in order) for name in names}
        nights = replace(self.nights, nights=tuple(self.nights.nights[i] for i in order))
        return replace(self, nights=nights, scores=self.scores.of_nights(order), **arranged)

    def gain(self, criterion: Criterion | None = None, *, over: Output = "argmax") -> tuple[float, float]:
        """Return the gain of the fit, in kappa or in the criterion: mean over subjects, standard error."""
        values = self.scores.kappa if criterion is None else criterion.of(self.scores)
        fitted, other = (values[OUTPUTS.index(name)] for name in ("fitted", over))
        return paired_error(fitted, other, self.subjects)


def split(material: Material, n_folds: int, seed: int) -> Folds:
    """Return folds of whole groups, about equally many nights in each, the same for the same seed."""
    groups = material.groups
    n_folds = min(n_folds, len(groups))
    sizes = {group: sum(night.group == group for night in material.nights) for group in groups}
    order = [groups[i] for i in np.random.default_rng(seed).permutation(len(groups))]
    parts: list[list[str]] = [[] for _ in range(n_folds)]
    # the largest groups first, so that small ones even out the folds
    for group in sorted(order, key=lambda group: -sizes[group]):
        min(parts, key=lambda part: (sum(sizes[g] for g in part), len(part))).append(group)
    return [
        of_training(material.of_groups(set(groups) - set(part)), material.of_groups(part)) for part in parts
    ]


def can_nest(folds: Folds) -> bool:
    """Whether training nights of every fold can be cross-validated themselves."""
    return min(len(train.groups) for train, _ in folds) >= FEWEST_SUBJECTS


def select(material: Material, choosing: Choosing) -> Selection:
    """Cross-validate every candidate that the material allows, and choose one."""
    folds = split(material, choosing.n_folds, choosing.seed)
    base = choosing.base.with_supported_durations(folds)
    scope = Scope.of(material, durations=bool(base.durations))
    if choosing.scope is not None:
        scope = replace(scope, tuned=choosing.scope.tuned, n_nights=choosing.scope.n_nights)
    comparison = CandidateComparison(material, _rounds(folds, base))
    biases_gain, with_biases, with_totals = comparison.try_shifts(scope)
    candidates = scope.candidates(biases=with_biases, totals=with_totals)
    comparison.fit_totals(candidates)
    rows, chosen = comparison.judge(candidates, choosing.criterion, DEFAULT, choosing.tick)
    # refinements of the best alone: of all candidates they would be too many to choose among by chance
    if chosen.refinements:
        candidates = (*candidates, *chosen.refinements)
        rows, chosen = comparison.judge(candidates, choosing.criterion, DEFAULT)
    # without the clock, a rule need not be better than the default with it
    if base.default.clock:
        candidates = (*candidates, *chosen.with_clock)
        rows, chosen = comparison.judge(candidates, choosing.criterion, base.default)
    return Selection(rows, chosen, base, biases_gain)


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One fold: what its training nights taught, its held-out nights, and how candidates did so far."""

    training: Training
    test: Material
    scores: dict[Candidate, tuple[OutputScore, ...]] = field(default_factory=dict)  # of every held-out night
    tempered: dict[float, Tempered] = field(default_factory=dict)  # the held-out nights by temperature
    ready: dict[Calibration, list[Night]] = field(default_factory=dict)  # and by calibration

    def score(self, candidates: Sequence[Candidate], whole: Material) -> None:
        """Score the candidates that were not scored yet on every held-out night."""
        new = [candidate for candidate in candidates if candidate not in self.scores]
        if not new:
            return
        outputs = zip(*self._decode(new), strict=True)  # by night
        pairs = zip(self.test.nights, outputs, strict=True)
        by_night = [score_night(night, labels, whole.endpoints) for night, labels in pairs]
        self.scores.update(zip(new, zip(*by_night, strict=True), strict=True))

    def _decode(self, candidates: Sequence[Candidate]) -> Iterator[list[Labels]]:
        """Yield every candidate's labels in order; those that differ by a weight are solved together."""
        for alike, several in groupby(candidates, key=lambda candidate: replace(candidate, weight=0.0)):
            if alike.rule == DEFAULT.rule:
                yield self.training.decode(alike, self.test)
                continue
            weights = [candidate.weight for candidate in several]
            nights = self._calibrate(self.training.calibration(alike))
            if len(weights) == 1:
                candidate = replace(alike, weight=weights[0])
                yield decode_prepared(*self.training.compile(candidate), nights)
            else:
                _, solver = self.training.compile(alike)
                yield from decode_weights(solver, nights, weights)

    def _calibrate(self, calibration: Calibration) -> list[Night]:
        """Return the held-out nights with a calibration."""
        temperature = calibration.temperature
        if temperature not in self.tempered:
            self.tempered[temperature] = Tempered(self.test.nights, temperature, self.training.base.bare)
        if calibration not in self.ready:
            self.ready[calibration] = self.tempered[temperature].nights(calibration.biases)
        return self.ready[calibration]


def _rounds(folds: Folds, base: FitBase) -> list[Round]:
    """Learn from the training nights of each fold, beginning at what the fold before gave."""
    rounds: list[Round] = []
    for training_nights, test in folds:
        like = rounds[-1].training if rounds else None
        rounds.append(Round(train(base, training_nights, like=like), test))
    return rounds


@dataclass(frozen=True, slots=True, eq=False)
class CandidateComparison:
    """Candidates compared on the nights that their fold held out."""

    material: Material
    rounds: list[Round]

    @property
    def subjects(self) -> list[str]:
        """The subject of each night."""
        return [night.subject for night in self.material.nights]

    def scores(self, candidates: Sequence[Candidate], tick: Callable[[], None] | None = None) -> Scores:
        """Return the scores of every candidate on every night, fitted without that night."""
        by_night: dict[int, tuple[OutputScore, ...]] = {}
        for fold in self.rounds:
            fold.score(candidates, self.material)
            of_nights = zip(*(fold.scores[candidate] for candidate in candidates), strict=True)
            numbers = (night.number for night in fold.test.nights)
            by_night.update(zip(numbers, of_nights, strict=True))
            if tick is not None:
                tick()
        nights = [by_night[night.number] for night in self.material.nights]
        return Scores.of([[night[row] for night in nights] for row in range(len(candidates))])

    def judge(
        self,
        candidates: Sequence[Candidate],
        criterion: Criterion,
        default: Candidate,
        tick: Callable[[], None] | None = None,
    ) -> tuple[tuple[JudgedCandidate, ...], Candidate]:
        """Return the candidates' scores, and which of them is chosen."""
        rows = judge(candidates, self.scores(candidates, tick), self.subjects, criterion, default)
        return rows, next(row.candidate for row in rows if row.status == "chosen")

    def fit_totals(self, candidates: Sequence[Candidate]) -> None:
        """Fit the stage totals that candidates need, in every round."""
        rules = list(dict.fromkeys(candidate.rule for candidate in candidates if candidate.totals))
        for fold in self.rounds:
            fold.training.fit_totals(rules)

    def try_shifts(self, scope: Scope) -> tuple[tuple[float, float], bool, bool]:
        """Find out whether stage biases, and stage totals, are worth comparing with every rule.

        They are if they gain kappa by themselves. Biases must also gain over totals, which are simpler.
        Returns the gain of biases over what is simpler, the smaller one, and both answers.
        """
        totals = scope.totals_alone
        self.fit_totals(totals)
        argmax, *with_totals, with_biases = self.scores((ARGMAX, *totals, BIASES)).kappa
        simpler = (argmax, *with_totals[-1:])  # of the totals, those that are met in full
        gains = [paired_error(with_biases, kappa, self.subjects) for kappa in simpler]
        least = 0.0 if scope.tuned else FEW_SUBJECTS_GAIN
        biases = all(gain > error and gain >= least for gain, error in gains)
        totals_gains = paired_errors(np.array(with_totals), argmax, self.subjects) if with_totals else []
        return min(gains), biases, any(gain > error for gain, error in totals_gains)


@dataclass(frozen=True, slots=True)
class OuterRound:
    """One fold of the outer cross-validation."""

    chosen: Candidate
    profile: Profile
    default: Profile
    labels: tuple[list[Labels], ...]  # of each of OUTPUTS, and every night held out


def held_out(folds: Folds, whole: Material, choosing: Choosing) -> HeldOut:
    """Choose and fit on each fold's training nights, and decode the nights held out."""
    by_number: dict[int, tuple[OuterRound, tuple[Labels, ...], list[OutputScore]]] = {}
    rounds = list(_outer_rounds(folds, choosing))
    for (_, test), one in zip(folds, rounds, strict=True):
        for night, *labels in zip(test.nights, *one.labels, strict=True):
            by_number[night.number] = one, tuple(labels), score_night(night, labels, whole.endpoints)
    nights = [by_number[night.number] for night in whole.nights]
    argmax, default, fitted = zip(*(labels for _, labels, _ in nights), strict=True)
    return HeldOut(
        nights=whole,
        labels=fitted,
        argmax=argmax,
        default=default,
        profiles=tuple(one.profile for one, *_ in nights),
        default_profiles=tuple(one.default for one, *_ in nights),
        scores=Scores.of([[scores[row] for *_, scores in nights] for row in range(len(OUTPUTS))]),
        chosen=tuple(one.chosen for one in rounds),
    )


def _outer_rounds(folds: Folds, choosing: Choosing) -> Iterator[OuterRound]:
    """Yield the result of each fold, in order; an executor runs all of them at once."""
    if choosing.executor is None:
        yield from (_outer_round(choosing, fold) for fold in folds)
        return
    sent = replace(choosing, tick=None, executor=None)
    results = choosing.executor.map(partial(_outer_round, sent), folds)
    for (training_nights, _), result in zip(folds, results, strict=True):
        if choosing.tick is not None:
            for _ in range(min(choosing.n_folds, len(training_nights.groups))):
                choosing.tick()
        yield result


def _outer_round(choosing: Choosing, fold: tuple[Material, Material]) -> OuterRound:
    training_nights, test = fold
    selection = select(training_nights, choosing)
    chosen = selection.chosen
    training = selection.train(chosen, training_nights, biases=chosen.biases)
    default = selection.base.default
    labels = tuple(training.decode(candidate, test) for candidate in (ARGMAX, default, chosen))
    profile, default_profile = (training.whole_profile(candidate) for candidate in (chosen, default))
    return OuterRound(chosen, profile, default_profile, labels)
