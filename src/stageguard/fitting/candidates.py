"""What a fit learns from training nights, and the ways to guard that it compares: a profile for each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from stageguard.arrays import Floats, Labels
from stageguard.fitting.calibration import ScoredEpochs, fit_calibration, totals_biases
from stageguard.fitting.nights import Nights
from stageguard.fitting.tune import can_be_tuned, fragmentation_aim, tune_rules
from stageguard.guard.automaton import rescale_transitions
from stageguard.guard.night import fragmentation_index
from stageguard.measures.bouts import pair_counts
from stageguard.night.stages import StageScheme
from stageguard.profile.parts import Calibration
from stageguard.profile.profile import Profile
from stageguard.profile.rules import FEWEST_NIGHTS, MatchRule

FEWEST_SUBJECTS = 2  # to cross-validate at all
FEWEST_MATCHED_SUBJECTS = 5  # to aim at the fragmentation that experts show on these people
MANY_NIGHTS = 15  # scored nights of a cohort, to trust their mean fragmentation and stage shares

# Rows of the base profile count as this many epochs, a twentieth of them spread evenly, so that a switch
# which nobody happened to score is rare and not forbidden.
BASE_EPOCHS = 20.0
EVEN_SHARE = 0.05
SMOOTHING = "rows of the base profile count as 20 epochs, a twentieth of them spread evenly"
_DIGITS = 6  # of fitted numbers in a profile
_TAKEN_FROM_BASE = ("name", "species", "scheme", "stages", "wake", "rem")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to guard: ``argmax`` (no guard), ``default`` (as without scored nights), or the rule ``match``.

    All but the default are calibrated: with a temperature, and perhaps with biases.
    """

    rule: Literal["argmax", "default", "match"]
    shares: float = 0.0  # exponent of the experts' stage shares, by which the evidence is divided
    rem_epochs: int = 1  # shortest bout of REM
    totals: float = 0.0  # share of the biases that bring argmax to the experts' stage totals
    biases: bool = False  # whether the likeliest stage biases are applied besides the temperature

    @property
    def name(self) -> str:
        """Its name in tables."""
        totals = "stage totals" if self.totals == 1.0 else f"stage totals by {self.totals:g}"
        shifted = "stage biases" if self.biases else totals if self.totals else ""
        if self.rule != "match":
            return f"{shifted} alone" if shifted else "the default" if self.rule == "default" else self.rule
        rem = f"REM from {self.rem_epochs} epochs" if self.rem_epochs > 1 else ""
        shares = f"stage shares by {self.shares:g}" if self.shares else ""
        return ", ".join(filter(None, ("match", rem, shares, shifted)))


ARGMAX, DEFAULT = Candidate("argmax"), Candidate("default")
_SHIFTS: tuple[dict[str, Any], ...] = ({"totals": 0.5}, {"totals": 1.0}, {"biases": True})


def candidates_for(n_nights: int, n_subjects: int, scheme: StageScheme) -> tuple[Candidate, ...]:
    """Return what so many nights allow to compare, argmax and the default first, then the plainest first."""
    shifts = [shift for shift in _SHIFTS if "biases" in shift or scheme.wake or scheme.rem]
    found = [ARGMAX, DEFAULT]
    matched = n_nights >= MANY_NIGHTS and n_subjects >= FEWEST_MATCHED_SUBJECTS
    shortest = (1, 3) if scheme.rem is not None else (1,)
    if matched:
        found += [Candidate("match", shares, n) for shares in (0.0, 0.5) for n in shortest]
    found += [Candidate("argmax", **shift) for shift in shifts]
    if matched:
        found += [Candidate("match", 0.0, n, **shift) for shift in shifts for n in shortest]
    return tuple(found)


@dataclass(frozen=True)
class FitBase:
    """The base profile, and what all candidates take from it, at the nights' epoch length."""

    profile: Profile
    epoch_seconds: float
    cohort: str | None = None
    stager: str | None = None

    @property
    def ratio(self) -> float:
        """How many times as long the nights' epochs are as the profile's."""
        return self.epoch_seconds / self.profile.epoch_seconds

    @cached_property
    def transitions(self) -> Floats:
        """The base profile's transitions."""
        return rescale_transitions(np.array(self.profile.transitions), self.ratio)

    @cached_property
    def bare(self) -> Profile:
        """Stages, transitions and the stager's errors all night, and no rule at all."""
        document, names = self.profile.to_dict(), self.profile.scheme.names
        rows = [dict(zip(names, rounded(row), strict=True)) for row in self.transitions]
        taken = {key: document[key] for key in _TAKEN_FROM_BASE if key in document}
        taken |= {"epoch_seconds": self.epoch_seconds, "transition_weight": 0.0}
        taken["transitions"] = dict(zip(names, rows, strict=True))
        if self.profile.posterior is not None:
            stay = self.profile.posterior.presleep_stay**self.ratio
            taken["posterior"] = document["posterior"] | {"presleep_stay": stay}
        return Profile.from_dict(taken)

    @cached_property
    def untuned(self) -> Profile:
        """The base profile as the nights are decoded by it, whose cohort it may have a caution for."""
        return self.at_epochs(self.profile)

    def at_epochs(self, profile: Profile) -> Profile:
        """Return the base profile, or one tuned from it, for these nights and at their epoch length."""
        profile = profile.for_nights_of(self.stager, self.cohort)
        profile = replace(profile, stager=None, cohort=None)  # all nights are its own
        if self.ratio == 1.0:
            return profile
        # bands are per epoch, and those of another epoch length mean something else
        changes: dict[str, Any] = {"bands": {}, "joint": None, "epoch_seconds": self.epoch_seconds}
        if profile.strength is not None:
            changes["strength"] = profile.strength.rescaled(self.ratio)
        rows = tuple(rounded(row) for row in self.transitions)
        return replace(profile, transitions=rows, posterior=self.bare.posterior, **changes)


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What training nights taught; each candidate's profile uses a part of it."""

    base: FitBase
    pairs: Floats  # (n_stages, n_stages) adjacent epochs, stays included
    shares: Floats  # (n_stages,) of each stage among scored epochs
    fi: float  # the experts' fragmentation index, plain mean over nights
    stager_fi: float | None  # median of the stager's argmax; None without probabilities
    temperature: Calibration
    biased: Calibration
    totals: tuple[float, ...]  # biases
    impossible_share: float  # of scored epochs, whose true stage has probability 0
    default: Profile

    @property
    def transitions(self) -> tuple[tuple[float, ...], ...]:
        """Transition probabilities, smoothed towards those of the base profile."""
        base = self.base.transitions
        prior = (1.0 - EVEN_SHARE) * base / base.sum(axis=1, keepdims=True) + EVEN_SHARE / len(base)
        smoothed = self.pairs + BASE_EPOCHS * prior
        return tuple(rounded(row) for row in smoothed / smoothed.sum(axis=1, keepdims=True))

    def fi_target(self, n_nights: int) -> float:
        """Return the index to aim at; missing nights up to 15 count as the base profile's."""
        rule = self.base.profile.strength
        if rule is None:
            return fragmentation_aim(self.fi)
        of_base = min(rule.fi_target * self.base.ratio, 1.0)
        if math.isnan(self.fi):
            return fragmentation_aim(of_base)
        share = min(n_nights / MANY_NIGHTS, 1.0)
        return fragmentation_aim(share * self.fi + (1.0 - share) * of_base)

    def profile(self, candidate: Candidate) -> Profile:
        """Return a candidate's profile for a stager's own probabilities."""
        if candidate.rule == "default":
            return self.default
        calibration = self.biased if candidate.biases else self.temperature
        biases = calibration.biases
        if candidate.totals:
            biases = tuple(candidate.totals * bias for bias in self.totals)
        (temperature,) = rounded([calibration.temperature])
        values: dict[str, Any] = {"calibration": Calibration(temperature, biases and rounded(biases))}
        if candidate.rule == "match":
            values["strength"] = MatchRule(fragmentation_aim(self.fi), stager_fi=self.stager_fi)
        if candidate.shares:
            values |= {"prior": rounded(self.shares), "prior_exponent": candidate.shares}
        rem = self.base.profile.scheme.rem
        if candidate.rem_epochs > 1 and rem is not None:
            values["min_bout_seconds"] = {rem: candidate.rem_epochs * self.base.epoch_seconds}
        return replace(self.base.bare, transitions=self.transitions, **values)


def learn(base: FitBase, nights: Nights, like: Lesson | None = None) -> Lesson:
    """Learn from nights; without probabilities the calibration does nothing.

    `like` was learned on mostly the same nights: the search for the calibration begins there.
    """
    profile, n_stages = base.profile, nights.scheme.n_stages
    pairs, n_epochs, indices, of_stager = np.zeros((n_stages, n_stages)), np.zeros(n_stages), [], []

    def fragmentation(labels: Labels) -> float:
        return fragmentation_index(labels, (profile.period_in(labels, nights.epoch_seconds),))

    for night in nights:
        scorings = [scoring.labels for scoring in night.experts]
        pairs += np.mean([pair_counts(labels, n_stages) for labels in scorings], axis=0)
        n_epochs += np.mean([np.bincount(own[own >= 0], minlength=n_stages) for own in scorings], axis=0)
        indices.append(_mean(map(fragmentation, scorings)))
        if night.density is not None:
            of_stager.append(fragmentation(night.density.argmax))
    temperature = biased = Calibration()
    totals, impossible, default = (0.0,) * n_stages, 0.0, base.untuned
    if nights.nights[0].density is not None:
        rows = [night.density.probabilities for night in nights if night.density is not None]
        truths = [night.truth for night in nights]
        epochs = ScoredEpochs(rows, truths)
        impossible = epochs.impossible_share
        temperature = fit_calibration(epochs, biases=False, start=None if like is None else like.temperature)
        biased = fit_calibration(epochs, biases=True, start=like.biased if like else temperature)
        totals = totals_biases(rows, truths, temperature.temperature, nights.scheme)
        default = _default(base, nights)
    known = [index for index in of_stager if not math.isnan(index)]
    return Lesson(
        base=base,
        pairs=pairs,
        shares=(n_epochs + 1.0) / (n_epochs + 1.0).sum(),
        fi=_mean(indices),
        stager_fi=fragmentation_aim(float(np.median(known))) if known else None,
        temperature=temperature,
        biased=biased,
        totals=totals,
        impossible_share=impossible,
        default=default,
    )


def _default(base: FitBase, nights: Nights) -> Profile:
    """Return the base profile as it is used without scored nights: tuned, if the nights are enough."""
    measured = [night.measured for night in nights if night.measured is not None]
    n_usable = sum(not math.isnan(night.stager_fi) for night in measured)
    if n_usable < FEWEST_NIGHTS or not can_be_tuned(base.profile):
        return base.untuned
    tuned, _ = tune_rules(measured, base.profile, nights.whose, base.cohort)
    return base.at_epochs(tuned)


def rounded(values: Iterable[float] | Floats) -> tuple[float, ...]:
    """Return numbers as a profile keeps them, to six digits."""
    return tuple(float(f"{value:.{_DIGITS}g}") for value in values)


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan
