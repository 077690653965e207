"""`stageguard intervals`: how far a night's sleep statistics may be off. Parses and prints only."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from stageguard.cli.options import (
    AsJson,
    Cohort,
    Convention,
    EpochSeconds,
    FormatName,
    LightsOff,
    LightsOn,
    Log,
    Logits,
    Overwrite,
    Pins,
    Pool,
    Quality,
    SampleList,
    Stages,
    Start,
    TrainedOn,
    given_path,
)


class Method(StrEnum):
    """Where intervals come from."""

    conformal = "conformal"
    model = "model"
    both = "both"


Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILES",
        parser=given_path,
        help="Probabilities with --profile, or outputs of decode; folders, quoted patterns, a sample list.",
    ),
]
FittedProfile = Annotated[
    str | None,
    typer.Option(
        "--profile", "-p", metavar="NAME", help="A profile that fit made; an output records its own."
    ),
]
MethodOption = Annotated[
    Method,
    typer.Option("--method", help="From errors on scored nights (conformal) or from draws (model)."),
]
Level = Annotated[
    float, typer.Option(min=0.5, max=0.99, metavar="SHARE", help="Coverage wanted, 0.5 to 0.99.")
]
NumberOfDraws = Annotated[int, typer.Option("--draws", min=10, metavar="N", help="For model intervals.")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Of the draws.")]
ByConvention = Annotated[Convention, typer.Option(help="Whose definitions; coverage was measured by AASM's.")]
MinFirstRem = Annotated[
    float | None,
    typer.Option(min=0.0, metavar="SECONDS", help="First REM bout of REM latency. Default: the profile's."),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE.tsv", parser=given_path, help="One row per night, statistic and kind."
    ),
]


def intervals(
    files: Files = None,
    profile: FittedProfile = None,
    samples: SampleList = None,
    method: MethodOption = Method.conformal,
    level: Level = 0.9,
    draws: NumberOfDraws = 200,
    seed: Seed = 0,
    lights_off: LightsOff = None,
    lights_on: LightsOn = None,
    start: Start = None,
    convention: ByConvention = Convention.aasm,
    min_first_rem_seconds: MinFirstRem = None,
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
    output: Output = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Intervals for total sleep time, latencies, stage minutes, bouts and what else studies report.

    Conformal ones are as wide as the errors on scored nights were, and need a profile that fit made. Model
    ones come from draws of the posterior: they know only the stager's own doubt and promise no coverage.
    """
    from stageguard.cli.decode_file import decode_options
    from stageguard.cli.inputs import Wanted, find_inputs
    from stageguard.cli.interval_files import Request, check_profile, intervals_of, write_table
    from stageguard.cli.interval_present import print_intervals
    from stageguard.cli.present import print_notes, print_problems
    from stageguard.cli.scored_files import read_moment, read_start, run_each
    from stageguard.cli.terminal import print_json, progress
    from stageguard.profile.profile import Profile

    if logits and log:
        raise typer.BadParameter("--logits and --log exclude each other: give the one the files hold.")
    if output is not None and output.suffix != ".tsv":
        raise typer.BadParameter(f"--output is {str(output)!r}, expected the name of a .tsv file.")
    request = Request(
        profile=None if profile is None else Profile.load(profile),
        methods=("conformal", "model") if method is Method.both else (method.value,),
        level=level,
        n_draws=draws,
        seed=seed,
        lights_off=read_moment(lights_off, "--lights-off"),
        lights_on=read_moment(lights_on, "--lights-on"),
        start=read_start(start),
        convention=convention.value,
        min_first_rem_seconds=min_first_rem_seconds,
        options=decode_options(
            stages, epoch_seconds, quality, pins, cohort, trained, logits, log, format, pool
        ),
    )
    check_profile(request)
    wanted = Wanted("hypnogram")
    if request.profile is not None:
        wanted = Wanted("density", format, (*request.profile.scheme.names, *(request.options.stages or ())))
    inputs = find_inputs(files, samples, wanted)
    if len(inputs.nights) > 1 and (quality is not None or pins):
        raise typer.BadParameter("--quality and --pins belong to one file: take the files one by one.")
    found = run_each(inputs.nights, lambda night: intervals_of(night, request))
    reports = list(progress(found, "Drawing", len(inputs.nights), quiet=as_json))
    done = [report for report in reports if report["ok"]]
    if output is not None and done:
        read = [
            path
            for night in inputs.nights
            for path in (night.path, night.scoring, night.edf, night.source)
            if path is not None
        ]
        read += [path for path in (samples, quality) if path is not None]
        read += [Path(text) for text in (profile, *(pins or ())) if text is not None]
        write_table(done, output, request, overwrite=overwrite, spare=read)
    if as_json:
        print_json(reports)
    else:
        print_intervals(done, request, output)
    print_notes(inputs.notes, as_json=as_json)
    print_problems(reports, as_json=as_json)
    if len(done) < len(reports):
        raise typer.Exit(1)
