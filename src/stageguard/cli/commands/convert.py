"""`stageguard convert`: a night of one tool in, a file for another out. Parses and prints only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from stageguard.base.errors import OutputError
from stageguard.cli.inputs import Input, Inputs, find_inputs, start_of
from stageguard.cli.options import (
    AsJson,
    EpochSeconds,
    Log,
    Logits,
    Overwrite,
    Pool,
    SampleList,
    Scheme,
    SchemeName,
    Stages,
    _check_epoch_seconds,
    given_path,
)
from stageguard.cli.outputs import check_folder
from stageguard.cli.present import MOST_ROWS, print_notes, print_problems, print_read, print_warnings
from stageguard.cli.recognising import Wanted
from stageguard.cli.scored_files import run_each
from stageguard.cli.terminal import (
    console,
    count,
    in_options,
    one_line,
    print_json,
    print_list,
    progress,
    table,
)
from stageguard.datasets.sample_list import SOME_DAY
from stageguard.formats.convert import convert as convert_night
from stageguard.formats.convert import usual_suffix
from stageguard.formats.registry import formats, named
from stageguard.formats.sources import NamedNight

Sources = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="SOURCES",
        parser=given_path,
        help="Hypnograms or probabilities of any format, folders, quoted patterns, or a sample list.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="TARGET",
        parser=given_path,
        help="File or folder. Several nights go into a folder, or into one .parquet. Default: beside each.",
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="FORMAT",
        help="Format to write (docs/formats.md). Default: by the target's name.",
    ),
]
SourceFormat = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Format of the sources, where content cannot tell."),
]
Merge = Annotated[
    Scheme | None, typer.Option("--merge", help="Merge stages into a coarser scheme on the way.")
]
Reepoch = Annotated[
    float | None,
    typer.Option(
        "--reepoch",
        metavar="SECONDS",
        callback=_check_epoch_seconds,
        help="Write epochs of this length; the sources' own is --epoch-seconds.",
    ),
]
AnnotationsFrom = Annotated[
    Path | None,
    typer.Option(
        "--annotations-from",
        metavar="FILE",
        parser=given_path,
        help="Add arousals, apnoeas and other annotations of this EDF+, XML, .annot or events.tsv.",
    ),
]


def convert(
    sources: Sources = None,
    output: Output = None,
    samples: SampleList = None,
    to: To = None,
    format: SourceFormat = None,
    stages: Stages = None,
    scheme: SchemeName = None,
    epoch_seconds: EpochSeconds = None,
    logits: Logits = False,
    log: Log = False,
    pool: Pool = None,
    merge: Merge = None,
    reepoch: Reepoch = None,
    annotations_from: AnnotationsFrom = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Convert hypnograms and probabilities from any tool's format to another's.

    Annotations that are no stages go with them. What a format cannot carry is said for each file.
    """
    if logits and log:
        raise typer.BadParameter("--logits and --log exclude each other: give the one the files hold.")
    inputs = find_inputs(sources, samples, Wanted("hypnogram", format))
    if annotations_from is not None and len(inputs.nights) > 1:
        raise typer.BadParameter("--annotations-from belongs to one file: convert the files one by one.")
    how = {
        "format": format,
        "target_format": to,
        "stages": None if stages is None else [part.strip() for part in stages.split(",")],
        "scheme": None if scheme is None else str(scheme),
        "epoch_seconds": epoch_seconds,
        "merge_to": None if merge is None else str(merge),
        "reepoch_to": reepoch,
        "annotations_from": annotations_from,
        "overwrite": overwrite,
        "logits": logits,
        "log": log,
        "pool_to_seconds": pool,
    }
    if _is_one_file(inputs, output, to):
        reports = [_convert_together(inputs, output, how)]
    else:
        places = _places(inputs, output, to)
        found = run_each(inputs.nights, lambda night: _convert_one(night, places, how))
        reports = list(progress(found, "Converting", len(inputs.nights), quiet=as_json))
    if as_json:
        print_json(reports)
    else:
        _print([report for report in reports if report["ok"]])
    print_notes(inputs.notes, as_json=as_json, heading="Left out")
    print_problems(reports, as_json=as_json)
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)


def _is_one_file(inputs: Inputs, output: Path | None, to: str | None) -> bool:
    """Whether several nights go into one Parquet file."""
    if not inputs.is_cohort or output is None or output.is_dir():
        return False
    cohorts = [form for form in formats() if form.holds_cohort and to in (None, form.name)]
    return any(output.name.lower().endswith(form.suffixes) for form in cohorts)


def _places(inputs: Inputs, output: Path | None, to: str | None) -> dict[Input, Path]:
    """Return where each source goes: the one file that was named, or a file in a folder."""
    is_file = output is not None and not output.is_dir() and (output.suffix != "" or to is None)
    if is_file and output is not None:
        if inputs.is_cohort:
            raise typer.BadParameter(
                f"{output.name} is one file, and there may be several nights: name a folder with --output, "
                "or a .parquet file."
            )
        if to is not None:
            _refuse_suffix(output, to)
        return {inputs.nights[0]: output}
    if to is None:
        raise typer.BadParameter("say which format to write with --to, or name the file with --output.")
    suffix = usual_suffix(named(to, "write"))
    check_folder(output)
    return {
        night: (night.path.parent if output is None else output) / (night.name + suffix)
        for night in inputs.nights
    }


def _refuse_suffix(output: Path, to: str) -> None:
    """Refuse a name that every reader takes for that of another format."""
    wanted = named(to, "write")
    by_name = [form for form in formats() if output.name.lower().endswith(form.suffixes)]
    if by_name and not any(set(form.suffixes) & set(wanted.suffixes) for form in by_name):
        raise typer.BadParameter(
            f"{output.name} is the name of {by_name[0].title}, but --to says {to}: name it "
            f"{output.stem}{wanted.suffixes[0]}."
        )


def _convert_one(night: Input, places: dict[Input, Path], how: dict[str, Any]) -> dict[str, Any]:

    night.refuse()
    place = places[night]
    owner = next(one for one, other in places.items() if other == place)
    if owner is not night:
        raise OutputError(
            f"{night.path.name}: has the same output as {owner.path}. Write it into another folder with "
            "--output, or give each an id of its own in a sample list."
        )
    return {"id": night.name} | _described(convert_night(_named(night), place, **how))


def _named(night: Input) -> Path | NamedNight:
    """Return a source under the id of its list, with the start of the recording that it names."""
    if not night.is_listed:
        return night.path
    start = start_of(night.edf, night.start)
    has_date = start is None or start.date() != SOME_DAY
    return NamedNight(night.path, night.name, start, has_date=has_date)


def _convert_together(inputs: Inputs, output: Path | None, how: dict[str, Any]) -> dict[str, Any]:

    assert output is not None
    for night in inputs.nights:
        night.refuse()
    written = convert_night([_named(night) for night in inputs.nights], output, **how)
    names = [str(night.path) for night in inputs.nights]
    return {"file": str(output), "files": names, "ok": True, "warnings": []} | _described(written)


def _described(written: Any) -> dict[str, Any]:

    return {
        "format": written.format,
        "outputs": [str(path) for path in written.files],
        "lost": [in_options(text) for text in written.lost],
        "notes": [in_options(text) for text in written.notes],
    }


def _print(reports: list[dict[str, Any]]) -> None:

    if not reports:
        return
    out = console()
    if len(reports) == 1:
        (report,) = reports
        many = f", {count(len(report['files']), 'night')}" if "files" in report else ""
        print_list(out, "Wrote", [f"{', '.join(report['outputs'])} ({report['format']}{many})"])
        print_list(out, "Lost", [", ".join(report["lost"]) or "nothing"])
    else:
        shown = table("file", "written", "lost")
        for report in reports[:MOST_ROWS]:
            lost = ", ".join(report["lost"]) or "nothing"
            shown.add_row(one_line(Path(report["file"]).name), one_line(report["outputs"][0]), one_line(lost))
        out.print(shown)
        if len(reports) > MOST_ROWS:
            out.print(f"and {count(len(reports) - MOST_ROWS, 'more night')}, all of them in --json")
        out.print(f"Converted {count(len(reports), 'night')} to {reports[0]['format']}")
    print_read(reports, out)
    print_warnings(reports, out)
