"""`stageguard intervals`: what sg.intervals returns, labelled for what it is."""

from __future__ import annotations

import csv
import json
import math

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
OURS = ("--cohort", "our lab")


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
    errors = {name: [[float(i - 9)] for i in range(19)] for name in STATISTICS}
    held = {
        "n_nights": 19,
        "n_subjects": 10,
        "min_first_rem_seconds": 0.0,
        "level_of_coverage": 0.9,
        "errors": errors,
        "coverage": dict.fromkeys(STATISTICS, 0.895),
        "model_coverage": dict.fromkeys(STATISTICS, 0.421),
    }
    path = tmp_path / "lab.toml"
    sg.Profile.load(BASE).replace(name="lab", cohort="our lab", intervals=held).save(path)
    return path


def by_name(report, kind="conformal"):
    return {row["statistic"]: row for row in report["intervals"] if row["kind"] == kind}


def test_conformal_intervals_are_those_of_the_api(run, night, fitted):
    report = run("intervals", night, "-p", fitted, *OURS, "--json").json[0]
    expected = sg.intervals(nights.decode(sg.read_density(night), sg.Profile.load(fitted), cohort="our lab"))
    found = by_name(report)
    assert list(found) == list(expected) == STATISTICS
    for name, one in expected.items():
        row = found[name]
        assert (row["value"], row["low"], row["high"]) == (one.value, one.low, one.high)
        assert row["measured_coverage"] == 0.895
    assert found["tst_minutes"]["high"] - found["tst_minutes"]["value"] == 9.0
    assert report["n_scored_nights"] == 19


def test_model_intervals_are_labelled_and_say_that_they_cover_too_little(run, night, fitted):
    profile = sg.Profile.load(fitted)
    profile.replace(posterior=None, intervals=profile.to_dict()["intervals"]).save(fitted, overwrite=True)
    ran = run("intervals", night, "-p", fitted, *OURS, "--method", "both", "--draws", "40", "--seed", "2")
    assert ran.code == 0
    shown = " ".join(ran.out.split())
    assert mentions(shown, "know", "the stager admits")
    assert "Model: " in shown and "Model, " not in shown
    assert mentions(shown, 19, 10, "held")
    assert ran.out.count("conformal  ") == len(STATISTICS) == ran.out.count("model  ")
    assert "90%" in ran.out and "42%" in ran.out
    report = run(
        "intervals", night, "-p", fitted, *OURS, "--method", "model", "--draws", "40", "--seed", "2", "--json"
    ).json[0]
    decoded = nights.decode(sg.read_density(night), sg.Profile.load(fitted), cohort="our lab")
    expected = sg.intervals(decoded, method="model", n=40, seed=2)
    rows = by_name(report, "model")
    assert {name: row["low"] for name, row in rows.items()} == {n: one.low for n, one in expected.items()}


def test_model_intervals_of_errors_all_night_have_their_coverage(run, night):
    report = run("intervals", night, "-p", BASE, "--method", "model", "--draws", "40", "--json").json[0]
    measured = sg.Profile.load(BASE).posterior.coverage["flickering"]
    for row in report["intervals"]:
        assert (row["level"], row["measured_coverage"]) == (0.9, measured[row["statistic"]])
    withheld = ("intervals", night, "-p", BASE, "--method", "model", "--cohort", "insomnia")
    rows = run(*withheld, "--json").json[0]["intervals"]
    assert {row["reason"] for row in rows} == {WITHHELD}
    shown = " ".join(run(*withheld).out.split())
    assert shown.count(WITHHELD) == 1


def test_a_profile_without_errors_is_one_line_that_says_what_to_do(run, night, tmp_path):
    line = error_line(run("intervals", night, "-p", BASE, "--method", "conformal"))
    assert mentions(line, "'human-psg-3'", "errors")
    assert "stageguard fit" in line
    assert "--method model" in line


def test_a_built_in_profile_gives_intervals_of_the_model(run, night):
    asked = ("intervals", night, "-p", BASE, "--draws", "20", "--json")
    default, model = (run(*asked, *more).json[0] for more in ((), ("--method", "model")))
    assert default["intervals"] == model["intervals"]
    assert "Conformal" not in run(*asked[:-1]).out


def write_lot(folder, *, n, times_rem=1.0):
    """Nights of one stager, whose probability of REM is so many times the simulated one."""
    for seed in range(n):
        density = simulate_night(BASE, hours=5.5, seed=seed).density
        rows = density.probabilities * [1.0, 1.0, times_rem]
        sg.Hypnodensity(rows / rows.sum(axis=1, keepdims=True), density.scheme, 30.0).save(
            folder / f"{seed}.csv"
        )
    return folder


def test_a_stager_with_shares_unlike_experts_has_the_intervals_of_all_nights_withheld(run, tmp_path):
    lot = write_lot(tmp_path, n=10, times_rem=60.0)
    asked = ("intervals", lot, "-p", BASE, "--draws", "10")
    rows = [row for report in run(*asked, "--json").json for row in report["intervals"]]
    assert {(row["low"], row["measured_coverage"], row["reason"]) for row in rows} == {(None, None, WITHHELD)}
    assert " ".join(run(*asked).out.split()).count(f"Model intervals {WITHHELD}.") == 1
    (lot / "9.csv").unlink()
    nine = run(*asked, "--json").json
    assert any(row["low"] is not None for report in nine for row in report["intervals"])


def test_coverage_of_a_stager_without_a_name_is_that_of_good_stagers(run, night):
    asked = ("intervals", night, "-p", BASE, "--draws", "20")
    assert OF_GOOD_STAGERS in " ".join(run(*asked).out.split())
    assert OF_GOOD_STAGERS not in " ".join(run(*asked, "--stager", "YASA 0.8").out.split())


def test_an_output_of_decode_brings_its_profile(run, night, fitted, tmp_path):
    run("decode", night, "-p", fitted, *OURS)
    by_output = run("intervals", tmp_path / "night.hypnogram.tsv", "--json").json[0]
    by_input = run("intervals", night, "-p", fitted, *OURS, "--json").json[0]
    assert by_output["intervals"] == by_input["intervals"]
    assert by_output["id"] == "night"


def test_measured_coverage_belongs_to_the_level_it_was_measured_at(run, night, fitted):
    report = run("intervals", night, "-p", fitted, *OURS, "--level", "0.8", "--json").json[0]
    rows = by_name(report).values()
    assert all(row["measured_coverage"] is None for row in rows)
    assert by_name(report)["tst_minutes"]["low"] == by_name(report)["tst_minutes"]["value"] - 8.0
    assert "Covered:" not in run("intervals", night, "-p", fitted, *OURS, "--level", "0.8").out


def test_another_cohort_has_its_intervals_withheld(run, night, fitted):
    ran = run("intervals", night, "-p", fitted, "--cohort", "their lab")
    shown = " ".join(ran.out.split())
    assert ran.code == 0
    assert mentions(shown, "withheld", "'our lab'", "'their lab'")
    assert WITHHELD not in shown  # a row says `withheld`, the warning why
    assert "as wide as the errors" not in shown
    report = run("intervals", night, "-p", fitted, "--cohort", "their lab", "--json").json[0]
    for row in by_name(report).values():
        assert (row["low"], row["high"], row["measured_coverage"]) == (None, None, None)
        assert row["reason"].startswith("withheld")
    same = run("intervals", night, "-p", fitted, "--cohort", "Our Lab", "--json").json[0]
    assert all(row["measured_coverage"] == 0.895 for row in by_name(same).values())


def test_a_cohort_that_is_not_said_is_asked_for(run, night, fitted):
    shown = " ".join(run("intervals", night, "-p", fitted).out.split())
    assert mentions(shown, "cohort 'our lab'", "cohort None")


def test_too_few_nights_for_a_level_is_a_reason_and_no_interval(run, night, fitted):
    report = run("intervals", night, "-p", fitted, *OURS, "--level", "0.99", "--json").json[0]
    row = by_name(report)["tst_minutes"]
    assert (row["low"], row["high"]) == (None, None)
    assert mentions(row["reason"], 19, "scored", 99)


def test_a_cohort_becomes_one_table_with_a_row_per_night_and_statistic(run, night, fitted, tmp_path):
    other = write_night(tmp_path / "other.csv", BASE, seed=2)
    ran = run("intervals", night, other, "-p", fitted, *OURS, "-o", tmp_path / "out" / "widths.tsv")
    assert (ran.code, ran.err) == (0, "")
    with (tmp_path / "out" / "widths.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [(row["id"], row["statistic"]) for row in rows] == [
        (name, statistic) for name in ("night", "other") for statistic in STATISTICS
    ]
    report = run("intervals", other, "-p", fitted, *OURS, "--json").json[0]
    last = by_name(report)["minutes_N"]
    (row,) = [row for row in rows if (row["id"], row["statistic"]) == ("other", "minutes_N")]
    assert math.isclose(float(row["low"]), last["low"])
    assert (row["kind"], row["level"], row["measured_coverage"]) == ("conformal", "0.9", "0.895")
    assert row["reason"] == "n/a"
    book = json.loads((tmp_path / "out" / "widths.json").read_text())
    assert list(book)[:-1] == list(rows[0])
    assert book["stageguard"]["profiles"] == [report["profile"]]


def test_nothing_is_replaced_unasked(run, night, fitted, tmp_path):
    table = tmp_path / "widths.tsv"
    table.write_text("mine")
    line = error_line(run("intervals", night, "-p", fitted, *OURS, "-o", table))
    assert mentions(line, "widths.tsv", "--overwrite")
    assert table.read_text() == "mine"
    assert not (tmp_path / "widths.json").exists()


def test_lights_set_time_in_bed(run, night, fitted):
    report = run(
        "intervals", night, "-p", fitted, *OURS, "--lights-off", "1800", "--lights-on", "5400", "--json"
    ).json[0]
    expected = sg.intervals(
        nights.decode(sg.read_density(night), sg.Profile.load(fitted), cohort="our lab"),
        lights_off=1800,
        lights_on=5400,
    )
    assert by_name(report)["tst_minutes"]["value"] == expected["tst_minutes"].value <= 60


def test_a_bad_file_among_good_ones_is_a_failure_of_its_own(run, night, fitted, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("W,N,R\n0.9,0.9,0.9\n")
    ran = run("intervals", night, bad, "-p", fitted, *OURS)
    assert ran.code == 3
    assert "tst_minutes" in ran.out
    assert "1 of 2 files failed" in ran.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ("missing option --profile",)),
        (("--level", "0.3"), ("--level",)),
        (("--output", "here.csv"), ("expected the name",)),
        (("--method", "bayes"), ("--method",)),
    ],
)
def test_wrong_usage_exits_2(run, night, options, words):
    ran = run("intervals", night, *options)
    assert ran.code == 2
    assert mentions(" ".join(ran.err.split()), *words)


def test_a_sample_list_names_nights_and_their_lights(run, night, fitted, tmp_path):
    listed = tmp_path / "samples.tsv"
    listed.write_text("id\tprobabilities\tlights_off\tlights_on\nanna\tnight.csv\t1800\t5400\n")
    (report,) = run("intervals", listed, "-p", fitted, *OURS, "--json").json
    expected = sg.intervals(
        nights.decode(sg.read_density(night), sg.Profile.load(fitted), cohort="our lab"),
        lights_off=1800,
        lights_on=5400,
    )
    assert report["id"] == "anna"
    assert by_name(report)["tst_minutes"]["value"] == expected["tst_minutes"].value


def test_definitions_can_be_told_and_then_have_no_measured_coverage(run, night, fitted):
    told = ("--convention", "yasa", "--min-first-rem-seconds", "300")
    report = run("intervals", night, "-p", fitted, *OURS, *told, "--json").json[0]
    decoding = nights.decode(sg.read_density(night), sg.Profile.load(fitted), cohort="our lab")
    expected = sg.intervals(decoding, convention="yasa", min_first_rem_seconds=300.0)
    found = by_name(report)
    assert found["rem_latency_minutes"]["value"] == expected["rem_latency_minutes"].value
    assert found["rem_latency_minutes"]["value"] != sg.intervals(decoding)["rem_latency_minutes"].value
    assert {row["measured_coverage"] for row in found.values()} == {None}
    shown = run("intervals", night, "-p", fitted, *OURS, *told).out
    assert mentions(shown, "REM", "REM", "300 s")


def test_coverage_says_of_whose_nights_it_is(run, fitted, night):
    own = run("intervals", night, "-p", fitted, *OURS).out
    assert "other stagers" not in " ".join(own.split())
    base = run("intervals", night, "-p", "human-psg-3", "--method", "model").out
    assert "Covered: share of scored nights of other stagers" in " ".join(base.split())
