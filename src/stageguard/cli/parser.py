"""The parser of the command line: a command is a function with annotated parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import reduce
from inspect import Parameter as Signed
from inspect import cleandoc, signature
from operator import or_
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from stageguard.base.errors import did_you_mean
from stageguard.base.lazy import load

HELP = ("-h", "--help")
OPTIONS_HEADING = "Options"


class UsageError(Exception):
    """Wrong usage of the command line: one line, and exit code 2."""


class Exit(Exception):
    """Raised to end a command early, with an exit code."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Argument:
    """A positional argument."""

    metavar: str
    help: str


class Option:
    """An option: a flag if the parameter is a bool, else a name and a value.

    Without names, the option is named after the parameter; ``--x/--no-x`` is a flag that can be undone.
    `choices` are the allowed values, if a table lists them and not a `Literal`. With a type such as
    ``float | Literal["off"]``, the value is a number or the word. `at_once` is called instead of the command.
    """

    def __init__(
        self,
        *names: str,
        help: str,
        metavar: str = "",
        min: float | None = None,
        max: float | None = None,
        choices: Iterable[str] = (),
        at_once: Callable[[], None] | None = None,
    ) -> None:
        self.names, self.help, self.metavar = names, help, metavar
        self.least, self.most, self.choices, self.at_once = min, max, tuple(choices), at_once


@dataclass(frozen=True)
class Parameter:
    """One parameter of a command, as an argument or option."""

    name: str
    declared: Argument | Option
    kind: type
    choices: tuple[str, ...]
    is_list: bool
    default: Any
    heading: str

    @property
    def is_required(self) -> bool:
        """Whether the parameter has no default."""
        return self.default is Signed.empty

    @property
    def is_flag(self) -> bool:
        """Whether it is an option without a value."""
        return self.kind is bool

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the option, the short one first."""
        assert isinstance(self.declared, Option)
        names = [name.partition("/")[0] for name in self.declared.names] or [_dashed(self.name)]
        return tuple(sorted(names, key=lambda name: name.startswith("--")))

    @property
    def negation(self) -> str:
        """The name that undoes a flag, or nothing."""
        assert isinstance(self.declared, Option)
        return next((name.partition("/")[2] for name in self.declared.names if "/" in name), "")

    @property
    def metavar(self) -> str:
        """The placeholder for the value in the help."""
        if self.declared.metavar or self.is_flag:
            return self.declared.metavar
        return (
            f"<{'|'.join((*self.choices, *(['NUMBER'] if self.kind is float else [])))}>"
            if self.choices
            else {int: "N", float: "NUMBER"}.get(self.kind, "TEXT")
        )

    def read(self, text: str, called: str) -> Any:
        """Return the value of a text; `called` is the argument or option in error messages."""
        known = ", ".join(map(repr, self.choices))
        if text in self.choices and self.kind is float:
            return text
        if self.choices and text not in self.choices and self.kind is not float:
            hint = did_you_mean(text, self.choices)
            raise UsageError(f"{called} is {text!r}, expected one of {known}.{hint}")
        if (
            self.kind is Path and not text.strip()
        ):  # as from an unset shell variable: Path("") would be the current folder
            raise UsageError(f"{called} is an empty name, expected a file or a folder.")
        if self.kind is Path:
            load("base.files:refuse_address")(text)  # NumPy, which base.files needs, is not loaded for --help
        try:
            value = self.kind(text.replace("_", "?") if self.kind in (int, float) else text)
        except ValueError:
            value = None
        if value is None or not self._is_allowed(value):
            noun = "a whole number" if self.kind is int else f"{known} or a number" if known else "a number"
            raise UsageError(
                f"{called} is {text!r}, expected {', '.join(filter(None, (noun, self.bounds)))}."
            )
        return value

    def _is_allowed(self, value: Any) -> bool:
        """Whether a number lies within its bounds; NaN never does."""
        if not isinstance(self.declared, Option):
            return True
        least, most = self.declared.least, self.declared.most
        return (least is None or value >= least) and (most is None or value <= most)

    @property
    def bounds(self) -> str:
        """Which numbers are allowed, as in `0 or more`."""
        assert isinstance(self.declared, Option)
        least, most = self.declared.least, self.declared.most
        if least is None:
            return ""
        return f"{_plain(least)} or more" if most is None else f"{_plain(least)} to {_plain(most)}"

    @property
    def help(self) -> str:
        """The text in the help, with default and bounds."""
        remarks = []
        if isinstance(self.declared, Option):
            if self.is_required:
                remarks.append("required")
            elif self.default is True and self.negation:
                remarks.append(f"default: {self.names[-1].lstrip('-')}")
            elif self.default not in (None, False):
                remarks.append(f"default: {self.default}")
            if self.bounds:
                remarks.append(self.bounds)
        return f"{self.declared.help}  [{'; '.join(remarks)}]" if remarks else self.declared.help


def _plain(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:g}"


def _dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def parameters_of(command: Callable[..., None]) -> tuple[list[Parameter], dict[str, type]]:
    """Return the parameters of a command, and its groups of parameters by name.

    A parameter whose type is a dataclass of annotated fields stands for all of them: commands share such
    groups and pass them on together. The class attribute `HEADING` is the heading of the group in the help.
    """
    parameters: list[Parameter] = []
    groups: dict[str, type] = {}
    hints = get_type_hints(command, include_extras=True)
    for signed in signature(command).parameters.values():
        hint = hints[signed.name]
        if not is_dataclass(hint):
            parameters.append(_parameter(signed.name, hint, signed.default, OPTIONS_HEADING))
            continue
        assert isinstance(hint, type)
        groups[signed.name] = hint
        kinds = get_type_hints(hint, include_extras=True)
        parameters += [
            _parameter(item.name, kinds[item.name], item.default, _heading(hint, item.name))
            for item in fields(hint)
        ]
    return parameters, groups


def _heading(group: type, name: str) -> str:
    """Return the heading of the class that declares a field."""
    owner = next(cls for cls in group.__mro__ if name in vars(cls).get("__annotations__", {}))
    return getattr(owner, "HEADING", OPTIONS_HEADING)


def _parameter(name: str, hint: Any, default: Any, heading: str) -> Parameter:
    kind, declared = get_args(hint) if get_origin(hint) is Annotated else (hint, None)
    if not isinstance(declared, Argument | Option):
        raise TypeError(f"parameter {name} is {hint}, expected Annotated[type, Option(...) or Argument(...)]")
    if type(None) in get_args(kind):
        kind = reduce(or_, (one for one in get_args(kind) if one is not type(None)))
    is_list = get_origin(kind) is list
    if is_list:
        (kind,) = get_args(kind)
    choices = declared.choices if isinstance(declared, Option) else ()
    if get_origin(kind) is Literal:
        kind, choices = str, get_args(kind)
    elif words := [one for one in get_args(kind) if get_origin(one) is Literal]:
        kind, choices = float, get_args(words[0])
    return Parameter(name, declared, kind, choices, is_list, default, heading)


class Command:
    """A function with the arguments and options of its parameters."""

    def __init__(
        self,
        path: str,
        function: Callable[..., None],
        subcommands: Mapping[str, Callable[..., None]] = MappingProxyType({}),
    ) -> None:
        self.path, self._function, self.subcommands = path, function, subcommands
        parameters, self._groups = parameters_of(function)
        self.arguments = [one for one in parameters if isinstance(one.declared, Argument)]
        self.options = [one for one in parameters if isinstance(one.declared, Option)]
        about, _, examples = cleandoc(function.__doc__ or "").partition("Examples\n--------\n")
        self.about, self.examples = about.strip(), examples.split("\n") if examples else []
        self._named = {name: one for one in self.options for name in (*one.names, one.negation) if name}

    @property
    def option_names(self) -> list[str]:
        """All names of options, for shell completion."""
        return [*self._named, *HELP]

    def run(self, words: Sequence[str]) -> None:
        """Read the words and call the function."""
        values = self.read(words)
        for name, group in self._groups.items():
            values[name] = group(**{item.name: values.pop(item.name) for item in fields(group)})
        self._function(**values)

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        """Return a value for each parameter."""
        values: dict[str, Any] = {}
        positional: list[str] = []
        rest = list(reversed(words))
        while rest:
            word = rest.pop()
            if word == "--":
                positional += reversed(rest)
                break
            if word.startswith("-") and word != "-":
                self._take_option(word, rest, values)
            else:
                positional.append(word)
        self._take_places(positional, values)
        for parameter in (*self.arguments, *self.options):
            if parameter.name not in values and parameter.is_required:
                raise UsageError(_missing(parameter))
            values.setdefault(parameter.name, parameter.default)
        return values

    def _take_option(self, word: str, rest: list[str], values: dict[str, Any]) -> None:
        called, mark, text = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        if called not in self._named:
            known = did_you_mean(
                word.partition("=")[0], [name for name in self._named if name.startswith("--")]
            )
            raise UsageError(f"there is no option {word.partition('=')[0]}.{known}")
        parameter = self._named[called]
        assert isinstance(parameter.declared, Option)
        if parameter.is_flag:
            if mark:
                raise UsageError(f"{called} takes no value, got {word!r}.")
            if parameter.declared.at_once is not None:
                parameter.declared.at_once()
                raise Exit
            values[parameter.name] = called != parameter.negation
            return
        if not mark:
            if not rest or rest[-1] in self._named or rest[-1] in HELP:
                raise UsageError(f"{called} needs a value: {called} {parameter.metavar}.")
            text = rest.pop()
        value = parameter.read(text, called)
        values[parameter.name] = [*values.get(parameter.name, ()), value] if parameter.is_list else value

    def _take_places(self, places: list[str], values: dict[str, Any]) -> None:
        for parameter in self.arguments:
            if parameter.is_list and places:
                values[parameter.name] = [parameter.read(text, parameter.metavar) for text in places]
                places = []
            elif places:
                values[parameter.name] = parameter.read(places[0], parameter.metavar)
                places = places[1:]
        if places:
            expected = ", ".join(parameter.metavar for parameter in self.arguments)
            raise UsageError(
                f"{places[0]!r} is one argument too many, expected {expected or 'options only'}."
            )

    def help(self, width: int) -> str:
        """Return the text that `--help` prints."""
        signs = [f"{parameter.metavar}{'...' * parameter.is_list}" for parameter in self.arguments]
        typed = [
            sign if parameter.is_required else f"[{sign}]"
            for sign, parameter in zip(signs, self.arguments, strict=True)
        ]
        sections: dict[str, dict[str, str]] = {}
        for parameter in self.arguments:
            sections.setdefault("Arguments", {})[parameter.metavar] = parameter.help
        sections[OPTIONS_HEADING] = {}
        for parameter in self.options:
            names = ", ".join((*parameter.names, *([parameter.negation] if parameter.negation else [])))
            left = (
                f"{names} {parameter.metavar}".rstrip()
                if parameter.names[0] != parameter.names[-1]
                else f"    {names} {parameter.metavar}"
            )
            sections.setdefault(parameter.heading, {})[left.rstrip()] = parameter.help
        sections[OPTIONS_HEADING]["-h, --help"] = "Show this message and exit."
        if self.subcommands:
            sections["Commands"] = {name: _first_line(each) for name, each in self.subcommands.items()}
            typed.append("[COMMAND]")
        return page(" ".join((self.path, "[OPTIONS]", *typed)), self.about, sections, self.examples, width)


def _first_line(function: Callable[..., None]) -> str:
    return cleandoc(function.__doc__ or "").partition("\n")[0]


def _missing(one: Parameter) -> str:
    if isinstance(one.declared, Argument):
        return f"missing argument {one.metavar}: {one.declared.help}"
    return f"missing option {' / '.join(reversed(one.names))}: {one.declared.help}"


def page(
    usage: str,
    about: str,
    sections: Mapping[str, Mapping[str, str]],
    examples: Sequence[str],
    width: int,
) -> str:
    """Return a page of help: usage, description, examples, and sections of names with their texts."""
    from stageguard.cli.console import wrapped

    lines = [f"Usage: {usage}", ""]
    for paragraph in about.split("\n\n"):
        lines += [*(f"  {line}" for line in wrapped(" ".join(paragraph.split()), width - 2)), ""]
    if examples:
        lines += ["Example:", *(f"  {line}" for line in examples), ""]
    left = min(30, max((len(name) for rows in sections.values() for name in rows), default=0)) + 4
    for heading, rows in sections.items():
        lines.append(f"{heading}:")
        for name, text in rows.items():
            first, *more = wrapped(text, max(width - left, 20)) or [""]
            if len(name) + 4 > left:
                lines.append(f"  {name}")
                name = ""
            lines.append(f"  {name}".ljust(left) + first)
            lines += [" " * left + line for line in more]
        lines.append("")
    return "\n".join(lines[:-1])
