"""One row of numbers for one night under one variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stageguard.base.arrays import NAN, Labels
from stageguard.base.errors import InputError
from stageguard.measures.agreement import agreement, cohen_kappa
from stageguard.measures.bouts import bouts_of, contingency, pair_counts
from stageguard.measures.statistics import sleep_statistics
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import WNR3

# Sleep architecture of the paper, in its order: the key of a row, and what tables call it.
ARCHITECTURE = {
    "tst_minutes": "TST (min)",
    "se_percent": "SE (%)",
    "rem_latency_minutes": "REM latency (min)",
    "waso_minutes": "WASO (min)",
    "nrem_bout_minutes": "mean NREM bout (min)",
    "rem_bout_minutes": "mean REM bout (min)",
    "awakenings": "awakenings",
}
_STATISTICS = ("tst_minutes", "se_percent", "rem_latency_minutes", "waso_minutes", "awakenings")


def measure(expert: Hypnogram, labels: Labels, pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Return agreement, validity and sleep architecture of a night, on the epochs the expert scored."""
    scheme = expert.scheme
    seen = np.where(expert.labels < 0, np.int8(-1), labels)
    night = replace(expert, labels=seen)
    compared = agreement(expert, night, pairs=pairs)
    counted = pair_counts(seen, scheme.n_stages)
    n_pairs = int(counted.sum())
    n_rare = sum(int(counted[scheme.index(a), scheme.index(b)]) for a, b in pairs)
    statistics = sleep_statistics(night)
    row = {
        "n_epochs": float(compared.n_epochs),
        "accuracy": compared.accuracy,
        "kappa": compared.kappa,
        "macro_f1": compared.macro_f1,
        "fi": float(n_pairs - np.trace(counted)) / n_pairs if n_pairs else NAN,
        "tvr_percent": 100.0 * n_rare / n_pairs if n_pairs and pairs else NAN,
        "n_rare_expert": float(compared.n_rare),
        "rare_recall": compared.rare_recall_2,
        "rare_recall_exact": compared.rare_recall_0,
    }
    row |= {f"f1_{stage}": value for stage, value in compared.f1.items()}
    row |= {name: float(getattr(statistics, name)) for name in _STATISTICS}
    return row | _bouts(night)


def _bouts(night: Hypnogram) -> dict[str, float]:
    """Return the mean lengths of NREM and REM bouts, where the stages tell them apart."""
    try:
        merged = night.merge(WNR3)
    except InputError:
        return {"nrem_bout_minutes": NAN, "rem_bout_minutes": NAN}
    bouts, minutes = bouts_of(merged.labels), night.epoch_seconds / 60
    lengths = [bouts.lengths[bouts.stages == WNR3.index(stage)] for stage in ("N", "R")]
    means = [float(each.mean()) * minutes if len(each) else NAN for each in lengths]
    return {"nrem_bout_minutes": means[0], "rem_bout_minutes": means[1]}


def kappa_between(first: Labels, second: Labels) -> float:
    """Return Cohen's kappa of two scorings, over the epochs both have."""
    return cohen_kappa(contingency(first, second, int(max(first.max(), second.max())) + 1))
