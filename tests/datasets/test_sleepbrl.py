"""SLEEPBRL as PhysioNet has it, and radar of one's own in npz, HDF5 and EDF."""

from __future__ import annotations

import sys
import zipfile
from datetime import datetime

import numpy as np
import pytest

from dataset_files import sleepbrl_record, write_annotations
from messages import naming
from stageguard.datasets import entries, recordings
from stageguard.datasets.samples import sheet_rows
from stageguard.errors import FileFormatError, InputError, StageGuardWarning
from stageguard.formats.recordings.wfdb import read_wfdb_annotations

I_SAMPLES = np.cos(np.arange(3000) / 7)
Q_SAMPLES = np.sin(np.arange(3000) / 7)


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


def test_a_record_without_stages_is_named_and_read(tmp_path):
    sleepbrl_record(tmp_path, "sbj01", "WW", rate_hz=10)
    (tmp_path / "sbj01.edf.atr").unlink()
    (entry,) = entries("sleepbrl", tmp_path)
    assert entry.missing == ("sbj01.edf.atr",)
    assert entry.read().scorings == {}


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


def test_a_cut_annotation_file_is_refused(tmp_path):
    sleepbrl_record(tmp_path, "sbj01", "WWW", rate_hz=10)
    path = tmp_path / "sbj01.edf.atr"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(FileFormatError, match=naming("sbj01.edf.atr", "mark of its")):
        one(tmp_path)


def test_annotations_agree_with_the_wfdb_package(tmp_path):
    wfdb = pytest.importorskip("wfdb")
    samples = np.array([0, 5, 1028, 70_000, 200_000])
    texts = ["W", "R", "a longer note", "2", "3"]
    wfdb.wrann("night", "atr", samples, symbol=['"'] * 5, aux_note=texts, fs=50, write_dir=str(tmp_path))
    found = read_wfdb_annotations(tmp_path / "night.atr")
    assert [(mark.sample, mark.text) for mark in found.marks] == list(zip(samples, texts, strict=True))
    assert found.rate_hz == 50


def write_workbook(path, rows):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)


def test_age_and_sex_come_from_the_table_of_subjects(tmp_path):
    for name in ("sbj01", "sbj02", "sbj03"):
        sleepbrl_record(tmp_path, name, "W", rate_hz=10)
    rows = [["Subject", "Sex", "Age, years", "AHI"], ["sbj01", "F", 55, None], ["sbj02", "M", 24.5, 3.1]]
    write_workbook(tmp_path / "subjects.xlsx", rows)
    assert sheet_rows(tmp_path / "subjects.xlsx")[1] == ["sbj01", "F", 55.0]
    found = {recording.id: dict(recording.covariates) for recording in recordings("sleepbrl", tmp_path)}
    assert found == {
        "sbj01": {"sex": "F", "age": 55},
        "sbj02": {"sex": "M", "age": 24.5, "ahi": 3.1},
        "sbj03": {},
    }
    (tmp_path / "subjects.xlsx").unlink()
    (tmp_path / "subjects.csv").write_text("Subject,Age\n3,41\n")
    assert [dict(r.covariates) for r in recordings("sleepbrl", tmp_path)][2] == {"age": 41}


def test_a_workbook_that_is_none_is_named(tmp_path):
    (tmp_path / "subjects.xlsx").write_text("no")
    with pytest.raises(FileFormatError, match=naming("subjects.xlsx", "no Excel workbook")):
        sheet_rows(tmp_path / "subjects.xlsx")


SHEET = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
FAR = f'<worksheet {SHEET}<row r="999999999"><c r="ZZZ999999999"><v>1</v></c></row></sheetData></worksheet>'


def with_sheet(path, sheet):
    """Replace the sheet of a workbook."""
    write_workbook(path, [["Subject"]])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, sheet if name.endswith("sheet1.xml") else part)


@pytest.mark.parametrize(
    ("sheet", "error"),
    [
        (f"<worksheet {SHEET}<row", r"cannot be read \(ParseError"),
        ('<!DOCTYPE x [<!ENTITY y "z">]><x>&y;</x>', r"cannot be read \(ValueError"),
        (f"<worksheet {SHEET}{' ' * (33 << 20)}", "is too large"),
    ],
)
def test_a_hostile_workbook_is_one_line(tmp_path, sheet, error):
    with_sheet(tmp_path / "subjects.xlsx", sheet)
    with pytest.raises(FileFormatError, match=rf"subjects\.xlsx: {error}"):
        sheet_rows(tmp_path / "subjects.xlsx")


def test_a_cell_far_away_takes_no_memory(tmp_path):
    with_sheet(tmp_path / "subjects.xlsx", FAR)
    assert sheet_rows(tmp_path / "subjects.xlsx") == []


def test_without_openpyxl_the_workbook_is_left_out_with_a_warning(tmp_path, monkeypatch):
    sleepbrl_record(tmp_path, "sbj01", "W", rate_hz=10)
    (tmp_path / "subjects.xlsx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.warns(StageGuardWarning, match="openpyxl"):
        (found,) = recordings("sleepbrl", tmp_path)
    assert dict(found.covariates) == {}


def write_arrays(path, **arrays):
    if path.suffix == ".npz":
        np.savez_compressed(path, **arrays)
        return
    import h5py

    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            values = np.asarray(values)
            if values.ndim == 0:
                file.attrs[name] = values.item()
            elif values.dtype.kind == "U":
                file.create_dataset(name, data=values.astype(object), dtype=h5py.string_dtype())
            else:
                file.create_dataset(name, data=values)


@pytest.fixture(params=["night.npz", "night.h5"])
def container(request, tmp_path):
    if request.param.endswith("h5"):
        pytest.importorskip("h5py")
    return tmp_path / request.param


def test_standard_names_need_no_mapping(container):
    write_arrays(
        container,
        radar_i=I_SAMPLES,
        radar_q=Q_SAMPLES,
        rate_hz=50.0,
        stages=np.array(["W", "REM"]),
        subject="P07",
    )
    recording = one(container.parent)
    assert (recording.id, recording.subject) == ("night", "P07")
    signal = recording.channel("radar_q")
    assert (signal.rate_hz, signal.seconds) == (50, 60)
    np.testing.assert_array_equal(signal.read(10, 2990), Q_SAMPLES[10:2990])
    assert recording.scorings["expert"].stages.tolist() == ["W", "R"]
    assert recording.scorings["expert"].epoch_seconds == 30


@pytest.mark.parametrize("shape", ["complex", "columns", "rows", "fortran"])
def test_i_and_q_in_one_array(container, shape):
    both = {
        "complex": I_SAMPLES + 1j * Q_SAMPLES,
        "columns": np.column_stack([I_SAMPLES, Q_SAMPLES]),
        "rows": np.vstack([I_SAMPLES, Q_SAMPLES]),
        "fortran": np.asfortranarray(np.column_stack([I_SAMPLES, Q_SAMPLES])),
    }[shape]
    write_arrays(container, radar_iq=both, rate_hz=50.0)
    recording = one(container.parent)
    np.testing.assert_array_equal(recording.channel("radar_i").read(), I_SAMPLES)
    np.testing.assert_array_equal(recording.channel("radar_q").read(100, 200), Q_SAMPLES[100:200])


def test_features_are_one_value_per_epoch(container):
    values = np.array([[1.0, 5.0], [np.nan, np.nan], [3.0, 7.0]])
    write_arrays(container, features=values, feature_names=np.array(["rate", "movement"]), epoch_seconds=30.0)
    recording = one(container.parent)
    assert list(recording.signals) == ["rate", "movement"]
    assert recording.subject == "night"
    np.testing.assert_array_equal(recording.channel("movement").read(), values[:, 1])
    assert recording.seconds == pytest.approx(90)


def mapping(folder, text):
    (folder / "recordings.toml").write_text(text)


def test_a_mapping_file_says_where_everything_is(container):
    folder = container.parent
    write_arrays(container, a=np.column_stack([Q_SAMPLES, I_SAMPLES]), hyp=np.array([0, 1, 1, 2, -1]))
    write_arrays(folder / f"second{container.suffix}", phi=np.degrees(I_SAMPLES))
    (folder / "second.csv").write_text("stage\nW\nN2\nREM\n")
    mapping(
        folder,
        f"""
        epoch_seconds = 12
        scheme = "wnr3"
        [channels]
        radar_i = {{ name = "a", column = 1, rate_hz = 50 }}
        radar_q = {{ name = "a", column = 0, rate_hz = 50 }}
        [covariates]
        site = "B"
        [stages]
        0 = "W"
        1 = "N"
        2 = "R"
        [[recordings]]
        file = "{container.name}"
        subject = "P07"
        id = "P07-1"
        scoring = {{ name = "hyp" }}
        start = 2024-05-01T22:58:00
        covariates = {{ age = 41 }}
        [[recordings]]
        file = "second{container.suffix}"
        subject = "P07"
        scoring = "second.csv"
        channels = {{ radar_phase = {{ name = "phi", rate_hz = 25, unit = "deg" }} }}
        """,
    )
    first, second = entries("sleepbrl", folder)
    assert [(e.id, e.subject, e.missing) for e in (first, second)] == [
        ("P07-1", "P07", ()),
        ("second", "P07", ()),
    ]
    recording = first.read()
    np.testing.assert_array_equal(recording.channel("radar_i").read(), I_SAMPLES)
    assert recording.start == datetime(2024, 5, 1, 22, 58)
    assert recording.covariates == {"age": 41, "site": "B"}
    night = recording.scorings["expert"]
    assert (night.stages.tolist(), night.epoch_seconds) == (["W", "N", "N", "R", "?"], 12)
    recording = second.read()
    assert list(recording.signals) == ["radar_phase"]
    phase = recording.channel("radar_phase")
    assert (phase.unit, phase.rate_hz, recording.covariates) == ("rad", 25, {"site": "B"})
    np.testing.assert_allclose(phase.read(), I_SAMPLES)
    assert recording.scorings["expert"].stages.tolist() == ["W", "N", "R"]


def test_channels_of_an_edf_are_mapped_by_label(tmp_path):
    from edfio import Edf, EdfSignal

    signals = [EdfSignal(values, 50, label=label, physical_range=(-1, 1)) for label, values in
               (("RADAR I", I_SAMPLES), ("RADAR Q", Q_SAMPLES))]  # fmt: skip
    Edf(signals).write(tmp_path / "night.edf")
    mapping(tmp_path, '[[recordings]]\nfile = "night.edf"\nsubject = "A"\n'
                      'channels = {radar_i = "RADAR I", radar_q = "RADAR Q"}\n')  # fmt: skip
    recording = one(tmp_path)
    assert recording.channel("radar_q").rate_hz == 50
    np.testing.assert_allclose(recording.channel("radar_q").read(), Q_SAMPLES, atol=1e-4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", ("recordings.toml: not valid TOML",)),
        ("epoch_second = 3", ("'epoch_second'", "'epoch_seconds'")),
        ("scheme = 'wnr3'", ("lists no recording",)),
        ("[[recordings]]\nfile = 'a.npz'", (1, "has no subject")),
        (
            "[[recordings]]\nfile = 'a.npz'\nsubject = 'A'\nstart = 3",
            ("recordings", 0, 3),
        ),
        (
            "[[recordings]]\nfile = 'a.npz'\nsubject = 'A'\nchannels = {radar_i = 3}",
            ("channels.radar_i is 3",),
        ),
        (
            "[[recordings]]\nfile='a.npz'\nsubject='A'\nid='x'\n[[recordings]]\nfile='b.npz'\nsubject='B'\nid='x'",
            ("names two recordings 'x'",),
        ),
    ],
)
def test_a_wrong_mapping_is_explained(tmp_path, text, message):
    mapping(tmp_path, text)
    with pytest.raises(FileFormatError, match=naming(*message)):
        list(entries("sleepbrl", tmp_path))


def test_a_missing_file_of_a_mapping_is_named(tmp_path):
    mapping(tmp_path, "[[recordings]]\nfile = 'gone.npz'\nsubject = 'A'\nscoring = 'gone.csv'\n")
    (entry,) = entries("sleepbrl", tmp_path)
    assert entry.missing == ("gone.npz", "gone.csv")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"radar_i": I_SAMPLES}, ("radar_i", "rate_hz")),
        ({"x": I_SAMPLES}, ("radar_i", "radar_q", "radar_phase")),
        (
            {"radar_i": I_SAMPLES.reshape(-1, 3), "rate_hz": 50.0},
            ("radar_i", "(1000, 3)"),
        ),
        ({"features": np.zeros(3)}, ("features", "shape", "(3,)")),
        (
            {"features": np.zeros((3, 2)), "feature_names": np.array(["a", "a"])},
            (2, 1, "different"),
        ),
        (
            {"radar_i": I_SAMPLES, "rate_hz": 50.0, "stages": np.array([0, 7])},
            ("'0'",),
        ),
        (
            {"radar_i": I_SAMPLES, "rate_hz": 50.0, "stages": np.array(["N", "N2"])},
            ("N, N2", "belong"),
        ),
    ],
)
def test_what_a_container_lacks_is_told(container, arrays, message):
    write_arrays(container, **arrays)
    with pytest.raises(FileFormatError, match=naming(*message)):
        one(container.parent)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04broken", b"\x89HDF\r\n\x1a\nbroken"])
def test_broken_containers_are_named(container, content):
    container.write_bytes(content)
    with pytest.raises((FileFormatError, OSError), match="night"):
        one(container.parent)


def test_objects_are_not_unpickled(tmp_path):
    np.savez(tmp_path / "night.npz", radar_i=np.array([{}, []], dtype=object), rate_hz=50.0)
    with pytest.raises(FileFormatError, match="Python objects"):
        one(tmp_path).channel("radar_i").read()
