"""What may be typed, what is refused in one line, what the help says."""

from __future__ import annotations

import shlex

import click
import pytest
from click.testing import CliRunner

from cli_runner import Runner, all_commands, examples_of
from stageguard.cli.app import WENT, stageguard


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("decode", "numbers.txt"), "fits 5 formats. Name the right one, as in --format numbers-yasa: "),
        (
            ("decode", "numbers.txt", "--only", "zz", "-p", "human-psg-5"),
            "stageguard: --only zz: there is no such night",
        ),
        (("convert", "numbers.txt", "-o", "new.xyz", "--format", "numbers-yasa"), "Say which, as in --to "),
    ],
)
def test_an_error_spells_an_option_as_the_shell_does(capsys, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "numbers.txt").write_text("0\n1\n2\n3\n4\n" * 8)
    ran = Runner(capsys)(*words)
    assert ran.code == 1
    assert said in ran.err


@pytest.mark.parametrize("name", WENT)
def test_a_command_that_went_names_what_took_over(capsys, name):
    ran = Runner(capsys)(name, "night.csv", "-p", "human-psg-5")
    assert (ran.code, ran.out) == (2, "")
    assert f"`stageguard {name}` went: use {WENT[name]}" in ran.err
