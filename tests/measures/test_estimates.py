"""Expected minutes against plain sums, and the REM latency that serves a night best."""

import math

import numpy as np
import pytest

import stageguard as sg
from messages import mentions
from nights import decode
from small import profile_of, refusal
from stageguard.measures.estimates import LITTLE_REM, N_DRAWS, Estimates, estimates
from stageguard.profile.parts import ESTIMATORS, estimators_of
from stageguard.synthetic.night import simulate_night

W, N, R = 0, 1, 2
CLOCK = {"curves": {"R": [-4.0] * 7 + [-2.0, -1.0, 0.0]}}


def probabilities(*bouts, sure=0.9):
    labels = np.array([label for label, n in bouts for _ in range(n)])
    return np.where(np.arange(3) == labels[:, None], sure, (1 - sure) / 2)


def test_expected_minutes_are_sums_of_probabilities_and_of_the_posterior():
    density = simulate_night("human-psg-5", hours=2, seed=3).density
    night = decode(density, "human-psg-5")
    found = estimates(night)
    at_the_path = sg.Profile.load("human-psg-5").replace(posterior=None)
    smooth = sg.posterior(density, at_the_path).probabilities
    for expected, rows in ((found.before, density.probabilities), (found.after, smooth)):
        by_hand = [sum(float(row[k]) for row in rows) / 2 for k in range(5)]
        assert list(expected.stage_minutes.values()) == pytest.approx(by_hand)
        assert expected.tst_minutes == pytest.approx(sum(by_hand[1:]))
    values = found.values("after")
    assert values["expected_percent_R"] == pytest.approx(
        100 * values["expected_minutes_R"] / found.after.tst_minutes
    )
    assert "expected_percent_W" not in values


def test_lights_and_gaps_cut_the_sums():
    rows = probabilities((W, 10), (N, 60), (R, 20))
    rows[30:50] = np.nan  # ten minutes without evidence
    night = decode(rows, profile_of(transition_weight=0.0))
    whole, window = estimates(night), estimates(night, lights_off=300.0, lights_on=1800.0)
    assert sum(whole.after.stage_minutes.values()) == pytest.approx(35.0)
    assert (window.first_epoch, window.stop_epoch) == (10, 60)
    assert sum(window.after.stage_minutes.values()) == pytest.approx(15.0)
    assert window.before.stage_minutes["N"] == pytest.approx(15.0 * 0.9)


def test_a_stager_that_shows_rem_is_read_off_its_first_lasting_bout():
    night = decode(
        probabilities((W, 4), (N, 100), (R, 1), (N, 20), (R, 30)), profile_of(transition_weight=0.0)
    )
    found = estimates(night)
    assert (found.rem_latency_minutes, found.rem_latency_estimator) == (60.5, "first lasting REM bout")
    longer = estimates(night, min_first_rem_seconds=3600)
    assert (longer.rem_latency_minutes, longer.rem_latency_estimator) == (50.0, "first REM epoch")


def weak_night(**changes):
    """A stager that never calls REM, although its evidence rises to 40 % after 75 minutes of sleep."""
    rows = probabilities((W, 10), (N, 150), (N, 40), (N, 100), sure=0.97)
    rows[160:200] = [0.02, 0.58, 0.40]
    return decode(rows, profile_of(transition_weight=0.3, clock=CLOCK, **changes))


def under_the_full_clock(night):
    """The night by a profile whose clock has weight 1."""
    clock = night.profile.to_dict()["clock"] | {"weight": 1.0}
    return night.profile.replace(clock=clock)


def test_rem_that_hardly_shows_is_where_three_minutes_of_it_are_expected():
    night = weak_night()
    assert not (night.argmax == R).any()
    found = estimates(night)
    full = sg.posterior(night.density, under_the_full_clock(night)).probabilities[:, R]
    reached = next(i for i in range(len(full)) if full[: i + 1].sum() >= 6.0)
    onset = next(i for i, label in enumerate(night.hypnogram.labels) if label != W)
    assert mentions(found.rem_latency_estimator, "3 min", "REM")
    assert found.rem_latency_minutes == (reached - 5 - onset) / 2


def test_well_supported_early_rem_stays_in_the_night_and_not_in_its_estimate():
    rows = probabilities((W, 10), (N, 20), (R, 10), (N, 130), (R, 40), sure=0.94)
    clock = CLOCK | {"weight": 0.75}
    night = decode(rows, profile_of(transition_weight=0.0, clock=clock))
    assert (night.hypnogram.labels[30:40] == R).all()
    found = estimates(night)
    assert mentions(found.rem_latency_estimator, "lasting", "REM", "full")
    assert found.rem_latency_minutes == 80.0
    assert found.early_rem_kept_minutes == 10.0
    assert sg.sleep_statistics(night).rem_latency_bout_minutes == 10.0
    by_profile = decode(rows, under_the_full_clock(night))
    assert found.rem_latency_minutes == sg.sleep_statistics(by_profile).rem_latency_bout_minutes


@pytest.mark.parametrize("convention", ["aasm", "yasa"])
def test_only_early_rem_that_the_night_keeps_and_the_estimate_lacks_is_passed_over(convention):
    rows = probabilities((W, 40), (N, 20), (R, 10), (N, 130), (R, 40), sure=0.94)
    profile = profile_of(transition_weight=0.0, clock=CLOCK | {"weight": 0.75})

    def kept(rows, profile):
        return estimates(decode(rows, profile), convention=convention).early_rem_kept_minutes

    assert kept(rows, profile) == 10.0
    early = profile.replace(estimators={"rem_latency_minutes": "bout"})
    assert math.isnan(kept(rows, early))  # the estimate has it
    assert math.isnan(kept(np.delete(rows, slice(60, 70), axis=0), profile))  # there is none
    late = probabilities((W, 40), (N, 31), (R, 10), (N, 120), (R, 40), sure=0.94)
    assert math.isnan(kept(late, profile))


def test_where_no_rem_is_expected_there_is_no_latency():
    night = decode(
        probabilities((W, 10), (N, 200), sure=0.999), profile_of(transition_weight=0.0, clock=CLOCK)
    )
    assert math.isnan(estimates(night).rem_latency_minutes)


def test_a_profile_may_ask_for_the_median_of_seeded_draws():
    night = weak_night(estimators={"rem_latency_minutes": "draws"})
    found = estimates(night, seed=4)
    drawn = []
    for labels in sg.sample(night.density, night.profile, n=N_DRAWS, seed=4):
        onset = next(i for i, label in enumerate(labels) if label != W)
        rem = [i for i, label in enumerate(labels) if label == R]
        drawn.append((rem[0] - onset) / 2 if rem else math.inf)
    assert mentions(found.rem_latency_estimator, "median of posterior", "draws")
    assert found.rem_latency_minutes == sorted(drawn)[N_DRAWS // 2]
    assert estimates(night, seed=4) == found


def test_draws_are_never_epoch_by_epoch():
    night = weak_night(estimators={"rem_latency_minutes": "draws"})
    free = decode(night.density, night.profile.replace(transition_weight=0.0))
    assert estimates(free).rem_latency_minutes == estimates(night).rem_latency_minutes


def test_without_a_clock_the_first_lasting_bout_decides():
    rows = weak_night().density.probabilities.copy()
    rows[180:184] = [0.02, 0.08, 0.90]
    assert LITTLE_REM * 290 > 4
    timed = decode(rows, profile_of(transition_weight=0.3, clock=CLOCK))
    plain = decode(rows, profile_of(transition_weight=0.3))
    assert "expected" in estimates(timed).rem_latency_estimator
    assert estimates(plain).rem_latency_estimator == "first lasting REM bout"


def quiet_wake_as_rem(n_before, **changes):
    """Labels: some epochs of N, twenty minutes that the stager calls REM, and, after wake, the night."""
    clock = CLOCK | {"weight": 0.1, "spare_minutes": 8.0}
    profile = profile_of(transition_weight=0.0, clock=clock, **changes)
    rows = probabilities((W, 10), (N, n_before), (R, 40), (W, 20), (N, 150), (R, 40), sure=0.95)
    return decode(sg.Hypnodensity(rows, profile.scheme, 30.0, from_labels="typical"), profile)


def test_sleep_onset_of_labels_is_a_minute_of_nrem_and_rem_latency_counts_from_it():
    night = quiet_wake_as_rem(1)
    assert (night.hypnogram.labels[11:51] == R).all()  # it stays in the hypnogram
    found = estimates(night)
    assert (found.sol_minutes, found.rem_latency_minutes) == ((10 + 1 + 40 + 20) / 2, 75.0)
    assert (found.sol_estimator, found.early_rem_kept_minutes) == (ESTIMATORS["lasting"], 0.5)
    later = estimates(night, lights_off=300.0)
    assert later.sol_minutes == found.sol_minutes - 5.0
    assert estimates(night, convention="yasa").rem_latency_minutes == found.sol_minutes + 75.0
    asleep = estimates(quiet_wake_as_rem(2))  # a minute, and REM that lasts may be the finding
    assert (asleep.sol_minutes, asleep.rem_latency_minutes) == (5.0, 1.0)


@pytest.mark.parametrize("way", estimators_of(profile_of().scheme)["rem_latency_minutes"])
def test_no_estimator_takes_rem_from_before_sleep_onset(way):
    night = quiet_wake_as_rem(1, estimators={"rem_latency_minutes": way})
    # what is expected comes a little earlier, by the doubt of the epochs before
    assert 60.0 < estimates(night).rem_latency_minutes <= 75.0


@pytest.mark.parametrize(
    ("changes", "sure", "kind"),
    [
        ({}, 0.95, "sure"),
        ({"clock": CLOCK}, 0.95, "sure"),
        ({"clock": CLOCK, "species": "human"}, 0.7, "unsure"),
    ],
)
def test_without_a_clock_or_of_probabilities_the_first_epoch_of_sleep_decides(changes, sure, kind):
    rows = probabilities((W, 10), (N, 6), (R, 40), (W, 20), (N, 150), (R, 40), sure=sure)
    found = estimates(decode(rows, profile_of(transition_weight=0.0, **changes)))
    assert (found.stager_kind, found.sol_minutes, found.sol_estimator) == (kind, 5.0, "first epoch of sleep")


def test_labels_are_asleep_after_a_minute_of_it():
    rows = probabilities((W, 10), (N, 1), (W, 20), (N, 2), (W, 1), (N, 150), (R, 40), sure=0.95)
    profile = profile_of(transition_weight=0.0, clock=CLOCK)
    sure = sg.Hypnodensity(rows, profile.scheme, 30.0)
    labels = sg.Hypnodensity(rows, profile.scheme, 30.0, from_labels="typical")
    kinds = [estimates(decode(density, profile)) for density in (sure, labels)]
    assert [(each.stager_kind, each.sol_minutes) for each in kinds] == [("sure", 5.0), ("labels", 15.5)]
    assert kinds[1].sol_estimator == ESTIMATORS["lasting"]
    # a night of single epochs has no minute of sleep: its first epoch is better than no onset
    flicker = sg.Hypnodensity(probabilities(*((W, 1), (N, 1)) * 50), profile.scheme, 30.0, from_labels="own")
    found = estimates(decode(flicker, profile))
    assert (found.stager_kind, found.sol_minutes, found.sol_estimator) == (
        *("own labels", 0.5),
        "first epoch of sleep",
    )


@pytest.mark.parametrize(("sure", "kind"), [(0.9, "sure"), (0.8, "unsure")])
def test_a_sure_stager_is_counted_and_an_unsure_one_summed(sure, kind):
    night = decode(
        probabilities((W, 20), (N, 100), (R, 30), sure=sure), profile_of(transition_weight=0.0, clock=CLOCK)
    )
    found, counted = estimates(night), sg.sleep_statistics(night)
    assert found.stager_kind == kind
    assert (found.best.tst_minutes == counted.tst_minutes) == (kind == "sure")
    assert found.best.tst_minutes == (counted if kind == "sure" else found.after).tst_minutes
    assert found.estimators.keys() == {"tst_minutes", "minutes_W", "minutes_N", "minutes_R"}


def test_the_first_rem_of_a_mouse_need_not_last():
    rows = probabilities((W, 20), (N, 100), (R, 10), (N, 60), (R, 40), sure=0.95)
    mouse = profile_of(transition_weight=0.0, species="mouse", epoch_seconds=4.0)
    found = estimates(decode(rows, mouse))
    assert (found.rem_latency_minutes, found.rem_latency_estimator) == (100 * 4 / 60, "first REM epoch")
    assert found.stager_kind == "unsure"  # how sure is sure was learned on people
    human = profile_of(transition_weight=0.0, epoch_seconds=4.0)
    assert estimates(decode(rows, human)).rem_latency_minutes == 170 * 4 / 60


def test_the_hypnogram_is_never_altered():
    night = weak_night()
    before = night.hypnogram.labels.copy()
    estimates(night)
    assert (night.hypnogram.labels == before).all()


def test_what_is_recorded_reads_back():
    for found in (estimates(weak_night()), estimates(decode(probabilities((W, 20)), profile_of()))):
        document = {
            key: None if isinstance(value, float) and math.isnan(value) else value
            for key, value in found.to_dict().items()
        }
        assert str(Estimates.from_dict(document)) == str(found)


def test_anything_but_a_decoding_is_refused():
    with pytest.raises(sg.InputError) as error:
        estimates(sg.Hypnogram(np.zeros(3, dtype=np.int8), "wnr3", 30.0))
    refusal(error, r"expected what decode\(\) returned")
