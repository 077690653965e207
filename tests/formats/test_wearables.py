"""Days from wearables: asleep, GGIR, exports of Fitbit and Apple Health, in files as these write them."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

import stageguard as sg
from messages import mentions
from stageguard.formats.tools.wearables import MOST_DAYS

EVENING = datetime(2024, 1, 1, 23)


def minutes_asleep(path: Path) -> list[float]:
    """Return the minutes asleep of each sleep."""
    night = sg.read_hypnogram(path)
    lights = [[end * night.epoch_seconds for end in sleep] for sleep in sg.find_sleeps(night)]
    return [sg.sleep_statistics(night, lights_off=off, lights_on=on).tst_minutes for off, on in lights]


def write_csv(path: Path, header: str, rows: list[tuple[object, ...]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header.split(), *rows])
    return path


# ---- asleep


def asleep_rows(n_days: int) -> list[tuple[object, ...]]:
    names = {-1: ("non_wear", "non_wear"), 0: ("wake", "wake"), 2: ("sleep", "NREM"), 4: ("sleep", "REM")}
    codes = ([0] * 1320 + [2] * 600 + [4] * 200 + [2] * 160 + [-1] * 30 + [0] * 570) * n_days
    return [
        (datetime(2024, 1, 1, 12, 0, 7) + timedelta(seconds=30 * row), *names[code], code)
        for row, code in enumerate(codes)
    ]


@pytest.mark.proves("asleep-csv")
def test_asleep_gives_its_stages_and_seven_main_sleeps(tmp_path):
    header = "time sleep_wake sleep_stage raw_label"
    path = write_csv(tmp_path / "predictions.csv", header, asleep_rows(7))
    night = sg.read_hypnogram(path)
    assert (night.scheme.name, night.epoch_seconds, night.start) == (
        "wnr3",
        30,
        datetime(2024, 1, 1, 12, 0, 7),
    )
    assert [*night.stages[[0, 1320, 1920, 2280]]] == ["W", "N", "R", "?"]
    assert minutes_asleep(path) == [480] * 7


def test_rows_that_asleep_left_out_are_unscored(tmp_path):
    rows = asleep_rows(1)
    path = write_csv(tmp_path / "p.csv", "time sleep_wake sleep_stage raw_label", rows[:10] + rows[20:])
    assert [*sg.read_hypnogram(path).stages[8:22]] == ["W"] * 2 + ["?"] * 10 + ["W"] * 2


def test_a_stage_that_asleep_does_not_have_is_refused(tmp_path):
    rows = [*asleep_rows(1)[:2], (datetime(2024, 1, 1, 12, 1, 7), "sleep", "N4", 9)]
    path = write_csv(tmp_path / "p.csv", "time sleep_wake sleep_stage raw_label", rows)
    with pytest.raises(sg.FileFormatError, match="line 4"):
        sg.read_hypnogram(path, format="asleep-csv")


# ---- GGIR


def ggir_rows(start: datetime, *, n_days: int = 7, bouts: bool = True) -> list[tuple[object, ...]]:
    rows = []
    for minute in range(n_days * 1440):
        of_day = minute % 1440
        in_period = 660 <= of_day < 1140
        asleep = in_period and of_day % 60 != 0
        nap = 120 <= of_day < 180
        invalid = int(300 <= of_day < 360)
        row = (
            start.timestamp() + 60 * minute, 12.5, int(in_period), invalid, 2, minute // 1440,
            0 if asleep else 1,
        )  # fmt: skip
        rows.append((*row, 2 if nap else int(asleep)) if bouts else row)
    return rows


GGIR_HEADER = "timenum ACC SleepPeriodTime invalidepoch guider window class_id"


@pytest.mark.proves("ggir-csv")
def test_ggir_gives_sleep_in_the_period_naps_and_invalid_epochs(tmp_path):
    noon = datetime(2024, 1, 1, 12, tzinfo=ZoneInfo("America/New_York"))
    path = write_csv(tmp_path / "ms5.csv", f"{GGIR_HEADER} sibdetection", ggir_rows(noon))
    night = sg.read_hypnogram(path)
    assert (night.scheme.name, night.epoch_seconds, night.start) == ("ws2", 60, noon.astimezone(UTC))
    assert [*night.stages[[0, 120, 300, 660, 661]]] == ["W", "S", "?", "W", "S"]
    assert minutes_asleep(path)[1::2] == [472] * 7


def test_ggir_without_bouts_takes_the_class_of_sleep(tmp_path):
    rows = ggir_rows(datetime(2024, 1, 1, 12, tzinfo=UTC), n_days=1, bouts=False)
    stages = sg.read_hypnogram(write_csv(tmp_path / "ms5.csv", GGIR_HEADER, rows)).stages
    assert [*stages[[120, 660, 661]]] == ["W", "W", "S"]


# ---- Fitbit


def fitbit_log(start: datetime, levels: list[tuple[str, int]], kind: str = "stages") -> dict[str, object]:
    data, at = [], start
    for level, minutes in levels:
        data.append(
            {"dateTime": at.isoformat(timespec="milliseconds"), "level": level, "seconds": 60 * minutes}
        )
        at += timedelta(minutes=minutes)
    return {
        "logId": 1, "dateOfSleep": at.date().isoformat(),
        "startTime": start.isoformat(timespec="milliseconds"),
        "endTime": at.isoformat(timespec="milliseconds"),
        "duration": int((at - start).total_seconds() * 1000), "type": kind,
        "levels": {"summary": {}, "data": data, "shortData": []}, "mainSleep": True,
    }  # fmt: skip


NIGHT = [("wake", 10), ("light", 200), ("deep", 60), ("rem", 90), ("light", 120)]


def write_fitbit(path: Path, logs: list[dict[str, object]]) -> Path:
    path.write_text(json.dumps(logs))
    return path


@pytest.mark.proves("fitbit-json")
def test_fitbit_gives_seven_main_sleeps_latest_first_or_not(tmp_path):
    logs = [fitbit_log(EVENING + timedelta(days=day, hours=2), NIGHT) for day in range(7)]
    path = write_fitbit(tmp_path / "sleep-2024-01-01.json", logs[::-1])
    assert sg.read_hypnogram(path).scheme.name == "wldr4"
    assert minutes_asleep(path) == [470] * 7


def test_short_awakenings_of_fitbit_lie_within_sleep(tmp_path):
    log = fitbit_log(EVENING, NIGHT)
    short = EVENING + timedelta(minutes=30, seconds=30)
    log["levels"]["shortData"] = [{"dateTime": short.isoformat(), "level": "wake", "seconds": 90}]
    night = sg.read_hypnogram(write_fitbit(tmp_path / "sleep.json", [log]))
    assert [*night.stages[60:66]] == ["Light", "W", "W", "W", "Light", "Light"]
    assert (night.n_epochs, night.start) == (960, EVENING)


def test_a_classic_log_of_fitbit_is_wake_and_sleep(tmp_path):
    log = fitbit_log(EVENING, [("asleep", 60), ("restless", 5), ("asleep", 300), ("awake", 5)], "classic")
    night = sg.read_hypnogram(write_fitbit(tmp_path / "sleep.json", [log]))
    assert night.scheme.name == "ws2"
    assert sg.sleep_statistics(night).tst_minutes == 360


@pytest.mark.parametrize(("scheme", "tst"), [(None, 470 + 60), ("wldr4", 470)])
def test_a_nap_without_stages_costs_the_stages_unless_they_are_asked_for(tmp_path, scheme, tst):
    nap = fitbit_log(EVENING - timedelta(hours=8), [("asleep", 60)], "classic")
    path = write_fitbit(tmp_path / "sleep.json", [nap, fitbit_log(EVENING, NIGHT)])
    night = sg.read_hypnogram(path, scheme=scheme)
    assert night.scheme.name == (scheme or "ws2")
    assert sg.sleep_statistics(night).tst_minutes == tst
    assert len(night.assumed) == 1


def test_a_day_without_a_log_is_missing(tmp_path):
    logs = [fitbit_log(EVENING + timedelta(days=day), NIGHT) for day in (0, 2)]
    night = sg.read_hypnogram(write_fitbit(tmp_path / "sleep.json", logs))
    assert [(day == -1).all() for day in night.labels.reshape(3, 2880)] == [False, True, False]


def test_a_sleep_of_fitbit_goes_on_when_the_clock_is_changed(tmp_path):
    log = fitbit_log(EVENING, NIGHT)
    for entry in log["levels"]["data"][2:]:  # the phone's clock went forward during light sleep
        entry["dateTime"] = (datetime.fromisoformat(entry["dateTime"]) + timedelta(hours=1)).isoformat()
    night = sg.read_hypnogram(write_fitbit(tmp_path / "sleep.json", [log]))
    assert (night.n_epochs, sg.sleep_statistics(night).tst_minutes) == (960, 470)


@pytest.mark.parametrize("logs", [[], [{"dateOfSleep": "x", "startTime": "x"}], {"sleep": None}])
def test_what_is_no_export_of_fitbit_is_refused(tmp_path, logs):
    with pytest.raises(sg.FileFormatError):
        sg.read_hypnogram(write_fitbit(tmp_path / "sleep.json", logs), format="fitbit-json")


# ---- Apple Health


def apple_record(source: str, value: str, start: datetime, minutes: float, zone: str = "") -> str:
    end = (start.astimezone(UTC) + timedelta(minutes=minutes)).astimezone(start.tzinfo)
    times = (
        f'{name}="{moment:%Y-%m-%d %H:%M:%S %z}"' for name, moment in (("startDate", start), ("endDate", end))
    )
    entry = f'<MetadataEntry key="HKTimeZone" value="{zone}"/>' if zone else ""
    return (
        f'<Record type="HKCategoryTypeIdentifierSleepAnalysis" sourceName="{source}" {" ".join(times)} '
        f'value="HKCategoryValueSleepAnalysis{value}">{entry}</Record>'
    )


DOCTYPE = (
    "<!DOCTYPE HealthData [\n<!ELEMENT HealthData (Record*)>\n<!ATTLIST Record type CDATA #REQUIRED>\n]>"
)


def write_apple(path: Path, records: list[str]) -> Path:
    steps = '<Record type="HKQuantityTypeIdentifierStepCount" sourceName="Phone" value="12"/>'
    body = "\n".join([steps, *records, steps])
    path.write_text(f'<?xml version="1.0"?>\n{DOCTYPE}\n<HealthData locale="en">\n{body}\n</HealthData>\n')
    return path


STAGES = (("AsleepCore", 200), ("AsleepDeep", 60), ("AsleepREM", 90), ("Awake", 10), ("AsleepCore", 120))


def apple_night(start: datetime, zone: str = "") -> list[str]:
    records, at = [apple_record("Phone", "InBed", start, 500, zone)], start
    for value, minutes in STAGES:
        records.append(apple_record("Watch", value, at, minutes, zone))
        at = (at.astimezone(UTC) + timedelta(minutes=minutes)).astimezone(start.tzinfo)
    return records


@pytest.mark.proves("apple-health")
def test_apple_gives_seven_main_sleeps_across_a_change_of_clocks(tmp_path):
    zone = ZoneInfo("Europe/Berlin")
    nights = [datetime(2024, 3, 28 + day, 23, tzinfo=zone) for day in range(4)]
    nights += [datetime(2024, 4, 1 + day, 23, tzinfo=zone) for day in range(3)]
    records = [record for night in nights for record in apple_night(night, "Europe/Berlin")]
    path = write_apple(tmp_path / "export.xml", records)
    assert sg.read_hypnogram(path).scheme.name == "wldr4"
    assert minutes_asleep(path) == [470] * 7


def test_the_source_with_the_most_sleep_is_read_and_the_others_named(tmp_path):
    start = datetime(2024, 1, 1, 23, tzinfo=UTC)
    records = [*apple_night(start), apple_record("Ring", "AsleepUnspecified", start, 60)]
    night = sg.read_hypnogram(write_apple(tmp_path / "export.xml", records))
    assert night.scorer == "Watch"
    assert any("Ring" in note for note in night.assumed)
    assert sg.sleep_statistics(night).tst_minutes == 470


def test_apple_with_two_offsets_and_no_zone_says_at_which_its_times_are(tmp_path):
    before, after = (
        datetime(2024, 3, day, 23, tzinfo=timezone(timedelta(hours=h))) for day, h in ((29, 1), (31, 2))
    )
    path = write_apple(tmp_path / "export.xml", [*apple_night(before), *apple_night(after)])
    assert any(mentions(note, "+0100", "--timezone") for note in sg.read_hypnogram(path).assumed)


def test_apple_without_stages_is_wake_and_sleep(tmp_path):
    records = [apple_record("Phone", "Asleep", datetime(2024, 1, 1, 23, 0, 13, tzinfo=UTC), 400)]
    night = sg.read_hypnogram(write_apple(tmp_path / "export.xml", records))
    assert (night.scheme.name, set(night.stages)) == ("ws2", {"S"})


def test_of_years_the_last_days_are_read(tmp_path):
    starts = [datetime(2020, 1, 1, 23, tzinfo=UTC) + timedelta(days=100 * n) for n in range(8)]
    path = write_apple(
        tmp_path / "export.xml", [apple_record("W", "AsleepDeep", each, 400) for each in starts]
    )
    night = sg.read_hypnogram(path)
    assert night.n_epochs <= MOST_DAYS * 2880
    assert (night.stages == "Deep").sum() == 4 * 800


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([apple_record("Phone", "InBed", datetime(2024, 1, 1, tzinfo=UTC), 60)], "no sleep"),
        (
            [
                '<Record type="HKCategoryTypeIdentifierSleepAnalysis" '
                'value="HKCategoryValueSleepAnalysisAwake"/>'
            ],
            "times",
        ),
        (["<broken"], "XML"),
    ],
)
def test_an_export_without_sleep_or_times_is_refused(tmp_path, records, said):
    with pytest.raises(sg.FileFormatError, match=said):
        sg.read_hypnogram(write_apple(tmp_path / "export.xml", records))
