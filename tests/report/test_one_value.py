"""Terminal, tables, report and Methods give one value per statistic, by one definition."""

from __future__ import annotations

import csv
import re

import pytest

import stageguard as sg
from cli_runner import Runner, write_night
from nights import decode
from pages import read, table
from stageguard.night.quantities import NIGHT, quantity_of

SHOWN = [quantity for quantity in NIGHT if "decode" in quantity.shown]


@pytest.mark.parametrize("profile", ["human-psg-5", "lab"])
def test_each_statistic_has_one_value_everywhere(capsys, tmp_path, profile):
    if profile == "lab":  # its intervals are of longer REM bouts
        intervals = {"n_nights": 9, "n_subjects": 9, "min_first_rem_seconds": 300.0}
        base = sg.Profile.load("human-psg-5").replace(name="lab", intervals=intervals)
        base.save(tmp_path / "lab.toml")
        profile = str(tmp_path / "lab.toml")
    run, path = Runner(capsys), write_night(tmp_path / "n.csv", hours=6, seed=3)
    night = decode(sg.read_density(path), profile)
    counted = sg.sleep_statistics(night)
    printed = run("decode", path, "-p", profile, "-o", tmp_path / "out").out
    told = run("decode", path, "-p", profile, "-o", tmp_path / "json", "--json").json[0]
    run("stats", tmp_path / "out", "-o", tmp_path / "stats.tsv")
    with (tmp_path / "stats.tsv").open() as file:
        (row,) = csv.DictReader(file, delimiter="\t")
    rows = table(read(sg.night_report(night)), "Sleep statistics")[1]
    page = {re.split(" †| ?early| ?depends", name)[0]: cells[2] for name, *cells in rows}
    methods = sg.methods_text(night)
    for quantity in SHOWN:
        value = getattr(counted, quantity.key)
        text = f"{value:.{quantity.decimals}f}"
        assert re.search(rf"^{re.escape(quantity.heading)}.* {re.escape(text)}\b", printed, re.MULTILINE), (
            quantity.key
        )
        assert told["indicators"][quantity.key]["after"] == pytest.approx(value)
        assert float(row[f"{quantity.key}_after"]) == pytest.approx(value, rel=1e-5)
        assert page[quantity.label] == text
    for key in ("sol_minutes", "sol_10min_minutes", "rem_latency_minutes", "rem_latency_bout_minutes"):
        assert f"{quantity_of(key).title} is the time {quantity_of(key).definition}." in methods
    for name in ("expected", "estimate"):
        assert not any(name in column for column in row)
    minutes = sg.posterior(sg.read_density(path), profile).probabilities.sum() * night.epoch_seconds / 60
    assert minutes == pytest.approx(counted.tib_minutes)
