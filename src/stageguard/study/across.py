"""Tables over several studies: the main comparison side by side, and errors of sleep architecture."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from stageguard.measures.architecture import ARCHITECTURE
from stageguard.measures.paired import Estimate, estimate, paired
from stageguard.study.names import BASE, CALIBRATED, EXPERT, MAJORITY_CLASS, PAPER, RELEASED, TITLES
from stageguard.study.rendering import Cell, Table
from stageguard.study.store import Results, values, variants_in
from stageguard.study.tables import NO_REM_NOTE, STARS_NOTE, aside_note, below_majority, errors_of

GUARDED = (PAPER, RELEASED, CALIBRATED)
# metric -> title and whether lower is better, as the paper marks the best
MAIN = {
    "tvr_percent": ("TVR (%)", True),
    "fi": ("FI", True),
    "accuracy": ("accuracy", False),
    "kappa": ("κ", False),
}
MAIN_PLACES = (2, 3, 3, 3)
DOWNSTREAM = ("tst_minutes", "rem_latency_minutes", "se_percent", "waso_minutes", "awakenings")


def across_tables(studies: Sequence[Results]) -> list[Table]:
    """Return all tables over studies."""
    return [main_across(studies), downstream_across(studies)]


def main_across(studies: Sequence[Results]) -> Table:
    """Return TVR, FI, accuracy and kappa by network and stages, with a group of columns per study."""
    names = list(dict.fromkeys(name for results in studies for name in results.backbones))
    lines: list[tuple[str, str]] = [("", EXPERT), ("", MAJORITY_CLASS)]
    lines += [(name, variant) for name in names for variant in (BASE, *GUARDED)]
    rows: list[tuple[Cell, ...]] = []
    for name, variant in lines:
        cells = [cell for results in studies for cell in _main_cells(results, name, variant)]
        if any(cell.n for cell in cells):
            is_first = variant in (EXPERT, MAJORITY_CLASS, BASE)
            rows.append((name if is_first else "", TITLES[variant], *cells))
    heads = [f"{results.study['name']}: {title}" for results in studies for title, _ in MAIN.values()]
    return Table(
        "across",
        "Main comparison over all studies",
        ("network", "stages by", *heads),
        tuple(rows),
        (0, 0, *MAIN_PLACES * len(studies)),
        (
            *_study_notes(studies),
            STARS_NOTE,
            "Bold: the best of a column, as the paper marks it: the lowest TVR and FI, which need not be the "
            "nearest to the expert's. The expert and the most frequent stage are not marked.",
        ),
        bold=_best(rows, [is_lower for _ in studies for _, is_lower in MAIN.values()]),
    )


def _main_cells(results: Results, name: str, variant: str) -> list[Estimate]:
    network = name or results.backbones[0]
    records = results.of(network) if network in results.backbones else []
    before = {metric: values(records, BASE, metric) for metric in MAIN}
    if variant not in GUARDED:
        return [estimate(values(records, variant, metric)) for metric in MAIN]
    n_tests = sum(guard in variants_in(results.of(each)) for each in results.backbones for guard in GUARDED)
    return [paired(before[metric], values(records, variant, metric), n_tests) for metric in MAIN]


def _best(rows: Sequence[Sequence[Cell]], lower: Sequence[bool]) -> frozenset[tuple[int, int]]:
    """Return the cells with the best mean of each column, as shown."""
    found = set()
    for number, is_lower in enumerate(lower):
        column = number + 2
        shown = {
            k: round(cell.mean, MAIN_PLACES[number % len(MAIN)])
            for k, row in enumerate(rows)
            if row[1] not in (TITLES[EXPERT], TITLES[MAJORITY_CLASS])
            and isinstance(cell := row[column], Estimate)
            and not isnan(cell.mean)
        }
        if shown:
            best = (min if is_lower else max)(shown.values())
            found |= {(k, column) for k, mean in shown.items() if mean == best}
    return frozenset(found)


def downstream_across(studies: Sequence[Results]) -> Table:
    """Return errors of sleep statistics by network and study, of argmax and of each guard."""
    rows: list[tuple[Cell, ...]] = []
    for results in studies:
        for name in results.backbones:
            records = results.of(name)
            before = {metric: errors_of(results, records, BASE, metric) for metric in DOWNSTREAM}
            for variant in [v for v in (BASE, *GUARDED) if v in variants_in(records)]:
                errors = {metric: errors_of(results, records, variant, metric) for metric in DOWNSTREAM}
                cells = [paired(before[metric], errors[metric]) for metric in DOWNSTREAM]
                rows.append((name, results.study["name"], TITLES[variant], *cells))
    return Table(
        "downstream",
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
