"""Results with a known answer: made-up folds, as a study would have stored them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.measures.cohort import never_shown
from stageguard.study.store import ERRORS, Results, joined, rows_of

BACKBONES = ("accusleep", "usleep")
STATISTICS = ("tst_minutes", "se_percent", "rem_latency_minutes", "waso_minutes", "awakenings")
VARIANTS = {
    "base": [(v, "") for v in ("expert", "majority class", "argmax", "calibrated")],
    "penalty": [("argmax", ""), ("paper", ""), ("paper", "no flip-flop"), ("released", "")],
}
STUDY = {
    **{"name": "made-up", "title": "Made up", "backbones": list(BACKBONES), "cohort": {"source": "slpdb"}},
    "guard": {"base": "human-psg-3", "paper": "kdd2026-cardiorespiratory", "released": "released"},
    "robustness": {
        **{"subgroups": ["sex", "age"], "backbone": "accusleep", "bins": {"age": ["30-36", "38+"]}},
        "contrasts": [
            {"group": "sex", "first": "F", "second": "M", "statistic": "tst"},
            {"group": "age", "first": "30-36", "second": "38+", "statistic": "rem_latency_minutes"},
        ],
    },
}


def numbers(rng: np.random.Generator) -> dict[str, float | None]:
    row: dict[str, float | None] = {name: float(rng.normal(100, 20)) for name in STATISTICS}
    row |= {name: float(rng.random()) for name in ("fi", "accuracy", "kappa", "macro_f1", "tvr_percent")}
    row |= {"f1_W": 0.8, "f1_N": 0.9, "f1_R": float(rng.random()), "rare_recall": None, "n_rare_expert": 0.0}
    return row | {"nrem_bout_minutes": float(rng.random()), "rem_bout_minutes": None, "n_epochs": 900.0}


def records(n_subjects: int = 12, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of two networks, each of two losses, and of a fold for each subject with two nights."""
    rng, rows = np.random.default_rng(seed), []
    for backbone in BACKBONES:
        for fold in range(n_subjects):
            for loss, variants in VARIANTS.items():
                for night in (1, 2):
                    for variant, change in variants:
                        rows.append(
                            {
                                **{"backbone": backbone, "loss": loss, "fold": fold, "seed": 42},
                                **{"penalty_weight": 0.5 * (loss == "penalty"), "is_tuned": False},
                                **{"label_noise": 0.0, "variant": variant, "change": change},
                                **{"recording": f"s{fold:02d}-{night}", "subject": f"s{fold:02d}"},
                                **numbers(rng),
                                **{"calibrated_by": "target" if fold else "argmax", "decode_seconds": 0.01},
                                **{"step_seconds": 0.2 if loss == "base" else 0.21, "forward_seconds": 0.5},
                                "transitions": [0.9, 0.1, 0.0, 0.05, 0.9, 0.05 + fold, 0.1, 0.1, 0.8],
                                **{"pairs": [9, 1, 0, 1, 9, 1, 0, 1, 9]},
                                "bouts": [5, 4, 3, 2, 1, 1, 1, 1, 9],
                            }
                        )
    return rows


def made_up(
    n_subjects: int = 12,
    seed: int = 0,
    change: Callable[[dict[str, Any]], Mapping[str, Any]] = dict,
    more: list[dict[str, Any]] | None = None,
    **about: Any,
) -> Results:
    """Return the records, after a change of each row, and more rows, as results."""
    rows = [dict(change(row)) for row in records(n_subjects, seed)] + (more or [])
    truth = {(row["backbone"], row["recording"]): row for row in rows if row["variant"] == "expert"}
    for row in rows:
        for metric, error in ERRORS.items():
            own, expert = row.get(metric), truth[row["backbone"], row["recording"]].get(metric)
            own = never_shown(metric, row["n_epochs"] / 2) if own is None else own
            row[error] = None if expert is None else own - expert
    table = joined([rows_of(rows)])
    subjects = {f"s{k:02d}": {"age": 30.0 + k, "sex": "FM"[k % 2]} for k in range(n_subjects)}
    facts = {
        **{"study": STUDY, "n_jobs": 4 * n_subjects, "synthetic": True, "stages": ["W", "N", "R"]},
        **{"epoch_seconds": 30.0, "joint_threshold": 1.5, "failures": [], "subjects": subjects},
        **{"rare": [["W", "R"]], "environment": {"begun": "today", "commit": None}},
    }
    return Results(Path("nowhere"), facts | about, table)
