"""The command tree: a table of commands, each imported when it runs or its help is shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from stageguard.base.errors import did_you_mean
from stageguard.base.version import __version__
from stageguard.cli.console import width_of
from stageguard.cli.parser import HELP, Command, Exit, UsageError, page
from stageguard.cli.terminal import print_error

# Commands by heading, each with its line in the help: `decode` is the function `decode` of
# `stageguard.cli.commands.decode`. A module with `SUBCOMMANDS` has commands below its own.
COMMANDS = {
    "Guard": {
        "decode": "Turn stage probabilities into plausible hypnograms.",
        "stream": "Decode while the recording runs, from stdin.",
        "review": "Review decoded nights in the browser, and correct them.",
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
        "study": "Train and test networks fold by fold: tables, figures.",
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
        "completion": "Let bash, zsh or fish complete what is typed.",
    },
}
SHORT_HELP = {name: text for commands in COMMANDS.values() for name, text in commands.items()}


ABOUT = "Physiologically constrained sleep staging: stage probabilities in, a plausible hypnogram out."
GENERAL = {"    --version": "Print the version and exit.", "-h, --help": "Show this message and exit."}
EXAMPLES = ("stageguard demo", "stageguard decode night.csv --profile human-psg-5")
HELP_WIDTH = 100  # longer lines are hard to read


def run(words: Sequence[str]) -> int:
    """Run the command that the words name; return the exit code."""
    path = "stageguard"
    try:
        if (wrong := next((word for word in words if "\0" in word), None)) is not None:
            raise UsageError(f"{wrong!r} holds a zero character, which no path and no option has.")
        if not words or words[0] in HELP:
            print(page("stageguard COMMAND [OPTIONS] [ARGUMENTS]", ABOUT, _overview(), EXAMPLES, _width()))
            return 0 if words else 2
        if words[0] == "--version":
            print(f"stageguard {__version__}")
            return 0
        path = f"stageguard {words[0]}" if words[0] in SHORT_HELP else path
        command, rest = find_command(words)
        path = command.path
        if asks_for_help(rest):
            print(command.help(_width()))
            return 0
        command.run(rest)
    except UsageError as error:
        print_error(f"{error} Help: {path} -h")
        return 2
    except Exit as done:
        return done.code
    return 0


def find_command(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """Import the command that the first words name; return it and the remaining words."""
    name, *rest = words
    if name not in SHORT_HELP:
        what = "option" if name.startswith("-") else "command"
        hint = did_you_mean(name, [*SHORT_HELP, "--version", "--help"])
        raise UsageError(f"there is no {what} {name!r}.{hint}")
    module = import_module(f"stageguard.cli.commands.{name}")
    subcommands: dict[str, Callable[..., None]] = getattr(module, "SUBCOMMANDS", {})
    if rest and rest[0] in subcommands:
        return Command(f"stageguard {name} {rest[0]}", subcommands[rest[0]]), rest[1:]
    if subcommands and rest and not rest[0].startswith("-"):
        hint = did_you_mean(rest[0], subcommands)
        raise UsageError(
            f"there is no command {name} {rest[0]!r}, expected one of {', '.join(subcommands)}.{hint}"
        )
    return Command(f"stageguard {name}", getattr(module, name), subcommands), rest


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether the words before any ``--`` ask for help."""
    return any(word in HELP for word in (words[: words.index("--")] if "--" in words else words))


def _overview() -> dict[str, dict[str, str]]:
    return {"Options": GENERAL} | COMMANDS


def _width() -> int:
    return min(width_of(sys.stdout, HELP_WIDTH), HELP_WIDTH)
