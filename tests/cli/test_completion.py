"""What shells complete, asked from a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from cli_runner import Runner, all_commands

ASK = """
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _stageguard_completion stageguard; printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def run(capsys):
    return Runner(capsys)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment in which `stageguard` is the code under test."""
    if shutil.which("bash") is None:
        pytest.skip("bash is not there")
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "stageguard"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stageguard.cli "$@"\n')
    program.chmod(0o755)
    return os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def completed(script, environment, *words):
    """What bash offers for the last word."""
    run = subprocess.run(
        ["bash", "-c", script + ASK, "bash", "stageguard", *words],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return run.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["de"], ["decode", "demo"]),
        (["--v"], ["--version"]),
        (["decode", "--ov"], ["--overwrite"]),
        (["decode", r"a\ night.csv", "-p", "human-psg-5", "--ex"], ["--explain"]),
        (["decode", "--trained", ""], ["natural", "balanced"]),
        (["decode", "--strength", "o"], ["off"]),
        (["profiles", "s"], ["show"]),
        (["data", "get", "--no"], ["--no-unpack"]),
        (["nothing", "--j"], []),
    ],
)
def test_bash_completes(run, environment, words, expected):
    script = run("completion", "bash").out
    assert completed(script, environment, *words) == expected


def test_every_shell_has_its_script(run):
    scripts = {shell: run("completion", shell).out for shell in ("bash", "zsh", "fish")}
    assert len(set(scripts.values())) == 3
    assert all("_STAGEGUARD_COMPLETE" in script for script in scripts.values())
    assert run("completion", "tcsh").code == 2


def test_every_command_is_offered(run, environment):
    names = {path.split()[0] for path in all_commands()}
    assert set(completed(run("completion", "bash").out, environment, "")) == names
