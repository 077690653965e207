"""Reading hypnograms: what decode wrote, tables with a stage column, one stage per line."""

from __future__ import annotations

import json
from datetime import datetime

import numpy as np
import pytest

import nights
import stageguard as sg
from messages import mentions, naming
from stageguard.errors import FileFormatError
from stageguard.formats.night import FileOptions
from stageguard.formats.outputs import write_decoding
from stageguard.formats.read import is_hypnogram, read_hypnogram, read_hypnogram_file
from stageguard.night.stages import AASM5, WNR3, WS2, StageScheme
from stageguard.synthetic.night import simulate_night


def write(tmp_path, text, name="night.txt"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def problem(path, **options) -> str:
    with pytest.raises(FileFormatError) as caught:
        read_hypnogram(path, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path.name}: ")
    return str(caught.value).removeprefix(f"{path.name}: ")


@pytest.mark.parametrize(
    ("lines", "scheme", "labels"),
    [
        ("W N1 N2 N3 R ?", AASM5, [0, 1, 2, 3, 4, -1]),
        ("WAKE|Sleep stage 1|NREM2|S4|REM|-1", AASM5, [0, 1, 2, 3, 4, -1]),
        ("wake n r UNS art", WNR3, [0, 1, 2, -1, -1]),
        ("W S W Sleep", WS2, [0, 1, 0, 1]),
        ("Movement time|Sleep stage ?|W|N2", AASM5, [-1, -1, 0, 2]),
    ],
)
def test_one_name_per_line_in_any_alias(tmp_path, lines, scheme, labels):
    path = write(tmp_path, "\n".join(lines.split("|" if "|" in lines else " ")) + "\n")
    night = read_hypnogram(path)
    assert night.scheme == scheme
    assert night.labels.tolist() == labels
    assert (night.epoch_seconds, night.start, night.scorer) == (30.0, None, "night.txt")
    assert is_hypnogram(path)


@pytest.mark.proves("text")
@pytest.mark.parametrize(
    "text",
    [
        "epoch,stage,confidence\n0,W,0.5\n1,N2,0.9\n2,?,0.1\n",
        "epoch;Stage\n0;W\n1;N2\n2;-1\n",
        "onset\tduration\ttrial_type\n0\t20\tSleep stage W\n20\t20\tSleep stage N2\n40\t20\tn/a\n",
        "stage\nW\nN2\n\"\"\n",
        "# by A\nepoch,onset,duration,value,description\n0,0,20,0,WAKE\n1,20,20,2,N2\n2,40,20,-2,UNS\n",
        '"stage","scorer"\n"W","A, B"\n"N2","A, B"\n"?","A, B"\n',
    ],
)  # fmt: skip
def test_tables_are_read_by_the_name_of_the_column(tmp_path, text):
    path = write(tmp_path, text, "night.csv")
    night = read_hypnogram(path, scheme="aasm5")
    assert night.labels.tolist() == [0, 2, -1]
    assert night.epoch_seconds == (20.0 if "duration" in text else 30.0)
    if "duration" not in text:
        assert read_hypnogram(path, epoch_seconds=15).epoch_seconds == 15.0
    else:
        with pytest.raises(FileFormatError, match=naming("20 s", "epoch_seconds=15")):
            read_hypnogram(path, epoch_seconds=15)
    assert is_hypnogram(path)


def decoded(tmp_path, start=None, profile="human-psg-5"):
    density = simulate_night(profile, hours=1, seed=2).density
    density = sg.Hypnodensity(density.probabilities, density.scheme, density.epoch_seconds, start)
    decoding = nights.decode(density, profile)
    write_decoding(decoding, tmp_path / "night")
    return decoding, tmp_path / "night.hypnogram.tsv"


@pytest.mark.proves("stageguard-tsv")
def test_an_output_of_decode_comes_back_with_its_argmax_profile_and_start(tmp_path):
    start = datetime(2024, 5, 1, 22, 30)
    decoding, path = decoded(tmp_path, start)
    found = read_hypnogram_file(path, FileOptions())
    assert np.array_equal(found.hypnogram.labels, decoding.hypnogram.labels)
    assert found.before is not None
    assert np.array_equal(found.before.labels, decoding.argmax)
    assert found.profile == decoding.profile
    assert (found.hypnogram.start, found.before.start, found.hypnogram.epoch_seconds) == (start, start, 30.0)
    assert found.notes == ()


def test_an_output_without_its_sidecar_is_a_table_like_any_other(tmp_path):
    decoding, path = decoded(tmp_path)
    (tmp_path / "night.hypnogram.json").unlink()
    found = read_hypnogram_file(path, FileOptions())
    assert np.array_equal(found.hypnogram.labels, decoding.hypnogram.labels)
    assert found.before is not None
    assert found.profile is None


def test_a_scheme_of_ones_own_survives_the_round_trip(tmp_path):
    document = sg.Profile.load("mouse-eeg-emg-3").to_dict()
    text = json.dumps({k: v for k, v in document.items() if k != "not_for"})
    text = text.replace('"N"', '"Quiet"').replace('"W"', '"Active"')
    text = text.replace("_N\"", "_Quiet\"").replace("_W\"", "_Active\"")  # fmt: skip
    mapping = json.loads(text) | {"stages": ["Active", "Quiet", "R"], "wake": "Active", "rem": "R"}
    mapping.pop("scheme")
    profile = sg.Profile.from_dict(mapping)
    probabilities = np.tile(np.eye(3)[[0, 1, 2]] * 0.7 + 0.1, (20, 1))
    decoding = nights.decode(probabilities, profile)
    write_decoding(decoding, tmp_path / "own")
    night = read_hypnogram(tmp_path / "own.hypnogram.tsv")
    assert night.scheme == profile.scheme
    assert np.array_equal(night.labels, decoding.hypnogram.labels)


def test_finer_stages_are_merged_into_the_scheme_asked_for(tmp_path):
    path = write(tmp_path, "W\nN1\nN2\nN3\nR\n?\n")
    assert read_hypnogram(path, scheme="wnr3").labels.tolist() == [0, 1, 1, 1, 2, -1]
    assert read_hypnogram(path, scheme=WS2).labels.tolist() == [0, 1, 1, 1, 1, -1]
    _, tsv = decoded(tmp_path)
    found = read_hypnogram_file(tsv, FileOptions(scheme=WS2))
    assert found.before is not None
    assert found.before.scheme == found.hypnogram.scheme == WS2


def test_names_of_a_given_scheme_count_first(tmp_path):
    own = StageScheme.custom(("Active", "Quiet", "R"), wake="Active", rem="R")
    path = write(tmp_path, "Active\nQuiet\nREM\n?\n")
    assert read_hypnogram(path, scheme=own).labels.tolist() == [0, 1, 2, -1]
    assert is_hypnogram(path, own)
    assert not is_hypnogram(path)


def test_a_night_of_few_stages_takes_the_default_or_asks(tmp_path):
    path = write(tmp_path, "W\nW\nR\n")
    assert mentions(problem(path), "R", "W", "aasm5", "wldr4", "wnr3", "scheme='aasm5'")
    assert read_hypnogram(path, scheme="wnr3").labels.tolist() == [0, 0, 2]
    default = FileOptions(default_scheme=AASM5)
    assert read_hypnogram_file(path, default).hypnogram.labels.tolist() == [0, 0, 4]
    unscored = write(tmp_path, "?\n?\n", "empty.txt")
    assert mentions(problem(unscored), "scheme", "aasm5", "wldr4", "wnr3", "ws2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("0 bytes", "completely")),
        (" \n\n", ("is empty", "stage")),
        (
            "0\n1\n2\n",
            (6, "YASA", "GSSC", 4, "REM", "NSRR", 5),
        ),
        (
            "W\n2\n",
            (2, "'2'", "W, N1, N2, N3, R"),
        ),
        ("W\nREMM\n", (2, "'REMM'", "W, N1, N2, N3, R")),
        ("W\n\nN2\n", (2, "is empty")),
        ("W\nN\nN2\n", ("mixes", "N, N2, W")),
        ("stage\n", ("header but no", "rows")),
        ("epoch,stage\n0,W\n1\n", (3, 1, "cell", 2)),
        ("stage,duration\nW,30\nN2,60\n", (3, "60 s", "30 s")),
        ("onset,duration,stage\n0,30,W\n45,30,N2\n", (45, "75 s", "begin")),
        ("onset,duration,stage\n0,30,W\n30,30,N9\n", (3, "'N9'")),
        ("onset,stage\n0,W\n30,W\n90,N2\n", (4, "60 s", "30 s")),
        ("epoch,stage\n0,W\n1,W\n1,N2\n", (4, "'epoch'", 1, 1)),
        ("stage,duration\nW,x\n", (2, "'duration'", "'x'")),
        (b"\xff\xfeW\x00", ("UTF-16", "UTF-8")),
        (b"\x00\x01", ("holds binary data",)),
    ],
)  # fmt: skip
def test_bad_files_are_one_line(tmp_path, text, expected):
    assert mentions(problem(write(tmp_path, text)), *expected)


def test_a_damaged_sidecar_is_one_line(tmp_path):
    _, path = decoded(tmp_path)
    sidecar = tmp_path / "night.hypnogram.json"
    content = json.loads(sidecar.read_text())
    content["stageguard"]["profile"] = 7
    sidecar.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match=naming("night.hypnogram.json", "incomplete or was")):
        read_hypnogram(path)
