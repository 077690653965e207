"""Files that are read: which are refused, and in which words."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import pytest

import stageguard as sg
from cli_runner import Runner, error_line
from messages import mentions, naming
from stageguard.errors import FileFormatError, ProfileError
from stageguard.files import MOST_BYTES, checked_file, read_file

PROFILE = "human-psg-5"


@pytest.fixture
def run(capsys):
    return Runner(capsys)


# ---- what it refuses


@pytest.fixture
def odd_files(tmp_path):
    """A pipe, a device and a link that leads to itself, by names that end as wanted."""

    def make(suffix: str) -> dict[str, Path]:
        pipe, device, loop = (tmp_path / f"{name}{suffix}" for name in ("pipe", "device", "loop"))
        os.mkfifo(pipe)
        device.symlink_to("/dev/zero")
        loop.symlink_to(loop)
        return {"pipe": pipe, "device": device, "loop": loop}

    return make


def test_pipes_devices_and_loops_are_refused(odd_files):
    files = odd_files(".csv")
    for name in ("pipe", "device"):
        with pytest.raises(FileFormatError, match=naming(name, "pipe")):
            read_file(files[name])
    with pytest.raises(FileFormatError, match="symbolic links"):
        checked_file(files["loop"])


def test_links_to_files_are_followed(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.txt").symlink_to("a.txt")
    assert read_file(tmp_path / "b.txt") == b"x"


def test_what_is_read_at_once_has_a_limit(tmp_path):
    path = tmp_path / "large.x"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)  # sparse: it takes no room on the disk
    with pytest.raises(FileFormatError, match=rf"^large.x: has {MOST_BYTES + 1:,} bytes"):
        read_file(path)


def test_profiles_that_are_no_files(odd_files):
    for path in odd_files(".toml").values():
        with pytest.raises(ProfileError, match=r"is a pipe|symbolic links"):
            sg.Profile.load(path)


@pytest.fixture
def night(tmp_path):
    path = tmp_path / "night.csv"
    path.write_text("W,N1,N2,N3,R\n" + "0.6,0.1,0.1,0.1,0.1\n" * 40)
    return path


@pytest.mark.parametrize("kind", ["pipe", "device", "loop"])
@pytest.mark.parametrize(
    ("command", "option", "suffix"),
    [
        ("decode", "--quality", ".txt"),
        ("decode", "--quality", ".npy"),
        ("decode", "--list", ".tsv"),
        ("stats", "--by", ".tsv"),
        ("compare", None, ".txt"),
        ("report", "--expert", ".txt"),
    ],
)
def test_options_that_name_no_file_do_not_hang(run, night, odd_files, command, option, suffix, kind):
    path = odd_files(suffix)[kind]
    ran = run(command, *((path, night) if option is None else (night, option, path)), "-p", PROFILE)
    assert ran.code in (1, 2)
    assert f"{kind}{suffix}" in ran.err.replace("\n", "")


# ---- JSON


def test_a_list_of_numbers_asks_whose_they_are(tmp_path):
    path = tmp_path / "mouse.json"
    path.write_text("[2,2,3,3,1,1,2]")
    with pytest.raises(FileFormatError, match=naming("mouse.json", "a bare list")):
        sg.read_hypnogram(path)
    assert "".join(sg.read_hypnogram(path, format="numbers-accusleep").stages) == "WWNNRRW"
    assert sg.read_hypnogram(path, format="dreem-json").stages.tolist()[:3] == ["N2", "N2", "N3"]


def test_a_number_of_400_digits_in_json(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(f"[0, {'9' * 400}]")
    with pytest.raises(FileFormatError, match=r"a.json: epoch 1 is 9{20}\.\.\., expected one of"):
        sg.read_hypnogram(path, format="dreem-json")


def test_a_list_has_a_limit_of_epochs(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([0] * 1_000_001))
    for form in ("dreem-json", "numbers-rk"):
        with pytest.raises(FileFormatError, match=r"1,000,001 epochs.* 1,000,000"):
            sg.read_hypnogram(path, format=form)


def test_lines_have_a_limit_of_epochs(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("W\nN2\n" * 500_001)
    with pytest.raises(FileFormatError, match=r"1,000,002 epochs.* 1,000,000"):
        sg.read_hypnogram(path, scheme="aasm5")


# ---- XML


@pytest.mark.slow
@pytest.mark.parametrize("element", [b"<a/>", b"<a b='1' c='2' d='3' e='4'/>"])
def test_much_xml_takes_little_memory(tmp_path, element):
    path = tmp_path / "night.xml"
    path.write_bytes(b"<PSGAnnotation>" + element * (16_000_000 // len(element)) + b"</PSGAnnotation>")
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=r"is XML of more than 1,000,000 elements"):
            sg.read_hypnogram(path)
        assert tracemalloc.get_traced_memory()[1] < 256 * 2**20
    finally:
        tracemalloc.stop()


# ---- one bad file is one row


def bad_nights(folder: Path) -> None:
    (folder / "digits.json").write_text(f"[0, {'9' * 400}]")
    (folder / "loop.txt").symlink_to("loop.txt")
    (folder / "good.txt").write_text("W\nN2\nN2\nR\nN3\n" * 20)


@pytest.mark.parametrize("command", ["check", "stats", "compare", "convert"])
def test_other_nights_go_on(run, tmp_path, command):
    bad_nights(tmp_path)
    files = [tmp_path / name for name in ("digits.json", "loop.txt", "good.txt")]
    own: tuple[object, ...] = ("-p", PROFILE)
    if command == "convert":
        own = ("--to", "luna-eannot", "-o", tmp_path / "out")
    if command == "compare":
        (tmp_path / "expert").mkdir()
        for name in ("digits", "loop", "good"):
            (tmp_path / "expert" / f"{name}.txt").write_text((tmp_path / "good.txt").read_text())
        files.insert(0, tmp_path / "expert")
    ran = run(command, *files, *own, "--json")
    nights = (
        ran.json if isinstance(ran.json, list) else next(v for v in ran.json.values() if isinstance(v, list))
    )
    assert ran.code == 1
    assert [night["ok"] for night in nights] == [False, False, True], nights
    assert mentions(nights[1]["error"], "loop.txt", "symbolic links")


def test_what_a_reader_raises_names_its_type(run, tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("W,N1,N2,N3,R\n" + "0.6,0.1,0.1,0.1,0.1\n" * 40)
    (tmp_path / "b.csv").write_text("W,N1,N2,N3,R\n" + "0.6,0.1,0.1,0.1,0.1\n" * 40)
    from stageguard.formats.tables import probabilities

    real = probabilities.load_table

    def stumbling(path, *given, **options):
        if path.name == "a.csv":
            raise ZeroDivisionError("division\nby zero")
        return real(path, *given, **options)

    monkeypatch.setattr(probabilities, "load_table", stumbling)
    ran = run(
        "decode", tmp_path / "a.csv", tmp_path / "b.csv", "-p", PROFILE, "-o", tmp_path / "out", "--json"
    )
    first, second = ran.json["nights"] if isinstance(ran.json, dict) else ran.json
    assert first["error"].startswith("a.csv: ") and "ZeroDivisionError" in first["error"]
    assert second["ok"] and ran.code == 1


def test_want_of_memory_ends_the_run(run, tmp_path, monkeypatch):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("W\nN2\nR\n" * 20)

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("stageguard.formats.tools.text.text_lines", full)
    line = error_line(run("check", tmp_path / "a.txt", tmp_path / "b.txt", "-p", PROFILE))
    assert "MemoryError" in line


def test_luna_columns_are_matched_by_name(tmp_path):
    path = tmp_path / "night.annot"
    rows = ["start\tstop\tclass\tinstance\tchannel\tmeta"]
    rows += [f"{30 * i}\t{30 * i + 30}\t{stage}\t.\t.\t." for i, stage in enumerate(["W", "N1", "N2", "R"])]
    path.write_text("\n".join(rows) + "\n")
    assert sg.read_hypnogram(path, scheme="aasm5").stages.tolist() == ["W", "N1", "N2", "R"]
    path.write_text("\n".join([rows[0].replace("meta", "start"), *rows[1:]]) + "\n")
    with pytest.raises(FileFormatError, match=r"line 1 .*start twice"):
        sg.read_hypnogram(path, scheme="aasm5")
    path.write_text("\n".join([*rows, "120\t150\tW"]) + "\n")
    with pytest.raises(FileFormatError, match=naming(6, 3, "cells", 6)):
        sg.read_hypnogram(path, scheme="aasm5")
