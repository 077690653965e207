"""Any network, whatever its layout, is trained and decoded as its logits would be; the examples run."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from documents import profile_of
from messages import mentions, naming
from stageguard.errors import InputError, StageGuardWarning
from stageguard.report.words import done_words

torch = pytest.importorskip("torch")
from stageguard.nn import Guarded, StageGuardLoss  # noqa: E402

torch.set_num_threads(1)

ROOT = Path(__file__).parents[2]
PROFILE = profile_of(rare=[["W", "R"]], min_bout_seconds={"N": 60})
WEIGHT = torch.tensor([[1.0, -0.5, 0.2], [0.3, 1.2, -0.8], [-0.4, 0.1, 0.9], [0.5, 0.5, -1.0]])


class Linear(torch.nn.Module):
    """Four features to three stages, in the layout asked for."""

    def __init__(self, layout="last", probable=False):
        super().__init__()
        self.weight = torch.nn.Parameter(WEIGHT.clone())
        self.layout, self.probable = layout, probable
        self.seen = []

    def forward(self, x):
        self.seen.append((tuple(x.shape), self.training))
        rows = x @ self.weight
        rows = rows.softmax(-1) if self.probable else rows
        if self.layout == "first":
            return rows.transpose(1, 2)
        return rows.flatten(0, 1) if self.layout == "flat" else rows


def batch_of(n_sequences=2, n_epochs=9, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.randn(n_sequences, n_epochs, 4, generator=generator)
    return x, torch.randint(0, 3, (n_sequences, n_epochs), generator=generator)


LAYOUTS = {
    "stages last": (Linear(), {}),
    "stages last, said": (Linear(), {"class_axis": -1}),
    "stages on axis 1": (Linear("first"), {}),
    "stages on axis 1, said": (Linear("first"), {"class_axis": 1}),
    "folded by the network": (Linear("flat"), {}),
    "one epoch at a time": (Linear(), {"per_epoch": True}),
    "probabilities": (Linear(probable=True), {"outputs": "probabilities"}),
    "probabilities on axis 1": (Linear("first", probable=True), {"outputs": "probabilities"}),
}


@pytest.mark.parametrize("model, options", LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_gives_the_same_loss_gradient_and_hypnogram(model, options):
    x, targets = batch_of()
    mask = torch.arange(9) < torch.tensor([[9], [6]])
    model.weight.grad = None
    guarded = Guarded(model, PROFILE, **options)
    loss = guarded.loss(x, targets, mask)
    loss.backward()

    weight = WEIGHT.clone().requires_grad_()
    expected = StageGuardLoss(PROFILE)(x @ weight, targets, mask)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(model.weight.grad, weight.grad, rtol=1e-4, atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        wanted = sg.decode([(night @ WEIGHT).numpy() for night in x], PROFILE, logits=True)
        for batch in (x, x.double().numpy(), list(x), [night.numpy() for night in x]):
            found = guarded.predict(batch)
            assert [r.hypnogram.labels.tolist() for r in found] == [
                r.hypnogram.labels.tolist() for r in wanted
            ]
            assert found[0].score == pytest.approx(wanted[0].score, abs=1e-4)


class Squares(torch.nn.Module):
    """A loss of its own, with a parameter."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, logits, targets, mask, segment_ids=None):
        return self.scale * (logits**2).mean() + (0 if segment_ids is None else 1)


def test_criterion_replaces_the_default_loss_and_gets_the_segments():
    x, targets = batch_of()
    guarded = Guarded(Linear(), PROFILE, criterion=Squares())
    expected = 2 * ((x @ WEIGHT) ** 2).mean().item()
    assert guarded.loss(x, targets).item() == pytest.approx(expected, rel=1e-6)
    assert guarded.loss(x, targets, segment_ids=targets).item() == pytest.approx(expected + 1, rel=1e-6)
    assert dict(guarded.named_parameters()).keys() == {"model.weight", "criterion.scale"}


def test_prediction_hands_everything_to_the_decoder():
    x, _ = batch_of(2, 40)
    options = {
        "epoch_seconds": 30.0,
        "quality": [np.linspace(0, 1, 40), None],
        "pins": [None, {7: "R"}],
        "segments": [[0, 20], None],
    }
    profile = sg.Profile.load("human-psg-3")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        found = Guarded(Linear(), profile, trained="natural").predict(list(x), cohort="adults", **options)
        logits = [(night @ WEIGHT).numpy() for night in x]
        wanted = sg.decode(logits, profile, cohort="adults", trained="natural", logits=True, **options)
    for a, b in zip(found, wanted, strict=True):
        assert a.hypnogram == b.hypnogram
        assert done_words(a) == done_words(b)
        assert (a.cohort, a.trained) == (b.cohort, b.trained) == ("adults", "natural")
    assert found[1].stages[7] == "R"


def test_prediction_is_made_in_evaluation_mode_and_leaves_the_mode_and_no_graph():
    model = Linear()
    guarded = Guarded(model, PROFILE)
    (rows,) = guarded.probabilities(torch.ones(1, 9, 4))
    assert model.seen == [((1, 9, 4), False)]
    assert guarded.training
    assert model.training
    assert rows.dtype == np.float64
    np.testing.assert_allclose(rows.sum(1), 1, atol=1e-12)
    guarded.eval()
    guarded.probabilities(torch.ones(1, 9, 4))
    assert not guarded.training


class Positional(Linear):
    """What it says of an epoch depends on the place in the window."""

    training_length = 8

    def forward(self, x):
        place = torch.linspace(-1, 1, x.shape[1])[None, :, None]
        return super().forward(x) + place * torch.tensor([1.0, -1.0, 0.0])


def test_a_network_with_a_training_length_sees_overlapping_windows_of_it():
    model = Positional()
    x = batch_of(1, 21)[0][0]
    (rows,) = Guarded(model, PROFILE).probabilities([x])
    assert [shape for shape, _ in model.seen] == [(5, 8, 4)]
    starts = [0, 4, 8, 12, 13]
    total, n_seen = np.zeros((21, 3)), np.zeros(21)
    for start in starts:
        window = Positional()(x[None, start : start + 8]).detach().double().softmax(-1)[0].numpy()
        total[start : start + 8] += window
        n_seen[start : start + 8] += 1
    np.testing.assert_allclose(rows, total / n_seen[:, None], atol=1e-9)
    short = batch_of(1, 6)[0][0]
    padded = torch.cat([short, torch.zeros(2, 4)])  # as `predict` does
    expected = Positional()(padded[None]).detach().double().softmax(-1)[0, :6]
    np.testing.assert_allclose(Guarded(Positional(), PROFILE).probabilities([short])[0], expected, atol=1e-9)


class Returns(torch.nn.Module):
    """Gives back what it was told to."""

    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, x):
        return self.output


@pytest.mark.parametrize(
    ("output", "options", "words"),
    [
        (torch.randn(2, 3, 3), {}, ("(2, 3, 3)", "class_axis")),  # stages and epochs alike
        (torch.randn(2, 9, 5), {}, ("(2, 9, 5)", "3 stages", "W, N, R")),
        (torch.randn(2, 9, 3, 1), {}, ("(2, 9, 3, 1)", "3 stages")),
        (torch.randn(5, 3), {}, ("(5, 3)", "3 stages")),  # rows that do not divide
        (torch.randn(2, 9, 3), {"class_axis": 1}, ("(2, 9, 3)", "class_axis")),
        ((torch.randn(2, 9, 3), None), {}, ("tuple", "3 stages")),
        (torch.randn(2, 9, 3), {"per_epoch": True}, ("(2, 9, 3)", "(18, 3)")),
        (torch.randn(2, 9, 3).softmax(-1), {}, ("are probabilities", "'logits'")),
        (torch.tensor([2.0, -1.0, 0.5]).expand(2, 9, 3), {"outputs": "probabilities"}, ("sum to 1",)),
    ],
)
def test_an_output_that_cannot_be_read_is_refused_in_one_line(output, options, words):
    guarded = Guarded(Returns(output), PROFILE, **options)
    with pytest.raises(InputError) as caught:
        guarded.loss(torch.zeros(2, 9, 4), torch.zeros(2, 9, dtype=torch.long))
    assert mentions(str(caught.value), *words)


def test_a_network_that_says_nan_is_refused():
    x = torch.ones(1, 9, 4)
    x[0, 5:] = float("nan")
    with pytest.raises(InputError, match=naming("NaN", "epoch 5", "recording 0")):
        Guarded(Linear(), PROFILE).predict(x)


@pytest.mark.parametrize("options", [{"class_axis": -1}, {"per_epoch": True}])
def test_guarded_network_is_exported_for_any_number_of_epochs(options, tmp_path):
    guarded = Guarded(torch.nn.Linear(4, 3), PROFILE, **options).eval()
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("epochs")}
    exported = torch.export.export(guarded, (torch.randn(2, 9, 4),), dynamic_shapes={"x": sizes}).module()
    compiled = torch.compile(guarded, backend="eager", fullgraph=True)
    for shape in ((2, 9, 4), (5, 40, 4)):
        x = torch.randn(shape)
        assert torch.allclose(exported(x), guarded(x))
        assert torch.allclose(compiled(x), guarded(x))


@pytest.mark.parametrize(
    ("example", "says"),
    [
        ("wrap_torch_model.py", ("decoded: ",)),
        ("wrap_sklearn.py", ("columns", "N, R, W")),
        ("wrap_braindecode_style.py", ("loss",)),
    ],
)
def test_examples_run(example, says, capsys):
    if "sklearn" in example:
        pytest.importorskip("sklearn")
    runpy.run_path(str(ROOT / "examples" / example), run_name="__main__")
    printed = capsys.readouterr().out
    assert mentions(printed, *says)
    assert mentions(printed, "epochs as simulated")
