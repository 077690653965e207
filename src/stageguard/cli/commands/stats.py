"""`stageguard stats`: sleep statistics of many nights, and of groups. Parses and prints only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stageguard.cli.options import (
    AsJson,
    Convention,
    EpochSeconds,
    FormatName,
    LightsOff,
    LightsOn,
    LightsOnPhase,
    Log,
    Logits,
    Overwrite,
    Pool,
    SampleList,
    SchemeName,
    ScoredFiles,
    ScoringFormat,
    Stages,
    Start,
    given_path,
)

if TYPE_CHECKING:
    from stageguard.cli.cohort_run import Request

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="COHORT.tsv",
        parser=given_path,
        help="Write one row per night, and a codebook beside it.",
    ),
]
DecodeWith = Annotated[
    str | None,
    typer.Option(
        "--profile", "-p", metavar="NAME", help="Decode probabilities with it; count its transitions."
    ),
]
ByConvention = Annotated[Convention, typer.Option(help="Whose definitions, where they differ.")]
MinFirstRem = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="REM latency ends at a first REM bout this long.")
]
By = Annotated[
    Path | None,
    typer.Option(metavar="GROUPS.tsv", help="Compare groups: columns id, group (optional: subject, expert)."),
]
ExpertsIn = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Expert hypnograms, named like the nights; or one file for one night."
    ),
]


def stats(
    files: ScoredFiles = None,
    samples: SampleList = None,
    output: Output = None,
    profile: DecodeWith = None,
    convention: ByConvention = Convention.aasm,
    lights_off: LightsOff = None,
    lights_on: LightsOn = None,
    lights_on_phase: LightsOnPhase = None,
    min_first_rem_seconds: MinFirstRem = 0.0,
    start: Start = None,
    by: By = None,
    expert: ExpertsIn = None,
    scheme: SchemeName = None,
    stages: Stages = None,
    epoch_seconds: EpochSeconds = None,
    logits: Logits = False,
    log: Log = False,
    format: FormatName = None,
    pool: Pool = None,
    scoring_format: ScoringFormat = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Sleep statistics of one night or many, before and after decoding.

    What decode wrote has a before and an after; probabilities have them with --profile. A hypnogram from
    elsewhere counts as after.
    """
    from stageguard.cli.cohort_run import Request
    from stageguard.cli.inputs import find_inputs
    from stageguard.cli.scored_files import read_moment, read_options
    from stageguard.measures.cohort import StatisticsOptions

    if output is not None and output.suffix.lower() != ".tsv":
        raise typer.BadParameter(f"--output is {str(output)!r}, expected a name that ends in .tsv.")
    decode = profile is not None
    reading = read_options(
        profile,
        scheme,
        stages,
        epoch_seconds,
        start=start,
        logits=logits,
        log=log,
        decode=decode,
        format=format,
        pool=pool,
        scoring_format=scoring_format,
    )
    inputs = find_inputs(files, samples, reading.wanted)
    if expert is not None and len(inputs.nights) > 1 and expert.is_file():
        raise typer.BadParameter("--expert names one file for several nights: name the folder with one each.")
    lights = read_moment(lights_off, "--lights-off"), read_moment(lights_on, "--lights-on")
    measuring = StatisticsOptions(convention.value, *lights, min_first_rem_seconds, lights_on_phase)
    _run(Request(inputs, reading, measuring, by, expert, output, overwrite, samples), as_json)


def _run(request: Request, as_json: bool) -> None:
    from stageguard.cli.cohort_present import print_stats
    from stageguard.cli.cohort_run import run_cohort
    from stageguard.cli.present import print_problems
    from stageguard.cli.terminal import print_json

    result = run_cohort(request, quiet=as_json)
    if as_json:
        print_json(result.to_dict())
    else:
        print_stats(result)
    print_problems(result.reports, as_json=as_json)
    if not all(report["ok"] for report in result.reports):
        raise typer.Exit(1)
