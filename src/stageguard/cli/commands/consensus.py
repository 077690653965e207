"""`stageguard consensus`: several experts in, one hypnogram out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
from click import UsageError

from stageguard.arrays import NAN, Floats
from stageguard.cli import options as opt
from stageguard.cli.cohort_nights import listed_nights
from stageguard.cli.command import command, option
from stageguard.cli.outcomes import finish, print_notes, run_shown
from stageguard.cli.scored_files import Experts, ReadOptions, read_options, read_scored
from stageguard.cli.terminal import Console, count, error_text, naming_nights, print_json
from stageguard.errors import InputError, StageGuardError
from stageguard.files import make_folder, real_path, write_text_atomic
from stageguard.formats.density import listed
from stageguard.formats.raw_night import FileOptions
from stageguard.measures.experts import (
    DISAGREES,
    AmongExperts,
    among_experts,
    disagreeing,
    refuse_copies,
    scorer_kappas,
    soft_agreement,
)
from stageguard.measures.experts import consensus as merge
from stageguard.night.align import on_epochs_of
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.report.summary import shown
from stageguard.review.journal import REVIEW_SUFFIX, read_journal
from stageguard.review.scorings import read_reviewed
from stageguard.runner.inputs import Input, find_inputs
from stageguard.runner.run import Outcome
from stageguard.storage import is_folder


@command
@click.argument(
    "scorings",
    nargs=-1,
    required=True,
    type=opt.PATH,
    help="Two or more experts' hypnograms or reviews (.review.jsonl) of one night, a folder of them, or a "
    "quoted pattern; or a folder for each expert, with many nights.",
)
@option(
    "--night",
    metavar="FILE",
    type=opt.PATH,
    help="A stager's hypnogram or probabilities, to place among them; or a folder of nights.",
)
@option(
    "--method",
    type=click.Choice(["soft-agreement", "majority"]),
    default="soft-agreement",
    help="Ties go to the scorer most agree with, or by majority stay unscored.",
)
@option(
    "--output",
    "-o",
    metavar="FILE.tsv",
    type=opt.PATH,
    help="Where to write the consensus; a folder for many nights.",
)
@opt.scheme
@opt.epoch_seconds
@opt.scoring_format
@opt.overwrite
@opt.as_json
def consensus(
    scorings: tuple[Path, ...],
    night: Path | None,
    method: Literal["soft-agreement", "majority"],
    output: Path | None,
    scheme: str | None,
    epoch_seconds: float | None,
    scoring_format: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Merge several experts' scorings of one night or of many, and show how far each agrees with the others.

    A scorer whose kappa with the others is far below theirs is named. With --night, also show how a stager
    compares with them.

    Examples
    --------
    stageguard consensus expert.txt expert-2.txt --night night.csv --output consensus.tsv
    stageguard consensus expert-a expert-b expert-c --output consensus
    """
    options = read_options(
        ReadOptions(
            scheme=None if scheme is None else StageScheme.named(scheme),
            density=FileOptions(epoch_seconds=epoch_seconds),
            scoring_format=scoring_format,
        )
    )
    _refuse_repeats(scorings)
    merger = _Merger(options, method, overwrite=overwrite)
    if len(scorings) > 1 and all(is_folder(path) for path in scorings):
        _many_nights(scorings, night, output, merger, as_json=as_json)
        return
    inputs = find_inputs(scorings, None, options.wanted)
    if any(scoring.is_listed for scoring in inputs.nights):
        raise UsageError("a sample list names different nights, expected scorings of one night.")
    for scoring in inputs.nights:
        scoring.refuse()
    merged = merger.merge([scoring.path for scoring in inputs.nights], night, output)
    if as_json:
        print_json(merged.to_dict())
    else:
        out = Console()
        out.print(f"Consensus of {len(merged.files)} scorers ({method}): {merged.facts}")
        _print_scorers([merged], list(map(str, merged.files)), out)
        out.list("Stager", [] if merged.stager is None else [merged.stager])
        out.list("Wrote", [] if output is None else [output])
    print_notes(inputs.notes, as_json=as_json)


@dataclass(frozen=True, slots=True, eq=False)
class MergedScoring:
    """The consensus of a night, and how far its scorers agree."""

    method: str
    files: list[Path]
    consensus: Hypnogram
    soft: tuple[float, ...]  # soft agreement of each scorer with the others
    kappas: Floats  # (n_scorers, n_scorers)
    night: Path | None = None
    stager: AmongExperts | None = None
    output: Path | None = None
    notes: tuple[str, ...] = ()

    @property
    def facts(self) -> str:
        """Epochs and stages in words."""
        merged = self.consensus
        n_unscored = int((merged.labels < 0).sum())
        stages = " ".join(merged.scheme.names)
        return f"{count(merged.n_epochs, 'epoch')}, stages {stages}, {n_unscored} unscored"

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from paths."""
        odd = disagreeing(self.kappas)
        return {
            "method": self.method,
            "stages": self.consensus.scheme.names,
            "n_epochs": self.consensus.n_epochs,
            "n_unscored": int((self.consensus.labels < 0).sum()),
            "scorers": [
                {"file": file, "soft_agreement": soft, "kappa_with_others": kappa, "disagrees": i in odd}
                for i, (file, soft, kappa) in enumerate(
                    zip(self.files, self.soft, with_others(self.kappas), strict=True)
                )
            ],
            "night": None if self.stager is None else {"file": self.night} | self.stager.to_dict(),
            "output": self.output,
        }


@dataclass(frozen=True, slots=True)
class _Merger:
    """Reads the scorings of a night and merges them."""

    options: ReadOptions
    method: Literal["soft-agreement", "majority"]
    overwrite: bool

    def merge(self, files: list[Path], night: Path | None, output: Path | None) -> MergedScoring:
        """Return the consensus, compared with a stager and written if asked for."""
        _refuse_adjudicated(files)
        panel = [replace(_read(path, self.options), scorer=path.stem) for path in files]
        panel = _on_one_night(panel, files)
        with naming_nights(list(map(str, files))):
            refuse_copies(panel)
        merged = merge(panel, self.method)
        compared = None
        if night is not None:
            _, stager = _on_one_night([panel[0], _read(night, self.options)], [files[0], night])
            compared = among_experts(panel, stager)
        if output is not None:
            read = [*files, *((night,) if night is not None else ())]
            write_text_atomic(output, _table(merged, panel), overwrite=self.overwrite, spare=read)
        return MergedScoring(
            *(self.method, files, merged, soft_agreement(panel), scorer_kappas(panel)),
            *(night, compared, output),
        )


def _many_nights(
    folders: Sequence[Path], night: Path | None, output: Path | None, merger: _Merger, *, as_json: bool
) -> None:
    """Merge the nights that two or more folders hold, matched by their names."""
    if night is not None and not is_folder(night):
        raise UsageError("--night is one file, expected a folder with a stager's nights, named like theirs.")
    experts = [Experts(folder) for folder in folders]
    stagers = None if night is None else Experts(night)
    names = list(dict.fromkeys(name for each in experts for name in each.names))
    everyone = [name for name in names if all(name in each.names for each in experts)]
    if not everyone:
        raise InputError(
            f"no night is in every folder: {folders[0].name} has {listed(experts[0].names, 3)}, "
            f"{folders[1].name} {listed(experts[1].names, 3)}. Expected the same names."
        )
    notes = listed_nights("not in every folder, so left out", set(names) - set(everyone))
    if output is not None:
        make_folder(output)

    def work(task: Input) -> MergedScoring:
        files = [path for each in experts if (path := each.path_for(task.id)) is not None]
        by_stager = None if stagers is None else stagers.path_for(task.id)
        if stagers is not None and by_stager is None:
            raise InputError(f"no night of the stager is named {task.id!r}, expected one in {night}.")
        return merger.merge(files, by_stager, None if output is None else output / f"{task.id}.tsv")

    def show(outcomes: Sequence[Outcome[MergedScoring]], out: Console) -> None:
        out.print(f"Consensus of {len(folders)} scorers ({merger.method}) on {count(len(outcomes), 'night')}")
        _print_scorers([outcome.result for outcome in outcomes], [str(folder) for folder in folders], out)
        out.list("Wrote", [] if output is None else [output])

    tasks = [Input(folders[0] / name, name) for name in everyone]
    finish(run_shown(work, tasks, "Merging", quiet=as_json), show, notes, as_json=as_json)


def with_others(kappas: Floats) -> list[float]:
    """Return the mean kappa of each scorer with the others; NaN without one."""
    return [float(np.mean(known)) if len(known := row[~np.isnan(row)]) else NAN for row in kappas]


def _print_scorers(nights: Sequence[MergedScoring], scorers: Sequence[str], out: Console) -> None:
    """Print one row per scorer, with means over the nights, and name those who disagree with all."""
    stacked = np.array([night.kappas for night in nights])
    known = ~np.isnan(stacked)
    kappas = np.where(known, stacked, 0.0).sum(axis=0) / np.where(known.any(axis=0), known.sum(axis=0), NAN)
    columns = {
        "soft agreement": [mean_known([night.soft[i] for night in nights]) for i in range(len(scorers))],
        "kappa with others": with_others(kappas),
    }
    placed = [night.stager for night in nights if night.stager is not None]
    if placed:
        for title, values in (
            ("stager's kappa", [each.kappa for each in placed]),
            ("stager's accuracy", [each.accuracy for each in placed]),
        ):
            columns[title] = [mean_known([row[i] for row in values]) for i in range(len(scorers))]
    rows = [
        (scorer, *(shown(values[i], 3) for values in columns.values())) for i, scorer in enumerate(scorers)
    ]
    out.table(("scorer", *(f">{title}" for title in columns)), rows)
    odd = [f"{scorers[i]} (kappa {columns['kappa with others'][i]:.2f})" for i in disagreeing(kappas)]
    if odd:
        rule = f"more than {DISAGREES:g} below that of the others with one another"
        out.list("Disagrees with all", [f"{', '.join(odd)}, {rule}: look, or leave it out"])


def mean_known(values: Sequence[float]) -> float:
    """Return the mean of the values that are not NaN; NaN without any."""
    known = [value for value in values if value == value]
    return float(np.mean(known)) if known else NAN


def _on_one_night(panel: list[Hypnogram], files: list[Path]) -> list[Hypnogram]:
    """Return scorings on the epochs of the first; errors name the files."""
    matched = []
    for scoring, path in zip(panel, files, strict=True):
        with naming_nights([path.name, files[0].name]):
            matched.append(on_epochs_of(panel[0], scoring))
    return matched


def _read(path: Path, options: ReadOptions) -> Hypnogram:
    """Read a scoring; errors name its file."""
    try:
        if path.name.endswith(REVIEW_SUFFIX):
            return read_reviewed([path]).experts[0]
        return read_scored(path, options).final
    except StageGuardError as error:
        raise InputError(error_text(error, path)) from None


def _refuse_repeats(scorings: Sequence[Path]) -> None:
    """Refuse a file that is named twice: one scorer would have two votes."""
    seen: dict[Path, Path] = {}
    for path in scorings:
        first = seen.setdefault(real_path(path), path)
        if first is not path:
            raise UsageError(
                f"{str(first)!r} and {str(path)!r} are one file, expected each scorer once. Leave one out."
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


def _table(merged: Hypnogram, panel: list[Hypnogram]) -> str:
    """Return the consensus as a table that every command reads, with the votes for each stage."""
    labels = np.array([scoring.merge(merged.scheme).labels for scoring in panel])
    n_for = ((labels == merged.labels) & (merged.labels >= 0)).sum(axis=0)
    n_scored = (labels >= 0).sum(axis=0)
    lines = ["onset\tduration\tstage\tvotes\tscorers"]
    for epoch, row in enumerate(zip(merged.stages, n_for, n_scored, strict=True)):
        onset = merged.offset_seconds + epoch * merged.epoch_seconds
        lines.append("\t".join([f"{onset:.10g}", f"{merged.epoch_seconds:.10g}", *map(str, row)]))
    return "\n".join(lines) + "\n"
