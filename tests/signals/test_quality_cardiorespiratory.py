"""Quality of heart and breathing: the paper's limits to the letter, and the share of an epoch that is bad."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from body_signals import beat_series, breathing, ecg, recording, steady_beats
from messages import mentions
from stageguard.night.recording import Recording, Series, Signal

pytest.importorskip("sleepecg")

RATE = "heart rate: outside 30-200 bpm"


def assess(rules="graded", **signals):
    return sg.signal_quality(recording(**signals), "cardiorespiratory", rules=rules)


def bare_beats(times):
    return Series("beats", times, np.full(len(times), np.nan), "s")


def with_rates(*bpm, seconds=30):
    """Beats at one rate after the other, each for an epoch."""
    pieces = [np.arange(0, seconds, 60 / rate) + place * seconds for place, rate in enumerate(bpm)]
    return bare_beats(np.concatenate(pieces) + 0.01)


@pytest.mark.parametrize("rules", ["kdd2026", "graded"])
def test_a_clean_night_has_nothing_against_it(rules):
    times = steady_beats(900, depth=0.04)
    found = assess(
        rules,
        ecg=Signal("ECG", ecg(times, 900, 128.0), 128.0, "mV"),
        thorax=Signal("T", breathing(900, 10.0), 10.0),
        abdomen=Signal("A", breathing(900, 10.0), 10.0),
    )
    assert found.n_epochs == 30
    assert not found.is_bad.any(), found.counts()


def test_heart_rates_outside_30_to_200_are_lost():
    found = assess("kdd2026", beats=with_rates(60, 190, 60, 210, 60, 32, 60, 28, 60))
    np.testing.assert_array_equal(np.flatnonzero(found.beta), [3, 7])
    assert found.reasons[3] == found.reasons[7] == RATE
    assert set(found.beta) == {0.0, 1.0}


def test_a_missing_segment_spoils_the_epochs_it_touches():
    times = steady_beats(300, mean=0.8)
    kept = times[(times < 70) | (times > 76)]
    found = assess("kdd2026", beats=bare_beats(kept))
    np.testing.assert_array_equal(np.flatnonzero(found.beta), [2])
    assert found.reasons[2] == "heart: missing"
    short = times[(times < 70) | (times > 73.5)]  # shorter than 5 s
    assert not assess("kdd2026", beats=bare_beats(short)).is_bad.any()


def test_beta_is_the_share_without_a_heart():
    times = steady_beats(300, mean=0.8)
    kept = times[(times < 70) | (times > 82)]
    found = assess(beats=bare_beats(kept))
    assert found.beta[2] == pytest.approx((kept[kept > 82][0] - kept[kept < 70][-1]) / 30, abs=1e-6)
    assert found.reasons[2] == "heart: missing"
    np.testing.assert_array_equal(np.flatnonzero(found.beta), [2])


@pytest.mark.parametrize("line", [np.nan, 0.0, 5.0])
def test_an_ecg_that_is_missing_flat_or_at_its_limit(line):
    times = steady_beats(600)
    signal = ecg(times, 600, 128.0)
    signal[(128 * 195) : 128 * 300] = line
    found = assess(ecg=Signal("ECG", signal, 128.0, "mV"))
    np.testing.assert_allclose(found.beta[[5, 7, 8, 9, 12]], [0, 1, 1, 1, 0], atol=0.05)
    assert found.beta[6] == pytest.approx(0.5, abs=0.05)
    assert "heart: missing" in found.reasons[8]


def test_implausible_intervals_weigh_by_their_length():
    times = steady_beats(300, mean=1.0)
    extra = np.sort(np.append(times, times[100:106] + 0.25))  # 0.25 s after six beats
    found = assess(beats=bare_beats(extra))
    epoch = int(times[103] // 30)
    assert found.beta[epoch] == pytest.approx(6 * 0.25 / 30, abs=0.01)
    assert RATE in found.reasons[epoch]


def test_without_breathing_half_is_left():
    belt = breathing(300, 10.0)
    lost = belt.copy()
    lost[1200:1800] = 2.5  # one number for a minute
    beats = beat_series(steady_beats(300))
    both = assess(beats=beats, thorax=Signal("T", lost, 10.0), abdomen=Signal("A", lost, 10.0))
    np.testing.assert_allclose(both.beta[[3, 4, 5, 7]], [0, 0.5, 0.5, 0], atol=0.01)
    assert mentions(both.reasons[4], "thorax", "abdomen")
    one = assess(beats=beats, thorax=Signal("T", lost, 10.0), abdomen=Signal("A", belt, 10.0))
    np.testing.assert_allclose(one.beta[[3, 4, 5, 7]], [0, 0.25, 0.25, 0], atol=0.01)


def test_real_losses_are_found_and_real_nights_are_kept(data_dir):
    lost, total = {}, 0
    with np.load(data_dir / "slpdb" / "slpdb_rr_stages.npz") as nights:
        for name in (key.removesuffix("_rr") for key in nights.files if key.endswith("_rr")):
            beats = Series("rr", nights[f"{name}_t_beat"], nights[f"{name}_rr"], "s")
            night = Recording(name, name, {"beats": beats})
            paper = sg.signal_quality(night, "cardiorespiratory", rules="kdd2026")
            ours = sg.signal_quality(night, "cardiorespiratory", rules="graded")
            total += paper.n_epochs
            if paper.is_bad.any():
                lost[name] = int(paper.is_bad.sum())
            assert ours.beta.sum() <= paper.beta.sum() + 3
            pause = int(np.argmax(beats.values))
            if beats.values[pause] > 100:  # seconds without a beat
                first, end = beats.times[pause] - beats.values[pause], beats.times[pause]
                inside = slice(int(np.ceil(first / 30)), int(end // 30))
                assert (ours.beta[inside] == 1).all()
                assert (paper.beta[inside] == 1).all()
    assert set(lost) == {"slp03", "slp60"}
    assert sum(lost.values()) / total < 0.01
