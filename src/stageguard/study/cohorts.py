"""The nights of a study's configuration: simulated, public or your own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from stageguard.datasets import entries
from stageguard.night.stages import SCHEMES, StageScheme
from stageguard.nn.data import read_folder
from stageguard.nn.tables import check_together
from stageguard.signals.features.recipe import Recipe
from stageguard.signals.modalities import modality_of
from stageguard.study.config import CohortSource
from stageguard.study.nights import StudyCohort, StudyNight, night_of
from stageguard.study.public_cohorts import PUBLIC, public_nights
from stageguard.synthetic.cohort import simulate_recording


def read_cohort(source: CohortSource, folder: Path) -> StudyCohort:
    """Return the nights of a configuration; its folders are relative to `folder`."""
    scheme = SCHEMES[source.scheme]
    if source.source == "simulated":
        cohort = StudyCohort(tuple(_simulated(source, scheme)), is_synthetic=True)
    elif source.source in PUBLIC:
        cohort = StudyCohort(tuple(public_nights(source, folder)))
    elif source.source == "features":
        tables = read_folder(folder / str(source.folder), scheme)
        cohort = StudyCohort(tuple(StudyNight(table) for table in tables))
    else:
        cohort = _dataset(source, folder, scheme)
    kept = set(cohort.subjects[: source.subjects])
    cohort = replace(cohort, nights=tuple(n for n in cohort.nights if n.subject in kept))
    check_together([night.table for night in cohort.nights])
    return cohort


def _simulated(source: CohortSource, scheme: StageScheme) -> Iterable[StudyNight]:
    modality = modality_of(source.modality)
    recipe = Recipe.load(source.recipe or modality.recipe)
    assert source.subjects is not None
    for number in range(1, source.subjects + 1):
        made = simulate_recording(modality.name, number, seed=source.seed, hours=source.hours)
        yield night_of(made.recording, recipe, scheme, modality.epoch_seconds)


def _dataset(source: CohortSource, folder: Path, scheme: StageScheme) -> StudyCohort:
    assert source.dataset is not None and source.recipe is not None
    recipe = Recipe.load(source.recipe)
    found = entries(source.dataset, folder / str(source.folder), **source.dataset_options)
    recordings = (entry.read() for entry in found)
    scored = [(one, night_of(one, recipe, scheme)) for one in recordings if one.scorings]
    return StudyCohort(tuple(night for _, night in scored), any(one.is_synthetic for one, _ in scored))
