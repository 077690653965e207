"""`stageguard decode`: probabilities in, hypnogram out. Parses and prints only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stageguard.cli._options import (
    AsJson,
    Cohort,
    EpochSeconds,
    FormatName,
    Log,
    Logits,
    Overwrite,
    Pins,
    Pool,
    ProfileName,
    Quality,
    Stages,
    TrainedOn,
)

if TYPE_CHECKING:
    from stageguard.cli._decode_file import DecodeOptions, Job
    from stageguard.profile import Profile


Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILES", help="Probabilities: CSV, TSV, .npy, .npz, Parquet, YASA JSON ..."),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FOLDER", help="For the outputs. Default: beside each file."),
]
Svg = Annotated[bool, typer.Option("--svg", help="Also draw each night as an SVG picture.")]
Explain = Annotated[
    bool, typer.Option("--explain", help="Also write which epochs changed, why, and what keeping them costs.")
]
Jobs = Annotated[int, typer.Option(min=0, metavar="N", help="Files at a time; 0 means one per core.")]


def decode(
    files: Files,
    profile: ProfileName,
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
    svg: Svg = False,
    explain: Explain = False,
    overwrite: Overwrite = False,
    jobs: Jobs = 1,
    as_json: AsJson = False,
) -> None:
    """Turn stage probabilities into physiologically plausible hypnograms.

    Writes NAME.hypnogram.tsv and NAME.hypnogram.json for each file, and prints what changed.
    """
    from stageguard.cli._decode_file import decode_options
    from stageguard.profile import Profile

    if len(files) > 1 and (quality is not None or pins):
        raise typer.BadParameter("--quality and --pins belong to one file: decode the files one by one.")
    if logits and log:
        raise typer.BadParameter("--logits and --log exclude each other: give the one the files hold.")
    loaded = Profile.load(profile)
    options = decode_options(stages, epoch_seconds, quality, pins, cohort, trained, logits, log, format, pool)
    planned = _plan(files, loaded, options, output, overwrite=overwrite, picture=svg, explain=explain)
    reports = _run(planned, jobs, quiet=as_json)
    _print(reports, as_json)
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)


def _plan(
    files: Sequence[Path],
    profile: Profile,
    options: DecodeOptions,
    output: Path | None,
    *,
    overwrite: bool,
    picture: bool,
    explain: bool,
) -> list[Job | dict[str, Any]]:
    """Jobs in order; a file whose output another one already claims is a failure of its own."""
    from stageguard.cli._decode_file import Job

    claimed: dict[Path, Path] = {}
    planned: list[Job | dict[str, Any]] = []
    for path in files:
        place = (path.parent if output is None else output) / path.stem
        first = claimed.setdefault(place.absolute(), path)
        if first is not path:
            error = (
                f"{path.name}: has the same output as {first}. Decode it into another folder with --output."
            )
            planned.append({"file": str(path), "ok": False, "error": error})
        else:
            planned.append(Job(path, place, profile, options, overwrite, picture, explain))
    return planned


def _run(planned: Sequence[Job | dict[str, Any]], jobs: int, *, quiet: bool) -> list[dict[str, Any]]:
    """Return reports in the order of the files, with a progress bar on a terminal."""
    from contextlib import closing

    from stageguard.cli._decode_file import Job, run_job
    from stageguard.cli._stopping import Stopped
    from stageguard.cli._terminal import progress
    from stageguard.cli._workers import run_all

    work = [item for item in planned if isinstance(item, Job)]
    before = _written(work)
    try:
        with closing(run_all(run_job, work, jobs)) as results:
            return [
                next(results) if isinstance(item, Job) else item
                for item in progress(planned, "Decoding", len(planned), quiet=quiet)
            ]
    except Stopped as stopped:
        n_written = len(_written(work) - before)
        stopped.done = f"{n_written:,} of {len(planned):,} file{'s' * (len(planned) != 1)} written"
        raise


def _written(work: Sequence[Job]) -> set[tuple[Path, int]]:
    """Return the outputs there are, and when each was written: workers may have done more than they said."""
    from stageguard.formats.outputs import output_paths

    places = [output_paths(job.output).sidecar for job in work]
    return {(place, place.stat().st_mtime_ns) for place in places if place.is_file()}


def _print(reports: list[dict[str, Any]], as_json: bool) -> None:
    from stageguard.cli._present import print_cohort, print_night, print_problems
    from stageguard.cli._terminal import print_json

    if as_json:
        print_json([{key: value for key, value in report.items() if key != "table"} for report in reports])
    elif len(reports) > 1:
        print_cohort(reports)
    elif reports[0]["ok"]:
        print_night(reports[0])
    print_problems(reports, as_json=as_json)
