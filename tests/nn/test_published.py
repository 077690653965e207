"""What the authors' code does, formula by formula: decay, padding, attention."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from messages import naming
from stageguard.errors import InputError
from stageguard.signals.features import Recipe, recipes

torch = pytest.importorskip("torch")
from feature_nights import options  # noqa: E402
from stageguard.nn.backbones import build_backbone, training_recipe  # noqa: E402
from stageguard.nn.backbones.attnsleep import _EncoderLayer  # noqa: E402
from stageguard.nn.options import TrainingOptions, fill_from_recipe, recipe_of  # noqa: E402
from stageguard.nn.run_state import start  # noqa: E402

torch.set_num_threads(1)
cross_entropy = torch.nn.functional.cross_entropy


def seqsleepnet_loss(logits, stages, named):
    """Sum over the batch of the mean over 20 epochs, 1e-3 of half the squares but the filter bank's."""
    loss = cross_entropy(logits.transpose(1, 2), stages, reduction="none").sum(dim=0).sum() / 20
    return loss + 1e-3 * sum(0.5 * (p**2).sum() for name, p in named if "bank" not in name)


def sleeptransformer_loss(logits, stages, named):
    """Sum over the batch of the mean over 21 epochs, 1e-4 of half of all squares."""
    loss = cross_entropy(logits.transpose(1, 2), stages, reduction="none").sum(dim=0).sum() / 21
    return loss + 1e-4 * sum(0.5 * (p**2).sum() for _, p in named)


def deepsleepnet_loss(logits, stages, named):
    """Sum over 25 epochs of the mean over the batch, 1e-3 of half the squares of the first fine filters."""
    loss = cross_entropy(logits.flatten(0, 1), stages.flatten(), reduction="sum") / len(logits)
    return loss + 1e-3 * 0.5 * (dict(named)["fine.0.weight"] ** 2).sum()


def gradients(loss, named):
    return {
        name: g for (name, _), g in zip(named, torch.autograd.grad(loss, [p for _, p in named]), strict=True)
    }


@pytest.mark.parametrize(
    ("name", "published", "per_step", "sizes"),
    [
        ("seqsleepnet", seqsleepnet_loss, 32, {"n_frames": 3, "n_features": 5, "spectrum": True}),
        ("sleeptransformer", sleeptransformer_loss, 32, {"n_frames": 2, "n_features": 3, "depth": 1}),
        ("deepsleepnet", deepsleepnet_loss, 25, {"n_frames": 8, "n_features": 1, "depth": 1}),
    ],
)
def test_a_published_recipe_decays_as_the_authors_loss_does(name, published, per_step, sizes):
    """Gradient of our mean plus decay times weight is the authors' gradient, but for its scale."""
    torch.manual_seed(1)
    recipe = training_recipe(name)
    said = TrainingOptions(name, "human-psg-3", {"width": 0.06})
    network = build_backbone(name, n_stages=3, width=0.06, **sizes).double().eval()
    x = torch.randn(
        recipe.batch_size, recipe.sequence_epochs, sizes["n_frames"], sizes["n_features"]
    ).double()
    stages = torch.randint(3, x.shape[:2])
    logits, named = network(x), list(network.named_parameters())
    theirs = gradients(published(logits, stages, named), named)
    ours = gradients(cross_entropy(network(x).flatten(0, 1), stages.flatten()), named)
    run = start(network, fill_from_recipe(said, recipe_of(said)))
    decay = {id(p): g["weight_decay"] for g in run.optimizer.param_groups for p in g["params"]}
    assert len(decay) == len(named)
    for parameter_name, parameter in named:
        whole = ours[parameter_name] + decay[id(parameter)] * parameter
        torch.testing.assert_close(per_step * whole, theirs[parameter_name], rtol=1e-9, atol=1e-12)
    assert any(decay.values())


def test_accusleep_decays_weights_and_normalisation_and_no_other_bias():
    network = build_backbone("accusleep", n_frames=1, n_features=8, n_stages=3, spectrum=True)
    said = TrainingOptions("accusleep", "human-psg-3")
    run = start(network, fill_from_recipe(said, recipe_of(said)))
    free = {id(p) for g in run.optimizer.param_groups if not g["weight_decay"] for p in g["params"]}
    convolutions = {n for n, part in network.named_modules() if isinstance(part, torch.nn.Conv2d)}
    expected = {f"{layer}.bias" for layer in (*convolutions, "output")}
    assert {name for name, p in network.named_parameters() if id(p) in free} == expected
    assert len(expected) == 4


def test_parameters_that_are_none_cannot_decay():
    network = build_backbone("usleep", n_frames=1, n_features=3, n_stages=3, small=True)
    said = options(weight_decay=0.1, decayed=["bank.*"])
    with pytest.raises(InputError, match=naming("decayed", "'bank.*'")):
        start(network, fill_from_recipe(said, recipe_of(said)))


def test_attnsleep_pads_and_pools_as_published():
    """Layer by layer, the numbers of the authors' model.py for 3,000 samples."""
    network = build_backbone("attnsleep", n_frames=3000, n_features=1, n_stages=5)
    shapes = []
    for branch in (network.fine, network.coarse):
        x = torch.zeros(1, 1, 3000)
        for layer in branch:
            x = layer.eval()(x)
            if isinstance(layer, torch.nn.Conv1d | torch.nn.MaxPool1d):
                shapes.append(
                    (layer.padding if isinstance(layer.padding, int) else layer.padding[0], x.shape[2])
                )
    fine = [(24, 500), (4, 251), (4, 252), (4, 253), (2, 64)]
    coarse = [(200, 61), (2, 31), (3, 31), (3, 31), (1, 16)]
    assert shapes == fine + coarse


def frames_of(name):
    settings = Recipe.load(name)
    if getattr(settings, "samples", None) is not None and settings.samples.channels:
        return round(settings.samples.rate_hz * Recipe.load(name).epoch_seconds)
    return settings.spectrogram.frames if hasattr(settings, "spectrogram") else 1


@pytest.mark.parametrize("name", recipes())
def test_attnsleep_attends_on_every_recipe(name, monkeypatch):
    network = build_backbone("attnsleep", n_frames=frames_of(name), n_features=2, n_stages=3, small=True)
    layers = [part for part in network.modules() if isinstance(part, _EncoderLayer)]
    assert [layer.n_heads for layer in layers] == ([5] if name != "raw-128" else [1])  # of 77 places
    heads = []
    attend = torch.nn.functional.scaled_dot_product_attention

    def spy(query, *rest, **options):
        heads.append(tuple(query.shape[1:]))
        return attend(query, *rest, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    network.eval()(torch.randn(1, 2, frames_of(name), 2))
    assert len(heads) == 1
    n_heads, n_tokens, n_places = heads[0]
    assert n_tokens == 15 and n_heads * n_places >= 10  # features attend to each other


def test_the_page_gives_decay_and_clip_of_every_published_recipe():
    page = (Path(__file__).parents[2] / "docs" / "backbones.md").read_text("utf-8")
    for title, name in (("SeqSleepNet", "seqsleepnet"), ("SleepTransformer", "sleeptransformer"),
                        ("DeepSleepNet", "deepsleepnet"), ("AttnSleep", "attnsleep")):  # fmt: skip
        recipe = training_recipe(name)
        row = re.search(rf"^\| {title} \| {recipe.optimiser} .*$", page, re.MULTILINE)
        assert row and f"| {recipe.learning_rate:g} | {recipe.weight_decay:.3g}" in row[0], title
        if recipe.clip:
            assert f"| {recipe.clip:g} |" in row[0], title
