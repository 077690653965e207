"""`stageguard fit` on the command line."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pytest

import stageguard as sg
from cli_runner import error_line, write_night
from messages import mentions
from stageguard.synthetic.night import simulate_night

BASE = "human-psg-3"


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """Six nights of three subjects: probabilities, two experts, a table."""
    folder = tmp_path_factory.mktemp("scored")
    for name in ("nights", "experts", "seconds"):
        (folder / name).mkdir()
    rows, rng = ["id,subject"], np.random.default_rng(0)
    for i in range(6):
        write_night(folder / "nights" / f"n{i}.csv", BASE, hours=2, seed=i)
        stages = simulate_night(BASE, hours=2, seed=i).expert.stages
        late = np.where(rng.random(len(stages)) < 0.3, np.roll(stages, 1), stages)
        for place, own in (("experts", stages), ("seconds", late)):
            (folder / place / f"n{i}.txt").write_text("\n".join(own.tolist()) + "\n")
        rows.append(f"n{i},s{i // 2}")
    (folder / "subjects.csv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture
def folder(scored, tmp_path, monkeypatch):
    shutil.copytree(scored, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def nights(folder):
    return sorted((folder / "nights").iterdir())


def test_it_writes_the_profile_that_fit_returns(folder, run):
    options = ("--expert", "experts", "--subjects", "subjects.csv", "--base", BASE, "--cohort", "our lab")
    ran = run("fit", *nights(folder), *options, "-o", "lab.toml")
    assert ran.code == 0, ran.err
    for text in (
        "6 scored nights of 3 subjects, 1,440 scored epochs, on human-psg-3",
        "Improvement over argmax on held-out nights: kappa",
        "3 subjects are few",
        "Wrote: lab.toml",
    ):
        assert text in ran.out.replace("\n", " "), text
    profile = sg.Profile.load("lab.toml")
    densities = [sg.read_density(path) for path in nights(folder)]
    experts = [sg.read_hypnogram(path, scheme="wnr3") for path in sorted((folder / "experts").iterdir())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.StageGuardWarning)
        same = sg.fit(
            experts,
            densities,
            base=BASE,
            subjects=[f"s{i // 2}" for i in range(6)],
            cohort="our lab",
            name="lab",
        )
    assert profile == same
    again = run("fit", *nights(folder), *options, "-o", "lab.toml")
    assert mentions(error_line(again), "lab.toml", "--overwrite")


def test_hypnograms_alone(folder, run):
    files = sorted((folder / "experts").iterdir())
    ran = run("fit", *files, "--base", BASE, "-o", "counted.toml")
    assert ran.code == 0, ran.err
    assert "Counted on 6 scored nights of 6 subjects without probabilities" in ran.out
    assert "Improvement" not in ran.out
    assert sg.Profile.load("counted.toml").provenance["source"].endswith("hypnograms alone")


def test_a_bad_night_is_a_row_and_not_the_end(folder, run):
    (folder / "nights" / "n5.csv").write_text("W,N,R\n0.5,0.1,0.1\n")
    (folder / "experts" / "n4.txt").unlink()
    options = ("--expert", "experts", "--subjects", "subjects.csv", "--base", BASE)
    ran = run("fit", *nights(folder), *options, "-o", "lab.toml")
    assert ran.code == 3
    assert "2 of 6 files failed" in ran.err
    assert mentions(ran.err.replace("\n", " "), "'n4'")
    assert sg.Profile.load("lab.toml").provenance["n_nights"] == 4


def test_what_cannot_be_fitted_is_one_line(folder, run):
    first = nights(folder)[0]
    alone = run("fit", first, "--base", BASE, "-o", "x.toml")
    assert mentions(error_line(alone), 1, "expected 10")
    single = run("fit", first, "--expert", "experts", "--base", BASE, "-o", "x.toml")
    assert mentions(error_line(single), 1, "subject", 2)
    (folder / "subjects.csv").write_text("id,subject,group\n" + "".join(f"n{i},s,{i}\n" for i in range(6)))
    options = ("--expert", "experts", "--subjects", "subjects.csv", "--base", BASE)
    split = run("fit", *nights(folder), *options, "-o", "x.toml")
    assert error_line(split).startswith("subject 's' is in groups '0' and '1', expected one group")
    assert not (folder / "x.toml").exists()
    wrong = run("fit", first, "--base", BASE, "-o", "x.json")
    assert wrong.code == 2
    assert mentions(wrong.err.replace("\n", " "), "expected a name that ends in .toml")


def test_a_fitted_profile_is_shown_with_its_table_and_decodes_a_report(folder, run):
    options = ("--expert", "experts", "--subjects", "subjects.csv", "--base", BASE)
    assert run("fit", *nights(folder), *options, "-o", "lab.toml").code == 0
    shown = run("profiles", "show", "lab.toml")
    assert shown.code == 0, shown.err
    lines = [line.split() for line in shown.out.splitlines()]
    assert ["argmax"] in [line[:1] for line in lines if len(line) > 6]
    page = run("report", "nights/n0.csv", "--profile", "lab.toml", "--output", "n0.html")
    assert page.code == 0, page.err
    assert "lab" in (folder / "n0.html").read_text("utf-8")
