"""Dreem Open Datasets (DOD-H, DOD-O): signals in HDF5, five scorers in JSON.

    072653fc-....h5                           signals/eeg/C3_M2, ..., hypnogram, attribute "description"
    scorers/dodh/scorer_1/072653fc-....json   a number per 30 s

-1 is unscored, 0 W, 1 N1, 2 N2, 3 N3, 4 REM. The scorers' lists cover more of the night than the .h5 files.
They are shifted to where they agree best with the file's hypnogram. If no position is clearly the best, they
are left out with a warning.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Labels
from stageguard.datasets import Entry, dataset_error, reading
from stageguard.errors import InputError, warn
from stageguard.files import read_file
from stageguard.formats.hdf5 import opened_hdf5
from stageguard.formats.recordings.raw import Array, RawRecording, Sliced, scale_samples, to_standard
from stageguard.formats.recordings.read import build_recording, fit
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.recording import Recording, Signal
from stageguard.night.stages import AASM5

EPOCH_SECONDS = 30.0
RATE_HZ, UNIT = 250.0, "uV"  # of signals that a file does not describe
# Share of epochs in which two of five scorers agree with the file's hypnogram. In DOD-H it is 0.998 or more
# at the right position and at most 0.955 one epoch off.
LEAST_AGREEMENT, LEAST_LEAD, SHARE_OF_SCORERS = 0.97, 0.02, 0.4
STUDIES = {"dodh": "healthy", "dodo": "apnoea"}


def find(folder: Path, *, scorers: str | Path | None = None) -> Iterator[Entry]:
    """Yield an entry per night, in the order of their names."""
    home = folder if scorers is None else Path(scorers)
    if not home.is_dir():
        raise InputError(f"scorers is {str(home)!r}, expected a folder with scorer_1, scorer_2, ... in it.")
    scorings: dict[str, list[Path]] = {}
    for path in sorted(home.rglob("*.json")):
        if path.parent.name.lower().startswith("scorer"):
            scorings.setdefault(path.stem, []).append(path)
    for path in sorted(folder.rglob("*.h5")):
        lists = tuple(scorings.get(path.stem, ()))
        yield Entry(path.stem, path.stem, (path, *lists), partial(read_night, path, lists))


def read_night(path: Path, scorers: Sequence[Path] = ()) -> Recording:
    """Read one night: signals, the file's hypnogram as "consensus", and each scorer's hypnogram."""
    with reading(path.name), opened_hdf5(path, f"reading {path.name}") as file:
        signals = _signals(path, file)
        start = _start(file.attrs.get("start_time"))
        own = _labels(path, np.asarray(file["hypnogram"][()])) if "hypnogram" in file else None
    recording = build_recording(path, RawRecording(signals, start=start), subject=path.stem)
    lists = {}
    for scorer in scorers:
        with reading(f"{scorer.parent.name}/{scorer.name}"):
            lists[scorer.parent.name] = _labels(scorer, np.array(json.loads(read_file(scorer))))
    n_epochs = int((recording.seconds + 0.01) // EPOCH_SECONDS)
    found = {} if own is None else {"consensus": own}
    found |= place_scorers(lists, own, n_epochs, path.name)
    nights = {
        name: fit(Hypnogram(labels, AASM5, EPOCH_SECONDS, scorer=name), recording, trailing=True)
        for name, labels in found.items()
    }
    study = next((kind for folder, kind in STUDIES.items() if folder in str(path.parent).lower()), None)
    facts = {} if study is None else {"study": study}
    return replace(recording, scorings=nights, covariates=facts, source="DOD")


def place_scorers(
    given: Mapping[str, Labels], own: Labels | None, n_epochs: int, what: str
) -> dict[str, Labels]:
    """Cut scorers' lists to a file's epochs by its hypnogram, ``own``; warn if they do not fit."""
    lengths = {len(labels) for labels in given.values()}
    wanted = n_epochs if own is None else len(own)
    if lengths <= {wanted}:
        return dict(given)
    first = None
    if len(lengths) == 1 and own is not None:
        first = _best_place(np.stack(list(given.values())), own)
    if first is None:
        several = ", ".join(map(str, sorted(lengths)))
        warn(f"{what}: its scorers' lists of {several} epochs fit its {wanted} nowhere clearly: left out.")
        return {}
    # epochs before the file's first one are cut; epochs that the lists lack are unscored
    pad = np.full(max(-first, 0), UNSCORED, dtype=np.int8)
    first = max(first, 0)
    end = first + wanted - len(pad)
    return {name: np.concatenate([pad, labels[first:end]]) for name, labels in given.items()}


def _best_place(stack: Labels, own: Labels) -> int | None:
    """Return the position of the file's hypnogram in the scorers' lists, or None if none is clearly best."""
    slack = max(len(own) - stack.shape[1], 0)
    shares = {}
    for first in range(-slack, max(stack.shape[1] - len(own), 0) + 1):
        low, high = max(first, 0), min(first + len(own), stack.shape[1])
        part, mine = stack[:, low:high], own[low - first : high - first]
        known = mine != UNSCORED
        if known.any() and known.sum() >= 0.5 * (own != UNSCORED).sum():
            shares[first] = float(((part == mine).mean(axis=0)[known] >= SHARE_OF_SCORERS).mean())
    ranked = sorted(shares, key=lambda first: -shares[first])
    if not ranked or shares[ranked[0]] < LEAST_AGREEMENT:
        return None
    lead = shares[ranked[0]] - shares[ranked[1]] if len(ranked) > 1 else 1.0
    return ranked[0] if lead >= LEAST_LEAD else None


def _signals(path: Path, file: Any) -> dict[str, Signal]:
    """Return signals by name, with rates and units from the file's description."""
    described = {item["path"].strip("/"): item for item in json.loads(file.attrs.get("description", "[]"))}
    if "signals" not in file:
        raise dataset_error(path, f"has no group 'signals'; it has: {', '.join(file)[:80]}.")
    signals: dict[str, Signal] = {}
    groups = file["signals"]
    usual = ("eeg", "eog", "emg")
    for kind in sorted(groups, key=usual.index if set(groups) <= set(usual) else str):
        for name, data in groups[kind].items():
            facts = described.get(f"signals/{kind}/{name}", {})
            if data.dtype.kind not in "iuf" or not data.size or max(data.shape) != data.size:
                raise dataset_error(path, f"{name} has shape {data.shape}, expected one row of numbers.")
            unit = str(facts.get("unit") or facts.get("unit_name") or UNIT)
            unit, factor, offset = to_standard(unit, name)
            row = Sliced(data.size, partial(_read_row, path, data.name))
            rate_hz = float(facts.get("fs", RATE_HZ))
            signals[name] = Signal(name, scale_samples(row, factor, offset), rate_hz, unit)
    return signals


def _read_row(path: Path, name: str, first: int, end: int) -> Array:
    with reading(path.name), opened_hdf5(path, f"reading {path.name}") as file:
        data = file[name]
        long = int(np.argmax(data.shape))
        return np.asarray(data[tuple(slice(first, end) if i == long else 0 for i in range(data.ndim))])


def _start(value: object) -> datetime | None:
    """Return the start of the night from seconds since 1970 (UTC), or None."""
    try:
        seconds = float(str(value))
        return datetime.fromtimestamp(seconds, tz=UTC).replace(tzinfo=None) if seconds > 0 else None
    except (ValueError, OverflowError, OSError):
        return None


def _labels(path: Path, values: npt.NDArray[Any]) -> Labels:
    """Return stages, one per epoch, or refuse what is not a list of them."""
    if values.ndim != 1 or not values.size or values.dtype.kind not in "iuf":
        raise dataset_error(path, f"has stages of shape {values.shape}, expected a whole number per epoch.")
    wrong = ~np.isin(values, range(-1, AASM5.n_stages))
    if wrong.any():
        epoch = int(np.argmax(wrong))
        raise dataset_error(path, f"has stage {values[epoch]:g} in epoch {epoch + 1}, expected -1 to 4.")
    return values.astype(np.int8)
