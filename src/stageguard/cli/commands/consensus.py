"""`stageguard consensus`: several experts in, one hypnogram out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from stageguard.base.errors import InputError, StageGuardError
from stageguard.base.files import real_path, write_text_atomic
from stageguard.cli.console import Console
from stageguard.cli.inputs import find_inputs
from stageguard.cli.options import (
    AsJson,
    EpochSeconds,
    Overwrite,
    SchemeName,
    ScoredReading,
    ScoringFormat,
    output_option,
    text_option,
)
from stageguard.cli.parser import Argument, Option, UsageError
from stageguard.cli.present import print_notes
from stageguard.cli.scored_files import ReadOptions, read_options, read_scored
from stageguard.cli.terminal import (
    console,
    count,
    error_text,
    naming_nights,
    one_line,
    print_json,
    print_list,
    table,
)
from stageguard.measures.experts import AmongExperts, among_experts, soft_agreement
from stageguard.measures.experts import consensus as merge
from stageguard.measures.summary import shown
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.matching import on_epochs_of

Scorings = Annotated[
    list[Path],
    Argument(
        "SCORINGS", "Two or more experts' hypnograms of one night, a folder of them, or a quoted pattern."
    ),
]
Method = Annotated[
    Literal["soft-agreement", "majority"],
    Option(help="Ties go to the scorer most agree with, or by majority stay unscored."),
]
Night = Annotated[
    Path | None, text_option("FILE", "A stager's hypnogram or probabilities, to place among them.")
]
Output = Annotated[Path | None, output_option("FILE.tsv", "Where to write the consensus.")]


def consensus(
    scorings: Scorings,
    night: Night = None,
    method: Method = "soft-agreement",
    output: Output = None,
    scheme: SchemeName = None,
    epoch_seconds: EpochSeconds = None,
    scoring_format: ScoringFormat = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Merge several experts' scorings of one night, and show how far each agrees with the others.

    With --night, also show how a stager compares with them.

    Examples
    --------
    stageguard consensus expert.txt expert-2.txt --night night.csv --output consensus.tsv
    """
    options = read_options(
        ScoredReading(epoch_seconds=epoch_seconds, scheme=scheme, scoring_format=scoring_format)
    )
    _refuse_repeats(scorings)
    inputs = find_inputs(scorings, None, options.wanted)
    if any(scoring.is_listed for scoring in inputs.nights):
        raise UsageError("a sample list names different nights, expected scorings of one night.")
    files = [scoring.path for scoring in inputs.nights]
    for scoring in inputs.nights:
        scoring.refuse()
    panel = [replace(_read(path, options), scorer=path.stem) for path in files]
    panel = _on_one_night(panel, files)
    merged = merge(panel, method)
    soft = soft_agreement(panel)
    compared = None
    if night is not None:
        stager = _read(night, options)
        _, stager = _on_one_night([panel[0], stager], [files[0], night])
        compared = among_experts(stager, panel)
    if output is not None:
        read = [*files, *((night,) if night is not None else ())]
        write_text_atomic(output, _table(merged, panel), overwrite=overwrite, spare=read)
    n_unscored = int((merged.labels < 0).sum())
    if as_json:
        report = {
            "method": method,
            "stages": merged.scheme.names,
            "n_epochs": merged.n_epochs,
            "n_unscored": n_unscored,
            "scorers": [{"file": p, "soft_agreement": s} for p, s in zip(files, soft, strict=True)],
            "night": None if compared is None else {"file": night} | compared.to_dict(),
            "output": output,
        }
        print_json(report)
    else:
        out = console()
        out.print(
            f"Consensus of {len(files)} scorers ({method}): {count(merged.n_epochs, 'epoch')}, "
            f"stages {' '.join(merged.scheme.names)}, {n_unscored} unscored"
        )
        _print_scorers(files, soft, compared, out)
        print_list(out, "Wrote", [] if output is None else [output])
    print_notes(inputs.notes, as_json=as_json)


def _print_scorers(
    files: Sequence[Path], soft: Sequence[float], compared: AmongExperts | None, out: Console
) -> None:
    columns = {"soft agreement": soft}
    if compared is not None:
        columns |= {
            "kappa with others": compared.scorer_kappa,
            "stager's kappa": compared.kappa,
            "stager's accuracy": compared.accuracy,
        }
    made = table("scorer", *columns, right=tuple(columns))
    for file, *values in zip(files, *columns.values(), strict=True):
        made.add_row(one_line(file), *(shown(value, 3) for value in values))
    out.print(made)
    print_list(out, "Stager", [] if compared is None else [compared])


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
        return read_scored(path, options).final
    except StageGuardError as error:
        raise InputError(error_text(error, path)) from None


def _refuse_repeats(scorings: list[Path]) -> None:
    """Refuse a file that is named twice: one scorer would have two votes."""
    seen: dict[Path, Path] = {}
    for path in scorings:
        first = seen.setdefault(real_path(path), path)
        if first is not path:
            raise UsageError(
                f"{str(first)!r} and {str(path)!r} are one file, expected each scorer once. Leave one out."
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
