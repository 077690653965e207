"""`stageguard combine`: probabilities of several stagers or channels in, one file out."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click
from click import UsageError

from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.outcomes import MOST_ROWS, print_read
from stageguard.cli.terminal import Console, count, print_json, with_names
from stageguard.errors import InputError
from stageguard.formats.convert import save
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_density_file
from stageguard.night.align import align as cut
from stageguard.night.align import combine as put_together
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.runner.inputs import Wanted, find_inputs
from stageguard.runner.run import collect_warnings


@command
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=opt.PATH,
    help="Probabilities of one night: two or more, or a pattern.",
)
@option(
    "--output",
    "-o",
    metavar="FILE",
    type=opt.PATH,
    required=True,
    help="File to write: .csv, .npz or .parquet.",
)
@option(
    "--method",
    type=click.Choice(["mean", "log-pool"]),
    default="mean",
    help="The mean, or the geometric mean, which excludes more.",
)
@option("--weights", metavar="2,1,...", help="One weight per file; only their ratios count. Default: equal.")
@option("--to", metavar="FORMAT", help="Format to write. Default: by the output's name.")
@opt.reading
@option("--merge", type=opt.SCHEME, help="Merge all into a coarser scheme first.")
@option("--reepoch", metavar="SECONDS", type=opt.SECONDS, help="Change all to this epoch length first.")
@option("--align", is_flag=True, help="Cut nights of other lengths or starts to the epochs all have.")
@opt.overwrite
@opt.as_json
def combine(
    files: tuple[Path, ...],
    output: Path,
    method: Literal["mean", "log-pool"],
    weights: str | None,
    to: str | None,
    reading: FileOptions,
    merge: str | None,
    reepoch: float | None,
    align: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Combine the probabilities of several stagers or channels into one file that every command reads.

    Examples
    --------
    stageguard combine c3.csv c4.csv --weights 2,1 --output combined.csv
    """
    shares = None if weights is None else parse_weights(weights)
    options = reading
    inputs = find_inputs(files, None, Wanted("density", options.format, options.stages or ()))
    if any(night.is_listed for night in inputs.nights):
        raise UsageError("a sample list names different nights, expected the files of one night to combine.")
    paths = [night.path for night in inputs.nights]
    names = [path.name for path in paths]
    if len(paths) < 2:
        raise UsageError("one file, expected two or more to combine.")
    if shares is not None and len(shares) != len(paths):
        raise UsageError(f"--weights has {len(shares)}, expected one for each of {len(paths)} files.")
    with collect_warnings() as warned:
        for night in inputs.nights:
            night.refuse()
        read = [read_density_file(path, options) for path in paths]
        try:
            nights = _prepared([file.density for file in read], merge, reepoch, align=align)
            combined = put_together(nights, method=method, weights=shares)
        except InputError as error:
            raise InputError(with_names(error, names)) from None
        written = save(combined, output, format=to, overwrite=overwrite, spare=paths)
    warnings = [with_names(text, names) for text in warned]
    notes = list(dict.fromkeys([*inputs.notes, *(note for file in read for note in file.notes)]))
    shares = shares or [1.0] * len(paths)
    if as_json:
        report = {
            "method": method,
            "weights": shares,
            "files": paths,
            "stages": combined.scheme.names,
            "n_epochs": combined.n_epochs,
            "epoch_seconds": combined.epoch_seconds,
            "outputs": written.files,
            "lost": written.lost,
            "notes": notes,
            "warnings": warnings,
        }
        print_json(report)
        return
    out = Console()
    first = ", ".join(f"{weight:g}" for weight in shares[:MOST_ROWS]) + ", ..." * (len(shares) > MOST_ROWS)
    out.print(
        f"Combined {len(paths)} files ({method}, weights {first if len(set(shares)) > 1 else 'equal'}): "
        f"{count(combined.n_epochs, 'epoch')} of {combined.epoch_seconds:g} s, stages "
        f"{' '.join(combined.scheme.names)}"
    )
    print_read(notes, out)
    out.list("Warning", warnings)
    out.list("Wrote", written.files)
    out.list("Lost", written.lost)


def parse_weights(text: str) -> list[float]:
    """Return the numbers in a comma-separated list."""
    try:
        return [float(part.replace("_", "?")) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--weights is {text!r}, expected numbers such as 2,1,1.") from None


def _prepared(
    nights: list[Hypnodensity], merge: str | None, reepoch: float | None, *, align: bool
) -> list[Hypnodensity]:
    """Bring nights to one scheme, one epoch length and the same epochs, as the options say."""
    if merge is not None:
        nights = [night.merge(merge) for night in nights]
    if reepoch is not None:
        nights = [night.reepoch(reepoch) for night in nights]
    if align:
        nights = [night for night in cut(*nights).nights if isinstance(night, Hypnodensity)]
    return nights
