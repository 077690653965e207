"""The Methods paragraph of many decoded nights: what was done to all of them, with medians and ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stageguard.base import checks
from stageguard.base.errors import InputError
from stageguard.base.records import dataclass
from stageguard.guard.decoding import CITATION, Decoding
from stageguard.guard.effect import Effect
from stageguard.profile.profile import Profile
from stageguard.report.methods import (
    FI,
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
from stageguard.report.numbers import count

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
    parts.append(changes([night.effect for night in nights]))
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
