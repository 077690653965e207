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
from stageguard.datasets import Entry, Fetch, RemoteFile, bucket_files
from stageguard.datasets.samples import dataset_error, hdf5_file, hdf5_row
from stageguard.errors import InputError, warn
from stageguard.files import read_file
from stageguard.formats.recordings.raw import RawRecording, scale_samples
from stageguard.formats.recordings.read import build_recording, fit
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.recording import Recording, Samples, Signal
from stageguard.night.stages import AASM5
from stageguard.units import scale_to, standard_unit

EPOCH_SECONDS = 30.0
RATE_HZ, UNIT = 250.0, "uV"  # of signals that a file does not describe
MOST_EPOCHS = 10_000
# Share of epochs in which two of five scorers agree with the file's hypnogram. In DOD-H it is 0.998 or more
# at the right position and at most 0.955 one epoch off.
LEAST_AGREEMENT, LEAST_LEAD, SHARE_OF_SCORERS = 0.97, 0.02, 0.4
BUCKETS = {"dodh/": "https://dreem-dod-h.s3.amazonaws.com", "dodo/": "https://dreem-dod-o.s3.amazonaws.com"}
SCORERS_URL = "https://github.com/Dreem-Organization/dreem-learning-evaluation/archive/refs/heads/master.zip"
STUDIES = {"dodh": "healthy", "dodo": "apnoea"}


def find(folder: Path, *, scorers: str | Path | None = None) -> Iterator[Entry]:
    """Yield an entry per night, in the order of their names."""
    nights = sorted(folder.rglob("*.h5"))
    home = folder if scorers is None else Path(scorers)
    if not home.is_dir():
        raise InputError(f"scorers is {str(home)!r}, expected a folder with scorer_1, scorer_2, ... in it.")
    scorings: dict[str, list[Path]] = {}
    for path in sorted(home.rglob("*.json")):
        if path.parent.name.lower().startswith("scorer"):
            scorings.setdefault(path.stem, []).append(path)
    for path in nights:
        lists = tuple(scorings.get(path.stem, ()))
        yield Entry(path.stem, path.stem, (path, *lists), partial(read_night, path, lists))


def read_night(path: Path, scorers: Sequence[Path] = ()) -> Recording:
    """Read one night: signals, the file's hypnogram as "consensus", and each scorer's hypnogram."""
    with hdf5_file(path) as file:
        signals = _signals(path, file)
        start = _start(file.attrs.get("start_time"))
        own = _labels(path, np.asarray(file["hypnogram"][()]), "hypnogram") if "hypnogram" in file else None
    recording = build_recording(path, RawRecording(signals, start=start), subject=path.stem)
    nights: dict[str, Hypnogram] = {}
    if own is not None:
        nights["consensus"] = fit(_night(own, "consensus"), recording, trailing=True)
    lists = {scorer.parent.name: _read_json(scorer) for scorer in scorers}
    n_epochs = int((recording.seconds + 0.01) // EPOCH_SECONDS)
    for name, labels in place_scorers(lists, own, n_epochs, path.name).items():
        nights[name] = fit(_night(labels, name), recording, trailing=True)
    study = next((kind for folder, kind in STUDIES.items() if folder in str(path.parent).lower()), None)
    facts: dict[str, float | str] = {} if study is None else {"study": study}
    return replace(recording, scorings=nights, covariates=facts, source="DOD")


def place_scorers(
    given: Mapping[str, Labels], own: Labels | None, n_epochs: int, what: str
) -> dict[str, Labels]:
    """Cut scorers' lists to a file's epochs, by its hypnogram or its length; warn if they do not fit.

    ``own`` is the file's hypnogram, ``given`` has the scorers' lists.
    """
    if not given:
        return {}
    lengths = {len(labels) for labels in given.values()}
    if len(lengths) > 1:
        several = ", ".join(map(str, sorted(lengths)))
        _warn(what, f"its scorers' lists have {several} epochs, expected one length")
        return {}
    length = lengths.pop()
    wanted = n_epochs if own is None else len(own)
    if length == wanted:
        return dict(given)
    stack = np.stack(list(given.values()))
    first = _common_first(stack, wanted) if own is None else _best_place(stack, own)
    if first is None:
        _warn(what, f"its scorers' lists of {length} epochs fit the file's {wanted} nowhere clearly")
        return {}
    # epochs before the file's first one are cut; epochs that the lists lack are unscored
    begin = max(-first, 0)
    cut = {name: labels[max(first, 0) : max(first, 0) + wanted - begin] for name, labels in given.items()}
    if begin:
        pad = np.full(begin, UNSCORED, dtype=np.int8)
        cut = {name: np.concatenate([pad, labels]) for name, labels in cut.items()}
    return cut


def _common_first(stack: Labels, wanted: int) -> int | None:
    """Return the first epoch that all scorers scored, if their common stretch is as long as the file.

    This is the rule of the dataset's authors.
    """
    scored = (stack != UNSCORED).all(axis=0)
    if not scored.any():
        return None
    firsts = [int(np.argmax(row != UNSCORED)) for row in stack]
    ends = [len(row) - int(np.argmax(row[::-1] != UNSCORED)) for row in stack]
    return max(firsts) if min(ends) - max(firsts) == wanted else None


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
    described = _description(path, file.attrs.get("description"))
    signals: dict[str, Signal] = {}
    groups = file.get("signals")
    if groups is None:
        raise dataset_error(path, f"has no group 'signals'; it has: {', '.join(file)[:80]}.")
    usual = ("eeg", "eog", "emg")
    for kind in sorted(groups, key=usual.index if set(groups) <= set(usual) else str):
        for name, dataset in groups[kind].items():
            facts = described.get(f"signals/{kind}/{name}", {})
            unit = str(facts.get("unit") or facts.get("unit_name") or UNIT)
            row: Samples = hdf5_row(path, dataset)
            factor, offset = scale_to(unit, standard_unit(unit), what=name)
            samples = scale_samples(row, factor, offset)
            signals[name] = Signal(name, samples, _rate(path, facts.get("fs", RATE_HZ)), standard_unit(unit))
    return signals


def _description(path: Path, text: object) -> dict[str, dict[str, Any]]:
    if text is None:
        return {}
    try:
        items = json.loads(text.decode() if isinstance(text, bytes) else str(text))
        return {str(item["path"]).strip("/"): dict(item) for item in items}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise dataset_error(
            path, "has an attribute 'description' that is no list of signals in JSON."
        ) from None


def _rate(path: Path, value: object) -> float:
    try:
        rate_hz = float(str(value))
    except ValueError:
        rate_hz = 0.0
    if not 0 < rate_hz < 1e6:
        raise dataset_error(path, f"gives {str(value)[:40]!r} as sampling rate, expected samples per second.")
    return rate_hz


def _start(value: object) -> datetime | None:
    """Return the start of the night from seconds since 1970 (UTC), or None."""
    try:
        seconds = float(str(value))
        return datetime.fromtimestamp(seconds, tz=UTC).replace(tzinfo=None) if seconds > 0 else None
    except (ValueError, OverflowError, OSError):
        return None


def _read_json(path: Path) -> Labels:
    try:
        content = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        raise dataset_error(path, f"is not readable JSON ({str(error)[:80]}).") from None
    if not isinstance(content, list) or not all(type(each) is int for each in content):
        raise dataset_error(path, "is no list of whole numbers, expected one stage per epoch.")
    return _labels(path, np.array(content, dtype=object), "list")


def _labels(path: Path, values: npt.NDArray[Any], what: str) -> Labels:
    if values.ndim != 1 or not 1 <= len(values) <= MOST_EPOCHS:
        raise dataset_error(
            path, f"its {what} has shape {values.shape}, expected 1 to {MOST_EPOCHS:,} epochs."
        )
    try:
        plain = values.astype(np.float64)
        wrong = ~np.isin(plain, range(-1, AASM5.n_stages))
    except (ValueError, TypeError, OverflowError):
        raise dataset_error(path, f"its {what} holds {values.dtype} values, expected -1 to 4.") from None
    if wrong.any():
        epoch = int(np.argmax(wrong))
        raise dataset_error(path, f"epoch {epoch + 1} of its {what} is {plain[epoch]:g}, expected -1 to 4.")
    return plain.astype(np.int8)


def _night(labels: Labels, scorer: str) -> Hypnogram:
    return Hypnogram(labels, AASM5, EPOCH_SECONDS, scorer=scorer)


def _warn(what: str, text: str) -> None:
    warn(f"{what}: {text}; they are left out.")


def list_files(fetch: Fetch) -> tuple[RemoteFile, ...]:
    """List the nights of both studies, and the archive with the scorers' lists."""
    nights = [file for study, bucket in BUCKETS.items() for file in bucket_files(fetch, bucket, study, ".h5")]
    return (RemoteFile("dreem-learning-evaluation.zip", SCORERS_URL), *nights)
