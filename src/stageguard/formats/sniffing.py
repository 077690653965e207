"""How the content of each file format begins. Reads the first bytes only, and decides between no formats.

A test takes the first `HEAD_BYTES` of a file and its path, and says whether the file may be of its format.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from stageguard.base.files import LIMITS, read_file

HEAD_BYTES = 8192
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

Sniff = Callable[[bytes, Path], bool]

# Contents that are told apart only to say what was found.
STRANGERS = (
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"%PDF", "a PDF document"),
    (b"\x89HDF", "an HDF5 file"),
    (b"MATLAB 5.0 MAT-file", "a MATLAB file"),
    (b"\x80", "a Python pickle or other binary data"),
    (b"\x89PNG", "a picture"),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Word file"),
    (b"0       ", "an EDF recording"),
)


def begins_with(*magic: bytes) -> Sniff:
    """Return the test for content that begins with one of these."""
    return lambda head, path: head.startswith(magic)


def is_text(head: bytes, path: Path) -> bool:
    """Whether this may be a text table: no binary data, no XML, no JSON."""
    if head[:2] in UTF16_MARKS:
        return True
    if b"\x00" in head or stranger(head) is not None:
        return False
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"<", b"{", b"[")


def is_json(head: bytes) -> bool:
    """Whether this begins like a JSON object."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def has_xml_root(name: str) -> Sniff:
    """Return the test for XML whose first element has this name."""
    return lambda head, path: xml_root(head) == name


def xml_root(head: bytes) -> str | None:
    """Return the name of the first element of an XML file from its first bytes, or None for anything else."""
    encoding = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(head[:2], "utf-8-sig")
    text = head.decode(encoding, errors="replace").lstrip("\ufeff \t\r\n")
    if not text.startswith("<"):
        return None
    plain = re.sub(r"<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^<>[]*(\[.*?\]\s*)?>", "", text, flags=re.DOTALL)
    found = re.match(r"\s*<([^\s<>/!?]+)", plain)
    return found[1].rpartition(":")[2] if found is not None else ""


def stranger(head: bytes) -> str | None:
    """Return what a content is that nobody here reads, or None."""
    return next((name for magic, name in STRANGERS if head.startswith(magic)), None)


@lru_cache(maxsize=4)
def first_lines(head: bytes) -> tuple[str, ...]:
    """Return the first lines of a text, without its byte order mark; none of anything but UTF-8."""
    if b"\x00" in head or head[:2] in UTF16_MARKS:
        return ()
    text = head.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    return tuple(text.split("\n"))


@lru_cache(maxsize=64)
def first_cells(line: str) -> tuple[str, ...]:
    """Return the cells of a line under the mark that gives most of them, in lower case and without quotes."""
    mark = max("\t;,", key=line.count)
    return tuple(cell.strip().strip('"').strip().casefold() for cell in line.split(mark))


@lru_cache(maxsize=4)
def header_cells(head: bytes) -> frozenset[str]:
    """Return the names in the first line that has several, in lower case."""
    for line in first_lines(head)[:3]:
        cells = first_cells(line)
        if len(cells) > 1:
            return frozenset(cells)
    return frozenset()


def is_own_table(head: bytes, path: Path) -> bool:
    """Whether `decode` wrote it: named after what it holds, with the columns it has."""
    return path.name.endswith(".hypnogram.tsv") or {"stage", "label", "argmax_stage"} <= header_cells(head)


NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|nan|NaN|NAN", re.ASCII)


def all_numbers(cells: tuple[str, ...] | list[str]) -> bool:
    """Whether there are cells and each is a number."""
    return bool(cells) and all(NUMBER.fullmatch(cell) for cell in cells)


def never(head: bytes, path: Path) -> bool:
    """Say no: content does not tell this format, and its user must name it."""
    return False


def is_yasa_json(head: bytes, path: Path) -> bool:
    """Whether this is what `yasa.Hypnogram.to_json` writes."""
    if not is_json(head):
        return False
    if path.stat().st_size > LIMITS["JSON"]:
        return False
    content = read_file(path, "JSON")
    return all(key in content for key in (b'"values"', b'"n_stages"', b'"freq"'))


def gssc_header(head: bytes) -> tuple[str, ...] | None:
    """Return the column names of a table of GSSC, which has a title above them, or None."""
    lines = first_lines(head)
    if len(lines) < 2 or not lines[0].strip('"').startswith("Hypnogram of "):
        return None
    cells = first_cells(lines[1])
    return cells if cells[:3] == ("epoch", "time", "stage") else None


def is_gssc_csv(head: bytes, path: Path) -> bool:
    """Whether this is a table of GSSC."""
    return gssc_header(head) is not None


def is_luna_pops(head: bytes, path: Path) -> bool:
    """Whether this has the columns of Luna's POPS or SOAP, one row per epoch."""
    return {"e", "pp_w", "pp_r"} <= header_cells(head)


def is_stanford_stages(head: bytes, path: Path) -> bool:
    """Whether this is named as Stanford STAGES names a hypnodensity, and holds five numbers per line."""
    lines = first_lines(head)
    if not path.name.lower().endswith((".hypnodensity.txt", ".hypnodensity.csv")) or not lines:
        return False
    cells = lines[0].replace(",", " ").split()
    return len(cells) == 5 and all_numbers(cells)


def is_accusleepy_csv(head: bytes, path: Path) -> bool:
    """Whether this has AccuSleePy's column of labels."""
    lines = first_lines(head)
    return bool(lines) and "brain_state" in first_cells(lines[0])


def is_yasa_confidence(head: bytes, path: Path) -> bool:
    """Whether this has a stage and a confidence per epoch, as YASA's examples write it."""
    cells = header_cells(head)
    return {"stage", "confidence"} <= cells and len(cells) <= 4


def is_luna_edf(head: bytes, path: Path) -> bool:
    """Whether this is an EDF file with channels of posteriors that Luna added."""
    if not head.startswith(b"0       ") or not head[252:256].strip().isdigit():
        return False
    n_signals = int(head[252:256])
    labels = {head[256 + 16 * i : 272 + 16 * i].strip().upper() for i in range(n_signals)}
    return {b"PP_W", b"PP_R"} <= labels
