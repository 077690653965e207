"""`stageguard check`: does a hypnogram look like expert scoring. Parses and prints only."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stageguard.base.errors import InputError
from stageguard.cli.inputs import Input, find_inputs, lights_of
from stageguard.cli.options import (
    AsJson,
    EpochSeconds,
    FormatName,
    Log,
    Logits,
    Pool,
    SampleList,
    SchemeName,
    ScoredFiles,
    ScoringFormat,
    Stages,
)
from stageguard.cli.present import (
    MOST_ROWS,
    PLACE_STYLE,
    marked,
    print_headline,
    print_notes,
    print_problems,
    print_read,
    print_warnings,
    short_names,
)
from stageguard.cli.scored_files import ReadOptions, read_night, read_options, run_each
from stageguard.cli.terminal import console, print_json, print_list, progress, table
from stageguard.measures.day import lights_words
from stageguard.measures.validity import validity

BandsOf = Annotated[
    str | None,
    typer.Option("--profile", "-p", metavar="NAME", help="Whose bands. Default: the one recorded by decode."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Exit 1 when anything is outside its band.")]


def check(
    files: ScoredFiles = None,
    samples: SampleList = None,
    profile: BandsOf = None,
    strict: Strict = False,
    scheme: SchemeName = None,
    stages: Stages = None,
    epoch_seconds: EpochSeconds = None,
    logits: Logits = False,
    log: Log = False,
    format: FormatName = None,
    pool: Pool = None,
    scoring_format: ScoringFormat = None,
    as_json: AsJson = False,
) -> None:
    """Check hypnograms against the range of expert scoring, from both sides.

    Of probabilities, the most probable stage per epoch is checked. A band of the built-in profiles holds
    nine of ten expert nights, so one or two indicators outside are nothing unusual.
    """
    options = read_options(
        profile,
        scheme,
        stages,
        epoch_seconds,
        logits=logits,
        log=log,
        format=format,
        pool=pool,
        scoring_format=scoring_format,
    )
    inputs = find_inputs(files, samples, options.wanted)
    found = run_each(inputs.nights, lambda night: check_night(night, options))
    reports = list(progress(found, "Checking", len(inputs.nights), quiet=as_json))
    if as_json:
        print_json(reports)
    elif len(reports) > 1:
        _print_many(reports)
    elif reports[0]["ok"]:
        _print_one(reports[0])
    print_notes(inputs.notes, as_json=as_json)
    print_problems(reports, as_json=as_json)
    if not all(report["ok"] and (report["inside"] or not strict) for report in reports):
        raise typer.Exit(1)


def check_night(night: Input, options: ReadOptions) -> dict[str, Any]:
    """Measure one night against the bands of the profile, in plain types."""
    found = read_night(night, options)
    if found.profile is None:
        raise InputError(
            "no profile is recorded with it, expected one to take the bands from. "
            "Name it: --profile human-psg-5."
        )
    scored = found.final
    lights = lights_of(night)
    valid = validity(scored, found.profile, lights_off=lights.off, lights_on=lights.on)
    bands = {band.source for name, band in found.profile.bands.items() if name in valid.indicators}
    judged = [one for one in valid.indicators.values() if one.place != "no band"]
    return {
        "profile": {"name": found.profile.name, "sha256": found.profile.sha256},
        "checked": "argmax" if found.after is None else "stages",
        "stages": list(scored.scheme.names),
        "n_epochs": scored.n_epochs,
        "epoch_seconds": scored.epoch_seconds,
        "n_judged": len(judged),
        "inside": bool(judged) and not valid.outside,
        "band_sources": sorted(bands),
        "lights": lights_words(scored, lights.off, lights.on),
        "notes": list(found.notes),
    } | {key: value for key, value in valid.to_dict().items() if key != "profile"}


def _print_one(report: dict[str, Any]) -> None:

    out = console()
    print_headline(report, out, "against")
    if report["checked"] == "argmax":
        out.print("Checked: the most probable stage of each epoch, as the stager gave it.")
    shown = table("indicator", "value", "unit", "expert range", "place", right=("value", "expert range"))
    for name, own in report["indicators"].items():
        decimals = _decimals(own)
        band = "" if own["low"] != own["low"] else f"{own['low']:.{decimals}f} to {own['high']:.{decimals}f}"
        value = "n/a" if own["value"] != own["value"] else f"{own['value']:.{decimals}f}"
        place = "" if own["place"] == "no band" else own["place"]
        shown.add_row(name, value, own["unit"], band, place, style=PLACE_STYLE.get(place, ""))
    out.print(shown)
    _print_verdict(report, out)
    rare = [f"{pair} {n}" for pair, n in report["rare_pairs"].items() if n]
    short = [f"{stage} {n}" for stage, n in report["bouts_below_minimum"].items() if n]
    print_list(out, "Uncommon transitions", [", ".join(rare)] if rare else [])
    print_list(out, "Bouts below the profile's minimum", [", ".join(short)] if short else [])
    reasons = dict.fromkeys(own["reason"] for own in report["indicators"].values() if own["reason"])
    print_read([report], out)
    print_list(out, "Warning", report["warnings"])
    print_list(out, "Note", list(reasons))
    print_list(out, "Bands", [source for source in report["band_sources"] if source])


def _decimals(own: dict[str, Any]) -> int:
    return 3 if own["unit"].startswith("per adjacent") else 2


def _print_verdict(report: dict[str, Any], out: Console) -> None:
    outside, places = report["outside"], report["indicators"]
    if not report["n_judged"]:
        out.print("Nothing to compare: the profile has no band for what could be measured.", style="bold")
    elif not outside:
        out.print(f"All {report['n_judged']} indicators lie inside their bands.", style="bold")
    else:
        listed = ", ".join(f"{name} {places[name]['place']}" for name in outside)
        out.print(f"{len(outside)} of {report['n_judged']} outside their bands: {listed}", style="bold")


def _print_many(reports: list[dict[str, Any]]) -> None:

    done = [report for report in reports if report["ok"]]
    if not done:
        return
    out = console()
    out.print(_counted(done) if len(done) > MOST_ROWS else _rows(done))
    n_inside = sum(report["inside"] for report in done)
    profiles = ", ".join(sorted({report["profile"]["name"] for report in done}))
    out.print(f"{n_inside:,} of {len(done):,} nights lie inside every band of {profiles}.", style="bold")
    print_warnings(done, out)


def _rows(done: list[dict[str, Any]]) -> Table:
    """One row per night."""
    numbers = ("FI", "TVR (%)", "flips per h", "outside")
    shown = table("file", *numbers, "which", right=numbers)
    for name, report in zip(short_names(done), done, strict=True):
        own = report["indicators"]
        cells = [_cell(own[key]) for key in ("fragmentation_index", "tvr_percent", "flips_per_hour")]
        places = {
            place: [key for key in report["outside"] if own[key]["place"] == place]
            for place in ("above", "below")
        }
        shown.add_row(
            name,
            *(marked(cell) for cell in cells),
            f"{len(report['outside'])} of {report['n_judged']}",
            "; ".join(f"{place}: {', '.join(keys)}" for place, keys in places.items() if keys),
        )
    return shown


def _counted(done: list[dict[str, Any]]) -> Table:
    """One row per indicator: how many of very many nights lie where."""
    places = ("below", "inside", "above")
    shown = table("indicator", *places, "no band or value", right=(*places, "no band or value"))
    for key in dict.fromkeys(key for report in done for key in report["indicators"]):
        found = Counter(report["indicators"].get(key, {}).get("place") for report in done)
        n_judged = sum(found[place] for place in places)
        if n_judged:
            shown.add_row(key, *(f"{found[place]:,}" for place in places), f"{len(done) - n_judged:,}")
    return shown


def _cell(own: dict[str, Any]) -> str:
    value = "n/a" if own["value"] != own["value"] else f"{own['value']:.{_decimals(own)}f}"
    return value if own["place"] == "no band" else f"{value} {own['place']}"
