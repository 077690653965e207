"""`stageguard days`: weeks of a person in, every sleep and tables over days out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Literal

from click import UsageError

from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.outcomes import finish, length_words, print_read, print_review, print_warnings, run_shown
from stageguard.cli.terminal import Console, count, one_line
from stageguard.errors import InputError
from stageguard.formats.companions import MOMENT_WORDS, parse_moment
from stageguard.measures.days import DAY_QUANTITIES
from stageguard.night.sleeps import Lights
from stageguard.night.stages import as_scheme
from stageguard.night.timing import Moment
from stageguard.profile.profile import Profile
from stageguard.report.days import clock_text, day_rows, over_rows, value_text
from stageguard.report.numbers import number_text
from stageguard.runner.days_files import DaysFile, DaysTask, days_task
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.executors import Cluster
from stageguard.runner.inputs import Input, Wanted, find_inputs
from stageguard.runner.run import Outcome, check_folder

# what fits a terminal; the tables have all of them
KEYS = (
    "onset_hours",
    "offset_hours",
    "tst_minutes",
    "waso_minutes",
    "sme_percent",
    "naps",
    "day_tst_minutes",
)
SHOWN = [quantity for quantity in DAY_QUANTITIES if quantity.key in KEYS]


@command
@option(
    "--profile",
    "-p",
    metavar="NAME",
    help="Name (see: stageguard profiles) or a .toml file. Stages without it are measured as they are.",
)
@opt.scored_files
@opt.sample_list
@opt.decoding
@opt.start
@option(
    "--scheme", type=opt.SCHEME, heading=opt.HOW_READ, help="Merge stages without a profile to this scheme."
)
@option(
    "--timezone",
    metavar="ZONE",
    heading=opt.WHAT_ELSE,
    help="Where the person was, such as Europe/Berlin: for times in UTC, and where clocks change.",
)
@option(
    "--lights",
    metavar="OFF,ON",
    multiple=True,
    heading=opt.WHAT_ELSE,
    help="A time in bed, such as 2024-05-01T22:30,2024-05-02T07:00; repeatable.",
)
@opt.output_folder
@option(
    "--strength",
    type=opt.NumberOrWord("off", min=0, max=1000),
    help="Transition weight in place of the profile's own; off: the stager's own choice.",
)
@opt.overwrite
@opt.jobs
@opt.cluster
@opt.as_json
def days(
    profile: str | None,
    files: tuple[Path, ...],
    samples: Path | None,
    options: DecodeOptions,
    start: datetime | None,
    scheme: str | None,
    timezone: str | None,
    lights: tuple[str, ...],
    output: Path | None,
    strength: float | Literal["off"] | None,
    overwrite: bool,
    jobs: int,
    cluster: Cluster | None,
    as_json: bool,
) -> None:
    """Find the sleeps in recordings of people that are longer than a night, and guard each by itself.

    Files hold probabilities, or stages alone (asleep, GGIR, Fitbit, Apple Health and others). Sleeps are set
    apart by two hours of wake or non-wear; a day runs from noon to noon and has one main sleep, the others
    are naps. Writes every sleep as NAME.sleep-01.hypnogram.tsv with its .json, as decode does (stages alone
    as NAME.sleep-01.csv), NAME.days.tsv with its codebook, and NAME.days.html: a row of 24 h per day.

    Examples
    --------
    stageguard days week.csv --profile human-actigraphy-2 --output days
    stageguard days sleep-2024-01-01.json --output days
    """
    loaded = None if profile is None else Profile.load(profile)
    names = (*(() if loaded is None else loaded.scheme.names), *(options.density.stages or ()))
    inputs = find_inputs(files, samples, Wanted("hypnogram", options.density.format, names))
    if scheme is not None and loaded is not None:
        raise UsageError("--scheme is for stages without a profile: a profile has its own.")
    if lights and len(inputs.nights) > 1:
        raise UsageError("--lights belongs to one file: take the files one by one.")
    check_folder(output)
    tasks = [
        DaysTask(
            night.path,
            night.output(output),
            loaded,
            replace(options, strength=strength),
            scheme=None if scheme is None else as_scheme(scheme),
            lights=_pairs(lights) or _listed_lights(night),
            timezone=timezone,
            overwrite=overwrite,
            edf=night.edf,
            start=night.start or start,
            error=night.error,
        )
        for night in inputs.nights
    ]
    outcomes = run_shown(
        days_task,
        tasks,
        "Guarding days",
        quiet=as_json or len(tasks) < 2,
        output_of=attrgetter("output"),
        jobs=jobs,
        cluster=cluster,
    )
    finish(outcomes, _show_many, inputs.notes, show_one=_show_one, as_json=as_json)


def _pairs(texts: Sequence[str]) -> Lights:
    """Return the times in bed that were typed."""
    pairs = list[tuple[Moment, Moment]]()
    for text in texts:
        try:
            off, on = map(parse_moment, text.split(","))
        except ValueError:
            raise InputError(
                f"--lights is {text[:80]!r}, expected lights off and on with a comma between: {MOMENT_WORDS}."
            ) from None
        pairs.append((off, on))
    return pairs


def _listed_lights(night: Input) -> Lights:
    """Return the time in bed that a sample list names."""
    if night.lights_off is None or night.lights_on is None:
        return ()
    return [(night.lights_off, night.lights_on)]


def _show_one(outcome: Outcome[DaysFile], out: Console) -> None:
    """Print a row per day, mean and SD over days, and where the files are."""
    made = outcome.result
    found, hypnogram = made.days, made.days.hypnogram
    about = f": {length_words(hypnogram.n_epochs, hypnogram.epoch_seconds)}, stages "
    out.print((one_line(Path(outcome.file).name), "bold"), about + one_line(" ".join(hypnogram.scheme.names)))
    print_read(made.notes, out)
    out.print()
    titles = [f">{quantity.name}" for quantity in SHOWN]
    rows = [*day_rows(found, SHOWN), *over_rows(found, SHOWN)]
    out.table(("day from noon", *titles, ">missing"), rows)
    n_naps = sum(sleep.kind == "nap" for sleep in found.sleeps)
    out.print(
        f"{count(found.n_days, 'day')} of {len(found.days)} count; "
        f"{count(len(found.sleeps) - n_naps, 'main sleep')}, {count(n_naps, 'nap')}; mid-sleep "
        f"{clock_text(found.mean['mid_sleep_hours'])}; sleep regularity index {number_text(found.sri, 0)}. "
        "Times of sleep are in minutes."
    )
    out.list("Warning", outcome.warnings)
    print_review(out)
    out.list("Wrote", [*made.outputs.values(), f"{count(len(made.sleeps), 'sleep')}, {_span(made.sleeps)}"])


def _span(paths: Sequence[Path]) -> str:
    return "no file" if not paths else f"{paths[0].name} to {paths[-1].name}"


def _show_many(done: Sequence[Outcome[DaysFile]], out: Console) -> None:
    """Print a row per recording: means over its days."""
    rows = []
    for outcome in done:
        found = outcome.result.days
        mean = found.mean
        means = [value_text(quantity, mean[quantity.key]) for quantity in SHOWN]
        rows.append((outcome.id, found.n_days, len(found.sleeps), *means, number_text(found.sri, 0)))
    titles = [f">{quantity.name}" for quantity in SHOWN]
    out.table(("recording", ">days", ">sleeps", *titles, ">SRI"), rows)
    print_warnings(done, out)
    print_review(out)
    folders = sorted({str(each.result.outputs["tsv"].parent) for each in done})
    out.print(f"Wrote the days of {count(len(done), 'recording')} to {', '.join(folders)}")
