"""Processor time of `sg.fit` on 26 made-up nights of five stages, without and with the learning curve."""

from __future__ import annotations

import time
import warnings

from _common import HUMAN, Row, report

import stageguard as sg
from stageguard.synthetic.night import simulate_night

BASE = "human-psg-5"
N_NIGHTS = 26
N_ROUNDS = 3  # the best counts: the speed of a shared machine changes by a quarter within minutes
GOALS = {False: 4.0, True: 8.0}  # seconds, without and with the learning curve


def main() -> None:
    warnings.simplefilter("ignore")
    hours = HUMAN["n_epochs"] / 120.0
    nights = [simulate_night(BASE, hours=hours, seed=seed) for seed in range(N_NIGHTS)]
    densities, experts = [night.density for night in nights], [night.expert for night in nights]
    subjects = [f"s{k:02}" for k in range(N_NIGHTS)]
    rows = []
    for with_curve, goal in GOALS.items():
        seconds = float("inf")
        for _ in range(N_ROUNDS):
            begin = time.process_time()
            sg.fit(experts, densities, base=BASE, groups=subjects, cohort="bench", learning_curve=with_curve)
            seconds = min(seconds, time.process_time() - begin)
        how = "with" if with_curve else "without"
        rows.append(Row(f"sg.fit, {N_NIGHTS} nights, {how} learning curve", seconds, "s", goal=goal))
    report("fit", "Fitting a profile", rows)


if __name__ == "__main__":
    main()
