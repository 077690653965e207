"""Networks as files: what comes back, and what is refused."""

from __future__ import annotations

import hashlib
import json
import pickle

import numpy as np
import pytest
import torch

import stageguard
from feature_nights import NAMES, cohort, feature_table, options
from messages import mentions, naming
from stageguard.errors import FileFormatError, InputError, OutputExistsError, StageGuardWarning
from stageguard.night.stages import WS2
from stageguard.nn.checkpoint import TrainedModel, load_model, save_model
from stageguard.nn.training import train


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("checkpoint") / "m"
    train(cohort(), options(balanced=True, recipe="toy-4"), place)
    return place


@pytest.fixture
def copy(folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def message(error: type[Exception], function, *arguments, **keywords) -> str:
    with pytest.raises(error) as caught:
        function(*arguments, **keywords)
    text = str(caught.value)
    assert "\n" not in text
    return text


def edit(folder, **changes) -> None:
    card = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(card | changes))


def test_the_card_says_what_the_network_needs(folder):
    card = json.loads((folder / "model.json").read_text())
    assert card["features"] == {
        "recipe": "toy-4",
        "recipe_document": None,
        "names": list(NAMES),
        "n_frames": 1,
    }
    assert card["scheme"]["names"] == ["W", "N", "R"]
    assert card["epoch_seconds"] == 30.0
    assert card["trained"] == "balanced"
    assert card["normalisation"]["absolute"] == ["clock"]
    assert card["profile"]["name"] == "human-psg-3"
    assert card["versions"]["stageguard"] == stageguard.__version__
    assert card["versions"]["torch"] == torch.__version__
    assert card["training"]["options"]["seed"] == 42
    assert "s0" not in json.dumps(card)  # whose nights they were is nobody's business


def test_a_saved_network_gives_the_same_probabilities(folder, tmp_path):
    model = load_model(folder)
    table = feature_table(50)
    expected = model.probabilities(table)
    for path in (folder / "model.json", folder / "model.safetensors"):
        np.testing.assert_array_equal(load_model(path).probabilities(table), expected)
    save_model(TrainedModel(model.network, model.card), tmp_path / "again")
    assert load_model(tmp_path / "again").card == model.card
    with pytest.raises(OutputExistsError):
        save_model(model, tmp_path / "again")
    np.testing.assert_allclose(expected.sum(axis=1), 1.0)


def test_features_are_matched_by_name(folder):
    model = load_model(folder)
    table = feature_table(50)
    order = [2, 0, 3, 1]
    mixed = feature_table(50, values=table.values[..., order], names=tuple(NAMES[i] for i in order))
    np.testing.assert_array_equal(model.probabilities(mixed), model.probabilities(table))
    more = np.concatenate([np.ones((90, 1, 1)), table.values], axis=2)
    wider = feature_table(50, values=more, names=("extra", *NAMES))
    np.testing.assert_array_equal(model.probabilities(wider), model.probabilities(table))


def test_other_features_frames_epochs_or_stages_are_one_line(folder):
    model = load_model(folder)
    other = feature_table(50, names=("thetta", "delta", "muscle", "clock"))
    assert mentions(
        message(InputError, model.probabilities, other), "night50", "'theta'", "'toy-4'", 4, "'thetta'"
    )
    framed = feature_table(50, values=np.zeros((90, 2, 4)))
    assert mentions(message(InputError, model.density, framed), "night50", 2, 1, "'toy-4'")
    assert mentions(
        message(InputError, model.density, feature_table(50, epoch_seconds=20.0)), "20 s", "trained", "30 s"
    )
    assert mentions(message(InputError, model.density, feature_table(50, scheme=WS2)), "W, S", "W, N, R")


def test_half_a_file_is_one_line(copy):
    weights, card = copy / "model.safetensors", copy / "model.json"
    whole, text = weights.read_bytes(), card.read_text()
    weights.write_bytes(whole[: len(whole) // 2])
    assert mentions(
        message(FileFormatError, load_model, copy),
        "model.safetensors",
        f"{len(whole) // 2:,}",
        f"{len(whole):,}",
    )
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert mentions(message(FileFormatError, load_model, copy), "model.safetensors", "model.json", "written")
    weights.unlink()
    assert mentions(message(FileFormatError, load_model, copy), "model.safetensors", "beside", "model.json")
    card.write_text(text[: len(text) // 2])
    assert mentions(message(FileFormatError, load_model, copy), "model.json", "readable", "JSON")
    card.unlink()
    assert mentions(message(FileFormatError, load_model, copy), "model.json", "not a network")


def test_another_version_is_one_line(copy):
    edit(copy, stageguard_model=2, versions={"stageguard": "9.0.0"})
    assert message(FileFormatError, load_model, copy) == (
        f"model.json: has layout 2, written by stageguard 9.0.0; this version ({stageguard.__version__}) "
        "reads layout 1. Use that version, or train again."
    )
    (copy / "model.json").write_text("{}")
    assert mentions(message(FileFormatError, load_model, copy), "does not describe", "network")
    (copy / "model.json").write_text('{"stageguard_model": 1}')
    assert mentions(message(FileFormatError, load_model, copy), "model.json", "'backbone'")


def test_weights_of_another_network_are_refused(copy):
    edit(copy, network={"width": 0.5, "window_epochs": 3})
    assert mentions(
        message(FileFormatError, load_model, copy), "model.safetensors", "model.json", "describes"
    )


def test_a_card_of_a_far_larger_network_takes_no_memory(copy):
    card = json.loads((copy / "model.json").read_text())
    edit(copy, features=card["features"] | {"n_frames": 900_000_000}, network={"width": 100})
    assert mentions(message(FileFormatError, load_model, copy), "model.json", "describes a network")


def test_what_is_no_path_of_a_network_is_one_line():
    assert mentions(message(InputError, load_model, None), "path", "network")


def test_a_pickle_is_never_opened(copy):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was opened",))

    data = pickle.dumps(Bomb())
    card = json.loads((copy / "model.json").read_text())
    (copy / "model.safetensors").write_bytes(data)
    said = {"file": "model.safetensors", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    edit(copy, weights=card["weights"] | said)
    assert mentions(message(FileFormatError, load_model, copy), "model.safetensors", "not a safetensors")


def test_gaps_and_epochs_without_signal_are_rows_without_evidence(folder):
    model = load_model(folder)
    features = feature_table(50).values.copy()
    features[30] = np.nan
    table = feature_table(50, values=features, epochs=np.r_[100:160, 165:195])
    density = model.density(table)
    empty = np.flatnonzero(np.isnan(density.probabilities[:, 0]))
    assert density.n_epochs == 95
    assert empty.tolist() == [30, 60, 61, 62, 63, 64]
    assert density.epoch_seconds == 30.0


def test_one_epoch_can_be_staged_and_a_short_night_is_said(folder, tmp_path):
    model = load_model(folder)
    assert model.density(feature_table(50, n_epochs=1)).n_epochs == 1
    attending = train(
        cohort(),
        options(
            backbone="sleeptransformer",
            network={"small": True, "width": 0.1, "depth": 1, "training_length": 20},
            steps=4,
            evaluate_every=4,
        ),
        tmp_path / "m",
    )
    assert attending.card.length == 20
    with pytest.warns(StageGuardWarning, match=naming("night50", "7 epochs")):
        density = attending.density(feature_table(50, n_epochs=7))
    assert density.n_epochs == 7
