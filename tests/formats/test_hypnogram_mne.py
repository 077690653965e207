"""Annotations of the installed MNE: its object and FIF."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

import stageguard as sg
from messages import naming
from stage_files import NIGHT, fif, runs, write
from stageguard.errors import FileFormatError

START = datetime(2024, 5, 1, 22, 30)


def annotations(stages=NIGHT, start="2024-05-01 22:30:00.000000", prefix="Sleep stage "):
    mne = pytest.importorskip("mne")
    rows = runs(stages)
    return mne.Annotations(
        [row[0] for row in rows], [row[1] for row in rows], [prefix + row[2] for row in rows], orig_time=start
    )


@pytest.mark.proves("mne-fif")
@pytest.mark.parametrize("start", ["2024-05-01 22:30:00.000000", None])
def test_fif_of_the_installed_mne(tmp_path, start):
    theirs = annotations(start=start)
    path = tmp_path / "night-annot.fif"
    theirs.save(path)
    for night in (sg.read_hypnogram(path), sg.read_hypnogram(theirs)):
        assert night.stages.tolist() == NIGHT
        assert (night.epoch_seconds, night.start) == (30.0, None if start is None else START)


@pytest.mark.proves("object:mne")
def test_a_recording_with_annotations():
    mne = pytest.importorskip("mne")
    info = mne.create_info(["EEG"], 10.0, "eeg")
    raw = mne.io.RawArray(np.zeros((1, 10 * 360)), info, verbose="ERROR")
    raw.set_annotations(annotations(start=None))
    assert sg.read_hypnogram(raw).stages.tolist() == NIGHT


def test_names_alone_and_other_events(tmp_path):
    theirs = annotations(prefix="")
    theirs.append(41.5, 4.0, "bad_arousal: limb")
    path = tmp_path / "night-annot.fif"
    theirs.save(path)
    assert sg.read_hypnogram(path).stages.tolist() == NIGHT


def test_numbers_of_gssc_must_be_named(tmp_path):
    path = write(tmp_path, "night-annot.fif", fif(["0", "1", "2", "3", "4"]))
    with pytest.raises(FileFormatError, match=naming("format='numbers-yasa'", "GSSC")):
        sg.read_hypnogram(path)


def test_our_fif_is_mnes(tmp_path):
    mne = pytest.importorskip("mne")
    theirs = mne.read_annotations(write(tmp_path, "night-annot.fif", fif()))
    assert theirs.description.tolist() == [f"Sleep stage {stage}" for stage in NIGHT]


def test_damaged_fif(tmp_path):
    content = fif()
    for length in range(16, len(content) - 1, 7):
        with pytest.raises(FileFormatError) as error:
            sg.read_hypnogram(write(tmp_path, "night-annot.fif", content[:length]))
        assert "\n" not in str(error.value)
    loop = bytearray(content)
    loop[12:16] = (0).to_bytes(4, "big")
    place = len(content) - 4
    loop[place:] = (4).to_bytes(4, "big")  # the last part points back
    with pytest.raises(FileFormatError, match=naming("damaged or cut", "short")):
        sg.read_hypnogram(write(tmp_path, "night-annot.fif", bytes(loop)))


def test_a_fif_recording_is_refused(tmp_path):
    mne = pytest.importorskip("mne")
    info = mne.create_info(["EEG"], 10.0, "eeg")
    raw = mne.io.RawArray(np.zeros((1, 100)), info, verbose="ERROR")
    raw.save(tmp_path / "night_raw.fif", verbose="ERROR")
    with pytest.raises(FileFormatError, match=naming("Save its stages", "alone")):
        sg.read_hypnogram(tmp_path / "night_raw.fif")
