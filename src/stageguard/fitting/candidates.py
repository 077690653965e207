"""The candidates that a fit compares, and the profile that each makes from training nights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.fitting.calibration import ScoredEpochs, fit_biases, fit_temperature, totals_biases
from stageguard.fitting.counts import Counts, supported_durations
from stageguard.fitting.material import Material
from stageguard.fitting.scoring import KeepingSolver, Tempered
from stageguard.fitting.tune import FEWEST_NIGHTS
from stageguard.guard.automaton import rescale_transitions
from stageguard.guard.search import TRANSITION_WEIGHTS
from stageguard.profile.parts import Calibration
from stageguard.profile.profile import Profile

Rule = Literal["argmax", "target", "band", "fixed", "minimum", "durations", "match"]

FEWEST_SUBJECTS = 2  # to cross-validate at all
FEWEST_TUNED_SUBJECTS = 5  # to choose among many numbers
# Cross-validated gain of kappa that stage biases need with fewer subjects than that: in 48 draws of two
# nights harmful choices promised .036 to .065, helpful ones .105 or more.
FEW_SUBJECTS_GAIN = 0.1
FEWEST_MATCH_NIGHTS = 15  # to trust their mean fragmentation and stage shares
# How many times the experts' fragmentation `band` allows. If that was counted on other people, it is the base
# profile's cap: patients may well be twice as fragmented. On enough nights of the cohort itself, it is this.
OWN_CAP = 1.5

MATCH_PRIOR_EXPONENTS = (0.0, 0.1, 0.25, 0.5)
MATCH_REM_EPOCHS = (1, 3)
# How much of the differences between people `match` keeps: half, unless none or all is surely better.
HALF, OTHER_EXPONENTS = 0.5, (0.0, 1.0)
TOTALS = (0.5, 1.0)  # of the way to the experts' totals of wake, NREM and REM
# Fewer weights are tried with minimum bouts and tables of bout lengths, which act by themselves.
MINIMUM_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
DURATION_WEIGHTS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to guard.

    Its rule is ``argmax`` (no guard), ``target``, ``band``, ``match``, ``fixed`` transition weight,
    ``minimum`` bouts or explicit ``durations``, the last three with a fixed weight.
    """

    rule: Rule
    weight: float = 0.0  # of transitions, under the last three rules
    prior_exponent: float = 0.0  # w of match
    rem_epochs: int = 1  # shortest REM bout of match
    exponent: float = HALF  # how much of the differences between people match keeps
    lift: bool = False  # whether band lifts minority stages of nights below it
    biases: bool = False  # whether the likeliest stage biases are applied besides the temperature
    totals: float = 0.0  # share of the biases that bring its outputs to the experts' stage totals
    clock: bool = False  # whether the base profile's clock runs

    @property
    def is_plain(self) -> bool:
        """Whether only fragmentation and stage totals steer it; other candidates must be surely better."""
        is_steered = self.rule in ("argmax", "target", "band", "match") and not self.prior_exponent
        return is_steered and self.exponent == HALF

    @property
    def shifts(self) -> bool:
        """Whether it shifts evidence between stages: few nights say little about that, so kappa must gain."""
        return bool(self.lift or self.biases or self.totals or self.prior_exponent)

    @property
    def name(self) -> str:
        """Its name in tables."""
        epochs = f"{self.rem_epochs} epoch{'s' * (self.rem_epochs != 1)}"
        words = {
            "argmax": "argmax",
            "target": "target",
            "band": "band, minority stages lifted" if self.lift else "band",
            "fixed": f"fixed weight {self.weight:g}",
            "minimum": f"minimum bouts, weight {self.weight:g}",
            "durations": f"bout lengths, weight {self.weight:g}",
            "match": f"match, w {self.prior_exponent:g}, REM from {epochs}",
        }[self.rule]
        if self.exponent != HALF:
            words = f"{words}, differences to the power {self.exponent:g}"
        totals = "stage totals" if self.totals == 1.0 else f"stage totals by {self.totals:g}"
        if self.rule == "argmax" and (self.biases or self.totals):
            words = "stage biases alone" if self.biases else f"{totals} alone"
        elif self.totals:
            words = f"{words}, {totals}"
        elif self.biases:
            words = f"{words}, with stage biases"
        return f"{words}, with the clock" if self.clock else words

    @property
    def unweighted(self) -> Candidate:
        """The same candidate without stage shares and biases, which belong to one cohort."""
        return replace(self, prior_exponent=0.0, biases=False, totals=0.0, exponent=HALF)


ARGMAX = Candidate("argmax")
BIASES = Candidate("argmax", biases=True)
TOTALS_ALONE = tuple(Candidate("argmax", totals=share) for share in TOTALS)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which candidates the material allows."""

    tuned: bool
    match: bool
    minimum: bool
    durations: bool
    biases: bool
    has_rem: bool
    has_totals: bool  # whether the scheme has wake or REM
    totals: bool = False  # whether argmax gains by stage totals, so that other rules may, too

    def candidates(self) -> tuple[Candidate, ...]:
        """Return the candidates, the plainest first: of equals the first is chosen."""
        plain = [ARGMAX, Candidate("target"), Candidate("band"), Candidate("band", lift=True)]
        shortest_rem = MATCH_REM_EPOCHS if self.has_rem else (1,)
        met = [Candidate("band")] if self.totals else []
        if self.totals and self.match:
            met += [Candidate("match", rem_epochs=epochs) for epochs in shortest_rem]
        if self.tuned:
            plain += [Candidate("fixed", weight) for weight in TRANSITION_WEIGHTS[1:]]
        if self.tuned and self.minimum:
            plain += [Candidate("minimum", weight) for weight in MINIMUM_WEIGHTS]
        if self.tuned and self.durations:
            plain += [Candidate("durations", weight) for weight in DURATION_WEIGHTS]
        if self.match:
            plain += [
                Candidate("match", prior_exponent=w, rem_epochs=epochs)
                for epochs in shortest_rem
                for w in MATCH_PRIOR_EXPONENTS
            ]
        totals = [*TOTALS_ALONE] if self.tuned and self.has_totals else []
        totals += [replace(candidate, totals=share) for candidate in met for share in TOTALS]
        return (*plain, *totals, *(replace(candidate, biases=True) for candidate in plain if self.biases))


@dataclass(frozen=True, slots=True)
class Learned:
    """Everything learned from training nights; each candidate uses a part of it."""

    n_nights: int
    transitions: Floats
    rows: Mapping[str, Mapping[str, float]]  # the transitions as a profile has them
    shares: Floats
    fi_mean: float  # plain mean over nights
    fi_target: float  # the same, drawn towards the base profile's if nights are few
    cap: float  # how many times `fi_target` `band` allows
    stager_fi: float | None  # median of the stager's argmax; None without probabilities
    minimum_epochs: Mapping[str, int]
    durations: Mapping[str, tuple[float, ...]]
    temperature: Calibration
    biased: Calibration
    totals: Mapping[Rule, tuple[float, ...]]  # biases by rule
    impossible_share: float
    profiles: dict[Candidate, Profile] = field(default_factory=dict, repr=False)  # cache
    solvers: dict[Any, KeepingSolver] = field(default_factory=dict, repr=False)  # cache, by all but strength


class Recipe:
    """Builds candidates' profiles on a base profile, at one epoch length."""

    def __init__(self, base: Profile, epoch_seconds: float, durations: tuple[str, ...] = ()) -> None:
        self.base, self.epoch_seconds, self.durations = base, epoch_seconds, durations
        self.ratio = epoch_seconds / base.epoch_seconds
        self.transitions = rescale_transitions(np.array(base.transitions), self.ratio)
        rule = base.strength
        is_band = rule is not None and rule.rule == "band"
        self.floor, self.cap = (rule.floor, rule.cap) if is_band and rule is not None else (0.5, 2.0)
        self.base_target = None if rule is None else min(rule.fi_target * self.ratio, 1.0)
        whole = base.to_dict()
        self.clock = whole.get("clock")
        kept = {key: whole.get(key) for key in ("name", "scheme", "stages", "wake", "rem")}
        # what every candidate takes from the base profile: stages, transitions and nothing else
        self.document = {key: value for key, value in kept.items() if value is not None}
        self.document |= {"epoch_seconds": epoch_seconds, "transition_weight": 0.0}
        self.document |= {"transitions": _rows(base.scheme.names, self.transitions)}
        self.bare = Profile.from_dict(self.document)

    def suited(self, folds: Sequence[tuple[Material, Material]]) -> Recipe:
        """Return the recipe with tables of bout lengths for the stages whose held-out bouts they predict."""
        counts = [(train.counts(), test.counts()) for train, test in folds]
        return Recipe(self.base, self.epoch_seconds, supported_durations(counts, self.base.scheme))

    def learn(
        self,
        material: Material,
        *,
        biases: bool = True,
        totals: Sequence[Rule] = (),
        like: Learned | None = None,
    ) -> Learned:
        """Return what is learned from the nights; without probabilities the calibration does nothing.

        `totals` are the rules to bring to the experts' stage totals, which takes several decodings each.
        `like` was learned on mostly the same nights: the calibration begins there.
        """
        counts = material.counts()
        fi_mean = counts.fragmentation_index
        temperature, biased, impossible = Calibration(), Calibration(), 0.0
        if material.has_probabilities:
            matrices = [night.matrix for night in material.nights if night.matrix is not None]
            truths = [night.truth for night in material.nights]
            epochs = ScoredEpochs(matrices, truths, None if like is None else like.temperature)
            temperature, impossible = fit_temperature(epochs), epochs.impossible_share
            biased = fit_biases(epochs, None if like is None else like.biased) if biases else temperature
        labels = [material.scheme.names.index(name) for name in self.durations]
        transitions = counts.transitions(self.transitions)
        learned = Learned(
            n_nights=len(material.nights),
            transitions=transitions,
            rows=_rows(self.base.scheme.names, transitions),
            shares=counts.shares(),
            fi_mean=fi_mean,
            fi_target=self.target(fi_mean, len(material.nights)),
            stager_fi=_stager_fi(material),
            cap=self.cap if len(material.nights) < FEWEST_MATCH_NIGHTS else min(self.cap, OWN_CAP),
            minimum_epochs=counts.minimum_epochs(),
            durations={material.scheme.names[i]: _rounded_down(counts.duration_table(i)) for i in labels},
            temperature=temperature,
            biased=biased,
            totals={},
            impossible_share=impossible,
        )
        return self.meet(material, learned, totals)

    def meet(self, material: Material, learned: Learned, totals: Sequence[Rule]) -> Learned:
        """Return `learned` with the biases that bring more rules to the experts' stage totals."""
        missing = [rule for rule in totals if rule not in learned.totals]
        if not missing:
            return learned
        tempered = Tempered(material.nights, learned.temperature.temperature, self.bare)
        met = {
            rule: totals_biases(material.nights, *self.compiled(Candidate(rule), learned), tempered)
            for rule in missing
        }
        return replace(learned, totals={**learned.totals, **met})

    def target(self, fi_mean: float, n_nights: int) -> float:
        """Return the fragmentation index to aim at; missing nights up to 15 count as the base profile's."""
        if self.base_target is None or np.isnan(fi_mean):
            return fi_mean if self.base_target is None else self.base_target
        n_borrowed = max(0, FEWEST_MATCH_NIGHTS - n_nights)
        return (n_nights * fi_mean + n_borrowed * self.base_target) / (n_nights + n_borrowed)

    def profile(self, candidate: Candidate, learned: Learned) -> Profile:
        """Return a candidate's profile for evidence that is calibrated already, biases included."""
        key = replace(candidate, biases=False, totals=0.0)
        if key not in learned.profiles:
            document = self.document | self.changes(key, learned)
            if "strength" in document:
                del document["transition_weight"]
            learned.profiles[key] = Profile.from_dict(document)
        return learned.profiles[key]

    def compiled(self, candidate: Candidate, learned: Learned) -> tuple[Profile, KeepingSolver]:
        """Return a candidate's profile and its solver, which candidates that differ in strength share."""
        profile = self.profile(candidate, learned)
        rules = tuple(profile.min_bout_seconds.items()), tuple(profile.durations), candidate.clock
        if rules not in learned.solvers:
            learned.solvers[rules] = KeepingSolver(profile, self.epoch_seconds)
        return profile, learned.solvers[rules]

    def whole_profile(self, candidate: Candidate, learned: Learned) -> Profile:
        """Return a candidate's profile for a stager's own probabilities."""
        calibration = calibration_document(calibration_of(candidate, learned), self.base.scheme.names)
        return self.bare.replace(**self.changes(candidate, learned), calibration=calibration)

    def changes(self, candidate: Candidate, learned: Learned) -> dict[str, Any]:
        """Return the keys of a profile that make it act as the candidate does."""
        clock = {"clock": self.clock} if candidate.clock else {}
        return self._rule(candidate, learned) | clock

    def _rule(self, candidate: Candidate, learned: Learned) -> dict[str, Any]:
        names = self.base.scheme.names
        changes: dict[str, Any] = {"transitions": learned.rows}
        if candidate.rule == "band":
            limits = {"floor": self.floor, "cap": learned.cap, "lift": candidate.lift}
            changes["strength"] = {"rule": "band", "fi_target": _target(learned.fi_target), **limits}
            return changes
        if candidate.rule == "target":
            changes["strength"] = {"rule": "target", "fi_target": _target(learned.fi_target), "lift": False}
            changes["strength"]["act_above"] = OWN_CAP
            if learned.n_nights >= FEWEST_NIGHTS:  # with fewer, a sleeper may pass for a flickering stager
                changes["strength"]["stager_fi"] = learned.stager_fi
            return changes
        if candidate.rule == "match":
            changes["strength"] = {"rule": "match", "fi_target": _target(learned.fi_mean)}
            if learned.stager_fi is not None:
                changes["strength"] |= {"stager_fi": learned.stager_fi, "exponent": candidate.exponent}
            if candidate.prior_exponent:
                changes["prior"] = dict(zip(names, _rounded(learned.shares), strict=True))
                changes["prior_exponent"] = candidate.prior_exponent
            rem = self.base.scheme.rem
            if candidate.rem_epochs > 1 and rem is not None:
                changes["min_bout_seconds"] = {rem: candidate.rem_epochs * self.epoch_seconds}
            return changes
        changes["transition_weight"] = candidate.weight
        if candidate.rule == "minimum":
            seconds = {name: n * self.epoch_seconds for name, n in learned.minimum_epochs.items()}
            changes["min_bout_seconds"] = seconds
        elif candidate.rule == "durations":
            changes["durations"] = learned.durations
        return changes


def calibration_document(calibration: Calibration, names: Sequence[str]) -> dict[str, Any]:
    """Return a calibration as a profile has it."""
    (temperature,) = _rounded([calibration.temperature])
    if calibration.biases is None:
        return {"temperature": temperature}
    biases = dict(zip(names, _rounded(calibration.biases), strict=True))
    return {"temperature": temperature, "biases": biases}


def calibration_of(candidate: Candidate, learned: Learned) -> Calibration:
    """Return the calibration that a candidate uses."""
    if candidate.totals:
        biases = tuple(candidate.totals * bias for bias in learned.totals[candidate.rule])
        return Calibration(learned.temperature.temperature, biases)
    return learned.biased if candidate.biases else learned.temperature


def scope_of(material: Material, counts: Counts, *, biases: bool, durations: bool) -> Scope:
    """Return which candidates the number of subjects and nights allows."""
    n_groups, n_nights = len(material.groups), len(material.nights)
    return Scope(
        tuned=n_groups >= FEWEST_TUNED_SUBJECTS,
        match=n_groups >= FEWEST_TUNED_SUBJECTS and n_nights >= FEWEST_MATCH_NIGHTS,
        minimum=bool(counts.minimum_epochs()),
        durations=durations,
        biases=biases,
        has_rem=material.scheme.rem is not None,
        has_totals=material.scheme.wake is not None or material.scheme.rem is not None,
    )


def _stager_fi(material: Material) -> float | None:
    """Return the median fragmentation index of the stager's argmax, as a profile takes it."""
    known = [night.stager_fi for night in material.nights if not math.isnan(night.stager_fi)]
    return _target(float(np.median(known))) if known else None


def _rows(names: tuple[str, ...], matrix: Floats) -> dict[str, dict[str, float]]:
    rows = [dict(zip(names, _rounded(row), strict=True)) for row in matrix]
    return dict(zip(names, rows, strict=True))


def _rounded(values: Any, digits: int = 6) -> tuple[float, ...]:
    return tuple(float(f"{value:.{digits}g}") for value in values)


def _rounded_down(values: Any, digits: int = 6) -> tuple[float, ...]:
    """Return numbers that do not sum to more than they did; the last one stays above 0."""
    shares = [math.floor(float(value) * 10**digits) / 10**digits for value in values]
    return (*shares[:-1], max(shares[-1], 10.0**-digits))


def _target(fi: float) -> float:
    """Return a fragmentation index as a profile takes it: above 0."""
    return float(f"{min(max(fi, 1e-4), 1.0):.4g}")
