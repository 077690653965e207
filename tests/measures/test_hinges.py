"""A statistic that hinges on a few doubtful epochs says so, in every output."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner
from nights import decode
from stageguard.measures.intervals import hinges_of
from stageguard.report import night_report

STAGES = {"W": 0, "N": 2, "R": 4}


def rows_of(stages: str, doubtful: dict[int, tuple[str, str]]) -> np.ndarray:
    """Sure probabilities of these stages; a doubtful epoch is at .5 and .46 for two of them."""
    rows = np.full((len(stages), 5), 0.01)
    rows[np.arange(len(stages)), [STAGES[stage] for stage in stages]] = 0.96
    for epoch, (first, second) in doubtful.items():
        rows[epoch] = 0.04 / 3
        rows[epoch, [STAGES[first], STAGES[second]]] = 0.5, 0.46
    return rows


NIGHT = "W" * 20 + "N" * 400 + "R" * 40 + "N" * 200 + "R" * 60 + "W" * 10


def test_one_doubtful_epoch_of_rem_is_named():
    night = decode(rows_of(NIGHT, {160: ("N", "R")}), "human-psg-5")
    assert hinges_of(night) == {"rem_latency_minutes": (160, 160)}


def test_sleep_onset_that_a_doubtful_epoch_would_move_is_named():
    found = hinges_of(decode(rows_of("W" * 60 + NIGHT, {30: ("W", "N")}), "human-psg-5"))
    assert found["sol_minutes"] == found["waso_minutes"] == (30, 30)


@pytest.mark.parametrize("profile", ["human-psg-5", "mouse-eeg-emg-3"])
def test_sure_nights_and_mice_hinge_on_nothing(profile):
    made = sg.simulate_night(profile, hours=2, seed=1)
    sure = np.eye(len(made.expert.scheme.names))[made.expert.labels] * 0.98 + 0.01
    sure /= sure.sum(axis=1, keepdims=True)
    assert hinges_of(decode(sure, profile)) == {}


def test_terminal_sidecar_and_report_name_the_epochs(capsys, tmp_path):
    run = Runner(capsys)
    rows = rows_of(NIGHT, {160: ("N", "R")})
    path = tmp_path / "night.csv"
    sg.Hypnodensity(rows, "aasm5", 30).save(path)
    words = "depends on epoch 161: look at it"
    assert words in " ".join(run("decode", path, "-p", "human-psg-5").out.split())
    told = run("decode", path, "-p", "human-psg-5", "--overwrite", "--json").json
    told = told[0] if isinstance(told, list) else told
    assert told["indicators"]["rem_latency_minutes"]["depends_on_epochs"] == [160, 160]
    assert "REM latency depends on epoch 161" in (tmp_path / "night.hypnogram.json").read_text()
    assert f"REM latency {words}." in night_report(decode(rows, "human-psg-5"))
