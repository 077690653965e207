"""Several scorings of a night as a BIDS derivative: written, validated and read back."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import stageguard as sg
from messages import naming
from stage_files import lines, write
from stageguard.formats.registry import detect
from stageguard.formats.scorings import Scoring
from stageguard.formats.tools.bids_scorings import read_scorings

FIXTURE = Path(__file__).parent / "bids-derivative"
EVENTS = Path("sub-01") / "eeg" / "sub-01_task-sleep_desc-stages_events.tsv"
# The layout that was proposed to the BIDS examples, as a person would write it, without our JSON.
PROPOSED = """
onset duration annotation_type sleep_stage original_label \
scoring_standard annotation_method annotator_id channel confidence
0 30 sleep_stage wake W rk_1968 manual_consensus experts C3|EOG-L n/a
0 30 sleep_stage wake W aasm_5stage automated stager C3 0.94
30 30 sleep_stage n3 S4 rk_1968 manual_consensus experts C3|EOG-L n/a
30 30 sleep_stage n2 N2 aasm_5stage automated stager C3 0.5
60 30 movement_artifact n/a M rk_1968 manual_consensus experts C3|EOG-L n/a
60 30 sleep_stage n1 N1 aasm_5stage automated stager C3 0.625
90 60 unscored n/a unknown rk_1968 manual_consensus experts C3|EOG-L n/a
90 30 sleep_stage rem REM aasm_5stage automated stager C3 0.75
"""


def proposed(folder: Path, *changes: tuple[str, str]) -> Path:
    text = PROPOSED
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    rows = ["\t".join(line.split()) for line in text.strip().splitlines()]
    return write(folder, "sub-1_task-sleep_events.tsv", lines(rows))


def hypnogram(labels: list[int], scorer: str, **more: object) -> sg.Hypnogram:
    return sg.Hypnogram(labels, "aasm5", 30, scorer=scorer, **more)


@pytest.mark.proves("bids-scorings")
def test_the_proposed_table(tmp_path):
    path = proposed(tmp_path)
    assert detect(path, "hypnogram").name == "bids-scorings"
    experts, stager = read_scorings(path)
    assert experts.hypnogram.stages.tolist() == ["W", "N3", "?", "?", "?"]
    assert stager.hypnogram.stages.tolist() == ["W", "N2", "N1", "R"]
    assert (experts.annotator, experts.method, experts.standard) == ("experts", "manual_consensus", "rk_1968")
    assert (stager.annotator, stager.method, stager.standard) == ("stager", "automated", "aasm_5stage")
    assert (experts.channels, stager.channels) == (("C3", "EOG-L"), ("C3",))
    assert experts.confidence is None
    assert stager.confidence.tolist() == [0.94, 0.5, 0.625, 0.75]


def test_one_scoring_must_be_named(tmp_path):
    path = proposed(tmp_path)
    assert sg.read_hypnogram(path, column="stager").scorer == "stager"
    with pytest.raises(sg.FileFormatError, match=naming("experts, stager", "column='experts'")):
        sg.read_hypnogram(path)
    with pytest.raises(sg.FileFormatError, match=naming("no annotator 'stagr'", "stager")):
        sg.read_hypnogram(path, column="stagr")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("C3 0.5\n", "C3 1.5\n", ("line 5", "confidence", "from 0 to 1", "1.5")),
        ("30 30 sleep_stage n2", "30 30 sleep_stage n7", ("line 5", "n7")),
        ("30 30 sleep_stage n2", "x 30 sleep_stage n2", ("line 5", "onset", "'x'")),
        ("N1 aasm_5stage automated", "N1 aasm_5stage manual", ("line 7", "annotation_method", "'manual'")),
        ("annotator_id", "who", ("expected also annotator_id",)),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, old, new, words):
    with pytest.raises(sg.FileFormatError, match=naming(*words)):
        read_scorings(proposed(tmp_path, (old, new)))


def test_two_stages_of_one_annotator_at_a_time(tmp_path):
    with pytest.raises(sg.FileFormatError, match=naming("30 s is N1", "another", "N2")):
        read_scorings(proposed(tmp_path, ("60 30 sleep_stage n1", "30 30 sleep_stage n1")))


def decoding() -> sg.Decoding:
    return sg.decode(sg.simulate_night("human-psg-5", hours=2, seed=3).density, "human-psg-5")


def test_a_decoded_night_is_written_with_the_stagers_choice(tmp_path):
    result = decoding()
    written = result.save(tmp_path / EVENTS)
    assert written.format == "bids-scorings"
    assert written.lost == ("probabilities of the other stages",)
    assert [path.relative_to(tmp_path).as_posix() for path in written.files] == [
        EVENTS.as_posix(),
        EVENTS.with_suffix(".json").as_posix(),
        "dataset_description.json",
    ]
    stager, guard = read_scorings(written.path)
    assert stager.hypnogram.labels.tolist() == result.argmax.tolist()
    assert guard.hypnogram == result.hypnogram
    rows, labels = result.density.probabilities, result.hypnogram.labels
    assert guard.confidence == pytest.approx(rows[np.arange(len(rows)), labels], abs=1e-6)
    assert {stager.method, guard.method} == {"automated"}
    assert sg.read_hypnogram(written.path) == result.hypnogram  # what is meant, if none is named


def test_a_second_night_joins_the_dataset(tmp_path):
    decoding().save(tmp_path / EVENTS)
    described = (tmp_path / "dataset_description.json").read_bytes()
    second = tmp_path / "sub-02" / "ses-1" / "eeg" / "sub-02_ses-1_task-sleep_desc-stages_events.tsv"
    assert len(decoding().save(second).files) == 2
    assert (tmp_path / "dataset_description.json").read_bytes() == described


def test_a_description_that_lacks_something_is_not_changed(tmp_path):
    other = tmp_path / "dataset_description.json"
    other.write_text('{"Name": "Raw", "BIDSVersion": "1.10.1"}')
    (note,) = decoding().save(tmp_path / EVENTS).notes
    assert '"DatasetType": "derivative"' in note and "HEDVersion" in note
    assert json.loads(other.read_text())["Name"] == "Raw"


METHOD = st.sampled_from([None, "manual", "manual_consensus", "automated"])
CHANNELS = st.lists(st.sampled_from(["C3", "EOG-L", "Chin 1"]), unique=True, max_size=3)


@st.composite
def scorings(draw: st.DrawFn) -> list[Scoring]:
    start = draw(st.none() | st.just(datetime(2024, 5, 1, 22, 30)))
    names = draw(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=4, unique_by=str.casefold))
    drawn = []
    for name in names:
        scheme = sg.StageScheme.named(draw(st.sampled_from(["aasm5", "wldr4", "wnr3", "ws2"])))
        labels = draw(st.lists(st.integers(-1, scheme.n_stages - 1), min_size=1, max_size=9))
        seconds = draw(st.sampled_from([30.0, 20.0, 2.5, 7.3]))
        sure = st.integers(0, 1000).map(lambda part: part / 1000) | st.just(float("nan"))
        confidence = draw(st.none() | st.lists(sure, min_size=len(labels), max_size=len(labels)))
        if confidence is not None and np.isnan(confidence).all():
            confidence = None  # nobody can tell it from none
        night = sg.Hypnogram(labels, scheme, seconds, start, name)
        drawn.append(
            Scoring(night, draw(METHOD), confidence, draw(st.none() | st.just("rk_1968")), draw(CHANNELS))
        )
    return drawn


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given=scorings())
@example([Scoring(sg.Hypnogram([0], "aasm5", 30.0, None, '"'))])
def test_parallel_scorings_come_back(tmp_path, given):
    names = [scoring.annotator for scoring in given]
    if len(set(names)) < len(names):
        with pytest.raises(sg.InputError, match=naming("two scorings are by")):
            sg.convert(given, tmp_path / EVENTS, overwrite=True)
        return
    sg.convert(given, tmp_path / EVENTS, overwrite=True)
    back = {scoring.annotator: scoring for scoring in read_scorings(tmp_path / EVENTS)}
    assert set(back) == set(names)
    for scoring in given:
        found = back[scoring.annotator]
        assert found.hypnogram == replace(scoring.hypnogram, scorer=scoring.annotator)
        assert (found.method, found.channels) == (scoring.method, scoring.channels)
        assert found.standard == scoring.standard or scoring.standard is None
        if scoring.confidence is None:
            assert found.confidence is None
        else:
            assert np.array_equal(found.confidence, scoring.confidence, equal_nan=True)


@pytest.mark.parametrize("name", ['"', 'the "old" stager', "'", "#1", "a,b;c", "0", "W", "Zoë 2"])
def test_names_with_marks(tmp_path, name):
    given = [
        Scoring(hypnogram([0, 1], name), "manual", standard="aasm_5stage", channels=["EEG(sec)", "C3,C4"]),
        Scoring(hypnogram([2, 3], "Bob"), standard="aasm_5stage"),
    ]
    sg.convert(given, tmp_path / EVENTS)
    assert [*read_scorings(tmp_path / EVENTS)] == given
    assert validate(tmp_path) == []


def test_scorings_of_different_recordings(tmp_path):
    ann = hypnogram([0, 1], "Ann", start=datetime(2024, 5, 1, 22))
    bob = hypnogram([0, 1], "Bob", start=datetime(2024, 5, 2, 22))
    with pytest.raises(sg.InputError, match=naming("'Ann'", "2024-05-01", "'Bob'", "2024-05-02")):
        sg.convert([ann, bob], tmp_path / EVENTS)
    assert not (tmp_path / "sub-01").exists()


def test_a_list_of_everything(tmp_path):
    """Objects, files and what a person says about them."""
    result = decoding()
    expert = replace(result.hypnogram, scorer=None)
    expert.save(tmp_path / "expert.csv", "stageguard-csv")
    ann = Scoring(replace(expert, scorer="Ann"), "manual")
    written = sg.convert([ann, tmp_path / "expert.csv", result], tmp_path / EVENTS)
    assert "profile" in written.lost and "probabilities of the other stages" in written.lost
    found = {scoring.annotator: scoring.method for scoring in read_scorings(written.path)}
    assert found == {
        "Ann": "manual",
        "expert": None,
        "synthetic": "automated",
        "StageGuard human-psg-5": "automated",
    }


def test_one_scoring_alone_and_probabilities_alone(tmp_path):
    ann = Scoring(hypnogram([0, 2], "Ann"), "manual", [0.5, 1.0])
    sg.convert(ann, tmp_path / EVENTS)
    assert read_scorings(tmp_path / EVENTS) == (replace(ann, standard="aasm_5stage"),)
    density = sg.Hypnodensity(
        [[0.6, 0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.6, 0.1, 0.1]], "aasm5", 30, source="net"
    )
    sg.convert([ann, density], tmp_path / EVENTS, overwrite=True)
    _, net = read_scorings(tmp_path / EVENTS)
    assert (net.annotator, net.method, net.confidence.tolist()) == ("net", "automated", [0.6, 0.6])


def test_merged_scorings_keep_their_confidence_and_longer_epochs_lose_it(tmp_path):
    ann = Scoring(hypnogram([0, 0, 2, 2], "Ann"), "manual", [0.5, 0.5, 1.0, 1.0])
    sg.convert([ann], tmp_path / EVENTS, merge_to="wnr3")
    (merged,) = read_scorings(tmp_path / EVENTS)
    assert merged.hypnogram.stages.tolist() == ["W", "W", "N", "N"]
    assert merged.confidence.tolist() == [0.5, 0.5, 1.0, 1.0]
    sg.convert([ann], tmp_path / EVENTS, reepoch_to=60, overwrite=True)
    (longer,) = read_scorings(tmp_path / EVENTS)
    assert (longer.hypnogram.stages.tolist(), longer.confidence) == (["W", "N2"], None)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"confidence": [0.5]}, ("confidence", "(1,)", "2")),
        ({"confidence": [0.5, 1.5]}, ("confidence", "1.5")),
        ({"method": 3}, ("method",)),
        ({"channels": ["C3|C4"]}, ("channels", "C3|C4")),
        ({"hypnogram": [0, 1]}, ("hypnogram", "list", "Hypnogram")),
    ],
)
def test_a_scoring_is_checked(fields, words):
    with pytest.raises(sg.InputError, match=naming(*words)):
        Scoring(**({"hypnogram": hypnogram([0, 1], "Ann")} | fields))


def validate(folder: Path) -> list[str]:
    """Return the errors that the BIDS validator finds in a dataset, HED tags included."""
    tool = shutil.which("bids-validator-deno", path=str(Path(sys.executable).parent))
    if tool is None:
        pytest.skip("needs the BIDS validator, of the extra test")
    command = [tool, str(folder), "--format", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    issues = json.loads(ran.stdout)["issues"]["issues"]
    return [f"{issue['code']} {issue.get('location')}" for issue in issues if issue["severity"] == "error"]


def test_the_validator_accepts_the_committed_dataset():
    assert validate(FIXTURE) == []
    annotators = [scoring.annotator for scoring in read_scorings(FIXTURE / EVENTS)]
    assert annotators == ["Ann", "Bob", "yasa", "StageGuard human-psg-5"]


def test_the_validator_accepts_what_is_written(tmp_path):
    ann = Scoring(hypnogram([0, 1, 2, 3, 4, -1], "Ann"), "manual", channels=("C3", "EOG-L"))
    coarse = [
        Scoring(sg.Hypnogram([*range(scheme.n_stages)], scheme, 30, scorer=f"by {name}"), "automated")
        for name in ("wldr4", "wnr3", "ws2")
        for scheme in [sg.StageScheme.named(name)]
    ]
    sg.convert([ann, *coarse], tmp_path / EVENTS)
    decoding().save(tmp_path / "sub-02" / "eeg" / "sub-02_task-sleep_desc-stages_events.tsv")
    assert validate(tmp_path) == []


def test_the_validator_finds_errors(tmp_path):
    """Else the tests above would say nothing."""
    shutil.copytree(FIXTURE, tmp_path / "broken")
    sidecar = (tmp_path / "broken" / EVENTS).with_suffix(".json")
    sidecar.write_text(sidecar.read_text().replace("Sleep-stage-N2", "Sleep-stage-N7"))
    assert any("HED_ERROR" in error for error in validate(tmp_path / "broken"))
