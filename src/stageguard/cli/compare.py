"""`stageguard compare`: agreement with an expert. Parses and prints only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stageguard.cli._options import (
    AsJson,
    EpochSeconds,
    FormatName,
    Log,
    Logits,
    Pool,
    SchemeName,
    Stages,
)

if TYPE_CHECKING:
    from stageguard.cli._experts import Experts
    from stageguard.cli._scored_files import ReadOptions
    from stageguard.profile import Profile
    from stageguard.stages import StageScheme

Expert = Annotated[
    Path,
    typer.Argument(metavar="EXPERT", help="The expert's hypnogram, or a folder with one for each night."),
]
Others = Annotated[
    list[Path],
    typer.Argument(metavar="OTHER", help="What to compare with it: hypnograms or probabilities."),
]
PairsOf = Annotated[
    str | None,
    typer.Option("--profile", "-p", metavar="NAME", help="Whose uncommon transitions to look for."),
]


def compare(
    expert: Expert,
    others: Others,
    profile: PairsOf = None,
    scheme: SchemeName = None,
    stages: Stages = None,
    epoch_seconds: EpochSeconds = None,
    logits: Logits = False,
    log: Log = False,
    format: FormatName = None,
    pool: Pool = None,
    as_json: AsJson = False,
) -> None:
    """Agreement of hypnograms with an expert's: accuracy, kappa, F1, confusion, uncommon transitions found.

    What decode wrote is compared before and after decoding. The accuracy of naming only the expert's most
    frequent stage stands beside each.
    """
    from stageguard.cli._compare_present import print_comparison
    from stageguard.cli._experts import Experts
    from stageguard.cli._present import print_problems
    from stageguard.cli._scored_files import read_options, run_each
    from stageguard.cli._terminal import print_json, progress

    options = read_options(
        profile, scheme, stages, epoch_seconds, logits=logits, log=log, format=format, pool=pool
    )
    experts = Experts(expert)
    found = run_each(others, lambda path: compare_file(path, experts, options))
    reports = list(progress(found, "Comparing", len(others), quiet=as_json))
    if as_json:
        print_json(reports)
    else:
        print_comparison([report for report in reports if report["ok"]])
    print_problems(reports, as_json=as_json)
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)


def compare_file(path: Path, experts: Experts, options: ReadOptions) -> dict[str, Any]:
    """Compare one file's scorings with the expert's, in plain types."""
    from stageguard.cli._scored_files import read_scored
    from stageguard.errors import InputError
    from stageguard.measures.agreement import agreement

    scored = read_scored(path, options)
    place = experts.path_for(scored.night_id)
    expert = experts.read(scored.night_id, scored.final, options)
    if expert is None or place is None:
        raise InputError(f"no expert's scoring is named {scored.night_id!r}, expected one in the folder.")
    own = {"argmax": scored.before, "guard" if scored.before is not None else "scored": scored.after}
    found = {}
    for name, night in own.items():
        if night is not None:
            pairs = uncommon_pairs(
                scored.profile, min((expert.scheme, night.scheme), key=lambda s: s.n_stages)
            )
            found[name] = agreement(expert, night, pairs=pairs).to_dict()
    return {
        "id": scored.night_id,
        "expert": str(place),
        "agreement": found,
        "notes": list(scored.notes),
    }


def uncommon_pairs(profile: Profile | None, scheme: StageScheme) -> list[tuple[str, str]]:
    """Return the transitions a profile counts as uncommon, in a coarser scheme; without one wake to REM."""
    if profile is None:
        return [(scheme.wake, scheme.rem)] if scheme.wake and scheme.rem else []
    own = profile.scheme
    merge = range(own.n_stages) if own == scheme else own.merge_map(scheme)
    merged = [tuple(scheme.names[merge[own.index(stage)]] for stage in pair) for pair in profile.tvr_pairs]
    return [(a, b) for a, b in dict.fromkeys(merged) if a != b]
