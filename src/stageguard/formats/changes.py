"""Write what a decoding changed as a table. Explains nothing by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stageguard.guard.explain import Change

MISSING = "n/a"


def change_row(change: Change) -> dict[str, Any]:
    """Return one change in JSON types: unknown clock and infinite cost are None."""
    margin = change.margin_nats
    return {
        "first_epoch": change.first_epoch,
        "n_epochs": change.n_epochs,
        "onset": round(change.onset_seconds, 9),
        "clock": None if change.clock is None else change.clock.isoformat(),
        "before": " ".join(change.before),
        "after": " ".join(change.after),
        "rule": change.rule,
        "probability_before": round(change.probability_before, 6),
        "probability_after": round(change.probability_after, 6),
        "evidence_given_up_nats": round(change.evidence_nats, 6),
        "prior_gained_nats": round(change.prior_nats, 6),
        "margin_nats": None if math.isinf(margin) else round(margin, 6),
        "counterfactual_score": None if math.isinf(margin) else round(change.counterfactual_score, 6),
    }


COLUMNS = (
    *("first_epoch", "n_epochs", "clock", "before", "after", "rule", "probability_before"),
    *("probability_after", "evidence_given_up_nats", "prior_gained_nats", "margin_nats"),
    *("counterfactual_score", "onset"),
)


def changes_text(changes: Sequence[Change]) -> str:
    """Return a TSV with one row per change; n/a where there is no clock or no path keeps the original."""
    lines = ["\t".join(COLUMNS)]
    for change in changes:
        row = change_row(change)
        lines.append("\t".join(MISSING if row[name] is None else str(row[name]) for name in COLUMNS))
    return "\n".join(lines) + "\n"
