"""`stageguard decode`: probabilities in, hypnogram out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Literal

from click import UsageError
from click.exceptions import Exit

from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.decoded import print_manifest
from stageguard.cli.outcomes import print_notes, print_problems
from stageguard.cli.terminal import Console, json_list, one_line, outcome_bar, print_error
from stageguard.errors import InputError
from stageguard.formats.cohort_dataset import is_dataset
from stageguard.formats.cohort_table import has_ids
from stageguard.formats.outputs import PLAIN_SUFFIXES
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
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.executors import Cluster
from stageguard.runner.inputs import find_densities
from stageguard.runner.manifest import (
    FAILURES_TABLE,
    MOST_IN_FULL,
    Manifest,
)
from stageguard.runner.run import check_folder
from stageguard.runner.tune_files import keep_tuned
from stageguard.storage import is_folder

# Suffixes of files that --output may be meant for, where it names a folder.
OTHER_FILES = frozenset(
    (
        *(".txt", ".edf", ".xml", ".html", ".svg", ".png", ".pdf", ".xlsx", ".npz", ".npy"),
        *(".mat", ".h5", ".fif"),
    )
)


@command
@opt.profile
@opt.density_files
@opt.sample_list
@opt.decoding
@opt.companions
@opt.lights
@opt.output_folder
@option("--svg", is_flag=True, help="Also draw each night as an SVG picture.")
@option("--explain", is_flag=True, help="Also write which epochs changed, why, and what keeping them costs.")
@option(
    "--strength",
    type=opt.NumberOrWord("off", "tune", min=0, max=1000),
    help="How strongly to guard. NUMBER: transition weight, in place of the profile's own or "
    "its rule. off: the stager's own choice, apart from --pins, --quality and gaps. tune: "
    "as the profile tuned to the stager on these nights, if ten or more, says.",
)
@option(
    "--only",
    metavar="ID",
    multiple=True,
    help="Decode this night of a folder, list or table alone; repeatable.",
)
@opt.overwrite
@opt.jobs
@opt.cluster
@opt.as_json
def decode(
    profile: str,
    files: tuple[Path, ...],
    samples: Path | None,
    options: DecodeOptions,
    companions: opt.Companions,
    lights: tuple[Moment | None, Moment | None],
    output: Path | None,
    svg: bool,
    explain: bool,
    strength: float | Literal["off", "tune"] | None,
    only: tuple[str, ...],
    overwrite: bool,
    jobs: int,
    cluster: Cluster | None,
    as_json: bool,
) -> None:
    """Turn stage probabilities into physiologically plausible hypnograms.

    Writes NAME.hypnogram.tsv and NAME.hypnogram.json for each file, and prints what changed. A second call
    skips nights that are already decoded. One night may get a name of its own: --output x.tsv (or x.json)
    writes x.tsv and x.json. Several files with --output also give cohort.tsv, failures.tsv if any failed, a
    Methods paragraph as methods.md, and with --strength tune the profile as tuned-profile.toml. A cohort in
    one table with the column id is decoded to one table: --output out.parquet, or out.csv. A Parquet dataset,
    with or without partitions, may also become a dataset: --output FOLDER.

    Examples
    --------
    stageguard decode night.csv --profile human-psg-5
    stageguard decode nights --profile human-psg-5 --output decoded --jobs 0
    """
    loaded = Profile.load(profile)
    if strength != "tune":
        options = replace(options, strength=strength)
    call = CohortCall(
        profile=loaded,
        options=options,
        output=output,
        lights=lights,
        only=only,
        svg=svg,
        explain=explain,
        overwrite=overwrite,
        jobs=jobs,
        cluster=cluster,
        say=one_line,
    )
    file = output if output is not None and _is_file_name(output, files) else None
    if file is None and is_table_call(output, files, samples):
        for_files = {  # options for files of one night
            "--strength tune": strength == "tune",
            "--svg": svg,
            "--lights-off or --lights-on": lights != (None, None),
            "--format": options.density.format is not None,
            "--quality or --pins": bool(companions),
        }
        tables = tables_to_decode(files, samples)
        _refuse_for_files(tables[0], profile, for_files)
        _decode_table(call, tables, as_json=as_json)
        return
    inputs = chosen_nights(find_densities(files, samples, loaded, options), only)
    options = companions.add_to(options, [night.path for night in inputs.nights], loaded)
    n_nights = len(inputs.nights)
    if file is not None and n_nights != 1:
        raise UsageError(f"--output is one file for {n_nights:,} nights, expected a folder.")
    folder = output if file is None else file.parent
    check_folder(folder)
    remarks, written = list(inputs.notes), list[Path]()
    if strength == "tune":
        from stageguard.cli.commands.tune import tuned_on  # loads what fits profiles

        base = loaded
        loaded, reasons = tuned_on(inputs, base, options, jobs, quiet=as_json)
        remarks += reasons
        if folder is not None and loaded != base:
            written.append(keep_tuned(loaded, folder, overwrite=overwrite))
    in_full = as_json or n_nights <= MOST_IN_FULL
    call = replace(call, profile=loaded, options=options, name=file, in_full=in_full)
    with (
        json_list() if as_json else nullcontext() as show,
        outcome_bar("Decoding", n_nights, quiet=as_json, show=show) as on_outcome,
    ):
        manifest = decode_inputs(replace(call, on_outcome=on_outcome), inputs)
    manifest.written += written
    manifest.remarks[:0] = remarks
    end_decoding(manifest, as_json=as_json)


def _decode_table(call: CohortCall, paths: Sequence[Path], *, as_json: bool) -> None:
    """Decode a table of many nights to another table, or a dataset to a dataset."""
    with outcome_bar("Decoding", None, quiet=as_json) as on_outcome:
        manifest = decode_table(replace(call, on_outcome=on_outcome), paths)
    if as_json:
        with json_list() as show:
            for row in manifest.nights:
                show({"ok": True} | row.to_dict())
            for outcome in manifest.failures:
                show(outcome)
    end_decoding(manifest, as_json=as_json, in_one_table=True)


def _is_file_name(output: Path, files: Sequence[Path]) -> bool:
    """Whether --output names the file of one night; refuse a file of a kind that is not written."""
    suffix = output.suffix.lower()
    if is_folder(output) or not suffix:
        return False
    if suffix in OTHER_FILES:
        raise UsageError(
            f"--output is {output.name!r}, expected a folder, a .tsv or .json file for one night, or a "
            ".csv or .parquet table for a table of nights. Other formats are written from it by stageguard "
            "convert."
        )
    if suffix not in PLAIN_SUFFIXES:
        return False
    return suffix == ".json" or not (any(map(has_ids, files)) or is_dataset(files))


def end_decoding(
    manifest: Manifest, *, as_json: bool, in_one_table: bool = False, next_steps: Sequence[str] = ()
) -> None:
    """Print the outcome of the nights, and exit with 1 if any failed."""
    if not as_json:
        out = Console()
        print_manifest(manifest, out, in_one_table=in_one_table)
        for line in next_steps:
            out.print(line, whole_line=True)
    print_notes(manifest.remarks, as_json=as_json)
    failures = next((path for path in manifest.written if path.name.endswith(FAILURES_TABLE)), None)
    print_problems(
        manifest.failures,
        as_json=as_json,
        n_files=manifest.n_nights,
        listed_in=failures,
        in_one_table=in_one_table,
    )
    for problem in manifest.problems:
        print_error(problem)
    if manifest.failures or manifest.problems:
        raise Exit(1)


def _refuse_for_files(table: Path, profile: str, for_files: Mapping[str, bool]) -> None:
    """Refuse options for files of one night with a table of many."""
    if too_much := [name for name, is_set in for_files.items() if is_set]:
        what_to_do = "Leave it out, or name a folder." if too_much[0] != "--strength tune" else (
            "Tune first, then decode with the tuned profile: "
            f"stageguard tune {table.name} --base {profile} --output tuned.toml"
        )  # fmt: skip
        raise InputError(f"{too_much[0]} does not go with a table as --output. {what_to_do}")
