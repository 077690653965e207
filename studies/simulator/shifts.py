"""By how much do simulated groups differ? Writes shifts.json.

Nights of 8 h from lights off to lights on, hypnograms only, 3,000 for each group. Groups of one covariate are
compared while the other one stays at its reference (age 40-55, no apnoea); the same sleepers in all groups.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from stageguard.measures.statistics import sleep_statistics
from stageguard.signals.modalities import MODALITIES
from stageguard.synthetic.sleepers import (
    AGE_GROUPS,
    NIGHT_HOURS,
    OSA_GROUPS,
    draw_adult,
    draw_night,
    kind_of,
)

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "studies" / HERE.name
SEED, N_NIGHTS = 2026, 3000
SHIFTED = ("tst_minutes", "waso_minutes", "se_percent", "rem_latency_minutes", "n3_minutes")
REFERENCE = {"age": "40-55", "osa": "none"}
TITLES = {
    "tst_minutes": "TST (min)",
    "waso_minutes": "WASO (min)",
    "se_percent": "SE (%)",
    "rem_latency_minutes": "REM latency (min)",
    "n3_minutes": "N3 (min)",
}


def statistics(profile: str, age: str, osa: str) -> np.ndarray:
    """Rows of statistics, one per night."""
    kind, rows = kind_of(profile), []
    for number in range(1, N_NIGHTS + 1):
        sleeper = draw_adult(SEED, number, age_group=age, osa_group=osa)
        found = sleep_statistics(draw_night(kind, sleeper, SEED, NIGHT_HOURS).hypnogram)
        own = {"n3_minutes": found.stage_minutes["N3"]}
        rows.append([own[name] if name in own else getattr(found, name) for name in SHIFTED])
    return np.array(rows)


def main() -> None:
    results: dict[str, dict[str, dict[str, list[float]]]] = {}
    for modality in (own for own in MODALITIES.values() if not own.is_mouse):
        reference = statistics(modality.profile, **REFERENCE)
        told = {"reference": {name: column(reference[:, i]) for i, name in enumerate(SHIFTED)}}
        groups = [("osa", name) for name in OSA_GROUPS] + [("age", name) for name in AGE_GROUPS]
        for covariate, group in groups:
            if REFERENCE[covariate] == group:
                continue
            own = statistics(modality.profile, **(REFERENCE | {covariate: group}))
            told[f"{covariate} {group}"] = {
                name: column(own[:, i] - np.nanmean(reference[:, i])) for i, name in enumerate(SHIFTED)
            }
        results[modality.name] = told
        print(modality.name, json.dumps(told), flush=True)
    (HERE / "shifts.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def column(values: np.ndarray) -> list[float]:
    """Mean and standard deviation over nights."""
    return [round(float(np.nanmean(values)), 2), round(float(np.nanstd(values)), 2)]


def table(results: dict[str, dict[str, dict[str, list[float]]]]) -> str:
    lines = [
        "# What covariates do to simulated sleep",
        "",
        "Written by `shifts.py`, whose docstring says how.",
        "",
    ]
    lines += [f"| modality | group | {' | '.join(TITLES[name] for name in SHIFTED)} |"]
    lines += ["|---" * (len(SHIFTED) + 2) + "|"]
    for modality, told in results.items():
        for group, own in told.items():
            sign = "" if group == "reference" else "+"
            cells = (f"{own[name][0]:{sign}.1f}" for name in SHIFTED)
            title = "age 40-55, osa none: mean" if group == "reference" else f"{group}: difference"
            lines.append(f"| {modality} | {title} | {' | '.join(cells)} |")
    deviations = {name: results["cardiorespiratory"]["reference"][name][1] for name in SHIFTED}
    told_sd = ", ".join(f"{TITLES[name]} {value:.0f}" for name, value in deviations.items())
    error = max(2**0.5 * value / N_NIGHTS**0.5 for value in deviations.values())
    lines += ["", f"Standard deviation between nights (cardiorespiratory, reference): {told_sd}."]
    lines += [
        f"Standard error of a difference: at most {error:.1f}. Seed {SEED}, {N_NIGHTS:,} nights per group."
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--table"]:
        main()
    BUILD.mkdir(parents=True, exist_ok=True)
    kept = json.loads((HERE / "shifts.json").read_text("utf-8"))
    (BUILD / "shifts.md").write_text(table(kept), encoding="utf-8")
