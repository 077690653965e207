"""Hypnograms that are objects: of this package, of other libraries, and plain sequences."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from functools import partial

import numpy as np
import pytest

import nights
import stageguard as sg
from messages import mentions, message, naming
from stage_files import CODES, NIGHT
from stageguard.errors import FileFormatError, InputError
from stageguard.synthetic.night import simulate_night

complaint = partial(message, (FileFormatError, InputError), sg.read_hypnogram)


def test_names_in_any_sequence():
    for source in (NIGHT, tuple(NIGHT), np.array(NIGHT), np.array(NIGHT, dtype=object)):
        night = sg.read_hypnogram(source, epoch_seconds=20)
        assert (night.stages.tolist(), night.epoch_seconds) == (NIGHT, 20.0)
    assert sg.read_hypnogram(["W", None, "N1", "R", float("nan")]).stages.tolist() == [
        "W",
        "?",
        "N1",
        "R",
        "?",
    ]


def test_numbers_need_the_name_of_their_numbering():
    codes = np.array([CODES[stage] for stage in NIGHT])
    assert sg.read_hypnogram(codes, format="numbers-yasa").stages.tolist() == NIGHT
    assert mentions(complaint(codes), "format='numbers-yasa'", "format='numbers-rk'")
    assert "epoch 1 is 8, expected one of" in complaint([0, 8], format="numbers-yasa")
    mouse = sg.read_hypnogram([2, 3, 1, -1], format="numbers-accusleep", epoch_seconds=4)
    assert (mouse.stages.tolist(), mouse.scheme.name) == (["W", "N", "R", "?"], "wnr3")


def test_own_hypnograms_and_decodings():
    start = datetime(2024, 5, 1)
    own = sg.Hypnogram(np.array([0, 2, -1], dtype=np.int8), "aasm5", 30.0, start, "Ann")
    assert sg.read_hypnogram(own) == own
    assert sg.read_hypnogram(own, scheme="wnr3").labels.tolist() == [0, 1, -1]
    decoding = nights.decode(simulate_night("human-psg-5", hours=1, seed=2).density, "human-psg-5")
    assert np.array_equal(sg.read_hypnogram(decoding).labels, decoding.hypnogram.labels)


def test_tables_of_pandas_and_polars():
    for library in ("pandas", "polars"):
        frames = pytest.importorskip(library)
        table = frames.DataFrame({"epoch": range(len(NIGHT)), "Stage": NIGHT})
        assert sg.read_hypnogram(table).stages.tolist() == NIGHT
        events = {"onset": [0.0, 30.0, 120.0], "duration": [30.0, 60.0, 30.0], "stage": ["W", "N2", "REM"]}
        assert sg.read_hypnogram(frames.DataFrame(events), scheme="aasm5").stages.tolist() == [
            *("W", "N2", "N2", "?", "R")
        ]
        assert sg.read_hypnogram(frames.Series("stage", NIGHT) if library == "polars" else table["Stage"]
                                 ).stages.tolist() == NIGHT  # fmt: skip
        assert mentions(complaint(frames.DataFrame({"a": [1], "b": [2]})), "one named stage")
        assert "has no rows" in complaint(frames.DataFrame({"stage": []}))


@pytest.mark.proves("object:sleepecg")
def test_records_of_the_installed_sleepecg():
    sleepecg = pytest.importorskip("sleepecg")
    theirs = sleepecg.SleepStage
    words = {"W": theirs.WAKE, "N1": theirs.N1, "N2": theirs.N2, "N3": theirs.N3, "R": theirs.REM}
    codes = np.array([words.get(stage, theirs.UNDEFINED) for stage in NIGHT], dtype=np.int8)
    record = sleepecg.SleepRecord(sleep_stages=codes, sleep_stage_duration=30, id="n1")
    night = sg.read_hypnogram(record)
    assert (night.stages.tolist(), night.epoch_seconds, night.scorer) == (NIGHT, 30.0, "n1")
    assert "has no sleep_stages" in complaint(sleepecg.SleepRecord())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ([], ("list", "is empty")),
        (["W", 1], ("list", "stages")),
        ([True, False], ("list", "holds bool")),
        (np.zeros((2, 2)), ("(2, 2)",)),
        (b"WWW", ("bytes", 1, "WWW")),
        (object(), ("cannot", "read from object")),
        (["W", "N9"], (1, "'N9'")),
    ],
)
def test_what_is_no_hypnogram(source, expected):
    with pytest.raises((FileFormatError, InputError), match=naming(*expected)):
        sg.read_hypnogram(source)


def test_no_library_is_imported_for_an_object():
    code = (
        "import sys, stageguard as sg\n"
        "sg.read_hypnogram(['W', 'N1', 'R'])\n"
        "others = ('yasa', 'mne', 'pandas', 'polars', 'sleepecg', 'scipy')\n"
        "print([name for name in others if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
