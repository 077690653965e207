"""What shells complete, asked from a real bash."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from cli_runner import Runner
from stageguard.cli.app import SHORT_HELP
from stageguard.cli.commands.completion import all_commands, bash_script, fish_script

ASK = """
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _stageguard; printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def run(capsys):
    return Runner(capsys)


@pytest.fixture(scope="module")
def script():
    return bash_script()


def completed(script, *words):
    """What bash offers for the last word."""
    if shutil.which("bash") is None:
        pytest.skip("bash is not there")
    run = subprocess.run(
        ["bash", "-c", script + ASK, "bash", "stageguard", *words], capture_output=True, text=True, check=True
    )
    assert run.stderr == ""
    return run.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["de"], ["decode", "demo"]),
        (["--v"], ["--version"]),
        (["decode", "--ov"], ["--overwrite"]),
        (["decode", "a night.csv", "-p", "human-psg-5", "--ex"], ["--explain"]),
        (["decode", "--trained", ""], ["natural", "balanced"]),
        (["decode", "ni"], []),  # a file, which the shell completes
        (["decode", ""], []),
        (["profiles", "s"], ["show"]),
        (["profiles", "show", "--j"], ["--json"]),
        (["data", "get", "--no"], ["--no-unpack"]),
        (["nothing", "--j"], []),
        (["completion", "--h"], ["--help"]),
    ],
)
def test_bash_completes(script, words, expected):
    assert completed(script, *words) == expected


def test_every_option_of_every_command_is_offered(script):
    commands = list(all_commands())
    assert {command.path.split()[1] for command in commands} == set(SHORT_HELP)
    command = next(each for each in commands if each.path == "stageguard stats")
    assert set(completed(script, "stats", "-")) == set(command.option_names)
    for command in commands:
        name = command.path.removeprefix("stageguard ")
        assert (
            f'"{name}"|"{name} "*) known="{" ".join((*command.subcommands, *command.option_names))}"'
            in script
        )


def test_fish_is_told_every_long_option():
    script = fish_script()
    for command in all_commands():
        for name in command.option_names:
            assert not name.startswith("--") or name == "--help" or f" -l {name[2:]}" in script


def test_a_shell_that_is_not_known_is_wrong_usage(run):
    ran = run("completion", "tcsh")
    assert ran.code == 2
    assert "SHELL is 'tcsh', expected one of 'bash', 'zsh', 'fish'." in ran.err
    assert run("completion", "zsh").out.startswith("autoload")
