"""Stagers that give labels alone: their labels become shares, and the guard acts on those as on any night."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from cli_runner import Runner, error_line
from messages import mentions
from stageguard.errors import InputError, StageGuardWarning
from stageguard.guard.night import LABELS_ALONE
from stageguard.report.words import done_words

PROFILES = ("human-psg-5", "human-psg-3", "mouse-eeg-emg-3")


def stages_of(seed: int, n_epochs: int, n_stages: int) -> np.ndarray:
    """Bouts of random stages and lengths, some of them unscored."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(rng.integers(-1, n_stages, n_epochs), rng.integers(1, 12, n_epochs))[:n_epochs]
    labels[0] = 0  # some evidence
    return labels.astype(np.int8)


def shares_of(profile: sg.Profile, labels: np.ndarray) -> np.ndarray:
    return np.array(
        [profile.labels.shares[k] if k >= 0 else (np.nan,) * len(profile.transitions) for k in labels]
    )


def quiet(verb, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        return verb(*arguments, **options)


@pytest.mark.parametrize("name", PROFILES)
@given(seed=st.integers(0, 10_000), n_epochs=st.integers(1, 120), quality=st.booleans())
def test_labels_are_decoded_as_the_density_of_their_shares(name, seed, n_epochs, quality):
    profile = sg.Profile.load(name)
    labels = stages_of(seed, n_epochs, profile.scheme.n_stages)
    options = {"quality": np.linspace(0, 0.9, n_epochs)} if quality else {}
    night = sg.Hypnogram(labels, profile.scheme, profile.epoch_seconds)
    density = sg.Hypnodensity(shares_of(profile, labels), profile.scheme, profile.epoch_seconds)
    unsmoothed = profile.replace(strength={"rule": "target", "fi_target": 1.0})
    unsmoothed = profile if profile.species == "mouse" else unsmoothed  # of people by the clock alone
    one = quiet(sg.decode, night, profile, **options)
    other = quiet(sg.decode, density, unsmoothed, **options)
    assert one.hypnogram.labels.tolist() == other.hypnogram.labels.tolist()
    assert one.score == other.score and one.setting == other.setting
    assert one.argmax.tolist() == labels.tolist()
    assert (one.from_labels, other.from_labels) == ("typical", None)
    both = (night, profile), (density, unsmoothed)
    smooth, of_density = (quiet(sg.posterior, *each, **options) for each in both)
    np.testing.assert_array_equal(smooth.probabilities, of_density.probabilities)
    assert smooth.log_evidence == of_density.log_evidence and smooth.from_labels == "typical"
    drawn = [quiet(sg.sample, *each, n=3, seed=seed, **options) for each in both]
    np.testing.assert_array_equal(*drawn)


@given(seed=st.integers(0, 10_000))
def test_the_guard_off_leaves_labels_as_they_are(seed):
    labels = stages_of(seed, 200, 5)
    result = sg.decode(sg.Hypnogram(labels, "aasm5", 30), "human-psg-5", strength="off")
    assert result.hypnogram.labels[labels >= 0].tolist() == labels[labels >= 0].tolist()


def test_finer_stages_are_merged_first():
    night = sg.Hypnogram(stages_of(2, 400, 5), "aasm5", 30)
    finer, coarse = (quiet(sg.decode, one, "human-psg-3") for one in (night, night.merge("wnr3")))
    assert finer.hypnogram == coarse.hypnogram
    with pytest.raises(InputError, match="wnr3"):
        sg.decode(night.merge("wnr3"), "human-psg-5")


@pytest.mark.parametrize("name", ["human-actigraphy-2", "human-bioradar-3", "human-cardiorespiratory-3"])
def test_profiles_refuse_labels_with_their_reason(name):
    profile = sg.Profile.load(name)
    night = sg.Hypnogram(stages_of(4, 100, profile.scheme.n_stages), profile.scheme, 30)
    with pytest.raises(InputError) as refused:
        sg.decode(night, profile)
    assert profile.labels.refused in str(refused.value) and "\n" not in str(refused.value)


def test_a_profile_without_the_block_takes_no_labels():
    with pytest.raises(InputError) as refused:
        sg.decode(sg.Hypnogram(stages_of(5, 100, 5), "aasm5", 30), "kdd2026-psg-5")
    assert mentions(refused.value, "kdd2026-psg-5", "labels")


def test_own_confusions_belong_to_their_stager():
    typical = sg.Profile.load("human-psg-3").to_dict()["labels"]
    own = {a: {b: 0.6 if a == b else 0.2 for b in "WNR"} for a in "WNR"}
    profile = sg.Profile.load("human-psg-3").replace(labels=typical | {"own": own}, stager="a headband")
    night = sg.Hypnogram(stages_of(6, 400, 3), "wnr3", 30)
    theirs = quiet(sg.decode, night, profile, stager="A headband")
    other = quiet(sg.decode, night, profile, stager="another")
    assert (theirs.from_labels, other.from_labels) == ("own", "typical")
    assert LABELS_ALONE["own"] in theirs.assumed and LABELS_ALONE["typical"] in other.assumed
    assert np.nanmax(theirs.density.probabilities) == 0.6
    assert np.nanmax(other.density.probabilities) == max(map(max, profile.labels.shares))


def test_files_of_labels_are_decoded_resumed_and_verified(tmp_path, capsys):
    run = Runner(capsys)
    labels = sg.simulate_night("human-psg-5", hours=3, seed=7).density.argmax
    night = sg.Hypnogram(labels, "aasm5", 30)
    (tmp_path / "labels.txt").write_text("\n".join(night.stages) + "\n")
    decode = ("decode", tmp_path / "labels.txt", "-p", "human-psg-5", "-o", tmp_path / "out")
    first = run(*decode)
    assert first.code == 0 and LABELS_ALONE["typical"] in first.out
    output = tmp_path / "out" / "labels.hypnogram.tsv"
    decoded = quiet(sg.decode, night, "human-psg-5").hypnogram
    assert sg.read_hypnogram(output).labels.tolist() == decoded.labels.tolist()
    written = output.read_bytes()
    assert run(*decode).code == 0 and output.read_bytes() == written
    assert run("verify", output).code == 0
    smooth = run(*decode[:-1], tmp_path / "smooth", "--posterior")
    assert smooth.code == 0 and LABELS_ALONE["typical"] in smooth.out
    refused = run("decode", tmp_path / "labels.txt", "-p", "human-actigraphy-2", "-o", tmp_path / "none")
    assert mentions(error_line(refused), "labels.txt", "human-actigraphy-2")


def test_labels_without_a_scored_epoch_are_refused_as_labels():
    with pytest.raises(sg.InputError, match="unscored"):
        sg.decode(sg.Hypnogram([-1] * 10, "aasm5", 30.0), "human-psg-5")


@pytest.mark.parametrize("profile", ["human-psg-3", "human-psg-5"])
@given(seed=st.integers(0, 10_000))
def test_labels_without_rem_give_none_and_are_not_smoothed(profile, seed):
    rng, stages = np.random.default_rng(seed), ["W", "N" if profile.endswith("3") else "N2"]
    asleep = np.repeat(np.arange(8) % 2, 120) ^ (rng.random(960) < rng.uniform(0, 0.2))  # and single epochs
    scheme = sg.Profile.load(profile).scheme
    labels = np.array([scheme.index(stage) for stage in stages], dtype=np.int8)[asleep]
    result = quiet(sg.decode, sg.Hypnogram(labels, scheme, 30), profile)
    assert (result.hypnogram.labels == labels).all()  # the clock acts on REM alone
    assert "labels alone do not show which epochs are doubtful" in done_words(result)
    assert "smoothed to" not in sg.methods_text(result)


def test_of_labels_only_the_clock_changes_a_stage():
    labels = np.array(([0] * 40 + [2] * 30 + [4] * 4 + [2] * 100 + [0, 2] * 40 + [4] * 40) * 2, dtype=np.int8)
    result = quiet(sg.decode, sg.Hypnogram(labels, "aasm5", 30), "human-psg-5")
    assert set(np.flatnonzero(result.changed)) == {70, 71, 72, 73}
