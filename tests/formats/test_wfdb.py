"""WFDB records and annotations: the same numbers as the wfdb package, and what is refused."""

from __future__ import annotations

from datetime import datetime
from functools import partial

import numpy as np
import pytest

import stageguard as sg
from messages import mentions, message
from recording_files import pack_212, slpdb_record, write_wfdb_annotations
from stageguard.errors import FileFormatError
from stageguard.formats.recordings.wfdb import (
    read_wfdb_annotations,
    read_wfdb_beats,
    read_wfdb_header,
    read_wfdb_recording,
)

HEADER = (
    "r 2 100 50 10:20:30 5/6/1990\nr.dat 16 200(3)/mV 12 0 0 0 0 ECG\nr.dat 16 2/l 12 7 0 0 0 Resp (nasal)\n"
)


def record(tmp_path, header=HEADER, n_bytes=200):
    (tmp_path / "r.hea").write_text(header)
    digital = np.arange(n_bytes // 2, dtype="<i2") - 20
    (tmp_path / "r.dat").write_bytes(digital.tobytes())
    return digital.reshape(-1, 2)


complaint = partial(message, FileFormatError)


def test_a_record_in_standard_units(tmp_path):
    digital = record(tmp_path)
    raw = read_wfdb_recording(tmp_path / "r.hea")
    np.testing.assert_allclose(raw.signals["ECG"].read(), (digital[:, 0] - 3) / 200 * 1000)
    np.testing.assert_allclose(raw.signals["Resp (nasal)"].read(10, 20), (digital[10:20, 1] - 7) / 2)
    assert [(signal.unit, signal.rate_hz) for signal in raw.signals.values()] == [("uV", 100), ("l", 100)]
    assert raw.start == datetime(1990, 6, 5, 10, 20, 30)
    assert list(sg.read_recording(tmp_path / "r.hea").signals) == ["ecg", "airflow"]
    record(tmp_path, HEADER.replace(" 50 ", " 0 "))  # as many as the file holds
    assert read_wfdb_recording(tmp_path / "r.hea").signals["ECG"].n_samples == 50


@pytest.mark.parametrize("format", [16, 212, 80])
def test_the_same_numbers_as_wfdb(tmp_path, format):
    wfdb = pytest.importorskip("wfdb")
    limit = {16: 30_000, 212: 2047, 80: 127}[format]
    digital = np.random.default_rng(format).integers(-limit, limit + 1, (1001, 3))
    wfdb.wrsamp(
        "rec",
        fs=250,
        units=["mV", "l", "%"],
        sig_name=["ECG", "Resp (nasal)", "SO2"],
        d_signal=digital,
        fmt=[str(format)] * 3,
        adc_gain=[200.0, 690.0, 1.5],
        baseline=[3, -4, 5],
        write_dir=str(tmp_path),
    )
    theirs = wfdb.rdrecord(str(tmp_path / "rec")).p_signal * [1000, 1, 1]
    raw = read_wfdb_recording(tmp_path / "rec.hea")
    for place, signal in enumerate(raw.signals.values()):
        np.testing.assert_allclose(signal.read(), theirs[:, place], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(signal.read(7, 100), theirs[7:100, place], rtol=1e-12, atol=1e-12)


def test_annotations_as_wfdb_writes_them(tmp_path):
    wfdb = pytest.importorskip("wfdb")
    samples = np.array([10, 50, 5000, 5001, 2_000_000])
    texts = ["", "", "", "2 LA", ""]
    wfdb.wrann(
        "r",
        "st",
        sample=samples,
        symbol=["N", "V", "N", '"', "N"],
        aux_note=texts,
        fs=128,
        write_dir=str(tmp_path),
    )
    found = read_wfdb_annotations(tmp_path / "r.st")
    assert [mark.sample for mark in found.marks] == samples.tolist()
    assert [mark.text for mark in found.marks] == texts
    assert found.rate_hz == 128


@pytest.mark.parametrize(("format", "missing"), [(16, -32768), (212, -2048), (80, -128)])
def test_missing_samples_are_nan(tmp_path, format, missing):
    digital = np.array([[5], [missing], [7], [-3]])
    packed = {
        16: digital.astype("<i2").tobytes(),
        212: pack_212(digital),
        80: (digital + 128).astype(np.uint8).tobytes(),
    }
    (tmp_path / "r.hea").write_text(f"r 1 100 4\nr.dat {format} 1/mmHg 12 0 0 0 0 BP\n")
    (tmp_path / "r.dat").write_bytes(packed[format])
    np.testing.assert_array_equal(
        read_wfdb_recording(tmp_path / "r.hea").signals["BP"].read(), [5, np.nan, 7, -3]
    )


def test_blocks_are_put_together_again(tmp_path, monkeypatch):
    slpdb_record(tmp_path, "slp01a", ["W", "2"])
    whole = read_wfdb_recording(tmp_path / "slp01a.hea").signals["BP"].read()
    monkeypatch.setattr("stageguard.formats.recordings.wfdb.BLOCK_FRAMES", 1001)
    np.testing.assert_array_equal(read_wfdb_recording(tmp_path / "slp01a.hea").signals["BP"].read(), whole)
    np.testing.assert_array_equal(
        read_wfdb_recording(tmp_path / "slp01a.hea").signals["BP"].read(333, 7777), whole[333:7777]
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("r 2 100", "r two 100", ("'two'",)),
        ("r 2 100", "r 3 100", (3, "describes", 2)),
        ("r 2 100", "r/2 2 100", ("record", "of several segments")),
        ("r 2 100", "r 2 -5", ("'-5'", "rate")),
        ("r 2 100", "r 2 .", ("'.'", "rate")),
        (" 50 ", " fifty ", ("'fifty'",)),
        ("r.dat 16 200(3)/mV", "r.dat 311 200(3)/mV", (311, 16, 61, 80, 212)),
        ("r.dat 16 200(3)/mV", "r.dat 16:3 200(3)/mV", ("16:3", "skew")),
        ("r.dat 16 200(3)/mV", "r.dat 16 gain", ("'gain'", 200)),
        ("r.dat 16 200(3)/mV 12 0", "r.dat 16 200/mV 12 zero", ("'zero'",)),
        ("r.dat 16 200(3)/mV", "r.dat x", ("'x'", "format")),
        ("r.dat", "../r.dat", ("'../r.dat'",)),
        ("r.dat", "s.dat", ("'s.dat'",)),
        (" 50 ", " 51 ", ("r.dat", 200, "204 bytes")),
        (HEADER, "# nothing\n", ("WFDB", "header")),
    ],
)
def test_a_damaged_header_is_refused(tmp_path, old, new, expected):
    record(tmp_path, HEADER.replace(old, new, 2 if "dat" in old and old == "r.dat" else 1))
    assert mentions(complaint(read_wfdb_recording, tmp_path / "r.hea"), *expected)


def test_a_start_without_a_date(tmp_path):
    record(tmp_path, HEADER.replace(" 5/6/1990", ""))
    assert read_wfdb_header(tmp_path / "r.hea").start == datetime(1985, 1, 1, 10, 20, 30)
    record(tmp_path, HEADER.replace(" 10:20:30 5/6/1990", ""))
    assert read_wfdb_header(tmp_path / "r.hea").start is None


def test_beats_and_their_intervals(tmp_path):
    marks = [(100, 1, ""), (300, 5, ""), (400, 14, ""), (550, 1, ""), (600, 22, "a note")]
    beats = read_wfdb_beats(write_wfdb_annotations(tmp_path / "r.ecg", marks), 250.0)
    np.testing.assert_allclose(beats.times, [0.4, 1.2, 2.2])
    np.testing.assert_allclose(beats.values, [np.nan, 0.8, 1.0])
    assert beats.unit == "s"
    path = write_wfdb_annotations(tmp_path / "r.ecg", [(100, 22, "x")])
    assert mentions(complaint(read_wfdb_beats, path, 250.0), "r.ecg", "marks no beats")


def test_cut_annotations_are_refused(tmp_path):
    path = write_wfdb_annotations(tmp_path / "r.st", [(1, 22, "W"), (750_000, 22, "2 LA")])
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        assert mentions(complaint(read_wfdb_annotations, path), "Was it copied", "completely")


def test_annotations_that_go_back_in_time_are_refused(tmp_path):
    path = write_wfdb_annotations(tmp_path / "r.st", [(5000, 22, "W"), (100, 22, "2")])
    assert mentions(complaint(read_wfdb_annotations, path), "annotation", 100)
