"""Validity indicators in closed form, against plain loops and against the counts the bands come from."""

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from messages import mentions
from nights import decode, random_probabilities
from peers import random_labels
from small import profile_of
from stageguard.measures.bouts import hypnogram_before
from stageguard.measures.validity import validity

W, N, R, U = 0, 1, 2, -1
BANDS = {
    "fragmentation_index": {"low": 0.1, "high": 0.3},
    "transitions_per_hour": {"low": 12.0, "high": 36.0},
    "tvr_percent": {"low": 0.0, "high": 5.0},
    "flips_per_hour": {"low": 1.0, "high": 20.0},
    "one_epoch_bouts_percent_W": {"low": 10.0, "high": 60.0},
    "mean_bout_minutes_N": {"low": 1.0, "high": 4.0},
}
# an animal's, so that whole recordings are measured; tests/guard/test_period.py is about people's
PROFILE = profile_of(
    species="mouse",
    bands=BANDS,
    tvr_pairs=[["W", "R"], ["R", "N"]],
    min_bout_seconds={"W": 60.0, "R": 90.0},
)


def night(*bouts, seconds=30.0, scheme="wnr3"):
    labels = [label for label, n in bouts for _ in range(n)]
    return sg.Hypnogram(np.array(labels, dtype=np.int8), scheme, seconds)


#         cut                 flip: N-W-N                      beside ?           beside ?         cut
KNOWN = ((W, 4), (N, 6), (W, 1), (N, 2), (R, 2), (W, 3), (R, 5), (U, 2), (R, 2), (N, 9), (W, 4), (N, 1))


def test_a_known_night_in_closed_form():
    found = validity(night(*KNOWN), PROFILE)
    n_scored, n_pairs, n_changes = 39, 37, 9
    value = {name: indicator.value for name, indicator in found.indicators.items()}
    assert found.n_epochs_scored == n_scored
    assert found.hours_scored == pytest.approx(n_scored / 120)
    assert value["fragmentation_index"] == pytest.approx(n_changes / n_pairs)
    assert value["transitions_per_hour"] == pytest.approx(120 * n_changes / n_pairs)
    assert found.rare_pairs == {"W->R": 1, "R->N": 1}
    assert value["tvr_percent"] == value["paper_tvr_percent"] == pytest.approx(100 * 2 / n_pairs)
    assert value["tvr_per_change_percent"] == pytest.approx(100 * 2 / n_changes)
    assert value["tvr_per_hour"] == pytest.approx(120 * 2 / n_pairs)
    assert value["flips_per_hour"] == pytest.approx(1 / (n_scored / 120))
    # complete bouts: W 1, 3, 4; N 6, 2, 9; R 2
    assert value["one_epoch_bouts_percent_W"] == pytest.approx(100 / 3)
    assert value["mean_bout_minutes_W"] == pytest.approx((1 + 3 + 4) / 3 / 2)
    assert value["median_bout_minutes_W"] == 1.5
    assert value["mean_bout_minutes_N"] == pytest.approx((6 + 2 + 9) / 3 / 2)
    assert value["median_bout_minutes_N"] == 3.0
    assert value["mean_bout_minutes_R"] == 1.0
    assert found.bouts_below_minimum == {"W": 1, "R": 1}
    assert found.expert_bouts_lost is None
    assert found.profile == "small"


def test_smoother_than_experts_is_flagged_as_loudly_as_more_fragmented():
    smooth = validity(night((W, 30), (N, 60), (R, 30)), PROFILE)
    assert smooth.indicators["fragmentation_index"].place == "below"
    assert smooth.indicators["mean_bout_minutes_N"].place == "above"
    assert set(smooth.outside) == {
        *("fragmentation_index", "transitions_per_hour", "flips_per_hour", "mean_bout_minutes_N")
    }
    broken = validity(night(*[(W, 1), (N, 1)] * 40), PROFILE)
    assert broken.indicators["fragmentation_index"].place == "above"
    assert broken.indicators["one_epoch_bouts_percent_W"].place == "above"
    assert broken.indicators["mean_bout_minutes_N"].place == "below"
    ordinary = validity(night(*[(W, 4), (N, 5)] * 10), PROFILE)
    assert ordinary.indicators["fragmentation_index"].place == "inside"
    assert ordinary.indicators["median_bout_minutes_N"].place == "no band"


def test_bands_follow_the_epoch_length():
    bouts = [(W, 8), (N, 6), (W, 8), (R, 2)] * 5
    ten = validity(night(*bouts, seconds=10.0), PROFILE).indicators
    assert (ten["fragmentation_index"].low, ten["fragmentation_index"].high) == pytest.approx((0.1 / 3, 0.1))
    assert ten["tvr_percent"].high == pytest.approx(5.0 / 3)
    assert (ten["transitions_per_hour"].low, ten["transitions_per_hour"].high) == (12.0, 36.0)
    assert ten["mean_bout_minutes_N"].low == 1.0
    for name in ("flips_per_hour", "one_epoch_bouts_percent_W"):
        assert ten[name].place == "no band"
        assert math.isnan(ten[name].low)
        assert mentions(ten[name].reason, "single", "30 s", "10 s")
        assert not math.isnan(ten[name].value)


@pytest.mark.parametrize(
    ("bouts", "name", "reason"),
    [
        ([(W, 1)], "fragmentation_index", "there are no two adjacent scored epochs"),
        ([(W, 1), (U, 1), (W, 1)], "tvr_percent", "there are no two adjacent scored epochs"),
        ([(U, 4)], "flips_per_hour", "no epoch is scored"),
        ([(W, 9)], "tvr_per_change_percent", "the stage never changes"),
        ([(W, 9), (N, 9)], "mean_bout_minutes_N", "there is no complete bout of N"),
        ([(W, 9), (N, 9)], "one_epoch_bouts_percent_R", "there is no complete bout of R"),
    ],
)
def test_what_does_not_exist_is_nan_with_a_reason_and_has_no_place(bouts, name, reason):
    indicator = validity(night(*bouts), PROFILE).indicators[name]
    assert math.isnan(indicator.value)
    assert (indicator.reason, indicator.place) == (reason, "no band")


def test_pairs_and_stages_a_profile_lacks_are_reasons():
    found = validity(night((0, 9), (1, 9), scheme="ws2"), "human-actigraphy-2")
    assert found.rare_pairs == {}
    assert mentions(found.indicators["tvr_percent"].reason, "profile", "tvr_pairs")
    assert mentions(found.indicators["paper_tvr_percent"].reason, "'ws2'", "W, N, R")
    assert math.isnan(found.indicators["tvr_percent"].value)
    assert math.isnan(found.indicators["paper_tvr_percent"].value)


WHOLE = sg.Profile.load("human-psg-5").replace(clock=None, species="mouse")  # measures whole recordings


def test_the_paper_s_pairs_are_counted_on_merged_stages():
    five = night((0, 4), (4, 4), (1, 4), (4, 4), (3, 4), (2, 4), scheme="aasm5")
    found = validity(five, WHOLE)
    assert found.indicators["paper_tvr_percent"].value == pytest.approx(100 * 3 / 23)  # W-R, R-N1, R-N3
    assert found.rare_pairs == {"W->R": 1, "W->N3": 0, "N1->N3": 0, "R->N3": 1, "N3->R": 0}
    assert found.indicators["tvr_percent"].value == pytest.approx(100 * 2 / 23)


def test_expert_bouts_that_a_minimum_takes_away():
    expert = night((N, 9), (W, 1), (N, 9), (W, 1), (N, 9), (W, 2), (R, 2), (N, 7))
    #                      kept longer      lost
    output = night((N, 8), (W, 3), (N, 18), (W, 2), (R, 9))
    found = validity(output, PROFILE, expert=expert)
    assert found.expert_bouts_below_minimum == {"W": 2, "R": 1}
    assert found.expert_bouts_lost == {"W": 1, "R": 0}
    five = night((2, 9), (0, 1), (2, 9), (0, 1), (2, 9), (0, 2), (4, 2), (2, 7), scheme="aasm5")
    assert validity(output, PROFILE, expert=five).expert_bouts_lost == {"W": 1, "R": 0}


def test_a_decoding_brings_its_own_profile_and_its_own_fragmentation():
    rng = np.random.default_rng(4)
    profile = PROFILE.replace(transition_weight=0.4, min_bout_seconds=None)
    decoding = decode(random_probabilities(rng, 300, 3), profile)
    found = validity(decoding)
    assert found.indicators["fragmentation_index"].value == pytest.approx(decoding.strength.fi_after)
    assert validity(hypnogram_before(decoding), profile).indicators[
        "fragmentation_index"
    ].value == pytest.approx(decoding.strength.fi_before)
    assert decoding.strength.fi_after < decoding.strength.fi_before


def test_nothing_is_adjacent_across_segments():
    rng = np.random.default_rng(5)
    profile = PROFILE.replace(transition_weight=0.4, min_bout_seconds=None)
    starts = [0, *range(7, 300, 7)]
    decoding = decode(random_probabilities(rng, 300, 3), profile, segments=starts)
    found = validity(decoding)
    assert found.indicators["fragmentation_index"].value == pytest.approx(decoding.strength.fi_after)
    assert found.indicators["fragmentation_index"].value != pytest.approx(
        validity(decoding.hypnogram, profile).indicators["fragmentation_index"].value
    )
    assert found.n_epochs_scored == 300


STUDY = Path(__file__).parents[2] / "studies" / "expert-scorings"


@pytest.fixture(scope="module")
def count():
    """The script that counted the bands; its neighbours are imported by name, as scripts are."""
    names = ("tables", "cohorts", "count")
    before = {name: sys.modules.pop(name, None) for name in names}
    sys.path.insert(0, str(STUDY))
    try:
        yield importlib.import_module("count")
    finally:
        sys.path.remove(str(STUDY))
        for name in names:
            sys.modules.pop(name, None)
            if before[name] is not None:
                sys.modules[name] = before[name]


def test_indicators_are_those_the_bands_were_counted_with(count):
    profile, rng, n_seen = sg.Profile.load("human-psg-5"), np.random.default_rng(6), 0
    for _ in range(60):
        labels = random_labels(rng)
        if not (labels[1:][labels[:-1] >= 0] >= 0).any():
            continue
        scoring = count.Scoring("sleep-edf", "", "", "", labels.astype(int))
        if not (np.diff(labels[slice(*count.period_in(scoring))]) == 0).any():
            continue
        expected = count.night_figures(count.in_period(scoring, "aasm5"), "aasm5", 30.0, mouse=False)
        found = validity(sg.Hypnogram(labels, "aasm5", 30.0), profile).indicators
        expected["paper_tvr_percent"] = expected.pop("tvr_paper_percent")
        values = {name: found[name].value for name in expected}
        assert values == pytest.approx(expected, nan_ok=True)
        assert set(profile.bands) <= set(expected)
        n_seen += 1
    assert n_seen > 30


labels = st.lists(st.integers(-1, 2), min_size=2, max_size=60)


def measured(values, profile=PROFILE):
    return validity(sg.Hypnogram(np.array(values, dtype=np.int8), "wnr3", 30.0), profile)


def same_indicators(a, b):
    return {k: v.value for k, v in a.indicators.items()} == pytest.approx(
        {k: v.value for k, v in b.indicators.items()}, nan_ok=True
    )


@given(labels, st.integers(1, 5), st.integers(1, 5))
def test_unscored_epochs_at_the_ends_change_nothing(values, n_before, n_after):
    longer = measured([*[U] * n_before, *values, *[U] * n_after])
    assert same_indicators(measured(values), longer)
    assert measured(values).n_epochs_scored == longer.n_epochs_scored


@given(labels)
def test_flips_are_those_a_plain_loop_finds(values):
    threes = [t for t in zip(values, values[1:], values[2:], strict=False) if min(t) >= 0]
    flips = sum(a == c != b for a, b, c in threes)
    hours = sum(v >= 0 for v in values) / 120
    found = measured(values).indicators["flips_per_hour"].value
    assert math.isnan(found) if not threes else found == pytest.approx(flips / hours)


def dod_h(data_dir):
    with np.load(data_dir / "dod-h" / "dod_h.npz") as archive:
        names = sorted({key.rsplit("/", 1)[0] for key in archive.files})
        return [(archive[f"{name}/scorers"], archive[f"{name}/votes"]) for name in names]


def test_most_expert_scorings_are_inside_the_bands(data_dir):
    inside, n = {}, 0
    for scorers, _ in dod_h(data_dir):
        for labels in scorers:
            found = validity(sg.Hypnogram(labels.astype(np.int8), "aasm5", 30.0), "human-psg-5")
            n += 1
            for name, indicator in found.indicators.items():
                inside[name] = inside.get(name, 0) + (indicator.place == "inside")
    banded = sg.Profile.load("human-psg-5").bands
    assert n == 125
    assert {name for name in banded if inside[name] / n < 0.85} == set()
