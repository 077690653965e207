"""Bouts and adjacent pairs, against plain loops."""

import itertools
from datetime import datetime

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from small import night, profile_of
from stageguard.measures.bouts import (
    bouts_of,
    cuts_of,
    hypnogram_before,
    pair_counts,
)

label_lists = st.lists(st.integers(-1, 4), min_size=1, max_size=60)


def as_labels(values):
    return np.array(values, dtype=np.int8)


@given(label_lists)
def test_bouts_are_the_runs_a_plain_loop_finds(values):
    bouts = bouts_of(as_labels(values))
    expected = [(label, len(list(run))) for label, run in itertools.groupby(values)]
    assert list(zip(bouts.stages.tolist(), bouts.lengths.tolist(), strict=True)) == expected
    assert [values[start] for start in bouts.starts] == bouts.stages.tolist()
    assert np.repeat(bouts.stages, bouts.lengths).tolist() == values


def test_only_bouts_between_scored_epochs_are_complete():
    # cut, whole, beside an unscored epoch, unscored, beside it, whole, cut
    values = [0, 0, 1, 2, 2, 2, -1, 3, 3, 0, 4]
    assert bouts_of(as_labels(values)).complete.tolist() == [False, True, False, False, False, True, False]


@given(label_lists)
def test_pairs_are_those_a_plain_loop_counts(values):
    expected = np.zeros((5, 5), dtype=int)
    for a, b in itertools.pairwise(values):
        if a >= 0 and b >= 0:
            expected[a, b] += 1
    assert pair_counts(as_labels(values), 5).tolist() == expected.tolist()


def test_the_stager_s_own_choice_keeps_scheme_start_and_source():
    density = sg.Hypnodensity(night(), "wnr3", 30.0, datetime(2024, 1, 1, 22), "net")
    decoding = sg.decode(density, profile_of(transition_weight=1.0))
    before = hypnogram_before(decoding)
    assert before.labels.tolist() == decoding.argmax.tolist()
    assert (before.scheme.name, before.start, before.scorer) == ("wnr3", density.start, "net")


def hypnogram(n_epochs=4, seconds=30.0, start=None):
    return sg.Hypnogram([0] * n_epochs, "wnr3", seconds, start)


def test_a_decoding_knows_where_its_segments_were_cut():
    probabilities = night(40)
    assert list(cuts_of(sg.decode(probabilities, profile_of()))) == []
    assert list(cuts_of(sg.decode(probabilities, profile_of(), segments=[0, 10, 25]))) == [10, 25]
    assert list(cuts_of(hypnogram())) == []
