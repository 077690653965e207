"""A stager that is no network: gradient boosting on the features of an epoch and of its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stageguard.base.arrays import Floats, Floats32
from stageguard.base.extras import library
from stageguard.nn.tables import FeatureTable, Normalisation, absolute_features

HALF_WINDOWS = (2, 7)  # epochs on either side over which features are averaged: 2.5 and 7.5 min at 30 s
BOOSTING_OPTIONS = {"max_iter": 100}


@dataclass(frozen=True, slots=True, eq=False)
class Boosting:
    """A fitted classifier and the scale of its features."""

    classifier: Any
    normalisation: Normalisation
    n_stages: int

    def probabilities(self, table: FeatureTable) -> Floats:
        """Return probabilities (n_rows, n_stages) of a table's rows."""
        rows = np.zeros((table.n_epochs, self.n_stages))
        rows[:, self.classifier.classes_] = self.classifier.predict_proba(_columns(table, self.normalisation))
        return rows


def fit_boosting(tables: Sequence[FeatureTable], seed: int) -> Boosting:
    """Fit the classifier on the scored epochs of tables; the same seed gives the same classifier."""
    ensemble = library("sklearn.ensemble", "gradient boosting", "study")
    normalisation = Normalisation.fit(tables, absolute_features(tables[0]))
    assert tables[0].scheme is not None
    labels = np.concatenate([table.labels for table in tables if table.labels is not None])
    columns = np.concatenate([_columns(table, normalisation) for table in tables])
    classifier = ensemble.HistGradientBoostingClassifier(**BOOSTING_OPTIONS, random_state=seed)
    classifier.fit(columns[labels >= 0], labels[labels >= 0])
    return Boosting(classifier, normalisation, tables[0].scheme.n_stages)


def _columns(table: FeatureTable, normalisation: Normalisation) -> Floats32:
    """Return an epoch's features, and their means over the epochs around it; gaps of a recording are NaN."""
    assert table.epochs is not None
    scaled = normalisation(table).reshape(table.n_epochs, -1)
    place = table.epochs - table.epochs[0]
    on_axis = np.full((int(place[-1]) + 1, scaled.shape[1]), np.nan, dtype=np.float32)
    on_axis[place] = scaled
    return np.hstack([scaled, *(_moving_mean(on_axis, half)[place] for half in HALF_WINDOWS)])


def _moving_mean(values: Floats32, half: int) -> Floats32:
    """Return the mean of each column over a centred window, of the values that are there."""
    known = np.isfinite(values)
    sums, counts = (
        np.cumsum(np.pad(each, ((half + 1, half), (0, 0))), axis=0, dtype=np.float64)
        for each in (np.where(known, values, 0.0), known)
    )
    totals, n_known = (each[2 * half + 1 :] - each[: -(2 * half + 1)] for each in (sums, counts))
    means = np.divide(totals, n_known, out=np.full(totals.shape, np.nan), where=n_known > 0)
    return np.asarray(means, dtype=np.float32)
