"""Intervals of each file's night in plain types, and all of them as one table. Prints nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from stageguard.base.errors import InputError
from stageguard.base.files import CELL_WORDS, write_cell, write_together
from stageguard.cli.decode_file import DecodeOptions
from stageguard.cli.inputs import Input, start_of
from stageguard.cli.night import decode_night
from stageguard.formats.outputs import plain
from stageguard.measures.day import lights_words
from stageguard.measures.intervals import Method, intervals, shortest_first_rem

if TYPE_CHECKING:
    from datetime import datetime

    from stageguard.measures.day import Moment
    from stageguard.measures.statistics import Convention
    from stageguard.profile.profile import Profile

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
    convention: Convention
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
    """Return one night's intervals, in plain types; lights that a sample list gives it come first."""
    night.refuse()
    start = start_of(night.edf, night.start) or request.start
    decoding, notes = decode_night(night.path, request.profile, request.options, start, night.source)
    lights = (
        request.lights_off if night.lights_off is None else night.lights_off,
        request.lights_on if night.lights_on is None else night.lights_on,
    )
    rows: list[dict[str, Any]] = []
    n_nights = 0
    for method in request.methods:
        found = intervals(
            decoding,
            method=cast("Method", method),
            level=request.level,
            n=request.n_draws,
            seed=request.seed,
            lights_off=lights[0],
            lights_on=lights[1],
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
        "lights": lights_words(decoding.hypnogram, *lights),
        "intervals": rows,
        "notes": list(notes),
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
