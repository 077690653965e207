"""What the guard did to one night, in plain words. Measures nothing and draws nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from stageguard.decoded import Decoding
from stageguard.report.numbers import count, duration
from stageguard.strength import Strength
from stageguard.validity import Validity

MANY_CHANGES = 0.10  # as decode warns
MUCH_UNSCORED = 0.05  # our choice: worth a line of its own


def headline(decoding: Decoding) -> str:
    """Return what happened, in one short sentence."""
    strength, n_changed = decoding.strength, int(np.count_nonzero(decoding.changed))
    if strength.rule == "fixed":
        return "The profile was applied at its fixed strength." if n_changed else "Nothing had to be changed."
    if strength.step == "untouched":
        if n_changed:
            return "The guard stepped aside, except where stages were given."
        return "The guard stepped aside."
    if not n_changed:
        return "Nothing had to be changed."
    return {
        "lowered": "The guard calmed an over-fragmented night.",
        "raised": "The guard brought back stages that the stager starved.",
        "raised then lowered": "The guard brought back starved stages, then calmed the night.",
        "nearest": "The guard brought the night close to the experts' fragmentation.",
    }[strength.step]


def summary(decoding: Decoding) -> str:
    """Return why, and how much was changed."""
    n_scored = int(np.count_nonzero(decoding.argmax >= 0))
    n_changed = int(np.count_nonzero(decoding.changed))
    if not n_changed:
        verdict = f"All {count(n_scored, 'epoch')} keep the stage the stager chose."
    else:
        share = f"{100 * n_changed / n_scored:.1f} %"
        verdict = (
            f"{n_changed:,} of {count(n_scored, 'epoch')} ({share}) got another stage than the stager chose."
        )
    return f"{_why(decoding.strength)} {verdict}"


def _why(strength: Strength) -> str:
    if strength.rule == "fixed":
        return "This profile acts on every night alike, whatever its fragmentation."
    if math.isnan(strength.fi_before):
        return "There are too few epochs to measure fragmentation."
    if strength.step == "untouched" and strength.fi_before < strength.fi_low:
        return (
            "The night changes stage less often than expert scorings do, and what would be needed to lift "
            "starved stages, a stager trained on natural class frequencies, is not known."
        )
    if strength.step == "untouched":
        return "The stager's night changes stage about as often as expert scorings do, so it is left alone."
    outside = not strength.fi_low <= strength.fi_after <= strength.fi_high and strength.rule == "band"
    still = ", although not as far as the rule asks" if outside else ""
    if strength.step == "lowered":
        return f"The stager's night changed stage far more often than expert scorings do; now it is calmer{still}."
    if strength.step == "nearest":
        return "The strength was chosen so that stages change as often as experts score."
    return (
        f"The stager's night changed stage far less often than expert scorings do; now it is livelier{still}."
    )


def unscored_words(decoding: Decoding) -> Iterator[str]:
    """Return what happened to epochs without evidence."""
    n_filled = int(np.count_nonzero(decoding.filled))
    n_unscored = int(np.count_nonzero(decoding.hypnogram.labels < 0))
    seconds = decoding.epoch_seconds
    if n_filled:
        yield (
            f"{count(n_filled, 'epoch')} without evidence ({duration(n_filled * seconds)}) got the stage that "
            "fits their neighbours best."
        )
    if n_unscored:
        yield (
            f"{count(n_unscored, 'epoch')} ({duration(n_unscored * seconds)}) without evidence for more than "
            "five minutes stay unscored: they count neither as sleep nor as wake."
        )


def warnings_of(decoding: Decoding) -> Iterator[str]:
    """Return what a reader must know before using the night."""
    if decoding.cohort is not None:
        caution = decoding.profile.caution_for(decoding.cohort)
        if caution is not None:
            yield f"The profile is not made for {decoding.cohort!r}: {caution.reason}"
    if decoding.changed_share > MANY_CHANGES:
        yield (
            f"{decoding.changed_share:.0%} of scored epochs were changed, more than {MANY_CHANGES:.0%}: look at "
            "the night before using it; the stager or the profile may not fit."
        )
    n_unscored = int(np.count_nonzero(decoding.hypnogram.labels < 0))
    if n_unscored > MUCH_UNSCORED * decoding.hypnogram.n_epochs:
        share = n_unscored / decoding.hypnogram.n_epochs
        yield f"{share:.0%} of the recording is unscored: times are lower bounds, and latencies may be wrong."


def band_notes(decoding: Decoding, after: Validity) -> Iterator[str]:
    """Return why the rule may be content with a night that lies outside the band."""
    strength, indicator = decoding.strength, after.indicators["fragmentation_index"]
    if strength.rule != "band" or indicator.place not in ("below", "above"):
        return
    if strength.fi_low <= strength.fi_after <= strength.fi_high:
        yield (
            f"The rule and the band are two things: the rule lets a night be while its fragmentation index lies "
            f"between {strength.fi_low:.3f} and {strength.fi_high:.3f}, and does no more than that takes; the "
            f"band ({indicator.low:.3f} to {indicator.high:.3f}) is where nine of ten expert nights lie."
        )
