"""`stageguard convert`: a night of one tool in, a file for another out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from click import UsageError

from stageguard.cli import options as opt
from stageguard.cli.command import command, more, option, packed
from stageguard.cli.outcomes import (
    MOST_NOTES,
    MOST_ROWS,
    end,
    length_words,
    notes_of,
    print_read,
    print_warnings,
    run_shown,
)
from stageguard.cli.render import print_line
from stageguard.cli.terminal import Console, count, naming_nights, one_line, with_names
from stageguard.formats.companions import SOME_DAY
from stageguard.formats.convert import ListedFile, Written, save
from stageguard.formats.convert import convert as convert_night
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_density_file
from stageguard.formats.registry import formats, named
from stageguard.night.align import align as cut
from stageguard.night.align import combine
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.runner.decode_one import start_of
from stageguard.runner.inputs import Input, Inputs, Wanted, find_inputs
from stageguard.runner.run import Outcome, check_folder, collect_warnings, succeeded
from stageguard.storage import is_folder

source_options = packed(
    "reading",
    opt.file_options,
    *(each for each in opt.READING if each is not opt.file_format),
    more("--format", "NAME", "Format of the sources, where content cannot tell."),
)


@command
@click.argument(
    "sources",
    nargs=-1,
    type=opt.PATH,
    help="Hypnograms or probabilities of any format, folders, quoted patterns, or a sample list.",
)
@opt.output(
    "TARGET", "File or folder. Several nights go into a folder or one .parquet. Default: beside each."
)
@opt.sample_list
@option("--to", metavar="FORMAT", help="Format to write (docs/formats.md). Default: by the target's name.")
@source_options
@opt.scheme
@opt.column
@option("--merge", type=opt.SCHEME, help="Merge stages into a coarser scheme on the way.")
@option(
    "--reepoch",
    metavar="SECONDS",
    type=opt.SECONDS,
    help="Write epochs of this length; the sources' own is --epoch-seconds.",
)
@option(
    "--average", is_flag=True, help="The mean of several stagers' probabilities of one night, as one file."
)
@more("--weights", "2,1,...", "Weight of each file in --average; only their ratios count.")
@more("--align", None, "Cut the files of --average to the epochs all have.")
@option(
    "--annotations-from",
    metavar="FILE",
    type=opt.PATH,
    help="Add arousals, apnoeas and other annotations of this EDF+, XML, .annot or events.tsv.",
)
@opt.overwrite
@opt.as_json
def convert(
    sources: tuple[Path, ...],
    output: Path | None,
    samples: Path | None,
    to: str | None,
    reading: FileOptions,
    scheme: str | None,
    column: str | None,
    merge: str | None,
    reepoch: float | None,
    average: bool,
    weights: str | None,
    align: bool,
    annotations_from: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Convert hypnograms and probabilities from any tool's format to another's.

    Other annotations, such as arousals, are converted, too. For each file, the command says what the target
    format cannot hold.

    Examples
    --------
    stageguard convert night.hypnogram.tsv --output night.edf
    stageguard convert c3.csv c4.csv --average --weights 2,1 --output combined.csv
    """
    if average:
        if output is None or samples is not None:
            raise UsageError("--average takes files and --output, the file to write.")
        shares = None if weights is None else parse_weights(weights)
        outcomes, together = _average(
            *(sources, reading, output, to),
            merge=merge,
            reepoch=reepoch,
            weights=shares,
            align=align,
            overwrite=overwrite,
        )
        _finish(outcomes, together, (), as_json=as_json)
        return
    if weights is not None or align:
        raise UsageError("--weights and --align go with --average.")
    inputs = find_inputs(sources, samples, Wanted("hypnogram", reading.format))
    if annotations_from is not None and len(inputs.nights) > 1:
        raise UsageError("--annotations-from belongs to one file: convert the files one by one.")
    write = partial(
        convert_night,
        target_format=to,
        format=reading.format,
        stages=reading.stages,
        scheme=scheme,
        epoch_seconds=reading.epoch_seconds,
        column=column,
        merge_to=merge,
        reepoch_to=reepoch,
        annotations_from=annotations_from,
        overwrite=overwrite,
        logits=reading.logits,
        log=reading.log,
        pool_to_seconds=reading.pool_to_seconds,
        normalize=reading.normalize,
    )
    is_one_file = output is not None and _is_one_file(inputs, output, to)
    if output is not None and is_one_file:
        for night in inputs.nights:
            night.refuse()
        written = write([_named(night) for night in inputs.nights], output)
        outcomes = [Outcome(str(output), output.stem, written)]
    else:
        targets = _targets(inputs, output, to)
        outcomes = run_shown(
            lambda night: write(_named(night), targets[night]),
            inputs.nights,
            "Converting",
            quiet=as_json,
            output_of=lambda night: targets[night],
        )
    _finish(outcomes, inputs.nights if is_one_file else (), inputs.notes, as_json=as_json)


def _finish(
    outcomes: Sequence[Outcome[Written]], together: Sequence[Input], notes: Sequence[str], *, as_json: bool
) -> None:
    if as_json:
        for outcome in outcomes:
            print_line(_described(outcome, together))
    else:
        _print(succeeded(outcomes), together)
    end(outcomes, notes, as_json=as_json, heading="Left out")


def parse_weights(text: str) -> list[float]:
    """Return the numbers in a comma-separated list."""
    try:
        return [float(part.replace("_", "?")) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--weights is {text!r}, expected numbers such as 2,1,1.") from None


def _average(
    files: Sequence[Path],
    reading: FileOptions,
    output: Path,
    to: str | None,
    *,
    merge: str | None,
    reepoch: float | None,
    weights: list[float] | None,
    align: bool,
    overwrite: bool,
) -> tuple[list[Outcome[Written]], tuple[Input, ...]]:
    """Write the mean of several stagers' probabilities, in one scheme and on the same epochs."""
    inputs = find_inputs(files, None, Wanted("density", reading.format, reading.stages or ()))
    if any(night.is_listed for night in inputs.nights):
        raise UsageError("a sample list names different nights, expected the files of one night to average.")
    paths = [night.path for night in inputs.nights]
    if len(paths) < 2:
        raise UsageError("one file, expected two or more to average.")
    names = [path.name for path in paths]
    with collect_warnings() as warned:
        for night in inputs.nights:
            night.refuse()
        read = [read_density_file(path, reading) for path in paths]
        with naming_nights(names):
            nights = [file.density for file in read]
            if merge is not None:
                nights = [night.merge(merge) for night in nights]
            if reepoch is not None:
                nights = [night.reepoch(reepoch) for night in nights]
            if align:
                nights = [night for night in cut(*nights).nights if isinstance(night, Hypnodensity)]
            mean = combine(nights, weights=weights)
        written = save(mean, output, format=to, overwrite=overwrite, spare=paths)
    notes = (*inputs.notes, *(note for file in read for note in file.notes))
    about = f"mean of {len(paths)} files, {length_words(mean.n_epochs, mean.epoch_seconds)}"
    written = replace(written, notes=tuple(dict.fromkeys((about, *notes, *written.notes))))
    warnings = tuple(with_names(text, names) for text in warned)
    return [Outcome(str(output), output.stem, written, warnings=warnings)], inputs.nights


def _is_one_file(inputs: Inputs, output: Path, to: str | None) -> bool:
    """Whether several nights go into one Parquet file."""
    if not inputs.is_cohort or is_folder(output):
        return False
    able = [form for form in formats() if form.holds_cohort]
    return any(to in (None, form.name) and output.name.lower().endswith(form.suffixes) for form in able)


def _targets(inputs: Inputs, output: Path | None, to: str | None) -> dict[Input, Path]:
    """Return the target of each source: the file that --output names, or a file in a folder."""
    if output is not None and not is_folder(output) and (output.suffix != "" or to is None):
        if inputs.is_cohort:
            raise UsageError(
                f"{output.name} is one file, and there may be several nights: name a folder with --output, "
                "or a .parquet file."
            )
        if to is not None:
            _refuse_suffix(output, to)
        return {inputs.nights[0]: output}
    if to is None:
        raise UsageError("say which format to write with --to, or name the file with --output.")
    suffix = named(to, "write").written_suffix
    check_folder(output)
    return {
        night: (night.path.parent if output is None else output) / (night.id + suffix)
        for night in inputs.nights
    }


def _refuse_suffix(output: Path, to: str) -> None:
    """Refuse a name with the suffix of another format."""
    wanted = named(to, "write")
    by_name = [form for form in formats() if output.name.lower().endswith(form.suffixes)]
    if by_name and not any(set(form.suffixes) & set(wanted.suffixes) for form in by_name):
        raise UsageError(
            f"{output.name} is the name of {by_name[0].title}, but --to says {to}: name it "
            f"{output.stem}{wanted.suffixes[0]}."
        )


def _named(night: Input) -> Path | ListedFile:
    """Return a source with the id and the start that a sample list gives it, if it is from a list."""
    if not night.is_listed:
        return night.path
    start = start_of(night.edf, night.start)
    has_date = start is None or start.date() != SOME_DAY
    return ListedFile(night.path, night.id, start, has_date=has_date)


def _described(outcome: Outcome[Written], together: Sequence[Input]) -> dict[str, Any]:
    """Return the outcome for JSON; `together` are the nights that were written into one file."""
    written = outcome.value
    if written is None:
        return outcome.to_dict()
    return {
        "file": outcome.file,
        **({"files": [night.path for night in together]} if together else {"id": outcome.id}),
        "ok": True,
        "format": written.format,
        "outputs": written.files,
        "lost": written.lost,
        "notes": written.notes,
        "warnings": outcome.warnings,
    }


def _print(done: list[Outcome[Written]], together: Sequence[Input]) -> None:
    if not done:
        return
    out = Console()
    if len(done) == 1:
        written = done[0].result
        many = f", {count(len(together), 'night')}" if together else ""
        out.list("Wrote", [f"{', '.join(map(str, written.files))} ({written.format}{many})"])
        out.list("Lost", [_lost(written)])
    else:
        rows = [(Path(outcome.file).name, outcome.result.files[0]) for outcome in done[:MOST_ROWS]]
        out.table(("file", "written"), rows)
        if len(done) > MOST_ROWS:
            out.print(f"and {count(len(done) - MOST_ROWS, 'more night')}, all of them in --json")
        out.print(f"Converted {count(len(done), 'night')} to {done[0].result.format}")
        out.list("Lost", [_lost_in_all(done)])
    print_read(notes_of(done), out)
    print_warnings(done, out)


def _lost_in_all(done: Sequence[Outcome[Written]]) -> str:
    """Return each thing that the format cannot hold, with the number of nights unless all have lost it."""
    lost = Counter(
        one_line(item).removesuffix(f" of {one_line(Path(each.file).name)}")
        for each in done
        for item in each.result.lost
    )
    named = [item if n == len(done) else f"{item} ({count(n, 'night')})" for item, n in lost.most_common()]
    more = [f"and {count(len(named) - MOST_NOTES, 'more thing')}"] if len(named) > MOST_NOTES else []
    return ", ".join(named[:MOST_NOTES] + more) or "nothing"


def _lost(written: Written) -> str:
    return ", ".join(map(one_line, written.lost)) or "nothing"
