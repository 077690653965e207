"""`stageguard days`: every sleep, tables over days, and a page."""

from __future__ import annotations

import csv
import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner, error_line

NOON = datetime(2024, 1, 1, 12)
HOUR = 120


@pytest.fixture
def run(capsys) -> Runner:
    return Runner(capsys)


@pytest.fixture(scope="module")
def probabilities() -> np.ndarray:
    """A simulated week at 30 s, with a nap on the second day and a gap on the third."""
    awake = np.tile([0.97, 0.03], (HOUR, 1))
    nights = [
        sg.simulate_night("human-actigraphy-2", hours=8, seed=seed).density.probabilities for seed in range(7)
    ]
    day = [part for night in nights for part in (*[awake] * 11, night, *[awake] * 5)]
    week = np.vstack(day)
    nap = 24 * HOUR + 2 * HOUR
    week[nap : nap + HOUR] = [0.05, 0.95]
    week[48 * HOUR : 50 * HOUR] = np.nan
    return week


@pytest.fixture
def week(tmp_path, probabilities) -> Path:
    path = tmp_path / "week.csv"
    sg.Hypnodensity(probabilities, "ws2", 30, NOON).save(path)
    return path


def days(run, *words, code=0):
    ran = run("days", *words)
    assert ran.code == code, ran.err
    return ran


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_a_week_gives_seven_main_sleeps_with_sidecars_a_table_and_a_page(run, tmp_path, week):
    out = tmp_path / "out"
    [record] = days(run, week, "-p", "human-actigraphy-2", "-o", out, "--json").json
    assert [sleep["kind"] for sleep in record["sleeps"]].count("main") == 7
    assert [sleep["kind"] for sleep in record["sleeps"]].count("nap") == 1
    assert record["over_days"]["n_days"] == 7
    rows = table(out / "week.days.tsv")
    assert [row["counts"] for row in rows] == ["True"] * 7
    assert [float(row["naps"]) for row in rows] == [0, 1, 0, 0, 0, 0, 0]
    assert float(rows[2]["missing_percent"]) == pytest.approx(100 * 2 / 24, rel=1e-4)
    book = json.loads((out / "week.days.json").read_text())
    assert book["stageguard"]["over_days"]["sri"] == pytest.approx(record["over_days"]["sri"])
    assert set(rows[0]) <= set(book)
    assert len(list(out.glob("week.sleep-0?.hypnogram.tsv"))) == 8
    page = (out / "week.days.html").read_text()
    assert page.count("<svg") == 1
    assert "http" not in page.replace("http-equiv", "")


def test_every_sleep_is_as_decoded_alone_and_can_be_verified(run, tmp_path, week, probabilities):
    out = tmp_path / "out"
    [record] = days(run, week, "-p", "human-actigraphy-2", "-o", out, "--json").json
    for number, sleep in enumerate(record["sleeps"][:2], start=1):
        first = sleep["first_epoch"]
        part = probabilities[first : first + sleep["n_epochs"]]
        alone = sg.decode(sg.Hypnodensity(part, "ws2", 30), "human-actigraphy-2")
        path = out / f"week.sleep-{number:02d}.hypnogram.tsv"
        written = sg.read_hypnogram(path)
        assert np.array_equal(written.labels, alone.hypnogram.labels)
        assert written.start == NOON + timedelta(seconds=30 * first)
        assert run("verify", path).code == 0


def test_a_second_run_keeps_what_is_there_and_another_profile_does_not_replace_it(run, tmp_path, week):
    out = tmp_path / "out"
    days(run, week, "-p", "human-actigraphy-2", "-o", out)
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    days(run, week, "-p", "human-actigraphy-2", "-o", out)
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before
    ran = days(run, week, "-p", "kdd2026-actigraphy", "-o", out, code=1)
    assert "--overwrite" in error_line(ran)
    days(run, week, "-p", "kdd2026-actigraphy", "-o", out, "--overwrite")


def test_stages_alone_need_no_profile(run, tmp_path):
    night = {"level": "light", "seconds": 8 * 3600}
    starts = [(NOON + timedelta(days=day, hours=11)).isoformat() for day in range(7)]
    logs = [
        {"dateOfSleep": "x", "startTime": start, "levels": {"data": [night | {"dateTime": start}]}}
        for start in starts
    ]
    path = tmp_path / "sleep-2024-01-01.json"
    path.write_text(json.dumps(logs))
    [record] = days(run, path, "-o", tmp_path / "out", "--json").json
    assert [sleep["kind"] for sleep in record["sleeps"]] == ["main"] * 7
    assert record["over_days"]["mean"]["tst_minutes"] == 480
    written = sg.read_hypnogram(tmp_path / "out" / "sleep-2024-01-01.sleep-07.csv", scheme="wldr4")
    assert sg.sleep_statistics(written).tst_minutes == 480


def test_a_bad_file_is_a_row_and_the_others_go_on(run, tmp_path, week):
    bad = tmp_path / "bad.csv"
    bad.write_text("W,S\n0.5,0.5\n")
    ran = days(
        run, bad, week, "-p", "human-actigraphy-2", "-o", tmp_path / "out", "--jobs", 2, "--json", code=1
    )
    assert [outcome["ok"] for outcome in ran.json] == [False, True]
    assert "start" in ran.json[0]["error"]


def test_lights_bound_sleeps(run, tmp_path, week):
    words = ("-p", "human-actigraphy-2", "--lights", "2024-01-01T22:00,2024-01-02T08:00")
    [record] = days(run, week, *words, "-o", tmp_path / "out", "--json").json
    assert (record["sleeps"][0]["first_epoch"], record["sleeps"][0]["n_epochs"]) == (10 * HOUR, 10 * HOUR)
    assert "--lights" in error_line(days(run, week, *words[:2], "--lights", "soon", code=1))


@pytest.mark.parametrize(
    ("profile", "said"), [("mouse-eeg-emg-3", "mouse"), (None, "--profile"), ("no-such", "no-such")]
)
def test_a_profile_of_mice_or_none_is_refused_in_one_line(run, tmp_path, week, profile, said):
    words = () if profile is None else ("-p", profile)
    assert said in error_line(days(run, week, *words, "-o", tmp_path / "out", code=1))
    assert not (tmp_path / "out").exists()


def test_tables_show_a_row_per_day_and_per_recording(run, tmp_path, week):
    one = days(run, week, "-p", "human-actigraphy-2", "-o", tmp_path / "a").out
    assert all(f"2024-01-{day:02d}" in one for day in range(1, 8))
    other = tmp_path / "other.csv"
    other.write_bytes(week.read_bytes())
    many = days(run, week, other, "-p", "human-actigraphy-2", "-o", tmp_path / "b").out
    assert many.count("other") == 1


def test_decode_says_that_days_exist_for_people_only(run, tmp_path, week):
    assert "stageguard days" in run("decode", week, "-p", "human-actigraphy-2", "-o", tmp_path / "a").out
    mouse = tmp_path / "mouse.csv"
    rows = np.tile([[0.8, 0.1, 0.1]] * 50 + [[0.1, 0.8, 0.1]] * 50, (220, 1))
    sg.Hypnodensity(rows, "wnr3", 4, NOON).save(mouse)
    assert "stageguard days" not in run("decode", mouse, "-p", "mouse-eeg-emg-3", "-o", tmp_path / "b").out


def test_a_night_that_is_no_day_is_listed_without_means(run, tmp_path):
    path = tmp_path / "night.csv"
    sg.Hypnogram([0] * 20 + [1] * 800 + [0] * 20, "ws2", 30, NOON + timedelta(hours=11)).save(
        path, "stageguard-csv"
    )
    ran = days(run, path, "-o", tmp_path / "out", "--json")
    assert ran.json[0]["over_days"]["n_days"] == 0
    assert [sleep["kind"] for sleep in ran.json[0]["sleeps"]] == ["main"]
    days(run, path, "-o", tmp_path / "out")


def test_labels_under_a_profile_are_written_as_decodings_that_verify(run, tmp_path):
    awake, made = np.zeros(8 * HOUR, dtype=int), sg.simulate_night("human-psg-5", hours=8, seed=1)
    labels = np.concatenate([awake, made.density.argmax, awake])
    path = tmp_path / "scored.txt"
    sg.Hypnogram(labels, "aasm5", 30).save(path, "text")
    days(run, path, "-p", "human-psg-5", "--start", NOON.isoformat(), "-o", tmp_path / "out")
    assert run("verify", tmp_path / "out" / "scored.sleep-01.hypnogram.tsv").code == 0
