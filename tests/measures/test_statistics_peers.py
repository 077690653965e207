"""Sleep statistics against YASA 0.8 and Luna 1.7, on random nights with missing stages, unscored epochs."""

import numpy as np
import pytest

import stageguard as sg
from peers import luna_statistics, random_labels, same, yasa_statistics
from stageguard.measures.statistics import sleep_statistics

LUNA = {
    "tib_minutes": "TIB",
    "spt_minutes": "SPT",
    "tst_minutes": "TST",
    "waso_minutes": "WASO",
    "se_percent": "SE",
    "sme_percent": "SME",
    "sol_minutes": "SOL",
    "sol_10min_minutes": "SOL_PER",
    "rem_latency_minutes": "REM_LAT",
}


def nights(n, seed):
    rng = np.random.default_rng(seed)
    return [random_labels(rng) for _ in range(n)]


def longest_sleep(labels):
    padded = np.concatenate(([0], labels > 0, [0]))
    edges = np.flatnonzero(np.diff(padded))
    return int((edges[1::2] - edges[::2]).max(initial=0))


@pytest.mark.parametrize("epoch_seconds", [30.0, 20.0, 4.0])
def test_every_number_of_yasa_is_ours(epoch_seconds):
    seen = set()
    for labels in nights(60, seed=int(epoch_seconds)):
        ours = sleep_statistics(sg.Hypnogram(labels, "aasm5", epoch_seconds), convention="yasa").to_dict()
        for key, value in yasa_statistics(labels, epoch_seconds).items():
            own = ours["REM_latency" if key == "Lat_REM" else key]
            assert same(own, value, 5.1e-5), (key, value, own, labels.tolist())  # YASA rounds to four digits
            seen |= {key} if value == value else set()
    assert len(seen) >= 20  # every one of them was a number at least once


def test_every_number_of_luna_is_ours_save_what_luna_withholds():
    n_sleepless = n_only_ten = n_compared = 0
    for labels in nights(90, seed=1):
        ours = sleep_statistics(sg.Hypnogram(labels, "aasm5", 30.0), convention="luna")
        night, stages = luna_statistics(labels)
        if not night:
            assert not (labels >= 0).any()
            continue
        if not ours.tst_minutes > 0:
            n_sleepless += 1  # Luna withholds all that is about sleep, SE included; ours is 0
            assert np.isnan(night.get("SE", np.nan))
            continue
        n_compared += 1
        for field, key in LUNA.items():
            own, value = getattr(ours, field), night.get(key, np.nan)
            if key == "SOL_PER" and np.isnan(value) and own == own:
                n_only_ten += 1  # Luna withholds it unless some sleep lasts longer than its 10 min
                assert longest_sleep(labels) == 20
                continue
            assert same(own, value), (key, value, own, labels.tolist())
        assert same(ours.sfi_per_hour, 60 * night["SFI"])  # Luna's is per minute
        assert ours.awakenings == stages["WASO"]["BOUT_N"]
        for stage, n_bouts in ours.bouts.items():
            assert n_bouts == stages[stage]["BOUT_N"]
            assert same(ours.stage_minutes[stage], stages[stage]["MINS"])
        for stage, percent in ours.stage_percent.items():
            assert same(percent, 100 * stages[stage]["PCT"])  # Luna's is a proportion
    assert n_compared >= 60
    assert n_sleepless + n_only_ten <= 30


def test_lights_are_luna_s_lights():
    rng = np.random.default_rng(2)
    for _ in range(15):
        labels = np.repeat(rng.integers(0, 5, size=60), rng.geometric(0.1, size=60)).astype(np.int8)
        off, on = 20, len(labels) - 30
        night, stages = luna_statistics(labels, f"lights-off={off * 30} lights-on={on * 30}")
        ours = sleep_statistics(
            sg.Hypnogram(labels, "aasm5", 30.0), convention="luna", lights_off=off * 30, lights_on=on * 30
        )
        assert ours.tib_minutes == night["TIB"] == (on - off) / 2
        for field, key in LUNA.items():
            assert same(getattr(ours, field), night.get(key, np.nan)), key
        assert ours.stage_minutes == {stage: stages[stage]["MINS"] for stage in ours.scheme.names}
