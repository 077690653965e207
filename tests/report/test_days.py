"""The page of days: rows of 24 h, and numbers as a reader sees them."""

from __future__ import annotations

import re
from datetime import datetime

import numpy as np
import pytest

import stageguard as sg
from stageguard.report.days import COLOURS, IN_MAIN, IN_NAP, clock_text, days_page, raster

HOUR = 120


def found() -> sg.Days:
    """Two days with a main sleep from 23:00 to 7:00, a nap from 14:00 on the first, a gap on the second."""
    first = [0] * 2 * HOUR + [1] * HOUR + [0] * 8 * HOUR + [1] * 8 * HOUR + [0] * 5 * HOUR
    second = [-1] * 3 * HOUR + [0] * 8 * HOUR + [1] * 8 * HOUR + [0] * 5 * HOUR
    return sg.days(sg.Hypnogram(np.array(first + second), "ws2", 30, datetime(2024, 1, 1, 12)))


def bars(picture: str, state: int) -> list[tuple[float, float]]:
    """Left edge and width of the bars of a state, without the square of the legend."""
    shapes = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="18.0" fill="(.*?)"', picture)
    return [(float(x), float(width)) for x, width, fill in shapes if fill == COLOURS[state]]


def test_bars_stand_at_the_hours_of_the_sleeps():
    picture = raster(found(), "week")
    plot = 960 - 96 - 24
    assert bars(picture, IN_MAIN) == [pytest.approx((96 + plot * 11 / 24, plot * 8 / 24), abs=0.02)] * 2
    assert bars(picture, IN_NAP) == [pytest.approx((96 + plot * 2 / 24, plot / 24), abs=0.02)]


def test_a_page_is_complete_and_escapes_names():
    page = days_page(found(), "<b>week</b>", ["a remark & more"])
    assert "<b>week" not in page
    assert "a remark &amp; more" in page
    assert page.count('<th scope="row"') == 2 + 2 + 3


@pytest.mark.parametrize(
    ("hours", "text"), [(0, "12:00"), (11.5, "23:30"), (15.999, "04:00"), (-0.5, "11:30")]
)
def test_hours_after_noon_are_shown_as_times(hours, text):
    assert clock_text(hours) == text
    assert clock_text(float("nan")) == "–"
