"""Simulated cohorts: subjects, and folders of their recordings in a dataset's layout."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from stageguard import checks
from stageguard.errors import InputError, OutputError, OutputExistsError
from stageguard.files import SYNTHETIC_FILE, exists_error
from stageguard.measures.statistics import sleep_statistics
from stageguard.night.quantities import REPORTED
from stageguard.profile.profile import Profile
from stageguard.signals.modalities import Modality, modality_of
from stageguard.storage import local_only
from stageguard.synthetic.events import SignalEvent, Simulated
from stageguard.synthetic.sleepers import (
    Sleeper,
    draw_adult,
    draw_day,
    draw_infant,
    draw_mouse,
    draw_night,
    kind_of,
    known_shifts,
)
from stageguard.version import __version__

LAYOUTS = {
    "eeg-emg": ("mat", "parquet", "csv"),
    "actigraphy": ("txt",),
    "cardiorespiratory": ("edf",),
    "bioradar": ("npz", "edf"),
    "polysomnography": ("edf",),
}
LONGEST_HOURS = 72.0
MOST_SUBJECTS = 999
SUBJECTS_FILE, EVENTS_FILE, README_FILE = "synthetic-subjects.tsv", "synthetic-events.tsv", "README.txt"
MADE_BY = f"stageguard {__version__}"
STATISTICS = tuple(quantity.key for quantity in REPORTED)

Run = Callable[[Callable[[int], "Subject"], Sequence[int]], Iterable["Subject"]]


@dataclass(frozen=True, slots=True)
class Plan:
    """A cohort to simulate; checked at construction."""

    modality: str  # one of `MODALITIES`
    n_subjects: int  # subject 3 is the same in a cohort of 3 and of 30
    hours: float | None = None  # of each recording; by default 4 for mice, 8 for people
    seed: int = 0  # the same seed gives the same files, byte by byte
    variant: str = "adult"  # kind of sleeper: "adult", "narcolepsy" or "infant"
    layout: str | None = None  # kind of files, if the dataset has several

    def __post_init__(self) -> None:
        """Check every option, and fill in defaults."""
        modality = modality_of(self.modality)
        checks.whole(self.n_subjects, "subjects", low=1, high=MOST_SUBJECTS)
        two_epochs = 2 * modality.epoch_seconds / 3600
        hours = modality.hours if self.hours is None else self.hours
        hours = checks.number(hours, "hours", low=two_epochs, high=LONGEST_HOURS)
        checks.whole(self.seed, "seed")
        layout = LAYOUTS[modality.name][0] if self.layout is None else self.layout
        choices = (
            ("variant", self.variant, ("adult", "narcolepsy", "infant")[: 3 - modality.is_mouse]),
            ("layout", layout, LAYOUTS[modality.name]),
        )
        for what, value, known in choices:
            if value not in known:
                listed = ", ".join(known)
                raise InputError(f"{what} is {value!r}, expected one of {listed} for {self.modality}.")
        object.__setattr__(self, "hours", hours)
        object.__setattr__(self, "layout", layout)

    @property
    def recorded(self) -> Modality:
        """The modality."""
        return modality_of(self.modality)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, for the file that marks the folder as synthetic."""
        profile = Profile.load(self.recorded.profile)
        shifts = known_shifts(self.modality) if self.variant == "adult" else {}
        return {
            "synthetic": True,
            "made_by": MADE_BY,
            "modality": self.modality,
            "dataset": self.recorded.dataset,
            "layout": self.layout,
            "n_subjects": self.n_subjects,
            "hours": self.hours,
            "seed": self.seed,
            "variant": self.variant,
            "profile": {"name": profile.name, "sha256": profile.sha256},
            "group_differences": {group: dict(shift) for group, shift in shifts.items()},
        }


@dataclass(frozen=True, slots=True)
class Subject:
    """The truth about one simulated recording that was written."""

    subject: str
    covariates: Mapping[str, float | str]
    start: datetime | None
    statistics: Mapping[str, float]  # of the true stages, between lights off and lights on
    stage_percent: Mapping[str, float]  # of the whole recording
    events: tuple[SignalEvent, ...] = field(repr=False)  # artefacts, sensor losses, apnoeas


def simulate_recording(
    modality: str,
    number: int = 1,
    *,
    seed: int = 0,
    hours: float | None = None,
    variant: str = "adult",
    sleeper: Sleeper | None = None,
) -> Simulated:
    """Return the recording of a cohort's subject, or of your own sleeper, in memory.

    Parameters
    ----------
    modality : {"eeg-emg", "actigraphy", "cardiorespiratory", "bioradar"}
        What is recorded.
    number : int
        Which subject of the cohort, from 1.
    seed : int
        Same seed, same cohort.
    hours : float, optional
        Length of the recording; by default 4 for mice, 8 for people.
    variant : {"adult", "narcolepsy", "infant"}
        Whose sleep.
    sleeper : Sleeper, optional
        A sleeper in place of the cohort's subject.

    Returns
    -------
    Simulated
        `recording`, the truth about it as `night`, and `events`.
    """
    plan = Plan(modality, number, hours, seed, variant)
    return _simulate(plan, number if sleeper is None else sleeper)


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
    folder = Path(folder)
    _check_place(folder, overwrite)
    staging = _sibling(folder, "making")
    try:
        staging.mkdir(parents=True)
        task = partial(write_subject, plan, staging)
        subjects = tuple((run or map)(task, range(1, plan.n_subjects + 1)))
        if finish := getattr(module_of(plan.recorded), "finish", None):
            finish(subjects, staging, plan.layout)
        _write_truth(plan, subjects, staging)
        _put(staging, folder)
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(
            f"cannot write {folder}: {error.strerror or error}. Choose a folder you can write to."
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return subjects


def _check_place(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that contains anything but an earlier simulation that may be replaced."""
    local_only(folder, "a simulation")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"cannot write {folder}: it is a file, expected a folder.")
    if not folder.exists() or next(folder.iterdir(), None) is None:
        return
    if not (folder / SYNTHETIC_FILE).is_file():
        raise OutputExistsError(
            f"{folder} holds files that no simulation wrote, and is left alone. Choose another folder."
        )
    if not overwrite:
        raise exists_error(folder, to="replace it, or choose another name")


def write_subject(plan: Plan, folder: Path, number: int) -> Subject:
    """Simulate one subject of a plan and write its files; return the truth about it."""
    simulated = _simulate(plan, number)
    module_of(plan.recorded).write(simulated, folder, plan.layout)
    recording, night = simulated.recording, simulated.night
    truth = night.hypnogram
    measured = sleep_statistics(truth, lights_off=night.lights_off_seconds, lights_on=night.lights_on_seconds)
    statistics = {name: float(getattr(measured, name)) for name in STATISTICS}
    shares = {name: 100 * float((truth.labels == i).mean()) for i, name in enumerate(truth.scheme.names)}
    covariates = dict(recording.covariates)
    return Subject(recording.subject, covariates, recording.start, statistics, shares, simulated.events)


def _simulate(plan: Plan, who: int | Sleeper) -> Simulated:
    assert plan.hours is not None
    modality, module = plan.recorded, module_of(plan.recorded)
    draw_human = draw_infant if plan.variant == "infant" else draw_adult
    draw = draw_mouse if modality.is_mouse else draw_human
    sleeper = who if isinstance(who, Sleeper) else draw(plan.seed, who)
    kind = kind_of(modality.profile, plan.variant)
    if modality.is_mouse:
        night = draw_day(kind, sleeper, plan.seed, plan.hours)
    else:
        awake_minutes = modality.awake_minutes
        night = draw_night(kind, sleeper, plan.seed, plan.hours, awake_minutes)
    name = module.name_of(sleeper.number, plan.layout)
    simulated: Simulated = module.simulate(night, sleeper, plan.seed, name)
    return simulated


def module_of(modality: Modality) -> Any:
    """Return the module of a modality, which simulates its signals and writes them in its dataset's layouts.

    Every module has ``simulate(night, sleeper, seed, name)``; ``name_of(number, layout)``, the subject's
    name; ``write(simulated, folder, layout)`` for one recording; ``FILE_LIST``, the README's text on the
    files of each layout; and ``READ_OPTIONS``, the options with which `stageguard features` reads them. A
    module whose cohorts have tables has ``finish(subjects, folder, layout)``.
    """
    return import_module(f"stageguard.synthetic.{modality.name.replace('-', '_')}")


def _write_truth(plan: Plan, subjects: Sequence[Subject], folder: Path) -> None:
    names = list(dict.fromkeys(name for subject in subjects for name in subject.covariates))
    stages = list(subjects[0].stage_percent)
    rows = [["subject", *names, *STATISTICS, *(f"{name}_percent" for name in stages)]]
    events = [["subject", "kind", "channel", "start_seconds", "seconds"]]
    for subject in subjects:
        facts = [subject.covariates.get(name) for name in names]
        truth = [*subject.statistics.values(), *subject.stage_percent.values()]
        rows.append([subject.subject, *map(_cell, [*facts, *truth])])
        for event in subject.events:
            times = f"{event.start_seconds:.2f}", f"{event.seconds:.2f}"
            events.append([subject.subject, event.kind, event.channel or "all", *times])
    for name, table in ((SUBJECTS_FILE, rows), (EVENTS_FILE, events)):
        (folder / name).write_text(
            "".join("\t".join(row) + "\n" for row in table), encoding="utf-8", newline="\n"
        )
    (folder / README_FILE).write_text(readme(plan), encoding="utf-8", newline="\n")
    (folder / SYNTHETIC_FILE).write_text(
        json.dumps(plan.to_dict(), indent=2) + "\n", encoding="utf-8", newline="\n"
    )


def _cell(value: float | str | None) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "n/a"
    return value if isinstance(value, str) else f"{value:.6g}"


def _sibling(folder: Path, what: str) -> Path:
    folder = folder.absolute()
    return folder.with_name(f".{folder.name}.{what}-{os.urandom(4).hex()}")


def _put(staging: Path, folder: Path) -> None:
    """Rename the finished folder; an earlier one is removed when the new one is in place."""
    if not folder.exists():
        staging.rename(folder)
        return
    old = _sibling(folder, "old")
    folder.rename(old)
    try:
        staging.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def readme(plan: Plan) -> str:
    """Return the text for README.txt."""
    modality, layout = plan.recorded, module_of(plan.recorded)
    who = "mice" if modality.is_mouse else "people"
    is_adult, is_usual_layout = plan.variant == "adult", plan.layout == LAYOUTS[modality.name][0]
    of_variant = "" if is_adult else f", variant {plan.variant}"
    cohort = f"{plan.n_subjects} {who}, {plan.hours:g} h each, {plan.modality}, seed {plan.seed}{of_variant}"
    command = (
        f"stageguard simulate --modality {plan.modality} --subjects {plan.n_subjects} --hours {plan.hours:g} "
        f"--seed {plan.seed}{'' if is_adult else f' --variant {plan.variant}'}"
        f"{'' if is_usual_layout else f' --layout {plan.layout}'} -o FOLDER"
    )
    dataset = f"--dataset {modality.dataset}{layout.READ_OPTIONS}"
    return f"""SYNTHETIC DATA. Nobody slept here: {MADE_BY} made up every number in this folder.
It is for trying out software. It is no evidence about real {who}, and must not be published as data.

{cohort}. Made again, to the byte, by:
  {command}

{layout.FILE_LIST[plan.layout]}
synthetic-subjects.tsv    covariates of each subject, and the true sleep statistics
synthetic-events.tsv      where artefacts, losses of a sensor and apnoeas are
synthetic.json            marks the folder: every reader of stageguard calls what is in it synthetic

Read it:  stageguard features FOLDER {dataset} --recipe {modality.recipe} -o TABLES
"""
