"""`stageguard decode`: probabilities in, hypnograms out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import click
from click import UsageError

from stageguard.cli import options as opt
from stageguard.cli.command import command, more, option
from stageguard.cli.decoded import end_decoding, print_outcome
from stageguard.cli.render import print_line
from stageguard.cli.terminal import outcome_bar
from stageguard.errors import InputError
from stageguard.night.timing import Moment
from stageguard.profile.profile import Profile
from stageguard.runner.cohort import (
    CohortCall,
    chosen_nights,
    decode_inputs,
    decode_table,
    is_table_call,
    tables_to_decode,
)
from stageguard.runner.decode_one import DecodeOptions, profile_that_fits
from stageguard.runner.inputs import find_densities
from stageguard.runner.manifest import MOST_IN_FULL
from stageguard.runner.pool import Cluster
from stageguard.runner.run import check_folder


@command
@option("--profile", "-p", metavar="NAME", help="Name or .toml file. Default: the one that fits the stages.")
@opt.density_files
@opt.output(
    "FOLDER|TABLE",
    "Default: beside each file. A table of nights: .csv, .tsv, .parquet.",
    opt.OutputType(*opt.TABLES),
)
@opt.lights
@option("--svg", is_flag=True, help="Also draw each night as an SVG picture.")
@option("--explain", is_flag=True, help="Also write which epochs changed, and why.")
@option("--posterior", is_flag=True, help="Also write how probable each stage of each epoch is.")
@option("--tune", is_flag=True, help="First tune the profile to the stager, on ten or more of these nights.")
@opt.overwrite
@opt.jobs
@opt.as_json
@opt.sample_list
@more("--only", "ID", "Decode this night of a folder, list or table alone; repeatable.", multiple=True)
@more(
    *("--strength", "off|NUMBER", "Transition weight instead of the profile's, or no smoothing."),
    type=opt.NumberOrWord("off", min=0, max=1000),
)
@more(
    *("--draws", "N", "Draw N whole nights from the posterior; --seed N repeats them."),
    type=click.IntRange(min=1, max=10_000_000),
)
@more("--seed", "N", "Same seed, same draws.", type=opt.COUNT, default=0, hidden=True)
@opt.companions
@opt.decoding
@opt.cluster
def decode(
    profile: str | None,
    files: tuple[Path, ...],
    output: Path | None,
    lights: tuple[Moment | None, Moment | None],
    svg: bool,
    explain: bool,
    posterior: bool,
    tune: bool,
    overwrite: bool,
    jobs: int,
    as_json: bool,
    samples: Path | None,
    only: tuple[str, ...],
    strength: float | Literal["off"] | None,
    draws: int | None,
    seed: int,
    companions: opt.Companions,
    options: DecodeOptions,
    cluster: Cluster | None,
) -> None:
    """Turn stage probabilities into plausible hypnograms, and say what changed.

    Writes NAME.hypnogram.tsv and .json for each file. A second call skips nights that are done.

    Examples
    --------
    stageguard decode nights --output decoded --jobs 0
    """
    options = replace(options, strength=strength)
    loaded = None if profile is None else Profile.load(profile)
    work = None
    if has_posterior := posterior or draws is not None:
        from stageguard.runner.posterior_files import decode_with_posterior

        work = partial(decode_with_posterior, n_draws=draws, seed=seed)
    call = partial(
        CohortCall,
        output=output,
        lights=lights,
        only=only,
        svg=svg,
        explain=explain,
        work=work,
        overwrite=overwrite,
        jobs=jobs,
        cluster=cluster,
    )
    if is_table_call(output, files, samples):
        for_files = {
            "--tune": tune,
            "--svg": svg,
            "--posterior or --draws": has_posterior,
            "--lights-off or --lights-on": lights != (None, None),
            "--format": options.density.format is not None,
            "--quality or --pins": bool(companions),
        }
        if too_much := [name for name, is_given in for_files.items() if is_given]:
            raise InputError(f"{too_much[0]} does not go with a table as --output. Name a folder.")
        if loaded is None:
            raise UsageError("missing option --profile, which a table of nights needs.")
        _decode_table(
            call(profile=loaded, options=options), tables_to_decode(files, samples), as_json=as_json
        )
        return
    check_folder(output)
    inputs = chosen_nights(find_densities(files, samples, loaded, options), only)
    paths, remarks, written = [night.path for night in inputs.nights], list(inputs.notes), list[Path]()
    if loaded is None:
        loaded = profile_that_fits(paths, options.density)
        remarks.append(f"profile {loaded.name}: the one that fits these stages and epochs")
    options = companions.add_to(options, paths, loaded)
    if tune:
        from stageguard.cli.commands.fit import tuned_on  # loads what fits profiles
        from stageguard.runner.tune_files import keep_tuned

        base = loaded
        loaded, reasons = tuned_on(inputs, base, options, jobs, quiet=as_json)
        remarks += reasons
        if output is not None and loaded != base:
            written.append(keep_tuned(loaded, output, overwrite=overwrite))
    in_full = as_json or len(paths) <= MOST_IN_FULL
    show = print_outcome if as_json else None
    with outcome_bar("Decoding", len(paths), quiet=as_json, show=show) as on_outcome:
        run = call(profile=loaded, options=options, in_full=in_full, on_outcome=on_outcome)
        manifest = decode_inputs(run, inputs)
    manifest.written += written
    manifest.remarks[:0] = remarks
    end_decoding(manifest, as_json=as_json)


def _decode_table(call: CohortCall, paths: Sequence[Path], *, as_json: bool) -> None:
    """Decode a table of many nights to another table, or a dataset to a dataset."""
    with outcome_bar("Decoding", None, quiet=as_json) as on_outcome:
        manifest = decode_table(replace(call, on_outcome=on_outcome), paths)
    if as_json:
        for row in manifest.nights:
            print_line({"ok": True} | row.to_dict())
        for outcome in manifest.failures:
            print_line(outcome.to_dict())
    end_decoding(manifest, as_json=as_json, in_one_table=True)
