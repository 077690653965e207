"""Spectrogram frames and EMG power: what a feature means, where it is, and what scaling does to it."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import signal as scipy_signal

import stageguard as sg
from made_recordings import RATE, between, eeg_emg, pink, recording, signal, sine, white
from messages import naming
from stageguard.errors import InputError
from stageguard.signals import windows
from stageguard.signals.features import Recipe, mixture_moments
from stageguard.signals.windows import tapers

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


# What a number means


@pytest.mark.parametrize("taper", ["hann", "multitaper"])
@pytest.mark.parametrize("hertz", [2.0, 9.0, 25.0])
def test_a_sine_shows_in_the_bin_of_its_frequency(taper, hertz):
    samples = {"eeg": sine(hertz, 100) + 1e-3 * white(20_000), "emg": white(20_000)}
    made = sg.features(night(**samples), recipe(taper=taper))
    loudest = {made.names[i] for i in made.values[:, :, :30].argmax(axis=2).ravel()}
    assert loudest == {f"eeg_{hertz - 0.5:g}-{hertz + 0.5:g}hz"}


@pytest.mark.parametrize("taper", ["hann", "multitaper"])
def test_white_noise_has_the_density_it_has(taper):
    """Power 25 uV2 spread over 100 Hz is 0.25 uV2/Hz, that is -6.02 dB."""
    made = sg.features(night(eeg=white(400_000, size=5.0), emg=white(400_000)), recipe(taper=taper))
    mean_power = (10 ** (made.values[:, :, :30] / 10)).mean()
    assert 10 * np.log10(mean_power) == pytest.approx(-6.02, abs=0.1)


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


def test_the_order_of_channels_is_that_of_the_recipe():
    samples = eeg_emg(10)
    made = sg.features(
        night(eeg=samples["eeg"], eog=samples["eeg"][::-1], emg=samples["emg"]),
        recipe(channels=["eog", "eeg"], bins=[[1.0, 3.0, 1.0]]),
    )
    assert made.names == ("eog_1-2hz", "eog_2-3hz", "eeg_1-2hz", "eeg_2-3hz", "emg_20-50hz_power")
    assert made.values.shape == (10, 2, 5)


def test_without_emg_there_is_no_emg_power():
    own = recipe().replace(emg={"channels": []})
    assert sg.features(night(eeg=pink(20_000)), own).names[-1] == "eeg_29.5-30.5hz"


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


def test_accusleep_shows_its_network_nine_rows_of_emg():
    made = sg.features(night(**eeg_emg(12)), "accusleep")
    rows = [name for name in made.names if name.startswith("emg")]
    assert rows == [f"emg_20-50hz_power_{row}" for row in range(1, 10)] and made.names[-9:] == tuple(rows)
    assert np.ptp(made.values[:, 0, -9:], axis=1).max() == 0
    once = sg.features(night(**eeg_emg(12)), Recipe.load("accusleep").replace(emg={"repeat": 1}))
    assert once.names[-1] == "emg_20-50hz_power"
    np.testing.assert_array_equal(once.values[:, :, -1], made.values[:, :, -1])


# Samples in place of spectra


def test_raw_recipes_give_the_networks_the_input_they_were_made_for():
    """The shapes that the published numbers of parameters are counted for."""
    eeg, eog = pink(round(90 * RATE)), pink(round(90 * RATE), seed=4)
    one = sg.features(night(eeg=eeg), "raw-100")
    assert (one.values.shape, one.names) == ((3, 3000, 1), ("eeg",))
    two = sg.features(night(eeg=eeg, eog=eog), "raw-128")
    assert (two.values.shape, two.names) == ((3, 3840, 2), ("eeg", "eog"))


@pytest.mark.parametrize("rate", [64.0, 100.0, 128.0, 250.0, 256.0, 512.0])
def test_resampled_samples_are_the_signal_at_the_new_times(rate):
    made = sg.features(night_at(rate, 9.0, 65), "raw-100")
    times = np.arange(2 * 3000) / 100
    inside = slice(100, -100)  # at the recording's ends there is nothing beyond to interpolate with
    expected = 30 * np.sin(2 * np.pi * 9.0 * times)
    np.testing.assert_allclose(made.values.ravel()[inside], expected[inside], atol=0.3)


def night_at(rate, hertz, seconds):
    return recording(eeg=signal(sine(hertz, seconds, rate, size=30.0), rate))


def test_a_lower_rate_does_not_fold_what_it_cannot_hold():
    made = sg.features(night_at(512.0, 70.0, 65), "raw-100")  # would show as 30 Hz
    assert np.abs(made.values.ravel()[100:-100]).max() < 0.3


def test_samples_do_not_depend_on_where_a_long_recording_is_cut(monkeypatch):
    whole = sg.features(recording(eeg=signal(pink(300 * 256), 256.0)), "raw-100").values
    monkeypatch.setattr("stageguard.signals.eeg_emg.BLOCK_SAMPLES", 30 * 256)
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


def test_a_rate_that_cannot_be_had_is_one_line():
    with pytest.raises(InputError, match=naming("'eeg'", "40 Hz", "100 Hz")):
        sg.features(night_at(40.0, 9.0, 65), "raw-100")
    with pytest.raises(InputError, match=naming("samples.rate_hz", 100, "2.505 s")):
        sg.features(night_at(200.0, 9.0, 65), "raw-100", epoch_seconds=2.505)


# Missing pieces


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


def test_more_gap_than_allowed_empties_the_epoch():
    samples = eeg_emg(20)
    samples["eeg"][between(7, 2.0)] = np.nan
    assert sg.features(night(**samples), recipe(max_missing=0.45)).has_signal[7]
    assert not sg.features(night(**samples), recipe(max_missing=0.3)).has_signal[7]


def test_a_dead_channel_says_which_and_what_to_map():
    with pytest.raises(
        sg.InputError,
        match=naming("'emg'", "'night'", "--channel", "emg=NAME"),
    ):
        sg.features(night(eeg=pink(20_000), emg=np.zeros(20_000)), recipe())


def test_channels_that_are_never_there_together_are_refused():
    samples = eeg_emg(20)
    samples["eeg"][: between(10, 1).start] = np.nan
    samples["emg"][between(10, 1).start :] = np.nan
    with pytest.raises(sg.InputError, match=naming("all channels give", "signal")):
        sg.features(night(**samples), recipe())


def test_a_missing_channel_says_which_and_what_to_map():
    with pytest.raises(sg.InputError, match=r"no channel 'emg'; it has: eeg. Map one .* --channel emg=NAME"):
        sg.features(night(eeg=pink(20_000)), recipe())


def test_a_slow_channel_says_so():
    slow = recording(eeg=signal(pink(20_000)), emg=signal(white(1000), rate=10.0, name="EMG submental"))
    with pytest.raises(sg.InputError, match=naming("'emg'", "EMG", "10 Hz", 20, "50 Hz")):
        sg.features(slow, recipe())


def test_bins_finer_than_the_window_tells_are_refused():
    with pytest.raises(sg.InputError, match=r"a window of 4 s tells 0.25 Hz apart. Widen the bins"):
        sg.features(night(**eeg_emg(10)), recipe(bins=[[1.0, 2.0, 0.1]]))


def test_without_scipy_a_hann_window_does_and_a_multitaper_says_what_to_install(monkeypatch):
    for name in ("scipy", "scipy.signal", "scipy.signal.windows"):
        monkeypatch.setitem(sys.modules, name, None)
    tapers.cache_clear()
    sg.features(night(**eeg_emg(10)), recipe(taper="hann"))
    with pytest.raises(
        sg.MissingExtraError, match=r"multitaper spectrogram .* needs 'scipy'. Install with: pip"
    ):
        sg.features(night(**eeg_emg(10)), recipe(taper="multitaper"))


# Streaming


@pytest.mark.parametrize("block", [1, 3000, 50_000])
def test_pieces_of_any_size_give_the_same_features(monkeypatch, block):
    samples = eeg_emg(15)
    samples["eeg"][between(3, 4)] = np.nan
    whole = sg.features(night(**samples), recipe()).values
    monkeypatch.setattr(windows, "BLOCK_SAMPLES", block)
    assert sg.features(night(**samples), recipe()).values.tobytes() == whole.tobytes()


class Watched:
    """Samples that note how many of them are read at a time."""

    def __init__(self, samples):
        self.samples, self.longest, self.total = samples, 0, 0

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, where):
        self.longest = max(self.longest, where.stop - where.start)
        self.total += where.stop - where.start
        return self.samples[where]


def test_a_long_channel_is_read_once_and_a_little_at_a_time(monkeypatch):
    monkeypatch.setattr(windows, "BLOCK_SAMPLES", 20_000)
    watched = Watched(pink(400_000))
    own = recipe().replace(emg={"channels": []})
    sg.features(recording(eeg=sg.Signal("X", watched, RATE, "uV")), own)
    assert watched.longest < 30_000
    assert watched.total < 1.3 * len(watched)


@pytest.mark.parametrize("rate", [199.7, 200.3])
def test_odd_rates_do_not_drift(rate):
    n_samples = round(1000 * EPOCH * rate)
    eeg = 0.01 * np.random.default_rng(0).standard_normal(n_samples)
    first = round(990 * EPOCH * rate)
    eeg[first : first + round(EPOCH * rate)] += np.sin(2 * np.pi * 9 * np.arange(round(EPOCH * rate)) / rate)
    made = sg.features(recording(eeg=signal(eeg, rate)), recipe(frames=1).replace(emg={"channels": []}))
    assert np.flatnonzero(column(made, "eeg_8.5-9.5hz")[:, 0] > -20).tolist() == [990]


# Scaling


def test_robust_scaling_has_median_0_and_median_distance_1():
    samples = eeg_emg(200)
    samples["eeg"][between(50, 100)] *= 1000  # a tenth of outliers moves nothing much
    made = sg.features(night(**samples), recipe("robust"))
    flat = made.values.reshape(-1, made.values.shape[2])
    assert made.scaling == "robust"
    assert np.median(flat, axis=0) == pytest.approx(0, abs=1e-5)
    assert 1.4826 * np.median(np.abs(flat), axis=0) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("exponent", [-6, -2, 2, 6])
def test_robust_scaling_forgets_the_amplifier(exponent):
    samples = eeg_emg(50)
    louder = recording(**{role: signal(10.0**exponent * x, unit="") for role, x in samples.items()})
    before, after = (sg.features(one, recipe("robust")).values for one in (night(**samples), louder))
    assert after == pytest.approx(before, abs=2e-3)


def test_values_beyond_the_clip_are_cut():
    samples = eeg_emg(50)
    samples["eeg"][between(20, 10)] *= 1e4
    clipped = sg.features(night(**samples), recipe().replace(scaling={"method": "robust", "clip": 3.0}))
    assert np.abs(clipped.values).max() == 3.0


def stages(text, epoch_seconds=EPOCH, scheme="wnr3"):
    scheme = sg.StageScheme.named(scheme)
    labels = [-1 if one == "?" else scheme.index(one) for one in text.split()]
    return sg.Hypnogram(np.array(labels, dtype=np.int8), scheme, epoch_seconds)


def test_mixture_moments_are_those_of_a_weighted_mixture():
    """Drawn from the mixture itself, a large sample has the same mean and spread."""
    rng = np.random.default_rng(0)
    groups = {0: (0.0, 1.0, 0.1), 1: (5.0, 2.0, 0.35), 2: (-3.0, 0.5, 0.55)}
    values = np.concatenate([rng.normal(mean, sd, 40_000) for mean, sd, _ in groups.values()])[:, None]
    labels = np.repeat([0, 1, 2], 40_000)
    centre, spread = mixture_moments(values, labels, [share for *_, share in groups.values()])
    drawn = np.concatenate([rng.normal(m, s, round(200_000 * w)) for m, s, w in groups.values()])
    assert centre[0] == pytest.approx(drawn.mean(), abs=0.02)
    assert spread[0] == pytest.approx(drawn.std(), abs=0.02)


def test_calibration_scales_by_the_labelled_epochs_whatever_else_the_recording_holds():
    """With more wake after the labelled part, its calibrated features stay and robust ones move."""
    samples = eeg_emg(40)
    for role in samples:
        samples[role][: between(20, 1).start] *= 5  # asleep
    mostly_wake = {role: np.concatenate([x, *[x[between(20, 200)]] * 4]) for role, x in samples.items()}
    labelled = stages(" ".join(["N"] * 16 + ["R"] * 4 + ["W"] * 20))
    own = recipe("robust")
    short, long = night(**samples), night(**mostly_wake)
    calibrated = [sg.features(one, own, calibration=labelled) for one in (short, long)]
    assert calibrated[0].scaling == "mixture"
    # the last frame of the labelled part sees a little of what follows
    assert calibrated[1].values[:39] == pytest.approx(calibrated[0].values[:39], abs=0.02)
    robust = [sg.features(one, own).values[:39] for one in (short, long)]
    assert np.abs(robust[1] - robust[0]).max() > 0.5


def test_calibrated_features_are_absolute():
    samples = eeg_emg(40)
    labelled = stages("W W W W N N N N R R R R")
    made = sg.features(night(**samples), recipe("robust"), calibration=labelled)
    assert made.absolute == made.names
    assert sg.features(night(**samples), recipe("robust")).absolute == ()


def test_calibration_takes_finer_stages():
    labelled = stages("W W W N1 N2 N3 N3 R R R", scheme="aasm5")
    merged = stages("W W W N N N N R R R")
    one, other = (
        sg.features(night(**eeg_emg(20)), recipe("robust"), calibration=c).values for c in (labelled, merged)
    )
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        (
            stages("W W W N N N R R ?"),
            ("calibration", "2 epochs", "R", 3, "W, N, R"),
        ),
        (stages("W W W N N N R R R", 4.0), ("calibration", "4 s", "10 s")),
        (stages(" ".join(["W"] * 21)), ("calibration", "21 epochs", 20)),
    ],
)
def test_a_calibration_that_does_not_fit_says_why(calibration, message):
    with pytest.raises(sg.InputError, match=naming(*message)):
        sg.features(night(**eeg_emg(20)), recipe("robust"), calibration=calibration)


def test_absolute_features_are_not_scaled():
    own = recipe("robust").replace(absolute=["emg_*"])
    samples = eeg_emg(20)
    made, raw = sg.features(night(**samples), own), sg.features(night(**samples), recipe())
    assert made.absolute == ("emg_20-50hz_power",)
    assert column(made, "emg_20-50hz_power").tobytes() == column(raw, "emg_20-50hz_power").tobytes()
    assert not np.array_equal(made.values[..., 0], raw.values[..., 0])


# The result itself


def test_a_result_is_checked_and_cannot_be_changed():
    values = np.zeros((3, 2, 2), dtype=np.float32)
    made = sg.Features("night", "x", values, ("a", "b"))
    with pytest.raises(ValueError, match="read-only"):
        made.values[0] = 1
    with pytest.raises(sg.InputError, match=naming("night", 1, 2)):
        sg.Features("night", "x", values, ("a",))
    values[1, 0, 1] = np.nan
    with pytest.raises(sg.InputError, match=naming("'b'", 1)):
        sg.Features("night", "x", values, ("a", "b"))
