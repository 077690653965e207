"""`stageguard compare`: agreement with an expert."""

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
from stageguard.cli.inputs import Input, find_inputs, is_sample_list, scoring_of
from stageguard.cli.options import AsJson, Reading, SampleList, SchemeName, ScoringFormat, given_path, spread
from stageguard.cli.present import (
    MOST_ROWS,
    end,
    print_notes,
    print_warnings,
    run_shown,
    short_names,
)
from stageguard.cli.scored_files import Experts, ReadOptions, read_night, read_options
from stageguard.cli.terminal import console, one_line, print_heading, print_json, print_list, table
from stageguard.measures.agreement import Agreement, agreement, merged_pairs
from stageguard.night.stages import StageScheme
from stageguard.profile.profile import Profile
from stageguard.runner.run import Outcome, succeeded

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


@spread
def compare(
    expert: Expert = None,
    others: Others = None,
    samples: SampleList = None,
    profile: PairsOf = None,
    scheme: SchemeName = None,
    reading: Reading = Reading(),  # noqa: B008 - a group of options
    scoring_format: ScoringFormat = None,
    as_json: AsJson = False,
) -> None:
    """Agreement of hypnograms with an expert's: accuracy, kappa, F1, confusion, uncommon transitions found.

    What decode wrote is compared before and after decoding. The accuracy of naming only the expert's most
    frequent stage stands beside each.
    """
    options = read_options(reading, profile=profile, scheme=scheme, scoring_format=scoring_format)
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
    outcomes = run_shown(
        lambda night: compare_night(night, experts, options), inputs.nights, "Comparing", quiet=as_json
    )
    if as_json:
        print_json([outcome.to_dict() for outcome in outcomes])
    else:
        print_comparison(succeeded(outcomes))
        print_warnings(succeeded(outcomes), console())
    print_notes(inputs.notes, as_json=as_json)
    end(outcomes, as_json=as_json)


@dataclass(frozen=True, slots=True)
class ComparedNight:
    """Agreement of each scoring of a night with the expert's: argmax, guard, or scored."""

    expert: Path
    agreement: dict[str, Agreement]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        found = {kind: agreement.to_dict() for kind, agreement in self.agreement.items()}
        return {"expert": str(self.expert), "agreement": found, "notes": list(self.notes)}


def compare_night(night: Input, experts: Experts, options: ReadOptions) -> ComparedNight:
    """Compare one night's scorings with the expert's."""
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
            found[name] = agreement(expert, stages, pairs=pairs)
    return ComparedNight(place, found, scored.notes)


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
    own: Agreement


def print_comparison(outcomes: Sequence[Outcome[ComparedNight]]) -> None:
    """Print all measures of a few scorings, or the main ones of many with their means."""
    if not outcomes:
        return
    names = short_names(outcomes)
    scorings = [
        Scoring(name, kind, own)
        for name, outcome in zip(names, outcomes, strict=True)
        for kind, own in outcome.result.agreement.items()
    ]
    out = console()
    experts = list(dict.fromkeys(outcome.result.expert for outcome in outcomes))
    if len(experts) == 1:
        out.print(f"Agreement with {one_line(experts[0])}, over the epochs both scored")
    else:
        out.print(f"Agreement with {len(experts)} expert scorings, over the epochs both scored")
    if len(scorings) <= FEW:
        several = len(scorings) > len(outcomes)
        titled = {(f"{one.kind} of {one.name}" if several else one.name): one.own for one in scorings}
        _print_side_by_side(titled, out)
        for title, own in titled.items():
            _print_confusion(title, own, out)
    else:
        if len(outcomes) <= MOST_ROWS:
            _print_rows(scorings, out)
        _print_means(scorings, out)
    _print_notes(outcomes, [one.own for one in scorings], out)


def _print_side_by_side(titled: Mapping[str, Agreement], out: Console) -> None:
    found = list(titled.values())
    made = table("", *titled, right=tuple(titled))
    made.add_row("Epochs compared", *(f"{own.n_epochs:,}" for own in found))
    if any(own.n_left_out for own in found):
        made.add_row("Epochs one of them left unscored", *(f"{own.n_left_out:,}" for own in found))
    made.add_row("Accuracy", *(_number(own.accuracy) for own in found))
    made.add_row("Accuracy of the majority class", *(_majority(own) for own in found))
    made.add_row("Cohen's κ", *(_number(own.kappa) for own in found))
    made.add_row("Macro F1", *(_number(own.macro_f1) for own in found))
    for stage in dict.fromkeys(stage for own in found for stage in own.f1):
        made.add_row(f"F1 {stage}", *(_number(own.f1.get(stage, NAN)) for own in found))
    for key, title in RECALLS.items():
        made.add_row(f"Uncommon transitions found, {title}", *(_recall([own], key) for own in found))
    out.print(made)


def _print_confusion(name: str, own: Agreement, out: Console) -> None:
    stages = own.scheme.names
    print_heading(out, f"Epochs: expert (rows) by {name} (columns)")
    made = table("", *stages, "recall", right=(*stages, "recall"))
    for place, (stage, row) in enumerate(zip(stages, own.confusion.tolist(), strict=True)):
        total = sum(row)
        made.add_row(stage, *(f"{n:,}" for n in row), _number(row[place] / total if total else NAN))
    out.print(made)


def _print_rows(scorings: Sequence[Scoring], out: Console) -> None:
    """One row per scoring."""
    titles = ("epochs", *MAIN.values(), "rare ± 0", "rare ± 2")
    made = table("file", "stages", *titles, right=titles)
    last = ""
    for one in scorings:
        cells = [_number(getattr(one.own, key)) for key in MAIN] + [_found(one.own, key) for key in RECALLS]
        made.add_row(one.name if one.name != last else "", one.kind, f"{one.own.n_epochs:,}", *cells)
        last = one.name
    out.print(made)


def _print_means(scorings: Sequence[Scoring], out: Console) -> None:
    """Means over the files of each kind, and all their uncommon transitions together."""
    kinds: dict[str, list[Agreement]] = {}
    for one in scorings:
        kinds.setdefault(one.kind, []).append(one.own)
    print_heading(out, "Mean ± standard deviation over the files")
    made = table("", *kinds, right=tuple(kinds))
    made.add_row("Files", *(f"{len(own)}" for own in kinds.values()))
    titles = ("Accuracy", "Accuracy of the majority class", "Cohen's κ", "Macro F1")
    for key, title in zip(MAIN, titles, strict=True):
        made.add_row(title, *(_mean([getattr(one, key) for one in own]) for own in kinds.values()))
    for stage in dict.fromkeys(stage for one in scorings for stage in one.own.f1):
        made.add_row(
            f"F1 {stage}", *(_mean([one.f1.get(stage, NAN) for one in own]) for own in kinds.values())
        )
    for key, title in RECALLS.items():
        made.add_row(f"Uncommon transitions found, {title}", *(_recall(own, key) for own in kinds.values()))
    out.print(made)


def _print_notes(
    outcomes: Sequence[Outcome[ComparedNight]], found: Sequence[Agreement], out: Console
) -> None:
    pairs = list(dict.fromkeys(f"{a}→{b}" for own in found for a, b in own.pairs))
    notes = [f"uncommon transitions are {', '.join(pairs)}"] if pairs else []
    reasons = [f"{key}: {why}" for own in found for key, why in own.reasons.items() if key not in RECALLS]
    read = [note for outcome in outcomes for note in outcome.notes]
    print_list(out, "Note", dict.fromkeys([*notes, *reasons, *read]))


def _number(value: float) -> str:
    return "n/a" if isnan(value) else f"{value:.3f}"


def _majority(own: Agreement) -> str:
    return f"{_number(own.majority_accuracy)} ({own.majority_stage or 'none'})"


def _counts(own: Sequence[Agreement], key: str) -> tuple[int, int]:
    """Return how many uncommon transitions of the expert's were found in all of these, and of how many."""
    with_any = [one for one in own if one.n_rare]
    return sum(round(getattr(one, key) * one.n_rare) for one in with_any), sum(one.n_rare for one in with_any)


def _found(own: Agreement, key: str) -> str:
    n_found, n_rare = _counts([own], key)
    return f"{n_found} of {n_rare}" if n_rare else "n/a"


def _recall(own: Sequence[Agreement], key: str) -> str:
    n_found, n_rare = _counts(own, key)
    return f"{n_found} of {n_rare} ({n_found / n_rare:.3f})" if n_rare else "n/a"


def _mean(values: Sequence[float]) -> str:
    known = np.array([value for value in values if not isnan(value)])
    if not len(known):
        return "n/a"
    return f"{known.mean():.3f}" + (f" ± {known.std(ddof=1):.3f}" if len(known) > 1 else "")
