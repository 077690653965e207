"""Test whether a file may have a format, by its first `HEAD_BYTES` and its path."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from pathlib import Path

from stageguard.files import open_file

HEAD_BYTES = 8192
HEADER_LINES = 30
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

EDF = b"0       "  # how an EDF file begins

Sniff = Callable[[bytes, Path], bool]

# Contents that are not read, and what to call them in messages.
STRANGERS = (
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"%PDF", "a PDF document"),
    (b"\x89HDF", "an HDF5 file"),
    ((b"MATLAB 5.0", b"MATLAB 7.3"), "a MATLAB file"),
    (b"\x80", "a Python pickle or other binary data"),
    (b"\x89PNG", "a picture"),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Word file"),
    (EDF, "an EDF recording"),
)


def read_head(path: Path) -> bytes:
    """Return the first bytes of a file, for the tests below."""
    with open_file(path) as file:
        return file.read(HEAD_BYTES)


def begins_with(*magic: bytes) -> Sniff:
    """Return the test for content that begins with one of these bytes."""
    return lambda head, path: head.startswith(magic)


def is_text(head: bytes, path: Path) -> bool:
    """Whether content may be a text table: no binary data, no XML, no JSON."""
    if head[:2] in UTF16_MARKS:
        return True
    if b"\x00" in head or stranger(head) is not None:
        return False
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"<", b"{", b"[")


def is_json(head: bytes) -> bool:
    """Whether content begins like a JSON object."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def has_xml_root(name: str) -> Sniff:
    """Return the test for XML whose first element has this name."""
    return lambda head, path: xml_root(head) == name


def xml_root(head: bytes) -> str | None:
    """Return the name of the first element of XML, or None for other content."""
    encoding = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(head[:2], "utf-8-sig")
    text = head.decode(encoding, errors="replace").lstrip("\ufeff \t\r\n")
    if not text.startswith("<"):
        return None
    plain = re.sub(r"<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^<>[]*(\[.*?\]\s*)?>", "", text, flags=re.DOTALL)
    element = re.match(r"\s*<([^\s<>/!?]+)", plain)
    return element[1].rpartition(":")[2] if element is not None else ""


def stranger(head: bytes) -> str | None:
    """Return the name of a kind of content that is not read here, or None."""
    return next((name for magic, name in STRANGERS if head.startswith(magic)), None)


def content(head: bytes) -> str:
    """Return what to call content that no format recognises."""
    if is_json(head):
        return "JSON of an unknown kind"
    first = head.lstrip()[:1]
    if first == b"<":
        return f"XML that begins with <{(xml_root(head) or '')[:40]}>"
    return "a JSON list of an unknown kind" if first == b"[" else stranger(head) or "binary data"


@lru_cache(maxsize=4)
def first_lines(head: bytes) -> tuple[str, ...]:
    """Return the first lines of a text without byte order mark; none for binary data or UTF-16."""
    if b"\x00" in head or head[:2] in UTF16_MARKS:
        return ()
    text = head.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    return tuple(text.split("\n"))


@lru_cache(maxsize=64)
def first_cells(line: str) -> tuple[str, ...]:
    """Return the cells of a line by its most frequent delimiter, in lower case and without quotes."""
    mark = max("\t;,", key=line.count)
    return tuple(cell.strip().strip('"').strip().casefold() for cell in line.split(mark))


def first_row(head: bytes) -> tuple[str, ...]:
    """Return `first_cells` of the first line; none for binary data or UTF-16."""
    lines = first_lines(head)
    return first_cells(lines[0]) if lines else ()


@lru_cache(maxsize=4)
def header_cells(head: bytes) -> frozenset[str]:
    """Return the cells, in lower case, of the first of three lines that has several."""
    for line in first_lines(head)[:3]:
        cells = first_cells(line)
        if len(cells) > 1:
            return frozenset(cells)
    return frozenset()


_INTEGER = re.compile(r"[+-]?\d{1,3}(\.0*)?", re.ASCII)


def never(head: bytes, path: Path) -> bool:
    """Return False: the content does not tell this format, so the user must name it."""
    return False


def whole_lines(head: bytes) -> tuple[str, ...]:
    """Return the first lines, without a last one that may be cut and empty ones at both ends."""
    lines = [line.strip() for line in first_lines(head)]
    if len(head) >= HEAD_BYTES and len(lines) > 1:
        lines.pop()
    filled = [index for index, line in enumerate(lines) if line]
    return tuple(lines[filled[0] : filled[-1] + 1]) if filled else ()


def has_columns(*names: str) -> Sniff:
    """Return the test for a text table with these columns, in any order and among others."""
    wanted = set(names)
    return lambda head, path: any(
        wanted <= set(first_cells(line)) for line in whole_lines(head)[:HEADER_LINES]
    )


def integers(head: bytes) -> set[int] | None:
    """Return the whole numbers of a text with one per line, or None for other text."""
    lines = whole_lines(head)
    if not lines or not all(map(_INTEGER.fullmatch, lines)):
        return None
    return {int(float(line)) for line in lines}


def is_number_list(head: bytes, path: Path) -> bool:
    """Whether content is a list of numbers in JSON."""
    return re.match(rb"\[\s*-?\d", head.removeprefix(b"\xef\xbb\xbf").lstrip()) is not None


def holds_words(words: Collection[str], suffix: str) -> Sniff:
    """Return the test for a text file with this suffix and one of these words per line."""
    return lambda head, path: (
        path.name.lower().endswith(suffix)
        and bool(whole_lines(head))
        and all(line.casefold() in words for line in whole_lines(head))
    )
