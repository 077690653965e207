"""How the content of each format of hypnograms begins. Reads the first bytes only, and decides nothing."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path

from stageguard.formats import sniffing as sniffing
from stageguard.formats.sniffing import HEAD_BYTES, Sniff, first_cells, first_lines

HEADER_LINES = 30
_INTEGER = re.compile(r"[+-]?\d{1,3}(\.0*)?", re.ASCII)
_END_TIME = re.compile(r"\s*(\*?[A-Za-z][\w?-]*)\s+(\S.*)")
_IDS = re.compile(r"\s*\d+(\.\d*)?\s*,\s*\d+(\.\d*)?\s*,\s*[A-Za-z?][\w ?]*")
OWN_HEAD = ("onset", "duration", "time", "stage")  # columns that this package's own table begins with
FIF_HEAD = b"\x00\x00\x00d\x00\x00\x00\x1f"


def whole_lines(head: bytes) -> tuple[str, ...]:
    """Return the first lines without a last one that may be cut, and without empty ones at both ends."""
    lines = list(first_lines(head))
    if len(head) >= HEAD_BYTES and len(lines) > 1:
        lines.pop()
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        lines.pop(0)
    return tuple(line.strip() for line in lines)


def has_columns(*names: str) -> Sniff:
    """Return the test for a text table with these columns, in any order and among others."""
    wanted = set(names)
    return lambda head, path: any(
        wanted <= set(first_cells(line)) for line in whole_lines(head)[:HEADER_LINES]
    )


def holds_numbers(codes: Collection[int]) -> Sniff:
    """Return the test for text with one of these whole numbers per line, and nothing said about them."""

    def test(head: bytes, path: Path) -> bool:
        lines = whole_lines(head)
        if not lines or not all(_INTEGER.fullmatch(line) for line in lines) or description(path).is_file():
            return False
        return {int(float(line)) for line in lines} <= set(codes)

    return test


def holds_words(words: Collection[str], suffix: str) -> Sniff:
    """Return the test for text of that name with one of these words per line, in any case."""
    return lambda head, path: (
        path.name.lower().endswith(suffix)
        and bool(whole_lines(head))
        and all(line.casefold() in words for line in whole_lines(head))
    )


def is_visbrain_sample(head: bytes, path: Path) -> bool:
    """Whether there is a number per line, and a file beside it that says what the numbers are."""
    lines = whole_lines(head)
    return bool(lines) and all(map(_INTEGER.fullmatch, lines)) and description(path).is_file()


def is_visbrain_times(head: bytes, path: Path) -> bool:
    """Whether every line is a stage and when it ends, in seconds that grow."""
    lines = whole_lines(head)
    found = [_END_TIME.fullmatch(line) for line in lines]
    if len(lines) < 1 or not all(found):
        return False
    ends = [each[2] for each in found if each and not each[1].startswith("*")]
    try:
        times = [float(end) for end in ends]
    except ValueError:
        return False
    return bool(times) and all(a < b for a, b in pairwise(times))


def is_elan(head: bytes, path: Path) -> bool:
    """Whether it begins like a hypnogram of Elan."""
    lines = whole_lines(head)[:4]
    return [line.partition(" ")[0] for line in lines] == [
        "time_base",
        "sampling_period",
        "epoch_nb",
        "epoch_list",
    ]


def is_usleep_ids(head: bytes, path: Path) -> bool:
    """Whether every line is an onset, a duration and a stage."""
    lines = whole_lines(head)
    return bool(lines) and all(_IDS.fullmatch(line) for line in lines)


def is_bids_events(head: bytes, path: Path) -> bool:
    """Whether it is named like BIDS events, or like a hypnogram proposed there, and has their columns."""
    named = path.name.lower().endswith(("_events.tsv", "_hypnogram.tsv"))
    return named and has_columns("onset", "duration")(head, path) and not is_boas_events(head, path)


def is_boas_events(head: bytes, path: Path) -> bool:
    """Whether it has the columns of the Bitbrain Open Access Sleep dataset."""
    return any(
        has_columns("onset", "duration", "begsample", name)(head, path) for name in ("stage_hum", "stage_ai")
    )


def is_luna_annot(head: bytes, path: Path) -> bool:
    """Whether it has Luna's columns; without their names it must be called .annot."""
    if has_columns("class", "instance", "channel", "start", "stop")(head, path):
        return True
    lines = [line for line in whole_lines(head) if line and not line.startswith("#")]
    named = path.name.lower().endswith(".annot")
    return named and bool(lines) and all(len(line.split("\t")) in (3, 4, 6) for line in lines)


def is_gssc_csv(head: bytes, path: Path) -> bool:
    """Whether GSSC wrote it, with or without probabilities."""
    lines = whole_lines(head)
    return (
        bool(lines)
        and lines[0].startswith("Hypnogram of")
        and has_columns("epoch", "time", "stage")(head, path)
    )


def is_mne_text(head: bytes, path: Path) -> bool:
    """Whether MNE wrote it as text."""
    lines = whole_lines(head)
    return bool(lines) and lines[0].replace(" ", "") == "#MNE-Annotations"


def is_mne_csv(head: bytes, path: Path) -> bool:
    """Whether MNE wrote it as CSV: times of day of a date, and no number of seconds."""
    lines = whole_lines(head)
    return (
        len(lines) > 1
        and lines[0].startswith("onset,duration,description")
        and re.match(r"\d{4}-\d\d-\d\d[ T]\d\d:", lines[1]) is not None
    )


def has_own_stages(head: bytes, path: Path) -> bool:
    """Whether it is this package's own table with a column of stages."""
    lines = first_lines(head)
    return bool(lines) and first_cells(lines[0])[:4] == OWN_HEAD


def has_own_probabilities(head: bytes, path: Path) -> bool:
    """Whether it is this package's own table with columns of probabilities."""
    lines = first_lines(head)
    cells = first_cells(lines[0]) if lines else ()
    return cells[:3] == OWN_HEAD[:3] and len({*cells} - {*OWN_HEAD}) > 1


def is_edfbrowser_csv(head: bytes, path: Path) -> bool:
    """Whether its first line has the columns that EDFbrowser is told to import, in this order."""
    lines = whole_lines(head)
    return bool(lines) and first_cells(lines[0]) == ("onset", "label", "duration")


def is_wonambi_csv(head: bytes, path: Path) -> bool:
    """Whether wonambi exported it."""
    return has_columns("clock start time", "start", "end", "stage")(head, path)


def is_dreem_json(head: bytes, path: Path) -> bool:
    """Whether it is a list of numbers in JSON."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return re.match(rb"\[\s*-?\d", text) is not None


def is_yasa_json(head: bytes, path: Path) -> bool:
    """Whether YASA wrote it: a JSON object with stages and what they are, in any order."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return re.match(rb'\{\s*"values"\s*:\s*\[', text) is not None or sniffing.is_yasa_json(head, path)


def is_mat(head: bytes, path: Path) -> bool:
    """Whether it is a MAT-file, of version 5 to 7 or 7.3."""
    return head.startswith(b"MATLAB ")


def is_hdf5(head: bytes, path: Path) -> bool:
    """Whether it is an HDF5 file that is no MAT-file."""
    return head.startswith(b"\x89HDF\r\n\x1a\n")


def is_fif(head: bytes, path: Path) -> bool:
    """Whether it is a FIF file."""
    return head.startswith(FIF_HEAD)


def never(head: bytes, path: Path) -> bool:
    """Say no: content alone cannot tell it, so that it must be named."""
    return False


def description(path: Path) -> Path:
    """Return where Visbrain puts what the numbers of a file are."""
    return path.with_name(f"{path.stem}_description.txt")
