"""`stageguard quality`: recordings in, how far each epoch can be trusted out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from math import ceil
from operator import attrgetter
from pathlib import Path
from typing import Any

import click

from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.outcomes import finish, length_words, run_shown
from stageguard.cli.recordings import (
    RecordingOptions,
    Source,
    recording_jobs_option,
    recording_options,
    recordings_argument,
)
from stageguard.cli.terminal import Console, Piece, count, one_line
from stageguard.errors import InputError
from stageguard.files import write_together
from stageguard.formats.outputs import table_with_codebook
from stageguard.night.recording import Recording
from stageguard.runner.run import Outcome
from stageguard.signals.modalities import MODALITIES
from stageguard.signals.quality import DEFAULT_RULES, RULES, Rules, SignalQuality, signal_quality
from stageguard.version import __version__

TSV_SUFFIX = ".quality.tsv"
JSON_SUFFIX = ".quality.json"


@command
@recordings_argument
@option(
    "--modality",
    "-m",
    type=click.Choice(MODALITIES),
    help="What was recorded. Default: what the channels or dataset say.",
)
@option(
    "--rules",
    type=click.Choice(RULES),
    default=DEFAULT_RULES,
    help="The share of each epoch that is bad, or the paper's thresholds.",
)
@option(
    "--epoch-seconds",
    metavar="SECONDS",
    type=opt.SECONDS,
    help="Epoch length. Default: the scoring's, else 30; EEG without a scoring must say it.",
)
@recording_options
@option("--output", "-o", metavar="FOLDER", type=opt.PATH, help="For the tables. Default: beside each file.")
@opt.overwrite
@recording_jobs_option
@opt.as_json
def quality(
    recordings: tuple[Path, ...],
    modality: str | None,
    rules: Rules,
    epoch_seconds: float | None,
    options: RecordingOptions,
    output: Path | None,
    overwrite: bool,
    jobs: int,
    as_json: bool,
) -> None:
    """Assess how far each epoch of a recording can be trusted, and say why not.

    Writes NAME.quality.tsv, for `decode --quality`, and NAME.quality.json for each recording.

    Examples
    --------
    stageguard quality wrists --dataset sleep-accel --output quality
    """
    outcomes = run_shown(
        partial(_assess, modality, rules, epoch_seconds, overwrite),
        options.find(recordings, output),
        "Assessing",
        quiet=as_json,
        output_of=attrgetter("output"),
        jobs=jobs,
    )
    finish(outcomes, _show_many, show_one=_show_one, as_json=as_json)


@dataclass(frozen=True, slots=True)
class AssessedRecording:
    """A recording whose quality was written."""

    quality: SignalQuality
    subject: str
    is_synthetic: bool
    start: datetime | None
    notes: tuple[str, ...]
    outputs: Mapping[str, Path]

    @property
    def clean_percent(self) -> float:
        """Share of the epochs without a reason against them."""
        return 100 * float(1 - self.quality.is_bad.mean())

    @property
    def n_lost(self) -> int:
        """Number of epochs whose signal is lost altogether."""
        return int((self.quality.beta >= 1).sum())

    @property
    def first(self) -> dict[str, int]:
        """The first epoch of each reason."""
        first: dict[str, int] = {}
        for epoch, reason in enumerate(self.quality.reasons):
            for part in filter(None, reason.split("; ")):
                first.setdefault(part, epoch)
        return first

    def facts(self) -> dict[str, Any]:
        """Return the facts for the codebook."""
        quality = self.quality
        return {
            "recording": quality.recording,
            "subject": self.subject,
            "is_synthetic": self.is_synthetic,
            "modality": quality.modality,
            "rules": quality.rules,
            "n_epochs": quality.n_epochs,
            "epoch_seconds": quality.epoch_seconds,
            "start": None if self.start is None else self.start.isoformat(),
            "mean_beta": float(quality.beta.mean()),
            "n_marked": int(quality.is_bad.sum()),
            "n_lost": self.n_lost,
            "reasons": quality.counts(),
            "notes": list(self.notes),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        outputs = {kind: str(path) for kind, path in self.outputs.items()}
        return self.facts() | {"beta": self.quality.beta.tolist(), "first": self.first, "outputs": outputs}


def _assess(
    modality: str | None,
    rules: Rules,
    epoch_seconds: float | None,
    overwrite: bool,
    source: Source,
) -> AssessedRecording:
    """Assess one recording and write its table."""
    tsv, book = (source.new_file(suffix, overwrite=overwrite) for suffix in (TSV_SUFFIX, JSON_SUFFIX))
    recording, notes = source.read()
    modality, remark = _modality(recording, modality or source.modality)
    quality = signal_quality(recording, modality, epoch_seconds=epoch_seconds, rules=rules)
    assessed = AssessedRecording(
        quality,
        recording.subject,
        recording.is_synthetic,
        recording.start,
        (*notes, *remark),
        {"tsv": tsv, "json": book},
    )
    seconds = quality.epoch_seconds
    rows = [
        (f"{epoch * seconds:.9g}", f"{seconds:.9g}", beta, reason)
        for epoch, (beta, reason) in enumerate(zip(quality.beta.tolist(), quality.reasons, strict=True))
    ]
    codebook = COLUMNS | {"stageguard": {"version": __version__, **assessed.facts()}}
    contents = table_with_codebook(tsv, COLUMNS, rows, codebook, digits=6)
    write_together(contents, overwrite=overwrite, make_folders=True)
    return assessed


COLUMNS: dict[str, Any] = {
    "onset": {"Description": "Start of the epoch, from the start of the recording", "Units": "s"},
    "duration": {"Description": "Length of the epoch", "Units": "s"},
    "quality": {"Description": "Signal quality index beta: 0 clean, 1 lost", "Units": "1"},
    "reason": {"Description": "Channel and rule that speak against the epoch; n/a where none does"},
}


def _modality(recording: Recording, wanted: str | None) -> tuple[str, list[str]]:
    """Return the modality, and a remark if it was guessed from the channels."""
    if wanted:
        return wanted, []
    names = [each.name for each in MODALITIES.values() if not recording.signals.keys().isdisjoint(each.roles)]
    if "polysomnography" in names:  # it has an ECG too, but its stages are scored from EEG, EOG and chin
        names = ["polysomnography"]
    if len(names) == 1:
        return names[0], [f"modality {names[0]} by the channels"]
    known = ", ".join(recording.signals) or "none"
    what = f"has channels of {' and '.join(names)}" if names else "has no channel that tells its modality"
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
    """Return marks for equal stretches: a dot if all is clean, else a bar as high as the mean of beta."""
    n_marks = max(1, min(n_marks, len(beta)))
    edges = [round(k * len(beta) / n_marks) for k in range(n_marks + 1)]
    return "".join(_mark(beta[a:b]) for a, b in pairwise(edges))


def _mark(part: Sequence[float]) -> str:
    mean = sum(part) / len(part)
    return CLEAN if mean == 0 else BARS[min(len(BARS), ceil(mean * len(BARS))) - 1]


def chart(beta: Sequence[float], epoch_seconds: float, start: datetime | None) -> list[tuple[str, str]]:
    """Return rows of (time, marks): a row is an hour or more, a mark a sixtieth of it or one epoch."""
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


def _show_one(outcome: Outcome[AssessedRecording], out: Console) -> None:
    """Print the strip chart of one recording, the reasons, and where the table is."""
    made = outcome.result
    quality = made.quality
    n_epochs, seconds = quality.n_epochs, quality.epoch_seconds
    synthetic = " (synthetic)" if made.is_synthetic else ""
    length = length_words(n_epochs, seconds)
    about = f"{synthetic}: {quality.modality}, {length}, rules {quality.rules}"
    out.print((one_line(quality.recording), "bold"), about)
    out.print()
    for time, marks in chart(quality.beta.tolist(), seconds, made.start):
        out.print((f"{time:>6} ", "dim"), *_coloured(marks))
    out.print(f"{'':7}{CLEAN} clean   {BARS[0]} to {BARS[-1]} share that is lost", style="dim")
    out.print()
    out.print(
        f"Clean {made.clean_percent:.1f} % of epochs; lost altogether {count(made.n_lost, 'epoch')}; mean of "
        f"beta {quality.beta.mean():.3f}."
    )
    if reasons := quality.counts():
        first = {reason: _time(epoch * seconds, made.start) for reason, epoch in made.first.items()}
        rows = [(reason, n, f"{100 * n / n_epochs:.1f} %", first[reason]) for reason, n in reasons.items()]
        out.table(("reason", ">epochs", ">share", ">first at"), rows)
    out.list("Assumed", made.notes)
    out.list("Warning", outcome.warnings)
    out.list("Wrote", made.outputs.values())


def _show_many(done: Sequence[Outcome[AssessedRecording]], out: Console) -> None:
    """Print one row per recording."""
    rows = [
        (
            made.quality.recording + (" (synthetic)" if made.is_synthetic else ""),
            made.quality.n_epochs,
            f"{made.clean_percent:.1f} %",
            f"{made.quality.beta.mean():.3f}",
            next(iter(made.quality.counts()), ""),
            _coloured(strip(made.quality.beta.tolist(), 30)),
        )
        for made in (outcome.result for outcome in done)
    ]
    out.table(("recording", ">epochs", ">clean", ">mean beta", "mostly", "course"), rows)
    warned = [f"{each.result.quality.recording}: {one_line(text)}" for each in done for text in each.warnings]
    out.list("Warning", warned)
    folders = sorted({str(each.result.outputs["tsv"].parent) for each in done})
    out.print(f"Wrote {count(len(done), 'table')} to {', '.join(folders)}")


def _coloured(marks: str) -> list[Piece]:
    styles = {CLEAN: "green"} | dict.fromkeys(BARS[:4], "yellow") | dict.fromkeys(BARS[4:], "red")
    return [(mark, styles[mark]) for mark in marks]
