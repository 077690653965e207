"""One epoch length in a whole run: from option, tables or profile to loss, validation, network and card."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import stageguard.nn.inference as inference
from feature_nights import cohort, feature_table, options
from messages import mentions
from stageguard.errors import InputError
from stageguard.nn.checkpoint import load_model
from stageguard.nn.semi_markov import SemiMarkovLoss
from stageguard.nn.tables import check_together, epoch_length, fingerprint
from stageguard.nn.training import train


def nights(seconds: float | None, n: int = 4) -> list:
    return [feature_table(k, epoch_seconds=seconds) for k in range(n)]


@pytest.mark.parametrize(
    ("seconds", "said", "expected"),
    [(None, None, 30.0), (20.0, None, 20.0), (None, 15.0, 15.0), (20, 20, 20)],
)
def test_loss_validation_and_card_have_the_same_epoch_length(tmp_path, monkeypatch, seconds, said, expected):
    seen = {}
    make, decode = SemiMarkovLoss.__init__, inference.decode

    def made(self, *arguments, **keywords):
        make(self, *arguments, **keywords)
        seen["loss"] = self._lattice.automaton.epoch_seconds

    def decoded(*arguments, **keywords):
        found = decode(*arguments, **keywords)
        seen["validation"] = found[0].hypnogram.epoch_seconds
        return found

    monkeypatch.setattr(SemiMarkovLoss, "__init__", made)
    monkeypatch.setattr(inference, "decode", decoded)
    said_options = options(loss="semi-markov", steps=1, evaluate_every=1, epoch_seconds=said)
    model = train(nights(seconds), said_options, tmp_path / "m")
    seen["card"] = model.card.epoch_seconds
    assert seen == dict.fromkeys(("loss", "validation", "card"), expected)


def test_filters_of_a_network_are_measured_in_the_seconds_of_its_epochs(tmp_path):
    rng = np.random.default_rng(0)
    raw = [
        feature_table(k, values=rng.normal(size=(90, 400, 1)), names=("eeg",), epoch_seconds=4.0)
        for k in range(3)
    ]
    said = options(
        backbone="deepsleepnet",
        network={"width": 0.02},
        absolute=(),
        profile="mouse-eeg-emg-3",
        sequence_epochs=2,
        steps=1,
        evaluate_every=1,
    )
    model = train(raw, said, tmp_path / "m")
    assert model.network.fine[0].kernel_size == (50,)  # half a second at 100 Hz
    again = load_model(tmp_path / "m")
    assert again.network.fine[0].kernel_size == (50,)
    assert torch.equal(again.network.output.weight, model.network.output.weight)


def test_tables_must_agree_with_each_other_and_with_the_option(tmp_path):
    mixed = [*nights(None, 2), *nights(30.0, 3)[2:], feature_table(3, epoch_seconds=20.0)]
    with pytest.raises(InputError) as caught:
        check_together(mixed)
    assert mentions(str(caught.value), "night3", "20 s", "night2", "30 s")
    with pytest.raises(InputError) as caught:
        train(nights(30.0), options(epoch_seconds=20.0), tmp_path / "m")
    assert mentions(str(caught.value), "night0", "30 s", "epoch_seconds", 20)
    assert epoch_length(mixed[:3]) == 30.0
    assert epoch_length(cohort(2)) is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), "30"])
def test_an_epoch_length_that_is_none_is_refused(seconds):
    with pytest.raises(InputError, match=r"^night1: epoch_seconds is .*, expected a "):
        feature_table(1, epoch_seconds=seconds)


def test_the_fingerprint_of_the_data_knows_epoch_length_and_recipe():
    prints = {
        fingerprint(tables)
        for tables in (
            nights(None),
            nights(30.0),
            nights(20.0),
            [feature_table(k, recipe={"name": "own"}) for k in range(4)],
        )
    }
    assert len(prints) == 4
    assert fingerprint(nights(30.0)) == fingerprint(nights(30.0))
