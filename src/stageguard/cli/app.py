"""The command tree. Imports nothing heavy, so that --help is quick."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from stageguard.cli.commands.check import check
from stageguard.cli.commands.combine import combine
from stageguard.cli.commands.compare import compare
from stageguard.cli.commands.consensus import consensus
from stageguard.cli.commands.convert import convert
from stageguard.cli.commands.data import data_app
from stageguard.cli.commands.decode import decode
from stageguard.cli.commands.demo import demo
from stageguard.cli.commands.doctor import doctor
from stageguard.cli.commands.features import features
from stageguard.cli.commands.fit import fit
from stageguard.cli.commands.intervals import intervals
from stageguard.cli.commands.posterior import posterior
from stageguard.cli.commands.predict import predict
from stageguard.cli.commands.profiles import profiles_app
from stageguard.cli.commands.quality import quality
from stageguard.cli.commands.report import report
from stageguard.cli.commands.simulate import simulate
from stageguard.cli.commands.stats import stats
from stageguard.cli.commands.stream import stream
from stageguard.cli.commands.train import train
from stageguard.cli.commands.verify import verify
from stageguard.cli.options import PlainCommand

app = typer.Typer(
    help="Physiologically constrained sleep staging: stage probabilities in, a plausible hypnogram out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from stageguard.base.version import __version__

        print(f"stageguard {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Physiologically constrained sleep staging."""


_command = partial(app.command, cls=PlainCommand)
_command(short_help="Turn stage probabilities into plausible hypnograms.")(decode)
_command(short_help="Check hypnograms against the range of expert scoring.")(check)
_command(short_help="How probable each stage is, and draws of whole nights.")(posterior)
_command(short_help="How far a night's sleep statistics may be off.")(intervals)
_command(short_help="Sleep statistics of many nights, before and after, and of groups.")(stats)
_command(short_help="Agreement of hypnograms with an expert's.")(compare)
_command(short_help="Several experts' scorings of a night as one.")(consensus)
_command(short_help="Convert between the formats of sleep tools.")(convert)
_command(short_help="Several stagers' probabilities as one.")(combine)
_command(short_help="Fit a profile to scored nights.")(fit)
_command(short_help="One night as one HTML file.")(report)
_command(short_help="Decode while the recording runs, from stdin.")(stream)
_command(short_help="How far each epoch of a recording can be trusted.")(quality)
_command(short_help="Turn recordings into feature tables.")(features)
_command(short_help="Write a made-up cohort in the layout of a real dataset.")(simulate)
_command(short_help="Train a network on feature tables.")(train)
_command(short_help="Stage recordings with a trained network, and guard them.")(predict)
_command(short_help="Check an output by decoding it again.")(verify)
_command(short_help="Decode a synthetic night and show what changed.")(demo)
_command(short_help="Say what is installed, and whether it works.")(doctor)
app.add_typer(profiles_app, name="profiles")
app.add_typer(data_app, name="data")
