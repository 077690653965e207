"""Statistics of many scorings at once, against `sleep_statistics` of each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from stageguard.measures.statistics import statistics_of_many

SCHEMES = ("aasm5", "wnr3", "ws2")


@given(st.data(), st.sampled_from(SCHEMES), st.sampled_from([4.0, 30.0]))
def test_each_row_is_what_sleep_statistics_says_of_it(data, name, seconds):
    scheme = sg.StageScheme.named(name)
    labels = st.integers(-1, scheme.n_stages - 1)
    n_epochs = data.draw(st.integers(1, 12))
    rows = data.draw(st.lists(st.lists(labels, min_size=n_epochs, max_size=n_epochs), min_size=1, max_size=4))
    found = statistics_of_many(np.array(rows, dtype=np.int8), scheme, seconds)
    for place, row in enumerate(rows):
        expected = sg.sleep_statistics(sg.Hypnogram(np.array(row, dtype=np.int8), scheme, seconds))
        by_stage = expected.stage_minutes
        for key, values in found.items():
            is_of_stage = key.startswith("stage_minutes_")
            value = by_stage[key[14:]] if is_of_stage else getattr(expected, key)
            assert values[place] == pytest.approx(value, nan_ok=True), key


def test_a_recording_around_the_clock_has_no_latencies():
    labels = np.zeros((1, 2400), dtype=np.int8)  # 20 h
    labels[0, 100:800] = 2
    found = statistics_of_many(labels, sg.StageScheme.named("aasm5"), 30.0)
    assert found["tst_minutes"][0] == 350.0
    assert np.isnan([found[key][0] for key in ("sol_minutes", "se_percent", "rem_latency_minutes")]).all()
