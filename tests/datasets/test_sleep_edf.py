"""Sleep-EDF Expanded: pairs of files, two nights of one subject, lights off, and a real hypnogram."""

from __future__ import annotations

import sys
import types
from datetime import datetime

import numpy as np
import pytest

from messages import naming
from recording_files import channel, sleep_edf_night, write_edf
from stageguard.datasets import entries, recordings
from stageguard.datasets.sleep_edf import around_sleep, read_tables
from stageguard.errors import FileFormatError, InputError, StageGuardWarning

NIGHT = ["W", "W", "N1", "N2", "N3", "N4", "R", "M", "W", "W"]
READ = ["W", "W", "N1", "N2", "N3", "N3", "R", "?", "W", "W"]


@pytest.fixture
def tree(tmp_path):
    sleep_edf_night(tmp_path / "sleep-cassette", "SC4001E0", [*NIGHT, "?", "?", "?"], seconds=300)
    sleep_edf_night(tmp_path / "sleep-cassette", "SC4002E0", NIGHT)
    sleep_edf_night(tmp_path / "sleep-telemetry", "ST7011J0", NIGHT)
    return tmp_path


def test_a_cassette_night(tree):
    recording = next(recordings("sleep-edf", tree))
    assert list(recording.signals) == [
        "eeg",
        "eeg_2",
        "eog",
        "airflow",
        "emg_envelope",
        "temperature",
        "Marker",
    ]
    eeg = channel("EEG Fpz-Cz", 300, 100, seed=4001, physical=(-192, 192))
    np.testing.assert_allclose(recording.channel("eeg").read(), eeg.values, atol=1e-9)
    assert (recording.channel("temperature").unit, recording.channel("emg_envelope").rate_hz) == ("degC", 1)
    assert recording.scorings["scorer C"].stages.tolist() == READ
    assert recording.start == datetime(1989, 4, 24, 16, 13)
    assert dict(recording.covariates) == {"night": 1, "study": "cassette", "sex": "F", "age": 33}
    assert recording.source == "Sleep-EDF"


def test_a_telemetry_night(tree):
    (recording,) = recordings("sleep-edf", tree, study="telemetry")
    assert list(recording.signals) == ["eeg", "eeg_2", "eog", "emg", "Marker"]
    assert recording.scorings["scorer P"].stages.tolist() == READ
    assert recording.covariates["study"] == "telemetry"


def test_choosing_nights(tree):
    assert [entry.id for entry in entries("sleep-edf", tree, study="cassette")] == ["SC4001", "SC4002"]
    assert [entry.id for entry in entries("sleep-edf", tree, subjects="st701")] == ["ST7011"]
    with pytest.raises(InputError, match="study is 'tape', expected 'cassette' or 'telemetry'"):
        list(entries("sleep-edf", tree, study="tape"))


def test_only_around_sleep(tree):
    whole = next(recordings("sleep-edf", tree))
    recording = next(recordings("sleep-edf", tree, around_sleep_minutes=0.5))
    assert recording.scorings["scorer C"].stages.tolist() == READ[1:8]
    np.testing.assert_array_equal(recording.channel("eeg").read(), whole.channel("eeg").read(3000, 24000))
    assert recording.start == datetime(1989, 4, 24, 16, 13, 30)
    assert around_sleep(whole, 60).seconds == whole.seconds
    with pytest.raises(InputError, match="around_sleep_minutes is -1"):
        list(entries("sleep-edf", tree, around_sleep_minutes=-1))


def test_lights_off_from_csv(tree):
    (tree / "SC-subjects.csv").write_text(
        "subject,night,age,sex (F=1),LightsOff\n0,1,33,1,16:14:00\n0,2,33,1,15:00\n"
    )
    rows = [
        "Subject - age - sex,,,Placebo night,,Temazepam night,",
        "Nr,Age,M1/F2,night nr,lights off,night nr,lights off",
    ]
    (tree / "ST-subjects.csv").write_text("\n".join([*rows, "1,60,1,1,16:15:00,2,23:48:00"]) + "\n")
    found = {recording.id: recording for recording in recordings("sleep-edf", tree)}
    assert found["SC4001"].lights_off_seconds == 60
    assert found["SC4002"].lights_off_seconds is None  # the light went off before the recording began
    assert found["ST7011"].lights_off_seconds == 120
    assert found["ST7011"].covariates["drug"] == "placebo"


def test_lights_off_from_xls(tree, monkeypatch):
    rows = [
        ["subject", "night", "age", "sex (F=1)", "LightsOff"],
        [0.0, 1.0, 33.0, 1.0, (16 * 60 + 14) / 1440],
    ]
    sheet = types.SimpleNamespace(nrows=2, row_values=lambda row: rows[row])
    book = types.SimpleNamespace(sheet_by_index=lambda index: sheet)
    monkeypatch.setitem(sys.modules, "xlrd", types.SimpleNamespace(open_workbook=lambda path: book))
    (tree / "SC-subjects.xls").write_bytes(b"\xd0\xcf\x11\xe0")
    assert next(recordings("sleep-edf", tree)).lights_off_seconds == 60


def test_an_xls_without_the_library(tree, monkeypatch):
    monkeypatch.setitem(sys.modules, "xlrd", None)
    (tree / "SC-subjects.xls").write_bytes(b"\xd0\xcf\x11\xe0")
    with pytest.warns(StageGuardWarning, match=naming("SC-subjects.xls", "'xlrd'", "Lights off is left out")):
        assert read_tables(tree) == {}


def test_a_table_of_something_else(tree):
    (tree / "SC-subjects.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FileFormatError, match=naming("subject", "LightsOff")):
        list(entries("sleep-edf", tree))


def test_the_real_hypnogram_over_a_recording(tmp_path, data_dir):
    folder = tmp_path / "sleep-cassette"
    folder.mkdir()
    real = (data_dir / "samples" / "SC4001EC-Hypnogram.edf").read_bytes()
    (folder / "SC4001EC-Hypnogram.edf").write_bytes(real)
    head = {"patient": "X F X Female_33yr", "recording": "Startdate 24-APR-1989 X X X", "plus": "EDF+C"}
    signals = [channel("EEG Fpz-Cz", 79_500, 2)]  # as long as the published recording
    write_edf(
        folder / "SC4001E0-PSG.edf", signals, record_seconds=30, start=datetime(1989, 4, 24, 16, 13), **head
    )
    (recording,) = recordings("sleep-edf", tmp_path)
    night = recording.scorings["scorer C"]
    assert night.n_epochs == 2650
    assert np.unique(night.labels).tolist() == [0, 1, 2, 3, 4]
    (part,) = recordings("sleep-edf", tmp_path, around_sleep_minutes=30)
    assert part.scorings["scorer C"].n_epochs == 841  # the number usually reported for this night
