"""How often the verdicts of a grade card err, on nights of DOD-H and DOD-O drawn again and again.

    STAGEGUARD_DATA=/folder/with/the/data python studies/expert-units/simulate.py

On every night that is drawn, one of the five experts, drawn too, plays the stager, and the other four are the
panel: an exchangeable expert by construction. Better and worse stagers are made by scaling that expert's
distance from the consensus of the four, until the ratio R over all nights is what it should be.
"""

from __future__ import annotations

import json
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
from panels import panels

import stageguard as sg
from stageguard.measures.grade import SMALL, graded_values, ratio_of_means, typical_ratio, verdict_of
from stageguard.night.quantities import quantity_of

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "studies" / HERE.name
STATISTICS = (
    *("tst_minutes", "se_percent", "sol_minutes", "rem_latency_minutes", "rem_latency_bout_minutes"),
    *("waso_minutes", "awakenings", "bouts"),
    *(f"stage_minutes_{stage}" for stage in ("N1", "N2", "N3", "R")),
)
PEOPLE = (10, 25, 50)
RATIOS = (1.0, 1.5, 0.7)
N_DRAWS, SEED, N_EXPERTS = 1000, 0, 5
# verdict whose share is told, by the true ratio; the goals of README.md in percent, at each number of people
TOLD = {1.0: "worse", 1.5: "as an expert", 0.7: "as an expert"}
GOALS = {1.0: (6, 6, 6), 1.5: (4, 2, 2), 0.7: (35, 60, 75)}


class Population:
    """One statistic of all nights, by who plays the stager and who is left out of the panel."""

    def __init__(self, key: str, nights: list[dict[tuple[int, ...], dict[str, float]]]) -> None:
        own, others, rest, theirs = [], [], [], []
        for values in nights:
            for k in range(N_EXPERTS):
                panel = [j for j in range(N_EXPERTS) if j != k]
                own.append(values[(k,)][key])
                rest.append(values[tuple(panel)][key])
                others.append([values[tuple(m for m in panel if m != j)][key] for j in panel])
                theirs.append([values[(j,)][key] for j in panel])
        self.own, self.rest = np.array(own), np.array(rest)  # (n_nights * 5,)
        self.others = np.array(others)  # (n_nights * 5, 4)
        self.expert = np.abs(np.array(theirs) - self.others)
        self.small = SMALL[quantity_of(key).short_unit]

    def stager(self, factor: float) -> np.ndarray:
        """Return the distances of a stager whose distance from the panel's consensus is scaled."""
        scaled = self.rest + factor * (self.own - self.rest)
        return np.abs(scaled[:, None] - self.others)

    def factor_for(self, ratio: float) -> float:
        """Return the scale at which R over all nights is `ratio`; NaN if none gives it."""
        low, high = 0.0, 20.0
        if self.stager(low).mean() > ratio * self.expert.mean():
            return float("nan")  # the consensus of four is itself as far from that of three
        for _ in range(60):
            middle = (low + high) / 2
            is_above = self.stager(middle).mean() > ratio * self.expert.mean()
            low, high = (low, middle) if is_above else (middle, high)
        return low

    def share(self, ratio: float, n_people: int, verdict: str, rng: np.random.Generator) -> float:
        """Return the share of draws with this verdict."""
        factor = 1.0 if ratio == 1 else self.factor_for(ratio)
        if np.isnan(factor):
            return factor
        stager = self.stager(factor)
        logs = (np.log(stager + self.small) - np.log(self.expert + self.small)).mean(axis=1)
        a, e = stager.mean(axis=1), self.expert.mean(axis=1)
        found = 0
        for _ in range(N_DRAWS):
            drawn = rng.integers(0, len(a), n_people)  # a night, and who plays the stager
            given = verdict_of(ratio_of_means(a[drawn], e[drawn]), typical_ratio(logs[drawn]))
            found += given == verdict
        return found / N_DRAWS


def all_values() -> list[dict[tuple[int, ...], dict[str, float]]]:
    """Return the statistics of every expert, and of the consensus of three and of four, by night."""
    nights = []
    for night in [*panels("DOD-H"), *panels("DOD-O")]:
        groups = [group for n in (1, 3, 4) for group in combinations(range(N_EXPERTS), n)]
        nights.append(
            {
                group: graded_values(
                    night.experts[group[0]]
                    if len(group) == 1
                    else sg.consensus([night.experts[j] for j in group])
                )
                for group in groups
            }
        )
    return nights


def table(shares: dict) -> str:
    """Return a table of shares in percent: means over statistics, and their range."""
    lines = [
        "| true ratio | verdict | " + " | ".join(f"{n} people" for n in PEOPLE) + " | goal |",
        "|---|---|" + "--:|" * len(PEOPLE) + "---|",
    ]
    for ratio in RATIOS:
        cells = []
        for n in PEOPLE:
            known = [100 * value for value in shares[str(ratio)][str(n)].values() if value == value]
            cells.append(f"{np.mean(known):.0f} ({min(known):.0f} to {max(known):.0f})")
        word = "at least" if ratio < 1 else "at most"
        goal = f"{word} {' / '.join(map(str, GOALS[ratio]))}"
        lines.append(f"| {ratio:g} | {TOLD[ratio]} | {' | '.join(cells)} | {goal} |")
    return "\n".join(lines)


def main() -> None:
    nights, rng = all_values(), np.random.default_rng(SEED)
    populations = {key: Population(key, nights) for key in STATISTICS}
    shares = {
        str(ratio): {
            str(n): {key: each.share(ratio, n, TOLD[ratio], rng) for key, each in populations.items()}
            for n in PEOPLE
        }
        for ratio in RATIOS
    }
    text = json.dumps({"n_draws": N_DRAWS, "n_nights": len(nights), "shares": shares}, indent=1)
    (HERE / "simulation.json").write_text(text + "\n", encoding="utf-8")
    print(table(shares))


def write_table(n_nights: int, shares: dict) -> None:
    words = (
        f"# How often verdicts err\n\nShare of cards in percent, the mean over {len(STATISTICS)} statistics "
        f"and their range, by {N_DRAWS:,} draws from {n_nights} nights. Cards of fewer than 25 people get "
        "no verdict; the column of 10 shows why. Written by `simulate.py`.\n\n"
    )
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "simulation.md").write_text(f"{words}{table(shares)}\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--table"]:
        main()
    kept = json.loads((HERE / "simulation.json").read_text("utf-8"))
    write_table(kept["n_nights"], kept["shares"])
