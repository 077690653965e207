"""Report a folder, a list or a table of nights as one page, on which a failed night is a row."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from click import UsageError

from stageguard.base.errors import StageGuardError
from stageguard.base.files import check_places, file_error, write_text_atomic
from stageguard.cli import options as opt
from stageguard.cli.cohort_nights import CohortReader, Groups, grouping, listed_nights
from stageguard.cli.command import option, packed
from stageguard.cli.inputs import (
    MAGIC,
    Input,
    Inputs,
    find_inputs,
    is_sample_list,
    nights_of,
    with_table_nights,
)
from stageguard.cli.outcomes import end, print_notes, print_review, run_shown
from stageguard.cli.scored_files import Experts, ReadOptions
from stageguard.cli.terminal import Console, print_json
from stageguard.formats.companions import ListRow, read_groups
from stageguard.formats.outputs import REPORT_SUFFIX, output_paths
from stageguard.measures.statistics import StatisticsOptions
from stageguard.report.cohort import About, CohortRow, Failure, cohort_page, cohort_row
from stageguard.report.summary import looking_like_experts
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.manifest import FAILURE_COLUMNS, FAILURES_TABLE, read_table
from stageguard.runner.run import Outcome, succeeded

OF_COHORT = "Of a cohort"


@dataclass(frozen=True, slots=True)
class CohortGiven:
    """Options for cohorts only."""

    by: Path | None = None
    reports: Path | None = None
    jobs: int = 1

    def refuse(self, night: Path) -> None:
        """Refuse these options for a single night."""
        names = [name for name in ("by", "reports") if getattr(self, name) is not None]
        if names or self.jobs != 1:
            option = names[0] if names else "jobs"
            raise UsageError(f"--{option} goes with a cohort, and {night.name} is one night. Leave it out.")


cohort_options = packed(
    "cohort_given",
    CohortGiven,
    option(
        "--by",
        metavar="GROUPS.tsv",
        type=opt.PATH,
        heading=OF_COHORT,
        help="Compare groups: columns id, group (optional: subject, expert).",
    ),
    option(
        "--reports",
        metavar="FOLDER",
        type=opt.PATH,
        heading=OF_COHORT,
        help="Where the nights' own reports are. Default: beside the nights, or the page.",
    ),
    option(
        "--jobs",
        metavar="N",
        type=opt.COUNT,
        default=1,
        heading=OF_COHORT,
        help="Files, or blocks of a table, at a time; 0 means one per core.",
    ),
)


@dataclass(frozen=True, slots=True)
class ReportedRow:
    """A night's row, and its row in the table of groups."""

    row: CohortRow
    group: ListRow | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        row = self.row
        return {
            "profile": row.scale.profile or None,
            "n_epochs": row.n_epochs,
            "epochs_changed": row.n_changed,
            "joint_score": row.joint,
            "looks_like_experts": row.looks_like_experts(row.final),
            "outside": [key for key, _, _ in row.outside],
            "kappa": dict(row.kappa),
            "notes": row.notes,
        }


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes rows of nights; can be sent to another process."""

    reader: CohortReader

    def make(self, night: Input) -> ReportedRow:
        """Read and measure one night."""
        read = self.reader.read(night)
        return ReportedRow(cohort_row(read.scorings, read.measured, notes=read.notes), read.group)


@dataclass(frozen=True, slots=True)
class CohortRequest:
    """The nights of a cohort, and how to read and measure them."""

    source: Path  # a folder, a pattern, a list or a table
    table: Mapping[str, Path]  # the nights of a table
    reading: ReadOptions
    measuring: StatisticsOptions
    expert: Path | None
    given: CohortGiven
    title: str | None

    def reader(self) -> CohortReader:
        """Return the reader of the nights."""
        groups = {} if self.given.by is None else read_groups(self.given.by)
        named = {name: row.expert for name, row in groups.items() if row.expert is not None}
        experts = Experts(self.expert, named)
        if experts.is_one_file:
            raise UsageError(
                "--expert names one night's scoring: name a folder, or a table with the columns id and stage."
            )
        return CohortReader(self.reading, self.measuring, groups, experts)

    def inputs(self) -> Inputs:
        """Return the nights; a second night of the same name fails."""
        if self.table:
            return Inputs(tuple(Input(path, name, table=self.source) for name, path in self.table.items()))
        inputs = with_table_nights(find_inputs([self.source], None, self.reading.wanted))
        return replace(inputs, nights=tuple(_named_once(inputs.nights)))


def cohort_at(path: Path) -> dict[str, Path] | None:
    """Return a file per night for a table of many nights, or None for a single night.

    The result is empty for a folder, a pattern or a sample list.
    """
    if not path.exists():
        return {} if MAGIC.search(str(path)) else None
    return {} if path.is_dir() or is_sample_list(path) else nights_of(path) or None


def cohort_reading(
    options: DecodeOptions, companions: opt.Companions, scoring_format: str | None
) -> ReadOptions:
    """Return how to read the files of a cohort; refuse options that belong to one night."""
    if companions or options != DecodeOptions(options.density):
        raise UsageError("--quality, --pins, --cohort, --stager and --trained go with one night's decoding.")
    return ReadOptions(density=options.density, scoring_format=scoring_format)


def report_cohort(request: CohortRequest, output: Path | None, *, overwrite: bool, as_json: bool) -> None:
    """Measure the nights, write the page, and print failures."""
    source, page = request.source, output or _default_page(request.source)
    check_places([page], overwrite=overwrite)  # before minutes of work
    reader, inputs = request.reader(), request.inputs()
    nights = inputs.nights
    jobs = request.given.jobs
    outcomes = run_shown(RowMaker(reader).make, nights, "Measuring", quiet=as_json, jobs=jobs)
    done = succeeded(outcomes)
    if done:
        rows = [_with_warnings(outcome) for outcome in done]
        groups = [(outcome.id, outcome.result.group) for outcome in done]
        group_of, subjects = grouping(groups, reader.groups)
        earlier, unread = _failed_before(source)
        about = About(
            request.title if request.title is not None else source.resolve().name,
            group_of,
            subjects,
            _links([row.id for row in rows], source, page, request.given.reports),
            [*(_failure(outcome) for outcome in outcomes if not outcome.ok), *earlier],
            [*inputs.notes, *_group_notes(groups, reader.groups), *unread],
        )
        read = [request.expert, request.given.by, *(path for night in nights for path in night.files)]
        read += [output_paths(night.path).sidecar for night in nights]
        spare = [path for path in read if path is not None]
        write_text_atomic(page, cohort_page(rows, about), overwrite=overwrite, spare=spare)
    _say(outcomes, page if done else None, inputs.notes, as_json=as_json)
    end(outcomes, as_json=as_json)


def _default_page(source: Path) -> Path:
    """Return the default path of the page: in the folder of the nights, or beside their table."""
    if source.is_dir():
        return source / f"cohort{REPORT_SUFFIX}"
    return source.with_name(f"{source.name}{REPORT_SUFFIX}")


def _named_once(nights: Sequence[Input]) -> list[Input]:
    """Return the nights, with an error for each whose name occurred before."""
    first: dict[str, Input] = {}
    named = []
    for night in nights:
        other = first.setdefault(night.id, night)
        if other is not night and night.error is None:
            problem = f"{night.path.name}: is night {night.id!r} like {other.path.name}."
            night = replace(night, error=f"{problem} Rename one, or leave one out.")
        named.append(night)
    return named


def _with_warnings(outcome: Outcome[ReportedRow]) -> CohortRow:
    row = outcome.result.row
    return replace(row, remarks=(*row.remarks, *map(str, outcome.warnings))) if outcome.warnings else row


def _failure(outcome: Outcome[ReportedRow]) -> Failure:
    name = Path(outcome.file).name
    reason = str(outcome.error).removeprefix(f"{outcome.file}: ").removeprefix(f"{name}: ")
    return Failure(outcome.id, reason, outcome.file)


def _group_notes(nights: Sequence[tuple[str, ListRow | None]], groups: Groups) -> list[str]:
    if not groups:
        return []
    without = [name for name, group in nights if group is None]
    used = {group.night_id for _, group in nights if group is not None}
    return [
        *listed_nights("no group, so left out of the comparison", without),
        *listed_nights("in the table of groups, but not among the files", groups.keys() - used),
    ]


def _failed_before(source: Path) -> tuple[list[Failure], list[str]]:
    """Return the failures listed in the table of `decode`, and a remark if it cannot be read."""
    path = source / FAILURES_TABLE if source.is_dir() else source.with_name(f"{source.name}.failures.tsv")
    try:
        rows = read_table(path)
    except (StageGuardError, OSError, ValueError) as error:  # another layout, or not text
        return [], [
            f"{path.name} cannot be read ({type(error).__name__}): what decode failed on is not listed"
        ]
    columns = set(FAILURE_COLUMNS) - {"file"}
    return [
        Failure(row["id"], f"decode: {row['error']}", row.get("file", ""))
        for row in rows
        if columns <= row.keys()
    ], []


def _links(names: Sequence[str], source: Path, page: Path, reports: Path | None) -> dict[str, str]:
    """Return links from the cohort's page to the existing pages of nights, by night."""
    if reports is not None and not reports.is_dir():
        raise file_error(reports, "is no folder, expected the one with the nights' reports.")
    beside = source if source.is_dir() else source.parent
    folders = [reports] if reports is not None else list(dict.fromkeys((beside, page.parent)))
    links: dict[str, str] = {}
    for folder in reversed(folders):  # so that links to the first folder replace the others
        there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        if folder.resolve() == page.parent.resolve():
            there.discard(page.name)
        start = os.path.relpath(folder, page.parent)
        for name in names:
            file_name = next((file for file in (name + REPORT_SUFFIX, f"{name}.html") if file in there), None)
            if file_name is not None:
                links[name] = "./" + quote(Path(start, file_name).as_posix())
    return links


def _say(
    outcomes: Sequence[Outcome[ReportedRow]], page: Path | None, notes: Sequence[str], *, as_json: bool
) -> None:
    done = succeeded(outcomes)
    judged = [outcome.result.row.looks_like_experts(outcome.result.row.final) for outcome in done]
    if as_json:
        written = {} if page is None else {"html": str(page)}
        print_json(
            {"nights": [outcome.to_dict() for outcome in outcomes], "notes": notes, "outputs": written}
        )
    elif page is not None:
        out = Console()
        out.print(looking_like_experts(judged), style="bold")
        print_notes(notes, as_json=False)
        out.list("Wrote", [page])
        print_review(out)
