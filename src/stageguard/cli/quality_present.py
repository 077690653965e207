"""Print signal quality: a strip chart and the reasons of one recording, a table of many. Computes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stageguard.cli.terminal import console, count, one_line, print_list, table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

CLEAN = "·"
BARS = "▁▂▃▄▅▆▇█"
ROW_MARKS = 60
ROW_HOURS = (1, 2, 4, 6, 12, 24, 48)
MOST_ROWS = 24


def strip(beta: Sequence[float], n_marks: int) -> str:
    """Return marks for equal stretches: a dot where all is clean, else a bar as high as the mean of beta."""
    n_marks = max(1, min(n_marks, len(beta)))
    edges = [round(k * len(beta) / n_marks) for k in range(n_marks + 1)]
    return "".join(_mark(beta[a:b]) for a, b in pairwise(edges))


def _mark(part: Sequence[float]) -> str:
    mean = sum(part) / len(part)
    return CLEAN if mean == 0 else BARS[min(len(BARS), ceil(mean * len(BARS))) - 1]


def chart(beta: Sequence[float], epoch_seconds: float, start: str | None) -> list[tuple[str, str]]:
    """Return rows of (time, marks), each row an hour or more, each mark a sixtieth of it or one epoch."""
    hours = len(beta) * epoch_seconds / 3600
    row_hours = next((h for h in ROW_HOURS if hours / h <= MOST_ROWS), ROW_HOURS[-1])
    per_row = max(1, round(row_hours * 3600 / epoch_seconds))
    begin = None if start is None else datetime.fromisoformat(start)
    rows = []
    for first in range(0, len(beta), per_row):
        part = beta[first : first + per_row]
        n_marks = max(1, round(ROW_MARKS * len(part) / per_row))
        rows.append((_time(first * epoch_seconds, begin), strip(part, n_marks)))
    return rows


def _time(seconds: float, begin: datetime | None) -> str:
    if begin is None:
        return f"{int(seconds // 3600):02d}h{int(seconds % 3600 // 60):02d}"
    return f"{begin + timedelta(seconds=seconds):%H:%M}"


def print_one(report: dict[str, Any], out: Console | None = None) -> None:
    """Print the strip chart of one recording, the reasons, and where the table is."""
    from rich.text import Text

    out = out or console()
    hours = report["n_epochs"] * report["epoch_seconds"] / 3600
    synthetic = " (synthetic)" if report["is_synthetic"] else ""
    out.print(
        Text.assemble(
            (one_line(report["recording"]), "bold"),
            f"{synthetic}: {report['modality']}, {count(report['n_epochs'], 'epoch')} of "
            f"{report['epoch_seconds']:g} s ({hours:.1f} h), rules {report['rules']}",
        )
    )
    out.print()
    for time, marks in chart(report["beta"], report["epoch_seconds"], report["start"]):
        out.print(Text.assemble((f"{time:>6} ", "dim"), _coloured(marks)))
    out.print(Text(f"{'':7}{CLEAN} clean   {BARS[0]} to {BARS[-1]} share that is lost", "dim"))
    out.print()
    clean = 100 * (1 - report["n_marked"] / report["n_epochs"])
    out.print(
        f"Clean {clean:.1f} % of epochs; lost altogether {count(report['n_lost'], 'epoch')}; mean of beta "
        f"{report['mean_beta']:.3f}."
    )
    if report["reasons"]:
        shown = table("reason", "epochs", "share", "first at", right=("epochs", "share", "first at"))
        begin = None if report["start"] is None else datetime.fromisoformat(report["start"])
        for reason, n_epochs in report["reasons"].items():
            first = _time(report["first"][reason] * report["epoch_seconds"], begin)
            shown.add_row(reason, f"{n_epochs:,}", f"{100 * n_epochs / report['n_epochs']:.1f} %", first)
        out.print(shown)
    print_list(out, "Assumed", report["notes"])
    print_list(out, "Warning", report["warnings"])
    print_list(out, "Wrote", report["outputs"].values())


def print_many(reports: Sequence[dict[str, Any]], out: Console | None = None) -> None:
    """Print one row per recording."""
    if not reports:
        return
    out = out or console()
    numbers = ("epochs", "clean", "mean beta")
    shown = table("recording", *numbers, "mostly", "course", right=numbers)
    for report in reports:
        mostly = next(iter(report["reasons"]), "")
        name = one_line(report["recording"]) + (" (synthetic)" if report["is_synthetic"] else "")
        shown.add_row(
            name,
            f"{report['n_epochs']:,}",
            f"{100 * (1 - report['n_marked'] / report['n_epochs']):.1f} %",
            f"{report['mean_beta']:.3f}",
            mostly,
            _coloured(strip(report["beta"], 30)),
        )
    out.print(shown)
    said = [f"{report['recording']}: {text}" for report in reports for text in report["warnings"]]
    print_list(out, "Warning", said)
    folders = sorted({str(Path(report["outputs"]["tsv"]).parent) for report in reports})
    out.print(f"Wrote {count(len(reports), 'table')} to {', '.join(folders)}")


def _coloured(marks: str) -> Text:
    from rich.text import Text

    made = Text()
    for mark in marks:
        made.append(mark, "green" if mark == CLEAN else "yellow" if mark in BARS[:4] else "red")
    return made
