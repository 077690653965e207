"""`stageguard posterior`: probabilities in, smoothed probabilities and draws out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from stageguard.cli.inputs import Input, decode_options, find_densities
from stageguard.cli.options import (
    AsJson,
    DecodingGiven,
    DensityFiles,
    OutputFolder,
    Overwrite,
    ProfileName,
    SampleList,
    spread,
)
from stageguard.cli.present import (
    end,
    print_headline,
    print_notes,
    print_read,
    print_review,
    run_shown,
    short_names,
)
from stageguard.cli.terminal import console, count, one_line, print_json, print_list, table
from stageguard.formats.posteriors import MEANING, Draws, write_posterior
from stageguard.guard.decoding import Decoding
from stageguard.guard.posterior import Posterior, posterior_like, sample_like
from stageguard.profile.profile import Profile
from stageguard.runner.decode_files import DecodeOptions, decode_file
from stageguard.runner.run import Outcome, check_folder, succeeded

MOST_DRAWS = 10_000_000  # as many as smoothing allows, which is not to be loaded to print help
UNSURE_BELOW = 0.9  # an epoch whose most probable stage is less probable than this is one to look at

NumberOfDraws = Annotated[
    int | None,
    typer.Option(
        "--draws", min=1, max=MOST_DRAWS, metavar="N", help="Also draw N whole nights: NAME.draws.npz."
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Same seed, same draws.")]


@spread
def posterior(
    profile: ProfileName,
    files: DensityFiles = None,
    samples: SampleList = None,
    draws: NumberOfDraws = None,
    seed: Seed = 0,
    given: DecodingGiven = DecodingGiven(),  # noqa: B008 - a group of options
    output: OutputFolder = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """How probable each stage of each epoch is, given the whole night and the profile.

    Writes NAME.posterior.csv, which every command reads as probabilities, and NAME.posterior.json with
    the log-evidence and where it all comes from.
    """
    loaded, options = Profile.load(profile), decode_options(given)
    inputs = find_densities(files, samples, loaded, options)
    given.check_one_file(len(inputs.nights))
    check_folder(output)

    def stem(night: Input) -> Path:
        return (night.path.parent if output is None else output) / night.name

    def write(night: Input) -> SmoothedNight:
        return posterior_file(
            night, stem(night), loaded, options, draws=draws, seed=seed, overwrite=overwrite
        )

    outcomes = run_shown(write, inputs.nights, "Adding up", quiet=as_json, output_of=stem)
    if as_json:
        print_json([outcome.to_dict() for outcome in outcomes])
    else:
        _print(succeeded(outcomes))
    print_notes(inputs.notes, as_json=as_json)
    end(outcomes, as_json=as_json)


@dataclass(frozen=True, slots=True)
class SmoothedNight:
    """What a person wants to know about a posterior, and where it was written."""

    profile_name: str
    profile_sha256: str
    stages: tuple[str, ...]
    n_epochs: int
    epoch_seconds: float
    offset_seconds: float
    n_without_evidence: int
    log_evidence: float
    best_path_score: float
    transition_weight: float
    mean_entropy_bits: float
    n_unsure: int
    expected_minutes: dict[str, float]
    decoded_minutes: dict[str, float]
    assumptions: tuple[str, ...]
    n_draws: int | None = None
    seed: int | None = None
    notes: tuple[str, ...] = ()
    outputs: Mapping[str, Path] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        names = [item.name for item in fields(self)][2:]
        return (
            {"profile": {"name": self.profile_name, "sha256": self.profile_sha256}}
            | {name: getattr(self, name) for name in names}
            | {
                "unsure_below": UNSURE_BELOW,
                "outputs": {kind: str(path) for kind, path in self.outputs.items()},
            }
        )


def posterior_file(
    night: Input,
    stem: Path,
    profile: Profile,
    options: DecodeOptions,
    *,
    draws: int | None,
    seed: int,
    overwrite: bool,
) -> SmoothedNight:
    """Write one night's posterior, and describe it."""
    decoding, notes = decode_file(night.path, profile, options)
    smooth = posterior_like(decoding)
    drawn = None if draws is None else Draws(sample_like(decoding, n=draws, seed=seed), seed)
    written = write_posterior(
        smooth,
        decoding,
        stem,
        source_path=night.path,
        draws=drawn,
        overwrite=overwrite,
        options=options.to_dict(),
        notes=notes,
    )
    outputs = {"csv": written.table, "json": written.sidecar, "draws": written.draws}
    return replace(
        describe_posterior(smooth, decoding),
        n_draws=draws,
        seed=None if draws is None else seed,
        notes=tuple(notes),
        outputs={kind: path for kind, path in outputs.items() if path is not None},
    )


def describe_posterior(smooth: Posterior, decoding: Decoding) -> SmoothedNight:
    """Return what a person wants to know about a posterior."""
    known = smooth.probabilities[~np.isnan(smooth.probabilities[:, 0])]
    entropy = -(known * np.log2(np.where(known > 0, known, 1.0))).sum(axis=1)
    minutes = smooth.epoch_seconds / 60
    labels, names = decoding.hypnogram.labels, smooth.scheme.names
    return SmoothedNight(
        profile_name=decoding.profile.name,
        profile_sha256=decoding.profile.sha256,
        stages=names,
        n_epochs=smooth.n_epochs,
        epoch_seconds=smooth.epoch_seconds,
        offset_seconds=smooth.offset_seconds,
        n_without_evidence=smooth.n_epochs - len(known),
        log_evidence=smooth.log_evidence,
        best_path_score=decoding.score,
        transition_weight=smooth.transition_weight,
        mean_entropy_bits=float(entropy.mean()) if len(known) else float("nan"),
        n_unsure=int(np.count_nonzero(known.max(axis=1) < UNSURE_BELOW)),
        expected_minutes=dict(zip(names, (known.sum(axis=0) * minutes).tolist(), strict=True)),
        decoded_minutes={
            name: float(np.count_nonzero(labels == stage)) * minutes for stage, name in enumerate(names)
        },
        assumptions=tuple(smooth.assumed),
    )


def _print(outcomes: list[Outcome[SmoothedNight]]) -> None:

    if not outcomes:
        return
    out = console()
    if len(outcomes) == 1:
        night = outcomes[0].result
        print_headline(outcomes[0].file, night, out, "under")
        shown = table("", "value", right=("value",))
        for title, cell in _rows(night):
            shown.add_row(title, cell)
        shown.show_header = False
        out.print(shown)
        numbers = ("expected min", "decoded min")
        minutes = table("stage", *numbers, right=numbers)
        for name in night.stages:
            cells = (night.expected_minutes[name], night.decoded_minutes[name])
            minutes.add_row(one_line(name), *(f"{cell:,.1f}" for cell in cells))
        out.print(minutes)
        print_read(outcomes, out)
        print_list(out, "Assumed", night.assumptions)
        print_list(out, "Warning", outcomes[0].warnings)
        print_list(out, "Wrote", night.outputs.values())
    else:
        _print_many(outcomes)
        print_read(outcomes, out)
    out.print(MEANING)
    print_review(out)


def _rows(night: SmoothedNight) -> list[tuple[str, str]]:

    n_known = night.n_epochs - night.n_without_evidence
    share = 100 * night.n_unsure / n_known if n_known else 0.0
    rows = [
        ("Log-evidence", f"{night.log_evidence:,.1f} nats"),
        ("Score of the best path (decode)", f"{night.best_path_score:,.1f} nats"),
        ("Mean entropy", f"{night.mean_entropy_bits:.3f} bits per epoch"),
        (f"Most probable stage below {UNSURE_BELOW:g}", f"{night.n_unsure:,} epochs ({share:.1f} %)"),
    ]
    if night.n_without_evidence:
        rows.append(("Without evidence", count(night.n_without_evidence, "epoch")))
    if night.n_draws is not None:
        rows.append(("Drawn", f"{count(night.n_draws, 'night')}, seed {night.seed}"))
    return rows


def _print_many(outcomes: list[Outcome[SmoothedNight]]) -> None:

    below = f"below {UNSURE_BELOW:g}"
    numbers = ("epochs", "log-evidence", "entropy (bits)", below)
    shown = table("file", *numbers, "warnings", right=numbers)
    for name, outcome in zip(short_names(outcomes), outcomes, strict=True):
        night = outcome.result
        shown.add_row(
            name,
            f"{night.n_epochs:,}",
            f"{night.log_evidence:,.1f}",
            f"{night.mean_entropy_bits:.3f}",
            f"{night.n_unsure:,}",
            "; ".join(map(one_line, outcome.warnings)),
        )
    out = console()
    out.print(shown)
    folders = sorted({str(outcome.result.outputs["csv"].parent) for outcome in outcomes})
    out.print(f"Wrote {len(outcomes)} posteriors to {', '.join(folders)}")
