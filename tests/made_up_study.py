"""Results with a known answer: made-up folds, as a study would have stored them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stageguard.study.store import Results

BACKBONES = ("accusleep", "usleep")
STATISTICS = ("tst_minutes", "se_percent", "rem_latency_minutes", "waso_minutes", "awakenings")


def numbers(rng: np.random.Generator) -> dict[str, float | None]:
    row: dict[str, float | None] = {name: float(rng.normal(100, 20)) for name in STATISTICS}
    row |= {name: float(rng.random()) for name in ("fi", "accuracy", "kappa", "macro_f1", "tvr_percent")}
    row |= {"f1_W": 0.8, "f1_N": 0.9, "f1_R": float(rng.random()), "rare_recall": None, "n_rare_expert": 0.0}
    return row | {"nrem_bout_minutes": float(rng.random()), "rem_bout_minutes": None, "n_epochs": 900.0}


def made_up(n_subjects: int = 12, seed: int = 0) -> Results:
    rng = np.random.default_rng(seed)
    records = []
    for backbone in BACKBONES:
        for fold in range(n_subjects):
            subject = f"s{fold:02d}"
            for loss, variants in (
                ("base", ("expert", "majority class", "base", "majority filter", "hmm", "calibrated")),
                ("penalty", ("penalty", "paper", "paper, no flip-flop", "released")),
            ):
                rows = [
                    {"recording": f"{subject}-{night}", "subject": subject, "variant": variant} | numbers(rng)
                    for night in (1, 2)
                    for variant in variants
                ]
                records.append(
                    {
                        **{"backbone": backbone, "loss": loss, "weight": 0.5 if loss == "penalty" else 0.0},
                        **{"seed": 42, "label_noise": 0.0, "fold": fold, "rows": rows, "steps": 10},
                        **{"is_tuned": False, "chosen": {}},
                        "key": f"{backbone}-{loss}-{fold}",
                        "covariates": {subject: {"age": 30.0 + fold, "sex": "FM"[fold % 2]}},
                        "transitions": [[0.9, 0.1, 0.0], [0.05, 0.9, 0.05 + fold], [0.1, 0.1, 0.8]],
                        "stages": ["W", "N", "R"],
                        "epoch_seconds": 30.0,
                        "calibrated_by": "target" if fold else "argmax",
                        "costs": {
                            **{
                                "training_seconds": 2.0,
                                "step_seconds": 0.2 if loss == "base" else 0.21,
                                "forward_seconds": 0.5,
                                "peak_memory_mb": 100.0 + fold,
                            },
                            "decode_seconds": dict.fromkeys(variants, 0.01),
                        },
                    }
                )
    study = {
        **{"name": "made-up", "title": "Made up", "seed": 42, "backbones": list(BACKBONES)},
        **{"split": {"kind": "leave-one-out"}, "cohort": {}, "training": {}},
        "guard": {"penalty_weight": 0.5, "base": "human-psg-3", "paper": "kdd2026-cardiorespiratory"},
        "robustness": {
            **{"subgroups": ["sex", "age"], "backbone": "accusleep", "rare_probabilities": []},
            "bins": {"age": ["30-36", "38+"]},
            "contrasts": [
                {"group": "sex", "first": "F", "second": "M", "statistic": "tst"},
                {"group": "age", "first": "30-36", "second": "38+", "statistic": "rem_latency_minutes"},
            ],
        },
    }
    about = {"study": study, "n_jobs": len(records), "synthetic": True, "cohort_sha256": ""}
    about |= {"begun": "today", "commit": None, "versions": {}}
    return Results(Path("nowhere"), about, tuple(records))
