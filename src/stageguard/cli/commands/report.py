"""`stageguard report`: one night as one HTML file. Parses and prints only."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from stageguard.base.errors import StageGuardError, StageGuardWarning
from stageguard.base.files import write_text_atomic
from stageguard.cli.decode_file import DecodeOptions, decode_options, describe
from stageguard.cli.experts import read_expert
from stageguard.cli.inputs import Input, lights_of, night_id
from stageguard.cli.night import decode_night
from stageguard.cli.options import (
    AsJson,
    Cohort,
    EpochSeconds,
    FormatName,
    LightsOff,
    LightsOn,
    LightsOnPhase,
    Log,
    Logits,
    Overwrite,
    Pins,
    Pool,
    Quality,
    ScoringFormat,
    Stages,
    TrainedOn,
    given_path,
)
from stageguard.cli.present import print_review, print_summary
from stageguard.cli.scored_files import ReadOptions, read_moment, read_start
from stageguard.cli.terminal import console, in_options, print_error, print_json, print_list, warned_of
from stageguard.formats.outputs import JSON_SUFFIX, TSV_SUFFIX, output_paths
from stageguard.measures.statistics import StatisticsOptions
from stageguard.profile.profile import Profile
from stageguard.report.night import night_report

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
    stages: Stages = None,
    epoch_seconds: EpochSeconds = None,
    quality: Quality = None,
    pins: Pins = None,
    cohort: Cohort = None,
    trained: TrainedOn = None,
    logits: Logits = False,
    log: Log = False,
    format: FormatName = None,
    pool: Pool = None,
    scoring_format: ScoringFormat = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write one night as one HTML file: pictures, measures against experts, statistics, methods.

    The file needs no network and holds everything it shows.
    """
    if logits and log:
        raise typer.BadParameter("--logits and --log exclude each other: give the one the file holds.")
    options = decode_options(stages, epoch_seconds, quality, pins, cohort, trained, logits, log, format, pool)
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
    read = [source, quality, *(Path(text) for text in (profile, *(pins or ())) if text is not None)]
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
) -> dict[str, Any]:
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
    return describe(decoding, StatisticsOptions(lights_off=lights.off, lights_on=lights.on)) | {
        "file": str(night),
        "ok": True,
        "notes": [in_options(note) for note in notes],
        "warnings": warned_of(caught),
        "outputs": {"html": str(output)},
    }


def output_files(night: Path) -> list[Path]:
    """Return the files of an output of `decode`, all of which are read; none of probabilities."""
    if not night.name.endswith((TSV_SUFFIX, JSON_SUFFIX)):
        return []
    files = output_paths(night)
    return [path for path in (files.tsv, files.sidecar) if path != night]


def _beside(night: Path) -> Path:

    return night.parent / (night_id(night) + SUFFIX)


def _print(found: dict[str, Any], as_json: bool) -> None:

    if as_json:
        print_json({key: value for key, value in found.items() if key != "table"})
        return
    out = console()
    print_summary(found, out)
    print_list(out, "Warning", found["warnings"])
    print_list(out, "Wrote", found["outputs"].values())
    print_review(out)
