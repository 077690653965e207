"""What a fit learns from training nights, and the profile that each candidate makes of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from stageguard.arrays import Floats, Labels
from stageguard.fitting.calibration import ScoredEpochs, fit_biases, fit_temperature, totals_biases
from stageguard.fitting.candidates import DEFAULT, Candidate
from stageguard.fitting.counts import supported_durations
from stageguard.fitting.decoder import KeepingSolver, Tempered, decode_prepared
from stageguard.fitting.material import Material
from stageguard.fitting.tune import can_be_tuned, fragmentation_aim, tune_rules
from stageguard.guard import inputs
from stageguard.guard.automaton import rescale_transitions
from stageguard.guard.options import GuardOptions
from stageguard.guard.solver import solver_for
from stageguard.night.stages import StageScheme
from stageguard.profile.parts import Calibration
from stageguard.profile.profile import Profile
from stageguard.profile.rules import RULES
from stageguard.profile.rules.rule import MANY_NIGHTS, Counted
from stageguard.profile.rules.target import FEWEST_NIGHTS

_DIGITS = 6  # of fitted numbers in a profile


class FitBase:
    """What all candidates take from the base profile, at the nights' epoch length."""

    def __init__(
        self,
        profile: Profile,
        epoch_seconds: float,
        durations: tuple[str, ...] = (),
        *,
        cohort: str | None = None,
        stager: str | None = None,
    ) -> None:
        self.profile, self.epoch_seconds = profile, epoch_seconds
        self.cohort, self.stager = cohort, stager
        self.durations = durations  # stages with tables of bout lengths
        self.ratio = epoch_seconds / profile.epoch_seconds
        self.transitions = rescale_transitions(np.array(profile.transitions), self.ratio)
        rule = profile.strength
        self.fi_target = None if rule is None else min(rule.fi_target * self.ratio, 1.0)
        # stages and transitions, and no rule at all: parsed once, and every candidate is made from it
        self.bare = Profile.from_dict(
            {key: value for key, value in profile.to_dict().items() if key in _TAKEN_FROM_BASE}
            | {"epoch_seconds": epoch_seconds, "transition_weight": 0.0}
            | {"transitions": _by_stage(profile.scheme, self.transitions)}
            | self._posterior()
        )

    def _posterior(self) -> dict[str, Any]:
        """Return how far stagers err all night: the scored nights of one stager are too few to count it."""
        rules = self.profile.posterior
        if rules is None:
            return {}
        stay = rules.presleep_stay**self.ratio
        return {"posterior": self.profile.to_dict()["posterior"] | {"presleep_stay": stay}}

    @cached_property
    def here(self) -> Profile:
        """The base profile as the nights are decoded by it, whose cohort it may have a caution for."""
        return self.at_epochs(self.profile.for_nights_of(self.stager, self.cohort))

    @cached_property
    def untimed(self) -> Profile:
        """The same without its clock."""
        return replace(self.here, clock=None)

    def at_epochs(self, profile: Profile) -> Profile:
        """Return the base profile, or one tuned from it, at the nights' epoch length."""
        if profile.stager is not None or profile.cohort is not None:  # all nights are its own
            profile = replace(profile, stager=None, cohort=None)
        if self.ratio == 1.0:
            return profile
        # bands are per epoch, and those of another epoch length mean something else
        changes: dict[str, Any] = {"bands": {}, "joint": None, "epoch_seconds": self.epoch_seconds}
        changes["posterior"] = self.bare.posterior
        if profile.strength is not None:
            changes["strength"] = profile.strength.rescaled(self.ratio)
        return replace(profile, transitions=tuple(rounded(row) for row in self.transitions), **changes)

    def with_supported_durations(self, folds: Sequence[tuple[Material, Material]]) -> FitBase:
        """Return the same with tables of bout lengths for the stages whose held-out bouts they predict."""
        counts = [(train.counts(), test.counts()) for train, test in folds]
        stages = supported_durations(counts, self.profile.scheme)
        return FitBase(self.profile, self.epoch_seconds, stages, cohort=self.cohort, stager=self.stager)

    @property
    def default(self) -> Candidate:
        """The candidate that a fit must be better than."""
        return replace(DEFAULT, clock=self.here.clock is not None)

    def aim(self, fi_mean: float, n_nights: int) -> float:
        """Return the fragmentation index to aim at; missing nights up to 15 count as the base profile's."""
        if self.fi_target is None or np.isnan(fi_mean):
            return fi_mean if self.fi_target is None else self.fi_target
        n_borrowed = max(0, MANY_NIGHTS - n_nights)
        return (n_nights * fi_mean + n_borrowed * self.fi_target) / (n_nights + n_borrowed)


_TAKEN_FROM_BASE = ("name", "species", "scheme", "stages", "wake", "rem")


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """What training nights taught; each candidate's profile uses a part of it."""

    base: FitBase
    material: Material
    transitions: tuple[tuple[float, ...], ...]
    shares: Floats  # of each stage among scored epochs
    fi_mean: float  # plain mean over nights
    fi_target: float  # the same, drawn towards the base profile's if nights are few
    stager_fi: float | None  # median of the stager's argmax; None without probabilities
    minimum_epochs: Mapping[str, int]
    durations: Mapping[str, tuple[float, ...]]
    temperature: Calibration
    biased: Calibration
    impossible_share: float  # of scored epochs, whose true stage has probability 0
    totals: dict[str, tuple[float, ...]] = field(default_factory=dict)  # by rule, as far as they were fitted
    _profiles: dict[Candidate, Profile] = field(default_factory=dict, repr=False)
    _solvers: dict[Any, KeepingSolver] = field(default_factory=dict, repr=False)  # by all but strength

    @property
    def counted(self) -> Counted:
        """What strength rules are fitted by."""
        aims = fragmentation_aim(self.fi_mean), fragmentation_aim(self.fi_target)
        return Counted(len(self.material.nights), *aims, self.stager_fi, self.base.profile.strength)

    @property
    def scheme(self) -> StageScheme:
        """The stages."""
        return self.base.profile.scheme

    def fit_totals(self, rules: Iterable[str]) -> None:
        """Fit the biases that bring more rules to the experts' stage totals; takes several decodings each."""
        missing = [rule for rule in rules if rule not in self.totals]
        if not missing:
            return
        nights = self.material.nights
        tempered = Tempered(nights, self.temperature.temperature, self.base.bare)
        for rule in missing:
            self.totals[rule] = totals_biases(nights, *self.compile(Candidate(rule)), tempered)

    def _default(self) -> Profile:
        """Return the base profile as it is used without scored nights: tuned, if the nights are enough."""
        base, nights = self.base, self.material.nights
        measured = [night.measured for night in nights if night.measured is not None]
        n_usable = sum(not math.isnan(night.features.fragmentation_index) for night in measured)
        if n_usable < FEWEST_NIGHTS or not can_be_tuned(base.profile):
            return base.here
        groups = [night.group for night in nights]
        tuned, _ = tune_rules(measured, base.profile, groups, base.cohort)
        return base.at_epochs(tuned.for_nights_of(base.stager, base.cohort))

    def _decode_by_default(self, candidate: Candidate, material: Material) -> list[Labels]:
        """Return the labels of nights under the default, as `decode` gives them without scored nights."""
        profile = self.profile(candidate)
        nights = [
            inputs.night_of(night.unscored(material), profile, GuardOptions(trained=night.trained))
            for night in material.nights
        ]
        # tuning changes no table that a solver is made from
        like = self.base.here if candidate.clock else self.base.untimed
        return decode_prepared(profile, solver_for(like, self.base.epoch_seconds), nights)

    def calibration(self, candidate: Candidate) -> Calibration:
        """Return the calibration that a candidate uses."""
        if candidate.totals:
            biases = tuple(candidate.totals * bias for bias in self.totals[candidate.rule])
            return Calibration(self.temperature.temperature, biases)
        return self.biased if candidate.biases else self.temperature

    def profile(self, candidate: Candidate) -> Profile:
        """Return a candidate's profile for evidence that is calibrated already, biases included."""
        # biases are in the evidence, so that candidates with and without them share a profile
        unbiased = candidate.unbiased
        if unbiased not in self._profiles and candidate == self.base.default:
            self._profiles[unbiased] = self._default()
        if unbiased not in self._profiles and candidate.rule == DEFAULT.rule:
            self._profiles[unbiased] = replace(self.profile(self.base.default), clock=None)
        if unbiased not in self._profiles:
            clock = self.base.profile.clock if candidate.clock else None
            values = _rule_values(unbiased, self)
            self._profiles[unbiased] = replace(
                self.base.bare, transitions=self.transitions, clock=clock, **values
            )
        return self._profiles[unbiased]

    def whole_profile(self, candidate: Candidate) -> Profile:
        """Return a candidate's profile for a stager's own probabilities."""
        if candidate.rule == DEFAULT.rule:
            return self.profile(candidate)
        used = self.calibration(candidate)
        biases = None if used.biases is None else rounded(used.biases)
        (temperature,) = rounded([used.temperature])
        return replace(self.profile(candidate), calibration=Calibration(temperature, biases))

    def compile(self, candidate: Candidate) -> tuple[Profile, KeepingSolver]:
        """Return a candidate's profile and its solver, which candidates that differ in strength share."""
        profile = self.profile(candidate)
        # a solver keeps what it solved, and the strength is an argument of each solution
        rules = tuple(profile.min_bout_seconds.items()), tuple(profile.durations), candidate.clock
        if rules not in self._solvers:
            self._solvers[rules] = KeepingSolver(profile, self.base.epoch_seconds)
        return profile, self._solvers[rules]

    def decode(self, candidate: Candidate, material: Material) -> list[Labels]:
        """Return the labels of other nights under a candidate."""
        if candidate.rule == DEFAULT.rule:
            return self._decode_by_default(candidate, material)
        calibration = self.calibration(candidate)
        tempered = Tempered(material.nights, calibration.temperature, self.base.bare)
        return decode_prepared(*self.compile(candidate), tempered.nights(calibration.biases))


def train(
    base: FitBase, material: Material, *, biases: bool = True, like: Training | None = None
) -> Training:
    """Learn from nights; without probabilities the calibration does nothing.

    `like` was learned on mostly the same nights: the search for the calibration begins there.
    """
    counts, n_nights, names = material.counts(), len(material.nights), material.scheme.names
    fi_mean = counts.fragmentation_index
    temperature, biased, impossible_share = Calibration(), Calibration(), 0.0
    if material.has_probabilities:
        matrices = [night.matrix for night in material.nights if night.matrix is not None]
        truths = [night.truth for night in material.nights]
        epochs = ScoredEpochs(matrices, truths, None if like is None else like.temperature)
        temperature, impossible_share = fit_temperature(epochs), epochs.impossible_share
        biased = fit_biases(epochs, None if like is None else like.biased) if biases else temperature
    tables = {name: counts.duration_table(names.index(name)) for name in base.durations}
    return Training(
        base=base,
        material=material,
        transitions=tuple(rounded(row) for row in counts.transitions(base.transitions)),
        shares=counts.shares(),
        fi_mean=fi_mean,
        fi_target=base.aim(fi_mean, n_nights),
        stager_fi=_stager_fi(material),
        minimum_epochs=counts.minimum_epochs(),
        durations={name: _rounded_down(table) for name, table in tables.items()},
        temperature=temperature,
        biased=biased,
        impossible_share=impossible_share,
    )


def rounded(values: Iterable[float]) -> tuple[float, ...]:
    """Return numbers as a profile keeps them, to six digits."""
    return tuple(float(f"{value:.{_DIGITS}g}") for value in values)


def _rounded_down(values: Iterable[float]) -> tuple[float, ...]:
    """Return numbers that do not sum to more than they did; the last one stays above 0."""
    shares = [math.floor(value * 10**_DIGITS) / 10**_DIGITS for value in values]
    return (*shares[:-1], max(shares[-1], 10.0**-_DIGITS))


def _by_stage(scheme: StageScheme, matrix: Floats) -> dict[str, dict[str, float]]:
    rows = [dict(zip(scheme.names, rounded(row), strict=True)) for row in matrix]
    return dict(zip(scheme.names, rows, strict=True))


def _stager_fi(material: Material) -> float | None:
    """Return the median fragmentation index of the stager's argmax, as a profile takes it."""
    indices = [night.stager_fi for night in material.nights if not math.isnan(night.stager_fi)]
    return fragmentation_aim(float(np.median(indices))) if indices else None


def _rule_values(candidate: Candidate, training: Training) -> dict[str, Any]:
    """Return the values of a profile, by field, that make it act by a candidate's rule."""
    epoch_seconds, trial = training.base.epoch_seconds, candidate.trial
    if candidate.rule not in RULES:
        values: dict[str, Any] = {"transition_weight": candidate.weight}
        if candidate.rule == "minimum":
            minimum = training.minimum_epochs.items()
            values["min_bout_seconds"] = {name: n * epoch_seconds for name, n in minimum}
        if candidate.rule == "durations":
            values["durations"] = training.durations
        return values
    parameters = dict(trial.parameters + trial.refinement)
    values = {"strength": RULES[candidate.rule].fitted(training.counted, **parameters)}
    if trial.prior_exponent:
        values |= {"prior": rounded(training.shares), "prior_exponent": trial.prior_exponent}
    rem = training.scheme.rem
    if trial.rem_epochs > 1 and rem is not None:
        values["min_bout_seconds"] = {rem: trial.rem_epochs * epoch_seconds}
    return values
