"""The six networks: sizes and context as published, and one contract."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from messages import mentions

torch = pytest.importorskip("torch")
from stageguard.nn.backbones import BACKBONES, build_backbone  # noqa: E402
from stageguard.nn.backbones.shared import Spectrogram  # noqa: E402

torch.set_num_threads(1)

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
NAMES = tuple(BACKBONES)
INPUTS = {"vector": (1, 7), "spectrogram": (29, 12), "few frames": (6, 5), "raw": (300, 2)}


def small(name, n_frames=1, n_features=7, n_stages=3, *, seed=1, **options):
    torch.manual_seed(seed)
    return build_backbone(
        name, n_frames=n_frames, n_features=n_features, n_stages=n_stages, small=True, **options
    ).eval()


def features(*shape, seed=2):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def n_parameters(network):
    return sum(parameter.numel() for parameter in network.parameters())


# ---- sizes ---------------------------------------------------------------------------------------


def test_accusleep_has_the_published_number_of_parameters():
    network = build_backbone("accusleep", n_frames=1, n_features=185, n_stages=3, spectrum=True)
    # 185 rows: 0-20 Hz in steps of .2 (100), 20-50 Hz in steps of .4 (76), EMG 9 times; 13 columns.
    convolutions = (9 * 8 + 8) + (9 * 8 * 16 + 16) + (9 * 16 * 32 + 32)  # 80 + 1,168 + 4,640
    normalisation = 2 * (8 + 16 + 32)
    linear = 32 * 46 * 3 * 3 + 3  # halved twice, rounded down: 185 -> 92 -> 46 rows, 13 -> 6 -> 3 columns
    assert (convolutions, normalisation, linear) == (5_888, 112, 13_251)
    assert n_parameters(network) == 19_251


def test_deepsleepnet_has_the_published_number_of_parameters():
    network = build_backbone("deepsleepnet", n_frames=3000, n_features=1, n_stages=5)
    # Fine: 3,000 -> 500 (stride 6) -> 63 (pool 8) -> 16 (pool 4) places of 128 = 2,048.
    fine = 50 * 64 + 8 * 64 * 128 + 2 * (8 * 128 * 128) + 2 * (64 + 3 * 128)
    # Coarse: 3,000 -> 60 (stride 50) -> 15 (pool 4) -> 8 (pool 2) places of 128 = 1,024; 3,072 together.
    coarse = 400 * 64 + 6 * 64 * 128 + 2 * (6 * 128 * 128) + 2 * (64 + 3 * 128)
    shortcut = 3_072 * 1_024 + 2 * 1_024
    # Each direction: four gates of 512 on 3,072 + 512 inputs, then on 512 + 512; torch has two biases a gate.
    # The peepholes of the original, 3 * 512 in each of the four cells, are left out.
    recurrence = 2 * (4 * 512 * (3_072 + 512) + 8 * 512 + 4 * 512 * (512 + 512) + 8 * 512)
    output = 1_024 * 5 + 5
    assert (fine, coarse, recurrence) == (331_776, 272_256, 18_890_752)
    assert n_parameters(network) == fine + coarse + shortcut + recurrence + output == 22_647_685


def test_seqsleepnet_has_the_published_number_of_parameters():
    network = build_backbone("seqsleepnet", n_frames=29, n_features=129, n_stages=5, spectrum=True)
    filterbank = 129 * 32
    within = 2 * (3 * 64 * (32 + 64) + 6 * 64)  # two directions, three gates, two biases a gate
    attention = (128 * 64 + 64) + 64
    between = 2 * (3 * 64 * (128 + 64) + 6 * 64)
    output = 128 * 5 + 5
    assert (filterbank, within, attention, between, output) == (4_128, 37_632, 8_320, 74_496, 645)
    assert n_parameters(network) == 125_221


def test_attnsleep_has_the_published_number_of_parameters():
    network = build_backbone("attnsleep", n_frames=3000, n_features=1, n_stages=5)
    fine = 50 * 64 + 8 * 64 * 128 + 8 * 128 * 128 + 2 * (64 + 128 + 128)  # leaves 64 places
    coarse = 400 * 64 + 7 * 64 * 128 + 7 * 128 * 128 + 2 * (64 + 128 + 128)  # leaves 16: 80 together
    recalibration = (128 * 30 + 30 + 60) + (30 * 30 + 30 + 60) + (30 + 30) + (128 * 30 + 60)
    # Three causal convolutions, mixing, one normalisation, two dense layers. The authors' code holds another
    # convolution and normalisation per layer, 6,330 + 160, that never reach its output.
    layer = 3 * (30 * 30 * 7 + 30) + (80 * 80 + 80) + 160 + (80 * 120 + 120) + (120 * 80 + 80)
    output = 80 * 30 * 5 + 5
    assert (fine, coarse, recalibration, layer, output) == (200_448, 198_272, 8_880, 45_030, 12_005)
    assert network.fine.n_places + network.coarse.n_places == 80
    assert n_parameters(network) == fine + coarse + recalibration + 2 * layer + 160 + output == 509_825


def test_sleeptransformer_has_the_published_number_of_parameters():
    network = build_backbone("sleeptransformer", n_frames=29, n_features=128, n_stages=5)
    attention = 3 * (128 * 128 + 128)  # queries, keys, values; the original projects no output
    dense = (128 * 1_024 + 1_024) + (1_024 * 128 + 128)
    block = attention + dense + 2 * (2 * 128)
    pool = (128 * 64 + 64) + 64
    output = (128 * 1_024 + 1_024) + (1_024 * 1_024 + 1_024) + (1_024 * 5 + 5)
    assert (block, pool, output) == (313_344, 8_320, 1_186_821)
    assert n_parameters(network) == 8 * block + pool + output == 3_701_893  # the paper says 3.7 million


def test_usleep_has_the_published_number_of_parameters():
    network = build_backbone("usleep", n_frames=3840, n_features=2, n_stages=5)
    filters = [
        6,
        9,
        11,
        15,
        20,
        28,
        40,
        55,
        77,
        108,
        152,
        214,
        302,
    ]  # 5, times the root of 2, times that of 1.67

    def convolution(n_in, n_out, kernel=9):
        return kernel * n_in * n_out + n_out + 2 * n_out  # weights, biases, normalisation

    down = sum(convolution(a, b) for a, b in zip([2, *filters[:-1]], filters, strict=True))
    up = sum(convolution(below, n, kernel=2) + convolution(2 * n, n) for n, below in pairwise(filters))
    head = (6 * 6 + 6) + (6 * 5 + 5) + (5 * 5 + 5)
    assert (down, up, head) == (1_178_808, 1_935_422, 107)
    assert n_parameters(network) == down + up + head == 3_114_337  # the paper says 3.1 million


# ---- the contract --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_input_gives_logits_per_epoch(name, kind):
    n_frames, n_features = INPUTS[kind]
    network = small(name, n_frames, n_features, n_stages=4)
    logits = network(features(2, 11, n_frames, n_features))
    assert logits.shape == (2, 11, 4)
    assert logits.isfinite().all()
    assert (logits.sum(dim=2) - 1).abs().max() > 0.01  # not probabilities
    assert (network.n_frames, network.n_features, network.n_stages) == (n_frames, n_features, 4)


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("name", NAMES)
def test_recordings_of_a_batch_do_not_meet(name, kind):
    network = small(name, *INPUTS[kind])
    x = features(3, 9, *INPUTS[kind])
    together = network(x)
    alone = torch.cat([network(x[i : i + 1]) for i in range(3)])
    assert torch.allclose(together, alone, atol=1e-5)
    assert (together[0] - together[1]).abs().max() > 1e-3


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_every_parameter(name, kind):
    # In evaluation mode: in training, normalisation takes the mean away and with it the biases before it.
    unmoved = None
    for seed in range(3):  # a unit of its own, such as the one AttnSleep squeezes to, may start out dead
        network = small(name, *INPUTS[kind], seed=seed)
        (network(features(4, 12, *INPUTS[kind])) ** 2).sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
        still = {n for n, p in network.named_parameters() if not p.grad.any()}
        unmoved = still if unmoved is None else unmoved & still
    assert unmoved == set()


# ---- context -------------------------------------------------------------------------------------


def moved_by(network, changed, n_epochs):
    """Which epochs' logits move when one epoch's features do, in double precision."""
    network = network.double()
    x = features(1, n_epochs, network.n_frames, network.n_features).double()
    other = x.clone()
    other[0, changed] += 1.0
    with torch.no_grad():
        difference = (network(x) - network(other)).abs().amax(dim=2)[0]
    return difference.nonzero().flatten().tolist()


@pytest.mark.parametrize("kind", INPUTS)
def test_attnsleep_sees_the_epoch_alone(kind):
    assert moved_by(small("attnsleep", *INPUTS[kind]), 15, 30) == [15]


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("window", [9, 13])
def test_accusleep_sees_its_window_and_nothing_beyond(kind, window):
    network = small("accusleep", *INPUTS[kind], window_epochs=window, width=4)
    beside = window // 2
    assert moved_by(network, 15, 30) == [*range(15 - beside, 15 + beside + 1)]
    assert moved_by(network, 0, 30) == [*range(beside + 1)]


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("name", ["deepsleepnet", "seqsleepnet", "sleeptransformer"])
@pytest.mark.parametrize("changed", [0, 12, 24])
def test_sequence_networks_see_the_whole_sequence_both_ways(name, kind, changed):
    assert moved_by(small(name, *INPUTS[kind]), changed, 25) == [*range(25)]


def usleep_reach(depth, place=0):
    """First and last place that a place depends on, by following intervals through the layers."""

    def inputs(level, low, high):
        """Places of a level's input that its decoded places from low to high depend on."""
        if level == depth:
            return low - 4, high + 4
        low, high = low - 4, high + 4  # the convolution after joining
        deep_low, deep_high = inputs(level + 1, low // 2, (high + 1) // 2)  # kernel of 2, then doubling
        return min(low, 2 * deep_low) - 4, max(high, 2 * deep_high + 1) + 4

    return inputs(0, place, place)


def reach_by_gradient(network, n_epochs, place, n_nights=1):
    """How many epochs before and after a place its logits depend on, in one of several nights at least."""
    x = features(n_nights, n_epochs, network.n_frames, network.n_features).double().requires_grad_()
    network.double()(x)[:, place].sum().backward()
    seen = x.grad.abs().sum((0, 2, 3)).nonzero().flatten() - place
    return -int(seen.min()), int(seen.max())


def test_usleep_on_feature_vectors_reaches_as_far_as_the_page_says():
    network = small("usleep", width=0.1)
    found = {}
    for place in range(232, 248):
        # pooling passes the gradient to the larger of two places only, so that several nights are looked at
        found[place] = reach_by_gradient(network, 480, place, n_nights=3)
        low, high = usleep_reach(4, place)
        assert found[place] == (place - low, high - place)
    before, after = zip(*found.values(), strict=True)
    assert (min(before), max(before), min(after), max(after)) == (184, 199, 199, 214)
    assert mentions(PAGE.read_text("utf-8"), 184, "199 epochs", 199, 214)


def test_usleep_on_raw_samples_reaches_a_dozen_epochs_as_published():
    torch.manual_seed(1)
    network = build_backbone("usleep", n_frames=3840, n_features=1, n_stages=3, width=0.05).eval()
    before, after = reach_by_gradient(network, 40, 20)
    assert (before, after) in {(13, 14), (13, 15), (14, 14), (14, 15)}
    low, high = usleep_reach(12, 20 * 3840)[0], usleep_reach(12, 21 * 3840 - 1)[1]
    assert (before, after) == (20 - low // 3840, high // 3840 - 20)
    assert mentions(PAGE.read_text("utf-8"), 13, "14 epochs", 14, 15)


@pytest.mark.parametrize("n_epochs", [1, 2, 5])
@pytest.mark.parametrize("name", NAMES)
def test_sequences_shorter_than_the_context_work(name, n_epochs):
    for n_frames, n_features in INPUTS.values():
        logits = small(name, n_frames, n_features)(features(2, n_epochs, n_frames, n_features))
        assert logits.shape == (2, n_epochs, 3)
        assert logits.isfinite().all()


# ---- shared parts --------------------------------------------------------------------------------


def test_the_spectrogram_has_the_published_shape_and_finds_a_sine():
    spectrogram = Spectrogram(3000, 2, 30.0).eval()
    assert (spectrogram.n_frames, spectrogram.n_bins) == (29, 129)
    seconds = torch.arange(3000) / 100
    x = torch.stack([torch.sin(2 * torch.pi * 12.5 * seconds), torch.sin(2 * torch.pi * 25 * seconds)], dim=1)
    spectra = spectrogram(x.expand(2, 3, -1, -1))
    assert spectra.shape == (2, 3, 29, 258)
    assert (spectra[..., :129].argmax(dim=3) == 32).all()  # 12.5 Hz in bins of 100/256 Hz
    assert (spectra[..., 129:].argmax(dim=3) == 64).all()


# ---- the page ------------------------------------------------------------------------------------
