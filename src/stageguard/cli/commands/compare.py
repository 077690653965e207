"""`stageguard compare`: agreement with an expert, and several experts as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
from click import UsageError

from stageguard.arrays import NAN, Floats
from stageguard.cli import options as opt
from stageguard.cli.command import command, more, option
from stageguard.cli.nights import (
    Experts,
    ReadOptions,
    aligned,
    find_scored,
    listed_nights,
    read_expert,
    read_night,
    read_options,
    read_scored,
    refuse_guess,
    scored_reading_options,
)
from stageguard.cli.outcomes import MOST_ROWS, end, first_few, run_shown, short_names
from stageguard.cli.render import Answer, print_line
from stageguard.cli.terminal import count, error_text, naming_nights
from stageguard.errors import InputError, StageGuardError, warn
from stageguard.files import make_folder, write_text_atomic
from stageguard.formats.density import listed
from stageguard.measures.agreement import Agreement, agreement, merged_pairs, swapped_words
from stageguard.measures.experts import (
    DISAGREES,
    consensus,
    disagreeing,
    refuse_copies,
    scorer_kappas,
    soft_agreement,
)
from stageguard.night.align import on_epochs_of
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.profile.profile import Profile
from stageguard.report.table import Table, numbers, words
from stageguard.review.journal import REVIEW_SUFFIX, read_journal
from stageguard.review.scorings import read_reviewed
from stageguard.runner.inputs import Input, find_inputs, is_sample_list, scoring_of
from stageguard.runner.run import Outcome, succeeded
from stageguard.storage import is_folder

Method = Literal["soft-agreement", "majority"]

FEW = 4  # scorings that fit side by side
TITLES = {"argmax": "stager", "guard": "guarded", "scored": "scored"}
MAIN = {
    "accuracy": "Accuracy",
    "majority_accuracy": "Accuracy of the majority class",
    "kappa": "Cohen's κ",
    "macro_f1": "Macro F1",
}
RECALLS = {"rare_recall_0": "same epoch", "rare_recall_2": "± 2 epochs"}


@command
@click.argument(
    "files",
    metavar="EXPERT OTHER...",
    nargs=-1,
    type=opt.PATH,
    help="The expert's hypnogram, or a folder of them; then nights. With --consensus: experts.",
)
@opt.sample_list
@option("--profile", "-p", metavar="NAME", help="Whose uncommon transitions to look for.")
@opt.aligned
@opt.expert_epoch_seconds
@option("--consensus", "merged", metavar="OUT", type=opt.PATH, help="Merge experts: .tsv, or folder of them.")
@more(
    *("--method", "soft-agreement|majority", "Ties go to the scorer most agree with, or stay unscored."),
    type=click.Choice(["soft-agreement", "majority"]),
    default="soft-agreement",
)
@scored_reading_options
@opt.overwrite
@opt.as_json
def compare(
    files: tuple[Path, ...],
    samples: Path | None,
    profile: str | None,
    align: bool,
    expert_epoch_seconds: float | None,
    merged: Path | None,
    method: Method,
    reading: ReadOptions,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Compare hypnograms with an expert's: accuracy, kappa, F1, confusion, uncommon transitions found.

    Outputs of decode are compared before and after decoding. With --consensus, all files are experts: their
    scorings are merged, and the agreement of each with the others is shown.

    Examples
    --------
    stageguard compare expert.txt night.hypnogram.tsv
    stageguard compare expert.txt expert-2.txt --consensus consensus.tsv
    """
    options = replace(read_options(reading, profile=profile), expert_epoch_seconds=expert_epoch_seconds)
    if merged is not None:
        compare_experts(files, merged, Merger(options, method, overwrite), as_json=as_json)
        return
    rest = list(files)
    if samples is None and rest and is_sample_list(rest[0]):
        samples = rest.pop(0)
    if samples is None and len(rest) < 2:
        raise UsageError("missing argument: name the EXPERT and what to compare with it, or a list (--list).")
    experts = Experts(rest.pop(0) if samples is None else None)
    inputs = find_scored(rest, samples, options)
    outcomes = run_shown(
        lambda task: compare_night(task, experts, options, align=align),
        inputs.nights,
        "Comparing",
        quiet=as_json,
    )
    done = succeeded(outcomes)
    if as_json:
        for outcome in outcomes:
            print_line(outcome.to_dict())
    elif done:
        agreement_answer(done).show()
    swapped = swapped_words([each.file for each in done], [each.result.pair for each in done])
    end(outcomes, [*inputs.notes, *swapped], as_json=as_json)


@dataclass(frozen=True, slots=True)
class Compared:
    """Agreement of each scoring of a night (argmax, guard or scored) with the expert's."""

    expert: Path
    agreement: dict[str, Agreement]
    notes: tuple[str, ...]
    pair: tuple[Hypnogram, Hypnogram]  # the expert's scoring and the night's

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from paths and messages."""
        by_kind = {kind: each.to_dict() for kind, each in self.agreement.items()}
        return {"expert": self.expert, "agreement": by_kind, "notes": self.notes}


def compare_night(night: Input, experts: Experts, options: ReadOptions, *, align: bool = False) -> Compared:
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
        names = [path.name] + [night.path.name] * len(scorings)
        placed, notes = aligned([expert, *scorings.values()], names, expert.epoch_seconds)
        expert, *rest = (each for each in placed if each is not None)
        scorings = dict(zip(scorings, rest, strict=True))
        if notes:
            warn("; ".join(notes) + ".")
    found = {}
    for kind, stages in scorings.items():
        coarser = min((expert.scheme, stages.scheme), key=lambda scheme: scheme.n_stages)
        found[kind] = agreement(expert, stages, pairs=uncommon_pairs(scored.profile, coarser))
    return Compared(path, found, scored.notes, (expert, next(reversed(scorings.values()))))


def uncommon_pairs(profile: Profile | None, scheme: StageScheme) -> list[tuple[str, str]]:
    """Return the profile's uncommon transitions in a coarser scheme; without a profile, wake to REM."""
    if profile is None:
        return [(scheme.wake, scheme.rem)] if scheme.wake and scheme.rem else []
    return list(merged_pairs(profile, scheme))


def agreement_answer(done: Sequence[Outcome[Compared]]) -> Answer:
    """Return all measures of a few scorings, or the main measures of many with their means."""
    scorings = [
        (name, kind, found)
        for name, outcome in zip(short_names(done), done, strict=True)
        for kind, found in outcome.result.agreement.items()
    ]
    experts = dict.fromkeys(str(outcome.result.expert) for outcome in done)
    whose = next(iter(experts)) if len(experts) == 1 else f"{len(experts)} expert scorings"
    answer = Answer([f"Agreement with {whose}, on the epochs that both scored"])
    columns: dict[str, list[Agreement]] = {}
    if len(scorings) <= FEW:
        for name, kind, found in scorings:
            both = TITLES[kind] if len(done) == 1 else f"{TITLES[kind]}, {name}"
            columns[both if len(scorings) > len(done) else name] = [found]
        answer.tables = [_measures(columns), *(_confusion(title, each[0]) for title, each in columns.items())]
    else:
        for _, kind, found in scorings:
            columns.setdefault(TITLES[kind], []).append(found)
        answer.tables = [_rows(scorings)] if len(done) <= MOST_ROWS else []
        answer.tables.append(_measures(columns, "Mean ± standard deviation over the files"))
    all_found = [found for *_, found in scorings]
    pairs = dict.fromkeys(f"{a}→{b}" for found in all_found for a, b in found.pairs)
    notes = [f"uncommon transitions are {', '.join(pairs)}"] if pairs else []
    notes += [
        f"{key}: {why}" for found in all_found for key, why in found.reasons.items() if key not in RECALLS
    ]
    notes += [note for outcome in done for note in outcome.notes]
    warnings = [text for outcome in done for text in outcome.warnings]
    answer.remarks = {"Note": dict.fromkeys(notes), "Warning": first_few(warnings, "warning")}
    return answer


def _measures(columns: Mapping[str, Sequence[Agreement]], title: str = "") -> Table:
    """Return a column per scoring, or per kind of scoring with means over files."""
    found = list(columns.values())
    rows: dict[str, list[str]] = {}
    if title:
        rows["Files"] = [f"{len(each)}" for each in found]
    else:
        rows["Epochs compared"] = [f"{each[0].n_epochs:,}" for each in found]
        if any(each[0].n_left_out for each in found):
            rows["Epochs one of them left unscored"] = [f"{each[0].n_left_out:,}" for each in found]
    for key, heading in MAIN.items():
        rows[heading] = [_mean([getattr(one, key) for one in each]) for each in found]
    if not title:
        most = [each[0].majority_stage or "none" for each in found]
        means = rows[MAIN["majority_accuracy"]]
        rows[MAIN["majority_accuracy"]] = [f"{m} ({stage})" for m, stage in zip(means, most, strict=True)]
    for stage in dict.fromkeys(stage for each in found for one in each for stage in one.f1):
        rows[f"F1 {stage}"] = [_mean([one.f1.get(stage, NAN) for one in each]) for each in found]
    for key, heading in RECALLS.items():
        rows[f"Uncommon transitions found, {heading}"] = [_recall(each, key) for each in found]
    cells = [(heading, *values) for heading, values in rows.items()]
    return Table((*words(""), *numbers(*columns)), cells, title)


def _confusion(name: str, found: Agreement) -> Table:
    stages = found.scheme.names
    rows = [
        (stage, *row, row[index] / sum(row) if sum(row) else NAN)
        for index, (stage, row) in enumerate(zip(stages, found.confusion.tolist(), strict=True))
    ]
    columns = (*words(""), *numbers(*stages), *numbers("recall", digits=3))
    return Table(columns, rows, f"Epochs: expert (rows) by {name} (columns)")


def _rows(scorings: Sequence[tuple[str, str, Agreement]]) -> Table:
    """Return one row per scoring."""
    rows, last = [], ""
    for name, kind, found in scorings:
        measures = [float(getattr(found, key)) for key in MAIN]
        recalls = [_recall([found], key).partition(" (")[0] for key in RECALLS]
        rows.append((name if name != last else "", TITLES[kind], found.n_epochs, *measures, *recalls))
        last = name
    measured = numbers("accuracy", "majority", "κ", "macro F1", digits=3)
    columns = (*words("file", "stages"), *numbers("epochs"), *measured, *numbers("rare ± 0", "rare ± 2"))
    return Table(columns, rows)


def _recall(found: Sequence[Agreement], key: str) -> str:
    """Return how many of the expert's uncommon transitions were found."""
    with_any = [each for each in found if each.n_rare]
    n_rare = sum(each.n_rare for each in with_any)
    n_found = sum(round(getattr(each, key) * each.n_rare) for each in with_any)
    return f"{n_found} of {n_rare} ({n_found / n_rare:.3f})" if n_rare else "n/a"


def _mean(values: Sequence[float]) -> str:
    known = np.array([value for value in values if not isnan(value)])
    if not len(known):
        return "n/a"
    return f"{known.mean():.3f}" + (f" ± {known.std(ddof=1):.3f}" if len(known) > 1 else "")


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """The consensus of a night, and how far its scorers agree."""

    method: str
    files: list[Path]
    consensus: Hypnogram
    soft: tuple[float, ...]  # soft agreement of each scorer with the others
    kappas: Floats  # (n_scorers, n_scorers)
    output: Path

    @property
    def n_unscored(self) -> int:
        """Epochs without a consensus."""
        return int((self.consensus.labels < 0).sum())

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from paths."""
        odd = disagreeing(self.kappas)
        each = zip(self.files, self.soft, map(mean_known, self.kappas.tolist()), strict=True)
        return {
            "method": self.method,
            "stages": self.consensus.scheme.names,
            "n_epochs": self.consensus.n_epochs,
            "n_unscored": self.n_unscored,
            "scorers": [
                {"file": file, "soft_agreement": soft, "kappa_with_others": kappa, "disagrees": i in odd}
                for i, (file, soft, kappa) in enumerate(each)
            ],
            "output": self.output,
        }


@dataclass(frozen=True, slots=True)
class Merger:
    """Reads the scorings of a night and merges them."""

    options: ReadOptions
    method: Method
    overwrite: bool

    def merge(self, files: list[Path], output: Path) -> Merged:
        """Write the consensus, and return it."""
        _refuse_adjudicated(files)
        panel: list[Hypnogram] = []
        for path in files:
            panel.append(replace(self._read(path, panel), scorer=path.stem))
        with naming_nights(list(map(str, files))):
            refuse_copies(panel)
        merged = consensus(panel, self.method)
        write_text_atomic(output, _votes(merged, panel), overwrite=self.overwrite, spare=files)
        return Merged(self.method, files, merged, soft_agreement(panel), scorer_kappas(panel), output)

    def _read(self, path: Path, others: Sequence[Hypnogram]) -> Hypnogram:
        """Read a scoring, on the epochs of the others; errors name its file."""
        try:
            if path.name.endswith(REVIEW_SUFFIX):
                scoring = read_reviewed([path]).experts[0]
            else:
                scoring = read_scored(path, self.options).final
            return on_epochs_of(others[0] if others else scoring, scoring)
        except StageGuardError as error:
            raise InputError(error_text(error, path)) from None


def compare_experts(files: Sequence[Path], output: Path, merger: Merger, *, as_json: bool) -> None:
    """Merge the scorings of one night, or of the nights that a folder for each expert holds."""
    are_folders = len(files) > 1 and all(is_folder(path) for path in files)
    if are_folders:
        panels, notes = _panels(files)
        make_folder(output)
    else:
        inputs = find_inputs(files, None, merger.options.wanted)
        for scoring in inputs.nights:
            scoring.refuse()
            if scoring.is_listed:
                raise UsageError("a sample list names different nights, expected scorings of one night.")
        files = [scoring.path for scoring in inputs.nights]
        panels, notes = {files[0].stem: list(files)}, list(inputs.notes)

    def work(task: Input) -> Merged:
        return merger.merge(panels[task.id], output / f"{task.id}.tsv" if are_folders else output)

    # errors name the scoring that they are about, and a task of one night has no file of its own
    tasks = [Input(Path(files[0], name) if are_folders else Path(), name) for name in panels]
    outcomes = run_shown(work, tasks, "Merging", quiet=as_json)
    done = [outcome.result for outcome in succeeded(outcomes)]
    if as_json:
        for outcome in outcomes:
            print_line(replace(outcome, file=str(panels[outcome.id][0])).to_dict())
    elif done:
        _experts_answer(done, list(map(str, files)), output).show()
    end(outcomes, notes, as_json=as_json)


def _panels(folders: Sequence[Path]) -> tuple[dict[str, list[Path]], list[str]]:
    """Return the scorings of nights that are in every folder, by name, and a remark on the others."""
    experts = [Experts(folder) for folder in folders]
    names = list(dict.fromkeys(name for each in experts for name in each.names))
    panels = {
        name: [path for each in experts if (path := each.path_for(name)) is not None]
        for name in names
        if all(name in each.names for each in experts)
    }
    if not panels:
        raise InputError(
            f"no night is in every folder: {folders[0].name} has {listed(experts[0].names, 3)}, "
            f"{folders[1].name} {listed(experts[1].names, 3)}. Expected the same names."
        )
    return panels, listed_nights("not in every folder, so left out", set(names) - set(panels))


def mean_known(values: Iterable[float]) -> float:
    """Return the mean of the values that are not NaN; NaN without any."""
    known = [value for value in values if not isnan(value)]
    return float(np.mean(known)) if known else NAN


def _experts_answer(nights: Sequence[Merged], scorers: Sequence[str], output: Path) -> Answer:
    """Return a row for each scorer, with means over the nights, and name those who disagree with all."""
    stacked = np.array([night.kappas for night in nights])
    kappas = np.apply_along_axis(mean_known, 0, stacked)
    columns = {
        "soft agreement": [mean_known(each) for each in zip(*(night.soft for night in nights), strict=True)],
        "κ with others": [mean_known(row) for row in kappas.tolist()],
    }
    rows = list(zip(scorers, *columns.values(), strict=True))
    one = nights[0]
    about = f"{count(one.consensus.n_epochs, 'epoch')}, {one.n_unscored} unscored"
    on = about if len(nights) == 1 else count(len(nights), "night")
    odd = [f"{scorers[i]} (κ {columns['κ with others'][i]:.2f})" for i in disagreeing(kappas)]
    rule = f"more than {DISAGREES:g} below that of the others with one another. Look, or leave it out."
    return Answer(
        [f"Consensus of {len(scorers)} scorers ({one.method}) on {on}"],
        [Table((*words("scorer"), *numbers(*columns, digits=3)), rows)],
        remarks={
            "Disagrees with all": [f"{', '.join(odd)}: {rule}"] if odd else [],
            "Wrote": [output],
        },
    )


def _refuse_adjudicated(files: Sequence[Path]) -> None:
    """Refuse an adjudication beside the reviews that it decided between: they would count twice."""
    reviews = [path for path in files if path.name.endswith(REVIEW_SUFFIX) and path.is_file()]
    journals = {path: read_journal(path) for path in reviews}
    for path, journal in journals.items():
        decided = journal.head.get("begun") if not journal.is_adjudication else None
        for other in journals.values():
            if decided is not None and decided in [place["begun"] for place in other.adjudicated]:
                raise InputError(
                    f"{other.path.name} decides between {path.name} and another review, so that both would "
                    "count twice. Leave the adjudication out."
                )


def _votes(merged: Hypnogram, panel: Sequence[Hypnogram]) -> str:
    """Return the consensus as a table that every command reads, with the votes for each stage."""
    labels = np.array([scoring.merge(merged.scheme).labels for scoring in panel])
    n_for = ((labels == merged.labels) & (merged.labels >= 0)).sum(axis=0).tolist()
    n_scored = (labels >= 0).sum(axis=0).tolist()
    onsets = (merged.offset_seconds + np.arange(merged.n_epochs) * merged.epoch_seconds).tolist()
    lengths = [merged.epoch_seconds] * merged.n_epochs
    rows = list(zip(onsets, lengths, merged.stages.tolist(), n_for, n_scored, strict=True))
    return Table(words("onset", "duration", "stage", "votes", "scorers"), rows).text("tsv")
