"""`stageguard compare`: agreement with an expert. Parses and prints only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stageguard.cli.options import (
    AsJson,
    EpochSeconds,
    FormatName,
    Log,
    Logits,
    Pool,
    SampleList,
    SchemeName,
    ScoringFormat,
    Stages,
    given_path,
)

if TYPE_CHECKING:
    from stageguard.cli.experts import Experts
    from stageguard.cli.inputs import Input
    from stageguard.cli.scored_files import ReadOptions
    from stageguard.night.stages import StageScheme
    from stageguard.profile.profile import Profile

Expert = Annotated[
    Path | None,
    typer.Argument(
        metavar="EXPERT",
        parser=given_path,
        help="The expert's hypnogram, or a folder with one for each night. Left out with --list.",
    ),
]
Others = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="OTHER",
        parser=given_path,
        help="What to compare with it: hypnograms or probabilities, folders of them, or quoted patterns.",
    ),
]
PairsOf = Annotated[
    str | None,
    typer.Option("--profile", "-p", metavar="NAME", help="Whose uncommon transitions to look for."),
]


def compare(
    expert: Expert = None,
    others: Others = None,
    samples: SampleList = None,
    profile: PairsOf = None,
    scheme: SchemeName = None,
    stages: Stages = None,
    epoch_seconds: EpochSeconds = None,
    logits: Logits = False,
    log: Log = False,
    format: FormatName = None,
    pool: Pool = None,
    scoring_format: ScoringFormat = None,
    as_json: AsJson = False,
) -> None:
    """Agreement of hypnograms with an expert's: accuracy, kappa, F1, confusion, uncommon transitions found.

    What decode wrote is compared before and after decoding. The accuracy of naming only the expert's most
    frequent stage stands beside each.
    """
    from stageguard.cli.compare_present import print_comparison
    from stageguard.cli.experts import Experts
    from stageguard.cli.inputs import find_inputs
    from stageguard.cli.listed import is_sample_list
    from stageguard.cli.present import print_notes, print_problems, print_warnings
    from stageguard.cli.scored_files import read_options, run_each
    from stageguard.cli.terminal import console, print_json, progress

    options = read_options(
        profile,
        scheme,
        stages,
        epoch_seconds,
        logits=logits,
        log=log,
        format=format,
        pool=pool,
        scoring_format=scoring_format,
    )
    files = [*([] if expert is None else [expert]), *(others or ())]
    if samples is None and files and is_sample_list(files[0]):
        samples, files = files[0], files[1:]
    if samples is None and len(files) < 2:
        missing = (
            "OTHER...': name what to compare with it" if files else "EXPERT': name it, or a list (--list)"
        )
        raise typer.BadParameter(f"Missing argument '{missing}.")
    place, rest = (None, files) if samples is not None else (files[0], files[1:])
    experts = Experts(place)
    inputs = find_inputs(rest, samples, options.wanted)
    found = run_each(inputs.nights, lambda night: compare_night(night, experts, options))
    reports = list(progress(found, "Comparing", len(inputs.nights), quiet=as_json))
    if as_json:
        print_json(reports)
    else:
        print_comparison([report for report in reports if report["ok"]])
        print_warnings([report for report in reports if report["ok"]], console())
    print_notes(inputs.notes, as_json=as_json)
    print_problems(reports, as_json=as_json)
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)


def compare_night(night: Input, experts: Experts, options: ReadOptions) -> dict[str, Any]:
    """Compare one night's scorings with the expert's, in plain types."""
    from stageguard.base.errors import InputError
    from stageguard.cli.inputs import scoring_of
    from stageguard.cli.scored_files import read_night
    from stageguard.measures.agreement import agreement

    scored = read_night(night, options)
    listed = scoring_of(night)
    place = listed or experts.path_for(night.name)
    expert = experts.read(night.name, scored.final, options, listed)
    if expert is None or place is None:
        raise InputError(f"no expert's scoring is named {night.name!r}, expected one in the {experts.kind}.")
    own = {"argmax": scored.before, "guard" if scored.before is not None else "scored": scored.after}
    found = {}
    for name, stages in own.items():
        if stages is not None:
            pairs = uncommon_pairs(
                scored.profile, min((expert.scheme, stages.scheme), key=lambda s: s.n_stages)
            )
            found[name] = agreement(expert, stages, pairs=pairs).to_dict()
    return {
        "id": night.name,
        "expert": str(place),
        "agreement": found,
        "notes": list(scored.notes),
    }


def uncommon_pairs(profile: Profile | None, scheme: StageScheme) -> list[tuple[str, str]]:
    """Return the transitions a profile counts as uncommon, in a coarser scheme; without one wake to REM."""
    from stageguard.measures.agreement import merged_pairs

    if profile is None:
        return [(scheme.wake, scheme.rem)] if scheme.wake and scheme.rem else []
    return list(merged_pairs(profile, scheme))
