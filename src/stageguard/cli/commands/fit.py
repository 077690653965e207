"""`stageguard fit`: scored nights in, a fitted profile out. Parses and prints only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stageguard.cli.options import (
    AsJson,
    EpochSeconds,
    FormatName,
    Log,
    Logits,
    Overwrite,
    Pool,
    SampleList,
    ScoringFormat,
    Stages,
    given_path,
)

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
    stages: Stages = None,
    epoch_seconds: EpochSeconds = None,
    logits: Logits = False,
    log: Log = False,
    format: FormatName = None,
    pool: Pool = None,
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
    from stageguard.cli.fit_present import print_fit
    from stageguard.cli.fit_run import Request, find_nights, names_experts, run_fit
    from stageguard.cli.present import print_failures, print_notes
    from stageguard.cli.scored_files import read_options
    from stageguard.cli.terminal import print_json

    if output.suffix != ".toml":
        raise typer.BadParameter(f"--output is {str(output)!r}, expected the name of a .toml file.")
    reading = read_options(
        base,
        None,
        stages,
        epoch_seconds,
        logits=logits,
        log=log,
        format=format,
        pool=pool,
        scoring_format=scoring_format,
    )
    request = Request(
        inputs=find_nights(files, samples, reading, has_experts=bool(expert) or names_experts(subjects)),
        reading=reading,
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
        print_fit(result, show_all=show_all)
        print_failures(result.reports)
    print_notes(request.inputs.notes, as_json=as_json)
    if not all(report["ok"] for report in result.reports):
        raise typer.Exit(1)
