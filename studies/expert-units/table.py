"""Count how far two experts are apart, statistic by statistic, and write the table that the package ships.

STAGEGUARD_DATA=/folder/with/the/data python studies/expert-units/table.py
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import tomli_w
from panels import FILES, PEOPLE, panels

from stageguard.measures.expert_errors import TABLE_FILE
from stageguard.measures.grade import graded_values

SCHEMES = ("aasm5", "wldr4", "wnr3", "ws2")
HEAD = """# Written by studies/expert-units/table.py: change it there, not here.
# Mean absolute difference between two of five experts, over pairs and nights of 30-s epochs, in minutes,
# percent or counts. Sleep or REM that never comes counts as coming at the end. Nights of Guillot et al. 2020,
# doi 10.1109/TNSRE.2020.3011181.
"""


def errors(cohort: str, scheme: str) -> dict[str, float]:
    """Return the mean distance of two experts, by statistic."""
    totals: dict[str, list[float]] = {}
    for night in panels(cohort):
        values = [graded_values(scoring.merge(scheme)) for scoring in night.experts]
        for key in values[0]:
            apart = [abs(a[key] - b[key]) for a, b in combinations(values, 2)]
            if not np.isnan(apart).any():
                totals.setdefault(key, []).append(float(np.mean(apart)))
    return {key: round(float(np.mean(means)), 3) for key, means in totals.items()}


def main() -> None:
    cohorts = [
        {"name": name, "people": PEOPLE[name], "errors": {scheme: errors(name, scheme) for scheme in SCHEMES}}
        for name in FILES
    ]
    TABLE_FILE.write_text(HEAD + tomli_w.dumps({"cohorts": cohorts}), encoding="utf-8")


if __name__ == "__main__":
    main()
