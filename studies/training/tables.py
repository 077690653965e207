"""Lay the counts of the study out as tables, and say what is missing. Trains nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

N_FOLDS = 4
NAMES = {
    "boosting": "boosting, night by night scaled",
    "boosting-raw": "boosting, features as they are",
    "accusleep": "AccuSleep",
    "attnsleep": "AttnSleep",
    "deepsleepnet": "DeepSleepNet",
    "seqsleepnet": "SeqSleepNet",
    "sleeptransformer": "SleepTransformer",
    "usleep": "U-Sleep",
}
TITLES = {"sleep-edf": "Sleep-EDF", "sleep-accel": "Sleep-Accel"}


def kappa(confusion: np.ndarray) -> float:
    n = confusion.sum()
    chance = confusion.sum(axis=0) @ confusion.sum(axis=1) / n**2
    return float((np.trace(confusion) / n - chance) / (1 - chance))


def figures(results: list[dict], view: str = "argmax") -> dict[str, float]:
    """Every figure of a row, pooled over the folds at hand."""
    counts = [result["counts"][view] for result in results]
    confusion, pairs, expert = (
        np.sum([c[name] for c in counts], axis=0) for name in ("confusion", "pairs", "expert_pairs")
    )
    n_pairs = pairs.sum()
    rare = {name: sum(c["rare"][name] for c in counts) for name in ("n", "hit_0", "hit_2")}
    by_fold = [kappa(np.array(c["confusion"])) for c in counts]
    n, confident, hits = np.sum([result["calibration"] for result in results], axis=0)
    return {
        "kappa": kappa(confusion),
        "low": min(by_fold),
        "high": max(by_fold),
        "accuracy": float(np.trace(confusion) / confusion.sum()),
        "rem_recall": float(confusion[2, 2] / confusion[2].sum()),
        "fi": float((n_pairs - np.trace(pairs)) / n_pairs),
        "expert_fi": float((n_pairs - np.trace(expert)) / n_pairs),
        "tvr": 100 * float((pairs[0, 2] + pairs[2, 1]) / n_pairs),
        "expert_tvr": 100 * float((expert[0, 2] + expert[2, 1]) / n_pairs),
        "wake_to_rem": 100 * float(pairs[0, 2] / n_pairs),
        "expert_wake_to_rem": 100 * float(expert[0, 2] / n_pairs),
        "rare_recall": rare["hit_2"] / rare["n"] if rare["n"] else float("nan"),
        "ece": float(np.abs(confident - hits).sum() / n.sum()),
        "seconds": float(np.mean([result["seconds"] for result in results])),
        "steps": float(np.mean([result.get("steps", 0) for result in results])),
        "n_parameters": results[0].get("n_parameters", 0),
    }


def pick(jobs: dict[str, dict], **wanted: object) -> list[dict]:
    return [job for job in jobs.values() if all(job[key] == value for key, value in wanted.items())]


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = list(header)
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def short(n_folds: int) -> str:
    return "" if n_folds == N_FOLDS else f" ({n_folds} of {N_FOLDS} folds)"


def comparison(jobs: dict[str, dict], cohort: str) -> str:
    """Networks at lambda 0 and boosting, on one cohort."""
    boosted = [pick(jobs, cohort=cohort, model=model) for model in ("boosting", "boosting-raw")]
    rows = []
    for model, name in NAMES.items():
        is_network = not model.startswith("boosting")
        for seed in (42, 43, 44):
            loss = {"loss": "penalty", "weight": 0.0} if is_network else {}
            held = pick(jobs, cohort=cohort, model=model, seed=seed, **loss)
            if not held:
                continue
            f, d = figures(held), figures(held, "decoded")
            title = name + (f", seed {seed}" if seed != 42 else "") + short(len(held))
            cells = [title, f"{f['kappa']:.3f}", f"{f['low']:.3f}–{f['high']:.3f}"]
            cells.append(f"{f['kappa'] - best(boosted, held):+.3f}" if is_network else "")
            cells += [f"{f[name]:.3f}" for name in ("accuracy", "rem_recall")]
            cells += [f"{f['fi']:.4f}", f"{f['ece']:.3f}", f"{d['kappa']:.3f}"]
            cells += [f"{f['n_parameters']:,}", f"{f['steps']:.0f}"] if is_network else ["", ""]
            rows.append([*cells, f"{f['seconds']:.0f}"])
    header = "model|κ|folds' κ|to boosting|accuracy|REM recall|FI|ECE|κ decoded|parameters|steps|s per fold"
    return table(header.split("|"), rows)


def best(boosted: list[list[dict]], held: list[dict]) -> float:
    """Kappa of the better boosting on the same folds; NaN where it lacks one of them."""
    folds = {job["fold"] for job in held}
    same = [[job for job in jobs if job["fold"] in folds] for jobs in boosted]
    return max((figures(jobs)["kappa"] for jobs in same if len(jobs) == len(folds)), default=float("nan"))


def penalty_grid(jobs: dict[str, dict], cohort: str, model: str) -> str:
    """Losses side by side for one network, and the experts below."""
    rows: list[list[str]] = []
    expert: dict[str, float] = {}
    losses = [("penalty", weight, f"λ = {weight:g}") for weight in (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)]
    for loss, weight, title in [*losses, ("semi-markov", 0.0, "semi-Markov likelihood")]:
        held = pick(jobs, cohort=cohort, model=model, loss=loss, weight=weight, seed=42)
        for view in held[0]["counts"] if held else ():
            f = figures(held, view)
            expert = expert or f
            cells = [f"{title}{short(len(held))}, {view}", f"{f['tvr']:.3f}", f"{f['wake_to_rem']:.3f}"]
            cells += [f"{f[name]:.4f}" for name in ("fi", "accuracy", "kappa")]
            cells += [f"{f[name]:.3f}" for name in ("rare_recall", "rem_recall")]
            rows.append([*cells, f"{f['ece']:.4f}" if view == "argmax" else ""])
    if not rows:
        return "Not run yet.\n"
    cells = [
        f"{expert['expert_tvr']:.3f}",
        f"{expert['expert_wake_to_rem']:.3f}",
        f"{expert['expert_fi']:.4f}",
    ]
    rows.append(["experts", *cells, "", "", "", "", ""])
    header = "loss|TVR %|of it W→R %|FI|accuracy|κ|rare recall|REM recall|ECE"
    return table(header.split("|"), rows)


def write_tables(results: dict, wanted: list[dict], path: Path) -> None:
    jobs = results["jobs"]
    missing: dict[str, list[int]] = {}
    for job in wanted:
        if job["key"] not in jobs:
            missing.setdefault(job["key"].rpartition(" fold")[0], []).append(job["fold"])
    parts = ["# Training on real features\n", INTRODUCTION]
    for cohort, title in TITLES.items():
        if pick(jobs, cohort=cohort):
            parts += [f"## {title}: networks and boosting, λ = 0\n", comparison(jobs, cohort)]
    grid = penalty_grid(jobs, "sleep-edf", "seqsleepnet")
    parts += ["## Losses: SeqSleepNet on Sleep-EDF\n", GRID_WORDS, grid]
    parts.append(f"## What was run\n\n{len(jobs)} of {len(wanted)} jobs.")
    if missing:
        parts[-1] += " Missing:\n\n" + "\n".join(
            f"- {name}, fold{'s' * (len(held) > 1)} {', '.join(map(str, held))}"
            for name, held in missing.items()
        )
    path.write_text("\n".join(part.rstrip("\n") + "\n" for part in parts))


INTRODUCTION = """Written by `run.py`; every figure follows from the counts in `results.json`.

Three stages (W, N, R), four folds, each subject tested once and never in training. Networks are the `small`
presets, trained by `stageguard.nn.training` with natural stage frequencies on sequences of 100 epochs; a
fifth of the training subjects decides when to stop and sets the temperature (on Sleep-Accel a tenth sets the
temperature only, and the schedule's end is kept: so few subjects choose by chance). Networks thus see fewer
subjects than boosting (scikit-learn's HistGradientBoostingClassifier, defaults, single epochs). Everything is
pooled over the test epochs; "folds' κ" is the range over folds, "to boosting" compares with the better
boosting on the same folds. FI: stage changes per adjacent pair. ECE: 15 bins, after the temperature.
"κ decoded": after `decode` with human-psg-3 (Sleep-EDF) or human-cardiorespiratory-3 (Sleep-Accel), natural
training. Seconds per fold on one thread of a busy shared machine: an order of magnitude only.
"""

GRID_WORDS = """Rare pairs of the penalty: W→R and R→N, as in the paper. TVR: both, per pair of epochs.
Rare recall: of the experts' W→R and R→N, those found within two epochs. A network without REM has a
TVR of 0: read it beside REM recall. The semi-Markov likelihood was trained and decoded on human-psg-3;
"decoded as trained" has its transition weight of 1. Compare rows of the same folds only.
"""
