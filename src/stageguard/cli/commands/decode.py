"""`stageguard decode`: probabilities in, hypnogram out. Parses and prints only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from stageguard.cli.decode_cohort import Tally, write_tables
from stageguard.cli.decode_file import DecodeOptions, Job, decode_options, run_job
from stageguard.cli.inputs import FAILURES_TABLE, Inputs, find_inputs
from stageguard.cli.options import (
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
    SampleList,
    Stages,
    TrainedOn,
    given_path,
)
from stageguard.cli.outputs import check_folder
from stageguard.cli.present import (
    MOST_NOTES,
    MOST_ROWS,
    print_cohort,
    print_night,
    print_notes,
    print_problems,
    print_review,
)
from stageguard.cli.recognising import Wanted
from stageguard.cli.stopping import Stopped
from stageguard.cli.terminal import JsonList, console, count, print_error, print_list, progress, table
from stageguard.cli.workers import LOST, run_all
from stageguard.formats.outputs import output_paths
from stageguard.profile.profile import Profile

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILES",
        parser=given_path,
        help="Probabilities (CSV, .npy, YASA JSON ...), folders of them, quoted patterns, or a sample list.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        parser=given_path,
        help="For the outputs. Default: beside each file.",
    ),
]
Svg = Annotated[bool, typer.Option("--svg", help="Also draw each night as an SVG picture.")]
Explain = Annotated[
    bool, typer.Option("--explain", help="Also write which epochs changed, why, and what keeping them costs.")
]
Jobs = Annotated[int, typer.Option(min=0, metavar="N", help="Files at a time; 0 means one per core.")]


def decode(
    profile: ProfileName,
    files: Files = None,
    samples: SampleList = None,
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

    Writes NAME.hypnogram.tsv and NAME.hypnogram.json for each file, and prints what changed. A second call
    skips what was decoded before. With several files and --output also cohort.tsv, and failures.tsv where
    any failed.
    """
    if logits and log:
        raise typer.BadParameter("--logits and --log exclude each other: give the one the files hold.")
    loaded = Profile.load(profile)
    options = decode_options(stages, epoch_seconds, quality, pins, cohort, trained, logits, log, format, pool)
    names = (*loaded.scheme.names, *(options.stages or ()))
    inputs = find_inputs(files, samples, Wanted("density", format, names))
    if len(inputs.nights) > 1 and (quality is not None or pins):
        raise typer.BadParameter("--quality and --pins belong to one file: decode the files one by one.")
    check_folder(output)
    planned = _plan(inputs, loaded, options, output, overwrite=overwrite, picture=svg, explain=explain)
    tally = _run(planned, jobs, as_json=as_json)
    is_told = _finish(tally, inputs, output, as_json)
    if tally.failures or not is_told:
        raise typer.Exit(1)


def _plan(
    inputs: Inputs,
    profile: Profile,
    options: DecodeOptions,
    output: Path | None,
    *,
    overwrite: bool,
    picture: bool,
    explain: bool,
) -> list[Job | dict[str, Any]]:
    """Jobs in order; a file whose output another one already claims is a failure of its own."""
    claimed: dict[Path, Path] = {}
    planned: list[Job | dict[str, Any]] = []
    is_alone = len(inputs.nights) == 1
    for night in inputs.nights:
        path, error = night.path, night.error
        place = (path.parent if output is None else output) / night.name
        first = claimed.setdefault(place.absolute(), path)
        if first is not path:
            error = (
                f"{path.name}: has the same output as {first}. Decode it into another folder with --output, "
                "or give each an id of its own in a sample list."
            )
        if error is not None:
            planned.append({"file": str(path), "id": night.name, "ok": False, "error": error})
            continue
        listed = night.edf, night.lights_off, night.lights_on, night.start
        planned.append(
            Job(path, place, profile, options, overwrite, picture, explain, *listed, durable=is_alone)
        )
    return planned


def _run(planned: Sequence[Job | dict[str, Any]], jobs: int, *, as_json: bool) -> Tally:
    """Decode in order, with a progress bar on a terminal; of each night no more is kept than a row."""
    work = [item for item in planned if isinstance(item, Job)]
    before = _written(work)
    tally = Tally()
    try:
        with closing(run_all(run_job, work, jobs, _lost)) as results, JsonList(wanted=as_json) as printed:
            for item in progress(planned, "Decoding", len(planned), quiet=as_json):
                report = next(results) if isinstance(item, Job) else item
                tally.add(report)
                printed.add({key: value for key, value in report.items() if key != "table"})
    except Stopped as stopped:
        n_written = len(_written(work) - before)
        stopped.done = (
            f"{n_written:,} of {len(planned):,} file{'s' * (len(planned) != 1)} written. "
            "The same command goes on from there."
        )
        raise
    return tally


def _lost(job: Job) -> dict[str, Any]:

    problem = f"{job.path.name}: {LOST} The same command tries it again; --jobs 1 needs the least memory."
    return {"file": str(job.path), "id": job.output.name, "ok": False, "error": problem}


def _written(work: Sequence[Job]) -> set[tuple[Path, int]]:
    """Return the outputs there are, and when each was written: workers may have done more than they said."""
    places = [output_paths(job.output).sidecar for job in work]
    return {(place, place.stat().st_mtime_ns) for place in places if place.is_file()}


def _finish(tally: Tally, inputs: Inputs, output: Path | None, as_json: bool) -> bool:
    """Write the tables about a cohort, and print what there is to say; returns whether all was written."""
    written: list[Path] = []
    notes = list(inputs.notes)
    problems: list[str] = []
    if inputs.is_cohort and output is not None:
        written, remarks, problems = write_tables(tally, output)
        notes += remarks
    failures = [failure._asdict() | {"ok": False} for failure in tally.failures]
    if not as_json:
        if tally.n_nights > 1:
            print_tally(tally, written)
        elif tally.first:
            print_night(tally.first[0])
        elif tally.nights:
            console().print(
                f"{tally.nights[0].file} was decoded before, with the same profile and options: "
                "nothing to do. --overwrite decodes it again."
            )
    print_notes(notes, as_json=as_json)
    place = next((path for path in written if path.name == FAILURES_TABLE), None)
    print_problems(failures, as_json=as_json, n_files=tally.n_nights, place=place)
    for problem in problems:
        print_error(problem)
    return not problems


PERCENTILES = (5, 50, 95)


def print_tally(tally: Tally, written: Sequence[Path]) -> None:
    """Print the rows of a few nights, or what very many have in common, and how many were decoded."""
    out = console()
    if tally.n_decoded <= MOST_ROWS:
        print_cohort(tally.first, out)
    else:
        _print_common(tally, out)
    out.print(counts(tally), style="bold")
    print_list(out, "Wrote", written)


def counts(tally: Tally) -> str:
    """Return how many nights were done before, decoded now, and failed."""
    parts = [f"{tally.n_before:,} done before"] if tally.n_before else []
    parts.append(f"{tally.n_decoded:,} decoded")
    if tally.failures:
        parts.append(f"{len(tally.failures):,} failed")
    return f"{count(tally.n_nights, 'night')}: {', '.join(parts)}."


def _print_common(tally: Tally, out: Console) -> None:
    """Middle and spread over nights, what the strength rule did, warnings and remarks with their counts."""
    rows = tally.nights
    numbers = {
        ("Epochs", ",.0f"): [row.n_epochs for row in rows],
        ("Epochs changed (%)", ".1f"): [100 * row.n_changed / row.n_epochs for row in rows],
        ("FI before", ".3f"): [row.fi_before for row in rows],
        ("FI after", ".3f"): [row.fi_after for row in rows],
    }
    titles = ("5th percentile", "median", "95th percentile")
    shown = table("over all nights", *titles, right=titles)
    for (title, form), values in numbers.items():
        known = np.array(values, dtype=np.float64)
        known = known[~np.isnan(known)]
        cells = [f"{value:{form}}" for value in np.percentile(known, PERCENTILES)] if len(known) else []
        shown.add_row(title, *(cells or ["n/a"] * len(titles)))
    out.print(shown)
    print_list(out, "Strength", [_ranked(Counter(f"{row.rule}, {row.step}" for row in rows), "; ")])
    print_list(out, "Warning", _counted(tally.warnings))
    print_list(out, "Read", ["; ".join(_counted(tally.notes))] if tally.notes else [])
    print_review(out)


def _ranked(found: Counter[str], mark: str) -> str:
    return mark.join(f"{text} ({n:,})" for text, n in found.most_common())


def _counted(texts: Counter[str]) -> list[str]:
    """Return the most frequent texts, with the number of nights each is about."""
    shown = [f"{text} ({count(n, 'night')})" for text, n in texts.most_common(MOST_NOTES)]
    more = len(texts) - MOST_NOTES
    return shown + ([f"and {count(more, 'more remark')}"] if more > 0 else [])
