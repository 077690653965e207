"""`stageguard profiles`: list the profiles, or show one."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any

import click

from stageguard.cli import options as opt
from stageguard.cli.command import group
from stageguard.cli.terminal import Console, count, one_line, print_json
from stageguard.profile.profile import FOLDER, Profile
from stageguard.profile.profile import profiles as names

name_argument = click.argument("name", help="Name of a built-in profile, or path of a .toml file.")


STAY = {"self": "log of the self-transition", "free": "free"}
ENDS = {
    "censored": "may be short, the recording cut them",
    "paper": "the first must reach its minimum, the last may be short",
}


@group
@opt.as_json
def profiles(as_json: bool) -> None:
    """List the built-in profiles, or show one.

    Examples
    --------
    stageguard profiles
    """
    _list(as_json=as_json)


@profiles.command("list")
@opt.as_json
def list_profiles(as_json: bool) -> None:
    """List the built-in profiles.

    Examples
    --------
    stageguard profiles list
    """
    _list(as_json=as_json)


def _list(*, as_json: bool) -> None:
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
    if as_json:
        print_json({**_headline(profile), "definition": profile.to_dict()})
        return
    out = Console()
    _print_words(profile, out)
    out.heading("Rules")
    out.table(("rule", "value"), list(_rules(profile).items()))
    _print_transitions(profile, out)
    _print_labels(profile, out)
    if profile.bands:
        _print_bands(profile, out)
    if profile.joint is not None:
        out.heading(f"Joint score of {len(profile.joint.indicators)} indicators")
        source = f": {profile.joint.source}" if profile.joint.source else ""
        out.print(one_line(f"most expert nights are under {profile.joint.threshold:.2f}{source}"))
    if profile.provenance:
        out.heading("Provenance")
        _print_nested(profile.provenance, out, 0)


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
    return {
        "name": profile.name,
        "summary": profile.summary,
        "intended_for": profile.intended_for,
        "stages": list(profile.scheme.names),
        "epoch_seconds": profile.epoch_seconds,
        "sha256": profile.sha256,
    }


def _print_words(profile: Profile, out: Console) -> None:
    out.print((one_line(profile.name), "bold"), f"  sha256 {profile.sha256[:12]}")
    for line in (profile.summary, f"For: {profile.intended_for}" if profile.intended_for else ""):
        if line:
            out.print(one_line(line))
    if not profile.not_for:
        return
    out.heading("Whom it is not for")
    rows = [
        (caution.cohort, "refuses" if caution.action == "refuse" else "warns", caution.reason)
        for caution in profile.not_for
    ]
    out.table(("--cohort", "decode", "why"), rows)


def _rules(profile: Profile) -> dict[str, str]:
    seconds, flip = profile.epoch_seconds, profile.flip_flop
    bouts = [
        f"{stage} {value:g} s = {count(ceil(value / seconds - 1e-9), 'epoch')}"
        for stage, value in profile.min_bout_seconds.items()
    ]
    rare = [f"{pair.source}→{pair.target} ({pair.probability:g})" for pair in profile.rare]
    counted = [f"{source}→{target}" for source, target in profile.tvr_pairs]
    penalty = f"{flip.penalty_nats:g} nats within {flip.window_epochs} epochs, {flip.method}"
    rules = {
        "stages": f"{' '.join(profile.scheme.names)} ({profile.scheme.name})",
        "epoch length": f"{seconds:g} s",
        "strength": _strength(profile),
        "clock": "off" if profile.clock is None else profile.clock.describe(),
        "minimum bouts": ", ".join(bouts) or "none",
        "discouraged transitions": ", ".join(rare) or "none",
        "transitions TVR counts": ", ".join(counted) or "none",
        "flip-flop penalty": penalty if flip.penalty_nats else "off",
        "staying in a stage": STAY[profile.stay],
        "first and last bout": ENDS[profile.ends],
    }
    temperature, biases = profile.calibration.temperature, profile.calibration.biases
    if temperature != 1 or biases is not None:
        added = f", biases {' '.join(f'{bias:g}' for bias in biases)} nats" if biases else ""
        rules["calibration"] = f"temperature {temperature:g}{added}"
    if profile.share_repair is not None:
        rules["repaired shares"] = profile.share_repair.describe(profile.scheme.names)
    if profile.durations:
        rules["explicit bout lengths"] = ", ".join(profile.durations)
    if profile.prior_exponent:
        rules["prior exponent"] = f"{profile.prior_exponent:g}"
    return rules


def _strength(profile: Profile) -> str:
    rule = profile.strength
    if rule is None:
        return f"fixed transition weight {profile.transition_weight:g}"
    return rule.describe()


def _print_transitions(profile: Profile, out: Console) -> None:
    names = profile.scheme.names
    out.heading(f"Transition probabilities per epoch of {profile.epoch_seconds:g} s")
    rows = [(name, *map(_probability, row)) for name, row in zip(names, profile.transitions, strict=True)]
    out.table(("from \\ to", *(f">{name}" for name in names)), rows)


def _print_labels(profile: Profile, out: Console) -> None:
    """Print what experts say where a stager that gives labels alone says each stage."""
    labels, names = profile.labels, profile.scheme.names
    if labels is None:
        return
    out.heading("Labels without probabilities")
    if labels.refused:
        out.print(one_line(f"refused: {labels.refused}"))
    elif labels.source:
        out.print(one_line(f"typical confusions: {labels.source}"))
    for whose, shares in (("stager", labels.shares), ("own stager", labels.own)):
        if shares is not None:
            rows = [(name, *map(_probability, row)) for name, row in zip(names, shares, strict=True)]
            out.table((f"{whose} says \\ experts say", *(f">{name}" for name in names)), rows)


def _probability(value: float) -> str:
    """Return four decimals, or significant digits for values very near 0 or 1."""
    if value in (0.0, 1.0):
        return f"{value:g}"
    if value < 0.001:
        return f"{value:.2g}"
    return f"{value:.4f}" if value < 0.99995 else f"{value:.6g}"


def _print_bands(profile: Profile, out: Console) -> None:
    sources = {band.source for band in profile.bands.values()}
    one_source = len(sources) == 1 and all(sources)
    out.heading("Expert ranges" + (f": {one_line(sources.pop())}" if one_source else ""))
    rows = [
        (name, f"{band.low:.4g}", f"{band.high:.4g}", band.unit, *(() if one_source else (band.source,)))
        for name, band in profile.bands.items()
    ]
    out.table(("indicator", ">low", ">high", "unit", *(() if one_source else ("source",))), rows)


def _print_nested(mapping: Any, out: Console, depth: int) -> None:
    """Print one entry per line; nested entries are indented."""
    for key, value in mapping.items():
        if hasattr(value, "items"):
            out.print(f"{one_line(key)}:", indent=2 * depth)
            _print_nested(value, out, depth + 1)
        elif key == "rows" and "columns" in mapping:
            first, *others = map(str, mapping["columns"])  # such as the candidates of a fit
            rows = [
                [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in value
            ]
            out.table((first, *(f">{column}" for column in others)), rows, indent=2 * depth)
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            out.print(one_line(f"{key}: {text}"), indent=2 * depth)
