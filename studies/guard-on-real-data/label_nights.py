"""Nights of networks that give labels alone, and what experts say where other networks give such labels."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cohorts
import numpy as np
from cohorts import VoteNight

from stageguard.night.stages import AASM5, StageScheme

ACCUSLEEP = (
    "all_n_balanced_predictions_f1",
    "all_n_balanced_preds",
    "fixed_n_balanced_predictions_f1",
    "fixed_n_balanced_preds",
    "fixed_n_imbalanced_predictions_f1",
    "osfAccuSleep_balanced_preds",
)
PRIOR_COUNT = 1.0  # added to every cell, so that no share is 0
LEAD = 1.001  # a label stays the likeliest stage of its row


@dataclass(frozen=True)
class LabelNight:
    """What one stager says of one night, and what experts say; -1 where unscored."""

    stager: str
    night: str
    subject: str
    said: np.ndarray
    experts: tuple[np.ndarray, ...]  # the consensus alone, or every scorer
    truth: np.ndarray

    def merged(self, own: StageScheme, scheme: StageScheme) -> LabelNight:
        """Return the night in a coarser scheme."""
        if own == scheme:
            return self
        targets = np.append(own.merge_map(scheme), -1)  # -1 stays -1
        experts = tuple(targets[one] for one in self.experts)
        return LabelNight(
            self.stager, self.night, self.subject, targets[self.said], experts, targets[self.truth]
        )


def dod_h(*, each: bool) -> list[LabelNight]:
    """25 nights of six published networks; experts are the consensus of five scorers, or each of them."""
    nights = []
    with np.load(cohorts.data_folder() / "dod-h" / "dod_h.npz") as archive:
        for network in cohorts.PUBLISHED:
            for night in cohorts.dod_h(network):
                said = archive[f"{night.name}/{network}"].astype(int)[: len(night.labels)]
                scorers = archive[f"{night.name}/scorers"].astype(int)[:, : len(said)]
                experts = tuple(scorers) if each else (night.labels,)
                nights.append(LabelNight(network, night.name, night.name, said, experts, night.labels))
    return nights


def mice(lab: str) -> list[LabelNight]:
    """Return the recordings of one laboratory under six AccuSleep networks, one scorer each."""
    folder, code, nights = cohorts.data_folder() / "mouse", np.array([-1, 0, 1, 2, -1]), []
    with (folder / "labs.tsv").open(encoding="utf-8") as file:
        lab_of = {row["mouse"]: row["lab"] for row in csv.DictReader(file, delimiter="\t")}
    with (
        np.load(folder / "mouse_expert_labels.npz") as experts,
        np.load(folder / "mouse_network_predictions.npz") as networks,
    ):
        for key in networks.files:
            recording, network = key.split("__")
            subject = recording.split("_")[0]
            if lab_of[subject] == lab and recording in experts.files:
                said, truth = code[networks[key].astype(int)], code[experts[recording].astype(int)]
                n_epochs = min(len(said), len(truth))
                truth = truth[:n_epochs]
                nights.append(LabelNight(network, recording, subject, said[:n_epochs], (truth,), truth))
    return nights


def count(nights: Iterable[LabelNight], n_stages: int) -> np.ndarray:
    """Return the experts' shares by stage said, one row each."""
    table = np.full((n_stages, n_stages), PRIOR_COUNT)
    for night in nights:
        for expert in night.experts:
            both = (night.said >= 0) & (expert >= 0)
            np.add.at(table, (night.said[both], expert[both]), 1.0)
    others = table - np.diag(table.diagonal())
    np.fill_diagonal(table, np.maximum(table.diagonal(), LEAD * others.max(axis=1)))
    return table / table.sum(axis=1, keepdims=True)


def rows_of(said: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Replace each label by its row of shares."""
    return np.where((said >= 0)[:, None], shares[said], np.nan)


def people(network: str, scheme: StageScheme) -> list[VoteNight]:
    """Return the nights of a published network, by shares of the other networks on the other nights."""
    nights = [night.merged(AASM5, scheme) for night in dod_h(each=True)]

    def softened(night: LabelNight) -> VoteNight:
        others = (one for one in nights if one.stager != network and one.night != night.night)
        rows = rows_of(night.said, count(others, scheme.n_stages))
        return VoteNight(night.night, night.subject, rows, night.truth)

    return [softened(night) for night in nights if night.stager == network]


def mice_by(network: str, lab: str, labs: Sequence[str]) -> list[VoteNight]:
    """Return a laboratory's recordings under one network, by shares of other networks elsewhere."""
    others = (night for other in labs if other != lab for night in mice(other) if night.stager != network)
    shares = count(others, 3)
    own = [night for night in mice(lab) if night.stager == network]
    return [VoteNight(one.night, one.subject, rows_of(one.said, shares), one.truth) for one in own]
