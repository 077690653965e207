"""`stageguard decode`: probabilities in, hypnogram out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from click import UsageError
from click.exceptions import Exit

from stageguard.base.arrays import DAY_SECONDS, NAN
from stageguard.base.errors import InputError
from stageguard.base.files import read_text, write_text_atomic
from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.decoded import print_manifest
from stageguard.cli.outcomes import print_notes, print_problems
from stageguard.cli.terminal import Console, json_list, one_line, outcome_bar, print_error
from stageguard.formats.cohort_table import has_ids
from stageguard.formats.density import listed
from stageguard.formats.outputs import PLAIN_SUFFIXES
from stageguard.guard.decoding import CITATION, Decoding
from stageguard.night.timing import Moment
from stageguard.profile.profile import Profile
from stageguard.runner.decode_files import DecodeTask, FileSource
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.decode_table import TableTask, is_table_name, table_source
from stageguard.runner.executors import executor_for
from stageguard.runner.inputs import Input, Inputs, find_densities
from stageguard.runner.manifest import (
    FAILURES_TABLE,
    METHODS_TEXT,
    MOST_IN_FULL,
    Manifest,
    decode_cohort,
)
from stageguard.runner.run import check_folder
from stageguard.runner.tune_files import keep_tuned

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
@opt.scheduler
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
    scheduler: str | None,
    as_json: bool,
) -> None:
    """Turn stage probabilities into physiologically plausible hypnograms.

    Writes NAME.hypnogram.tsv and NAME.hypnogram.json for each file, and prints what changed. A second call
    skips nights that are already decoded. One night may get a name of its own: --output x.tsv (or x.json)
    writes x.tsv and x.json. Several files with --output also give cohort.tsv, failures.tsv if any failed, a
    Methods paragraph as methods.md, and with --strength tune the profile as tuned-profile.toml. A cohort in
    one table with the column id is decoded to one table: --output out.parquet, or out.csv.

    Examples
    --------
    stageguard decode night.csv --profile human-psg-5
    stageguard decode nights --profile human-psg-5 --output decoded --jobs 0
    """
    loaded = Profile.load(profile)
    if strength != "tune":
        options = replace(options, strength=strength)
    file = output if output is not None and _is_file_name(output, files) else None
    if output is not None and file is None and output.suffix and is_table_name(output):
        for_files = {  # options for files of one night
            "--strength tune": strength == "tune",
            "--svg": svg,
            "--lights-off or --lights-on": lights != (None, None),
            "--format": options.density.format is not None,
            "--quality or --pins": bool(companions),
        }
        path = _table_to_decode(files, samples, profile, for_files)
        table = TableTask(
            *(path, output, loaded, options), overwrite=overwrite, explain=explain, only=only, say=one_line
        )
        _decode_table(table, jobs, scheduler, as_json=as_json)
        return
    inputs = find_densities(files, samples, loaded, options)
    if only:
        inputs = _chosen(inputs, only)
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
    tables = output if inputs.is_cohort and file is None else None
    task_of = partial(
        DecodeTask,
        profile=loaded,
        overwrite=overwrite,
        draw=_draw if svg else None,
        explain=explain,
        durable=n_nights == 1,
        shares_profile=tables is not None,
        in_full=as_json or n_nights <= MOST_IN_FULL,
    )
    tasks = [
        task_of(
            night.path,
            file or night.output(output),
            options=_between_lights(options, night, lights),
            edf=night.edf,
            start=night.start,
            error=night.error,
        )
        for night in inputs.nights
    ]
    with (
        json_list() if as_json else nullcontext() as show,
        executor_for(scheduler) as executor,
        outcome_bar("Decoding", n_nights, quiet=as_json, show=show) as on_outcome,
    ):
        source = FileSource(tasks, tables, one_line)
        manifest = decode_cohort(source, jobs=jobs, executor=executor, on_outcome=on_outcome)
    remarks += _longer_than_a_day(manifest, loaded)
    if tables is not None:
        _write_methods(manifest, loaded, options, tables)
    manifest.written += written
    manifest.remarks[:0] = remarks
    end_decoding(manifest, as_json=as_json)


def _longer_than_a_day(manifest: Manifest, profile: Profile) -> list[str]:
    """Return a remark on recordings of people that hold several nights."""
    if profile.species != "human":
        return []
    long = [row.id for row, seconds, _ in manifest.effects if row.n_epochs * seconds > DAY_SECONDS]
    if not long:
        return []
    return [f"longer than 24 h: {listed(long, 3)}. To guard every sleep by itself: stageguard days"]


def _decode_table(table: TableTask, jobs: int, scheduler: str | None, *, as_json: bool) -> None:
    """Decode a table of many nights to another table."""
    with (
        executor_for(scheduler) as executor,
        outcome_bar("Decoding", None, quiet=as_json) as on_outcome,
    ):
        manifest = decode_cohort(table_source(table), jobs=jobs, executor=executor, on_outcome=on_outcome)
    if as_json:
        with json_list() as show:
            for row in manifest.nights:
                show({"ok": True} | row.to_dict())
            for outcome in manifest.failures:
                show(outcome)
    end_decoding(manifest, as_json=as_json, in_one_table=True)


def _between_lights(
    options: DecodeOptions, night: Input, lights: tuple[Moment | None, Moment | None]
) -> DecodeOptions:
    """Return options with the lights of the command, else those of the list for this night.

    Without any it is the same object, which need not be sent to other processes again.
    """
    off = night.lights_off if lights[0] is None else lights[0]
    on = night.lights_on if lights[1] is None else lights[1]
    return options if off is None and on is None else replace(options, lights_off=off, lights_on=on)


def _is_file_name(output: Path, files: Sequence[Path]) -> bool:
    """Whether --output names the file of one night; refuse a file of a kind that is not written."""
    suffix = output.suffix.lower()
    if output.is_dir() or not suffix:
        return False
    if suffix in OTHER_FILES:
        raise UsageError(
            f"--output is {output.name!r}, expected a folder, a .tsv or .json file for one night, or a "
            ".csv or .parquet table for a table of nights. Other formats are written from it by stageguard "
            "convert."
        )
    if suffix not in PLAIN_SUFFIXES:
        return False
    return suffix == ".json" or not files or not any(has_ids(path) for path in files)


def _write_methods(manifest: Manifest, profile: Profile, options: DecodeOptions, folder: Path) -> None:
    """Write the Methods paragraph of this run's nights; a file of that name that is not ours stays."""
    path = folder / METHODS_TEXT
    if not manifest.effects:
        return
    if path.exists() and CITATION not in read_text(path, "text", errors="replace"):
        manifest.remarks.append(f"{path} is no text of decode's, so it was left as it is")
        return
    used = profile.at_strength(options.strength).for_nights_of(options.cohort, options.stager)
    is_shifted = bool(used.calibration.biases)  # then the table's index is of the shifted stages
    from stageguard.report.methods import CohortFact, cohort_methods  # only cohorts need it

    facts = [
        CohortFact(used, seconds, effect, (NAN, NAN) if is_shifted else (row.fi_before, row.fi_after))
        for row, seconds, effect in manifest.effects
    ]
    write_text_atomic(path, cohort_methods(facts, stager=options.stager) + "\n", overwrite=True)
    manifest.written.append(path)


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


def _draw(decoding: Decoding) -> str:
    from stageguard.report.hypnogram_svg import hypnogram_svg  # only pictures need it

    return hypnogram_svg(decoding)


def _chosen(inputs: Inputs, only: Sequence[str]) -> Inputs:
    """Return the nights with the names in `only`; refuse a name without a night."""
    names = [night.id for night in inputs.nights]
    missing = [name for name in only if name not in names]
    if missing:
        raise InputError(f"--only {missing[0]}: there is no such night. Nights: {listed(names, 5)}.")
    return replace(inputs, nights=tuple(night for night in inputs.nights if night.id in only))


def _table_to_decode(
    files: Sequence[Path],
    samples: Path | None,
    profile: str,
    for_files: Mapping[str, bool],
) -> Path:
    """Return the table of many nights; refuse options for files of one night."""
    if samples is not None or len(files) != 1 or files[0].is_dir():
        raise InputError(
            "--output names a table, expected one table with the column id to decode. Name a folder."
        )
    if too_much := [name for name, is_set in for_files.items() if is_set]:
        what_to_do = "Leave it out, or name a folder." if too_much[0] != "--strength tune" else (
            "Tune first, then decode with the tuned profile: "
            f"stageguard tune {files[0].name} --base {profile} --output tuned.toml"
        )  # fmt: skip
        raise InputError(f"{too_much[0]} does not go with a table as --output. {what_to_do}")
    return files[0]
