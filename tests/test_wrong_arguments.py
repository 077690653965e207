"""What is no argument of a public function is an error of this package, on one line."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from messages import naming
from stageguard.errors import MissingFileError
from stageguard.night.recording import Series

STAGES = ("W", "N1", "N2", "N3", "R")
NIGHT = sg.simulate_night(hours=2, seed=1)
DECODED = sg.decode(NIGHT.density, "human-psg-5")
EXPERT = NIGHT.expert
FITTED = ([EXPERT] * 2, [NIGHT.density] * 2)
EEG = sg.Signal("eeg", np.sin(np.arange(7680.0)), 128.0, "uV")
RECORDED = sg.Recording("a", "b", {"eeg": EEG, "emg": EEG})


class Unprintable:
    __module__ = "tests"

    def __repr__(self):
        raise RuntimeError("no repr")


@pytest.mark.parametrize(
    ("call", "start"),
    [
        (lambda: sg.validity(Unprintable()), "the night is <tests.Unprintable>, expected"),
        (lambda: sg.decode(NIGHT.density, "human-psg-5", quality=10**400), "quality holds no numbers"),
        (lambda: sg.decode(NIGHT.density, "human-psg-5", segments=np.eye(3)), "segments are array([[1., 0."),
        (lambda: sg.cohort_report(None), "nights are None, expected a dict"),
        (lambda: sg.cohort_report({"a": DECODED}, groups=["x"]), "groups are ['x'], expected a dict"),
        (lambda: sg.cohort_report({"a": DECODED}, experts=1), "experts are 1, expected a dict"),
        (lambda: sg.night_report(DECODED, expert=0), "the night is 0, expected a Hypnogram"),
        (lambda: sg.plot_bouts(EXPERT, stages=0), "stages is 0, expected names"),
        (lambda: sg.convert(EXPERT, "x.csv", target_format=[]), "format is [], expected text"),
        (lambda: sg.read_density(np.eye(5), stages=STAGES, format=0), "format is 0, expected text"),
        (lambda: sg.read_density(np.eye(5), stages=0), "stages is 0, expected a list of column names"),
        (lambda: sg.agreement(DECODED, EXPERT), "expert is <Decoding"),
        (lambda: sg.agreement(NIGHT.density, EXPERT), "expert is <Hypnodensity"),
        (lambda: sg.grade([DECODED], [[EXPERT]]), "night 1: the expert is <Decoding"),
        (lambda: sg.grade([[DECODED]], [EXPERT]), "night 1: the expert is <Decoding"),
        (lambda: sg.among_experts([DECODED], [[EXPERT] * 2]), "experts are <Decoding"),
        (lambda: sg.among_experts([DECODED] * 2, EXPERT), "expert is <Decoding"),
        (lambda: sg.plot_bland_altman([DECODED], [EXPERT]), "expert is <Decoding"),
        (lambda: sg.fit(*FITTED[::-1], base="human-psg-5"), "night 0: probabilities stand where"),
        (
            lambda: sg.fit([NIGHT.density.probabilities], [EXPERT], base="human-psg-5"),
            "night 0: probabilities stand where",
        ),
        (
            lambda: sg.fit([EXPERT], [[EXPERT] * 2], base="human-psg-5"),
            "night 0: probabilities are Python objects, expected",
        ),
        (lambda: sg.read_recording(None), "path is None, expected a path"),
        (lambda: sg.read_recording("no-such.edf"), "no-such.edf: No such file or directory, expected a"),
        (lambda: sg.simulate_night(hours="8"), "hours is '8', expected a number"),
        (lambda: sg.simulate_night(hours=1e300), "hours is 1e+300, expected a number from"),
        (lambda: sg.simulate_night(seed=-1), "seed is -1, expected a whole number"),
        (lambda: sg.decode(NIGHT.density, "human-psg-5", logits=np.eye(2)), "logits is array([[1., 0."),
        (lambda: sg.read_density(np.eye(5), stages=STAGES, log=np.eye(2)), "log is array([[1., 0."),
        (lambda: sg.StreamingDecoder("kdd2026-actigraphy", logits="no"), "logits is 'no', expected true"),
        (lambda: sg.night_report(DECODED, notes=None), "notes is None, expected a list"),
        (lambda: sg.night_report(DECODED, annotations=None), "annotations is None, expected a list"),
        (lambda: sg.night_report(DECODED, annotations=[1]), "annotations[0] is 1, expected an Event"),
        (lambda: sg.night_report(DECODED, title=Unprintable()), "title is <tests.Unprintable>, expected"),
        (lambda: sg.read_hypnogram([np.eye(2), "W"]), "list: holds ndarray, str, expected names"),
        (lambda: sg.read_hypnogram(range(10**12)), "a hypnogram cannot be read from"),
        (lambda: sg.read_hypnogram(["W"], scheme=Unprintable()), "unknown scheme <tests.Unprintable>"),
        (lambda: sg.read_hypnogram("no\nsuch.csv"), "no\\nsuch.csv: No such file"),
        (lambda: sg.sleep_statistics(EXPERT, convention=Unprintable()), "convention is <tests.Unprintable>"),
        (lambda: sg.sleep_statistics(EXPERT, lights_on_phase=Unprintable()), "lights_on_phase is <tests."),
        (lambda: sg.StageScheme("x", ("W", "S"), wake=np.eye(20)), "wake is array([[1., 0."),
        (lambda: sg.Signal("x", None, 10.0), "samples of signal 'x' are None, expected an array"),
        (lambda: sg.Signal(None, np.zeros(9), 10.0), "a signal's name is None, expected text"),
        (lambda: Series("x", ["a"], [1.0]), "times of series 'x' are ['a'], expected an array"),
        (lambda: Series("x", [1.0], 10**400), "values of series 'x' are 1000"),
        (lambda: sg.Recording(Unprintable(), "b", {}), "a recording's id is <tests.Unprintable>"),
        (lambda: sg.Recording("a", "b", None), "signals are None, expected a dict by name"),
        (lambda: sg.Recording("a", "b", {"eeg": 5}), "signals['eeg'] is 5, expected a Signal"),
        (lambda: sg.Recording("a", "b", {5: EEG}), "a name of signals is 5, expected text"),
        (lambda: sg.Recording("a", "b", {}, {"expert": 5}), "scorings['expert'] is 5, expected a Hypnogram"),
        (lambda: sg.Signal("x", np.zeros(9), 1e-300), "rate_hz of signal 'x' is 1e-300, expected a number"),
        (lambda: sg.Signal("x", ["a"], 1.0).read(), "samples of signal 'x' are ['a'], expected an array"),
        (lambda: sg.fit(*FITTED, base="human-psg-5", keep_accuracy=np.eye(2)), "keep_accuracy is array([[1."),
        (lambda: sg.combine(np.array(0.5)), "densities is array(0.5), expected"),
        (
            lambda: sg.combine([NIGHT.density], weights=[np.timedelta64(1, "s")]),
            "a weight is np.timedelta64(",
        ),
        (lambda: sg.among_experts(range(10**12), EXPERT), "experts are range(0, 1000000000000), expected"),
        (lambda: sg.cohort_report(b"abc"), "nights are b'abc', expected a dict"),
        (lambda: sg.stage(None, None), "stager is None, expected a name"),
    ],
)
def test_a_wrong_argument_is_one_line(call, start):
    with pytest.raises(sg.StageGuardError) as caught:
        call()
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value)


def test_a_flag_of_numpy_is_a_flag():
    logits = np.log(NIGHT.density.probabilities)
    told = sg.decode(logits, "human-psg-5", logits=np.True_)
    assert told.hypnogram == sg.decode(logits, "human-psg-5", logits=True).hypnogram


def test_a_missing_recording_is_a_missing_file():
    with pytest.raises(MissingFileError):
        sg.read_recording("no-such.edf")


def test_a_tensor_without_numbers_is_one_line():
    torch = pytest.importorskip("torch")
    with pytest.raises(sg.InputError, match=naming("has no numbers", "read")):
        sg.read_density(torch.zeros(3, 5, device="meta"), stages=STAGES)


@pytest.mark.parametrize("seconds", [1e12, 1e300])
def test_a_first_rem_bout_of_any_length_is_only_not_there(seconds):
    night = sg.Hypnogram([0, 2, 2, 4, 4, 4], "aasm5", 30)
    assert sg.sleep_statistics(night).rem_latency_minutes == 1.0
    said = sg.sleep_statistics(night, min_first_rem_seconds=seconds)
    assert np.isnan(said.rem_latency_bout_minutes)
