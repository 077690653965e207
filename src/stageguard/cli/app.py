"""The command tree: a table of commands, each imported when it runs or its help is shown."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from stageguard.base.version import __version__
from stageguard.cli.options import PlainCommand

# Commands by what they are about, and the line about each in the help: `decode` is the function `decode` of
# `stageguard.cli.commands.decode`, or there is an `app` with commands of its own.
COMMANDS = {
    "Guard": {
        "decode": "Turn stage probabilities into plausible hypnograms.",
        "stream": "Decode while the recording runs, from stdin.",
        "posterior": "How probable each stage is, and draws of whole nights.",
        "verify": "Check an output by decoding it again.",
    },
    "Measure": {
        "check": "Check hypnograms against the range of expert scoring.",
        "stats": "Sleep statistics of many nights, before and after, and of groups.",
        "intervals": "How far a night's sleep statistics may be off.",
        "compare": "Agreement of hypnograms with an expert's.",
        "report": "One night as one HTML file.",
    },
    "Files": {
        "convert": "Convert between the formats of sleep tools.",
        "combine": "Several stagers' probabilities as one.",
        "consensus": "Several experts' scorings of a night as one.",
    },
    "Recordings and networks": {
        "quality": "How far each epoch of a recording can be trusted.",
        "features": "Turn recordings into feature tables.",
        "train": "Train a network on feature tables.",
        "predict": "Stage recordings with a trained network, and guard them.",
    },
    "Profiles and data": {
        "profiles": "List the built-in profiles, or show one.",
        "fit": "Fit a profile to scored nights.",
        "tune": "Tune a profile to a stager by its unscored nights.",
        "data": "Datasets: list them, check a local copy, fetch open ones.",
        "simulate": "Write a made-up cohort in the layout of a real dataset.",
    },
    "Help": {
        "demo": "Decode a synthetic night and show what changed.",
        "doctor": "Say what is installed, and whether it works.",
    },
}
SHORT_HELP = {name: text for commands in COMMANDS.values() for name, text in commands.items()}


class LazyGroup(TyperGroup):
    """The commands of the table, under its headings. The types typer passes here are private to it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = dict.fromkeys(SHORT_HELP)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, imported now."""
        return load_command(cmd_name) if cmd_name in SHORT_HELP else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the headings and their commands, none of which is imported for that."""
        width = max(map(len, SHORT_HELP))
        for heading, commands in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])


def load_command(name: str) -> Any:
    """Import a command's module and return the command."""
    module = import_module(f"stageguard.cli.commands.{name}")
    sub_app: Any = getattr(module, "app", None)
    if sub_app is not None:
        return typer.main.get_group(sub_app)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, cls=PlainCommand)(getattr(module, name))
    return typer.main.get_command(single)


app = typer.Typer(
    cls=LazyGroup,
    help="Physiologically constrained sleep staging: stage probabilities in, a plausible hypnogram out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
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
