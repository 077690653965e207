"""Rows of the agreement table: before and after beside an expert scoring. Measures nothing itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stageguard.agreement import Agreement
from stageguard.report.numbers import count, difference, shown


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """A measure as shown."""

    name: str
    before: str
    after: str
    change: str


def agreement_rows(before: Agreement, after: Agreement) -> Iterator[AgreementRow]:
    """Return accuracy, kappa, F1 by stage and the recall of rare transitions."""

    def row(name: str, own: float, now: float, decimals: int, unit: str = "") -> AgreementRow:
        cells = [shown(value, decimals) for value in (own, now)]
        return AgreementRow(name + unit, *cells, difference(now, own, decimals))

    yield row("Accuracy", 100 * before.accuracy, 100 * after.accuracy, 1, " (%)")
    yield row("Cohen's κ", before.kappa, after.kappa, 3)
    yield row("Macro F1", before.macro_f1, after.macro_f1, 3)
    for stage in after.f1:
        yield row(f"F1, {stage}", before.f1[stage], after.f1[stage], 3)


def agreement_caption(after: Agreement, expert_name: str) -> str:
    """Return on how many epochs, and what guessing would score."""
    majority = f"{100 * after.majority_accuracy:.1f} %"
    return (
        f"{count(after.n_epochs, 'epoch')} scored by both. "
        f"Calling every epoch the {expert_name}'s most frequent stage would be right in {majority}."
    )
