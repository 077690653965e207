"""Units: spellings, conversions there and back, and what cannot be converted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages import naming
from stageguard import units
from stageguard.errors import InputError


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        *[(text, "uV") for text in ("uV", "µV", "μV", "UV", " uv ", "[µV]", "ÂµV", "microvolt", "uVrms")],
        *[(text, "mV") for text in ("mV", "MV", "millivolts")],
        *[("V", "V"), ("m/s²", "m/s2"), ("m/s^2", "m/s2"), ("°C", "degC"), ("DegC", "degC"), ("Â°C", "degC")],
        *[
            ("1/min", "bpm"),
            ("BPM", "bpm"),
            ("%", "%"),
            ("deg", "deg"),
            ("mmHg", "mmHg"),
            ("counts", "counts"),
        ],
        *[("", None), ("l", None), ("uW", None), ("uV/Hz", None)],
    ],
)
def test_spellings(text, unit):
    assert units.known_unit(text) == unit


@pytest.mark.parametrize(
    ("value", "unit", "wanted", "expected"),
    [
        *[(1.5, "mV", "uV", 1500), (2e-6, "V", "uV", 2), (3, "uV", "mV", 0.003), (5, "nV", "uV", 0.005)],
        *[
            (9.80665, "m/s2", "g", 1),
            (250, "mg", "g", 0.25),
            (1.2, "Hz", "bpm", 72),
            (0.97, "fraction", "%", 97),
        ],
        *[
            (212, "°F", "°C", 100),
            (310.15, "K", "degC", 37),
            (37, "degC", "degF", 98.6),
            (180, "deg", "rad", np.pi),
        ],
        *[(800, "ms", "s", 0.8), (10, "cmH2O", "mmHg", 7.3555912)],
    ],
)
def test_known_conversions(value, unit, wanted, expected):
    assert units.to_unit([value, np.nan], unit, wanted)[0] == pytest.approx(expected, rel=1e-9)
    assert np.isnan(units.to_unit([np.nan], unit, wanted)[0])


@given(
    st.sampled_from(sorted(units.UNITS)),
    st.sampled_from(sorted(units.UNITS)),
    st.floats(-1e6, 1e6),
)
def test_there_and_back(unit, other, value):
    if units.quantity_of(unit) != units.quantity_of(other):
        with pytest.raises(InputError, match="expected"):
            units.scale_to(unit, other)
        return
    back = units.to_unit(units.to_unit([value], unit, other), other, unit)[0]
    assert back == pytest.approx(value, rel=1e-9, abs=1e-6)


def test_errors_say_what_measures_what():
    with pytest.raises(InputError) as error:
        units.to_unit([1], "mV", "g", what="channel 'EMG'")
    for fact in ("channel 'EMG'", "'mV' (voltage)", "'g' (acceleration)"):
        assert fact in str(error.value)
    with pytest.raises(InputError, match=naming("'uVolt'")):
        units.scale_to("uVolt", "uV")
    with pytest.raises(InputError, match=naming("'furlong'")):
        units.scale_to("uV", "furlong")
