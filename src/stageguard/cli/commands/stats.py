"""`stageguard stats`: sleep statistics of many nights, and of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click
from click import UsageError

from stageguard.arrays import NAN
from stageguard.cli import options as opt
from stageguard.cli.command import command, more, option
from stageguard.cli.intervals import (
    end_intervals,
    interval_table,
    measure_intervals,
    withhold_by_stager,
)
from stageguard.cli.nights import (
    CohortReader,
    MeasuredInput,
    ReadOptions,
    find_scored,
    grouping,
    listed_nights,
    read_options,
    scored_reading_options,
)
from stageguard.cli.outcomes import MOST_ROWS, end, first_few, length_words, look_at, run_shown
from stageguard.cli.render import Answer, check_suffix, print_line, write_tables
from stageguard.cli.stats_tables import (
    SUFFIXES,
    errors_table,
    group_tables,
    judged,
    means_table,
    night_table,
    nights_table,
    paper_table,
    validity_of_night,
)
from stageguard.cli.terminal import count, one_line
from stageguard.errors import InputError
from stageguard.files import check_places, real_path, write_text_atomic
from stageguard.formats.cohort_files import (
    Cohort,
    Facts,
    difference_dict,
    scoring_names,
    write_cohort,
)
from stageguard.formats.companions import ListRow
from stageguard.measures.agreement import swapped_words
from stageguard.measures.cohort import (
    ERRORS_METHOD,
    CohortNight,
    Errors,
    GroupDifference,
    MeasuredScorings,
    Measures,
    architecture_errors,
    cohort_table,
    group_differences,
    measure_night,
    night_errors,
)
from stageguard.measures.samples import METHOD_OF_GROUPS
from stageguard.measures.statistics import FIRST_REM_SECONDS, Convention, StatisticsOptions
from stageguard.measures.validity import Validity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.period import find_sleeps
from stageguard.night.quantities import NIGHT, quantity_of, steered_words
from stageguard.night.timing import Moment, lights_window, part_of
from stageguard.report.numbers import sentence
from stageguard.report.words import looking_like_experts, marks_words, mixed_epochs_words, report_words
from stageguard.runner.inputs import Input, named_once
from stageguard.runner.run import Outcome, succeeded

MOST_LIGHTS = 5  # different times of lights that are printed
MOST_WARNINGS = 5
CONVENTIONS: Mapping[Convention, str] = {"aasm": "AASM", "yasa": "YASA", "luna": "Luna"}
# What the numbers of nights are of that an expert scored in part.
PARTLY_WORDS = (
    "before and after beside the expert's, bias and limits are on the epochs that the expert scored; "
    "rows of single nights and groups are of whole nights"
)


@command
@opt.scored_files
@opt.sample_list
@opt.output("COHORT.tsv", "A row per night, with a codebook.")
@option("--table", "paper", metavar="FILE.md|.tex|.tsv", type=opt.PATH, help="Write the table of a paper.")
@option("--profile", "-p", metavar="NAME", help="Decode probabilities with it; count its transitions.")
@opt.lights
@option("--intervals", is_flag=True, help="How far the statistics of decoded nights may be off.")
@option("--sleeps", is_flag=True, help="One row per sleep of recordings that are longer than a night.")
@option("--by", metavar="GROUPS.tsv", type=opt.PATH, help="Compare groups, by columns id and group.")
@option("--expert", metavar="FOLDER", type=opt.PATH, help="Experts' scorings, named like the nights.")
@opt.grade_card
@opt.lights_on_phase
@more(
    *("--convention", "aasm|yasa|luna", "Whose definitions, where they differ."),
    type=click.Choice(get_args(Convention)),
    default="aasm",
)
@more(
    *("--min-first-rem-seconds", "SECONDS", "First REM bout that lasts. Default: 120."),
    type=opt.Number(min=0),
)
@opt.start
@scored_reading_options
@opt.overwrite
@opt.as_json
def stats(
    files: tuple[Path, ...],
    samples: Path | None,
    output: Path | None,
    paper: Path | None,
    profile: str | None,
    convention: Convention,
    lights: tuple[Moment | None, Moment | None],
    lights_on_phase: str | None,
    intervals: bool,
    sleeps: bool,
    min_first_rem_seconds: float | None,
    start: datetime | None,
    by: Path | None,
    expert: Path | None,
    grade: Path | None,
    reading: ReadOptions,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Compute sleep statistics of one night or many: before and after decoding, against experts' range.

    Outputs of decode, and probabilities with --profile, have a before and an after.

    Examples
    --------
    stageguard stats decoded --by groups.tsv --expert experts --output cohort.tsv
    """
    check_suffix(output, ".tsv")
    check_suffix(paper, *SUFFIXES, option="--table")
    if (sleeps or intervals) and any((paper, lights_on_phase, by, expert, grade, sleeps and intervals)):
        which = "--intervals" if intervals else "--sleeps"
        raise UsageError(f"{which} takes none of --table, --lights-on-phase, --by, --expert and --grade.")
    if paper is not None:
        check_places([paper], overwrite=overwrite)  # before minutes of work
        if output is not None and real_path(paper) == real_path(output):
            raise UsageError("--table and --output name one file, expected two.")
    options = read_options(reading, profile=profile, start=start, decode=profile is not None)
    inputs = named_once(find_scored(files, samples, options))
    shortest = FIRST_REM_SECONDS if min_first_rem_seconds is None else min_first_rem_seconds
    measuring = StatisticsOptions(convention, *lights, shortest, lights_on_phase)
    if intervals:
        if output is not None:
            check_places([output, output.with_suffix(".json")], overwrite=overwrite)
        work = partial(measure_intervals, options, measuring, min_first_rem_seconds)
        drawn = withhold_by_stager(run_shown(work, inputs.nights, "Drawing", quiet=as_json))
        written = []
        if output is not None and (done := succeeded(drawn)):
            table, spare = interval_table(done), inputs.files(samples)
            written = write_tables(output, {"": table}, overwrite=overwrite, spare=spare)
        end_intervals(drawn, written, inputs.notes, as_json=as_json)
        return
    reader = CohortReader.of(options, measuring, by, expert, grade)
    if len(inputs.nights) > 1:
        reader.refuse_one_expert("--expert")
    outcomes, notes = list[Outcome[StatsRow]](), list(inputs.notes)
    if sleeps:
        for found in run_shown(partial(measure_sleeps, reader), inputs.nights, "Measuring", quiet=as_json):
            head: Outcome[StatsRow] = Outcome(found.file, found.id, None, found.error, found.warnings)
            rows = found.result if found.ok else ()
            outcomes += [replace(head, id=row.id, value=row) for row in rows] or [head] * (not found.ok)
            notes += [f"no sleep is found in {found.id}"] * (found.ok and not rows)
    else:
        outcomes = run_shown(partial(measure, reader), inputs.nights, "Measuring", quiet=as_json)
    result = CohortResult(outcomes, notes=notes)
    if nights := [outcome.result for outcome in succeeded(outcomes)]:
        failed = [outcome.error for outcome in outcomes if outcome.error is not None]
        if expert is not None and not any("expert" in night.measured.measures for night in nights):
            problem = (
                f"{expert} has no scoring of any of the nights, expected names such as {nights[0].id}.txt."
            )
            raise _and_failed(problem, failed)
        result.cohort, untested = _cohort(nights, reader, failed)
        listed = any(night.scoring not in (None, night.path) for night in inputs.nights)
        result.notes += [untested] if untested else []
        result.notes += _notes(nights, reader, wants_experts=listed or reader.experts.are_named)
        spare = inputs.files(by, expert, samples, grade)
        if output is not None:
            result.written = write_cohort(result.cohort, output, overwrite=overwrite, spare=spare)
        if paper is not None:
            text = paper_table(result.cohort, result.notes).text(SUFFIXES[paper.suffix.lower()])
            write_text_atomic(paper, text, overwrite=overwrite, spare=spare)
            result.written.append(paper)
    if as_json:
        for outcome in outcomes:
            print_line(outcome)
        print_line({"cohort": result.to_dict()})
    else:
        answer_of(result).show()
    end(outcomes, as_json=as_json)


@dataclass(frozen=True, slots=True)
class StatsRow:
    """The measures of one night."""

    measured: MeasuredScorings
    facts: Facts
    group: ListRow | None
    source: Mapping[str, str]  # its file, expert and lights, for the codebook
    notes: tuple[str, ...]
    look_at: str
    errors: Errors | None = None  # of sleep architecture, if an expert scored the night
    pair: tuple[Hypnogram, Hypnogram] | None = None  # the expert's scoring and the night's

    @property
    def id(self) -> str:
        """The name of the night."""
        return self.measured.night_id

    @property
    def validity(self) -> Validity | None:
        """How the final scoring compares with experts'; None without a profile."""
        return validity_of_night(self.measured)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        facts, measures = self.facts, self.measured.measures
        content: dict[str, Any] = {
            "profile": facts.profile,
            "group": facts.group,
            "n_epochs": facts.n_epochs,
            "epoch_seconds": facts.epoch_seconds,
            "epochs_changed": facts.epochs_changed,
            "steered": sorted(self.measured.steered),
            "lights": self.measured.lights,
            "look_at": self.look_at,
        }
        content |= {scoring: dict(each.values) for scoring, each in measures.items()}
        content["validity"] = None if self.validity is None else self.validity.to_dict()
        if {"before", "after"} <= measures.keys():
            before, after = content["before"], content["after"]
            content["delta"] = {name: after[name] - value for name, value in before.items()}
        if compared := self.measured.on_expert_epochs:
            content["on_expert_epochs"] = {name: dict(each.values) for name, each in compared.items()}
        reasons = {scoring: dict(each.reasons) for scoring, each in measures.items() if each.reasons}
        hours = {
            scoring: [
                {"hour": hour.name}
                | {key: getattr(hour, key) for key in ("scored_minutes", "stage_percent", "bouts")}
                for hour in each.hours
            ]
            for scoring, each in measures.items()
            if each.hours
        }
        return content | {"reasons": reasons, "notes": self.notes} | ({"hours": hours} if hours else {})


@dataclass(slots=True)
class CohortResult:
    """An outcome per file, the cohort unless every file failed, files written, and remarks."""

    outcomes: list[Outcome[StatsRow]]
    cohort: Cohort | None = None
    written: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from paths and messages."""
        content: dict[str, Any] = {}
        if self.cohort is not None and self.cohort.differences:
            names = scoring_names(self.cohort.table.values)
            content["groups"] = [difference_dict(each, names) for each in self.cohort.differences]
            content["method"] = METHOD_OF_GROUPS
        if self.cohort is not None and self.cohort.errors:
            content["errors"] = [each.to_dict() for each in self.cohort.errors]
            content["errors_method"] = ERRORS_METHOD
        if self.cohort is not None:
            content["grade"] = self.cohort.grade
        return content | {"notes": self.notes, "outputs": self.written}


def measure(reader: CohortReader, night: Input) -> StatsRow:
    """Measure one night."""
    read = reader.read(night)
    expert, measuring = read.scorings.expert, read.measuring
    errors = None if expert is None else night_errors(read.scorings.scorings, measuring)
    source = {"file": night.path.name}
    if expert is not None and expert.scorer is not None:
        source["expert"] = expert.scorer
    for key in ("lights_off", "lights_on"):
        if getattr(measuring, key) != getattr(reader.measuring, key):
            source[key] = str(getattr(measuring, key))
    pair = None if expert is None else (read.scorings.scorings["expert"], read.scored.final)
    return StatsRow(read.measured, _facts(read), read.group, source, read.notes, read.look_at, errors, pair)


def measure_sleeps(reader: CohortReader, night: Input) -> tuple[StatsRow, ...]:
    """Measure each sleep of a recording by itself."""
    read = reader.read(night)
    final, scorings, lights = read.scored.final, read.scorings, read.measuring.lights
    bed = None if lights == (None, None) else lights_window(final, *lights)
    off, on = (final.offset_seconds + final.epoch_seconds * epoch for epoch in bed or (0, 0))
    whole, rows = replace(reader.measuring, lights_off=None, lights_on=None), []
    for number, part in enumerate(find_sleeps(final, [(off, on)] if bed else []), start=1):
        both = {name: getattr(scorings, name) for name in ("before", "after")}
        both = {name: part_of(each, *part) for name, each in both.items() if each is not None}
        name = f"{night.id} sleep {number}"
        alone = CohortNight(name, **both, profile=scorings.profile, steered=scorings.steered)
        measured = measure_night(alone, whole)
        measures = {key: _of_sleep(each, part == bed) for key, each in measured.measures.items()}
        facts = replace(_facts(read), n_epochs=part[1] - part[0], epochs_changed=alone.n_changed)
        facts = replace(facts, start=_moment(final, part[0]), end=_moment(final, part[1]))
        source = {"file": night.path.name}
        rows.append(StatsRow(replace(measured, measures=measures), facts, None, source, read.notes, ""))
    return tuple(rows)


def _moment(night: Hypnogram, epoch: int) -> str:
    clock = night.clock_at(epoch)
    return f"{epoch * night.epoch_seconds:g} s" if clock is None else f"{clock:%Y-%m-%d %H:%M:%S}"


def _of_sleep(measures: Measures, is_between_lights: bool) -> Measures:
    """Return the measures of a sleep, without those from bedtime if nobody knows when that was."""
    needed = {each.key: {*each.needs} for each in NIGHT}
    unknown = [k for k, needs in needed.items() if "bedtime" in needs and not needs & {"REM", "REM bout"}]
    reasons = {} if is_between_lights else dict.fromkeys(unknown, "bedtime is not known: give lights")
    values = {**measures.values, **dict.fromkeys(reasons, NAN)}
    return Measures(values, {**measures.reasons, **reasons})


def _facts(read: MeasuredInput) -> Facts:
    scored, group = read.scored, read.group
    return Facts(
        None if group is None else group.group,
        None if scored.profile is None else scored.profile.name,
        scored.final.n_epochs,
        scored.final.epoch_seconds,
        read.scorings.n_changed,
    )


def _and_failed(problem: str, failed: Sequence[str]) -> InputError:
    """Return a problem of the other nights, with those that failed before: they may be its cause."""
    if not failed:
        return InputError(problem)
    return InputError(f"{problem} {count(len(failed), 'file')} failed, the first: {failed[0]}")


def _cohort(nights: Sequence[StatsRow], reader: CohortReader, failed: Sequence[str]) -> tuple[Cohort, str]:
    """Return the cohort, and why errors were not tested if they were not.

    The cohort holds the table of all nights, differences between groups and errors against experts.
    """
    made = cohort_table([night.measured for night in nights])
    differences: tuple[GroupDifference, ...] = ()
    try:
        group_of, subjects = grouping([(night.id, night.group) for night in nights], reader.groups)
        if reader.groups:
            differences = group_differences(made, group_of, subjects=subjects)
    except InputError as error:
        raise _and_failed(str(error), failed) from None
    sources = {night.id: night.source for night in nights}
    measured, facts = [night.measured for night in nights], [night.facts for night in nights]
    errors, untested = architecture_errors(
        {night.id: night.errors for night in nights if night.errors is not None},
        subjects,
    )
    found = differences, errors, sources, reader.card
    return Cohort(measured, facts, made, reader.measuring, *found), untested


def _notes(nights: Sequence[StatsRow], reader: CohortReader, *, wants_experts: bool) -> list[str]:
    """Return remarks for the reader of the tables."""
    notes = [marks_words(reader.card), *reader.group_notes((night.id, night.group) for night in nights)]
    if wants_experts:
        without = [night.id for night in nights if "expert" not in night.measured.measures]
        notes += listed_nights("no expert's scoring is named like", without)
    if partly := [night.id for night in nights if night.measured.on_expert_epochs]:
        notes.append(f"the expert left epochs of {count(len(partly), 'night')} unscored: {PARTLY_WORDS}")
    notes += swapped_words([night.id for night in nights], [night.pair for night in nights])
    undecoded = [night.id for night in nights if "after" not in night.measured.measures]
    scored = [night.id for night in nights if "before" not in night.measured.measures]
    if scored and len(scored) < len(nights):
        different = "before and after are not of the same nights"
        notes += listed_nights(f"{different}. Scorings, only under after", scored)
        notes += listed_nights("not decoded (no --profile), so only under before", undecoded)
    lengths = sorted({night.facts.epoch_seconds for night in nights})
    if len(lengths) > 1:
        notes.append(mixed_epochs_words(lengths))
    bare = [night.id for night in nights if night.facts.profile is None]
    notes += listed_nights("no profile (--profile), so validity is not measured", bare)
    lights: dict[str, set[str]] = {}
    assumed: dict[str, set[str]] = {}
    for night in nights:
        if night.measured.lights:
            lights.setdefault(night.measured.lights, set()).add(night.id)
        for measures in night.measured.measures.values():
            for text in measures.assumed:
                assumed.setdefault(text, set()).add(night.id)
    if len(lights) > MOST_LIGHTS:
        notes.append("lights off and on differ from night to night: --json and the codebook list them")
        lights = {}
    for text, names in (*lights.items(), *assumed.items()):
        notes += [text] if len(names) == len(nights) else listed_nights(text, names)
    return notes


def answer_of(result: CohortResult) -> Answer:
    """Return the main tables and remarks; the written files hold the rest."""
    cohort = result.cohort
    if cohort is None:
        return Answer()
    answer, done = Answer(), succeeded(result.outcomes)
    looks = judged(cohort.nights)
    if any(facts.start for facts in cohort.facts):  # a mean over nights and naps says nothing
        answer.tables = [nights_table(cohort.table, cohort.facts)]
    elif len(cohort.nights) == 1:
        (night,), (facts,) = cohort.nights, cohort.facts
        answer.lead = [f"{one_line(night.night_id)} · {length_words(facts.n_epochs, facts.epoch_seconds)}"]
        answer.tables = [night_table(cohort)]
        if facts.epochs_changed is not None:
            judged_as = validity.looks_like_experts if (validity := validity_of_night(night)) else None
            report = report_words(judged_as, facts.epochs_changed)
            answer.after = [f"{count(facts.epochs_changed, 'epoch')} changed. {report}"]
        if (validity := validity_of_night(night)) is not None:
            answer.lead.append((sentence(validity.verdict), "bold"))
            outside = [
                f"{quantity_of(name).title} {validity.indicators[name].place}" for name in validity.outside
            ]
            answer.remarks["Outside the expert range"] = [", ".join(outside)] if outside else []
            answer.remarks["Uncommon transitions"] = _counted(validity.rare_pairs)
            answer.remarks["Bouts below the profile's minimum"] = _counted(validity.bouts_below_minimum)
        whys = [text for each in night.compared.measures.values() for text in each.reasons.values()]
        answer.remarks["Why n/a"] = dict.fromkeys(whys)
    else:
        if not result.written and len(cohort.nights) <= MOST_ROWS:
            answer.tables.append(nights_table(cohort.table, cohort.facts))
        answer.tables.append(means_table(cohort))
        if {"before", "after"} <= cohort.table.values.keys():
            answer.after = ["Report the guarded means."]
        if looks:
            answer.lead = [(looking_like_experts([*looks.values()], [*map(one_line, looks)]), "bold")]
    answer.tables += [errors_table(cohort)] if cohort.errors else []
    answer.tables += group_tables(cohort.table, cohort.differences)
    reasons = {outcome.id: outcome.result.look_at for outcome in done}
    convention = (
        f"{CONVENTIONS[cohort.options.convention]} definitions: REM latency is to the first epoch of REM; a "
        f"lasting REM bout has {cohort.options.min_first_rem_seconds:g} s or more"
    )
    steered = [steered_words(cohort.table.n_steered)] if cohort.table.n_steered else []
    warned = (f"{outcome.id}: {text}" for outcome in done for text in outcome.warnings)
    answer.remarks |= {
        "Look at": look_at(reasons, "--json says why"),
        "Warning": first_few(warned, "warning", MOST_WARNINGS),
        "Note": [convention, *steered, *result.notes],
        "Wrote": result.written,
    }
    return answer


def _counted(found: Mapping[str, int]) -> list[str]:
    counts = [f"{name} {n}" for name, n in found.items() if n]
    return [", ".join(counts)] if counts else []
