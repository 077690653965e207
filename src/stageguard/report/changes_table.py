"""Rows of what decoding changed and why, and a sentence on them. Explains nothing itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from stageguard.guard.decoding import Decoding
from stageguard.guard.explain import Change, in_bouts
from stageguard.report.ledger_table import time_of
from stageguard.report.numbers import count, shown

MAX_ROWS = 200  # a mouse's day can hold thousands; those that cost most to keep come first


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
    chosen = sorted(changes, key=lambda change: -change.margin_nats)[:MAX_ROWS]
    return tuple(
        ChangeRow(
            change.first_epoch,
            time_of(decoding, change.first_epoch),
            in_bouts(change.before),
            in_bouts(change.after),
            change.rule,
            f"{change.probability_before:.2f} → {change.probability_after:.2f}",
            shown(change.evidence_nats, 2),
            "not allowed" if change.margin_nats == float("inf") else shown(change.margin_nats, 2),
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
    if len(changes) <= MAX_ROWS:
        return meaning
    return f"{meaning} The {len(changes) - MAX_ROWS:,} closest calls of {len(changes):,} are left out."
