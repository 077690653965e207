"""Print what a fit found: candidates, the choice, what it gains, how many nights are enough. Fits nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stageguard.cli.terminal import console, count, one_line, print_heading, print_list, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rich.console import Console

    from stageguard.fitting.cross_validation import Row
    from stageguard.fitting.report import FitReport

NUMBERS = ("kappa", "accuracy", "FI", "|FI - expert|", "errors", "criterion")


def print_fit(
    report: FitReport, output: Path, notes: Sequence[str], warned: Sequence[str], *, show_all: bool
) -> None:
    """Print the whole of it."""
    out = console()
    nights = f"{count(report.n_nights, 'scored night')} of {count(report.n_subjects, 'subject')}"
    out.print(
        f"{one_line(report.profile.name)}: {nights}, {report.n_scored_epochs:,} scored epochs, on "
        f"{one_line(report.base)}"
    )
    if report.rows:
        _print_candidates(report, out, show_all=show_all)
    print_heading(out, "What the profile does")
    out.print(report.reason)
    print_list(out, "Learned", list(_learned(report)))
    _print_gain(report, out)
    _print_curve(report, out)
    _print_intervals(report, out)
    print_list(out, "Note", [*report.notes, *notes])
    print_list(out, "Warning", warned)
    print_list(out, "Wrote", [output])


def _print_candidates(report: FitReport, out: Console, *, show_all: bool) -> None:
    rows = report.rows if show_all else _best_of_each(report.rows)
    hidden = len(report.rows) - len(rows)
    print_heading(
        out, "Candidates, cross-validated over subjects" + (", the best of each kind" if hidden else "")
    )
    shown = table("candidate", *NUMBERS, "", right=NUMBERS)
    for row in rows:
        values = (row.kappa, row.accuracy, row.fi, row.fi_distance, row.error, row.criterion)
        status = "" if row.status == "kept" else row.status
        style = "bold" if row.status == "chosen" else ""
        shown.add_row(row.candidate.name, *(_number(value) for value in values), status, style=style)
    out.print(shown)
    if hidden:
        out.print(f"{hidden} more with --all, and in the profile's provenance.", style="dim")


def _best_of_each(rows: Sequence[Row]) -> list[Row]:
    """Return argmax, the chosen one, and of each kind the one with the highest criterion."""
    best: dict[tuple[object, ...], Row] = {}
    for row in rows:
        kind = (row.candidate.rule, row.candidate.biases, row.candidate.totals > 0)
        known = best.get(kind)
        if known is None or _rank(row) > _rank(known):
            best[kind] = row
    return list(best.values())


def _rank(row: Row) -> tuple[bool, bool, float]:
    return (
        row.status == "chosen",
        row.status == "kept",
        -math.inf if math.isnan(row.criterion) else row.criterion,
    )


def _learned(report: FitReport) -> Iterator[str]:
    profile, made = report.profile, report.profile.provenance
    if report.rows:
        yield f"temperature {profile.calibration.temperature:.2f}"
        if profile.calibration.biases is not None:
            pairs = zip(profile.scheme.names, profile.calibration.biases, strict=True)
            yield f"stage biases {', '.join(f'{name} {bias:+.2f}' for name, bias in pairs)} nats"
    yield f"experts' mean fragmentation index {made['mean_fragmentation_index']}"
    bouts = ", ".join(f"{name} {n}" for name, n in report.n_complete_bouts.items())
    yield f"complete bouts counted: {bouts}"
    rare = "; ".join(made["rare_pairs"])
    yield f"rare transitions: {rare or 'none that the nights support'}"
    minimum = ", ".join(f"{n} {s:g} s" for n, s in made["supported_minimum_bout_seconds"].items())
    yield f"minimum bouts that experts keep to: {minimum or 'none that the nights support'}"
    tables = ", ".join(made["stages_with_supported_bout_lengths"])
    yield f"bout lengths other than a constant hazard: {tables or 'none that the nights support'}"


def _print_gain(report: FitReport, out: Console) -> None:
    gains = report.gains()
    if not gains:
        if report.rows:
            out.print("With two subjects the choice cannot be checked on nights held out from it.")
        return
    words = [f"{name} {mean:+.3f} (standard error {error:.3f})" for name, (mean, error) in gains.items()]
    out.print(f"Choosing so gains, on nights held out from the choice: {', '.join(words)}.")


def _print_curve(report: FitReport, out: Console) -> None:
    curve = report.learning_curve
    if curve is None:
        return
    print_heading(out, "How many scored nights are enough")
    numbers = ("subjects", "nights", "kappa gained", "criterion gained", "standard error")
    shown = table(*numbers, right=numbers)
    for point in curve.points:
        gains = (point.kappa_gain, point.criterion_gain)
        shown.add_row(
            str(point.n_subjects),
            f"{point.n_nights:.0f}",
            *(f"{gain:+.3f}" for gain in gains),
            _number(point.standard_error),
        )
    out.print(shown)
    out.print(str(curve))


def _print_intervals(report: FitReport, out: Console) -> None:
    """Print how wide the intervals of a night's statistics will be, and how often such ones covered."""
    from stageguard.measures.intervals import DEFAULT_LEVEL, half_width, unit_of

    held = report.profile.intervals
    widths = {name: half_width(values, DEFAULT_LEVEL) for name, values in held.get("errors", {}).items()}
    known = {name: width for name, width in widths.items() if math.isfinite(width)}
    if not known:
        return
    print_heading(out, f"{DEFAULT_LEVEL:.0%} intervals, from errors on {held['n_nights']} nights held out")
    numbers = ("plus or minus", "covered", "covered by draws")
    shown = table("statistic", *numbers, right=numbers)
    for name, width in known.items():
        shares = (held.get(kind, {}).get(name) for kind in ("coverage", "model_coverage"))
        cells = ("n/a" if share is None else f"{share:.0%}" for share in shares)
        shown.add_row(name, f"{width:.1f} {unit_of(name)}".rstrip(), *cells)
    out.print(shown)
    out.print(
        "Covered: each subject by the errors on the others. Draws of the posterior promise no coverage."
    )


def _number(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:.3f}"
