"""Agreement with an expert: closed forms, plain loops and scikit-learn."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from messages import mentions
from nights import decode, random_probabilities
from peers import peer, random_labels
from small import profile_of, refusal
from stageguard.measures.agreement import agreement

PAIRS = [("W", "R"), ("R", "N")]


def night(values, scheme="wnr3", seconds=30.0):
    return sg.Hypnogram(np.array(values, dtype=np.int8), scheme, seconds)


def test_a_known_pair_of_scorings_in_closed_form():
    expert = night([0, 0, 0, 1, 1, 1, 1, 1, 1, 2, -1, 0])
    output = night([0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, -1])
    found = agreement(expert, output)
    assert (found.n_epochs, found.n_left_out) == (10, 2)
    assert found.confusion.tolist() == [[2, 1, 0], [1, 5, 0], [0, 1, 0]]
    assert found.accuracy == 0.7
    assert (found.majority_stage, found.majority_accuracy) == ("N", 0.6)
    by_chance = (3 * 3 + 6 * 7 + 1 * 0) / 100
    assert found.kappa == pytest.approx((0.7 - by_chance) / (1 - by_chance))
    assert found.f1 == pytest.approx({"W": 2 * 2 / 6, "N": 2 * 5 / 13, "R": 0.0})
    assert found.macro_f1 == pytest.approx((4 / 6 + 10 / 13 + 0) / 3)
    with pytest.raises(ValueError, match="read-only"):
        found.confusion[0, 0] = 1


def test_a_stage_that_neither_scored_keeps_its_row_and_is_no_zero():
    found = agreement(night([0, 0, 1, 1]), night([0, 1, 1, 1]))
    assert math.isnan(found.f1["R"])
    assert found.reasons["f1_R"] == "neither scored R"
    assert found.macro_f1 == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert found.confusion.shape == (3, 3)
    missed = agreement(night([0, 0, 1, 2]), night([0, 0, 1, 1]))
    assert missed.f1["R"] == 0.0
    assert missed.macro_f1 == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_one_stage_alone_has_no_kappa():
    found = agreement(night([1, 1, 1]), night([1, 1, 1]))
    assert (found.accuracy, found.majority_accuracy) == (1.0, 1.0)
    assert math.isnan(found.kappa)
    assert mentions(found.reasons["kappa"], "both scored one", "stage")
    assert agreement(night([1, 1, 1]), night([0, 0, 0])).kappa == 0.0


def test_no_common_epoch_leaves_nothing_to_say():
    found = agreement(night([0, -1]), night([-1, 1]), pairs=PAIRS)
    assert (found.n_epochs, found.n_left_out, found.majority_stage) == (0, 2, None)
    for field in ("accuracy", "kappa", "macro_f1", "majority_accuracy"):
        assert math.isnan(getattr(found, field))
        assert mentions(found.reasons[field], "epoch", "scored by both")
    assert found.n_rare == 0


def test_rare_pairs_are_recovered_in_place_or_nearby():
    #               W-R at 2          R-N at 8             W-R at 14           W-R at 19
    expert = night([0, 0, 2, 2, 2, 2, 2, 2, 1, 1, 1, 0, 0, 0, 2, 1, 1, 1, 0, 2])
    output = night([0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 1, 2, 0, 0, 1, 0, 1, 2, 0, 0])
    found = agreement(expert, output, pairs=PAIRS)
    # expert: W-R 2, R-N 8, W-R 14, R-N 15, W-R 19; the output has W-R 2 and R-N 6
    assert found.n_rare == 5
    assert found.rare_recall_0 == 1 / 5
    assert found.rare_recall_2 == 2 / 5
    assert found.pairs == (("W", "R"), ("R", "N"))
    assert agreement(expert, output, pairs=[("W", "R")]).rare_recall_0 == 1 / 3
    far = night([0, 0, 2, 2, 2, 1, 1, 1, 1, 1, 1, 2, 0, 0, 1, 0, 1, 2, 0, 0])
    assert agreement(expert, far, pairs=[("R", "N")]).rare_recall_2 == 0.0  # three epochs off


def test_a_decoding_brings_its_profile_s_pairs():
    profile = profile_of(tvr_pairs=[["W", "R"]])
    decoding = decode(random_probabilities(np.random.default_rng(0), 50, 3), profile)
    assert agreement(decoding.hypnogram, decoding).pairs == (("W", "R"),)
    assert agreement(decoding.hypnogram, decoding).accuracy == 1.0
    assert agreement(decoding.hypnogram, decoding, pairs=[("R", "N")]).pairs == (("R", "N"),)


def test_the_finer_scheme_is_merged_into_the_coarser():
    five = night([0, 1, 2, 3, 4, -1], "aasm5")
    three = night([0, 1, 1, 1, 2, 1])
    for found in (agreement(five, three), agreement(three, five)):
        assert found.scheme.name == "wnr3"
        assert found.accuracy == 1.0
    decoding = decode(random_probabilities(np.random.default_rng(0), 6, 5), "human-psg-5")
    # W-N3 is rare, but W-N, which it merges to, is what falling asleep looks like
    assert agreement(three, decoding).pairs == (("W", "R"),)


@pytest.mark.parametrize(
    ("expert", "options", "patterns"),
    [
        (night([0]), {}, [r"^the expert scored up to epoch 1 and the night has 3"]),
        (night([0, 1, 1], seconds=20.0), {}, [r"^the expert's epochs last 20 s and the night's 30 s"]),
        (night([0, 1, 1]), {"pairs": [("W", "X")]}, [r"'X' is not a stage of scheme 'wnr3'"]),
        (night([0, 1, 1]), {"pairs": [("W", "W")]}, [r"a rare pair is \('W', 'W'\), expected two"]),
        (
            night([0, 1, 1]),
            {"pairs": ["WR"]},
            [r"a rare pair is 'WR', expected two stages such as \('W', 'R'\)"],
        ),
        (night([0, 1, 1]), {"pairs": [("W", "N", "R")]}, [r"a rare pair is \('W', 'N', 'R'\), expected two"]),
        ([0, 1, 1], {}, [r"^expert is \[0, 1, 1\], expected an expert"]),
    ],
)
def test_what_cannot_be_compared_is_refused(expert, options, patterns):
    with pytest.raises(sg.InputError) as error:
        agreement(expert, night([0, 1, 1]), **options)
    refusal(error, *patterns)


def test_scikit_learn_agrees():
    metrics, rng, n_seen = peer("sklearn.metrics"), np.random.default_rng(7), 0
    for _ in range(40):
        truth = random_labels(rng, longest=300)
        output = np.where(rng.random(len(truth)) < 0.6, truth, rng.choice(truth, size=len(truth)))
        output[rng.random(len(truth)) < rng.choice([0.0, 0.05])] = -1
        found = agreement(night(truth, "aasm5"), night(output, "aasm5"))
        both = (truth >= 0) & (output >= 0)
        if not both.any():
            assert found.n_epochs == 0
            continue
        n_seen += 1
        a, b, every = truth[both], output[both], list(range(5))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f1 = metrics.f1_score(a, b, labels=every, average=None, zero_division=np.nan)
            macro = metrics.f1_score(a, b, labels=every, average="macro", zero_division=np.nan)
            kappa = metrics.cohen_kappa_score(a, b)
        assert found.confusion.tolist() == metrics.confusion_matrix(a, b, labels=every).tolist()
        assert found.accuracy == pytest.approx(metrics.accuracy_score(a, b))
        assert list(found.f1.values()) == pytest.approx(f1.tolist(), nan_ok=True)
        assert found.macro_f1 == pytest.approx(macro)
        assert found.kappa == pytest.approx(kappa, nan_ok=True)
        assert found.majority_accuracy == pytest.approx(np.bincount(a).max() / len(a))
    assert n_seen > 20


scorings = st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 2)), min_size=3, max_size=50)


@given(scorings)
def test_rare_recall_is_what_a_plain_loop_finds(pairs):
    a, b = np.array(pairs).T.tolist()
    events = [
        (t, pair)
        for t, pair in enumerate(itertools.pairwise(a))
        if pair in ((0, 2), (2, 1)) and b[t] >= 0 and b[t + 1] >= 0
    ]
    at = dict(enumerate(itertools.pairwise(b)))
    found = agreement(night(a), night(b), pairs=PAIRS)
    assert found.n_rare == len(events)
    for reach, recall in ((0, found.rare_recall_0), (2, found.rare_recall_2)):
        hits = sum(any(at.get(t + d) == pair for d in range(-reach, reach + 1)) for t, pair in events)
        assert math.isnan(recall) if not events else recall == pytest.approx(hits / len(events))
