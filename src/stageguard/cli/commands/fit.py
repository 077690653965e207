"""`stageguard fit`: scored nights in, a fitted profile out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click import UsageError

from stageguard.cli import options as opt
from stageguard.cli.command import command, option, packed
from stageguard.cli.outcomes import end, run_shown
from stageguard.cli.scored_files import Experts, ReadOptions, read_expert, read_options, read_scoring
from stageguard.cli.terminal import Console, count, naming_nights, one_line, print_json, progress_bar
from stageguard.errors import InputError
from stageguard.files import check_apart, exists_error
from stageguard.fitting.fit import FitProgress, FitReport, fit_report
from stageguard.formats.companions import ListRow, read_subjects
from stageguard.formats.density import listed
from stageguard.formats.raw_night import FileOptions
from stageguard.formats.read import is_hypnogram, read_density_file
from stageguard.measures.agreement import swapped_words
from stageguard.measures.intervals import DEFAULT_LEVEL, half_width, unit_of
from stageguard.night.align import on_epochs_of
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile
from stageguard.report.summary import shown
from stageguard.review.scorings import find_reviews, read_reviewed, with_reviews
from stageguard.runner.executors import Cluster, executor_for
from stageguard.runner.inputs import Input, Inputs, find_inputs, named_once, scoring_of, with_table_nights
from stageguard.runner.run import collect_warnings, succeeded

if TYPE_CHECKING:
    from concurrent.futures import Executor


choice_options = packed(
    "choice",  # arguments of `fit_report`
    dict,
    option("--cohort", metavar="NAME", help="Whom the nights are of: used on no other."),
    option("--stager", metavar="NAME", help="The stager, with version and channels: used on no other."),
    opt.trained,
    option("--keep-accuracy", is_flag=True, help="Also drop whatever falls below the default's accuracy."),
    option(
        "--fragmentation-weight",
        metavar="NUMBER",
        type=opt.Number(min=0.0),
        default=2.0,
        help="Kappa that a unit of distance in FI is worth.",
    ),
    option(
        "--statistics-weight",
        metavar="NUMBER",
        type=opt.Number(min=0.0),
        default=0.3,
        help="Kappa that argmax's errors of statistics are worth.",
    ),
    option("--statistics", metavar="night|day", help="What is reported. Default: by the recordings."),
    option(
        "--folds",
        "n_folds",
        metavar="N",
        type=click.IntRange(min=2),
        default=5,
        help="Folds of cross-validation.",
    ),
    option("--seed", metavar="N", type=opt.COUNT, default=0, help="Same seed, same profile."),
)


@command
@option("--base", "-b", metavar="NAME", required=True, help="Profile to start from: a name or a .toml file.")
@option("--output", "-o", metavar="FILE.toml", type=opt.PATH, required=True, help="The fitted profile.")
@click.argument(
    "files",
    nargs=-1,
    type=opt.PATH,
    help="The stager's probabilities, or experts' hypnograms alone; folders, quoted patterns, a list.",
)
@opt.sample_list
@option(
    "--expert",
    metavar="FOLDER",
    type=opt.PATH,
    multiple=True,
    help="Experts' hypnograms by night. Once for each of several experts.",
)
@option(
    "--reviewed",
    metavar="FOLDER",
    type=opt.PATH,
    help="Nights that were reviewed to the end (see: stageguard review).",
)
@option(
    "--subjects",
    metavar="TABLE",
    type=opt.PATH,
    help="Whose each night is: columns id and subject; group and expert may be.",
)
@choice_options
@opt.reading
@opt.scoring_format
@opt.overwrite
@opt.cluster
@opt.as_json
def fit(
    base: str,
    output: Path,
    files: tuple[Path, ...],
    samples: Path | None,
    expert: tuple[Path, ...],
    reviewed: Path | None,
    subjects: Path | None,
    choice: dict[str, Any],
    reading: FileOptions,
    scoring_format: str | None,
    overwrite: bool,
    cluster: Cluster | None,
    as_json: bool,
) -> None:
    """Fit a profile to nights that a stager and an expert scored.

    Calibrates, counts transitions, and chooses how strongly to guard by cross-validation over subjects. If
    nothing is surely better than the base profile, tuned where ten nights are there, it stays that.
    Hypnograms alone give transitions and bands.

    Examples
    --------
    stageguard fit nights --expert experts --base human-psg-5 --output lab.toml
    """
    if output.suffix != ".toml":
        raise UsageError(f"--output is {str(output)!r}, expected the name of a .toml file.")
    options = read_options(ReadOptions(density=reading, scoring_format=scoring_format), profile=base)
    who = {} if subjects is None else read_subjects(subjects)
    _refuse_split_subjects(who)
    named = {name: row.expert for name, row in who.items() if row.expert is not None}
    wanted = replace(options.wanted, kind="density") if expert or named else options.wanted
    if reviewed is not None and (files or samples or expert or named):
        raise UsageError("--reviewed has nights and scorings: leave out FILES, --list and experts.")
    reviews = {} if reviewed is None else find_reviews(reviewed)
    inputs = Inputs(tuple(Input(paths[0], name) for name, paths in reviews.items()))
    if reviewed is None:
        inputs = named_once(with_table_nights(find_inputs(files, samples, wanted)))
    check_apart([output], inputs.files(Path(base), samples, subjects))
    if output.exists() and not overwrite:
        raise exists_error(output)
    named |= {night.id: path for night in inputs.nights if (path := scoring_of(night))}
    folders: Sequence[Path | None] = expert or ([None] if named else [])
    experts = [Experts(folder, named if i == 0 else None) for i, folder in enumerate(folders)]
    assert options.profile is not None
    reader = _Reader(options.profile, options, who, subjects, experts, reviews)
    outcomes = run_shown(reader.read, inputs.nights, "Reading", quiet=as_json)
    nights = [outcome.result for outcome in succeeded(outcomes)]
    if not nights:
        raise InputError(f"no night could be read. The first problem: {outcomes[0].error}")
    known = {
        name
        for night, outcome in zip(inputs.nights, outcomes, strict=True)
        if outcome.ok
        for name in (night.id, night.path.name)
    }
    unused = sorted(who.keys() - known)
    notes = [f"in the table of subjects, but not among the files: {listed(unused, 5)}"] if unused else []
    if not experts:
        notes += _remarks(nights)
    names = [outcome.id for outcome in succeeded(outcomes)]
    for j in range(max(len(night.experts) for night in nights)):
        notes += swapped_words(names, [night.pair_with(j) for night in nights])
    by_review = [review for night in nights for review in night.reviews]
    with executor_for(cluster) as executor, naming_nights(names):
        report, warned = _fitted(nights, reader.base, output.stem, choice, executor, quiet=as_json)
    if by_review:
        reviewed_profile = with_reviews(report.profile, by_review)
        report = replace(report, profile=reviewed_profile)
    report.profile.save(output, overwrite=overwrite)
    if as_json:
        files_read = [outcome.to_dict() for outcome in outcomes]
        result = {"files": files_read, "warnings": warned, "read": notes, "output": str(output)}
        print_json(report.to_dict() | result)
    else:
        print_fit(report, output, notes, warned)
    end(outcomes, inputs.notes, as_json=as_json)


def _refuse_split_subjects(who: Mapping[str, ListRow]) -> None:
    """Refuse a subject in two groups, who would be on both sides of a split."""
    home: dict[str, str | None] = {}
    for row in who.values():
        group = home.setdefault(str(row.subject), row.group)
        if group != row.group:
            raise InputError(
                f"subject {row.subject!r} is in groups {group!r} and {row.group!r}, expected one group."
            )


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
        if isinstance(said, Hypnodensity):
            said = Hypnogram(said.argmax, said.scheme, said.epoch_seconds)
        return self.experts[j], said

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        return {
            "subject": self.subject,
            "n_epochs": self.experts[0].n_epochs,
            "n_experts": len(self.experts),
            "notes": list(self.notes),
        }


def _remarks(nights: Sequence[FitFile]) -> list[str]:
    """Return what was assumed when hypnograms were read, such as the epoch length, each remark once."""
    texts = Counter(text for night in nights for text in night.notes)
    return [text if n == len(nights) else f"{text} ({count(n, 'night')})" for text, n in texts.items()]


def _fitted(
    nights: Sequence[FitFile],
    base: Profile,
    name: str,
    choice: dict[str, Any],
    executor: Executor | None,
    *,
    quiet: bool,
) -> tuple[FitReport, list[str]]:
    """Fit with a progress bar on a terminal; return the report and the warnings."""
    subjects = [night.group for night in nights]  # a group is kept together as a subject is
    densities = [night.density for night in nights if night.density is not None]
    with collect_warnings() as warned, progress_bar("Cross-validating", quiet=quiet) as move_bar:

        def watch(at: FitProgress) -> None:
            if move_bar:
                move_bar(total=at.total, completed=at.done, description=one_line(at.what).capitalize())

        report = fit_report(
            [night.experts for night in nights],
            densities or None,
            base=base,
            subjects=None if None in subjects else subjects,
            name=name,
            progress=watch,
            executor=executor,
            **choice,
        )
    return report, warned


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads nights one by one."""

    base: Profile
    options: ReadOptions
    who: Mapping[str, ListRow]
    subjects: Path | None
    experts: Sequence[Experts]
    reviews: Mapping[str, list[Path]]

    def read(self, night: Input) -> FitFile:
        """Read one night."""
        path, name = night.path, night.id
        who = self.who.get(name) or self.who.get(path.name)
        if self.who and who is None:
            raise InputError(f"night {name!r} is not in {self.subjects}, expected a row for it.")
        if self.reviews:
            reviewed = read_reviewed(self.reviews[name])
            scored = FitFile(reviewed.density, reviewed.experts, (), reviews=reviewed.reviews)
        else:
            scored = self._with_experts(path, name) if self.experts else self._alone(path)
        return scored if who is None else replace(scored, subject=who.subject, group=who.group or who.subject)

    def _alone(self, path: Path) -> FitFile:
        if not is_hypnogram(path, self.base.scheme):
            raise InputError(
                "holds no hypnogram, and no experts are named for probabilities. Name them with --expert."
            )
        scoring = read_scoring(path, self.options.of_hypnogram(self.base.scheme, self.base.epoch_seconds))
        return FitFile(None, [scoring.hypnogram], scoring.notes)

    def _with_experts(self, path: Path, name: str) -> FitFile:
        if is_hypnogram(path, self.base.scheme):  # of a stager that gives labels alone
            options = self.options.of_hypnogram(self.base.scheme, self.base.epoch_seconds)
            said = read_scoring(path, options)
            return FitFile(said.hypnogram, self._scored(name, said.hypnogram), said.notes)
        read = read_density_file(path, self.options.density)
        density = read.density
        night = Hypnogram(
            density.argmax,
            density.scheme,
            density.epoch_seconds,
            density.start,
            offset_seconds=density.offset_seconds,
        )
        return FitFile(density, self._scored(name, night), read.notes)

    def _scored(self, name: str, night: Hypnogram) -> list[Hypnogram]:
        """Return the experts' scorings on the epochs of a night."""
        paths = [file for expert in self.experts if (file := expert.path_for(name)) is not None]
        if not paths:
            raise InputError(f"no expert's scoring is named {name!r}, expected one in the folder.")
        return [on_epochs_of(night, read_expert(expert, night, self.options)) for expert in paths]


def print_fit(report: FitReport, output: Path, notes: Sequence[str], warned: Sequence[str]) -> None:
    """Print the report of a fit."""
    out = Console()
    nights = f"{count(report.n_nights, 'scored night')} of {count(report.n_subjects, 'subject')}"
    out.print(
        f"{one_line(report.profile.name)}: {nights}, {report.n_scored_epochs:,} scored epochs, on "
        f"{one_line(report.base)}"
    )
    if report.rows:
        _print_candidates(report, out)
    out.heading("What the profile does")
    out.print(report.reason)
    out.list("Learned", list(_learned(report)))
    _print_gain(report, out)
    _print_intervals(report, out)
    warnings = [one_line(text).rstrip(".") for text in warned]
    out.list("Note", [text for text in (*report.notes, *notes) if one_line(text) not in warnings])
    out.list("Warning", warned)
    out.list("Wrote", [output])


def _print_candidates(report: FitReport, out: Console) -> None:
    out.heading("Candidates, cross-validated over subjects")
    cells: list[list[object]] = []
    for row in report.rows:
        values = (row.kappa, row.accuracy, row.fi, row.fi_distance, row.error, row.criterion)
        status = "" if row.status == "kept" else row.status
        style = "bold" if row.status == "chosen" else ""
        texts = (row.candidate.name, *(shown(value, 3) for value in values), status)
        cells.append([(text, style) for text in texts])
    numbers = (">kappa", ">accuracy", ">FI", ">|FI - expert|", ">errors", ">criterion")
    out.table(("candidate", *numbers, ""), cells)


def _learned(report: FitReport) -> Iterator[str]:
    profile, made = report.profile, report.profile.provenance
    if report.rows:
        yield f"temperature {profile.calibration.temperature:.2f}"
        if profile.calibration.biases is not None:
            pairs = zip(profile.scheme.names, profile.calibration.biases, strict=True)
            yield f"stage biases {', '.join(f'{name} {bias:+.2f}' for name, bias in pairs)} nats"
    yield f"experts' mean fragmentation index {made['mean_fragmentation_index']}"


def _print_gain(report: FitReport, out: Console) -> None:
    if report.nested is None:
        if report.rows:
            out.print("With two subjects the choice cannot be checked on nights held out from it.")
        return
    compared = {
        "argmax": report.gains(),
        "the default, which needs no scored nights": report.gains("default"),
    }
    for other, gains in compared.items():
        words = [f"{name} {mean:+.3f} (standard error {error:.3f})" for name, (mean, error) in gains.items()]
        out.print(f"Choosing so gains over {other}, on nights held out: {', '.join(words)}.")


def _print_intervals(report: FitReport, out: Console) -> None:
    """Print the width of the intervals of a night's statistics, and how often they covered the truth."""
    held = report.profile.intervals
    widths = {name: half_width(values, DEFAULT_LEVEL) for name, values in held.get("errors", {}).items()}
    known = {name: width for name, width in widths.items() if math.isfinite(width)}
    if not known:
        return
    out.heading(f"{DEFAULT_LEVEL:.0%} intervals, from errors on {held['n_nights']} nights held out")
    rows = []
    for name, width in known.items():
        shares = (held.get(kind, {}).get(name) for kind in ("coverage", "model_coverage"))
        cells = ("n/a" if share is None else f"{share:.0%}" for share in shares)
        rows.append((name, f"{width:.1f} {unit_of(name)}".rstrip(), *cells))
    out.table(("statistic", ">plus or minus", ">covered", ">covered by draws"), rows)
    out.print(
        "Covered: each subject by the errors on the others. Draws of the posterior promise no coverage."
    )
