"""Read nights with features and expert stages, or with networks' votes. Trains and decodes nothing.

The data are looked for under the folder named by the environment variable ``STAGEGUARD_DATA``; they are
public, but not part of this repository.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import stageguard as sg

# Sleep-EDF recordings run for most of a day: the night kept is the longest sleep between stretches of wake of
# two hours or more, with half an hour of wake on either side.
LONG_WAKE_EPOCHS = 240
MARGIN_EPOCHS = 60
# networks whose hypnograms come with DOD-H
PUBLISHED = ("Chambon", "DeepSleepNet", "MixedNeuralNetwork", "SeqSleepNet", "SimpleNet", "Tsinalis")


@dataclass(frozen=True)
class FeatureNight:
    """One night on its own time axis; rows of NaN and labels of -1 where epochs are missing."""

    name: str
    subject: str
    features: np.ndarray  # (n_epochs, n_features)
    labels: np.ndarray  # (n_epochs,) W N1 N2 N3 R


@dataclass(frozen=True)
class BeatNight:
    """One night of heartbeats."""

    name: str
    subject: str
    beats: np.ndarray  # (n_beats,) seconds since the start
    rr: np.ndarray  # (n_beats,) seconds since the beat before
    labels: np.ndarray  # (n_epochs,) W N1 N2 N3 R


@dataclass(frozen=True)
class VoteNight:
    """One night that networks have staged already."""

    name: str
    subject: str
    probabilities: np.ndarray  # (n_epochs, n_stages)
    labels: np.ndarray


def data_folder() -> Path:
    named = os.environ.get("STAGEGUARD_DATA", "")
    if not named or not Path(named).is_dir():
        raise SystemExit(f"STAGEGUARD_DATA is {named!r}, expected the folder of the real nights. Set it.")
    return Path(named)


def sleep_accel() -> Iterator[FeatureNight]:
    """31 subjects, five features of a watch (Walch 2019)."""
    code = np.array([0, 1, 2, 3, 3, 4])
    with np.load(data_folder() / "sleep-accel" / "sleep_accel_walch_features.npz") as archive:
        for subject in archive.files:
            rows = archive[subject].astype(float)
            place = np.rint(rows[:, 0] * 3600 / 30).astype(int)
            yield _on_axis(subject, subject, place, rows[:, :5], code[rows[:, 5].astype(int)])


def sleep_edf(kind: str) -> Iterator[FeatureNight]:
    """26 subjects, mostly two nights: all EEG, EOG and EMG features, or respiration and EMG alone."""
    import pandas as pd

    frame = pd.read_parquet(data_folder() / "sleep-edfx" / "sleep_edfx_cassette_26.parquet")
    weak = tuple(name for name in frame.columns if name.startswith(("Resp", "EMG")))
    strong = tuple(name for name in frame.columns if name.startswith(("EEG", "EOG", "EMG")))
    code = {"W": 0, "N1": 1, "N2": 2, "N3": 3, "REM": 4}
    for (subject, night), rows in frame.groupby(["subject_id", "night_id"], observed=True, sort=True):
        rows = rows.sort_values("epoch_idx")
        features = rows[list(strong if kind == "strong" else weak)].to_numpy(float)
        labels = rows["stage"].map(code).to_numpy(int)
        whole = _on_axis(
            f"{subject}-{night}", str(subject), rows["epoch_idx"].to_numpy(int), features, labels
        )
        yield _main_sleep(whole)


def sleep_edf_ages() -> dict[str, float]:
    """Return the age of each subject."""
    import pandas as pd

    columns = ["subject_id", "age"]
    frame = pd.read_parquet(data_folder() / "sleep-edfx" / "sleep_edfx_cassette_26.parquet", columns=columns)
    return {str(subject): float(age) for subject, age in frame.drop_duplicates().itertuples(index=False)}


def slpdb(window_seconds: float = 300.0) -> Iterator[FeatureNight]:
    """18 recordings: heart-rate variability over five minutes around each epoch."""
    for night in slpdb_beats():
        n_epochs = len(night.labels)
        rows = [_hrv(night.beats, night.rr, 30.0 * t + 15.0, window_seconds) for t in range(n_epochs)]
        clock = np.arange(n_epochs)[:, None] / 120.0
        yield FeatureNight(night.name, night.subject, np.hstack([np.array(rows), clock]), night.labels)


def slpdb_beats() -> Iterator[BeatNight]:
    """The same 18 recordings, as heartbeats."""
    code = np.array([0, 1, 2, 3, 3, 4, -1, -1])
    with np.load(data_folder() / "slpdb" / "slpdb_rr_stages.npz") as archive:
        for key in archive.files:
            if key.endswith("_stage"):
                name = key.removesuffix("_stage")
                labels = code[archive[key].astype(int)]
                yield BeatNight(name, name[:5], archive[f"{name}_t_beat"], archive[f"{name}_rr"], labels)


def _hrv(beats: np.ndarray, rr: np.ndarray, centre: float, window: float) -> list[float]:
    near = (np.abs(beats - centre) <= window / 2) & (rr > 0.3) & (rr < 2.0)
    own = rr[near]
    if len(own) < 60:
        return [np.nan] * 9
    step = np.diff(own)
    close = own[np.abs(beats[near] - centre) <= 15.0]
    times = beats[near]
    grid = np.arange(times[0], times[-1], 0.25)
    spectrum = np.abs(np.fft.rfft(np.interp(grid, times, own - own.mean()) * np.hanning(len(grid)))) ** 2
    hertz = np.fft.rfftfreq(len(grid), 0.25)
    low, high = (spectrum[(hertz >= a) & (hertz < b)].sum() for a, b in ((0.04, 0.15), (0.15, 0.4)))
    return [
        60 / own.mean(),
        60 / close.mean() if len(close) else np.nan,
        own.std(),
        np.sqrt(np.mean(step**2)),
        np.mean(np.abs(step) > 0.05),
        np.log(low + 1e-9),
        np.log(high + 1e-9),
        low / (low + high + 1e-12),
        np.percentile(own, 95) - np.percentile(own, 5),
    ]


def dod_h(stager: str = "votes") -> Iterator[VoteNight]:
    """25 nights: votes of 20 networks trained elsewhere, or one network's labels as ones and zeros.

    The truth is the consensus of five scorers.
    """
    with np.load(data_folder() / "dod-h" / "dod_h.npz") as archive:
        for key in archive.files:
            if not key.endswith(f"/{stager}"):
                continue
            name = key.removesuffix(f"/{stager}")
            panel = [
                sg.Hypnogram(np.asarray(row, dtype=np.int8), sg.StageScheme.named("aasm5"), 30.0)
                for row in archive[f"{name}/scorers"]
            ]
            votes = archive[key].astype(float)
            if votes.ndim == 1:
                votes = (votes[:, None] == np.arange(5)).astype(float)
            sums = votes.sum(axis=1, keepdims=True)
            rows = np.where(sums > 0, votes / np.where(sums > 0, sums, 1), np.nan)
            labels = sg.consensus(panel).labels.astype(int)
            n_epochs = min(len(rows), len(labels))
            yield VoteNight(name, name, rows[:n_epochs], labels[:n_epochs])


def mouse(lab: str) -> Iterator[VoteNight]:
    """Recordings of one laboratory: votes of six networks on 4-s epochs."""
    folder = data_folder() / "mouse"
    with (folder / "labs.tsv").open(encoding="utf-8") as file:
        lab_of = {row["mouse"]: row["lab"] for row in csv.DictReader(file, delimiter="\t")}
    code = np.array([-1, 0, 1, 2, -1])
    with (
        np.load(folder / "mouse_expert_labels.npz") as experts,
        np.load(folder / "mouse_network_predictions.npz") as networks,
    ):
        for key in experts.files:
            own = [name for name in networks.files if name.startswith(f"{key}__")]
            subject = key.split("_")[0]
            if lab_of[subject] != lab or len(own) < 3:
                continue
            staged = [code[networks[name].astype(int)] for name in own]
            n_epochs = min(len(experts[key]), *(len(row) for row in staged))
            votes = np.stack(
                [(np.stack([row[:n_epochs] for row in staged]) == s).sum(axis=0) for s in range(3)], 1
            )
            sums = votes.sum(axis=1, keepdims=True)
            rows = np.where(sums > 0, votes / np.where(sums > 0, sums, 1), np.nan)
            yield VoteNight(key, subject, rows, code[experts[key][:n_epochs].astype(int)])


def _on_axis(
    name: str, subject: str, place: np.ndarray, rows: np.ndarray, labels: np.ndarray
) -> FeatureNight:
    place = place - place[0]
    features = np.full((place[-1] + 1, rows.shape[1]), np.nan)
    stages = np.full(place[-1] + 1, -1)
    features[place], stages[place] = rows, labels
    return FeatureNight(name, subject, features, stages)


def _main_sleep(night: FeatureNight) -> FeatureNight:
    labels = night.labels
    edges = np.flatnonzero(np.diff(labels)) + 1
    pieces, begin = [], 0
    for first, end in zip(np.r_[0, edges], np.r_[edges, len(labels)], strict=True):
        if labels[first] == 0 and end - first >= LONG_WAKE_EPOCHS:
            pieces.append((begin, first))
            begin = end
    pieces.append((begin, len(labels)))
    first, end = max(pieces, key=lambda piece: int((labels[piece[0] : piece[1]] > 0).sum()))
    asleep = first + np.flatnonzero(labels[first:end] > 0)
    kept = slice(max(asleep[0] - MARGIN_EPOCHS, 0), asleep[-1] + 1 + MARGIN_EPOCHS)
    return FeatureNight(night.name, night.subject, night.features[kept], labels[kept])
