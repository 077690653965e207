"""Print what decoding many nights came to: a row each, or of very many what they have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stageguard.cli.decode_cohort import Tally
from stageguard.cli.present import MOST_NOTES, MOST_ROWS, print_cohort, print_review
from stageguard.cli.terminal import console, count, print_list, table

if TYPE_CHECKING:
    from rich.console import Console

PERCENTILES = (5, 50, 95)


def print_tally(tally: Tally, written: Sequence[Path]) -> None:
    """Print the rows of a few nights, or what very many have in common, and how many were decoded."""
    out = console()
    if tally.n_decoded <= MOST_ROWS:
        print_cohort(tally.first, out)
    else:
        _print_common(tally, out)
    out.print(counts(tally), style="bold")
    print_list(out, "Wrote", written)


def counts(tally: Tally) -> str:
    """Return how many nights were done before, decoded now, and failed."""
    parts = [f"{tally.n_before:,} done before"] if tally.n_before else []
    parts.append(f"{tally.n_decoded:,} decoded")
    if tally.failures:
        parts.append(f"{len(tally.failures):,} failed")
    return f"{count(tally.n_nights, 'night')}: {', '.join(parts)}."


def _print_common(tally: Tally, out: Console) -> None:
    """Middle and spread over nights, what the strength rule did, warnings and remarks with their counts."""
    rows = tally.nights
    numbers = {
        ("Epochs", ",.0f"): [row.n_epochs for row in rows],
        ("Epochs changed (%)", ".1f"): [100 * row.n_changed / row.n_epochs for row in rows],
        ("FI before", ".3f"): [row.fi_before for row in rows],
        ("FI after", ".3f"): [row.fi_after for row in rows],
    }
    titles = ("5th percentile", "median", "95th percentile")
    shown = table("over all nights", *titles, right=titles)
    for (title, form), values in numbers.items():
        known = np.array(values, dtype=np.float64)
        known = known[~np.isnan(known)]
        cells = [f"{value:{form}}" for value in np.percentile(known, PERCENTILES)] if len(known) else []
        shown.add_row(title, *(cells or ["n/a"] * len(titles)))
    out.print(shown)
    print_list(out, "Strength", [_ranked(Counter(f"{row.rule}, {row.step}" for row in rows), "; ")])
    print_list(out, "Warning", _counted(tally.warnings))
    print_list(out, "Read", ["; ".join(_counted(tally.notes))] if tally.notes else [])
    print_review(out)


def _ranked(found: Counter[str], mark: str) -> str:
    return mark.join(f"{text} ({n:,})" for text, n in found.most_common())


def _counted(texts: Counter[str]) -> list[str]:
    """Return the most frequent texts, with the number of nights each is about."""
    shown = [f"{text} ({count(n, 'night')})" for text, n in texts.most_common(MOST_NOTES)]
    more = len(texts) - MOST_NOTES
    return shown + ([f"and {count(more, 'more remark')}"] if more > 0 else [])
