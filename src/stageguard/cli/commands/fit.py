"""`stageguard fit`: a profile for a stager, from scored nights or from unscored ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from click import UsageError

from stageguard.cli import options as opt
from stageguard.cli.command import command, more, option, packed
from stageguard.cli.nights import (
    Experts,
    ReadOptions,
    argmax_of,
    listed_nights,
    read_expert,
    read_options,
    read_scoring,
)
from stageguard.cli.outcomes import end, run_shown
from stageguard.cli.render import check_suffix
from stageguard.cli.terminal import Console, count, naming_nights, one_line, print_json, progress_bar
from stageguard.errors import InputError
from stageguard.files import check_apart, exists_error
from stageguard.fitting.fit import FitProgress, FitReport, fit_report
from stageguard.fitting.tune import check_base, decision, tuned_profile
from stageguard.formats.companions import ListRow, read_subjects
from stageguard.formats.night import FileOptions
from stageguard.formats.read import is_hypnogram, read_density_file
from stageguard.measures.agreement import swapped_words
from stageguard.measures.intervals import DEFAULT_LEVEL, half_width, unit_of
from stageguard.night.align import on_epochs_of
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile
from stageguard.profile.rules import FEWEST_NIGHTS
from stageguard.review.scorings import find_reviews, read_reviewed, with_reviews
from stageguard.runner.decode_one import DecodeOptions, profile_that_fits
from stageguard.runner.inputs import Input, Inputs, find_inputs, named_once, scoring_of, with_table_nights
from stageguard.runner.pool import Cluster, executor_for
from stageguard.runner.run import Outcome, collect_warnings, succeeded
from stageguard.runner.tune_files import MeasuredFile, TuneTask, measure_task


@command
@click.argument(
    "files",
    nargs=-1,
    type=opt.PATH,
    help="Probabilities of one stager, or hypnograms alone; folders, patterns or a list.",
)
@opt.output("FILE.toml", "The profile to write.", required=True)
@option("--base", "-b", metavar="NAME", help="Profile to start from. Default: the one that fits the stages.")
@opt.experts("An expert's hypnograms, named like the nights; repeatable.")
@option("--reviewed", metavar="FOLDER", type=opt.PATH, help="Nights reviewed to the end, instead of FILES.")
@option("--subjects", metavar="TABLE", type=opt.PATH, help="Columns id and subject; group and expert may be.")
@opt.overwrite
@opt.jobs
@opt.as_json
@packed(
    "who",
    dict,
    more("--stager", "NAME", "The stager, with version and channels: used on no other."),
    more("--cohort", "NAME", "Diagnosis or group of the nights: used on no other."),
    opt.trained,
)
@more("--seed", "N", "Same seed, same profile.", type=opt.COUNT, default=0)
@opt.sample_list
@opt.scoring_format
@opt.reading
@opt.cluster
def fit(
    files: tuple[Path, ...],
    output: Path,
    base: str | None,
    expert: tuple[Path, ...],
    reviewed: Path | None,
    subjects: Path | None,
    overwrite: bool,
    jobs: int,
    as_json: bool,
    who: dict[str, Any],
    seed: int,
    samples: Path | None,
    scoring_format: str | None,
    reading: FileOptions,
    cluster: Cluster | None,
) -> None:
    """Fit a profile to a stager.

    With experts, on nights that both scored: calibrates, and chooses by cross-validation over subjects how
    strongly to smooth. Without experts, on ten or more unscored nights: aims at the fragmentation and stage
    shares that experts score. Hypnograms alone give transitions and ranges.

    Examples
    --------
    stageguard fit nights --expert experts --base human-psg-5 --output lab.toml
    """
    check_suffix(output, ".toml")
    rows = {} if subjects is None else read_subjects(subjects)
    _refuse_split_subjects(rows)
    named = {name: row.expert for name, row in rows.items() if row.expert is not None}
    if reviewed is not None and (files or samples or expert or named):
        raise UsageError("--reviewed has nights and scorings: leave out FILES, --list and experts.")
    reviews = {} if reviewed is None else find_reviews(reviewed)
    options = read_options(ReadOptions(density=reading, scoring_format=scoring_format), profile=base)
    inputs = Inputs(tuple(Input(paths[0], name) for name, paths in reviews.items()))
    if reviewed is None:
        wanted = replace(options.wanted, kind="density") if expert or named else options.wanted
        inputs = named_once(with_table_nights(find_inputs(files, samples, wanted)))
    if base is None:
        base = profile_that_fits([night.path for night in inputs.nights], reading).name
        options = read_options(options, profile=base)
    profile = options.profile
    assert profile is not None
    check_apart([output], inputs.files(Path(base), samples, subjects))
    if output.exists() and not overwrite:
        raise exists_error(output)
    named |= {night.id: path for night in inputs.nights if (path := scoring_of(night))}
    folders: Sequence[Path | None] = expert or ([None] if named else [])
    experts = [Experts(folder, named if i == 0 else None) for i, folder in enumerate(folders)]
    save = partial(_save, output=output, inputs=inputs, overwrite=overwrite, as_json=as_json)
    if not experts and not reviews and not _has_hypnogram(inputs, profile):
        missing = [night.id for night in inputs.nights if rows and night.id not in rows]
        if missing:
            raise InputError(f"night {missing[0]!r} is not in {subjects}, expected a row for it.")
        measured = _measured(inputs, profile, reading, who["trained"], jobs, quiet=as_json)
        _results(measured)
        whose = [rows[each.id].subject for each in succeeded(measured)] if rows else None
        tuned = _tuned(measured, profile, who, name=output.stem, subjects=whose)
        save(measured, tuned, {"profile": tuned.to_dict()}, decision(tuned), [])
        return
    reader = _Reader(profile, options, rows, subjects, experts, reviews)
    outcomes = run_shown(reader.read, inputs.nights, "Reading", quiet=as_json)
    nights = _results(outcomes)
    names = [outcome.id for outcome in succeeded(outcomes)]
    notes = _remarks(inputs, outcomes, rows, alone=not experts)
    for j in range(max(len(night.experts) for night in nights)):
        notes += swapped_words(names, [night.pair_with(j) for night in nights])
    groups = [night.group for night in nights]  # a group is kept together as a subject is
    with (
        executor_for(cluster) as executor,
        naming_nights(names),
        collect_warnings() as warned,
        progress_bar("Cross-validating", quiet=as_json) as move_bar,
    ):

        def watch(at: FitProgress) -> None:
            move_bar(total=at.total, completed=at.done, description=one_line(at.what).capitalize())

        report = fit_report(
            [night.experts for night in nights],
            [night.density for night in nights if night.density is not None] or None,
            base=profile,
            subjects=None if None in groups else groups,
            name=output.stem,
            seed=seed,
            progress=watch,
            executor=executor,
            **who,
        )
    if by_review := [review for night in nights for review in night.reviews]:
        report = replace(report, profile=with_reviews(report.profile, by_review))
    content = report.to_dict() | {"warnings": warned, "read": notes}
    notes = [*report.notes, *notes, *(text for text in warned if report.reason not in text)]
    save(outcomes, report.profile, content, fit_words(report), notes)


def _save(
    outcomes: Sequence[Outcome[Any]],
    profile: Profile,
    content: Mapping[str, Any],
    sentences: Sequence[str],
    notes: Sequence[str],
    *,
    output: Path,
    inputs: Inputs,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write the profile, and print what was found."""
    profile.save(output, overwrite=overwrite)
    if as_json:
        files = [outcome.to_dict() for outcome in outcomes]
        print_json({**content, "files": files, "output": str(output)})
    else:
        out = Console()
        out.print((one_line(profile.name), "bold"), f" · {count(len(succeeded(outcomes)), 'night')}")
        for sentence in sentences:
            out.print(sentence)
        out.list("Note", notes)
        out.list("Wrote", [output])
    end(outcomes, inputs.notes, as_json=as_json)


def fit_words(report: FitReport) -> list[str]:
    """Return what a fit found, in sentences."""
    scored = f"{count(report.n_nights, 'scored night')} of {count(report.n_subjects, 'subject')}"
    sentences = [f"{scored}, {report.n_scored_epochs:,} scored epochs, on {report.base}. {report.reason}"]
    for other in ("argmax", "default"):
        gains = [
            f"{name} {mean:+.3f} (SE {error:.3f})" for name, (mean, error) in report.gains(other).items()
        ]
        if gains and any(mean or error for mean, error in report.gains(other).values()):
            over = "the default" if other == "default" else other
            sentences.append(f"Improvement over {over} on held-out nights: {', '.join(gains)}.")
    if report.rows and report.nested is None:
        sentences.append("With two subjects the choice cannot be checked on held-out nights.")
    errors = report.profile.intervals.get("errors", {})
    widths = {name: half_width(values, DEFAULT_LEVEL) for name, values in errors.items()}
    known = [
        f"{name} ± {width:.1f} {unit_of(name)}".rstrip()
        for name, width in widths.items()
        if math.isfinite(width)
    ]
    if known:
        sentences.append(f"{DEFAULT_LEVEL:.0%} intervals, from held-out nights: {', '.join(known)}.")
    return sentences


def _has_hypnogram(inputs: Inputs, profile: Profile) -> bool:
    """Whether the first night that is there is stages alone."""
    first = next((night.path for night in inputs.nights if night.error is None), None)
    return first is not None and is_hypnogram(first, profile.scheme)


def _results(outcomes: Sequence[Outcome[Any]]) -> list[Any]:
    """Return what was read; raise the first problem if that is nothing."""
    nights = [outcome.result for outcome in succeeded(outcomes)]
    if not nights:
        raise InputError(f"no night could be read. The first problem: {outcomes[0].error}")
    return nights


def _refuse_split_subjects(rows: Mapping[str, ListRow]) -> None:
    """Refuse a subject in two groups, who would be on both sides of a split."""
    home: dict[str, str | None] = {}
    for row in rows.values():
        group = home.setdefault(str(row.subject), row.group)
        if group != row.group:
            raise InputError(
                f"subject {row.subject!r} is in groups {group!r} and {row.group!r}, expected one group."
            )


def _remarks(
    inputs: Inputs, outcomes: Sequence[Outcome[FitFile]], rows: Mapping[str, ListRow], *, alone: bool
) -> list[str]:
    """Return the subjects without a night and, of hypnograms alone, what was assumed when they were read."""
    read = zip(inputs.nights, outcomes, strict=True)
    known = {name for night, outcome in read if outcome.ok for name in (night.id, night.path.name)}
    notes = listed_nights("in the table of subjects, but not among the files", rows.keys() - known)
    done = succeeded(outcomes)
    texts = Counter(text for outcome in done for text in outcome.result.notes) if alone else Counter()
    return notes + [text if n == len(done) else f"{text} ({count(n, 'night')})" for text, n in texts.items()]


def _measured(
    inputs: Inputs, profile: Profile, reading: FileOptions, trained: Any, jobs: int, *, quiet: bool
) -> list[Outcome[MeasuredFile]]:
    """Return what unscored nights tell about their stager."""
    check_base(profile)
    tasks = [
        TuneTask(night.path, night.id, profile, reading, trained, night.error) for night in inputs.nights
    ]
    return run_shown(measure_task, tasks, "Tuning", quiet=quiet, jobs=jobs)


def _tuned(
    measured: Sequence[Outcome[MeasuredFile]], profile: Profile, who: Mapping[str, Any], **names: Any
) -> Profile:
    """Return the profile tuned on measured nights."""
    done = succeeded(measured)
    with naming_nights([outcome.id for outcome in done]):
        nights = [outcome.result.night for outcome in done]
        return tuned_profile(nights, profile, who["stager"], cohort=who["cohort"], **names)


def tuned_on(
    inputs: Inputs, profile: Profile, options: DecodeOptions, jobs: int, *, quiet: bool
) -> tuple[Profile, Sequence[str]]:
    """Return the profile tuned on the nights to decode, or unchanged if they are too few, and why."""
    measured = _measured(inputs, profile, options.density, options.trained, jobs, quiet=quiet)
    if (n_nights := len(succeeded(measured))) < FEWEST_NIGHTS:
        few = count(n_nights, "night")
        return profile, [f"--tune needs {FEWEST_NIGHTS} nights: {few} decoded with {profile.name} as it is"]
    tuned = _tuned(measured, profile, {"stager": options.stager, "cohort": options.cohort})
    return tuned, decision(tuned)


@dataclass(frozen=True, slots=True)
class FitFile:
    """A night to fit to: a stager's probabilities or labels with experts' scorings, or one scoring alone."""

    density: Hypnodensity | Hypnogram | None
    experts: list[Hypnogram]
    notes: tuple[str, ...]
    subject: str | None = None
    group: str | None = None
    reviews: tuple[dict[str, Any], ...] = ()  # who reviewed it, and how

    def pair_with(self, j: int) -> tuple[Hypnogram, Hypnogram] | None:
        """Return the scoring of expert j and the stager's own choice; None if either is not there."""
        said = self.density
        if said is None or j >= len(self.experts):
            return None
        return self.experts[j], argmax_of(said) if isinstance(said, Hypnodensity) else said

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        return {
            "subject": self.subject,
            "n_epochs": self.experts[0].n_epochs,
            "n_experts": len(self.experts),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads nights one by one."""

    base: Profile
    options: ReadOptions
    rows: Mapping[str, ListRow]
    subjects: Path | None
    experts: Sequence[Experts]
    reviews: Mapping[str, list[Path]]

    def read(self, night: Input) -> FitFile:
        """Read one night."""
        path, name = night.path, night.id
        row = self.rows.get(name) or self.rows.get(path.name)
        if self.rows and row is None:
            raise InputError(f"night {name!r} is not in {self.subjects}, expected a row for it.")
        if self.reviews:
            reviewed = read_reviewed(self.reviews[name])
            scored = FitFile(reviewed.density, reviewed.experts, (), reviews=reviewed.reviews)
        else:
            scored = self._scored(path, name)
        return scored if row is None else replace(scored, subject=row.subject, group=row.group or row.subject)

    def _scored(self, path: Path, name: str) -> FitFile:
        """Read a stager's night with its experts' scorings, or an expert's scoring alone."""
        if is_hypnogram(path, self.base.scheme):
            labels = read_scoring(path, self.options.of_hypnogram(self.base.scheme, self.base.epoch_seconds))
            if not self.experts:
                return FitFile(None, [labels.hypnogram], labels.notes)
            return FitFile(labels.hypnogram, self._of_experts(name, labels.hypnogram), labels.notes)
        if not self.experts:
            raise InputError("holds no hypnogram, like the first night. Name experts with --expert.")
        read = read_density_file(path, self.options.density)
        density = read.density
        return FitFile(density, self._of_experts(name, argmax_of(density)), read.notes)

    def _of_experts(self, name: str, night: Hypnogram) -> list[Hypnogram]:
        """Return the experts' scorings on the epochs of a night."""
        paths = [file for expert in self.experts if (file := expert.path_for(name)) is not None]
        if not paths:
            raise InputError(f"no expert's scoring is named {name!r}, expected one in the folder.")
        return [on_epochs_of(night, read_expert(expert, night, self.options)) for expert in paths]
