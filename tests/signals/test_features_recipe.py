"""Recipes: built-in ones load, travel as data, and say what is wrong with them."""

from __future__ import annotations

import pickle
import tomllib

import pytest

import stageguard as sg
from messages import naming
from stageguard.signals.features import FOLDER, Recipe, recipes

SMALL = {"name": "small", "modality": "eeg-emg", "epoch_seconds": 10}


@pytest.mark.parametrize("name", recipes())
def test_a_built_in_recipe_says_what_it_is_and_spells_out_all_of_its_options(name):
    recipe = Recipe.load(name)
    written = tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
    assert recipe.name == name
    assert recipe.summary
    assert recipe.provenance
    assert set(written) <= set(recipe.to_dict())
    assert Recipe.load(name) is recipe  # read once


@pytest.mark.parametrize("name", recipes())
def test_a_recipe_survives_a_dictionary_a_file_and_a_pickle(name, tmp_path):
    recipe = Recipe.load(name)
    recipe.save(tmp_path / "own.toml")
    for other in (
        Recipe.from_dict(recipe.to_dict()),
        Recipe.load(tmp_path / "own.toml"),
        Recipe.load(str(tmp_path / "own.toml")),
        pickle.loads(pickle.dumps(recipe)),
    ):
        assert other == recipe
        assert hash(other) == hash(recipe)
        assert other.to_dict() == recipe.to_dict()


def test_defaults_count_as_if_they_were_written():
    short = Recipe.from_dict(SMALL)
    long = Recipe.from_dict(SMALL | {"spectrogram": {"taper": "multitaper"}, "scaling": {"method": "robust"}})
    assert short == long
    assert short.sha256 == long.sha256
    assert short != Recipe.from_dict(SMALL | {"spectrogram": {"taper": "hann"}})


def test_replace_gives_another_recipe():
    recipe = Recipe.from_dict(SMALL)
    other = recipe.replace(epoch_seconds=4)
    assert (recipe.epoch_seconds, other.epoch_seconds) == (10, 4)
    assert other.settings == recipe.settings


def test_a_recipe_is_not_overwritten_by_chance(tmp_path):
    Recipe.from_dict(SMALL).save(tmp_path / "own.toml")
    with pytest.raises(sg.OutputExistsError, match="exists already"):
        Recipe.from_dict(SMALL).save(tmp_path / "own.toml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, ("'name'",)),
        ({"modality": None}, ("key 'modality' is missing",)),
        ({"modality": "eeg"}, ("modality is 'eeg', expected 'eeg-emg' or", "Did you mean 'eeg-emg'")),
        ({"epoch_seconds": 0}, ("epoch_seconds is 0",)),
        ({"epoch_seconds": "4"}, ("epoch_seconds", "'4'")),
        (
            {"spectrogramm": {}},
            ("'spectrogramm'", "'spectrogram'"),
        ),
        ({"spectrogram": 3}, ("spectrogram", 3, "table")),
        ({"spectrogram": {"tapers": 3}}, ("'tapers'", "'taper'")),
        (
            {"spectrogram": {"taper": "hamming"}},
            ("spectrogram.taper", "'hamming'", "'multitaper'", "'hann'"),
        ),
        (
            {"spectrogram": {"bins": [[0.5, 30.5, 5e-324]]}},
            ("spectrogram.bins[0] is [0.5, 30.5, 5e-324], expected", "of 1 to 10,000 whole widths"),
        ),
        ({"spectrogram": {"bins": [[0.0, 30.0, 1e-9]]}}, ("spectrogram.bins[0] is", ", expected")),
        ({"spectrogram": {"frames": 0}}, ("spectrogram.frames", 0, "whole", 1)),
        ({"spectrogram": {"frames": 2.0}}, ("spectrogram.frames", "2.0", "whole")),
        ({"spectrogram": {"frames": True}}, ("spectrogram.frames", "is True")),
        ({"spectrogram": {"n_tapers": 9}}, ("n_tapers", 9, 2, "time_bandwidth", 4)),
        (
            {"spectrogram": {"bins": [[1, 10]]}},
            ("spectrogram.bins[0] is", "expected [lower, upper, width]"),
        ),
        ({"spectrogram": {"bins": [[1, 10, 4]]}}, ("spectrogram.bins[0] is", "of 1 to 10,000 whole widths")),
        ({"spectrogram": {"bins": [[10, 1, 1]]}}, ("spectrogram.bins[0] is",)),
        ({"spectrogram": {"channels": "eeg"}}, ("spectrogram.channels", "'eeg'")),
        ({"spectrogram": {"channels": [1]}}, ("spectrogram.channels[0] is 1, expected text",)),
        ({"emg": {"band": [50, 20]}}, ("emg.band", 50, 20, "upper")),
        ({"scaling": {"method": "z"}}, ("scaling.method", "'z'", "'robust'", "'none'")),
        ({"scaling": {"weights": {"W": 0}}}, ("scaling.weights.W", 0, "above", 0)),
        ({"scaling": {"clip": -1}}, ("scaling.clip", -1, "least", 0)),
        ({"absolute": "clock"}, ("absolute", "'clock'")),
        ({"provenance": "me"}, ("provenance", "'me'")),
    ],
)
def test_what_is_wrong_is_named(change, message):
    document = {key: value for key, value in (SMALL | change).items() if value is not None}
    with pytest.raises(sg.InputError, match=naming(*message)):
        Recipe.from_dict(document)


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(
        sg.InputError, match=r"unknown recipe 'mouse-eeg'. Built in: .*Did you mean 'mouse-eeg-emg'"
    ):
        Recipe.load("mouse-eeg")


def test_a_file_that_is_missing_or_no_toml_is_named(tmp_path):
    with pytest.raises(sg.InputError, match=r"none.toml: no such file"):
        Recipe.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("name = \n")
    with pytest.raises(sg.FileFormatError, match=r"bad.toml: not valid TOML"):
        Recipe.load(tmp_path / "bad.toml")
    (tmp_path / "wrong.toml").write_text('name = "x"\n')
    with pytest.raises(sg.InputError, match=r"wrong.toml: key 'modality' is missing"):
        Recipe.load(str(tmp_path / "wrong.toml"))
