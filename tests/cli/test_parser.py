"""The parser: what may be typed, what is refused in one line, what the help says."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli_runner import Runner
from stageguard.cli.app import SHORT_HELP, find_command
from stageguard.cli.parser import Argument, Command, Exit, Option, UsageError

SEEN: list[dict[str, object]] = []


def _say() -> None:
    SEEN.append({"said": True})


@dataclass(frozen=True)
class Lights:
    HEADING: ClassVar = "Lights"

    lights_off: Annotated[str | None, Option(metavar="TIME", help="Off.")] = None
    dim: Annotated[bool, Option("--dim", help="Dim.")] = False


def work(
    source: Annotated[Path, Argument("SOURCE", "Where from.")],
    profile: Annotated[str, Option("--profile", "-p", metavar="NAME", help="Which one.")],
    files: Annotated[list[Path] | None, Argument("FILES", "More.")] = None,
    jobs: Annotated[int, Option(min=0, max=9, metavar="N", help="At a time.")] = 1,
    weight: Annotated[float | None, Option(help="Weight.")] = None,
    kind: Annotated[Literal["mean", "median"], Option(help="Of what kind.")] = "mean",
    pins: Annotated[list[str] | None, Option(metavar="K=V", help="Some.")] = None,
    curve: Annotated[bool, Option("--curve/--no-curve", help="Curve.")] = True,
    lights: Lights = Lights(),  # noqa: B008 - a group of options
    names: Annotated[bool, Option("--names", at_once=_say, help="List names and exit.")] = False,
) -> None:
    """Work on it.

    And say
    so.

    Examples
    --------
    stageguard work a.csv -p b
    """
    SEEN.append(dict(locals()))


COMMAND = Command("stageguard work", work)


def ran(line: str) -> dict[str, object]:
    SEEN.clear()
    COMMAND.run(shlex.split(line))
    (seen,) = SEEN
    return seen


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a -p x", {"source": Path("a"), "profile": "x", "files": None, "jobs": 1, "curve": True}),
        ("-px a b c", {"profile": "x", "files": [Path("b"), Path("c")]}),
        ("--profile=x=y a", {"profile": "x=y"}),
        ("a b --profile x c", {"files": [Path("b"), Path("c")]}),
        ("a -p x --weight -3.5 --jobs=2", {"weight": -3.5, "jobs": 2}),
        ("a -p x --weight=-1e-3", {"weight": -0.001}),
        ("a -p x --pins 1=R --pins 2=W", {"pins": ["1=R", "2=W"]}),
        ("a -p x --no-curve", {"curve": False}),
        ("a -p x --no-curve --curve", {"curve": True}),
        ("a -p x -p y", {"profile": "y"}),  # the last one counts
        ("-p x -- -a --jobs", {"source": Path("-a"), "files": [Path("--jobs")]}),
        ("a -p x -", {"files": [Path("-")]}),
        ("a -p -3", {"profile": "-3"}),
        ("a -p ''", {"profile": ""}),
        ("a -p x --lights-off 22:30", {"lights": Lights("22:30", False)}),
        ("a -p x --dim --kind median", {"lights": Lights(None, True), "kind": "median"}),
    ],
)
def test_words_become_values(line, expected):
    seen = ran(line)
    assert {name: seen[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "missing argument SOURCE: Where from."),
        ("a", "missing option --profile / -p: Which one."),
        ("a -p", "-p needs a value: -p NAME."),
        ("a --profile --dim", "--profile needs a value: --profile NAME."),
        ("a -p x --job 2", "there is no option --job. Did you mean '--jobs'?"),
        ("a -p x --zzz=2", "there is no option --zzz."),
        ("a -p x -q", "there is no option -q."),
        ("a -p x --jobs two", "--jobs is 'two', expected a whole number, 0 to 9."),
        ("a -p x --jobs 1_0", "--jobs is '1_0', expected a whole number, 0 to 9."),
        ("a -p x --jobs -1", "--jobs is '-1', expected a whole number, 0 to 9."),
        ("a -p x --jobs 10", "--jobs is '10', expected a whole number, 0 to 9."),
        ("a -p x --weight heavy", "--weight is 'heavy', expected a number."),
        ("a -p x --kind men", "--kind is 'men', expected one of 'mean', 'median'. Did you mean 'mean'?"),
        ("a -p x --dim=yes", "--dim takes no value, got '--dim=yes'."),
        ("'' -p x", "SOURCE is an empty name, expected a file or a folder."),
    ],
)
def test_what_cannot_be_meant_is_refused(line, message):
    with pytest.raises(UsageError) as error:
        ran(line)
    assert str(error.value) == message


def test_one_argument_too_many():
    def two(name: Annotated[str, Argument("NAME", "Name.")]) -> None:
        """Take one."""

    with pytest.raises(UsageError, match=r"^'b' is one argument too many, expected NAME\.$"):
        Command("stageguard two", two).run(["a", "b"])


def test_what_is_printed_at_once_needs_nothing_else():
    SEEN.clear()
    with pytest.raises(Exit):
        COMMAND.run(["--names"])
    assert SEEN == [{"said": True}]


def test_help_says_all_of_it():
    assert COMMAND.help(70) == (
        "Usage: stageguard work [OPTIONS] SOURCE [FILES...]\n\n  Work on it.\n\n  And say so.\n\n"
        "Example:\n  stageguard work a.csv -p b\n\n"
        "Arguments:\n"
        "  SOURCE                    Where from.\n"
        "  FILES                     More.\n\n"
        "Options:\n"
        "  -p, --profile NAME        Which one.  [required]\n"
        "      --jobs N              At a time.  [default: 1; 0 to 9]\n"
        "      --weight NUMBER       Weight.\n"
        "      --kind <mean|median>  Of what kind.  [default: mean]\n"
        "      --pins K=V            Some.\n"
        "      --curve, --no-curve   Curve.  [default: curve]\n"
        "      --names               List names and exit.\n"
        "  -h, --help                Show this message and exit.\n\n"
        "Lights:\n"
        "      --lights-off TIME     Off.\n"
        "      --dim                 Dim.\n"
    ).rstrip("\n")


def test_a_parameter_that_nobody_can_type_is_a_fault_of_the_command():
    def wrong(name: str) -> None:
        """Take it."""

    with pytest.raises(TypeError, match="parameter name is"):
        Command("stageguard wrong", wrong)


WORDS = st.lists(
    st.one_of(
        st.sampled_from([*COMMAND.option_names, "--", "-", "-p", "-3", "a.csv", "--jobs=2", "mean", ""]),
        st.text(max_size=8),
        st.text(max_size=4).map("--{}".format),
    ),
    max_size=6,
)


@given(WORDS)
@example(["-p"])
def test_whatever_is_typed_is_read_or_refused(words):
    try:
        values = COMMAND.read(words)
    except (UsageError, Exit) as error:
        assert isinstance(error, Exit) or str(error).endswith((".", "?"))
    else:
        assert isinstance(values["source"], Path)
        assert values["kind"] in ("mean", "median")
        assert 0 <= values["jobs"] <= 9


def _commands() -> list[Command]:
    found = []
    for name in SHORT_HELP:
        command, _ = find_command([name])
        found += [command, *(find_command([name, each])[0] for each in command.subcommands)]
    return found


@pytest.fixture(scope="module")
def commands():
    return _commands()


def test_every_command_has_an_example_that_can_be_typed(commands):
    for command in commands:
        assert command.examples, command.path
        for line in command.examples:
            words = shlex.split(line.partition(" < ")[0], comments=True)
            assert words[0] == "stageguard", line
            named, rest = find_command(words[1:])
            assert f"{named.path} ".startswith(f"{command.path} ")  # itself, or one of a group
            named.read(rest)


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_of_a_help_is_wider_than_the_terminal(commands, width):
    for command in commands:
        shown = command.help(width).split("\n\n")
        for line in (line for part in shown if not part.startswith("Example") for line in part.split("\n")):
            assert len(line) <= width, (command.path, line)


def test_every_option_says_what_it_is_for(commands):
    for command in commands:
        for one in (*command.arguments, *command.options):
            assert one.help[0].isupper() and ("." in one.help), (command.path, one.name)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["decodee"], "there is no command 'decodee'. Did you mean 'decode'? Help: stageguard -h"),
        (["--vers"], "there is no option '--vers'. Did you mean '--version'? Help: stageguard -h"),
        (
            ["data", "chek"],
            "there is no command data 'chek', expected one of list, show, check, get. "
            "Did you mean 'check'? Help: stageguard data -h",
        ),
        (["decode", "--profle", "x"], "there is no option --profle. Did you mean '--profile'?"),
        (["verify"], "missing argument OUTPUT"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(capsys, words, line):
    ran = Runner(capsys)(*words)
    assert ran.code == 2
    assert not ran.out
    assert len(ran.err.splitlines()) == 1
    assert ran.err.startswith(f"stageguard: {line}")


def test_help_is_shown_wherever_it_is_asked_for(capsys):
    run = Runner(capsys)
    for words in (["profiles", "show", "-h"], ["profiles", "show", "x", "--help"], ["data", "--json", "-h"]):
        ran = run(*words)
        assert ran.code == 0
        assert ran.out.startswith("Usage: stageguard ")
    assert run().code == 2
    assert run("profiles", "show", "--", "-h").code == 1  # a name, and no such profile
