"""`stageguard consensus`: each scorer has one vote."""

from __future__ import annotations

import numpy as np
import pytest

from cli_runner import Runner, error_line
from messages import mentions


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, stages in (
        ("a", "W W N2 N2 R"),
        ("b", "W N2 N2 N2 R"),
        ("c", "W W N2 R R"),
        ("q", "? ? ? ? ?"),
    ):
        (tmp_path / f"{name}.txt").write_text("\n".join(stages.split()) + "\n")
    return Runner(capsys)


def test_a_file_named_twice_is_refused(run, tmp_path):
    for again in ("a.txt", tmp_path / "a.txt"):
        ran = run("consensus", "a.txt", again, "b.txt")
        assert ran.code == 2
        told = " ".join(ran.err.replace("│", " ").split())
        assert mentions(told, "each scorer once")
    assert run("consensus", "a.txt", "b.txt", "c.txt").code == 0


def test_a_stager_without_a_scored_epoch_has_no_place(run):
    ran = run("consensus", "a.txt", "b.txt", "--night", "q.txt", "--scheme", "aasm5", "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["night"]["rank"], ran.json["night"]["place"]) == (None, None)
    assert "does not exist" in ran.json["night"]["reason"]
    shown = run("consensus", "a.txt", "b.txt", "--night", "q.txt", "--scheme", "aasm5").out
    assert "No place among 2 scorers" in " ".join(shown.split())
    assert "n/a" in shown and "nan" not in shown


GOOD = ["W", "W", "N1", "N2", "N2", "N2", "N3", "N3", "R", "R", "W", "N2", "N2", "R", "R", "W"] * 5


def write_scorers(folder, n_nights=2):
    """Three scorers who nearly agree, and one who scored something else."""
    rng = np.random.default_rng(0)
    for number in range(n_nights):
        for scorer, rate in (("anna", 0.1), ("ben", 0.1), ("carl", 0.1), ("dora", 1.0)):
            (folder / scorer).mkdir(exist_ok=True)
            changed = rng.random(len(GOOD)) < rate
            stages = np.where(changed, rng.choice(["W", "N1", "N2", "N3", "R"], len(GOOD)), GOOD)
            (folder / scorer / f"n{number}.txt").write_text("\n".join(stages) + "\n")
    return ["anna", "ben", "carl", "dora"]


def test_a_scorer_who_disagrees_with_all_is_named(run, tmp_path):
    scorers = write_scorers(tmp_path)
    files = [f"{scorer}/n0.txt" for scorer in scorers]
    ran = run("consensus", *files)
    assert mentions(ran.out, "Disagrees with all", "dora/n0.txt")
    assert "more than 0.3 below" in " ".join(ran.out.split())
    told = run("consensus", *files, "--json").json["scorers"]
    assert [scorer["disagrees"] for scorer in told] == [False, False, False, True]
    assert told[3]["kappa_with_others"] < 0.2 < told[0]["kappa_with_others"]
    assert "Disagrees" not in run("consensus", *files[:3]).out
    assert "Disagrees" not in run("consensus", files[0], files[3]).out  # of two, none is the odd one


def test_a_folder_for_each_scorer_gives_many_nights(run, tmp_path):
    scorers = write_scorers(tmp_path, n_nights=3)
    (tmp_path / "anna" / "n9.txt").write_text("W\n")
    ran = run("consensus", *scorers, "-o", "out")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("Consensus of 4 scorers (soft-agreement) on 3 nights")
    assert mentions(ran.out, "Disagrees with all", "kappa")
    assert mentions(ran.out, "left", "n9")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["n0.tsv", "n1.tsv", "n2.tsv"]
    one = run("consensus", *(f"{scorer}/n1.txt" for scorer in scorers), "-o", "one.tsv")
    assert one.code == 0
    assert (tmp_path / "one.tsv").read_text() == (tmp_path / "out" / "n1.tsv").read_text()
    again = run("consensus", *scorers, "-o", "out")
    assert again.code == 1
    assert "n0.tsv" in again.err
    found = run("consensus", *scorers, "--night", "anna", "--json").json
    assert [night["ok"] for night in found] == [True] * 3
    assert found[0]["night"]["scorers"][0]["stager_kappa"] == 1.0


def test_a_night_with_other_epochs_fails_and_the_others_go_on(run, tmp_path):
    scorers = write_scorers(tmp_path)
    (tmp_path / "ben" / "n1.txt").write_text("W\nN1\nR\nN3\n")
    ran = run("consensus", *scorers)
    assert ran.code == 1
    assert "on 1 night" in ran.out
    assert "scored 4 epochs and the night has 80" in " ".join(ran.err.split())


def test_folders_without_a_night_in_common_are_one_line(run, tmp_path):
    for scorer, name in (("anna", "a"), ("ben", "b")):
        (tmp_path / scorer).mkdir()
        (tmp_path / scorer / f"{name}.txt").write_text("W\nN1\n")
    assert mentions(error_line(run("consensus", "anna", "ben")), "folder", "anna has")
    assert run("consensus", "anna", "ben", "--night", "anna/a.txt").code == 2
