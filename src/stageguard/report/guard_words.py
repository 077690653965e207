"""Sentences that values of the guard say of themselves: its strength, warnings, advice, and changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from stageguard.guard.decode import decode_under
from stageguard.guard.decoding import Decoding
from stageguard.guard.explain import Change, in_bouts
from stageguard.guard.strength import Strength
from stageguard.profile.profile import OFF, Profile
from stageguard.profile.rules import YIELDING_WEIGHT


def reason(strength: Strength) -> str:
    """Return why the night was decoded as it was, and where the clock begins."""
    return _strength_sentence(strength) + _clock_sentence(strength)


def in_short(strength: Strength) -> str:
    """Return what was done to the night, and what is unusual about the clock."""
    return _step_sentence(strength) + _clock_remarks(strength)


def _step_sentence(strength: Strength) -> str:
    if strength.asked == OFF:
        return "The guard is off, as asked: the stager's own choice."
    if strength.rule == "fixed":
        return _strength_sentence(strength)
    tau = f"transition weight {strength.transition_weight:g}"
    change = f"fragmentation from {strength.fi_before:.3f} to {strength.fi_after:.3f}"
    if strength.step == "nearest":
        return f"{tau.capitalize()} brings {change}, nearest to the experts' {strength.fi_low:.3f}."
    if strength.step == "hard":
        return f"Not smoothed: fragmented ({strength.fi_before:.3f}), but {why_hard(strength)}."
    if strength.step == "untouched":
        return _untouched_in_short(strength)
    limits = _limits(strength).partition(" (")[0]
    reached = f"{'within' if strength.is_reached else 'outside'} {limits}"
    lifts = f"prior exponent {strength.prior_exponent:g}"
    how = {"lowered": f"Smoothed: {tau}", "raised": f"Minority stages lifted: {lifts}"}
    by = how.get(strength.step, f"Minority stages lifted, then smoothed: {lifts} and {tau}")
    return f"{by} brought {change}, {reached}."


def why_hard(strength: Strength) -> str:
    """Return why a night that is more fragmented than experts' was not smoothed."""
    if math.isnan(strength.fi_yielded):
        return "smoothing would give it REM that neither argmax nor the probabilities hold"
    yielded = f"{strength.fi_yielded:.3f} at transition weight {YIELDING_WEIGHT:g}"
    return f"smoothing barely lowers it ({yielded}), as in a fragmented sleeper"


def _untouched_in_short(strength: Strength) -> str:
    if math.isnan(strength.fi_before):
        return "Not smoothed: too few epochs to measure fragmentation."
    if strength.is_of_labels:
        return "Not smoothed: labels alone do not say which epochs are doubtful."
    if strength.fi_before < strength.fi_low:
        tried = ", and lifting minority stages does not help" * (strength.lifting == "tried")
        return f"Not smoothed: less fragmented ({strength.fi_before:.3f}) than experts score{tried}."
    if not math.isnan(strength.stager_fi):
        return _untouched_sentence(strength, "")
    return f"Not smoothed: fragmentation {strength.fi_before:.3f} is within {_limits(strength)}."


def _limits(strength: Strength) -> str:
    """Return where the rule leaves a night alone, also in units of the average expert."""
    low, high, experts = strength.fi_low, strength.fi_high, strength.fi_experts
    if math.isnan(low):
        return "what the rule allows"
    times = f" ({low / experts:.4g} to {high / experts:.4g} times the average expert)"
    return f"the limits {low:.3f} to {high:.3f}{'' if math.isnan(experts) else times}"


def _clock_remarks(strength: Strength) -> str:
    if strength.clock_passes and not strength.clock_onsets:
        return " The clock found no sleep to count from."
    moved = f" Sleep onset, which the clock counts from, still moved after {strength.clock_passes} passes."
    pinned = (" Pins overrule the clock at ", *_epochs(strength.clock_overruled), ".")
    return (
        f"{'' if strength.clock_settled else moved}"
        f"{''.join(map(str, pinned if strength.clock_overruled else ()))}"
    )


def _clock_sentence(strength: Strength) -> str:
    if not strength.clock_passes:
        return ""
    if not strength.clock_onsets:
        return " The clock found no sleep to count from."
    still = "" if strength.clock_settled else f", which still moved after {strength.clock_passes} passes"
    pinned = (" Pins overrule it at ", *_epochs(strength.clock_overruled), ".")
    is_alone = strength.step in ("untouched", "hard")
    who = " Only the clock may change stages; it" if is_alone else " The clock"
    onset = (" counts from sleep onset at ", *_epochs(strength.clock_onsets), f"{still}.")
    return f"{who}{''.join(map(str, onset))}{''.join(map(str, pinned if strength.clock_overruled else ()))}"


def _strength_sentence(strength: Strength) -> str:
    tau = f"transition weight {strength.transition_weight:g}"
    change = f"fragmentation index {strength.fi_before:.3f} -> {strength.fi_after:.3f}"
    if strength.asked == OFF:
        return f"The guard is off, as asked: the stager's own choice; {change}."
    if strength.asked is not None:
        return f"{tau.capitalize()} was given, in place of the profile's own; {change}."
    if strength.rule == "fixed":
        return f"The profile fixes {tau}; {change}."
    if strength.step == "nearest":
        target = f"the experts' fragmentation index {strength.fi_low:.3f}"
        if not math.isnan(strength.stager_fi):
            target += f" for a night of this index (median of the stager's {strength.stager_fi:.3f})"
        return f"{tau.capitalize()} comes nearest to {target}; {change}."
    band = "the rule allows"
    if not math.isnan(strength.fi_low):
        band += f" ({strength.fi_low:.3f} to {strength.fi_high:.3f})"
    if strength.step == "untouched":
        return _untouched_sentence(strength, band)
    if strength.step == "hard":
        return (
            f"More fragmented ({strength.fi_before:.3f}) than {band}, but {why_hard(strength)}; no rule of "
            "the profile acts."
        )
    if strength.rule == "target" and strength.step == "lowered":
        why = f"More fragmented than {band}"
        if not math.isnan(strength.stager_fi):
            why = f"The stager flickers (median over its nights {strength.stager_fi:.3f})"
        nats = sum(strength.balance_nats)  # REM's alone
        moved = "raised" if nats > 0 else "lowered"
        gave = f", REM {moved} by {abs(nats):.2f} nats to what the probabilities expect" if nats else ""
        return f"{why}: {tau} brings it nearest to the aim, {strength.fi_aim:.3f}{gave}; {change}."
    reached = "" if strength.is_reached else ", still outside"
    if strength.step == "lowered":
        return f"More fragmented than {band}: {tau} is the least that helps; {change}{reached}."
    why = f"Less fragmented than {band}"
    if strength.fi_before >= strength.fi_low:
        why = "Less fragmented than experts score, and short of stages that the probabilities expect"
    raised = f"{why}: prior exponent {strength.prior_exponent:g} lifts minority stages"
    if strength.step == "raised":
        return f"{raised}; {change}{reached}."
    return f"{raised}, then {tau} smooths it; {change}{reached}."


def _untouched_sentence(strength: Strength, band: str) -> str:
    if math.isnan(strength.fi_before):
        return "Too few epochs to measure fragmentation: no rule of the profile acts."
    if strength.is_of_labels:
        return "Labels alone do not say which epochs are doubtful: no rule of the profile acts."
    if strength.fi_before < strength.fi_low:
        reason = {
            "off": "the profile lifts no minority stages",
            "unasked": "minority stages are lifted only for a stager known to be trained on natural "
            "class frequencies",
            "tried": "lifting minority stages was tried and does not help",
        }[strength.lifting]
        return (
            f"Less fragmented ({strength.fi_before:.3f}) than {band}; {reason}: no rule of the profile acts."
        )
    if not math.isnan(strength.stager_fi):
        flickers = strength.stager_fi > strength.fi_high
        why = (
            "This night needs no smoothing"
            if flickers
            else "The stager does not flicker: its nights need no smoothing"
        )
        medians = f"median over its nights {strength.stager_fi:.3f}, this one {strength.fi_before:.3f}"
        return f"{why} ({medians})."
    within = f"Fragmentation {strength.fi_before:.3f} is within {_limits(strength)}"
    return f"{within}: no rule of the profile acts."


def _epochs(epochs: Sequence[int]) -> list[object]:
    """Return the parts of a message that name some epochs."""
    listed = [part for epoch in epochs for part in (", ", f"{epoch}")][1:]
    return ["epoch " if len(epochs) == 1 else "epochs ", *listed]


def decode_warnings(results: Sequence[Decoding]) -> Iterator[str]:
    """Yield why a person should look at the nights of a call before using them."""
    many = [result for result in results if result.changed_share > result.many_changes]
    if many:
        worst = max(many, key=lambda result: result.changed_share)
        nights = f"on {len(many)} of {len(results)} nights many epochs were changed; most: "
        which = "" if len(results) == 1 else nights
        yield f"{which}{many_changes_words(worst)}: {many_changes_advice(results[0].profile)}"
    for i, result in enumerate(results):
        if result.removed_bouts:
            yield ("" if len(results) == 1 else f"night {i}: ") + removed_words(result)


def shared_warnings(decoding: Decoding) -> Iterator[str]:
    """Yield why a person should look at a night of a cohort, in words that several nights share."""
    if decoding.changed_share > decoding.many_changes:
        limit = f"{100 * decoding.many_changes:.0f} %"
        yield f"more than {limit} of scored epochs were changed: {many_changes_advice(decoding.profile)}"
    if decoding.removed_bouts:
        yield "early REM of 3 min or more was removed: look at the night"


def many_changes_words(decoding: Decoding) -> str:
    """Return how many epochs were changed, and the limit above which a person should look at the night."""
    n_changed, n_scored = decoding.n_changed, decoding.n_scored
    share, limit = 100 * n_changed / max(1, n_scored), 100 * decoding.many_changes
    of_all = f"{n_changed:,} of {n_scored:,} scored epochs ({share:.1f} %)"
    return f"{of_all} were changed, above the limit of {limit:.0f} %"


def many_changes_advice(profile: Profile) -> str:
    """Return what to do about a night with many changed epochs under this profile."""
    look = "look at the night before using it"
    if "cross_validation" in profile.provenance:  # chosen on scored nights of this stager
        return f"{look}."
    return f"{look}; the stager or the profile may not fit."


def removed_words(decoding: Decoding) -> str:
    """Return which early REM is gone, and how sure that is."""
    bouts = []
    for bout in decoding.removed_bouts:
        since = bout.minutes_since_onset
        when = "before onset" if math.isnan(since) else f"{since:g} min after onset"
        bouts.append(f"{bout.minutes:g} min long, {when}")
    return (
        f"the clock removed REM ({'; '.join(bouts)}): look at it. Experts score "
        "REM of 3 min or more within 40 min of onset on 2.7 % of nights, and "
        "narcolepsy looks like this. cohort='narcolepsy' switches the clock off."
    )


def advice(decoding: Decoding) -> tuple[str, ...]:
    """Return which option the caller could add, and what it would change, if anything."""
    rule, profile, before = decoding.profile.strength, decoding.profile, decoding.strength
    if rule is None or not rule.asks_training or decoding.trained is not None:
        return ()
    if not before.fi_before < rule.fi_target * decoding.epoch_seconds / profile.epoch_seconds:
        return ()
    night = decoding.night.timed(None)
    natural = replace(night, options=replace(night.options, trained="natural"))
    lifted = decode_under(profile, natural)
    n_changed = int(np.count_nonzero(lifted.hypnogram.labels != decoding.hypnogram.labels))
    if not n_changed:
        return ()
    return (
        (
            "If the stager was trained on natural class frequencies, "
            f"trained='natural' would change {n_changed} epochs; fragmentation index "
            f"{before.fi_after:.3f} -> {lifted.strength.fi_after:.3f}."
        ),
    )


def change_words(change: Change) -> str:
    """Return a change as one sentence."""
    last = change.first_epoch + change.n_epochs - 1
    is_one = change.n_epochs == 1
    where = f"epoch {change.first_epoch}" if is_one else f"epochs {change.first_epoch}-{last}"
    when = "" if change.clock is None else f" ({change.clock:%H:%M:%S})"
    margin = change.margin_nats
    cost = "no allowed night keeps it" if margin == math.inf else f"keeping it costs {margin:.2f} nats"
    by = f"by {change.rule}"
    if change.rule == "clock":
        since = change.minutes_since_onset
        onset = "before" if math.isnan(since) else f"{since:.0f} min after"
        by += (
            f" ({change.before[0]} {onset} sleep onset: experts {change.usual_share:.0%} of its usual "
            f"share, {-change.clock_nats:+.1f} nats)"
        )
    return f"{where}{when}: {in_bouts(change.before)} -> {in_bouts(change.after)}, {by}; {cost}"


def other_causes(decoding: Decoding) -> tuple[str, ...]:
    """Return what besides the profile's rules can change stages on a night."""
    night = decoding.night
    causes = {
        "stages that were given": bool(night.pins),
        "calibration": night.calibration is not None,
        "signal quality": night.quality is not None and bool(night.quality.any()),
        "the time since sleep onset": night.clock is not None,
    }
    return tuple(cause for cause, acts in causes.items() if acts)
