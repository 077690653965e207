"""Nights decoded together are written, and fail, as each would be alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from stageguard.runner.decode_files import DecodeTask, decode_task
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.decode_together import DecodeTogether
from stageguard.runner.run import run_files
from stageguard.synthetic.night import simulate_night

PROFILE = sg.Profile.load("human-psg-5")
OPTIONS = DecodeOptions()


def write(path: Path, rows: np.ndarray, header: str = "W,N1,N2,N3,R") -> Path:
    lines = [header, *(",".join(map(repr, row)) for row in rows.tolist())]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nights")
    densities = [simulate_night("human-psg-5", hours=3 + seed, seed=seed).density for seed in range(4)]
    rows = [density.probabilities.copy() for density in densities]
    flat = rows[2] ** 0.2 * np.random.default_rng(2).random(rows[2].shape)
    three = rows[3][:, [0, 1, 4]]
    files = [write(folder / f"plain{i}.csv", each) for i, each in enumerate(rows)]
    files.append(write(folder / "changed.csv", flat / flat.sum(axis=1, keepdims=True)))
    rows[1][60:80] = np.nan
    files.append(write(folder / "gap.csv", rows[1]))
    files.append(write(folder / "merged.csv", three / three.sum(axis=1, keepdims=True), "W,N,R"))
    files.append(folder / "empty.csv")
    files[-1].touch()
    return files


def tasks(files, output: Path, **more) -> list[DecodeTask]:
    settings = {"durable": False, "shares_profile": True, "in_full": False} | more
    return [
        DecodeTask(file, output / f"{file.stem}-{number}", PROFILE, OPTIONS, **settings)
        for number, file in enumerate(files)
    ]


def said(outcomes):
    return [(each.id, each.error, each.warnings, each.notes) for each in outcomes]


@pytest.mark.parametrize("chosen", [slice(0, 4), slice(0, 6), slice(None)])
@pytest.mark.parametrize("jobs", [1, 2])
def test_outputs_errors_and_warnings_are_those_of_single_nights(tmp_path, nights, chosen, jobs):
    files = nights[chosen] * 8  # so that several go to a process at a time
    alone = list(run_files(decode_task, tasks(files, tmp_path / "alone")))
    work = DecodeTogether()
    together = list(run_files(work, tasks(files, tmp_path / "together"), jobs=jobs, ahead=work.ahead))
    assert said(together) == said(alone)
    assert any(each.warnings for each in alone) == (chosen != slice(0, 4))
    assert any(each.error for each in alone) == (chosen == slice(None))
    written = {path.name: path.read_bytes() for path in (tmp_path / "alone").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "together").iterdir()} == written


def test_plain_nights_are_ready_before_their_turn_and_others_are_not(tmp_path, nights):
    work, given = DecodeTogether(), tasks([*nights[:5], nights[-1]], tmp_path)
    decode_task(given[0])
    work.ahead(given)
    assert {path.name for path in work._ready} == {"plain1-1", "plain2-2", "plain3-3"}
    assert work(given[0]).is_done_before
    work.ahead(tasks(nights[:4], tmp_path / "full", in_full=True))
    assert not work._ready


def test_a_file_that_changes_after_it_was_read_is_read_again(tmp_path):
    rows = [
        simulate_night("human-psg-5", hours=1 + seed, seed=seed).density.probabilities for seed in range(4)
    ]
    files = [write(tmp_path / f"n{i}.csv", each) for i, each in enumerate(rows[:3])]
    work, todo = DecodeTogether(), tasks(files, tmp_path / "out")
    work.ahead(todo)
    write(files[1], rows[3])
    files[2].unlink()
    assert [work(task).facts.n_epochs for task in todo[:2]] == [120, 480]
    with pytest.raises(sg.StageGuardError, match="No such file"):
        work(todo[2])
