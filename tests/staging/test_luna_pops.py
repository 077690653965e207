"""POPS of Luna: a small model, trained here, gives what lunapi gives; folders that are none."""

from __future__ import annotations

import numpy as np
import pytest

from stageguard.errors import InputError
from stageguard.pipeline import stage
from stageguard.staging import stager_of
from stageguard.synthetic import simulate_recording

PREPARE = """RESAMPLE sig=${s} sr=100
POPS force-reload path=${mpath} lib=${lib} alias=CEN|${s}
"""
FEATURES = """CH CEN 100 uV
spec: SPEC CEN lwr=1 upr=20
SELECT spec
"""
N_FEATURES = 77  # of the above


def fit(rows, labels, file):
    lightgbm = pytest.importorskip("lightgbm")
    settings = {"objective": "multiclass", "num_class": 5, "num_leaves": 7, "verbose": -1, "num_threads": 1}
    lightgbm.train(settings, lightgbm.Dataset(rows, labels), 20).save_model(str(file))


def luna_night(recording):
    lunapi = pytest.importorskip("lunapi")
    project = lunapi.proj(verbose=False)
    night = project.empty_inst("own", int(recording.seconds), 1)
    project.silence(True)
    eeg = recording.signals["eeg"]
    night.insert_signal("Cz", eeg.read(), int(eeg.rate_hz))
    return night


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A library of POPS: features by Luna, trees grown on the truth of another made-up night."""
    random, made = tmp_path_factory.mktemp("random"), tmp_path_factory.mktemp("pops")
    for library in (random, made):
        (library / "s2.ch1.txt").write_text(PREPARE)
        (library / "tiny.ftr").write_text(FEATURES)
    generator = np.random.default_rng(0)  # Luna computes no features without some model
    fit(generator.normal(size=(300, N_FEATURES)), generator.integers(0, 5, 300), random / "tiny.mod")
    night = simulate_recording("polysomnography", 5, seed=3, hours=3).recording
    luna = luna_night(night)
    luna.pops(s="Cz", path=str(random), lib="tiny", do_edger=False, args="output-features")
    table = luna.table("POPS", "E_FTR").pivot(index="E", columns="FTR", values="X")
    order = sorted(table.columns, key=lambda name: int(name.rpartition("V")[2]))
    truth = night.scorings["synthetic truth"].labels[: len(table)]
    luna_order = np.array([0, 2, 3, 4, 1])  # of W, N1, N2, N3, R among Luna's W, R, N1, N2, N3
    fit(table[order].to_numpy(dtype=float), luna_order[truth], made / "tiny.mod")
    return made


def test_pops_gives_the_probabilities_of_the_package(psg, folder, capfd):
    staged = stage(psg, f"luna-pops:{folder}", quality="none")
    assert capfd.readouterr() == ("", "")
    own = luna_night(psg).pops(s="Cz", path=str(folder), lib="tiny")
    rows = own[["PP_W", "PP_N1", "PP_N2", "PP_N3", "PP_R"]].to_numpy(dtype=float)
    used = own["E"].to_numpy(dtype=int) - 1
    np.testing.assert_allclose(staged.density.probabilities[used], rows, atol=1e-5)
    truth = psg.scorings["synthetic truth"].labels[used]
    assert np.mean(staged.density.argmax[used] == truth) > 0.6
    assert staged.profile.name == "human-psg-5" and staged.trained is None


def test_epochs_that_luna_leaves_out_have_no_probabilities(psg, folder, monkeypatch):
    lunapi = pytest.importorskip("lunapi")
    own = lunapi.instance.inst.pops
    monkeypatch.setattr(lunapi.instance.inst, "pops", lambda self, **said: own(self, **said).iloc[4:])
    rows = stager_of(f"luna-pops:{folder}").stage(psg).probabilities
    assert np.isnan(rows[:4]).all() and np.isfinite(rows[4:]).all() and len(rows) == 180


@pytest.mark.parametrize("name", ["luna-pops", "luna-pops:", "luna-pops:no/such/folder"])
def test_a_missing_folder_is_named_in_one_line(psg, name):
    with pytest.raises(InputError) as caught:
        stage(psg, name)
    assert "folder" in str(caught.value) and "\n" not in str(caught.value)


def test_luna_that_fails_is_named_in_one_line(psg, folder, tmp_path):
    (tmp_path / "s2.ch1.txt").write_text(PREPARE)
    (tmp_path / "tiny.mod").write_bytes((folder / "tiny.mod").read_bytes())
    with pytest.raises(InputError, match=r"tiny\.ftr"):  # the features are missing
        stager_of(f"luna-pops:{tmp_path}").stage(psg)
