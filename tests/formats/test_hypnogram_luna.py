"""Stages of the installed Luna: `.annot`, `.eannot`, and the table of its command STAGE."""

from __future__ import annotations

import pytest

import stageguard as sg
from messages import mentions
from recording_files import START, channel, write_edf
from stage_files import NIGHT, lines, luna_stages, write
from stageguard.errors import FileFormatError
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_hypnogram_file


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    lunapi = pytest.importorskip("lunapi")
    folder = tmp_path_factory.mktemp("luna")
    edf = write_edf(folder / "n.edf", [channel("EEG", 360, 100)])
    epochs = write(folder, "n.eannot", lines(NIGHT))
    instance = lunapi.proj().inst("n")
    instance.attach_edf(str(edf))
    instance.attach_annot(str(epochs))
    instance.eval("EPOCH len=30")
    return folder, instance


@pytest.mark.proves("luna-annot")
@pytest.mark.parametrize(("option", "start"), [("", None), (" hms", None), (" dhms", START), (" min", None)])
def test_annot_of_the_installed_luna(recording, option, start):
    folder, instance = recording
    path = folder / f"out{option.strip()}.annot"
    instance.eval(f"WRITE-ANNOTS file={path}{option}")
    night = sg.read_hypnogram(path)
    assert night.stages.tolist() == NIGHT
    assert (night.epoch_seconds, night.start) == (30.0, start)


@pytest.mark.proves("luna-stages")
def test_stages_of_the_installed_lunapi(recording, tmp_path):
    _, instance = recording
    frame = instance.stages()
    assert sg.read_hypnogram(frame).stages.tolist() == NIGHT
    skipped = frame.drop(index=[3, 4])
    assert sg.read_hypnogram(skipped).stages.tolist() == [*NIGHT[:3], "?", "?", *NIGHT[5:]]
    frame.to_csv(tmp_path / "stages.txt", sep="\t", index=False)
    assert sg.read_hypnogram(tmp_path / "stages.txt").stages.tolist() == NIGHT


@pytest.mark.proves("luna-eannot")
def test_eannot(tmp_path):
    path = write(tmp_path, "night.eannot", lines(["W", "N1", "U", "M", "L", "G", "?", "R"]))
    assert sg.read_hypnogram(path).stages.tolist() == ["W", "N1", "?", "?", "?", "?", "?", "R"]


def test_a_night_over_midnight(tmp_path):
    rows = ["class\tinstance\tchannel\tstart\tstop\tmeta"]
    times = ["23:59:00", "23:59:30", "00:00:00", "00:00:30", "00:01:00"]
    stages = ["W", "N1", "N2", "R"]
    rows += [f"{s}\t.\t.\t{a}\t{b}\t." for s, a, b in zip(stages, times, times[1:], strict=False)]
    found = read_hypnogram_file(write(tmp_path, "night.annot", lines(rows)), FileOptions())
    assert found.hypnogram.stages.tolist() == stages
    assert mentions(found.notes, "counted", "its first interval")
    swapped = [rows[0], rows[3], *rows[1:3], rows[4]]
    with pytest.raises(FileFormatError, match=r"line 3 is earlier than the line before|is earlier"):
        sg.read_hypnogram(write(tmp_path, "night.annot", lines(swapped)))


def test_other_ways_to_tell_an_end(tmp_path):
    rows = ["W\t.\t.\t0\t...\t.", "N1\t.\t.\t60\t+30\t.", "N2\t.\t.\t0+00:01:30\t0+00:02:00\t."]
    path = write(tmp_path, "night.annot", lines(rows))
    assert sg.read_hypnogram(path, scheme="aasm5").stages.tolist() == ["W", "W", "N1", "N2"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("W\t.\t.\tx\t30\t.", "line 14 has the time 'x', expected seconds or hh:mm:ss"),
        ("W\t.\t.\t360\t+x\t.", "line 14 lasts '\\+x', expected seconds such as"),
        ("W\t.\t.\t31-02-2024-22:00:00\t31-02-2024-22:00:30\t.", "which does not exist"),
        ("W\t.\t.\t22:00:00\t22:00:30\t.", "mixes times told as clock and seconds"),
        ("W\t360", "line 14 has 2 cells, expected"),
        ("W\t.\t.\t0\t30\t.", "the stage at 0 s is|but another one there"),
    ],
)
def test_damaged_annot(tmp_path, row, expected):
    rows = ["class\tinstance\tchannel\tstart\tstop\tmeta"]
    rows += [f"{s}\t.\t.\t{30 * i}\t{30 * i + 30}\t." for i, s in enumerate(["N2", *NIGHT[1:]])]
    with pytest.raises(FileFormatError, match=expected):
        sg.read_hypnogram(write(tmp_path, "night.annot", lines([*rows, row])))


def test_tables_of_several_recordings_are_refused(tmp_path):
    text = luna_stages().decode().splitlines()
    text[3] = text[3].replace("n\t", "m\t", 1)
    with pytest.raises(FileFormatError, match="holds several recordings"):
        sg.read_hypnogram(write(tmp_path, "night.txt", lines(text)))
    text = luna_stages().replace(b"\t60\n", b"\t61\n")
    with pytest.raises(FileFormatError, match="E and START_SEC do not agree"):
        sg.read_hypnogram(write(tmp_path, "night.txt", text))
