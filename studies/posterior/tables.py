"""Lay results.json out as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "studies" / HERE.name
LOWEST, HIGHEST, LOWEST_OF_STATISTIC, LEAST_AUROC = 0.85, 0.95, 0.80, 0.80
SHORT = {
    "tst_minutes": "TST",
    "sol_minutes": "SOL",
    "waso_minutes": "WASO",
    "awakenings": "awakenings",
    "rem_latency_minutes": "REM latency",
    "rem_latency_bout_minutes": "to a lasting bout",
}

WRONG_EPOCHS = {
    "wrong": "wrong epochs",
    "expected": "expected",
    "expected_at_the_path": "at the path's strength",
}


def mean(row: Mapping[str, float]) -> float:
    return sum(row.values()) / len(row)


def share(value: float, low: float, high: float = 1.0) -> str:
    text = f"{value:.2f}".removeprefix("0")
    return text if low <= round(value, 2) <= high else f"**{text}**"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def of_kind(profile: str, found: Mapping) -> list[str]:
    """Return one row per kind of stager."""
    rows = []
    for kind, row in found["coverage"].items():
        others = [value for name, value in row.items() if name not in SHORT and name != "se_percent"]
        cells = [share(row[name], LOWEST_OF_STATISTIC) if name in row else "" for name in SHORT]
        lowest = share(min(others), LOWEST_OF_STATISTIC)
        rows.append([f"{profile}, {kind}", share(mean(row), LOWEST, HIGHEST), *cells, lowest])
    return rows


def of_stager(found: Mapping) -> list[list[str]]:
    """Return one row per stager and kind of night, the usable first."""
    rows = []
    usable_first = sorted(found["by_stager"], key=lambda key: key.split(" | ")[0] not in found["usable"])
    for key in usable_first:
        row, (stager, kind) = found["by_stager"][key], key.split(" | ")
        name = stager if stager in found["usable"] else f"*{stager}*"
        lowest = min(row, key=row.get)
        rows.append(
            [
                name,
                kind,
                share(mean(row), LOWEST, HIGHEST),
                f"{lowest.removesuffix('_minutes')} {share(row[lowest], LOWEST_OF_STATISTIC)}",
                f"{found['unlike'][stager]:.0%}",
                share(found["wrong_epochs"][stager]["auroc"], LEAST_AUROC),
                *(share(found["wrong_epochs"][stager][key], 0) for key in WRONG_EPOCHS),
            ]
        )
    return rows


def text(results: Mapping) -> str:
    """Return the page."""
    head = ["90 % intervals of", "mean", *SHORT.values(), "lowest other"]
    parts = [
        "# Intervals that cover, without labels",
        "Written by `tables.py`. Each cohort is judged by what was chosen on the others; bold misses a goal: "
        f"mean coverage {LOWEST} to {HIGHEST}, of a statistic {LOWEST_OF_STATISTIC} or more, AUROC of wrong "
        f"epochs {LEAST_AUROC} or more where probabilities are given. *Unlike* are nights that do "
        "not look like expert scoring, by the joint score. Each scorer of DOD-H counts as one expert.",
        "## By kind of stager",
        table(head, [row for name, found in results.items() for row in of_kind(name, found)]),
        "## By stager",
        "In italics: networks of another cohort, and a poor one; they had no part in any choice.",
    ]
    columns = ["stager", "nights", "coverage", "lowest statistic", "unlike"]
    columns += ["AUROC", *WRONG_EPOCHS.values()]
    for name, found in results.items():
        rules = found["rules"]
        spreads = ", ".join(f"{stage} {value:g}" for stage, value in rules["stage_sd"].items())
        others = ", ".join(f"{key} {value:g}" for key, value in rules.items() if key != "stage_sd")
        chosen = f"Chosen on all cohorts: {others}; stage_sd {spreads}."
        parts += [f"### {name}", chosen, table(columns, of_stager(found))]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "results.md").write_text(text(results), encoding="utf-8")
