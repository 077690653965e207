"""Files that are read: which are refused, and in which words; JSON that is written."""

from __future__ import annotations

import os

import pytest

import stageguard as sg
from cli_runner import error_line
from messages import mentions, naming
from stageguard.errors import FileFormatError, ProfileError
from stageguard.files import MOST_BYTES, read_file

PROFILE = "human-psg-5"
ROWS = "W,N1,N2,N3,R\n" + "0.6,0.1,0.1,0.1,0.1\n" * 40


def pipe(folder, suffix):
    path = folder / f"pipe{suffix}"
    os.mkfifo(path)
    return path


def test_pipes_and_devices_are_refused_and_links_followed(tmp_path):
    (tmp_path / "device").symlink_to("/dev/zero")
    for path in (pipe(tmp_path, ".csv"), tmp_path / "device"):
        with pytest.raises(FileFormatError, match=naming(path.name, "pipe")):
            read_file(path)
    with pytest.raises(ProfileError, match="is a pipe"):
        sg.Profile.load(pipe(tmp_path, ".toml"))
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.txt").symlink_to("a.txt")
    assert read_file(tmp_path / "b.txt") == b"x"


def test_what_is_read_at_once_has_a_limit(tmp_path):
    path = tmp_path / "large.x"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)  # sparse: it takes no room on the disk
    with pytest.raises(FileFormatError, match=rf"^large.x: has {MOST_BYTES + 1:,} bytes"):
        read_file(path)


# ---- one bad file is one row


@pytest.mark.parametrize("command", ["stats", "convert"])
def test_other_nights_go_on(run, tmp_path, command):
    (tmp_path / "digits.json").write_text(f"[0, {'9' * 400}]")
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    (tmp_path / "good.txt").write_text("W\nN2\nN2\nR\nN3\n" * 20)
    files = [tmp_path / name for name in ("digits.json", "loop.txt", "good.txt")]
    own = ("--to", "usleep-hyp", "-o", tmp_path / "out") if command == "convert" else ("-p", PROFILE)
    ran = run(command, *files, *own, "--json")
    nights = ran.nights if command == "stats" else ran.lines
    assert ran.code == 3
    assert [night["ok"] for night in nights] == [False, False, True], nights
    assert mentions(nights[1]["error"], "loop.txt", "symbolic links")


def test_what_a_reader_raises_names_its_type(run, tmp_path, monkeypatch):
    from stageguard.formats.tables import probabilities

    real = probabilities.load_table

    def stumbling(path, *given, **options):
        if path.name == "a.csv":
            raise ZeroDivisionError("division\nby zero")
        return real(path, *given, **options)

    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(ROWS)
    monkeypatch.setattr(probabilities, "load_table", stumbling)
    files = (tmp_path / "a.csv", tmp_path / "b.csv")
    ran = run("decode", *files, "-p", PROFILE, "-o", tmp_path / "out", "--json")
    first, second = ran.lines
    assert first["error"].startswith("a.csv: ") and "ZeroDivisionError" in first["error"]
    assert second["ok"] and ran.code == 3


def test_want_of_memory_ends_the_run(run, tmp_path, monkeypatch):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("W\nN2\nR\n" * 20)

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("stageguard.formats.tools.text.text_lines", full)
    assert "MemoryError" in error_line(run("stats", tmp_path / "a.txt", tmp_path / "b.txt", "-p", PROFILE))


# ---- JSON that is written
