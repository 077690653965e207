"""Files and objects that readers once took wrongly: damaged, cropped, mixed, incomplete."""

from __future__ import annotations

import contextlib
import json
import pickle
from dataclasses import replace
from datetime import date, time

import numpy as np
import pytest

import stageguard as sg
from messages import mentions, naming
from stageguard.errors import FileFormatError, InputError, MissingFileError, StageGuardError
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_hypnogram_file

P = np.random.default_rng(6).dirichlet(np.ones(5), 8)
WORDS = ["Sleep stage W", "Sleep stage N1", "Sleep stage N2", "Sleep stage R"]


def refused(source, read=sg.read_hypnogram, **options):
    with pytest.raises(StageGuardError) as caught:
        read(source, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def labels_file(folder, *, packed=False, **variables):
    io = pytest.importorskip("scipy.io")
    path = folder / "labels.mat"
    io.savemat(path, variables or {"labels": np.array([1.0, 2, 3, 3, 2])}, do_compression=packed)
    return path


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", [np.float64, np.uint8, np.int16, np.float32])
def test_mat_files_of_every_kind_of_number(tmp_path, packed, kind):
    labels = np.array([1, 2, 3, 3, 2], dtype=kind)
    path = labels_file(tmp_path, packed=packed, other="text", cells=np.array([{"a": 1}]), labels=labels)
    assert sg.read_hypnogram(path).stages.tolist() == ["R", "W", "N", "N", "W"]


def test_a_damaged_mat_file_is_one_line(tmp_path):
    path = labels_file(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:184] + b"\0\0\0\0" + data[188:])
    assert mentions(refused(path), "labels.mat", "damaged")
    for place in range(128, len(data)):
        for byte in (0, 0x7F, 0xFF):
            path.write_bytes(data[:place] + bytes([byte]) + data[place + 1 :])
            with contextlib.suppress(FileFormatError):
                sg.read_hypnogram(path)
        path.write_bytes(data[:place])
        with pytest.raises(FileFormatError):
            sg.read_hypnogram(path)


def edf(folder, *annotations):
    edfio = pytest.importorskip("edfio")
    path = folder / "night.edf"
    made = [edfio.EdfAnnotation(*each) for each in annotations]
    recording = edfio.Recording(startdate=date(2024, 1, 1))
    edfio.Edf([], starttime=time(22), recording=recording, annotations=made).write(path)
    return path


def read(path):
    return read_hypnogram_file(path, FileOptions())


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("W", "N1", "R", "M"), ["W", "N1", "R", "?"]),
        (("Stage W", "Stage 2", "Stage REM", "Wake"), ["W", "N2", "R", "W"]),
        (("Sleep stage W", "N2", "Sleep stage R"), ["W", "N2", "R"]),
        (("Sleep stage W@@C3", "Sleep stage N2@@C3", "Sleep stage R@@C3"), ["W", "N2", "R"]),
    ],
)
def test_stages_in_other_words_lose_no_epoch(tmp_path, texts, expected):
    path = edf(tmp_path, *((30 * place, 30, text) for place, text in enumerate(texts)), (61, 3, "Arousal"))
    assert read(path).hypnogram.stages.tolist() == expected


def test_a_name_alone_over_another_stage_is_no_stage(tmp_path):
    path = edf(tmp_path, (0, 30, "Sleep stage W"), (30, 30, "Sleep stage N2"), (30, 30, "R"), (95, 30, "R"))
    assert read(path).hypnogram.stages.tolist() == ["W", "N2"]


def test_what_is_left_of_a_last_epoch_is_said(tmp_path):
    found = read(
        edf(tmp_path, (0, 30, "Sleep stage W"), (30, 30, "Sleep stage N2"), (60, 17, "Sleep stage R"))
    )
    assert found.hypnogram.n_epochs == 2
    assert mentions(found.hypnogram.assumed, "17 s", "30 s")
    path = tmp_path / "a_events.tsv"
    path.write_text("onset\tduration\ttrial_type\n0\t300\tW\n300\t30\tN1\n330\t44\tR\n")
    found = read(path)
    assert found.hypnogram.stages[-1] == "R"
    assert mentions(found.notes, "14 s", "30 s")


def test_luna_classes_that_are_called_sleep_stage(tmp_path):
    path = tmp_path / "n.annot"
    head = "class\tinstance\tchannel\tstart\tstop\tmeta\n"
    path.write_text(
        head + "sleep_stage\tW\t.\t0\t30\t.\nsleep_stage\tN1\t.\t30\t60\t.\nN2\t.\t.\t60\t90\t.\n"
    )
    assert sg.read_hypnogram(path).stages.tolist() == ["W", "N1", "N2"]


def test_annotations_of_mne_without_length():
    mne = pytest.importorskip("mne")
    night = sg.read_hypnogram(mne.Annotations([0, 0, 30, 60], [0, 30, 30, 30], [WORDS[3], *WORDS[:3]]))
    assert night.stages.tolist() == ["W", "N1", "N2"]
    assert mentions(night.assumed, 1, "cropping leaves them")
    assert sg.read_hypnogram(mne.Annotations([0, 30, 60], [0] * 3, WORDS[:3])).stages.tolist() == [
        *("W", "N1", "N2")
    ]


DOCUMENT = {"values": ["WAKE", "N1", "REM"], "n_stages": 5, "freq": "30s", "start": None, "scorer": None}


def test_json_of_yasa_in_any_order_and_zone(tmp_path):
    path = tmp_path / "n.json"
    path.write_text(json.dumps(DOCUMENT | {"proba": None}, sort_keys=True))
    assert sg.read_hypnogram(path).stages.tolist() == ["W", "N1", "R"]
    path.write_text(json.dumps(DOCUMENT | {"start": "2024-07-01 22:00:00", "tz": "Europe/Berlin"}))
    assert sg.read_hypnogram(path).start.isoformat() == "2024-07-01T22:00:00+02:00"
    proba = {"WAKE": [1, 0], "N1": [0, 1], "N2": [0, 0], "N3": [0, 0], "REM": [0, 0]}
    path.write_text(json.dumps(DOCUMENT | {"proba": proba}))
    assert mentions(refused(path, sg.read_density), 3, "2 rows", "many")


def test_sleepecg_without_its_undefined_column_is_refused():
    assert mentions(refused(P, sg.read_density, format="sleepecg"), "UNDEFINED", 0, 1)


def test_missing_files_and_impossible_names(tmp_path):
    for read_it in (sg.read_hypnogram, sg.read_density):
        with pytest.raises(MissingFileError, match=naming("gone.csv", "file or directory")) as caught:
            read_it(tmp_path / "gone.csv")
        assert isinstance(caught.value, FileNotFoundError)
        with pytest.raises(InputError, match="has a NUL in it"):
            read_it("a\0b.csv")


def test_an_array_file_of_numbers_is_told_what_to_say(tmp_path):
    np.save(tmp_path / "int.npy", np.array([0, 1, 2]))
    message = refused(tmp_path / "int.npy")
    assert "format='numbers-yasa' or 'numbers-rk'" in message and "use read_density" in message


def test_small_things(tmp_path):
    path = tmp_path / "n.txt"
    path.write_text("\n\nW\nN1\nR\n")
    assert sg.read_hypnogram(path).stages.tolist() == ["W", "N1", "R"]
    path.write_text("\n0\n1\n4\n")
    assert sg.read_hypnogram(path, format="numbers-yasa").stages.tolist() == ["W", "N1", "R"]
    path = tmp_path / "n.csv"
    path.write_text('stage,x\nW,1\n"N1,2\nR,3\n')
    assert mentions(refused(path), "has a quote", 3)
    path.write_text('W,N,R\n0.2,0.3,0.5\n0.2,0.3,"0.5\n')
    assert mentions(refused(path, sg.read_density), "has a quote", 3)
    path = tmp_path / "a_events.tsv"
    path.write_text("onset\tduration\ttrial_type\n0\tn/a\tW\n30\tn/a\tN1\n")
    assert mentions(refused(path), 2, "'W'", "lasts")
    assert sg.read_hypnogram(np.array([b"W", b"N1", b"R"])).stages.tolist() == ["W", "N1", "R"]
    names = np.array([b"W", b"N1", b"N2", b"N3", b"R"])
    np.testing.assert_allclose(sg.read_density((P, names)).probabilities, P)


def test_what_was_assumed_stays_with_the_night():
    density = sg.read_density(P, stages="W,N1,N2,N3,R")
    said = ("the object does not say how long an epoch is: 30 s assumed",)
    assert density.assumed == said
    for same in (density.merge("wnr3"), pickle.loads(pickle.dumps(density)), density.reepoch(60)):
        assert same.assumed == said
    plain = replace(density, assumed=())
    assert plain == density and hash(plain) == hash(density) and repr(plain) == repr(density)
    night = sg.read_hypnogram(["W", "N1", "N2"])
    assert len(night.assumed) == 1 and pickle.loads(pickle.dumps(night)).assumed == night.assumed
    assert night.merge("wnr3").assumed == night.assumed
    with pytest.raises(InputError, match=naming("assumed", "'x'")):
        replace(density, assumed="x")
