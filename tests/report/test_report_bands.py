"""The picture of an indicator in its band: places and marks agree, without any colour."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from stageguard.report.pictures import BAND_LEFT, BAND_RIGHT, REACH, BandRow, band_svg, place_of

NAN = math.nan


def row(before, after, before_place, after_place, **other):
    options = {"name": "Stage changes", "unit": "per hour", "low": 10.0, "high": 20.0} | other
    return BandRow(before=before, after=after, before_place=before_place, after_place=after_place, **options)


def marks(svg):
    """Horizontal places of rings, diamonds and crosses."""
    root = ElementTree.fromstring(svg)
    rings = [float(ring.get("cx")) for ring in root.iter("circle")]
    paths = [path.get("d") for path in root.iter("path")]
    diamonds = [float(d[1:].split()[0]) for d in paths if d.endswith("z")]
    crosses = [float(d[1:].split()[0]) + 4.5 for d in paths if "m0 -9" in d]
    return rings, diamonds, crosses


@pytest.mark.parametrize(
    ("value", "zone"),
    [(0.0, "below"), (9.99, "below"), (10.0, "inside"), (15.0, "inside"), (20.0, "inside"), (20.01, "above"),
     (1e9, "above"), (-1e9, "below")],
)  # fmt: skip
def test_a_value_is_drawn_where_it_lies(value, zone):
    x = place_of(value, 10.0, 20.0)
    assert BAND_LEFT - REACH < x < BAND_RIGHT + REACH
    clear = 5  # the mark's half-width: outside the band it must not look inside
    found = "below" if x < BAND_LEFT - clear else "above" if x > BAND_RIGHT + clear else "inside"
    assert found == zone


def test_places_keep_their_order():
    values = [-50, 0, 9, 10, 12, 19, 20, 21, 30, 100, 1000]
    places = [place_of(value, 10.0, 20.0) for value in values]
    assert places == sorted(places)
    assert len(set(places)) == len(places)
    assert place_of(12.5, 10.0, 20.0) == pytest.approx(BAND_LEFT + 0.25 * (BAND_RIGHT - BAND_LEFT))


def test_a_band_without_width_still_has_two_sides():
    assert place_of(0.0, 0.0, 0.0) == (BAND_LEFT + BAND_RIGHT) / 2
    assert place_of(0.1, 0.0, 0.0) > BAND_RIGHT
    assert place_of(-0.1, 0.0, 0.0) < BAND_LEFT


def test_before_is_a_ring_after_a_diamond_expert_a_cross():
    rings, diamonds, crosses = marks(band_svg(row(40.0, 15.0, "above", "inside", expert=12.0)))
    assert rings == [pytest.approx(place_of(40.0, 10.0, 20.0), abs=0.1)]
    assert diamonds == [pytest.approx(place_of(15.0, 10.0, 20.0), abs=0.1)]
    assert crosses == [pytest.approx(place_of(12.0, 10.0, 20.0), abs=0.1)]


def test_what_does_not_exist_has_no_mark_and_names_are_escaped():
    svg = band_svg(row(NAN, 15.0, "", "inside", name="<script>"))
    rings, diamonds, crosses = marks(svg)
    assert (len(rings), len(diamonds), len(crosses)) == (0, 1, 0)
    root = ElementTree.fromstring(svg)
    assert [root.find(name).text for name in ("title", "desc")] == [
        "<script>",
        "stager no value, guarded inside",
    ]
