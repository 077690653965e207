"""The Methods paragraph of a paper, made from the facts of one decoded night or of many.

Each part of a profile that can change a stage has its sentence here; a test switches every part on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stageguard.base.version import __version__
from stageguard.guard.decoding import CITATION, Decoding
from stageguard.guard.effect import Effect
from stageguard.guard.strength import YIELDING_WEIGHT, Strength
from stageguard.measures.bouts import cuts_of, hypnogram_before
from stageguard.measures.day import lights_words
from stageguard.measures.estimates import (
    EXPECTED_REM_SECONDS,
    LITTLE_REM,
    N_DRAWS,
    default_of_rem_latency,
)
from stageguard.measures.period import period_for
from stageguard.measures.statistics import FIRST_REM_SECONDS
from stageguard.measures.validity import validity_of
from stageguard.night.moments import Moment
from stageguard.night.period import APART_MINUTES, ASLEEP_MINUTES, WINDOW_MINUTES
from stageguard.profile.estimators import REM_LATENCY
from stageguard.profile.profile import OFF, Profile
from stageguard.report.numbers import count

NO_LIGHTS: tuple[Moment | None, Moment | None] = (None, None)
FI = "fragmentation index (stage changes per pair of adjacent scored epochs)"
SMOOTHED = ("fixed", "lowered", "raised then lowered", "nearest")  # steps in which transitions count

MEASURED_PERIOD = (
    "Fragmentation was measured in the sleep period, from the first to the last lasting sleep "
    f"({ASLEEP_MINUTES:g} of {WINDOW_MINUTES:g} min asleep) in the most probable stages, of sleeps more "
    f"than {APART_MINUTES / 60:g} h apart the longest"
)
MADE_BY = {
    "pin": "by stages given by hand",
    "biases": "by the stage biases",
    "stage weights": "by the weighting of stages",
    "clock": "by the clock",
    "path": "by transition probabilities",
}
_ONSET = "REM latency is the time from sleep onset to"
_LASTING = f"the first REM bout of {FIRST_REM_SECONDS / 60:g} min or longer"
_EXPECTED = f"{EXPECTED_REM_SECONDS / 60:g} min"
REM_LATENCIES = {
    "path": f"{_ONSET} the first epoch of REM.",
    "bout": f"{_ONSET} {_LASTING}.",
    "clock": f"{_ONSET} {_LASTING}, in the night decoded under the full clock (weight 1).",
    "expected": f"{_ONSET} the moment by which {_EXPECTED} of REM are expected under the full clock.",
    "draws": f"REM latency is the median, over {N_DRAWS} draws from the posterior, of the time from sleep "
    "onset to the first epoch of REM.",
}


def night_methods(decoding: Decoding, lights: tuple[Moment | None, Moment | None] = NO_LIGHTS) -> str:
    """Return the paragraph of one night, measured between lights if they are given."""
    profile, seconds = decoding.profile, decoding.epoch_seconds
    parts = [opening(profile, seconds, decoding.stager), *origin(profile)]
    if decoding.strength.asked == OFF:
        parts.append("The guard was switched off: every epoch keeps the stager's most probable stage.")
    elif decoding.is_free:
        if decoding.night.calibration is None and decoding.night.clock is None:
            parts.append("The profile stepped aside: it has no rule that changes a stage.")
        parts += [*weights(profile), *clock_evidence(profile, ran=decoding.night.clock is not None)]
    else:
        parts += [
            *weights(profile),
            *strength_rule(profile, lifts=decoding.strength.lifting == "tried"),
            *_night_strength(decoding),
        ]
        if decoding.strength.step in SMOOTHED:
            parts += path_rules(profile, seconds)
        parts += clock_evidence(profile, ran=decoding.night.clock is not None)
    parts += [*_about_epochs(decoding), *_left_out(decoding), changes([Effect.of(decoding)], [profile])]
    parts += _night_period(decoding, lights)
    before, after = fragmentation(decoding, lights)
    if not math.isnan(before):
        name = "fragmentation index" if profile.strength else FI
        parts.append(f"The {name} was {before:.3f} before and {after:.3f} after decoding.")
    if words := lights_words(decoding.hypnogram, *lights):
        parts.append(f"The night was measured between lights: {words}.")
    parts += [*rem_latency(profile, decoding), *not_results(profile, decoding.strength.steers)]
    return " ".join([*parts, f"{CITATION}."])


def fragmentation(
    decoding: Decoding, lights: tuple[Moment | None, Moment | None] = NO_LIGHTS
) -> tuple[float, float]:
    """Return the fragmentation index before and after, as the tables show it."""
    nights = hypnogram_before(decoding), decoding.hypnogram
    profile, cuts = decoding.profile, cuts_of(decoding)
    period = period_for(decoding, profile, lights)
    before, after = (validity_of(night, profile, period, cuts).fragmentation_index for night in nights)
    return before, after


# Of the profile


def opening(profile: Profile, seconds: float, stager: str | None) -> str:
    """Name stages, stager, software and profile."""
    stages = ", ".join(profile.scheme.names)
    who = "an automatic stager" if stager is None else stager
    converted = ""
    if seconds != profile.epoch_seconds:
        converted = f", whose numbers were converted from {profile.epoch_seconds:g}-s epochs"
    method = "the published method, " if profile.reproduces_paper else ""
    return (
        f"Sleep was staged in {seconds:g}-s epochs ({stages}) from the stage probabilities of {who}, "
        "decoded with "
        f"StageGuard {__version__} ({method}profile {profile.name}, SHA-256 "
        f"{profile.sha256[:12]}{converted})."
    )


def origin(profile: Profile) -> Iterator[str]:
    """Say on which nights the profile was fitted, tuned or counted."""
    known: Mapping[str, Any] = profile.provenance
    nights = _nights(known)
    base = known.get("base")
    start = f", starting from {base['name']}" if isinstance(base, Mapping) and "name" in base else ""
    rows = known.get("cross_validation", {})
    if "cross_validation" in known:
        candidates = (
            f" of {len(rows['rows'])} candidates" if isinstance(rows, Mapping) and "rows" in rows else ""
        )
        chosen = f" ({known['chosen']})" if "chosen" in known else ""
        yield (
            f"The profile had been fitted to {nights or 'scored nights'}{start}; its settings{chosen} "
            "were chosen by "
            f"cross-validation{candidates}."
        )
    elif "flickers" in known:
        yield f"The profile had been tuned to {nights or 'nights'} without scorings{start}."
    elif nights:
        scorings = known.get("n_scorings")
        of = f"{count(scorings, 'expert scoring')} of " if isinstance(scorings, int) else ""
        yield f"Its numbers had been counted on {of}{nights}{start}."
    if profile.cohort is not None:
        yield f"It was fitted on the cohort “{profile.cohort}”."
    if profile.stager is not None:
        yield f"It belongs to the stager “{profile.stager}”."


def _nights(known: Mapping[str, Any]) -> str:
    n_nights, n_subjects = known.get("n_nights"), known.get("n_subjects")
    if not isinstance(n_nights, int):
        return ""
    people = "" if not isinstance(n_subjects, int) else f" of {n_subjects:,} sleeper{'s' * (n_subjects != 1)}"
    return count(n_nights, "night") + people


def weights(profile: Profile) -> Iterator[str]:
    """Say what moves the evidence of every epoch alike."""
    calibration, names = profile.calibration, profile.scheme.names
    if calibration.temperature != 1.0:
        yield f"Log-probabilities were divided by a temperature of {calibration.temperature:.3g}."
    if calibration.biases:
        yield f"Stage biases were added to them: {_by_stage(names, calibration.biases, '+.3g')} nats."
    if profile.prior_exponent and profile.prior is not None:
        yield (
            "The evidence for each stage was divided by the stage's share "
            f"({_by_stage(names, profile.prior, '.3g')}) to the power of {profile.prior_exponent:.3g}."
        )


def _by_stage(names: Sequence[str], values: Sequence[float], form: str) -> str:
    pairs = zip(names, values, strict=True)
    return ", ".join(f"{name} {format(value, form).replace('-', '−')}" for name, value in pairs)


def strength_rule(profile: Profile, *, lifts: bool) -> Iterator[str]:
    """Say how the profile sets the strength of a recording, and that of stages if `lifts`."""
    rule = profile.strength
    if rule is None:
        return
    experts = f"the mean of expert scorings, {rule.fi_target:g}"
    smooth = "by the smallest transition weight that does so"
    if rule.rule == "match":
        yield (f"The transition weight of each night was the one whose {FI} came nearest to {experts}.")
    elif rule.rule == "band":
        yield (
            f"Nights with a {FI} above {rule.cap:g} times {experts}, were smoothed to that limit {smooth}."
        )
    elif rule.stager_fi is None:
        yield (
            f"Nights with a {FI} above {rule.act_above:g} times {experts}, were smoothed "
            "to that mean "
            f"{smooth}, provided that a transition weight of {YIELDING_WEIGHT:g} left less than "
            f"{100 * rule.soft:.0f} % of "
            "the index; other nights were not smoothed."
        )
    elif rule.says_flicker:
        yield (
            f"The stager's median {FI}, {rule.stager_fi:.3g}, is more than "
            f"{rule.act_above:g} times "
            f"{experts}. Nights were therefore smoothed {smooth}, to that mean times the "
            f"{rule.exponent:g}-th power of "
            "their own index relative to the median."
        )
    else:
        yield (
            f"The stager's median {FI}, {rule.stager_fi:.3g}, is not above "
            f"{rule.act_above:g} times "
            f"{experts}; its nights were not smoothed."
        )
    if lifts and rule.lifts:
        yield (
            f"In nights with an index below {rule.floor:g} times this mean, minority stages were weighted up."
        )


def path_rules(profile: Profile, seconds: float) -> Iterator[str]:
    """Say what the sequence of stages was scored by."""
    stay = "" if profile.stay == "self" else "; staying in a stage was not scored"
    yield (
        "The sequence of stages maximises the sum of the evidence and of the log transition "
        "probabilities, times the "
        f"transition weight{stay}."
    )
    if profile.durations:
        yield f"Bouts of {_and(profile.durations)} were scored by the distribution of their lengths."
    if profile.rare:
        listed = ", ".join(
            f"{pair.source} to {pair.target} ({pair.probability:.3g} per epoch)" for pair in profile.rare
        )
        yield f"Rare transitions were discouraged: {listed}."
    if profile.min_bout_seconds:
        listed = ", ".join(f"{stage} {length:g} s" for stage, length in profile.min_bout_seconds.items())
        ends = "the last may be shorter" if profile.ends == "paper" else "the first and last may be shorter"
        yield f"Bouts had minimum lengths ({listed}; {ends})."
    flip = profile.flip_flop
    if flip.penalty_nats:
        how = " by a greedy search" if flip.is_greedy else ""
        yield (
            f"A return to a stage left within {count(flip.window_epochs, 'epoch')} cost "
            f"{flip.penalty_nats:g} nats{how}."
        )


def clock_evidence(profile: Profile, *, ran: bool) -> Iterator[str]:
    """Say how the time since sleep onset weighs stages."""
    clock = profile.clock
    if clock is None:
        return
    if not ran:
        yield "The profile's evidence from the time since sleep onset was not used."
        return
    spared = (
        "" if math.isinf(clock.spare_minutes) else f", bouts of {clock.spare_minutes:g} min or more spared"
    )
    held_back = [stage for stage, curve in clock.curves.items() if curve[0] < 0]  # also before sleep onset
    before = f", and before sleep onset {_and(held_back)} as at onset" if held_back else ""
    are, them = ("was", "it") if len(clock.curves) == 1 else ("were", "them")
    yield (
        f"In the first {clock.horizon_minutes:g} min of sleep, {_and(clock.curves)} {are} weighted by how "
        f"often experts score {them} at that time since sleep onset (weight {clock.weight:.3g}{spared})"
        f"{before}; {clock.restart_wake_minutes:g} min of wake restart this clock."
    )


def _and(names: Any) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else str(last)


# Of one night


def _night_strength(decoding: Decoding) -> Iterator[str]:
    """Say what the rule did to this night."""
    strength = decoding.strength
    weight = f"transition weight of {strength.transition_weight:.3g}"
    if strength.step == "fixed":
        by = "the analyst chose" if strength.asked is not None else "the profile fixes"
        yield f"For all nights alike, {by} a {weight}."
    elif strength.step == "nearest":
        yield f"For this night it was {strength.transition_weight:.3g}."
    elif strength.step == "untouched":
        yield f"This night was not smoothed{_why_untouched(strength)}."
    elif strength.step == "hard":
        yield (
            "This night exceeded the limit but was not smoothed: its index barely fell, as in a "
            "fragmented sleeper."
        )
    else:
        yield from _lifted(decoding, strength)
        if strength.step != "raised":
            yield f"This night was smoothed with a {weight}."
    rem = sum(strength.balance_nats)  # of REM alone
    if rem:
        moved = "raised" if rem > 0 else "lowered"
        yield (
            f"Its evidence for REM was {moved} by {abs(rem):.2f} nats, to keep the REM that its "
            "probabilities expect."
        )


def _lifted(decoding: Decoding, strength: Strength) -> Iterator[str]:
    if strength.prior_exponent:
        yield (
            "In this night minority stages were weighted up: the evidence for each stage was divided "
            "by its mean "
            f"probability to the power of {strength.prior_exponent:.3g}."
        )


def _why_untouched(strength: Strength) -> str:
    if math.isnan(strength.fi_before):
        return ": there are too few epochs to measure fragmentation"
    if strength.fi_before < strength.fi_low:
        return ": it is less fragmented than expert scorings"
    return ": its fragmentation is within the limits" if math.isnan(strength.stager_fi) else ""


def _about_epochs(decoding: Decoding) -> Iterator[str]:
    """Say which epochs were treated apart: pinned, filled, of poor signal, unscored."""
    night = decoding.night
    if decoding.trained is not None:
        yield f"The stager was trained on {decoding.trained} class frequencies."
    if night.pins:
        yield f"The stage of {count(len(night.pins), 'epoch')} was given by hand."
    n_poor = 0 if night.quality is None else int(np.count_nonzero(night.quality))
    if n_poor:
        yield f"The evidence of {count(n_poor, 'epoch')} counted less because of poor signal quality."
    n_filled, n_unscored = (
        int(np.count_nonzero(mask)) for mask in (decoding.filled, decoding.hypnogram.labels < 0)
    )
    if n_filled:
        yield (
            f"{count(n_filled, 'epoch')} without probabilities {was(n_filled)} staged from the epochs around."
        )
    if n_unscored:
        yield (
            f"{count(n_unscored, 'epoch')} without probabilities for more than five minutes "
            f"{was(n_unscored)} left "
            "unscored."
        )
    if night.lights_off:
        yield f"Sleep before lights off (epoch {night.lights_off + 1:,}) was not taken for sleep onset."


def was(number: int) -> str:
    """Return was or were."""
    return "was" if number == 1 else "were"


def _night_period(decoding: Decoding, lights: tuple[Moment | None, Moment | None]) -> Iterator[str]:
    """Say what the sleep period is, where it is in this night, and which lights bound it."""
    if not decoding.profile.measures_sleep_period:
        return
    first, stop = period_for(decoding, decoding.profile, lights)
    here = "this night has none" if first == stop else f"here epochs {first + 1:,} to {stop:,}"
    yield f"{MEASURED_PERIOD}; {here}."
    off, on = decoding.night.lights_off, decoding.night.lights_on
    bounds = [f"after lights off (epoch {off + 1:,})"] * (off > 0)
    bounds += [] if on is None else [f"before lights on (epoch {on + 1:,})"]
    if bounds and lights == NO_LIGHTS:  # other lights are said with the measures
        yield f"It was looked for {_and(bounds)}."


def _left_out(decoding: Decoding) -> Iterator[str]:
    """Say what of the profile is not for this night's cohort or stager, and the caution for its cohort."""
    profile, steps_aside = decoding.profile, decoding.profile.other_cohorts == "argmax"
    if not profile.is_of(decoding.cohort):
        whose = "not stated" if decoding.cohort is None else f"“{decoding.cohort}”"
        did = "the profile stepped aside" if steps_aside else "its stage shares and biases were left out"
        yield f"The cohort of this night is {whose}, so that {did}."
    if decoding.is_of_other_stager:
        did = (
            "the profile stepped aside"
            if steps_aside
            else "what the profile had learned of its stager was left out"
        )
        yield f"This night is of another stager, so that {did}."
    if profile.was_taught_by(hypnogram_before(decoding)):
        yield "The profile was fitted to this night, among others: agreement with its expert is no test."
    caution = None if decoding.cohort is None else profile.caution_for(decoding.cohort)
    if caution is not None:
        yield f"The profile has a caution for “{decoding.cohort}”: {caution.reason.rstrip('.')}."


def rem_latency(profile: Profile, decoding: Decoding | None = None) -> Iterator[str]:
    """Define the REM latency that tables report, of one night or of any."""
    if profile.scheme.rem is None:
        return
    estimator = profile.estimators.get(REM_LATENCY)
    if estimator is None and decoding is not None:
        estimator = default_of_rem_latency(decoding, slice(None))
    is_open = estimator is None  # then each night decides
    yield REM_LATENCIES[estimator or ("bout" if profile.clock is None else "clock")]
    if is_open and profile.clock is not None:
        yield (
            f"In nights with less than {100 * LITTLE_REM:.0f} % of sleep scored as REM, it is the time to "
            f"the moment by which {_EXPECTED} of REM are expected."
        )


def not_results(profile: Profile, is_steered: bool) -> Iterator[str]:
    """Say which statistics the method itself sets."""
    if is_steered:
        yield "Fragmentation, awakenings and bout lengths are set by the strength rule and are not results."
    if profile.calibration.biases or profile.prior_exponent:
        yield "Total sleep time and the time in each stage depend on the stage biases and weights."


# Of one night or of many


def changes(effects: Sequence[Effect], profiles: Sequence[Profile]) -> str:
    """Say how many epochs got another stage, and what changed them."""
    made_by = MADE_BY | (
        {"path": f"{MADE_BY['path']} and bout rules"} if any(map(_rules_bouts, profiles)) else {}
    )
    n_scored, n_changed = (
        sum(getattr(effect, name) for effect in effects) for name in ("n_scored", "n_changed")
    )
    share = f"{100 * n_changed / max(1, n_scored):.1f} %"
    were = f"{n_changed:,} ({share}) {was(n_changed)}"
    text = f"Of {count(n_scored, 'epoch')} that the stager scored, {were} assigned another stage"
    causes: Counter[str] = Counter()
    for effect in effects:
        causes.update(effect.changed_by)
    listed = [f"{n:,} {made_by[cause]}" for cause, n in causes.most_common() if n]
    if len(listed) == 1:
        text += f", {'all ' * (n_changed > 1)}{made_by[causes.most_common(1)[0][0]]}"
    elif listed:
        text += f": {_and(listed)}"
    if len(effects) == 1:
        return f"{text}."
    shares = np.array([100 * each.n_changed / max(1, each.n_scored) for each in effects])
    return f"{text}; per night {median_range(shares, '.1f')} %."


def _rules_bouts(profile: Profile) -> bool:
    return bool(profile.durations or profile.min_bout_seconds or profile.flip_flop.penalty_nats)


def median_range(values: np.ndarray[Any, np.dtype[np.float64]], form: str) -> str:
    """Return the median and the range of some numbers, or the one number that all of them are."""
    known = values[~np.isnan(values)]
    low, middle, high = (format(float(value), form) for value in (known.min(), np.median(known), known.max()))
    return middle if low == high else f"{middle} (median; range {low} to {high})"
