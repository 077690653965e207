"""Declare commands: those of click, with options under two headings and examples as they are typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import cleandoc
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from stageguard.cli.terminal import one_line
from stageguard.errors import NoInputError, StageGuardError

Function = TypeVar("Function", bound=Callable[..., Any])

EXAMPLES = "Examples\n--------\n"  # the section of a command's docstring
OPTIONS, MORE = "Options", "More options"  # those most people use, and the others
GROUPS = "__option_groups__"  # the attribute of a command's function that `packed` adds to

OptionGroup = tuple[str, Callable[..., Any], list[str]]  # argument, what builds it, options


class Option(click.Option):
    """An option that stands under one of two headings of the help."""

    def __init__(self, *names: Any, heading: str = OPTIONS, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.heading = heading

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        """Return the value; refuse an option in its place, or `--output --overwrite` would be a folder."""
        value, source = super().consume_value(ctx, opts)
        names = {name for one in ctx.command.get_params(ctx) for name in (*one.opts, *one.secondary_opts)}
        for text in value if self.multiple and source is ParameterSource.COMMANDLINE else [value]:
            if isinstance(text, str) and text.startswith("-") and text in names:
                raise click.BadOptionUsage(
                    self.opts[0], f"Option {self.opts[0]!r} requires an argument.", ctx
                )
        return value, source

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return what the help adds to the text, without the range of a number, which errors tell."""
        return {name: text for name, text in super().get_help_extra(ctx).items() if name != "range"}


class Documented(click.Command):
    """A command whose docstring ends with examples, and whose help has a line for each option."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description, and examples without breaking their lines."""
        about, _, examples = cleandoc(self.help or "").partition(EXAMPLES)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(about.strip())
        if examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in examples.splitlines()))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments and the options under their headings."""
        sections: dict[str, list[tuple[str, str]]] = {OPTIONS: [], MORE: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(parameter, "heading", OPTIONS), []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write nothing: the arguments stand among the options."""


class Command(Documented):
    """A command that does something."""

    def invoke(self, ctx: click.Context) -> Any:
        """Build what `packed` declares, and call the function; wrong usage names this command."""
        groups: list[OptionGroup] = getattr(self.callback, GROUPS, [])
        try:
            for name, build, keys in groups:
                ctx.params[name] = build(**{key: ctx.params.pop(key) for key in keys})
            return super().invoke(ctx)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise
        except NoInputError as error:
            raise click.UsageError(str(error), ctx) from None
        except StageGuardError as error:
            error.args = (one_line(error),)  # while it is known which options there are
            raise


class Group(Documented, click.Group):
    """A command with commands below it."""

    command_class = Command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options and the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def command(function: Callable[..., None]) -> Command:
    """Declare a command, named after its function."""
    return click.command(cls=Command)(function)


def group(function: Callable[..., None]) -> Group:
    """Declare a command with commands below it; the function is called without one of them."""

    @wraps(function)
    def call(**values: Any) -> None:
        if click.get_current_context().invoked_subcommand is None:
            function(**values)

    return click.group(cls=Group, invoke_without_command=True)(call)


def option(*names: str, **settings: Any) -> Callable[[Function], Function]:
    """Declare an option: `click.option`, with the `heading` MORE if few people need it."""
    return click.option(*names, cls=Option, **settings)


def more(name: str, metavar: str | None, text: str, **settings: Any) -> Callable[[Function], Function]:
    """Declare an option that few people need; without a `metavar` it is a flag."""
    kind = {"is_flag": True} if metavar is None else {"metavar": metavar}
    return option(name, heading=MORE, help=text, **kind, **settings)


def packed(
    name: str, build: Callable[..., Any], *options: Callable[[Any], Any]
) -> Callable[[Function], Function]:
    """Declare options that belong together, and pass what `build` makes of their values as one argument."""

    def declare(function: Function) -> Function:
        declared: list[click.Parameter] = function.__dict__.setdefault("__click_params__", [])
        n_before = len(declared)
        for one in reversed(options):
            function = one(function)
        keys = [one.name for one in declared[n_before:]]
        function.__dict__.setdefault(GROUPS, []).append((name, build, keys))
        return function

    return declare
