"""`stageguard grade`: which numbers of a stager are as good as an expert's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from click import UsageError

from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.nights import (
    GradedFile,
    GradeReader,
    ReadOptions,
    find_experts,
    find_scored,
    one_card,
    read_options,
    scored_reading_options,
)
from stageguard.cli.outcomes import end, print_warnings, run_shown
from stageguard.cli.render import check_suffix
from stageguard.cli.terminal import Console, one_line, print_json
from stageguard.errors import InputError
from stageguard.files import check_apart, check_places, write_together
from stageguard.formats.companions import read_subjects
from stageguard.measures.agreement import swapped_words
from stageguard.measures.grade import GradeCard
from stageguard.night.timing import Moment
from stageguard.report.grade import (
    cohorts_of,
    fact_rows,
    grade_page,
    grade_rows,
    group_words,
    lead_words,
    method_words,
)
from stageguard.runner.inputs import Inputs, named_once, scoring_of
from stageguard.runner.run import Outcome, succeeded

PAGE, CARD = ".html", ".json"
STYLES = {"expert-level": "green", "worse": "red"}


@command
@opt.scored_files
@opt.sample_list
@opt.experts("An expert's scorings: folder, table or file; repeatable, or a folder of folders.")
@option("--scorer", metavar="COLUMN", multiple=True, help="An expert's column in such tables; repeatable.")
@option("--subjects", metavar="TABLE", type=opt.PATH, help="Columns id and subject. Default: all different.")
@opt.output("CARD.html|.json", "A page and its .json, or that.")
@option("--stager", metavar="NAME", help="The stager, with version and channels.")
@option("--cohort", metavar="NAME", help="Whom the nights are of.")
@opt.lights
@opt.aligned
@opt.expert_epoch_seconds
@scored_reading_options
@opt.overwrite
@opt.as_json
def grade(
    files: tuple[Path, ...],
    samples: Path | None,
    expert: tuple[Path, ...],
    scorer: tuple[str, ...],
    subjects: Path | None,
    output: Path | None,
    stager: str | None,
    cohort: str | None,
    lights: tuple[Moment | None, Moment | None],
    align: bool,
    expert_epoch_seconds: float | None,
    reading: ReadOptions,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Grade a stager's sleep statistics by experts who scored the same nights.

    Each error is divided by that of one expert against the others. Verdicts need three experts on 25 people.

    Examples
    --------
    stageguard grade decoded --expert scored --output card.html
    stageguard grade nights --expert experts --stager "YASA 0.8 C4-M1"
    """
    written = _places(output, overwrite=overwrite)
    options = replace(read_options(reading), expert_epoch_seconds=expert_epoch_seconds)
    inputs = named_once(find_scored(files, samples, options))
    people = {} if subjects is None else read_subjects(subjects)
    named = {name: row.expert for name, row in people.items() if row.expert is not None}
    named |= {night.id: path for night in inputs.nights if (path := scoring_of(night))}
    experts = find_experts(expert, scorer, named)
    if not experts:
        raise UsageError("missing option --expert: name the folder with an expert's hypnograms.")
    if len(inputs.nights) > 1 and any(each.scorings.is_one_file for each in experts):
        raise UsageError("--expert names one night's scoring: name a folder, or a table of nights.")
    folder = Path() if output is None else output.parent
    reader = GradeReader(options, experts, people, lights, align, folder)
    check_apart(written, inputs.files(samples, subjects))
    outcomes = run_shown(reader.read, inputs.nights, "Measuring", quiet=as_json)
    done = [outcome.result for outcome in succeeded(outcomes)]
    if not done:
        raise InputError(f"no night could be graded. The first problem: {outcomes[0].error}")
    facts = one_card([each.facts for each in done], stager, cohort)
    nights = tuple(each.night for each in done)
    names = tuple(each.name for each in experts)
    for expert_name, pairs in zip(names, zip(*(each.pairs for each in done), strict=True), strict=True):
        remarks = [f"{expert_name}: {text}" for text in swapped_words([night.id for night in nights], pairs)]
        inputs = replace(inputs, notes=(*inputs.notes, *remarks))
    card = GradeCard(nights, names, facts)
    texts = {path: card.text if path.suffix.lower() == CARD else grade_page(card) for path in written}
    if texts:
        write_together(texts, overwrite=overwrite)
    _show(card, outcomes, inputs, written, as_json=as_json)


def _places(output: Path | None, *, overwrite: bool) -> list[Path]:
    """Return the files to write; refuse them before minutes of work."""
    if output is None:
        return []
    check_suffix(output, PAGE, CARD)
    places = [output] if output.suffix.lower() == CARD else [output, output.with_suffix(CARD)]
    check_places(places, overwrite=overwrite)
    return places


def _show(
    card: GradeCard,
    outcomes: Sequence[Outcome[GradedFile]],
    inputs: Inputs,
    written: Sequence[Path],
    *,
    as_json: bool,
) -> None:
    """Print the card as JSON, or as a table with sentences; then remarks and failures."""
    if as_json:
        content: dict[str, Any] = card.to_dict()
        content |= {"files": [outcome.to_dict() for outcome in outcomes]}
        print_json(content | {"written": [str(path) for path in written]})
        end(outcomes, inputs.notes, as_json=as_json)
        return
    out = Console()
    out.print(lead_words(card), style="bold")
    out.table(("", ""), [(name, one_line(value)) for name, value in fact_rows(card)], headed=False)
    out.print()
    if len(card.scorers) > 1:
        columns = ("statistic", ">by the means", ">typical night", ">errs less than", ">error", "verdict")
        rows = [
            (
                *(row[name] for name in ("heading", "mean", "typical", "less", "error")),
                (row["verdict"], STYLES.get(row["verdict"], "")),
            )
            for row in grade_rows(card)
        ]
        out.table(columns, rows)
    else:
        over = [f">÷ {cohort}" for cohort in cohorts_of(card)]
        cells = [(row["heading"], row["error"], *row["about"]) for row in grade_rows(card)]
        out.table(("statistic", ">error", *over), cells)
    for sentence in (*group_words(card), *method_words(card)):
        out.print(sentence)
    print_warnings([outcome for outcome in outcomes if outcome.ok], out)
    out.list("Wrote", written)
    end(outcomes, inputs.notes, as_json=as_json)
