"""What is worth a look, against plain sums and a night that is reckoned by hand."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from review_nights import FREE, do, open_review
from stageguard.night.stages import AASM5
from stageguard.review.night import guard
from stageguard.review.queue import DOUBTFUL, queue_of


def test_expected_errors_are_what_the_posterior_leaves_where_nobody_looked(tmp_path):
    session, review = open_review(tmp_path, FREE, n_epochs=120)
    do(review, do="strength", value=0.5)  # a fixed strength without a clock: no choice to be held
    do(review, do="clock", value=False)
    do(review, do="set", first=10, last=12, stage=2)
    do(review, do="agree", first=30, last=39)
    at = review.now
    pins = dict.fromkeys((10, 11, 12), 2) | {e: int(at.result.labels[e]) for e in range(30, 40)}
    profile = sg.Profile.load(FREE).replace(transition_weight=0.5, clock=None)
    posterior = sg.posterior(review.night.density, profile, pins=pins).probabilities
    errors = 1 - posterior[np.arange(120), at.result.labels]
    unseen = np.ones(120, dtype=bool)
    unseen[[10, 11, 12, *range(30, 40)]] = False
    found = review.queue()
    assert found.expected_errors == pytest.approx(errors[unseen].sum())
    inside = np.zeros(120, dtype=bool)
    for one in found.stretches:
        inside[one.first : one.last + 1] = True
    assert not (inside & ~unseen).any()
    assert found.expected_errors_if_done == pytest.approx(errors[unseen & ~inside].sum())
    assert (inside | ~(unseen & (errors > 1 - DOUBTFUL))).all()  # what is doubtful is in the queue
    session.close()


def test_stretches_are_ordered_by_what_a_correction_is_expected_to_move(tmp_path):
    session, review = open_review(tmp_path, FREE, n_epochs=120)
    night, at = review.night, review.now
    found = review.queue()
    gains = [one.gain_minutes for one in found.stretches]
    assert len(gains) > 5
    assert gains == sorted(gains, reverse=True)
    posterior = at.result.posterior.probabilities
    labels, argmax = at.result.labels, night.argmax
    before = sg.sleep_statistics(night.hypnogram(labels))
    for one in found.stretches:
        here, corrected, doubts = range(one.first, one.last + 1), labels.copy(), []
        for epoch in here:
            own = labels[epoch]
            doubts.append(1 - min(posterior[epoch, own], night.density.probabilities[epoch, own]))
            rest = {stage: p for stage, p in enumerate(posterior[epoch]) if stage != own}
            corrected[epoch] = argmax[epoch] if argmax[epoch] != own else max(rest, key=rest.get)
        after = sg.sleep_statistics(night.hypnogram(corrected))
        pairs = [
            *((before.stage_minutes[stage], after.stage_minutes[stage]) for stage in AASM5.names),
            *(
                (getattr(before, key), getattr(after, key))
                for key in ("tst_minutes", "sol_minutes", "waso_minutes", "rem_latency_minutes")
            ),
        ]
        moved = max(abs(np.nan_to_num(b) - np.nan_to_num(a)) for a, b in pairs)
        assert one.gain_minutes == pytest.approx(np.mean(doubts) * moved)
        assert one.epoch == here[int(np.argmax(doubts))]
    session.close()


def test_a_look_takes_a_stretch_off_the_queue_and_counts(tmp_path):
    session, review = open_review(tmp_path, FREE, n_epochs=120)
    one = review.queue().stretches[0]
    do(review, do="agree", first=one.first, last=one.last)
    assert all(other.last < one.first or other.first > one.last for other in review.queue().stretches)
    assert review.now.state.n_stretches_done == 1
    while review.queue().stretches:
        one = review.queue().stretches[0]
        do(review, do="agree", first=one.first, last=one.last)
    assert review.queue().expected_errors == review.queue().expected_errors_if_done
    session.close()


def test_a_rule_against_a_sure_stager_is_worth_a_look(tmp_path):
    """One epoch of REM, of which the stager is sure, in a profile whose shortest bout is longer."""
    path = tmp_path / "night.csv"
    rows = ["0.02,0.96,0.02"] * 60
    rows[30] = "0.05,0.1,0.85"
    path.write_text("W,N,R\n" + "\n".join(rows) + "\n")
    session, review = open_review(tmp_path)
    assert [one.reason for one in review.queue().stretches] == ["given up"]  # transitions alone do it
    do(review, do="strength", value=0.0)
    assert review.now.result.labels[30] == 1
    reasons = {
        one.first: one.reason for one in queue_of(review.night, review.now.state, review.now.result).stretches
    }
    assert reasons == {30: "rule"}
    assert guard(review.night, review.now.state).labels[30] == 1
    session.close()
