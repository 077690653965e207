"""The command tree: a table of commands, each imported when it runs or its help is shown."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from stageguard.cli.command import Group
from stageguard.cli.terminal import print_error
from stageguard.version import __version__

# Commands by heading, each with its line in the help: `decode` is the command `decode` of
# `stageguard.cli.commands.decode`.
COMMANDS = {
    "Guard": {
        "decode": "Turn stage probabilities into plausible hypnograms.",
        "stage": "Stage recordings by a stager or a network, and decode.",
        "review": "Review decoded nights in the browser, and correct them.",
    },
    "Look": {
        "report": "One night, or a cohort, as one HTML page.",
        "stats": "Sleep statistics of nights and groups, and the range of experts.",
        "compare": "Agreement with an expert, and several experts as one.",
        "grade": "Which statistics of a stager are as accurate as an expert's.",
    },
    "Files": {
        "convert": "Convert between formats, or average several stagers.",
        "verify": "Check an output by decoding it again.",
        "profiles": "List the built-in profiles, or show one.",
    },
    "Learn": {
        "fit": "Fit a profile to a stager, from scored or unscored nights.",
        "train": "Train a network on feature tables or recordings.",
        "study": "Train and test networks fold by fold: tables, figures.",
    },
    "Try": {
        "demo": "Decode a synthetic night and show what changed.",
        "simulate": "Write a made-up cohort in the layout of a real dataset.",
        "doctor": "Check the installation, or a local copy of a dataset.",
    },
}
# Commands that went, and what took over.
WENT = {
    "check": "stageguard stats",
    "combine": "stageguard convert A B --average --output OUT",
    "completion": "_STAGEGUARD_COMPLETE=bash_source stageguard (or zsh_source, fish_source)",
    "consensus": "stageguard compare A B C --consensus OUT",
    "data": "stageguard doctor --data [NAME FOLDER]",
    "days": "stageguard stats --sleeps",
    "export": "stageguard train CONFIG.toml --onnx MODEL.onnx",
    "features": "stageguard train with dataset and recipe in its configuration, or sg.features in Python",
    "intervals": "stageguard stats --intervals",
    "posterior": "stageguard decode --posterior",
    "predict": "stageguard stage --stager FOLDER",
    "quality": "stageguard stage, or sg.signal_quality in Python",
    "stream": "sg.StreamingDecoder in Python",
    "tune": "stageguard decode --tune, or stageguard fit without experts",
}
SHORT_HELP = {name: text for commands in COMMANDS.values() for name, text in commands.items()}
HELP_WIDTH = 100  # longer lines are hard to read


class LazyGroup(Group):
    """All commands; help and completion of their names import none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(SHORT_HELP)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in SHORT_HELP:
            return None
        command: click.Command = getattr(import_module(f"stageguard.cli.commands.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called; a name that is nearly right is suggested."""
        name = args[0]
        if name in WENT:
            raise click.UsageError(f"`stageguard {name}` went: use {WENT[name]}.", ctx)
        if name not in SHORT_HELP and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.NoSuchCommand(name, possibilities=SHORT_HELP, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings."""
        for heading, commands in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl(list(commands.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin like this."""
        names = [name for name in SHORT_HELP if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=SHORT_HELP[name]) for name in names), *options]


@click.group(
    cls=LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": HELP_WIDTH,
        "show_default": True,
    },
)
@click.version_option(__version__, message="stageguard %(version)s")
def stageguard() -> None:
    """Physiologically constrained sleep staging: stage probabilities in, a plausible hypnogram out.

    Examples
    --------
    stageguard demo
    stageguard decode night.csv --profile human-psg-5
    """


def run(words: Sequence[str]) -> int:
    """Run the command that the words name; return the exit code."""
    try:
        code: Any = stageguard.main(words, prog_name="stageguard", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return 2
    except click.UsageError as error:
        path = "stageguard" if error.ctx is None else error.ctx.command_path
        print_error(f"{error.format_message()} Help: {path} -h")
        return 2
    return code or 0
