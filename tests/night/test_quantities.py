"""The table of quantities: each row is computed somewhere, and everything that shows numbers shows it."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from stageguard.fitting.judging import statistics_of
from stageguard.measures.cohort import CohortNight, codebook, cohort_table, measure, measure_night
from stageguard.measures.intervals import reported, unit_of
from stageguard.night.quantities import (
    ALL_BOUTS,
    INDICATORS,
    JOINT,
    NIGHT,
    PHASE,
    PHASES,
    STAGE,
    STAGE_INDICATORS,
    indicators_of,
    quantity_of,
)
from stageguard.night.stages import AASM5, WNR3
from stageguard.report.tables import ROWS

LABELS = np.array([0, 0, 1, 2, 2, 3, 2, 4, 4, 0, 2, 2, 0], dtype=np.int8)
REM_LATENCIES = ["rem_latency_minutes", "rem_latency_bout_minutes"]
HYPNOGRAM = sg.Hypnogram(LABELS, AASM5, 30.0)


def test_each_key_stands_once():
    keys = [quantity.key for quantity in (*NIGHT, ALL_BOUTS, JOINT, *INDICATORS)]
    assert len(keys) == len(set(keys))
    yasa = [quantity.yasa_key for quantity in NIGHT]
    assert all(yasa)
    assert len(yasa) == len(set(yasa))
    assert sorted(quantity.report_row for quantity in NIGHT) == list(range(1, len(NIGHT) + 1))


def test_each_statistic_is_computed_and_shown():
    statistics = sg.sleep_statistics(HYPNOGRAM)
    assert all(isinstance(getattr(statistics, quantity.key), float) for quantity in NIGHT)
    assert all(getattr(statistics, kind.key).keys() <= set(AASM5.names) for kind in STAGE)
    assert list(statistics.to_dict())[: len(NIGHT)] == [quantity.yasa_key for quantity in NIGHT]
    assert set(ROWS) == set(NIGHT)
    values = measure(HYPNOGRAM).values
    assert list(values)[: len(NIGHT) + 1] == [quantity.key for quantity in (*NIGHT, ALL_BOUTS)]


def test_each_indicator_is_computed():
    measured = sg.validity(HYPNOGRAM, "human-psg-5").indicators
    assert list(measured) == list(indicators_of(AASM5.names))
    assert {name: indicator.unit for name, indicator in measured.items()} == {
        name: quantity.unit for name, quantity in indicators_of(AASM5.names).items()
    }


def test_a_codebook_says_what_the_table_says():
    table = cohort_table([measure_night(CohortNight("a", after=HYPNOGRAM))])
    book = codebook(table)
    for quantity in NIGHT:
        entry = book[quantity.key]
        assert entry["Description"].startswith(f"{quantity.title}: {quantity.definition}; ")
        assert entry["Units"] == quantity.unit


def test_what_studies_report_is_the_same_for_intervals_and_fits():
    values = reported(sg.sleep_statistics(HYPNOGRAM))
    night = statistics_of("night", AASM5)
    day = statistics_of("day", AASM5)
    assert set(values) - {"rem_latency_bout_minutes"} == {*night, *day} - {"bouts"}
    assert {unit_of(name) for name in values} == {"min", "%", ""}
    assert unit_of("bouts_N2") == ""
    assert unit_of("minutes_N2") == "min"


@pytest.mark.parametrize("stage", WNR3.names)
def test_the_quantity_of_a_stage_is_named_after_it(stage):
    for kind in (*STAGE, *STAGE_INDICATORS):
        quantity = quantity_of(f"{kind.key}_{stage}")
        assert quantity == kind.of(stage)
        assert stage in quantity.title
        assert "{" not in quantity.title + quantity.label + quantity.heading + quantity.short_heading
    for kind in PHASE:
        for phase in PHASES:
            quantity = quantity_of(f"{kind.key}_{stage}_{phase}")
            assert (quantity.unit, quantity.decimals) == (kind.unit, kind.decimals)
            assert f"{stage} in the {phase} phase" in quantity.title


def test_latencies_are_known_by_what_they_need():
    latencies = [quantity.key for quantity in NIGHT if quantity.is_latency]
    assert latencies == ["sol_minutes", "sol_5min_minutes", "sol_10min_minutes", *REM_LATENCIES]


def test_rem_within_a_quarter_of_an_hour_is_early():
    early = {key for key in (q.key for q in NIGHT) if quantity_of(key).is_early(14.5)}
    assert early == set(REM_LATENCIES)
    assert not any(quantity_of(key).is_early(minutes) for key in REM_LATENCIES for minutes in (15.0, np.nan))
