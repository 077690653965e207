"""Text, tables and bars on the terminal."""

from __future__ import annotations

import re
import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from stageguard.cli.terminal import Console, progress


def cell_len(text):
    """How many cells the letters of these tests take: two for Chinese ones."""
    return sum(1 + (unicodedata.east_asian_width(letter) == "W") for letter in text)


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


def test_tables_line_up(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    rows = [("a long name of a night that wraps", "1.5 above"), ("睡眠", [("20", "green"), " inside"])]
    Console().table(("file", ">value"), rows)
    head, rule, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["file", "value"]
    assert set(rule) == {"─"} and len(rule) == 40
    assert [cell_len(row) for row in rows if row.endswith(("above", "inside"))] == [40, 40]
    assert "".join(rows).count("wraps") == 1


@given(st.text(alphabet="ab é睡 ", max_size=40), st.integers(2, 12))
def test_no_line_is_too_wide_and_no_letter_is_lost(text, width):
    terminal = Terminal()
    console = Console()
    console._stream, console.width = terminal, width
    console.print((text, ""))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text).splitlines()
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_bar_moves_and_disappears(monkeypatch):
    terminal = watched(monkeypatch)
    assert list(progress(range(3), "Decoding", 3, quiet=False)) == [0, 1, 2]
    assert "Decoding" in terminal.text
    assert terminal.text.endswith("\x1b[2K")  # the line is erased
    terminal.text = ""
    assert list(progress(range(1), "Decoding", 1, quiet=False)) == [0]
    assert list(progress(range(3), "Decoding", 3, quiet=True)) == [0, 1, 2]
    assert terminal.text == ""
