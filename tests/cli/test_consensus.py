"""`stageguard consensus`: each scorer has one vote."""

from __future__ import annotations

import pytest

from cli_runner import Runner


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
        assert "are one file, expected each scorer once. Leave one out." in told
    assert run("consensus", "a.txt", "b.txt", "c.txt").code == 0


def test_a_stager_without_a_scored_epoch_has_no_place(run):
    ran = run("consensus", "a.txt", "b.txt", "--night", "q.txt", "--scheme", "aasm5", "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["night"]["rank"], ran.json["night"]["place"]) == (None, None)
    assert "does not exist" in ran.json["night"]["reason"]
    shown = run("consensus", "a.txt", "b.txt", "--night", "q.txt", "--scheme", "aasm5").out
    assert "No place among 2 scorers" in " ".join(shown.split())
    assert "n/a" in shown and "nan" not in shown
