"""`stageguard compare`: agreement with an expert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any, cast

import click
import numpy as np
from click import UsageError

from stageguard.arrays import NAN
from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.outcomes import MOST_ROWS, finish, print_warnings, run_shown, short_names
from stageguard.cli.scored_files import (
    Experts,
    ReadOptions,
    find_scored,
    read_expert,
    read_night,
    read_options,
    refuse_guess,
    scored_reading_options,
)
from stageguard.cli.terminal import Console, naming_nights, one_line, with_names
from stageguard.errors import InputError, warn
from stageguard.measures.agreement import Agreement, agreement, merged_pairs, swapped_words
from stageguard.night.align import align as align_nights
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.profile.profile import Profile
from stageguard.report.summary import shown
from stageguard.runner.inputs import Input, is_sample_list, scoring_of
from stageguard.runner.run import Outcome, collect_warnings, succeeded


@command
@click.argument(
    "expert",
    required=False,
    type=opt.PATH,
    help="The expert's hypnogram, or a folder with one for each night. Left out with --list.",
)
@click.argument(
    "others",
    metavar="OTHER",
    nargs=-1,
    type=opt.PATH,
    help="What to compare with it: hypnograms or probabilities, folders of them, or quoted patterns.",
)
@opt.sample_list
@option("--profile", "-p", metavar="NAME", help="Whose uncommon transitions to look for.")
@option(
    "--align",
    is_flag=True,
    help="Compare the epochs both have, by clock or offset, at the expert's epoch length.",
)
@option(
    "--expert-epoch-seconds",
    metavar="SECONDS",
    type=opt.SECONDS,
    help="Epoch length of the expert's file, where it does not say it and differs from the other.",
)
@scored_reading_options
@opt.as_json
def compare(
    expert: Path | None,
    others: tuple[Path, ...],
    samples: Path | None,
    profile: str | None,
    align: bool,
    expert_epoch_seconds: float | None,
    reading: ReadOptions,
    as_json: bool,
) -> None:
    """Compare hypnograms with an expert's: accuracy, kappa, F1, confusion, uncommon transitions found.

    Outputs of decode are compared before and after decoding. For reference, the accuracy of always naming the
    expert's most frequent stage is shown beside each.

    Examples
    --------
    stageguard compare expert.txt night.hypnogram.tsv
    stageguard compare expert.txt night.hypnogram.tsv --align
    """
    options = read_options(reading, profile=profile)
    options = replace(options, expert_epoch_seconds=expert_epoch_seconds)
    files = [*([] if expert is None else [expert]), *others]
    if samples is None and files and is_sample_list(files[0]):
        samples, files = files[0], files[1:]
    if samples is None and len(files) < 2:
        missing = "OTHER: name what to compare with it" if files else "EXPERT: name it, or a list (--list)"
        raise UsageError(f"missing argument {missing}.")
    experts = Experts(files.pop(0) if samples is None else None)
    inputs = find_scored(files, samples, options)
    outcomes = run_shown(
        lambda night: compare_night(night, experts, options, align=align),
        inputs.nights,
        "Comparing",
        quiet=as_json,
    )
    done = succeeded(outcomes)
    swapped = swapped_words([each.file for each in done], [each.result.pair for each in done])
    finish(outcomes, _print_comparison, [*inputs.notes, *swapped], as_json=as_json)


@dataclass(frozen=True, slots=True)
class CompareResult:
    """Agreement of each scoring of a night (argmax, guard or scored) with the expert's."""

    expert: Path
    agreement: dict[str, Agreement]
    notes: tuple[str, ...]
    pair: tuple[Hypnogram, Hypnogram] | None = None  # the expert's scoring and the night's

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from paths and messages."""
        by_kind = {kind: agreement.to_dict() for kind, agreement in self.agreement.items()}
        return {"expert": self.expert, "agreement": by_kind, "notes": self.notes}


def compare_night(
    night: Input, experts: Experts, options: ReadOptions, *, align: bool = False
) -> CompareResult:
    """Compare one night's scorings with the expert's; with `align`, on the epochs that both have."""
    scored = read_night(night, options)
    path = scoring_of(night) or experts.path_for(night.id)
    if path is None:
        raise InputError(f"no expert's scoring is named {night.id!r}, expected one in the {experts.kind}.")
    expert = read_expert(path, scored.final, options)
    if scored.is_length_assumed:
        inherited = replace(options.density, default_epoch_seconds=expert.epoch_seconds)
        scored = read_night(night, replace(options, density=inherited))
        refuse_guess(night.path, scored.final, expert, "--epoch-seconds")
    kinds = {"argmax": scored.before, "guard" if scored.before is not None else "scored": scored.after}
    scorings = {kind: stages for kind, stages in kinds.items() if stages is not None}
    if align:
        expert, scorings = _aligned(expert, scorings, [path.name, night.path.name])
    by_kind = {}
    for kind, stages in scorings.items():
        coarser = min((expert.scheme, stages.scheme), key=lambda scheme: scheme.n_stages)
        by_kind[kind] = agreement(expert, stages, pairs=uncommon_pairs(scored.profile, coarser))
    pair = expert, next(reversed(scorings.values()))
    return CompareResult(path, by_kind, scored.notes, pair)


def _aligned(
    expert: Hypnogram, given: dict[str, Hypnogram], files: Sequence[str]
) -> tuple[Hypnogram, dict[str, Hypnogram]]:
    """Cut the expert's scoring and a night's own, which are of one file, to the epochs they share."""
    names = [files[0]] + [files[1]] * len(given)
    with collect_warnings(), naming_nights(names):  # which number the nights
        aligned = align_nights(expert, *given.values(), epoch_seconds=expert.epoch_seconds)
    notes = dict.fromkeys(with_names(note, names) for note in aligned.notes)
    if notes:
        warn("; ".join(notes) + ".")
    expert, *cut = cast(tuple[Hypnogram, ...], aligned.nights)
    return expert, dict(zip(given, cut, strict=True))


def uncommon_pairs(profile: Profile | None, scheme: StageScheme) -> list[tuple[str, str]]:
    """Return the profile's uncommon transitions in a coarser scheme; without a profile, wake to REM."""
    if profile is None:
        return [(scheme.wake, scheme.rem)] if scheme.wake and scheme.rem else []
    return list(merged_pairs(profile, scheme))


FEW = 4  # scorings that fit side by side
# Titles of the main measures: in the table of a few scorings, and in the rows of many.
MAIN = {
    "accuracy": ("Accuracy", "accuracy"),
    "majority_accuracy": ("Accuracy of the majority class", "majority"),
    "kappa": ("Cohen's κ", "κ"),
    "macro_f1": ("Macro F1", "macro F1"),
}
RECALLS = {"rare_recall_0": "same epoch", "rare_recall_2": "± 2 epochs"}


@dataclass(frozen=True, slots=True)
class Scoring:
    """One scoring of one file, compared with the expert's: `kind` is argmax, guard or scored."""

    name: str
    kind: str
    agreement: Agreement


def _print_comparison(outcomes: Sequence[Outcome[CompareResult]], out: Console) -> None:
    """Print all measures of a few scorings, or the main measures of many with their means."""
    scorings = [
        Scoring(name, kind, result)
        for name, outcome in zip(short_names(outcomes), outcomes, strict=True)
        for kind, result in outcome.result.agreement.items()
    ]
    agreements = [one.agreement for one in scorings]
    experts = list(dict.fromkeys(outcome.result.expert for outcome in outcomes))
    whose = one_line(experts[0]) if len(experts) == 1 else f"{len(experts)} expert scorings"
    out.print(f"Agreement with {whose}, over the epochs both scored")
    columns: dict[str, list[Agreement]] = {}
    if len(scorings) <= FEW:
        several = len(scorings) > len(outcomes)
        columns = {f"{one.kind} of {one.name}" if several else one.name: [one.agreement] for one in scorings}
        counts = {"Epochs compared": [f"{one.n_epochs:,}" for one in agreements]}
        if any(one.n_left_out for one in agreements):
            counts["Epochs one of them left unscored"] = [f"{one.n_left_out:,}" for one in agreements]
        _print_measures(columns, counts, out, names_majority=True)
        for title, (one,) in columns.items():
            _print_confusion(title, one, out)
    else:
        if len(outcomes) <= MOST_ROWS:
            _print_rows(scorings, out)
        for scoring in scorings:
            columns.setdefault(scoring.kind, []).append(scoring.agreement)
        out.heading("Mean ± standard deviation over the files")
        _print_measures(columns, {"Files": [f"{len(each)}" for each in columns.values()]}, out)
    _print_notes(outcomes, agreements, out)
    print_warnings(outcomes, out)


def _print_measures(
    columns: Mapping[str, Sequence[Agreement]],
    counts: Mapping[str, Sequence[str]],
    out: Console,
    *,
    names_majority: bool = False,
) -> None:
    """Print a column per scoring, or per kind of scoring with means over files."""
    rows: list[Sequence[object]] = [(title, *cells) for title, cells in counts.items()]
    for key, (title, _) in MAIN.items():
        means = [_mean([getattr(one, key) for one in each]) for each in columns.values()]
        if key == "majority_accuracy" and names_majority:
            stages = [each[0].majority_stage or "none" for each in columns.values()]
            means = [f"{mean} ({stage})" for mean, stage in zip(means, stages, strict=True)]
        rows.append((title, *means))
    for stage in dict.fromkeys(stage for each in columns.values() for one in each for stage in one.f1):
        means = [_mean([one.f1.get(stage, NAN) for one in each]) for each in columns.values()]
        rows.append((f"F1 {stage}", *means))
    for key, title in RECALLS.items():
        recalls = [_recall(each, key) for each in columns.values()]
        rows.append((f"Uncommon transitions found, {title}", *recalls))
    out.table(("", *(f">{title}" for title in columns)), rows)


def _print_confusion(name: str, own: Agreement, out: Console) -> None:
    stages = own.scheme.names
    out.heading(f"Epochs: expert (rows) by {name} (columns)")
    rows = [
        (stage, *row, shown(row[index] / sum(row) if sum(row) else NAN, 3))
        for index, (stage, row) in enumerate(zip(stages, own.confusion.tolist(), strict=True))
    ]
    out.table(("", *(f">{stage}" for stage in stages), ">recall"), rows)


def _print_rows(scorings: Sequence[Scoring], out: Console) -> None:
    """Print one row per scoring."""
    rows, last = [], ""
    for one in scorings:
        cells = [shown(getattr(one.agreement, key), 3) for key in MAIN]
        for key in RECALLS:
            n_found, n_rare = _counts([one.agreement], key)
            cells.append(f"{n_found} of {n_rare}" if n_rare else "n/a")
        rows.append((one.name if one.name != last else "", one.kind, one.agreement.n_epochs, *cells))
        last = one.name
    measures = (f">{short}" for _, short in MAIN.values())
    out.table(("file", "stages", ">epochs", *measures, ">rare ± 0", ">rare ± 2"), rows)


def _print_notes(
    outcomes: Sequence[Outcome[CompareResult]], found: Sequence[Agreement], out: Console
) -> None:
    pairs = list(dict.fromkeys(f"{a}→{b}" for own in found for a, b in own.pairs))
    notes = [f"uncommon transitions are {', '.join(pairs)}"] if pairs else []
    reasons = [f"{key}: {why}" for own in found for key, why in own.reasons.items() if key not in RECALLS]
    read = [note for outcome in outcomes for note in outcome.notes]
    out.list("Note", dict.fromkeys([*notes, *reasons, *read]))


def _counts(own: Sequence[Agreement], key: str) -> tuple[int, int]:
    """Return how many of the expert's uncommon transitions were found, and how many there are."""
    with_any = [one for one in own if one.n_rare]
    return sum(round(getattr(one, key) * one.n_rare) for one in with_any), sum(one.n_rare for one in with_any)


def _recall(own: Sequence[Agreement], key: str) -> str:
    n_found, n_rare = _counts(own, key)
    return f"{n_found} of {n_rare} ({n_found / n_rare:.3f})" if n_rare else "n/a"


def _mean(values: Sequence[float]) -> str:
    known = np.array([value for value in values if not isnan(value)])
    if not len(known):
        return "n/a"
    return f"{known.mean():.3f}" + (f" ± {known.std(ddof=1):.3f}" if len(known) > 1 else "")
