"""Print the outcomes of files: one night in full, many as a table, failures as rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click import UsageError
from click.exceptions import Exit

from stageguard.cli.console import Console, Table, Text
from stageguard.cli.progress import progress
from stageguard.cli.terminal import (
    count,
    in_options,
    one_line,
    print_error,
    print_heading,
    print_json,
    print_list,
)
from stageguard.formats.density import FileRemark
from stageguard.formats.outputs import REVIEW_SENTENCE
from stageguard.guard.inputs import UNSAID_TRAINING
from stageguard.measures.cohort import count_steered
from stageguard.night.quantities import EARLY_WORDS, JOINT, steered_words
from stageguard.report.summary import BeforeAfter, DecodingSummary, RecordingFacts, looking_like_experts
from stageguard.runner.executors import executor_for
from stageguard.runner.manifest import MOST_IN_FULL, DecodedFile
from stageguard.runner.run import Outcome, TaskType, Value, run_files, succeeded

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from stageguard.guard.explain import Change

MOST_NOTES = 8  # remarks on many files in one line
MOST_BOUTS = 3  # bouts of removed early REM that are listed for a night
MOST_ROWS = MOST_IN_FULL  # nights that are shown one by one
MOST_PROBLEMS = 20  # different problems that are printed
PLACE_STYLE = {"below": "yellow", "inside": "green", "above": "yellow", "early": "red"}

Outcomes = Sequence[Outcome[Any]]


def run_shown(
    work: Callable[[TaskType], Value],
    tasks: Sequence[TaskType],
    what: str,
    *,
    quiet: bool,
    output_of: Callable[[TaskType], Path] | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
) -> list[Outcome[Value]]:
    """Run files with a progress bar on a terminal; return their outcomes."""
    with executor_on(scheduler) as executor:
        results = run_files(
            work, tasks, output_of=output_of, jobs=jobs, executor=executor, fatal=(UsageError,)
        )
        return list(progress(results, what, len(tasks), quiet=quiet))


def executor_on(scheduler: str | None) -> AbstractContextManager[Executor | None]:
    """Return an executor on a Dask cluster, or None without a scheduler, as a context manager."""
    if scheduler is None:
        return nullcontext()
    return executor_for(scheduler)


def run_and_show(
    work: Callable[[TaskType], Value],
    tasks: Sequence[TaskType],
    what: str,
    show: Callable[[list[Outcome[Value]]], None],
    *,
    as_json: bool,
    show_one: Callable[[Outcome[Value]], None] | None = None,
    output_of: Callable[[TaskType], Path] | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
    notes: Sequence[str] = (),
) -> list[Outcome[Value]]:
    """Run files and `finish`; return the outcomes if no file failed."""
    outcomes = run_shown(
        work, tasks, what, quiet=as_json, output_of=output_of, jobs=jobs, scheduler=scheduler
    )
    finish(outcomes, show, notes, show_one=show_one, as_json=as_json)
    return outcomes


def finish(
    outcomes: Sequence[Outcome[Value]],
    show: Callable[[list[Outcome[Value]]], None],
    notes: Sequence[str] = (),
    *,
    show_one: Callable[[Outcome[Value]], None] | None = None,
    as_json: bool,
) -> None:
    """Print all outcomes as JSON, or `show` the successful ones (`show_one` a single file); then failures."""
    done = succeeded(outcomes)
    if as_json:
        print_json([outcome.to_dict() for outcome in outcomes])
    elif done and len(outcomes) == 1 and show_one is not None:
        show_one(done[0])
    elif done:
        show(done)
    print_notes(notes, as_json=as_json)
    end(outcomes, as_json=as_json)


def end(outcomes: Outcomes, *, as_json: bool) -> None:
    """Print failures, and exit with 1 if there are any."""
    print_problems(outcomes, as_json=as_json)
    if not all(outcome.ok for outcome in outcomes):
        raise Exit(1)


def print_night(
    outcome: Outcome[DecodedFile], out: Console | None = None, more: Sequence[Sequence[str]] = ()
) -> None:
    """Print the before/after table of one file, the changes, assumptions, warnings and outputs."""
    out = out or Console()
    night = outcome.result
    summary = night.summary
    assert summary is not None
    print_summary(outcome.file, summary, out, more)
    if night.changes:
        print_changes(night.changes, out)
    print_read([outcome], out)
    print_list(out, "Assumed", filter(is_worth_saying, summary.assumptions))
    print_list(out, "Advice", summary.advice)
    print_list(out, "Warning", outcome.warnings)
    print_list(out, "Wrote", [", ".join(map(str, night.outputs.values()))])
    print_review(out)


def is_worth_saying(note: str) -> bool:
    """Whether to print a remark on reading or decoding a night: not if it holds for nearly every night.

    That the stager's training is unknown is left to the advice, which says so where it matters.
    """
    return note != UNSAID_TRAINING and not isinstance(note, FileRemark)


def print_read(outcomes: Outcomes, out: Console) -> None:
    """Print what was assumed while reading files, in one line."""
    print_read_notes([note for outcome in outcomes for note in outcome.notes], out)


def print_read_notes(notes: Sequence[str], out: Console) -> None:
    """Print what was assumed while reading, each remark once, in one line."""
    if assumed := list(filter(is_worth_saying, notes)):
        print_list(out, "Read", ["; ".join(_first_few(assumed, "remark"))])


def _first_few(texts: Iterable[str], noun: str, most: int = MOST_NOTES) -> list[str]:
    """Return the first texts, each once, and how many more there are."""
    lines = list(dict.fromkeys(map(one_line, texts)))
    n_more = len(lines) - most
    return lines[:most] + ([f"and {count(n_more, f'more {noun}')}"] if n_more > 0 else [])


def print_notes(notes: Sequence[str], *, as_json: bool, heading: str = "Note") -> None:
    """Print remarks on the run; with JSON on stderr, since they belong to no night."""
    if not as_json:
        print_list(Console(), heading, notes)
        return
    for note in notes:
        print(f"stageguard: note: {one_line(note)}", file=sys.stderr)


def print_warnings(outcomes: Outcomes, out: Console) -> None:
    """Print the first warnings of several nights, each once."""
    texts = [text for outcome in outcomes for text in outcome.warnings]
    print_list(out, "Warning", _first_few(texts, "warning"))


def print_changes(changes: Sequence[Change], out: Console) -> None:
    """Print every change of a night, the rule that decided, and the cost of keeping the original."""
    from stageguard.guard.explain import in_bouts  # only changes need it

    numbers = ("epoch", "p before", "p after", "cost (nats)")
    shown = Table("epoch", "time", "before", "after", "rule", *numbers[1:], right=numbers)
    for change in changes:
        seconds = change.onset_seconds
        elapsed = f"+{seconds // 3600:.0f}:{seconds // 60 % 60:02.0f}:{seconds % 60:02.0f}"
        shown.add_row(
            f"{change.first_epoch + 1:,}",
            elapsed if change.clock is None else change.clock.isoformat()[11:19],
            in_bouts(change.before),
            in_bouts(change.after),
            change.rule,
            f"{change.probability_before:.2f}",
            f"{change.probability_after:.2f}",
            "forbidden" if change.margin_nats == float("inf") else f"{change.margin_nats:.2f}",
        )
    print_heading(out, f"Changes ({len(changes):,}): what keeping the stager's choice would cost")
    out.print(shown)


def print_headline(file: str, night: RecordingFacts, out: Console, link: str, lights: str = "") -> None:
    """Print the file, the profile, and the length and stages of the night."""
    length = length_words(night.n_epochs, night.epoch_seconds)
    about = f" {link} {one_line(night.profile_name)}: {length}, stages {one_line(' '.join(night.stages))}"
    out.print(Text((one_line(Path(file).name), "bold"), about))
    if lights:
        out.print(f"Measured between lights: {lights}")


def length_words(n_epochs: int, epoch_seconds: float) -> str:
    """Return how long a night is, as in `960 epochs of 30 s (8.0 h)`."""
    return f"{count(n_epochs, 'epoch')} of {epoch_seconds:g} s ({n_epochs * epoch_seconds / 3600:.1f} h)"


def print_summary(
    file: str, summary: DecodingSummary, out: Console, more: Sequence[Sequence[str]] = ()
) -> None:
    """Print what changed, as a before/after table with `more` rows and in sentences."""
    print_headline(file, summary.facts, out, "with", summary.lights)
    print_verdict(summary.verdict, out, looks_like_experts=summary.joint.looks_like_experts)
    shown = Table("", "before", "after", "expert range", right=("before", "after"))
    for row in summary.indicators:
        told = row if summary.is_early_rem_odd else _without_early(row)
        title, before, after, band = told.cells()
        shown.add_row(title, placed(before, told.before_place), placed(after, told.after_place), band)
    for cells in more:
        shown.add_row(*cells)
    changed = f"{summary.n_changed:,} ({summary.changed_percent:.1f} %)"
    shown.add_row("Epochs changed", "", changed, "")
    if summary.n_filled:
        shown.add_row("Epochs filled (no evidence)", "", f"{summary.n_filled:,}", "")
    if summary.n_unscored:
        shown.add_row("Epochs left unscored", "", f"{summary.n_unscored:,}", "")
    out.print(shown)
    if any(row.is_steered for row in summary.indicators):
        out.print(steered_words(count_steered([summary.steered])))
    if summary.range_note:
        out.print(summary.range_note)
    out.print(in_options(summary.deed))
    if summary.aside:
        out.print(summary.aside, style="bold red")
    if summary.is_early_rem_odd:
        _print_early_rem(summary, out)
    if summary.expected:
        out.print(summary.expected)


def _print_early_rem(summary: DecodingSummary, out: Console) -> None:
    """List early REM that was removed, and advise to look at the night if some is left."""
    if summary.early_rem_removed:
        removed = _first_few(summary.early_rem_removed, "bout", MOST_BOUTS)
        print_list(out, "Early REM removed", ["; ".join(removed)])
    is_early = any(row.after_place == "early" for row in summary.indicators)
    was_early = any(row.before_place == "early" for row in summary.indicators)
    if is_early or (was_early and not summary.early_rem_removed):
        out.print(EARLY_WORDS)


def print_verdict(verdict: str, out: Console, *, looks_like_experts: bool | None) -> None:
    """Print whether a night looks like expert scoring."""
    colour = {True: "green", False: "yellow", None: "dim"}[looks_like_experts]
    out.print(f"The night {verdict}.", style=f"bold {colour}")


def _without_early(row: BeforeAfter) -> BeforeAfter:
    """Return a row that does not call a latency early."""
    before, after = ("" if place == "early" else place for place in (row.before_place, row.after_place))
    return replace(row, before_place=before, after_place=after)


def placed(cell: str, place: str) -> Text:
    """Return a cell in the colour of its place: below, inside or above the experts' range, or early."""
    return Text((cell, PLACE_STYLE.get(place, "")))


def print_review(out: Console) -> None:
    """Print that a person has to review the result."""
    out.print(REVIEW_SENTENCE, style="dim")


def print_cohort(outcomes: Sequence[Outcome[DecodedFile]], out: Console | None = None) -> None:
    """Print one row per decoded file, and what to look at."""
    if not outcomes:
        return
    out = out or Console()
    numbers = ("epochs", "changed", "joint score", "FI before", "FI after")
    shown = Table("file", *numbers, "warnings", right=numbers)
    for outcome in outcomes:
        summary = outcome.result.summary
        assert summary is not None
        rows = {row.key: row for row in summary.indicators}
        joint = _before_and_after(rows.get(JOINT.key))[1]
        before, after = _before_and_after(rows.get("fragmentation_index"))
        shown.add_row(
            one_line(outcome.file),
            f"{summary.facts.n_epochs:,}",
            f"{summary.changed_percent:.1f} %",
            joint,
            before,
            after,
            one_line("; ".join(map(one_line, outcome.warnings))),
        )
    out.print(shown)
    folders = sorted({str(outcome.result.outputs["tsv"].parent) for outcome in outcomes})
    out.print(looking_like_experts([outcome.result.row.joint.looks_like_experts for outcome in outcomes]))
    people = [each for each in outcomes if each.result.summary and each.result.summary.is_early_rem_odd]
    removed = [outcome.file for outcome in people if outcome.result.row.early_rem_removed]
    print_list(out, "Early REM removed", [some_nights(removed, len(outcomes))] if removed else [])
    print_early_rem_kept({each.file: each.result.row.early_rem_kept_minutes for each in people}, out)
    out.print(f"Wrote {len(outcomes)} hypnogram{'s' * (len(outcomes) != 1)} to {', '.join(folders)}")
    print_read(outcomes, out)
    assumed = [text for each in outcomes if each.result.summary for text in each.result.summary.assumptions]
    print_list(out, "Assumed", _first_few(filter(is_worth_saying, assumed), "remark"))
    print_review(out)


def _before_and_after(row: BeforeAfter | None) -> tuple[Text, Text]:
    """Return two cells; a night without sleep has no such row."""
    if row is None:
        return Text("n/a"), Text("n/a")
    _, before, after, _ = row.cells()
    return placed(before, row.before_place), placed(after, row.after_place)


def print_early_rem_kept(nights: Mapping[str, float], out: Console) -> None:
    """List the nights that keep early REM which the estimate of REM latency passes over.

    `nights` are the minutes from sleep onset to that REM, NaN without any.
    """
    kept = [name for name, minutes in nights.items() if not isnan(minutes)]
    if kept:
        text = f"{some_nights(kept, len(nights))}: the best estimate of REM latency passes over it"
        print_list(out, "Early REM kept", [f"{text} (column early_rem_kept_minutes). {look_at(kept)}"])


def some_nights(names: Sequence[str], n_nights: int) -> str:
    """Return how many of all nights these are, and the names of the first."""
    more = f" and {len(names) - MOST_NOTES:,} more" if len(names) > MOST_NOTES else ""
    named = ", ".join(map(one_line, names[:MOST_NOTES]))
    return f"on {len(names):,} of {count(n_nights, 'night')}: {named}{more}"


def look_at(names: Sequence[str]) -> str:
    """Return the request to look at one night, or at several."""
    return "Look at it." if len(names) == 1 else "Look at them."


def print_problems(
    outcomes: Outcomes,
    *,
    as_json: bool,
    n_files: int | None = None,
    listed_in: Path | None = None,
    in_one_table: bool = False,
) -> None:
    """Print failures on stderr: one line for a single file, a row per problem for many.

    A row names the file, or the first and how many more. `n_files` is the number of all files, if `outcomes`
    are only the failures. `listed_in` is a file that lists them all. With `in_one_table`, they are nights.
    """
    failed = [outcome for outcome in outcomes if not outcome.ok]
    n_files = len(outcomes) if n_files is None else n_files
    if failed and n_files == 1:
        print_error(failed[0].error)
        return
    if as_json or not failed:
        return
    files: dict[str, list[str]] = {}
    for outcome in failed:
        name = Path(outcome.file).name
        problem = one_line(outcome.error).removeprefix(f"{outcome.file}: ").removeprefix(f"{name}: ")
        files.setdefault(problem, []).append(one_line(outcome.file))
    shown = Table("file", "problem")
    for problem, names in list(files.items())[:MOST_PROBLEMS]:
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        shown.add_row(f"{names[0]}{more}", problem)
    out = Console(stderr=True)
    what = "nights" if in_one_table or in_tables(failed) else "files"
    print_heading(out, f"{len(failed):,} of {n_files:,} {what} failed")
    out.print(shown)
    if len(files) > MOST_PROBLEMS:
        where = "" if listed_in is None else f", all of them in {listed_in}"
        out.print(f"and {count(len(files) - MOST_PROBLEMS, 'more problem')}{where}")
    elif listed_in is not None and len(files) < len(failed):
        out.print(f"All of them with their files: {listed_in}")


def in_tables(outcomes: Outcomes) -> bool:
    """Whether all outcomes are nights of tables of many nights."""
    return all(outcome.is_in_table for outcome in outcomes)


def short_names(outcomes: Outcomes) -> list[str]:
    """Return the names of the files for a table: without folders if they stay unique.

    Nights of tables are named by their ids.
    """
    if in_tables(outcomes) and len({each.id for each in outcomes}) == len(outcomes):
        return [one_line(each.id) for each in outcomes]
    paths = [Path(outcome.file) for outcome in outcomes]
    unique = len({path.name for path in paths}) == len(paths)
    return [one_line(path.name if unique else path) for path in paths]
