"""What a row of a cohort's table is made of is what the whole measures say."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stageguard as sg
from nights import decode as decode_quietly
from stageguard.measures.bouts import bout_pair_counts, bouts_of, pair_counts
from stageguard.measures.estimates import estimates_of, estimates_of_all
from stageguard.measures.joint_scores import joint_of_all, joint_scores_of_all
from stageguard.measures.period import period_for
from stageguard.measures.rare_events import early_rem_removed, early_rem_removed_of_all
from stageguard.measures.statistics import StatisticsOptions
from stageguard.measures.summary import joint_scores, summary_of
from stageguard.measures.validity import joint_of
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
    options = StatisticsOptions()
    together = (
        estimates_of_all(decodings, options),
        joint_scores_of_all(decodings),
        early_rem_removed_of_all(decodings),
    )
    for decoding, estimates, joint, n_removed in zip(decodings, *together, strict=True):
        summary = summary_of(decoding)
        assert joint_scores(decoding) == summary.joint
        assert astuple(joint) == pytest.approx(astuple(summary.joint), rel=1e-12)
        assert n_removed == len(early_rem_removed(decoding))
        assert estimates == estimates_of(decoding, options)


stretches = st.lists(st.tuples(st.integers(-1, 4), st.integers(1, 60)), min_size=1, max_size=25)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4), st.sampled_from([0.02, 0.1, 0.4]))
def test_early_rem_removed_of_many_nights_is_that_of_each(seeds, share):
    profile = sg.Profile.load("human-psg-5").replace(strength=None, transition_weight=0.3)
    nights = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        stages = np.repeat(rng.choice(5, 60, p=[0.2, 0.2, 0.2, 0.0, 0.4]), rng.integers(1, 9, 60))
        decoding = decode_quietly(np.eye(5)[stages] * 0.9 + 0.02, profile)
        is_other = rng.random(len(stages)) < share  # of much of its REM something is left
        labels = np.where(is_other, rng.integers(-1, 5, len(stages)), stages).astype(np.int8)
        nights.append(decoding.replaced(hypnogram=decoding.hypnogram.with_rows(labels)))
    assert early_rem_removed_of_all(nights) == [len(early_rem_removed(night)) for night in nights]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(stretches, st.booleans()), min_size=1, max_size=4),
    st.sampled_from(["human-psg-5", "kdd2026-mouse-eeg-emg"]),
    st.sampled_from([30.0, 20.0]),
)
def test_joint_scores_of_many_nights_are_those_of_each(made, name, seconds):
    profile = sg.Profile.load(name)
    nights = []
    for runs, is_cut in made:
        labels = np.repeat([stage for stage, _ in runs], [n for _, n in runs]).astype(np.int8)
        labels[labels >= profile.scheme.n_stages] = 0
        nights.append((labels, [len(labels) // 2] if is_cut and len(labels) > 1 else []))
    periods = [period_for(sg.Hypnogram(labels, profile.scheme, seconds), profile) for labels, _ in nights]
    labels, cuts = zip(*nights, strict=True)
    found = joint_of_all(labels, profile, seconds, periods, cuts)
    each = zip(labels, periods, cuts, strict=True)
    alone = [joint_of(one, profile, seconds, period, cut).value for one, period, cut in each]
    assert found.tolist() == pytest.approx(alone, rel=1e-12, nan_ok=True)
