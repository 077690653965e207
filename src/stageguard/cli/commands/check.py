"""`stageguard check`: does a hypnogram look like expert scoring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

from click.exceptions import Exit

from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.outcomes import (
    MOST_ROWS,
    PLACE_STYLE,
    finish,
    in_tables,
    placed,
    print_headline,
    print_read,
    print_verdict,
    print_warnings,
    run_shown,
    short_names,
)
from stageguard.cli.scored_files import (
    ReadOptions,
    find_scored,
    read_night,
    read_options,
    scored_reading_options,
)
from stageguard.cli.terminal import Console
from stageguard.errors import InputError
from stageguard.measures.bouts import period_for
from stageguard.measures.statistics import lights_words
from stageguard.measures.validity import Indicator, Validity, validity_of
from stageguard.report.summary import RecordingFacts, shown
from stageguard.report.words import looking_like_experts
from stageguard.runner.inputs import Input, lights_of
from stageguard.runner.run import Outcome


@command
@opt.scored_files
@opt.sample_list
@option("--profile", "-p", metavar="NAME", help="Whose bands. Default: the one recorded by decode.")
@option("--strict", is_flag=True, help="Exit 1 unless every night looks like expert scoring.")
@scored_reading_options
@opt.as_json
def check(
    files: tuple[Path, ...],
    samples: Path | None,
    profile: str | None,
    strict: bool,
    reading: ReadOptions,
    as_json: bool,
) -> None:
    """Check whether hypnograms look like expert scoring.

    One joint score of all indicators decides: nine of ten expert nights stay under its threshold. The bands
    show where a night differs, in either direction. Each band holds nine of ten expert nights, so one or two
    indicators outside are not unusual. For probabilities, the most probable stage of each epoch is checked.

    Examples
    --------
    stageguard check night.hypnogram.tsv
    stageguard check night.hypnogram.tsv --strict
    """
    options = read_options(reading, profile=profile)
    inputs = find_scored(files, samples, options)
    outcomes = run_shown(lambda night: check_night(night, options), inputs.nights, "Checking", quiet=as_json)
    finish(outcomes, _print_many, inputs.notes, show_one=_print_one, as_json=as_json)
    if strict and not all(outcome.result.validity.looks_like_experts for outcome in outcomes):
        raise Exit(1)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One night compared with the bands of a profile."""

    facts: RecordingFacts
    is_argmax: bool
    joint_source: str
    band_sources: tuple[str, ...]
    lights: str
    validity: Validity
    notes: tuple[str, ...]

    @property
    def indicators(self) -> Mapping[str, Indicator]:
        """The indicators of the night, by name."""
        return self.validity.indicators

    @property
    def n_judged(self) -> int:
        """How many indicators have a band."""
        return sum(indicator.place != "no band" for indicator in self.indicators.values())

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        measured = {key: value for key, value in self.validity.to_dict().items() if key != "profile"}
        checked = {"profile": None, "checked": "argmax" if self.is_argmax else "stages"}
        names = ("n_judged", "joint_source", "band_sources", "lights", "notes")
        return checked | self.facts.to_dict() | {name: getattr(self, name) for name in names} | measured


def check_night(night: Input, options: ReadOptions) -> CheckResult:
    """Measure one night against the bands of the profile."""
    read = read_night(night, options)
    if read.profile is None:
        raise InputError(
            "no profile is recorded with it, expected one to take the bands from. "
            "Name it: --profile human-psg-5."
        )
    scored = read.final
    lights = lights_of(night)
    # the period by which it was decoded, which is that of the stager's own choice
    period = period_for(read.before or scored, read.profile, (lights.off, lights.on))
    if read.period is not None and read.profile.measures_sleep_period and lights.off is lights.on is None:
        period = read.period
    measured = validity_of(scored, read.profile, period)
    sources = {band.source for name, band in read.profile.bands.items() if name in measured.indicators}
    return CheckResult(
        RecordingFacts.of(scored, read.profile),
        read.after is None,
        "" if read.profile.joint is None else read.profile.joint.source,
        tuple(sorted(sources)),
        lights_words(scored, lights.off, lights.on),
        measured,
        read.notes,
    )


def _print_one(outcome: Outcome[CheckResult], out: Console) -> None:
    night = outcome.result
    print_headline(outcome.file, night.facts, out, "against", night.lights)
    judged = night.validity
    print_verdict(judged.verdict, out, looks_like_experts=judged.looks_like_experts)
    if night.is_argmax:
        out.print("Checked: the most probable stage of each epoch, as the stager gave it.")
    rows: list[list[object]] = []
    for name, indicator in night.indicators.items():
        decimals = _decimals(indicator)
        low, high = indicator.low, indicator.high
        band = "" if isnan(low) else f"{low:.{decimals}f} to {high:.{decimals}f}"
        value = shown(indicator.value, decimals)
        place = "" if indicator.place == "no band" else indicator.place
        style = PLACE_STYLE.get(place, "")
        rows.append([(cell, style) for cell in (name, value, indicator.unit, band, place)])
    out.table(("indicator", ">value", "unit", ">expert range", "place"), rows)
    _print_outside(night, out)
    rare = [f"{pair} {n}" for pair, n in night.validity.rare_pairs.items() if n]
    short = [f"{stage} {n}" for stage, n in night.validity.bouts_below_minimum.items() if n]
    out.list("Uncommon transitions", [", ".join(rare)] if rare else [])
    out.list("Bouts below the profile's minimum", [", ".join(short)] if short else [])
    reasons = dict.fromkeys(each.reason for each in night.indicators.values() if each.reason)
    print_read(outcome.notes, out)
    out.list("Warning", outcome.warnings)
    out.list("Note", list(reasons))
    out.list("Joint score", [night.joint_source] if night.joint_source else [])
    out.list("Bands", [source for source in night.band_sources if source])


def _decimals(indicator: Indicator) -> int:
    return 3 if indicator.unit.startswith("per adjacent") else 2


def _print_outside(night: CheckResult, out: Console) -> None:
    outside = night.validity.outside
    if not night.n_judged:
        out.print("Nothing to compare: the profile has no band for what could be measured.")
    elif not outside:
        out.print(f"All {night.n_judged} indicators lie inside their bands.")
    else:
        listed = ", ".join(f"{name} {night.indicators[name].place}" for name in outside)
        out.print(f"{len(outside)} of {night.n_judged} outside their bands: {listed}")


def _print_many(done: list[Outcome[CheckResult]], out: Console) -> None:
    nights = [outcome.result for outcome in done]
    if len(done) > MOST_ROWS:
        _print_counts(nights, out)
    else:
        _print_rows(done, out)
    out.print(looking_like_experts([night.validity.looks_like_experts for night in nights]), style="bold")
    print_warnings(done, out)


def _print_rows(done: list[Outcome[CheckResult]], out: Console) -> None:
    """Print one row per night."""
    rows = []
    for name, outcome in zip(short_names(done), done, strict=True):
        night = outcome.result
        outside = night.validity.outside
        first = ("fragmentation_index", "tvr_percent", "flips_per_hour")
        shown_first = (night.validity.joint, *(night.indicators[key] for key in first))
        places = {
            place: [key for key in outside if night.indicators[key].place == place]
            for place in ("above", "below")
        }
        rows.append(
            (
                name,
                *(placed(_cell(one), one.place) for one in shown_first),
                f"{len(outside)} of {night.n_judged}",
                "; ".join(f"{place}: {', '.join(keys)}" for place, keys in places.items() if keys),
            )
        )
    kind = "night" if in_tables(done) else "file"
    out.table((kind, ">joint score", ">FI", ">TVR (%)", ">flips per h", ">outside", "which"), rows)


def _print_counts(nights: list[CheckResult], out: Console) -> None:
    """Print one row per indicator: how many nights lie below, inside and above its band."""
    places, rows = ("below", "inside", "above"), []
    measured = [night.validity.measured for night in nights]
    for key in dict.fromkeys(key for indicators in measured for key in indicators):
        numbers: Counter[str] = Counter(indicators[key].place for indicators in measured if key in indicators)
        n_judged = sum(numbers[place] for place in places)
        if n_judged:
            rows.append((key, *(numbers[place] for place in places), len(nights) - n_judged))
    out.table(("indicator", ">below", ">inside", ">above", ">no band or value"), rows)


def _cell(indicator: Indicator) -> str:
    value = shown(indicator.value, _decimals(indicator))
    return value if indicator.place == "no band" else f"{value} {indicator.place}"
