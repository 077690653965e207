"""Read the expert scorings of six public cohorts into plain label arrays.

Only stage labels are read. No signal, no network output and no result is touched here.

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

UNSCORED = -1
WAKE, N1, N2, N3, REM = range(5)

# Sleep-EDF recordings run for most of a day. The night kept is the longest sleep between stretches of wake of
# two hours or more, with up to half an hour of wake on either side, as the field usually cuts these files.
LONG_WAKE_EPOCHS = 240
MARGIN_EPOCHS = 60


@dataclass(frozen=True)
class Scoring:
    """One night as one expert scored it; -1 where nobody scored, in an artefact, a movement or a gap."""

    cohort: str
    group: str  # whose habits it shows: the scorer (DOD), the laboratory (mice), else the cohort
    subject: str
    night: str
    labels: np.ndarray  # (n_epochs,) indices into W N1 N2 N3 R, for mice into W N R
    weight: float = 1.0  # one over the number of scorers of this night


@dataclass(frozen=True)
class Cohort:
    """What a reader must know about the source of a number."""

    title: str
    people: str
    rules: str
    epoch_seconds: float
    citation: str
    schemes: tuple[str, ...] = ("aasm5", "wnr3", "ws2")


COHORTS = {
    "dod-h": Cohort(
        title="Dreem Open Dataset - Healthy (DOD-H)",
        people="25 healthy adults, one polysomnography night each, five scorers",
        rules="AASM",
        epoch_seconds=30.0,
        citation="Guillot et al. 2020, doi 10.1109/TNSRE.2020.3011181",
    ),
    "dod-o": Cohort(
        title="Dreem Open Dataset - Obstructive (DOD-O)",
        people="55 adults with sleep apnoea, one polysomnography night each, five scorers",
        rules="AASM",
        epoch_seconds=30.0,
        citation="Guillot et al. 2020, doi 10.1109/TNSRE.2020.3011181",
    ),
    "sleep-edf": Cohort(
        title="Sleep-EDF Expanded, cassette study (26 subjects of it)",
        people="healthy adults aged 25 to 101, ambulatory polysomnography at home, mostly two nights each",
        rules="Rechtschaffen & Kales on 30-s epochs, S3 and S4 joined to N3",
        epoch_seconds=30.0,
        citation="Kemp et al. 2000, doi 10.1109/10.867928; PhysioNet doi 10.13026/C2X676",
    ),
    "sleep-accel": Cohort(
        title="Sleep-Accel, polysomnography labels of the Apple-Watch study",
        people="31 adult volunteers, one laboratory night each, Apple Watch worn beside the polysomnography",
        rules="stages 1 to 3 and REM on 30-s epochs (three nights also carry stage 4, joined to N3)",
        epoch_seconds=30.0,
        citation="Walch et al. 2019, doi 10.1093/sleep/zsz180; PhysioNet doi 10.13026/hmhs-py35",
    ),
    "slpdb": Cohort(
        title="MIT-BIH Polysomnographic Database",
        people="16 men studied for obstructive sleep apnoea, 18 recordings of 1.3 to 6.5 hours",
        rules="Rechtschaffen & Kales on 30-s epochs, S3 and S4 joined to N3, movement time unscored",
        epoch_seconds=30.0,
        citation="Ichimaru & Moody 1999, Psychiatry Clin Neurosci 53:175-177; PhysioNet doi 10.13026/C23K5S",
    ),
    "mouse": Cohort(
        title="Mouse EEG/EMG scorings of three laboratories (OpenNeuro ds006366)",
        people="59 mice of three laboratories, 97 recordings of 4 to 72 hours in all",
        rules="Wake, NREM, REM on 4-s epochs, artefacts unscored",
        epoch_seconds=4.0,
        citation="OpenNeuro ds006366",
        schemes=("wnr3",),
    ),
}


def data_folder() -> Path:
    """Return the folder of real data, or stop with one line that says how to name it."""
    named = os.environ.get("STAGEGUARD_DATA", "")
    if not named or not Path(named).is_dir():
        raise SystemExit(
            f"STAGEGUARD_DATA is {named!r}, expected a folder with dod-h, dod-o, sleep-edfx, sleep-accel, "
            "slpdb and mouse. Set it and run again."
        )
    return Path(named)


def read_all(folder: Path) -> list[Scoring]:
    """Every scoring of every cohort."""
    readers = (read_dod_h, read_dod_o, read_sleep_edf, read_sleep_accel, read_slpdb, read_mouse)
    return [scoring for reader in readers for scoring in reader(folder)]


def read_dod_h(folder: Path) -> Iterator[Scoring]:
    """Healthy nights of the Dreem Open Dataset."""
    return read_dod("dod-h", folder / "dod-h" / "dod_h.npz")


def read_dod_o(folder: Path) -> Iterator[Scoring]:
    """Nights of people with apnoea of the Dreem Open Dataset."""
    return read_dod("dod-o", folder / "dod-o" / "dod_o_scorers.npz")


def read_dod(cohort: str, path: Path) -> Iterator[Scoring]:
    """Five scorers per night, each an own scoring that carries a fifth of the night's weight."""
    with np.load(path) as archive:
        for key in archive.files:
            if not key.endswith("/scorers"):
                continue
            night = key.removesuffix("/scorers")
            scorers = archive[key].astype(int)
            for number, labels in enumerate(scorers, start=1):
                yield Scoring(cohort, f"scorer {number}", night, night, labels, 1.0 / len(scorers))


def read_sleep_edf(folder: Path, *, crop: bool = True) -> Iterator[Scoring]:
    """Cassette nights, put back on their own time axis so that left-out epochs show as gaps."""
    import pandas as pd

    columns = ["subject_id", "night_id", "epoch_idx", "stage"]
    frame = pd.read_parquet(folder / "sleep-edfx" / "sleep_edfx_cassette_26.parquet", columns=columns)
    code = {"W": WAKE, "N1": N1, "N2": N2, "N3": N3, "REM": REM}
    for (subject, night), rows in frame.groupby(["subject_id", "night_id"], observed=True):
        stages = np.array([code[stage] for stage in rows["stage"]])
        labels = on_time_axis(rows["epoch_idx"].to_numpy(), stages)
        yield Scoring("sleep-edf", "", subject, f"{subject}{night}", main_sleep(labels) if crop else labels)


def read_sleep_accel(folder: Path) -> Iterator[Scoring]:
    """One night per subject; rows are valid epochs only, so the time column tells where the gaps are."""
    code = np.array([WAKE, N1, N2, N3, N3, REM])
    with np.load(folder / "sleep-accel" / "sleep_accel_walch_features.npz") as archive:
        for subject in archive.files:
            hours, stage = archive[subject][:, 0], archive[subject][:, 5].astype(int)
            epoch_index = np.rint(hours.astype(float) * 3600 / 30).astype(int)
            yield Scoring("sleep-accel", "", subject, subject, on_time_axis(epoch_index, code[stage]))


def read_slpdb(folder: Path) -> Iterator[Scoring]:
    """Recordings named slp01a and slp01b, slp02a and slp02b are one person each."""
    code = np.array([WAKE, N1, N2, N3, N3, REM, UNSCORED, UNSCORED])  # 6 = movement; index -1 = unscored
    with np.load(folder / "slpdb" / "slpdb_rr_stages.npz") as archive:
        for key in archive.files:
            if key.endswith("_stage"):
                night = key.removesuffix("_stage")
                yield Scoring("slpdb", "", night[:5], night, code[archive[key].astype(int)])


def read_mouse(folder: Path) -> Iterator[Scoring]:
    """Recordings of 4-s epochs; several per mouse."""
    with (folder / "mouse" / "labs.tsv").open(encoding="utf-8") as file:
        lab_of = {row["mouse"]: row["lab"] for row in csv.DictReader(file, delimiter="\t")}
    code = np.array([UNSCORED, 0, 1, 2, UNSCORED])  # 1 W, 2 NREM, 3 REM, 4 artefact
    with np.load(folder / "mouse" / "mouse_expert_labels.npz") as archive:
        for key in archive.files:
            mouse = key.split("_")[0]
            yield Scoring("mouse", lab_of[mouse].replace("_", " "), mouse, key, code[archive[key]])


def on_time_axis(epoch_index: np.ndarray, stages: np.ndarray) -> np.ndarray:
    """Place scored epochs at their index and mark what is missing in between as unscored."""
    index = epoch_index - epoch_index[0]
    if np.any(np.diff(index) < 1):
        raise ValueError("epochs are not in order of time, expected rising indices")
    labels = np.full(index[-1] + 1, UNSCORED)
    labels[index] = stages
    return labels


def main_sleep(labels: np.ndarray, *, margin: int = MARGIN_EPOCHS) -> np.ndarray:
    """Cut a day-long recording to its main sleep (see the constants at the top of this file)."""
    edges = np.flatnonzero(np.diff(labels)) + 1
    starts, ends = np.r_[0, edges], np.r_[edges, len(labels)]
    pieces, begin = [], 0
    for start, end in zip(starts, ends, strict=True):
        if labels[start] == WAKE and end - start >= LONG_WAKE_EPOCHS:
            pieces.append((begin, start))
            begin = end
    pieces.append((begin, len(labels)))
    start, end = max(pieces, key=lambda piece: int((labels[piece[0] : piece[1]] > WAKE).sum()))
    asleep = start + np.flatnonzero(labels[start:end] > WAKE)
    return labels[max(asleep[0] - margin, 0) : asleep[-1] + 1 + margin]
