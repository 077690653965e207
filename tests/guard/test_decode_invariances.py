"""What must not change the answer."""

import itertools

import numpy as np
import pytest

import oracle
import stageguard as sg
from nights import decode, plain, random_mapping, random_probabilities


def busy(n_stages, seed, **changes):
    """A profile with everything on, and a night for it."""
    rng = np.random.default_rng([41, seed, n_stages])
    mapping = random_mapping(
        rng, n_stages, ends="censored", stay="self", flip=True, durations=True, minimum=True
    )
    return mapping | changes, random_probabilities(rng, 30, n_stages, sharpness=2.0)


@pytest.mark.parametrize("seed", range(4))
def test_relabelling_the_stages_relabels_the_answer(backend, seed):
    rng = np.random.default_rng(seed)
    mapping, probabilities = busy(3, seed)
    mapping = {key: value for key, value in mapping.items() if key != "scheme"}
    names = ("W", "N", "R")
    original = decode(probabilities, sg.Profile.from_dict(mapping | {"scheme": "wnr3"}), pins={4: "R"})
    order = rng.permutation([0, 2, 1]) if seed else np.array([2, 0, 1])
    renamed = mapping | {"stages": [names[i] for i in order], "wake": "W", "rem": "R"}
    permuted = decode(probabilities[:, order], sg.Profile.from_dict(renamed), pins={4: "R"})
    assert permuted.score == pytest.approx(original.score, abs=1e-9)
    assert order[permuted.hypnogram.labels].tolist() == original.hypnogram.labels.tolist()
    assert permuted.stages.tolist() == original.stages.tolist()


def test_a_batch_is_its_nights_one_by_one_to_the_byte(backend):
    rng = np.random.default_rng(6)
    structured = random_mapping(rng, 3, ends="paper", stay="self", flip=False, durations=False, minimum=True)
    generic = busy(3, 2)[0]
    greedy = structured | {"flip_flop": {"penalty_nats": 2.0, "window_epochs": 5, "method": "greedy"}}
    for mapping in (structured, generic, greedy):
        profile = sg.Profile.from_dict(mapping)
        nights = [random_probabilities(rng, int(n), 3) for n in (17, 1, 40, 17, 17, 3, 17, 40)]
        nights[2][5:8] = np.nan
        quality = [None if i % 2 else rng.random(len(night)) for i, night in enumerate(nights)]
        pins = [None] * 7 + [{20: "R"}]
        segments = [None, None, [0, 20], None, None, None, None, [0, 10]]
        batch = decode(nights, profile, quality=quality, pins=pins, segments=segments)
        assert isinstance(batch, list)
        assert len(batch) == len(nights)
        for i, night in enumerate(nights):
            one = decode(night, profile, quality=quality[i], pins=pins[i], segments=segments[i])
            assert batch[i].hypnogram.labels.tobytes() == one.hypnogram.labels.tobytes()
            assert np.float64(batch[i].score).tobytes() == np.float64(one.score).tobytes()
            assert batch[i].filled.tobytes() == one.filled.tobytes()
            assert batch[i].argmax.tobytes() == one.argmax.tobytes()


@pytest.mark.parametrize("n_stages", [2, 3, 5])
@pytest.mark.parametrize("flip", [False, True])
def test_neither_neighbours_nor_threads_change_a_byte(backend, monkeypatch, n_stages, flip):
    rng = np.random.default_rng([7, n_stages])
    mapping = random_mapping(
        rng, n_stages, ends="censored", stay="self", flip=flip, durations=False, minimum=True
    )
    mapping.pop("calibration", None)
    profile = sg.Profile.from_dict(mapping)
    lengths = [24] * 13 + [1, 2, 3, 24, 60, 5] + [17] * 6
    nights = [random_probabilities(rng, n, n_stages, sharpness=3.0) for n in lengths]
    for i in range(0, len(nights), 3):  # ties and zeros too: the order of sums shows in them first
        nights[i] = np.eye(n_stages)[rng.integers(n_stages, size=lengths[i])]
        nights[i][:: 2 + i % 3] = 1 / n_stages

    def answers(decoded):
        return [(one.hypnogram.labels.tobytes(), np.float64(one.score).tobytes()) for one in decoded]

    alone = answers([decode(night, profile) for night in nights])
    assert answers(decode(nights, profile)) == alone
    assert answers(decode(nights[::-1], profile)) == alone[::-1]
    assert answers(decode(nights[5:12], profile)) == alone[5:12]


@pytest.mark.parametrize("ends", ["censored", "paper"])
def test_segments_are_decoded_as_if_apart(backend, ends):
    for seed in range(4):
        mapping, probabilities = busy(3, seed, ends=ends)
        profile = sg.Profile.from_dict(mapping)
        joined = decode(probabilities, profile, segments=[0, 11, 24])
        apart = [decode(probabilities[a:b], profile) for a, b in ((0, 11), (11, 24), (24, 30))]
        labels = np.concatenate([part.hypnogram.labels for part in apart])
        assert joined.hypnogram.labels.tolist() == labels.tolist()
        assert joined.score == pytest.approx(sum(part.score for part in apart), abs=1e-9)


def test_a_gap_separates_like_a_segment_boundary(backend):
    mapping, probabilities = busy(3, 1)
    lost = np.vstack([probabilities[:12], np.full((11, 3), np.nan), probabilities[12:]])
    profile = sg.Profile.from_dict(mapping | {"epoch_seconds": 30.0})
    around = decode(lost, profile)
    joined = decode(probabilities, profile, segments=[0, 12])
    assert around.hypnogram.labels[12:23].tolist() == [-1] * 11
    assert np.delete(around.hypnogram.labels, range(12, 23)).tolist() == joined.hypnogram.labels.tolist()
    assert around.score == pytest.approx(joined.score, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_time_reversal_of_a_symmetric_profile(backend, seed):
    rng = np.random.default_rng([31, seed])
    names = ("W", "N", "R")
    switch = rng.uniform(0.01, 0.3, size=(3, 3))
    rare = [[a, b, float(switch[i, j])] for (i, a), (j, b) in itertools.permutations(enumerate(names), 2)]
    backward = [[b, a, p] for a, b, p in rare]
    mapping = plain(ends="censored", stay="self", min_bout_seconds={"N": 90, "R": 60})
    if seed % 2:  # a table for every stage and equal selves: leaving is weighed alike in both directions
        mapping["durations"] = {"W": [0.1, 0.3, 0.2], "N": [0.0, 0.2], "R": [0.2, 0.1]}
    probabilities = random_probabilities(rng, 60, 3)
    one = decode(probabilities, sg.Profile.from_dict(mapping | {"rare": rare}))
    other = decode(probabilities[::-1], sg.Profile.from_dict(mapping | {"rare": backward}))
    assert other.hypnogram.labels[::-1].tolist() == one.hypnogram.labels.tolist()
    assert other.score == pytest.approx(one.score, abs=1e-9)
    assert len(oracle.bouts_of(one.hypnogram.labels)) > 3


@pytest.mark.parametrize("scale", [1 - 9e-4, 1 + 9e-4])
def test_rows_that_sum_to_almost_one_are_renormalised(backend, scale):
    mapping, probabilities = busy(3, 3)
    profile = sg.Profile.from_dict(mapping)
    quality = np.random.default_rng(2).random(30)
    exactly = decode(probabilities, profile, quality=quality)
    nearly = decode(probabilities * scale, profile, quality=quality)
    assert nearly.hypnogram.labels.tolist() == exactly.hypnogram.labels.tolist()
    assert nearly.score == pytest.approx(exactly.score, abs=1e-9)


def test_inputs_are_left_alone(backend):
    mapping, probabilities = busy(3, 0)
    probabilities[4] = np.nan
    kept, quality = probabilities.copy(), np.full(30, 0.5)
    pins, segments = {3: "R"}, [0, 20]
    decode(probabilities, sg.Profile.from_dict(mapping), quality=quality, pins=pins, segments=segments)
    assert np.array_equal(probabilities, kept, equal_nan=True)
    assert (quality == 0.5).all()
    assert pins == {3: "R"}
    assert segments == [0, 20]
