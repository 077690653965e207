"""Processor time of `sg.fit` on 26 made-up nights of five stages."""

from __future__ import annotations

import time
import warnings

from _common import HUMAN, Row, report

import stageguard as sg
from stageguard.synthetic.night import simulate_night

BASE = "human-psg-5"
N_NIGHTS = 26
N_ROUNDS = 3  # the best counts: the speed of a shared machine changes by a quarter within minutes
GOAL = 4.0  # seconds


def main() -> None:
    warnings.simplefilter("ignore")
    hours = HUMAN["n_epochs"] / 120.0
    nights = [simulate_night(BASE, hours=hours, seed=seed) for seed in range(N_NIGHTS)]
    densities, experts = [night.density for night in nights], [night.expert for night in nights]
    subjects = [f"s{k:02}" for k in range(N_NIGHTS)]
    seconds = float("inf")
    for _ in range(N_ROUNDS):
        begin = time.process_time()
        sg.fit(experts, densities, base=BASE, subjects=subjects, cohort="bench")
        seconds = min(seconds, time.process_time() - begin)
    rows = [Row(f"sg.fit, {N_NIGHTS} nights", seconds, "s", goal=GOAL)]
    report("fit", "Fitting a profile", rows)


if __name__ == "__main__":
    main()
