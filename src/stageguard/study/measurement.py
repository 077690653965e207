"""The row of numbers of one night under one variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stageguard.base.arrays import NAN, Labels
from stageguard.measures.agreement import agreement, cohen_kappa
from stageguard.measures.architecture import architecture
from stageguard.measures.bouts import contingency, pair_counts
from stageguard.measures.experts import among_experts
from stageguard.night.hypnogram import Hypnogram

# 90th percentile of the ratio of two experts' fragmentation indices on one night (DOD), by number of stages.
TWO_EXPERTS = {2: 2.00, 3: 1.97, 5: 2.25}


def measure(expert: Hypnogram, labels: Labels, pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Return agreement, validity and sleep architecture of a night, on the epochs that the expert scored."""
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


def measure_panel(panel: Sequence[Hypnogram], labels: Labels | None) -> dict[str, float]:
    """Return the mean agreement of labels with several scorers; for None, of the scorers with each other."""
    if len(panel) < 2:
        return {}
    night = panel[0] if labels is None else replace(panel[0], labels=labels, scorer=None)
    compared = among_experts(night, panel)
    if labels is None:
        kappa, soft = np.nanmean(compared.scorer_kappa), np.nanmean(compared.scorer_soft_agreement)
        return {"scorers_kappa": float(kappa), "scorers_soft": float(soft)}
    return {"scorers_kappa": compared.mean_kappa, "scorers_soft": compared.soft_agreement}


def agreement_between(first: Labels, second: Labels) -> tuple[float, float]:
    """Return Cohen's kappa of two scorings, and the share of equal epochs, over epochs scored in both."""
    counted = contingency(first, second, int(max(first.max(), second.max())) + 1)
    n_both = int(counted.sum())
    return cohen_kappa(counted), float(np.trace(counted)) / n_both if n_both else NAN
