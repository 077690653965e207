"""`stageguard consensus`: several experts in, one hypnogram out."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from stageguard.base.errors import InputError, StageGuardError
from stageguard.base.files import real_path, write_text_atomic
from stageguard.cli.inputs import find_inputs
from stageguard.cli.options import (
    AsJson,
    EpochSeconds,
    Overwrite,
    Reading,
    SchemeName,
    ScoringFormat,
    given_path,
)
from stageguard.cli.present import print_notes
from stageguard.cli.scored_files import ReadOptions, read_options, read_scored
from stageguard.cli.terminal import (
    console,
    count,
    error_text,
    in_options,
    one_line,
    print_json,
    print_list,
    table,
)
from stageguard.measures.bouts import check_aligned
from stageguard.measures.experts import among_experts, soft_agreement
from stageguard.measures.experts import consensus as merge
from stageguard.night.hypnogram import Hypnogram


class Method(StrEnum):
    """How a tie is broken."""

    soft_agreement = "soft-agreement"
    majority = "majority"


Scorings = Annotated[
    list[Path],
    typer.Argument(
        metavar="SCORINGS",
        parser=given_path,
        help="Two or more experts' hypnograms of one night, a folder of them, or a quoted pattern.",
    ),
]
MethodOption = Annotated[
    Method,
    typer.Option("--method", help="Ties go to the scorer most agree with, or by majority stay unscored."),
]
Night = Annotated[
    Path | None,
    typer.Option(
        "--night",
        metavar="FILE",
        parser=given_path,
        help="A stager's hypnogram or probabilities, to place among them.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE.tsv", parser=given_path, help="Where to write the consensus."
    ),
]


def consensus(
    scorings: Scorings,
    night: Night = None,
    method: MethodOption = Method.soft_agreement,
    output: Output = None,
    scheme: SchemeName = None,
    epoch_seconds: EpochSeconds = None,
    scoring_format: ScoringFormat = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Merge several experts' scorings of one night, and show how far each agrees with the others.

    With --night, where a stager stands among them.
    """
    reading = Reading(epoch_seconds=epoch_seconds)
    options = read_options(reading, scheme=scheme, scoring_format=scoring_format)
    _refuse_repeats(scorings)
    inputs = find_inputs(scorings, None, options.wanted)
    if any(one.is_listed for one in inputs.nights):
        raise typer.BadParameter("a sample list names different nights, expected scorings of one night.")
    files = [one.path for one in inputs.nights]
    for one in inputs.nights:
        one.refuse()
    panel = [_named(_read(path, options), path) for path in files]
    _check_panel(panel, files)
    merged = merge(panel, method.value)
    soft = soft_agreement(panel)
    own = None if night is None else _read(night, options)
    if own is not None and night is not None:
        _check_panel([panel[0], own], [files[0], night])
    place = None if own is None else among_experts(own, panel)
    report: dict[str, Any] = {
        "method": method.value,
        "stages": list(merged.scheme.names),
        "n_epochs": merged.n_epochs,
        "n_unscored": int((merged.labels < 0).sum()),
        "scorers": [{"file": str(p), "soft_agreement": s} for p, s in zip(files, soft, strict=True)],
        "night": None if place is None else {"file": str(night)} | place.to_dict(),
        "output": None if output is None else str(output),
    }
    if output is not None:
        read = [*files, *((night,) if night is not None else ())]
        write_text_atomic(output, _table(merged, panel), overwrite=overwrite, spare=read)
    if as_json:
        print_json(report)
    else:
        _print(report, None if place is None else str(place))
    print_notes(inputs.notes, as_json=as_json)


def _check_panel(panel: list[Hypnogram], files: list[Path]) -> None:
    """Refuse scorings of other epochs than the first one's, by the names of their files."""
    for one, path in zip(panel[1:], files[1:], strict=True):
        try:
            check_aligned(panel[0], one)
        except InputError as error:
            raise InputError(in_options(error, [files[0].name, path.name])) from None


def _read(path: Path, options: ReadOptions) -> Hypnogram:
    """Read a scoring; what is wrong with it names its file."""
    try:
        return read_scored(path, options).final
    except StageGuardError as error:
        raise InputError(error_text(error, path)) from None


def _refuse_repeats(scorings: list[Path]) -> None:
    """Refuse a file that is named twice: one scorer would have two votes."""
    seen: dict[Path, Path] = {}
    for path in scorings:
        first = seen.setdefault(real_path(path), path)
        if first is not path:
            raise typer.BadParameter(
                f"{str(first)!r} and {str(path)!r} are one file, expected each scorer once. Leave one out."
            )


def _named(hypnogram: Hypnogram, path: Path) -> Hypnogram:

    return replace(hypnogram, scorer=path.stem)


def _table(merged: Hypnogram, panel: list[Hypnogram]) -> str:
    """Return the consensus as a table that every command reads, with the votes for each stage."""
    votes = [one.merge(merged.scheme).labels for one in panel]
    lines = ["onset\tduration\tstage\tvotes\tscorers"]
    for epoch, (label, stage) in enumerate(zip(merged.labels.tolist(), merged.stages.tolist(), strict=True)):
        own = [labels[epoch] for labels in votes]
        n_for, n_scored = (sum(v == label for v in own) if label >= 0 else 0), sum(v >= 0 for v in own)
        onset = merged.offset_seconds + epoch * merged.epoch_seconds
        lines.append(f"{onset:.10g}\t{merged.epoch_seconds:.10g}\t{stage}\t{n_for}\t{n_scored}")
    return "\n".join(lines) + "\n"


def _print(report: dict[str, Any], place: str | None) -> None:

    out = console()
    n_scorers = len(report["scorers"])
    out.print(
        f"Consensus of {n_scorers} scorers ({report['method']}): {count(report['n_epochs'], 'epoch')}, "
        f"stages {' '.join(report['stages'])}, {report['n_unscored']} unscored"
    )
    numbers = ("soft agreement", "kappa with others", "stager's kappa", "stager's accuracy")
    of_night = [None] * n_scorers if report["night"] is None else report["night"]["scorers"]
    shown = table("scorer", *(numbers if report["night"] else numbers[:1]), right=numbers)
    for own, compared in zip(report["scorers"], of_night, strict=True):
        cells = [_number(own["soft_agreement"])]
        if compared is not None:
            keys = ("kappa_with_others", "stager_kappa", "stager_accuracy")
            cells += [_number(compared[key]) for key in keys]
        shown.add_row(one_line(own["file"]), *cells)
    out.print(shown)
    print_list(out, "Stager", [] if place is None else [place])
    print_list(out, "Wrote", [] if report["output"] is None else [report["output"]])


def _number(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:.3f}"
