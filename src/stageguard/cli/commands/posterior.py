"""`stageguard posterior`: probabilities in, smoothed probabilities and draws out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
import numpy as np

from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.outcomes import (
    finish,
    notes_of,
    print_headline,
    print_read,
    print_review,
    run_shown,
    short_names,
)
from stageguard.cli.terminal import Console, count, one_line
from stageguard.formats.outputs import POSTERIOR_MEANING, Draws, WrittenPosterior, write_posterior
from stageguard.guard.decoding import Decoding
from stageguard.guard.posterior import MOST_DRAWS, Posterior, posterior_like, sample_like
from stageguard.profile.profile import Profile
from stageguard.report.summary import RecordingFacts
from stageguard.runner.decode_one import DecodeOptions, decode_file
from stageguard.runner.inputs import Input, find_densities
from stageguard.runner.run import Outcome, check_folder

UNSURE_BELOW = 0.9  # epochs whose most probable stage is less probable than this deserve a look


@command
@opt.profile
@opt.density_files
@opt.sample_list
@option(
    "--draws",
    metavar="N",
    type=click.IntRange(min=1, max=MOST_DRAWS),
    help="Also draw N whole nights: NAME.draws.npz.",
)
@option("--seed", metavar="N", type=opt.COUNT, default=0, help="Same seed, same draws.")
@opt.decoding
@opt.companions
@opt.output_folder
@opt.overwrite
@opt.as_json
def posterior(
    profile: str,
    files: tuple[Path, ...],
    samples: Path | None,
    draws: int | None,
    seed: int,
    options: DecodeOptions,
    companions: opt.Companions,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Compute how probable each stage of each epoch is, given the whole night and the profile.

    Writes NAME.posterior.csv, which every command reads as probabilities, and NAME.posterior.json with
    the log-evidence, input, profile and options.

    Examples
    --------
    stageguard posterior night.csv --profile human-psg-5 --draws 100
    """
    loaded = Profile.load(profile)
    inputs = find_densities(files, samples, loaded, options)
    options = companions.add_to(options, [night.path for night in inputs.nights], loaded)
    check_folder(output)

    def write(night: Input) -> PosteriorFile:
        decoding, notes = decode_file(night.path, loaded, options)
        smooth = posterior_like(decoding)
        drawn = None if draws is None else Draws(sample_like(decoding, n=draws, seed=seed), seed)
        written = write_posterior(
            smooth,
            decoding,
            night.output(output),
            source_path=night.path,
            draws=drawn,
            overwrite=overwrite,
            options=options.to_dict(),
            notes=notes,
        )
        return describe_posterior(smooth, decoding, drawn, notes, written)

    outcomes = run_shown(
        write, inputs.nights, "Adding up", quiet=as_json, output_of=lambda night: night.output(output)
    )
    finish(outcomes, _print, inputs.notes, as_json=as_json)


@dataclass(frozen=True, slots=True)
class PosteriorFile:
    """A summary of one night's posterior, and its files."""

    facts: RecordingFacts
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
    n_draws: int | None
    seed: int | None
    notes: tuple[str, ...]
    outputs: Mapping[str, Path]

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from paths and messages."""
        values = {item.name: getattr(self, item.name) for item in fields(self)[1:]}
        return self.facts.to_dict() | values | {"unsure_below": UNSURE_BELOW}


def describe_posterior(
    smooth: Posterior,
    decoding: Decoding,
    draws: Draws | None,
    notes: tuple[str, ...],
    written: WrittenPosterior,
) -> PosteriorFile:
    """Return the summary of a posterior."""
    known = smooth.probabilities[~np.isnan(smooth.probabilities[:, 0])]
    entropy = -(known * np.log2(np.where(known > 0, known, 1.0))).sum(axis=1)
    minutes = smooth.epoch_seconds / 60
    labels, names = decoding.hypnogram.labels, smooth.scheme.names
    outputs = {"csv": written.table, "json": written.sidecar, "draws": written.draws}
    return PosteriorFile(
        facts=RecordingFacts.of(decoding.hypnogram, decoding.profile),
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
        n_draws=None if draws is None else len(draws.labels),
        seed=None if draws is None else draws.seed,
        notes=notes,
        outputs={kind: path for kind, path in outputs.items() if path is not None},
    )


def _print(done: list[Outcome[PosteriorFile]], out: Console) -> None:
    if len(done) > 1:
        _print_many(done, out)
    else:
        _print_one(done[0], out)
    out.print(POSTERIOR_MEANING)
    print_review(out)


def _print_one(outcome: Outcome[PosteriorFile], out: Console) -> None:
    night = outcome.result
    print_headline(outcome.file, night.facts, out, "under")
    out.table(("", ">value"), _rows(night), headed=False)
    minutes = [
        (name, f"{night.expected_minutes[name]:,.1f}", f"{night.decoded_minutes[name]:,.1f}")
        for name in night.facts.stages
    ]
    out.table(("stage", ">expected min", ">decoded min"), minutes)
    print_read(outcome.notes, out)
    out.list("Assumed", night.assumptions)
    out.list("Warning", outcome.warnings)
    out.list("Wrote", night.outputs.values())


def _rows(night: PosteriorFile) -> list[tuple[str, str]]:
    n_known = night.facts.n_epochs - night.n_without_evidence
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


def _print_many(outcomes: list[Outcome[PosteriorFile]], out: Console) -> None:
    rows = [
        (
            name,
            night.facts.n_epochs,
            f"{night.log_evidence:,.1f}",
            f"{night.mean_entropy_bits:.3f}",
            night.n_unsure,
            "; ".join(map(one_line, outcome.warnings)),
        )
        for name, outcome in zip(short_names(outcomes), outcomes, strict=True)
        for night in (outcome.result,)
    ]
    below = f">below {UNSURE_BELOW:g}"
    out.table(("file", ">epochs", ">log-evidence", ">entropy (bits)", below, "warnings"), rows)
    folders = sorted({str(outcome.result.outputs["csv"].parent) for outcome in outcomes})
    out.print(f"Wrote {len(outcomes)} posteriors to {', '.join(folders)}")
    print_read(notes_of(outcomes), out)
