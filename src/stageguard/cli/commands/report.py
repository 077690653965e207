"""`stageguard report`: one night as one HTML file."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from stageguard.base.errors import StageGuardError, StageGuardWarning, message_of
from stageguard.base.files import write_text_atomic
from stageguard.cli.inputs import Input, decode_options, lights_of, night_id
from stageguard.cli.options import (
    AsJson,
    DecodingGiven,
    LightsOff,
    LightsOn,
    LightsOnPhase,
    Overwrite,
    ScoringFormat,
    given_path,
    spread,
)
from stageguard.cli.present import print_review, print_summary
from stageguard.cli.scored_files import ReadOptions, decode_night, read_expert, read_moment, read_start
from stageguard.cli.terminal import console, print_error, print_json, print_list
from stageguard.formats.outputs import JSON_SUFFIX, TSV_SUFFIX, output_paths
from stageguard.measures.statistics import StatisticsOptions
from stageguard.measures.summary import NightSummary, summary_of
from stageguard.profile.profile import Profile
from stageguard.report.night import night_report
from stageguard.runner.decode_files import DecodeOptions

SUFFIX = ".report.html"

Night = Annotated[
    Path,
    typer.Argument(
        metavar="NIGHT",
        parser=given_path,
        help="Probabilities, or a .hypnogram.tsv with its probabilities beside it.",
    ),
]
Source = Annotated[
    Path | None,
    typer.Option(
        "--input",
        metavar="FILE",
        parser=given_path,
        help="The probabilities of a .hypnogram.tsv. Default: the recorded name beside it.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="NIGHT.html",
        parser=given_path,
        help="The page. Default: NIGHT.report.html beside it.",
    ),
]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile", "-p", metavar="NAME", help="Needed for probabilities; an output records its own."
    ),
]
ExpertFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", parser=given_path, help="An expert's hypnogram of the night."),
]
Title = Annotated[str | None, typer.Option(metavar="TEXT", help="Headline. Default: the file's name.")]
Start = Annotated[
    str | None, typer.Option(metavar="TIME", help="When the recording began: 2024-05-01T22:30.")
]


@spread
def report(
    night: Night,
    output: Output = None,
    profile: ProfileName = None,
    source: Source = None,
    expert: ExpertFile = None,
    title: Title = None,
    lights_off: LightsOff = None,
    lights_on: LightsOn = None,
    lights_on_phase: LightsOnPhase = None,
    start: Start = None,
    given: DecodingGiven = DecodingGiven(),  # noqa: B008 - a group of options
    scoring_format: ScoringFormat = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write one night as one HTML file: pictures, measures against experts, statistics, methods.

    The file needs no network and holds everything it shows.
    """
    options = decode_options(given)
    if start is not None and "-" not in start:
        raise typer.BadParameter(
            f"--start is {start!r}, expected a date and a time such as 2024-05-01T22:30."
        )
    page = {
        "title": title,
        "lights_off": read_moment(lights_off, "--lights-off"),
        "lights_on": read_moment(lights_on, "--lights-on"),
        "lights_on_phase": lights_on_phase,
    }
    if source is not None and not output_files(night):
        raise typer.BadParameter(f"--input goes with a .hypnogram.tsv, and {night.name} is none.")
    place = output or _beside(night)
    read = [source, None if profile is None else Path(profile), *given.files]
    try:
        found = write_report(
            night,
            place,
            profile,
            options,
            expert,
            read_start(start),
            page,
            scoring_format=scoring_format,
            source=source,
            spare=[path for path in read if path is not None],
            overwrite=overwrite,
        )
    except (StageGuardError, OSError) as error:
        print_error(error, night)
        raise typer.Exit(1) from None
    _print(found, as_json)


@dataclass(frozen=True, slots=True)
class ReportedNight:
    """The night of a page."""

    file: str
    summary: NightSummary
    notes: Sequence[str]
    warnings: Sequence[str]
    output: Path

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        return self.summary.to_dict() | {
            "file": self.file,
            "ok": True,
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "outputs": {"html": str(self.output)},
        }


def write_report(
    night: Path,
    output: Path,
    profile: str | None,
    options: DecodeOptions,
    expert: Path | None,
    start: datetime | None,
    page: dict[str, Any],
    *,
    scoring_format: str | None = None,
    source: Path | None = None,
    spare: Sequence[Path] = (),
    overwrite: bool,
) -> ReportedNight:
    """Decode, draw and write; returns what a person wants to know about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StageGuardWarning)
        loaded = None if profile is None else Profile.load(profile)
        decoding, notes = decode_night(night, loaded, options, start, source)
    reading = ReadOptions(scoring_format=scoring_format)
    scored = None if expert is None else read_expert(expert, decoding.hypnogram, reading)
    read = [night, *output_files(night), *((expert,) if expert is not None else ()), *spare]
    lights = lights_of(Input(night, night_id(night)), page["lights_off"], page["lights_on"])
    page |= {"lights_off": lights.off, "lights_on": lights.on}
    html = night_report(decoding, expert=scored, notes=notes, **page)
    write_text_atomic(output, html, overwrite=overwrite, spare=read)
    statistics = StatisticsOptions(lights_off=lights.off, lights_on=lights.on)
    said = [message_of(w.message) for w in caught if issubclass(w.category, StageGuardWarning)]
    return ReportedNight(str(night), summary_of(decoding, statistics), notes, said, output)


def output_files(night: Path) -> list[Path]:
    """Return the files of an output of `decode`, all of which are read; none of probabilities."""
    if not night.name.endswith((TSV_SUFFIX, JSON_SUFFIX)):
        return []
    files = output_paths(night)
    return [path for path in (files.tsv, files.sidecar) if path != night]


def _beside(night: Path) -> Path:

    return night.parent / (night_id(night) + SUFFIX)


def _print(night: ReportedNight, as_json: bool) -> None:
    if as_json:
        print_json(night.to_dict())
        return
    out = console()
    print_summary(night.file, night.summary, out)
    print_list(out, "Warning", night.warnings)
    print_list(out, "Wrote", [night.output])
    print_review(out)
