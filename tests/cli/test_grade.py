"""`stageguard grade`: nights and experts are paired, a card is written, verified, and refused if edited."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner, error_line
from messages import mentions
from stageguard.night.stages import AASM5

SCORERS = ("anna", "ben", "carl")
NAMES = np.array(["W", "N1", "N2", "N3", "R"])


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return Runner(capsys)


def write_cohort(folder, n_nights=4, n_epochs=200, seed=0):
    """Nights as labels, and a folder of folders with three experts."""
    rng = np.random.default_rng(seed)
    for number in range(n_nights):
        truth = np.repeat(rng.choice([0, 1, 2, 2, 3, 4], n_epochs // 8 + 1), 8)[:n_epochs]
        for place in ("nights", *(f"scored/{scorer}" for scorer in SCORERS)):
            (folder / place).mkdir(parents=True, exist_ok=True)
            labels = np.where(rng.random(n_epochs) < 0.15, rng.integers(0, 5, n_epochs), truth)
            (folder / place / f"n{number}.txt").write_text("\n".join(NAMES[labels]) + "\n")


def test_a_card_is_written_shown_and_verified(run, tmp_path):
    write_cohort(tmp_path)
    ran = run("grade", "nights", "--expert", "scored", "-o", "card.html", "--stager", "X 1", "--cohort", "c")
    assert ran.code == 0, ran.err
    assert mentions(ran.out, "X 1")
    card = sg.GradeCard.load("card.json")
    assert (card.scorers, card.n_people) == (SCORERS, 4)
    assert (card.facts.stager, card.facts.cohort, card.facts.profile) == ("X 1", "c", None)
    assert card["tst_minutes"].verdict is None
    assert card.sha256 in (tmp_path / "card.html").read_text()
    found = run("verify", "card.json", "--json")
    assert found.code == 0, found.out
    assert {check["name"] for check in found.json["checks"]} == {"card", "files"}
    assert found.json["ok"]


def test_the_card_is_that_of_the_public_function(run, tmp_path):
    write_cohort(tmp_path)
    found = run("grade", "nights", "--expert", "scored", "--json").json
    assert [file["ok"] for file in found["files"]] == [True] * 4
    nights = [sg.read_hypnogram(f"nights/n{k}.txt", scheme="aasm5") for k in range(4)]
    experts = [
        [sg.read_hypnogram(f"scored/{scorer}/n{k}.txt", scheme="aasm5") for scorer in SCORERS]
        for k in range(4)
    ]
    card = sg.grade(experts, nights)
    assert found["grades"] == json.loads(json.dumps(card.to_dict()["grades"]))


def test_a_table_may_hold_a_column_for_each_expert(run, tmp_path):
    write_cohort(tmp_path)
    (tmp_path / "tables").mkdir()
    for k in range(4):
        columns = [(tmp_path / "scored" / scorer / f"n{k}.txt").read_text().split() for scorer in SCORERS]
        rows = [",".join(row) for row in zip(*columns, strict=True)]
        (tmp_path / "tables" / f"n{k}.csv").write_text("\n".join([",".join(SCORERS), *rows]) + "\n")
    named = [part for scorer in SCORERS for part in ("--scorer", scorer)]
    ran = run("grade", "nights", "--expert", "tables", *named, "-o", "card.json")
    assert ran.code == 0, ran.err
    card = sg.GradeCard.load("card.json")
    assert card.scorers == SCORERS
    by_folder = run("grade", "nights", "--expert", "scored", "--json").json["grades"]
    assert json.loads((tmp_path / "card.json").read_text())["grades"] == by_folder
    assert run("verify", "card.json").code == 0


def test_a_table_of_nights_is_graded_and_verified(run, tmp_path):
    write_cohort(tmp_path, n_nights=2)
    for place in ("nights", "scored/anna"):
        rows = ["id,stage"]
        for k in range(2):
            rows += [f"n{k},{stage}" for stage in (tmp_path / place / f"n{k}.txt").read_text().split()]
        (tmp_path / f"{place.partition('/')[0]}.csv").write_text("\n".join(rows) + "\n")
    ran = run("grade", "nights.csv", "--expert", "scored.csv", "-o", "card.json")
    assert ran.code == 0, ran.err
    single = run("grade", "nights", "--expert", "scored/anna", "--json").json
    assert json.loads((tmp_path / "card.json").read_text())["grades"] == single["grades"]
    assert run("verify", "card.json").code == 0


def write_decoded(run, tmp_path, n_nights=3, hours=2):
    """Outputs of decode, and two experts of each."""
    for scorer in ("anna", "ben"):
        (tmp_path / "scored" / scorer).mkdir(parents=True)
    (tmp_path / "probabilities").mkdir()
    for k in range(n_nights):
        made = sg.simulate_night("human-psg-5", hours=hours, seed=k)
        made.density.save(tmp_path / "probabilities" / f"n{k}.csv")
        made.expert.save(tmp_path / "scored" / "anna" / f"n{k}.txt")
        other = sg.Hypnogram(np.roll(made.expert.labels, 2), AASM5, 30.0)
        other.save(tmp_path / "scored" / "ben" / f"n{k}.txt")
    ran = run("decode", "probabilities", "-p", "human-psg-5", "-o", "decoded", "--stager", "Y 2")
    assert ran.code == 0, ran.err


def test_outputs_of_decode_are_graded_by_their_stages(run, tmp_path):
    write_decoded(run, tmp_path)
    assert run("grade", "decoded", "--expert", "scored", "-o", "card.json").code == 0
    card = sg.GradeCard.load("card.json")
    assert (card.facts.stager, card.facts.profile) == ("Y 2", "human-psg-5")
    decoded = sg.decode(sg.read_density("probabilities/n0.csv"), "human-psg-5", stager="Y 2")
    counted = sg.sleep_statistics(decoded).tst_minutes
    assert card.nights[0].statistics["tst_minutes"].stager == counted
    assert run("verify", "card.json").code == 0
    shutil.rmtree(tmp_path / "probabilities")
    found = run("grade", "decoded", "--expert", "scored", "--json").json
    assert found["grades"] == json.loads((tmp_path / "card.json").read_text())["grades"]


def test_lights_bound_what_is_measured(run, tmp_path):
    write_cohort(tmp_path)
    ran = run("grade", "nights", "--expert", "scored", "--lights-off", 600, "-o", "card.json")
    assert ran.code == 0, ran.err
    cut = [
        sg.Hypnogram(sg.read_hypnogram(f"{place}/n0.txt", scheme="aasm5").labels[20:], AASM5, 30.0)
        for place in ("nights", *(f"scored/{scorer}" for scorer in SCORERS))
    ]
    found = sg.GradeCard.load("card.json").nights[0].statistics["sol_minutes"]
    assert found.stager == sg.sleep_statistics(cut[0]).sol_minutes
    assert found.experts == tuple(sg.sleep_statistics(each).sol_minutes for each in cut[1:])
    assert run("verify", "card.json").code == 0


def test_other_epochs_are_aligned_on_demand(run, tmp_path):
    write_cohort(tmp_path, n_nights=2)
    for k in range(2):  # epochs of 60 s that begin with the recording
        night = sg.read_hypnogram(f"nights/n{k}.txt", scheme="aasm5").reepoch(60)
        rows = [f"{60 * epoch}\t60\t{stage}" for epoch, stage in enumerate(night.stages)]
        (tmp_path / "nights" / f"n{k}.tsv").write_text("\n".join(["onset\tduration\tstage", *rows]) + "\n")
        (tmp_path / "nights" / f"n{k}.txt").unlink()
    given = ("grade", "nights", "--expert", "scored", "--expert-epoch-seconds", 30)
    refused = run(*given)
    assert refused.code == 1
    assert mentions(refused.err, "60 s")
    ran = run(*given, "--align", "-o", "card.json")
    assert ran.code == 0, ran.err
    assert sg.GradeCard.load("card.json").nights[0].epoch_seconds == 30.0
    assert run("verify", "card.json").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "values"),
    [
        (("nights",), 2, ["--expert"]),
        (("nights", "--expert", "nowhere"), 1, ["nowhere"]),
        (("nights", "--expert", "empty"), 1, ["empty"]),
        (("nights", "--expert", "scored/anna/n0.txt"), 2, ["--expert"]),
        (("nights", "--expert", "elsewhere"), 1, ["n0"]),
        (("nights", "--expert", "scored", "-o", "card.txt"), 2, ["card.txt"]),
        (("nights", "--expert", "scored", "-o", "no/card.json"), 1, ["no"]),
        (("nights", "--expert", "scored", "-o", "taken.html"), 1, ["taken.html"]),
        (("nights", "--expert", "scored", "--scorer", "nobody"), 1, ["nobody"]),
        (("no-nights", "--expert", "scored"), 1, ["no-nights"]),
        ((), 2, ["FILES"]),
    ],
)
def test_what_is_missing_is_said(run, tmp_path, arguments, code, values):
    write_cohort(tmp_path, n_nights=2)
    (tmp_path / "empty").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.txt").write_text("W\nN1\n")
    (tmp_path / "taken.html").write_text("mine")
    ran = run("grade", *arguments)
    assert ran.code == code, (ran.out, ran.err)
    assert mentions(" ".join(ran.err.replace("│", " ").split()), *values)
    assert (tmp_path / "taken.html").read_text() == "mine"


def test_a_bad_night_fails_and_the_others_go_on(run, tmp_path):
    write_cohort(tmp_path)
    (tmp_path / "scored" / "ben" / "n1.txt").write_text("W\nN1\nR\nN3\n")
    (tmp_path / "scored" / "ben" / "n2.txt").unlink()
    for scorer in ("anna", "ben"):
        (tmp_path / "scored" / scorer / "n3.txt").unlink()
    ran = run("grade", "nights", "--expert", "scored", "--json")
    assert ran.code == 3
    assert [file["ok"] for file in ran.json["files"]] == [True, False, True, False]
    assert mentions(ran.json["files"][1]["error"], 4, 200)
    assert mentions(ran.json["files"][3]["error"], "1 of 3")
    assert [night["scored_by"] for night in ran.json["nights"]] == [[True] * 3, [True, False, True]]


def failing_checks(verified):
    return {check["name"] for check in verified["checks"] if not check["ok"]}


def test_changed_and_missing_files_are_found(run, tmp_path):
    write_cohort(tmp_path)
    run("grade", "nights", "--expert", "scored", "-o", "card.json")
    night = tmp_path / "nights" / "n1.txt"
    night.write_text(night.read_text().replace("N3", "N2"))
    assert failing_checks(run("verify", "card.json", "--json").json) == {"files"}
    night.unlink()
    assert failing_checks(run("verify", "card.json", "--json").json) == {"files"}


def test_a_copied_expert_and_the_stager_as_expert_are_refused_by_their_files(run, tmp_path):
    write_decoded(run, tmp_path)
    shutil.copytree("scored/anna", "scored/zoe")
    line = error_line(run("grade", "decoded", "--expert", "scored"))
    assert mentions(line, "scored/anna/n0.txt and scored/zoe/n0.txt are one scoring")
    line = error_line(run("compare", "scored/anna/n0.txt", "scored/zoe/n0.txt", "--consensus", "c.tsv"))
    assert mentions(line, "scored/anna/n0.txt and scored/zoe/n0.txt are one scoring")
    shutil.rmtree("scored/zoe")
    shutil.copytree("decoded", "scored/zoe")
    line = error_line(run("grade", "decoded", "--expert", "scored"))
    assert mentions(line, "are one scoring")


def test_swapped_scorings_are_named_by_every_command_that_compares_many_nights(run, tmp_path):
    write_decoded(run, tmp_path, n_nights=4)
    fit = ("fit", "probabilities", "--expert", "scored/anna", "--base", "human-psg-5", "-o", "lab.toml")
    commands = {
        "compare": ("compare", "scored/anna", "decoded"),
        "grade": ("grade", "decoded", "--expert", "scored"),
        "stats": ("stats", "decoded", "--expert", "scored/anna"),
        "fit": (*fit, "--overwrite"),
    }
    for is_swapped in (False, True):
        if is_swapped:
            for scorer in ("anna", "ben"):
                one, other = (tmp_path / "scored" / scorer / f"n{k}.txt" for k in (0, 2))
                texts = other.read_text(), one.read_text()
                one.write_text(texts[0])
                other.write_text(texts[1])
        for name, command in commands.items():
            ran = run(*command)
            assert ran.code == 0, ran.err
            told = " ".join((ran.out + ran.err).split())
            assert not is_swapped or name != "grade" or mentions(told, "anna: experts", "ben: experts")
            assert ("may be swapped" in told) == is_swapped, told
            assert not is_swapped or mentions(told, "n0", "fits that of", "n2")
