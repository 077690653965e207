"""`stageguard fit`: scored nights in, a fitted profile out."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from stageguard.base.errors import InputError, Message, OutputExistsError, StageGuardWarning
from stageguard.base.files import check_apart
from stageguard.cli.fit_present import print_fit
from stageguard.cli.inputs import Input, Inputs, find_inputs, scoring_of
from stageguard.cli.options import AsJson, Overwrite, Reading, SampleList, ScoringFormat, given_path, spread
from stageguard.cli.present import print_failures, print_notes, run_shown
from stageguard.cli.scored_files import Experts, ReadOptions, read_options, read_scoring
from stageguard.cli.terminal import console, one_line, print_json, warned_of
from stageguard.fitting.endpoints import Kind
from stageguard.fitting.fit import Progress, fit_report
from stageguard.fitting.report import FitReport
from stageguard.formats.companions import SubjectNight, read_subjects
from stageguard.formats.hypnogram import HypnogramOptions
from stageguard.formats.outputs import TSV_SUFFIX
from stageguard.formats.read import is_hypnogram, read_density_file
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile
from stageguard.runner.run import Outcome

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILES",
        parser=given_path,
        help="The stager's probabilities, or experts' hypnograms alone; folders, quoted patterns, a list.",
    ),
]
Base = Annotated[
    str, typer.Option("--base", "-b", metavar="NAME", help="Profile to start from: a name or a .toml file.")
]
Output = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="FILE.toml", parser=given_path, help="The fitted profile."),
]
Expert = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FOLDER",
        parser=given_path,
        help="Experts' hypnograms by night. Once for each of several experts.",
    ),
]
Subjects = Annotated[
    Path | None,
    typer.Option(
        metavar="TABLE", help="Whose each night is: columns id and subject; group and expert may be."
    ),
]
CohortName = Annotated[
    str | None, typer.Option("--cohort", metavar="NAME", help="Whom the nights are of: used on no other.")
]
KeepAccuracy = Annotated[
    bool, typer.Option("--keep-accuracy", help="Also drop whatever falls below argmax's accuracy.")
]
FragmentationWeight = Annotated[
    float, typer.Option(min=0.0, metavar="NUMBER", help="Kappa that a unit of distance in FI is worth.")
]
StatisticsWeight = Annotated[
    float, typer.Option(min=0.0, metavar="NUMBER", help="Kappa that argmax's errors of statistics are worth.")
]
Reported = Annotated[
    str | None,
    typer.Option("--statistics", metavar="night|day", help="What is reported. Default: by the recordings."),
]
FoldsOption = Annotated[int, typer.Option("--folds", min=2, metavar="N", help="Folds of cross-validation.")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Same seed, same profile.")]
Curve = Annotated[
    bool, typer.Option("--learning-curve/--no-learning-curve", help="Find how many nights are enough.")
]
All = Annotated[bool, typer.Option("--all", help="Show every candidate, not the best of each kind.")]


@spread
def fit(
    base: Base,
    output: Output,
    files: Files = None,
    samples: SampleList = None,
    expert: Expert = None,
    subjects: Subjects = None,
    cohort: CohortName = None,
    keep_accuracy: KeepAccuracy = False,
    fragmentation_weight: FragmentationWeight = 2.0,
    statistics_weight: StatisticsWeight = 0.3,
    statistics: Reported = None,
    folds: FoldsOption = 5,
    seed: Seed = 0,
    learning_curve: Curve = True,
    reading: Reading = Reading(),  # noqa: B008 - a group of options
    scoring_format: ScoringFormat = None,
    overwrite: Overwrite = False,
    show_all: All = False,
    as_json: AsJson = False,
) -> None:
    """Fit a profile to nights that a stager and an expert scored.

    Calibrates, counts, and chooses how strongly to guard by cross-validation over subjects. Argmax is
    always a candidate: where nothing is better, the profile steps aside. Hypnograms alone give
    transitions, bout lengths and bands.
    """
    if output.suffix != ".toml":
        raise typer.BadParameter(f"--output is {str(output)!r}, expected the name of a .toml file.")
    read_with = read_options(reading, profile=base, scoring_format=scoring_format)
    request = Request(
        inputs=find_nights(files, samples, read_with, has_experts=bool(expert) or names_experts(subjects)),
        reading=read_with,
        spare=tuple(path for path in (Path(base), samples, subjects) if path is not None),
        output=output,
        experts=tuple(expert or ()),
        subjects=subjects,
        cohort=cohort,
        keep_accuracy=keep_accuracy,
        fragmentation_weight=fragmentation_weight,
        statistics_weight=statistics_weight,
        statistics=statistics,  # type: ignore[arg-type]  # checked where it is used
        n_folds=folds,
        seed=seed,
        learning_curve=learning_curve,
        overwrite=overwrite,
    )
    result = run_fit(request, quiet=as_json)
    if as_json:
        print_json(result.to_dict())
    else:
        print_fit(result.fitted, result.output, result.notes, result.warnings, show_all=show_all)
        print_failures(result.outcomes)
    print_notes(request.inputs.notes, as_json=as_json)
    if not all(outcome.ok for outcome in result.outcomes):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class Request:
    """What `fit` was asked for; the base profile is that of `reading`."""

    inputs: Inputs
    reading: ReadOptions
    output: Path
    spare: tuple[Path, ...] = ()  # files that were read before, never written over
    experts: tuple[Path, ...] = ()
    subjects: Path | None = None
    cohort: str | None = None
    keep_accuracy: bool = False
    fragmentation_weight: float = 2.0
    statistics_weight: float = 0.3
    statistics: Kind | None = None
    n_folds: int = 5
    seed: int = 0
    learning_curve: bool = True
    overwrite: bool = False

    @property
    def base(self) -> Profile:
        """The profile to start from."""
        assert self.reading.profile is not None
        return self.reading.profile


@dataclass(frozen=True, slots=True)
class ReadNight:
    """A night that was read to fit to."""

    subject: str | None
    n_epochs: int
    n_experts: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        return asdict(self)


@dataclass(slots=True)
class FitResult:
    """What came of it: an outcome per file, what was fitted, and remarks."""

    outcomes: list[Outcome[ReadNight]]
    fitted: FitReport
    output: Path
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        return self.fitted.to_dict() | {
            "files": [outcome.to_dict() for outcome in self.outcomes],
            "warnings": self.warnings,
            "read": self.notes,
            "output": str(self.output),
        }


def find_nights(
    files: Sequence[Path] | None, samples: Path | None, reading: ReadOptions, *, has_experts: bool
) -> Inputs:
    """Return the nights to fit to: probabilities where there are experts for them, else hypnograms."""
    wanted = reading.wanted
    if has_experts:
        wanted = replace(wanted, kind="density")
    return find_inputs(files, samples, wanted)


def names_experts(subjects: Path | None) -> bool:
    """Whether a table of subjects names scorings of the nights."""
    return subjects is not None and any(who.expert is not None for who in read_subjects(subjects).values())


def run_fit(request: Request, *, quiet: bool) -> FitResult:
    """Read every file, fit, and write the profile."""
    nights = request.inputs.nights
    read = [path for night in nights for path in night.files]
    check_apart([request.output], [*request.spare, *read])
    if request.output.exists() and not request.overwrite:
        raise OutputExistsError(f"{request.output} exists already. Use --overwrite to replace it.")
    reader = _Reader(request)
    outcomes = run_shown(reader.run, nights, "Reading", quiet=quiet)
    if not reader.nights:
        failed = [outcome.error for outcome in outcomes if outcome.error is not None]
        raise InputError(Message("no night could be read. The first problem: ", failed[0]))
    groups = [night.group for night in reader.nights]
    known = [night.subject for night in reader.nights]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StageGuardWarning)
        with _bar(quiet=quiet) as watch:
            report = fit_report(
                None if reader.is_alone else [night.density for night in reader.nights],  # type: ignore[misc]
                [night.experts for night in reader.nights],
                base=request.base,
                groups=None if None in groups else groups,
                subjects=None if None in known else known,
                cohort=request.cohort,
                name=request.output.stem,
                keep_accuracy=request.keep_accuracy,
                fragmentation_weight=request.fragmentation_weight,
                statistics_weight=request.statistics_weight,
                statistics=request.statistics,
                n_folds=request.n_folds,
                learning_curve=request.learning_curve,
                seed=request.seed,
                progress=watch,
            )
    report.profile.save(request.output, overwrite=request.overwrite)
    said = warned_of(caught)
    return FitResult(outcomes, report, request.output, said, reader.notes())


@dataclass(frozen=True, slots=True)
class _Night:
    density: Hypnodensity | None
    experts: list[Hypnogram]
    subject: str | None
    group: str | None


class _Reader:
    """Reads files one by one and keeps the nights."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._who: dict[str, SubjectNight] = {}
        if request.subjects is not None:
            self._who = read_subjects(request.subjects)
        named = {name: found.expert for name, found in self._who.items() if found.expert is not None}
        named |= {night.name: path for night in request.inputs.nights if (path := scoring_of(night))}
        places = request.experts or ((None,) if named else ())
        self._experts = [Experts(place, named if i == 0 else None) for i, place in enumerate(places)]
        self.is_alone = not self._experts
        self.nights: list[_Night] = []
        self._names: dict[str, Path] = {}

    def run(self, night: Input) -> ReadNight:
        """Read one night."""
        path, name = night.path, night.name
        if name in self._names:
            raise InputError(f"is night {name!r} like {self._names[name]}. Rename one, or leave one out.")
        who = self._who.get(name) or self._who.get(path.name)
        if self._who and who is None:
            raise InputError(f"night {name!r} is not in {self._request.subjects}, expected a row for it.")
        found, notes = self._alone(path) if self.is_alone else self._with_experts(path, name)
        subject = None if who is None else who.subject
        group = None if who is None else who.group or who.subject
        self.nights.append(_Night(found.density, found.experts, subject, group))
        self._names[name] = path
        return ReadNight(subject, found.experts[0].n_epochs, len(found.experts), tuple(notes))

    def notes(self) -> list[str]:
        """Return what the reader of the result should know about the files."""
        unused = sorted(set(self._who) - set(self._names) - {path.name for path in self._names.values()})
        if not unused:
            return []
        more = f" and {len(unused) - 5} more" if len(unused) > 5 else ""
        return [f"in the table of subjects, but not among the files: {', '.join(unused[:5])}{more}"]

    def _alone(self, path: Path) -> tuple[_Night, tuple[str, ...]]:
        base = self._request.base
        if not is_hypnogram(path, base.scheme):
            raise InputError(
                "holds no hypnogram, and no experts are named for probabilities. Name them with --expert."
            )
        options = HypnogramOptions(
            epoch_seconds=self._request.reading.epoch_seconds,
            default_scheme=base.scheme,
            default_epoch_seconds=base.epoch_seconds,
            format=None if path.name.endswith(TSV_SUFFIX) else self._request.reading.scoring_format,
        )
        found = read_scoring(path, options)
        return _Night(None, [found.hypnogram], None, None), found.notes

    def _with_experts(self, path: Path, name: str) -> tuple[_Night, tuple[str, ...]]:
        base, said = self._request.base, self._request.reading
        if is_hypnogram(path, base.scheme):
            raise InputError("is a hypnogram, expected the stager's probabilities beside the experts'.")
        found = read_density_file(path, said.density)
        density = found.density
        night = Hypnogram(
            density.argmax(),
            density.scheme,
            density.epoch_seconds,
            density.start,
            offset_seconds=density.offset_seconds,
        )
        options = ReadOptions(epoch_seconds=said.epoch_seconds, scoring_format=said.scoring_format)
        experts = [one.read(name, night, options) for one in self._experts]
        scored = [expert for expert in experts if expert is not None]
        if not scored:
            raise InputError(f"no expert's scoring is named {name!r}, expected one in the folder.")
        return _Night(density, scored, None, None), found.notes


@contextmanager
def _bar(*, quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Show a progress bar on stderr while a person is watching."""
    if quiet or not sys.stderr.isatty():
        yield None
        return

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("Cross-validating", total=None)

        def watch(at: Progress) -> None:
            bar.update(task, total=at.total, completed=at.done, description=one_line(at.what).capitalize())

        yield watch
