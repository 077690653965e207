"""Feature tables on disk: training reads back what was computed, and nothing is replaced by chance."""

from __future__ import annotations

import json

import numpy as np
import pytest

import stageguard as sg
from made_recordings import between, eeg_emg, recording, signal
from messages import naming
from stageguard.nn.data import read_features
from stageguard.signals.features import Recipe, write_features

WNR3 = sg.StageScheme.named("wnr3")


def made(frames=2):
    samples = eeg_emg(20)
    samples["eeg"][between(7, 10)] = np.nan
    own = Recipe.load("mouse-eeg-emg").replace(
        epoch_seconds=10.0, spectrogram={"frames": frames, "bins": [[1.0, 4.0, 1.0]]}
    )
    return sg.features(recording(**{role: signal(x) for role, x in samples.items()}), own)


def scoring(n_epochs, epoch_seconds=10.0):
    return sg.Hypnogram((np.arange(n_epochs) % 4 - 1).astype(np.int8), WNR3, epoch_seconds)


def read(path):
    return read_features(path, WNR3)


@pytest.mark.parametrize("n_scored", [15, 20, 25])
@pytest.mark.parametrize(("suffix", "frames"), [(".npz", 2), (".npz", 1), (".tsv", 1)])
def test_training_reads_back_what_was_computed(tmp_path, suffix, frames, n_scored):
    features = made(frames)
    path = write_features(features, tmp_path / "deep" / f"night{suffix}", scoring=scoring(n_scored))
    table = read(path)
    assert table.subject == "sleeper"
    assert table.names == features.names
    assert table.values == pytest.approx(features.values, rel=1e-6, nan_ok=True)
    assert np.array_equal(table.has_signal, features.has_signal)
    expected = np.full(20, -1)
    expected[:n_scored] = scoring(n_scored).labels[:20]
    assert table.labels.tolist() == expected.tolist()
    if suffix == ".npz":
        assert table.values.tobytes() == features.values.tobytes()
        assert table.epoch_seconds == 10.0


def test_an_archive_says_how_it_was_made_and_that_it_is_synthetic(tmp_path):
    features = made()
    path = write_features(features, tmp_path / "night.npz", is_synthetic=True)
    with np.load(path) as held:
        assert json.loads(str(held["recipe"])) == features.recipe
        assert str(held["recipe_sha256"]) == Recipe.from_dict(features.recipe).sha256
        assert str(held["scaling"]) == "robust"
        assert str(held["recording"]) == "night"
        assert bool(held["is_synthetic"])
        assert "stage" not in held


def test_the_same_features_are_the_same_bytes(tmp_path):
    first, second = (write_features(made(), tmp_path / name) for name in ("a.npz", "b.npz"))
    assert first.read_bytes() == second.read_bytes()


def test_nothing_is_replaced_by_chance(tmp_path):
    path = write_features(made(), tmp_path / "night.npz")
    before = path.read_bytes()
    with pytest.raises(sg.OutputExistsError, match="exists already"):
        write_features(made(), path, scoring=scoring(20))
    assert path.read_bytes() == before
    write_features(made(), path, scoring=scoring(20), overwrite=True)
    assert path.read_bytes() != before
    assert [file.name for file in tmp_path.iterdir()] == ["night.npz"]


def test_a_table_has_room_for_one_frame_only(tmp_path):
    with pytest.raises(sg.InputError, match=naming(2)):
        write_features(made(2), tmp_path / "night.tsv")
    assert not list(tmp_path.iterdir())


def test_another_kind_of_file_is_refused(tmp_path):
    with pytest.raises(sg.InputError, match=naming("'night.csv'")):
        write_features(made(1), tmp_path / "night.csv")


def test_a_scoring_of_another_epoch_length_is_refused(tmp_path):
    with pytest.raises(sg.InputError, match=naming("30 s", "10 s", "epoch_seconds=30")):
        write_features(made(), tmp_path / "night.npz", scoring=scoring(20, 30.0))
