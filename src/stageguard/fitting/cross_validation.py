"""Choose a candidate by subject-wise cross-validation, and check the choice by an outer cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stageguard.base.arrays import Floats, Labels, Mask
from stageguard.fitting.candidates import (
    ARGMAX,
    BIASES,
    FEW_SUBJECTS_GAIN,
    FEWEST_SUBJECTS,
    FEWEST_TUNED_SUBJECTS,
    HALF,
    OTHER_EXPONENTS,
    Candidate,
    Learned,
    Recipe,
    Scope,
    calibration_of,
    scope_of,
)
from stageguard.fitting.material import Material
from stageguard.fitting.scoring import (
    Score,
    Scores,
    Tempered,
    decode_prepared,
    decode_weights,
    mean_over_subjects,
    paired_error,
    paired_errors,
    score_night,
)
from stageguard.guard.evidence import Night
from stageguard.measures.groups import t_quantile
from stageguard.profile.parts import Calibration
from stageguard.profile.profile import Profile

if TYPE_CHECKING:
    from concurrent.futures import Executor

Status = Literal[
    "chosen",
    "kept",
    "no kappa to judge by",
    "agrees by chance",
    "kappa below argmax",
    "accuracy below argmax",
    "gain within its error",
    "kappa not surely gained",
    "not surely better",
]
COLUMNS = ("candidate", "kappa", "accuracy", "fi", "fi_distance", "error", "criterion", "status")
Folds = list[tuple[Material, Material]]  # training nights, held-out nights

# Below this kappa, stages have nothing to do with the experts': a stager that knows nothing must not be made
# to show their totals.
LEAST_KAPPA = 0.05
# Standard errors by which other rules must be better than the best plain rule: of many candidates, one is the
# best by chance.
SURELY = 2.0
# How sure a gain of kappa must be, by Student's t over subjects, if evidence is shifted between stages. Of
# 646 draws of 5 to 26 nights from the tasks of studies/guard-on-real-data, 18 lost .01 of kappa or more
# without it, all by stage totals, biases, shares or lifting; with it two did, one of them by lifting.
SURE_LEVEL = 0.975


@dataclass(frozen=True, slots=True)
class Criterion:
    """How candidates are ranked and dropped: the parameters of `fit` of the same names."""

    fragmentation_weight: float = 2.0
    statistics_weight: float = 0.3
    keep_accuracy: bool = False

    def of(self, scores: Scores) -> Floats:
        """Return the criterion of every candidate on every night."""
        costs = self.fragmentation_weight * scores.fi_distance + self.statistics_weight * scores.error
        return np.asarray(scores.kappa - costs)

    def __str__(self) -> str:
        """Return the rule in words."""
        kept = "kappa and accuracy are" if self.keep_accuracy else "kappa is"
        errors = (
            f" - {self.statistics_weight:g} (errors of sleep statistics / argmax's)"
            if self.statistics_weight
            else ""
        )
        return (
            f"highest kappa - {self.fragmentation_weight:g} |FI - FI of the expert|{errors}, mean over "
            f"subjects, where cross-validated {kept} not below argmax's and the gain over argmax exceeds its "
            f"standard error; rules other than argmax, target, band and match, and stage shares, only where "
            f"they are better by {SURELY:g} standard errors, and those that shift evidence between stages "
            f"only where kappa gains at the level {SURE_LEVEL:g} of Student's t"
        )


@dataclass(frozen=True, slots=True)
class Choosing:
    """How candidates are compared, the same in every round of cross-validation."""

    recipe: Recipe
    criterion: Criterion
    n_folds: int
    seed: int
    scope: Scope | None = None  # of all nights, so that a choice on part of them is made as on all
    tick: Callable[[], None] | None = None  # called after every fold
    executor: Executor | None = None  # runs the folds of `held_out`; None runs them here


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One fold: its training nights, the others, what it learned, and how candidates did so far."""

    train: Material
    test: Material
    learned: Learned
    scores: dict[Candidate, tuple[Score, ...]] = field(default_factory=dict)  # of every held-out night
    tempered: dict[float, Tempered] = field(default_factory=dict)  # the held-out nights by temperature

    def tempered_at(self, temperature: float, bare: Profile) -> Tempered:
        """Return the held-out nights at a temperature."""
        if temperature not in self.tempered:
            self.tempered[temperature] = Tempered(self.test.nights, temperature, bare)
        return self.tempered[temperature]


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate's cross-validated scores, means over subjects."""

    candidate: Candidate
    status: Status
    kappa: float
    accuracy: float
    fi: float
    fi_distance: float
    error: float
    criterion: float

    def cells(self) -> tuple[Any, ...]:
        """Return what a table shows, in the order of COLUMNS."""
        return (self.candidate.name, *(getattr(self, name) for name in COLUMNS[1:]))


@dataclass(frozen=True, slots=True)
class Selection:
    """What cross-validation on some nights chose."""

    rows: tuple[Row, ...]
    chosen: Candidate
    recipe: Recipe
    biases_gain: tuple[float, float]  # in kappa over simpler candidates: mean and standard error

    def passed(self, candidate: Candidate) -> bool:
        """Whether a candidate's cross-validated kappa (and accuracy) was not below argmax's."""
        return any(row.candidate == candidate and row.status in ("chosen", "kept") for row in self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Nights decoded by profiles fitted without them, and their argmax, in the order of `nights`."""

    nights: Material
    labels: tuple[Labels, ...]
    argmax: tuple[Labels, ...]
    profiles: tuple[Profile, ...]  # with which each night was decoded
    scores: Scores  # row 0 argmax, row 1 fitted
    chosen: tuple[Candidate, ...]  # in each round

    @property
    def subjects(self) -> list[str]:
        """The subject of each night."""
        return [night.subject for night in self.nights.nights]

    def as_given(self) -> HeldOut:
        """Return the same in the caller's order of nights."""
        order = np.argsort([night.number for night in self.nights.nights]).tolist()
        nights, labels, argmax, profiles = (
            tuple(values[i] for i in order)
            for values in (self.nights.nights, self.labels, self.argmax, self.profiles)
        )
        return HeldOut(
            replace(self.nights, nights=nights),
            labels,
            argmax,
            profiles,
            self.scores.of_nights(order),
            self.chosen,
        )

    def gain(self, criterion: Criterion | None = None) -> tuple[float, float]:
        """Return fitted minus argmax, in kappa or in the criterion: mean over subjects, standard error."""
        values = self.scores.kappa if criterion is None else criterion.of(self.scores)
        return paired_error(values[1], values[0], self.subjects)


def split(material: Material, n_folds: int, seed: int) -> Folds:
    """Return folds of whole groups, about equally many nights in each, the same for the same seed."""
    groups = material.groups
    n_folds = min(n_folds, len(groups))
    sizes = {group: sum(night.group == group for night in material.nights) for group in groups}
    order = [groups[i] for i in np.random.default_rng(seed).permutation(len(groups))]
    parts: list[list[str]] = [[] for _ in range(n_folds)]
    for group in sorted(order, key=lambda group: -sizes[group]):
        min(parts, key=lambda part: (sum(sizes[g] for g in part), len(part))).append(group)
    return [(material.of_groups(set(groups) - set(part)), material.of_groups(part)) for part in parts]


def select(material: Material, choosing: Choosing) -> Selection:
    """Cross-validate every candidate that the material allows, and choose one."""
    folds = split(material, choosing.n_folds, choosing.seed)
    recipe = choosing.recipe.suited(folds)
    scope = scope_of(material, material.counts(), biases=False, durations=bool(recipe.durations))
    if choosing.scope is not None:
        scope = replace(scope, tuned=choosing.scope.tuned, match=choosing.scope.match)
    alone = tuple(way for way in scope.candidates() if way.totals)
    learned: list[Learned] = []
    for train, _ in folds:
        like = learned[-1] if learned else None
        learned.append(recipe.learn(train, totals=("argmax",) if alone else (), like=like))
    rounds = [Round(*fold, each) for fold, each in zip(folds, learned, strict=True)]
    subjects = [night.subject for night in material.nights]
    gate = _evaluate(rounds, recipe, (ARGMAX, *alone, BIASES), material).kappa
    simpler = (gate[0], gate[-2]) if alone else (gate[0],)
    gains = [paired_error(gate[-1], other, subjects) for other in simpler]
    least = 0.0 if scope.tuned else FEW_SUBJECTS_GAIN
    biases = all(gain > error and gain >= least for gain, error in gains)
    totals = any(gain > error for gain, error in paired_errors(gate[1:-1], gate[0], subjects))
    candidates = replace(scope, biases=biases, totals=totals).candidates()
    met = tuple(dict.fromkeys(way.rule for way in candidates if way.totals))
    rounds = [replace(each, learned=recipe.meet(each.train, each.learned, met)) for each in rounds]
    scores = _evaluate(rounds, recipe, candidates, material, choosing.tick)
    rows = _judge(candidates, scores, subjects, choosing.criterion)
    chosen = next(row.candidate for row in rows if row.status == "chosen")
    if chosen.rule == "match":
        others = tuple(replace(chosen, exponent=exponent) for exponent in OTHER_EXPONENTS)
        scores = scores.followed_by(_evaluate(rounds, recipe, (ARGMAX, *others), material))
        candidates = (*candidates, *others)
        rows = _judge(candidates, scores, subjects, choosing.criterion)
        chosen = next(row.candidate for row in rows if row.status == "chosen")
    if recipe.base.clock is not None:
        # the clock goes with any rule: it is tried with the best one, and with its form for other cohorts
        ways = dict.fromkeys((ARGMAX, chosen.unweighted, chosen))
        timed = tuple(replace(way, clock=True) for way in ways)
        timed_scores = _evaluate(rounds, recipe, (ARGMAX, *timed), material)
        scores = scores.followed_by(timed_scores)
        rows = _judge((*candidates, *timed), scores, subjects, choosing.criterion)
        chosen = next(row.candidate for row in rows if row.status == "chosen")
    return Selection(rows, chosen, recipe, min(gains))


def held_out(folds: Folds, whole: Material, choosing: Choosing) -> HeldOut:
    """Choose and fit on each fold's training nights, and decode the nights held out."""
    by_number: dict[int, tuple[Labels, Labels, Profile, list[Score]]] = {}
    chosen = []
    for (_, test), (candidate, profile, outputs) in zip(folds, _outer_rounds(folds, choosing), strict=True):
        for night, before, after in zip(test.nights, *outputs, strict=True):
            scores = score_night(night, (before, after), whole.endpoints)
            by_number[night.number] = before, after, profile, scores
        chosen.append(candidate)
    nights = [by_number[night.number] for night in whole.nights]
    return HeldOut(
        nights=whole,
        labels=tuple(after for _, after, *_ in nights),
        argmax=tuple(before for before, *_ in nights),
        profiles=tuple(profile for *_, profile, _ in nights),
        scores=Scores.of([[scores[row] for *_, scores in nights] for row in range(2)]),
        chosen=tuple(chosen),
    )


OuterRound = tuple[Candidate, Profile, tuple[list[Labels], list[Labels]]]  # labels: argmax's, the candidate's


def _outer_rounds(folds: Folds, choosing: Choosing) -> Iterator[OuterRound]:
    """Yield the result of each fold, in order; an executor runs all of them at once."""
    if choosing.executor is None:
        yield from (_outer_round(choosing, fold) for fold in folds)
        return
    sent = replace(choosing, tick=None, executor=None)
    results = choosing.executor.map(partial(_outer_round, sent), folds)
    for (train, _), result in zip(folds, results, strict=True):
        if choosing.tick is not None:
            for _ in range(min(choosing.n_folds, len(train.groups))):
                choosing.tick()
        yield result


def _outer_round(choosing: Choosing, fold: tuple[Material, Material]) -> OuterRound:
    train, test = fold
    picked = select(train, choosing)
    met = (picked.chosen.rule,) if picked.chosen.totals else ()
    learned = picked.recipe.learn(train, biases=picked.chosen.biases, totals=met)
    argmax, guarded = (
        decode_candidate(candidate, learned, picked.recipe, test) for candidate in (ARGMAX, picked.chosen)
    )
    return picked.chosen, picked.recipe.whole_profile(picked.chosen, learned), (argmax, guarded)


def can_nest(folds: Folds) -> bool:
    """Whether training nights of every fold can be cross-validated themselves."""
    return min(len(train.groups) for train, _ in folds) >= FEWEST_SUBJECTS


def decode_candidate(
    candidate: Candidate, learned: Learned, recipe: Recipe, material: Material
) -> list[Labels]:
    """Return every night's labels under a candidate fitted elsewhere."""
    calibration = calibration_of(candidate, learned)
    tempered = Tempered(material.nights, calibration.temperature, recipe.bare)
    return decode_prepared(*recipe.compiled(candidate, learned), tempered.nights(calibration.biases))


def _evaluate(
    rounds: Sequence[Round],
    recipe: Recipe,
    candidates: Sequence[Candidate],
    whole: Material,
    tick: Callable[[], None] | None = None,
) -> Scores:
    """Score every candidate on every night, fitted without that night."""
    by_night: dict[int, tuple[Score, ...]] = {}
    for each in rounds:
        new = [candidate for candidate in candidates if candidate not in each.scores]
        if new:
            decoded = zip(*_decode_all(new, each, recipe), strict=True)
            pairs = zip(each.test.nights, decoded, strict=True)
            scored = [score_night(night, outputs, whole.endpoints) for night, outputs in pairs]
            each.scores.update(zip(new, zip(*scored, strict=True), strict=True))
        of_candidates = zip(*(each.scores[candidate] for candidate in candidates), strict=True)
        for night, scores in zip(each.test.nights, of_candidates, strict=True):
            by_night[night.number] = scores
        if tick is not None:
            tick()
    of_nights = [by_night[night.number] for night in whole.nights]
    return Scores.of([[night[row] for night in of_nights] for row in range(len(candidates))])


def _decode_all(candidates: Sequence[Candidate], each: Round, recipe: Recipe) -> Iterator[list[Labels]]:
    """Yield every candidate's labels in order; those that differ by a fixed weight are solved together."""
    ready: dict[Calibration, list[Night]] = {}
    for alike, several in groupby(candidates, key=lambda candidate: replace(candidate, weight=0.0)):
        together = list(several)
        calibration = calibration_of(alike, each.learned)
        if calibration not in ready:
            tempered = each.tempered_at(calibration.temperature, recipe.bare)
            ready[calibration] = tempered.nights(calibration.biases)
        nights = ready[calibration]
        if len(together) == 1:
            yield decode_prepared(*recipe.compiled(together[0], each.learned), nights)
        else:
            weights = [candidate.weight for candidate in together]
            _, solver = recipe.compiled(alike, each.learned)
            yield from decode_weights(solver, nights, weights)


def _judge(
    candidates: Sequence[Candidate], scores: Scores, subjects: Sequence[str], criterion: Criterion
) -> tuple[Row, ...]:
    """Drop candidates that are worse than argmax, the first one, or not surely better; choose among the rest.

    The best plain candidate that does not shift evidence is chosen, unless another one is surely better. A
    candidate with another exponent must be surely better than the same candidate with the usual one.
    """
    values = criterion.of(scores)
    columns = (scores.kappa, scores.accuracy, scores.fi, scores.fi_distance, scores.error)
    means = [mean_over_subjects(column, subjects) for column in (*columns, values)]
    if means[4][0] > 0:
        means[4] = means[4] / means[4][0]  # so that argmax's is 1 over subjects, too
    statuses = _statuses(means, values, subjects, criterion)
    n_subjects = len(set(subjects))
    for i, gained in enumerate(paired_errors(scores.kappa, scores.kappa[0], subjects)):
        if statuses[i] == "kept" and candidates[i].shifts and not _surely_gains(*gained, n_subjects):
            statuses[i] = "kappa not surely gained"
    is_simple = np.array([candidate.is_plain and not candidate.shifts for candidate in candidates])
    best = _best(means[-1], is_simple & _kept(statuses))
    left = np.flatnonzero(~is_simple & _kept(statuses)).tolist()
    gains = paired_errors(values[left], values[best], subjects)
    gains_of_kappa = paired_errors(scores.kappa[left], scores.kappa[best], subjects)
    for i, (gain, error), gained in zip(left, gains, gains_of_kappa, strict=True):
        like = replace(candidates[i], exponent=HALF)
        if like != candidates[i] and like in candidates:
            gain, error = paired_error(values[i], values[candidates.index(like)], subjects)
        is_better = gain > (1.0 if candidates[i].is_plain else SURELY) * error
        if candidates[i].shifts:
            is_better = is_better and _surely_gains(*gained, n_subjects)
        statuses[i] = "kept" if is_better else "not surely better"
    others = ~is_simple & _kept(statuses)
    best = _best(means[-1], others) if others.any() else best
    statuses[best] = "chosen"
    return tuple(
        Row(candidate, statuses[i], *(float(values[i]) for values in means))
        for i, candidate in enumerate(candidates)
    )


def _surely_gains(gain: float, error: float, n_subjects: int) -> bool:
    """Whether kappa gains enough to shift evidence between stages; with few subjects, by a fixed gain."""
    if n_subjects < FEWEST_TUNED_SUBJECTS:
        return gain > error and gain >= FEW_SUBJECTS_GAIN
    return gain > _sure_errors(n_subjects) * error


@cache
def _sure_errors(n_subjects: int) -> float:
    return t_quantile(SURE_LEVEL, n_subjects - 1)


def _kept(statuses: Sequence[Status]) -> Mask:
    return np.array([status == "kept" for status in statuses])


def _best(values: Floats, allowed: Mask) -> int:
    """Return the index of the highest allowed value, in a tie the first; 0 if there is none."""
    left = np.where(allowed & ~np.isnan(values), values, -np.inf)
    return int(np.argmax(left)) if np.isfinite(left).any() else 0


def _statuses(
    means: Sequence[Floats], values: Floats, subjects: Sequence[str], criterion: Criterion
) -> list[Status]:
    kappa, accuracy = means[0], means[1]
    statuses: list[Status] = ["kept"]
    gains = paired_errors(values[1:], values[0], subjects)
    for i, (gain, error) in enumerate(gains, start=1):
        if np.isnan(kappa[i]):
            statuses.append("no kappa to judge by")
        elif kappa[i] < LEAST_KAPPA:
            statuses.append("agrees by chance")
        elif kappa[i] < kappa[0]:
            statuses.append("kappa below argmax")
        elif criterion.keep_accuracy and not accuracy[i] >= accuracy[0]:
            statuses.append("accuracy below argmax")
        else:
            statuses.append("kept" if gain > error else "gain within its error")
    return statuses
