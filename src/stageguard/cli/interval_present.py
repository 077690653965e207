"""Print intervals: a table per night, where they come from, how often such ones covered. Computes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stageguard.cli.interval_files import MODEL_WORDS
from stageguard.cli.present import print_headline, print_read, print_review
from stageguard.cli.terminal import console, count, print_list, table

if TYPE_CHECKING:
    from rich.console import Console

    from stageguard.cli.interval_files import Request


def print_intervals(reports: Sequence[dict[str, Any]], request: Request, output: Path | None) -> None:
    """Print a table per night; of many that were written to a file, only where they are."""
    if not reports:
        return
    out = console()
    if output is None or len(reports) == 1:
        for report in reports:
            print_headline(report, out, "with")
            _print_night(report, out)
    for sentence in _meaning(reports, request):
        out.print(sentence)
    print_read(reports, out)
    if len(reports) == 1:
        print_list(out, "Assumed", reports[0]["assumptions"])
    print_list(out, "Warning", _warnings(reports))
    if output is not None:
        n_rows = sum(len(report["intervals"]) for report in reports)
        book = output.with_suffix(".json").name
        nights = count(len(reports), "night")
        print_list(out, "Wrote", [f"{output} ({n_rows:,} rows, {nights}), explained in {book}"])
    print_review(out)


def _warnings(reports: Sequence[dict[str, Any]]) -> list[str]:
    """Return what was warned of: once where it holds for every night, else by night."""
    told: dict[str, list[str]] = {}
    for report in reports:
        for text in dict.fromkeys(report["warnings"]):
            told.setdefault(text, []).append(report["id"])
    lines = []
    for text, ids in told.items():
        lines += [text] if len(ids) == len(reports) else [f"{name}: {text}" for name in ids]
    return lines


def _print_night(report: dict[str, Any], out: Console) -> None:
    """Print one row per statistic and kind; a statistic's name and value once."""
    numbers = ("value", "low", "high", "covered")
    shown = table("statistic", "value", "low", "high", "kind", "covered", "", right=numbers)
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in report["intervals"]:
        by_name.setdefault(row["statistic"], []).append(row)
    for name, rows in by_name.items():
        for number, row in enumerate(rows):
            value = f"{_number(row['value'])} {row['unit']}".rstrip()
            share = row["measured_coverage"]
            shown.add_row(
                *((name, value) if number == 0 else ("", "")),
                _number(row["low"]),
                _number(row["high"]),
                row["kind"],
                "n/a" if math.isnan(share) else f"{share:.0%}",
                row["reason"],
            )
    out.print(shown)


def _meaning(reports: Sequence[dict[str, Any]], request: Request) -> Iterator[str]:
    """Return where the intervals come from, and what `covered` is."""
    first = reports[0]
    rows = [row for report in reports for row in report["intervals"]]
    is_measured = any(row["kind"] == "conformal" and not math.isnan(row["measured_coverage"]) for row in rows)
    level = f", {request.level:.0%}" if is_measured else " (coverage not measured)"
    if "conformal" in request.methods:
        yield (
            f"Conformal{level}: as wide as the errors on {count(first['n_scored_nights'], 'scored night')} "
            f"of {count(first['n_scored_subjects'], 'subject')} held out from the fit. They hold for nights "
            "like those: same stager, same kind of people."
        )
    if "model" in request.methods:
        yield f"Model: {count(request.n_draws, 'draw')}, seed {request.seed}. {MODEL_WORDS}"
    if any(row["kind"] == "model" and _is_outside(row) for row in rows):
        yield "A value outside its model interval: decode returns the best path, and draws are typical ones."
    if any(not math.isnan(row["measured_coverage"]) for row in rows):
        yield "Covered: share of the fit's held-out nights whose expert value lay inside such an interval."
    if first["min_first_rem_seconds"]:
        yield f"REM latency ends with the first REM bout of {first['min_first_rem_seconds']:g} s or more."


def _is_outside(row: dict[str, Any]) -> bool:
    return bool(row["value"] < row["low"] or row["value"] > row["high"])  # never where one is NaN


def _number(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:,.1f}"
