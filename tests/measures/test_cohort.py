"""Tables over many nights: the right numbers in the right columns, each with its unit and meaning."""

from __future__ import annotations

import dataclasses
from datetime import datetime

import numpy as np
import pytest

import nights
import stageguard as sg
from messages import each_mentions, mentions, naming
from stageguard.errors import InputError
from stageguard.measures.cohort import (
    CohortNight,
    codebook,
    cohort_table,
    measure,
    measure_night,
)
from stageguard.measures.statistics import StatisticsOptions, sleep_statistics
from stageguard.measures.validity import validity
from stageguard.night.quantities import quantity_of
from stageguard.night.stages import AASM5, WNR3
from stageguard.synthetic.night import simulate_night

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


def test_without_a_profile_validity_is_not_measured():
    found = measure(hypnogram("WWNNRRNW"))
    assert "tst_minutes" in found.values
    assert "fragmentation_index" not in found.values


def test_reasons_of_shares_reach_every_stage():
    found = measure(hypnogram("WWWW"), PROFILE)
    assert np.isnan(found.values["stage_percent_R"])
    assert (
        found.reasons["stage_percent_R"] == found.reasons["stage_percent_N"] == "no epoch is scored as sleep"
    )


def test_options_reach_the_statistics():
    night = hypnogram("WWNNRRNW", start=datetime(2024, 5, 1, 22, 30))
    options = StatisticsOptions("yasa", lights_off="22:31", lights_on=180)
    own = sleep_statistics(night, convention="yasa", lights_off="22:31", lights_on=180)
    assert measure(night, None, options).values["tib_minutes"] == own.tib_minutes == 2.0
    assert measure(night, None, options).values["rem_latency_minutes"] == own.rem_latency_minutes == 1.0
    assert measure(night).values["rem_latency_minutes"] == 1.0
    shortest = StatisticsOptions(min_first_rem_seconds=90.0)
    assert np.isnan(measure(night, None, shortest).values["rem_latency_bout_minutes"])


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
    assert np.isnan(table.delta("tst_minutes")).all()


def test_an_expert_in_finer_stages_is_merged():
    fine = sg.Hypnogram(np.array([0, 1, 2, 3, 4]), AASM5, 30.0)
    measured = measure_night(CohortNight("a", after=hypnogram("WNNNR"), expert=fine))
    assert measured.measures["expert"].values["stage_minutes_N"] == 1.5
    alone = measure_night(CohortNight("a", expert=fine))
    assert alone.measures["expert"].values["stage_minutes_N3"] == 0.5


def test_a_decoding_is_measured_as_decided():
    density = simulate_night("human-psg-3", hours=2, seed=5).density
    decoding = nights.decode(density, PROFILE)
    found = measure(decoding.hypnogram, PROFILE, period=decoding.period)
    indicators = validity(decoding).indicators
    assert {name: found.values[name] for name in indicators} == pytest.approx(
        {name: indicator.value for name, indicator in indicators.items()}, nan_ok=True
    )
    assert found.values["tst_minutes"] == sleep_statistics(decoding).tst_minutes


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


@pytest.mark.parametrize("expert", ["NNRW", "NNR?", None])
def test_where_the_expert_scored_every_epoch_of_a_night_nothing_else_is_measured(expert):
    theirs = None if expert is None else hypnogram(expert)
    assert not measure_night(CohortNight("n", None, hypnogram("NNW?"), theirs)).on_expert_epochs
