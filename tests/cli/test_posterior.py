"""`decode --posterior`: what sg.posterior and sg.sample return, as files that read back."""

from __future__ import annotations

import json

import numpy as np
import pytest

import stageguard as sg
from cli_runner import error_line, write_night
from messages import mentions

PROFILE = "human-psg-3"


@pytest.fixture
def night(tmp_path):
    return write_night(tmp_path / "night.csv", PROFILE)


def gappy(path):
    """A night with a bridged epoch and a gap of more than five minutes."""
    lines = path.read_text().splitlines()
    for row in (20, *range(101, 131)):
        lines[row] = "NaN,NaN,NaN"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_table_reads_back_exactly_with_its_missing_epochs(run, night, tmp_path):
    gappy(night)
    ran = run("decode", "--posterior", night, "-p", PROFILE)
    assert (ran.code, ran.err) == (0, "")
    expected = sg.posterior(sg.read_density(night), PROFILE)
    found = sg.read_density(tmp_path / "night.posterior.csv")
    assert np.array_equal(found.probabilities, expected.probabilities, equal_nan=True)
    assert found.scheme == expected.scheme
    missing = np.isnan(found.probabilities[:, 0])
    assert np.flatnonzero(missing).tolist() == list(range(100, 130))


def test_the_sidecar_holds_the_evidence_and_where_it_comes_from(run, night, tmp_path):
    run("decode", "--posterior", night, "-p", PROFILE, "--trained", "balanced")
    whole = json.loads((tmp_path / "night.posterior.json").read_text())
    own = whole["stageguard"]
    expected = sg.posterior(sg.read_density(night), PROFILE)
    assert own["posterior"]["log_evidence"] == pytest.approx(expected.log_evidence, abs=1e-9)
    assert own["posterior"]["transition_weight"] == expected.transition_weight > 0
    assert own["profile"]["sha256"] == sg.Profile.load(PROFILE).sha256
    assert own["input"]["file"] == "night.csv"
    assert own["options"]["trained"] == "balanced"
    assert own["draws"] is None
    assert set(whole) == {"onset", "duration", "W", "N", "R", "stageguard"}


def test_draws_are_those_of_sample(run, night, tmp_path):
    ran = run("decode", gappy(night), "-p", PROFILE, "--draws", "7", "--seed", "3")
    assert "7 nights, seed 3" in ran.out
    with np.load(tmp_path / "night.draws.npz") as held:
        labels, stages = held["labels"], held["stages"].tolist()
    expected = sg.sample(sg.read_density(night), PROFILE, n=7, seed=3)
    assert labels.dtype == np.int8
    assert np.array_equal(labels, expected)
    assert stages == ["W", "N", "R"]
    own = json.loads((tmp_path / "night.posterior.json").read_text())["stageguard"]
    assert (own["draws"]["n"], own["draws"]["seed"]) == (7, 3)


def test_nothing_is_replaced_unasked_and_the_same_again_stays(run, night, tmp_path):
    (tmp_path / "night.draws.npz").write_bytes(b"mine")
    line = error_line(run("decode", night, "-p", PROFILE, "--draws", "2"))
    assert mentions(line, "night.draws.npz", "--overwrite")
    assert (tmp_path / "night.draws.npz").read_bytes() == b"mine"
    assert not (tmp_path / "night.posterior.csv").exists()
    assert run("decode", night, "-p", PROFILE, "--draws", "2", "--overwrite").code == 0
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written["night.draws.npz"] != b"mine"
    again = run("decode", night, "-p", PROFILE, "--draws", "2")
    assert again.code == 0 and "nothing to do" in again.out
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == written
    assert "--overwrite" in error_line(run("decode", night, "-p", PROFILE, "--draws", "3"))


def test_a_bad_file_is_a_failure_and_the_others_go_on(run, night, tmp_path):
    other = write_night(tmp_path / "other.csv", PROFILE, seed=2)
    bad = tmp_path / "bad.csv"
    bad.write_text("W,N,R\n0.9,0.9,0.9\n")
    ran = run("decode", night, bad, other, "-p", PROFILE, "-o", tmp_path / "out", "--posterior", "--jobs", 2)
    assert ran.code == 3
    assert "1 of 3 files failed" in ran.err
    assert {path.name for path in (tmp_path / "out").glob("*.csv")} == {
        "night.posterior.csv",
        "other.posterior.csv",
    }
