"""`stageguard quality`: recordings in, how far each epoch can be trusted out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from stageguard.base.errors import InputError, OutputExistsError
from stageguard.base.files import write_together
from stageguard.base.version import __version__
from stageguard.cli.options import AsJson, Overwrite, check_epoch_seconds, one_of
from stageguard.cli.present import end, run_shown
from stageguard.cli.recordings import (
    Channel,
    DatasetName,
    DatasetOption,
    Jobs,
    Recordings,
    Scoring,
    Source,
    find_sources,
)
from stageguard.cli.terminal import console, count, one_line, print_json, print_list, table
from stageguard.formats.codebooks import table_with_codebook
from stageguard.runner.run import Outcome, succeeded
from stageguard.signals.modalities import MODALITIES
from stageguard.signals.quality import SignalQuality, signal_quality

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
        callback=check_epoch_seconds,
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
    outcomes = run_shown(
        partial(assess_one, request),
        sources,
        "Assessing",
        quiet=as_json,
        output_of=lambda source: source.output,
        jobs=jobs,
    )
    if as_json:
        print_json([outcome.to_dict() for outcome in outcomes])
    elif len(outcomes) > 1:
        print_many(succeeded(outcomes))
    elif outcomes[0].ok:
        print_one(outcomes[0])
    end(outcomes, as_json=as_json)


@dataclass(frozen=True, slots=True)
class AssessedRecording:
    """A recording whose quality was written."""

    recording: str
    subject: str
    is_synthetic: bool
    modality: str
    start: datetime | None
    quality: SignalQuality
    notes: tuple[str, ...]
    outputs: Mapping[str, Path]

    @property
    def clean_percent(self) -> float:
        """Share of the epochs that nothing speaks against."""
        return 100 * float(1 - self.quality.is_bad.mean())

    @property
    def first(self) -> dict[str, int]:
        """The first epoch of each reason."""
        first: dict[str, int] = {}
        for epoch, reason in enumerate(self.quality.reasons):
            for part in filter(None, reason.split("; ")):
                first.setdefault(part, epoch)
        return first

    def facts(self) -> dict[str, Any]:
        """Return what the codebook says."""
        quality = self.quality
        return {
            "recording": self.recording,
            "subject": self.subject,
            "is_synthetic": self.is_synthetic,
            "modality": self.modality,
            "rules": quality.rules,
            "n_epochs": quality.n_epochs,
            "epoch_seconds": quality.epoch_seconds,
            "start": None if self.start is None else self.start.isoformat(),
            "mean_beta": float(quality.beta.mean()),
            "n_marked": int(quality.is_bad.sum()),
            "n_lost": int((quality.beta >= 1).sum()),
            "reasons": quality.counts(),
            "notes": list(self.notes),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        outputs = {kind: str(path) for kind, path in self.outputs.items()}
        return self.facts() | {"beta": self.quality.beta.tolist(), "first": self.first, "outputs": outputs}


def assess_one(request: Request, source: Source) -> AssessedRecording:
    """Assess one recording and write its table."""
    tsv, book = (source.folder / (source.id + suffix) for suffix in (TSV_SUFFIX, JSON_SUFFIX))
    for path in (tsv, book):
        if path.exists() and not request.overwrite:  # before the work, not after it
            raise OutputExistsError(f"{path} exists already. Use --overwrite to replace it.")
    recording, notes = source.read()
    modality, remark = _modality(recording, request.modality or source.modality)
    found = signal_quality(recording, modality, epoch_seconds=request.epoch_seconds, rules=request.rules)
    assessed = AssessedRecording(
        recording.id,
        recording.subject,
        recording.is_synthetic,
        modality,
        recording.start,
        found,
        (*notes, *remark),
        {"tsv": tsv, "json": book},
    )
    rows = [
        (f"{epoch * found.epoch_seconds:.9g}", f"{found.epoch_seconds:.9g}", beta, reason)
        for epoch, (beta, reason) in enumerate(zip(found.beta.tolist(), found.reasons, strict=True))
    ]
    codebook = COLUMNS | {"stageguard": {"version": __version__, **assessed.facts()}}
    contents = table_with_codebook(tsv, COLUMNS, rows, codebook, digits=6)
    write_together(contents, overwrite=request.overwrite, make_folders=True)
    return assessed


COLUMNS: dict[str, Any] = {
    "onset": {"Description": "Start of the epoch, from the start of the recording", "Units": "s"},
    "duration": {"Description": "Length of the epoch", "Units": "s"},
    "quality": {"Description": "Signal quality index beta: 0 clean, 1 lost", "Units": "1"},
    "reason": {"Description": "Channel and rule that speak against the epoch; n/a where none does"},
}


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


def chart(beta: Sequence[float], epoch_seconds: float, start: datetime | None) -> list[tuple[str, str]]:
    """Return rows of (time, marks), each row an hour or more, each mark a sixtieth of it or one epoch."""
    hours = len(beta) * epoch_seconds / 3600
    row_hours = next((h for h in ROW_HOURS if hours / h <= MOST_ROWS), ROW_HOURS[-1])
    per_row = max(1, round(row_hours * 3600 / epoch_seconds))
    rows = []
    for first in range(0, len(beta), per_row):
        part = beta[first : first + per_row]
        n_marks = max(1, round(ROW_MARKS * len(part) / per_row))
        rows.append((_time(first * epoch_seconds, start), strip(part, n_marks)))
    return rows


def _time(seconds: float, begin: datetime | None) -> str:
    if begin is None:
        return f"{int(seconds // 3600):02d}h{int(seconds % 3600 // 60):02d}"
    return f"{begin + timedelta(seconds=seconds):%H:%M}"


def print_one(outcome: Outcome[AssessedRecording]) -> None:
    """Print the strip chart of one recording, the reasons, and where the table is."""
    out, made = console(), outcome.result
    quality = made.quality
    n_epochs, seconds = quality.n_epochs, quality.epoch_seconds
    synthetic = " (synthetic)" if made.is_synthetic else ""
    out.print(
        Text.assemble(
            (one_line(made.recording), "bold"),
            f"{synthetic}: {made.modality}, {count(n_epochs, 'epoch')} of {seconds:g} s "
            f"({n_epochs * seconds / 3600:.1f} h), rules {quality.rules}",
        )
    )
    out.print()
    for time, marks in chart(quality.beta.tolist(), seconds, made.start):
        out.print(Text.assemble((f"{time:>6} ", "dim"), _coloured(marks)))
    out.print(Text(f"{'':7}{CLEAN} clean   {BARS[0]} to {BARS[-1]} share that is lost", "dim"))
    out.print()
    n_lost = int((quality.beta >= 1).sum())
    out.print(
        f"Clean {made.clean_percent:.1f} % of epochs; lost altogether {count(n_lost, 'epoch')}; mean of beta "
        f"{quality.beta.mean():.3f}."
    )
    if reasons := quality.counts():
        shown = table("reason", "epochs", "share", "first at", right=("epochs", "share", "first at"))
        for reason, n in reasons.items():
            first = _time(made.first[reason] * seconds, made.start)
            shown.add_row(reason, f"{n:,}", f"{100 * n / n_epochs:.1f} %", first)
        out.print(shown)
    print_list(out, "Assumed", made.notes)
    print_list(out, "Warning", outcome.warnings)
    print_list(out, "Wrote", made.outputs.values())


def print_many(done: Sequence[Outcome[AssessedRecording]]) -> None:
    """Print one row per recording."""
    if not done:
        return
    out = console()
    numbers = ("epochs", "clean", "mean beta")
    shown = table("recording", *numbers, "mostly", "course", right=numbers)
    for outcome in done:
        made = outcome.result
        shown.add_row(
            one_line(made.recording) + (" (synthetic)" if made.is_synthetic else ""),
            f"{made.quality.n_epochs:,}",
            f"{made.clean_percent:.1f} %",
            f"{made.quality.beta.mean():.3f}",
            next(iter(made.quality.counts()), ""),
            _coloured(strip(made.quality.beta.tolist(), 30)),
        )
    out.print(shown)
    warned = [f"{each.result.recording}: {one_line(text)}" for each in done for text in each.warnings]
    print_list(out, "Warning", warned)
    folders = sorted({str(each.result.outputs["tsv"].parent) for each in done})
    out.print(f"Wrote {count(len(done), 'table')} to {', '.join(folders)}")


def _coloured(marks: str) -> Text:

    made = Text()
    for mark in marks:
        made.append(mark, "green" if mark == CLEAN else "yellow" if mark in BARS[:4] else "red")
    return made
