"""Guarded at its edges: half precision, frozen parts, short and empty nights, other people's losses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from documents import profile_of
from messages import mentions
from stageguard.errors import InputError
from stageguard.nn import Guarded, SemiMarkovLoss, StageGuardLoss
from stageguard.nn.backbones import build_backbone
from stageguard.nn.inference import stretch_probabilities

PROFILE = profile_of(rare=[["W", "R"]])


def message(function, *arguments, **keywords) -> str:
    with pytest.raises(InputError) as caught:
        function(*arguments, **keywords)
    text = str(caught.value)
    assert "\n" not in text
    return text


class Softmax(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x):
        return self.inner(x).softmax(-1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_probabilities_may_be_in_half_precision(dtype):
    torch.manual_seed(0)
    network, x = Softmax(), torch.randn(2, 50, 4)
    expected = network(x).log()
    found = Guarded(network.to(dtype), PROFILE, outputs="probabilities")(x.to(dtype))
    assert found.dtype == torch.float32
    assert (found.exp() - expected.exp()).abs().max() < 0.02
    text = message(Guarded(network, PROFILE), x.to(dtype))
    assert mentions(text, 1, "look like probabilities")


def test_a_frozen_part_stays_frozen_after_predicting():
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Dropout(0.5))
    guarded = Guarded(model, PROFILE)
    guarded.train()
    model[1].eval()
    guarded.probabilities(torch.randn(9, 4))
    assert [part.training for part in model] == [True, False, True]
    assert guarded.training and model.training
    network = nn.Sequential(nn.Flatten(2), nn.Linear(4, 3), nn.Dropout(0.5))
    network[2].eval()
    stretch_probabilities(network, np.ones((5, 1, 4), dtype=np.float32), length=None)
    assert [part.training for part in network] == [True, True, False]


@pytest.mark.parametrize("n_epochs", [12, 20, 45])
def test_a_night_is_shown_as_predict_shows_it(n_epochs):
    torch.manual_seed(0)
    network = build_backbone(
        "sleeptransformer", n_frames=1, n_features=4, n_stages=3, small=True, training_length=20, width=0.1
    )
    night = torch.randn(n_epochs, 1, 4)
    expected = stretch_probabilities(network, night.numpy(), length=20)
    np.testing.assert_array_equal(Guarded(network, PROFILE).probabilities(night), expected)


def test_what_is_no_night_is_one_line():
    guarded = Guarded(nn.Linear(4, 3), PROFILE)
    night = torch.randn(9, 4)
    assert mentions(message(guarded.predict, night[:0]), "(0, 4)")
    assert message(guarded.predict, [night, night[:0]]).startswith("input: got shape (0, 4), expected at")
    for wrong, kind in ((None, "NoneType"), (3, "int"), (night.numpy(), "ndarray")):
        assert mentions(message(guarded.predict, wrong), "input", kind, "torch.Tensor")


class NoSegments(nn.Module):
    def forward(self, logits, targets, mask):
        return logits.sum()


def test_a_loss_that_cannot_be_called_is_refused_when_it_is_given():
    assert mentions(
        message(Guarded, nn.Linear(4, 3), PROFILE, criterion=nn.CrossEntropyLoss()),
        "CrossEntropyLoss",
        "StageGuardLoss",
        "SemiMarkovLoss",
    )
    assert mentions(
        message(Guarded, nn.Linear(4, 3), PROFILE, criterion=lambda *_: 0),
        "criterion",
        "torch.nn.Module",
        "StageGuardLoss",
    )
    x, targets = torch.randn(2, 9, 4), torch.zeros(2, 9, dtype=torch.long)
    guarded = Guarded(nn.Linear(4, 3), PROFILE, criterion=NoSegments())
    guarded.loss(x, targets)
    assert message(guarded.loss, x, targets, segment_ids=targets).startswith(
        "criterion NoSegments does not take (logits, targets, mask, segment_ids)."
    )
    for own in (StageGuardLoss(PROFILE), SemiMarkovLoss(PROFILE)):
        Guarded(nn.Linear(4, 3), PROFILE, criterion=own).loss(x, targets, segment_ids=targets)
