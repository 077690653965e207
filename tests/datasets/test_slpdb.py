"""slpdb: WFDB records with annotated beats and stages, two of them in two parts."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

from messages import naming
from recording_files import slpdb_record, write_wfdb_annotations
from stageguard.datasets import recordings
from stageguard.datasets.slpdb import read_stages, subject_of
from stageguard.errors import FileFormatError, StageGuardWarning

STAGES = ["4 LA LA", "W", "1 HA", "", "R", "MT", "2 H H"]
READ = ["N3", "W", "N1", "?", "R", "?", "N2"]


def test_a_record(tmp_path):
    written = slpdb_record(tmp_path, "slp01a", STAGES)
    (recording,) = recordings("slpdb", tmp_path)
    assert (recording.id, recording.subject, recording.source) == ("slp01a", "slp01", "slpdb")
    assert list(recording.signals) == ["ecg", "eeg", "blood_pressure", "thorax", "beats"]
    np.testing.assert_allclose(recording.channel("ecg").read(), written["digital"][:, 0] / -200 * 1000)
    pressure = (written["digital"][:, 1] + 477) / 4.77778
    np.testing.assert_allclose(recording.channel("blood_pressure").read(), pressure)
    assert recording.channel("eeg").unit == "uV"
    np.testing.assert_allclose(recording.channel("beats").times, written["beats"])
    np.testing.assert_allclose(recording.channel("beats").values[1:], 0.86)
    assert recording.scorings["expert"].stages.tolist() == READ
    assert dict(recording.covariates) == {"age": 44, "sex": "M", "weight_kg": 89}
    assert recording.start == datetime(1989, 1, 19, 23, 7)


def test_roles_of_other_records(tmp_path):
    names = (
        "ECG",
        "EEG (C3-O1)",
        "EOG (right)",
        "EMG",
        "Resp (nasal)",
        "Resp (abdominal)",
        "Resp (chest)",
        "SO2",
        "SV",
    )
    slpdb_record(tmp_path, "slp32", ["W"], dict.fromkeys(names, "100/mV"))
    (recording,) = recordings("slpdb", tmp_path)
    roles = ["ecg", "eeg", "eog", "emg", "airflow", "abdomen", "thorax", "spo2", "stroke_volume"]
    assert {role: recording.channel(role).name for role in roles} == dict(zip(roles, names, strict=True))


@pytest.mark.parametrize(
    ("record", "subject"),
    [
        ("slp01a", "slp01"),
        ("slp01b", "slp01"),
        ("slp02a", "slp02"),
        ("slp02b", "slp02"),
        ("slp67x", "slp67"),
        ("slp03", "slp03"),
    ],
)
def test_whose_a_record_is(record, subject):
    assert subject_of(record) == subject


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([(1, 22, "LA"), (7500, 22, "")], ("no sleep stages",)),
        ([(1, 22, "W"), (4000, 22, "2")], ("16.0 s", "30 s")),
        ([(1, 22, "W"), (250 * 30 * 20_000, 22, "2")], ("stage", "600000.0 s")),
    ],
)
def test_stages_that_are_refused(tmp_path, marks, expected):
    path = write_wfdb_annotations(tmp_path / "r.st", marks)
    with pytest.raises(FileFormatError, match=naming(*expected)):
        read_stages(path, 250.0)


def test_two_stages_of_one_epoch(tmp_path):
    path = write_wfdb_annotations(tmp_path / "r.st", [(1, 22, "W"), (7500, 22, "2"), (7510, 22, "3")])
    with pytest.warns(StageGuardWarning, match="epoch 1 is N2 and N3: read as unscored"):
        assert read_stages(path, 250.0).stages.tolist() == ["W", "?"]


def test_real_stages_and_beats(tmp_path, data_dir):
    """The annotations of slp01a, written out by rdann and ann2rr, in the database's own format again."""
    rows = (data_dir / "samples" / "slp01a.an.txt").read_text().splitlines()[1:]
    marks = [(int(row.split()[1]), 22, row.partition("\t")[2].strip()) for row in rows]
    night = read_stages(write_wfdb_annotations(tmp_path / "slp01a.st", marks), 250.0)
    with np.load(data_dir / "slpdb" / "slpdb_rr_stages.npz") as known:
        names = np.array(["W", "N1", "N2", "N3", "N3", "R", "?", "?"])
        assert night.stages.tolist() == names[known["slp01a_stage"]].tolist()
        header = (data_dir / "samples" / "slp01a.hea.txt").read_text()
        times, intervals = known["slp01a_t_beat"], known["slp01a_rr"]
    n_samples = 1_800_000
    (tmp_path / "slp01a.hea").write_text(header)
    np.zeros(n_samples * 4 * 3 // 2, dtype=np.uint8).tofile(tmp_path / "slp01a.dat")
    beats = [(round(float(time) * 250), 1, "") for time in times]
    write_wfdb_annotations(tmp_path / "slp01a.ecg", beats)
    (recording,) = recordings("slpdb", tmp_path)
    assert (recording.seconds, recording.subject) == (7200, "slp01")
    assert list(recording.signals) == ["ecg", "eeg", "blood_pressure", "thorax", "beats"]
    assert recording.scorings["expert"].n_epochs == 240
    np.testing.assert_allclose(recording.channel("beats").values[1:], intervals[1:], atol=1e-6)
