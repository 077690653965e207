"""Recipes: built-in ones load, and travel as data."""

from __future__ import annotations

import pickle
import tomllib

import pytest

from stageguard.documents import toml_text
from stageguard.signals.features import FOLDER, Recipe, recipes

SMALL = {"name": "small", "modality": "eeg-emg", "epoch_seconds": 10}


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
