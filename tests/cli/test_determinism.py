"""The same nights give the same bytes, whatever the run, the processes, the locale or the hashing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from cli_runner import write_night

WAYS = {
    "again": ({}, ()),
    "processes": ({}, ("--jobs", "2")),
    "locale": ({"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "PYTHONUTF8": "0"}, ()),
    "C": ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONHASHSEED": "7", "TZ": "Pacific/Auckland"}, ()),
}


def outputs(
    folder: Path, name: str, environment: dict[str, str], options: tuple[str, ...]
) -> dict[str, bytes]:
    """Decode the nights of a folder in a process of its own; return its files by name."""
    command = [sys.executable, "-m", "stageguard.cli", "decode", "nights", "-p", "human-psg-5", "-o", name]
    subprocess.run(
        [*command, *options], cwd=folder, env=os.environ | environment, check=True, capture_output=True
    )
    return {path.name: path.read_bytes() for path in sorted((folder / name).iterdir())}


@pytest.fixture(scope="module")
def decoded(tmp_path_factory) -> tuple[Path, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("determinism")
    (folder / "nights").mkdir()
    for seed in range(4):
        write_night(folder / "nights" / f"n{seed}.csv", hours=2, seed=seed)
    return folder, outputs(folder, "first", {}, ())


@pytest.mark.parametrize("way", WAYS)
def test_the_same_bytes_in_every_way(decoded, way):
    folder, first = decoded
    assert len(first) > 8
    assert outputs(folder, way, *WAYS[way]) == first


def test_a_night_is_decoded_alone_as_among_others():
    nights = [
        sg.simulate_night("human-psg-5", hours=h, seed=s).density for s, h in enumerate((1, 8, 3, 5, 2, 1, 4))
    ]
    alone = [sg.decode(night, "human-psg-5") for night in nights]
    for size in (2, 3, 7):
        batches = [nights[i : i + size] for i in range(0, len(nights), size)]
        together = [result for batch in batches for result in sg.decode(batch, "human-psg-5")]
        for one, other in zip(alone, together, strict=True):
            assert one.score == other.score
            assert np.array_equal(one.hypnogram.labels, other.hypnogram.labels)
