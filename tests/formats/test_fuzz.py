"""Hostile and damaged files: every reader answers with a result that is true, or with one line."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stageguard as sg
from recording_files import (
    channel,
    nsrr_xml,
    profusion_xml,
    slpdb_record,
    stage_annotations,
    write_edf,
    write_edf_hypnogram,
)
from stageguard.datasets.slpdb import read_record
from stageguard.errors import StageGuardError, StageGuardWarning

NIGHT = ["W", "W", "N1", "N2", "N3", "N3", "N2", "R", "R", "W", "?", "N1"]


def make(kind: str, folder: Path) -> Path:
    if kind == "annotations":
        return write_edf_hypnogram(folder / "h.edf", NIGHT)
    if kind == "recording":
        signals = [channel("EEG C4-M1", 360, 4), channel("SaO2", 360, 1, unit="%")]
        return write_edf(folder / "n.edf", signals, annotations=stage_annotations(NIGHT))
    if kind == "gaps":
        onsets = [*range(6), *range(100, 106)]
        return write_edf(folder / "n.edf", [channel("EEG", 12, 4)], onsets=onsets, plus="EDF+D")
    path = folder / "h.xml"
    codes = {"W": 0, "N1": 1, "N2": 2, "N3": 3, "R": 5, "?": 6}
    names = [stage if stage != "?" else "M" for stage in NIGHT]
    path.write_text(nsrr_xml(names) if kind == "nsrr" else profusion_xml(codes[stage] for stage in NIGHT))
    return path


def outcome(read, path):
    """What a reader says of a file; anything but a result or a line of ours is an error of the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        try:
            return read(path)
        except StageGuardError as error:
            assert "\n" not in str(error), str(error)
            assert len(str(error)) < 600
            return None


def changed(data: bytes, edits: list[tuple[float, bytes]], keep: float) -> bytes:
    spoilt = bytearray(data)
    for place, new in edits:
        at = int(place * (len(spoilt) - 1))
        spoilt[at : at + len(new)] = new
    return bytes(spoilt[: int(keep * len(spoilt))])


edits = st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=8)), max_size=4)
lengths = st.one_of(st.just(1.0), st.floats(0, 1))


@pytest.mark.parametrize("kind", ["annotations", "recording", "nsrr", "profusion"])
@given(edits=edits, keep=lengths)
@settings(max_examples=120)
def test_a_spoilt_hypnogram_is_a_line_or_a_hypnogram(kind, edits, keep):
    with tempfile.TemporaryDirectory() as folder:
        path = make(kind, Path(folder))
        path.write_bytes(changed(path.read_bytes(), edits, keep))
        night = outcome(sg.read_hypnogram, path)
        if night is not None:
            assert night.n_epochs < 10_000_000


@pytest.mark.parametrize("kind", ["annotations", "recording", "nsrr", "profusion"])
@given(keep=st.floats(0, 1, exclude_max=True))
@settings(max_examples=60)
def test_a_cut_hypnogram_is_never_read_as_a_shorter_one(kind, keep):
    """Bytes that are padding or line ends may be lost; then the night is whole."""
    with tempfile.TemporaryDirectory() as folder:
        path = make(kind, Path(folder))
        whole = sg.read_hypnogram(path).stages.tolist()
        path.write_bytes(changed(path.read_bytes(), [], keep))
        night = outcome(sg.read_hypnogram, path)
        assert night is None or night.stages.tolist() == whole


@pytest.mark.parametrize("kind", ["recording", "gaps"])
@given(edits=edits, keep=lengths)
@settings(max_examples=120)
def test_a_spoilt_recording_is_a_line_or_a_recording(kind, edits, keep):
    with tempfile.TemporaryDirectory() as folder:
        path = make(kind, Path(folder))
        path.write_bytes(changed(path.read_bytes(), edits, keep))
        recording = outcome(sg.read_recording, path)
        if recording is not None:
            for signal in recording.signals.values():
                assert len(signal.read(0, 100)) == min(100, signal.n_samples)
            lengths = {night.n_epochs for night in recording.scorings.values()}
            assert len(lengths) <= 1


@given(
    header=st.tuples(edits, lengths),
    data=st.tuples(edits, lengths),
    beats=st.tuples(edits, lengths),
    stages=st.tuples(edits, lengths),
)
@settings(max_examples=100)
def test_a_spoilt_wfdb_record_is_a_line_or_a_recording(header, data, beats, stages):
    with tempfile.TemporaryDirectory() as folder:
        slpdb_record(Path(folder), "slp01a", ["W", "2"], {"ECG": "200/mV"})
        for suffix, (changes, keep) in {".hea": header, ".dat": data, ".ecg": beats, ".st": stages}.items():
            path = Path(folder) / f"slp01a{suffix}"
            path.write_bytes(changed(path.read_bytes(), changes, keep))
        recording = outcome(read_record, Path(folder) / "slp01a.hea")
        if recording is not None:
            assert np.ndim(recording.channel("beats").times) == 1


@given(st.binary(max_size=400))
@settings(max_examples=150)
def test_any_bytes_behind_the_magic(data):
    with tempfile.TemporaryDirectory() as folder:
        for name, start in (
            ("a.edf", b"0       "),
            ("a.xml", b"<PSGAnnotation>"),
            ("b.xml", b"<CMPStudyConfig>"),
        ):
            path = Path(folder) / name
            path.write_bytes(start + data)
            assert outcome(sg.read_hypnogram, path) is None
        assert outcome(sg.read_recording, Path(folder) / "a.edf") is None
