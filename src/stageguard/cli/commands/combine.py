"""`stageguard combine`: several stagers' or channels' probabilities as one."""

from __future__ import annotations

import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from stageguard.base.errors import InputError, StageGuardWarning
from stageguard.cli.inputs import find_inputs
from stageguard.cli.options import (
    AsJson,
    Overwrite,
    Reading,
    Scheme,
    check_epoch_seconds,
    column_names,
    given_path,
    spread,
)
from stageguard.cli.present import MOST_ROWS, print_read_notes
from stageguard.cli.recognising import Wanted
from stageguard.cli.terminal import console, count, in_options, print_json, print_list, warned_of
from stageguard.formats.convert import Written, save
from stageguard.formats.density import DensityOptions
from stageguard.formats.read import read_density_file
from stageguard.night.align import align as cut
from stageguard.night.combine import combine as put_together
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.timing import reepoch as change_epochs


class Method(StrEnum):
    """How probabilities are put together."""

    mean = "mean"
    log_pool = "log-pool"


Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILES", parser=given_path, help="Probabilities of one night: two or more, or a pattern."
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", parser=given_path, help="File to write: .csv, .npz or .parquet."
    ),
]
MethodOption = Annotated[
    Method, typer.Option("--method", help="The mean, or the geometric mean, which excludes more.")
]
Weights = Annotated[
    str | None,
    typer.Option(metavar="2,1,...", help="One weight per file; only their ratios count. Default: equal."),
]
To = Annotated[
    str | None, typer.Option("--to", metavar="FORMAT", help="Format to write. Default: by the output's name.")
]
Merge = Annotated[Scheme | None, typer.Option("--merge", help="Merge all into a coarser scheme first.")]
Reepoch = Annotated[
    float | None,
    typer.Option(
        "--reepoch",
        metavar="SECONDS",
        callback=check_epoch_seconds,
        help="Change all to this epoch length first.",
    ),
]
Align = Annotated[
    bool, typer.Option("--align", help="Cut nights of other lengths or starts to the epochs all have.")
]


@spread
def combine(
    files: Files,
    output: Output,
    method: MethodOption = Method.mean,
    weights: Weights = None,
    to: To = None,
    reading: Reading = Reading(),  # noqa: B008 - a group of options
    merge: Merge = None,
    reepoch: Reepoch = None,
    align: Align = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Combine the probabilities of several stagers or channels into one file that every command reads."""
    shares = None if weights is None else parse_weights(weights)
    names = column_names(reading.stages)
    inputs = find_inputs(files, None, Wanted("density", reading.format, names or ()))
    if any(night.is_listed for night in inputs.nights):
        raise typer.BadParameter(
            "a sample list names different nights, expected the files of one night to combine."
        )
    paths = [night.path for night in inputs.nights]
    if len(paths) < 2:
        raise typer.BadParameter("one file, expected two or more to combine.")
    if shares is not None and len(shares) != len(paths):
        raise typer.BadParameter(f"--weights has {len(shares)}, expected one for each of {len(paths)} files.")
    notes: list[str] = list(inputs.notes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StageGuardWarning)
        options = DensityOptions(
            stages=names,
            epoch_seconds=reading.epoch_seconds,
            logits=reading.logits,
            log=reading.log,
            format=reading.format,
            pool_to_seconds=reading.pool,
        )
        for night in inputs.nights:
            night.refuse()
        nights = [_read(path, options, notes) for path in paths]
        try:
            nights = _prepared(nights, None if merge is None else str(merge), reepoch, align=align)
            combined = put_together(nights, method=method.value, weights=shares)
        except InputError as error:
            raise InputError(in_options(error, [path.name for path in paths])) from None
        written = save(combined, output, format=to, overwrite=overwrite, spare=paths)
    said = warned_of(caught, [path.name for path in paths])
    report: dict[str, Any] = {"method": method.value, "weights": shares or [1.0] * len(paths)}
    report |= _described(paths, combined, written, notes, said)
    if as_json:
        print_json(report)
    else:
        _print(report)


def _described(
    paths: list[Path], combined: Hypnodensity, written: Written, notes: list[str], said: list[str]
) -> dict[str, Any]:
    """Return what came of it in plain types, with names of files in place of numbers."""
    return {
        "files": [str(path) for path in paths],
        "stages": list(combined.scheme.names),
        "n_epochs": combined.n_epochs,
        "epoch_seconds": combined.epoch_seconds,
        "outputs": [str(path) for path in written.files],
        "lost": [in_options(text) for text in written.lost],
        "notes": [in_options(note) for note in dict.fromkeys(notes)],
        "warnings": said,
    }


def parse_weights(text: str) -> list[float]:
    """Return numbers between commas."""
    try:
        return [float(part.replace("_", "?")) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--weights is {text!r}, expected numbers such as 2,1,1.") from None


def _read(path: Path, options: DensityOptions, notes: list[str]) -> Hypnodensity:

    found = read_density_file(path, options)
    notes += found.notes
    return found.density


def _prepared(
    nights: list[Hypnodensity], merge: str | None, reepoch: float | None, *, align: bool
) -> list[Hypnodensity]:
    """Bring nights to one scheme, one epoch length and the same epochs, as far as was asked."""
    if merge is not None:
        nights = [night.merge(merge) for night in nights]
    if reepoch is not None:
        nights = [change_epochs(night, reepoch) for night in nights]
    if align:
        nights = [night for night in cut(*nights).nights if isinstance(night, Hypnodensity)]
    return nights


def _print(report: dict[str, Any]) -> None:

    out = console()
    first = report["weights"][:MOST_ROWS]
    weights = ", ".join(f"{weight:g}" for weight in first) + ", ..." * (len(report["weights"]) > MOST_ROWS)
    weights = weights if len(set(report["weights"])) > 1 else "equal"
    out.print(
        f"Combined {len(report['files'])} files ({report['method']}, weights {weights}): "
        f"{count(report['n_epochs'], 'epoch')} of {report['epoch_seconds']:g} s, stages "
        f"{' '.join(report['stages'])}"
    )
    print_read_notes(report["notes"], out)
    print_list(out, "Warning", report["warnings"])
    print_list(out, "Wrote", report["outputs"])
    print_list(out, "Lost", report["lost"])
