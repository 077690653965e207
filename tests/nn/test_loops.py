"""Losses and wrapped networks in training loops that others wrote."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import stageguard as sg
from documents import profile_of
from messages import naming
from stageguard.errors import InputError, StageGuardWarning
from stageguard.nn import Guarded, SemiMarkovLoss, StageGuardLoss, TransitionPenalty
from stageguard.nn.losses import TRAINED_WITH

torch.set_num_threads(1)

NAN = float("nan")
PROFILE = profile_of(rare=[["W", "R"]])
LOSSES = {
    "paper": lambda **options: StageGuardLoss(PROFILE, **options),
    "weighted": lambda **options: StageGuardLoss(PROFILE, 0.5, [1, 2, 3], 0.1, **options),
    "likelihood": lambda **options: SemiMarkovLoss(PROFILE, **options),
    "learned": lambda **options: SemiMarkovLoss(PROFILE, learn_transitions=True, **options),
}
every_loss = pytest.mark.parametrize("make", LOSSES.values(), ids=LOSSES)


def batch_of(n_sequences=2, n_epochs=7, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(n_sequences, n_epochs, 3, generator=generator, dtype=dtype).requires_grad_()
    return logits, torch.randint(0, 3, (n_sequences, n_epochs), generator=generator)


def value_and_gradient(loss, logits, *arguments):
    logits = logits.detach().clone().requires_grad_()
    value = loss(logits, *arguments)
    value.backward()
    return value.item(), logits.grad


@every_loss
def test_minus_one_hundred_is_unscored_as_minus_one_is(make):
    logits, targets = batch_of()
    results = []
    for unscored in (-1, -100):
        marked = targets.clone()
        marked[0, 2:4] = unscored
        results.append(value_and_gradient(make(), logits, marked))
    assert results[0][0] == results[1][0] != value_and_gradient(make(), logits, targets)[0]
    assert torch.equal(results[0][1], results[1][1])


@every_loss
@pytest.mark.parametrize("padding", [255, -7, 3])
def test_targets_have_any_value_where_the_mask_is_false(make, padding):
    logits, targets = batch_of()
    mask = torch.arange(7) < torch.tensor([[7], [4]])
    padded = targets.masked_fill(~mask, padding)
    assert value_and_gradient(make(), logits, padded, mask)[0] == make()(logits, targets, mask).item()
    with pytest.raises(InputError):
        make()(logits, padded)


@every_loss
@pytest.mark.parametrize("unscored", ["targets", "mask"])
def test_batch_without_a_scored_epoch_has_zero_loss_and_a_graph(make, unscored):
    logits, targets = batch_of()
    loss = make()
    if unscored == "targets":
        value = loss(logits, torch.full_like(targets, -100))
    else:
        value = loss(logits, targets, torch.zeros(2, 7, dtype=torch.bool))
    value.backward()
    assert value.item() == 0
    for parameter in (logits, *loss.parameters()):
        assert torch.equal(parameter.grad, torch.zeros_like(parameter))


def test_penalty_without_a_scored_epoch_is_zero_with_a_graph():
    logits, _ = batch_of()
    value = TransitionPenalty(PROFILE)(logits, torch.zeros(2, 7, dtype=torch.bool))
    value.backward()
    assert value.item() == 0
    assert not logits.grad.any()


@every_loss
@pytest.mark.parametrize("bad", [NAN, float("inf")])
def test_unchecked_loss_that_is_not_finite_is_left_to_the_loop(make, bad):
    logits, targets = batch_of()
    with torch.no_grad():
        logits[1, 2, 0] = bad
    with pytest.raises(InputError):
        make()(logits, targets)
    value, gradient = value_and_gradient(make(check_values=False), logits, targets)
    assert not np.isfinite(value)
    assert not gradient.isfinite().all()


@every_loss
def test_unchecked_loss_of_a_target_that_is_no_stage_is_nan(make):
    logits, targets = batch_of()
    targets[0, 3] = 9
    value, gradient = value_and_gradient(make(check_values=False), logits, targets)
    assert np.isnan(value)
    assert gradient.isnan().any()


@every_loss
def test_checks_change_no_number(make):
    logits, targets = batch_of()
    checked, unchecked = (value_and_gradient(make(check_values=c), logits, targets) for c in (True, False))
    assert checked[0] == unchecked[0]
    assert torch.equal(checked[1], unchecked[1])


def test_unchecked_learned_scores_that_are_no_numbers_make_the_loss_nan():
    loss = SemiMarkovLoss(PROFILE, learn_transitions=True, check_values=False)
    with torch.no_grad():
        loss.transition_scores[0, 2] = NAN
    assert loss(*batch_of()).isnan()


def test_gradient_scaler_skips_a_step_whose_loss_is_not_finite():
    network = nn.Linear(3, 3)
    before = copy.deepcopy(network.state_dict())
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    loss = StageGuardLoss(PROFILE, check_values=False)
    x, targets = batch_of(dtype=torch.float32)
    for features in (x.detach() * NAN, x.detach()):
        optimiser.zero_grad()
        scaler.scale(loss(network(features), targets)).backward()
        scaler.step(optimiser)
        scaler.update()
        is_skipped = all(torch.equal(a, before[name]) for name, a in network.state_dict().items())
        assert is_skipped == bool(features.isnan().any())
    assert scaler.get_scale() == 4.0


class Waits(torch.overrides.TorchFunctionMode):
    """Counts the calls that would wait for a device."""

    WAITING = (torch.Tensor.item, torch.Tensor.__bool__, torch.Tensor.__int__, torch.Tensor.tolist)

    def __init__(self):
        super().__init__()
        self.n_waits = 0

    def __torch_function__(self, function, types, arguments=(), named=None):
        self.n_waits += function in self.WAITING
        return function(*arguments, **(named or {}))


@pytest.mark.parametrize("check_values, n_waits", [(True, 1), (False, 0)])
def test_loss_waits_for_the_device_once_or_not_at_all(check_values, n_waits):
    logits, targets = batch_of()
    mask = torch.ones(2, 7, dtype=torch.bool)
    guarded = Guarded(nn.Identity(), PROFILE, criterion=StageGuardLoss(PROFILE, check_values=check_values))
    guarded.loss(logits, targets, mask)  # the first batch also tells the kind of output
    with Waits() as waits:
        guarded.loss(logits, targets, mask)
    assert waits.n_waits == n_waits


class Masked(nn.Module):
    """A network that takes a padding mask, by place or by name, and another input."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.seen = None

    def forward(self, x, mask=None, *, scale=1.0):
        self.seen = None if mask is None else tuple(mask.shape)
        rows = self.linear(x) * scale
        return rows if mask is None else rows.masked_fill(~mask[..., None], 0.0)


@pytest.mark.parametrize("per_epoch", [False, True])
def test_masks_and_keywords_reach_the_network(per_epoch):
    network = Masked()
    guarded = Guarded(network, PROFILE, per_epoch=per_epoch)
    x, mask = torch.randn(2, 9, 4), torch.arange(9) < torch.tensor([[9], [5]])
    targets = torch.zeros(2, 9, dtype=torch.long)
    expected = network(x, mask, scale=2.0)
    assert torch.allclose(guarded(x, mask, scale=2.0), expected)
    assert network.seen == ((18,) if per_epoch else (2, 9))
    assert torch.equal(guarded(x, mask=mask, scale=2.0), guarded(x, mask, scale=2.0))
    value = guarded.loss(x, targets, mask, inputs={"mask": mask, "scale": 2.0})
    assert value.item() == pytest.approx(StageGuardLoss(PROFILE)(expected, targets, mask).item(), rel=1e-6)


def test_error_of_the_network_keeps_its_type_and_names_the_network():
    guarded = Guarded(Masked(), PROFILE)
    with pytest.raises(RuntimeError) as caught:
        guarded(torch.zeros(2, 9, 5))
    assert not isinstance(caught.value, InputError)
    (note,) = caught.value.__notes__
    assert "Masked" in note
    assert "(2, 9, 5)" in note


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_probabilities_of_half_precision_are_divided_by_their_sums(dtype):
    generator = torch.Generator().manual_seed(0)
    rows = (4 * torch.randn(2, 200, 5, generator=generator)).softmax(-1).to(dtype)
    profile = sg.Profile.load("human-psg-5")
    guarded = Guarded(nn.Identity(), profile, outputs="probabilities")
    sums = guarded(rows).exp().sum(-1)
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        exact = rows[0].double() / rows[0].double().sum(-1, keepdim=True)
        found, wanted = sg.decode(rows[0], profile), sg.decode(exact, profile)
        both = sg.decode(rows, profile)
    assert np.array_equal(found.hypnogram.labels, wanted.hypnogram.labels)
    assert found.score == wanted.score == both[0].score


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_log_probabilities_of_half_precision_are_divided_by_their_sums(dtype):
    generator = torch.Generator().manual_seed(0)
    rows = (4 * torch.randn(200, 5, generator=generator)).log_softmax(-1).to(dtype)
    rows[3] = NAN
    exact = rows.double().log_softmax(-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        found, wanted = (sg.decode(each, "human-psg-5", log=True) for each in (rows, exact))
    assert found.score == pytest.approx(wanted.score, rel=1e-12)
    assert np.array_equal(found.hypnogram.labels, wanted.hypnogram.labels)


def test_only_half_precision_is_forgiven_a_wrong_sum():
    rows = torch.full((9, 5), 0.201)
    with pytest.raises(InputError):
        sg.decode(rows, "human-psg-5")
    with pytest.raises(InputError):
        sg.decode(torch.full((9, 5), 0.25).bfloat16(), "human-psg-5")
    with pytest.raises(InputError):
        sg.decode(torch.full((9, 5), 0.25).log().bfloat16(), "human-psg-5", log=True)


def test_profiles_without_rare_transitions_name_one_to_train_with():
    for name in sg.profiles():
        profile = sg.Profile.load(name)
        if profile.rare or profile.scheme.n_stages == 2:  # asleep and awake: no transition is rare
            continue
        other = sg.Profile.load(TRAINED_WITH[name])
        assert other.rare
        assert other.scheme == profile.scheme
        with pytest.warns(StageGuardWarning, match=repr(other.name)):
            StageGuardLoss(profile)


def move_outputs(value):
    """Move outputs to the CPU as trainers do: by `to`, else item by item, else field by field."""
    if callable(getattr(value, "to", None)):
        return value.to(torch.device("cpu"))
    if isinstance(value, list):
        return [move_outputs(item) for item in value]
    if dataclasses.is_dataclass(value):
        moved = copy.copy(value)
        for field in dataclasses.fields(value):
            setattr(moved, field.name, move_outputs(getattr(value, field.name)))
        return moved
    return value


def test_results_survive_a_trainer_that_moves_and_gathers_predictions():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        results = Guarded(nn.Identity(), PROFILE).predict(list(torch.randn(2, 9, 3)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        move_outputs([results[0].profile])
    assert move_outputs([results[0].hypnogram]) == [results[0].hypnogram]
    gathered = pickle.loads(pickle.dumps(move_outputs([results])))
    assert [night.hypnogram for night in gathered[0]] == [night.hypnogram for night in results]


@pytest.mark.parametrize("name", ["paper", "weighted"])
def test_unchecked_loss_compiles_to_one_graph(name):
    logits, targets = batch_of()
    loss = LOSSES[name](check_values=False)
    compiled = torch.compile(loss, backend="eager", fullgraph=True)
    assert compiled(logits, targets).item() == loss(logits, targets).item()


@every_loss
@pytest.mark.filterwarnings("ignore::UserWarning:torch", "ignore::DeprecationWarning:torch")
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_checked_loss_compiles_with_a_break(make):
    logits, targets = batch_of()
    compiled = torch.compile(make(), backend="eager")
    value, gradient = value_and_gradient(compiled, logits, targets)
    expected = value_and_gradient(make(), logits, targets)
    assert value == pytest.approx(expected[0], rel=1e-12)
    assert torch.allclose(gradient, expected[1])


@pytest.mark.parametrize("options", [{}, {"outputs": "probabilities"}, {"per_epoch": True}])
def test_guarded_network_is_exported_and_compiled(options):
    layers = [nn.Linear(4, 3), nn.Softmax(-1)] if "outputs" in options else [nn.Linear(4, 3)]
    guarded = Guarded(nn.Sequential(*layers), PROFILE, **options).eval()
    x = torch.randn(2, 9, 4)
    exported = torch.export.export(guarded, (x,)).module()
    compiled = torch.compile(guarded, backend="eager", fullgraph=True)
    assert torch.equal(exported(x), guarded(x))
    assert torch.equal(compiled(x), guarded(x))


@pytest.mark.parametrize("name", ["paper", "weighted"])
def test_functional_gradient_is_that_of_backward(name):
    logits, targets = batch_of()
    gradient = torch.func.grad(lambda x: LOSSES[name]()(x, targets))(logits.detach())
    assert torch.equal(gradient, value_and_gradient(LOSSES[name](), logits, targets)[1])


@pytest.mark.parametrize("options", [{"class_axis": -1}, {"per_epoch": True}])
def test_guarded_network_is_exported_for_any_number_of_epochs(options):
    guarded = Guarded(nn.Linear(4, 3), PROFILE, **options).eval()
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("epochs")}
    exported = torch.export.export(guarded, (torch.randn(2, 9, 4),), dynamic_shapes={"x": sizes}).module()
    for shape in ((2, 9, 4), (5, 40, 4), (2, 3, 4)):
        x = torch.randn(shape)
        assert torch.allclose(exported(x), guarded(x))


def test_likelihood_refuses_functional_transforms():
    logits, targets = batch_of()
    with pytest.raises(InputError, match=naming("torch.func", "backward()")):
        torch.func.grad(lambda x: SemiMarkovLoss(PROFILE)(x, targets))(logits.detach())


@pytest.mark.parametrize("transform", [torch.func.vmap, torch.func.jacrev])
def test_likelihood_refuses_transforms_whose_tensors_have_no_numbers(transform):
    with pytest.raises(InputError, match=naming("torch.func")):
        transform(SemiMarkovLoss(PROFILE))(*batch_of())


@pytest.mark.parametrize("name", ["paper", "weighted"])
def test_unchecked_loss_is_mapped_over_sequences(name):
    logits, targets = batch_of(n_sequences=4)
    targets[1] = -100
    loss = LOSSES[name](check_values=False)
    mapped = torch.func.vmap(loss)(logits, targets)
    assert mapped.tolist() == pytest.approx([loss(x, y).item() for x, y in zip(logits, targets, strict=True)])


def test_gradients_of_single_sequences_are_taken_with_the_first_batch():
    guarded = Guarded(nn.Linear(4, 3), PROFILE)
    x, (_, targets) = torch.randn(2, 7, 4), batch_of()
    loss = StageGuardLoss(PROFILE, check_values=False)

    def one(parameters, features, stages):
        return loss(torch.func.functional_call(guarded, parameters, features[None]), stages[None])

    parameters = {name: value.detach() for name, value in guarded.named_parameters()}
    each = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0, 0))(parameters, x, targets)
    for i in range(2):
        guarded.zero_grad()
        loss(guarded(x[i : i + 1]), targets[i : i + 1]).backward()
        assert torch.allclose(each["model.weight"][i], guarded.model.weight.grad, atol=1e-6)


@pytest.mark.parametrize("name", ["paper", "weighted"])
@pytest.mark.parametrize("check_values", [True, False])
def test_loss_has_a_shape_on_the_meta_device(name, check_values):
    logits, targets = (tensor.detach().to("meta") for tensor in batch_of())
    loss = LOSSES[name](check_values=check_values).to("meta")
    assert loss(logits, targets).shape == ()
    assert loss.penalty(logits).shape == ()
    assert Guarded(nn.Identity(), PROFILE)(logits).shape == logits.shape


def test_likelihood_refuses_the_meta_device():
    logits, targets = batch_of()
    with pytest.raises(InputError, match="meta"):
        SemiMarkovLoss(PROFILE)(logits.to("meta"), targets)


@every_loss
def test_loss_of_eight_bits_is_computed_in_single_precision(make):
    logits, targets = batch_of()
    coarse = logits.detach().to(torch.float8_e4m3fn)
    value = make()(coarse, targets)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(make()(coarse.float(), targets).item())


class ZeroedPadding(nn.Module):
    """A network that ends in a softmax and sets padding to 0."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, mask):
        return self.linear(x).softmax(-1) * mask[..., None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_probabilities_may_be_zero_on_padding(dtype):
    network = ZeroedPadding().to(dtype)
    guarded = Guarded(network, PROFILE, outputs="probabilities")
    x, mask = torch.randn(2, 9, 4, dtype=dtype), torch.arange(9) < torch.tensor([[9], [5]])
    targets = torch.zeros(2, 9, dtype=torch.long)
    value = guarded.loss(x, targets, mask, inputs={"mask": mask})
    value.backward()
    expected = StageGuardLoss(PROFILE)(network.linear(x), targets, mask)
    assert value.item() == pytest.approx(expected.item(), rel=1e-5 if dtype == torch.float32 else 0.02)
    assert network.linear.weight.grad.isfinite().all()
    with pytest.raises(InputError):
        Guarded(network, PROFILE)(x, mask)  # probabilities, and not logits


def test_zeros_are_logits_and_no_probabilities():
    rows = torch.zeros(2, 9, 3)
    assert torch.equal(Guarded(nn.Identity(), PROFILE)(rows), rows)
    with pytest.raises(InputError):
        Guarded(nn.Identity(), PROFILE, outputs="probabilities")(rows)


def test_error_shows_the_row_that_is_no_distribution():
    rows = torch.tensor([[[0.5, 0.25, 0.25], [0.5, 0.5, 0.5]]])
    with pytest.raises(InputError, match=naming("[0.5, 0.5, 0.5]")):
        Guarded(nn.Identity(), PROFILE, outputs="probabilities")(rows)


@pytest.mark.parametrize("inputs", [["mask"], "mask", 3])
def test_inputs_of_the_network_are_named(inputs):
    x, targets = torch.randn(2, 9, 4), torch.zeros(2, 9, dtype=torch.long)
    with pytest.raises(InputError, match="inputs"):
        Guarded(Masked(), PROFILE).loss(x, targets, inputs=inputs)
