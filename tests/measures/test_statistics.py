"""Sleep statistics of known nights, by every convention, and of many scorings at once."""

import math
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from messages import each_mentions, mentions
from small import refusal
from stageguard.measures.statistics import sleep_statistics, statistics_of_many

W, N1, N2, N3, R, U = 0, 1, 2, 3, 4, -1
START = datetime(2024, 1, 1, 22, 0)
FIELDS = (
    *("tib_minutes", "spt_minutes", "tst_minutes", "waso_minutes", "se_percent", "sme_percent"),
    *("sol_minutes", "sol_5min_minutes", "sol_10min_minutes", "rem_latency_minutes", "awakenings"),
    *("rem_latency_bout_minutes", "awakenings_with_final", "sfi_per_hour", "unscored_minutes", "cycles"),
)


def night_of(*bouts, scheme="aasm5", seconds=30.0, start=None):
    labels = [label for label, n in bouts for _ in range(n)]
    return sg.Hypnogram(np.array(labels, dtype=np.int8), scheme, seconds, start)


# 20 min awake, 4 min asleep, 1 min awake, 16 min asleep with a gap, 2 min awake, 30 min asleep, 5 min awake
KNOWN = (
    (W, 40),
    (N1, 8),
    (W, 2),
    (N2, 20),
    (U, 2),
    (N3, 12),
    (W, 4),
    (N2, 40),
    (R, 1),
    (W, 1),
    (R, 19),
    (W, 10),
)


def test_a_known_night_in_closed_form():
    found = sleep_statistics(night_of(*KNOWN))
    assert found.tib_minutes == 159 * 0.5
    assert found.spt_minutes == 109 * 0.5
    assert found.tst_minutes == (8 + 20 + 12 + 40 + 1 + 19) * 0.5 == 50.0
    assert found.waso_minutes == (2 + 4 + 1) * 0.5
    assert found.se_percent == pytest.approx(100 * 50 / 79.5)
    assert found.sme_percent == pytest.approx(100 * 50 / 54.5)
    assert found.sol_minutes == 20.0
    assert found.sol_5min_minutes == found.sol_10min_minutes == 25.0
    assert found.rem_latency_minutes == (8 + 2 + 20 + 2 + 12 + 4 + 40) * 0.5
    assert (found.awakenings, found.awakenings_with_final) == (3.0, 4.0)
    assert found.sfi_per_hour == pytest.approx(4 / (50 / 60))
    assert found.unscored_minutes == 1.0
    assert found.stage_minutes == {"W": 28.5, "N1": 4.0, "N2": 30.0, "N3": 6.0, "R": 10.0}
    assert found.stage_percent == pytest.approx({"N1": 8.0, "N2": 60.0, "N3": 12.0, "R": 20.0})
    assert found.bouts == {"W": 5, "N1": 1, "N2": 2, "N3": 1, "R": 2}
    assert found.cycles == 1.0
    assert (found.lights_off_epoch, found.lights_on_epoch) == (0, 159)
    assert found.reasons == {}
    assert each_mentions(found.assumed, ("TIB", "neither"))


@pytest.mark.parametrize(("n_sleep", "n_wake", "apart"), [(9, 241, True), (10, 241, False), (9, 240, False)])
def test_luna_disregards_a_little_sleep_long_before_the_rest(n_sleep, n_wake, apart):
    early = night_of((W, 30), (N1, n_sleep), (W, n_wake), (N2, 100))
    assert sleep_statistics(early).sol_minutes == 15.0
    found = sleep_statistics(early, convention="luna")
    assert found.sol_minutes == (15.0 + (n_sleep + n_wake) / 2 if apart else 15.0)
    assert found.unscored_minutes == (n_sleep / 2 if apart else 0.0)
    assert early.labels[30] == N1


def test_without_sleep_what_is_about_sleep_is_nan_with_the_reason():
    found = sleep_statistics(night_of((W, 30)))
    assert (found.tst_minutes, found.se_percent, found.tib_minutes) == (0.0, 0.0, 15.0)
    nan = {name for name in FIELDS if math.isnan(getattr(found, name))}
    assert nan == {
        *("spt_minutes", "waso_minutes", "sme_percent", "sol_minutes", "sol_5min_minutes"),
        *("sol_10min_minutes", "rem_latency_minutes", "awakenings", "awakenings_with_final"),
        *("sfi_per_hour", "cycles", "rem_latency_bout_minutes"),
    }
    assert found.reasons == dict.fromkeys([*nan, "stage_percent"], "no epoch is scored as sleep")
    assert all(math.isnan(percent) for percent in found.stage_percent.values())
    assert sleep_statistics(night_of((W, 30)), convention="yasa").spt_minutes == 0.0


def test_an_unscored_night_has_no_sleep_time_at_all():
    found = sleep_statistics(night_of((U, 10)))
    assert math.isnan(found.tst_minutes)
    assert math.isnan(found.se_percent)
    assert (found.tib_minutes, found.unscored_minutes) == (5.0, 5.0)
    assert set(found.reasons.values()) == {"no epoch is scored"}


def test_efficiency_is_nan_when_most_of_the_night_is_unscored():
    half, more = (sleep_statistics(night_of((N2, 10), (U, n), (N2, 10))) for n in (20, 21))
    assert (half.se_percent, half.sme_percent) == (50.0, 50.0)
    assert math.isnan(more.se_percent)
    assert math.isnan(more.sme_percent)
    assert more.reasons["sme_percent"] == "21 of 41 epochs are unscored"
    assert more.tst_minutes == 10.0
    unscored = night_of((N2, 10), (U, 21), (N2, 10))
    assert sleep_statistics(unscored, convention="yasa").se_percent == pytest.approx(100 * 20 / 41)


@pytest.mark.parametrize(
    ("bouts", "field", "reason"),
    [
        (((W, 4), (N2, 9), (W, 4)), "sol_5min_minutes", ("5 min", "break")),
        (
            ((W, 4), (N2, 19), (U, 1), (N2, 19)),
            "sol_10min_minutes",
            ("10 min", "break"),
        ),
        (((W, 4), (N2, 19)), "rem_latency_minutes", ("there is no REM",)),
    ],
)
def test_a_latency_that_is_never_reached_is_nan(bouts, field, reason):
    found = sleep_statistics(night_of(*bouts))
    assert math.isnan(getattr(found, field))
    assert mentions(found.reasons[field], *reason)


def test_stages_a_scheme_lacks_are_reasons():
    two = sleep_statistics(night_of((0, 4), (1, 30), (0, 4), scheme="ws2"))
    assert two.tst_minutes == 15.0
    absent = ("rem_latency_minutes", "rem_latency_bout_minutes", "cycles")
    assert two.reasons == dict.fromkeys(absent, "scheme 'ws2' has no REM stage")
    custom = sg.StageScheme.custom(["active", "quiet"])
    none = sleep_statistics(night_of((0, 4), (1, 30), scheme=custom))
    assert mentions(none.reasons["tst_minutes"], "'custom'", "wake")
    assert none.stage_minutes == {"active": 2.0, "quiet": 15.0}
    assert math.isnan(none.tst_minutes)
    assert (none.tib_minutes, none.unscored_minutes) == (17.0, 0.0)


@given(
    st.lists(st.sampled_from([U, W, N2, R]), min_size=1, max_size=60),
    st.integers(1, 5),
    st.sampled_from(["aasm", "yasa"]),
)
def test_a_lasting_rem_bout_is_the_first_of_its_length_counted_epoch_by_epoch(labels, n_epochs, convention):
    night = sg.Hypnogram(np.array(labels, dtype=np.int8), "aasm5", 30.0)
    found = sleep_statistics(night, convention=convention, min_first_rem_seconds=30.0 * n_epochs)
    asleep = [i for i, label in enumerate(labels) if label > 0]
    begins = [i for i in range(len(labels)) if labels[i : i + n_epochs] == [R] * n_epochs]
    if not begins:
        assert math.isnan(found.rem_latency_bout_minutes)
        return
    onset = asleep[0] if convention == "aasm" else 0
    assert found.rem_latency_bout_minutes == pytest.approx((begins[0] - onset) / 2)


# 22:00 to 06:00, asleep from 22:30 to 05:30
EIGHT = ((W, 60), (N2, 840), (W, 60))


@pytest.mark.parametrize(
    ("off", "on"),
    [
        (1200, 27600),
        (40.0 * 30, 920.0 * 30),
        (timedelta(minutes=20), timedelta(minutes=460)),
        ("22:20", "05:40"),
        ("22:20:14", "05:40:14"),  # to the nearest epoch
        (START + timedelta(minutes=20), START + timedelta(minutes=460)),
        (np.int64(1200), np.float64(27600.0)),
    ],
)
def test_lights_may_be_given_in_seconds_or_as_times(off, on):
    found = sleep_statistics(night_of(*EIGHT, start=START), lights_off=off, lights_on=on)
    assert (found.lights_off_epoch, found.lights_on_epoch) == (40, 920)
    assert (found.tib_minutes, found.sol_minutes, found.tst_minutes) == (440.0, 10.0, 420.0)
    assert found.assumed == ()


@pytest.mark.parametrize(
    ("options", "patterns"),
    [
        ({"lights_off": 28831}, [r"lights_off is 28831, 8\.01 h after the recording starts"]),
        ({"lights_off": "25:00"}, [r"lights_off is '25:00', expected a time of day such as '07:00'"]),
        ({"lights_off": float("nan")}, [r"lights_off is nan, expected a finite number"]),
        ({"lights_on_phase": "7"}, [r"lights_on_phase is '7', expected a time of day"]),
        ({"convention": "luma"}, [r"convention is 'luma'"]),
        ({"min_first_rem_seconds": -1}, [r"min_first_rem_seconds is -1, expected at least 0\.$"]),
    ],
)
def test_wrong_options_say_what_was_expected(options, patterns):
    with pytest.raises(sg.InputError) as error:
        sleep_statistics(night_of(*EIGHT, start=START), **options)
    refusal(error, *patterns)


def test_to_dict_speaks_yasa_and_every_number_has_a_unit():
    found = sleep_statistics(night_of(*KNOWN))
    numbers = found.to_dict()
    assert list(numbers) == list(found.units)
    assert numbers["REM_latency"] == 44.0
    assert numbers["WAKE"] == 28.5
    assert numbers["%REM"] == pytest.approx(20.0)
    assert (numbers["NoA"], numbers["NoA_total"], numbers["NREMC"], numbers["UNS"]) == (3, 4, 1, 1.0)
    assert {found.units[key] for key in ("TIB", "N1", "SOL_10min", "UNS")} == {"min"}
    assert (found.units["SE"], found.units["%N1"], found.units["SFI"]) == (
        "% of TIB",
        "% of TST",
        "per hour of TST",
    )
    three = sleep_statistics(night_of((0, 9), (1, 30), (2, 9), scheme="wnr3")).to_dict()
    assert three["NREM"] == 15.0
    assert {"WAKE", "%NREM", "%REM"} < three.keys()
    assert "N1" not in three
    assert repr(found).startswith("<SleepStatistics aasm: TIB=79.5, SPT=54.5,")


# A mouse: 24 h of 4-s epochs from 05:00, asleep half of each light hour and none of the dark.
def mouse_day():
    labels = np.zeros(21600, dtype=np.int8)
    clock = (5 * 3600 + 4 * np.arange(21600)) % 86400
    in_light = (clock >= 7 * 3600) & (clock < 19 * 3600)
    labels[in_light & (clock % 3600 < 1500)] = 1
    labels[in_light & (clock % 3600 >= 1500) & (clock % 3600 < 1800)] = 2
    return sg.Hypnogram(labels, "wnr3", 4.0, datetime(2024, 3, 1, 5))


def test_a_day_has_no_bedtime_and_says_so():
    found = sleep_statistics(mouse_day(), lights_on_phase="07:00")
    assert found.tst_minutes == 360.0
    for field in (
        "sol_minutes",
        "sol_5min_minutes",
        "sol_10min_minutes",
        "se_percent",
        "rem_latency_minutes",
    ):
        assert math.isnan(getattr(found, field))
        assert mentions(found.reasons[field], "24.0 h", "single")
    assert math.isnan(found.cycles)
    assert mentions(found.reasons["cycles"], "cycles", "defined")
    night_only = sleep_statistics(mouse_day(), lights_off="07:00", lights_on="19:00")
    assert (night_only.se_percent, night_only.sol_minutes, night_only.rem_latency_minutes) == (
        50.0,
        0.0,
        25.0,
    )


@pytest.mark.parametrize(("n_epochs", "is_nan"), [(2399, False), (2400, True)])
def test_twenty_hours_make_a_day(n_epochs, is_nan):
    found = sleep_statistics(night_of((W, 5), (N2, n_epochs - 5)))
    assert math.isnan(found.se_percent) is is_nan
    assert found.is_of_longest_sleep is is_nan


def test_light_and_dark_are_told_apart():
    phases = sleep_statistics(mouse_day(), lights_on_phase="07:00").phases
    light, dark = phases["light"], phases["dark"]
    assert light.n_epochs == dark.n_epochs == 10800
    assert light.stage_minutes == pytest.approx({"W": 360.0, "N": 300.0, "R": 60.0})
    assert light.stage_percent == pytest.approx({"W": 50.0, "N": 300 / 7.2, "R": 60 / 7.2})
    assert dark.stage_percent == {"W": 100.0, "N": 0.0, "R": 0.0}
    # wake that begins at 18:30 goes on through the dark; the dark before 07:00 begins with the recording
    assert light.bouts == {"W": 12, "N": 12, "R": 12}
    assert light.mean_bout_minutes == pytest.approx({"W": (11 * 30 + 630) / 12, "N": 25.0, "R": 5.0})
    assert dark.bouts == {"W": 1, "N": 0, "R": 0}
    assert dark.mean_bout_minutes["W"] == 120.0
    assert math.isnan(dark.mean_bout_minutes["N"])


def test_hours_follow_the_lights():
    hours = sleep_statistics(mouse_day(), lights_on_phase="07:00").hours
    assert [hour.name for hour in hours] == [f"ZT {(22 + k) % 24}" for k in range(24)]
    assert {hour.n_epochs for hour in hours} == {900}
    assert hours[1].stage_minutes == {"W": 60.0, "N": 0.0, "R": 0.0}
    assert hours[2].stage_minutes == pytest.approx({"W": 30.0, "N": 25.0, "R": 5.0})
    half_past = sleep_statistics(mouse_day(), lights_on_phase="07:30").hours
    assert [half_past[0].n_epochs, half_past[-1].n_epochs, len(half_past)] == [450, 450, 25]


def test_without_a_light_cycle_hours_count_from_lights_off_and_there_are_no_phases():
    found = sleep_statistics(night_of(*EIGHT), lights_off=1800)
    assert [hour.name for hour in found.hours] == [f"hour {k}" for k in range(8)]
    assert [hour.scored_minutes for hour in found.hours] == [60.0] * 7 + [30.0]
    assert found.phases == {}


labels = st.lists(st.integers(-1, 4), min_size=1, max_size=80)


def numbers(values, **options):
    return sleep_statistics(sg.Hypnogram(np.array(values, dtype=np.int8), "aasm5", 30.0), **options)


@given(labels, st.integers(1, 9))
def test_unscored_epochs_at_the_end_change_tib_only(values, n_more):
    before, after = numbers(values, convention="yasa"), numbers([*values, *[U] * n_more], convention="yasa")
    assert after.tib_minutes == before.tib_minutes + n_more / 2
    assert after.unscored_minutes == before.unscored_minutes + n_more / 2
    kept = [name for name in FIELDS if name not in ("tib_minutes", "unscored_minutes", "se_percent")]
    assert [getattr(after, n) for n in kept] == pytest.approx([getattr(before, n) for n in kept], nan_ok=True)
    assert after.bouts == before.bouts


@given(labels, st.permutations([0, 1, 2, 3, 4]))
def test_the_order_of_the_stages_in_a_scheme_does_not_matter(values, order):
    names = np.array(["W", "N1", "N2", "N3", "R"])
    scheme = sg.StageScheme.custom(names[order].tolist(), wake="W", rem="R")
    places = np.append(np.argsort(order), U)
    renamed = sg.Hypnogram(places[values].astype(np.int8), scheme, 30.0)
    assert sleep_statistics(renamed).to_dict() == pytest.approx(numbers(values).to_dict(), nan_ok=True)


@given(labels, st.sampled_from(["aasm", "yasa", "luna"]))
def test_exactly_what_is_nan_has_a_reason(values, convention):
    found = numbers(values, convention=convention)
    absent = {name for name in FIELDS if math.isnan(getattr(found, name))}
    if any(map(math.isnan, found.stage_percent.values())):
        absent.add("stage_percent")
    assert set(found.reasons) == absent


def test_a_long_recording_without_lights_is_measured_in_its_longest_sleep():
    """Else all wake between a nap's epoch and the night counts as wake after sleep onset."""
    night = "W" * 40 + "NNNNNNNNNRRWNN" * 60 + "W" * 40
    day = ("W" * 60 + "N" + "W" * 60) * 7
    found = sg.sleep_statistics(sg.read_hypnogram(list(day + night + day), epoch_seconds=30))
    alone = sg.sleep_statistics(sg.read_hypnogram(list(night), epoch_seconds=30))
    for name in ("waso_minutes", "tst_minutes", "rem_latency_minutes", "awakenings"):
        assert getattr(found, name) == getattr(alone, name)
    assert np.isnan([found.sol_minutes, found.se_percent]).all()
    assert "give lights off and lights on" in found.reasons["sol_minutes"]
    assert "sleep period of the longest sleep (epochs 888 to 1,727)" in found.assumed[0]


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
