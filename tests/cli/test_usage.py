"""What may be typed, what is refused in one line, what the help says."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli_runner import Runner, all_commands, examples_of
from stageguard.cli.app import WENT, stageguard
from stageguard.cli.command import MORE, command, option, packed
from stageguard.cli.options import PATH, Number, NumberOrWord

SEEN: list[dict[str, object]] = []


@dataclass(frozen=True)
class Lights:
    lights_off: str | None = None
    dim: bool = False


@command
@click.argument("source", type=PATH, help="Where from.")
@click.argument("files", nargs=-1, type=PATH, help="More.")
@option("--profile", "-p", metavar="NAME", required=True, help="Which one.")
@option("--jobs", metavar="N", type=click.IntRange(0, 9), default=1, help="At a time.")
@option("--weight", type=Number(min=-10, max=10), help="Weight.")
@option("--strength", type=NumberOrWord("off", min=0, max=10), help="Strength.")
@option("--pins", metavar="K=V", multiple=True, help="Some.")
@packed(
    "lights",
    Lights,
    option("--lights-off", metavar="TIME", heading=MORE, help="Off."),
    option("--dim", is_flag=True, heading=MORE, help="Dim."),
)
def work(**values: object) -> None:
    """Work on it.

    And say
    so.

    Examples
    --------
    stageguard work a.csv -p b
    """
    SEEN.append(values)


def values_of(words):
    SEEN.clear()
    work.main(words, prog_name="stageguard work", standalone_mode=False)
    (seen,) = SEEN
    return seen


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a -p x", {"source": Path("a"), "profile": "x", "files": (), "jobs": 1, "pins": ()}),
        ("-px a b c", {"profile": "x", "files": (Path("b"), Path("c"))}),
        ("a -p x --weight -3.5 --jobs=2", {"weight": -3.5, "jobs": 2}),
        ("a -p x --strength off", {"strength": "off"}),
        ("a -p x --strength 2", {"strength": 2.0}),
        ("a -p x --pins 1=R --pins 2=W", {"pins": ("1=R", "2=W")}),
        ("-p x -- -a --jobs", {"source": Path("-a"), "files": (Path("--jobs"),)}),
        ("a -p x -", {"files": (Path("-"),)}),
        ("a -p -3", {"profile": "-3"}),
        ("a -p x --lights-off 22:30", {"lights": Lights("22:30", False)}),
        ("a -p x --dim", {"lights": Lights(None, True)}),
    ],
)
def test_words_become_values(line, expected):
    seen = values_of(shlex.split(line))
    assert {name: seen[name] for name in expected} == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "a",
        "a -p",
        "a --profile --dim",  # not a profile of that name
        "a -p x --pins --dim",
        "a -p x --job 2",
        "a -p x -q",
        "a -p x --jobs two",
        "a -p x --jobs 10",
        "a -p x --weight nan",
        "a -p x --strength on",
        "a -p x --strength 11",
        "a -p x --dim=yes",
        "'' -p x",  # as from an unset variable
    ],
)
def test_what_cannot_be_meant_is_refused(line):
    with pytest.raises(click.UsageError):
        values_of(shlex.split(line))


@pytest.mark.parametrize("path", all_commands())
def test_every_command_has_an_example_that_can_be_typed(path):
    examples = examples_of(all_commands()[path])
    assert examples
    for line in examples:
        program, *words = shlex.split(line.partition(" < ")[0], comments=True)
        assert program == "stageguard"
        parsed = [stageguard.make_context("stageguard", words)]
        while isinstance(parsed[-1].command, click.Group) and (rest := parsed[-1]._protected_args):
            name, below, more = parsed[-1].command.resolve_command(parsed[-1], [*rest, *parsed[-1].args])
            parsed.append(below.make_context(name, more, parent=parsed[-1]))
        assert f"{parsed[-1].command_path} ".startswith(f"stageguard {path} ")  # itself, or one of a group


@pytest.mark.parametrize("path", all_commands())
@pytest.mark.parametrize("width", [80, 120])
def test_no_line_of_a_help_is_wider_than_the_terminal(path, width):
    shown = CliRunner().invoke(stageguard, [*path.split(), "-h"], terminal_width=width).output
    for part in shown.split("\n\n"):
        if not part.startswith("Examples"):
            assert max(map(len, part.split("\n"))) <= width


@pytest.mark.parametrize("path", all_commands())
def test_every_option_says_what_it_is_for(path):
    for one in all_commands()[path].params:
        assert one.help and "." in one.help, one.name


@pytest.mark.parametrize("path", all_commands())
def test_a_help_fits_a_screen(path):
    shown = CliRunner().invoke(stageguard, [*path.split(), "-h"], terminal_width=100).output
    assert len(shown.splitlines()) <= 40


@pytest.mark.parametrize(
    ("words", "suggested", "helped_by"),
    [
        (["decodee"], "'decode'", "stageguard -h"),
        (["--vers"], "'--version'", "stageguard -h"),
        (["study", "rnu"], "'run'", "stageguard study -h"),
        (["decode", "--profle", "x"], "'--profile'", "stageguard decode -h"),
        (["verify"], "OUTPUT", "stageguard verify -h"),
        (["decode", "-p", "human-psg-5"], "FILES", "stageguard decode -h"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(capsys, words, suggested, helped_by):
    ran = Runner(capsys)(*words)
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.err.splitlines()
    assert line.startswith("stageguard: ")
    assert suggested in line
    assert line.endswith(f"Help: {helped_by}")


def test_help_is_shown_wherever_it_is_asked_for(capsys):
    run = Runner(capsys)
    for words in (
        ["profiles", "show", "-h"],
        ["profiles", "show", "x", "--help"],
        ["study", "run", "--json", "-h"],
    ):
        ran = run(*words)
        assert ran.code == 0
        assert ran.out.startswith("Usage: stageguard ")
    assert run().code == 2
    assert run("profiles", "show", "--", "-h").code == 1  # a name, and no such profile


@pytest.mark.parametrize("name", WENT)
def test_a_command_that_went_names_what_took_over(capsys, name):
    ran = Runner(capsys)(name, "night.csv", "-p", "human-psg-5")
    assert (ran.code, ran.out) == (2, "")
    assert f"`stageguard {name}` went: use {WENT[name]}" in ran.err
