"""Sentences on what the guard did to one night: headline, facts, tiles, summary, changes, warnings, notes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stageguard.guard.decode import many_changes_advice, many_changes_words, removed_words
from stageguard.guard.decoding import Decoding
from stageguard.guard.explain import Change
from stageguard.measures.statistics import LONGEST_NIGHT_HOURS, StatisticsOptions, lights_words
from stageguard.measures.validity import Validity
from stageguard.night.quantities import quantity_of
from stageguard.night.stages import StageScheme
from stageguard.report.guard_words import other_causes, why_hard
from stageguard.report.numbers import ABSENT, count, difference, duration, number_text, ties_words
from stageguard.report.summary import aside_words, early_rem_words
from stageguard.report.tables import ReportMeasures, bands_sentence, fates, indicator_rows

MUCH_UNSCORED = 0.05  # share of unscored epochs above which the page warns; our choice
MOST_EARLY = 3  # bouts of early REM that are listed one by one


def noun(decoding: Decoding) -> str:
    """Return "night" or, for a long one, "recording"."""
    hours = decoding.hypnogram.n_epochs * decoding.epoch_seconds / 3600
    return "night" if hours < LONGEST_NIGHT_HOURS else "recording"


def headline(decoding: Decoding) -> str:
    """Return one short sentence on what the guard did."""
    strength, n_changed = decoding.strength, decoding.n_changed
    if strength.step in ("untouched", "hard"):
        by_clock = n_changed and decoding.night.clock is not None
        return "The clock alone acted." if by_clock else "The guard stepped aside."
    if not n_changed:
        return (
            "The guard could change nothing." if strength.step == "lowered" else "Nothing had to be changed."
        )
    return {
        "fixed": "The profile was applied at its fixed strength.",
        "lowered": f"The guard smoothed an over-fragmented {noun(decoding)}.",
        "raised": "The guard brought back stages that the stager starved.",
        "raised then lowered": f"The guard brought back starved stages, then smoothed the {noun(decoding)}.",
        "nearest": f"The guard brought the {noun(decoding)} close to the experts' fragmentation.",
    }[strength.step]


def summary(decoding: Decoding, measured: ReportMeasures) -> Iterator[str]:
    """Yield sentences on why and how much was changed, and how the result compares."""
    yield verdict(decoding, measured)
    yield f"{_reason(decoding)} {_how_much(decoding)}"
    if decoding.n_ties:
        yield f"{ties_words(decoding.n_ties)}."
    yield from unscored_words(decoding)
    if rows := [row for row in indicator_rows(measured) if row.has_band]:
        yield bands_sentence(rows)
    if measured.events:
        yield fates(measured.events)
    if measured.agreement is not None and measured.expert is not None:
        before, after = (agreement.kappa for agreement in measured.agreement)
        verb = "rose" if after > before else "fell" if after < before else "stayed"
        if verb == "stayed" or math.isnan(before) or math.isnan(after):
            change = f"is κ {number_text(before, 2)} before and {number_text(after, 2)} after"
        else:
            change = f"{verb} from κ {number_text(before, 3)} to {number_text(after, 3)}"
        yield f"Agreement with the {measured.expert.name} {change}."


def verdict(decoding: Decoding, measured: ReportMeasures) -> str:
    """Return whether the night looks like expert scoring, after and before."""
    before, after = measured.before.validity, measured.after.validity
    was = "" if math.isnan(before.joint.value) else f"; before: {before.joint.value:.2f}"
    return f"The decoded {noun(decoding)} {after.verdict}{was}."


def _how_much(decoding: Decoding) -> str:
    n_scored, n_changed = decoding.n_scored, decoding.n_changed
    if not n_changed:
        return f"All {count(n_scored, 'epoch')} keep the stage the stager chose."
    by = ""
    if decoding.strength.step in ("untouched", "hard"):  # only other causes can have changed a stage
        by = f", by {' and '.join(causes)}" if (causes := other_causes(decoding)) else ""
    share = f"{100 * n_changed / n_scored:.1f} %"
    return (
        f"{n_changed:,} of {count(n_scored, 'epoch')} ({share}) got another stage than the stager chose{by}."
    )


def _reason(decoding: Decoding) -> str:
    strength, rule, name = decoding.strength, decoding.profile.strength, noun(decoding)
    if rule is None:
        return "This profile acts on every night alike, whatever its fragmentation."
    if math.isnan(strength.fi_before):
        return "There are too few epochs to measure fragmentation."
    if strength.is_of_labels:
        return "Labels alone do not say which epochs are doubtful, so that none is smoothed."
    if strength.step == "nearest":
        return "The strength was chosen so that stages change as often as experts score."
    experts = rule.fi_target * decoding.epoch_seconds / decoding.profile.epoch_seconds
    often = seldom = f"changes stage {strength.fi_before / experts:.1f} times as often as expert scorings do"
    if strength.step == "untouched" and strength.fi_before < strength.fi_low:
        cure = {
            "off": "the profile lifts no minority stages",
            "unasked": "minority stages are lifted only for a stager trained on natural class frequencies",
            "tried": "no lifting of minority stages helps",
        }[strength.lifting]
        return f"The stager's {name} {seldom}, but {cure}, so it is left alone."
    if strength.step == "untouched" and not math.isnan(strength.stager_fi):
        return (
            f"The stager's {name} is no more fragmented than its nights are to become, so it is left alone."
        )
    if strength.step == "untouched":
        limit = f"up to {strength.fi_high / strength.fi_experts:.4g} times is left alone"
        return f"The stager's {name} {often} on average: {limit}."
    if strength.step == "hard":
        return f"The stager's {name} {often}, but {why_hard(strength)}: it is left alone."
    still = "" if strength.is_reached else ", although not as far as the rule asks"
    if strength.step == "lowered":
        if not math.isnan(strength.stager_fi):
            often = "comes from a stager that flickers"
        if not decoding.changed.any():
            return f"The stager's {name} {often}, but is too sure of each epoch to be smoothed."
        return f"The stager's {name} {often}; decoded, it is smoother{still}."
    return f"The stager's {name} {seldom}; decoded, it is livelier{still}."


def unscored_words(decoding: Decoding) -> Iterator[str]:
    """Yield sentences on epochs without evidence."""
    n_filled = int(np.count_nonzero(decoding.filled))
    n_unscored = int(np.count_nonzero(decoding.hypnogram.labels < 0))
    seconds = decoding.epoch_seconds
    if n_filled:
        yield (
            f"{count(n_filled, 'epoch')} without evidence ({duration(n_filled * seconds)}) got the stage "
            "that fits their neighbours best."
        )
    if n_unscored:
        yield (
            f"{count(n_unscored, 'epoch')} ({duration(n_unscored * seconds)}) without evidence for more than "
            "five minutes stay unscored: they count neither as sleep nor as wake."
        )


def warnings_of(decoding: Decoding, measured: ReportMeasures) -> Iterator[str]:
    """Yield warnings to read before using the night."""
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
    if aside := aside_words(decoding, measured.after.validity):
        yield aside
    early = early_rem_words(decoding)
    for removed in early[:MOST_EARLY]:
        yield f"Early REM removed: {removed}."
    if len(early) > MOST_EARLY:
        yield f"Early REM was removed in {len(early) - MOST_EARLY} more places: see the rare events."
    if decoding.removed_bouts:
        words = removed_words(decoding)
        yield words[0].upper() + words[1:]


def band_notes(decoding: Decoding, after: Validity) -> Iterator[str]:
    """Yield a note if the rule accepts a night whose fragmentation is outside the band."""
    strength, indicator = decoding.strength, after.indicators["fragmentation_index"]
    if strength.rule != "band" or indicator.place not in ("below", "above"):
        return
    if strength.fi_low <= strength.fi_after <= strength.fi_high:
        yield (
            "Why the fragmentation index may stay outside its band: the rule leaves a night alone between "
            f"{strength.fi_low:.3f} and {strength.fi_high:.3f}, and does no more than it takes to get there; "
            f"the band, {indicator.low:.3f} to {indicator.high:.3f}, is the range of single expert nights."
        )


def statistics_caption(decoding: Decoding, options: StatisticsOptions, assumed: Sequence[str]) -> str:
    """Return sentences on the definitions used and on time in bed."""
    sentences = [
        "AASM definitions: REM latency counts from sleep onset; unscored is neither sleep nor wake",
        f"A lasting bout of REM is one of {options.min_first_rem_seconds:g} s or more",
    ]
    lights = lights_words(decoding.hypnogram, *options.lights)
    if lights:
        sentences.append(lights.capitalize())
        sentences.append("Agreement and the list of uncommon transitions are of the whole recording")
    return ". ".join([*sentences, *assumed]) + "."


def measured_part(decoding: Decoding, options: StatisticsOptions) -> str:
    """Return which part of the recording the indicators are of."""
    part = "sleep period" if decoding.profile.measures_sleep_period else "recording"
    if options.lights != (None, None):
        return f"{part} between lights"
    return part if decoding.profile.measures_sleep_period else "whole recording"


def facts(decoding: Decoding) -> Iterator[str]:
    """Yield facts about the recording."""
    hypnogram = decoding.hypnogram
    if hypnogram.start is not None:
        yield f"starts {hypnogram.start:%Y-%m-%d %H:%M:%S}"
    yield duration(hypnogram.n_epochs * hypnogram.epoch_seconds)
    yield f"{count(hypnogram.n_epochs, 'epoch')} of {hypnogram.epoch_seconds:g} s"
    yield f"stages {' '.join(hypnogram.scheme.names)}"
    yield f"profile {decoding.profile.name}"
    if decoding.cohort:
        yield f"cohort {decoding.cohort}"


def tiles(decoding: Decoding, measured: ReportMeasures) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and detail of the four most important numbers.

    These are changed epochs, transitions per hour, total sleep time, and agreement or else WASO.
    """
    n_scored, n_changed = decoding.n_scored, decoding.n_changed
    yield "Epochs changed", f"{100 * decoding.changed_share:.1f} %", f"{n_changed:,} of {n_scored:,}"
    key = "transitions_per_hour"
    was, now = (column.validity.indicators[key] for column in (measured.before, measured.after))
    band = f"experts {number_text(now.low, 1)} to {number_text(now.high, 1)}"
    detail = "no expert band" if math.isnan(now.low) else band
    yield quantity_of(key).title, _change(was.value, now.value), detail
    before, after = measured.before.statistics, measured.after.statistics
    slept = ABSENT if math.isnan(after.tst_minutes) else duration(60 * after.tst_minutes)
    changed = f"{difference(after.tst_minutes, before.tst_minutes, 1)} min by decoding"
    same = after.tst_minutes == before.tst_minutes
    yield quantity_of("tst_minutes").title, slept, "unchanged by decoding" if same else changed
    if measured.agreement is not None and measured.expert is not None:
        name = f"Agreement with the {measured.expert.name}"
        kappa_before, kappa = (agreement.kappa for agreement in measured.agreement)
        yield name, f"κ {_change(kappa_before, kappa, 2)}", "1 is perfect, 0 is chance"
    else:
        waso = quantity_of("waso_minutes").title
        yield waso, _change(before.waso_minutes, after.waso_minutes), "minutes"


def _change(before: float, after: float, decimals: int = 1) -> str:
    return f"{number_text(before, decimals)} → {number_text(after, decimals)}"


MOST_CHANGES = 4_000  # listed on a page; of more, those with the largest margin
MOST_KINDS = 4  # kinds of changes named in a group's line
BY = {
    "pin": "by the stages that were given",
    "calibration": "by the profile's calibration",
    "prior": "by lifting minority stages",
    "quality": "by signal quality",
    "minimum bout": "by a minimum bout",
    "flip-flop": "by the penalty on quick returns",
    "transition": "by improbable transitions",
    "several together": "by several rules together",
}


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Changes decided by one rule: its name, their number, a summary, and the changes that are listed."""

    by: str
    n_changes: int
    detail: str
    rows: tuple[Change, ...]


def change_groups(
    changes: Sequence[Change], scheme: StageScheme, epoch_seconds: float
) -> tuple[ChangeGroup, ...]:
    """Return the changes by rule, the most frequent first, each group in order of time."""
    listed = sorted(changes, key=lambda change: -change.margin_nats)[:MOST_CHANGES]
    is_listed = set(map(id, listed))
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(_rule_words(change, scheme), []).append(change)
    return tuple(
        ChangeGroup(
            by,
            len(group),
            _detail(group, epoch_seconds),
            tuple(change for change in group if id(change) in is_listed),
        )
        for by, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    )


def _rule_words(change: Change, scheme: StageScheme) -> str:
    if change.rule != "clock":
        return BY[change.rule]
    stage = change.before[0]
    return f"by the clock's {'REM' if stage == scheme.rem else stage} rule"


def _detail(group: Sequence[Change], epoch_seconds: float) -> str:
    """Return the number of epochs, their duration, and the most frequent changes of stage."""
    n_epochs = sum(change.n_epochs for change in group)
    kinds = Counter((a, b) for change in group for a, b in zip(change.before, change.after, strict=True))
    named = [f"{a}→{b} {n:,}" for (a, b), n in kinds.most_common(MOST_KINDS)]
    rest = kinds.total() - sum(n for _, n in kinds.most_common(MOST_KINDS))
    others = [f"others {rest:,}"] if rest else []
    return f"{count(n_epochs, 'epoch')}, {duration(n_epochs * epoch_seconds)}: {', '.join(named + others)}"


def changes_intro(changes: Sequence[Change], n_ties: int) -> str:
    """Return one sentence on how much was changed."""
    if not changes and n_ties:
        return f"No choice of the stager was changed; {ties_words(n_ties)}."
    if not changes:
        return "Nothing was changed: the output is the stager's own choice."
    n_epochs = sum(change.n_epochs for change in changes)
    return f"{count(n_epochs, 'epoch')} in {count(len(changes), 'place')}, by the rule that decided:"
