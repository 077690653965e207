"""`decode --strength`: how strongly to guard, said, recorded and repeated."""

from __future__ import annotations

import json

import numpy as np
import pytest

import stageguard as sg
from cli_runner import error_line, write_night
from messages import mentions
from nights import decode

PROFILE = "human-psg-5"


@pytest.fixture
def night(tmp_path):
    return write_night(tmp_path / "night.csv", hours=2, seed=1)


@pytest.mark.parametrize(("said", "strength"), [("off", "off"), ("0.3", 0.3), ("0", 0.0)])
def test_a_strength_is_used_recorded_and_repeated(run, night, tmp_path, said, strength):
    ran = run("decode", night, "-p", PROFILE, "--strength", said)
    assert ran.code == 0, ran.err
    record = json.loads((tmp_path / "night.hypnogram.json").read_text())["stageguard"]
    assert record["options"]["strength"] == strength
    assert record["strength"]["transition_weight"] == (0.0 if strength == "off" else strength)
    shown = sg.read_hypnogram(tmp_path / "night.hypnogram.tsv").labels
    assert np.array_equal(shown, decode(sg.read_density(night), PROFILE, strength=strength).hypnogram.labels)
    verified = run("verify", tmp_path / "night.hypnogram.tsv")
    assert verified.code == 0 and "Note" not in verified.out, verified.out
    assert "was decoded before" in run("decode", night, "-p", PROFILE, "--strength", said).out
    line = error_line(run("decode", night, "-p", PROFILE))
    assert mentions(line, "options", "strength")


@pytest.mark.parametrize("wrong", ["on", "-0.1", "nan", "1001", "tuned", ""])
def test_what_is_no_strength_is_one_line(run, night, wrong):
    ran = run("decode", night, "-p", PROFILE, "--strength", wrong)
    assert ran.code == 2
    (line,) = ran.err.splitlines()
    assert "--strength" in line


def test_a_table_of_nights_is_decoded_at_one_strength(run, tmp_path):
    nights = [sg.simulate_night(PROFILE, hours=1, seed=seed).density for seed in range(2)]
    lines = ["id," + ",".join(nights[0].scheme.names)]
    for k, density in enumerate(nights):
        lines += [f"n{k}," + ",".join(map(repr, row)) for row in density.probabilities.tolist()]
    (tmp_path / "all.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "out.csv"
    assert run("decode", tmp_path / "all.csv", "-p", PROFILE, "--strength", "0.3", "-o", out).code == 0
    rows = [line.split(",") for line in out.read_text().splitlines()]
    shown = [row[rows[0].index("stage")] for row in rows[1:]]
    expected = [decode(night, PROFILE, strength=0.3).stages for night in nights]
    assert shown == np.concatenate(expected).tolist()
    verified = run("verify", out)
    assert verified.code == 0 and "Note" not in verified.out, verified.out
