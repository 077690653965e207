"""The clock of a stream: its onset from what is given out, against an oracle that enumerates paths."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_stream import agreed

import oracle
import stageguard as sg
from nights import decode, one_hot, plain, random_mapping, random_probabilities
from stageguard.guard.automaton import compile_automaton
from stageguard.guard.decode import decode_held
from stageguard.guard.night import DEFAULTS

MINUTE = 60.0
WINDOW, LEAST = 10, 6  # epochs of a minute: lasting sleep
# curves that change from the first minute on, so that every epoch tells when its onset was known
CLOCK = {
    "curves": {"W": [-0.7, 0.4, 0.2, 0.0], "N": [0.6, -0.8, 0.3, 0.0], "R": [-3.0, -1.0, 0.5, -0.5]},
    "weight": 0.8,
    "spare_minutes": 3.0,
    "restart_wake_minutes": 5.0,
}


def run(decoder, rows):
    """Stages given out after each row, and at the end."""
    return [list(decoder.push(row)) for row in rows], list(decoder.finish())


def onset_of(given_out):
    """The epoch that the clock counts from, by all stages given out so far."""
    begin = 0
    for until in range(len(given_out) + 1):
        # wake that restarts it, once an onset was found
        seen = given_out[:until]
        lasting = [e for e in range(begin, until) if begins_lasting_sleep(seen, e)]
        found = lasting[0] if lasting else None
        n_wake = len(list(itertools.takewhile(lambda stage: stage == "W", reversed(seen))))
        if found is not None and n_wake >= CLOCK["restart_wake_minutes"]:
            begin, found = until, None
    return found


def begins_lasting_sleep(stages, epoch):
    n_asleep = sum(stage not in "W?" for stage in stages[epoch : epoch + WINDOW])
    return stages[epoch] not in "W?" and n_asleep >= LEAST


def nats_by_hand(names, given_out, owns):
    """What is added to the epoch that comes next: the last of `owns`, the stager's choices."""
    epoch, onset = len(owns) - 1, onset_of(given_out)
    added = []
    for name in names:
        curve = CLOCK["curves"].get(name, [0.0, 0.0])
        if onset is None:
            nats = 0.0 if name == "W" else min(curve[0], 0.0)
        else:
            place = (epoch - onset) / 5.0  # a value every five minutes
            low = int(place)
            nats = 0.0
            if low + 1 < len(curve):
                nats = curve[low] + (place - low) * (curve[low + 1] - curve[low])
        nats *= CLOCK["weight"]
        if owns[-1] == name and length_of_bout(owns) >= CLOCK["spare_minutes"] and is_held_back(name):
            nats = max(nats, 0.0)
        added.append(nats)
    return np.array(added)


def is_held_back(name):
    return min(CLOCK["curves"].get(name, [0.0])) < 0


def length_of_bout(owns):
    """Epochs of the stager's bout that the last epoch is in; a single other one does not end it."""
    start = last = len(owns) - 1
    for epoch in range(len(owns) - 1, -1, -1):
        if owns[epoch] == owns[-1]:
            if last - epoch > 2:
                break
            start = last = epoch
    return len(owns) - start


def sleepy_rows(rng, n_epochs):
    """Wake, then sleep with wake in between, none of it sure."""
    labels = np.repeat(rng.choice(3, size=n_epochs, p=[0.3, 0.4, 0.3]), rng.integers(1, 9, size=n_epochs))
    logits = rng.normal(size=(n_epochs, 3)) + 2.0 * (np.arange(3) == labels[:n_epochs, None])
    weights = np.exp(logits)
    return weights / weights.sum(axis=1, keepdims=True)


def case_of(rng, seed):
    kinds = {"ends": "censored", "stay": "self", "flip": False, "durations": False}
    return random_mapping(rng, 3, epoch=MINUTE, minimum=seed % 3 == 0, **kinds)


@pytest.mark.parametrize("seed", range(25))
def test_every_epoch_is_weighed_by_what_was_given_out_before_it(seed):
    rng = np.random.default_rng([90, seed])
    mapping = case_of(rng, seed) | {"clock": CLOCK, "transition_weight": 0.3}
    mapping.pop("calibration", None)
    profile = sg.Profile.from_dict(mapping)
    rows, names = sleepy_rows(rng, 45), profile.scheme.names
    plain_evidence = oracle.evidence_of(rows, {k: v for k, v in mapping.items() if k != "clock"})
    decoder, automaton = sg.StreamingDecoder(profile), compile_automaton(profile)
    given_out, evidence, owns = [], [], []
    for epoch, row in enumerate(rows):
        owns.append(names[int(row.argmax())])
        evidence.append(plain_evidence[epoch] + nats_by_hand(names, given_out, owns))
        given_out += decoder.push(row)
        expected = [names[label] for label in agreed(np.array(evidence), automaton, 0.3)]
        assert given_out == expected, epoch
        assert decoder.clock_onset == onset_of(given_out), epoch
    stretch = [given_out.count(name) for name in names]
    assert sum(stretch) > 20


@pytest.mark.parametrize("name", ["human-psg-5", "human-psg-3", "human-cardiorespiratory-3"])
def test_without_a_limit_it_is_what_decode_gives_with_that_onset(name):
    profile = sg.Profile.load(name).for_streaming(flickers=True)
    n_same_onset = 0
    for seed in range(6):
        night = sg.simulate_night(name, hours=4, seed=seed).density
        result = decode(night, profile)
        decoder = sg.StreamingDecoder(profile)
        given_out = [stage for row in night.probabilities for stage in decoder.push(row)]
        onset = decoder.clock_onset
        given_out += decoder.finish()
        assert onset is not None
        n_same_onset += result.strength.clock_onsets == (onset,)
        held = replace(result, strength=replace(result.strength, clock_onsets=(onset,)))
        expected = decode_held(night, profile, DEFAULTS, held)
        if expected.night.clock.released or any(
            bout.stop - bout.start >= 16 for bout in expected.night.clock.bouts
        ):
            continue  # it saw the end of a bout of early REM
        assert given_out == expected.stages.tolist(), seed
    assert n_same_onset >= 4


def night_of(stages, **confidence):
    return one_hot(["WNR".index(stage) for stage in stages], **confidence)


def early_profile(**changes):
    clock = {"curves": {"R": [-4.0] * 8}, "restart_wake_minutes": 60.0}
    return sg.Profile.from_dict(plain(3, clock=clock, transition_weight=0.0) | changes)


@pytest.mark.parametrize("lag", [None, 0.0, 60.0, 900.0])
def test_early_rem_is_held_back_before_and_after_onset_and_late_rem_is_not(lag):
    stages = "W" * 10 + "R" + "W" * 9 + "N" * 30 + "RR" + "N" * 58 + "RR" + "N" * 5
    given_out, rest = run(
        sg.StreamingDecoder(early_profile(), max_lag_seconds=lag), night_of(stages, confidence=0.8)
    )
    text = "".join(itertools.chain(*given_out)) + "".join(rest)
    assert text[10] != "R"
    assert "R" not in text[50:52]
    assert text[110:112] == "RR"


def test_a_cohort_without_a_clock_streams_without_it():
    with pytest.warns(sg.StageGuardWarning):
        decoder = sg.StreamingDecoder("human-psg-3", cohort="narcolepsy")
    assert decoder.profile.clock is None
    assert decoder.clock_onset is None


@settings(max_examples=40)
@given(n_before=st.integers(0, 100), seed=st.integers(0, 30), lag=st.sampled_from([None, 0.0, 120.0]))
def test_wake_before_the_night_changes_nothing(n_before, seed, lag):
    profile = sg.Profile.load("human-psg-3").for_streaming(flickers=True)
    rows = sg.simulate_night("human-psg-3", hours=0.7, seed=seed).density.probabilities
    rows = np.concatenate([one_hot([0] * 4, confidence=0.999), rows])
    padded = np.concatenate([one_hot([0] * n_before, confidence=0.999).reshape(-1, 3), rows])
    plainly, shifted = (sg.StreamingDecoder(profile, max_lag_seconds=lag) for _ in range(2))
    expected = list(itertools.chain(*(plainly.push(row) for row in rows)))
    found = list(itertools.chain(*(shifted.push(row) for row in padded)))
    assert found[n_before:] == expected
    if plainly.clock_onset is not None:
        assert shifted.clock_onset == plainly.clock_onset + n_before


def test_epochs_without_evidence_are_weighed_too():
    transitions = {"W": {"W": 0.9, "N": 0.1}, "N": {"W": 0.1, "N": 0.8, "R": 0.1}, "R": {"N": 0.1, "R": 0.9}}
    rows = night_of("W" * 4 + "N" * 20, confidence=0.9)
    rows[14:18] = np.nan
    for weight in (0.0, 0.3):
        profile = early_profile(transitions=transitions, transition_weight=weight)
        decoder = sg.StreamingDecoder(profile)
        given_out, rest = run(decoder, rows)
        assert list(itertools.chain(*given_out)) + rest == decode(rows, profile).stages.tolist()


STAGES = st.lists(st.tuples(st.sampled_from("WNR?"), st.integers(1, 25)), min_size=1, max_size=12)


@settings(max_examples=60)
@given(
    blocks=STAGES,
    lag=st.sampled_from([None, 0.0, 120.0]),
    seed=st.integers(0, 9),
    weight=st.sampled_from([0, 0.2]),
)
def test_a_snapshot_keeps_the_clock(blocks, lag, seed, weight):
    text = "".join(stage * n for stage, n in blocks)
    rows = random_probabilities(np.random.default_rng(seed), len(text), 3, sharpness=0.7)
    is_known = np.array([stage != "?" for stage in text])
    rows[is_known] = 0.5 * rows[is_known] + 0.5 * night_of([s for s in text if s != "?"]).reshape(-1, 3)
    rows[~is_known] = np.nan
    clock = {"curves": {"R": [-4.0] * 8}, "restart_wake_minutes": 7.0, "spare_minutes": 4.0}
    profile = early_profile(transition_weight=weight, clock=clock)
    whole = sg.StreamingDecoder(profile, max_lag_seconds=lag)
    cut = sg.StreamingDecoder(profile, max_lag_seconds=lag)
    for row in rows:
        expected = whole.push(row)
        held = cut.snapshot()
        cut = sg.StreamingDecoder.restore(held)
        assert cut.snapshot() == held
        assert cut.push(row) == expected
        assert cut.clock_onset == whole.clock_onset
    assert cut.finish() == whole.finish()
    assert cut.clock_onset is None
