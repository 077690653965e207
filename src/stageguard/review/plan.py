"""How far a review is from its targets, and what to look at next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from stageguard.arrays import NAN
from stageguard.errors import InputError
from stageguard.measures.intervals import why_withheld
from stageguard.night.timing import lights_window
from stageguard.review.night import GuardResult, NightUnderReview, guard_anyway
from stageguard.review.state import ReviewState
from stageguard.review.targets import Answers, Look, Reach, default_units, looks_of, reach_of


@dataclass(frozen=True, slots=True)
class Start:
    """A night before the first answer: its intervals, and why none are promised, if so."""

    reached: Mapping[str, Reach]
    withheld: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The targets of a review, how near they are, and what to look at next."""

    targets: Mapping[str, float]  # empty if all statistics count in units of one expert's error
    looks: tuple[Look, ...]  # the most valuable first
    reached: Mapping[str, Reach]  # each statistic now
    start: Mapping[str, Reach]  # and before the first answer
    withheld: str  # why nothing can be promised of this night; else empty
    n_looks: int  # stretches that were looked at

    @property
    def is_met(self) -> bool:
        """Whether every target is met, and there is one."""
        return bool(self.targets) and all(self.reached[key].is_met for key in self.targets)

    @property
    def lack(self) -> float:
        """How many times too far off the statistic is that lacks most; 1 or less if all targets are met."""
        ratios = [
            max(each.value - each.low, each.high - each.value) / self.targets[key]
            for key, each in self.reached.items()
            if key in self.targets
        ]
        return float(np.nanmax(ratios)) if ratios and not np.isnan(ratios).all() else NAN


def check_profile(night: NightUnderReview, state: ReviewState) -> None:
    """Refuse targets under a profile whose draws promise nothing."""
    profile = night.profile_for(state.settings)
    if profile.posterior is None:
        raise InputError(
            f"profile {profile.name!r} has no posterior rules, so that no target can be promised. Use a "
            "profile that has, such as human-psg-5."
        )
    if not state.targets and not default_units(night.scheme, night.density.epoch_seconds):
        raise InputError(
            f"how far experts differ is not known of the stages {', '.join(night.scheme.names)} in epochs "
            f"of {night.density.epoch_seconds:g} s: name a target."
        )


def start_of(night: NightUnderReview, state: ReviewState) -> Start:
    """Return a night before the scorer's first answer, under the current settings."""
    result = guard_anyway(night, replace(state, pins=state.first_pins))
    if result.decoding is None or result.decoding.profile.posterior is None:
        return Start({})
    answers = answers_of(night, replace(state, pins=state.first_pins), result)
    return Start(reach_of(answers, answers.draws(), {}), why_withheld(result.decoding))


def answers_of(night: NightUnderReview, state: ReviewState, result: GuardResult) -> Answers:
    """Return a decoded night with the scorer's decisions as answers."""
    assert result.decoding is not None
    seen = np.zeros(night.n_epochs, dtype=bool)
    seen[list(state.pins)] = True
    bed = lights_window(night.hypnogram(result.labels), *night.statistics.lights)
    return Answers(result.decoding, result.labels, seen, bed)


def plan_of(night: NightUnderReview, state: ReviewState, result: GuardResult, start: Start) -> Plan | None:
    """Return the plan under a person's decisions; None without targets, evidence or posterior rules."""
    if state.targets is None or result.decoding is None or result.decoding.profile.posterior is None:
        return None
    answers = answers_of(night, state, result)
    drawn = answers.draws()
    units = state.targets or default_units(night.scheme, night.density.epoch_seconds)
    reached: Mapping[str, Reach] = reach_of(answers, drawn, state.targets)
    before = start.reached
    if start.withheld:
        reached, before = ({key: _withheld(each) for key, each in one.items()} for one in (reached, before))
    looks = looks_of(answers, drawn, units)
    return Plan(state.targets, looks, reached, before, start.withheld, n_looks(state))


def _withheld(reach: Reach) -> Reach:
    return replace(reach, low=NAN, high=NAN, is_met=False)


def n_looks(state: ReviewState) -> int:
    """Return how many stretches were looked at: decisions about touching epochs in a row are one look."""
    count, before = 0, (-2, -2)
    for step in state.done:
        if not step.pins:
            continue
        here = min(step.pins), max(step.pins)
        if here[0] > before[1] + 1 or here[1] < before[0] - 1:
            count += 1
        before = here
    return count
