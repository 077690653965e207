"""`stageguard quality`: recordings in, how far each epoch can be trusted out. Parses and prints only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from stageguard.base.errors import InputError, OutputExistsError
from stageguard.base.files import write_cell, write_together
from stageguard.base.version import __version__
from stageguard.cli.options import AsJson, Overwrite, _check_epoch_seconds, one_of
from stageguard.cli.present import print_problems
from stageguard.cli.recordings import (
    Channel,
    DatasetName,
    DatasetOption,
    Jobs,
    Recordings,
    Scoring,
    Source,
    find_sources,
    run_each,
)
from stageguard.cli.terminal import console, count, one_line, print_json, print_list, table
from stageguard.formats.outputs import plain
from stageguard.signals.modalities import MODALITIES
from stageguard.signals.quality import signal_quality

TSV_SUFFIX = ".quality.tsv"
JSON_SUFFIX = ".quality.json"


class Rules(StrEnum):
    """Whose thresholds."""

    kdd2026 = "kdd2026"
    graded = "graded"


ModalityOption = Annotated[
    str | None,
    typer.Option(
        "--modality",
        "-m",
        **one_of(MODALITIES),
        help="What was recorded. Default: what the channels or dataset say.",
    ),
]
RulesOption = Annotated[
    Rules, typer.Option("--rules", help="The paper's thresholds, or the share of each epoch that is bad.")
]
EpochSeconds = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        callback=_check_epoch_seconds,
        help="Epoch length. Default: the scoring's, else 30; EEG without a scoring must say it.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FOLDER", help="For the tables. Default: beside each file."),
]


@dataclass(frozen=True, slots=True)
class Request:
    """What to do with every recording."""

    modality: str | None
    rules: Literal["kdd2026", "graded"]
    epoch_seconds: float | None
    overwrite: bool


def quality(
    recordings: Recordings,
    modality: ModalityOption = None,
    rules: RulesOption = Rules.kdd2026,
    epoch_seconds: EpochSeconds = None,
    channel: Channel = None,
    dataset: DatasetName = None,
    dataset_option: DatasetOption = None,
    scoring: Scoring = None,
    output: Output = None,
    overwrite: Overwrite = False,
    jobs: Jobs = 1,
    as_json: AsJson = False,
) -> None:
    """Say how far each epoch of a recording can be trusted, and why not.

    Writes NAME.quality.tsv and NAME.quality.json for each recording: what `decode --quality` takes.
    """
    sources = find_sources(recordings, dataset, dataset_option, channel, scoring, output)
    request = Request(modality, rules.value, epoch_seconds, overwrite)
    reports = run_each(partial(assess_one, request), sources, jobs, "Assessing", quiet=as_json)
    if as_json:
        print_json(reports)
    elif len(reports) > 1:
        print_many([report for report in reports if report["ok"]])
    elif reports[0]["ok"]:
        print_one(reports[0])
    print_problems(reports, as_json=as_json)
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)


def assess_one(request: Request, source: Source) -> dict[str, Any]:
    """Assess one recording and write its table; returns the report."""
    paths = [source.place / (source.name + suffix) for suffix in (TSV_SUFFIX, JSON_SUFFIX)]
    for path in paths:
        if path.exists() and not request.overwrite:  # before the work, not after it
            raise OutputExistsError(f"{path} exists already. Use --overwrite to replace it.")
    recording, notes = source.read()
    modality, remark = _modality(recording, request.modality or source.modality)
    found = signal_quality(recording, modality, epoch_seconds=request.epoch_seconds, rules=request.rules)
    facts: dict[str, Any] = {
        "recording": recording.id,
        "subject": recording.subject,
        "is_synthetic": recording.is_synthetic,
        "modality": modality,
        "rules": found.rules,
        "n_epochs": found.n_epochs,
        "epoch_seconds": found.epoch_seconds,
        "start": None if recording.start is None else recording.start.isoformat(),
        "mean_beta": float(found.beta.mean()),
        "n_marked": int(found.is_bad.sum()),
        "n_lost": int((found.beta >= 1).sum()),
        "reasons": found.counts(),
        "notes": [*notes, *remark],
    }
    sidecar = COLUMNS | {"stageguard": {"version": __version__, **facts}}
    text = json.dumps(plain(sidecar), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_together({paths[0]: _table(found), paths[1]: text}, overwrite=request.overwrite, make_folders=True)
    outputs = {"tsv": str(paths[0]), "json": str(paths[1])}
    return facts | {"beta": found.beta.tolist(), "first": _first(found), "outputs": outputs}


COLUMNS: dict[str, Any] = {
    "onset": {"Description": "Start of the epoch, from the start of the recording", "Units": "s"},
    "duration": {"Description": "Length of the epoch", "Units": "s"},
    "quality": {"Description": "Signal quality index beta: 0 clean, 1 lost", "Units": "1"},
    "reason": {"Description": "Channel and rule that speak against the epoch; n/a where none does"},
}


def _table(found: Any) -> str:

    lines = ["\t".join(COLUMNS)]
    for epoch, (beta, reason) in enumerate(zip(found.beta.tolist(), found.reasons, strict=True)):
        onset = epoch * found.epoch_seconds
        lines.append(
            f"{onset:.9g}\t{found.epoch_seconds:.9g}\t{beta:.6g}\t{write_cell(reason) if reason else 'n/a'}"
        )
    return "\n".join(lines) + "\n"


def _first(found: Any) -> dict[str, int]:
    """Return the first epoch of each reason."""
    first: dict[str, int] = {}
    for epoch, reason in enumerate(found.reasons):
        for part in filter(None, reason.split("; ")):
            first.setdefault(part, epoch)
    return first


def _modality(recording: Any, wanted: str | None) -> tuple[str, list[str]]:
    """Return what was recorded, and a remark if that was guessed from the channels."""
    if wanted:
        return wanted, []
    found = [one.name for one in MODALITIES.values() if any(role in recording.signals for role in one.roles)]
    if len(found) == 1:
        return found[0], [f"modality {found[0]} by the channels"]
    known = ", ".join(recording.signals) or "none"
    what = f"has channels of {' and '.join(found)}" if found else "has no channel that tells its modality"
    raise InputError(
        f"recording {recording.id!r} {what} ({known}). Say which to assess with --modality, and map channels "
        "with --channel ROLE=NAME."
    )


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

    made = Text()
    for mark in marks:
        made.append(mark, "green" if mark == CLEAN else "yellow" if mark in BARS[:4] else "red")
    return made
