"""Print what a decoding did: one file in full, many as a table, failures as rows. Computes nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from stageguard.cli.terminal import console, count, one_line, print_error, print_heading, print_list, table
from stageguard.formats.outputs import REVIEW_SENTENCE
from stageguard.guard.explain import in_bouts

MOST_NOTES = 8  # of many files, in one line
MOST_ROWS = 40  # nights that are shown one by one
MOST_PROBLEMS = 20  # different ones that are printed
PLACE_STYLE = {"below": "yellow", "inside": "green", "above": "yellow"}


def print_night(report: dict[str, Any], out: Console | None = None) -> None:
    """Before/after table of one file, why, on what assumptions, and where the outputs are."""
    out = out or console()
    print_summary(report, out)
    print_list(out, "Strength", [report["strength"]])
    if report.get("changes"):
        print_changes(report["changes"], out)
    print_read([report], out)
    print_list(out, "Assumed", report["assumptions"])
    print_list(out, "Advice", report["advice"])
    print_list(out, "Warning", report["warnings"])
    print_list(out, "Wrote", report["outputs"].values())
    print_review(out)


def print_read(reports: Sequence[dict[str, Any]], out: Console) -> None:
    """Print what was assumed while reading files, in one line."""
    notes = list(dict.fromkeys(note for report in reports for note in report["notes"]))
    more = [f"and {count(len(notes) - MOST_NOTES, 'more remark')}"] if len(notes) > MOST_NOTES else []
    if notes:
        print_list(out, "Read", ["; ".join([*notes[:MOST_NOTES], *more])])


def print_notes(notes: Sequence[str], *, as_json: bool, heading: str = "Note") -> None:
    """Print what was left out of files and lists; beside JSON on stderr, since it belongs to no night."""
    if not as_json:
        print_list(console(), heading, notes)
        return
    for note in notes:
        print(f"stageguard: note: {one_line(note)}", file=sys.stderr)


def print_warnings(reports: Sequence[dict[str, Any]], out: Console) -> None:
    """Print the first warnings of several nights, each once."""
    found = list(dict.fromkeys(one_line(text) for report in reports for text in report["warnings"]))
    more = [f"and {count(len(found) - MOST_NOTES, 'more warning')}"] if len(found) > MOST_NOTES else []
    print_list(out, "Warning", [*found[:MOST_NOTES], *more])


def print_changes(changes: Sequence[dict[str, Any]], out: Console) -> None:
    """Every change of a night, with the rule that decided and what keeping the original would cost."""
    numbers = ("epoch", "p before", "p after", "cost (nats)")
    shown = table("epoch", "time", "before", "after", "rule", *numbers[1:], right=numbers)
    for row in changes:
        seconds = row["onset"]
        elapsed = f"+{seconds // 3600:.0f}:{seconds // 60 % 60:02.0f}:{seconds % 60:02.0f}"
        cost = row["margin_nats"]
        shown.add_row(
            f"{row['first_epoch']:,}",
            elapsed if row["clock"] is None else row["clock"][11:19],
            in_bouts(row["before"].split()),
            in_bouts(row["after"].split()),
            row["rule"],
            f"{row['probability_before']:.2f}",
            f"{row['probability_after']:.2f}",
            "forbidden" if cost is None else f"{cost:.2f}",
        )
    print_heading(out, f"Changes ({len(changes):,}): what keeping the stager's choice would cost")
    out.print(shown)


def print_headline(report: dict[str, Any], out: Console, link: str) -> None:
    """Name the file, the profile and what was recorded."""
    hours = report["n_epochs"] * report["epoch_seconds"] / 3600
    out.print(
        Text.assemble(
            (one_line(Path(report["file"]).name), "bold"),
            f" {link} {one_line(report['profile']['name'])}: {count(report['n_epochs'], 'epoch')} of "
            f"{report['epoch_seconds']:g} s ({hours:.1f} h), stages {one_line(' '.join(report['stages']))}",
        )
    )
    if report.get("lights"):
        out.print(f"Measured between lights: {report['lights']}")


def print_summary(report: dict[str, Any], out: Console) -> None:
    """Headline and before/after table."""
    print_headline(report, out, "with")
    shown = table("", "before", "after", "expert range", right=("before", "after"))
    for title, *cells in report["table"]:
        shown.add_row(title, *(marked(cell) for cell in cells))
    share = 100 * report["n_changed"] / report["n_scored"] if report["n_scored"] else 0.0
    shown.add_row("Epochs changed", "", f"{report['n_changed']:,} ({share:.1f} %)", "")
    for key, title in (("n_filled", "Epochs filled (no evidence)"), ("n_unscored", "Epochs left unscored")):
        if report[key]:
            shown.add_row(title, "", f"{report[key]:,}", "")
    out.print(shown)
    if report.get("range_note"):
        out.print(report["range_note"])


def marked(cell: str) -> Any:
    """Return a cell in the colour of the place it ends with."""
    return Text(cell, style=PLACE_STYLE.get(cell.rpartition(" ")[2], ""))


def print_review(out: Console) -> None:
    """Print the sentence that goes with every output."""
    out.print(REVIEW_SENTENCE, style="dim")


def print_cohort(reports: Sequence[dict[str, Any]], out: Console | None = None) -> None:
    """One row per decoded file."""
    out = out or console()
    done = [report for report in reports if report["ok"]]
    if done:
        numbers = ("epochs", "changed", "FI before", "FI after")
        shown = table("file", *numbers, "warnings", right=numbers)
        for report in done:
            fi = dict(zip(("before", "after"), report["table"][0][1:3], strict=True))
            share = 100 * report["n_changed"] / report["n_scored"] if report["n_scored"] else 0.0
            shown.add_row(
                one_line(report["file"]),
                f"{report['n_epochs']:,}",
                f"{share:.1f} %",
                marked(fi["before"]),
                marked(fi["after"]),
                one_line("; ".join(report["warnings"])),
            )
        out.print(shown)
        folders = sorted({str(Path(report["outputs"]["tsv"]).parent) for report in done})
        out.print(f"Wrote {len(done)} hypnogram{'s' * (len(done) != 1)} to {', '.join(folders)}")
        print_read(done, out)
        print_review(out)


def print_failures(
    reports: Sequence[dict[str, Any]], *, n_files: int | None = None, place: Path | None = None
) -> None:
    """One row per problem, on stderr, with the file it is about, or the first and how many more."""
    failed = [report for report in reports if not report["ok"]]
    if not failed:
        return
    files: dict[str, list[str]] = {}
    for report in failed:
        name = Path(report["file"]).name
        problem = report["error"].removeprefix(f"{report['file']}: ").removeprefix(f"{name}: ")
        files.setdefault(problem, []).append(one_line(report["file"]))
    shown = table("file", "problem")
    for problem, names in list(files.items())[:MOST_PROBLEMS]:
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        shown.add_row(f"{names[0]}{more}", problem)
    out = console(stderr=True)
    print_heading(out, f"{len(failed):,} of {len(reports) if n_files is None else n_files:,} files failed")
    out.print(shown)
    if len(files) > MOST_PROBLEMS:
        where = "" if place is None else f", all of them in {place}"
        out.print(f"and {count(len(files) - MOST_PROBLEMS, 'more problem')}{where}")
    elif place is not None and len(files) < len(failed):
        out.print(f"All of them with their files: {place}")


def print_problems(
    reports: Sequence[dict[str, Any]],
    *,
    as_json: bool,
    n_files: int | None = None,
    place: Path | None = None,
) -> None:
    """Write what failed to stderr: one line for the only file, a table for one of many.

    `n_files` is how many there were, where `reports` are the failures only; `place` is a file with them all.
    """
    total = len(reports) if n_files is None else n_files
    if total == 1 and reports and not reports[0]["ok"]:
        print_error(reports[0]["error"])
    elif not as_json:
        print_failures(reports, n_files=total, place=place)


def short_names(reports: Sequence[dict[str, Any]]) -> list[str]:
    """Return how a table names the files: without their folders where that tells them apart."""
    paths = [Path(report["file"]) for report in reports]
    unique = len({path.name for path in paths}) == len(paths)
    return [one_line(path.name if unique else path) for path in paths]
