"""`stageguard fit` without experts, and `decode --tune`."""

from __future__ import annotations

import shutil

import pytest

import stageguard as sg
from cli_runner import error_line, write_night
from messages import mentions

BASE = "human-psg-3"


@pytest.fixture(scope="module")
def unscored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unscored")
    (folder / "nights").mkdir()
    for i in range(10):
        write_night(folder / "nights" / f"n{i}.csv", BASE, hours=1, seed=i)
    return folder


@pytest.fixture
def folder(unscored, tmp_path, monkeypatch):
    shutil.copytree(unscored, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def densities(folder):
    return [sg.read_density(folder / "nights" / f"n{i}.csv") for i in range(10)]


def test_it_writes_the_profile_that_tune_returns_and_says_what_was_decided(folder, run):
    ran = run("fit", "nights", "--base", BASE, "--stager", "YASA 0.8", "-o", "yasa.toml")
    assert ran.code == 0, ran.err
    expected = sg.tune(densities(folder), BASE, stager="YASA 0.8", name="yasa")
    assert sg.Profile.load(folder / "yasa.toml") == expected
    lines = ran.out.splitlines()
    assert mentions(lines[0], "yasa", 10)
    assert " ".join(lines[1:-1]) == expected.provenance["decision"]
    assert lines[-1] == "Wrote: yasa.toml"
    again = run("fit", "nights", "--base", BASE, "-o", "yasa.toml")
    assert mentions(error_line(again), "yasa.toml", "--overwrite")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("nights/n0.csv", "-o", "t.toml"), ("3 fit", "human-bioradar-3")),
        (("nights", "--base", "kdd2026-cardiorespiratory", "-o", "t.toml"), ("cannot be tuned",)),
    ],
)
def test_what_cannot_be_tuned_is_one_line(folder, run, arguments, reason):
    assert mentions(error_line(run("fit", *arguments)), *reason)
    assert not (folder / "t.toml").exists()


def test_decode_tunes_first_and_keeps_the_profile_beside_the_cohort(folder, run):
    ran = run("decode", "nights", "-p", BASE, "--tune", "-o", "out")
    assert ran.code == 0, ran.err
    expected = sg.tune(densities(folder), BASE)
    assert sg.Profile.load(folder / "out" / "tuned-profile.toml") == expected
    assert "The stager " in ran.out and "tuned-profile.toml" in ran.out
    assert run("verify", "out/n3.hypnogram.tsv").code == 0
    again = run("decode", "nights", "-p", BASE, "--tune", "-o", "out")
    assert again.code == 0, again.err
    assert "10 done before" in again.out


def test_decode_takes_the_profile_as_it_is_where_nights_are_few(folder, run):
    ran = run("decode", "nights/n0.csv", "nights/n1.csv", "-p", BASE, "--tune", "-o", "out")
    assert ran.code == 0, ran.err
    assert mentions(ran.out, "--tune", 10, 2, "human-psg-3")
    assert not (folder / "out" / "tuned-profile.toml").exists()


def test_another_stager_is_decoded_by_the_base_rule_and_can_be_resumed_and_verified(folder, run):
    run("fit", "nights", "--base", BASE, "--stager", "YASA 0.8", "-o", "yasa.toml")
    options = ("-p", "yasa.toml", "--stager", "other", "-o", "out")
    ran = run("decode", "nights/n0.csv", *options)
    assert ran.code == 0, ran.err
    assert "the profile is for stager 'YASA 0.8', the night's is 'other'" in " ".join(ran.out.split())
    assert "nothing to do" in run("decode", "nights/n0.csv", *options).out
    assert run("verify", "out/n0.hypnogram.tsv").code == 0
    own = error_line(run("decode", "nights/n0.csv", "-p", "yasa.toml", "-o", "out"))
    assert "other options (stager)" in own


@pytest.fixture
def too_much_n3(tmp_path, monkeypatch):
    """Ten nights of a stager that says N3 for most of N2, and whose they are."""
    (tmp_path / "nights").mkdir()
    whose = ["id\tsubject"]
    for i in range(10):
        density = sg.simulate_night("human-psg-5", hours=7, seed=i).density
        rows = density.probabilities * [1, 1, 0.5, 2, 1]
        rows /= rows.sum(axis=1, keepdims=True)
        sg.Hypnodensity(rows, density.scheme, 30.0).save(tmp_path / "nights" / f"n{i}.csv")
        whose.append(f"n{i}\tp{i // 2}")
    (tmp_path / "whose.tsv").write_text("\n".join(whose) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_shares_are_repaired_over_people_and_the_decoding_is_verified(too_much_n3, run):
    ran = run("fit", "nights", "--base", "human-psg-5", "-o", "t.toml", "--subjects", "whose.tsv")
    assert ran.code == 0, ran.err
    tuned = sg.Profile.load("t.toml")
    given = [sg.read_density(f"nights/n{i}.csv") for i in range(10)]
    assert tuned == sg.tune(given, "human-psg-5", name="t", subjects=[i // 2 for i in range(10)])
    assert tuned.share_repair is not None and tuned.shares.repair.n_people == 5
    moved = tuned.shares.repair.describe(tuned.scheme.names)
    assert moved in " ".join(ran.out.split())
    assert moved in " ".join(run("profiles", "show", "t.toml").out.split())
    assert run("decode", "nights", "-p", "t.toml", "-o", "out").code == 0
    assert (
        tuned.shares.repair.describe(tuned.scheme.names) in (too_much_n3 / "out" / "methods.md").read_text()
    )
    assert run("verify", "out/n3.hypnogram.tsv").code == 0
    named = run("decode", "nights", "-p", "t.toml", "-o", "named", "--cohort", "insomnia")
    assert named.code == 0, named.err
    assert run("verify", "named/n3.hypnogram.tsv").code == 0
