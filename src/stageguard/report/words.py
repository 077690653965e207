"""Every sentence about results: what the guard did, what to report, what to look at.

Terminal, sidecar, report, review page and Methods take the same fact from the same function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp, inf, isnan
from typing import TYPE_CHECKING

import numpy as np

from stageguard.guard.decode import decode_night, many_changes_advice, many_changes_words, removed_words
from stageguard.guard.decoding import Decoding, Strength
from stageguard.measures.rare import RareEvent, early_rem_removed
from stageguard.measures.validity import Validity, band_at
from stageguard.night.quantities import Steering, quantity_of
from stageguard.night.stages import StageScheme
from stageguard.profile.profile import OFF
from stageguard.profile.rules import YIELDING_WEIGHT
from stageguard.report.numbers import ABSENT, and_list, count, duration, number_text, sentence

if TYPE_CHECKING:
    from stageguard.guard.explain import Change
    from stageguard.measures.grade import Grade, GradeCard

# What the guard did

DONE = {
    "fixed": "Smoothed at a fixed strength",
    "nearest": "Smoothed",
    "lowered": "Smoothed",
    "raised": "Minority stages weighted up",
    "raised then lowered": "Minority stages weighted up, then smoothed",
}
NO_DOUBT = "labels alone do not show which epochs are doubtful"


def done_words(decoding: Decoding) -> str:
    """Return what the guard did to a night, with the numbers before and after."""
    strength = decoding.strength
    why = "the guard was switched off" if strength.asked == OFF else why_not_smoothed(strength)
    if why:
        causes = other_causes(decoding) if decoding.n_changed else ()
        by = f" {changed_words(decoding)} by {and_list(causes)}." if causes else ""
        return f"Not smoothed: {why}.{by}{clock_words(strength)}"
    done = "Smoothed at the given strength" if strength.asked is not None else DONE[strength.step]
    done = f"{done}: {changed_words(decoding)}"
    if not isnan(strength.fi_before):
        done += f"; fragmentation {strength.fi_before:.3f} → {strength.fi_after:.3f}"
    return f"{done} ({'; '.join(_settings(decoding))}).{clock_words(strength)}"


def changed_words(decoding: Decoding) -> str:
    """Return how many epochs were changed, with their share."""
    share = f" ({100 * decoding.changed_share:.1f} %)" if decoding.n_changed else ""
    return f"{count(decoding.n_changed, 'epoch')}{share} changed"


def _settings(decoding: Decoding) -> Iterator[str]:
    """Yield the experts' range of the fragmentation index, and the settings that led there."""
    strength, index = decoding.strength, quantity_of("fragmentation_index")
    low, high = band_at(index, decoding.profile, decoding.epoch_seconds)
    if not isnan(low):
        yield f"expert range {low:.3f}–{high:.3f}"
    if not isnan(strength.stager_fi):
        yield f"median of the stager's nights {strength.stager_fi:.3f}"
    if not strength.is_reached and strength.rule == "band":
        yield f"still outside the limits {strength.fi_low:.3f}–{strength.fi_high:.3f}"
    if strength.prior_exponent:
        yield f"prior exponent {strength.prior_exponent:g}"
    if strength.step != "raised":
        yield f"transition weight {strength.transition_weight:g}"
    if nats := sum(strength.balance_nats):  # of REM alone
        moved = "raised" if nats > 0 else "lowered"
        yield f"REM {moved} by {abs(nats):.2f} nats to match its probabilities"


def why_not_smoothed(strength: Strength) -> str:
    """Return why no rule smoothed a night; empty if one did."""
    if strength.step not in ("untouched", "hard"):
        return ""
    if isnan(strength.fi_before):
        return "too few epochs to measure fragmentation"
    if strength.is_of_labels:
        return NO_DOUBT
    index = f"fragmentation {strength.fi_before:.3f}"
    if strength.step == "hard":
        if isnan(strength.fi_yielded):
            return (
                f"{index}, but smoothing would create REM that neither the stager nor its probabilities hold"
            )
        yielded = f"{strength.fi_yielded:.3f} at transition weight {YIELDING_WEIGHT:g}"
        return f"{index}, but smoothing barely lowers it ({yielded}), as in a fragmented sleeper"
    if strength.fi_before < strength.fi_low:
        lifting = {
            "off": "",
            "unasked": "; minority stages are weighted up only for a stager trained on natural class "
            "frequencies",
            "tried": "; weighting up minority stages does not help",
        }[strength.lifting]
        return f"{index} is below the limit {strength.fi_low:.3f}{lifting}"
    if not isnan(strength.stager_fi):
        return f"{index} needs no smoothing (median of the stager's nights {strength.stager_fi:.3f})"
    return f"{index} is within the limits {strength.fi_low:.3f}–{strength.fi_high:.3f}"


def clock_words(strength: Strength) -> str:
    """Return what is unusual about the clock, as further sentences."""
    words = ""
    if strength.clock_passes and not strength.clock_onsets:
        words += " The clock found no sleep to count from."
    if not strength.clock_settled:
        words += (
            f" Sleep onset, from which the clock counts, still moved after {strength.clock_passes} passes."
        )
    if overruled := strength.clock_overruled:
        epochs = ", ".join(f"{epoch + 1:,}" for epoch in overruled)
        words += f" Given stages overrule the clock at epoch{'s' * (len(overruled) > 1)} {epochs}."
    return words


def other_causes(decoding: Decoding) -> tuple[str, ...]:
    """Return what besides the strength can change stages on a night."""
    night = decoding.night
    causes = {
        "stages that were given": bool(night.pins),
        "calibration": night.calibration is not None,
        "signal quality": night.quality is not None and bool(night.quality.any()),
        "the time since sleep onset": night.clock is not None,
    }
    return tuple(cause for cause, acts in causes.items() if acts)


def ties_words(n_ties: int) -> str:
    """Return how many ties between stages their neighbours resolved; empty without any."""
    return f"{count(n_ties, 'tie')} between stages resolved by neighbouring epochs" if n_ties else ""


def unscored_words(decoding: Decoding) -> Iterator[str]:
    """Yield sentences on epochs without evidence."""
    seconds = decoding.epoch_seconds
    n_filled = int(np.count_nonzero(decoding.filled))
    n_unscored = int(np.count_nonzero(decoding.hypnogram.labels < 0))
    if n_filled:
        yield (
            f"Filled: {count(n_filled, 'epoch')} without evidence ({duration(n_filled * seconds)}), from the "
            "epochs around."
        )
    if n_unscored:
        yield (
            f"Unscored: {count(n_unscored, 'epoch')} ({duration(n_unscored * seconds)}) without evidence for "
            "more than five minutes; they count neither as sleep nor as wake."
        )


# Whether it looks like expert scoring

MOST_NAMED = 40  # nights that are named


def verdict_words(valid: Validity) -> str:
    """Return whether a night looks like expert scoring."""
    return sentence(valid.verdict)


def looking_like_experts(judged: Sequence[bool | None], names: Sequence[str] = ()) -> str:
    """Return how many nights look like expert scoring, and by name which do not; None cannot be judged."""
    alike, unjudged = sum(each is True for each in judged), sum(each is None for each in judged)
    unlike = [name for each, name in zip(judged, names, strict=False) if each is False]
    left_out = f" {count(unjudged, 'night')} cannot be judged." if unjudged else ""
    named = f" {count(len(unlike), 'night')} {'does' if len(unlike) == 1 else 'do'} not" if unlike else ""
    named = f"{named}: {few(unlike)}." if unlike else ""
    if unjudged == len(judged):
        return left_out.strip()
    return (
        f"{alike:,} of {count(len(judged), 'night')} look{'s' * (alike == 1)} like expert scoring."
        f"{named}{left_out}"
    )


def few(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Return names as a list, the first of very many."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


# What to report, and what not

STEERED_BY: Mapping[Steering, tuple[str, str]] = {
    "fragmentation": ("Do not report (set by the smoothing)", "awakenings, bouts, fragmentation"),
    "totals": ("Shifted by the profile's stage biases", "TST, SE, WASO, time in each stage"),
}


def steering_words(steered: Iterable[Steering]) -> list[str]:
    """Return which statistics the profile itself sets."""
    given = set(steered)
    return [f"{what}: {names}." for key, (what, names) in STEERED_BY.items() if key in given]


def is_cautioned(decoding: Decoding) -> bool:
    """Whether the profile has a caution for the night's cohort."""
    return decoding.cohort is not None and decoding.profile.caution_for(decoding.cohort) is not None


def hinge_words(hinge: tuple[int, int] | None) -> str:
    """Return the advice to look at the doubtful epochs that a number depends on; empty without any."""
    if hinge is None:
        return ""
    return f"{_depends(hinge)}: look at {'it' if hinge[0] == hinge[1] else 'them'}"


def _depends(hinge: tuple[int, int]) -> str:
    first, last = (epoch + 1 for epoch in hinge)
    return f"depends on epoch {first:,}" if first == last else f"depends on epochs {first:,}–{last:,}"


NO_CARD = "accuracy unknown: run stageguard grade on expert-scored nights"


def report_words(
    looks_like_experts: bool | None,
    n_changed: int,
    *,
    is_cautioned: bool = False,
    has_intervals: bool = False,
) -> str:
    """Return which numbers of a night to report; the profile may have a caution for its cohort."""
    if looks_like_experts is False or is_cautioned:
        return "Look at the night before you report a number."
    what = "the guarded numbers" if n_changed else "the guarded numbers (the same as the stager's)"
    return f"Report {what}{' with their intervals' if has_intervals else ''}."


def marks_words(card: GradeCard | None) -> str:
    """Return whose grades the marks of a table are, or how to get a grade card."""
    if card is None:
        return NO_CARD
    of = "" if card.facts.stager is None else f" of {card.facts.stager}"
    whom = f"{people_words(card.n_people)} and {count(len(card.scorers), 'expert')}"
    return f"accuracy by the grade card{of} with {whom} (SHA-256 {card.sha256[:12]})"


VERDICTS = {"as an expert": "expert-level", "worse": "worse", "not shown": "inconclusive"}


def accuracy_words(card: GradeCard | None, key: str) -> str:
    """Return how accurate a card found a statistic to be; empty without a card."""
    if card is None:
        return ""
    mark = card.mark(key)
    return f"worse than an expert ({worse_by(card[key])})" if mark == "worse" else VERDICTS.get(mark, mark)


def worse_by(grade: Grade) -> str:
    """Return the error in units of an expert's, by the reading that is more surely worse."""
    return f"{times(max(grade.mean, grade.typical, key=lambda ratio: ratio.low).value)} ×"


def times(value: float) -> str:
    """Return a ratio with two decimals and no zero before the point."""
    if isnan(value):
        return ABSENT
    return "∞" if value == inf else number_text(value, 2).removeprefix("0")


def people_words(number: int) -> str:
    """Return a number of people."""
    return f"{number:,} {'person' if number == 1 else 'people'}"


def mixed_epochs_words(lengths: Iterable[float]) -> str:
    """Return the remark on nights whose epochs have several lengths."""
    shown = " and ".join(f"{length:g} s" for length in sorted(lengths))
    return f"epochs last {shown}: stage changes are shown per hour, as counts per epoch do not compare"


# What to look at

MOST_OUTSIDE, MOST_EARLY = 4, 3  # indicators, and bouts of early REM, that are named
MUCH_UNSCORED = 0.05  # share of unscored epochs above which a reader is warned; our choice


def aside_words(decoding: Decoding, valid: Validity) -> str:
    """Return how a night that no rule smoothed differs from expert scorings; empty if it does not.

    Most expert nights are outside some band, so the joint score decides, if there is one, and uncommon
    transitions.
    """
    if decoding.strength.step not in ("untouched", "hard"):
        return ""
    # uncommon transitions count by themselves: few of them hardly move the joint score
    if valid.looks_like_experts and valid.indicators["tvr_percent"].place != "above":
        return ""
    outside = []
    for key in valid.outside:
        quantity, each = quantity_of(key), valid.indicators[key]
        unit = quantity.unit.split()[0]
        shown = f"{each.value:.{quantity.decimals}f}{f' {unit}' if unit in ('%', 'min') else ''}"
        outside.append(f"{quantity.label} {shown} ({each.place})")
    if not outside:
        return ""
    more = f"; and {len(outside) - MOST_OUTSIDE} more" if len(outside) > MOST_OUTSIDE else ""
    named = "; ".join(outside[:MOST_OUTSIDE])
    return f"LOOK AT THIS NIGHT: not smoothed, and outside the expert range in {named}{more}."


def look_at_words(aside: str, hinges: Mapping[str, tuple[int, int]]) -> str:
    """Return in a few words why somebody should look at a night; empty if nothing says so."""
    reasons = ["not smoothed, and outside the range of expert scoring"] * bool(aside)
    reasons += [f"{quantity_of(key).title} {_depends(hinge)}" for key, hinge in hinges.items()]
    return "; ".join(reasons)


def early_rem_words(decoding: Decoding) -> tuple[str, ...]:
    """Describe each early REM of the stager that decoding removed: when, how long, and how well supported."""
    seconds, words = decoding.epoch_seconds, []
    for event in early_rem_removed(decoding):
        since, long = event.minutes_since_onset, f"{duration(event.n_epochs * seconds)} long"
        when = "before sleep onset" if isnan(since) else f"{since:.3g} min after sleep onset"
        if event.n_removed < event.n_epochs:
            long = f"{duration(event.n_removed * seconds)} of {duration(event.n_epochs * seconds)}"
        words.append(
            f"{decoding.profile.scheme.rem} {when} (epoch {event.epoch + 1}), {long}; "
            f"the stager's odds for REM {odds(event.bout_evidence_nats / event.n_epochs)}"
        )
    return tuple(words)


def odds(nats: float) -> str:
    """Return a difference of log-probabilities as odds, as in ``5 : 1``."""
    # beyond this the odds are only "more than 99 : 1"
    ratio = exp(min(abs(nats), 10.0))
    shown_ratio = "more than 99" if ratio > 99 else f"{ratio:.2g}"
    return f"{shown_ratio} : 1" if nats >= 0 else f"1 : {shown_ratio}"


def warnings_of(decoding: Decoding, valid: Validity, hinges: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """Yield what to look at before using a night."""
    if decoding.cohort is not None:
        caution = decoding.profile.caution_for(decoding.cohort)
        if caution is not None:
            yield f"The profile has a caution for “{decoding.cohort}”: {caution.reason}"
    if decoding.changed_share > decoding.many_changes:
        yield f"{many_changes_words(decoding)}: {many_changes_advice(decoding.profile)}"
    n_unscored = int(np.count_nonzero(decoding.hypnogram.labels < 0))
    if n_unscored > MUCH_UNSCORED * decoding.hypnogram.n_epochs:
        share = 100 * n_unscored / decoding.hypnogram.n_epochs
        yield f"{share:.0f} % of the recording is unscored: times are lower bounds, latencies may be wrong."
    if aside := aside_words(decoding, valid):
        yield aside
    for key, hinge in hinges.items():
        yield f"{quantity_of(key).title} {hinge_words(hinge)}."
    # in animals, REM soon after sleep onset is common
    early = early_rem_words(decoding) if decoding.profile.species == "human" else ()
    for removed in early[:MOST_EARLY]:
        yield f"Early REM removed: {removed}."
    if len(early) > MOST_EARLY:
        yield f"Early REM was removed in {len(early) - MOST_EARLY} more places: see the rare events."
    if decoding.removed_bouts:
        yield sentence(removed_words(decoding))


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
    lifted = decode_night(replace(night, options=replace(night.options, trained="natural")))
    n_changed = int(np.count_nonzero(lifted.hypnogram.labels != decoding.hypnogram.labels))
    if not n_changed:
        return ()
    return (
        "If the stager was trained on natural class frequencies, trained='natural' would change "
        f"{count(n_changed, 'epoch')}; fragmentation {before.fi_after:.3f} → {lifted.strength.fi_after:.3f}.",
    )


# Changes and rare events

MOST_KINDS = 4  # kinds of changes named in a group's line
BY = {
    "pin": "by the stages that were given",
    "calibration": "by the profile's calibration",
    "prior": "by weighting up minority stages",
    "quality": "by signal quality",
    "minimum bout": "by a minimum bout",
    "flip-flop": "by the penalty on quick returns",
    "transition": "by improbable transitions",
    "several together": "by several rules together",
}


def rule_words(change: Change, scheme: StageScheme) -> str:
    """Return the rule that decided a change."""
    if change.rule != "clock":
        return BY[change.rule]
    stage = change.before[0]
    return f"by the clock's {'REM' if stage == scheme.rem else stage} rule"


def kinds_words(changes: Sequence[Change], epoch_seconds: float) -> str:
    """Return the number of changed epochs, their duration, and the most frequent changes of stage."""
    n_epochs = sum(change.n_epochs for change in changes)
    kinds = Counter((a, b) for change in changes for a, b in zip(change.before, change.after, strict=True))
    named = [f"{a}→{b} {n:,}" for (a, b), n in kinds.most_common(MOST_KINDS)]
    rest = kinds.total() - sum(n for _, n in kinds.most_common(MOST_KINDS))
    others = [f"others {rest:,}"] if rest else []
    return f"{count(n_epochs, 'epoch')}, {duration(n_epochs * epoch_seconds)}: {', '.join(named + others)}"


def watched_words(decoding: Decoding, events: Sequence[RareEvent]) -> str:
    """Return which rare events were looked for, and how many were kept, lost and made."""
    scheme = decoding.profile.scheme
    watched = [f"{a}→{b}" for a, b in decoding.profile.tvr_pairs]
    if scheme.wake is not None and scheme.rem is not None:
        early = [f"{scheme.wake}→{scheme.rem}", f"{scheme.rem} soon after sleep onset"]
        watched = list(dict.fromkeys([*watched, *early]))
    if not watched:
        return "These stages have no rare events."
    n = Counter(event.fate for event in events)
    partly = f"{n['partly removed']:,} partly removed, " if n["partly removed"] else ""
    fates = f"{n['kept']:,} kept, {partly}{n['lost']:,} lost, {n['new']:,} new" if events else "none found"
    return f"Watched: {', '.join(watched)}. {fates[:1].upper()}{fates[1:]}."


def kappa_words(before: float, after: float, name: str) -> str:
    """Return the agreement with an expert before and after."""
    return f"Agreement with the {name}: κ {number_text(before, 3)} → {number_text(after, 3)}."
