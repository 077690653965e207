"""Simulated cohorts: subjects, and folders of their recordings in the layout of a dataset."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import Ints
from stageguard.errors import OutputError, OutputExistsError
from stageguard.files import SYNTHETIC_FILE, SYNTHETIC_WORD, exists_error
from stageguard.lazy import library
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Series, Signal
from stageguard.profile.profile import Profile
from stageguard.signals.modalities import Modality, modality_of
from stageguard.storage import local_only
from stageguard.synthetic import signals, sleepers
from stageguard.synthetic.body import SignalEvent
from stageguard.synthetic.signals import CLIP_MV, Simulated
from stageguard.synthetic.sleepers import SimulatedSleep, Sleeper
from stageguard.version import __version__

LONGEST_HOURS = 72.0
MOST_SUBJECTS = 999
MADE_BY = f"stageguard {__version__}"
NOTE = (
    f"{SYNTHETIC_WORD} DATA. Nobody slept here: {MADE_BY} made up every number in this folder, to try out "
    "software. It is no evidence about real sleepers and must not be published as data."
)

Run = Callable[[Callable[[int], "Subject"], Sequence[int]], Iterable["Subject"]]


@dataclass(frozen=True, slots=True)
class Plan:
    """A cohort to simulate; checked at construction."""

    modality: str  # one of `MODALITIES`
    n_subjects: int  # subject 3 is the same in a cohort of 3 and of 30
    hours: float | None = None  # of each recording; by default 4 for mice, 8 for people
    seed: int = 0  # the same seed gives the same files, byte by byte

    def __post_init__(self) -> None:
        """Check every option, and fill in the default."""
        modality = modality_of(self.modality)
        checks.whole(self.n_subjects, "subjects", low=1, high=MOST_SUBJECTS)
        two_epochs = 2 * modality.epoch_seconds / 3600
        hours = modality.hours if self.hours is None else self.hours
        object.__setattr__(self, "hours", checks.number(hours, "hours", low=two_epochs, high=LONGEST_HOURS))
        checks.whole(self.seed, "seed")

    @property
    def recorded(self) -> Modality:
        """The modality."""
        return modality_of(self.modality)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, for the file that marks the folder as synthetic."""
        profile = Profile.load(self.recorded.profile)
        about = {"synthetic": True, "note": NOTE, "made_by": MADE_BY, "dataset": self.recorded.dataset}
        return about | asdict(self) | {"profile": {"name": profile.name, "sha256": profile.sha256}}


@dataclass(frozen=True, slots=True)
class Subject:
    """The truth about one simulated recording that was written."""

    subject: str
    covariates: Mapping[str, float | str]
    events: tuple[SignalEvent, ...] = field(repr=False)  # artefacts, sensor losses, apnoeas


def simulate_recording(
    modality: str, number: int = 1, *, seed: int = 0, hours: float | None = None
) -> Simulated:
    """Return the recording of a cohort's subject in memory.

    Parameters
    ----------
    modality : {"eeg-emg", "actigraphy", "cardiorespiratory", "bioradar", "polysomnography"}
        What is recorded.
    number : int
        Which subject of the cohort, from 1.
    seed : int
        Same seed, same cohort.
    hours : float, optional
        Length of the recording; by default 4 for mice, 8 for people.

    Returns
    -------
    Simulated
        `recording`, the truth about it as `night`, and `events`.
    """
    plan = Plan(modality, number, hours, seed)
    recorded, length = plan.recorded, plan.hours
    assert length is not None
    layout, kind = LAYOUTS[modality], sleepers.kind_of(recorded.profile)
    sleeper = (sleepers.draw_mouse if recorded.is_mouse else sleepers.draw_adult)(seed, number)
    if recorded.is_mouse:
        night = sleepers.draw_day(kind, sleeper, seed, length)
    else:
        night = sleepers.draw_night(kind, sleeper, seed, length, recorded.awake_minutes)
    return layout.simulate(night, sleeper, seed, layout.name.format(number))


def simulate_cohort(
    plan: Plan, folder: str | Path, *, overwrite: bool = False, run: Run | None = None
) -> tuple[Subject, ...]:
    """Write a cohort into a folder, which appears when it is complete; return the truth about each subject.

    Parameters
    ----------
    plan : Plan
        What to simulate.
    folder : str or Path
        Must not exist, or be empty, or with `overwrite` hold an earlier simulation; anything else is never
        replaced.
    overwrite : bool
        Replace an earlier simulation.
    run : callable, optional
        Makes the subjects as `map` does, for progress and processes.

    Returns
    -------
    tuple of Subject
    """
    checks.choice(plan.modality, "modality", WRITTEN)
    folder = local_only(Path(folder), "a simulation").absolute()
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"cannot write {folder}: it is a file, expected a folder.")
    if folder.exists() and any(folder.iterdir()):
        if not (folder / SYNTHETIC_FILE).is_file():
            raise OutputExistsError(f"{folder} holds files that no simulation wrote, and is left alone.")
        if not overwrite:
            raise exists_error(folder, to="replace it, or choose another name")
    making, old = (
        folder.with_name(f".{folder.name}.{what}-{os.urandom(4).hex()}") for what in ("new", "old")
    )
    try:
        making.mkdir(parents=True)
        task = partial(write_subject, plan, making)
        subjects = tuple((run or map)(task, range(1, plan.n_subjects + 1)))
        if plan.recorded.dataset == "shhs":
            _write_covariates(subjects, making)
        truth = plan.to_dict() | {"subjects": [asdict(subject) for subject in subjects]}
        text = json.dumps(truth, indent=1, allow_nan=False) + "\n"
        (making / SYNTHETIC_FILE).write_text(text, encoding="utf-8", newline="\n")
        try:
            if folder.exists():
                folder.rename(old)
            making.rename(folder)
        except BaseException:
            if old.exists() and not folder.exists():
                old.rename(folder)
            raise
        shutil.rmtree(old, ignore_errors=True)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return subjects


def write_subject(plan: Plan, folder: Path, number: int) -> Subject:
    """Simulate one subject of a plan and write its files; return the truth about it."""
    made = simulate_recording(plan.modality, number, seed=plan.seed, hours=plan.hours)
    write = LAYOUTS[plan.modality].write
    assert write is not None
    write(made, folder)
    return Subject(made.recording.subject, dict(made.recording.covariates), made.events)


# ---- AccuSleep: MATLAB files of EEG, EMG and labels in a folder for each mouse

LABEL_SECONDS = 2.5
MOUSE_CODES = {"R": 1, "W": 2, "N": 3}


def _write_accusleep(made: Simulated, folder: Path) -> None:
    folder = folder / made.recording.subject / "Day1"
    folder.mkdir(parents=True)
    for role, signal in made.recording.signals.items():
        assert isinstance(signal, Signal)
        _write_mat(folder / f"{role.upper()}.mat", role.upper(), np.asarray(signal.samples))
    _write_mat(folder / "labels.mat", "labels", label_codes(made.night.hypnogram).astype(np.float64))


def _write_mat(path: Path, name: str, values: npt.NDArray[np.generic]) -> None:
    library("scipy.io", "MATLAB files").savemat(path, {name: values[None]})
    with path.open("r+b") as file:  # in place of the time, so that the same seed gives the same bytes
        file.write(f"MATLAB 5.0 MAT-file, {SYNTHETIC_WORD} recording by {MADE_BY}".ljust(116).encode("ascii"))


def label_codes(night: Hypnogram) -> Ints:
    """Return a code per 2.5 s: the stage at its middle. Epochs of 4 s can be restored from these codes."""
    codes = np.array([MOUSE_CODES[name] for name in night.scheme.names])
    middles = (np.arange(int(night.n_epochs * night.epoch_seconds / LABEL_SECONDS)) + 0.5) * LABEL_SECONDS
    return np.asarray(codes[night.labels[(middles / night.epoch_seconds).astype(np.int64)]], dtype=np.int64)


# ---- Sleep-Accel: text files of a watch

WATCH_CODES = {"W": 0, "N1": 1, "N2": 2, "N3": 3, "R": 5}
WATCH_FILES = {  # role -> folder, ending, format
    "acceleration": ("motion", "acceleration", "%.5f %.6f %.6f %.6f"),
    "heart_rate": ("heart_rate", "heartrate", "%.5f,%d"),
    "steps": ("steps", "steps", "%.4f,%d"),
    "labels": ("labels", "labeled_sleep", "%d %d"),
}


def _write_sleep_accel(made: Simulated, folder: Path) -> None:
    night = made.night.hypnogram
    codes = np.array([WATCH_CODES[name] for name in night.scheme.names])[night.labels]
    tables = {"labels": np.column_stack([np.rint(np.arange(night.n_epochs) * night.epoch_seconds), codes])}
    for role, series in made.recording.signals.items():
        assert isinstance(series, Series)
        tables[role] = np.column_stack([series.times, series.values])
    for role, (subfolder, ending, row_format) in WATCH_FILES.items():
        (folder / subfolder).mkdir(parents=True, exist_ok=True)
        path = folder / subfolder / f"{made.recording.subject}_{ending}.txt"
        np.savetxt(path, tables[role], row_format, newline="\n", encoding="ascii")


# ---- SHHS at the NSRR: EDF, scorings in XML, a table of covariates

# what the files can hold, in the unit of the file, which has mV instead of uV
LIMITS = {"spo2": (0.0, 100.0), "heart_rate": (0.0, 250.0), "ecg": (-CLIP_MV, CLIP_MV)}
LIMITS |= dict.fromkeys(("thorax", "abdomen", "airflow"), (-1.0, 1.0))
LIMITS |= dict.fromkeys(("eeg", "eeg_2", "eog", "eog_2", "emg"), (-0.5, 0.5))


def _write_shhs(made: Simulated, folder: Path) -> None:
    edfio, recording = library("edfio", "EDF"), made.recording
    edfs = folder / "polysomnography" / "edfs" / "shhs1"
    scorings = folder / "polysomnography" / "annotations-events-nsrr" / "shhs1"
    for subfolder in (edfs, scorings):
        subfolder.mkdir(parents=True, exist_ok=True)
    channels = []
    for role, signal in recording.signals.items():
        assert isinstance(signal, Signal)
        factor, unit = (1000.0, "mV") if signal.unit == "uV" else (1.0, signal.unit)
        channels.append(
            edfio.EdfSignal(
                np.clip(signal.read() / factor, *LIMITS[role]),
                signal.rate_hz,
                label=signal.name,
                transducer_type=SYNTHETIC_WORD,
                physical_dimension=unit,
                physical_range=LIMITS[role],
            )
        )
    assert recording.start is not None
    sex = recording.covariates.get("sex", "X")
    edfio.Edf(
        channels,
        patient=edfio.Patient(code=recording.subject, sex=sex, name=SYNTHETIC_WORD),
        recording=edfio.Recording(
            startdate=recording.start.date(), equipment_code=f"stageguard_{__version__}"
        ),
        starttime=recording.start.time(),
        data_record_duration=1,
    ).write(edfs / f"shhs1-{recording.subject}.edf")
    path = scorings / f"shhs1-{recording.subject}-nsrr.xml"
    made.night.hypnogram.save(path, "nsrr-xml")
    marked = path.read_text("utf-8").replace("\n", f"\n<!-- {SYNTHETIC_WORD}: nobody slept here -->\n", 1)
    path.write_text(marked, encoding="utf-8", newline="\n")


def _write_covariates(subjects: Sequence[Subject], folder: Path) -> None:
    (folder / "datasets").mkdir()
    rows: list[Sequence[object]] = [
        ("nsrrid", "visitnumber", "age_s1", "gender", "bmi_s1", "ahi_a0h3a", "synthetic")
    ]
    for subject in subjects:
        age, sex, bmi, ahi = (subject.covariates[name] for name in ("age", "sex", "bmi", "ahi"))
        rows.append((subject.subject, 1, age, 1 if sex == "M" else 2, bmi, ahi, 1))
    path = folder / "datasets" / "shhs1-dataset-0.0.0-synthetic.csv"
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows), "utf-8", newline="\n")


class Layout(NamedTuple):
    """How a modality's recordings are simulated, named and written."""

    simulate: Callable[[SimulatedSleep, Sleeper, int, str], Simulated]
    name: str  # of a subject, by number; none of the dataset's own
    write: Callable[[Simulated, Path], None] | None = None


LAYOUTS = {
    "eeg-emg": Layout(signals.simulate_mouse, "Mouse{:02d}_synthetic", _write_accusleep),
    "actigraphy": Layout(signals.simulate_watch, "synthetic{:03d}", _write_sleep_accel),
    "cardiorespiratory": Layout(signals.simulate_heart_and_breathing, "900{:03d}", _write_shhs),
    "polysomnography": Layout(signals.simulate_polysomnogram, "900{:03d}", _write_shhs),
    "bioradar": Layout(signals.simulate_radar, "synthetic-{:03d}"),
}
WRITTEN = tuple(name for name, layout in LAYOUTS.items() if layout.write is not None)
