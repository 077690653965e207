"""`stageguard decode`: probabilities in, hypnogram out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from click import UsageError
from click.exceptions import Exit

from stageguard.base.arrays import NAN
from stageguard.base.errors import InputError
from stageguard.base.files import read_text, write_text_atomic
from stageguard.cli.command import command, option
from stageguard.cli.console import Console, Table
from stageguard.cli.inputs import Inputs, find_densities, with_companions
from stageguard.cli.options import (
    NumberOrWord,
    check_one_file,
    decoding_options,
    density_files_argument,
    jobs_option,
    json_option,
    lights_options,
    output_folder_option,
    overwrite_option,
    pins_option,
    profile_option,
    quality_option,
    sample_list_option,
    scheduler_option,
)
from stageguard.cli.present import (
    MOST_NOTES,
    MOST_ROWS,
    executor_on,
    is_worth_saying,
    look_at,
    print_cohort,
    print_early_rem_kept,
    print_night,
    print_notes,
    print_problems,
    print_review,
    some_nights,
)
from stageguard.cli.progress import progress_bar
from stageguard.cli.terminal import (
    JsonList,
    count,
    one_line,
    print_error,
    print_list,
)
from stageguard.formats.cohort_table import has_ids
from stageguard.formats.density import listed
from stageguard.formats.outputs import PLAIN_SUFFIXES
from stageguard.guard.decoding import CITATION, Decoding
from stageguard.night.timing import Moment
from stageguard.profile.profile import Profile
from stageguard.report.summary import looking_like_experts
from stageguard.runner.cohort import Source, decode_cohort
from stageguard.runner.decode_files import DecodeTask, FileSource
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.decode_table import TableTask, is_table_name, table_source
from stageguard.runner.manifest import (
    FAILURES_TABLE,
    METHODS_TEXT,
    MOST_IN_FULL,
    DecodedNight,
    Manifest,
)
from stageguard.runner.run import Outcome, check_folder
from stageguard.runner.tune_files import keep_tuned

PERCENTILES = (5, 50, 95)
# Suffixes of files that --output may be meant for, where it names a folder.
OTHER_FILES = frozenset(
    (
        *(".txt", ".edf", ".xml", ".html", ".svg", ".png", ".pdf", ".xlsx", ".npz", ".npy"),
        *(".mat", ".h5", ".fif"),
    )
)

if TYPE_CHECKING:
    from concurrent.futures import Executor


@command
@profile_option
@density_files_argument
@sample_list_option
@decoding_options
@quality_option
@pins_option
@lights_options
@output_folder_option
@option("--svg", is_flag=True, help="Also draw each night as an SVG picture.")
@option("--explain", is_flag=True, help="Also write which epochs changed, why, and what keeping them costs.")
@option(
    "--strength",
    type=NumberOrWord("off", "tune", min=0, max=1000),
    help="How strongly to guard. NUMBER: transition weight, in place of the profile's own or "
    "its rule. off: the stager's own choice, apart from --pins, --quality and gaps. tune: "
    "as the profile tuned to the stager on these nights, if ten or more, says.",
)
@option("--tune", is_flag=True, help="The same as --strength tune.")
@option(
    "--only",
    metavar="ID",
    multiple=True,
    help="Decode this night of a folder, list or table alone; repeatable.",
)
@overwrite_option
@jobs_option
@scheduler_option
@json_option
def decode(
    profile: str,
    files: tuple[Path, ...],
    samples: Path | None,
    options: DecodeOptions,
    quality: Path | None,
    pins: tuple[str, ...],
    lights: tuple[Moment | None, Moment | None],
    output: Path | None,
    svg: bool,
    explain: bool,
    strength: float | Literal["off", "tune"] | None,
    tune: bool,
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
    if tune and strength not in (None, "tune"):
        raise UsageError(f"--tune is --strength tune, and --strength {strength} was given. Say one of them.")
    is_tuned = tune or strength == "tune"
    if strength != "tune":
        options = replace(options, strength=strength)
    is_one_file = output is not None and _is_file_name(output, files)
    is_named = output is not None and bool(output.suffix) and not is_one_file
    if output is not None and is_named and is_table_name(output):
        # options for files of one night
        single = {
            "--strength tune": is_tuned,
            "--svg": svg,
            "--lights-off or --lights-on": lights != (None, None),
            "--format": options.density.format is not None,
        }
        too_much = [option for option, is_given in single.items() if is_given]
        check_one_file(2, quality, pins)
        path = _table_to_decode(files, samples, profile, too_much)
        task = TableTask(
            *(path, output, loaded, options),
            overwrite=overwrite,
            explain=explain,
            only=only,
            say=one_line,
        )
        with executor_on(scheduler) as executor:
            manifest = _run(table_source(task), jobs, executor, as_json=as_json)
        with JsonList(wanted=as_json) as printed:
            for row in manifest.nights:
                printed.add({"ok": True} | row.to_dict())
            for outcome in manifest.failures:
                printed.add(outcome.to_dict())
        _end(manifest, as_json=as_json, in_one_table=True)
        return
    inputs = _chosen(find_densities(files, samples, loaded, options), only)
    options = with_companions(options, [night.path for night in inputs.nights], quality, pins, loaded)
    if is_one_file and len(inputs.nights) != 1:
        raise UsageError(f"--output is one file for {len(inputs.nights):,} nights, expected a folder.")
    folder = output.parent if output is not None and is_one_file else output
    check_folder(folder)
    notes, written = list(inputs.notes), list[Path]()
    if is_tuned:
        base = loaded
        from stageguard.cli.commands.tune import tuned_on  # loads what fits profiles

        loaded, remarks = tuned_on(inputs, base, options, jobs, quiet=as_json)
        notes += remarks
        if folder is not None and loaded != base:
            written.append(keep_tuned(loaded, folder, overwrite=overwrite))
    draw = _draw if svg else None
    tasks = _tasks(
        inputs,
        folder,
        loaded,
        options,
        lights,
        overwrite=overwrite,
        explain=explain,
        draw=draw,
        as_json=as_json,
    )
    if output is not None and is_one_file:
        tasks = [replace(task, output=output, shares_profile=False) for task in tasks]
    tables = output if inputs.is_cohort and not is_one_file else None
    source = FileSource(tasks, tables, one_line)
    with executor_on(scheduler) as executor, JsonList(wanted=as_json) as printed:
        show = (lambda outcome: printed.add(outcome.to_dict())) if as_json else None
        manifest = _run(source, jobs, executor, n_nights=len(tasks), as_json=as_json, show=show)
    if tables is not None:
        _write_methods(manifest, loaded, options, tables)
    manifest.written += written
    manifest.remarks[:0] = notes
    _end(manifest, as_json=as_json)


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


def _tasks(
    inputs: Inputs,
    output: Path | None,
    profile: Profile,
    options: DecodeOptions,
    lights: tuple[Moment | None, Moment | None],
    *,
    overwrite: bool,
    explain: bool,
    draw: Callable[[Decoding], str] | None,
    as_json: bool,
) -> list[DecodeTask]:
    """Return one task per night, with what the options or a sample list say about it."""
    n_nights, (off, on) = len(inputs.nights), lights
    return [
        DecodeTask(
            night.path,
            night.output(output),
            profile,
            options,
            overwrite=overwrite,
            draw=draw,
            explain=explain,
            edf=night.edf,
            lights_off=night.lights_off if off is None else off,
            lights_on=night.lights_on if on is None else on,
            start=night.start,
            durable=n_nights == 1,
            shares_profile=inputs.is_cohort and output is not None,
            in_full=as_json or n_nights <= MOST_IN_FULL,
            error=night.error,
        )
        for night in inputs.nights
    ]


def _write_methods(manifest: Manifest, profile: Profile, options: DecodeOptions, folder: Path) -> None:
    """Write the Methods paragraph of this run's nights; a file of that name that is not ours stays."""
    path = folder / METHODS_TEXT
    if not manifest.effects:
        return
    if path.exists() and CITATION not in read_text(path, "text", errors="replace"):
        manifest.remarks.append(f"{path} is no text of decode's, so it was left as it is")
        return
    used = profile.at_strength(options.strength).for_cohort(options.cohort)
    is_shifted = bool(used.calibration.biases)  # then the table's index is of the shifted stages
    from stageguard.report.methods import CohortFact, cohort_methods  # only cohorts need it

    facts = [
        CohortFact(used, seconds, effect, (NAN, NAN) if is_shifted else (row.fi_before, row.fi_after))
        for row, seconds, effect in manifest.effects
    ]
    write_text_atomic(path, cohort_methods(facts, stager=options.stager) + "\n", overwrite=True)
    manifest.written.append(path)


def _end(manifest: Manifest, *, as_json: bool, in_one_table: bool = False) -> None:
    """Print the outcome of the nights, and exit with 1 if any failed."""
    if not as_json:
        _print(manifest, in_one_table=in_one_table)
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


def _chosen(inputs: Inputs, only: Sequence[str] | None) -> Inputs:
    """Return the nights with the names in `only`; refuse a name without a night."""
    if not only:
        return inputs
    names = [night.id for night in inputs.nights]
    missing = [name for name in only if name not in names]
    if missing:
        raise InputError(f"--only {missing[0]}: there is no such night. Nights: {listed(names, 5)}.")
    return replace(inputs, nights=tuple(night for night in inputs.nights if night.id in only))


def _run(
    source: Source,
    jobs: int,
    executor: Executor | None,
    *,
    n_nights: int | None = None,
    as_json: bool,
    show: Callable[[Outcome[DecodedNight]], None] | None = None,
) -> Manifest:
    """Decode in order, with a progress bar on a terminal; how many nights a table has is not known before."""
    is_quiet = as_json or (n_nights is not None and n_nights < 2)
    with progress_bar("Decoding", quiet=is_quiet) as move:
        n_done = 0

        def on_outcome(outcome: Outcome[DecodedNight]) -> None:
            nonlocal n_done
            n_done += 1
            if show is not None:
                show(outcome)
            if move is not None:
                move(total=n_nights, completed=n_done)

        return decode_cohort(source, jobs=jobs, executor=executor, on_outcome=on_outcome)


def _table_to_decode(
    files: Sequence[Path],
    samples: Path | None,
    profile: str,
    too_much: Sequence[str],
) -> Path:
    """Return the table of many nights; refuse options for files of one night."""
    if samples is not None or len(files) != 1 or files[0].is_dir():
        raise InputError(
            "--output names a table, expected one table with the column id to decode. Name a folder."
        )
    if too_much:
        what_to_do = "Leave it out, or name a folder." if too_much[0] != "--strength tune" else (
            "Tune first, then decode with the tuned profile: "
            f"stageguard tune {files[0].name} --base {profile} --output tuned.toml"
        )  # fmt: skip
        raise InputError(f"{too_much[0]} does not go with a table as --output. {what_to_do}")
    return files[0]


def _print(manifest: Manifest, *, in_one_table: bool = False) -> None:
    """Print one night in full, a row for each of a few nights, or a summary of very many."""
    out = Console()
    if manifest.n_nights > 1 or in_one_table:
        if manifest.n_decoded <= MOST_ROWS and not in_one_table:
            print_cohort(manifest.first, out)
        elif manifest.nights:
            _print_common(manifest, out)
        counts = {
            "done before": manifest.n_before,
            "decoded": manifest.n_decoded,
            "failed": len(manifest.failures),
        }
        words = ", ".join(f"{n:,} {what}" for what, n in counts.items() if n or what == "decoded")
        out.print(f"{count(manifest.n_nights, 'night')}: {words}.", style="bold")
        print_list(out, "Wrote", manifest.written)
    elif manifest.first:
        print_night(manifest.first[0])
    elif manifest.nights:
        out.print(
            f"{manifest.nights[0].file} was decoded before, with the same profile and options: nothing to "
            "do. --overwrite decodes it again."
        )


def _print_common(manifest: Manifest, out: Console) -> None:
    """Print percentiles over the nights, and counts of what the strength rule did, warnings and remarks."""
    rows = manifest.nights
    numbers = {
        ("Epochs", ",.0f"): [row.n_epochs for row in rows],
        ("Epochs changed (%)", ".1f"): [100 * row.n_changed / row.n_epochs for row in rows],
        ("Joint score before", ".2f"): [row.joint_before for row in rows],
        ("Joint score after", ".2f"): [row.joint_after for row in rows],
        ("FI before", ".3f"): [row.fi_before for row in rows],
        ("FI after", ".3f"): [row.fi_after for row in rows],
    }
    titles = ("5th percentile", "median", "95th percentile")
    shown = Table("over all nights", *titles, right=titles)
    for (title, form), values in numbers.items():
        known = np.array(values, dtype=np.float64)
        known = known[~np.isnan(known)]
        cells = [f"{value:{form}}" for value in np.percentile(known, PERCENTILES)] if len(known) else []
        shown.add_row(title, *(cells or ["n/a"] * len(titles)))
    out.print(shown)
    out.print(looking_like_experts([row.joint.looks_like_experts for row in rows]))
    early = [row.id for row in rows if row.early_rem_removed]
    if early:
        text = f"{some_nights(early, len(rows))} (column early_rem_removed). {look_at(early)}"
        print_list(out, "Early REM removed", [text])
    print_early_rem_kept({row.id: row.early_rem_kept_minutes for row in rows}, out)
    strengths = Counter(f"{row.rule}, {row.step}" for row in rows).most_common()
    print_list(out, "Strength", ["; ".join(f"{text} ({n:,})" for text, n in strengths)])
    print_list(out, "Warning", _counted(manifest.warnings))
    notes = Counter({text: n for text, n in manifest.notes.items() if is_worth_saying(text)})
    print_list(out, "Read", ["; ".join(_counted(notes))] if notes else [])
    print_review(out)


def _counted(texts: Counter[str]) -> list[str]:
    """Return the most frequent texts, each with its number of nights."""
    shown = [f"{one_line(text)} ({count(n, 'night')})" for text, n in texts.most_common(MOST_NOTES)]
    more = len(texts) - MOST_NOTES
    return shown + ([f"and {count(more, 'more remark')}"] if more > 0 else [])
