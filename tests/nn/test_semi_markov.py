"""The semi-Markov loss against every path written out, a chain summed by autograd, finite differences."""

from __future__ import annotations

import itertools
import math
import pickle
import warnings

import numpy as np
import pytest

import oracle
from documents import MINIMAL, profile_of
from messages import each_mentions, naming
from stageguard import Profile, decode
from stageguard.errors import InputError, StageGuardWarning

torch = pytest.importorskip("torch")
functional = torch.nn.functional
from stageguard.nn import SemiMarkovLoss, SemiMarkovParts  # noqa: E402

torch.set_num_threads(1)

TRANSITIONS = MINIMAL["transitions"]
MODELS = {
    "chain": {},
    "stay free": {"stay": "free"},
    "half weight": {"transition_weight": 0.5},
    "minimum": {"min_bout_seconds": {"N": 60, "R": 90}},
    "paper ends": {"min_bout_seconds": {"N": 60}, "ends": "paper"},
    "flip-flop": {"flip_flop": {"penalty_nats": 1.5, "window_epochs": 4}, "min_bout_seconds": {"R": 60}},
    "bout lengths": {"durations": {"R": [0.1, 0.3, 0.2], "W": [0.5]}},
    "rare": {"rare": [["W", "R"], ["R", "N", 0.2]]},
    "forbidden": {"transitions": TRANSITIONS | {"W": {"W": 0.9, "N": 0.1}}},
}


def logits_of(*shape, seed=0, dtype=torch.float64, grad=False):
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(*shape, generator=generator, dtype=dtype)).requires_grad_(grad)


def document(changes):
    return {**MINIMAL, **changes}


def log_sum(values):
    top = max(values, default=-math.inf)
    return top + math.log(math.fsum(math.exp(v - top) for v in values)) if top > -math.inf else -math.inf


def allowed_paths(rules, n_epochs, n_stages=3):
    scores = oracle.score_all(np.zeros((n_epochs, n_stages)), rules)
    return oracle.all_paths(n_stages, n_epochs)[scores > -np.inf], scores[scores > -np.inf]


def summed_by_hand(evidence, labels, rules):
    """Negative log-likelihood and its gradient over every path, and which labels are taken as unknown.

    A list: where several paths are equally near to the labels and equally likely, any of them may decide.
    """
    paths, prior = allowed_paths(rules, len(evidence))
    differ = paths != np.asarray(labels)
    near = differ.sum(1) == differ.sum(1).min()
    near &= prior > prior[near].max() - 1e-6
    return [_summed(evidence, paths, prior, differ, freed) for freed in np.unique(differ[near], axis=0)]


def _summed(evidence, paths, prior, differ, freed):
    agree = ~(differ & ~freed).any(axis=1)
    scores = prior + evidence[np.arange(len(evidence)), paths].sum(1)
    total, own = log_sum(scores), log_sum(scores[agree])
    gradient = np.zeros_like(evidence)
    for kept, log_total, sign in ((agree | True, total, 1), (agree, own, -1)):
        for path, score in zip(paths[kept], scores[kept], strict=True):
            gradient[np.arange(len(path)), path] += sign * math.exp(score - log_total)
    return total - own, gradient, freed


@pytest.mark.parametrize("changes", MODELS.values(), ids=MODELS)
@pytest.mark.usefixtures("backend")
def test_loss_and_gradient_are_those_of_the_sum_over_every_path(changes):
    loss = SemiMarkovLoss(Profile.from_dict(document(changes)), reduction="none")
    rules = oracle.rules_of(document(changes))
    logits = logits_of(6, 6, 3, grad=True)
    paths, _ = allowed_paths(rules, 6)
    labels = paths[np.random.default_rng(1).choice(len(paths), 6, replace=False)]
    value = loss(logits, torch.tensor(labels))
    value.sum().backward()
    for b in range(6):
        ((expected, gradient, freed),) = summed_by_hand(logits[b].detach().numpy(), labels[b], rules)
        assert not freed.any()
        assert value[b].item() == pytest.approx(expected, abs=1e-10)
        np.testing.assert_allclose(logits.grad[b].numpy(), gradient, atol=1e-10)


@pytest.mark.parametrize(
    "changes", [MODELS[name] for name in ("minimum", "paper ends", "flip-flop", "forbidden")]
)
@pytest.mark.usefixtures("backend")
def test_labels_no_path_can_hold_are_summed_over_as_few_as_possible(changes):
    loss = SemiMarkovLoss(Profile.from_dict(document(changes)), reduction="none")
    rules = oracle.rules_of(document(changes))
    allowed = {tuple(path) for path in allowed_paths(rules, 6)[0].tolist()}
    impossible = [path for path in itertools.product(range(3), repeat=6) if path not in allowed]
    chosen = [impossible[i] for i in np.random.default_rng(2).choice(len(impossible), 8, replace=False)]
    logits = logits_of(8, 6, 3, grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        parts = loss.parts(logits, torch.tensor(chosen))
    parts.total.sum().backward()
    n_freed = 0
    for b in range(8):
        candidates = summed_by_hand(logits[b].detach().numpy(), chosen[b], rules)
        expected, gradient, freed = min(candidates, key=lambda found: abs(found[0] - parts.total[b].item()))
        n_freed += freed.sum()
        assert parts.total[b].item() == pytest.approx(expected, abs=1e-10)
        np.testing.assert_allclose(logits.grad[b].numpy(), gradient, atol=1e-10)
    assert parts.n_freed == n_freed >= 8


def test_dropping_minimum_bouts_takes_every_label_as_it_is():
    profile = profile_of(min_bout_seconds={"W": 60, "N": 90, "R": 60})
    targets = torch.tensor([[0, 1, 0, 2, 0, 1]])
    parts = SemiMarkovLoss(profile.replace(min_bout_seconds=None)).parts(logits_of(1, 6, 3), targets)
    assert parts.n_freed == 0
    assert parts.n_epochs == 6


def test_many_impossible_labels_warn_once():
    loss = SemiMarkovLoss(profile_of(min_bout_seconds={"N": 90}))
    logits, targets = logits_of(1, 6, 3), torch.tensor([[0, 1, 0, 0, 1, 0]])
    with pytest.warns(StageGuardWarning, match=naming("33%", "'minimal'", "min_bout_seconds")):
        loss(logits, targets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(logits, targets)


class Chain(torch.nn.Module):
    """A linear-chain conditional random field, summed one epoch at a time by autograd."""

    def __init__(self, scores):
        super().__init__()
        self.scores = torch.nn.Parameter(scores.detach().clone())

    def forward(self, logits, targets):
        total, own = logits[:, 0], logits[:, 0].gather(1, targets[:, :1])[:, 0]
        for t in range(1, logits.shape[1]):
            total = torch.logsumexp(total[:, :, None] + self.scores + logits[:, t, None, :], dim=1)
            own = own + self.scores[targets[:, t - 1], targets[:, t]]
            own = own + logits[:, t].gather(1, targets[:, t : t + 1])[:, 0]
        return (torch.logsumexp(total, dim=1) - own).sum() / targets.numel()


@pytest.mark.usefixtures("backend")
def test_plain_chain_is_a_conditional_random_field():
    ours = SemiMarkovLoss("human-psg-5", learn_transitions=True).double()
    logits = logits_of(4, 60, 5, grad=True)
    targets = torch.randint(0, 5, (4, 60), generator=torch.Generator().manual_seed(3))
    theirs = Chain(ours.transition_scores)
    gradients = []
    for loss, scores in ((ours, ours.transition_scores), (theirs, theirs.scores)):
        logits.grad = None
        value = loss(logits, targets)
        value.backward()
        gradients.append((value.item(), logits.grad.clone(), scores.grad.clone()))
    (a, by_logits, by_scores), (b, their_logits, their_scores) = gradients
    assert a == pytest.approx(b, abs=1e-12)
    torch.testing.assert_close(by_logits, their_logits, rtol=0, atol=1e-12)
    torch.testing.assert_close(by_scores, their_scores, rtol=0, atol=1e-12)
    assert by_scores.abs().max() > 1e-3


def test_learnable_scores_start_at_the_profiles_log_matrix():
    profile = Profile.load("human-psg-5")
    scores = SemiMarkovLoss(profile, learn_transitions=True).transition_scores
    np.testing.assert_allclose(scores.detach().numpy(), np.log(profile.transitions), rtol=1e-6)
    half = SemiMarkovLoss(profile, learn_transitions=True, transition_weight=0.5).transition_scores
    np.testing.assert_allclose(half.detach().numpy(), 0.5 * np.log(profile.transitions), rtol=1e-6)
    assert not list(SemiMarkovLoss(profile).parameters())


@pytest.mark.parametrize("changes", MODELS.values(), ids=MODELS)
def test_gradients_agree_with_finite_differences(changes):
    loss = SemiMarkovLoss(Profile.from_dict(document(changes)), learn_transitions=True).double()
    targets = torch.tensor([[0, 0, 1, 0, 0, 0, 0], [1, 1, 1, 2, 2, 1, 1]])  # some models must free labels
    mask = torch.tensor([[True] * 7, [True] * 3 + [False] + [True] * 3])

    def value(logits, scores):
        return torch.func.functional_call(loss, {"transition_scores": scores}, (logits, targets, mask))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        scores = loss.transition_scores.detach().clone().requires_grad_()
        assert torch.autograd.gradcheck(value, (logits_of(2, 7, 3, grad=True), scores))


def test_gradient_of_edges_is_counted_per_sequence():
    loss = SemiMarkovLoss(profile_of(), learn_transitions=True, reduction="none").double()
    logits = logits_of(2, 6, 3)
    targets = torch.randint(0, 3, (2, 6), generator=torch.Generator().manual_seed(4))
    gradients = []
    for weights in ([1.0, 0.0], [0.0, 1.0], [2.0, -3.0]):
        loss.zero_grad()
        (loss(logits, targets) * torch.tensor(weights)).sum().backward()
        gradients.append(loss.transition_scores.grad.clone())
    torch.testing.assert_close(gradients[2], 2 * gradients[0] - 3 * gradients[1])
    assert not torch.allclose(gradients[0], gradients[1])


def test_without_transitions_it_is_cross_entropy():
    logits = logits_of(3, 20, 3)
    targets = torch.randint(0, 3, (3, 20), generator=torch.Generator().manual_seed(5))
    value = SemiMarkovLoss(profile_of(), transition_weight=0)(logits, targets)
    assert value.item() == pytest.approx(
        functional.cross_entropy(logits.transpose(1, 2), targets).item(), rel=1e-12
    )


def test_evidence_is_calibrated_and_weighed_as_the_decoder_does():
    changes = {
        "calibration": {"temperature": 1.7, "biases": {"R": 0.6, "W": -0.2}},
        "prior": {"W": 0.2, "N": 0.6, "R": 0.2},
        "prior_exponent": 0.4,
    }
    logits = logits_of(1, 6, 3)
    labels = [0, 1, 1, 1, 2, 2]
    value = SemiMarkovLoss(profile_of(**changes), reduction="sum")(logits, torch.tensor([labels]))
    evidence = oracle.evidence_of(logits[0].softmax(-1).numpy(), document(changes))
    ((expected, _, _),) = summed_by_hand(evidence, labels, oracle.rules_of(document(changes)))
    assert value.item() == pytest.approx(expected, abs=1e-9)


def test_the_decoders_path_is_the_likeliest():
    """No other path has a smaller loss than what decode returns: the two have one model."""
    profile = profile_of(
        min_bout_seconds={"N": 60, "R": 90}, flip_flop={"penalty_nats": 1.0, "window_epochs": 4}
    )
    loss = SemiMarkovLoss(profile, reduction="none")
    paths, _ = allowed_paths(oracle.rules_of(profile.to_dict()), 6)
    for seed in range(5):
        logits = logits_of(1, 6, 3, seed=seed)
        values = loss(logits.expand(len(paths), 6, 3), torch.tensor(paths))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)
            best = decode(logits[0].numpy(), profile, logits=True).hypnogram.labels
        assert paths[values.argmin()].tolist() == best.tolist()
        assert torch.exp(-values).sum().item() == pytest.approx(1.0, abs=1e-9)  # probabilities of all paths


def test_another_epoch_length_rescales_the_model():
    logits, labels = logits_of(1, 6, 3), [0, 0, 1, 1, 1, 1]
    changes = {"min_bout_seconds": {"N": 60}}
    value = SemiMarkovLoss(profile_of(**changes), epoch_seconds=15, reduction="sum")(
        logits, torch.tensor([labels])
    )
    rules = oracle.rules_of(document(changes), epoch_seconds=15)
    assert value.item() == pytest.approx(summed_by_hand(logits[0].numpy(), labels, rules)[0][0], abs=1e-10)


def test_loss_does_not_see_a_constant_added_to_an_epoch():
    logits = logits_of(2, 9, 3)
    targets = torch.zeros(2, 9, dtype=torch.long)
    shifted = logits + 30 * logits_of(2, 9, 1, seed=8)
    loss = SemiMarkovLoss(profile_of(min_bout_seconds={"N": 60}))
    assert loss(shifted, targets).item() == pytest.approx(loss(logits, targets).item(), rel=1e-10)


def test_loss_is_never_negative_and_vanishes_for_a_certain_network():
    loss = SemiMarkovLoss(profile_of(min_bout_seconds={"N": 60}), reduction="none")
    targets = torch.randint(0, 3, (40, 12), generator=torch.Generator().manual_seed(6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        values = loss(logits_of(40, 12, 3), targets)
    assert (values > 0).all()
    held = torch.tensor([[0, 0, 1, 1, 1, 2, 2, 0]])
    assert loss(40.0 * functional.one_hot(held, 3).double(), held).item() == pytest.approx(0, abs=1e-9)


def test_masked_epochs_and_segments_cut_recordings_apart():
    profile = profile_of(min_bout_seconds={"N": 60})
    loss = SemiMarkovLoss(profile, reduction="none")
    logits = logits_of(2, 12, 3, grad=True)
    targets = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 0], [1, 1, 2, 2, 0, 0, 1, 1, 1, 1, 1, 1]])
    targets[0, 4] = -1
    mask = torch.arange(12) < torch.tensor([[12], [9]])
    segment_ids = torch.tensor([[0] * 8 + [1] * 4, [0] * 12])
    value = loss(logits, targets, mask, segment_ids=segment_ids)
    value.sum().backward()
    pieces = {0: [(0, 4), (5, 8), (8, 12)], 1: [(0, 9)]}
    for b, spans in pieces.items():
        alone = sum(loss(logits[b, i:j].detach(), targets[b, i:j]) for i, j in spans)
        assert value[b].item() == pytest.approx(alone.item(), rel=1e-12)
    joined = loss(logits.detach(), targets, mask)
    assert joined[0].item() != pytest.approx(value[0].item(), rel=1e-3)
    assert (logits.grad[0, 4] == 0).all()
    assert (logits.grad[1, 9:] == 0).all()
    assert SemiMarkovLoss(profile).parts(logits, targets, mask).n_epochs == 20


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_a_network_says_about_padding_does_not_count(bad):
    loss = SemiMarkovLoss(profile_of())
    logits, targets = logits_of(2, 6, 3), torch.zeros(2, 6, dtype=torch.long)
    mask = torch.arange(6) < torch.tensor([[6], [4]])
    expected = loss(logits, targets, mask)
    logits[1, 4:] = bad
    logits.requires_grad_()
    value = loss(logits, targets, mask)
    value.backward()
    assert value.item() == expected.item()
    assert logits.grad.isfinite().all()


def test_reductions_agree():
    logits, targets = logits_of(3, 7, 3), torch.zeros(3, 7, dtype=torch.long)
    mask = torch.arange(7) < torch.tensor([[7], [5], [2]])
    each, total, mean = (
        SemiMarkovLoss(profile_of(), reduction=how)(logits, targets, mask) for how in ("none", "sum", "mean")
    )
    assert each.shape == (3,)
    assert total.item() == pytest.approx(each.sum().item())
    assert mean.item() == pytest.approx(total.item() / 14)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_any_precision_comes_in_and_double_is_used_within(dtype):
    logits = logits_of(2, 40, 3).to(dtype).requires_grad_()
    targets = torch.zeros(2, 40, dtype=torch.long)
    parts = SemiMarkovLoss(profile_of()).parts(logits, targets)
    parts.total.backward()
    exact = SemiMarkovLoss(profile_of())(logits.detach().double(), targets)
    assert isinstance(parts, SemiMarkovParts)
    assert parts.total.dtype == (dtype if dtype.itemsize >= 4 else torch.float32)
    assert parts.total.item() == pytest.approx(exact.item(), rel=1e-6)
    assert logits.grad.dtype == dtype


@pytest.mark.parametrize("size", [300.0, 5000.0])
def test_logits_thousands_of_nats_apart_lose_nothing(size):
    """Forced through two epochs that speak against it, a path's mass falls below the smallest double."""
    changes = {"min_bout_seconds": {"W": 120, "N": 120, "R": 120}}
    logits = torch.zeros(1, 7, 3, dtype=torch.float64)
    logits[0, range(7), [0, 0, 1, 0, 1, 0, 2]] = size
    labels = [0, 0, 0, 0, 1, 1, 1]
    logits.requires_grad_()
    loss = SemiMarkovLoss(profile_of(**changes), reduction="sum")
    value = loss(logits, torch.tensor([labels]))
    value.backward()
    rules = oracle.rules_of(document(changes))
    ((expected, gradient, _),) = summed_by_hand(logits[0].detach().numpy(), labels, rules)
    assert value.item() == pytest.approx(expected, abs=1e-8)
    np.testing.assert_allclose(logits.grad[0].numpy(), gradient, atol=1e-10)


def test_a_long_recording_stays_finite():
    logits = logits_of(1, 21_600, 3, dtype=torch.float32, grad=True)
    targets = torch.arange(21_600)[None] // 900 % 3
    value = SemiMarkovLoss("mouse-eeg-emg-3")(logits, targets)
    value.backward()
    assert math.isfinite(value.item())
    assert logits.grad.isfinite().all()
    assert logits.grad.sum(-1).abs().max() < 1e-6  # marginals and labels both sum to 1


def test_training_without_evidence_learns_the_matrix_of_the_labels():
    rng = np.random.default_rng(0)
    truth = np.array([[0.7, 0.25, 0.05], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]])
    labels = [0]
    for _ in range(5_999):
        labels.append(int(rng.choice(3, p=truth[labels[-1]])))
    labels = labels[: len(labels) - labels[::-1].index(0)]  # else the two ends would be learned, too
    counts = np.zeros((3, 3))
    np.add.at(counts, (labels[:-1], labels[1:]), 1)
    loss = SemiMarkovLoss(profile_of(rare=[["W", "R"]]), learn_transitions=True).double()
    optimiser = torch.optim.LBFGS(loss.parameters(), max_iter=60, line_search_fn="strong_wolfe")
    targets, logits = torch.tensor([labels]), torch.zeros(1, len(labels), 3)

    def closure():
        optimiser.zero_grad()
        value = loss(logits.double(), targets)
        value.backward()
        return value

    optimiser.step(closure)
    learned = loss.learned_profile("learned")
    np.testing.assert_allclose(learned.transitions, counts / counts.sum(1, keepdims=True), atol=2e-3)
    assert (learned.name, learned.stay, learned.transition_weight, learned.rare) == (
        "learned",
        "self",
        1.0,
        (),
    )
    assert learned.tvr_pairs == (("W", "R"),)


def test_learned_profile_scores_paths_as_the_learned_scores_do():
    loss = SemiMarkovLoss(profile_of(), learn_transitions=True).double()
    with torch.no_grad():
        loss.transition_scores += logits_of(3, 3)
    learned = loss.learned_profile("learned")
    difference = loss.transition_scores.detach().numpy() - np.log(learned.transitions)
    ends = difference[0] - difference[0, 0]  # a constant, plus a term for the first and the last stage
    np.testing.assert_allclose(difference, difference[0, 0] + ends[None, :] - ends[:, None], atol=1e-9)
    with torch.no_grad():  # what only says where recordings begin and end is left out, however large
        loss.transition_scores += torch.tensor([0.0, 300.0, -200.0]) - torch.tensor(
            [[0.0], [300.0], [-200.0]]
        )
    np.testing.assert_allclose(loss.learned_profile("same").transitions, learned.transitions, rtol=1e-9)


def test_a_stage_without_return_has_no_learned_profile():
    one_way = {"W": {"W": 0.9, "N": 0.1}, "N": {"N": 0.9, "R": 0.1}, "R": {"N": 0.1, "R": 0.9}}
    loss = SemiMarkovLoss(profile_of(transitions=one_way), learn_transitions=True)
    with torch.no_grad():
        loss.transition_scores[0, 0] = 2.0
    with pytest.raises(InputError, match=naming("some", "cannot be reached")):
        loss.learned_profile("x")


def test_forbidden_transitions_stay_forbidden_while_learning():
    loss = SemiMarkovLoss(Profile.from_dict(document(MODELS["forbidden"])), learn_transitions=True).double()
    loss(logits_of(1, 6, 3), torch.tensor([[0, 0, 1, 2, 2, 1]])).backward()
    assert loss.transition_scores.grad[0, 2] == 0
    assert loss.transition_scores.grad[0, 1] != 0
    assert loss.learned_profile("learned").transitions[0][2] == 0


def test_loss_can_be_copied_and_keeps_only_what_was_learned():
    loss = SemiMarkovLoss("human-psg-3", learn_transitions=True)
    same = pickle.loads(pickle.dumps(loss))
    logits, targets = logits_of(1, 9, 3), torch.zeros(1, 9, dtype=torch.long)
    assert same(logits, targets) == loss(logits, targets)
    assert list(loss.state_dict()) == ["transition_scores"]
    assert not SemiMarkovLoss("human-psg-3").state_dict()


def test_what_differs_from_the_profile_is_said():
    assert each_mentions(SemiMarkovLoss("human-psg-5").assumed, ("transition weight", 1))
    assert each_mentions(SemiMarkovLoss("kdd2026-mouse-eeg-emg").assumed, ("greedy", "exists for decode"))
    assert SemiMarkovLoss(profile_of()).assumed == ()
    assert "'human-psg-5', 5 states" in repr(SemiMarkovLoss("human-psg-5"))


WRONG = {
    "not a number": (
        {"logits": torch.tensor([0.0, float("nan"), 0.0]).expand(1, 5, 3)},
        "logits: nan for N at sequence 0, epoch 0, expected finite numbers. "
        "Look for NaN in the features, or lower the learning rate.",
    ),
    "infinite": (
        {"logits": torch.tensor([0.0, 0.0, -float("inf")]).expand(1, 5, 3)},
        "logits: -inf for R at sequence 0, epoch 0, expected finite numbers. "
        "Look for NaN in the features, or lower the learning rate.",
    ),
    "stage out of range": (
        {"targets": torch.full((1, 5), 3)},
        "targets hold 3 (sequence 0, epoch 0), expected 0 to 2 (W, N, R), "
        "or -1 or -100 where an epoch is not scored.",
    ),
    "other stages": (
        {"logits": torch.zeros(1, 5, 4)},
        "logits have shape (1, 5, 4), expected (batch, epochs, 3): the profile's stages are W, N, R.",
    ),
}


@pytest.mark.parametrize("changes, message", WRONG.values(), ids=WRONG)
def test_wrong_input_is_refused_in_one_line(changes, message):
    given = {"logits": torch.zeros(1, 5, 3), "targets": torch.zeros(1, 5, dtype=torch.long)} | changes
    with pytest.raises(InputError) as caught:
        SemiMarkovLoss(profile_of())(**given)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"reduction": "men"},
            "reduction is 'men', expected 'mean' or 'sum' or 'none'. Did you mean 'mean'?",
        ),
        ({"transition_weight": -1}, "transition_weight is -1, expected at least 0."),
        ({"epoch_seconds": 0}, "epoch_seconds is 0, expected a number"),
    ],
)
def test_wrong_options_are_refused_in_one_line(options, message):
    with pytest.raises(InputError) as caught:
        SemiMarkovLoss(profile_of(), **options)
    assert str(caught.value).startswith(message)


def test_a_profile_no_path_can_obey_is_refused():
    stuck = {"W": {"N": 1.0}, "N": {"R": 1.0}, "R": {"W": 1.0}}  # two epochs of R, but no staying in it
    loss = SemiMarkovLoss(profile_of(transitions=stuck, min_bout_seconds={"R": 60}))
    with pytest.raises(InputError, match=naming("9 epochs", "obeys")):
        loss(torch.zeros(1, 9, 3), torch.zeros(1, 9, dtype=torch.long))


def test_learned_profile_needs_something_learned():
    with pytest.raises(InputError, match=naming("learn_transitions=True")):
        SemiMarkovLoss(profile_of()).learned_profile("x")
    table = SemiMarkovLoss(profile_of(durations={"R": [0.5]}), learn_transitions=True)
    with pytest.raises(InputError, match=naming("cannot be written", "profile")):
        table.learned_profile("x")
