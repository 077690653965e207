"""Formats on the command line: named, pooled, told in one line, decoded again the same."""

from __future__ import annotations

import numpy as np
import pytest

from messages import mentions
from stageguard.synthetic.night import simulate_night

PROFILE = "human-psg-5"


@pytest.fixture
def usleep(tmp_path):
    """What U-Sleep writes with three channel groups."""
    density = simulate_night(PROFILE, hours=2, seed=1).density
    np.save(tmp_path / "night_PRED.npy", (3 * density.probabilities).astype(np.float32))
    return tmp_path / "night_PRED.npy"


def test_format_and_pooling_are_recorded_and_repeated(run, usleep, tmp_path):
    arguments = ("--format", "usleep-npy", "--epoch-seconds", 15, "--pool", 30)
    ran = run("decode", usleep, "-p", PROFILE, *arguments, "--json")
    assert ran.lines[0]["n_epochs"] == 120
    assert mentions(ran.lines[0]["notes"], "2 rows", "15 s", "30 s")
    assert run("verify", tmp_path / "night_PRED.hypnogram.tsv").code == 0


@pytest.mark.parametrize("command", ["stats", "compare", "report"])
def test_every_command_takes_a_format(run, usleep, tmp_path, command):
    expert = simulate_night(PROFILE, hours=2, seed=1).expert
    (tmp_path / "expert.txt").write_text("\n".join(expert.stages.tolist()) + "\n")
    files = [tmp_path / "expert.txt", usleep] if command == "compare" else [usleep]
    assert run(command, *files, "-p", PROFILE).code == 1
    ran = run(
        command, *files, "-p", PROFILE, "--format", "usleep-npy", *(["--json"] if command == "stats" else [])
    )
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("form", ["luna-annot", "nsrr-xml", "yasa-json"])
def test_a_scoring_format_is_taken_at_its_word_under_any_name(run, tmp_path, form):
    expert = simulate_night(PROFILE, hours=2, seed=1).expert
    path = expert.save(tmp_path / "a.x", format=form).path.rename(tmp_path / "a.txt")
    (measured,) = run("stats", path, "--scoring-format", form, "--json").nights
    assert measured["ok"], measured
    assert run("stats", path, "-p", PROFILE).code == 0  # its content tells the format, too
