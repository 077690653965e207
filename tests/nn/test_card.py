"""A card edited by hand or of another network: one line that names model.json and the key."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save

from feature_nights import cohort, options
from messages import mentions, naming
from stageguard.errors import FileFormatError
from stageguard.nn.checkpoint import load_model
from stageguard.nn.training import train

GONE = object()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("card") / "m"
    train(cohort(), options(steps=2, evaluate_every=2), place)
    return place


@pytest.fixture
def copy(folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def refused(folder, key: str, value: Any) -> str:
    """Change an entry by its path, and return what loading then says."""
    card = json.loads((folder / "model.json").read_text())
    *tables, last = key.split("/")
    held = card
    for table in tables:
        held = held[table]
    if value is GONE:
        del held[last]
    else:
        held[last] = value
    (folder / "model.json").write_text(json.dumps(card))
    with pytest.raises(FileFormatError) as caught:
        load_model(folder)
    text = str(caught.value)
    assert "\n" not in text
    return text


KEYS = [
    *("backbone", "network", "scheme", "epoch_seconds", "features", "normalisation", "length", "temperature"),
    *("trained", "profile", "training", "weights", "features/names", "features/n_frames", "features/recipe"),
    *("normalisation/mean", "normalisation/clip", "profile/definition", "profile/sha256", "weights/bytes"),
    *("weights/sha256", "weights/file"),
]


@pytest.mark.parametrize("key", KEYS)
def test_an_entry_that_is_missing_is_named(copy, key):
    table, _, last = key.rpartition("/")
    assert mentions(refused(copy, key, GONE), "model.json", f"{last!r}", table or "the document")


OTHERS = [
    (key, value)
    for key in KEYS
    for value in (None, -1, {"a": 1}, True)
    if (key, value) not in (("length", None), ("network", {"a": 1}), ("training", {"a": 1}))
]


@pytest.mark.parametrize(("key", "value"), OTHERS)
def test_an_entry_of_another_kind_is_one_line(copy, key, value):
    text = refused(copy, key, value)
    assert text.startswith("model.json: ")
    assert key.split("/")[-1] in text


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("temperature", 0, "temperature is 0, expected a number above 0."),
        ("temperature", "warm", "temperature is 'warm', expected a number."),
        ("length", 0, "length is 0, expected a whole number of at least 1."),
        ("trained", "semi", "trained is 'semi', expected 'natural' or 'balanced'."),
        ("epoch_seconds", 0, "epoch_seconds is 0, expected a number from 0.001 to 86400."),
        ("features/n_frames", "x", "features.n_frames is 'x', expected a whole number of at least 1."),
        ("features/names", "abcd", "features.names is 'abcd', expected a list in square brackets."),
        ("features/names", ["theta"] * 4, "features.names are not different from each other."),
        ("normalisation/spread", [0], "spread of 'clock' is 0.0, expected a number above 0."),
        ("normalisation/mean", [], "mean has 0 numbers for 1 absolute features, expected one for each."),
        ("normalisation/clip", -1, "normalisation.clip is -1, expected a number above 0."),
        ("normalisation/kind", "day", "normalisation.kind is 'day', expected 'night' or 'none'."),
        (
            "normalisation/absolute",
            ["x"],
            "normalisation.absolute names 'x', which is not among the features.",
        ),
        ("scheme/names", ["W", "R", "N"], "scheme is not that of its profile (W, N, R)."),
        ("profile/sha256", "0" * 64, "profile.sha256 is not that of profile.definition."),
        ("profile/definition/transitions", {}, "profile.definition: "),
        ("weights/file", "other", "weights.file is 'other', expected 'model.safetensors'."),
        ("network", {"n_frames": 2}, "network has 'n_frames', which follows from the features."),
        ("network", {"foo": 2}, "backbone 'accusleep' has no option 'foo'."),
        ("backbone", "zzz", "there is no backbone 'zzz'."),
    ],
)
def test_a_value_out_of_its_range_is_named(copy, key, value, expected):
    assert refused(copy, key, value).startswith(f"model.json: {expected}")


@pytest.mark.parametrize("version", [True, 1.0, "1", 2])
def test_the_layout_is_a_whole_number(copy, version):
    assert refused(copy, "stageguard_model", version).startswith(f"model.json: has layout {version!r}, ")


def test_versions_in_another_shape_do_no_harm(copy):
    card = json.loads((copy / "model.json").read_text())
    (copy / "model.json").write_text(json.dumps(card | {"stageguard_model": 2, "versions": "x"}))
    with pytest.raises(FileFormatError, match=naming("has layout", 2)):
        load_model(copy)


def test_a_network_that_takes_one_length_is_shown_no_other(tmp_path):
    said = options(
        backbone="sleeptransformer",
        network={"small": True, "width": 0.1, "depth": 1, "training_length": 20},
        steps=1,
        evaluate_every=1,
    )
    train(cohort(), said, tmp_path / "m")
    assert mentions(refused(tmp_path / "m", "length", 30), "model.json", "length", 30, 20)


def exchange(folder, tensors) -> None:
    """Put other weights there, with the card's blessing."""
    import hashlib

    data = save(tensors)
    (folder / "model.safetensors").write_bytes(data)
    card = json.loads((folder / "model.json").read_text())
    card["weights"] |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "model.json").write_text(json.dumps(card))


def test_weights_that_do_not_fit_say_which_and_how(copy):
    held = load_file(copy / "model.safetensors")
    for tensors, expected in (
        ({k: v for k, v in held.items() if k != "output.bias"}, "'output.bias' is missing"),
        (held | {"more": torch.zeros(1)}, "'more' is unknown"),
        (held | {"output.bias": torch.zeros(5)}, "'output.bias' has shape (5,), expected (3,)"),
    ):
        exchange(copy, tensors)
        with pytest.raises(FileFormatError) as caught:
            load_model(copy)
        assert mentions(str(caught.value), "model.safetensors", "model.json", expected)
