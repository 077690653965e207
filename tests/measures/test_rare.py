"""The ledger of rare events: what decoding kept, lost and added, and how strong the evidence was."""

import math
from datetime import datetime, timedelta

import numpy as np
import pytest

import stageguard as sg
from messages import mentions
from nights import decode, random_probabilities
from small import profile_of
from stageguard.measures.rare import early_rem_removed, rare_events

W, N, R = 0, 1, 2
FREE = {"transition_weight": 0.0}  # the output is the argmax


def probabilities(*bouts, sure=0.9):
    labels = np.array([label for label, n in bouts for _ in range(n)])
    rest = (1 - sure) / 2
    return np.where(np.arange(3) == labels[:, None], sure, rest)


def test_events_that_stay_are_kept_with_their_evidence():
    night = probabilities((W, 10), (R, 4), (N, 60), (W, 2), (R, 9))
    start = datetime(2024, 1, 1, 23)
    density = sg.Hypnodensity(night, "wnr3", 30.0, start)
    events = rare_events(decode(density, profile_of(**FREE, tvr_pairs=[["W", "R"], ["R", "N"]])))
    assert [(event.kind, event.epoch, event.fate) for event in events] == [
        ("REM within 15 min of sleep onset", 10, "kept"),
        ("W->R", 10, "kept"),
        ("R->N", 14, "kept"),
        ("W->R", 76, "kept"),
    ]
    nats = math.log(0.9 / 0.05)
    assert [event.n_epochs for event in events] == [4, 4, 60, 9]
    for event in events:
        assert event.evidence_nats == pytest.approx(nats)
        assert event.bout_evidence_nats == pytest.approx(nats * event.n_epochs)
        assert event.clock == start + timedelta(seconds=30 * event.epoch)


def test_what_a_decoder_takes_away_is_lost():
    night = probabilities((N, 40), (W, 6), (R, 1), (W, 30), (N, 20), sure=0.6)
    decoding = decode(night, profile_of(transition_weight=1.0, rare=[["W", "R"]]))
    assert decoding.changed[46]
    (event,) = rare_events(decoding)
    assert (event.kind, event.epoch, event.in_before, event.in_after) == ("W->R", 46, True, False)
    assert event.fate == "lost"
    assert event.evidence_nats == event.bout_evidence_nats == pytest.approx(math.log(0.6 / 0.2))
    assert event.clock is None


def test_what_a_decoder_invents_is_new_and_has_evidence_against_it():
    night = probabilities((W, 20), (N, 1), (R, 30), sure=0.6)
    forbidding = {"W": {"W": 0.5, "N": 1e-9, "R": 0.5}, "N": {"W": 0.1, "N": 0.8, "R": 0.1}}
    forbidding |= {"R": {"W": 0.1, "N": 0.1, "R": 0.8}}
    decoding = decode(night, profile_of(transition_weight=1.0, transitions=forbidding))
    events = {event.kind: event for event in rare_events(decoding)}
    assert events["W->R"].fate == "new"
    assert events["W->R"].epoch == 20
    assert events["W->R"].evidence_nats == pytest.approx(math.log(0.2 / 0.6))
    assert events["W->R"].bout_evidence_nats == pytest.approx(30 * math.log(3) - math.log(3))
    assert events["REM within 15 min of sleep onset"].fate == "kept"  # at another epoch, but still there
    assert events["REM within 15 min of sleep onset"].epoch == 21


@pytest.mark.parametrize(("n_nrem", "found"), [(0, True), (29, True), (30, True), (31, False)])
def test_rem_within_a_quarter_of_an_hour_of_sleep_onset(n_nrem, found):
    night = probabilities((W, 9), (N, n_nrem), (R, 5), (W, 5))
    kinds = {event.kind for event in rare_events(decode(night, profile_of(**FREE)))}
    assert (mentions(kinds, "REM", "15 min")) is found
    assert ("W->R" in kinds) is (n_nrem == 0)


def test_wake_to_rem_is_listed_even_if_the_profile_does_not_count_it():
    decoding = decode(probabilities((N, 50), (W, 9), (R, 5)), profile_of(**FREE, tvr_pairs=[["R", "N"]]))
    assert [event.kind for event in rare_events(decoding)] == ["W->R"]


def test_nothing_happens_across_segments_and_gaps():
    night = probabilities((N, 60), (W, 9), (R, 30))
    assert len(rare_events(decode(night, profile_of(**FREE)))) == 1
    assert rare_events(decode(night, profile_of(**FREE), segments=[0, 69])) == ()
    night[58:69] = np.nan
    assert rare_events(decode(night, profile_of(**FREE))) == ()


def test_an_epoch_without_evidence_has_none_to_show():
    night = probabilities((N, 40), (W, 10), (R, 10))
    night[50:52] = np.nan
    decoding = decode(night, profile_of(transition_weight=0.1), pins={50: "R", 51: "R"})
    assert decoding.argmax[50] == -1
    (event,) = rare_events(decoding)
    assert (event.epoch, event.fate, event.n_epochs) == (50, "new", 10)
    assert math.isnan(event.evidence_nats)
    assert event.bout_evidence_nats == pytest.approx(8 * math.log(0.9 / 0.05))


def test_the_ledger_adds_up_on_random_nights():
    n_kept = n_lost = n_new = 0
    profile = profile_of(transition_weight=0.3, tvr_pairs=[["W", "R"], ["R", "N"]])
    for seed in range(20):
        decoding = decode(random_probabilities(np.random.default_rng(seed), 200, 3), profile)
        events = [event for event in rare_events(decoding) if "->" in event.kind]
        for labels, field in ((decoding.argmax, "in_before"), (decoding.hypnogram.labels, "in_after")):
            pairs = list(zip(labels[:-1].tolist(), labels[1:].tolist(), strict=True))
            expected = {"W->R": pairs.count((W, R)), "R->N": pairs.count((R, N))}
            for kind, n in expected.items():
                assert sum(getattr(event, field) for event in events if event.kind == kind) == n
        fates = [event.fate for event in events]
        n_kept, n_lost, n_new = (
            n_kept + fates.count("kept"),
            n_lost + fates.count("lost"),
            n_new + fates.count("new"),
        )
        assert all(event.evidence_nats > 0 for event in events if event.in_before)
    assert min(n_kept, n_lost, n_new) > 0


def test_early_rem_that_decoding_removes_is_lost_with_its_evidence():
    from stageguard.synthetic.night import simulate_night

    decoding = decode(simulate_night("human-psg-5", seed=19).density, "human-psg-5")
    rem = decoding.hypnogram.scheme.rem_index
    onset = decoding.strength.clock_onsets[0]
    begins = np.flatnonzero((decoding.argmax[1:] == rem) & (decoding.argmax[:-1] != rem)) + 1
    first_sleep = decoding.period[0]
    assert decoding.argmax[first_sleep] > 0
    early = [e for e in rare_events(decoding) if e.kind.startswith("REM within")]
    assert [e.epoch for e in early if e.in_before] == [e for e in begins if 0 <= e - first_sleep <= 30]
    held_back = [e for e in rare_events(decoding) if e.kind == "REM held back by the clock"]
    assert any(e.fate == "lost" and e.bout_evidence_nats > 0 for e in [*early, *held_back])
    assert all(e.epoch - onset < 130 for e in held_back)


def test_early_rem_that_grows_together_with_other_rem_is_not_removed():
    night = probabilities((W, 10), (N, 4), (R, 8), (N, 1), (R, 8), (N, 60))
    decoding = decode(sg.Hypnodensity(night, "wnr3", 30.0), profile_of(min_bout_seconds={"N": 90.0}))
    assert (decoding.hypnogram.labels[14:31] == R).all()
    assert early_rem_removed(decoding) == ()
