"""Nights brought together by their clocks: zones, unknown starts, lights of another day; wrong options."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import stageguard as sg
from messages import each_mentions, mentions, naming
from stageguard.errors import InputError, StageGuardWarning

START = datetime(2024, 1, 1, 22)
BERLIN = ZoneInfo("Europe/Berlin")


def night(n_epochs, start=None, first=0):
    return sg.Hypnogram((np.arange(n_epochs) + first) % 5, "aasm5", 30.0, start)


def density(n_epochs, start=None):
    return sg.Hypnodensity(np.full((n_epochs, 5), 0.2), "aasm5", 30.0, start)


def after(seconds):
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize("make", [night, density])
@pytest.mark.parametrize(
    ("other_seconds", "options", "n_there"),
    [(0, {"lights_off": 210}, 0), (-60, {}, 3), (240, {}, 2), (60, {"lights_on": 120}, 2), (-120, {}, 1)],
)
def test_all_have_the_first_nights_epochs_when_these_are_kept(make, other_seconds, options, n_there):
    first, other = night(10, START), make(5, after(other_seconds))
    with pytest.warns(StageGuardWarning):
        aligned = sg.align(first, other, keep="first", **options)
    one, two = aligned.nights
    assert one.n_epochs == two.n_epochs
    assert one.start == two.start
    labels = two.labels if make is night else two.argmax
    assert int((labels >= 0).sum()) == n_there
    if make is night and n_there:
        shift = round(other_seconds / 30)
        there = np.flatnonzero(labels >= 0)
        assert labels[there].tolist() == [(place - shift) % 5 for place in there]


@pytest.mark.parametrize("seconds", [86_400, -86_400, 300, -150])
def test_keeping_the_first_needs_a_common_epoch(seconds):
    with pytest.raises(InputError, match=naming("common", 0, 9)):
        sg.align(night(10, START), night(5, after(seconds)), keep="first")


def test_a_start_with_a_zone_and_one_without_are_compared_by_the_clock():
    zoned = night(10, after(60).replace(tzinfo=BERLIN))
    with pytest.warns(StageGuardWarning, match=naming("some starts have", "zone")):
        aligned = sg.align(night(10, START), zoned)
    one, two = aligned.nights
    assert one.labels.tolist() == [2, 3, 4, 0, 1, 2, 3, 4]
    assert two.labels.tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    in_utc = night(10, after(60).replace(tzinfo=BERLIN).astimezone(UTC))
    with pytest.warns(StageGuardWarning, match=naming("taken to be")):
        three = sg.align(zoned, night(10, START), in_utc).nights
    assert three[0] == three[2]
    assert three[1].labels.tolist() == [2, 3, 4, 0, 1, 2, 3, 4]


def test_what_was_assumed_is_in_the_error():
    there = night(10, datetime(2024, 1, 1, 23, tzinfo=UTC))
    with pytest.raises(InputError, match=naming("some starts have", "zone")):
        sg.align(night(10, START), there)


def test_starts_in_two_zones_are_instants():
    there = night(10, START.replace(tzinfo=UTC))
    here = night(10, datetime(2024, 1, 1, 23, 1, tzinfo=timezone(timedelta(hours=1))))
    with pytest.warns(StageGuardWarning):
        one, two = sg.align(there, here).nights
    assert (one.n_epochs, int(one.labels[0]), int(two.labels[0])) == (8, 2, 0)


def test_a_change_of_clocks_lies_between_two_starts():
    before = night(200, datetime(2024, 3, 31, 1, 30, tzinfo=BERLIN))
    spring = night(10, datetime(2024, 3, 31, 3, 30, tzinfo=BERLIN))  # an hour later: two o'clock was three
    with pytest.warns(StageGuardWarning):
        one, two = sg.align(before, spring).nights
    assert one.labels[:3].tolist() == [0, 1, 2]  # epoch 120
    assert one.start == two.start == spring.start
    assert one.start.astimezone(UTC) == datetime(2024, 3, 31, 1, 30, tzinfo=UTC)


def test_a_known_start_counts_beside_an_unknown_one():
    with pytest.warns(StageGuardWarning) as caught:
        aligned = sg.align(night(10, START), night(10), night(10, after(60)))
    assert [each.labels[0] for each in aligned.nights] == [2, 2, 0]
    assert mentions(str(caught[0].message), 2, "not known", 1)
    with pytest.warns(
        StageGuardWarning,
        match=naming(1, 3, "not known", 2),
    ):
        aligned = sg.align(night(10), night(10, START), night(10), night(10, after(60)))
    assert [each.labels[0] for each in aligned.nights] == [2, 2, 2, 0]
    assert {each.start for each in aligned.nights} == {after(60)}


def test_the_only_known_start_is_that_of_all():
    aligned = sg.align(night(3), night(3, START))  # nothing to tell: warnings are errors here
    assert [each.start for each in aligned.nights] == [START, START]


@pytest.mark.parametrize("tolerance", [float("nan"), -1, "x", None, True, float("inf")])
def test_a_tolerance_is_a_number(tolerance):
    with pytest.raises(InputError, match=r"tolerance_seconds is .*, expected "):
        sg.align(night(3, START), night(3, after(14)), tolerance_seconds=tolerance)


def test_lights_are_told_by_the_clock_as_to_every_other_function():
    one, two = night(1000, START), night(1000, START)
    with pytest.warns(StageGuardWarning) as caught:
        aligned = sg.align(one, two, lights_off="00:30", lights_on=datetime(2024, 1, 2, 6))
    assert each_mentions(aligned.notes, ("300 epochs", 40, "left"))
    assert str(caught[0].message) == "; ".join(aligned.notes) + "."
    assert aligned.nights[0].start == datetime(2024, 1, 2, 0, 30)
    of_statistics = sg.sleep_statistics(one, lights_off="00:30", lights_on=datetime(2024, 1, 2, 6))
    assert of_statistics.tib_minutes == aligned.nights[0].n_epochs / 2


@pytest.mark.parametrize("lights", [after(-600), -600, datetime(2023, 12, 30, 23), START.replace(tzinfo=UTC)])
@pytest.mark.parametrize("what", ["lights_off", "lights_on"])
def test_lights_that_cannot_be_meant(lights, what):
    with pytest.raises(InputError, match=f"^{what} is .*, expected"):
        sg.align(night(10, START), night(10, START), **{what: lights})


# ---- what is no night


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: sg.combine(density(3)), ("densities", "Hypnodensity", "densities")),
        (lambda: sg.combine(5), ("densities", 5, "densities")),
        (lambda: sg.combine([density(3)] * 2, weights=2), ("weights", 2, "list")),
    ],
)
def test_what_is_no_night_is_one_line(call, expected):
    with pytest.raises(InputError, match=naming(*expected)):
        call()


@pytest.mark.parametrize("weight", [1e308, 5e-324])
@pytest.mark.parametrize("method", ["mean", "log-pool"])
def test_weights_may_be_of_any_size(weight, method):
    sure = sg.Hypnodensity([[0.8, 0.1, 0.1]], "wnr3", 30.0)
    unsure = sg.Hypnodensity([[0.2, 0.6, 0.2]], "wnr3", 30.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pooled = sg.combine([sure, unsure], method=method, weights=[weight, weight])
    np.testing.assert_allclose(pooled.probabilities, sg.combine([sure, unsure], method=method).probabilities)
