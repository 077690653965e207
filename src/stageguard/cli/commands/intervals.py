"""`stageguard intervals`: how far a night's sleep statistics may be off. Parses and prints only."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console

from stageguard.base.errors import InputError
from stageguard.base.files import CELL_WORDS, write_cell, write_together
from stageguard.cli.decode_file import DecodeOptions, decode_options
from stageguard.cli.inputs import Input, find_inputs, lights_of, start_of
from stageguard.cli.night import decode_night
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
from stageguard.cli.present import print_headline, print_notes, print_problems, print_read, print_review
from stageguard.cli.recognising import Wanted
from stageguard.cli.scored_files import read_moment, read_start, run_each
from stageguard.cli.terminal import console, count, print_json, print_list, progress, table
from stageguard.formats.outputs import plain
from stageguard.measures.day import Moment, lights_words
from stageguard.measures.intervals import Method as IntervalMethod
from stageguard.measures.intervals import intervals as measure_intervals
from stageguard.measures.intervals import shortest_first_rem
from stageguard.measures.statistics import Convention as ConventionName
from stageguard.profile.profile import Profile


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


MODEL_WORDS = (
    "Model intervals are drawn from the posterior: they know only the doubt the stager admits, and promise "
    "no coverage."
)
COLUMNS = {
    "id": "The night: the file's name without what tells its format",
    "statistic": "What is reported; minutes_X and bouts_X are of stage X",
    "unit": "Of value, low and high; n/a for counts",
    "value": "Of the night as decoded; n/a where it does not exist",
    "low": "Lower end of the interval, within what is possible",
    "high": "Upper end of the interval, within what is possible",
    "kind": "conformal: from errors on scored nights. model: draws of the posterior, no coverage promised",
    "level": "The coverage a conformal interval is made for; n/a for model intervals, made for none",
    "measured_coverage": (
        "Share of scored nights, held out from the fit, whose expert value such an interval covered; n/a "
        "where this was not measured: at another level, for another cohort, or with lights off and on"
    ),
    "n_scored_nights": "Scored nights behind the interval; 0 for model intervals",
    "reason": "Why there is no interval; n/a where there is one",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line said."""

    profile: Profile | None
    methods: tuple[str, ...]
    level: float
    n_draws: int
    seed: int
    lights_off: Moment | None
    lights_on: Moment | None
    start: datetime | None
    convention: ConventionName
    min_first_rem_seconds: float | None  # the profile's where not said
    options: DecodeOptions


def check_profile(request: Request) -> None:
    """Refuse conformal intervals from a profile that holds no errors, before any file is read."""
    profile = request.profile
    if profile is None or request.methods == ("model",) or profile.intervals.get("errors"):
        return
    raise InputError(
        f"profile {profile.name!r} holds no errors on scored nights, so there are no conformal intervals. "
        "Make one that does from nights an expert scored, with stageguard fit, or ask for the weaker "
        "--method model."
    )


def intervals_of(night: Input, request: Request) -> dict[str, Any]:
    """Return one night's intervals, in plain types."""
    night.refuse()
    start = start_of(night.edf, night.start) or request.start
    decoding, notes = decode_night(night.path, request.profile, request.options, start, night.source)
    lights = lights_of(night, request.lights_off, request.lights_on)
    rows: list[dict[str, Any]] = []
    n_nights = 0
    for method in request.methods:
        found = measure_intervals(
            decoding,
            method=cast("IntervalMethod", method),
            level=request.level,
            n=request.n_draws,
            seed=request.seed,
            lights_off=lights.off,
            lights_on=lights.on,
            convention=request.convention,
            min_first_rem_seconds=request.min_first_rem_seconds,
        )
        n_nights = max(n_nights, found.n_nights)
        rows += [
            {
                "statistic": name,
                "unit": one.unit,
                "value": one.value,
                "low": one.low,
                "high": one.high,
                "kind": method,
                "level": found.level,
                "measured_coverage": one.measured_coverage,
                "n_scored_nights": found.n_nights,
                "reason": one.reason,
            }
            for name, one in found.items()
        ]
    profile = decoding.profile
    return {
        "id": night.name,
        "profile": {"name": profile.name, "sha256": profile.sha256},
        "stages": list(profile.scheme.names),
        "n_epochs": decoding.hypnogram.n_epochs,
        "epoch_seconds": decoding.epoch_seconds,
        "n_scored_nights": n_nights,
        "n_scored_subjects": int(profile.intervals.get("n_subjects", 0)),
        "min_first_rem_seconds": shortest_first_rem(profile)
        if request.min_first_rem_seconds is None
        else request.min_first_rem_seconds,
        "lights": lights_words(decoding.hypnogram, lights.off, lights.on),
        "intervals": rows,
        "notes": [*notes, *lights.notes],
        "assumptions": list(decoding.assumed),
    }


def write_table(
    reports: Sequence[dict[str, Any]],
    output: Path,
    request: Request,
    *,
    overwrite: bool,
    spare: Sequence[Path],
) -> None:
    """Write one row per night, statistic and kind, and beside it what the columns are."""
    lines = ["\t".join(COLUMNS)]
    for report in reports:
        rows = [{"id": report["id"], **row} for row in report["intervals"]]
        lines += ["\t".join(_cell(row[name]) for name in COLUMNS) for row in rows]
    first = reports[0]
    book = {name: {"Description": text} for name, text in COLUMNS.items()} | {
        "stageguard": {
            "profiles": _unique([report["profile"] for report in reports]),
            "n_nights": len(reports),
            "methods": list(request.methods),
            "n_draws": request.n_draws if "model" in request.methods else None,
            "seed": request.seed if "model" in request.methods else None,
            "share_of_draws": request.level if "model" in request.methods else None,
            "lights_off": request.lights_off,
            "lights_on": request.lights_on,
            "min_first_rem_seconds": first["min_first_rem_seconds"],
            "options": request.options.to_dict(),
            "text": CELL_WORDS,
            "caveat": MODEL_WORDS if "model" in request.methods else None,
            "assumptions": _unique([text for report in reports for text in report["assumptions"]]),
        }
    }
    text = json.dumps(plain(book), indent=2, ensure_ascii=False, allow_nan=False)
    contents: dict[Path, str | bytes] = {
        output: "\n".join(lines) + "\n",
        output.with_suffix(".json"): text + "\n",
    }
    write_together(contents, overwrite=overwrite, make_folders=True, spare=spare)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "n/a" if math.isnan(value) else f"{value:.6g}"
    return write_cell(str(value)) if isinstance(value, str) and value else str(value) or "n/a"


def _unique(items: Sequence[Any]) -> list[Any]:
    kept: list[Any] = []
    for item in items:
        if item not in kept:
            kept.append(item)
    return kept


def print_intervals(reports: Sequence[dict[str, Any]], request: Request, output: Path | None) -> None:
    """Print a table per night; of many that were written to a file, only where they are."""
    if not reports:
        return
    out = console()
    if output is None or len(reports) == 1:
        for report in reports:
            print_headline(report, out, "with")
            _print_night(report, out)
    for sentence in _meaning(reports, request):
        out.print(sentence)
    print_read(reports, out)
    if len(reports) == 1:
        print_list(out, "Assumed", reports[0]["assumptions"])
    print_list(out, "Warning", _warnings(reports))
    if output is not None:
        n_rows = sum(len(report["intervals"]) for report in reports)
        book = output.with_suffix(".json").name
        nights = count(len(reports), "night")
        print_list(out, "Wrote", [f"{output} ({n_rows:,} rows, {nights}), explained in {book}"])
    print_review(out)


def _warnings(reports: Sequence[dict[str, Any]]) -> list[str]:
    """Return what was warned of: once where it holds for every night, else by night."""
    told: dict[str, list[str]] = {}
    for report in reports:
        for text in dict.fromkeys(report["warnings"]):
            told.setdefault(text, []).append(report["id"])
    lines = []
    for text, ids in told.items():
        lines += [text] if len(ids) == len(reports) else [f"{name}: {text}" for name in ids]
    return lines


def _print_night(report: dict[str, Any], out: Console) -> None:
    """Print one row per statistic and kind; a statistic's name and value once."""
    numbers = ("value", "low", "high", "covered")
    shown = table("statistic", "value", "low", "high", "kind", "covered", "", right=numbers)
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in report["intervals"]:
        by_name.setdefault(row["statistic"], []).append(row)
    for name, rows in by_name.items():
        for number, row in enumerate(rows):
            value = f"{_number(row['value'])} {row['unit']}".rstrip()
            share = row["measured_coverage"]
            shown.add_row(
                *((name, value) if number == 0 else ("", "")),
                _number(row["low"]),
                _number(row["high"]),
                row["kind"],
                "n/a" if math.isnan(share) else f"{share:.0%}",
                row["reason"],
            )
    out.print(shown)


def _meaning(reports: Sequence[dict[str, Any]], request: Request) -> Iterator[str]:
    """Return where the intervals come from, and what `covered` is."""
    first = reports[0]
    rows = [row for report in reports for row in report["intervals"]]
    is_measured = any(row["kind"] == "conformal" and not math.isnan(row["measured_coverage"]) for row in rows)
    level = f", {request.level:.0%}" if is_measured else " (coverage not measured)"
    if "conformal" in request.methods:
        yield (
            f"Conformal{level}: as wide as the errors on {count(first['n_scored_nights'], 'scored night')} "
            f"of {count(first['n_scored_subjects'], 'subject')} held out from the fit. They hold for nights "
            "like those: same stager, same kind of people."
        )
    if "model" in request.methods:
        yield f"Model: {count(request.n_draws, 'draw')}, seed {request.seed}. {MODEL_WORDS}"
    if any(row["kind"] == "model" and _is_outside(row) for row in rows):
        yield "A value outside its model interval: decode returns the best path, and draws are typical ones."
    if any(not math.isnan(row["measured_coverage"]) for row in rows):
        yield "Covered: share of the fit's held-out nights whose expert value lay inside such an interval."
    if first["min_first_rem_seconds"]:
        yield f"REM latency ends with the first REM bout of {first['min_first_rem_seconds']:g} s or more."


def _is_outside(row: dict[str, Any]) -> bool:
    return bool(row["value"] < row["low"] or row["value"] > row["high"])  # never where one is NaN


def _number(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:,.1f}"
