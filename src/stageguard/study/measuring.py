"""One row of numbers for one night under one variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stageguard.base.arrays import NAN, Labels
from stageguard.measures.agreement import agreement, cohen_kappa
from stageguard.measures.architecture import architecture
from stageguard.measures.bouts import contingency, pair_counts
from stageguard.night.hypnogram import Hypnogram


def measure(expert: Hypnogram, labels: Labels, pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Return agreement, validity and sleep architecture of a night, on the epochs the expert scored."""
    scheme = expert.scheme
    seen = np.where(expert.labels < 0, np.int8(-1), labels)
    night = replace(expert, labels=seen)
    compared = agreement(expert, night, pairs=pairs)
    counted = pair_counts(seen, scheme.n_stages)
    n_pairs = int(counted.sum())
    n_rare = sum(int(counted[scheme.index(a), scheme.index(b)]) for a, b in pairs)
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
    return row | architecture(night)


def kappa_between(first: Labels, second: Labels) -> float:
    """Return Cohen's kappa of two scorings, over the epochs both have."""
    return cohen_kappa(contingency(first, second, int(max(first.max(), second.max())) + 1))
