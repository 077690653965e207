"""POPS of Luna: gradient boosting on one EEG, with the model folder that the user names."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from stageguard.errors import InputError
from stageguard.files import file_sha256
from stageguard.lazy import library
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.recording import Recording
from stageguard.night.stages import AASM5
from stageguard.profile.stagers import KNOWN_STAGERS
from stageguard.signals.windows import steady_signal
from stageguard.staging import Stager

SCRIPT = "s2.ch1.txt"  # the Luna commands that prepare one EEG and call POPS; lunapi reads it by this name
COLUMNS = ("PP_W", "PP_N1", "PP_N2", "PP_N3", "PP_R")  # Luna's names of AASM5's stages
EPOCH_SECONDS = 30.0
LABEL = "EEG"


def stager_in(folder: str) -> Stager:
    """Return POPS with the models of a folder, the one that Luna's own `pops` takes as its path."""
    if not folder:
        raise InputError("luna-pops needs the folder of its models. Name it: --stager luna-pops:FOLDER")
    path = Path(folder)
    models = sorted(path.glob("*.mod"))
    if len(models) != 1 or not (path / SCRIPT).is_file():
        raise InputError(
            f"{folder} is no folder of POPS models: expected {SCRIPT} and one file NAME.mod, found "
            f"{len(models)} of the latter. Get the models that Luna's site describes."
        )
    return Stager(
        KNOWN_STAGERS["luna-pops"],
        partial(run, path, models[0].stem),
        package="lunapi",
        extra="luna",
        least_hz=80.0,
        may_skip=True,
        weights_sha256=file_sha256(models[0]),
        remark=f"model {models[0].stem}",
    )


def run(folder: Path, name: str, recording: Recording) -> Hypnodensity:
    """Return POPS's probabilities; epochs that Luna leaves out have none."""
    lunapi = library("lunapi", "staging by POPS", "luna")
    eeg = steady_signal(recording, "eeg")
    if eeg.rate_hz % 1:
        raise InputError(
            f"channel 'eeg' ({eeg.name}) of recording {recording.id!r} has {eeg.rate_hz:g} Hz, expected a "
            "whole number for luna-pops."
        )
    project = lunapi.proj(verbose=False)
    project.silence(True)
    rate_hz, seconds = int(eeg.rate_hz), int(recording.seconds)
    night = project.empty_inst("night", seconds, 1)
    project.silence(True)  # a new night had ended the silence
    night.insert_signal(LABEL, np.nan_to_num(eeg.read(), nan=0.0)[: seconds * rate_hz], rate_hz)
    table = night.pops(s=LABEL, path=str(folder), lib=name)
    n_epochs = int(recording.seconds / EPOCH_SECONDS + 1e-6)
    probabilities = np.full((n_epochs, len(COLUMNS)), np.nan)
    rows = table[list(COLUMNS)].to_numpy(dtype=np.float64)
    probabilities[table["E"].to_numpy(dtype=np.int64) - 1] = rows / rows.sum(axis=1, keepdims=True)
    source = f"{recording.id} by POPS {name} of Luna {lunapi.__version__}"
    return Hypnodensity(probabilities, AASM5, EPOCH_SECONDS, recording.start, source)
