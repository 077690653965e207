"""Spectrogram frames and EMG power: what a feature means, where it is, and what scaling does to it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal as scipy_signal

import stageguard as sg
from made_recordings import RATE, between, eeg_emg, pink, recording, signal, sine, white
from stageguard.signals import windows
from stageguard.signals.features import Recipe

EPOCH = 10.0


def recipe(scaling="none", **spectrogram):
    chosen = {"frames": 2, "window_seconds": 4.0, "bins": [[0.5, 30.5, 1.0]]} | spectrogram
    return Recipe.from_dict(
        {
            "name": "own",
            "modality": "eeg-emg",
            "epoch_seconds": EPOCH,
            "scaling": {"method": scaling},
            "spectrogram": chosen,
        }
    )


def night(**samples):
    return recording(**{role: signal(x) for role, x in samples.items()})


def column(made, name):
    return made.values[:, :, made.names.index(name)]


@pytest.mark.parametrize("taper", ["hann", "multitaper"])
@pytest.mark.parametrize("hertz", [2.0, 9.0, 25.0])
def test_a_sine_shows_in_the_bin_of_its_frequency(taper, hertz):
    samples = {"eeg": sine(hertz, 100) + 1e-3 * white(20_000), "emg": white(20_000)}
    made = sg.features(night(**samples), recipe(taper=taper))
    loudest = {made.names[i] for i in made.values[:, :, :30].argmax(axis=2).ravel()}
    assert loudest == {f"eeg_{hertz - 0.5:g}-{hertz + 0.5:g}hz"}


def test_the_density_is_that_of_scipys_periodogram():
    samples = pink(round(EPOCH * RATE))
    made = sg.features(
        night(eeg=samples, emg=white(2000)), recipe(taper="hann", frames=1, window_seconds=EPOCH)
    )
    frequencies, power = scipy_signal.periodogram(samples, RATE, window="hann", detrend="constant")
    for k, low in enumerate(np.arange(0.5, 30.5, 1.0)):
        inside = (frequencies >= low - 1e-9) & (frequencies < low + 1 - 1e-9)
        assert made.values[0, 0, k] == pytest.approx(10 * np.log10(power[inside].mean()), abs=1e-3)


def test_multitaper_is_the_mean_over_slepian_sequences():
    samples = pink(800, seed=3)
    made = sg.features(
        night(eeg=samples, emg=white(800)), recipe(frames=1, window_seconds=4.0).replace(epoch_seconds=4.0)
    )
    centred = samples - samples.mean()
    looks = scipy_signal.windows.dpss(800, 2.0, 3)
    power = np.mean(
        [2 * np.abs(np.fft.rfft(centred * w)) ** 2 / (RATE * (w**2).sum()) for w in looks], axis=0
    )
    inside = (np.fft.rfftfreq(800, 1 / RATE) >= 0.5) & (np.fft.rfftfreq(800, 1 / RATE) < 1.5)
    assert made.values[0, 0, 0] == pytest.approx(10 * np.log10(power[inside].mean()), abs=1e-3)


def test_emg_power_is_that_of_its_band_in_decibels():
    """A sine of amplitude 10 uV within the band has the power 50 uV2; one outside has none."""
    emg = sine(35.0, 100, size=10.0)
    made = sg.features(night(eeg=pink(20_000), emg=emg), recipe())
    assert made.names[-1] == "emg_20-50hz_power"
    assert column(made, made.names[-1]) == pytest.approx(10 * np.log10(50), abs=0.1)
    outside = sg.features(night(eeg=pink(20_000), emg=sine(10.0, 100, size=10.0) + 1e-3 * emg), recipe())
    assert column(outside, made.names[-1]).max() < -20


def test_a_frame_is_about_its_own_part_of_the_epoch():
    eeg = 0.01 * white(20_000)
    eeg[between(4.5, 5)] += sine(9.0, 5, size=10.0)  # the second half of epoch 4
    made = sg.features(night(eeg=eeg, emg=white(20_000)), recipe())
    loud = column(made, "eeg_8.5-9.5hz") > -10
    assert loud[4].tolist() == [False, True]
    assert loud.sum() == 1


def test_a_volt_is_a_million_microvolts():
    samples = eeg_emg(10)
    in_volts = recording(**{role: signal(1e-6 * x, unit="V") for role, x in samples.items()})
    values = [sg.features(one, recipe()).values for one in (night(**samples), in_volts)]
    assert values[1] == pytest.approx(values[0], abs=1e-3)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("mouse-eeg-emg", (4, 28)),
        ("accusleep", (1, 183)),
        ("human-eeg-emg", (10, 23)),
        ("human-eeg", (10, 22)),
    ],
)
def test_built_in_recipes_have_the_shape_their_page_says(name, shape):
    made = sg.features(night(**eeg_emg(12)), name)
    assert made.values.shape[1:] == shape
    assert made.n_epochs == int(120 / Recipe.load(name).epoch_seconds)
    assert np.isfinite(made.values).all()


def test_raw_recipes_give_the_networks_the_input_they_were_made_for():
    """The shapes that the published numbers of parameters are counted for."""
    eeg, eog = pink(round(90 * RATE)), pink(round(90 * RATE), seed=4)
    one = sg.features(night(eeg=eeg), "raw-100")
    assert (one.values.shape, one.names) == ((3, 3000, 1), ("eeg",))
    two = sg.features(night(eeg=eeg, eog=eog), "raw-128")
    assert (two.values.shape, two.names) == ((3, 3840, 2), ("eeg", "eog"))


def test_samples_do_not_depend_on_where_a_long_recording_is_cut(monkeypatch):
    whole = sg.features(recording(eeg=signal(pink(300 * 256), 256.0)), "raw-100").values
    monkeypatch.setattr(windows, "BLOCK_SAMPLES", 30 * 256)
    pieces = sg.features(recording(eeg=signal(pink(300 * 256), 256.0)), "raw-100").values
    np.testing.assert_allclose(pieces, whole, atol=1e-3)


def test_a_gap_in_samples_is_bridged_if_short_and_an_epoch_without_them_is_empty():
    samples = pink(round(150 * RATE))
    samples[between(0, 3, epoch_seconds=30)] = np.nan
    samples[between(2, 30, epoch_seconds=30)] = 7.0
    samples[between(3, 10, epoch_seconds=30)] = np.nan
    made = sg.features(night(eeg=samples), "raw-100")
    assert made.has_signal.tolist() == [True, True, False, False, True]
    assert np.ptp(made.values[0, :250]) < 1e-3 * np.ptp(made.values[1])


def test_an_epoch_without_a_signal_is_empty_and_its_neighbours_are_not():
    samples = eeg_emg(20)
    samples["eeg"][between(7, 20)] = np.nan
    samples["emg"][between(12, 10)] = 3.25  # a flat line is no signal
    made = sg.features(night(**samples), recipe())
    assert np.flatnonzero(~made.has_signal).tolist() == [7, 8, 12]
    assert np.isnan(made.values[[7, 8, 12]]).all()
    assert np.isfinite(made.values[made.has_signal]).all()


def test_a_short_gap_leaves_the_level_as_it_is():
    eeg, emg = white(400_000, 5), white(400_000, 6)
    whole = sg.features(night(eeg=eeg, emg=emg), recipe()).values
    holes = np.arange(len(eeg)) % 800 < 160  # a fifth of every window
    made = sg.features(night(eeg=np.where(holes, np.nan, eeg), emg=emg), recipe())
    assert made.has_signal.all()
    power = [10 * np.log10((10 ** (v[:, :, :30] / 10)).mean()) for v in (whole, made.values)]
    assert power[1] == pytest.approx(power[0], abs=0.1)


@pytest.mark.parametrize("block", [1, 3000, 50_000])
def test_pieces_of_any_size_give_the_same_features(monkeypatch, block):
    samples = eeg_emg(15)
    samples["eeg"][between(3, 4)] = np.nan
    whole = sg.features(night(**samples), recipe()).values
    monkeypatch.setattr(windows, "BLOCK_SAMPLES", block)
    assert sg.features(night(**samples), recipe()).values.tobytes() == whole.tobytes()


@pytest.mark.parametrize("rate", [199.7, 200.3])
def test_odd_rates_do_not_drift(rate):
    n_samples = round(1000 * EPOCH * rate)
    eeg = 0.01 * np.random.default_rng(0).standard_normal(n_samples)
    first = round(990 * EPOCH * rate)
    eeg[first : first + round(EPOCH * rate)] += np.sin(2 * np.pi * 9 * np.arange(round(EPOCH * rate)) / rate)
    made = sg.features(recording(eeg=signal(eeg, rate)), recipe(frames=1).replace(emg={"channels": []}))
    assert np.flatnonzero(column(made, "eeg_8.5-9.5hz")[:, 0] > -20).tolist() == [990]


def test_robust_scaling_has_median_0_and_median_distance_1():
    samples = eeg_emg(200)
    samples["eeg"][between(50, 100)] *= 1000  # a tenth of outliers moves nothing much
    made = sg.features(night(**samples), recipe("robust"))
    flat = made.values.reshape(-1, made.values.shape[2])
    assert made.scaling == "robust"
    assert np.median(flat, axis=0) == pytest.approx(0, abs=1e-5)
    assert 1.4826 * np.median(np.abs(flat), axis=0) == pytest.approx(1, abs=1e-4)


def test_absolute_features_are_not_scaled():
    own = recipe("robust").replace(absolute=["emg_*"])
    samples = eeg_emg(20)
    made, raw = sg.features(night(**samples), own), sg.features(night(**samples), recipe())
    assert made.absolute == ("emg_20-50hz_power",)
    assert column(made, "emg_20-50hz_power").tobytes() == column(raw, "emg_20-50hz_power").tobytes()
    assert not np.array_equal(made.values[..., 0], raw.values[..., 0])


def test_accusleep_shows_its_network_nine_rows_of_emg():
    made = sg.features(night(**eeg_emg(12)), "accusleep")
    rows = [name for name in made.names if name.startswith("emg")]
    assert rows == [f"emg_20-50hz_power_{row}" for row in range(1, 10)] and made.names[-9:] == tuple(rows)
    assert np.ptp(made.values[:, 0, -9:], axis=1).max() == 0
    once = sg.features(night(**eeg_emg(12)), Recipe.load("accusleep").replace(emg={"repeat": 1}))
    assert once.names[-1] == "emg_20-50hz_power"
    np.testing.assert_array_equal(once.values[:, :, -1], made.values[:, :, -1])
