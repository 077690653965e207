"""Sentences on the strength of a decoding: why it was chosen, what was done, and what one could add."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from stageguard.guard.decode import decode_night, many_changes_advice
from stageguard.guard.decoding import Decoding, Strength
from stageguard.profile.profile import OFF
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


def shared_warnings(decoding: Decoding) -> Iterator[str]:
    """Yield why a person should look at a night of a cohort, in words that several nights share."""
    if decoding.changed_share > decoding.many_changes:
        limit = f"{100 * decoding.many_changes:.0f} %"
        yield f"more than {limit} of scored epochs were changed: {many_changes_advice(decoding.profile)}"
    if decoding.removed_bouts:
        yield "early REM of 3 min or more was removed: look at the night"


def advice(decoding: Decoding) -> tuple[str, ...]:
    """Return which option the caller could add, and what it would change, if anything."""
    rule, profile, before = decoding.profile.strength, decoding.profile, decoding.strength
    if rule is None or not rule.asks_training or decoding.trained is not None:
        return ()
    if not before.fi_before < rule.fi_target * decoding.epoch_seconds / profile.epoch_seconds:
        return ()
    night = decoding.night.timed(None)
    natural = replace(night, options=replace(night.options, trained="natural"))
    lifted = decode_night(natural)
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
