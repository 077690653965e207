"""`stageguard compare`: agreement with an expert. Parses and prints only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from stageguard.base.arrays import NAN
from stageguard.base.errors import InputError
from stageguard.cli.experts import Experts
from stageguard.cli.inputs import Input, find_inputs, is_sample_list, scoring_of
from stageguard.cli.options import (
    AsJson,
    EpochSeconds,
    FormatName,
    Log,
    Logits,
    Pool,
    SampleList,
    SchemeName,
    ScoringFormat,
    Stages,
    given_path,
)
from stageguard.cli.present import MOST_ROWS, print_notes, print_problems, print_warnings, short_names
from stageguard.cli.scored_files import ReadOptions, read_night, read_options, run_each
from stageguard.cli.terminal import console, one_line, print_heading, print_json, print_list, progress, table
from stageguard.measures.agreement import agreement, merged_pairs
from stageguard.night.stages import StageScheme
from stageguard.profile.profile import Profile

Expert = Annotated[
    Path | None,
    typer.Argument(
        metavar="EXPERT",
        parser=given_path,
        help="The expert's hypnogram, or a folder with one for each night. Left out with --list.",
    ),
]
Others = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="OTHER",
        parser=given_path,
        help="What to compare with it: hypnograms or probabilities, folders of them, or quoted patterns.",
    ),
]
PairsOf = Annotated[
    str | None,
    typer.Option("--profile", "-p", metavar="NAME", help="Whose uncommon transitions to look for."),
]


def compare(
    expert: Expert = None,
    others: Others = None,
    samples: SampleList = None,
    profile: PairsOf = None,
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
    """Agreement of hypnograms with an expert's: accuracy, kappa, F1, confusion, uncommon transitions found.

    What decode wrote is compared before and after decoding. The accuracy of naming only the expert's most
    frequent stage stands beside each.
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
    files = [*([] if expert is None else [expert]), *(others or ())]
    if samples is None and files and is_sample_list(files[0]):
        samples, files = files[0], files[1:]
    if samples is None and len(files) < 2:
        missing = (
            "OTHER...': name what to compare with it" if files else "EXPERT': name it, or a list (--list)"
        )
        raise typer.BadParameter(f"Missing argument '{missing}.")
    place, rest = (None, files) if samples is not None else (files[0], files[1:])
    experts = Experts(place)
    inputs = find_inputs(rest, samples, options.wanted)
    found = run_each(inputs.nights, lambda night: compare_night(night, experts, options))
    reports = list(progress(found, "Comparing", len(inputs.nights), quiet=as_json))
    if as_json:
        print_json(reports)
    else:
        print_comparison([report for report in reports if report["ok"]])
        print_warnings([report for report in reports if report["ok"]], console())
    print_notes(inputs.notes, as_json=as_json)
    print_problems(reports, as_json=as_json)
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)


def compare_night(night: Input, experts: Experts, options: ReadOptions) -> dict[str, Any]:
    """Compare one night's scorings with the expert's, in plain types."""
    scored = read_night(night, options)
    listed = scoring_of(night)
    place = listed or experts.path_for(night.name)
    expert = experts.read(night.name, scored.final, options, listed)
    if expert is None or place is None:
        raise InputError(f"no expert's scoring is named {night.name!r}, expected one in the {experts.kind}.")
    own = {"argmax": scored.before, "guard" if scored.before is not None else "scored": scored.after}
    found = {}
    for name, stages in own.items():
        if stages is not None:
            pairs = uncommon_pairs(
                scored.profile, min((expert.scheme, stages.scheme), key=lambda s: s.n_stages)
            )
            found[name] = agreement(expert, stages, pairs=pairs).to_dict()
    return {
        "id": night.name,
        "expert": str(place),
        "agreement": found,
        "notes": list(scored.notes),
    }


def uncommon_pairs(profile: Profile | None, scheme: StageScheme) -> list[tuple[str, str]]:
    """Return the transitions a profile counts as uncommon, in a coarser scheme; without one wake to REM."""
    if profile is None:
        return [(scheme.wake, scheme.rem)] if scheme.wake and scheme.rem else []
    return list(merged_pairs(profile, scheme))


FEW = 4  # scorings that fit side by side
MAIN = {"accuracy": "accuracy", "majority_accuracy": "majority", "kappa": "κ", "macro_f1": "macro F1"}
RECALLS = {"rare_recall_0": "same epoch", "rare_recall_2": "± 2 epochs"}


@dataclass(frozen=True, slots=True)
class Scoring:
    """One scoring of one file beside the expert's: `kind` is argmax, guard or scored."""

    name: str
    kind: str
    own: dict[str, Any]


def print_comparison(reports: Sequence[dict[str, Any]]) -> None:
    """Print all measures of a few scorings, or the main ones of many with their means."""
    if not reports:
        return
    names = short_names(reports)
    scorings = [
        Scoring(name, kind, own)
        for name, report in zip(names, reports, strict=True)
        for kind, own in report["agreement"].items()
    ]
    out = console()
    experts = list(dict.fromkeys(report["expert"] for report in reports))
    if len(experts) == 1:
        out.print(f"Agreement with {one_line(experts[0])}, over the epochs both scored")
    else:
        out.print(f"Agreement with {len(experts)} expert scorings, over the epochs both scored")
    if len(scorings) <= FEW:
        several = len(scorings) > len(reports)
        titled = {(f"{one.kind} of {one.name}" if several else one.name): one.own for one in scorings}
        _print_side_by_side(titled, out)
        for title, own in titled.items():
            _print_confusion(title, own, out)
    else:
        if len(reports) <= MOST_ROWS:
            _print_rows(scorings, out)
        _print_means(scorings, out)
    _print_notes(reports, [one.own for one in scorings], out)


def _print_side_by_side(titled: Mapping[str, dict[str, Any]], out: Console) -> None:
    found = list(titled.values())
    made = table("", *titled, right=tuple(titled))
    made.add_row("Epochs compared", *(f"{own['n_epochs']:,}" for own in found))
    if any(own["n_left_out"] for own in found):
        made.add_row("Epochs one of them left unscored", *(f"{own['n_left_out']:,}" for own in found))
    made.add_row("Accuracy", *(_number(own["accuracy"]) for own in found))
    made.add_row("Accuracy of the majority class", *(_majority(own) for own in found))
    made.add_row("Cohen's κ", *(_number(own["kappa"]) for own in found))
    made.add_row("Macro F1", *(_number(own["macro_f1"]) for own in found))
    for stage in dict.fromkeys(stage for own in found for stage in own["f1"]):
        made.add_row(f"F1 {stage}", *(_number(own["f1"].get(stage, NAN)) for own in found))
    for key, title in RECALLS.items():
        made.add_row(f"Uncommon transitions found, {title}", *(_recall([own], key) for own in found))
    out.print(made)


def _print_confusion(name: str, own: dict[str, Any], out: Console) -> None:
    stages = own["stages"]
    print_heading(out, f"Epochs: expert (rows) by {name} (columns)")
    made = table("", *stages, "recall", right=(*stages, "recall"))
    for place, (stage, row) in enumerate(zip(stages, own["confusion"], strict=True)):
        total = sum(row)
        made.add_row(stage, *(f"{n:,}" for n in row), _number(row[place] / total if total else NAN))
    out.print(made)


def _print_rows(scorings: Sequence[Scoring], out: Console) -> None:
    """One row per scoring."""
    titles = ("epochs", *MAIN.values(), "rare ± 0", "rare ± 2")
    made = table("file", "stages", *titles, right=titles)
    last = ""
    for one in scorings:
        cells = [_number(one.own[key]) for key in MAIN] + [_found(one.own, key) for key in RECALLS]
        made.add_row(one.name if one.name != last else "", one.kind, f"{one.own['n_epochs']:,}", *cells)
        last = one.name
    out.print(made)


def _print_means(scorings: Sequence[Scoring], out: Console) -> None:
    """Means over the files of each kind, and all their uncommon transitions together."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for one in scorings:
        kinds.setdefault(one.kind, []).append(one.own)
    print_heading(out, "Mean ± standard deviation over the files")
    made = table("", *kinds, right=tuple(kinds))
    made.add_row("Files", *(f"{len(own)}" for own in kinds.values()))
    titles = ("Accuracy", "Accuracy of the majority class", "Cohen's κ", "Macro F1")
    for key, title in zip(MAIN, titles, strict=True):
        made.add_row(title, *(_mean([one[key] for one in own]) for own in kinds.values()))
    for stage in dict.fromkeys(stage for one in scorings for stage in one.own["f1"]):
        made.add_row(
            f"F1 {stage}", *(_mean([one["f1"].get(stage, NAN) for one in own]) for own in kinds.values())
        )
    for key, title in RECALLS.items():
        made.add_row(f"Uncommon transitions found, {title}", *(_recall(own, key) for own in kinds.values()))
    out.print(made)


def _print_notes(reports: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]], out: Console) -> None:
    pairs = list(dict.fromkeys(f"{a}→{b}" for own in found for a, b in own["pairs"]))
    notes = [f"uncommon transitions are {', '.join(pairs)}"] if pairs else []
    reasons = [f"{key}: {why}" for own in found for key, why in own["reasons"].items() if key not in RECALLS]
    read = [note for report in reports for note in report["notes"]]
    print_list(out, "Note", dict.fromkeys([*notes, *reasons, *read]))


def _number(value: float) -> str:
    return "n/a" if isnan(value) else f"{value:.3f}"


def _majority(own: dict[str, Any]) -> str:
    return f"{_number(own['majority_accuracy'])} ({own['majority_stage'] or 'none'})"


def _counts(own: Sequence[dict[str, Any]], key: str) -> tuple[int, int]:
    """Return how many uncommon transitions of the expert's were found in all of these, and of how many."""
    with_any = [one for one in own if one["n_rare"]]
    return sum(round(one[key] * one["n_rare"]) for one in with_any), sum(one["n_rare"] for one in with_any)


def _found(own: dict[str, Any], key: str) -> str:
    n_found, n_rare = _counts([own], key)
    return f"{n_found} of {n_rare}" if n_rare else "n/a"


def _recall(own: Sequence[dict[str, Any]], key: str) -> str:
    n_found, n_rare = _counts(own, key)
    return f"{n_found} of {n_rare} ({n_found / n_rare:.3f})" if n_rare else "n/a"


def _mean(values: Sequence[float]) -> str:
    known = np.array([value for value in values if not isnan(value)])
    if not len(known):
        return "n/a"
    return f"{known.mean():.3f}" + (f" ± {known.std(ddof=1):.3f}" if len(known) > 1 else "")
