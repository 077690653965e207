"""Sleep stages in BIDS event tables, with the JSON beside them."""

from __future__ import annotations

import json

import pytest

import stageguard as sg
from messages import naming
from stage_files import NIGHT, bids, lines, runs, write
from stageguard.errors import FileFormatError
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_hypnogram_file
from stageguard.formats.registry import detect


@pytest.mark.proves("bids-events")
def test_trial_types(tmp_path):
    found = read_hypnogram_file(write(tmp_path, "sub-1_events.tsv", bids()), FileOptions())
    assert found.hypnogram.stages.tolist() == NIGHT


def test_names_of_wonambi_and_missing_values(tmp_path):
    words = {"W": "sleep_wake", "N1": "sleep_N1", "N2": "sleep_N2", "N3": "sleep_N3", "R": "sleep_REM"}
    rows = ["onset\tduration\ttrial_type"]
    rows += [f"{a}\t{b}\t{words.get(c, 'n/a')}" for a, b, c in runs(NIGHT)]
    assert sg.read_hypnogram(write(tmp_path, "a_events.tsv", lines(rows))).stages.tolist() == NIGHT


def test_the_proposed_hypnogram_table(tmp_path):
    rows = ["onset\tduration\tstage", *(f"{a}\t{b}\t{c}" for a, b, c in runs(NIGHT))]
    path = write(tmp_path, "sub-1_task-sleep_hypnogram.tsv", lines(rows))
    assert detect(path, "hypnogram").name == "bids-events"
    assert sg.read_hypnogram(path).stages.tolist() == NIGHT


def test_numbers_need_levels(tmp_path):
    rows = lines(["onset\tduration\tstage", "0\t30\t0", "30\t60\t2", "90\t30\t9"])
    path = write(tmp_path, "a_events.tsv", rows)
    with pytest.raises(FileFormatError, match=naming("a_events", "Levels")):
        sg.read_hypnogram(path)
    levels = {"0": "Wake", "2": {"Description": "N2"}, "9": "Unscored"}
    write(tmp_path, "a_events.json", json.dumps({"stage": {"Levels": levels}}).encode())
    assert sg.read_hypnogram(path, scheme="aasm5").stages.tolist() == ["W", "N2", "N2", "?"]
    write(tmp_path, "a_events.json", json.dumps({"stage": {"Levels": levels | {"2": "resting"}}}).encode())
    with pytest.raises(FileFormatError, match=r"a_events.json says 'resting' for 2, expected a stage"):
        sg.read_hypnogram(path)
    write(tmp_path, "a_events.json", b"{")
    with pytest.raises(FileFormatError, match=naming("a_events", "JSON")):
        sg.read_hypnogram(path)
