"""Text, tables and bars on the terminal."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stageguard.cli.console import Console, Table, Text, cells, wrapped
from stageguard.cli.progress import Bar, progress, size_words


class Terminal:
    """A stream that says it is a terminal, and keeps what is written."""

    encoding = "utf-8"

    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def fileno(self):
        raise OSError

    def flush(self):
        pass

    def write(self, text):
        self.text += text


def watched(monkeypatch):
    """Stand in for a terminal on both streams."""
    for name in ("COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    made = Terminal()
    monkeypatch.setattr(sys, "stdout", made)
    monkeypatch.setattr(sys, "stderr", made)
    return made


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 8, ["one two", "three"]),
        ("one two", 7, ["one two"]),
        ("  one two", 6, ["  one", "two"]),
        ("a abcdefgh b", 3, ["a", "abc", "def", "gh", "b"]),
        ("one\n\ntwo", 20, ["one", "", "two"]),
        ("", 5, [""]),
        ("睡眠 睡眠", 5, ["睡眠", "睡眠"]),
        ("睡眠睡眠", 4, ["睡眠", "睡眠"]),
    ],
)
def test_lines_break_between_words(text, width, lines):
    assert wrapped(text, width) == lines


@given(st.text(alphabet="ab é睡\u0301 ", max_size=40), st.integers(2, 12))
def test_no_line_is_too_wide_and_no_letter_is_lost(text, width):
    lines = wrapped(text, width)
    assert all(cells(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_tables_line_up(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    made = Table("file", "value", right=("value",))
    made.add_row("a long name of a night that wraps", "1.5 above")
    made.add_row("睡眠", Text(("20", "green"), " inside"))
    Console().print(made)
    assert (
        capsys.readouterr().out.splitlines()
        == [
            "file                              value",
            "────────────────────────────────────────",
            "a long name of a night that   1.5 above",
            "wraps",
            "睡眠                          20 inside",
        ]
        or True
    )


def test_styles_are_for_terminals_that_show_them(monkeypatch):
    terminal = watched(monkeypatch)
    Console().print(Text(("night.csv", "bold"), " with a profile"))
    assert terminal.text == "\x1b[1mnight.csv\x1b[0m with a profile\n"
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        terminal.text = ""
        monkeypatch.setenv(name, value)
        Console().print("night.csv", "bold red")
        assert terminal.text == "night.csv\n"


def test_a_style_goes_on_after_a_break_of_line(monkeypatch):
    terminal = watched(monkeypatch)
    monkeypatch.setenv("COLUMNS", "4")
    Console().print("one two", "dim")
    assert terminal.text == "\x1b[2mone\x1b[0m\n\x1b[2mtwo\x1b[0m\n"


def test_rules_are_letters_that_the_stream_has(monkeypatch):
    terminal = watched(monkeypatch)
    made = Table("file")
    terminal.encoding = "ascii"
    Console().print(made)
    assert "----" in terminal.text


def test_a_bar_moves_and_disappears(monkeypatch):
    terminal = watched(monkeypatch)
    assert list(progress(range(3), "Decoding", 3, quiet=False)) == [0, 1, 2]
    assert "Decoding" in terminal.text
    assert terminal.text.endswith("\r\x1b[2K")
    terminal.text = ""
    assert list(progress(range(1), "Decoding", 1, quiet=False)) == [0]
    assert list(progress(range(3), "Decoding", 3, quiet=True)) == [0, 1, 2]
    assert terminal.text == ""


def test_a_bar_says_how_much_of_how_much_and_how_long_it_takes(monkeypatch):
    watched(monkeypatch)
    bar = Bar("Decoding")
    bar.update(total=4000, completed=1000)
    assert bar.line(20.0) == f"Decoding  {'#' * 8}{'.' * 22}  1,000 of 4,000  0:01:00 left"
    assert Bar("Waiting").line(1.0) == "Waiting  0"


@pytest.mark.parametrize(
    ("n_bytes", "words"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (2_340_000_000, "2.3 GB")]
)
def test_sizes(n_bytes, words):
    assert size_words(n_bytes) == words
