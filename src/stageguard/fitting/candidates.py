"""The candidates that a fit compares, and how many of them the nights allow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from stageguard.fitting.material import Material
from stageguard.profile.rules.rule import TRANSITION_WEIGHTS

Rule = Literal["argmax", "target", "band", "fixed", "minimum", "durations", "match"]

FEWEST_SUBJECTS = 2  # to cross-validate at all
FEWEST_TUNED_SUBJECTS = 5  # to choose among many numbers
# Cross-validated gain of kappa that stage biases need with fewer subjects than that: in 48 draws of two
# nights harmful choices promised .036 to .065, helpful ones .105 or more.
FEW_SUBJECTS_GAIN = 0.1
FEWEST_MATCH_NIGHTS = 15  # to trust their mean fragmentation and stage shares
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
    def unbiased(self) -> Candidate:
        """The same candidate for evidence to which biases are added already."""
        return replace(self, biases=False, totals=0.0)

    @property
    def unweighted(self) -> Candidate:
        """The same candidate without stage shares and biases, which belong to one cohort."""
        return replace(self.unbiased, prior_exponent=0.0, exponent=HALF)

    @property
    def usual(self) -> Candidate:
        """The same candidate with the usual exponent, which another one must be surely better than."""
        return replace(self, exponent=HALF)

    @property
    def with_other_exponents(self) -> tuple[Candidate, ...]:
        """The other exponents that are worth a trial if this candidate is the best: `match` has some."""
        exponents = OTHER_EXPONENTS if self.rule == "match" else ()
        return tuple(replace(self, exponent=exponent) for exponent in exponents)

    @property
    def with_clock(self) -> tuple[Candidate, ...]:
        """The clock goes with any rule: argmax, this candidate's form for other cohorts, itself, with it."""
        return tuple(replace(each, clock=True) for each in dict.fromkeys((ARGMAX, self.unweighted, self)))


ARGMAX = Candidate("argmax")
BIASES = Candidate("argmax", biases=True)
TOTALS_ALONE = tuple(Candidate("argmax", totals=share) for share in TOTALS)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which candidates the material allows."""

    tuned: bool  # subjects are enough to choose among many numbers
    match: bool  # nights are enough to trust their mean fragmentation and stage shares
    minimum: bool  # experts keep to minimum bouts
    durations: bool  # tables predict bout lengths
    has_rem: bool
    has_totals: bool  # the scheme has wake or REM

    @classmethod
    def of(cls, material: Material, *, durations: bool = False) -> Scope:
        """Return what the number of subjects and nights allows."""
        n_groups, n_nights = len(material.groups), len(material.nights)
        return cls(
            tuned=n_groups >= FEWEST_TUNED_SUBJECTS,
            match=n_groups >= FEWEST_TUNED_SUBJECTS and n_nights >= FEWEST_MATCH_NIGHTS,
            minimum=bool(material.counts().minimum_epochs()),
            durations=durations,
            has_rem=material.scheme.rem is not None,
            has_totals=material.scheme.wake is not None or material.scheme.rem is not None,
        )

    @property
    def totals_alone(self) -> tuple[Candidate, ...]:
        """Stage totals without any rule."""
        return TOTALS_ALONE if self.tuned and self.has_totals else ()

    def candidates(self, *, biases: bool, totals: bool) -> tuple[Candidate, ...]:
        """Return the candidates, the plainest first: of equals the first is chosen.

        With `biases` each rule is compared with stage biases, too; with `totals` some are with stage totals.
        """
        shortest_rem = MATCH_REM_EPOCHS if self.has_rem else (1,)
        plain = [ARGMAX, Candidate("target"), Candidate("band"), Candidate("band", lift=True)]
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
        shifted = [*self.totals_alone]
        if totals:
            steered = [each for each in plain if each.rule in ("band", "match") and not each.shifts]
            shifted += [replace(each, totals=share) for each in steered for share in TOTALS]
        if biases:
            shifted += [replace(each, biases=True) for each in plain]
        return (*plain, *shifted)
