"""`stageguard grade --against`: new nights are charted; marks of `stats` and `report` by a card; refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner, error_line
from messages import mentions
from stageguard.measures.grade_card import card_sha256

N_GRADED, N_NEW = 12, 10


def write_nights(folder, seeds, blur=0.0):
    """Simulated nights as probabilities, decoded beside them; returns the experts."""
    experts = {}
    for seed in seeds:
        night = sg.simulate_night("human-psg-5", hours=1, seed=seed)
        rows = night.density.probabilities
        rows = (1 - blur) * rows + blur * np.roll(rows, 1, axis=1)
        folder.mkdir(parents=True, exist_ok=True)
        sg.Hypnodensity(rows, "aasm5", 30).save(folder / f"n{seed}.csv")
        experts[f"n{seed}"] = night.expert
    return experts


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with graded, new and blurred nights, decoded, and a card."""
    folder = tmp_path_factory.mktemp("drift")
    experts = write_nights(folder / "graded", range(N_GRADED))
    write_nights(folder / "new", range(20, 20 + N_NEW))
    write_nights(folder / "blurred", range(40, 40 + N_NEW), blur=0.12)
    (folder / "scored").mkdir()
    for name, expert in experts.items():
        expert.save(folder / "scored" / f"{name}.txt")
    return folder


@pytest.fixture
def run(capsys, monkeypatch, made):
    """A runner in a folder with decoded nights and a card; what a test adds there is removed."""
    runner, kept = Runner(capsys), made / "kept"
    if not kept.exists():
        for name in ("graded", "new", "blurred"):
            ran = runner("decode", made / name, "-p", "human-psg-5", "--stager", "X 1", "-o", kept / name)
            assert ran.code == 0, ran.err
        graded = runner("grade", kept / "graded", "--expert", made / "scored", "-o", kept / "card.json")
        assert graded.code == 0, graded.err
    monkeypatch.chdir(kept)
    before = set(kept.rglob("*"))
    yield runner
    for path in sorted(set(kept.rglob("*")) - before, reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def test_new_nights_of_the_same_stager_stay_within(run):
    ran = run("grade", "new", "--against", "card.json", "--strict", "--json")
    assert (ran.code, ran.json["has_drifted"], ran.json["rate"]) == (0, False, 0.05)
    assert ran.json["n_card_people"] == N_GRADED
    assert ran.json["card_sha256"] == sg.GradeCard.load("card.json").sha256
    assert [batch["n_people"] for batch in ran.json["batches"]] == [N_NEW]
    shown = run("grade", "new", "--against", "card.json").out
    assert mentions(shown, "X 1") and mentions(shown, "within")


def test_drift_is_that_of_the_public_function(run, made):
    found = run("grade", "new", "--against", "card.json", "--json").json
    ids = [f"n{seed}" for seed in range(20, 20 + N_NEW)]
    decoded = [sg.decode(sg.read_density(made / f"new/{name}.csv"), "human-psg-5") for name in ids]
    expected = sg.drift(decoded, sg.GradeCard.load("card.json"), ids=ids).to_dict()
    assert found["batches"] == json.loads(json.dumps(expected["batches"]))


def test_blurred_nights_drift_and_strict_exits_1(run):
    ran = run("grade", "new", "blurred", "--against", "card.json", "-o", "drift.svg", "--json")
    assert (ran.code, ran.json["written"]) == (0, ["drift.svg"])
    assert [batch["has_drifted"] for batch in ran.json["batches"]] == [False, True]
    picture = ElementTree.parse("drift.svg").getroot()
    assert picture.tag.endswith("svg")
    strict = run("grade", "new", "blurred", "--against", "card.json", "--strict")
    assert strict.code == 1
    assert mentions(strict.out, "drifted") and mentions(strict.out, "5 %")
    assert not strict.err


def test_the_picture_is_not_overwritten_unasked(run):
    Path("drift.svg").write_text("mine")
    refused = run("grade", "new", "--against", "card.json", "-o", "drift.svg")
    assert refused.code == 1
    assert Path("drift.svg").read_text() == "mine"
    assert run("grade", "new", "--against", "card.json", "-o", "drift.svg", "--overwrite").code == 0
    assert Path("drift.svg").read_text().startswith("<svg")


def test_nights_of_one_person_count_once(run):
    rows = "\n".join(f"n{seed}\tp{seed % 5}" for seed in range(20, 20 + N_NEW))
    Path("who.tsv").write_text(f"id\tsubject\n{rows}\n")
    (batch,) = run("grade", "new", "--against", "card.json", "--subjects", "who.tsv", "--json").json[
        "batches"
    ]
    assert (len(batch["nights"]), batch["n_people"]) == (N_NEW, 5)


def test_one_night_is_said_to_be_too_few(run):
    night = "blurred/n40.hypnogram.tsv"
    ran = run("grade", night, "--against", "card.json", "--json")
    assert (ran.code, ran.json["batches"][0]["can_alarm"]) == (0, False)
    assert mentions(run("grade", night, "--against", "card.json").out, "too few")


def test_a_night_of_another_stager_fails_alone(run, made):
    decode = ("decode", made / "new" / "n20.csv", "-p", "human-psg-5", "--stager", "Y 2")
    assert run(*decode, "-o", "other").code == 0
    shutil.copy("other/n20.hypnogram.tsv", "new/y.hypnogram.tsv")
    shutil.copy("other/n20.hypnogram.json", "new/y.hypnogram.json")
    ran = run("grade", "new", "--against", "card.json", "--json")
    assert ran.code == 1
    (failed,) = [file for file in ran.json["files"] if not file["ok"]]
    assert mentions(failed["error"], "'Y 2'", "'X 1'")
    assert len(ran.json["batches"][0]["nights"]) == N_NEW


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("empty",), "empty"),
        (("new", "--expert", "new"), "--expert"),
        (("new", "--align"), "--align"),
        (("new", "--lights-off", "0"), "--lights-off"),
        (("new", "-o", "drift.html"), ".svg"),
        (("new", "--against", "new/n20.hypnogram.json"), "card"),
        (("new", "--against", "missing.json"), "missing.json"),
    ],
)
def test_what_cannot_be_charted_is_one_line(run, arguments, said):
    Path("empty").mkdir()
    against = () if "--against" in arguments else ("--against", "card.json")
    ran = run("grade", *arguments, *against)
    assert ran.code in (1, 2)
    assert mentions(ran.err, said)
    assert not ran.out


def test_strict_needs_a_card(run, made):
    ran = run("grade", "graded", "--expert", made / "scored", "--strict")
    assert ran.code == 2
    assert mentions(ran.err, "--against")


def edited(change, *, is_hashed):
    """Change the card on disk, with or without a new hash."""
    content = json.loads(Path("card.json").read_text())
    change(content)
    if is_hashed:
        content["stageguard"]["sha256"] = card_sha256(content)
    Path("edited.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "is_hashed", "said"),
    [
        (lambda card: card["nights"][0]["features"].update(entropy=0.1), False, "verify"),
        (lambda card: card["nights"][0].update(features=None), True, "features"),
        (lambda card: card.update(nights=card["nights"][:5]), True, "5 people"),
        (lambda card: card["stageguard"].update(stager="Z"), True, "'Z'"),
        (lambda card: card["stageguard"].update(profile_sha256="0" * 64), True, "profile"),
        (lambda card: card["stageguard"].update(epoch_seconds=20.0), True, "20 s"),
        (lambda card: card["nights"][0]["features"].update(overlaps=[1]), True, "overlaps"),
    ],
)
def test_an_edited_or_foreign_card_is_one_line(run, change, is_hashed, said):
    edited(change, is_hashed=is_hashed)
    ran = run("grade", "new", "--against", "edited.json")
    assert ran.code == 1
    assert mentions(error_line(ran), said)


def test_a_card_of_other_stages_is_refused(run, made):
    for name in ("graded", "new"):
        assert run("decode", made / name, "-p", "human-psg-3", "-o", f"{name}-3").code == 0
    assert run("grade", "graded-3", "--expert", made / "scored", "-o", "card-3.json").code == 0
    assert run("grade", "new-3", "--against", "card-3.json").code == 0
    ran = run("grade", "new", "--against", "card-3.json")
    assert ran.code == 1
    assert mentions(error_line(ran), "W, N, R")


# Marks by a card


def test_stats_marks_each_statistic_by_the_card(run):
    ran = run("stats", "new", "--grade", "card.json", "--json")
    assert ran.code == 0, ran.err
    card = sg.GradeCard.load("card.json")
    marks = ran.json["grade"]["marks"]
    assert ran.json["grade"]["card_sha256"] == card.sha256
    assert marks["tst_minutes"] == "no verdict"  # one expert
    assert marks["fragmentation_index"] == "not graded"
    assert {key for key, mark in marks.items() if mark != "not graded"} <= set(card)
    shown = run("stats", "new", "--grade", "card.json").out
    assert all(mentions(shown, word) for word in ("grade", "no verdict", "not graded", "X 1"))
    one = run("stats", "new/n20.hypnogram.tsv", "--grade", "card.json").out
    assert mentions(one, "grade") and mentions(one, "no verdict")


def test_stats_without_a_card_says_not_graded(run):
    ran = run("stats", "new", "--json")
    assert ran.json["grade"] is None
    assert mentions(" ".join(ran.json["notes"]), "not graded")


def test_marks_are_in_the_written_tables(run):
    written = ("-o", "cohort.tsv", "--table", "paper.tsv")
    assert run("stats", "new", "--grade", "card.json", *written).code == 0
    origin = json.loads(Path("cohort.json").read_text())["stageguard"]
    assert origin["grade"]["marks"]["sol_minutes"] == "no verdict"
    head, *rows = (line.split("\t") for line in Path("paper.tsv").read_text().splitlines())
    assert head[-1] == "grade"
    assert {row[-1] for row in rows if len(row) == len(head)} == {"no verdict", "not graded"}
    assert run("stats", "new", "-o", "cohort.tsv", "--overwrite").code == 0
    assert json.loads(Path("cohort.json").read_text())["stageguard"]["grade"] == "not graded"


def test_stats_and_report_refuse_nights_of_another_stager(run):
    edited(lambda card: card["stageguard"].update(stager="Z"), is_hashed=True)
    ran = run("stats", "new", "--grade", "edited.json", "--json")
    assert ran.code == 1
    assert all(mentions(night["error"], "'X 1'", "'Z'") for night in ran.json["nights"])
    page = run("report", "new", "--grade", "edited.json", "-o", "page.html")
    assert page.code == 1 and not Path("page.html").exists()


def test_the_page_of_a_night_marks_its_statistics(run, made):
    night = ("report", made / "new" / "n20.csv", "-p", "human-psg-5", "-o", "night.html")
    assert run(*night, "--grade", "card.json").code == 0
    marked = Path("night.html").read_text()
    assert marked.count(">no verdict<") > 5
    assert run(*night, "--overwrite").code == 0
    bare = Path("night.html").read_text()
    assert "no verdict" not in bare
    assert mentions(bare, "Not graded")
    edited(lambda card: card["stageguard"].update(profile_sha256="0" * 64), is_hashed=True)
    refused = run(*night, "--grade", "edited.json", "--overwrite")
    assert refused.code == 1
    assert mentions(error_line(refused), "profile")


def test_the_page_of_a_cohort_marks_its_columns(run):
    assert run("report", "new", "--grade", "card.json", "-o", "page.html").code == 0
    marked = Path("page.html").read_text()
    assert marked.count("<small>no verdict</small>") >= 3
    assert run("report", "new", "-o", "page.html", "--overwrite").code == 0
    bare = Path("page.html").read_text()
    assert "<small>" not in bare
    assert mentions(bare, "not graded")
