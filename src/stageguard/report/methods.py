"""The facts of the Methods paragraph, of one decoded night or of many; its sentences are in a template.

Each part of a profile that can change a stage has its sentence in ``templates/methods.txt.j2``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError
from stageguard.guard.decoding import CITATION, STEERING, Decoding
from stageguard.measures.bouts import period_for
from stageguard.measures.cohort import DecodedFacts
from stageguard.measures.statistics import LONGEST_NIGHT_HOURS, is_of_days, lights_words, longest_sleep_words
from stageguard.night.hypnodensity import FromLabels
from stageguard.night.period import APART_MINUTES, ASLEEP_MINUTES, WINDOW_MINUTES, Period
from stageguard.night.quantities import NIGHT
from stageguard.night.timing import Moment
from stageguard.profile.profile import OFF, Profile
from stageguard.profile.rules import HIGHEST_AIM, YIELDING_WEIGHT
from stageguard.report.page import templates
from stageguard.report.words import NO_DOUBT, people_words, ties_words, why_not_smoothed
from stageguard.version import __version__

if TYPE_CHECKING:
    import jinja2

NO_LIGHTS: tuple[Moment | None, Moment | None] = (None, None)
SMOOTHED = ("fixed", "lowered", "raised then lowered", "nearest")  # steps in which transitions count
RAISED = ("raised", "raised then lowered")
EVIDENCE: Mapping[FromLabels | None, str] = {
    None: "stage probabilities",
    "typical": "labels, softened by the typical confusions of published networks,",
    "own": "labels, softened by the stager's own confusions on scored nights,",
}


@dataclass(frozen=True, slots=True)
class CohortFact:
    """A night of a cohort as its Methods paragraph needs it; the fragmentation index is before and after."""

    profile: Profile
    epoch_seconds: float
    decoded: DecodedFacts
    fragmentation: tuple[float, float]
    is_between_lights: bool = False  # whether its measures are
    n_epochs: int = 0


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
    facts = [
        CohortFact(
            night.profile,
            night.epoch_seconds,
            DecodedFacts.of(night),
            _fragmentation(night, period_for(night, night.profile)),
            n_epochs=night.hypnogram.n_epochs,
        )
        for night in decodings
    ]
    stagers = {night.stager for night in decodings}
    n_subjects = None if subjects is None else len(set(subjects))
    return cohort_methods(facts, n_subjects, stagers.pop() if len(stagers) == 1 else None)


def night_methods(decoding: Decoding, lights: tuple[Moment | None, Moment | None] = NO_LIGHTS) -> str:
    """Return the paragraph of one night, measured between lights if they are given."""
    profile, strength, night = decoding.profile, decoding.strength, decoding.night
    n_epochs, decoded = decoding.hypnogram.n_epochs, DecodedFacts.of(decoding)
    is_off = strength.asked == OFF
    acts = not is_off and not decoding.is_free
    own = {
        "profile": profile,
        "seconds": decoding.epoch_seconds,
        "evidence": EVIDENCE[decoding.from_labels],
        "stager": decoding.stager,
        "is_off": is_off,
        "is_aside": decoding.is_free and not is_off and night.calibration is None and night.clock is None,
        "acts": acts,
        "weighs": not is_off,
        "shows_rule": acts and not strength.is_of_labels,
        "lifts": strength.lifting == "tried",
        "shows_path": acts and strength.step in SMOOTHED,
    }
    period = period_for(decoding, profile, lights)
    before, after = _fragmentation(decoding, period)
    bounds = [f"after lights off (epoch {night.lights_off + 1:,})"] * (night.lights_off > 0)
    bounds += [] if night.lights_on is None else [f"before lights on (epoch {night.lights_on + 1:,})"]
    is_period = profile.measures_sleep_period
    return paragraph(
        [own],
        [decoded],
        night=decoding,
        measures_period=is_period,
        period=period if is_period else None,
        bounds=bounds if is_period and lights == NO_LIGHTS else [],  # other lights are said later
        fragmentation=None if math.isnan(before) else (f"{before:.3f}", f"{after:.3f}"),
        lights=lights_words(decoding.hypnogram, *lights),
        is_long=lights == NO_LIGHTS and _is_long(n_epochs, decoding.epoch_seconds, decoded),
        is_steered=strength.steers,
    )


def cohort_methods(
    nights: Sequence[CohortFact], n_subjects: int | None = None, stager: str | None = None
) -> str:
    """Return the paragraph of many nights; of several profiles, each is described."""
    decoded = [night.decoded for night in nights]
    profiles = []
    for night in {(each.profile.sha256, each.epoch_seconds): each for each in nights}.values():
        profile = night.profile
        gave = dict.fromkeys(
            each.decoded.from_labels for each in nights if each.profile.sha256 == profile.sha256
        )
        unsmoothed = {"typical"} if profile.strength is not None and not profile.smooths_labels else set()
        own = {
            "profile": profile,
            "seconds": night.epoch_seconds,
            "evidence": " and ".join(EVIDENCE[each] for each in gave),
            "stager": stager,
            "weighs": True,
            "shows_rule": bool(gave.keys() - unsmoothed),
            "shows_path": bool(gave.keys() - unsmoothed),
            "lifts": any(each.step in RAISED for each in decoded),
            "not_smoothed": bool(gave.keys() & unsmoothed),
        }
        profiles.append(own)
    smoothed = [each.transition_weight for each in decoded if each.step in SMOOTHED]
    n_off, n_on = sum(each.has_lights_off for each in decoded), sum(each.has_lights_on for each in decoded)
    given = [f"Lights off was given for {n_off:,}"] * (n_off > 0)
    given += [f"{'lights on' if n_off else 'Lights on was given'} for {n_on:,}"] * (n_on > 0)
    before, after = (np.array([night.fragmentation[i] for night in nights]) for i in (0, 1))
    within = [night for night in nights if not night.is_between_lights]
    cohort = {
        "n_nights": len(nights),
        "people": "" if n_subjects is None else f" of {people_words(n_subjects)}",
        "n_smoothed": len(smoothed),
        "weight": median_range(smoothed, ".3g"),
        "n_raised": sum(each.step in RAISED for each in decoded),
        "n_gappy": sum(each.n_unscored > 0 for each in decoded),
        "shares": median_range([100 * each.n_changed / max(1, each.n_scored) for each in decoded], ".1f"),
        "lights": " and ".join(given),
        "n_between": len(nights) - len(within),
    }
    return paragraph(
        profiles,
        decoded,
        cohort=cohort,
        measures_period=any(night.profile.measures_sleep_period for night in nights),
        fragmentation=None
        if np.isnan(before).all()
        else (median_range(before, ".3f"), median_range(after, ".3f")),
        is_long=any(_is_long(night.n_epochs, night.epoch_seconds, night.decoded) for night in within),
        is_steered=any(each.step in STEERING for each in decoded),
    )


def paragraph(
    profiles: Sequence[Mapping[str, Any]], decoded: Sequence[DecodedFacts], *, is_long: bool, **facts: Any
) -> str:
    """Return the sentences of the template for some facts, as one paragraph."""
    of = f"recordings of {LONGEST_NIGHT_HOURS:g} h or more"
    counts = ("n_scored", "n_changed", "n_unscored")
    known = {
        "profiles": [{**NO_PART, **own} for own in profiles],
        "latencies": dict(pair for own in profiles for pair in _latencies(own["profile"])),
        "longest_sleep": longest_sleep_words(of) if is_long else "",
        "ties": ties_words(sum(each.n_ties for each in decoded)),
    }
    known |= {name: sum(getattr(each, name) for each in decoded) for name in counts}
    return " ".join(_template().render(OPTIONAL | CONSTANTS | known | facts).split())


@cache
def _template() -> jinja2.Template:
    # line breaks after blocks stay, because they part sentences
    return templates().overlay(trim_blocks=False).get_template("methods.txt.j2")


NO_PART: Mapping[str, Any] = dict.fromkeys(("is_off", "is_aside", "acts", "not_smoothed"), False)
OPTIONAL = {"night": None, "cohort": None, "period": None, "bounds": (), "lights": ""}
CONSTANTS = {
    "version": __version__,
    "citation": CITATION,
    "no_doubt": NO_DOUBT,
    "highest_aim": HIGHEST_AIM,
    "yielding_weight": YIELDING_WEIGHT,
    "asleep_minutes": ASLEEP_MINUTES,
    "window_minutes": WINDOW_MINUTES,
    "apart_minutes": APART_MINUTES,
    "why_not_smoothed": why_not_smoothed,
    "held_back": lambda clock: [stage for stage, curve in clock.curves.items() if curve[0] < 0],
}


def _fragmentation(decoding: Decoding, period: Period) -> tuple[float, float]:
    """Return the fragmentation index of a period before and after, as the tables show it."""
    index = decoding.night.fragmentation_index
    return index(decoding.argmax, period), index(decoding.hypnogram.labels, period)


def _is_long(n_epochs: int, seconds: float, decoded: DecodedFacts) -> bool:
    return is_of_days(n_epochs, seconds) and not decoded.has_lights


def _latencies(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield the latencies that tables report, and their definitions."""
    for quantity in NIGHT:
        is_known = profile.scheme.rem is not None or "REM" not in quantity.title
        if quantity.is_latency and "cohort" in quantity.shown and is_known:
            yield quantity.title, quantity.definition


def median_range(values: Sequence[float] | Floats, form: str) -> str:
    """Return the median and the range of some numbers, or the one number that all of them are."""
    known = np.array([value for value in values if not math.isnan(value)])
    if not len(known):
        return ""
    low, middle, high = (format(float(end), form) for end in np.percentile(known, (0, 50, 100)))
    return middle if low == high else f"{middle} (median; range {low} to {high})"
