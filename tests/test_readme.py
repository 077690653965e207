"""README: its length, and every figure held to the result it comes from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import stageguard as sg
from stageguard.night.quantities import quantity_of

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text("utf-8")
SHOWN = ("tst_minutes", "se_percent", "sol_minutes", "rem_latency_minutes", "waso_minutes")  # of the picture


def test_it_is_short():
    lines = TEXT.splitlines()
    assert len(lines) <= 90
    assert [line for line in lines if len(line) > 120] == []


def test_the_example_is_nearer_to_the_truth_after_decoding():
    night = sg.simulate_night("human-psg-5", seed=1)
    result = sg.decode(night.density, "human-psg-5")
    truth, after = sg.sleep_statistics(night.expert), sg.sleep_statistics(result)
    before = sg.sleep_statistics(sg.Hypnogram(result.argmax, "aasm5", 30))
    for name in SHOWN:
        true = getattr(truth, name)
        assert abs(getattr(after, name) - true) < abs(getattr(before, name) - true), name
    said = " ".join(TEXT.split())
    assert (
        f"REM latency {truth.rem_latency_minutes:g} min, sleep onset latency {truth.sol_minutes:g} min"
        in said
    )
    assert f"wake after sleep onset {truth.waso_minutes:g} min" in said


def test_the_table_is_that_of_the_graded_stagers():
    results = json.loads((ROOT / "studies" / "expert-units" / "results.json").read_text("utf-8"))
    good = [stager["verdicts"] for stager in results["stagers"].values() if stager["good"]]
    keys = {quantity_of(key).title.lower(): key for key in good[0]}

    def counted(names: list[str], verdict: str) -> str:
        counts = {sum(verdicts[keys[name]] == verdict for verdicts in good) for name in names}
        return " to ".join(map(str, sorted({min(counts), max(counts)}))) + f" of {len(good)}"

    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| [^|]+ \|$", TEXT, re.MULTILINE)[1:]
    assert len(rows) == 5
    for statistics, expert, worse in rows:
        names = [name.strip().lower() for name in statistics.split(",")]
        assert (expert, worse) == (counted(names, "as an expert"), counted(names, "worse")), statistics


@pytest.mark.parametrize("kind", ["good", "flickering"])
def test_the_errors_are_those_of_real_nights(kind):
    page = (ROOT / "docs" / "real-nights.md").read_text("utf-8")
    row = re.search(rf"^\| {kind} \(\d+\): `clock \+ target` .*$", page, re.MULTILINE)
    assert row is not None
    (error,) = re.findall(r"\| (\d\.\d\d) \(\d", row[0])
    assert f"{error} of" in TEXT


def test_the_number_of_tasks_is_that_of_real_nights():
    page = (ROOT / "docs" / "real-nights.md").read_text("utf-8")
    groups = re.findall(r"^\| (?:good|flickering|neither) \((\d+)\): `fit`", page, re.MULTILINE)
    assert len(groups) == 3
    assert f"Over {sum(map(int, groups))} tasks" in " ".join(TEXT.split())
