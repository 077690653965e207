"""Expert scorings in EDF+, Profusion XML and NSRR XML: what the stages are, and what is refused."""

from __future__ import annotations

import collections
from datetime import datetime
from functools import partial

import numpy as np
import pytest

import stageguard as sg
from messages import each_mentions, mentions, message, naming
from recording_files import (
    START,
    channel,
    nsrr_event,
    nsrr_xml,
    profusion_xml,
    runs,
    tal,
    write_edf,
    write_edf_hypnogram,
)
from stageguard.errors import FileFormatError, StageGuardWarning
from stageguard.formats.night import FileOptions
from stageguard.formats.read import is_hypnogram, read_hypnogram_file
from stageguard.formats.tools.edf_annotations import lights, read_edf_annotations

NIGHT = ["W", "W", "N1", "N2", "N2", "N3", "N3", "N2", "R", "R", "W"]


complaint = partial(message, FileFormatError, sg.read_hypnogram)


def xml(tmp_path, text, name="night.xml", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


# ---- Profusion


@pytest.mark.proves("profusion-xml")
def test_profusion_codes(tmp_path):
    with pytest.warns(StageGuardWarning) as caught:
        night = sg.read_hypnogram(xml(tmp_path, profusion_xml([0, 1, 2, 3, 4, 5, 6, 9, 9, 7, 0])))
    assert night.stages.tolist() == ["W", "N1", "N2", "N3", "N3", "R", "?", "?", "?", "?", "W"]
    assert night.labels[6] == sg.UNSCORED
    assert (night.epoch_seconds, night.scheme.name, night.scorer) == (30, "aasm5", "night.xml")
    assert each_mentions(
        [str(warning.message) for warning in caught],
        ("night.xml", "2 epochs", 9),
        ("night.xml", 1, "code", 7),
    )


def test_profusion_says_how_long_an_epoch_is(tmp_path):
    assert sg.read_hypnogram(xml(tmp_path, profusion_xml([0, 2], 20))).epoch_seconds == 20
    read = read_hypnogram_file(xml(tmp_path, profusion_xml([0, 2], None)), FileOptions())
    assert each_mentions(read.notes, ("long", "30 s", "assumed"))
    path = xml(tmp_path, profusion_xml([0, 2], 30))
    assert mentions(complaint(path, epoch_seconds=20), "30 s", "epoch_seconds=20")
    assert "<EpochLength> of '0'" in complaint(xml(tmp_path, profusion_xml([0], 0)))
    assert "<EpochLength> of 'x'" in complaint(xml(tmp_path, profusion_xml([0], "x")))


def test_a_night_of_wake_only_needs_no_scheme(tmp_path):
    assert sg.read_hypnogram(xml(tmp_path, profusion_xml([0, 0, 0]))).scheme.name == "aasm5"
    assert sg.read_hypnogram(xml(tmp_path, profusion_xml([0, 5, 2])), scheme="wnr3").stages.tolist() == [
        "W",
        "R",
        "N",
    ]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([], "has no <SleepStages>. Was the study scored"),
        ([0, "W"], "epoch 1 has the stage 'W', expected a number from 0 to 9"),
        ([0, ""], "epoch 1 has the stage ''"),
        (["1.5"], "epoch 0 has the stage '1.5'"),
        (["9" * 40], "epoch 0 has the stage '9999"),
    ],
)
def test_profusion_stages_must_be_numbers(tmp_path, codes, expected):
    assert expected in complaint(xml(tmp_path, profusion_xml(codes)))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_profusion_in_other_encodings(tmp_path, encoding):
    text = profusion_xml([0, 2]).replace(
        'encoding="utf-8"', 'encoding="utf-16"' if "16" in encoding else 'encoding="utf-8"'
    )
    assert sg.read_hypnogram(xml(tmp_path, text, encoding=encoding)).stages.tolist() == ["W", "N2"]


# ---- NSRR


@pytest.mark.proves("nsrr-xml")
def test_nsrr_stages(tmp_path):
    night = sg.read_hypnogram(xml(tmp_path, nsrr_xml([*NIGHT, "N4", "M"])))
    assert night.stages.tolist() == [*NIGHT, "N3", "?"]
    assert (night.epoch_seconds, night.start) == (30, None)


def test_nsrr_unscored_is_told(tmp_path):
    with pytest.warns(StageGuardWarning, match=r"^night.xml: 3 epochs of code 9 \(some tools"):
        night = sg.read_hypnogram(xml(tmp_path, nsrr_xml([*NIGHT, "?", "?", "?"])))
    assert night.stages.tolist() == [*NIGHT, "?", "?", "?"]


@pytest.mark.parametrize(
    ("clock", "start"),
    [("01.01.85 23.00.38", datetime(1985, 1, 1, 23, 0, 38)), ("00.00.00 23.00.38", None), ("", None)],
)
def test_nsrr_start(tmp_path, clock, start):
    assert sg.read_hypnogram(xml(tmp_path, nsrr_xml(NIGHT, clock=clock))).start == start


def test_nsrr_gaps_are_unscored(tmp_path):
    text = nsrr_xml(NIGHT).replace(nsrr_event("Stages|Stages", "Stage 2 sleep|2", 90.0, 60.0), "")
    expected = [*NIGHT[:3], "?", "?", *NIGHT[5:]]
    assert sg.read_hypnogram(xml(tmp_path, text)).stages.tolist() == expected


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            ("Stages|Stages", "Stage 2 sleep|3", 330, 30),
            "has the stage 'Stage 2 sleep|3', whose name and number",
        ),
        (("Stages|Stages", "Wake|0", 345, 30), "does not begin and end with an epoch of 30 s"),
        (("Stages|Stages", "Wake|0", 60, 30), "the stage at 60 s is W, but another one there is N1"),
        (("Stages|Stages", "Wake|0", "x", 30), "<Start> is 'x', expected seconds"),
        (("Stages|Stages", "Wake|0", 330, -30), "the stage at 330 s lasts -30 s"),
        (("Stages|Stages", "Wake|0", 330, "nan"), "<Duration> is 'nan', expected seconds"),
        (("Stages|Stages", "Wake|0", "inf", 30), "<Start> is 'inf', expected seconds"),
        (("Stages|Stages", "Wake|0", -60, 30), "has a stage at -60 s"),
        (("Stages|Stages", "Wake|0", 1e15, 30), "has a stage at 1e+15 s"),
    ],
)
def test_nsrr_contradictions_are_refused(tmp_path, event, expected):
    text = nsrr_xml(NIGHT).replace("</ScoredEvents>", nsrr_event(*event) + "</ScoredEvents>")
    assert expected in complaint(xml(tmp_path, text))


def test_nsrr_without_stages(tmp_path):
    assert mentions(complaint(xml(tmp_path, nsrr_xml([]))), "'Stages|Stages'")


def test_nsrr_last_epoch_may_be_cut(tmp_path):
    text = nsrr_xml(NIGHT).replace(
        "</ScoredEvents>", nsrr_event("Stages|Stages", "Wake|0", 330, 47.5) + "</ScoredEvents>"
    )
    assert sg.read_hypnogram(xml(tmp_path, text)).stages.tolist() == [*NIGHT, "W"]


# ---- XML from outside

BOMB = "<!DOCTYPE b [" + "".join(
    f'<!ENTITY {name} "{"&" + before + ";" if before else "ha"}{"&" + before + ";" if before else "ha"}">'
    for name, before in zip("abcdefgh", ["", *"abcdefg"], strict=True)
) + "]>"  # fmt: skip


@pytest.mark.parametrize("make", [lambda: profusion_xml([0, 1]), lambda: nsrr_xml(NIGHT)])
def test_entities_are_refused(tmp_path, make):
    head, mark, rest = make().partition("?>")
    text = f"{head}{mark}{BOMB}{rest.replace('Hypopnea', '&h;', 1)}"
    assert "defines XML entities" in complaint(xml(tmp_path, text))
    declared = '<!DOCTYPE b [<!ENTITY x SYSTEM "file:///etc/hostname">]>'
    outside = f"{head}{mark}{declared}{rest.replace('Hypopnea', '&x;', 1)}"
    assert "defines XML entities" in complaint(xml(tmp_path, outside))


def test_cut_xml_is_refused(tmp_path):
    text = nsrr_xml(NIGHT)
    for length in (len(text) // 2, len(text) - 3):
        assert "is not readable XML" in complaint(xml(tmp_path, text[:length]))


# ---- EDF+


@pytest.mark.proves("edf-annotations")
def test_sleep_edf_annotations(tmp_path):
    path = write_edf_hypnogram(tmp_path / "h.edf", ["W", "W", "N1", "N2", "N3", "N4", "R", "M", "?", "?"])
    night = sg.read_hypnogram(path)
    assert night.stages.tolist() == ["W", "W", "N1", "N2", "N3", "N3", "R", "?", "?", "?"]
    assert (night.epoch_seconds, night.start, night.scheme.name) == (30, START, "aasm5")
    assert is_hypnogram(path)


def test_annotations_beside_signals(tmp_path):
    texts = [(onset, seconds, f"Sleep stage {stage}") for onset, seconds, stage in runs(NIGHT)]
    texts += [(12.5, None, "Lights off@@EEG"), (301.0, None, "Lights on"), (40.0, 3.0, "Arousal"), (8, 0, "")]
    path = write_edf(tmp_path / "night.edf", [channel("EEG", 330, 4)], annotations=texts)
    assert sg.read_hypnogram(path).stages.tolist() == NIGHT
    annotations = read_edf_annotations(path)
    assert lights(annotations) == (12.5, 301.0)
    assert [each.text for each in annotations][:2] == ["Sleep stage W", "Lights off@@EEG"]


def test_annotations_in_long_records_are_found_alone(tmp_path, monkeypatch):
    texts = [(onset, seconds, f"Sleep stage {stage}") for onset, seconds, stage in runs(NIGHT)]
    path = write_edf(tmp_path / "night.edf", [channel("EEG", 330, 4)], annotations=texts, record_seconds=30)
    whole = read_edf_annotations(path)
    monkeypatch.setattr("stageguard.formats.tools.edf_annotations.LONG_RECORD_BYTES", 1)
    assert read_edf_annotations(path) == whole
    assert len(whole) == len(runs(NIGHT))


@pytest.mark.parametrize(
    ("lasting", "epoch_seconds", "given"),
    [(30, 30, None), (20, 20, None), (4, 4, None), (2.5, 2.5, None), (30, 10, 10)],
)
def test_epoch_length_of_single_epochs(tmp_path, lasting, epoch_seconds, given):
    texts = [(i * lasting, lasting, f"Sleep stage {stage}") for i, stage in enumerate(NIGHT)]
    path = write_edf(tmp_path / "h.edf", [], annotations=texts, record_seconds=0)
    night = sg.read_hypnogram(path, epoch_seconds=given)
    assert night.epoch_seconds == epoch_seconds
    assert night.n_epochs == round(len(NIGHT) * lasting / epoch_seconds)


def test_epoch_length_of_joined_epochs(tmp_path):
    for seconds in (30, 20, 4):
        path = write_edf(
            tmp_path / "h.edf",
            [],
            annotations=[(a, b, f"Sleep stage {c}") for a, b, c in runs(NIGHT, seconds)],
            record_seconds=0,
        )
        assert sg.read_hypnogram(path).epoch_seconds == seconds
        assert sg.read_hypnogram(path).stages.tolist() == NIGHT


def test_stages_without_duration_last_until_the_next(tmp_path):
    texts = [(onset, None, f"Sleep stage {stage}") for onset, _, stage in runs(NIGHT)]
    path = write_edf(tmp_path / "h.edf", [], annotations=texts, record_seconds=0)
    assert sg.read_hypnogram(path).stages.tolist() == NIGHT


def test_stages_without_prefix(tmp_path):
    texts = [(a, b, {"R": "REM", "W": "Wake"}.get(c, c)) for a, b, c in runs(NIGHT)] + [(12, 4, "artefact")]
    path = write_edf(tmp_path / "h.edf", [], annotations=texts, record_seconds=0)
    assert sg.read_hypnogram(path).stages.tolist() == NIGHT


def test_an_unknown_stage_is_unscored_and_told(tmp_path):
    texts = [
        (0, 30, "Sleep stage W"),
        (30, 30, "Sleep stage X"),
        (60, 30, "Sleep stage R"),
        (70, 3, "Stage left"),
    ]
    path = write_edf(tmp_path / "h.edf", [], annotations=texts, record_seconds=0)
    with pytest.warns(StageGuardWarning, match=naming("h.edf", "X", "unscored")):
        assert sg.read_hypnogram(path).stages.tolist() == ["W", "?", "R"]


def test_epochs_that_begin_late(tmp_path):
    texts = [(72.5 + a, b, f"Sleep stage {c}") for a, b, c in runs(NIGHT)]
    path = write_edf(tmp_path / "h.edf", [], annotations=texts, record_seconds=0)
    read = read_hypnogram_file(path, FileOptions())
    assert read.hypnogram.stages.tolist() == ["?", "?", *NIGHT]
    assert read.hypnogram.offset_seconds == 12.5
    assert read.hypnogram.start == START.replace(second=12, microsecond=500_000)


def test_times_count_from_the_first_sample(tmp_path):
    """A recording may begin within a second; its annotations are told from the full one."""
    texts = [(0.25 + onset, lasting, f"Sleep stage {stage}") for onset, lasting, stage in runs(NIGHT)]
    onsets = [0.25 + second for second in range(330)]
    path = write_edf(tmp_path / "night.edf", [channel("EEG", 330, 4)], annotations=texts, onsets=onsets)
    assert [each.onset for each in read_edf_annotations(path)] == [onset for onset, _, _ in runs(NIGHT)]
    assert sg.read_hypnogram(path).start == START.replace(microsecond=250_000)
    assert sg.read_recording(path).start == START.replace(microsecond=250_000)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([(0, 30, "snore"), (5, 1, "cough")], ("annotations", "snore")),
        ([], ("sleep", "has no annotations")),
        (
            [(0, 30, "Sleep stage W"), (15, 30, "Sleep stage R")],
            ("begin", "30 s"),
        ),
        ([(0, 30, "Sleep stage W"), (0.4, 29.7, "Sleep stage R")], ("multiples of no", "length")),
        (
            [(0, 60, "Sleep stage W"), (30, 30, "Sleep stage R")],
            ("30 s", "R", "W"),
        ),
        ([(0, 30, "1"), (30, 30, "2")], ("annotations", 1, 2)),
    ],
)
def test_annotations_that_are_no_hypnogram(tmp_path, texts, expected):
    assert mentions(
        complaint(write_edf(tmp_path / "h.edf", [], annotations=texts, record_seconds=0)), *expected
    )


def test_damaged_annotations_are_refused(tmp_path):
    path = write_edf_hypnogram(tmp_path / "h.edf", NIGHT)
    data = path.read_bytes()
    for old, new in (
        (b"+60\x15", b"x60\x15"),
        (tal(60, ["Sleep stage 1"], 30), b"+60 30 Sleep stage 1 \x00\x00"),
    ):
        assert old in data
        path.write_bytes(data.replace(old, new))
        assert mentions(complaint(path), "annotation begins with")


# ---- real files


def test_real_profusion_files(data_dir):
    counts = {}
    for number in (1, 2, 3):
        path = data_dir / "samples" / f"learn-nsrr0{number}.xml"
        codes = [int(part[0]) for part in path.read_text().split("<SleepStage>")[1:]]
        night = sg.read_hypnogram(path)
        assert night.n_epochs == len(codes)
        names = {0: "W", 1: "N1", 2: "N2", 3: "N3", 4: "N3", 5: "R"}
        assert night.stages.tolist() == [names[code] for code in codes]
        counts[number] = collections.Counter(night.stages.tolist())["R"]
    assert counts == {1: 238, 2: 120, 3: 0}


def test_real_sleep_edf_hypnogram(data_dir):
    path = data_dir / "samples" / "SC4001EC-Hypnogram.edf"
    night = sg.read_hypnogram(path)
    assert (night.n_epochs, night.epoch_seconds, night.start) == (2880, 30, datetime(1989, 4, 24, 16, 13))
    counts = collections.Counter(night.stages.tolist())
    assert counts == {"W": 1997, "N1": 58, "N2": 250, "N3": 220, "R": 125, "?": 230}
    assert np.flatnonzero(night.labels != 0)[0] == 30630 // 30


def test_real_sleep_edf_hypnogram_as_mne_reads_it(data_dir):
    mne = pytest.importorskip("mne")
    path = data_dir / "samples" / "SC4001EC-Hypnogram.edf"
    theirs = mne.read_annotations(path)
    ours = read_edf_annotations(path)
    assert [each.text for each in ours] == list(theirs.description)
    np.testing.assert_allclose([each.onset for each in ours], theirs.onset)
    np.testing.assert_allclose([each.seconds for each in ours], theirs.duration)
