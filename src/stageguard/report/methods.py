"""The Methods paragraph of a paper, made from the facts of one decoded night or of many.

Each part of a profile that can change a stage has its sentence here; a test switches every part on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stageguard import checks
from stageguard.errors import InputError
from stageguard.guard.decoding import CITATION, Decoding, Strength
from stageguard.measures.bouts import period_for
from stageguard.measures.cohort import DecodedFacts
from stageguard.measures.statistics import LONGEST_NIGHT_HOURS, is_of_days, lights_words, longest_sleep_words
from stageguard.night.hypnodensity import FromLabels
from stageguard.night.period import APART_MINUTES, ASLEEP_MINUTES, WINDOW_MINUTES, Period
from stageguard.night.quantities import NIGHT
from stageguard.night.timing import Moment
from stageguard.profile.profile import OFF, Profile
from stageguard.profile.rules import HIGHEST_AIM, YIELDING_WEIGHT, BandRule, MatchRule, TargetRule
from stageguard.report.guard_words import why_hard
from stageguard.report.numbers import and_list, count, sentence, ties_words
from stageguard.version import __version__

NO_LIGHTS: tuple[Moment | None, Moment | None] = (None, None)
SMOOTHED = ("fixed", "lowered", "raised then lowered", "nearest")  # steps in which transitions count

MEASURED_PERIOD = (
    "Fragmentation was measured in the sleep period, from the first to the last lasting sleep "
    f"({ASLEEP_MINUTES:g} of {WINDOW_MINUTES:g} min asleep) in the most probable stages, of sleeps more "
    f"than {APART_MINUTES / 60:g} h apart the longest"
)


def night_methods(decoding: Decoding, lights: tuple[Moment | None, Moment | None] = NO_LIGHTS) -> str:
    """Return the paragraph of one night, measured between lights if they are given."""
    profile, seconds, decoded = decoding.profile, decoding.epoch_seconds, DecodedFacts.of(decoding)
    evidence = _evidence(decoding.from_labels)
    parts = [opening_sentence(profile, seconds, decoding.stager, evidence), *origin_sentences(profile)]
    if decoding.strength.asked == OFF:
        parts.append("The guard was switched off: every epoch keeps the stager's most probable stage.")
    elif decoding.is_free:
        if decoding.night.calibration is None and decoding.night.clock is None:
            parts.append("The profile stepped aside: it has no rule that changes a stage.")
        parts += [*weight_sentences(profile), *clock_sentences(profile, ran=decoding.night.clock is not None)]
    else:
        parts += [
            *weight_sentences(profile),
            *(
                ()
                if decoding.strength.is_of_labels
                else strength_sentences(profile, lifts=decoding.strength.lifting == "tried")
            ),
            *_night_strength(decoding),
        ]
        if decoding.strength.step in SMOOTHED:
            parts += path_sentences(profile, seconds)
        parts += clock_sentences(profile, ran=decoding.night.clock is not None)
    parts += [
        *_epoch_sentences(decoding),
        *_left_out_sentences(decoding),
        change_sentence([decoded]),
    ]
    period = period_for(decoding, profile, lights)
    parts += _night_period(decoding, period, lights)
    before, after = fragmentation(decoding, period)
    if not math.isnan(before):
        name = "fragmentation index" if profile.strength else FI
        parts.append(f"The {name} was {before:.3f} before and {after:.3f} after decoding.")
    if words := lights_words(decoding.hypnogram, *lights):
        parts.append(f"The night was measured between lights: {words}.")
    else:
        parts += long_sentences([(decoding.hypnogram.n_epochs, seconds, decoded)])
    parts += [
        *latency_sentences(profile),
        *steered_sentences(profile, decoding.strength.steers),
    ]
    return " ".join([*parts, f"{CITATION}."])


def fragmentation(decoding: Decoding, period: Period) -> tuple[float, float]:
    """Return the fragmentation index of a period before and after, as the tables show it."""
    index = decoding.night.fragmentation_index
    return index(decoding.argmax, period), index(decoding.hypnogram.labels, period)


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
        yield (f"This night exceeded the limit but was not smoothed: {why_hard(strength)}.")
    else:
        if strength.prior_exponent:
            yield (
                "In this night minority stages were weighted up: the evidence for each stage was divided "
                f"by its mean probability to the power of {strength.prior_exponent:.3g}."
            )
        if strength.step != "raised":
            yield f"This night was smoothed with a {weight}."
    rem = sum(strength.balance_nats)  # of REM alone
    if rem:
        moved = "raised" if rem > 0 else "lowered"
        yield (
            f"Its evidence for REM was {moved} by {abs(rem):.2f} nats, to keep the REM that its "
            "probabilities expect."
        )


def _why_untouched(strength: Strength) -> str:
    if math.isnan(strength.fi_before):
        return ": there are too few epochs to measure fragmentation"
    if strength.is_of_labels:
        return f": {NO_DOUBT}"
    if strength.fi_before < strength.fi_low:
        return ": it is less fragmented than expert scorings"
    return ": its fragmentation is within the limits" if math.isnan(strength.stager_fi) else ""


def _epoch_sentences(decoding: Decoding) -> Iterator[str]:
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
        filled = f"{count(n_filled, 'epoch')} without probabilities {was_or_were(n_filled)}"
        yield f"{filled} staged from the epochs around."
    if n_unscored:
        yield (
            f"{count(n_unscored, 'epoch')} without probabilities for more than five minutes "
            f"{was_or_were(n_unscored)} left "
            "unscored."
        )
    if night.lights_off:
        yield f"Sleep before lights off (epoch {night.lights_off + 1:,}) was not taken for sleep onset."


def was_or_were(number: int) -> str:
    """Return was or were."""
    return "was" if number == 1 else "were"


def _night_period(
    decoding: Decoding, period: Period, lights: tuple[Moment | None, Moment | None]
) -> Iterator[str]:
    """Say what the sleep period is, where it is in this night, and which lights bound it."""
    if not decoding.profile.measures_sleep_period:
        return
    first, stop = period
    here = "this night has none" if first == stop else f"here epochs {first + 1:,} to {stop:,}"
    yield f"{MEASURED_PERIOD}; {here}."
    off, on = decoding.night.lights_off, decoding.night.lights_on
    bounds = [f"after lights off (epoch {off + 1:,})"] * (off > 0)
    bounds += [] if on is None else [f"before lights on (epoch {on + 1:,})"]
    if bounds and lights == NO_LIGHTS:  # other lights are said with the measures
        yield f"It was looked for {and_list(bounds)}."


def long_sentences(nights: Iterable[tuple[int, float, DecodedFacts]]) -> Iterator[str]:
    """Say how recordings of days without lights were measured: epochs, their length, facts."""
    if any(is_of_days(n, seconds) and not decoded.has_lights for n, seconds, decoded in nights):
        yield f"{longest_sleep_words(f'recordings of {LONGEST_NIGHT_HOURS:g} h or more')}."


def _left_out_sentences(decoding: Decoding) -> Iterator[str]:
    """Say what of the profile is not for this night's cohort or stager, and the caution for its cohort."""
    profile = decoding.profile
    did = (
        "what the profile had learned of its own was left out"
        if profile.base is None
        else f"it was decoded as by the profile’s base, {profile.base.name}"
    )
    if decoding.is_foreign:
        named = (("stager", profile.stager), ("cohort", profile.cohort))
        whose = and_list([f"the {what} “{name}”" for what, name in named if name is not None])
        yield f"The profile was made for {whose}, which this night is not known to be of, so that {did}."
    caution = None if decoding.cohort is None else profile.caution_for(decoding.cohort)
    if caution is not None:
        yield f"The profile has a caution for “{decoding.cohort}”: {caution.reason.rstrip('.')}."


# Of one night or of many


def change_sentence(nights: Sequence[DecodedFacts]) -> str:
    """Say how many epochs got another stage."""
    n_scored, n_changed = sum(night.n_scored for night in nights), sum(night.n_changed for night in nights)
    share = f"{100 * n_changed / max(1, n_scored):.1f} %"
    were = f"{n_changed:,} ({share}) {was_or_were(n_changed)}"
    text = f"Of {count(n_scored, 'epoch')} that the stager scored, {were} assigned another stage"
    if len(nights) > 1:
        shares = np.array([100 * each.n_changed / max(1, each.n_scored) for each in nights])
        text += f"; per night {median_range(shares, '.1f')} %"
    return ". ".join(filter(None, (text, ties_words(sum(night.n_ties for night in nights)), ""))) + "."


def median_range(values: np.ndarray[Any, np.dtype[np.float64]], form: str) -> str:
    """Return the median and the range of some numbers, or the one number that all of them are."""
    values = values[~np.isnan(values)]
    low, middle, high = (
        format(float(value), form) for value in (values.min(), np.median(values), values.max())
    )
    return middle if low == high else f"{middle} (median; range {low} to {high})"


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
        CohortFact(
            night.profile,
            night.epoch_seconds,
            DecodedFacts.of(night),
            fragmentation(night, period_for(night, night.profile)),
            n_epochs=night.hypnogram.n_epochs,
        )
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
    decoded: DecodedFacts
    fragmentation: tuple[float, float]
    is_between_lights: bool = False  # whether its measures are
    n_epochs: int = 0


def cohort_methods(
    nights: Sequence[CohortFact], n_subjects: int | None = None, stager: str | None = None
) -> str:
    """Return the paragraph of many nights; of several profiles, each is described."""
    lifts = any(night.decoded.step in RAISED for night in nights)
    by_profile = {(night.profile.sha256, night.epoch_seconds): night for night in nights}
    people = "" if n_subjects is None else f" of {count(n_subjects, 'person').replace('persons', 'people')}"
    parts = [f"{count(len(nights), 'night')}{people} {was_or_were(len(nights))} decoded."]
    for night in by_profile.values():
        profile, seconds = night.profile, night.epoch_seconds
        of_profile = [each.decoded for each in nights if each.profile.sha256 == profile.sha256]
        gave = dict.fromkeys(each.from_labels for each in of_profile)
        parts += [
            opening_sentence(profile, seconds, stager, " and ".join(map(_evidence, gave))),
            *origin_sentences(profile),
            *weight_sentences(profile),
        ]
        unsmoothed = {"typical"} if profile.strength is not None and not profile.smooths_labels else set()
        if gave.keys() - unsmoothed:
            parts += [*strength_sentences(profile, lifts=lifts), *path_sentences(profile, seconds)]
        if gave.keys() & unsmoothed:
            parts.append(f"Nights of labels alone were not smoothed: {NO_DOUBT}.")
        parts += [
            *clock_sentences(profile, ran=True),
            *latency_sentences(profile),
        ]
    parts += _cohort_strengths([night.decoded for night in nights])
    parts += _cohort_epochs(nights)
    parts.append(change_sentence([night.decoded for night in nights]))
    parts += _cohort_periods(nights)
    before, after = (np.array([night.fragmentation[i] for night in nights]) for i in (0, 1))
    if not np.isnan(before).all():
        parts.append(
            f"The {'fragmentation index' if nights[0].profile.strength else FI} was "
            f"{median_range(before, '.3f')} before and {median_range(after, '.3f')} after decoding."
        )
    is_steered = any(night.decoded.step not in ("fixed", "untouched", "hard") for night in nights)
    parts += steered_sentences(nights[0].profile, is_steered)
    return " ".join([*parts, f"{CITATION}."])


def _cohort_strengths(nights: Sequence[DecodedFacts]) -> Iterator[str]:
    """Say how many nights were smoothed, and how strongly."""
    smoothed = [each for each in nights if each.step in SMOOTHED]
    raised = sum(each.step in RAISED for each in nights)
    if smoothed:
        weight = median_range(np.array([each.transition_weight for each in smoothed]), ".3g")
        of = f"{len(smoothed):,} of {count(len(nights), 'night')} {was_or_were(len(smoothed))}"
        yield f"{of} smoothed, with a transition weight of {weight}."
    else:
        yield f"None of {count(len(nights), 'night')} was smoothed."
    if raised:
        yield f"In {count(raised, 'night')} minority stages were weighted up."


def _cohort_epochs(nights: Sequence[CohortFact]) -> Iterator[str]:
    """Say how many epochs are unscored."""
    unscored = [night.decoded.n_unscored for night in nights if night.decoded.n_unscored]
    if unscored:
        yield (
            f"{count(sum(unscored), 'epoch')} without probabilities for more than five minutes, in "
            f"{count(len(unscored), 'night')}, {was_or_were(sum(unscored))} left unscored."
        )


def _cohort_periods(nights: Sequence[CohortFact]) -> Iterator[str]:
    """Say in which part of the nights fragmentation was measured, and for how many lights were given."""
    measures_period = any(night.profile.measures_sleep_period for night in nights)
    if measures_period:
        yield f"{MEASURED_PERIOD}."
    n_off = sum(night.decoded.has_lights_off for night in nights)
    n_on = sum(night.decoded.has_lights_on for night in nights)
    given = [f"lights off was given for {n_off:,}"] * (n_off > 0)
    given += [f"lights on {'' if n_off else 'was given '}for {n_on:,}"] * (n_on > 0)
    if given:
        did = "the sleep period was looked for within lights" if measures_period else (
            "sleep before lights off was not taken for sleep onset"
        )  # fmt: skip
        yield sentence(f"{' and '.join(given)} of {count(len(nights), 'night')}: {did}")
    within = [night for night in nights if not night.is_between_lights]
    yield from long_sentences([(night.n_epochs, night.epoch_seconds, night.decoded) for night in within])
    n_between = sum(night.is_between_lights for night in nights)
    if n_between:
        yield f"{count(n_between, 'night')} {was_or_were(n_between)} measured between lights."


# Of a profile


FI = "fragmentation index (stage changes per pair of adjacent scored epochs)"
NO_DOUBT = "labels alone do not say which epochs are doubtful"
LABELS_ALONE = {  # what was decoded where a stager gave labels alone
    "typical": "labels, softened by the typical confusions of published networks,",
    "own": "labels, softened by the stager's own confusions on scored nights,",
}


def _evidence(from_labels: FromLabels | None) -> str:
    return "stage probabilities" if from_labels is None else LABELS_ALONE[from_labels]


def opening_sentence(
    profile: Profile, seconds: float, stager: str | None, evidence: str = "stage probabilities"
) -> str:
    """Name stages, stager, software and profile."""
    stages = ", ".join(profile.scheme.names)
    who = "an automatic stager" if stager is None else stager
    converted = ""
    if seconds != profile.epoch_seconds:
        converted = f", whose numbers were converted from {profile.epoch_seconds:g}-s epochs"
    method = "the published method, " if profile.reproduces_paper else ""
    return (
        f"Sleep was staged in {seconds:g}-s epochs ({stages}) from the {evidence} of {who}, "
        "decoded with "
        f"StageGuard {__version__} ({method}profile {profile.name}, SHA-256 "
        f"{profile.sha256[:12]}{converted})."
    )


def origin_sentences(profile: Profile) -> Iterator[str]:
    """Say on which nights the profile was fitted, tuned or counted."""
    provenance: Mapping[str, Any] = profile.provenance
    nights = _nights(provenance)
    base = provenance.get("base")
    start = f", starting from {base['name']}" if isinstance(base, Mapping) and "name" in base else ""
    rows = provenance.get("cross_validation", {})
    if "cross_validation" in provenance:
        candidates = (
            f" of {len(rows['rows'])} candidates" if isinstance(rows, Mapping) and "rows" in rows else ""
        )
        chosen = f" ({provenance['chosen']})" if "chosen" in provenance else ""
        yield (
            f"The profile had been fitted to {nights or 'scored nights'}{start}; its settings{chosen} "
            "were chosen by "
            f"cross-validation{candidates}."
        )
    elif "flickers" in provenance:
        yield f"The profile had been tuned to {nights or 'nights'} without scorings{start}."
    elif nights:
        scorings = provenance.get("n_scorings")
        of = f"{count(scorings, 'expert scoring')} of " if isinstance(scorings, int) else ""
        yield f"Its numbers had been counted on {of}{nights}{start}."
    if profile.cohort is not None:
        yield f"It was fitted on the cohort “{profile.cohort}”."
    if profile.stager is not None:
        yield f"It belongs to the stager “{profile.stager}”."


def _nights(provenance: Mapping[str, Any]) -> str:
    n_nights, n_subjects = provenance.get("n_nights"), provenance.get("n_subjects")
    if not isinstance(n_nights, int):
        return ""
    people = "" if not isinstance(n_subjects, int) else f" of {n_subjects:,} sleeper{'s' * (n_subjects != 1)}"
    return count(n_nights, "night") + people


def weight_sentences(profile: Profile) -> Iterator[str]:
    """Say what moves the evidence of every epoch alike."""
    calibration, names = profile.calibration, profile.scheme.names
    if calibration.temperature != 1.0:
        yield f"Log-probabilities were divided by a temperature of {calibration.temperature:.3g}."
    if calibration.biases:
        yield f"Stage biases were added to them: {_stage_values(names, calibration.biases, '+.3g')} nats."
    if (repair := profile.share_repair) is not None:
        yield (
            f"They had brought the stager's stage shares over {count(repair.n_people, 'sleeper')} towards "
            f"the range of expert scorings: {repair.describe(names)}."
        )
    if profile.prior_exponent and profile.prior is not None:
        yield (
            "The evidence for each stage was divided by the stage's share "
            f"({_stage_values(names, profile.prior, '.3g')}) to the power of {profile.prior_exponent:.3g}."
        )


def _stage_values(names: Sequence[str], values: Sequence[float], form: str) -> str:
    pairs = zip(names, values, strict=True)
    return ", ".join(f"{name} {format(value, form).replace('-', '−')}" for name, value in pairs)


def strength_sentences(profile: Profile, *, lifts: bool) -> Iterator[str]:
    """Say how the profile sets the strength of a recording, and that of stages if `lifts`."""
    rule = profile.strength
    if rule is None:
        return
    experts = f"the mean of expert scorings, {rule.fi_target:g}"
    smooth = "by the smallest transition weight that does so"
    if isinstance(rule, MatchRule):
        yield (f"The transition weight of each night was the one whose {FI} came nearest to {experts}.")
    elif isinstance(rule, BandRule):
        yield (
            f"Nights with a {FI} above {rule.cap:g} times {experts}, were smoothed to that limit {smooth}."
        )
    elif not isinstance(rule, TargetRule):
        yield f"The strength was set {rule.describe()}."
    elif rule.stager_fi is None:
        own_part = ""
        if rule.typical is not None:
            own_part = (
                f" times the {rule.exponent:g}-th power of their own index relative to {rule.typical:g} "
                f"times the mean, but at most {HIGHEST_AIM:g} times the mean,"
            )
        yield (
            f"Nights with a {FI} above {rule.act_above:g} times {experts}, were smoothed "
            f"to that mean{own_part} "
            f"{smooth}, provided that a transition weight of {YIELDING_WEIGHT:g} left less than "
            f"{100 * rule.soft:.0f} % of "
            "the index; other nights were not smoothed."
        )
    elif rule.flickers:
        yield (
            f"The stager's median {FI}, {rule.stager_fi:.3g}, is more than "
            f"{rule.acts_above:g} times "
            f"{experts}. Nights were therefore smoothed {smooth}, to that mean times the "
            f"{rule.exponent:g}-th power of "
            "their own index relative to the median."
        )
    else:
        yield (
            f"The stager's median {FI}, {rule.stager_fi:.3g}, is not above "
            f"{rule.acts_above:g} times "
            f"{experts}; its nights were not smoothed."
        )
    if lifts and isinstance(rule, BandRule | TargetRule):
        yield (
            f"In nights with an index below {rule.floor:g} times this mean, minority stages were weighted up."
        )


def path_sentences(profile: Profile, seconds: float) -> Iterator[str]:
    """Say what the sequence of stages was scored by."""
    stay = "" if profile.stay == "self" else "; staying in a stage was not scored"
    yield (
        "The sequence of stages maximises the sum of the evidence and of the log transition "
        "probabilities, times the "
        f"transition weight{stay}."
    )
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


def clock_sentences(profile: Profile, *, ran: bool) -> Iterator[str]:
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
    before = f", and before sleep onset {and_list(held_back)} as at onset" if held_back else ""
    stages = and_list(clock.curves)
    are, them = ("was", "it") if len(clock.curves) == 1 else ("were", "them")
    yield (
        f"In the first {clock.horizon_minutes:g} min of sleep, {stages} {are} weighted by how "
        f"often experts score {them} at that time since sleep onset (weight {clock.weight:.3g}{spared})"
        f"{before}; {clock.restart_wake_minutes:g} min of wake restart this clock."
    )


def latency_sentences(profile: Profile) -> Iterator[str]:
    """Define the latencies that tables report, as the tables do."""
    for quantity in NIGHT:
        is_known = profile.scheme.rem is not None or "REM" not in quantity.title
        if quantity.is_latency and "cohort" in quantity.shown and is_known:
            yield f"{quantity.title} is the time {quantity.definition}."


def steered_sentences(profile: Profile, is_steered: bool) -> Iterator[str]:
    """Say which statistics the method itself sets."""
    if is_steered:
        yield "Fragmentation, awakenings and bout lengths are set by the strength rule and are not results."
    if profile.calibration.biases or profile.prior_exponent:
        yield "Total sleep time and the time in each stage depend on the stage biases and weights."


def settings(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield the settings of the profile, by name."""
    yield "Stages", ", ".join(profile.scheme.names)
    yield "Epoch length", f"{profile.epoch_seconds:g} s"
    rule = profile.strength
    if rule is None:
        yield "Strength", f"fixed transition weight {profile.transition_weight:g}"
    else:
        yield "Strength", rule.describe()
    yield "Clock", "off" if profile.clock is None else profile.clock.describe()
    minimum = ", ".join(f"{stage} {seconds:g} s" for stage, seconds in profile.min_bout_seconds.items())
    yield "Minimum bouts", minimum or "none"
    discouraged = ", ".join(f"{pair.source}→{pair.target} ({pair.probability:g})" for pair in profile.rare)
    yield "Discouraged transitions", discouraged or "none"
    yield "Transitions counted by TVR", ", ".join(f"{a}→{b}" for a, b in profile.tvr_pairs) or "none"
    flip = profile.flip_flop
    quick = f"{flip.penalty_nats:g} nats within {flip.window_epochs} epochs, {flip.method}"
    yield "Penalty on quick returns", quick if flip.penalty_nats else "none"
    temperature, biases = profile.calibration.temperature, profile.calibration.biases
    if temperature != 1.0 or biases is not None:
        shown = "" if biases is None else f", biases {', '.join(f'{bias:g}' for bias in biases)} nats"
        yield "Calibration", f"temperature {temperature:g}{shown}"
    if (repair := profile.share_repair) is not None:
        people = count(repair.n_people, "sleeper")
        yield "Repaired stage shares", f"{repair.describe(profile.scheme.names)}, over {people}"


def provenance_rows(provenance: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested provenance as flat rows of name and text."""
    for key, value in provenance.items():
        name = f"{prefix}{str(key).replace('_', ' ')}"
        if isinstance(value, Mapping) and {"columns", "rows"} <= value.keys():
            size = f"Table of {len(value['rows'])} rows in the profile."
            yield name, f"{value['finding']} {size}" if "finding" in value else size
        elif isinstance(value, Mapping):
            yield from provenance_rows(value, f"{name} · ")
        else:
            yield name, ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
