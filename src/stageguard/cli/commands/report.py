"""`stageguard report`: one night, or a cohort of them, as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click import UsageError
from click.exceptions import Exit

from stageguard.base.errors import StageGuardError
from stageguard.base.files import write_text_atomic
from stageguard.cli import options as opt
from stageguard.cli.cohort_report import (
    cohort_at,
    cohort_options,
    cohort_reading,
    report_cohort,
)
from stageguard.cli.command import command, option
from stageguard.cli.decoded import print_summary
from stageguard.cli.inputs import Input, lights_of, night_id
from stageguard.cli.outcomes import print_review
from stageguard.cli.scored_files import (
    ReadOptions,
    decode_night,
    read_annotations,
    read_expert,
    read_options,
    read_start,
)
from stageguard.cli.terminal import Console, print_error, print_json
from stageguard.formats.outputs import REPORT_SUFFIX, is_output, output_paths
from stageguard.formats.raw_night import Event
from stageguard.measures.statistics import StatisticsOptions
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.timing import Moment
from stageguard.profile.profile import Profile
from stageguard.report.night import night_report
from stageguard.report.summary import DecodingSummary, summary_of
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.run import collect_warnings


@command
@click.argument(
    "night",
    type=opt.PATH,
    help="Probabilities, or a .hypnogram.tsv with its probabilities beside it; or a cohort: a "
    "folder, a quoted pattern, a sample list, a table of many nights.",
)
@option(
    "--output",
    "-o",
    metavar="NIGHT.html",
    type=opt.PATH,
    help="The page. Default: NIGHT.report.html beside it.",
)
@option("--profile", "-p", metavar="NAME", help="Needed for probabilities; an output records its own.")
@option(
    "--input",
    "source",
    metavar="FILE",
    type=opt.PATH,
    help="The probabilities of a .hypnogram.tsv. Default: the recorded name beside it.",
)
@option(
    "--expert",
    metavar="FILE",
    type=opt.PATH,
    help="An expert's hypnogram, and what else it marks; of a cohort a folder or a table.",
)
@option("--title", metavar="TEXT", help="Headline. Default: the file's name.")
@opt.lights
@opt.lights_on_phase
@option("--start", metavar="TIME", help="When the recording began: 2024-05-01T22:30.")
@opt.decoding
@opt.companions
@cohort_options
@opt.scoring_format
@opt.overwrite
@opt.as_json
def report(
    night: Path,
    output: Path | None,
    profile: str | None,
    source: Path | None,
    expert: Path | None,
    title: str | None,
    lights: tuple[Moment | None, Moment | None],
    lights_on_phase: str | None,
    start: str | None,
    options: DecodeOptions,
    companions: opt.Companions,
    for_cohorts: dict[str, Any],
    scoring_format: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write one night, or a cohort, as one HTML file: pictures, measures against experts, statistics.

    The file needs no network and holds everything it shows. A cohort's page has a row for each night, those
    farthest from expert scoring first, and a list of failures.

    Examples
    --------
    stageguard report night.csv --profile human-psg-5 --expert expert.txt --output night.html
    stageguard report decoded --by groups.tsv --expert experts --output cohort.html
    """
    table = cohort_at(night)
    is_decoded = is_output(night)
    if source is not None and (table is not None or not is_decoded):
        raise UsageError(f"--input goes with a .hypnogram.tsv, and {night.name} is none.")
    if table is not None:
        measuring = StatisticsOptions("aasm", *lights, lights_on_phase=lights_on_phase)
        reading = read_options(
            cohort_reading(options, companions, scoring_format),
            profile=profile,
            start=start,
            decode=profile is not None,
        )
        report_cohort(
            *(night, table, reading, measuring, expert, output),
            title=title,
            **for_cohorts,
            overwrite=overwrite,
            as_json=as_json,
        )
        return
    for name in for_cohorts:
        raise UsageError(f"--{name} goes with a cohort, and {night.name} is one night. Leave it out.")
    off, on = lights
    if not is_decoded:
        options = replace(options, lights_off=off, lights_on=on)
    if start is not None and "-" not in start:
        raise UsageError(f"--start is {start!r}, expected a date and a time such as 2024-05-01T22:30.")
    name = night_id(night)
    page = output or night.parent / (name + REPORT_SUFFIX)
    try:
        with collect_warnings() as warned:
            loaded = None if profile is None else Profile.load(profile)
            options = companions.add_to(options, [night], loaded)
            decoding, notes = decode_night(night, loaded, options, read_start(start), source)
        scored: Hypnogram | None = None
        annotations: Sequence[Event] = ()
        if expert is not None:
            scored = read_expert(expert, decoding.hypnogram, ReadOptions(scoring_format=scoring_format))
            annotations = read_annotations(expert, scoring_format)
        measured = lights_of(Input(night, name), off, on)
        html = night_report(
            decoding,
            expert=scored,
            title=title,
            lights_off=measured.off,
            lights_on=measured.on,
            lights_on_phase=lights_on_phase,
            annotations=annotations,
            notes=notes,
        )
        beside = (output_paths(night).tsv, output_paths(night).sidecar) if is_decoded else ()
        read = [
            night,
            *beside,
            expert,
            source,
            None if profile is None else Path(profile),
            *companions.files,
        ]
        spare = [path for path in read if path is not None]
        write_text_atomic(page, html, overwrite=overwrite, spare=spare)
        summary = summary_of(decoding, StatisticsOptions(lights_off=measured.off, lights_on=measured.on))
    except (StageGuardError, OSError) as error:
        print_error(error, night)
        raise Exit(1) from None
    if as_json:
        about = {"file": str(night), "ok": True, "notes": list(notes), "warnings": warned}
        print_json(summary.to_dict() | about | {"outputs": {"html": str(page)}})
    else:
        _print_night(night, summary, warned, page)


def _print_night(night: Path, summary: DecodingSummary, warned: Sequence[object], page: Path) -> None:
    out = Console()
    print_summary(str(night), summary, out)
    out.list("Warning", warned)
    out.list("Wrote", [page])
    print_review(out)
