"""`stageguard verify`: decode again and compare."""

from __future__ import annotations

from pathlib import Path

import click
from click import UsageError
from click.exceptions import Exit

from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.terminal import Console, one_line, print_json
from stageguard.runner.verify import is_card, verify_card, verify_output
from stageguard.version import __version__


@command
@click.argument(
    "output", type=opt.PATH, help="A .hypnogram.tsv, its .json, a table that decode wrote, or a card."
)
@option(
    "--input", "source", metavar="FILE", type=opt.PATH, help="The probabilities. Default: the recorded file."
)
@opt.as_json
def verify(output: Path, source: Path | None, as_json: bool) -> None:
    """Check an output by decoding its input again with its profile, or a grade card by its hashes.

    Examples
    --------
    stageguard verify night.hypnogram.tsv
    stageguard verify card.json
    """
    if is_card(output):
        if source is not None:
            raise UsageError("--input is for outputs of decode: a card names its own files.")
        verification = verify_card(output)
    else:
        verification = verify_output(output, source)
    if as_json:
        print_json(verification.to_dict())
    else:
        out = Console()
        rows = [("ok" if check.ok else "DIFFERS", check.name, check.finding) for check in verification.checks]
        out.table(("", "check", "finding"), rows)
        verdict = "verified" if verification.ok else "NOT verified"
        if verification.other_version is not None:
            verdict += (
                f"; written by stageguard {one_line(verification.other_version)}, compared by {__version__}"
            )
        out.print(f"{output.name}: {verdict}", style="bold")
    if not verification.ok:
        raise Exit(1)
