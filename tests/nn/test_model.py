"""Networks with a card, as files and as stagers: what comes back, and what is refused."""

from __future__ import annotations

import json
import pickle
from hashlib import sha256

import numpy as np
import pytest
import torch

import stageguard as sg
from feature_nights import NAMES, cohort, feature_table, options
from messages import mentions, message, naming
from stageguard.errors import FileFormatError, InputError, OutputExistsError, StageGuardWarning
from stageguard.night.stages import WS2
from stageguard.nn.model import TrainedModel, load_model, save_model
from stageguard.nn.training import train

PAPER = "kdd2026-cardiorespiratory"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("model") / "m"
    train(cohort(), options(balanced=True, recipe="toy-4"), place)
    return place


@pytest.fixture(scope="module")
def model(folder):
    return load_model(folder)


@pytest.fixture
def copy(folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def edit(folder, path: str, value: object) -> None:
    """Change an entry of the card by its path; None deletes it."""
    card = json.loads((folder / "model.json").read_text())
    *tables, last = path.split("/")
    held = card
    for table in tables:
        held = held[table]
    if value is None:
        del held[last]
    else:
        held[last] = value
    (folder / "model.json").write_text(json.dumps(card))


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
    assert card["versions"]["stageguard"] == sg.__version__
    assert card["versions"]["torch"] == torch.__version__
    assert card["training"]["options"]["seed"] == 42
    assert "s0" not in json.dumps(card)  # whose nights they were is nobody's business


def test_a_saved_network_gives_the_same_probabilities(folder, model, tmp_path):
    table = feature_table(50)
    expected = model.probabilities(table)
    for path in (folder / "model.json", folder / "model.safetensors"):
        np.testing.assert_array_equal(load_model(path).probabilities(table), expected)
    save_model(TrainedModel(model.network, model.card), tmp_path / "again")
    assert load_model(tmp_path / "again").card == model.card
    with pytest.raises(OutputExistsError):
        save_model(model, tmp_path / "again")
    np.testing.assert_allclose(expected.sum(axis=1), 1.0)


def test_features_are_matched_by_name(model):
    table = feature_table(50)
    order = [2, 0, 3, 1]
    mixed = feature_table(50, values=table.values[..., order], names=tuple(NAMES[i] for i in order))
    np.testing.assert_array_equal(model.probabilities(mixed), model.probabilities(table))
    more = np.concatenate([np.ones((90, 1, 1)), table.values], axis=2)
    wider = feature_table(50, values=more, names=("extra", *NAMES))
    np.testing.assert_array_equal(model.probabilities(wider), model.probabilities(table))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"names": ("thetta", "delta", "muscle", "clock")}, ("'theta'", "'thetta'")),
        ({"values": np.zeros((90, 2, 4))}, (2, "frames", 1)),
        ({"epoch_seconds": 20.0}, ("20.0", "seconds", "30.0")),
        ({"scheme": WS2}, ("'S'", "'N', 'R'")),
    ],
)
def test_other_features_frames_epochs_or_stages_are_one_line(model, changes, expected):
    text = message(InputError, model.density, feature_table(50, **changes))
    assert mentions(text, "night50", *expected)


def test_gaps_and_epochs_without_signal_are_rows_without_evidence(model):
    features = feature_table(50).values.copy()
    features[30] = np.nan
    density = model.density(feature_table(50, values=features, epochs=np.r_[100:160, 165:195]))
    empty = np.flatnonzero(np.isnan(density.probabilities[:, 0]))
    assert density.n_epochs == 95
    assert empty.tolist() == [30, 60, 61, 62, 63, 64]
    assert density.epoch_seconds == 30.0


def test_one_epoch_can_be_staged_and_a_short_night_is_said(model, tmp_path):
    assert model.density(feature_table(50, n_epochs=1)).n_epochs == 1
    sizes = {"small": True, "width": 0.1, "depth": 1, "training_length": 20}
    said = options(backbone="sleeptransformer", network=sizes, steps=4, evaluate_every=4)
    attending = train(cohort(), said, tmp_path / "m")
    assert attending.card.length == 20
    with pytest.warns(StageGuardWarning, match=naming("night50", "7 epochs")):
        assert attending.density(feature_table(50, n_epochs=7)).n_epochs == 7


@pytest.mark.filterwarnings("ignore::stageguard.errors.StageGuardWarning")
def test_a_paper_profile_is_given_the_networks_own_probabilities(model):
    night = feature_table(9)
    own, softened = (model.probabilities(night, temperature=on) for on in (False, True))
    assert np.abs(own - softened).max() > 1e-3
    for profile, said, expected in (
        (None, None, softened), (None, False, own), (PAPER, None, own), (PAPER, True, softened),
    ):  # fmt: skip
        staged = sg.stage(night, model, profile, temperature=said)
        np.testing.assert_array_equal(staged.density.probabilities, expected)
        is_soft = expected is softened
        assert any(("no temperature" in note) != is_soft for note in staged.notes if "staged by" in note)
        assert mentions(staged.notes, "carries no signal", "trusted")


# ---- files that are refused


def test_files_that_are_missing_cut_or_mixed_up_are_one_line(copy):
    weights, card = copy / "model.safetensors", copy / "model.json"
    whole, text = weights.read_bytes(), card.read_text()
    for content in (whole[: len(whole) // 2], whole[:-1] + bytes([whole[-1] ^ 1])):
        weights.write_bytes(content)
        assert mentions(message(FileFormatError, load_model, copy), "model.safetensors", "model.json")
    weights.unlink()
    assert mentions(message(FileFormatError, load_model, copy), "holds no model.safetensors")
    weights.write_bytes(whole)
    card.write_text(text[: len(text) // 2])
    assert mentions(message(FileFormatError, load_model, copy), "model.json", "JSON")
    card.unlink()
    assert mentions(message(FileFormatError, load_model, copy), "holds no model.json")
    assert mentions(message(InputError, load_model, None), "path", "network")


def exchange(folder, data: bytes) -> None:
    """Put other weights there, with the card's blessing."""
    (folder / "model.safetensors").write_bytes(data)
    edit(folder, "weights/sha256", sha256(data).hexdigest())


def test_a_pickle_is_never_opened(copy):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was opened",))

    exchange(copy, pickle.dumps(Bomb()))
    assert mentions(message(FileFormatError, load_model, copy), "model.safetensors", "does not fit")
