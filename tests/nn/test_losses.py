"""The transition penalty is the paper's equation, and the training loss is cross-entropy plus that."""

from __future__ import annotations

import pytest

from messages import naming
from stageguard import Profile
from stageguard.errors import StageGuardWarning

torch = pytest.importorskip("torch")
functional = torch.nn.functional
from stageguard.nn import LossParts, StageGuardLoss, TransitionPenalty  # noqa: E402

torch.set_num_threads(1)

MOUSE = Profile.load("kdd2026-mouse-eeg-emg")  # W, N, R with W->R and R->N rare
RARE = [(0, 2), (2, 1)]


def logits_of(*shape, seed=0, dtype=torch.float64, grad=False):
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(*shape, generator=generator, dtype=dtype)).requires_grad_(grad)


def targets_of(*shape, seed=0, n_stages=3):
    return torch.randint(0, n_stages, shape, generator=torch.Generator().manual_seed(seed))


def penalty_by_hand(logits, rare, counts=lambda b, t: True):
    """The paper's equation, one pair and one epoch at a time."""
    total, n_pairs = 0.0, 0
    for b, sequence in enumerate(logits):
        p = [row.exp() / row.exp().sum() for row in sequence]
        for t in range(1, len(p)):
            if counts(b, t):
                n_pairs += 1
                total += sum(float(p[t - 1][s] * p[t][r]) for s, r in rare)
    return total / n_pairs


def test_penalty_is_the_papers_equation():
    logits = logits_of(4, 7, 3)
    value = TransitionPenalty(MOUSE)(logits)
    assert value.item() == pytest.approx(penalty_by_hand(logits, RARE), rel=1e-12)
    assert 0 < value.item() < 1


def test_penalty_takes_a_profile_by_name_and_five_stages():
    rare = [["W", "R"], ["N1", "N3"], ["R", "N3"], ["N3", "R"]]
    profile = Profile.load("human-psg-5").replace(rare=rare)
    indices = [(0, 4), (1, 3), (4, 3), (3, 4)]
    logits = logits_of(2, 9, 5)
    assert TransitionPenalty(profile)(logits).item() == pytest.approx(
        penalty_by_hand(logits, indices), rel=1e-12
    )
    by_name = TransitionPenalty("kdd2026-mouse-eeg-emg")(logits_of(1, 5, 3))
    assert by_name.item() == pytest.approx(penalty_by_hand(logits_of(1, 5, 3), RARE), rel=1e-12)


def test_mean_is_over_all_valid_pairs_and_not_over_sequences():
    logits = logits_of(2, 10, 3)
    mask = torch.ones(2, 10, dtype=torch.bool)
    mask[1, 3:] = False  # two pairs beside nine
    mask[0, 5] = False  # an unscored epoch costs two of the nine

    def counts(b, t):
        return bool(mask[b, t] and mask[b, t - 1])

    value = TransitionPenalty(MOUSE)(logits, mask)
    assert value.item() == pytest.approx(penalty_by_hand(logits, RARE, counts), rel=1e-12)
    means = [penalty_by_hand(logits[b : b + 1], RARE, lambda _, t, b=b: counts(b, t)) for b in range(2)]
    assert value.item() != pytest.approx(sum(means) / 2, rel=1e-3)


def test_no_pair_crosses_from_one_segment_to_the_next():
    logits = logits_of(1, 8, 3)
    segment_ids = torch.tensor([[4, 4, 4, 9, 9, 4, 4, 4]])
    value = TransitionPenalty(MOUSE)(logits, segment_ids=segment_ids)
    expected = penalty_by_hand(logits, RARE, lambda b, t: t not in (3, 5))
    assert value.item() == pytest.approx(expected, rel=1e-12)
    assert value.item() != pytest.approx(penalty_by_hand(logits, RARE), rel=1e-3)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_a_network_says_about_padding_reaches_neither_loss_nor_gradient(bad):
    clean, targets = logits_of(2, 6, 3, grad=True), targets_of(2, 6)
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[1, 4:] = False
    dirty = clean.detach().clone()
    dirty[1, 4:] = bad
    dirty.requires_grad_()
    for loss in (TransitionPenalty(MOUSE), lambda x, m: StageGuardLoss(MOUSE)(x, targets, m)):
        clean.grad = dirty.grad = None
        values = [loss(x, mask) for x in (clean, dirty)]
        for value in values:
            value.backward()
        assert values[0].item() == values[1].item()
        assert torch.equal(clean.grad, dirty.grad)
        assert (dirty.grad[1, 4:] == 0).all()
        assert (dirty.grad[0] != 0).any()


def test_autocast_does_not_coarsen_the_penalty():
    logits = logits_of(8, 50, 3, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = TransitionPenalty(MOUSE)(logits)
    assert inside.dtype == torch.float32
    assert inside.item() == pytest.approx(TransitionPenalty(MOUSE)(logits).item(), rel=1e-6)


def test_gradients_agree_with_finite_differences():
    logits = logits_of(2, 5, 3, grad=True)
    mask = torch.tensor([[True] * 5, [True, True, False, True, True]])
    ids = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]])
    assert torch.autograd.gradcheck(lambda x: TransitionPenalty(MOUSE)(x, mask, segment_ids=ids), logits)
    assert torch.autograd.gradgradcheck(lambda x: TransitionPenalty(MOUSE)(x), logits)
    loss = StageGuardLoss(MOUSE, 0.7, class_weights=[1, 2, 3])
    assert torch.autograd.gradcheck(lambda x: loss(x, targets_of(2, 5), mask), logits)


def test_empty_rare_set_warns_and_gives_a_zero_that_can_be_trained_with():
    with pytest.warns(StageGuardWarning, match=naming("'human-psg-3'", "zero")):
        penalty = TransitionPenalty("human-psg-3")
    logits = logits_of(2, 5, 3, grad=True)
    value = penalty(logits)
    value.backward()
    assert value.item() == 0
    assert (logits.grad == 0).all()


@pytest.mark.parametrize("weights", [None, [1.0, 0.5, 4.0]])
def test_loss_is_cross_entropy_plus_weighted_penalty(weights):
    logits, targets = logits_of(3, 8, 3), targets_of(3, 8)
    targets[0, 2] = -1
    parts = StageGuardLoss(MOUSE, 0.3, weights).parts(logits, targets)
    scored = targets >= 0
    expected = functional.cross_entropy(
        logits[scored],
        targets[scored],
        weight=None if weights is None else torch.tensor(weights, dtype=torch.float64),
    )
    assert isinstance(parts, LossParts)
    assert parts.cross_entropy.item() == pytest.approx(expected.item(), rel=1e-12)
    assert parts.penalty.item() == pytest.approx(TransitionPenalty(MOUSE)(logits, scored).item(), rel=1e-12)
    assert parts.total.item() == pytest.approx(expected.item() + 0.3 * parts.penalty.item(), rel=1e-12)
    assert StageGuardLoss(MOUSE, 0.3, weights)(logits, targets).item() == parts.total.item()


def test_unscored_epochs_and_masked_epochs_are_the_same():
    logits, targets = logits_of(2, 6, 3), targets_of(2, 6)
    mask = torch.rand(2, 6, generator=torch.Generator().manual_seed(1)) < 0.7
    marked = targets.masked_fill(~mask, -1)
    assert 0 < mask.sum() < mask.numel()
    a, b = (StageGuardLoss(MOUSE).parts(logits, *given) for given in ((targets, mask), (marked,)))
    assert a == b


def test_padding_does_not_change_the_loss():
    long, short = logits_of(1, 9, 3, seed=1), logits_of(1, 4, 3, seed=2)
    y_long, y_short = targets_of(1, 9, seed=1), targets_of(1, 4, seed=2)
    padded = torch.cat([long, functional.pad(short, (0, 0, 0, 5), value=7.0)])
    targets = torch.cat([y_long, functional.pad(y_short, (0, 5), value=0)])
    mask = torch.arange(9) < torch.tensor([[9], [4]])
    value = StageGuardLoss(MOUSE).parts(padded, targets, mask)
    joined = StageGuardLoss(MOUSE).parts(
        torch.cat([long, short], 1),
        torch.cat([y_long, y_short], 1),
        segment_ids=torch.tensor([[0] * 9 + [1] * 4]),
    )
    assert torch.stack(value).tolist() == pytest.approx(torch.stack(joined).tolist(), rel=1e-12)


def test_batch_without_a_scored_epoch_has_zero_loss_and_a_graph():
    logits = logits_of(2, 7, 3, grad=True)
    value = StageGuardLoss(MOUSE)(logits, torch.full((2, 7), -1))
    value.backward()
    assert value.item() == 0
    assert torch.equal(logits.grad, torch.zeros_like(logits))


def test_logits_of_half_precision_are_summed_in_single():
    logits = torch.zeros(70, 1001, 3, dtype=torch.float16)  # 70,000 pairs; a half holds up to 65,504
    assert TransitionPenalty(MOUSE)(logits).item() == pytest.approx(2 / 9, rel=1e-3)


def test_the_loss_compiles_to_one_graph_and_has_a_functional_gradient():
    logits, targets, loss = logits_of(2, 7, 3), targets_of(2, 7), StageGuardLoss(MOUSE, 0.5, [1, 2, 3])
    compiled = torch.compile(loss, backend="eager", fullgraph=True)
    assert compiled(logits, targets).item() == loss(logits, targets).item()
    expected = logits.clone().requires_grad_()
    loss(expected, targets).backward()
    assert torch.equal(torch.func.grad(lambda x: loss(x, targets))(logits), expected.grad)
