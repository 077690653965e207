"""Rows of the ledger of rare events, and their counts. Finds no events itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from stageguard.guard.decoding import Decoding
from stageguard.measures.rare_events import RareEvent
from stageguard.report.night_panels import Mark
from stageguard.report.numbers import arrowed, count, duration, shown

MAX_ROWS = 150  # a mouse's day can hold hundreds; those decoding lost or made come first


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
    found = Counter((event.kind, event.fate) for event in events)
    kinds = dict.fromkeys(event.kind for event in events)
    return tuple(
        LedgerCount(arrowed(kind), *(found[kind, o] for o in ("kept", "lost", "new"))) for kind in kinds
    )


def ledger_rows(decoding: Decoding, events: Sequence[RareEvent]) -> tuple[LedgerRow, ...]:
    """Return the events in order of time; of very many, those that decoding lost or made come first."""
    chosen = sorted(events, key=lambda event: event.fate == "kept")[:MAX_ROWS]
    return tuple(
        LedgerRow(
            event.epoch,
            time_of(decoding, event.epoch),
            arrowed(event.kind),
            "yes" if event.in_before else "no",
            "yes" if event.in_after else "no",
            event.fate,
            duration(event.n_epochs * decoding.epoch_seconds),
            shown(event.evidence_nats, 2),
            shown(event.bout_evidence_nats, 1),
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
    own = count(n_own, "rare event")
    return f"Of the stager's {own}, decoding kept {n['kept']:,} and lost {n['lost']:,}; {n['new']:,} new."


def ledger_caption(events: Sequence[RareEvent]) -> str:
    """Return what the columns mean, and how many rows are left out."""
    meaning = (
        "Evidence: log-probability of the stage gone to, less that of the best other stage; above 0 the "
        "stager was for it. At its first epoch, and summed over the bout."
    )
    if len(events) <= MAX_ROWS:
        return meaning
    return f"{meaning} {len(events) - MAX_ROWS:,} of {len(events):,} are left out, kept ones before others."


def time_of(decoding: Decoding, epoch: int) -> str:
    """Return when an epoch begins: clock time, or time from the recording's start."""
    seconds = epoch * decoding.epoch_seconds
    if decoding.hypnogram.start is not None:
        return f"{decoding.hypnogram.start + timedelta(seconds=seconds):%H:%M:%S}"
    whole = int(seconds + decoding.hypnogram.offset_seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
