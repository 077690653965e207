"""SLEEPBRL as PhysioNet has it."""

from __future__ import annotations

import numpy as np
import pytest

from dataset_files import sleepbrl_record, write_annotations
from messages import naming
from stageguard.datasets import recordings
from stageguard.errors import FileFormatError, InputError


def one(folder, **options):
    (recording,) = recordings("sleepbrl", folder, **options)
    return recording


def test_a_physionet_record_is_read(tmp_path):
    radar = sleepbrl_record(tmp_path, "sbj07", "WW123RRW", rate_hz=10)
    recording = one(tmp_path)
    assert (recording.id, recording.subject, recording.source) == ("sbj07", "sbj07", "SLEEPBRL")
    assert list(recording.signals)[:4] == ["radar_i", "radar_q", "radar_i_2", "radar_q_2"]
    assert len(recording.signals) == 16
    signal = recording.channel("radar_q_8")
    assert (signal.name, signal.rate_hz, signal.seconds) == ("S16", 10, 240)
    np.testing.assert_allclose(signal.read(), radar[15], atol=1e-4)
    scoring = recording.scorings["expert"]
    assert scoring.stages.tolist() == ["W", "W", "N", "N", "N", "R", "R", "W"]
    five = one(tmp_path, scheme="aasm5").scorings["expert"]
    assert five.stages.tolist() == ["W", "W", "N1", "N2", "N3", "R", "R", "W"]


def test_another_pair_can_be_the_main_one(tmp_path):
    radar = sleepbrl_record(tmp_path, "sbj01", "W", rate_hz=10)
    recording = one(tmp_path, pair=3)
    assert (recording.channel("radar_i").name, recording.channel("radar_q").name) == ("S5", "S6")
    assert recording.channel("radar_i_1").name == "S1"
    assert "radar_i_3" not in recording.signals
    np.testing.assert_allclose(recording.channel("radar_q").read(5, 9), radar[5, 5:9], atol=1e-4)
    with pytest.raises(InputError, match=naming("pair is 9", "1 to 8")):
        one(tmp_path, pair=9)


def test_stages_told_at_changes_only_hold_until_the_next(tmp_path):
    sleepbrl_record(tmp_path, "sbj01", "WWWWWW", rate_hz=10)
    write_annotations(tmp_path / "sbj01.edf.atr", [(0, "W"), (900, "2"), (1500, "R")])
    assert one(tmp_path).scorings["expert"].stages.tolist() == ["W", "W", "W", "N", "N", "R"]


def test_annotations_may_count_by_a_clock_of_their_own(tmp_path):
    sleepbrl_record(tmp_path, "sbj01", "WWW", rate_hz=10)
    marks = [(0, "W"), (60_000, "2"), (120_000, "R")]
    write_annotations(tmp_path / "sbj01.edf.atr", marks, note="## time resolution: 2000")
    assert one(tmp_path).scorings["expert"].stages.tolist() == ["W", "N", "R"]


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ([(0, "W"), (300, "X")], ("'X'", "30 s", "W", 1, 2, 3, 4)),
        ([], ("no stages among", "annotations")),
        ([(0, "W"), (310, "2"), (700, "R")], ("begin", "30 s")),
    ],
)
def test_wrong_stages_are_refused(tmp_path, marks, message):
    sleepbrl_record(tmp_path, "sbj01", "WWW", rate_hz=10)
    write_annotations(tmp_path / "sbj01.edf.atr", marks)
    with pytest.raises(FileFormatError, match=naming(*message)):
        one(tmp_path)
