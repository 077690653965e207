"""A profile that steps aside returns the stager's argmax to the bit; a rule that does settles ties alone."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stageguard as sg
from nights import decode
from stageguard.errors import StageGuardWarning

NAMES = ("W", "N1", "N2", "N3", "R")
SHIPPED = sg.Profile.load("human-psg-5").replace(posterior=None)  # which does not step aside with the path
BASE = SHIPPED.replace(clock=None)
BIASES = {"W": 0.7, "N1": -0.4, "N2": 0.1, "N3": 0.3, "R": -0.7}
FITTED_ELSEWHERE = SHIPPED.replace(
    cohort="ours",
    base=BASE.replace(transition_weight=0.0).to_dict(),
    calibration={"temperature": 1.9, "biases": BIASES},
)
ASIDE = {
    "weight 0": (BASE.replace(transition_weight=0.0), {}),
    "weight 0, temperature": (BASE.replace(transition_weight=0.0, calibration={"temperature": 1.7}), {}),
    "weight 0, equal biases": (
        BASE.replace(transition_weight=0.0, calibration={"biases": dict.fromkeys(NAMES, 0.3)}),
        {},
    ),
    "band": (BASE.replace(strength={"rule": "band", "fi_target": 0.5, "cap": 9.0}), {}),
    "band, temperature": (
        BASE.replace(
            strength={"rule": "band", "fi_target": 0.5, "cap": 9.0}, calibration={"temperature": 0.6}
        ),
        {},
    ),
    "match": (BASE.replace(strength={"rule": "match", "fi_target": 1.0}), {}),
    "another cohort": (FITTED_ELSEWHERE, {"cohort": "theirs"}),
}
FIXED = [name for name in ASIDE if name.startswith("weight") or name == "another cohort"]
HYPOTHESIS = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def votes(draw):
    """Shares of votes, nearly every row with a tie, some of them broken by the last bit only."""
    counts = draw(st.lists(st.lists(st.integers(0, 2), min_size=5, max_size=5), min_size=1, max_size=60))
    rows = np.array(counts, dtype=float)
    rows[rows.sum(axis=1) == 0] = 1.0
    rows /= rows.sum(axis=1, keepdims=True)
    if draw(st.booleans()):
        epoch, stage = draw(st.integers(0, len(rows) - 1)), draw(st.integers(0, 4))
        rows[epoch, stage] = np.nextafter(rows[epoch, stage], 1.0)
    return rows


def stream(rows, profile, **options):
    """Stages of a stream that is put away and taken up again half-way."""
    decoder = sg.StreamingDecoder(profile, **options)
    stages = [stage for row in rows[: len(rows) // 2] for stage in decoder.push(row)]
    decoder = sg.StreamingDecoder.restore(decoder.snapshot())
    stages += [stage for row in rows[len(rows) // 2 :] for stage in decoder.push(row)]
    return [*stages, *decoder.finish()]


def is_argmax(result, rows, name, known=slice(None)):
    """Whether epochs have their likeliest stage: the first one, or any of equals if a rule stepped aside."""
    labels, rows = result.hypnogram.labels[known], rows[known]
    if name in FIXED:
        return labels.tolist() == rows.argmax(axis=1).tolist()
    return (rows[np.arange(len(rows)), labels] >= rows.max(axis=1) - 1e-9).all()


def named(labels):
    return [NAMES[label] for label in labels]


@pytest.mark.parametrize("name", ASIDE)
@HYPOTHESIS
@given(rows=votes())
def test_decode_is_argmax(backend, name, rows):
    profile, options = ASIDE[name]
    result = decode(rows, profile, **options)
    assert result.strength.transition_weight == 0.0 or name == "match"
    if result.strength.transition_weight == 0.0:
        assert result.argmax.tolist() == rows.argmax(axis=1).tolist()
        assert is_argmax(result, rows, name) and not result.n_changed
    batch = decode([rows, rows[::-1]], profile, **options)
    assert batch[0].hypnogram.labels.tolist() == result.hypnogram.labels.tolist()
    if batch[1].strength.transition_weight == 0.0:
        assert is_argmax(batch[1], rows[::-1], name)


@pytest.mark.parametrize("name", ASIDE)
@HYPOTHESIS
@given(rows=votes(), data=st.data())
def test_lost_quality_pins_and_gaps_leave_the_other_epochs_at_argmax(backend, name, rows, data):
    profile, options = ASIDE[name]
    quality = np.array([data.draw(st.sampled_from([0.0, 0.25, 0.875])) for _ in rows])
    lost = data.draw(st.integers(0, len(rows)))  # len(rows): none
    pinned = data.draw(st.integers(0, len(rows) - 1))
    rows = rows.copy()
    if lost < len(rows) and lost != pinned:
        rows[lost] = np.nan
    known = (np.arange(len(rows)) != lost) & (np.arange(len(rows)) != pinned)
    result = decode(rows, profile, quality=quality, pins={pinned: "N3"}, **options)
    if result.strength.transition_weight == 0.0:
        assert result.hypnogram.labels[pinned] == 3
        assert is_argmax(result, rows, name, known)


@pytest.mark.parametrize("name", FIXED)
@HYPOTHESIS
@given(rows=votes(), lag=st.sampled_from([None, 0.0, 90.0]))
def test_a_stream_is_argmax(backend, name, rows, lag):
    profile, options = ASIDE[name]
    assert stream(rows, profile, **options, max_lag_seconds=lag) == named(rows.argmax(axis=1))


@pytest.mark.parametrize("name", FIXED)
def test_a_stream_fills_lost_epochs_as_decode_does(backend, name):
    profile, options = ASIDE[name]
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 3, size=(200, 5)) + 1e-3
    rows /= rows.sum(axis=1, keepdims=True)
    rows[[0, 7, 8, 60, 199]] = np.nan
    rows[100:130] = np.nan
    assert stream(rows, profile, **options) == decode(rows, profile, **options).stages.tolist()


def test_stage_biases_and_a_prior_choose_every_epoch_by_itself_too(backend):
    rng = np.random.default_rng(6)
    rows = rng.integers(0, 3, size=(60, 5)) + 1e-3
    rows /= rows.sum(axis=1, keepdims=True)
    profile = BASE.replace(
        transition_weight=0.0,
        calibration={"temperature": 1.3, "biases": BIASES},
        prior=dict(zip(NAMES, (0.2, 0.1, 0.4, 0.1, 0.2), strict=True)),
        prior_exponent=0.5,
    )
    added = np.array([BIASES[name] for name in NAMES]) - 0.5 * np.log([0.2, 0.1, 0.4, 0.1, 0.2])
    expected = (np.log(rows) / 1.3 + added).argmax(axis=1).tolist()
    assert expected != rows.argmax(axis=1).tolist()
    assert decode(rows, profile).hypnogram.labels.tolist() == expected
    assert stream(rows, profile) == named(expected)


def test_the_score_of_an_untouched_night_counts_the_profiles_own_prior(backend):
    rows = np.array([[0.6, 0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.6, 0.1, 0.1]])
    prior = (0.2, 0.1, 0.4, 0.1, 0.2)
    profile = BASE.replace(
        transition_weight=0.0, prior=dict(zip(NAMES, prior, strict=True)), prior_exponent=0.5
    )
    expected = 2 * np.log(0.6) - 0.5 * np.log(0.2) - 0.5 * np.log(0.4)
    assert decode(rows, profile).score == pytest.approx(expected)


@HYPOTHESIS
@given(rows=votes(), order=st.permutations(range(5)), scheme=st.sampled_from(["wnr3", "wldr4", "ws2"]))
def test_ties_go_to_the_first_stage_of_the_scheme_whatever_the_order_of_columns(rows, order, scheme):
    profile, _ = ASIDE["weight 0"]
    names = [NAMES[place] for place in order]
    turned = sg.Hypnodensity(rows[:, order], sg.StageScheme.custom(names, wake="W", rem="R"), 30.0)
    by_name = decode(rows[:, order], profile, stages=names).hypnogram.labels.tolist()
    assert by_name == decode(turned, profile).hypnogram.labels.tolist() == rows.argmax(axis=1).tolist()
    merged = sg.Hypnodensity(rows, "aasm5", 30.0).merge(scheme)
    assert np.array_equal(turned.merge(scheme).probabilities, merged.probabilities)


def test_the_posterior_of_votes_has_their_argmax(backend):
    rng = np.random.default_rng(7)
    counts = rng.multinomial(4, [0.2] * 5, size=500)
    for name in FIXED:
        profile, options = ASIDE[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)
            smooth = sg.posterior(counts / 4, profile, **options)
        assert smooth.argmax.tolist() == counts.argmax(axis=1).tolist()


def test_votes_of_real_networks_are_untouched(backend, data_dir):
    file = np.load(data_dir / "dod-h" / "dod_h.npz")
    nights = [file[key] for key in file if key.endswith("/votes")][:3]
    nights = [counts[counts.sum(axis=1) > 0].astype(float) for counts in nights]
    nights = [counts / counts.sum(axis=1, keepdims=True) for counts in nights]
    ties = sum(int(((rows == rows.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum()) for rows in nights)
    assert ties > 10
    for name in FIXED:
        profile, options = ASIDE[name]
        for result, rows in zip(decode(nights, profile, **options), nights, strict=True):
            assert result.hypnogram.labels.tolist() == rows.argmax(axis=1).tolist()
            assert stream(rows, profile, **options) == result.stages.tolist()
