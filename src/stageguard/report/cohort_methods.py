"""The Methods paragraph of many decoded nights: what was done to all of them, with medians and ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stageguard.base import checks
from stageguard.base.errors import InputError
from stageguard.guard.decoding import CITATION, Decoding
from stageguard.guard.effect import Effect
from stageguard.profile.profile import Profile
from stageguard.report.methods import (
    FI,
    MEASURED_PERIOD,
    SMOOTHED,
    changes,
    clock_evidence,
    fragmentation,
    median_range,
    night_methods,
    not_results,
    opening,
    origin,
    path_rules,
    rem_latency,
    strength_rule,
    was,
    weights,
)
from stageguard.report.numbers import count, sentence

RAISED = ("raised", "raised then lowered")


def methods_text(nights: Decoding | Sequence[Decoding], *, subjects: Sequence[str] | None = None) -> str:
    """Return a Methods paragraph to paste into a paper, with the citation.

    Parameters
    ----------
    nights : Decoding or sequence of Decoding
        One decoded night, or those of a cohort that were decoded with one profile.
    subjects : sequence of str, optional
        Whose each night is, to say how many people were recorded.

    Examples
    --------
    >>> import stageguard as sg
    >>> made = [sg.simulate_night("human-psg-5", hours=2, seed=seed) for seed in range(3)]
    >>> text = sg.methods_text([sg.decode(night.density, "human-psg-5") for night in made])
    >>> text.partition("(")[0]
    '3 nights were decoded. Sleep was staged in 30-s epochs '
    """
    if isinstance(nights, Decoding):
        return night_methods(nights)
    decodings = list(nights)
    if not decodings or not all(isinstance(night, Decoding) for night in decodings):
        raise InputError(f"nights are {checks.shown(nights)}, expected decoded nights, one or more.")
    if subjects is not None and len(subjects) != len(decodings):
        got = f"got {len(subjects)} subjects for {len(decodings)} nights"
        raise InputError(f"{got}, expected one subject per night.")
    first = decodings[0]
    facts = [
        CohortFact(night.profile, night.epoch_seconds, Effect.of(night), fragmentation(night))
        for night in decodings
    ]
    stagers = {night.stager for night in decodings}
    n_subjects = None if subjects is None else len(set(subjects))
    return cohort_methods(facts, n_subjects, first.stager if len(stagers) == 1 else None)


@dataclass(frozen=True, slots=True)
class CohortFact:
    """A night of a cohort as its Methods paragraph needs it; the fragmentation index is before and after."""

    profile: Profile
    epoch_seconds: float
    effect: Effect
    fragmentation: tuple[float, float]
    is_between_lights: bool = False  # whether its measures are


def cohort_methods(
    nights: Sequence[CohortFact], n_subjects: int | None = None, stager: str | None = None
) -> str:
    """Return the paragraph of many nights; of several profiles, each is described."""
    lifts = any(night.effect.step in RAISED for night in nights)
    by_profile = {(night.profile.sha256, night.epoch_seconds): night for night in nights}
    people = "" if n_subjects is None else f" of {count(n_subjects, 'person').replace('persons', 'people')}"
    parts = [f"{count(len(nights), 'night')}{people} {was(len(nights))} decoded."]
    for night in by_profile.values():
        profile, seconds = night.profile, night.epoch_seconds
        parts += [
            opening(profile, seconds, stager),
            *origin(profile),
            *weights(profile),
            *strength_rule(profile, lifts=lifts),
        ]
        parts += [*path_rules(profile, seconds), *clock_evidence(profile, ran=True), *rem_latency(profile)]
    parts += _cohort_strengths([night.effect for night in nights])
    parts += _cohort_epochs(nights)
    parts.append(
        changes([night.effect for night in nights], [night.profile for night in by_profile.values()])
    )
    parts += _cohort_periods(nights)
    before, after = (np.array([night.fragmentation[i] for night in nights]) for i in (0, 1))
    if not np.isnan(before).all():
        parts.append(
            f"The {'fragmentation index' if nights[0].profile.strength else FI} was "
            f"{median_range(before, '.3f')} before and {median_range(after, '.3f')} after decoding."
        )
    is_steered = any(night.effect.step not in ("fixed", "untouched", "hard") for night in nights)
    parts += not_results(nights[0].profile, is_steered)
    return " ".join([*parts, f"{CITATION}."])


def _cohort_strengths(effects: Sequence[Effect]) -> Iterator[str]:
    """Say how many nights were smoothed, and how strongly."""
    smoothed = [each for each in effects if each.step in SMOOTHED]
    raised = sum(each.step in RAISED for each in effects)
    if smoothed:
        weight = median_range(np.array([each.transition_weight for each in smoothed]), ".3g")
        yield (
            f"{len(smoothed):,} of {count(len(effects), 'night')} {was(len(smoothed))} smoothed, with a "
            f"transition weight of {weight}."
        )
    else:
        yield f"None of {count(len(effects), 'night')} was smoothed."
    if raised:
        yield f"In {count(raised, 'night')} minority stages were weighted up."


def _cohort_epochs(nights: Sequence[CohortFact]) -> Iterator[str]:
    """Say how many epochs are unscored, and how many nights taught the profile."""
    unscored = [night.effect.n_unscored for night in nights if night.effect.n_unscored]
    if unscored:
        yield (
            f"{count(sum(unscored), 'epoch')} without probabilities for more than five minutes, in "
            f"{count(len(unscored), 'night')}, {was(sum(unscored))} left unscored."
        )
    n_taught = sum(night.effect.is_taught for night in nights)
    if n_taught:
        yield (
            f"The profile was fitted to {n_taught:,} of these {count(len(nights), 'night')}, among others: "
            "agreement with their experts is no test."
        )


def _cohort_periods(nights: Sequence[CohortFact]) -> Iterator[str]:
    """Say in which part of the nights fragmentation was measured, and for how many lights were given."""
    measures_period = any(night.profile.measures_sleep_period for night in nights)
    if measures_period:
        yield f"{MEASURED_PERIOD}."
    n_off = sum(night.effect.has_lights_off for night in nights)
    n_on = sum(night.effect.has_lights_on for night in nights)
    given = [f"lights off was given for {n_off:,}"] * (n_off > 0)
    given += [f"lights on {'' if n_off else 'was given '}for {n_on:,}"] * (n_on > 0)
    if given:
        did = "the sleep period was looked for within lights" if measures_period else (
            "sleep before lights off was not taken for sleep onset"
        )  # fmt: skip
        yield sentence(f"{' and '.join(given)} of {count(len(nights), 'night')}: {did}")
    n_between = sum(night.is_between_lights for night in nights)
    if n_between:
        yield f"{count(n_between, 'night')} {was(n_between)} measured between lights."
