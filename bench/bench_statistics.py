"""Sleep statistics beside YASA's, on the same nights and with the same numbers asserted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
from _common import Row, race, report

import stageguard as sg
from stageguard.measures.statistics import SleepStatistics, sleep_statistics
from stageguard.synthetic.night import simulate_night

N_NIGHTS = 1_000
YASA_NAMES = np.array(["WAKE", "N1", "N2", "N3", "REM"])
OUR_NAMES = {"Lat_REM": "REM_latency"}  # where ours differ


def assert_same_numbers(theirs: Mapping[str, float], ours: Mapping[str, float]) -> None:
    """YASA rounds to four decimals."""
    for name, value in theirs.items():
        own = ours[OUR_NAMES.get(name, name)]
        assert np.isclose(value, own, rtol=0, atol=5.1e-5, equal_nan=True), f"{name}: {value} and {own}"


def read_out(statistics: SleepStatistics) -> SleepStatistics:
    """Read what is worked out only when asked for, as far as YASA gives it too."""
    assert statistics.stage_minutes
    assert statistics.stage_percent
    return statistics


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
        "ours": lambda: [sleep_statistics(night, convention="yasa") for night in nights],
        "ours, read out": lambda: [read_out(sleep_statistics(n, convention="yasa")) for n in nights],
        "ours, to_dict": lambda: [sleep_statistics(n, convention="yasa").to_dict() for n in nights],
        "YASA, from labels": lambda: [
            yasa.Hypnogram(YASA_NAMES[own], n_stages=5).sleep_statistics() for own in labels
        ],
        "ours, from labels": lambda: [
            read_out(sleep_statistics(sg.Hypnogram(own, scheme, 30.0), convention="yasa")) for own in labels
        ],
    }
    best = {name: 1e6 * seconds / N_NIGHTS for name, seconds in race(runners, rounds=9).items()}
    pairs = {
        "each of YASA's numbers": ("YASA", "ours, read out", 50.0),
        "the call alone, stage minutes and percents not yet read": ("YASA", "ours", None),
        "as a dictionary, with cycles and awakenings, which YASA's lacks": ("YASA", "ours, to_dict", None),
        "from an array of labels to each of YASA's numbers": ("YASA, from labels", "ours, from labels", None),
    }
    rows = [
        Row(what, best[a] / best[b], f"× ({best[a]:,.0f} and {best[b]:,.1f} µs/night)", goal, "more")
        for what, (a, b, goal) in pairs.items()
    ]
    report("statistics", f"Sleep statistics of {N_NIGHTS:,} nights, compared with YASA", rows)


if __name__ == "__main__":
    main()
