"""Run a task on many files, and print their outcomes: results, remarks, failures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from click import UsageError
from click.exceptions import Exit

from stageguard.cli.terminal import Console, count, one_line, print_error, progress
from stageguard.formats.density import FileRemark
from stageguard.formats.outputs import REVIEW_SENTENCE
from stageguard.guard.night import UNSAID_TRAINING
from stageguard.report.numbers import sentence
from stageguard.report.summary import RecordingFacts
from stageguard.report.words import few
from stageguard.runner.manifest import MOST_IN_FULL
from stageguard.runner.pool import Cluster, executor_for
from stageguard.runner.run import Outcome, TaskType, Value, run_files

MOST_NOTES = 8  # remarks on many files in one line
MOST_ROWS = MOST_IN_FULL  # nights that are shown one by one
PARTIAL_FAILURE = 3  # exit code where some files failed and others did not
MOST_PROBLEMS = 20  # different problems that are printed

Outcomes = Sequence[Outcome[Any]]


def run_shown(
    work: Callable[[TaskType], Value],
    tasks: Sequence[TaskType],
    what: str,
    *,
    quiet: bool,
    output_of: Callable[[TaskType], Path] | None = None,
    jobs: int = 1,
    cluster: Cluster | None = None,
) -> list[Outcome[Value]]:
    """Run files with a progress bar on a terminal; return their outcomes."""
    with executor_for(cluster) as executor:
        results = run_files(
            work, tasks, output_of=output_of, jobs=jobs, executor=executor, fatal=(UsageError,)
        )
        return list(progress(results, what, len(tasks), quiet=quiet))


def end(outcomes: Outcomes, notes: Sequence[str] = (), *, as_json: bool, heading: str = "Note") -> None:
    """Print remarks on the run and failures; exit with 1 if all failed, with 3 if some did."""
    print_notes(notes, as_json=as_json, heading=heading)
    print_problems(outcomes, as_json=as_json)
    if not all(outcome.ok for outcome in outcomes):
        raise Exit(PARTIAL_FAILURE if any(outcome.ok for outcome in outcomes) else 1)


def print_headline(file: str, night: RecordingFacts, out: Console, link: str, lights: str = "") -> None:
    """Print the file, the profile, and the length of the night."""
    length = length_words(night.n_epochs, night.epoch_seconds)
    about = f" {link} {one_line(night.profile_name)} · {length}"
    out.print((one_line(Path(file).name), "bold"), about)
    if lights:
        out.print(f"Measured between lights: {lights}")


def length_words(n_epochs: int, epoch_seconds: float) -> str:
    """Return how long a night is, as in `960 epochs of 30 s (8.0 h)`."""
    return f"{count(n_epochs, 'epoch')} of {epoch_seconds:g} s ({n_epochs * epoch_seconds / 3600:.1f} h)"


def print_verdict(verdict: str, out: Console, *, looks_like_experts: bool | None) -> None:
    """Print whether a night looks like expert scoring."""
    colour = {True: "green", False: "yellow", None: "dim"}[looks_like_experts]
    out.print(sentence(verdict), style=f"bold {colour}")


def look_at(reasons: Mapping[str, str], where: str = "column look_at says why") -> list[str]:
    """Return which nights somebody should look at, by name, or why if there is one night."""
    names = [one_line(name) for name, reason in reasons.items() if reason]
    if not names or len(reasons) == 1:
        return [reason for reason in reasons.values() if reason]
    if len(names) <= MOST_NOTES:
        return [f"{one_line(name)}: {reason}" for name, reason in reasons.items() if reason]
    most = MOST_ROWS if len(reasons) <= MOST_ROWS else MOST_NOTES
    return [f"{len(names):,} of {count(len(reasons), 'night')}: {few(names, most)} ({where})"]


def print_review(out: Console) -> None:
    """Print that a person has to review the result."""
    out.print(REVIEW_SENTENCE, style="dim")


def is_worth_saying(note: str) -> bool:
    """Whether to print a remark on reading or decoding a night: not if it holds for nearly every night.

    That the stager's training is unknown is left to the advice, which says so where it matters.
    """
    return note != UNSAID_TRAINING and not isinstance(note, FileRemark)


def print_read(notes: Iterable[str], out: Console) -> None:
    """Print what was assumed while reading, each remark once, in one line."""
    if assumed := list(filter(is_worth_saying, notes)):
        out.list("Read", ["; ".join(first_few(assumed, "remark"))])


def notes_of(outcomes: Outcomes) -> list[str]:
    """Return the remarks on how files were read."""
    return [note for outcome in outcomes for note in outcome.notes]


def first_few(texts: Iterable[str], noun: str, most: int = MOST_NOTES) -> list[str]:
    """Return the first texts, each once, and how many more there are."""
    lines = list(dict.fromkeys(map(one_line, texts)))
    n_more = len(lines) - most
    return lines[:most] + ([f"and {count(n_more, f'more {noun}')}"] if n_more > 0 else [])


def print_notes(notes: Sequence[str], *, as_json: bool, heading: str = "Note") -> None:
    """Print remarks on the run; with JSON on stderr, since they belong to no night."""
    if not as_json:
        Console().list(heading, notes)
        return
    for note in notes:
        print(f"stageguard: note: {one_line(note)}", file=sys.stderr)


def print_warnings(outcomes: Outcomes, out: Console) -> None:
    """Print the first warnings of several nights, each once."""
    texts = [text for outcome in outcomes for text in outcome.warnings]
    out.list("Warning", first_few(texts, "warning"))


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
        files.setdefault(problem, []).append(outcome.file)
    rows = [
        (names[0] + (f" and {len(names) - 1:,} more" if len(names) > 1 else ""), problem)
        for problem, names in files.items()
    ]
    out = Console(stderr=True)
    what = "nights" if in_one_table or in_tables(failed) else "files"
    out.heading(f"{len(failed):,} of {n_files:,} {what} failed")
    out.table(("file", "problem"), rows[:MOST_PROBLEMS])
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
        return [each.id for each in outcomes]
    paths = [Path(outcome.file) for outcome in outcomes]
    unique = len({path.name for path in paths}) == len(paths)
    return [path.name if unique else str(path) for path in paths]
