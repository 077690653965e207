"""Recordings of one's own by a list: files, subjects, lights, channels, covariates."""

from __future__ import annotations

import pytest

from messages import naming
from recording_files import channel, nsrr_xml, write_edf, write_edf_hypnogram
from stageguard.datasets import entries, recordings
from stageguard.errors import FileFormatError, InputError
from stageguard.formats.companions import numbered_rows

NIGHT = ["W", "N1", "N2", "R"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "p1").mkdir()
    for name in ("night1", "night2"):
        signals = [channel("C4", 120, 32), channel("M1", 120, 32), channel("X1", 120, 32, unit="")]
        write_edf(tmp_path / "p1" / f"{name}.edf", signals)
    (tmp_path / "p1" / "night1.xml").write_text(nsrr_xml(NIGHT))
    write_edf_hypnogram(tmp_path / "p1" / "night2-h.edf", ["W"] * 4)
    return tmp_path


def listed(folder, *rows, name="recordings.tsv", mark="\t"):
    path = folder / name
    path.write_text("\n".join(mark.join(row.split()) for row in rows) + "\n")
    return path


def test_a_list(folder):
    listed(
        folder,
        "id subject edf scoring lights_off lights_on channel:eeg channel:emg unit:X1 age diagnosis",
        "n1 anna p1/night1.edf p1/night1.xml 22:30:20 110 C4-M1 X1 mV 43 OSA",
        "n/a anna p1/night2.edf p1/night2-h.edf n/a n/a C4-M1 X1 mV n/a none",
    )
    first, second = recordings("sample-list", folder)
    assert [(night.id, night.subject) for night in (first, second)] == [("n1", "anna"), ("night2", "anna")]
    assert first.scorings["expert"].stages.tolist() == NIGHT
    assert second.scorings["expert"].stages.tolist() == ["W"] * 4
    assert (first.lights_off_seconds, first.lights_on_seconds) == (20, 110)
    assert second.lights_off_seconds is None
    assert (first.channel("eeg").name, first.channel("emg").unit) == ("C4-M1", "uV")
    assert dict(first.covariates) == {"age": 43, "diagnosis": "OSA"}
    assert dict(second.covariates) == {}


def test_the_shortest_list(folder):
    listed(folder, "edf", "p1/night1.edf", "p1/night2.edf", name="samples.csv", mark=",")
    found = list(recordings("sample-list", folder))
    assert [(night.id, night.subject) for night in found] == [("night1", "night1"), ("night2", "night2")]


def test_several_scorers(folder):
    listed(folder, "id edf scoring scoring:ben", "a p1/night1.edf p1/night1.xml p1/night2-h.edf")
    (recording,) = recordings("sample-list", folder)
    assert {name: night.stages[1] for name, night in recording.scorings.items()} == {
        "expert": "N1",
        "ben": "W",
    }


def test_where_a_list_is(folder):
    path = listed(folder, "id edf", "a p1/night1.edf", name="mine.tsv")
    assert [entry.id for entry in entries("sample-list", path)] == ["a"]
    assert [entry.id for entry in entries("sample-list", folder, table="mine.tsv")] == ["a"]
    with pytest.raises(InputError, match=naming("recordings.tsv", "a list with")):
        list(entries("sample-list", folder))


def test_missing_files_are_told(folder):
    listed(folder, "id edf scoring", "a p1/night1.edf p1/gone.xml", "b p1/gone.edf p1/night1.xml")
    first, second = entries("sample-list", folder)
    assert (first.missing, second.missing) == (("p1/gone.xml",), ("p1/gone.edf",))
    with pytest.raises(FileNotFoundError):
        second.read()


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["id file", "a b.edf"], ("no column edf",)),
        (["id edf edf", "a b c"], ("has the column 'edf' twice",)),
        (["id edf", "a"], (2, 1, "cell", 2)),
        (["id edf", "a n/a"], ("line", 2, "column")),
        (["id edf", "a x.edf", "a y.edf"], (3, "'a'", 2)),
        (["id edf"], ("header but no", "rows")),
        (["id edf channel:", "a x.edf C4"], ("has the column 'channel:'",)),
        (["# nothing"], ("is empty", "header")),
    ],
)
def test_a_damaged_list(folder, rows, expected):
    with pytest.raises(FileFormatError, match=naming(*expected)):
        numbered_rows(listed(folder, *rows))


@pytest.mark.parametrize(
    ("off", "seconds"),
    [("22:30:20", 20), ("22:31", 60), ("2021-03-04T22:30:40", 40), ("15.5", 15.5)],
)
def test_times(folder, off, seconds):
    listed(folder, "id edf lights_off", f"a p1/night1.edf {off}")
    (recording,) = recordings("sample-list", folder)
    assert recording.lights_off_seconds == seconds


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ("soon n/a", ("lights_off", "'soon'", "expected")),
        ("-30 n/a", ("lights_off", "'-30'", "expected")),
        ("25:00 n/a", ("a: lights_off is '25:00'",)),
        ("9000000000 n/a", ("lights_off", "'9000000000'", "9,000,000,000 s", "120 s")),
        ("60 30", ("lights_on", 30, "lights_off", 60)),
        ("2021-03-04T22:30:40+01:00 n/a", ("a: lights_off is 2021-03-04 22:30:40",)),
    ],
)
def test_times_that_are_refused(folder, cells, expected):
    listed(folder, "id edf lights_off lights_on", f"a p1/night1.edf {cells}")
    with pytest.raises(InputError, match=naming(*expected)):
        list(recordings("sample-list", folder))


def test_a_time_of_day_needs_a_start(tmp_path):
    write_edf(tmp_path / "a.edf", [channel("EEG", 120, 1)], start="04.03.21xx.xx.xx")
    listed(tmp_path, "id edf lights_off", "a a.edf 22:31")
    with pytest.raises(InputError, match=naming("a: lights_off", "'22:31'")):
        list(recordings("sample-list", tmp_path))
