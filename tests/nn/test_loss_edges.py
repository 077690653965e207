"""The losses at their edges: nothing to compare, numbers that are none, and where warnings point."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from documents import profile_of
from feature_nights import cohort, options
from messages import mentions, naming
from stageguard.errors import InputError, StageGuardWarning
from stageguard.nn import Guarded, SemiMarkovLoss, StageGuardLoss, TransitionPenalty
from stageguard.nn.tables import Normalisation, make_batch, round_of_batches
from stageguard.nn.training import Objective
from stageguard.profile.profile import Profile

NAN = float("nan")
RARE = profile_of(rare=[["W", "R"]])


def message(function, *arguments, **keywords) -> str:
    with pytest.raises(InputError) as caught:
        function(*arguments, **keywords)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_network_that_says_nan_is_named_where_there_is_no_pair_either():
    one = torch.tensor([[[0.0, NAN, 0.0]]])
    expected = "logits: nan for N at sequence 0, epoch 0, expected finite numbers."
    assert message(TransitionPenalty(RARE), one).startswith(expected)
    with pytest.warns(StageGuardWarning, match=naming("transition", "penalty is zero")):
        nothing_rare = TransitionPenalty("human-psg-3")
    assert message(nothing_rare, one.expand(1, 4, 3)).startswith(expected)
    masked = torch.cat([torch.zeros(1, 1, 3), one], dim=1)
    assert nothing_rare(masked, torch.tensor([[True, False]])) == 0
    assert TransitionPenalty(RARE)(torch.tensor([[[0.0, -float("inf"), 0.0]]])) == 0


@pytest.mark.parametrize("weights", [1.0, torch.tensor(1.0), 3])
def test_one_weight_for_all_stages_is_refused(weights):
    assert message(StageGuardLoss, RARE, class_weights=weights).startswith("class_weights: got ")


def test_learned_scores_that_are_no_numbers_are_named():
    loss = SemiMarkovLoss(profile_of(), learn_transitions=True)
    with torch.no_grad():
        loss.transition_scores[0, 2] = NAN
    expected = "transition_scores: nan from W to R, expected finite numbers. Lower the learning rate."
    assert message(loss, torch.zeros(1, 4, 3), torch.zeros(1, 4, dtype=torch.long)) == expected
    assert message(loss.learned_profile, "mine") == expected


def place_of_warning(run) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StageGuardWarning)
        run()
    return next(w.filename for w in caught if issubclass(w.category, StageGuardWarning))


def test_warnings_point_to_the_line_that_led_to_them():
    short = profile_of(min_bout_seconds={"N": 300.0})
    logits, targets = torch.zeros(1, 9, 3), torch.tensor([[0, 1, 0, 1, 0, 1, 0, 1, 0]])
    guarded = Guarded(nn.Identity(), short, criterion=SemiMarkovLoss(short))
    for run in (
        lambda: TransitionPenalty("human-psg-3"),
        lambda: StageGuardLoss("human-psg-3"),
        lambda: SemiMarkovLoss(short)(logits, targets),
        lambda: guarded.loss(logits, targets),
    ):
        assert place_of_warning(run) == __file__


def test_warnings_say_what_a_configuration_can_do_too():
    with pytest.warns(StageGuardWarning) as caught:
        StageGuardLoss("human-psg-3")
    text = str(caught[0].message)
    assert mentions(text, '"W"', '"R"', 0)


def test_windows_cut_out_of_nights_are_not_asked_to_begin_with_a_whole_bout():
    profile = Profile.load("kdd2026-cardiorespiratory")
    assert profile.ends == "paper"
    said = options(loss="semi-markov", profile=profile)
    objective = Objective(profile, said, np.ones(3, dtype=np.int64))
    stretches = Normalisation().stretches(cohort())
    freed = {"as trained": 0, "as published": 0}
    published = SemiMarkovLoss(profile)
    for windows in round_of_batches(stretches, 20, 4, (1, 0)):
        _, labels, mask = make_batch(stretches, windows, 20)
        given = [torch.zeros(*labels.shape, 3), *map(torch.from_numpy, (labels, mask))]
        freed["as trained"] += objective.criterion.parts(*given).n_freed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)
            freed["as published"] += published.parts(*given).n_freed
    assert freed["as trained"] == 0 < freed["as published"]


def test_a_flag_that_is_an_array_and_logits_that_are_sparse_are_one_line():
    assert message(SemiMarkovLoss, RARE, learn_transitions=np.eye(2)).startswith(
        "learn_transitions is array("
    )
    assert message(Guarded, nn.Linear(2, 3), RARE, per_epoch=np.eye(2)).startswith("per_epoch is array(")
    assert message(Guarded, nn.Linear(2, 3), RARE, class_axis=[1]).startswith("class_axis is [1], expected")
    logits = torch.ones(4, RARE.scheme.n_stages).to_sparse()
    assert message(TransitionPenalty(RARE), logits).endswith("Give logits.to_dense().")
