"""SHHS in the tree of the NSRR: recordings, covariates, and the stratified sample."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import numpy as np
import pytest

from messages import naming
from recording_files import channel, shhs_visit
from stageguard.datasets import entries, recordings
from stageguard.datasets.shhs import facts_of, read_participants, stratified_sample
from stageguard.errors import FileFormatError, InputError

NIGHT = ["W", "N1", "N2", "N3", "R", "W"]
MARGINS = {"40-55": 8, "55-70": 10, "70+": 7}, {"none": 12, "mild": 8, "moderate/severe": 5}


def write_table(
    folder, rows, name="shhs1-dataset-0.21.0.csv", header="nsrrid,age_s1,gender,ahi_a0h3a,ahi_a0h3"
):
    (folder / "datasets").mkdir(parents=True, exist_ok=True)
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    (folder / "datasets" / name).write_text("\n".join(lines) + "\n")


def cohort(n=600):
    """Rows of a table whose ages and indices need no library to be the same again."""
    people = ((i, 40 + 37 * i % 50, round(53 * i % 97 / 3, 2)) for i in range(n))
    return [(200001 + 6 * i, age, 1 + i % 2, ahi, ahi / 2) for i, age, ahi in people]


@pytest.fixture
def tree(tmp_path):
    shhs_visit(tmp_path, "200001", NIGHT, profusion=True)
    shhs_visit(tmp_path, "200077", NIGHT[:3])
    write_table(tmp_path, [(200001, 55, 1, 4.9, 2.0), (200077, 69.5, 2, "", 15.2)])
    return tmp_path


def test_a_visit_is_read(tree):
    first, second = recordings("shhs", tree)
    assert (first.id, first.subject, second.id, second.subject) == (
        "shhs1-200001",
        "200001",
        "shhs1-200077",
        "200077",
    )
    roles = "spo2 heart_rate eeg_2 ecg emg eog eog_2 eeg thorax abdomen airflow"
    assert set(roles.split()) | {"POSITION", "LIGHT", "OX stat"} == set(first.signals)
    units = {role: first.channel(role).unit for role in ("eeg", "ecg", "spo2", "heart_rate", "thorax")}
    assert units == {"eeg": "uV", "ecg": "uV", "spo2": "%", "heart_rate": "bpm", "thorax": ""}
    ecg = channel("ECG", 180, 125, seed=200001, unit="mV", physical=(-1.25, 1.25)).values * 1000
    np.testing.assert_allclose(first.channel("ecg").read(), ecg, atol=1e-9)
    assert first.scorings["expert"].stages.tolist() == NIGHT
    assert second.scorings["expert"].stages.tolist() == NIGHT[:3]
    assert (first.start, first.source) == (datetime(1985, 1, 1, 23, 0, 38), "SHHS")


def test_covariates(tree):
    first, second = recordings("shhs", tree)
    assert dict(first.covariates) == {
        **{"age": 55, "sex": "M", "ahi": 4.9, "age_group": "55-70", "osa": "none", "visit": 1}
    }
    assert dict(second.covariates) == {"age": 69.5, "sex": "F", "age_group": "55-70", "visit": 1}


def test_the_harmonised_table_goes_first_and_knows_visits(tree):
    header = "nsrrid,visitnumber,nsrr_age,nsrr_sex,nsrr_ahi_hp3r_aasm15"
    rows = [(200001, 2, 60, "male", 30), (200001, 1, 56, "male", 7.5)]
    write_table(tree, rows, "shhs-harmonized-dataset-0.21.0.csv", header)
    found = read_participants(tree, 1)["200001"]
    assert (found["age"], found["sex"], found["ahi"]) == (56, "M", 7.5)
    assert read_participants(tree, 2)["200001"]["age"] == 60


def test_the_newest_table_counts(tree):
    write_table(tree, [(200001, 44, 1, 1, 1)], "shhs1-dataset-0.9.0.csv")
    assert read_participants(tree, 1)["200001"]["age"] == 55


def test_a_table_with_other_letters(tree):
    path = tree / "datasets" / "shhs1-dataset-0.21.0.csv"
    path.write_bytes(
        path.read_bytes().replace(b"gender", b"gender,note").replace(b",1,4.9", b",1,caf\xe9,4.9")
    )
    path.write_bytes(path.read_bytes().replace(b",2,,", b",2,x,,"))
    assert read_participants(tree, 1)["200001"]["ahi"] == 4.9


def test_profusion_instead(tree):
    assert (
        next(recordings("shhs", tree, annotations="profusion"))
        .scorings["expert"]
        .scorer.endswith("profusion.xml")
    )
    files = {entry.subject: entry.files[1].name for entry in entries("shhs", tree, annotations="profusion")}
    assert files == {"200001": "shhs1-200001-profusion.xml", "200077": "shhs1-200077-nsrr.xml"}
    with pytest.raises(InputError, match="annotations is 'luna', expected 'nsrr' or 'profusion'"):
        list(entries("shhs", tree, annotations="luna"))


def test_subjects_and_visits(tree):
    assert [entry.subject for entry in entries("shhs", tree, subjects=["200077"])] == ["200077"]
    assert [entry.subject for entry in entries("shhs", tree, subjects="200077, 200001")] == [
        "200001",
        "200077",
    ]
    shhs_visit(tree, "200001", NIGHT, visit=2)
    (again,) = entries("shhs", tree, visit=2)
    assert (again.id, again.subject) == ("shhs2-200001", "200001")
    with pytest.raises(InputError, match=naming("visit is 3", "1 to 2")):
        list(entries("shhs", tree, visit=3))


# ---- the stratified sample


def sample_of(folder, **options):
    return stratified_sample(read_participants(folder, 1), **options)


def test_the_sample_has_the_papers_groups(tmp_path):
    write_table(tmp_path, cohort())
    drawn = sample_of(tmp_path)
    people = read_participants(tmp_path, 1)
    assert len(drawn) == len(set(drawn)) == 25
    assert all(200001 <= int(name) <= 204000 for name in drawn)
    assert (
        Counter(people[name]["age_group"] for name in drawn),
        Counter(people[name]["osa"] for name in drawn),
    ) == MARGINS


def test_the_sample_is_the_same_everywhere(tmp_path):
    """These ids are part of the method: another version of a library must not change them."""
    write_table(tmp_path, cohort())
    drawn = sample_of(tmp_path)
    assert drawn == sample_of(tmp_path)
    assert drawn[:6] == ("200211", "200829", "200847", "201081", "201093", "201375")
    assert sample_of(tmp_path, seed=1) != drawn


def test_the_sample_does_not_depend_on_the_order_or_on_others(tmp_path):
    rows = cohort()
    people = {str(row[0]): facts_of(row[1], "M", row[3]) for row in rows}
    drawn = stratified_sample(people)
    backwards = dict(reversed(people.items()))
    outside = {str(name): facts_of(60, "M", 3) for name in range(204001, 204500)}
    unknown = {"200002": facts_of(None, "M", 3), "200003": facts_of(60, "M", None)}
    assert stratified_sample(backwards | outside | unknown) == drawn
    without = {name: person for name, person in people.items() if name != drawn[0]}
    assert len({*stratified_sample(without)} - {*drawn}) == 1


def test_too_few_to_draw_from(tmp_path):
    write_table(tmp_path, cohort(40))
    with pytest.raises(InputError, match=r"have \d+ subjects of age .* expected at least \d+"):
        sample_of(tmp_path)


def test_the_sample_reads_what_was_drawn(tmp_path):
    write_table(tmp_path, cohort())
    drawn = sample_of(tmp_path)
    shhs_visit(tmp_path, drawn[3], NIGHT)
    shhs_visit(tmp_path, "200001", NIGHT)
    found = list(entries("shhs", tmp_path, sample="paper"))
    assert [entry.subject for entry in found] == list(drawn)
    assert [entry.missing for entry in found if entry.subject == drawn[3]] == [()]
    assert all(len(entry.missing) == 2 for entry in found if entry.subject != drawn[3])
    assert found[3].read().subject == drawn[3]
    with pytest.raises(FileFormatError, match=naming("Fetch", "NSRR")):
        found[0].read()


def test_the_sample_needs_a_table_and_visit_1(tree):
    with pytest.raises(InputError, match=naming("visit 1", "covariates")):
        list(entries("shhs", tree, sample="paper", visit=2))
    (tree / "datasets" / "shhs1-dataset-0.21.0.csv").unlink()
    with pytest.raises(InputError, match=naming("covariates", "shhs1")):
        list(entries("shhs", tree, sample="paper"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id,age\n1,2\n", ("no column nsrrid",)),
        ("nsrrid,age_s1\n200001\n", (2, 1, "cell", 2)),
        ("nsrrid\x00", ("holds binary data",)),
        ("", ("is empty", "header")),
    ],
)
def test_a_damaged_table(tree, text, expected):
    (tree / "datasets" / "shhs1-dataset-0.22.0.csv").write_text(text)
    with pytest.raises(FileFormatError, match=naming(*expected)):
        list(entries("shhs", tree))
