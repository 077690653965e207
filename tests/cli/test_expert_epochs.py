"""Every command that compares nights with experts refuses scorings of other epochs in one line."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from cli_runner import error_line

PROFILE = "human-psg-5"


def write_expert(path, stages, seconds=30.0, later=0.0):
    """A table with times."""
    rows = [f"{later + seconds * i:g}\t{seconds:g}\t{stage}" for i, stage in enumerate(stages)]
    path.write_text("onset\tduration\tstage\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def folder(tmp_path):
    """A night of probabilities with times, and a folder for its expert."""
    night = sg.simulate_night(PROFILE, hours=2, seed=0)
    night.density.save(tmp_path / "n0.csv")
    (tmp_path / "expert").mkdir()
    (tmp_path / "list.tsv").write_text("id\tprobabilities\tscoring\nn0\tn0.csv\texpert/n0.tsv\n")
    return tmp_path


STAGES = sg.simulate_night(PROFILE, hours=2, seed=0).expert.stages.tolist()
OTHERS = {
    "20 s": ({"seconds": 20.0}, "the expert's epochs last 20 s and the night's 30 s, expected the same"),
    "15 s later": ({"later": 15.0}, "begins 15 s after the night, expected the same"),
    "10 min later": (
        {"later": 600.0},
        "scored up to epoch 260 and the night has 240",
    ),
    "shorter": (
        {"stages": STAGES[:-5]},
        "scored up to epoch 235 and the night has 240",
    ),
    "longer": ({"stages": STAGES + ["W"] * 5}, "scored up to epoch 245 and the night has 240"),
}
COMMANDS = {
    "stats": ("stats", "n0.csv", "-p", PROFILE, "--expert", "expert"),
    "stats of a list": ("stats", "--list", "list.tsv", "-p", PROFILE),
    "stats of one file": ("stats", "n0.csv", "-p", PROFILE, "--expert", "expert/n0.tsv"),
    "compare": ("compare", "expert/n0.tsv", "n0.csv"),
    "compare of a list": ("compare", "--list", "list.tsv"),
    "report": ("report", "n0.csv", "-p", PROFILE, "--expert", "expert/n0.tsv"),
    "report of a list": ("report", "list.tsv", "-p", PROFILE),
    "fit": ("fit", "n0.csv", "--expert", "expert", "--base", PROFILE, "-o", "made.toml"),
    "consensus": ("compare", "expert/n0.tsv", "other.tsv", "--consensus", "c.tsv", "--overwrite"),
}


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("command", COMMANDS)
def test_other_epochs_are_refused(run, folder, monkeypatch, command, case):
    monkeypatch.chdir(folder)
    how, problem = OTHERS[case]
    write_expert(folder / "other.tsv", STAGES)
    write_expert(folder / "expert" / "n0.tsv", **{"stages": STAGES} | how)
    before = sorted(folder.iterdir())
    line = error_line(run(*COMMANDS[command]))
    if command == "consensus":
        assert "expert" in line
    else:
        assert "n0.csv: " in line
        assert problem in line
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("n_more", [-1, 1])
@pytest.mark.parametrize("command", COMMANDS)
def test_one_epoch_more_or_less_at_the_end_is_taken(run, folder, monkeypatch, command, n_more):
    monkeypatch.chdir(folder)
    stages = STAGES[:-1] if n_more < 0 else [*STAGES, "W", "?", "?"]
    write_expert(folder / "other.tsv", ["N1", *STAGES[1:]])
    write_expert(folder / "expert" / "n0.tsv", stages)
    ran = run(*COMMANDS[command])
    assert ran.code == 0 or "of 1 subject, expected 2 or more" in ran.err, ran.err


def test_the_expert_is_measured_on_the_epochs_of_the_night(run, folder):
    write_expert(folder / "expert" / "n0.tsv", [*STAGES, "N2", "?"])
    ran = run("stats", folder / "n0.csv", "-p", PROFILE, "--expert", folder / "expert", "--json")
    (night,) = ran.nights
    truth = np.count_nonzero(np.array(STAGES) != "W") / 2
    assert night["expert"]["tst_minutes"] == truth
