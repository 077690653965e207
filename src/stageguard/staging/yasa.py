"""YASA: gradient boosting on one EEG derivation, with one EOG and the chin where they are recorded."""

from __future__ import annotations

import logging
import warnings
from fractions import Fraction

import numpy as np

from stageguard.arrays import Floats
from stageguard.errors import InputError
from stageguard.lazy import library
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.recording import Recording
from stageguard.night.stages import AASM5
from stageguard.profile.stagers import KNOWN_STAGERS
from stageguard.signals.windows import steady_signal
from stageguard.staging import Stager

ROLES = ("eeg", "eog", "emg")
COLUMNS = ("WAKE", "N1", "N2", "N3", "REM")  # YASA's names of AASM5's stages
EPOCH_SECONDS = 30.0
OLDEST = 120  # years; YASA refuses more


def run(recording: Recording) -> Hypnodensity:
    """Return YASA's probabilities; age and sex are used where the recording knows both."""
    roles = [role for role in ROLES if role in recording.signals]
    values, rate_hz = _at_one_rate(recording, roles)
    yasa = library("yasa", "staging by YASA", "yasa")
    mne = library("mne", "staging by YASA", "yasa")
    about = mne.create_info(roles, rate_hz, roles, verbose="error")
    raw = mne.io.RawArray(values / 1e6, about, verbose="error")  # uV to V
    names = {f"{role}_name": role for role in roles}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that its classifiers were made with an older scikit-learn
        disabled = logging.root.manager.disable
        logging.disable(logging.WARNING)  # that a recording is short
        try:
            staged = yasa.SleepStaging(raw, **names, metadata=_metadata(recording)).predict()
        finally:
            logging.disable(disabled)
    rows = np.asarray(staged.proba[list(COLUMNS)], dtype=np.float64)
    if not np.isfinite(rows).all():
        raise InputError(
            f"NaN returned for recording {recording.id!r}: a channel is flat or lost. Look at the "
            "signals with `stageguard quality`, and choose others with --channel."
        )
    rows /= rows.sum(axis=1, keepdims=True)
    return Hypnodensity(
        rows, AASM5, EPOCH_SECONDS, recording.start, f"{recording.id} by YASA {yasa.__version__}"
    )


def _metadata(recording: Recording) -> dict[str, float | bool] | None:
    """Return what YASA may know of the sleeper: both age and sex, or nothing."""
    age, sex = recording.covariates.get("age"), recording.covariates.get("sex")
    if not isinstance(age, int | float) or sex not in ("F", "M") or not 0 < age < OLDEST:
        return None
    return {"age": age, "male": sex == "M"}


def _at_one_rate(recording: Recording, roles: list[str]) -> tuple[Floats, float]:
    """Return channels (n_roles, n_samples) in uV at the EEG's rate; lost samples are 0."""
    signals = [steady_signal(recording, role) for role in roles]
    rate_hz = signals[0].rate_hz
    rows = []
    for signal in signals:
        samples = np.nan_to_num(signal.read(), nan=0.0)
        if signal.rate_hz != rate_hz:
            ratio = Fraction(rate_hz / signal.rate_hz).limit_denominator(1000)
            resample = library("scipy.signal", "channels of different rates", "yasa").resample_poly
            samples = resample(samples, ratio.numerator, ratio.denominator)
        rows.append(samples)
    shortest = min(map(len, rows))
    return np.stack([row[:shortest] for row in rows]), rate_hz


STAGER = Stager(
    KNOWN_STAGERS["yasa"],
    run,
    package="yasa",
    extra="yasa",
    roles=(("eeg",),),
    optional=("eog", "emg"),
    least_hz=80.0,
    modality="polysomnography",
)
