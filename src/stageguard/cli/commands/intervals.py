"""`stageguard intervals`: how far a night's sleep statistics may be off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from datetime import datetime
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import click
from click import UsageError

from stageguard.arrays import NAN
from stageguard.cli import options as opt
from stageguard.cli.command import command, option, packed
from stageguard.cli.outcomes import finish, notes_of, print_headline, print_read, print_review, run_shown
from stageguard.cli.scored_files import decode_night
from stageguard.cli.terminal import Console, count, one_line
from stageguard.errors import InputError
from stageguard.files import CELL_WORDS, write_together
from stageguard.fitting.tune import MeasuredNight, repair_shares
from stageguard.formats.outputs import table_with_codebook
from stageguard.measures.intervals import (
    OF_GOOD_STAGERS,
    SHARES_OUTSIDE,
    WITHHELD,
    default_method,
    shortest_first_rem,
)
from stageguard.measures.intervals import Method as IntervalMethod
from stageguard.measures.intervals import intervals as measure_intervals
from stageguard.measures.statistics import Convention, lights_words
from stageguard.night.timing import Moment
from stageguard.profile.profile import Profile
from stageguard.profile.rules import FEWEST_NIGHTS
from stageguard.report.summary import RecordingFacts
from stageguard.runner.decode_one import DecodeOptions, start_of
from stageguard.runner.inputs import Input, Wanted, find_densities, find_inputs, lights_of
from stageguard.runner.run import Outcome, succeeded


@dataclass(frozen=True, slots=True)
class Request:
    """Which intervals to compute, of which statistics."""

    method: Literal["conformal", "model", "both"] | None  # None means what the profile gives
    level: float
    n_draws: int
    seed: int
    lights_off: Moment | None
    lights_on: Moment | None
    start: datetime | None
    convention: Convention
    min_first_rem_seconds: float | None  # None means the profile's

    def methods(self, profile: Profile) -> tuple[IntervalMethod, ...]:
        """Return one method, or both."""
        if self.method == "both":
            return "conformal", "model"
        return (default_method(profile) if self.method is None else self.method,)


request_options = packed(
    "request",
    Request,
    option(
        "--method",
        type=click.Choice(["conformal", "model", "both"]),
        help="From errors on scored nights (conformal) or from draws (model). Default: what the profile has.",
    ),
    option(
        "--level",
        metavar="SHARE",
        type=opt.Number(min=0.5, max=0.99),
        default=0.9,
        help="Coverage wanted, 0.5 to 0.99.",
    ),
    option(
        "--draws",
        "n_draws",
        metavar="N",
        type=click.IntRange(min=10),
        default=200,
        help="For model intervals.",
    ),
    option("--seed", metavar="N", type=opt.COUNT, default=0, help="Of the draws."),
    *opt.LIGHTS,
    opt.start,
    option(
        "--convention",
        type=click.Choice(get_args(Convention)),
        default="aasm",
        help="Whose definitions; coverage was measured by AASM's.",
    ),
    option(
        "--min-first-rem-seconds",
        metavar="SECONDS",
        type=opt.Number(min=0.0),
        help="First REM bout that lasts. Default: the profile's, else 120.",
    ),
)


@command
@click.argument(
    "files",
    nargs=-1,
    type=opt.PATH,
    help="Probabilities with --profile, or outputs of decode; folders, quoted patterns, a sample list.",
)
@option("--profile", "-p", metavar="NAME", help="Name or path; an output of decode records its own.")
@opt.sample_list
@request_options
@opt.decoding
@opt.companions
@option("--output", "-o", metavar="FILE.tsv", type=opt.PATH, help="One row per night, statistic and kind.")
@opt.overwrite
@opt.as_json
def intervals(
    files: tuple[Path, ...],
    profile: str | None,
    samples: Path | None,
    request: Request,
    options: DecodeOptions,
    companions: opt.Companions,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Compute intervals for total sleep time, latencies, stage minutes, bouts and other statistics.

    Conformal intervals are as wide as the errors on scored nights were, and need a profile made by fit; other
    profiles give model intervals. These come from draws in which the stager errs in its own way all night;
    how often they hold an expert's value was measured on other stagers and cohorts. They are withheld if the
    stage shares of ten nights or more are outside the range of experts. Under profiles without rules for
    this, they reflect only the stager's own doubt and promise no coverage.

    Examples
    --------
    stageguard intervals night.csv --profile lab.toml --method both --output intervals.tsv
    """
    if output is not None and output.suffix != ".tsv":
        raise UsageError(f"--output is {str(output)!r}, expected the name of a .tsv file.")
    loaded = None if profile is None else Profile.load(profile)
    if loaded is not None and request.method in ("conformal", "both") and not loaded.intervals.get("errors"):
        raise InputError(
            f"profile {loaded.name!r} holds no errors on scored nights, so there are no conformal intervals. "
            "Make one that does from nights an expert scored, with stageguard fit, or ask for the weaker "
            "--method model."
        )
    if loaded is None:
        inputs = find_inputs(files, samples, Wanted("hypnogram"))
    else:
        inputs = find_densities(files, samples, loaded, options)
    options = companions.add_to(options, [night.path for night in inputs.nights], loaded)
    outcomes = run_shown(
        partial(intervals_of, request, loaded, options), inputs.nights, "Drawing", quiet=as_json
    )
    outcomes = withhold_by_stager(outcomes)
    done = succeeded(outcomes)
    if output is not None and done:
        spare = inputs.files(samples, None if profile is None else Path(profile), *companions.files)
        write_table(done, output, request, options, overwrite=overwrite, spare=spare)
    show = partial(print_intervals, request, output)
    finish(outcomes, show, inputs.notes, as_json=as_json)


MODEL_WORDS = (
    "Model intervals are drawn from the posterior: they know only the doubt the stager admits, and promise "
    "no coverage."
)
SHARED_ERROR_WORDS = (
    "In each draw the stager errs in its own way all night, as far as stagers were found to. No scored night "
    "of this stager was seen."
)
COLUMNS = {
    "id": "The night: the file's name without what tells its format",
    "statistic": "What is reported; minutes_X and bouts_X are of stage X",
    "unit": "Of value, low and high; n/a for counts",
    "value": "Of the night as decoded; n/a where it does not exist",
    "low": "Lower end of the interval, within what is possible",
    "high": "Upper end of the interval, within what is possible",
    "kind": "conformal: from errors on scored nights. model: from draws of the posterior",
    "level": "The coverage an interval is made for; n/a for model intervals that are made for none",
    "measured_coverage": (
        "Share of scored nights whose expert value such an interval covered: held out from the fit or, of "
        "model intervals, of this kind of stager in cohorts that had no part in their choice; n/a where this "
        "was not measured: at another level, for another cohort, or with lights off and on"
    ),
    "n_scored_nights": "Scored nights behind the interval; 0 for model intervals",
    "reason": "Why there is no interval; n/a where there is one",
}


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One statistic of a night, with its interval of one kind."""

    statistic: str
    unit: str
    value: float
    low: float
    high: float
    kind: str
    level: float
    measured_coverage: float
    n_scored_nights: int
    reason: str


class Pooled(NamedTuple):
    """What is needed of a night to compare the stage shares of its stager with experts'."""

    profile: Profile
    night: MeasuredNight
    cohort: str | None


@dataclass(frozen=True, slots=True)
class IntervalsResult:
    """The intervals of one night."""

    facts: RecordingFacts
    pooled: Pooled | None  # what tells whether to withhold the model intervals of all nights of a stager
    stager: str | None
    n_scored_nights: int
    n_scored_subjects: int
    min_first_rem_seconds: float
    lights: str
    intervals: tuple[IntervalRow, ...]
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]

    def withheld(self) -> IntervalsResult:
        """Return the night without model intervals, for its stager's stage shares."""
        gone: dict[str, Any] = {"low": NAN, "high": NAN, "measured_coverage": NAN, "reason": WITHHELD}
        rows = (replace(row, **gone) if row.kind == "model" else row for row in self.intervals)
        return replace(self, intervals=tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        values = {item.name: getattr(self, item.name) for item in fields(self)[2:]}
        return self.facts.to_dict() | values | {"intervals": [asdict(row) for row in self.intervals]}


def intervals_of(
    request: Request, profile: Profile | None, options: DecodeOptions, night: Input
) -> IntervalsResult:
    """Return one night's intervals."""
    start = start_of(night.edf, night.start) or request.start
    decoding, notes = decode_night(night.path, profile, options, start, night.source)
    lights = lights_of(night, request.lights_off, request.lights_on)
    rows: list[IntervalRow] = []
    methods, used = request.methods(decoding.profile), decoding.profile
    for method in methods:
        measured = measure_intervals(
            decoding,
            method=method,
            level=request.level,
            n=request.n_draws,
            seed=request.seed,
            lights_off=lights.off,
            lights_on=lights.on,
            convention=request.convention,
            min_first_rem_seconds=request.min_first_rem_seconds,
        )
        rows += [
            IntervalRow(
                *(name, interval.unit, interval.value, interval.low, interval.high, method, measured.level),
                *(interval.measured_coverage, measured.n_nights, interval.reason),
            )
            for name, interval in measured.items()
        ]
    shortest, pooled = request.min_first_rem_seconds, None
    is_judged = bool(used.intervals) or "shares" in used.provenance  # by fit, or by tune
    if "model" in methods and used.posterior is not None and not is_judged:
        pooled = Pooled(used, MeasuredNight.of(decoding.night, used), decoding.cohort)
    return IntervalsResult(
        RecordingFacts.of(decoding.hypnogram, used),
        pooled,
        decoding.stager,
        max((row.n_scored_nights for row in rows), default=0),
        int(used.intervals.get("n_subjects", 0)),
        shortest_first_rem(used) if shortest is None else shortest,
        lights_words(decoding.hypnogram, lights.off, lights.on),
        tuple(rows),
        (*notes, *lights.notes),
        tuple(decoding.assumed),
    )


def withhold_by_stager(outcomes: Sequence[Outcome[IntervalsResult]]) -> list[Outcome[IntervalsResult]]:
    """Withhold the model intervals of all nights of a stager whose stage shares are outside experts'.

    Whether they are is decided as by `tune`, from ten nights or more of one profile, stager and cohort.
    """
    found, stagers = list(outcomes), dict[tuple[object, ...], list[int]]()
    for i, outcome in enumerate(found):
        if outcome.ok and (pooled := outcome.result.pooled) is not None:
            key = outcome.result.facts.profile_sha256, outcome.result.stager, pooled.cohort
            stagers.setdefault(key, []).append(i)
    for places in stagers.values():
        nights = [pooled for i in places if (pooled := found[i].result.pooled) is not None]
        repair = partial(repair_shares, profile=nights[0].profile, cohort=nights[0].cohort)
        if len(nights) >= FEWEST_NIGHTS and repair([each.night for each in nights]).outcome in SHARES_OUTSIDE:
            for i in places:
                found[i] = replace(found[i], value=found[i].result.withheld())
    return found


def write_table(
    outcomes: Sequence[Outcome[IntervalsResult]],
    output: Path,
    request: Request,
    options: DecodeOptions,
    *,
    overwrite: bool,
    spare: Sequence[Path],
) -> None:
    """Write one row per night, statistic and kind, and a codebook beside the table."""
    nights = [outcome.result for outcome in outcomes]
    rows = [[outcome.id, *astuple(row)] for outcome in outcomes for row in outcome.result.intervals]
    profiles = {night.facts.profile_sha256: night.facts.to_dict()["profile"] for night in nights}
    methods = list(dict.fromkeys(row.kind for night in nights for row in night.intervals))
    has_draws = "model" in methods
    book = {name: {"Description": text} for name, text in COLUMNS.items()} | {
        "stageguard": {
            "profiles": list(profiles.values()),
            "n_nights": len(nights),
            "methods": methods,
            "n_draws": request.n_draws if has_draws else None,
            "seed": request.seed if has_draws else None,
            "share_of_draws": request.level if has_draws else None,
            "lights_off": request.lights_off,
            "lights_on": request.lights_on,
            "min_first_rem_seconds": nights[0].min_first_rem_seconds,
            "options": options.to_dict(),
            "text": CELL_WORDS,
            "caveat": _model_words([row for night in nights for row in night.intervals])
            if has_draws
            else None,
            "assumptions": list(dict.fromkeys(str(text) for night in nights for text in night.assumptions)),
        }
    }
    contents = table_with_codebook(output, COLUMNS, rows, book, digits=6)
    write_together(contents, overwrite=overwrite, make_folders=True, spare=spare)


def print_intervals(
    request: Request, output: Path | None, outcomes: Sequence[Outcome[IntervalsResult]], out: Console
) -> None:
    """Print a table per night; if several nights were written to a file, only its name."""
    if output is None or len(outcomes) == 1:
        for outcome in outcomes:
            print_headline(outcome.file, outcome.result.facts, out, "with", outcome.result.lights)
            _print_night(outcome.result, out)
    for sentence in _meaning([outcome.result for outcome in outcomes], request):
        out.print(sentence)
    print_read(notes_of(outcomes), out)
    if len(outcomes) == 1:
        out.list("Assumed", outcomes[0].result.assumptions)
    out.list("Warning", _warnings(outcomes))
    if output is not None:
        n_rows = sum(len(outcome.result.intervals) for outcome in outcomes)
        book = output.with_suffix(".json").name
        nights = count(len(outcomes), "night")
        out.list("Wrote", [f"{output} ({n_rows:,} rows, {nights}), explained in {book}"])
    print_review(out)


def _warnings(outcomes: Sequence[Outcome[IntervalsResult]]) -> list[str]:
    """Return the warnings: once if a warning holds for every night, else with the night's name."""
    nights: dict[str, list[str]] = {}
    for outcome in outcomes:
        for text in map(one_line, outcome.warnings):
            nights.setdefault(text, []).append(outcome.id)
    lines = []
    for text, ids in nights.items():
        lines += [text] if len(ids) == len(outcomes) else [f"{name}: {text}" for name in ids]
    return lines


def _print_night(night: IntervalsResult, out: Console) -> None:
    """Print one row per statistic and kind, with name and value only in a statistic's first row."""
    cells = []
    by_name: dict[str, list[IntervalRow]] = {}
    for row in night.intervals:
        by_name.setdefault(row.statistic, []).append(row)
    for name, rows in by_name.items():
        for number, row in enumerate(rows):
            value = f"{_number(row.value)} {row.unit}".rstrip()
            share = row.measured_coverage
            cells.append(
                (
                    *((name, value) if number == 0 else ("", "")),
                    _number(row.low),
                    _number(row.high),
                    row.kind,
                    "n/a" if isnan(share) else f"{share:.0%}",
                    "withheld" if row.reason == WITHHELD else row.reason,  # it is said why once
                )
            )
    out.table(("statistic", ">value", ">low", ">high", "kind", ">covered", ""), cells)


def _meaning(nights: Sequence[IntervalsResult], request: Request) -> Iterator[str]:
    """Yield sentences on where the intervals come from, and on what covered means."""
    first = nights[0]
    rows = [row for night in nights for row in night.intervals]
    is_measured = any(row.kind == "conformal" and not isnan(row.measured_coverage) for row in rows)
    level = f", {request.level:.0%}" if is_measured else " (coverage not measured)"
    if any(row.kind == "conformal" and row.reason != WITHHELD for row in rows):
        yield (
            f"Conformal{level}: as wide as the errors on {count(first.n_scored_nights, 'scored night')} "
            f"of {count(first.n_scored_subjects, 'subject')} held out from the fit. They hold for nights "
            "like those: same stager, same kind of people."
        )
    if any(row.kind == "model" for row in rows):
        yield f"Model: {count(request.n_draws, 'draw')}, seed {request.seed}. {_model_words(rows)}"
    if any(row.kind == "model" and row.reason == WITHHELD for row in rows):
        yield f"Model intervals {WITHHELD}."
    if any(row.kind == "model" and (row.value < row.low or row.value > row.high) for row in rows):
        yield "A value outside its model interval: decode returns the best path, and draws are typical ones."
    if any(not isnan(row.measured_coverage) for row in rows):
        whose = "" if first.n_scored_subjects else " of other stagers of its kind"
        yield f"Covered: share of scored nights{whose} whose expert value lay inside such an interval."
        if not first.n_scored_subjects and any(night.stager is None for night in nights):
            yield OF_GOOD_STAGERS
    seconds = f"{first.min_first_rem_seconds:g} s"
    yield f"REM latency to a lasting bout ends with the first REM bout of {seconds} or more."


def _model_words(rows: Sequence[IntervalRow]) -> str:
    """Return what the draws of model intervals know."""
    is_made_for_coverage = any(row.kind == "model" and not isnan(row.level) for row in rows)
    return SHARED_ERROR_WORDS if is_made_for_coverage else MODEL_WORDS


def _number(value: float) -> str:
    return "n/a" if isnan(value) else f"{value:,.1f}"
