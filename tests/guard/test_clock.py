"""The clock: exact given its onset, which at most three passes find; off for whom it is not; never silent."""

import math

import numpy as np
import pytest

import oracle
import stageguard as sg
from messages import mentions, naming
from nights import decode, random_mapping, random_probabilities
from small import profile_of, refusal
from stageguard.errors import InputError, ProfileError, StageGuardWarning
from stageguard.guard import kernels
from stageguard.guard.clock import MOST_PASSES
from stageguard.measures.rare import rare_events
from stageguard.report.words import done_words

# REM at 2 % of its usual share for half an hour, as usual from 45 minutes on
EARLY = [-4.0] * 7 + [-2.0, -1.0, 0.0]
CLOCK = {"curves": {"R": EARLY}}
CASES = [
    {"ends": "censored", "stay": "self", "flip": None, "durations": False, "minimum": False},
    {"ends": "paper", "stay": "free", "flip": None, "durations": False, "minimum": True},
    {"ends": "censored", "stay": "self", "flip": "exact", "durations": False, "minimum": True},
    {"ends": "paper", "stay": "self", "flip": None, "durations": True, "minimum": False},
]


def clock_by_hand(mapping, onsets, argmax):
    """Nats per epoch and stage; a bout of the stager that lasts loses nothing."""
    n_epochs, names = len(argmax), oracle.stage_names(mapping)
    nats = unspared_by_hand(mapping, onsets, n_epochs)
    spare = mapping["clock"].get("spare_minutes", 8.0) * 60.0 / mapping["epoch_seconds"]
    for stage in mapping["clock"]["curves"]:
        for first, last in bouts_by_hand(argmax, names.index(stage)):
            if last - first + 1 >= spare:
                here = nats[first : last + 1, names.index(stage)]
                here[here < 0] = 0.0
    return nats


def bouts_by_hand(labels, stage):
    """First and last epoch of each bout; a single other epoch does not end it."""
    bouts = []
    for epoch in np.flatnonzero(np.asarray(labels) == stage).tolist():
        if bouts and epoch - bouts[-1][1] <= 2:
            bouts[-1][1] = epoch
        else:
            bouts.append([epoch, epoch])
    return bouts


def unspared_by_hand(mapping, onsets, n_epochs):
    """Nats per epoch and stage, a value at a time."""
    names, clock = oracle.stage_names(mapping), mapping["clock"]
    step, weight = clock.get("step_minutes", 5.0), clock.get("weight", 1.0)
    nats = np.zeros((n_epochs, len(names)))
    for epoch in range(n_epochs):
        since = [epoch - onset for onset in onsets if onset <= epoch]
        if not onsets:
            continue
        restart_epochs = clock.get("restart_wake_minutes", 60.0) * 60.0 / mapping["epoch_seconds"]
        if not since and onsets[0] - epoch > math.ceil(restart_epochs):
            continue  # of another sleep
        if not since:
            held = {stage: min(curve[0], 0.0) for stage, curve in clock["curves"].items() if stage != "W"}
            for stage, value in held.items():
                nats[epoch, names.index(stage)] = weight * value
            continue
        minutes = since[-1] * mapping["epoch_seconds"] / 60.0
        horizon = step * (max(map(len, clock["curves"].values())) - 1)
        for stage, curve in clock["curves"].items():
            if minutes >= horizon:
                continue
            below = min(int(minutes // step), len(curve) - 1)
            above = min(below + 1, len(curve) - 1)
            part = (minutes - below * step) / step if below < len(curve) - 1 else 0.0
            nats[epoch, names.index(stage)] = weight * ((1 - part) * curve[below] + part * curve[above])
    return nats


def random_clock(rng, names):
    chosen = rng.choice(len(names), size=int(rng.integers(1, len(names) + 1)), replace=False)
    length = int(rng.integers(2, 6))
    return {
        "curves": {names[i]: rng.normal(0, 2, length).tolist() for i in sorted(chosen)},
        "weight": float(rng.choice([0.5, 1.0, 2.0])),
        "step_minutes": float(rng.choice([0.5, 0.8, 5.0])),
        "restart_wake_minutes": float(rng.choice([0.5, 1.0, 60.0])),
        "spare_minutes": float(rng.choice([0.6, 1.5, 8.0])),
    }


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(25))
def test_given_its_onset_the_path_and_the_posterior_are_exact(backend, case, seed):
    rng = np.random.default_rng(seed)
    mapping = random_mapping(rng, 3, **case)
    mapping["clock"] = random_clock(rng, oracle.stage_names(mapping))
    probabilities = random_probabilities(rng, 7, 3, 1.5)
    quality = rng.uniform(0, 1, 7) if seed % 3 == 0 else None
    profile = sg.Profile.from_dict(mapping)
    result = decode(probabilities, profile, quality=quality)
    rules = oracle.rules_of(mapping)
    timeless = oracle.evidence_of(probabilities, mapping, quality)
    calibration = mapping.get("calibration", {})
    biases = [calibration.get("biases", {}).get(name, 0.0) for name in oracle.stage_names(mapping)]
    own = (np.log(probabilities) / calibration.get("temperature", 1.0) + biases).argmax(axis=1)
    nats = clock_by_hand(mapping, result.strength.clock_onsets, own)
    for stage, start, stop in result.night.clock.released if result.night.clock else ():
        nats[start:stop, stage] = np.maximum(nats[start:stop, stage], 0.0)
    evidence = timeless + nats
    best, _, _ = oracle.best_path_by_enumeration(evidence, rules)
    assert result.score == pytest.approx(best, abs=1e-9)
    assert oracle.score_path(evidence, result.hypnogram.labels, rules) == pytest.approx(best, abs=1e-9)
    assert 1 <= result.strength.clock_passes <= MOST_PASSES

    scores = oracle.score_all(evidence, rules)
    paths = oracle.all_paths(3, 7)
    weights = np.exp(scores - scores.max())
    marginals = np.array([[weights[paths[:, t] == s].sum() for s in range(3)] for t in range(7)])
    posterior = sg.posterior(probabilities, profile, quality=quality)
    np.testing.assert_allclose(posterior.probabilities, marginals / weights.sum(), atol=1e-9)


def test_onset_is_where_a_night_decoded_without_it_falls_asleep():
    rng = np.random.default_rng(3)
    profile = profile_of(clock={"curves": {"N": [-0.1, 0.1], "R": [-0.5, 0.5]}})
    probabilities = random_probabilities(rng, 200, 3)
    result = decode(probabilities, profile)
    first = decode(probabilities, profile.replace(clock=None))
    onset = int(np.flatnonzero(first.hypnogram.labels > 0)[0])
    assert result.strength.clock_onsets == (onset,)
    assert result.strength.clock_passes == 1 and result.strength.clock_settled


def night_with_rem(n_rem, at=10, strength=0.9):
    """Twenty epochs of wake, then NREM, with some epochs of REM early on and much REM late."""
    labels = np.r_[np.zeros(20), np.ones(180), np.full(40, 2)].astype(int)
    labels[20 + at : 20 + at + n_rem] = 2
    rows = np.full((len(labels), 3), 0.02)
    rows[np.arange(len(labels)), labels] = 0.96
    rows[20 + at : 20 + at + n_rem] = (1 - strength) / 2
    rows[20 + at : 20 + at + n_rem, 2] = strength
    return rows


def test_one_false_epoch_of_early_rem_goes_and_is_named():
    rows = night_with_rem(1)
    profile = profile_of(clock=CLOCK)
    before, result = decode(rows, profile.replace(clock=None)), decode(rows, profile)
    assert sg.sleep_statistics(before.hypnogram).rem_latency_minutes == 5.0
    assert sg.sleep_statistics(result.hypnogram).rem_latency_minutes == 90.0
    (change,) = [c for c in sg.explain(result) if c.rule == "clock"]
    assert (change.first_epoch, change.before, change.after) == (30, ("R",), ("N",))


def test_the_false_rem_may_itself_be_the_onset():
    rows = night_with_rem(0)
    rows[5] = [0.3, 0.1, 0.6]  # REM in the middle of wake, a quarter of an hour before sleep
    result = decode(rows, profile_of(clock=CLOCK))
    assert result.hypnogram.labels[5] == 0
    assert result.strength.clock_onsets == (20,)
    assert result.strength.clock_passes == 1 and result.strength.clock_settled  # it is not of the night


def test_early_rem_that_is_long_and_well_supported_stays():
    for n_epochs in (2, 3):
        result = decode(night_with_rem(n_epochs, strength=0.999), profile_of(clock=CLOCK))
        assert (result.hypnogram.labels[30 : 30 + n_epochs] == 2).all()


@pytest.mark.parametrize(("wake_epochs", "restarts"), [(119, False), (120, True), (150, True)])
def test_a_wake_of_an_hour_starts_the_clock_again(backend, wake_epochs, restarts):
    labels = np.r_[np.zeros(9), np.full(100, 2), np.zeros(wake_epochs), np.full(50, 2)].astype(np.int8)
    found = kernels.active.sleep_onsets(labels, 0, 120.0, 0, len(labels))
    assert found == ((9, 109 + wake_epochs) if restarts else (9,))
    labels[150] = -1  # nobody knows whether that was wake
    assert kernels.active.sleep_onsets(labels, 0, 120.0, 0, len(labels)) == (9,)


def test_a_segment_of_another_time_has_no_clock():
    rows = np.concatenate([night_with_rem(1), night_with_rem(1)])
    result = decode(rows, profile_of(clock=CLOCK), segments=[0, 240])
    assert result.hypnogram.labels[30] == 1
    assert result.hypnogram.labels[270] == 2


def test_a_night_without_sleep_is_decoded_without_it():
    rows = np.tile([0.98, 0.01, 0.01], (30, 1))
    result = decode(rows, profile_of(clock=CLOCK))
    assert result.strength.clock_onsets == ()
    assert "found no sleep" in done_words(result)


def test_a_cohort_can_switch_it_off_and_hears_so():
    caution = {"cohort": "narcolepsy", "reason": "Early REM is the sign.", "clock": False}
    profile = profile_of(clock=CLOCK, not_for=[caution])
    with pytest.warns(StageGuardWarning, match=naming("clock does not")):
        result = sg.decode(night_with_rem(1), profile, cohort="narcolepsy")
    assert result.hypnogram.labels[30] == 2
    assert result.strength.clock_passes == 0
    assert any(mentions(note, "clock does not") for note in result.assumed)


@pytest.mark.parametrize(
    ("clock", "pattern"),
    [
        ({"curves": {}}, "clock.curves has a length of 0"),
        ({"curves": {"REM": [0.0, 1.0]}}, "unknown key 'REM' in clock.curves"),
        ({"curves": {"W": [0.0, 1.0], "R": [0.0, 1.0, 2.0]}}, "have 2 and 3 values"),
        ({"curves": {"R": [0.0]}}, "clock.curves.R has a length of 1"),
        ({"curves": {"R": [0.0, math.nan]}}, r"clock.curves.R\[1\]"),
    ],
)
def test_what_is_no_clock_is_refused(clock, pattern):
    with pytest.raises(ProfileError) as error:
        profile_of(clock=clock)
    refusal(error, pattern)


def test_ties_where_the_clock_says_nothing_stay_the_stagers_own():
    rows = np.tile([0.4, 0.4, 0.2], (300, 1))
    rows[0] = [0.2, 0.6, 0.2]
    result = decode(rows, profile_of(transition_weight=0.0, clock=CLOCK))
    assert np.array_equal(result.hypnogram.labels, rows.argmax(axis=1))


SHIPPED = ("human-psg-5", "human-psg-3", "human-cardiorespiratory-3", "human-bioradar-3")


def night_of(profile, n_rem, strength, at=18):
    """A night of a shipped profile's stages: wake, N2 or NREM, REM nine minutes after onset and late."""
    scheme = profile.scheme
    sleep = 1 if scheme.n_stages == 3 else 2
    labels = np.r_[np.full(20, scheme.wake_index), np.full(300, sleep), np.full(80, scheme.rem_index)]
    labels[20 + at : 20 + at + n_rem] = scheme.rem_index
    rows = np.full((len(labels), scheme.n_stages), 0.001)
    rows[np.arange(len(labels)), labels] = 0.98
    rows[20 + at : 20 + at + n_rem, scheme.rem_index] = strength
    rows[20 + at : 20 + at + n_rem, sleep] = 1 - strength
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize(
    ("n_rem", "strength", "stays"),
    [(3, 0.97, True), (40, 0.6, True), (16, 0.6, True), (15, 0.8, False), (1, 0.9, False), (2, 0.8, False)],
)
def test_shipped_clocks_spare_early_rem_that_lasts_or_is_well_supported(name, n_rem, strength, stays):
    profile = sg.Profile.load(name)
    result = decode(night_of(profile, n_rem, strength), profile)
    assert result.strength.step == "untouched"
    assert (result.hypnogram.labels[38 : 38 + n_rem] == profile.scheme.rem_index).all() == stays
    removed = rare_events(result)
    assert any(event.is_early_rem and event.fate == ("kept" if stays else "lost") for event in removed)


def test_sleep_before_lights_off_is_no_onset():
    rows = np.concatenate([night_with_rem(1)[20:80], night_with_rem(1)])  # a nap, then the night
    assert decode(rows, profile_of(clock=CLOCK)).strength.clock_onsets == (0,)
    result = decode(rows, profile_of(clock=CLOCK), lights_off=60 * 30.0)
    assert result.strength.clock_onsets == (80,)
    assert result.hypnogram.labels[10] == 2  # of the nap, of which the clock says nothing
    assert result.hypnogram.labels[90] == 1
    with pytest.raises(InputError, match=naming("lights_off", "moment", "within", "2.50 h")):
        decode(rows, profile_of(clock=CLOCK), lights_off=1e6)


def test_a_recording_around_the_clock_has_none_unless_lights_off_is_said():
    rows = np.tile(night_with_rem(1), (13, 1))
    result = decode(rows, profile_of(clock=CLOCK))
    assert (result.strength.clock_passes, result.night.clock) == (0, None)
    assert any(mentions(note, "period", "25.8 h") for note in result.assumed)
    assert decode(rows, profile_of(clock=CLOCK), lights_off=0.0).strength.clock_onsets == (20,)


def test_a_night_in_a_day_of_wake_keeps_its_clock():
    wake = np.tile([0.98, 0.01, 0.01], (1500, 1))
    result = decode(np.concatenate([wake, night_with_rem(1), wake]), profile_of(clock=CLOCK))
    assert result.strength.clock_onsets == (1520,)
    assert result.hypnogram.labels[1530] == 1


def test_a_single_other_epoch_does_not_end_a_bout_that_is_spared():
    profile = sg.Profile.load("human-psg-5")
    rows = night_of(profile, 16, 0.6)
    rows[45] = rows[100]  # N2 amid REM
    kept = decode(rows, profile).hypnogram.labels
    assert (kept[38:54] == 4).sum() == 15
    rows[46] = rows[100]  # two of them are two bouts, neither of which lasts
    assert (decode(rows, profile).hypnogram.labels[38:54] != 4).all()


def test_the_clock_leaves_no_wake_in_the_middle_of_rem():
    profile = sg.Profile.load("human-psg-5")
    rows = night_of(profile, 12, 0.6)
    rows[[38, 49]] = [0.001, 0.001, 0.017, 0.001, 0.98]  # both ends are well supported
    result = decode(rows, profile)
    assert (result.hypnogram.labels[38:50] == 4).all()
    assert result.night.clock.released == ((4, 38, 50),)
    assert result.removed_bouts == ()


def test_early_rem_of_three_minutes_that_is_gone_warns_once_a_night():
    profile = sg.Profile.load("human-psg-5")
    short, long = night_of(profile, 5, 0.8), night_of(profile, 6, 0.8)
    assert sg.decode(short, profile).removed_bouts == ()
    with pytest.warns(StageGuardWarning, match="3 min long, 9 min after onset.*narcolepsy") as caught:
        (_, result) = sg.decode([short, long], profile)
    assert len(caught) == 1
    (bout,) = result.removed_bouts
    assert (bout.first_epoch, bout.n_epochs, bout.n_removed) == (38, 6, 6)
    assert (bout.minutes, bout.minutes_since_onset) == (3.0, 9.0)
    assert result.strength.clock_removed == result.removed_bouts


def test_a_short_gap_does_not_end_rem_that_lasts():
    rows = np.full((400, 5), 0.02)
    rows[:40, 0] = rows[40:, 2] = 0.92
    rows[50:70] = [0.06, 0.06, 0.03, 0.0, 0.85]
    rows[58:62] = np.nan
    decoded = decode(rows, "human-psg-5")
    assert (decoded.hypnogram.labels[50:70] == 4).all()
