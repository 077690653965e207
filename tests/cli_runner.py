"""Run the command line in this process and look at what it printed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stageguard.cli import main
from stageguard.synthetic.night import simulate_night


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


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
