"""The stagers of other packages: YASA, SleepECG, and POPS of Luna; and networks with a card."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard.arrays import Floats
from stageguard.errors import InputError
from stageguard.files import file_sha256
from stageguard.lazy import library
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.recording import Recording, Series
from stageguard.night.stages import AASM5, WNR3
from stageguard.profile.stagers import KNOWN_STAGERS, KnownStager
from stageguard.signals.windows import steady_signal
from stageguard.staging import Stager

if TYPE_CHECKING:
    from stageguard.nn.model import CardedNetwork

EPOCH_SECONDS = 30.0

# ---- YASA: gradient boosting on one EEG derivation, with one EOG and the chin where they are recorded

YASA_ROLES = ("eeg", "eog", "emg")
YASA_COLUMNS = ("WAKE", "N1", "N2", "N3", "REM")  # YASA's names of AASM5's stages
OLDEST = 120  # years; YASA refuses more


def run_yasa(recording: Recording) -> Hypnodensity:
    """Return YASA's probabilities; age and sex are used where the recording knows both."""
    roles = [role for role in YASA_ROLES if role in recording.signals]
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
    rows = np.asarray(staged.proba[list(YASA_COLUMNS)], dtype=np.float64)
    if not np.isfinite(rows).all():
        problem = f"NaN returned for recording {recording.id!r}: a channel is flat or lost"
        raise InputError(f"{problem}. Choose others with --channel.")
    rows /= rows.sum(axis=1, keepdims=True)
    source = f"{recording.id} by YASA {yasa.__version__}"
    return Hypnodensity(rows, AASM5, EPOCH_SECONDS, recording.start, source)


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


YASA = Stager(
    KNOWN_STAGERS["yasa"],
    run_yasa,
    package="yasa",
    extra="yasa",
    optional=("eog", "emg"),
    least_hz=80.0,
)


# ---- SleepECG: a recurrent network on heartbeats, with age, sex and the time of day as inputs

CLASSIFIER = "wrn-gru-mesa"
SLEEPECG_COLUMNS = (3, 1, 2)  # of W, N, R among SleepECG's UNDEFINED, NREM, REM, WAKE
LEAST_PER_MINUTE = 20.0  # beats; an ECG that gives fewer is flat, or no ECG


def run_sleepecg(recording: Recording) -> Hypnodensity:
    """Return SleepECG's probabilities; the last epoch, which it leaves out, has none."""
    sleepecg = library("sleepecg", "staging by SleepECG", "sleepecg")
    os.environ.setdefault("KERAS_BACKEND", "torch")  # keras alone would look for TensorFlow
    library("keras", "staging by SleepECG", "sleepecg")
    beats = beat_times(recording, sleepecg)
    per_minute = 60 * len(beats) / recording.seconds
    if per_minute < LEAST_PER_MINUTE:
        slow = f"recording {recording.id!r} has {per_minute:.3g} heartbeats a minute"
        advice = "Choose another channel with --channel ecg=NAME."
        raise InputError(f"{slow}, expected at least {LEAST_PER_MINUTE:g}. {advice}")
    sex = recording.covariates["sex"]
    if sex not in ("F", "M"):
        raise InputError(f'sex of recording {recording.id!r} is {sex!r}, expected "F" or "M".')
    assert recording.start is not None
    record = sleepecg.SleepRecord(
        sleep_stage_duration=int(EPOCH_SECONDS),
        recording_start_time=recording.start.time(),
        heartbeat_times=beats,
        subject_data=sleepecg.SubjectData(
            gender=int(sex == "M"), age=round(float(recording.covariates["age"]))
        ),
    )
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):  # keras prints its progress
        warnings.simplefilter("ignore")
        rows = np.asarray(sleepecg.stage(_classifier(), record, return_mode="prob"), dtype=np.float64)
    n_epochs = int(recording.seconds / EPOCH_SECONDS + 1e-6)
    found = rows[:n_epochs, SLEEPECG_COLUMNS]
    probabilities = np.full((n_epochs, len(SLEEPECG_COLUMNS)), np.nan)
    probabilities[: len(found)] = found / found.sum(axis=1, keepdims=True)
    source = f"{recording.id} by SleepECG {sleepecg.__version__}"
    return Hypnodensity(probabilities, WNR3, EPOCH_SECONDS, recording.start, source)


@cache
def _classifier() -> Any:
    """Return the classifier, whose weights are in SleepECG's package."""
    return library("sleepecg", "staging by SleepECG", "sleepecg").load_classifier(CLASSIFIER, "SleepECG")


def beat_times(recording: Recording, sleepecg: Any) -> Floats:
    """Return the times of heartbeats in seconds: as recorded, or found in the ECG by SleepECG's detector."""
    if "beats" in recording.signals:
        beats = recording.signals["beats"]
        assert isinstance(beats, Series)
        return beats.times
    ecg = steady_signal(recording, "ecg")
    samples = np.nan_to_num(ecg.read(), nan=0.0)
    return np.asarray(sleepecg.detect_heartbeats(samples, ecg.rate_hz) / ecg.rate_hz, dtype=np.float64)


SLEEPECG = Stager(
    KNOWN_STAGERS["sleepecg"],
    run_sleepecg,
    package="sleepecg",
    extra="sleepecg",
    roles=(("beats", "ecg"),),
    least_hz=50.0,
    asks=("age", "sex", "start"),
    modality="cardiorespiratory",
)


STAGERS = {stager.name: stager for stager in (YASA, SLEEPECG)}

# ---- POPS of Luna: gradient boosting on one EEG, with the model folder that the user names

SCRIPT = "s2.ch1.txt"  # the Luna commands that prepare one EEG and call POPS; lunapi reads it by this name
LUNA_COLUMNS = ("PP_W", "PP_N1", "PP_N2", "PP_N3", "PP_R")  # Luna's names of AASM5's stages
LABEL = "EEG"


def luna_pops(folder: str) -> Stager:
    """Return POPS with the models of a folder, the one that Luna's own `pops` takes as its path."""
    if not folder:
        raise InputError("luna-pops needs the folder of its models. Name it: --stager luna-pops:FOLDER")
    path = Path(folder)
    models = sorted(path.glob("*.mod"))
    if len(models) != 1 or not (path / SCRIPT).is_file():
        raise InputError(f"{folder} holds {len(models)} files NAME.mod, expected one, and {SCRIPT}.")
    return Stager(
        KNOWN_STAGERS["luna-pops"],
        partial(run_luna, path, models[0].stem),
        package="lunapi",
        extra="luna",
        least_hz=80.0,
        may_skip=True,
        weights_sha256=file_sha256(models[0]),
        remark=f"model {models[0].stem}",
    )


def run_luna(folder: Path, name: str, recording: Recording) -> Hypnodensity:
    """Return POPS's probabilities; epochs that Luna leaves out have none."""
    lunapi = library("lunapi", "staging by POPS", "luna")
    eeg = steady_signal(recording, "eeg")
    if eeg.rate_hz % 1:
        where = f"channel 'eeg' ({eeg.name}) of recording {recording.id!r}"
        raise InputError(f"{where} has {eeg.rate_hz:g} Hz, expected a whole number for luna-pops.")
    project = lunapi.proj(verbose=False)
    project.silence(True)
    rate_hz, seconds = int(eeg.rate_hz), int(recording.seconds)
    night = project.empty_inst("night", seconds, 1)
    project.silence(True)  # a new night had ended the silence
    night.insert_signal(LABEL, np.nan_to_num(eeg.read(), nan=0.0)[: seconds * rate_hz], rate_hz)
    table = night.pops(s=LABEL, path=str(folder), lib=name)
    n_epochs = int(recording.seconds / EPOCH_SECONDS + 1e-6)
    probabilities = np.full((n_epochs, len(LUNA_COLUMNS)), np.nan)
    rows = table[list(LUNA_COLUMNS)].to_numpy(dtype=np.float64)
    probabilities[table["E"].to_numpy(dtype=np.int64) - 1] = rows / rows.sum(axis=1, keepdims=True)
    source = f"{recording.id} by POPS {name} of Luna {lunapi.__version__}"
    return Hypnodensity(probabilities, AASM5, EPOCH_SECONDS, recording.start, source)


# ---- networks of `stageguard train` and ONNX files: features, then probabilities


def network_stager(model: CardedNetwork, *, temperature: bool) -> Stager:
    """Return a trained network as a stager, softened by the temperature found in training or not."""
    from stageguard.nn.data import table_of

    card = model.card
    known = KnownStager(
        name=card.backbone,
        title=f"{card.backbone}, a network with a card",
        scheme=card.scheme.name,
        epoch_seconds=card.epoch_seconds,
        profile=card.profile.name,
        trained=card.trained,
        trained_source="its card",
    )

    def run(recording: Recording) -> Hypnodensity:
        table = table_of(recording, card.feature_recipe(recording.id), epoch_seconds=card.epoch_seconds)
        return model.density(table, temperature=temperature)

    modality = "" if card.features.recipe_document is None else card.feature_recipe("").modality
    softened = f"temperature {card.temperature:.3f}" if temperature else "no temperature"
    return Stager(
        known, run, package="", extra=model.extra, roles=(), modality=modality, may_skip=True, remark=softened
    )
