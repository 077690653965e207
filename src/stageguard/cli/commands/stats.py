"""`stageguard stats`: sleep statistics of many nights, and of groups."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from stageguard.base.arrays import NAN
from stageguard.cli.cohort import CohortResult, Request, run_cohort
from stageguard.cli.inputs import find_inputs
from stageguard.cli.options import (
    AsJson,
    Convention,
    LightsOff,
    LightsOn,
    LightsOnPhase,
    Overwrite,
    Reading,
    SampleList,
    SchemeName,
    ScoredFiles,
    ScoringFormat,
    Start,
    given_path,
    spread,
)
from stageguard.cli.present import MOST_ROWS, end
from stageguard.cli.scored_files import read_moment, read_options
from stageguard.cli.terminal import console, count, one_line, print_heading, print_json, print_list, table
from stageguard.formats.cohort_files import scoring_names
from stageguard.measures.cohort import CohortTable
from stageguard.measures.groups import METHOD, GroupDifference
from stageguard.measures.statistics import StatisticsOptions
from stageguard.measures.summary import SHOWN, shown
from stageguard.night.quantities import Quantity, quantity_of

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


@spread
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
    reading: Reading = Reading(),  # noqa: B008 - a group of options
    scoring_format: ScoringFormat = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Sleep statistics of one night or many, before and after decoding.

    What decode wrote has a before and an after; probabilities have them with --profile. A hypnogram from
    elsewhere counts as after.
    """
    if output is not None and output.suffix.lower() != ".tsv":
        raise typer.BadParameter(f"--output is {str(output)!r}, expected a name that ends in .tsv.")
    options = read_options(
        reading,
        profile=profile,
        scheme=scheme,
        scoring_format=scoring_format,
        start=start,
        decode=profile is not None,
    )
    inputs = find_inputs(files, samples, options.wanted)
    if expert is not None and len(inputs.nights) > 1 and expert.is_file():
        raise typer.BadParameter("--expert names one file for several nights: name the folder with one each.")
    lights = read_moment(lights_off, "--lights-off"), read_moment(lights_on, "--lights-on")
    measuring = StatisticsOptions(convention.value, *lights, min_first_rem_seconds, lights_on_phase)
    _run(Request(inputs, options, measuring, by, expert, output, overwrite, samples), as_json)


def _run(request: Request, as_json: bool) -> None:

    result = run_cohort(request, quiet=as_json)
    if as_json:
        print_json(result.to_dict())
    else:
        print_stats(result)
    end(result.outcomes, as_json=as_json)


MOST_WARNINGS = 5


def print_stats(result: CohortResult) -> None:
    """Print the tables a person wants to see; the files hold the rest."""
    cohort = result.cohort
    if cohort is None:
        return
    out = console()
    if len(cohort.nights) == 1:
        _print_one(result, out)
    else:
        if not result.written and len(cohort.nights) <= MOST_ROWS:
            _print_nights(cohort.table, out)
        _print_means(cohort.table, out)
    if cohort.differences:
        _print_groups(cohort.table, cohort.differences, out)
    convention = f"sleep statistics by the {cohort.options.convention} convention"
    warned = [
        f"{outcome.id}: {one_line(text)}"
        for outcome in result.outcomes
        if outcome.ok
        for text in outcome.warnings
    ]
    print_list(out, "Warning", warned[:MOST_WARNINGS])
    if len(warned) > MOST_WARNINGS:
        out.print(f"  and {len(warned) - MOST_WARNINGS} more, all of them in --json")
    print_list(out, "Note", [convention, *result.notes])
    print_list(out, "Wrote", result.written)


def _shown_rows(cohort: CohortTable) -> list[Quantity]:
    """Return the quantities that tables of a cohort show: indicators, statistics, those of stages."""
    of_stages = [quantity_of(name) for name in cohort.names if name not in SHOWN]
    rows = [quantity for key, quantity in SHOWN.items() if key in cohort.names]
    return [quantity for quantity in (*rows, *of_stages) if "cohort" in quantity.shown]


def _column_titles(cohort: CohortTable) -> dict[str, str]:
    after = "after" if "before" in cohort.values else "scored"
    return {"before": "before", "after": after, "delta": "change", "expert": "expert"}


def _columns_of(cohort: CohortTable, name: str) -> dict[str, Any]:
    own = {scoring: cohort.of(name, scoring) for scoring in ("before", "after") if scoring in cohort.values}
    if len(own) == 2:
        own["delta"] = cohort.delta(name)
    if "expert" in cohort.values:
        own["expert"] = cohort.of(name, "expert")
    return own


def _print_one(result: CohortResult, out: Console) -> None:
    """Every measure of the only night."""
    assert result.cohort is not None
    cohort, (night,) = result.cohort.table, result.cohort.nights
    facts = result.cohort.facts[0]
    hours = facts.n_epochs * facts.epoch_seconds / 3600
    length = f"{count(facts.n_epochs, 'epoch')} of {facts.epoch_seconds:g} s"
    out.print(f"{one_line(night.night_id)}: {length} ({hours:.1f} h)")
    titles = [_column_titles(cohort)[name] for name in _columns_of(cohort, cohort.names[0])]
    made = table("", *titles, "unit", right=tuple(titles))
    for name in cohort.names:
        quantity, columns = quantity_of(name), _columns_of(cohort, name)
        numbers = (_number(values[0], quantity.decimals, key) for key, values in columns.items())
        made.add_row(quantity.title, *numbers, quantity.unit)
    out.print(made)
    if facts.epochs_changed is not None:
        out.print(f"{count(facts.epochs_changed, 'epoch')} changed.")
    reasons = dict.fromkeys(reason for own in night.measures.values() for reason in own.reasons.values())
    print_list(out, "Why n/a", reasons)


def _number(value: float, decimals: int, column: str) -> str:
    if column == "delta" and not isnan(value):
        return f"{value:+.{decimals}f}"
    return shown(value, decimals)


def _print_nights(cohort: CohortTable, out: Console) -> None:
    """One short row per night: what counts, and how far decoding changed it."""
    rows = [quantity for quantity in _shown_rows(cohort) if "night row" in quantity.shown]
    titles = [quantity.short_heading for quantity in rows]
    made = table("night", *titles, right=tuple(titles))
    for number, night in enumerate(cohort.night_ids):
        made.add_row(one_line(night), *(_night_cell(cohort, quantity, number) for quantity in rows))
    out.print(made)
    hint = "All columns: --output cohort.tsv"
    if {"before", "after"} <= cohort.values.keys():
        hint = f"After decoding where there was any, in brackets the change by it. {hint}"
    out.print(hint, style="dim")


def _night_cell(cohort: CohortTable, quantity: Quantity, number: int) -> str:
    decimals = quantity.decimals
    values = {name: float(column[number]) for name, column in _columns_of(cohort, quantity.key).items()}
    final = next(
        (values[name] for name in ("after", "before", "expert") if not isnan(values.get(name, NAN))), NAN
    )
    text, delta = shown(final, decimals), values.get("delta", NAN)
    return text if isnan(delta) else f"{text} ({delta:+.{decimals}f})"


def _print_means(cohort: CohortTable, out: Console) -> None:
    print_heading(out, f"Mean ± standard deviation over {len(cohort.night_ids)} nights")
    rows = _shown_rows(cohort)
    known = [
        column
        for column in _columns_of(cohort, cohort.names[0])
        if any(_n_known(_columns_of(cohort, quantity.key)[column]) for quantity in rows)
    ]
    titles = [_column_titles(cohort)[column] for column in known]
    made = table("", "nights", *titles, right=("nights", *titles))
    for quantity in rows:
        columns = {
            name: values for name, values in _columns_of(cohort, quantity.key).items() if name in known
        }
        counts = {_n_known(values) for values in columns.values()} - {0}
        if counts:
            n_nights = str(max(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
            decimals = max(1, quantity.decimals)
            means = [_mean(values, decimals, column) for column, values in columns.items()]
            made.add_row(quantity.short_heading, n_nights, *means)
    out.print(made)


def _n_known(values: Any) -> int:
    return int(np.count_nonzero(~np.isnan(values)))


def _mean(values: Any, decimals: int, column: str) -> str:
    known = values[~np.isnan(values)]
    if not len(known):
        return "n/a"
    mean = _number(float(known.mean()), decimals, column)
    return mean if len(known) < 2 else f"{mean} ± {known.std(ddof=1):.{decimals}f}"


def _print_groups(cohort: CohortTable, differences: Sequence[GroupDifference], out: Console) -> None:
    """One table per pair of groups."""
    names = scoring_names(cohort.values)
    for first, second in dict.fromkeys((found.first, found.second) for found in differences):
        own = [d for d in differences if (d.first, d.second) == (first, second)]
        sizes = max(d.result.n_first for d in own), max(d.result.n_second for d in own)
        print_heading(out, one_line(f"{first} (n = {sizes[0]}) minus {second} (n = {sizes[1]})"))
        titles = (one_line(first), one_line(second), "difference [95 % CI]", "Cohen's d [95 % CI]")
        made = table("", "stages", *titles, right=titles)
        for quantity in _shown_rows(cohort):
            shown_title = quantity.short_heading
            for found in own:
                if found.measure == quantity.key and found.result.n_first + found.result.n_second:
                    cells = _difference_cells(found, max(1, quantity.decimals), sizes)
                    made.add_row(shown_title, names[found.scoring], *cells)
                    shown_title = ""
        out.print(made)
    print_list(out, "Method", [METHOD])


def _difference_cells(found: GroupDifference, decimals: int, sizes: tuple[int, int]) -> list[str]:
    own = found.result

    def sample(mean: float, sd: float, n: int, size: int) -> str:
        text = shown(mean, decimals) if isnan(sd) else f"{mean:.{decimals}f} ± {sd:.{decimals}f}"
        return text if n == size else f"{text} (n = {n})"

    def interval(value: float, low: float, high: float, places: int) -> str:
        text = shown(value, places)
        return text if isnan(low) else f"{text} [{low:.{places}f}, {high:.{places}f}]"

    return [
        sample(own.mean_first, own.sd_first, own.n_first, sizes[0]),
        sample(own.mean_second, own.sd_second, own.n_second, sizes[1]),
        interval(own.difference, own.low, own.high, decimals),
        interval(own.d, own.d_low, own.d_high, 2),
    ]
