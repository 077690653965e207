"""Sleep statistics beside YASA's, on the same nights and with the same numbers asserted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
from _common import Row, race, report

import stageguard as sg
from stageguard.simulate import simulate_night
from stageguard.statistics import sleep_statistics

N_NIGHTS = 1_000
YASA_NAMES = np.array(["WAKE", "N1", "N2", "N3", "REM"])
OUR_NAMES = {"Lat_REM": "REM_latency"}  # where ours differ


def assert_same_numbers(theirs: Mapping[str, float], ours: Mapping[str, float]) -> None:
    """YASA rounds to four decimals."""
    for name, value in theirs.items():
        own = ours[OUR_NAMES.get(name, name)]
        assert np.isclose(value, own, rtol=0, atol=5.1e-5, equal_nan=True), f"{name}: {value} and {own}"


def main() -> None:
    warnings.simplefilter("ignore")
    import yasa

    nights = [simulate_night("human-psg-5", seed=seed).expert for seed in range(N_NIGHTS)]
    theirs = [yasa.Hypnogram(YASA_NAMES[night.labels], n_stages=5) for night in nights]
    for their, our in zip(theirs, nights, strict=True):
        assert_same_numbers(their.sleep_statistics(), sleep_statistics(our, convention="yasa").to_dict())

    labels, scheme = [np.array(night.labels) for night in nights], nights[0].scheme
    runners = {
        "YASA": lambda: [their.sleep_statistics() for their in theirs],
        "ours, as a dictionary": lambda: [sleep_statistics(n, convention="yasa").to_dict() for n in nights],
        "ours, the result object": lambda: [sleep_statistics(n, convention="yasa") for n in nights],
        "YASA from labels": lambda: [
            yasa.Hypnogram(YASA_NAMES[own], n_stages=5).sleep_statistics() for own in labels
        ],
        "ours from labels": lambda: [
            sleep_statistics(sg.Hypnogram(own, scheme, 30.0), convention="yasa").to_dict() for own in labels
        ],
    }
    best = race(runners, rounds=7)
    microseconds = {name: 1e6 * seconds / N_NIGHTS for name, seconds in best.items()}
    rows = [Row(f"{name}, 960 epochs", value, "µs/night") for name, value in microseconds.items()]
    pairs = {
        "YASA / ours, scored nights to dictionaries": ("YASA", "ours, as a dictionary", 50.0),
        "YASA / ours, scored nights to result objects": ("YASA", "ours, the result object", None),
        "YASA / ours, label arrays to dictionaries": ("YASA from labels", "ours from labels", None),
    }
    rows += [
        Row(what, microseconds[theirs] / microseconds[ours], "×", goal, "more")
        for what, (theirs, ours, goal) in pairs.items()
    ]
    report("statistics", f"Sleep statistics of {N_NIGHTS:,} nights", rows)


if __name__ == "__main__":
    main()
