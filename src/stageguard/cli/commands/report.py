"""`stageguard report`: one night, or a cohort of them, as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from click import UsageError
from click.exceptions import Exit

from stageguard.cli import options as opt
from stageguard.cli.command import command, more, option
from stageguard.cli.decoded import print_summary
from stageguard.cli.nights import (
    CohortReader,
    ReadOptions,
    decode_night,
    find_scored,
    grouping,
    read_expert,
    read_options,
)
from stageguard.cli.outcomes import end, look_at, print_notes, print_review, run_shown
from stageguard.cli.render import print_line
from stageguard.cli.terminal import Console, one_line, print_error, print_json
from stageguard.errors import StageGuardError
from stageguard.files import check_places, real_path, write_text_atomic
from stageguard.formats.companions import SOME_DAY, ListRow
from stageguard.formats.density import existing_file
from stageguard.formats.events import read_events
from stageguard.formats.night import Event
from stageguard.formats.outputs import REPORT_SUFFIX, TSV_SUFFIX, is_output, output_paths, relative_path
from stageguard.guard.decoding import Decoding
from stageguard.measures.grade import GradeCard
from stageguard.measures.statistics import StatisticsOptions
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.timing import Moment
from stageguard.profile.profile import Profile
from stageguard.report.cohort import About, CohortRow, Failure, cohort_page, cohort_row
from stageguard.report.night import night_report
from stageguard.report.summary import DecodingSummary, summary_of
from stageguard.report.words import looking_like_experts
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.inputs import (
    MAGIC,
    Input,
    Inputs,
    is_sample_list,
    lights_of,
    named_once,
    night_id,
    nights_of,
)
from stageguard.runner.manifest import FAILURE_COLUMNS, FAILURES_TABLE, read_table
from stageguard.runner.run import Outcome, collect_warnings, succeeded
from stageguard.storage import is_folder


@command
@click.argument(
    "night",
    type=opt.PATH,
    help="Probabilities or a .hypnogram.tsv; of a cohort a folder, a pattern, a list or a table.",
)
@opt.output("NIGHT.html", "The page. Default: NIGHT.report.html beside it.")
@option("--profile", "-p", metavar="NAME", help="Needed for probabilities; an output records its own.")
@option("--input", "source", metavar="FILE", type=opt.PATH, help="Probabilities of a .hypnogram.tsv.")
@option("--expert", metavar="FILE", type=opt.PATH, help="An expert's scoring; of a cohort a folder or table.")
@option("--title", metavar="TEXT", help="Headline. Default: the name of the night or folder.")
@opt.lights
@opt.lights_on_phase
@opt.start
@opt.decoding
@opt.companions
@opt.grade_card
@more("--by", "GROUPS.tsv", "Of a cohort: compare groups, by columns id and group.", type=opt.PATH)
@more("--jobs", "N", "Of a cohort: files at a time; 0 means one per core.", type=opt.COUNT, default=1)
@opt.scoring_format
@opt.overwrite
@opt.as_json
def report(
    night: Path,
    output: Path | None,
    profile: str | None,
    source: Path | None,
    expert: Path | None,
    title: str | None,
    lights: tuple[Moment | None, Moment | None],
    lights_on_phase: str | None,
    start: datetime | None,
    options: DecodeOptions,
    companions: opt.Companions,
    grade: Path | None,
    by: Path | None,
    jobs: int,
    scoring_format: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write one night, or a cohort, as one HTML file: pictures, measures against experts, statistics.

    Examples
    --------
    stageguard report night.csv --profile human-psg-5 --expert expert.txt --output night.html
    """
    table = cohort_at(night)
    is_decoded = is_output(night)
    if source is not None and (table is not None or not is_decoded):
        raise UsageError(f"--input goes with a .hypnogram.tsv, and {night.name} is none.")
    measuring = StatisticsOptions("aasm", *lights, lights_on_phase=lights_on_phase)
    if table is not None:
        place = night / "cohort" if is_folder(night) else night
        page = output or place.with_name(f"{place.name}{REPORT_SUFFIX}")
        check_places([page], overwrite=overwrite)  # before minutes of work
        if companions or options != DecodeOptions(options.density):
            theirs = "--quality, --pins, --cohort, --stager and --trained"
            raise UsageError(f"{theirs} go with one night's decoding.")
        given = ReadOptions(density=options.density, scoring_format=scoring_format)
        reading = read_options(given, profile=profile, start=start, decode=profile is not None)
        reader = CohortReader.of(reading, measuring, by, expert, grade)
        reader.refuse_one_expert("--expert")
        inputs = Inputs(tuple(Input(path, name, table=night) for name, path in table.items()))
        if not table:
            inputs = named_once(find_scored([night], None, reading))
        work = partial(_reported, reader)
        outcomes = run_shown(work, inputs.nights, "Measuring", quiet=as_json, jobs=jobs)
        if done := succeeded(outcomes):
            about = _about(title, reader, inputs, outcomes, night, page)
            html = cohort_page([_with_warnings(outcome) for outcome in done], about)
            spare = inputs.files(expert, by, grade)
            write_text_atomic(page, html, overwrite=overwrite, spare=spare)
        _say(outcomes, page if done else None, inputs.notes, as_json=as_json)
        end(outcomes, as_json=as_json)
        return
    if by is not None:
        raise UsageError(f"--by goes with a cohort, and {night.name} is one night. Leave it out.")
    if not is_decoded:
        options = replace(options, lights_off=measuring.lights_off, lights_on=measuring.lights_on)
    if start is not None and start.date() == SOME_DAY:
        raise UsageError(f"--start is {start:%H:%M}, expected a date and a time such as 2024-05-01T22:30.")
    page = output or night.parent / (night_id(night) + REPORT_SUFFIX)
    try:
        with collect_warnings() as warned:
            existing_file(night)
            loaded = None if profile is None else Profile.load(profile)
            options = companions.add_to(options, [night], loaded)
            decoding, notes = decode_night(night, loaded, options, start, source)
        card = None if grade is None else GradeCard.load(grade)
        html, summary = _night_page(night, decoding, notes, measuring, expert, scoring_format, title, card)
        beside = (output_paths(night).tsv, output_paths(night).sidecar) if is_decoded else ()
        named = None if profile is None else Path(profile)
        read = (night, *beside, expert, source, named, grade, *companions.files)
        spare = [path for path in read if path is not None]
        write_text_atomic(page, html, overwrite=overwrite, spare=spare)
    except (StageGuardError, OSError) as error:
        print_error(error, night)
        raise Exit(1) from None
    if as_json:
        outcome = {"file": str(night), "ok": True, "notes": list(notes), "warnings": warned}
        print_json(summary.to_dict() | outcome | {"outputs": {"html": str(page)}})
        return
    out = Console()
    print_summary(str(night), summary, out)
    out.list("Warning", warned)
    out.list("Wrote", [page])
    print_review(out)


def _night_page(
    night: Path,
    decoding: Decoding,
    notes: Sequence[str],
    measuring: StatisticsOptions,
    expert: Path | None,
    scoring_format: str | None,
    title: str | None,
    card: GradeCard | None,
) -> tuple[str, DecodingSummary]:
    """Return the page of a night, between lights and beside an expert if they are given, and its summary."""
    scored: Hypnogram | None = None
    annotations: Sequence[Event] = ()
    if expert is not None:
        scored = read_expert(expert, decoding.hypnogram, ReadOptions(scoring_format=scoring_format))
        is_of_decode = expert.name.endswith(TSV_SUFFIX)  # which holds only stages
        annotations = () if is_of_decode else read_events(expert, scoring_format)
    measured = lights_of(Input(night, night_id(night)), measuring.lights_off, measuring.lights_on)
    page = night_report(
        decoding,
        expert=scored,
        title=night_id(night) if title is None else title,
        lights_off=measured.off,
        lights_on=measured.on,
        lights_on_phase=measuring.lights_on_phase,
        annotations=annotations,
        notes=notes,
        grade=card,
    )
    lights = StatisticsOptions(lights_off=measured.off, lights_on=measured.on)
    return page, summary_of(decoding, lights, with_intervals=True)


@dataclass(frozen=True, slots=True)
class ReportedRow:
    """A night's row, and its row in the table of groups."""

    row: CohortRow
    group: ListRow | None
    look_at: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        row = self.row
        return {
            "profile": row.scale.profile or None,
            "n_epochs": row.n_epochs,
            "epochs_changed": row.n_changed,
            "joint_score": row.value("joint_score"),
            "looks_like_experts": row.is_alike(),
            "outside": [key for key, _, _ in row.outside],
            "kappa": dict(row.kappa),
            "notes": row.notes,
            "look_at": self.look_at,
        }


def _reported(reader: CohortReader, night: Input) -> ReportedRow:
    """Read and measure one night."""
    read = reader.read(night)
    row = cohort_row(read.scorings, read.measured, look_at=read.look_at, notes=read.notes)
    return ReportedRow(row, read.group, read.look_at)


def cohort_at(path: Path) -> dict[str, Path] | None:
    """Return a file per night for a table of many nights, or None for a single night.

    The result is empty for a folder, a pattern or a sample list.
    """
    if not path.exists():
        return {} if MAGIC.search(str(path)) else None
    return {} if is_folder(path) or is_sample_list(path) else nights_of(path) or None


def _about(
    title: str | None,
    reader: CohortReader,
    inputs: Inputs,
    outcomes: Sequence[Outcome[ReportedRow]],
    source: Path,
    page: Path,
) -> About:
    """Return what the page says besides the rows of nights; `source` names them."""
    groups = [(outcome.id, outcome.result.group) for outcome in succeeded(outcomes)]
    group_of, subjects = grouping(groups, reader.groups)
    earlier, unread = _failed_before(source)
    return About(
        title if title is not None else real_path(source).name,
        group_of,
        subjects,
        _links([name for name, _ in groups], source, page),
        [*(_failure(outcome) for outcome in outcomes if not outcome.ok), *earlier],
        [*inputs.notes, *reader.group_notes(groups), *unread],
        reader.card,
    )


def _with_warnings(outcome: Outcome[ReportedRow]) -> CohortRow:
    row = outcome.result.row
    return replace(row, remarks=(*row.remarks, *map(str, outcome.warnings))) if outcome.warnings else row


def _failure(outcome: Outcome[ReportedRow]) -> Failure:
    name = Path(outcome.file).name
    reason = str(outcome.error).removeprefix(f"{outcome.file}: ").removeprefix(f"{name}: ")
    return Failure(outcome.id, reason, outcome.file)


def _failed_before(source: Path) -> tuple[list[Failure], list[str]]:
    """Return the failures listed in the table of `decode`, and a remark if it cannot be read."""
    path = source / FAILURES_TABLE if is_folder(source) else source.with_name(f"{source.name}.failures.tsv")
    try:
        rows = read_table(path)
    except (StageGuardError, OSError, ValueError) as error:  # another layout, or not text
        why = f"cannot be read ({type(error).__name__})"
        return [], [f"{path.name} {why}: what decode failed on is not listed"]
    rows = [row for row in rows if {*FAILURE_COLUMNS} - {"file"} <= row.keys()]
    return [Failure(row["id"], f"decode: {row['error']}", row.get("file", "")) for row in rows], []


def _links(names: Sequence[str], source: Path, page: Path) -> dict[str, str]:
    """Return links from the cohort's page to the existing pages of nights, by night."""
    links: dict[str, str] = {}
    # links beside the nights replace the others
    for folder in dict.fromkeys((page.parent, source if is_folder(source) else source.parent)):
        start = relative_path(folder, page.parent)
        if start is None or not is_folder(folder):  # in another store, or not there yet
            continue
        there = {path.name for path in folder.iterdir()}
        there -= {page.name} if real_path(folder) == real_path(page.parent) else set()
        for name in names:
            for file in (f"{name}.html", name + REPORT_SUFFIX):
                if file in there:
                    links[name] = "./" + quote(Path(start, file).as_posix())
    return links


def _say(
    outcomes: Sequence[Outcome[ReportedRow]], page: Path | None, notes: Sequence[str], *, as_json: bool
) -> None:
    done = succeeded(outcomes)
    judged = [outcome.result.row.is_alike() for outcome in done]
    if as_json:
        written = {} if page is None else {"html": str(page)}
        for outcome in outcomes:
            print_line(outcome)
        print_line({"cohort": {"notes": notes, "outputs": written}})
    elif page is not None:
        out = Console()
        reasons = {outcome.id: outcome.result.look_at for outcome in outcomes if outcome.ok}
        out.print(looking_like_experts(judged, [*map(one_line, reasons)]), style="bold")
        out.list("Look at", look_at(reasons, "the page says why"))
        print_notes(notes, as_json=False)
        out.list("Wrote", [page])
        print_review(out)
