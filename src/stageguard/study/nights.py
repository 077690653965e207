"""The nights of a study as feature tables with the expert's stages; stored in one file."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base.arrays import Floats, Ints
from stageguard.base.files import open_file, parse_json, write_together
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Recording
from stageguard.night.stages import SCHEMES, StageScheme
from stageguard.nn.data import table_of
from stageguard.nn.tables import FeatureTable
from stageguard.signals.features.recipe import Recipe
from stageguard.signals.quality import signal_quality


@dataclass(frozen=True, slots=True, eq=False)
class StudyNight:
    """One recording: features, the expert's stages, signal quality and covariates."""

    table: FeatureTable
    quality: Floats | None = field(default=None, repr=False)  # beta by the paper's thresholds, per row
    covariates: Mapping[str, float | str] = field(default_factory=dict)  # of the subject
    scorings: Mapping[str, Ints] = field(default_factory=dict, repr=False)  # by scorer, if several; per row

    @property
    def recording(self) -> str:
        """Name of the recording."""
        return self.table.recording

    @property
    def subject(self) -> str:
        """Subject of the recording."""
        return str(self.table.subject)

    @property
    def index(self) -> Ints:
        """Epoch of each row, counted from the first row's epoch."""
        assert self.table.epochs is not None
        return np.asarray(self.table.epochs - self.table.epochs[0])

    def expert(self) -> Hypnogram:
        """Return the expert's stages from the first row to the last; gaps are unscored."""
        assert self.table.labels is not None
        return self._hypnogram(self.table.labels)

    def panel(self) -> list[Hypnogram]:
        """Return every scorer's stages, if the night has several scorers."""
        return [replace(self._hypnogram(rows), scorer=name) for name, rows in self.scorings.items()]

    def _hypnogram(self, rows: Ints) -> Hypnogram:
        table = self.table
        assert table.scheme is not None and table.epochs is not None and table.epoch_seconds is not None
        labels = np.full(int(self.index[-1]) + 1, -1, dtype=np.int8)
        labels[self.index] = rows
        offset = table.epoch_seconds * int(table.epochs[0])
        return Hypnogram(labels, table.scheme, table.epoch_seconds, offset_seconds=offset)

    def beta(self) -> Floats | None:
        """Return how much of each epoch from the first to the last is lost; 0 in gaps."""
        if self.quality is None:
            return None
        beta = np.zeros(int(self.index[-1]) + 1)
        beta[self.index] = self.quality
        return beta


@dataclass(frozen=True, slots=True, eq=False)
class StudyCohort:
    """All nights of a study."""

    nights: tuple[StudyNight, ...]
    is_synthetic: bool = False

    @property
    def epoch_seconds(self) -> float:
        """Epoch length of all nights."""
        seconds = self.nights[0].table.epoch_seconds
        assert seconds is not None
        return seconds

    @property
    def subjects(self) -> list[str]:
        """All subjects, sorted by name."""
        return sorted({night.subject for night in self.nights})


def night_of(
    recording: Recording, recipe: Recipe, scheme: StageScheme, epoch_seconds: float | None = None
) -> StudyNight:
    """Return a recording's night: features by a recipe, quality by the paper's thresholds."""
    table = table_of(recording, recipe, scheme=scheme, epoch_seconds=epoch_seconds)
    judged = signal_quality(recording, recipe.modality, epoch_seconds=table.epoch_seconds, rules="kdd2026")
    beta = np.zeros(table.n_epochs)
    n_both = min(table.n_epochs, judged.n_epochs)
    beta[:n_both] = judged.beta[:n_both]
    return StudyNight(table, beta, dict(recording.covariates), _scorings(recording, table, scheme))


def _scorings(recording: Recording, table: FeatureTable, scheme: StageScheme) -> dict[str, Ints]:
    """Return each scorer's stages of the table's epochs, if the recording has several scorers."""
    if len(recording.scorings) < 2:
        return {}
    assert table.epochs is not None
    rows = {}
    for name, scored in recording.scorings.items():
        labels = scored.merge(scheme).labels
        inside = table.epochs < len(labels)
        rows[name] = np.where(inside, labels[np.minimum(table.epochs, len(labels) - 1)], -1).astype(np.int64)
    return rows


def save_cohort(cohort: StudyCohort, path: Path) -> None:
    """Write all nights into one file, from which `load_cohort` restores them."""
    first = cohort.nights[0].table
    assert first.scheme is not None
    about = {
        "synthetic": cohort.is_synthetic,
        "scheme": first.scheme.name,
        "epoch_seconds": first.epoch_seconds,
        "names": list(first.names),
        "recipe": first.recipe,
        "nights": [
            {
                "recording": night.recording,
                "subject": night.subject,
                "covariates": dict(night.covariates),
                "scorers": list(night.scorings),
            }
            for night in cohort.nights
        ],
    }
    arrays: dict[str, Any] = {"about": np.array(json.dumps(about, default=_plain))}
    for number, night in enumerate(cohort.nights):
        table = night.table
        arrays |= {f"features_{number}": table.features, f"epochs_{number}": table.epochs}
        arrays[f"labels_{number}"] = table.labels
        if night.quality is not None:
            arrays[f"quality_{number}"] = night.quality
        if night.scorings:
            arrays[f"scorings_{number}"] = np.stack(list(night.scorings.values()))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_together({path: buffer.getvalue()}, overwrite=True)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else dict(value)


def load_cohort(path: Path) -> StudyCohort:
    """Read a cohort that `save_cohort` wrote."""
    with open_file(path, "an array") as file, np.load(file, allow_pickle=False) as archive:
        about = parse_json(str(archive["about"]))
        nights = []
        for number, facts in enumerate(about["nights"]):
            table = FeatureTable(
                facts["recording"],
                facts["subject"],
                archive[f"features_{number}"],
                tuple(about["names"]),
                archive[f"epochs_{number}"],
                archive[f"labels_{number}"],
                SCHEMES[about["scheme"]],
                about["epoch_seconds"],
                about["recipe"],
            )
            key = f"quality_{number}"
            quality = archive[key] if key in archive.files else None
            scorers = facts.get("scorers", [])
            scorings = dict(zip(scorers, archive[f"scorings_{number}"] if scorers else (), strict=True))
            nights.append(StudyNight(table, quality, facts["covariates"], scorings))
    return StudyCohort(tuple(nights), about["synthetic"])
