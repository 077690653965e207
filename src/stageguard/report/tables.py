"""Rows of the tables of agreement, rare events and changes, and the sentences beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from stageguard.guard.decoding import Decoding
from stageguard.guard.explain import Change, in_bouts
from stageguard.measures.agreement import Agreement
from stageguard.measures.rare_events import RareEvent
from stageguard.night.stages import StageScheme
from stageguard.report.night_panels import Mark
from stageguard.report.numbers import arrowed, count, difference, duration, shown


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """A measure as shown."""

    name: str
    before: str
    after: str
    change: str


def agreement_rows(before: Agreement, after: Agreement) -> Iterator[AgreementRow]:
    """Return accuracy, kappa, F1 by stage and the recall of rare transitions."""

    def row(
        name: str, value_before: float, value_after: float, decimals: int, unit: str = ""
    ) -> AgreementRow:
        change = difference(value_after, value_before, decimals)
        return AgreementRow(name + unit, shown(value_before, decimals), shown(value_after, decimals), change)

    yield row("Accuracy", 100 * before.accuracy, 100 * after.accuracy, 1, " (%)")
    yield row("Cohen's κ", before.kappa, after.kappa, 3)
    yield row("Macro F1", before.macro_f1, after.macro_f1, 3)
    for stage in after.f1:
        yield row(f"F1, {stage}", before.f1[stage], after.f1[stage], 3)
    if after.n_rare:
        title = f"Rare transitions found, of {after.n_rare:,}"
        yield row(f"{title}, same epoch", 100 * before.rare_recall_0, 100 * after.rare_recall_0, 0, " (%)")
        yield row(f"{title}, ± 2 epochs", 100 * before.rare_recall_2, 100 * after.rare_recall_2, 0, " (%)")


def agreement_caption(after: Agreement, scheme: StageScheme) -> str:
    """Return on how many epochs, in which stages if not the night's, and what guessing would score."""
    merged = "" if after.scheme == scheme else f" Compared in {', '.join(after.scheme.names)}."
    left_out = f", {after.n_left_out:,} left out" if after.n_left_out else ""
    majority = (
        f"Calling every epoch {after.majority_stage} would be right in {100 * after.majority_accuracy:.1f} %."
    )
    scored = f"{count(after.n_epochs, 'epoch')} scored by both{left_out}.{merged}"
    return f"{scored} {majority}" if after.n_epochs else scored


MOST_EVENTS = 150  # a mouse's day can hold hundreds; those decoding lost or made come first


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """An event as shown."""

    epoch: int
    time: str
    kind: str
    before: str
    after: str
    fate: str
    length: str
    evidence: str
    bout_evidence: str


@dataclass(frozen=True, slots=True)
class LedgerCount:
    """How many events of a kind were kept, lost and made."""

    kind: str
    kept: int
    lost: int
    new: int


def marks_of(events: Sequence[RareEvent]) -> tuple[Mark, ...]:
    """Return where events are marked below the hypnograms."""
    return tuple(Mark(event.epoch, event.fate) for event in events)


def ledger_counts(events: Sequence[RareEvent]) -> tuple[LedgerCount, ...]:
    """Return one row per kind of event."""
    n_events = Counter((event.kind, event.fate) for event in events)
    kinds = dict.fromkeys(event.kind for event in events)
    return tuple(
        LedgerCount(arrowed(kind), *(n_events[kind, o] for o in ("kept", "lost", "new"))) for kind in kinds
    )


def ledger_rows(decoding: Decoding, events: Sequence[RareEvent]) -> tuple[LedgerRow, ...]:
    """Return the events in order of time; of very many, those that decoding lost or made come first."""
    chosen = sorted(events, key=lambda event: event.fate == "kept")[:MOST_EVENTS]
    return tuple(
        LedgerRow(
            epoch=event.epoch,
            time=time_of(decoding, event.epoch),
            kind=arrowed(event.kind),
            before="yes" if event.in_before else "no",
            after="yes" if event.in_after else "no",
            fate=event.fate,
            length=duration(event.n_epochs * decoding.epoch_seconds),
            evidence=shown(event.evidence_nats, 2),
            bout_evidence=shown(event.bout_evidence_nats, 1),
        )
        for event in sorted(chosen, key=lambda event: (event.epoch, event.kind))
    )


def ledger_intro(decoding: Decoding, events: Sequence[RareEvent]) -> str:
    """Return what was watched for, and what became of it."""
    scheme = decoding.profile.scheme
    watched = [f"{a}→{b}" for a, b in decoding.profile.tvr_pairs]
    if scheme.wake is not None and scheme.rem is not None:
        early = [f"{scheme.wake}→{scheme.rem}", f"{scheme.rem} soon after sleep onset"]
        watched = list(dict.fromkeys([*watched, *early]))
    if not watched:
        return "These stages know no rare event."
    looked = f"Watched: {', '.join(watched)}."
    return f"{looked} {fates(events)}" if events else f"{looked} None occurs, before or after."


def fates(events: Sequence[RareEvent]) -> str:
    """Return how many events were kept, lost and made, in one sentence."""
    n = Counter(event.fate for event in events)
    n_own = n["kept"] + n["lost"]
    if not n_own:
        return f"The stager has no rare event; decoding made {count(n['new'], 'new one')}."
    of_stager = count(n_own, "rare event")
    return (
        f"Of the stager's {of_stager}, decoding kept {n['kept']:,} and lost {n['lost']:,}; {n['new']:,} new."
    )


def ledger_caption(events: Sequence[RareEvent]) -> str:
    """Return what the columns mean, and how many rows are left out."""
    meaning = (
        "Evidence: log-probability of the stage gone to, less that of the best other stage; above 0 the "
        "stager was for it. At its first epoch, and summed over the bout."
    )
    if len(events) <= MOST_EVENTS:
        return meaning
    return (
        f"{meaning} {len(events) - MOST_EVENTS:,} of {len(events):,} are left out, kept ones before others."
    )


def time_of(decoding: Decoding, epoch: int) -> str:
    """Return when an epoch begins: clock time, or time from the recording's start."""
    seconds = epoch * decoding.epoch_seconds
    if decoding.hypnogram.start is not None:
        return f"{decoding.hypnogram.start + timedelta(seconds=seconds):%H:%M:%S}"
    whole = int(seconds + decoding.hypnogram.offset_seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


MOST_CHANGES = 200  # a mouse's day can hold thousands; those that cost most to keep come first


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A change as shown."""

    epoch: int
    time: str
    before: str
    after: str
    rule: str
    probabilities: str
    evidence: str
    margin: str


def change_rows(decoding: Decoding, changes: Sequence[Change]) -> tuple[ChangeRow, ...]:
    """Return the changes in order of time; of very many, the most certain ones."""
    chosen = sorted(changes, key=lambda change: -change.margin_nats)[:MOST_CHANGES]
    return tuple(
        ChangeRow(
            epoch=change.first_epoch,
            time=time_of(decoding, change.first_epoch),
            before=in_bouts(change.before),
            after=in_bouts(change.after),
            rule=change.rule,
            probabilities=f"{change.probability_before:.2f} → {change.probability_after:.2f}",
            evidence=shown(change.evidence_nats, 2),
            margin="not allowed" if change.margin_nats == float("inf") else shown(change.margin_nats, 2),
        )
        for change in sorted(chosen, key=lambda change: change.first_epoch)
    )


def changes_intro(changes: Sequence[Change]) -> str:
    """Return how many changes there are and which rules made them."""
    if not changes:
        return "Nothing was changed: the output is the stager's own choice."
    rules = Counter(change.rule for change in changes)
    made = ", ".join(f"{rule} {n:,}" for rule, n in rules.most_common())
    n_epochs = sum(change.n_epochs for change in changes)
    return f"{count(n_epochs, 'epoch')} in {count(len(changes), 'place')}. Decided by: {made}."


def changes_caption(changes: Sequence[Change]) -> str:
    """Return what the columns mean, and how many rows are left out."""
    meaning = (
        "Evidence given up: log-probability of the stager's choice less that of the decoded stages, as the "
        "decoder weighed it. Cost of keeping: how much worse the best night is that keeps the stager's "
        "choice there; near 0 it was a close call."
    )
    if len(changes) <= MOST_CHANGES:
        return meaning
    return f"{meaning} The {len(changes) - MOST_CHANGES:,} closest calls of {len(changes):,} are left out."
