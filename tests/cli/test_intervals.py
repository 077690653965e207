"""`stageguard stats --intervals`: what sg.intervals returns, labelled for what it is."""

from __future__ import annotations

import csv
import json

import pytest

import nights
import stageguard as sg
from cli_runner import Runner, error_line, write_night
from messages import mentions
from stageguard.measures.intervals import OF_GOOD_STAGERS, WITHHELD
from stageguard.synthetic.night import simulate_night

BASE = "human-psg-3"
STATISTICS = ["tst_minutes", "se_percent", "sol_minutes", "rem_latency_minutes", "rem_latency_bout_minutes"]
STATISTICS += ["waso_minutes", "awakenings"]
STATISTICS += [f"{kind}_{stage}" for stage in "WNR" for kind in ("minutes", "bouts")]


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    return Runner(capsys)


@pytest.fixture
def night(tmp_path):
    return write_night(tmp_path / "night.csv", BASE)


@pytest.fixture
def fitted(tmp_path):
    """A profile that holds errors of 19 nights, as fit writes them."""
    held = {
        "n_nights": 19,
        "n_subjects": 10,
        "min_first_rem_seconds": 0.0,
        "level_of_coverage": 0.9,
        "errors": {name: [[float(i - 9)] for i in range(19)] for name in STATISTICS},
        "coverage": dict.fromkeys(STATISTICS, 0.895),
        "model_coverage": dict.fromkeys(STATISTICS, 0.421),
    }
    path = tmp_path / "lab.toml"
    sg.Profile.load(BASE).replace(name="lab", cohort="our lab", intervals=held).save(path)
    return path


@pytest.fixture
def decoded(run, night, fitted, tmp_path):
    assert run("decode", night, "-p", fitted, "--cohort", "our lab").code == 0
    return tmp_path / "night.hypnogram.tsv"


def by_name(report):
    return {row["statistic"]: row for row in report["intervals"]}


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ((), {}),
        (("--lights-off", "1800", "--lights-on", "5400"), {"lights_off": 1800, "lights_on": 5400}),
        (("--convention", "yasa", "--min-first-rem-seconds", "300"),
         {"convention": "yasa", "min_first_rem_seconds": 300.0}),
    ],
)  # fmt: skip
def test_intervals_are_those_of_the_api(run, night, fitted, decoded, options, asked):
    (report,) = run("stats", decoded, "--intervals", *options, "--json").lines
    again = nights.decode(sg.read_density(night), sg.Profile.load(fitted), cohort="our lab")
    expected = sg.intervals(again, **asked)
    found = by_name(report)
    assert list(found) == list(expected) == STATISTICS
    for name, one in expected.items():
        told = [each if each is not None else float("nan") for each in map(found[name].get, ENDS)]
        assert told == pytest.approx([one.value, one.low, one.high, one.measured_coverage], nan_ok=True)
    assert {row["n_scored_nights"] for row in found.values()} == {19}
    shown = " ".join(run("stats", decoded, "--intervals", *options).out.split())
    assert ("Covered:" in shown) is any(row["measured_coverage"] is not None for row in found.values())
    assert mentions(shown, "Conformal", 19, 10)


ENDS = ("value", "low", "high", "measured_coverage")


def test_a_built_in_profile_gives_intervals_of_the_model_and_their_coverage(run, night):
    asked = ("stats", night, "-p", BASE, "--intervals")
    (report,) = run(*asked, "--json").lines
    measured = sg.Profile.load(BASE).posterior.coverage["flickering"]
    for row in report["intervals"]:
        assert (row["level"], row["measured_coverage"]) == (0.9, measured[row["statistic"]])
    shown = " ".join(run(*asked).out.split())
    assert "Conformal" not in shown and OF_GOOD_STAGERS in shown
    assert "Covered: share of scored nights of other stagers" in shown


def write_lot(folder, *, n, times_rem=1.0):
    """Nights of one stager, whose probability of REM is so many times the simulated one."""
    for seed in range(n):
        density = simulate_night(BASE, hours=5.5, seed=seed).density
        rows = density.probabilities * [1.0, 1.0, times_rem]
        made = sg.Hypnodensity(rows / rows.sum(axis=1, keepdims=True), density.scheme, 30.0)
        made.save(folder / f"{seed}.csv")
    return folder


def test_a_stager_with_shares_unlike_experts_has_the_intervals_of_all_nights_withheld(run, tmp_path):
    lot = write_lot(tmp_path, n=10, times_rem=60.0)
    asked = ("stats", lot, "-p", BASE, "--intervals")
    rows = [row for report in run(*asked, "--json").lines for row in report["intervals"]]
    assert {(row["low"], row["measured_coverage"], row["reason"]) for row in rows} == {(None, None, WITHHELD)}
    assert " ".join(run(*asked).out.split()).count(f"Intervals {WITHHELD}.") == 1
    (lot / "9.csv").unlink()
    nine = run(*asked, "--json").lines
    assert any(row["low"] is not None for report in nine for row in report["intervals"])


def test_intervals_of_another_cohort_are_withheld(run, night, fitted, tmp_path):
    assert run("decode", night, "-p", fitted, "--cohort", "their lab").code == 0
    asked = ("stats", tmp_path / "night.hypnogram.tsv", "--intervals")
    ran = run(*asked)
    shown = " ".join((ran.out + ran.err).split())
    assert mentions(shown, "lab", "their lab") and "as wide as the errors" not in shown


def test_a_cohort_becomes_one_table_with_a_row_per_night_and_statistic(run, decoded, tmp_path):
    table = tmp_path / "out" / "widths.tsv"
    (report,) = run("stats", decoded, "--intervals", "-o", table, "--json").lines
    rows = list(csv.DictReader(table.read_text().splitlines(), delimiter="\t"))
    assert [(row["id"], row["statistic"]) for row in rows] == [("night", each) for each in STATISTICS]
    assert [float(row["low"]) for row in rows] == pytest.approx([row["low"] for row in report["intervals"]])
    assert {(row["kind"], row["level"], row["measured_coverage"], row["reason"]) for row in rows} == {
        ("conformal", "0.9", "0.895", "n/a")
    }
    book = json.loads(table.with_suffix(".json").read_text())
    assert list(book)[:-1] == list(rows[0])
    assert book["stageguard"]["profiles"] == [report["profile"]]
    table.write_text("mine")
    assert mentions(error_line(run("stats", decoded, "--intervals", "-o", table)), "--overwrite")
    assert table.read_text() == "mine"
