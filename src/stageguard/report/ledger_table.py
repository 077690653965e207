"""Rows of the ledger of rare events, and their counts. Finds no events itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from stageguard.decoded import Decoding
from stageguard.rare_events import RareEvent
from stageguard.report.night_panels import Mark
from stageguard.report.numbers import count, shown

MAX_ROWS = 150  # a mouse's day can hold hundreds; those decoding lost or made come first


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """An event as shown."""

    epoch: int
    time: str
    kind: str
    before: str
    after: str
    outcome: str
    evidence: str


@dataclass(frozen=True, slots=True)
class LedgerCount:
    """How many events of a kind were kept, lost and made."""

    kind: str
    kept: int
    lost: int
    new: int


def outcome_of(event: RareEvent) -> str:
    """Return kept, lost or new."""
    return ("kept" if event.in_after else "lost") if event.in_before else "new"


def marks_of(events: Sequence[RareEvent]) -> tuple[Mark, ...]:
    """Return where events are marked below the hypnograms."""
    return tuple(Mark(event.epoch, outcome_of(event)) for event in events)


def ledger_counts(events: Sequence[RareEvent]) -> tuple[LedgerCount, ...]:
    """Return one row per kind of event."""
    found = Counter((event.kind, outcome_of(event)) for event in events)
    kinds = dict.fromkeys(event.kind for event in events)
    return tuple(LedgerCount(kind, *(found[kind, o] for o in ("kept", "lost", "new"))) for kind in kinds)


def ledger_rows(decoding: Decoding, events: Sequence[RareEvent]) -> tuple[LedgerRow, ...]:
    """Return the events in order of time; of very many, those that decoding lost or made come first."""
    chosen = sorted(events, key=lambda event: outcome_of(event) == "kept")[:MAX_ROWS]
    return tuple(
        LedgerRow(
            event.epoch,
            time_of(decoding, event.epoch),
            event.kind,
            "yes" if event.in_before else "no",
            "yes" if event.in_after else "no",
            outcome_of(event),
            shown(event.evidence_nats, 2),
        )
        for event in sorted(chosen, key=lambda event: (event.epoch, event.kind))
    )


def ledger_intro(decoding: Decoding, events: Sequence[RareEvent]) -> str:
    """Return in one or two sentences what the ledger holds."""
    watched = ", ".join(f"{a}→{b}" for a, b in decoding.profile.tvr_pairs) or "no transition"
    looked = f"Watched: {watched}, Wake→REM, and REM soon after sleep onset."
    if not events:
        return f"{looked} None occurs, neither before nor after decoding."
    n = Counter(outcome_of(event) for event in events)
    return f"{looked} {count(n['kept'], 'event')} kept, {n['lost']} lost, {n['new']} new."


def ledger_caption(events: Sequence[RareEvent]) -> str:
    """Return what the columns mean, and how many rows are left out."""
    meaning = (
        "Evidence: how much more probable the stager found the event's stage than the best other one, "
        "as a log ratio; below 0 it preferred another."
    )
    if len(events) <= MAX_ROWS:
        return meaning
    return f"{meaning} {len(events) - MAX_ROWS:,} of {len(events):,} events are left out here, kept ones first."


def time_of(decoding: Decoding, epoch: int) -> str:
    """Return when an epoch begins: clock time, or time from the start."""
    seconds = epoch * decoding.epoch_seconds
    if decoding.hypnogram.start is not None:
        return f"{decoding.hypnogram.start + timedelta(seconds=seconds):%H:%M:%S}"
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
