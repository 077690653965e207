"""`stageguard profiles`: list the profiles, or show one."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

import click

from stageguard.cli import options as opt
from stageguard.cli.command import group
from stageguard.cli.terminal import Console, count, one_line, print_json
from stageguard.profile.profile import FOLDER, Profile
from stageguard.profile.profile import profiles as names

MOST_COLUMNS = 8  # wider tables are turned
name_argument = click.argument("name", help="Name of a built-in profile, or path of a .toml file.")


@group
@opt.as_json
def profiles(as_json: bool) -> None:
    """List the built-in profiles, or show one.

    Examples
    --------
    stageguard profiles
    """
    loaded = [Profile.load(name) for name in names()]
    if as_json:
        print_json([_headline(profile) for profile in loaded])
        return
    rows = [
        (profile.name, " ".join(profile.scheme.names), f"{profile.epoch_seconds:g} s", profile.summary)
        for profile in loaded
    ]
    out = Console()
    out.table(("name", "stages", "epoch", "summary"), rows)
    out.print("More about one: stageguard profiles show NAME")


@profiles.command("show")
@name_argument
@opt.as_json
def show(name: str, as_json: bool) -> None:
    """Show everything a profile assumes, and whom it is not for.

    Examples
    --------
    stageguard profiles show human-psg-5
    """
    profile = Profile.load(name)
    document = profile.to_dict()
    if as_json:
        print_json({**_headline(profile), "definition": document})
        return
    out = Console()
    out.print((one_line(profile.name), "bold"), f"  sha256 {profile.sha256[:12]}")
    for line in filter(None, (profile.summary, profile.intended_for)):
        out.print(one_line(line))
    acts = {"refuse": "refuses", "warn": "warns"}
    cautions = [(each.cohort, acts[each.action], each.reason) for each in profile.not_for]
    if cautions:
        out.heading("Whom it is not for")
        out.table(("--cohort", "decode", "why"), cautions)
    out.heading("Rules")
    out.table(("", ""), _rules(profile), headed=False)
    for key, value in document.items():
        if isinstance(value, Mapping):
            _print_part(key, value, out)


@profiles.command("path")
@name_argument
@opt.as_json
def path(name: str, as_json: bool) -> None:
    """Print the path of a profile's file, to copy it and make it your own.

    Examples
    --------
    stageguard profiles path human-psg-5
    """
    Profile.load(name)  # refuses unknown names
    built_in = FOLDER / f"{name}.toml"
    file = (built_in if built_in.is_file() else Path(name)).resolve()
    if as_json:
        print_json({"name": name, "path": str(file)})
    else:
        print(file)


def _headline(profile: Profile) -> dict[str, Any]:
    facts = {key: getattr(profile, key) for key in ("name", "summary", "intended_for", "epoch_seconds")}
    return facts | {"stages": list(profile.scheme.names), "sha256": profile.sha256}


def _rules(profile: Profile) -> list[tuple[str, str]]:
    """Return what acts, in words."""
    seconds, rule = profile.epoch_seconds, profile.strength
    bouts = [
        f"{stage} {value:g} s = {count(ceil(value / seconds - 1e-9), 'epoch')}"
        for stage, value in profile.min_bout_seconds.items()
    ]
    repair = profile.share_repair
    rules = {
        "stages": f"{' '.join(profile.scheme.names)} ({profile.scheme.name}), epochs of {seconds:g} s",
        "strength": rule.describe() if rule else f"fixed transition weight {profile.transition_weight:g}",
        "clock": "off" if profile.clock is None else profile.clock.describe(),
        "minimum bouts": ", ".join(bouts) or "none",
        "repaired shares": "none" if repair is None else repair.describe(profile.scheme.names),
    }
    return list(rules.items())


def _print_part(title: str, part: Mapping[str, Any], out: Console, depth: int = 0) -> None:
    """Print a part of a profile: a table where its entries have entries, else a line for each."""
    out.print()
    out.print(f"{one_line(title)}:", style="bold", indent=2 * depth)
    if {"columns", "rows"} <= part.keys():  # such as the candidates of a fit
        first, *others = map(str, part["columns"])
        rows = [[_text(cell) for cell in row] for row in part["rows"]]
        out.table((first, *(f">{column}" for column in others)), rows, indent=2 * depth)
        return
    inner = {key: each for key, each in part.items() if isinstance(each, Mapping)}
    for key, value in part.items():
        if key not in inner:
            out.print(one_line(f"{key}: {_text(value)}"), indent=2 * depth)
    if len(inner) > 1 and not any(map(_is_deep, inner.values())):
        columns = list(dict.fromkeys(key for each in inner.values() for key in each))
        if len(columns) > MOST_COLUMNS:
            inner, columns = (
                {key: {row: inner[row].get(key, "") for row in inner} for key in columns},
                [*inner],
            )
        cells = [(key, *(_text(each.get(column, "")) for column in columns)) for key, each in inner.items()]
        out.table(("", *columns), cells, indent=2 * depth)
        return
    for key, each in inner.items():
        _print_part(key, each, out, depth + 1)


def _is_deep(part: Mapping[str, Any]) -> bool:
    return any(isinstance(value, Mapping | list | tuple) for value in part.values())


def _text(value: Any) -> str:
    """Return a value as it is read: six digits of a number, the items of a list."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)
