"""The candidates that a fit compares, and how many of them the nights allow."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stageguard.fitting.material import Material
from stageguard.profile.rules import RULES
from stageguard.profile.rules.rule import TRANSITION_WEIGHTS, USUAL, StrengthRule, Trial

FEWEST_SUBJECTS = 2  # to cross-validate at all
FEWEST_TUNED_SUBJECTS = 5  # to choose among many numbers
# Cross-validated gain of kappa that stage biases need with fewer subjects than that: in 48 draws of two
# nights harmful choices promised .036 to .065, helpful ones .105 or more.
FEW_SUBJECTS_GAIN = 0.1
TOTALS = (0.5, 1.0)  # of the way to the experts' totals of wake, NREM and REM
# Candidates without a strength rule of their own: one transition weight for all nights.
WEIGHTED = {
    "argmax": "argmax",
    "default": "the default",
    "fixed": "fixed weight {:g}",
    "minimum": "minimum bouts, weight {:g}",
    "durations": "bout lengths, weight {:g}",
}
# Fewer weights are tried with minimum bouts and tables of bout lengths, which act by themselves.
MINIMUM_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
DURATION_WEIGHTS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
STRENGTH_RULES = sorted(RULES.values(), key=lambda rule: (rule.fewest_nights, rule.fit_rank))


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to guard.

    Its rule is a strength rule of profiles, ``argmax`` (no guard), ``default`` (what is done without scored
    nights), ``fixed`` transition weight, ``minimum`` bouts or explicit ``durations``, the last three with a
    fixed weight.
    """

    rule: str
    weight: float = 0.0  # of transitions, under the last three rules
    trial: Trial = USUAL  # how a strength rule is varied
    biases: bool = False  # whether the likeliest stage biases are applied besides the temperature
    totals: float = 0.0  # share of the biases that bring its outputs to the experts' stage totals
    clock: bool = False  # whether the base profile's clock runs

    @property
    def is_plain(self) -> bool:
        """Whether only fragmentation and stage totals steer it; other candidates must be surely better."""
        is_steered = self.rule in ("argmax", "default") or self.rule in RULES
        return is_steered and not self.trial.prior_exponent and not self.trial.refinement

    @property
    def shifts(self) -> bool:
        """Whether it shifts evidence between stages: few nights say little about that, so kappa must gain."""
        return bool(self.trial.shifts or self.trial.prior_exponent or self.biases or self.totals)

    @property
    def name(self) -> str:
        """Its name in tables."""
        rule = RULES.get(self.rule)
        words = WEIGHTED[self.rule].format(self.weight) if rule is None else rule.trial_name(self.trial)
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
    def usual(self) -> Candidate:
        """The same candidate without the refinement that must be surely better."""
        return replace(self, trial=self.trial._replace(refinement=()))

    @property
    def refinements(self) -> tuple[Candidate, ...]:
        """What else its rule has to try if this candidate is the best."""
        trials = RULES[self.rule].refinements(self.trial) if self.rule in RULES else ()
        return tuple(replace(self, trial=trial) for trial in trials)

    @property
    def with_clock(self) -> tuple[Candidate, ...]:
        """The clock goes with any rule: argmax, the default and this candidate with it."""
        return tuple(replace(plain, clock=True) for plain in dict.fromkeys((ARGMAX, DEFAULT, self)))


ARGMAX = Candidate("argmax")
# The base profile as it is used without scored nights, tuned to the stager where its nights are enough. With
# the base profile's clock, it is what any other candidate must be better than.
DEFAULT = Candidate("default")
BIASES = Candidate("argmax", biases=True)
TOTALS_ALONE = tuple(Candidate("argmax", totals=share) for share in TOTALS)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which candidates the material allows."""

    tuned: bool  # subjects are enough to choose among many numbers
    n_nights: int
    minimum: bool  # experts keep to minimum bouts
    durations: bool  # tables predict bout lengths
    has_rem: bool
    has_totals: bool  # the scheme has wake or REM

    @classmethod
    def of(cls, material: Material, *, durations: bool = False) -> Scope:
        """Return what the number of subjects and nights allows."""
        return cls(
            tuned=len(material.groups) >= FEWEST_TUNED_SUBJECTS,
            n_nights=len(material.nights),
            minimum=bool(material.counts().minimum_epochs()),
            durations=durations,
            has_rem=material.scheme.rem is not None,
            has_totals=material.scheme.wake is not None or material.scheme.rem is not None,
        )

    @property
    def totals_alone(self) -> tuple[Candidate, ...]:
        """Stage totals without any rule."""
        return TOTALS_ALONE if self.tuned and self.has_totals else ()

    def allows(self, rule: type[StrengthRule]) -> bool:
        """Whether the nights are enough for a strength rule; a rule that needs many also needs subjects."""
        return not rule.fewest_nights or (self.tuned and self.n_nights >= rule.fewest_nights)

    def candidates(self, *, biases: bool, totals: bool) -> tuple[Candidate, ...]:
        """Return the candidates, the plainest first: of equals the first is chosen.

        With `biases` each rule is compared with stage biases, too; with `totals` some are with stage totals.
        """
        plain = [ARGMAX, DEFAULT, *self._of_rules(need_many=False)]
        if self.tuned:
            plain += [Candidate("fixed", weight) for weight in TRANSITION_WEIGHTS[1:]]
        if self.tuned and self.minimum:
            plain += [Candidate("minimum", weight) for weight in MINIMUM_WEIGHTS]
        if self.tuned and self.durations:
            plain += [Candidate("durations", weight) for weight in DURATION_WEIGHTS]
        plain += self._of_rules(need_many=True)
        shifted = [*self.totals_alone]
        if totals:
            steered = [one for one in plain if _takes_totals(one) and not one.shifts]
            shifted += [replace(one, totals=share) for one in steered for share in TOTALS]
        if biases:
            shifted += [replace(one, biases=True) for one in plain if one != DEFAULT]
        return (*plain, *shifted)

    def _of_rules(self, *, need_many: bool) -> list[Candidate]:
        """Return the candidates of the strength rules that need many nights, or of the others."""
        return [
            Candidate(rule.rule, trial=trial)
            for rule in STRENGTH_RULES
            if bool(rule.fewest_nights) == need_many and self.allows(rule)
            for trial in rule.trials(has_rem=self.has_rem)
        ]


def _takes_totals(candidate: Candidate) -> bool:
    return candidate.rule in RULES and RULES[candidate.rule].takes_totals
