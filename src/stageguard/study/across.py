"""Tables over several studies: the main comparison side by side, and errors of sleep architecture."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from stageguard.measures.cohort import ARCHITECTURE
from stageguard.measures.samples import Estimate, estimate, paired
from stageguard.study.comparison import (
    NO_REM_NOTE,
    STARS_NOTE,
    aside_note,
    below_majority,
    errors_of,
    variant_in,
)
from stageguard.study.store import (
    BASE,
    EXPERT,
    GUARDED,
    MAIN,
    MAJORITY_CLASS,
    METRICS,
    TITLES,
    Results,
    values,
)
from stageguard.study.table import Cell, Table

LOWER_IS_BETTER = ("tvr_percent", "fi")  # as the paper marks the best
DOWNSTREAM = ("tst_minutes", "rem_latency_minutes", "se_percent", "waso_minutes", "awakenings")


def across_tables(studies: Sequence[Results]) -> dict[str, Table]:
    """Return all tables over studies, by name."""
    main = {f"across-{metric.removesuffix('_percent')}": main_across(studies, metric) for metric in MAIN}
    return main | {"downstream": downstream_across(studies)}


def main_across(studies: Sequence[Results], metric: str) -> Table:
    """Return a number of the main comparison by network and stages, with a column per study."""
    title, decimals = METRICS[metric]
    networks = list(dict.fromkeys(network for results in studies for network in results.backbones))
    lines: list[tuple[str, str]] = [("", EXPERT), ("", MAJORITY_CLASS)]
    lines += [(network, variant) for network in networks for variant in (BASE, *GUARDED)]
    rows: list[tuple[Cell, ...]] = []
    for network, variant in lines:
        cells = [_cell(results, network or results.backbones[0], variant, metric) for results in studies]
        if any(cell.n for cell in cells):
            is_first = variant in (EXPERT, MAJORITY_CLASS, BASE)
            rows.append((network if is_first else "", TITLES[variant], *cells))
    return Table(
        f"{title.replace('accuracy', 'Accuracy')} over all studies",
        ("network", "stages by", *(results.study["name"] for results in studies)),
        tuple(rows),
        (0, 0, *[decimals] * len(studies)),
        (
            *_study_notes(studies),
            STARS_NOTE,
            "Bold: the best of a column, as the paper marks it (the lowest TVR and FI, which need not be the "
            "nearest to the expert's). The expert and the most frequent stage are not marked. Boosting "
            "is not trained with the penalty.",
        ),
        bold=_best(rows, decimals, is_lower_better=metric in LOWER_IS_BETTER),
    )


def _cell(results: Results, network: str, variant: str, metric: str) -> Estimate:
    records = results.of(network) if network in results.backbones else []
    numbers = values(records, variant_in(records, variant) or variant, metric)
    if variant not in GUARDED:
        return estimate(numbers)
    n_tests = sum(
        variant_in(results.of(each), guard) is not None for each in results.backbones for guard in GUARDED
    )
    return paired(values(records, BASE, metric), numbers, n_tests)


def _best(
    rows: Sequence[Sequence[Cell]], decimals: int, *, is_lower_better: bool
) -> frozenset[tuple[int, int]]:
    """Return the cells with the best mean of each column, as shown."""
    best = set()
    for column in range(2, len(rows[0]) if rows else 2):
        shown = {
            k: round(cell.mean, decimals)
            for k, row in enumerate(rows)
            if row[1] not in (TITLES[EXPERT], TITLES[MAJORITY_CLASS])
            and isinstance(cell := row[column], Estimate)
            and not isnan(cell.mean)
        }
        if shown:
            bound = (min if is_lower_better else max)(shown.values())
            best |= {(k, column) for k, mean in shown.items() if mean == bound}
    return frozenset(best)


def downstream_across(studies: Sequence[Results]) -> Table:
    """Return errors of sleep statistics by network and study, of argmax and of each guard."""
    rows: list[tuple[Cell, ...]] = []
    for results in studies:
        for name in results.backbones:
            records = results.of(name)
            before = {metric: errors_of(results, records, BASE, metric) for metric in DOWNSTREAM}
            for variant in filter(None, (variant_in(records, v) for v in (BASE, *GUARDED))):
                errors = {metric: errors_of(results, records, variant, metric) for metric in DOWNSTREAM}
                cells = [paired(before[metric], errors[metric]) for metric in DOWNSTREAM]
                rows.append((name, results.study["name"], TITLES[variant], *cells))
    return Table(
        "Errors of sleep architecture by network and study",
        ("network", "study", "stages by", *(ARCHITECTURE[metric] for metric in DOWNSTREAM)),
        tuple(rows),
        (0, 0, 0, *[2] * len(DOWNSTREAM)),
        (
            *_study_notes(studies),
            "Mean ± SD over subjects. Stars against argmax, not corrected.",
            NO_REM_NOTE,
        ),
    )


def _study_notes(studies: Sequence[Results]) -> list[str]:
    """Return what is to be known of each study: warnings, weak networks, where the guard stepped aside."""
    notes = []
    for results in studies:
        weak = [name for name in results.backbones if below_majority(results, name)]
        below = f" Less accurate than the most frequent stage: {', '.join(weak)}." if weak else ""
        warnings = "".join(f" {warning}" for warning in results.warnings)
        notes.append(f"{results.study['name']}:{warnings}{below} {aside_note(results)}")
    return notes
