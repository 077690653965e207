"""Statistics of corrected nights, against nights that are corrected and measured one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from stageguard.review.corrections import corrected_statistics


@given(st.data(), st.sampled_from(["aasm5", "wnr3", "ws2"]))
def test_every_stretch_and_draw_is_what_the_corrected_night_gives(data, name):
    scheme = sg.StageScheme.named(name)
    n_epochs = data.draw(st.integers(1, 10))
    row = st.lists(st.integers(0, scheme.n_stages - 1), min_size=n_epochs, max_size=n_epochs)
    labels = np.array(data.draw(row), dtype=np.int8)
    drawn = np.array(data.draw(st.lists(row, min_size=1, max_size=3)), dtype=np.int8)
    first = data.draw(st.integers(0, n_epochs - 1))
    end = data.draw(st.integers(first + 1, n_epochs))
    pieces = np.array([[first, end], [0, n_epochs]])
    of_one = corrected_statistics(labels[None], drawn, pieces, scheme, 30.0)
    of_many = corrected_statistics(drawn, labels[None], pieces, scheme, 30.0)
    for place, (begin, stop) in enumerate(pieces):
        for draw, stages in enumerate(drawn):
            for found, outside, inside in ((of_one, labels, stages), (of_many, stages, labels)):
                corrected = outside.copy()
                corrected[begin:stop] = inside[begin:stop]
                expected = sg.sleep_statistics(sg.Hypnogram(corrected, scheme, 30.0))
                for key, values in found.items():
                    is_of_stage = key.startswith("stage_minutes_")
                    value = expected.stage_minutes[key[14:]] if is_of_stage else getattr(expected, key)
                    if key in ("sol_minutes", "rem_latency_minutes") and np.isnan(value):
                        value = n_epochs * 0.5  # what never comes is as late as the end
                    assert values[place, draw] == pytest.approx(value, nan_ok=True), key
