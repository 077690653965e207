"""Intervals of sleep statistics, as `stats --intervals` prints and writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

from stageguard.arrays import NAN
from stageguard.cli.nights import ReadOptions, decode_night
from stageguard.cli.outcomes import (
    MOST_ROWS,
    end,
    notes_of,
    print_headline,
    print_read,
    print_review,
    print_warnings,
)
from stageguard.cli.render import print_line, show
from stageguard.cli.terminal import Console, count
from stageguard.fitting.tune import MeasuredNight, repair_shares
from stageguard.measures.intervals import (
    DEFAULT_DRAWS,
    DEFAULT_LEVEL,
    OF_GOOD_STAGERS,
    SHARES_OUTSIDE,
    WITHHELD,
    Interval,
    Intervals,
    intervals,
    shortest_first_rem,
)
from stageguard.measures.statistics import StatisticsOptions, lights_words
from stageguard.night.quantities import REPORTED_OF_STAGE, quantity_of
from stageguard.profile.rules import FEWEST_NIGHTS
from stageguard.report.summary import RecordingFacts
from stageguard.report.table import Column, Table, numbers, words
from stageguard.runner.decode_one import DecodeOptions, start_of
from stageguard.runner.inputs import Input, lights_of
from stageguard.runner.run import Outcome, succeeded

ALL_NIGHT = "Each draw adds a night-long bias, sized from other stagers."
NO_COVERAGE = "Intervals hold only the stager's own doubt; their coverage is unknown."


@dataclass(frozen=True, slots=True)
class NightIntervals:
    """The intervals of one night, and what tells whether to withhold them."""

    facts: RecordingFacts
    found: Intervals
    n_subjects: int  # whose scored nights are behind conformal intervals
    min_first_rem_seconds: float
    stager: str | None
    cohort: str | None
    lights: str
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]
    pooled: MeasuredNight | None  # of nights whose stager may be unlike those that were measured
    profile: Any

    def withheld(self) -> NightIntervals:
        """Return the night without its intervals, for its stager's stage shares."""
        kept = {
            name: Interval(each.value, NAN, NAN, each.unit, WITHHELD) for name, each in self.found.items()
        }
        return replace(self, found=replace(self.found, by_statistic=kept))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield a row per statistic."""
        found = self.found
        for name, each in found.items():
            ends = each.value, each.low, each.high
            yield (
                *(name, each.unit, *ends, found.method, found.level),
                *(each.measured_coverage, found.n_nights, each.reason),
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        names = [column.key for column in COLUMNS[1:]]
        kept = ("stager", "cohort", "n_subjects", "min_first_rem_seconds", "lights", "notes", "assumptions")
        rows = [dict(zip(names, row, strict=True)) for row in self.rows()]
        return self.facts.to_dict() | {key: getattr(self, key) for key in kept} | {"intervals": rows}


COLUMNS = (
    Column("id", meaning="The night: the file's name without what tells its format"),
    Column("statistic", meaning="What is reported; minutes_X and bouts_X are of stage X"),
    Column("unit", meaning="Of value, low and high; n/a for counts"),
    Column("value", digits=1, meaning="Of the night as decoded; n/a where it does not exist"),
    Column("low", digits=1, meaning="Lower end of the interval, within what is possible"),
    Column("high", digits=1, meaning="Upper end of the interval, within what is possible"),
    Column("kind", meaning="conformal: from errors on scored nights. model: from draws of the posterior"),
    Column("level", digits=2, meaning="The coverage it is made for; n/a for intervals that promise none"),
    Column(
        "measured_coverage",
        digits=2,
        meaning="Share of scored nights whose expert value such an interval covered: held out from the fit "
        "or, of model intervals, of this kind of stager in other cohorts; n/a where it was not measured",
    ),
    Column("n_scored_nights", digits=0, meaning="Scored nights behind it; 0 for model intervals"),
    Column("reason", meaning="Why there is no interval; n/a where there is one"),
)


def measure_intervals(
    options: ReadOptions, measuring: StatisticsOptions, shortest: float | None, night: Input
) -> NightIntervals:
    """Return one night's intervals; `shortest` is the first REM bout that lasts, by default the profile's."""
    start = start_of(night.edf, night.start) or options.start
    decoding, notes = decode_night(
        night.path, options.profile, DecodeOptions(options.density), start, night.source
    )
    lights = lights_of(night, *measuring.lights)
    used = decoding.profile
    found = intervals(
        decoding,
        lights_off=lights.off,
        lights_on=lights.on,
        convention=measuring.convention,
        min_first_rem_seconds=shortest,
    )
    is_judged = bool(used.intervals) or "shares" in used.provenance  # by fit, or by tune
    may_pool = found.method == "model" and used.posterior is not None and not is_judged
    return NightIntervals(
        RecordingFacts.of(decoding.hypnogram, used),
        found,
        int(used.intervals.get("n_subjects", 0)),
        shortest_first_rem(used) if shortest is None else shortest,
        decoding.stager,
        decoding.cohort,
        lights_words(decoding.hypnogram, lights.off, lights.on),
        (*notes, *lights.notes),
        tuple(decoding.assumed),
        MeasuredNight.of(decoding.night, used) if may_pool else None,
        used,
    )


def withhold_by_stager(outcomes: Sequence[Outcome[NightIntervals]]) -> list[Outcome[NightIntervals]]:
    """Withhold the model intervals of all nights of a stager whose stage shares are outside experts'.

    Whether they are is decided as by `tune`, from ten nights or more of one profile, stager and cohort.
    """
    found, stagers = list(outcomes), dict[tuple[object, ...], list[int]]()
    for i, outcome in enumerate(found):
        if outcome.ok and (night := outcome.result).pooled is not None:
            stagers.setdefault((night.facts.profile_sha256, night.stager, night.cohort), []).append(i)
    for places in stagers.values():
        nights = [found[i].result for i in places]
        pooled = [night.pooled for night in nights if night.pooled is not None]
        if len(pooled) < FEWEST_NIGHTS:
            continue
        if repair_shares(pooled, nights[0].profile, cohort=nights[0].cohort).outcome in SHARES_OUTSIDE:
            for i in places:
                found[i] = replace(found[i], value=found[i].result.withheld())
    return found


def interval_table(done: Sequence[Outcome[NightIntervals]]) -> Table:
    """Return a row per night and statistic, and the facts of the codebook."""
    nights = [outcome.result for outcome in done]
    rows = [(outcome.id, *row) for outcome in done for row in outcome.result.rows()]
    profiles = {night.facts.profile_sha256: night.facts.to_dict()["profile"] for night in nights}
    facts = {
        "profiles": list(profiles.values()),
        "n_nights": len(nights),
        "n_draws": DEFAULT_DRAWS,
        "seed": 0,
        "lights": sorted({night.lights for night in nights if night.lights}),
        "min_first_rem_seconds": nights[0].min_first_rem_seconds,
        "meaning": list(_meaning(nights)),
        "assumptions": list(dict.fromkeys(text for night in nights for text in night.assumptions)),
    }
    return Table(COLUMNS, rows, facts=facts)


def _night_table(found: Intervals) -> Table:
    """Return what people see of a night's intervals; why they are withheld is said below."""
    rows = [
        (
            *(_title(name), one.value, one.low, one.high),
            "n/a" if isnan(one.measured_coverage) else f"{one.measured_coverage:.0%}",
            "withheld" if one.reason == WITHHELD else one.reason,
        )
        for name, one in found.items()
    ]
    ends = numbers("value", "low", "high", digits=1)
    return Table((*words("statistic"), *ends, *numbers("covered"), *words("")), rows)


def _title(name: str) -> str:
    """Return what tables call a statistic, such as ``minutes_N1``."""
    kind, _, stage = name.partition("_")
    keys = {each.reported_key: each.key for each in REPORTED_OF_STAGE}
    return quantity_of(f"{keys[kind]}_{stage}" if kind in keys else name).short_heading


def _meaning(nights: Sequence[NightIntervals]) -> Iterator[str]:
    """Yield sentences on where the intervals come from, and on what covered means."""
    first = nights[0]
    found = [(night.found.method, one) for night in nights for one in night.found.values()]
    is_measured = any(not isnan(one.measured_coverage) for _, one in found)
    shown = {method for method, one in found if one.reason != WITHHELD}
    if "conformal" in shown:
        level = f", {DEFAULT_LEVEL:.0%}" if is_measured else " (coverage not measured)"
        yield (
            f"Conformal{level}: as wide as the errors on {count(first.found.n_nights, 'scored night')} of "
            f"{count(first.n_subjects, 'subject')} held out from the fit. They hold for nights like those: "
            "same stager, same kind of people."
        )
    if any(method == "model" for method, _ in found):
        has_level = any(night.found.method == "model" and not isnan(night.found.level) for night in nights)
        draws = f"Model: {count(DEFAULT_DRAWS, 'draw')}."
        yield f"{draws} {ALL_NIGHT if has_level else NO_COVERAGE}"
    if any(one.reason == WITHHELD for _, one in found):
        yield f"Intervals {WITHHELD}."
    if is_measured:
        whose = "" if first.n_subjects else " of other stagers of its kind"
        yield f"Covered: share of scored nights{whose} whose expert value lay inside such an interval."
        if not first.n_subjects and any(night.stager is None for night in nights):
            yield OF_GOOD_STAGERS


def end_intervals(
    outcomes: Sequence[Outcome[NightIntervals]],
    written: Sequence[Path],
    notes: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Print the nights, failures and what was written."""
    done = succeeded(outcomes)
    if as_json:
        for outcome in outcomes:
            print_line(outcome)
    elif done:
        out = Console()
        for outcome in done[:MOST_ROWS]:
            night = outcome.result
            print_headline(outcome.file, night.facts, out, "with", night.lights)
            show(_night_table(night.found), out)
        for sentence in _meaning([outcome.result for outcome in done]):
            out.print(sentence)
        print_read(notes_of(done), out)
        if len(done) == 1:
            out.list("Assumed", done[0].result.assumptions)
        print_warnings(done, out)
        print_review(out)
        out.list("Wrote", written)
    end(outcomes, notes, as_json=as_json)
