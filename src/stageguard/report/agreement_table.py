"""Rows of the agreement table: before and after beside an expert scoring. Measures nothing itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stageguard.measures.agreement import Agreement
from stageguard.night.stages import StageScheme
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
        change = difference(now, own, decimals)
        return AgreementRow(name + unit, shown(own, decimals), shown(now, decimals), change)

    yield row("Accuracy", 100 * before.accuracy, 100 * after.accuracy, 1, " (%)")
    yield row("Cohen's κ", before.kappa, after.kappa, 3)
    yield row("Macro F1", before.macro_f1, after.macro_f1, 3)
    for stage in after.f1:
        yield row(f"F1, {stage}", before.f1[stage], after.f1[stage], 3)
    if after.n_rare:
        found = f"Rare transitions found, of {after.n_rare:,}"
        yield row(f"{found}, same epoch", 100 * before.rare_recall_0, 100 * after.rare_recall_0, 0, " (%)")
        yield row(f"{found}, ± 2 epochs", 100 * before.rare_recall_2, 100 * after.rare_recall_2, 0, " (%)")


def agreement_caption(after: Agreement, scheme: StageScheme) -> str:
    """Return on how many epochs, in which stages if not the night's, and what guessing would score."""
    merged = "" if after.scheme == scheme else f" Compared in {', '.join(after.scheme.names)}."
    left_out = f", {after.n_left_out:,} left out" if after.n_left_out else ""
    majority = (
        f"Calling every epoch {after.majority_stage} would be right in {100 * after.majority_accuracy:.1f} %."
    )
    scored = f"{count(after.n_epochs, 'epoch')} scored by both{left_out}.{merged}"
    return f"{scored} {majority}" if after.n_epochs else scored
