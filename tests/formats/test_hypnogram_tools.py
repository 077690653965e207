"""Hypnograms in every tool's own layout: found by content, read exactly, refused where they are damaged."""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner, error_line
from messages import mentions, message, naming
from stage_files import (
    CODES,
    FILES,
    MOUSE,
    NIGHT,
    accusleepy,
    lines,
    usleep,
    write,
)
from stageguard.errors import FileFormatError, InputError
from stageguard.formats.night import FileOptions
from stageguard.formats.read import is_hypnogram, read_hypnogram_file
from stageguard.formats.registry import detect

complaint = partial(message, FileFormatError, sg.read_hypnogram)


ASKED = ("dreem-json",)  # a bare list of numbers is read only where its format is named


@pytest.mark.parametrize(("name", "content", "form"), FILES, ids=[form for _, _, form in FILES])
def test_every_layout_is_found_and_read(tmp_path, name, content, form):
    path = write(tmp_path, name, content)
    assert detect(path, "hypnogram").name == form
    for options in ({"format": form},) if form in ASKED else ({}, {"format": form}):
        night = sg.read_hypnogram(path, **options)
        assert night.stages.tolist() == NIGHT
        assert (night.epoch_seconds, night.scheme.name) == (30.0, "aasm5")
    assert is_hypnogram(path)


@pytest.mark.parametrize(("name", "content", "form"), FILES, ids=[form for _, _, form in FILES])
def test_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path, name, content, form):
    if b"\x00" in content:
        return
    path = write(tmp_path, name, b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"))
    assert sg.read_hypnogram(path, format=form if form in ASKED else None).stages.tolist() == NIGHT
    other = write(tmp_path, name, content.decode().encode("utf-16"))
    assert "UTF-16" in complaint(other)


def test_a_format_may_be_named_and_misnamed(tmp_path):
    path = write(tmp_path, "night.txt", lines(NIGHT))
    with pytest.raises(InputError, match=r"unknown format 'usleep-hypp'. .* Did you mean 'usleep-hyp'\?"):
        sg.read_hypnogram(path, format="usleep-hypp")
    with pytest.raises(InputError, match=naming("'npz'")):
        sg.read_hypnogram(path, format="npz")
    assert mentions(complaint(path, format="usleep-tsv"), "init_sec")


# ---- U-Sleep


@pytest.mark.proves("usleep-hyp")
def test_usleep_hyp(tmp_path):
    path = write(tmp_path, "night.hyp", lines(["W", "REM", "UNKNOWN", "N3"]))
    assert sg.read_hypnogram(path).stages.tolist() == ["W", "R", "?", "N3"]
    assert mentions(complaint(write(tmp_path, "bad.hyp", lines(["W", "N7"])), format="usleep-hyp"), 2, "'N7'")


@pytest.mark.proves("usleep-tsv")
def test_usleep_runs(tmp_path):
    assert sg.read_hypnogram(write(tmp_path, "night.tsv", usleep())).stages.tolist() == NIGHT
    text = usleep().replace(b"UNKNOWN", b"XXXXXXX")
    assert mentions(complaint(write(tmp_path, "night.tsv", text)), "'XXXXXXX'")


def test_usleep_at_other_rates(tmp_path):
    """U-Sleep may predict every few seconds; runs of unequal length tell what they are multiples of."""
    rows = ["init_sec\tduration_sec\tstage", "0\t12\tW", "12\t6\tN1", "18\t24\tN2", "42\t6\tREM"]
    night = sg.read_hypnogram(write(tmp_path, "night.tsv", lines(rows)))
    assert (night.epoch_seconds, night.n_epochs) == (6.0, 8)
    assert night.stages.tolist() == ["W", "W", "N1", "N2", "N2", "N2", "N2", "R"]


# ---- AccuSleep


@pytest.mark.proves("accusleepy-csv")
def test_accusleepy_csv(tmp_path):
    found = read_hypnogram_file(write(tmp_path, "labels.csv", accusleepy()), FileOptions())
    assert found.hypnogram.stages.tolist() == MOUSE
    assert (found.hypnogram.epoch_seconds, found.hypnogram.scheme.name) == (2.5, "wnr3")
    assert any("1 REM, 2 Wake, 3 NREM" in note for note in found.notes)
    path = write(tmp_path, "labels.csv", lines(["brain_state", "1", "2", "3", "-1"]))
    assert sg.read_hypnogram(path, epoch_seconds=4).epoch_seconds == 4
    assert "line 3 is 7, expected one of" in complaint(
        write(tmp_path, "a.csv", lines(["brain_state", "1", "7"]))
    )


@pytest.mark.proves("accusleep-mat")
def test_accusleep_mat(tmp_path):
    io = pytest.importorskip("scipy.io")
    codes = np.array([{"R": 1, "W": 2, "N": 3, "?": 4}[stage] for stage in MOUSE], dtype=float)
    path = tmp_path / "labels.mat"
    io.savemat(path, {"labels": codes[:, None]})
    assert sg.read_hypnogram(path).stages.tolist() == MOUSE
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 20])
    assert "labels.mat: " in complaint(path)
    io.savemat(path, {"EEG": codes})
    assert "holds EEG, expected a variable 'labels'" in complaint(path)


def test_accusleep_mat_of_version_73(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "labels.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["labels"] = np.array([[2.0, 3.0, 1.0]])
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
    assert sg.read_hypnogram(path).stages.tolist() == ["W", "N", "R"]


# ---- Dreem


@pytest.mark.proves("dreem-json")
def test_dreem_json(tmp_path):
    path = write(tmp_path, "night.json", json.dumps([CODES[stage] for stage in NIGHT]).encode())
    night = sg.read_hypnogram(path, format="dreem-json")
    assert (night.stages.tolist(), night.epoch_seconds) == (NIGHT, 30.0)
    for content, expected in (
        (b"[0, 5]", "epoch 1 is 5, expected one of"),
        (b"[0, true]", "not a list of whole numbers"),
        (b"[0, 1", "is not readable JSON"),
        (b"[0, " + b"[" * 200_000, "is not readable JSON"),
    ):
        assert expected in complaint(write(tmp_path, "a.json", content), format="dreem-json")


@pytest.mark.proves("dreem-h5")
def test_dreem_h5(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "night.h5"
    with h5py.File(path, "w") as file:
        file["hypnogram"] = np.array([CODES[stage] for stage in NIGHT])
        file.attrs["start_time"] = 1_700_000_000
    night = sg.read_hypnogram(path)
    assert (night.stages.tolist(), night.start) == (NIGHT, datetime(2023, 11, 14, 22, 13, 20))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert mentions(complaint(path), "damaged or cut", "short")
    with h5py.File(path, "w") as file:
        file["signals"] = [1]
    assert mentions(complaint(path), "holds signals", "array")


# ---- whose epoch length


def test_the_default_of_accusleepy_does_not_go_before_the_profile(tmp_path, capsys):
    path = write(tmp_path, "labels.csv", b"brain_state\n" + b"2\n3\n3\n1\n" * 30)
    run, mouse = Runner(capsys), "mouse-eeg-emg-3"
    line = error_line(run("stats", path, "-p", mouse))
    assert mentions(line, "2.5 s", "AccuSleep", "4 s")
    assert line.endswith("Say which: --epoch-seconds 4.")
    (night,) = run("stats", path, "-p", mouse, "--epoch-seconds", "4", "--json").nights
    assert (night["epoch_seconds"], night["n_epochs"]) == (4.0, 120)
    assert sg.read_hypnogram(path).epoch_seconds == 2.5  # nobody else says
