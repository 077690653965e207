"""`stageguard posterior`: probabilities in, smoothed probabilities and draws out. Parses and prints only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from stageguard.cli.decode_file import DecodeOptions, decode_file, decode_options
from stageguard.cli.inputs import Input, find_inputs
from stageguard.cli.options import (
    AsJson,
    Cohort,
    EpochSeconds,
    FormatName,
    Log,
    Logits,
    Overwrite,
    Pins,
    Pool,
    ProfileName,
    Quality,
    SampleList,
    Stages,
    TrainedOn,
    given_path,
)
from stageguard.cli.outputs import OutputStems, check_folder
from stageguard.cli.present import (
    print_headline,
    print_notes,
    print_problems,
    print_read,
    print_review,
    short_names,
)
from stageguard.cli.recognising import Wanted
from stageguard.cli.scored_files import run_each
from stageguard.cli.terminal import console, count, one_line, print_json, print_list, progress, table
from stageguard.formats.posteriors import MEANING, Draws, write_posterior
from stageguard.guard.decoding import Decoding
from stageguard.guard.posterior import Posterior, posterior_like, sample_like
from stageguard.profile.profile import Profile

MOST_DRAWS = 10_000_000  # as many as smoothing allows, which is not to be loaded to print help
UNSURE_BELOW = 0.9  # an epoch whose most probable stage is less probable than this is one to look at

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILES",
        parser=given_path,
        help="Probabilities (CSV, .npy, YASA JSON ...), folders of them, quoted patterns, or a sample list.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        parser=given_path,
        help="For the outputs. Default: beside each file.",
    ),
]
NumberOfDraws = Annotated[
    int | None,
    typer.Option(
        "--draws", min=1, max=MOST_DRAWS, metavar="N", help="Also draw N whole nights: NAME.draws.npz."
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Same seed, same draws.")]


def posterior(
    profile: ProfileName,
    files: Files = None,
    samples: SampleList = None,
    draws: NumberOfDraws = None,
    seed: Seed = 0,
    stages: Stages = None,
    epoch_seconds: EpochSeconds = None,
    quality: Quality = None,
    pins: Pins = None,
    cohort: Cohort = None,
    trained: TrainedOn = None,
    logits: Logits = False,
    log: Log = False,
    format: FormatName = None,
    pool: Pool = None,
    output: Output = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """How probable each stage of each epoch is, given the whole night and the profile.

    Writes NAME.posterior.csv, which every command reads as probabilities, and NAME.posterior.json with
    the log-evidence and where it all comes from.
    """
    if logits and log:
        raise typer.BadParameter("--logits and --log exclude each other: give the one the files hold.")
    loaded = Profile.load(profile)
    options = decode_options(stages, epoch_seconds, quality, pins, cohort, trained, logits, log, format, pool)
    inputs = find_inputs(
        files, samples, Wanted("density", format, (*loaded.scheme.names, *(options.stages or ())))
    )
    if len(inputs.nights) > 1 and (quality is not None or pins):
        raise typer.BadParameter("--quality and --pins belong to one file: take the files one by one.")
    check_folder(output)
    stems = OutputStems(inputs.nights, output)
    found = run_each(
        inputs.nights,
        lambda night: posterior_file(
            night, stems.of(night), loaded, options, draws=draws, seed=seed, overwrite=overwrite
        ),
    )
    reports = list(progress(found, "Adding up", len(inputs.nights), quiet=as_json))
    if as_json:
        print_json(reports)
    else:
        _print([report for report in reports if report["ok"]])
    print_notes(inputs.notes, as_json=as_json)
    print_problems(reports, as_json=as_json)
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)


def posterior_file(
    night: Input,
    place: Path,
    profile: Profile,
    options: DecodeOptions,
    *,
    draws: int | None,
    seed: int,
    overwrite: bool,
) -> dict[str, Any]:
    """Write one night's posterior, and describe it in plain types."""
    night.refuse()
    decoding, notes = decode_file(night.path, profile, options)
    smooth = posterior_like(decoding)
    drawn = None if draws is None else Draws(sample_like(decoding, n=draws, seed=seed), seed)
    written = write_posterior(
        smooth,
        decoding,
        place,
        source_path=night.path,
        draws=drawn,
        overwrite=overwrite,
        options=options.to_dict(),
        notes=notes,
    )
    outputs = {"csv": written.table, "json": written.sidecar, "draws": written.draws}
    return describe_posterior(smooth, decoding) | {
        "id": night.name,
        "n_draws": draws,
        "seed": None if draws is None else seed,
        "notes": list(notes),
        "outputs": {kind: str(one) for kind, one in outputs.items() if one is not None},
    }


def describe_posterior(smooth: Posterior, decoding: Decoding) -> dict[str, Any]:
    """Return what a person wants to know about a posterior, in plain types."""
    known = smooth.probabilities[~np.isnan(smooth.probabilities[:, 0])]
    entropy = -(known * np.log2(np.where(known > 0, known, 1.0))).sum(axis=1)
    minutes = smooth.epoch_seconds / 60
    labels = decoding.hypnogram.labels
    names = smooth.scheme.names
    return {
        "profile": {"name": decoding.profile.name, "sha256": decoding.profile.sha256},
        "stages": list(names),
        "n_epochs": smooth.n_epochs,
        "epoch_seconds": smooth.epoch_seconds,
        "offset_seconds": smooth.offset_seconds,
        "n_without_evidence": smooth.n_epochs - len(known),
        "log_evidence": smooth.log_evidence,
        "best_path_score": decoding.score,
        "transition_weight": smooth.transition_weight,
        "mean_entropy_bits": float(entropy.mean()) if len(known) else float("nan"),
        "n_unsure": int(np.count_nonzero(known.max(axis=1) < UNSURE_BELOW)),
        "unsure_below": UNSURE_BELOW,
        "expected_minutes": dict(zip(names, (known.sum(axis=0) * minutes).tolist(), strict=True)),
        "decoded_minutes": {
            name: float(np.count_nonzero(labels == stage)) * minutes for stage, name in enumerate(names)
        },
        "assumptions": list(smooth.assumed),
    }


def _print(reports: list[dict[str, Any]]) -> None:

    if not reports:
        return
    out = console()
    if len(reports) == 1:
        (report,) = reports
        print_headline(report, out, "under")
        shown = table("", "value", right=("value",))
        for title, cell in _rows(report):
            shown.add_row(title, cell)
        shown.show_header = False
        out.print(shown)
        numbers = ("expected min", "decoded min")
        minutes = table("stage", *numbers, right=numbers)
        for name in report["stages"]:
            cells = (report["expected_minutes"][name], report["decoded_minutes"][name])
            minutes.add_row(one_line(name), *(f"{cell:,.1f}" for cell in cells))
        out.print(minutes)
        print_read(reports, out)
        print_list(out, "Assumed", report["assumptions"])
        print_list(out, "Warning", report["warnings"])
        print_list(out, "Wrote", report["outputs"].values())
    else:
        _print_many(reports)
        print_read(reports, out)
    out.print(MEANING)
    print_review(out)


def _rows(report: dict[str, Any]) -> list[tuple[str, str]]:

    n_known = report["n_epochs"] - report["n_without_evidence"]
    share = 100 * report["n_unsure"] / n_known if n_known else 0.0
    rows = [
        ("Log-evidence", f"{report['log_evidence']:,.1f} nats"),
        ("Score of the best path (decode)", f"{report['best_path_score']:,.1f} nats"),
        ("Mean entropy", f"{report['mean_entropy_bits']:.3f} bits per epoch"),
        (f"Most probable stage below {UNSURE_BELOW:g}", f"{report['n_unsure']:,} epochs ({share:.1f} %)"),
    ]
    if report["n_without_evidence"]:
        rows.append(("Without evidence", count(report["n_without_evidence"], "epoch")))
    if report["n_draws"] is not None:
        rows.append(("Drawn", f"{count(report['n_draws'], 'night')}, seed {report['seed']}"))
    return rows


def _print_many(reports: list[dict[str, Any]]) -> None:

    below = f"below {UNSURE_BELOW:g}"
    numbers = ("epochs", "log-evidence", "entropy (bits)", below)
    shown = table("file", *numbers, "warnings", right=numbers)
    for name, report in zip(short_names(reports), reports, strict=True):
        shown.add_row(
            name,
            f"{report['n_epochs']:,}",
            f"{report['log_evidence']:,.1f}",
            f"{report['mean_entropy_bits']:.3f}",
            f"{report['n_unsure']:,}",
            one_line("; ".join(report["warnings"])),
        )
    out = console()
    out.print(shown)
    folders = sorted({str(Path(report["outputs"]["csv"]).parent) for report in reports})
    out.print(f"Wrote {len(reports)} posteriors to {', '.join(folders)}")
