"""Probabilities of the installed YASA: its object, its JSON, its older frames."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from messages import mentions, naming
from stageguard.errors import FileFormatError, InputError
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_density_file, read_density_object

yasa = pytest.importorskip("yasa")
pd = pytest.importorskip("pandas")

FIVE = ["WAKE", "N1", "N2", "N3", "REM"]
P = np.random.default_rng(5).dirichlet(np.ones(5), 30)


def hypnogram(values: np.ndarray = P, names: list[str] = FIVE, **options: object):
    frame = pd.DataFrame(values, columns=names)
    return yasa.Hypnogram([names[i] for i in values.argmax(axis=1)], proba=frame, **options)


@pytest.mark.proves("object:yasa")
def test_a_hypnogram_of_yasa_gives_its_probabilities():
    mixed = hypnogram(P[:, ::-1], FIVE[::-1], start="2024-05-01 22:30:00", tz="Europe/Paris", scorer="YASA")
    density = sg.read_density(mixed)
    np.testing.assert_array_equal(density.probabilities, P)
    assert density.scheme.name == "aasm5"
    assert density.start == mixed.start.to_pydatetime()
    assert density.start.tzinfo is not None
    assert (density.epoch_seconds, density.source) == (30.0, "yasa.Hypnogram of YASA")
    assert read_density_object(mixed, FileOptions()).notes == ()


@pytest.mark.parametrize(("freq", "seconds"), [("4s", 4.0), ("2.5s", 2.5), ("1min", 60.0), ("500ms", 0.5)])
def test_the_epoch_length_is_yasas(freq, seconds):
    assert sg.read_density(hypnogram(freq=freq)).epoch_seconds == seconds
    with pytest.raises(InputError, match=naming("yasa.Hypnogram", "epoch_seconds=20")):
        sg.read_density(hypnogram(freq=freq), epoch_seconds=20)


@pytest.mark.parametrize(
    ("names", "scheme"),
    [
        (["WAKE", "SLEEP"], "ws2"),
        (["WAKE", "NREM", "REM"], "wnr3"),
        (["WAKE", "LIGHT", "DEEP", "REM"], "wldr4"),
    ],
)
def test_fewer_stages(names, scheme):
    values = np.random.default_rng(1).dirichlet(np.ones(len(names)), 8)
    density = sg.read_density(hypnogram(values, names, n_stages=len(names)))
    assert density.scheme.name == scheme
    np.testing.assert_array_equal(density.probabilities, values)


def test_stages_that_yasa_leaves_out_have_probability_zero():
    found = read_density_object(
        hypnogram(P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), FIVE[:2]), FileOptions()
    )
    assert (found.density.probabilities[:, 2:] == 0).all()
    assert found.notes == ("no probabilities for N2, N3, REM: read as 0",)


def test_unscored_and_artefact_are_no_stages():
    values = np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
    found = read_density_object(hypnogram(values, ["WAKE", "N2", "UNS"]), FileOptions())
    np.testing.assert_allclose(found.density.probabilities[0], [2 / 3, 0, 1 / 3, 0, 0])
    assert np.isnan(found.density.probabilities[1]).all()
    assert mentions(found.notes, "UNS", "remains")


@pytest.mark.proves("yasa-json")
@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_json_of_yasa_gives_its_probabilities(tmp_path, zone):
    own = hypnogram(freq="30s", start="2024-03-31 00:30:00", tz=zone, scorer="S1")
    own.to_json(tmp_path / "night.json")
    found = read_density_file(tmp_path / "night.json", FileOptions())
    again = yasa.Hypnogram.from_json(tmp_path / "night.json")
    np.testing.assert_array_equal(found.density.probabilities, again.proba.to_numpy())
    np.testing.assert_allclose(found.density.probabilities, P, atol=5e-7)
    assert found.density.start == own.start.to_pydatetime()
    assert (found.density.epoch_seconds, found.density.source, found.notes) == (30.0, "night.json", ())
    assert sg.read_density(json.loads((tmp_path / "night.json").read_text())).n_epochs == 30


def document(**changes: object) -> dict[str, object]:
    return hypnogram(P[:3]).to_dict() | changes


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"proba": None}, "has stages but no probabilities (proba is null). Read the stages with "),
        ({"proba": [1, 2]}, "has a proba that is not a list of numbers per stage."),
        ({"proba": {"WAKE": [1.0, "x", 0.0]}}, "has a column 'WAKE' that is not a list of numbers."),
        ({"proba": {"WAKE": [1.0, True]}}, "has a column 'WAKE' that is not a list of numbers."),
        ({"proba": {"WAKE": [1.0, 10**400]}}, "has a column 'WAKE' that is not a list of numbers."),
        ({"proba": {"WAKE": [1.0], "N1": [1.0, 2.0]}}, "has probabilities of different lengths"),
        ({"proba": {"WAKE": [1.0], "W": [1.0]}}, "has probabilities of different lengths, or twice for a"),
        ({"proba": {"LIGHT": [1.0]}}, "has probabilities for LIGHT, expected WAKE, N1, N2, N3, REM."),
        ({"n_stages": 7}, "has n_stages '7', expected 2, 3, 4 or 5."),
        ({"n_stages": True}, "has n_stages 'True', expected 2, 3, 4 or 5."),
        ({"freq": "often"}, "has the epoch length 'often', expected one such as 30s."),
        ({"freq": 30}, "has the epoch length '30', expected one such as 30s."),
        ({"start": "yesterday"}, "has the start 'yesterday', expected one such as 2024-05-01T22:30:00."),
    ],
)  # fmt: skip
def test_damaged_json_is_one_line(tmp_path, changes, expected):
    path = tmp_path / "night.json"
    path.write_text(json.dumps(document(**changes)))
    with pytest.raises(FileFormatError) as caught:
        sg.read_density(path)
    assert str(caught.value).startswith(f"night.json: {expected}")


def test_missing_numbers_in_json_are_epochs_without_evidence(tmp_path):
    path = tmp_path / "night.json"
    own = document()
    own["proba"] = {name: [None, *cells[1:]] for name, cells in own["proba"].items()}  # type: ignore[attr-defined]
    path.write_text(json.dumps(own))
    assert np.isnan(sg.read_density(path).probabilities).all(axis=1).tolist() == [True, False, False]


@pytest.mark.parametrize("names", [["N1", "N2", "N3", "R", "W"], ["N1", "N2", "N3", "REM", "WAKE"]])
def test_frames_of_older_versions_are_read_by_name(tmp_path: Path, names):
    frame = pd.DataFrame(P, columns=names)
    frame.index.name = "epoch"
    expected = P[:, [4, 0, 1, 2, 3]]
    np.testing.assert_array_equal(sg.read_density(frame).probabilities, expected)
    frame.to_csv(tmp_path / "proba.csv")
    np.testing.assert_array_equal(sg.read_density(tmp_path / "proba.csv").probabilities, expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of MNE, scikit-learn and YASA
def test_a_night_that_the_installed_yasa_staged():
    mne = pytest.importorskip("mne")
    signal = np.random.default_rng(0).normal(0, 2e-5, (1, 100 * 600))
    raw = mne.io.RawArray(signal, mne.create_info(["C4"], 100, "eeg"), verbose=False)
    staged = yasa.SleepStaging(raw, eeg_name="C4").predict()
    density = sg.read_density(staged)
    assert (density.n_epochs, density.epoch_seconds, density.source) == (20, 30.0, "yasa.Hypnogram of YASA")
    names = {"W": "WAKE", "R": "REM"}
    chosen = [names.get(stage, stage) for stage in np.array(density.scheme.names)[density.argmax]]
    assert chosen == staged.hypno.tolist()
