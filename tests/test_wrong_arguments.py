"""What is no argument of a public function is an error of this package, on one line."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
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
        (lambda: sg.night_report(DECODED, expert=0), "the night is 0, expected a Hypnogram"),
        (lambda: sg.plot_bouts(EXPERT, stages=0), "stages is 0, expected names"),
        (lambda: sg.convert(EXPERT, "x.csv", target_format=[]), "format is [], expected text"),
        (lambda: sg.read_density(np.eye(5), stages=0), "stages is 0, expected a list of column names"),
        (lambda: sg.agreement(DECODED, EXPERT), "expert is <Decoding"),
        (lambda: sg.grade([DECODED], [[EXPERT]]), "night 1: the expert is <Decoding"),
        (lambda: sg.among_experts([DECODED], [[EXPERT] * 2]), "experts are <Decoding"),
        (lambda: sg.fit(*FITTED[::-1], base="human-psg-5"), "night 0: probabilities stand where"),
        (lambda: sg.read_recording(None), "path is None, expected a path"),
        (lambda: sg.read_recording("no-such.edf"), "no-such.edf: No such file or directory, expected a"),
        (lambda: sg.simulate_night(hours="8"), "hours is '8', expected a number"),
        (lambda: sg.simulate_night(seed=-1), "seed is -1, expected a whole number"),
        (lambda: sg.decode(NIGHT.density, "human-psg-5", logits=np.eye(2)), "logits is array([[1., 0."),
        (lambda: sg.StreamingDecoder("kdd2026-actigraphy", logits="no"), "logits is 'no', expected true"),
        (lambda: sg.night_report(DECODED, notes=None), "notes is None, expected a list"),
        (lambda: sg.night_report(DECODED, annotations=[1]), "annotations[0] is 1, expected an Event"),
        (lambda: sg.read_hypnogram([np.eye(2), "W"]), "list: holds ndarray, str, expected names"),
        (lambda: sg.read_hypnogram("no\nsuch.csv"), "no\\nsuch.csv: No such file"),
        (lambda: sg.sleep_statistics(EXPERT, convention=Unprintable()), "convention is <tests.Unprintable>"),
        (lambda: sg.StageScheme("x", ("W", "S"), wake=np.eye(20)), "wake is array([[1., 0."),
        (lambda: sg.Signal("x", None, 10.0), "samples of signal 'x' are None"),
        (lambda: sg.Signal(None, np.zeros(9), 10.0), "a signal's name is None, expected text"),
        (lambda: Series("x", ["a"], [1.0]), "times of series 'x'"),
        (lambda: sg.Recording("a", "b", None), "signals is None, expected"),
        (lambda: sg.Recording("a", "b", {"eeg": 5}), "signals['eeg'] is 5, expected a Signal"),
        (lambda: sg.Recording("a", "b", {}, {"expert": 5}), "scorings['expert'] is 5, expected a Hypnogram"),
        (lambda: sg.Signal("x", np.zeros(9), 1e-300), "rate_hz of signal 'x' is 1e-300, expected a number"),
        (lambda: sg.stage(None, None), "stager is None, expected a name"),
    ],
)
def test_a_wrong_argument_is_one_line(call, start):
    with pytest.raises(sg.StageGuardError) as caught:
        call()
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value)
