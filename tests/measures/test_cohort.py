"""Many nights as one table with a codebook, and errors of sleep architecture against experts."""

from __future__ import annotations

import dataclasses
from datetime import datetime

import numpy as np
import pytest
from scipy import stats

import stageguard as sg
from messages import each_mentions, mentions, naming
from stageguard.errors import InputError
from stageguard.measures.cohort import (
    ARCHITECTURE,
    CohortNight,
    architecture,
    architecture_errors,
    codebook,
    cohort_table,
    measure,
    measure_night,
    night_errors,
)
from stageguard.measures.statistics import StatisticsOptions, sleep_statistics
from stageguard.measures.validity import validity
from stageguard.night.quantities import quantity_of
from stageguard.night.stages import AASM5, WNR3

PROFILE = sg.Profile.load("human-psg-3")


def hypnogram(text: str, scheme=WNR3, seconds: float = 30.0, start=None) -> sg.Hypnogram:
    labels = [-1 if letter == "?" else [name[0] for name in scheme.names].index(letter) for letter in text]
    return sg.Hypnogram(np.array(labels), scheme, seconds, start)


def test_measures_of_a_night_counted_by_hand():
    found = measure(hypnogram("WWNNWNRRW?NW"), PROFILE, period=(0, 12))
    expected = {
        "tib_minutes": 6.0, "spt_minutes": 4.5, "tst_minutes": 3.0, "se_percent": 50.0, "sol_minutes": 1.0,
        "waso_minutes": 1.0, "rem_latency_minutes": 2.0, "awakenings": 2.0, "awakenings_with_final": 3.0,
        "unscored_minutes": 0.5, "bouts": 8.0, "bouts_W": 4.0, "bouts_N": 3.0, "bouts_R": 1.0,
        "stage_minutes_R": 1.0, "stage_percent_N": 100 * 4 / 6, "stage_percent_R": 100 * 2 / 6,
        "fragmentation_index": 6 / 9, "transitions_per_hour": 80.0, "tvr_percent": 0.0,
        "mean_bout_minutes_N": 0.75, "one_epoch_bouts_percent_W": 100.0,
    }  # fmt: skip
    assert {name: found.values[name] for name in expected} == pytest.approx(expected)
    assert np.isnan(found.values["sol_5min_minutes"])
    assert mentions(found.reasons["sol_5min_minutes"], "5 min", "break")
    assert mentions(found.assumed[0], "TIB", "whole")


def test_light_and_dark_are_measured_apart():
    night = hypnogram("WWNN" + "NRWW", seconds=3 * 3600, start=datetime(2024, 5, 1, 7))
    found = measure(night, None, StatisticsOptions(lights_on_phase="07:00"))
    assert found.values["stage_percent_W_light"] == 50.0
    assert found.values["stage_percent_R_dark"] == 25.0
    assert found.values["stage_minutes_N_dark"] == 180.0
    assert found.hours[0].name == "ZT 0"
    assert measure(night).hours == ()
    share = quantity_of("stage_percent_R_dark")
    assert each_mentions((share.title, share.unit), ("R", "dark"), ("% of scored time",))


def test_columns_are_before_after_delta_and_expert():
    before, after, expert = hypnogram("WNWNRRNW"), hypnogram("WNNNRRNW"), hypnogram("WWNNRRNW")
    table = cohort_table([measure_night(CohortNight("a", before, after, expert, PROFILE))])
    columns = {name: values.tolist() for name, values in table.columns().items()}
    assert columns["tst_minutes_before"] == [2.5]
    assert columns["tst_minutes_after"] == [3.0]
    assert columns["tst_minutes_delta"] == [0.5]
    assert columns["tst_minutes_expert"] == [2.5]
    assert columns["awakenings_delta"] == [-1.0]
    assert table.of("awakenings", "before").tolist() == [1.0]
    assert [name for name in columns if name.startswith("waso_")] == [
        "waso_minutes_before", "waso_minutes_after", "waso_minutes_delta", "waso_minutes_expert",
    ]  # fmt: skip


def test_every_column_has_a_meaning_and_a_unit():
    night = hypnogram("WNNRRNNW" * 3, start=datetime(2024, 5, 1, 22))
    options = StatisticsOptions(lights_on_phase="07:00")
    measured = measure_night(CohortNight("a", night, night, night, PROFILE), options)
    table = cohort_table([measured])
    book = codebook(table)
    assert list(book) == list(table.columns())
    assert all(entry["Description"] and entry["Units"] for entry in book.values())
    assert book["tst_minutes_delta"] == {
        "Description": "Total sleep time: epochs of sleep; after minus before",
        "Units": "min",
    }
    assert "argmax" in book["tst_minutes_before"]["Description"]
    units = sleep_statistics(night).units
    assert book["sfi_per_hour_after"]["Units"] == units["SFI"]
    assert book["se_percent_after"]["Units"] == units["SE"]
    indicators = validity(night, PROFILE).indicators
    own = {name: book[f"{name}_after"]["Units"] for name in indicators}
    assert own == {name: indicator.unit for name, indicator in indicators.items()}


def test_nights_of_different_schemes_and_scorings_share_a_table():
    five = hypnogram(
        "WNNR", scheme=dataclasses.replace(AASM5, names=("W", "1", "N", "3", "R"), name="custom")
    )
    table = cohort_table(
        [
            measure_night(CohortNight("three", after=hypnogram("WNNR"))),
            measure_night(CohortNight("five", before=five)),
        ]
    )
    assert table.of("stage_minutes_3", "before").tolist()[1] == 0.0
    assert np.isnan(table.of("stage_minutes_3", "after")[0])
    assert np.isnan(table.of("tst_minutes", "before")[0])
    assert np.isnan(table.columns_of("tst_minutes")["delta"]).all()


def test_an_expert_in_finer_stages_is_merged():
    fine = sg.Hypnogram(np.array([0, 1, 2, 3, 4]), AASM5, 30.0)
    measured = measure_night(CohortNight("a", after=hypnogram("WNNNR"), expert=fine))
    assert measured.measures["expert"].values["stage_minutes_N"] == 1.5
    alone = measure_night(CohortNight("a", expert=fine))
    assert alone.measures["expert"].values["stage_minutes_N3"] == 0.5


def test_tables_refuse_what_they_cannot_hold():
    with pytest.raises(InputError, match=naming("given", "at least one")):
        cohort_table([])
    night = measure_night(CohortNight("a", after=hypnogram("WNNR")))
    with pytest.raises(InputError, match=naming("nights", "'a'")):
        cohort_table([night, night])
    with pytest.raises(InputError, match="night 'b' has no scoring"):
        measure_night(CohortNight("b"))
    with pytest.raises(InputError, match="unknown measure 'tst'"):
        quantity_of("tst")


def test_a_night_compares_with_its_expert_on_the_epochs_that_the_expert_scored():
    before, after = hypnogram("NWNWNNNWNW"), hypnogram("NNNNNNNNNW")
    night = measure_night(CohortNight("n", before, after, hypnogram("????NNRW??"), PROFILE))
    assert night.measures["before"].values["tst_minutes"] == 3.0  # the whole night
    alone = measure_night(CohortNight("n", hypnogram("????NNNW??"), hypnogram("????NNNN??")))
    for scoring, minutes in {"before": 1.5, "after": 2.0, "expert": 1.5}.items():
        assert night.compared.measures[scoring].values["tst_minutes"] == minutes
    for scoring, measures in alone.measures.items():
        compared = night.compared.measures[scoring].values
        assert {name: compared[name] for name in measures.values} == pytest.approx(
            measures.values, nan_ok=True
        )


def night(text, scheme="wnr3"):
    """One letter is one minute: two epochs of 30 s."""
    names = {"W": 0, "N": 1, "R": 2, "?": -1}
    return sg.Hypnogram(np.repeat([names[letter] for letter in text], 2), scheme, 30.0)


EXPERT = "WWNNNNNNRRRRWNNNRRNN"
GUESS = "WNNNNNNRRRRRNNNWRRNN"


def test_architecture_is_what_can_be_counted():
    assert architecture(night(EXPERT)) == {
        "tst_minutes": 17.0,
        "se_percent": 85.0,
        "rem_latency_minutes": 6.0,
        "waso_minutes": 1.0,
        "nrem_bout_minutes": pytest.approx((6 + 3 + 2) / 3),
        "rem_bout_minutes": 3.0,
        "awakenings": 1.0,
    }


def test_errors_are_absolute_differences():
    errors = night_errors({"before": night(GUESS), "expert": night(EXPERT)})["before"]
    assert errors == {
        "tst_minutes": 1.0,
        "se_percent": 5.0,
        "rem_latency_minutes": 0.0,
        "waso_minutes": 0.0,
        "nrem_bout_minutes": pytest.approx(0.0, abs=1e-12),
        "rem_bout_minutes": 0.5,
        "awakenings": 0.0,
    }


def test_rem_that_is_never_shown_comes_at_the_end():
    errors = night_errors({"after": night("WNNNNNNN"), "expert": night("WNNNNRRR")})["after"]
    assert errors["rem_latency_minutes"] == 8 - 4  # of eight minutes; the expert's comes after four of sleep
    assert errors["rem_bout_minutes"] == 3


def test_what_one_side_lacks_has_no_error():
    errors = night_errors({"after": night("WNNNNRRR"), "expert": night("WNNNNNNN")})["after"]
    assert set(ARCHITECTURE) - set(errors) == {"rem_latency_minutes", "rem_bout_minutes"}
    two_stages = sg.Hypnogram([0, 1, 1, 1], "ws2", 30.0)
    errors = night_errors({"after": two_stages, "expert": two_stages})["after"]
    assert "nrem_bout_minutes" not in errors
    assert errors["tst_minutes"] == 0


def made_up(n, seed=0):
    rng = np.random.default_rng(seed)
    before, after = rng.gamma(4, 5, n), rng.gamma(3, 5, n)
    nights = {
        f"n{i}": {"before": {"tst_minutes": before[i]}, "after": {"tst_minutes": after[i]}} for i in range(n)
    }
    return nights, before, after


def test_means_improvement_and_test_are_those_of_numpy_and_scipy():
    nights, before, after = made_up(12)
    (row,), untested = architecture_errors(nights)
    assert untested == ""
    assert (row.quantity, row.n_subjects) == ("tst_minutes", 12)
    assert (row.before.mean, row.before.sd) == pytest.approx((before.mean(), before.std(ddof=1)))
    assert (row.after.mean, row.after.sd) == pytest.approx((after.mean(), after.std(ddof=1)))
    assert row.after.p == pytest.approx(stats.wilcoxon(after, before).pvalue)
    assert row.improvement_percent == pytest.approx(100 * (before.mean() - after.mean()) / before.mean())


def test_nights_of_one_subject_count_once():
    nights, before, after = made_up(12)
    subjects = {f"n{i}": f"s{i // 2}" for i in range(12)}
    (row,), _ = architecture_errors(nights, subjects)
    before, after = before.reshape(6, 2).mean(axis=1), after.reshape(6, 2).mean(axis=1)
    assert row.n_subjects == 6
    assert row.after.sd == pytest.approx(after.std(ddof=1))
    assert row.after.p == pytest.approx(stats.wilcoxon(after, before).pvalue)
