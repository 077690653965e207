"""The stagers that are known by name: their stages, how they were trained, and the profile that fits.

How a stager was trained decides whether the guard may lift minority stages, and few users know it. Files of a
stager and the stager that runs here share one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Training = Literal["natural", "balanced"]


@dataclass(frozen=True, slots=True)
class KnownStager:
    """What is known of a stager without running it."""

    name: str  # as in ``stage(recording, name)``
    title: str  # what it is, for people
    scheme: str  # name of its stages
    epoch_seconds: float
    profile: str  # built-in profile that fits its stages
    # whether it was trained on stages as frequent as in sleep, or with rare ones weighted up; None: not known
    trained: Training | None
    trained_source: str
    formats: tuple[str, ...] = ()  # names of the formats of its files and objects


_ALL = (
    KnownStager(
        name="yasa",
        title="YASA, gradient boosting on one EEG, with EOG and chin where recorded",
        scheme="aasm5",
        epoch_seconds=30.0,
        profile="human-psg-5",
        trained="balanced",
        trained_source="class weights N1 2.2, REM 1.4, N3 1.2, others 1 in the classifiers of version 0.8; "
        "Vallat & Walker 2021, doi 10.7554/eLife.70092",
        formats=("yasa", "yasa-json"),
    ),
    KnownStager(
        name="sleepecg",
        title="SleepECG, a recurrent network on heartbeats, age, sex and time of day",
        scheme="wnr3",
        epoch_seconds=30.0,
        profile="human-cardiorespiratory-3",
        trained="natural",
        trained_source="wrn-gru-mesa, 1,971 nights of MESA without class weights (a weighted twin is shipped "
        "beside it); Brunner & Hofer 2023, doi 10.21105/joss.05411",
        formats=("sleepecg",),
    ),
    KnownStager(
        name="usleep",
        title="U-Sleep, a convolutional network on any EEG and EOG",
        scheme="aasm5",
        epoch_seconds=30.0,
        profile="human-psg-5",
        trained="balanced",
        trained_source="batches drawn with equally frequent stages; Perslev et al. 2021, "
        "doi 10.1038/s41746-021-00440-5",
        formats=("usleep-npy",),
    ),
    KnownStager(
        name="gssc",
        title="GSSC, a network on any EEG and EOG with memory",
        scheme="aasm5",
        epoch_seconds=30.0,
        profile="human-psg-5",
        trained=None,
        trained_source="not known; Hanna & Floel 2023, doi 10.3389/fninf.2023.1086634",
        formats=("gssc", "gssc-csv"),
    ),
    KnownStager(
        name="luna-pops",
        title="POPS of Luna, gradient boosting on one EEG, with models of the user",
        scheme="aasm5",
        epoch_seconds=30.0,
        profile="human-psg-5",
        trained=None,
        trained_source="depends on the model folder",
        formats=("luna-pops",),
    ),
)
KNOWN_STAGERS = {stager.name: stager for stager in _ALL}


def stager_of_format(format: str) -> str | None:
    """Return the name of the stager that writes a format, or None for a format of no particular stager."""
    return next((stager.name for stager in _ALL if format in stager.formats), None)
