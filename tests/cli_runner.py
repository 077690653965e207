"""Run the command line in this process and look at what it printed."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from stageguard.cli import main
from stageguard.cli.app import stageguard
from stageguard.cli.command import EXAMPLES
from stageguard.synthetic.night import simulate_night


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """What a command printed as one line of JSON for each night."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def nights(self) -> list[Any]:
        """The lines of single nights, without one on the cohort."""
        return [line for line in self.lines if line.keys() != {"cohort"}]

    @property
    def cohort(self) -> Any:
        """What the last line says of all nights."""
        return self.lines[-1]["cohort"]


class Runner:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> Ran:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        printed = self._capsys.readouterr()
        assert "Traceback" not in printed.err
        return Ran(int(stopped.value.code or 0), printed.out, printed.err)


def all_commands() -> dict[str, click.Command]:
    """Every command, and those below one, by what is typed after `stageguard`."""
    context = click.Context(stageguard)
    found = {name: stageguard.get_command(context, name) for name in stageguard.list_commands(context)}
    for name, command in list(found.items()):
        if isinstance(command, click.Group):
            found |= {f"{name} {below}": one for below, one in command.commands.items()}
    return {name: command for name, command in found.items() if command is not None}


def examples_of(command: click.Command) -> list[str]:
    """The lines that the help of a command shows as examples."""
    return inspect.cleandoc(command.help or "").partition(EXAMPLES)[2].splitlines()


def error_line(ran: Ran) -> str:
    """The one line on stderr of a command that failed on its data."""
    assert ran.code == 1, (ran.out, ran.err)
    lines = ran.err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("stageguard: ")
    return lines[0].removeprefix("stageguard: ")


def write_night(path: Path, profile: str = "human-psg-5", hours: float = 2.0, seed: int = 1) -> Path:
    """A synthetic night as CSV."""
    density = simulate_night(profile, hours=hours, seed=seed).density
    rows = [",".join(map(repr, row)) for row in density.probabilities.tolist()]
    path.write_text("\n".join([",".join(density.scheme.names), *rows]) + "\n")
    return path
