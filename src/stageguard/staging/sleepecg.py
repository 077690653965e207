"""SleepECG: a recurrent network on heartbeats, with age, sex and the time of day as inputs."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from functools import cache
from typing import Any

import numpy as np

from stageguard.arrays import Floats
from stageguard.errors import InputError
from stageguard.lazy import library
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.recording import Recording, Series
from stageguard.night.stages import WNR3
from stageguard.profile.stagers import KNOWN_STAGERS
from stageguard.signals.windows import steady_signal
from stageguard.staging import Stager

CLASSIFIER = "wrn-gru-mesa"
COLUMNS = (3, 1, 2)  # of W, N, R among SleepECG's UNDEFINED, NREM, REM, WAKE
EPOCH_SECONDS = 30.0
LEAST_PER_MINUTE = 20.0  # beats; an ECG that gives fewer is flat, or no ECG


def run(recording: Recording) -> Hypnodensity:
    """Return SleepECG's probabilities; the last epoch, which it leaves out, has none."""
    sleepecg = library("sleepecg", "staging by SleepECG", "sleepecg")
    os.environ.setdefault("KERAS_BACKEND", "torch")  # keras alone would look for TensorFlow
    library("keras", "staging by SleepECG", "sleepecg")
    beats = beat_times(recording, sleepecg)
    per_minute = 60 * len(beats) / recording.seconds
    if per_minute < LEAST_PER_MINUTE:
        raise InputError(
            f"recording {recording.id!r} has {per_minute:.3g} heartbeats a minute, expected at least "
            f"{LEAST_PER_MINUTE:g}. Is the ECG flat? Choose another channel with --channel ecg=NAME."
        )
    assert recording.start is not None
    record = sleepecg.SleepRecord(
        sleep_stage_duration=int(EPOCH_SECONDS),
        recording_start_time=recording.start.time(),
        heartbeat_times=beats,
        subject_data=sleepecg.SubjectData(
            gender=_gender(recording), age=round(float(recording.covariates["age"]))
        ),
    )
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):  # keras prints its progress
        warnings.simplefilter("ignore")
        rows = np.asarray(sleepecg.stage(_classifier(), record, return_mode="prob"), dtype=np.float64)
    n_epochs = int(recording.seconds / EPOCH_SECONDS + 1e-6)
    found = rows[:n_epochs, COLUMNS]
    probabilities = np.full((n_epochs, len(COLUMNS)), np.nan)
    probabilities[: len(found)] = found / found.sum(axis=1, keepdims=True)
    source = f"{recording.id} by SleepECG {sleepecg.__version__}"
    return Hypnodensity(probabilities, WNR3, EPOCH_SECONDS, recording.start, source)


def beat_times(recording: Recording, sleepecg: Any) -> Floats:
    """Return the times of heartbeats in seconds: as recorded, or found in the ECG by SleepECG's detector."""
    if "beats" in recording.signals:
        beats = recording.signals["beats"]
        assert isinstance(beats, Series)
        return beats.times
    ecg = steady_signal(recording, "ecg")
    samples = np.nan_to_num(ecg.read(), nan=0.0)
    return np.asarray(sleepecg.detect_heartbeats(samples, ecg.rate_hz) / ecg.rate_hz, dtype=np.float64)


def _gender(recording: Recording) -> int:
    """Return SleepECG's code of a sex."""
    sex = recording.covariates["sex"]
    if sex not in ("F", "M"):
        raise InputError(f'sex of recording {recording.id!r} is {sex!r}, expected "F" or "M".')
    return {"F": 0, "M": 1}[sex]


@cache
def _classifier() -> Any:
    """Return the classifier, whose weights are in SleepECG's package."""
    sleepecg = library("sleepecg", "staging by SleepECG", "sleepecg")
    return sleepecg.load_classifier(CLASSIFIER, "SleepECG")


STAGER = Stager(
    KNOWN_STAGERS["sleepecg"],
    run,
    package="sleepecg",
    extra="sleepecg",
    roles=(("beats", "ecg"),),
    least_hz=50.0,
    asks=("age", "sex", "start"),
    modality="cardiorespiratory",
)
