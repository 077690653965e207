"""Quality of radar: dropouts, movement and limits are found where they are."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from made_recordings import between, recording, signal, sine

RATE, EPOCH = 20.0, 30.0
N_EPOCHS = 80


def echo(n_epochs=N_EPOCHS, seed=0):
    """Breathing seen in I and Q, with a little noise."""
    rng = np.random.default_rng(seed)
    phase = sine(0.25, n_epochs * EPOCH, RATE, 0.5) + 0.7
    noise = 0.01 * rng.standard_normal((2, len(phase)))
    return {"radar_i": np.cos(phase) + noise[0] + 3, "radar_q": np.sin(phase) + noise[1] - 1}


def assess(samples, rules="graded", units=None):
    units = units or dict.fromkeys(samples, "")
    night = recording(**{role: signal(x, RATE, units[role]) for role, x in samples.items()})
    return sg.signal_quality(night, "bioradar", rules=rules)


def at(epoch, seconds):
    return between(epoch, seconds, RATE, EPOCH)


@pytest.mark.parametrize("rules", ["kdd2026", "graded"])
@pytest.mark.parametrize("seed", range(3))
def test_clean_signals_are_not_flagged(rules, seed):
    assert not assess(echo(400, seed), rules).is_bad.any()


@pytest.mark.parametrize("fill", [np.nan, 2.5])
@pytest.mark.parametrize(("seconds", "flagged"), [(30, []), (60, [20, 21]), (90, [20, 21, 22])])
def test_the_paper_calls_two_epochs_without_a_signal_a_dropout_and_one_not(fill, seconds, flagged):
    samples = echo()
    samples["radar_i"][at(20, seconds)] = fill
    found = assess(samples, "kdd2026")
    assert np.flatnonzero(found.beta).tolist() == flagged
    assert all(found.reasons[epoch] == "radar_i: dropout" for epoch in flagged)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda x: x * np.nan, "radar_q: missing"),
        (lambda x: 0 * x, "radar_q: flat"),
        (lambda x: 30 * (x - x.mean()), "radar_q: amplitude"),
        (lambda x: np.clip(30 * (x - x.mean()), -4, 4), "radar_q: clipped"),
    ],
)
def test_an_artefact_is_found_where_it_is_and_as_long_as_it_is(change, reason):
    samples = echo()
    chosen = at(40, 15)
    samples["radar_q"][chosen] = change(samples["radar_q"][chosen])
    found = assess(samples)
    assert np.flatnonzero(found.beta).tolist() == [40]
    assert found.beta[40] == pytest.approx(0.5)
    assert found.reasons[40] == reason
