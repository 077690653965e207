"""`stageguard stats`: rows, codebooks, groups, rodents, failures."""

from __future__ import annotations

import csv
import json
import re
import shutil
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

import nights
import stageguard as sg
from cli_runner import error_line, write_night
from messages import mentions
from stageguard.formats.outputs import write_decoding
from stageguard.measures.samples import METHOD_OF_GROUPS
from stageguard.measures.statistics import sleep_statistics
from stageguard.synthetic.night import simulate_night

PROFILE = "human-psg-5"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Six decoded nights, their experts, and a table of two groups."""
    folder = tmp_path_factory.mktemp("cohort")
    (folder / "experts").mkdir()
    rows = ["id\tgroup\tage"]
    for seed in range(6):
        hours = 3 + seed % 2
        path = write_night(folder / f"n{seed}.csv", seed=seed, hours=hours)
        write_decoding(nights.decode(sg.read_density(path), PROFILE), folder / f"n{seed}", source_path=path)
        expert = simulate_night(PROFILE, hours=hours, seed=seed).expert
        (folder / "experts" / f"n{seed}.txt").write_text("\n".join(expert.stages.tolist()) + "\n")
        rows.append(f"n{seed}\t{'patients' if seed % 2 else 'controls'}\t{20 + seed}")
    (folder / "groups.tsv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture
def cohort(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "cohort"))


def decoded_files(folder):
    return sorted(folder.glob("*.hypnogram.tsv"))


def read_tsv(path):
    with path.open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def number(text: str) -> float:
    return float("nan") if text == "n/a" else float(text)


def test_one_row_per_night_with_before_after_and_delta(run, cohort):
    ran = run("stats", *decoded_files(cohort), "-o", cohort / "all.tsv")
    assert (ran.code, ran.err) == (0, "")
    rows = read_tsv(cohort / "all.tsv")
    assert [row["id"] for row in rows] == [f"n{seed}" for seed in range(6)]
    for row in rows:
        decoding = nights.decode(sg.read_density(cohort / f"{row['id']}.csv"), PROFILE)
        before = sg.Hypnogram(decoding.argmax, "aasm5", 30.0)
        own, now = sleep_statistics(before), sleep_statistics(decoding)
        for name in (
            "tst_minutes",
            "se_percent",
            "waso_minutes",
            "sol_minutes",
            "awakenings",
            "sfi_per_hour",
        ):
            assert number(row[f"{name}_before"]) == pytest.approx(getattr(own, name), nan_ok=True)
            assert number(row[f"{name}_after"]) == pytest.approx(getattr(now, name), nan_ok=True)
            delta = getattr(now, name) - getattr(own, name)
            assert number(row[f"{name}_delta"]) == pytest.approx(delta, nan_ok=True, abs=1e-6)
        assert number(row["stage_percent_N3_after"]) == pytest.approx(now.stage_percent["N3"])
        assert int(row["epochs_changed"]) == int(decoding.changed.sum())
        changes = np.mean(np.diff(decoding.hypnogram.labels[slice(*decoding.period)]) != 0)
        assert number(row["fragmentation_index_after"]) == pytest.approx(changes)
        assert (row["profile"], row["epoch_seconds"]) == (PROFILE, "30")
    assert "Mean ± SD over 6 nights" in ran.out


def test_the_codebook_explains_every_column(run, cohort):
    assert run("stats", *decoded_files(cohort), "-o", cohort / "all.tsv", "--convention", "luna").code == 0
    book = json.loads((cohort / "all.json").read_text())
    own = book.pop("stageguard")
    assert list(book) == list(read_tsv(cohort / "all.tsv")[0])
    assert all(entry["Description"] for entry in book.values())
    assert book["se_percent_delta"]["Units"] == "% of TIB"
    assert own["convention"] == "luna"
    assert own["files"]["n0"] == {"file": "n0.hypnogram.tsv"}
    assert mentions(own["review"], "trained", "any clinical decision")
    assert mentions(own["assumptions"]["n0"]["after"][0], "TIB", "whole")


def test_a_number_that_does_not_exist_is_missing_with_its_reason(run, tmp_path):
    (tmp_path / "awake.txt").write_text("W\n" * 20)
    (tmp_path / "night.txt").write_text("W\nN2\nN2\nN3\n" * 5)
    files = (tmp_path / "awake.txt", tmp_path / "night.txt")
    ran = run("stats", *files, "--scheme", "aasm5", "-o", tmp_path / "all.tsv")
    assert ran.code == 0, ran.err
    awake, night = read_tsv(tmp_path / "all.tsv")
    assert (awake["sol_minutes"], awake["tst_minutes"]) == ("n/a", "0")
    assert night["rem_latency_minutes"] == "n/a"
    reasons = json.loads((tmp_path / "all.json").read_text())["stageguard"]["reasons"]
    assert mentions(reasons["awake"]["after"]["sol_minutes"], "epoch", "scored as sleep")
    assert reasons["night"]["after"]["rem_latency_minutes"] == "there is no REM"
    assert mentions(ran.out, "--profile", "awake")
    assert not any(name.endswith(("_before", "_delta")) for name in night)


def test_probabilities_have_an_after_only_with_a_profile(run, cohort):
    bare = run("stats", cohort / "n0.csv", "--json").nights[0]
    assert "after" not in bare
    decoded = run("stats", cohort / "n0.csv", "-p", PROFILE, "--json").nights[0]
    written = run("stats", cohort / "n0.hypnogram.tsv", "--json").nights[0]
    for scoring in ("before", "after", "delta"):
        assert decoded[scoring] == pytest.approx(written[scoring], nan_ok=True)
    assert bare["before"]["tst_minutes"] == written["before"]["tst_minutes"]


def test_what_a_rule_steered_is_marked_in_every_table(run, cohort, tmp_path):
    run("decode", cohort / "n0.csv", cohort / "n1.csv", "-p", PROFILE, "-o", tmp_path / "out")
    groups = tmp_path / "groups.tsv"
    groups.write_text("id\tgroup\nn0\ta\nn1\tb\n")
    ran = run("stats", tmp_path / "out", "--by", groups, "-o", tmp_path / "cohort.tsv")
    for title in ("Fragmentation", "Awakenings", "Bouts"):
        assert ran.out.count(f"{title} †") == 2  # means and differences
    assert "TST (min) †" not in ran.out
    assert mentions(ran.out, "set by the smoothing", "do not report")
    book = json.loads((tmp_path / "cohort.json").read_text())
    assert mentions(book["bouts_N2_after"]["Description"], "set by the smoothing on", 2)
    assert "set by" not in book["bouts_N2_before"]["Description"] + book["tst_minutes_after"]["Description"]
    header, *rows = [line.split("\t") for line in (tmp_path / "cohort-groups.tsv").read_text().splitlines()]
    told = {(row[0], row[2]): row[header.index("steered")] for row in rows}
    assert told["awakenings", "guard"] == "yes"
    assert told["awakenings", "argmax"] == told["tst_minutes", "guard"] == "no"


def test_one_night_is_printed_in_full(run, cohort):
    ran = run("stats", cohort / "n0.hypnogram.tsv", "--expert", cohort / "experts")
    decoding = nights.decode(sg.read_density(cohort / "n0.csv"), PROFILE)
    own = sleep_statistics(sg.Hypnogram(decoding.argmax, "aasm5", 30.0)).tst_minutes
    now = sleep_statistics(decoding).tst_minutes
    truth = sleep_statistics(simulate_night(PROFILE, hours=3, seed=0).expert).tst_minutes
    assert re.search(rf"TST .min. +{own:.1f} +{now:.1f} +{now - own:+.1f} +{truth:.1f}\b", ran.out)
    assert f"{int(decoding.changed.sum())} epochs changed." in ran.out


def test_errors_against_experts_are_printed_and_written(run, cohort):
    arguments = ("--expert", cohort / "experts", "-o", cohort / "all.tsv")
    ran = run("stats", *decoded_files(cohort), *arguments)
    assert mentions(ran.out, "absolute error against", 6)
    rows = {row["quantity"]: row for row in read_tsv(cohort / "all-errors.tsv")}
    nights_of = read_tsv(cohort / "all.tsv")
    for side in ("before", "after"):
        errors = [
            abs(float(row[f"waso_minutes_{side}"]) - float(row["waso_minutes_expert"])) for row in nights_of
        ]
        assert float(rows["waso_minutes"][f"{side}_mean"]) == pytest.approx(np.mean(errors))
    row = rows["waso_minutes"]
    printed = f"{float(row['after_mean']):.2f} ± {float(row['after_sd']):.2f}"
    assert re.search(rf"WASO \(min\) +6 .* {re.escape(printed)} ", ran.out)
    assert "errors" not in run("stats", *decoded_files(cohort), "--json").cohort


def test_lights_cut_the_night(run, tmp_path):
    (tmp_path / "night.txt").write_text("W\n" * 20 + "N2\n" * 60 + "W\n" * 40)
    night = tmp_path / "night.txt"

    def found(*arguments):
        return run("stats", night, *arguments, "--json").nights[0]["after"]

    assert found()["sol_minutes"] == 10.0
    assert found("--lights-off", "300")["sol_minutes"] == 5.0
    assert found("--lights-off", "300s")["sol_minutes"] == 5.0
    assert found("--lights-off", "300.0", "--lights-on", "2700")["tib_minutes"] == 40.0
    late = found("--start", "23:50", "--lights-off", "23:58", "--lights-on", "0:40")
    assert (late["sol_minutes"], late["tib_minutes"]) == (2.0, 42.0)
    dated = found("--start", "2024-05-01T23:50", "--lights-off", "2024-05-01T23:58")
    assert dated["sol_minutes"] == 2.0
    line = error_line(run("stats", night, "--lights-off", "23:58"))
    assert mentions(line, "starts")
    assert error_line(run("stats", night, "--lights-off", "soon")).startswith(
        "--lights-off is 'soon', expected"
    )
    assert error_line(run("stats", night, "--start", "soon")).startswith("--start is 'soon', expected a time")


def test_with_lights_every_number_is_of_that_window_and_the_window_is_said(run, tmp_path):
    night = tmp_path / "night.txt"
    restless = "N1\nN2\nW\n" * 13
    night.write_text(restless + "W\n" + "N2\n" * 60 + restless)  # before and after lights
    options = ("-p", PROFILE, "--lights-off", "1200", "--lights-on", "3000")
    ran = run("stats", night, *options, "--json")
    (report,) = ran.nights
    numbers = report["after"]
    assert (numbers["fragmentation_index"], numbers["bouts"], numbers["tst_minutes"]) == (0.0, 1.0, 30.0)
    words = "lights off at 1200 s (epoch 41), lights on at 3000 s (epoch 101)"
    assert report["lights"] == words and words in ran.cohort["notes"]
    assert words in run("stats", night, *options).out
    whole = run("stats", night, "-p", PROFILE, "--json").nights[0]
    assert whole["after"]["fragmentation_index"] > 0.4 and whole["lights"] == ""


def test_conventions_differ_where_they_should(run, tmp_path):
    (tmp_path / "night.txt").write_text("W\n" * 20 + "N2\n" * 60 + "R\n" * 10 + "W\n" * 10)
    latency = {
        convention: run("stats", tmp_path / "night.txt", "--convention", convention, "--json").nights[0]
        for convention in ("aasm", "yasa", "luna")
    }
    found = {name: night["after"]["rem_latency_minutes"] for name, night in latency.items()}
    assert found == {"aasm": 30.0, "yasa": 40.0, "luna": 30.0}
    longer = run("stats", tmp_path / "night.txt", "--min-first-rem-seconds", "600", "--json").nights[0]
    assert longer["after"]["rem_latency_minutes"] == 30.0
    assert longer["after"]["rem_latency_bout_minutes"] is None
    assert longer["reasons"]["after"]["rem_latency_bout_minutes"] == "there is no REM bout of 600 s"


def test_groups_are_compared_for_argmax_guard_and_expert(run, cohort):
    arguments = ("--by", cohort / "groups.tsv", "--expert", cohort / "experts", "-o", cohort / "all.tsv")
    ran = run("stats", *decoded_files(cohort), *arguments)
    assert (ran.code, ran.err) == (0, "")
    assert "controls (n = 3) minus patients (n = 3)" in ran.out
    rows = [line for line in ran.out.partition("minus patients")[2].splitlines() if "lasting bout" in line]
    assert len(rows) == 1
    assert " ".join(METHOD_OF_GROUPS.split()) in " ".join(ran.out.split())
    rows_by_id = {row["id"]: row for row in read_tsv(cohort / "all.tsv")}
    assert [row["group"] for row in rows_by_id.values()] == ["controls", "patients"] * 3
    rows = read_tsv(cohort / "all-groups.tsv")
    by_scoring = {row["scoring"]: row for row in rows if row["measure"] == "tst_minutes"}
    assert list(by_scoring) == ["argmax", "guard", "expert"]
    stats = pytest.importorskip("scipy.stats")
    for scoring, suffix in (("argmax", "before"), ("guard", "after"), ("expert", "expert")):
        values = {
            group: [
                float(row[f"tst_minutes_{suffix}"]) for row in rows_by_id.values() if row["group"] == group
            ]
            for group in ("controls", "patients")
        }
        row = by_scoring[scoring]
        test = stats.ttest_ind(values["controls"], values["patients"], equal_var=False)
        interval = test.confidence_interval(0.95)
        assert float(row["ci95_low"]) == pytest.approx(interval.low, rel=1e-6)
        assert float(row["ci95_high"]) == pytest.approx(interval.high, rel=1e-6)
        pooled = np.sqrt((np.var(values["controls"], ddof=1) + np.var(values["patients"], ddof=1)) / 2)
        difference = np.mean(values["controls"]) - np.mean(values["patients"])
        assert float(row["cohens_d"]) == pytest.approx(difference / pooled, rel=1e-6)
        assert (row["group_1"], row["group_2"], row["n_1"], row["unit"]) == (
            "controls",
            "patients",
            "3",
            "min",
        )
    book = json.loads((cohort / "all-groups.json").read_text())
    assert book.pop("stageguard")["method"] == METHOD_OF_GROUPS
    assert list(book) == list(rows[0])


def test_the_table_of_groups_may_name_experts_and_subjects(run, cohort):
    lines = ["id,group,subject,expert"]
    lines += [f"n{i}.hypnogram.tsv,{'ab'[i % 2]},s{i % 4},experts/n{i}.txt" for i in range(5)]
    lines += ["n5,b,,", "n9,a,,"]
    (cohort / "own.csv").write_text("\n".join(lines) + "\n")
    ran = run("stats", *decoded_files(cohort), "--by", cohort / "own.csv", "--json")
    assert ran.code == 0, ran.err
    experts = [
        row for row in ran.cohort["groups"] if row["scoring"] == "expert" and row["measure"] == "tst_minutes"
    ]
    # n0 and n4 are one subject of group a; n5 has no expert
    assert [(row["n_1"], row["n_2"]) for row in experts] == [(2, 2)]
    guard = next(row for row in ran.cohort["groups"] if row["scoring"] == "guard")
    assert (guard["n_1"], guard["n_2"]) == (2, 3)
    assert mentions(ran.cohort["notes"], "among", "n9")
    assert mentions(ran.cohort["notes"], "like", "n5")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id\tname\nn0\ta\n", ("groups.tsv", "id and group")),
        ("id\tgroup\nn0\n", ("groups.tsv", 2, 1, 2)),
        ("id\tgroup\nn0\t\n", ("groups.tsv", 2, "group")),
        ("id\tgroup\nn0\ta\nn0\tb\n", ("groups.tsv", 3, "'n0'")),
        ("id\tgroup\n", ("groups.tsv", "header but no")),
        ("id\tgroup\nn0\ta\nn1\ta\n", (6, "'a'")),
        (
            "id\tgroup\nx\ta\n",
            ("n0", "n1", "n2", 3),
        ),
    ],
)
def test_bad_groups_are_one_line(run, cohort, text, expected):
    (cohort / "groups.tsv").write_text(text)
    line = error_line(run("stats", *decoded_files(cohort), "--by", cohort / "groups.tsv"))
    assert mentions(line, *expected)


def test_rodents_have_light_dark_and_hours(run, tmp_path):
    night = simulate_night("mouse-eeg-emg-3", hours=24, seed=1)
    np.savez(
        tmp_path / "mouse.npz",
        probabilities=night.density.probabilities,
        stages=np.array(["W", "N", "R"]),
        epoch_seconds=4.0,
    )
    arguments = ("--start", "08:30", "--lights-on-phase", "07:00")
    ran = run("stats", tmp_path / "mouse.npz", *arguments, "-o", tmp_path / "mice.tsv")
    assert ran.code == 0, ran.err
    (row,) = read_tsv(tmp_path / "mice.tsv")
    argmax = sg.Hypnogram(night.density.argmax, "wnr3", 4.0).labels
    light = np.r_[argmax[: int(10.5 * 900)], argmax[int(22.5 * 900) :]]
    assert float(row["stage_percent_N_light_before"]) == pytest.approx(100 * np.mean(light == 1))
    assert (row["se_percent_before"], row["sol_minutes_before"], row["rem_latency_minutes_before"]) == (
        "n/a",
    ) * 3
    reasons = json.loads((tmp_path / "mice.json").read_text())["stageguard"]["reasons"]["mouse"]["before"]
    assert mentions(reasons["sol_minutes"], "no single night", "give")
    hours = read_tsv(tmp_path / "mice-hours.tsv")
    assert [hour["hour"] for hour in hours] == [f"ZT {n % 24}" for n in range(1, 26)]
    assert float(hours[0]["scored_minutes"]) == 30.0
    assert float(hours[1]["percent_W"]) == pytest.approx(100 * np.mean(argmax[450:1350] == 0))
    assert list(json.loads((tmp_path / "mice-hours.json").read_text()))[:-1] == list(hours[0])
    line = error_line(run("stats", tmp_path / "mouse.npz", "--lights-on-phase", "07:00"))
    assert mentions(line, "starts")


def test_failures_are_rows_and_the_others_go_on(run, cohort):
    (cohort / "zero.csv").write_bytes(b"")
    (cohort / "again").mkdir()
    twin = write_night(cohort / "again" / "n0.csv")
    files = (*decoded_files(cohort), cohort / "zero.csv", twin, cohort / "gone.csv")
    ran = run("stats", *files, "-o", cohort / "all.tsv")
    assert ran.code == 3
    assert "3 of 9 files failed" in ran.err
    assert mentions(" ".join(ran.err.split()), "'n0'", "n0.hypnogram.tsv")
    assert len(read_tsv(cohort / "all.tsv")) == 6
    line = error_line(run("stats", cohort / "zero.csv", "-o", cohort / "none.tsv"))
    assert line.startswith("zero.csv: is empty (0 bytes).")
    assert not (cohort / "none.tsv").exists()


def test_nothing_is_overwritten_unasked(run, cohort):
    (cohort / "all-groups.json").write_text("mine")
    arguments = ("stats", *decoded_files(cohort), "--by", cohort / "groups.tsv", "-o", cohort / "all.tsv")
    line = error_line(run(*arguments))
    assert mentions(line, "all-groups.json", "--overwrite")
    assert not (cohort / "all.tsv").exists()
    assert run(*arguments, "--overwrite").code == 0
    assert (cohort / "all-groups.json").read_text() != "mine"


def test_wrong_usage_exits_2(run, cohort):
    files = decoded_files(cohort)
    wrong = {
        ("-o", "cohort.xlsx"): "expected a name that ends in .tsv",
        ("--expert", cohort / "experts" / "n0.txt"): "--expert names one night's scoring",
        ("--convention", "mine"): "--convention",
    }
    for arguments, expected in wrong.items():
        ran = run("stats", *files, *arguments)
        assert ran.code == 2
        assert expected in " ".join(ran.err.split())


def test_inputs_are_never_written_over(run, tmp_path):
    night = shutil.copy(write_night(tmp_path / "n0.csv"), tmp_path / "n1.tsv")
    before = night.read_bytes()
    for command in (["stats", night, "-o", night], ["report", night, "-o", night]):
        ran = run(*command, "-p", "human-psg-5", "--overwrite")
        assert ran.code == 1
        assert mentions(ran.err, "same file")
        assert night.read_bytes() == before


def write_days(path):
    """A day with a night, a nap and a second night."""
    night, wake = simulate_night("human-psg-5", hours=6, seed=1).expert.labels, np.zeros(900, np.int8)
    labels = np.concatenate([wake, night, wake, night[:240], wake, night, wake])
    days = sg.Hypnogram(labels, "aasm5", 30.0, datetime(2024, 3, 1, 15))
    days.save(path)
    return days


def test_each_sleep_of_a_recording_of_days_has_a_row(run, tmp_path):
    days = write_days(tmp_path / "days.edf")
    ran = run("stats", tmp_path / "days.edf", "--sleeps", "-o", tmp_path / "out.tsv")
    assert ran.code == 0, ran.err
    rows = list(csv.DictReader((tmp_path / "out.tsv").read_text().splitlines(), delimiter="\t"))
    found = sg.find_sleeps(days)
    assert [row["id"] for row in rows] == ["days sleep 1", "days sleep 2", "days sleep 3"]
    told = run("stats", tmp_path / "days.edf", "--sleeps", "--json").nights
    for row, night, (first, end) in zip(rows, told, found, strict=True):
        assert (row["start"], row["end"]) == tuple(str(days.clock_at(epoch)) for epoch in (first, end))
        alone = sleep_statistics(sg.Hypnogram(days.labels[first:end], "aasm5", 30.0))
        for key in ("tst_minutes", "waso_minutes", "awakenings"):
            assert float(row[key]) == night["after"][key] == getattr(alone, key)
        assert row["sol_minutes"] == row["se_percent"] == "n/a"  # nobody knows when bedtime was
        assert mentions(night["reasons"]["after"]["sol_minutes"], "bedtime", "lights")
    book = json.loads((tmp_path / "out.json").read_text())
    assert {"start", "end", "tst_minutes"} <= book.keys() and "group" not in book
    shown = run("stats", tmp_path / "days.edf", "--sleeps").out
    assert "days sleep 3" in shown and "2024-03-02" in shown and "Mean ±" not in shown


def test_a_sleep_between_lights_has_a_latency(run, tmp_path):
    days = write_days(tmp_path / "days.edf")
    first, end = sg.find_sleeps(days)[0]
    lights = ("--lights-off", 30 * (first - 20), "--lights-on", 30 * end)
    told = run("stats", tmp_path / "days.edf", "--sleeps", *lights, "--json").nights
    assert told[0]["after"]["sol_minutes"] == 10.0
    assert [night["after"]["sol_minutes"] for night in told[1:]] == [None, None]


def test_a_recording_without_sleep_has_no_row(run, tmp_path):
    sg.Hypnogram(np.zeros(99, np.int8), "aasm5", 30.0).save(tmp_path / "awake.txt")
    ran = run("stats", tmp_path / "awake.txt", "--scheme", "aasm5", "--sleeps", "--json")
    assert (ran.code, ran.nights) == (0, [])
    assert ran.cohort["notes"] == ["no sleep is found in awake"]
    assert "--sleeps takes none" in run("stats", tmp_path / "awake.txt", "--sleeps", "--by", "x.tsv").err


@pytest.mark.parametrize(
    ("bouts", "looks", "place"),
    [
        ([("W", 20), ("N2", 300), ("N3", 300), ("R", 300), ("W", 20)], False, "below"),
        ([("N2", 1), ("R", 1)] * 300, False, "above"),
    ],
)
def test_a_night_is_compared_with_the_range_of_experts(run, tmp_path, bouts, looks, place):
    path = tmp_path / "night.txt"
    path.write_text("".join(f"{stage}\n" * n for stage, n in bouts))
    found = sg.validity(sg.read_hypnogram(path), "human-psg-5")
    ran = run("stats", path, "-p", "human-psg-5")
    assert "Does not look like expert scoring (distance " in ran.out
    (row,) = (line for line in ran.out.splitlines() if line.startswith("Fragmentation"))
    band = found.indicators["fragmentation_index"]
    assert row.split()[-4:] == [f"{band.low:.3f}", "to", f"{band.high:.3f}", place]
    (told,) = run("stats", path, "-p", "human-psg-5", "--json").nights
    assert told["validity"]["looks_like_experts"] is found.looks_like_experts is looks
    assert told["validity"]["indicators"]["fragmentation_index"]["place"] == place
    bare = run("stats", path)
    assert "expert range" not in bare.out and "expert scoring" not in bare.out


def test_nights_unlike_expert_scoring_are_named(run, tmp_path):
    for name, stages in {"calm": "N2\n" * 600 + "R\n" * 300, "wild": "N2\nR\n" * 300}.items():
        (tmp_path / f"{name}.txt").write_text(stages)
    ran = run("stats", tmp_path, "-p", "human-psg-5")
    assert "0 of 2 nights look like expert scoring." in ran.out
    assert "2 nights do not: calm, wild" in ran.out
