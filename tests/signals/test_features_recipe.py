"""Recipes: built-in ones load, travel as data, and their features are written and read back."""

from __future__ import annotations

import json
import pickle
import tomllib

import numpy as np
import pytest

import stageguard as sg
from made_recordings import between, eeg_emg, recording, signal
from stageguard.documents import toml_text
from stageguard.nn.data import read_features
from stageguard.signals.features import FOLDER, Recipe, recipes, write_features

SMALL = {"name": "small", "modality": "eeg-emg", "epoch_seconds": 10}
WNR3 = sg.StageScheme.named("wnr3")


@pytest.mark.parametrize("name", recipes())
def test_a_recipe_survives_a_dictionary_a_file_and_a_pickle(name, tmp_path):
    recipe = Recipe.load(name)
    written = tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
    assert (recipe.name, bool(recipe.summary), bool(recipe.provenance)) == (name, True, True)
    assert set(written) <= set(recipe.to_dict())
    (tmp_path / "own.toml").write_text(toml_text(recipe.to_dict()))
    for other in (
        Recipe.from_dict(recipe.to_dict()),
        Recipe.load(tmp_path / "own.toml"),
        Recipe.load(str(tmp_path / "own.toml")),
        pickle.loads(pickle.dumps(recipe)),
    ):
        assert (other, other.to_dict(), other.sha256) == (recipe, recipe.to_dict(), recipe.sha256)


def test_the_recipe_of_an_earlier_network_still_loads():
    old = SMALL | {"scaling": {"clip": 3, "weights": {"W": 0.3, "N": 0.7}}, "spo2": {"use": "never"}}
    assert Recipe.from_dict(old) == Recipe.from_dict(SMALL | {"scaling": {"clip": 3}})


def made():
    samples = eeg_emg(20)
    samples["eeg"][between(7, 10)] = np.nan
    own = Recipe.load("mouse-eeg-emg").replace(
        epoch_seconds=10.0, spectrogram={"frames": 2, "bins": [[1.0, 4.0, 1.0]]}
    )
    return sg.features(recording(**{role: signal(x) for role, x in samples.items()}), own)


def scoring(n_epochs, epoch_seconds=10.0):
    return sg.Hypnogram((np.arange(n_epochs) % 4 - 1).astype(np.int8), WNR3, epoch_seconds)


@pytest.mark.parametrize("n_scored", [15, 20, 25])
def test_training_reads_back_what_was_computed(tmp_path, n_scored):
    features = made()
    path = write_features(features, tmp_path / "deep" / "night.npz", scoring=scoring(n_scored))
    table = read_features(path, WNR3)
    assert (table.subject, table.names, table.epoch_seconds) == ("sleeper", features.names, 10.0)
    assert table.values.tobytes() == features.values.tobytes()
    expected = np.full(20, -1)
    expected[:n_scored] = scoring(n_scored).labels[:20]
    assert table.labels.tolist() == expected.tolist()


def test_an_archive_says_how_it_was_made_and_that_it_is_synthetic(tmp_path):
    features = made()
    path = write_features(features, tmp_path / "night.npz", is_synthetic=True)
    with np.load(path) as held:
        assert json.loads(str(held["recipe"])) == features.recipe
        assert str(held["recipe_sha256"]) == Recipe.from_dict(features.recipe).sha256
        assert (str(held["scaling"]), str(held["recording"])) == ("robust", "night")
        assert bool(held["is_synthetic"]) and "stage" not in held
    assert write_features(made(), tmp_path / "b.npz", is_synthetic=True).read_bytes() == path.read_bytes()


def test_a_scoring_of_another_epoch_length_is_refused(tmp_path):
    with pytest.raises(sg.InputError, match=r"epochs of 30 s.* have 10 s"):
        write_features(made(), tmp_path / "night.npz", scoring=scoring(20, 30.0))
    with pytest.raises(sg.InputError, match=r"'night.csv', expected a name ending in .npz"):
        write_features(made(), tmp_path / "night.csv")
    assert not list(tmp_path.iterdir())
