"""Text, tables and arrays of stage numbers: read where the caller says whose numbers they are."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

import stageguard as sg
from messages import mentions, message
from stage_files import CODES, NIGHT, lines, write
from stageguard.errors import FileFormatError
from stageguard.formats.read import is_hypnogram

RK = CODES | {"R": 5, "?": 9}
SLEEPECG = {"W": 5, "R": 4, "N1": 3, "N2": 2, "N3": 1, "?": 0}
NUMBERS = [("yasa", CODES), ("rk", RK), ("usleep", CODES | {"?": 5}), ("sleepecg", SLEEPECG)]


complaint = partial(message, FileFormatError, sg.read_hypnogram)


@pytest.mark.proves("numbers-yasa", "numbers-rk", "numbers-usleep", "numbers-sleepecg", "numbers-accusleep")
@pytest.mark.parametrize(("whose", "codes"), NUMBERS)
def test_numbers_of_a_named_numbering(tmp_path, whose, codes):
    cells = [str(codes[stage]) for stage in NIGHT]
    paths = [
        write(tmp_path, "night.txt", lines(cells)),
        write(tmp_path, "night.csv", lines(["epoch,Stage", *(f"{i},{c}" for i, c in enumerate(cells))])),
        tmp_path / "night.npy",
    ]
    np.save(paths[2], np.array([[codes[stage]] for stage in NIGHT]))
    for path in paths:
        night = sg.read_hypnogram(path, format=f"numbers-{whose}")
        assert (night.stages.tolist(), night.scheme.name) == (NIGHT, "aasm5")


def test_numbers_without_a_name_are_refused_with_the_candidates(tmp_path):
    message = complaint(write(tmp_path, "night.txt", lines(["0", "5", "4"])))
    assert re.findall("(numbers-[a-z]+) = ", message) == ["numbers-rk", "numbers-usleep", "numbers-sleepecg"]
    only = complaint(write(tmp_path, "night.txt", lines(["0", "1", "5", "9"])))
    assert mentions(only, "night.txt", "format='numbers-rk'")
    assert is_hypnogram(tmp_path / "night.txt")
    table = write(tmp_path, "night.csv", lines(["epoch,stage", "0,0", "1,2"]))
    assert mentions(complaint(table), "tools", "number stages differently")
    assert "format='numbers-yasa'" in complaint(table)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["0", "x"], ("line", 2, "'x'", "number")),
        (["0", "", "1"], ("line", 2, "number")),
        (["0", "77"], (2, 77, -2, -1, 0)),
        (["0", "1.5"], ("line", 2, "1.5")),
    ],
)
def test_numbers_that_are_none(tmp_path, rows, expected):
    assert mentions(complaint(write(tmp_path, "night.txt", lines(rows)), format="numbers-yasa"), *expected)


@pytest.mark.proves("gssc-csv")
def test_csv_of_gssc(tmp_path):
    rows = ["Hypnogram of night.edf", "Epoch,Time,Stage", "1,0,0", "2,30,2", "3,60,4"]
    assert sg.read_hypnogram(write(tmp_path, "night.csv", lines(rows))).stages.tolist() == ["W", "N2", "R"]
    names = "Prob. W,Prob. N1,Prob. N2,Prob. N3,Prob. REM"
    rows = [rows[0], f"{rows[1]},{names}", "1,0,0,1,0,0,0,0", "2,30,3,0,0,0,1,0"]
    path = write(tmp_path, "night.csv", lines(rows))
    assert sg.read_hypnogram(path).stages.tolist() == ["W", "N3"]
    assert not is_hypnogram(path)  # it holds probabilities, which say more
    bad = write(tmp_path, "bad.csv", lines([*rows[:3], "2,30,7,0,0,0,1,0"]))
    assert "line 4 is 7, expected one of" in complaint(bad)


def test_probabilities_are_no_stage_numbers(tmp_path):
    path = tmp_path / "night.npy"
    np.save(path, np.full((4, 5), 0.2))
    assert "Are these probabilities? Then use read_density" in complaint(path, format="numbers-usleep")
    np.save(path, np.array([None, 1], dtype=object), allow_pickle=True)
    assert "holds Python objects" in complaint(path, format="numbers-usleep")


def test_tables_of_runs_and_gaps(tmp_path):
    rows = ["onset,duration,stage", "30,60,W", "90,30,N2", "150,30,REM"]
    path = write(tmp_path, "night.csv", lines(rows))
    assert sg.read_hypnogram(path, scheme="aasm5").stages.tolist() == ["?", "W", "W", "N2", "?", "R"]
    rows = ["onset,label,duration", "0,Sleep stage W,30", "30,Sleep stage 2,60", "31,arousal,4"]
    path = write(tmp_path, "edfbrowser.csv", lines(rows))
    assert sg.read_hypnogram(path).stages.tolist() == ["W", "N2", "N2"]
    clash = lines(["onset,duration,stage", "0,60,W", "30,30,N2", "60,30,N3"])
    assert mentions(complaint(write(tmp_path, "n.csv", clash)), "N2", "another", "W")


def test_four_stages_are_a_scheme(tmp_path):
    path = write(tmp_path, "night.txt", lines(["WAKE", "LIGHT", "DEEP", "REM"]))
    assert sg.read_hypnogram(path).scheme.name == "wldr4"
    assert sg.read_hypnogram(path, scheme="wnr3").labels.tolist() == [0, 1, 1, 2]
