"""What a row of a cohort's table is made of is what the whole measures say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stageguard as sg
from nights import decode as decode_quietly
from stageguard.measures.bouts import bout_pair_counts, bouts_of, pair_counts
from stageguard.measures.rare_events import early_rem_removed
from stageguard.measures.summary import joint_scores, measures_of, summary_of
from stageguard.synthetic.night import simulate_night


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-1, 3), min_size=1, max_size=30))
def test_pairs_of_bouts_are_those_of_the_epochs(labels):
    labels = np.array(labels, dtype=np.int8)
    assert np.array_equal(bout_pair_counts(bouts_of(labels), 4), pair_counts(labels, 4))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-1, 2), min_size=1, max_size=12))
def test_flips_are_those_counted_epoch_by_epoch(labels):
    night = sg.Hypnogram(np.array(labels, dtype=np.int8), "wnr3", 30.0)
    found = sg.validity(night, "kdd2026-cardiorespiratory").indicators["flips_per_hour"]
    triples = [t for t in zip(labels, labels[1:], labels[2:], strict=False) if min(t) >= 0]
    hours = sum(label >= 0 for label in labels) / 120
    if not triples:
        assert np.isnan(found.value)
        assert found.reason
    else:
        assert found.value == pytest.approx(sum(a == c != b for a, b, c in triples) / hours)


@pytest.mark.parametrize("has_gap", [False, True])
def test_rows_say_what_summaries_do(has_gap):
    densities = [simulate_night("human-psg-5", hours=5, seed=seed).density for seed in range(3)]
    if has_gap:
        rows = densities[0].probabilities.copy()
        rows[200:260] = np.nan
        densities[0] = densities[0].with_rows(rows)
    decodings = [decode_quietly(density, "human-psg-5") for density in densities]
    for decoding in decodings:
        summary, row = summary_of(decoding), measures_of(decoding)
        assert joint_scores(decoding) == row.joint == summary.joint
        assert row.estimates == summary.estimates
        assert len(row.early_rem_removed) == len(early_rem_removed(decoding))
