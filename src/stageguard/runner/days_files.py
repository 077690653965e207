"""Guard the sleeps of a recording of days, and write each of them, a table of days and a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from stageguard.files import read_text, write_together
from stageguard.formats.outgoing import Outgoing
from stageguard.formats.outputs import describe_file, table_with_codebook
from stageguard.formats.raw_night import FileOptions
from stageguard.formats.read import is_hypnogram, read_density_file, read_hypnogram_file
from stageguard.formats.tools.stageguard import table_text
from stageguard.measures.days import DAY_QUANTITIES, Days, Sleep, day_row, days
from stageguard.night.sleeps import Lights
from stageguard.night.stages import StageScheme
from stageguard.night.timing import Night, with_start
from stageguard.profile.profile import Profile
from stageguard.report.days import days_page
from stageguard.runner.decode_files import DecodeTask, decode_task
from stageguard.runner.decode_one import DecodeOptions, read_with, start_of
from stageguard.version import __version__

TSV_SUFFIX, HTML_SUFFIX = ".days.tsv", ".days.html"
COLUMNS: dict[str, Any] = {
    "date": {"Description": "Date on which the day begins, at noon"},
    "counts": {"Description": "Whether no more than half of the day is missing"},
    "missing_percent": {"Description": "Share of the day that is not scored", "Units": "%"},
} | {quantity.key: {"Description": quantity.title, "Units": quantity.unit} for quantity in DAY_QUANTITIES}


@dataclass(frozen=True, slots=True)
class DaysTask:
    """One recording of days, where its outputs go, and what the caller said about it."""

    path: Path
    output: Path  # folder and name, to which endings are added
    profile: Profile | None
    options: DecodeOptions
    scheme: StageScheme | None = None  # of stages without a profile
    lights: Lights = ()
    timezone: str | None = None
    overwrite: bool = False
    edf: Path | None = None
    start: datetime | None = None  # start of the recording, if neither `path` nor `edf` says
    error: str | None = None  # why the file cannot be read

    @property
    def file(self) -> str:
        """The path as text."""
        return str(self.path)

    @property
    def id(self) -> str:
        """The name of the recording."""
        return self.output.name


@dataclass(frozen=True, slots=True)
class DaysFile:
    """The days of a file, remarks on how it was read, and what was written."""

    days: Days
    notes: tuple[str, ...]
    outputs: Mapping[str, Path]
    sleeps: tuple[Path, ...]  # the table of each sleep

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        outputs = {kind: str(path) for kind, path in self.outputs.items()}
        sleeps = [str(path) for path in self.sleeps]
        return self.days.to_dict() | {"notes": list(self.notes), "outputs": outputs | {"sleeps": sleeps}}


def days_task(task: DaysTask) -> DaysFile:
    """Find, guard and write the sleeps of one file, a table of its days and a page."""
    night, notes = _read(task)
    options = task.options
    found = days(
        with_start(night, start_of(task.edf, task.start)),
        task.profile,
        lights=task.lights,
        timezone=task.timezone,
        cohort=options.cohort,
        stager=options.stager,
        trained=options.trained,
        strength=options.strength,
    )
    paths = [_write_sleep(task, number, sleep, notes) for number, sleep in enumerate(found.sleeps, start=1)]
    tsv, html = (task.output.with_name(task.id + suffix) for suffix in (TSV_SUFFIX, HTML_SUFFIX))
    facts = {
        "version": __version__,
        "input": describe_file(task.path),
        "profile": None if task.profile is None else task.profile.name,
        "timezone": task.timezone,
        "notes": list(notes),
        **found.to_dict(),
    }
    rows = [day_row(day).values() for day in found.days]
    contents = table_with_codebook(tsv, COLUMNS, rows, COLUMNS | {"stageguard": facts}, digits=6)
    _write_changed(task, contents | {html: days_page(found, task.id, notes)})
    outputs = {"tsv": tsv, "json": tsv.with_suffix(".json"), "html": html}
    return DaysFile(found, notes, outputs, tuple(paths))


def _read(task: DaysTask) -> tuple[Night, tuple[str, ...]]:
    """Return what a file holds, with remarks: of a profile, what it makes of probabilities or of stages."""
    reading = task.options.density
    if task.profile is not None:
        read = read_with(task.path, task.profile, reading, task.options.stager)
        return read.density, read.notes
    if is_hypnogram(task.path):
        options = FileOptions(format=reading.format, epoch_seconds=reading.epoch_seconds, scheme=task.scheme)
        scored = read_hypnogram_file(task.path, options)
        return scored.hypnogram, scored.notes
    read = read_density_file(task.path, reading)
    return read.density, read.notes


def _write_sleep(task: DaysTask, number: int, sleep: Sleep, notes: tuple[str, ...]) -> Path:
    """Write a sleep as `decode` writes a night, or stages alone as a table; return the table."""
    output = task.output.with_name(f"{task.id}.sleep-{number:02d}")
    decoding = sleep.decoding
    if decoding is None:
        path = output.with_name(f"{output.name}.csv")
        _write_changed(task, {path: table_text(Outgoing(sleep.hypnogram))})
        return path
    assert task.profile is not None  # `days` refuses probabilities without
    one = DecodeTask(
        task.path,
        output,
        task.profile,
        replace(task.options, epochs=(sleep.first, sleep.end)),
        overwrite=task.overwrite,
        edf=task.edf,
        start=task.start,
        in_full=False,
    )
    return Path(decode_task(one, (decoding, notes)).outputs["tsv"])


def _write_changed(task: DaysTask, contents: Mapping[Path, str | bytes]) -> None:
    """Write files, except those that an earlier run has written with the same content."""
    changed = {
        path: text for path, text in contents.items() if not path.is_file() or read_text(path, "text") != text
    }
    if changed:
        write_together(changed, overwrite=task.overwrite, make_folders=True, spare=[task.path])
