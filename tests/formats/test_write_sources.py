"""What a source tells that a target cannot hold or would misread, and targets that cannot be written."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from messages import mentions, naming
from stageguard.errors import FileFormatError, InputError, StageGuardError
from stageguard.formats.events import read_events

CONCEPTS = ("Wake|0", "Stage 1 sleep|1", "Stage 2 sleep|2", "REM sleep|5")
RK_NOTE = "stages 3 and 4 of Rechtschaffen and Kales are both N3"
HYPNOGRAM = sg.Hypnogram([0, 1, 2, 3, 4, -1, 2], "aasm5", 30.0, datetime(2024, 1, 1, 22), "Ann")


def nsrr(path: Path, *events: tuple[str, float, float], concepts=CONCEPTS) -> Path:
    rows = [("Stages|Stages", each, 30 * place, 30) for place, each in enumerate(concepts)]
    rows += [("Other|Other", *event) for event in events]
    body = "".join(
        f"<ScoredEvent><EventType>{kind}</EventType><EventConcept>{concept}</EventConcept>"
        f"<Start>{start}</Start><Duration>{seconds}</Duration></ScoredEvent>"
        for kind, concept, start, seconds in rows
    )
    path.write_text(
        f"<PSGAnnotation><EpochLength>30</EpochLength><ScoredEvents>{body}</ScoredEvents></PSGAnnotation>"
    )
    return path


# ---- an annotation that looks like a stage


@pytest.mark.parametrize("name", ["e.edf", "e_events.tsv", "e-annot.fif", "e.annot"])
@pytest.mark.parametrize("text", ["Sleep stage N3", "Sleep stage N1", "sleep_stage W", "MT", "Movement time"])
@pytest.mark.parametrize("onset", [35, 120])
def test_an_annotation_that_looks_like_a_stage_is_renamed(tmp_path, name, text, onset):
    source = nsrr(tmp_path / "n.xml", (text, onset, 10), ("Arousal", 50, 3))
    written = sg.convert(source, tmp_path / name)
    back = sg.read_hypnogram(written.path)
    assert back.stages.tolist() == ["W", "N1", "N2", "R"]
    found = {event.onset: event.text for event in read_events(written.path)}
    assert found == {onset: f"Event {text}", 50: "Arousal"}
    loss = f"name of 1 other annotation ({text}): 'Event ' is put before, since readers would take it for a "
    assert f"{loss}stage" in written.lost


def test_luna_takes_a_name_alone_for_a_stage(tmp_path):
    source = nsrr(tmp_path / "n.xml", ("N3", 35, 10), ("W", 65, 10), ("Unsure", 70, 5), ("Arousal", 75, 3))
    written = sg.convert(source, tmp_path / "n.annot")
    assert sg.read_hypnogram(written.path).stages.tolist() == ["W", "N1", "N2", "R"]
    texts = [event.text for event in read_events(written.path)]
    assert texts == ["Event N3", "Event W", "Event Unsure", "Arousal"]
    edf = sg.convert(source, tmp_path / "n.edf")
    assert not any("put before" in each for each in edf.lost)
    assert sg.read_hypnogram(edf.path).stages.tolist() == ["W", "N1", "N2", "R"]


@pytest.mark.parametrize("text", ["N3", "Artifact", "?"])
@pytest.mark.parametrize("name", ["e.edf", "e_events.tsv", "e-annot.fif"])
def test_an_annotation_after_the_last_epoch_is_no_epoch(tmp_path, name, text):
    source = nsrr(tmp_path / "n.xml", (text, 120, 30), (text, 40, 10))
    written = sg.convert(source, tmp_path / name)
    assert sg.read_hypnogram(written.path).stages.tolist() == ["W", "N1", "N2", "R"]
    assert f"Event {text}" in [event.text for event in read_events(written.path)]


@pytest.mark.parametrize("form", ["nsrr-xml", "profusion-xml"])
def test_xml_keeps_stages_and_annotations_apart(tmp_path, form):
    source = nsrr(tmp_path / "n.xml", ("Sleep stage N3", 35, 10))
    written = sg.convert(source, tmp_path / "o.xml", target_format=form)
    assert [event.text for event in read_events(written.path)] == ["Sleep stage N3"]
    assert sg.read_hypnogram(written.path).stages.tolist() == ["W", "N1", "N2", "R"]


# ---- two stages that become one


def test_stage_4_is_said_to_be_n3(tmp_path):
    both = (*CONCEPTS, "Stage 3 sleep|3", "Stage 4 sleep|4")
    for concepts, expected in ((both, True), (both[:-1], False)):
        source = nsrr(tmp_path / "n.xml", concepts=concepts)
        written = sg.convert(source, tmp_path / "n.json", overwrite=True)
        assert (RK_NOTE in written.notes) == expected
    (tmp_path / "p.xml").write_text(
        "<CMPStudyConfig><EpochLength>30</EpochLength><SleepStages>"
        + "".join(f"<SleepStage>{code}</SleepStage>" for code in (0, 1, 2, 3, 4, 5))
        + "</SleepStages></CMPStudyConfig>"
    )
    assert RK_NOTE in sg.convert(tmp_path / "p.xml", tmp_path / "p.annot").notes
    (tmp_path / "t.txt").write_text("W\nS1\nS2\nS3\nS4\nREM\n")
    assert RK_NOTE in sg.convert(tmp_path / "t.txt", tmp_path / "t.json").notes
    (tmp_path / "k_events.tsv").write_text(
        "onset\tduration\ttrial_type\n"
        + "".join(f"{30 * k}\t30\tSleep stage {s}\n" for k, s in enumerate("W1234R"))
    )
    written = sg.convert(tmp_path / "k_events.tsv", tmp_path / "k.edf")
    assert written.notes.count(RK_NOTE) == 1
    assert RK_NOTE not in sg.convert(written.path, tmp_path / "again.json").notes


@pytest.mark.skipif("STAGEGUARD_DATA" not in os.environ, reason="needs real scorings: set STAGEGUARD_DATA")
def test_stage_4_of_sleep_edf(tmp_path):
    samples = Path(os.environ["STAGEGUARD_DATA"]) / "samples"
    source = samples / "SC4001EC-Hypnogram.edf"
    if not source.exists():
        pytest.skip("no Sleep-EDF sample")
    assert RK_NOTE in sg.convert(source, tmp_path / "n.json").notes


# ---- columns that nobody reads


def test_columns_of_bids_that_are_not_carried_on_are_lost(tmp_path):
    rows = "".join(f"{30 * k}\t30\tSleep stage {s}\t0.{k}\tn/a\n" for k, s in enumerate(("W", "N1", "R")))
    source = tmp_path / "s_events.tsv"
    source.write_text("onset\tduration\ttrial_type\tconfidence\tempty\n" + rows)
    written = sg.convert(source, tmp_path / "n.annot")
    assert "column confidence of s_events.tsv" in written.lost
    assert not any("s_events.tsv" in each for each in HYPNOGRAM.save(tmp_path / "o_events.tsv").lost)
    again = sg.convert(tmp_path / "o_events.tsv", tmp_path / "o.edf")
    assert not any(each.startswith("column") for each in again.lost)


def test_what_decoding_told_besides_is_lost(tmp_path):
    density = sg.Hypnodensity(np.eye(5)[[0, 0, 2, 2, 2, 2]] * 0.9 + 0.02, "aasm5", 30.0)
    source = sg.decode(density, "human-psg-5").save(tmp_path / "n.hypnogram.tsv").path
    lost = sg.convert(source, tmp_path / "n.edf").lost
    assert mentions(lost, "argmax_stage", "n.hypnogram.tsv")


# ---- targets that cannot be written


@pytest.mark.parametrize("path", [None, 5, b"night.json", "nul\0.json", object(), "", ".", "/"])
def test_a_target_is_a_path(path, tmp_path):
    for call in (
        lambda: HYPNOGRAM.save(path),
        lambda: sg.convert(HYPNOGRAM, path),
        lambda: HYPNOGRAM.save(tmp_path / "n.edf", annotations_from=5 if path is None else path),
    ):
        with pytest.raises(InputError, match=r"^(path|target|annotations_from) is .*, expected a path"):
            call()


def test_a_name_may_be_as_long_as_the_disk_allows(tmp_path):
    for name in ("x" * 250 + ".json", "😀" * 62 + ".json"):
        written = HYPNOGRAM.save(tmp_path / name)
        assert sg.read_hypnogram(written.path).labels.tolist() == HYPNOGRAM.labels.tolist()


def test_yasa_counts_whole_nanoseconds(tmp_path):
    labels = [0, 1, 2, 3, 4]
    expected = r"YASA counts time in whole nanoseconds, but an epoch lasts 0\.3{16} s\. .* reepoch_to=0\.333"
    for seconds, is_told in ((1 / 3, False), (0.333, True), (2.5, True), (4.000000001, True)):
        night = sg.Hypnogram(labels, "aasm5", seconds)
        if is_told:
            night.save(tmp_path / "y.json", overwrite=True)
            continue
        with pytest.raises(InputError, match=expected):
            night.save(tmp_path / "y.json")
        assert not (tmp_path / "y.json").exists()


def test_probabilities_alone_name_the_format_that_needs_stages(tmp_path):
    density = sg.Hypnodensity([[0.8, 0.1, 0.1]], "wnr3", 30.0)
    with pytest.raises(InputError) as error:
        density.save(tmp_path / "d.json")
    assert mentions(str(error.value), "d.json", "yasa-json", "format='yasa-json'")
    assert density.save(tmp_path / "d.json", format="yasa-json").format == "yasa-json"
    with pytest.raises(InputError, match=naming("d.zip", "no format has")):
        density.save(tmp_path / "d.zip")


@pytest.mark.parametrize(
    ("nights", "target", "expected"),
    [
        (
            [HYPNOGRAM, HYPNOGRAM],
            "x.json",
            (2, "Convert them one"),
        ),
        ([HYPNOGRAM], "x.edf", ("got a list", 1)),
        ([], "x.parquet", ("an empty list", "nights")),
        ([], "x.json", ("an empty list", "nights")),
    ],
)
def test_a_list_of_nights_needs_parquet(tmp_path, nights, target, expected):
    with pytest.raises(StageGuardError, match=naming(*expected)):
        sg.convert(nights, tmp_path / target)


@pytest.mark.parametrize("name", ["a.json", "a.txt"])
def test_numbers_ask_whose_they_are_before_they_are_converted(tmp_path, name):
    numbers = [0, 2, 3, 4, 4, 4, 2, 0]
    source = tmp_path / name
    source.write_text(str(numbers) if name == "a.json" else "\n".join(map(str, numbers)))
    with pytest.raises(FileFormatError, match=r"tools number stages differently|Name the right one"):
        sg.convert(source, tmp_path / "a.annot")
    assert not (tmp_path / "a.annot").exists()
    written = sg.convert(source, tmp_path / "a.annot", format="numbers-rk")
    assert "".join(sg.read_hypnogram(written.path).stages) == "WN2N3N3N3N3N2W"


LOGITS = np.log([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1], [0.3, 0.4, 0.3]]) + 5.0


def test_objects_in_memory_are_read_as_the_caller_says(tmp_path):
    stages = ["W", "N", "R"]
    sg.convert(LOGITS - 10.0, tmp_path / "n.npz", stages=stages, logits=True)
    assert sg.read_density(tmp_path / "n.npz").probabilities[0] == pytest.approx([0.6, 0.3, 0.1])
    written = sg.convert(LOGITS - 5.0, tmp_path / "p.npz", stages=stages, log=True, pool_to_seconds=60)
    pooled = sg.read_density(written.path)
    assert pooled.epoch_seconds == 60
    assert pooled.probabilities[0] == pytest.approx([0.4, 0.25, 0.35])
    own = sg.StageScheme.custom(("quiet", "active"))
    columns = {"active": [0.1, 0.7], "quiet": [0.9, 0.3]}
    with pytest.raises(InputError, match="names no stages"):
        sg.convert(columns, tmp_path / "c.npz")
    sg.convert(columns, tmp_path / "c.npz", scheme=own)
    assert sg.read_density(tmp_path / "c.npz").scheme.names == ("quiet", "active")


def test_a_hypnodensity_is_pooled_and_knows_its_stages(tmp_path):
    density = sg.read_density(LOGITS, stages=["W", "N", "R"], logits=True)
    sg.convert(density, tmp_path / "d.npz", pool_to_seconds=60)
    assert sg.read_density(tmp_path / "d.npz").n_epochs == 2
    with pytest.raises(InputError, match="knows its stages"):
        sg.convert(density, tmp_path / "e.npz", logits=True)


def test_a_hypnodensity_may_have_shorter_epochs_than_files_are_read_with(tmp_path):
    night = sg.Hypnodensity(np.full((200, 3), 1 / 3), "wnr3", 0.05)
    sg.convert(night, tmp_path / "n.npz", reepoch_to=1.0)
    assert sg.read_density(tmp_path / "n.npz").n_epochs == 10


def test_probabilities_beside_stages_go_along(tmp_path):
    """From a file that holds both, to one that holds both; of other epochs they are left out, and named."""
    result = sg.decode(sg.simulate_night("human-psg-5", hours=1, seed=5).density, "human-psg-5")
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    result.save(first)
    assert sg.convert(first, second).lost == ()
    assert sg.read_hypnogram(second).labels.tolist() == result.hypnogram.labels.tolist()
    assert sg.read_density(second).probabilities == pytest.approx(result.density.probabilities, abs=1e-5)
    merged = sg.convert(first, tmp_path / "merged.json", merge_to="wnr3")
    assert sg.read_density(merged.path).scheme.name == sg.read_hypnogram(merged.path).scheme.name == "wnr3"
