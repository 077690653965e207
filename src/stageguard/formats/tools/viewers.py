"""Read hypnograms of programs that show recordings: Visbrain Sleep, Elan, wonambi.

One value per second stays one epoch per second. The XML of wonambi also holds events and bookmarks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from xml.etree.ElementTree import Element

from stageguard.files import file_error
from stageguard.formats.annotations import staged_rows
from stageguard.formats.density import listed
from stageguard.formats.file_format import PROBABILITIES, SCORER, START, FileFormat
from stageguard.formats.hypnogram import NUMBERINGS, UNSCORED_WORDS, names_of, stage_numbers
from stageguard.formats.raw_night import (
    ONLY_STAGES,
    Event,
    FileOptions,
    RawHypnogram,
    RawNight,
    Reader,
    of_stages,
)
from stageguard.formats.sniffing import has_columns, has_xml_root, integers, whole_lines
from stageguard.formats.tables.delimited import read_rows, text_lines
from stageguard.formats.tables.table import as_number
from stageguard.formats.xml import children, read_xml, text_of
from stageguard.night.stages import AASM5, UNSCORED_NAME, canonical_name

_END_TIME = re.compile(r"\s*(\*?[A-Za-z][\w?-]*)\s+(\S.*)")
ELAN_HEADER = ("time_base", "sampling_period", "epoch_nb", "epoch_list")
ELAN_CODES = {**NUMBERINGS["rk"].codes, -2: UNSCORED_NAME}
WONAMBI_COLUMNS = ("clock start time", "start", "end", "stage")
_LOSES = (PROBABILITIES, START, SCORER)


def read_times(path: Path, options: FileOptions) -> RawHypnogram:
    """Read a stage and its end in seconds per line; lines that begin with * describe the recording."""
    rows = []
    before = 0.0
    for number, line in enumerate(text_lines(path), start=1):
        name, _, rest = line.strip().partition("\t") if "\t" in line else line.strip().partition(" ")
        if name.startswith("*"):
            continue
        end = as_number(rest)
        if end is None or end <= before:
            raise file_error(
                path,
                f"line {number} is {line.strip()[:40]!r}, expected a stage and a time after {before:g} s.",
            )
        rows.append((number, before, end - before, name))
        before = end
    if not rows:
        raise file_error(path, "has no stages. Expected lines such as 'N2 1230'.")
    return staged_rows(path, rows, options, scheme=AASM5)


def read_samples(path: Path, options: FileOptions) -> RawHypnogram:
    """Read a number per line; `<name>_description.txt` explains the numbers and says how long they last."""
    meanings_path = description(path)
    if not meanings_path.is_file():
        raise file_error(path, f"needs {meanings_path.name} beside it, which says what its numbers are.")
    numbering: dict[int, str] = {}
    seconds = None
    for number, line in enumerate(text_lines(meanings_path), start=1):
        name, _, value = line.strip().rpartition(" ")
        number_of = as_number(value)
        if number_of is None or not name:
            raise file_error(meanings_path, f"line {number} is {line[:40]!r}, expected a name and a number.")
        if name.casefold() == "time":
            seconds = number_of
            continue
        stage = UNSCORED_NAME if name.casefold() in UNSCORED_WORDS else canonical_name(name)
        if stage is None:
            raise file_error(meanings_path, f"line {number}: {name[:40]!r} is not a stage.")
        numbering[int(number_of)] = stage
    lines = text_lines(path)
    stages = names_of(path, stage_numbers(path, lines, range(1, len(lines) + 1)), numbering, what="line")
    return RawHypnogram(stages, range(1, len(stages) + 1), epoch_seconds=seconds, scheme=AASM5)


def read_elan(path: Path, options: FileOptions) -> RawHypnogram:
    """Read Elan's header, then a number per epoch: 4 is N3 and 5 is REM."""
    lines = text_lines(path)
    header = [line.split() for line in lines[:4]]
    if [cells[0] if cells else "" for cells in header] != list(ELAN_HEADER):
        raise file_error(path, f"does not begin with the lines {', '.join(ELAN_HEADER)} of Elan.")
    seconds = as_number(header[0][1]) if len(header[0]) > 1 else None
    if seconds is None or seconds <= 0:
        raise file_error(path, f"line 1 is {lines[0][:40]!r}, expected 'time_base' and seconds above 0.")
    codes = stage_numbers(path, lines[4:], range(5, len(lines) + 1))
    if not codes:
        raise file_error(path, "has no stages. Was it written completely?")
    n_expected = as_number(header[2][1]) if len(header[2]) > 1 else None
    if n_expected is not None and n_expected != len(codes):
        raise file_error(
            path, f"has {len(codes)} epochs, but its header says {n_expected:g}. Was it written completely?"
        )
    stages = names_of(path, codes, ELAN_CODES, what="line", first=5)
    return RawHypnogram(stages, range(5, 5 + len(stages)), epoch_seconds=seconds, scheme=AASM5)


def description(path: Path) -> Path:
    """Return the file in which Visbrain explains the numbers of a file."""
    return path.with_name(f"{path.stem}_description.txt")


def _is_times(head: bytes, path: Path) -> bool:
    """Whether every line is a stage and its end, in increasing seconds."""
    rows = [_END_TIME.fullmatch(line) for line in whole_lines(head)]
    if not rows or not all(rows):
        return False
    try:
        times = [float(row[2]) for row in rows if row and not row[1].startswith("*")]
    except ValueError:
        return False
    return bool(times) and all(a < b for a, b in pairwise(times))


def _is_elan(head: bytes, path: Path) -> bool:
    return tuple(line.partition(" ")[0] for line in whole_lines(head)[:4]) == ELAN_HEADER


def read_wonambi_xml(path: Path, options: FileOptions) -> RawNight:
    """Read the stages, events and bookmarks of the only rater with stages."""
    root = read_xml(path, "annotations")
    return RawNight(stages=partial(_stages, path, root, options), events=partial(_events, path, root))


def _stages(path: Path, root: Element, options: FileOptions) -> RawHypnogram:
    """Return the epochs of the only rater with stages (`<annotations>`, `<rater>`, `<stages>`, `<epoch>`)."""
    scored = {}
    for rater in children(root, "rater"):
        epochs = [epoch for parent in children(rater, "stages") for epoch in children(parent, "epoch")]
        if epochs:
            scored[rater.get("name") or ""] = epochs
    if len(scored) != 1:
        content = f"stages of the raters {listed(list(scored))}" if scored else "no stages"
        raise file_error(
            path, f"holds {content}, expected those of one rater. Export one from wonambi as CSV."
        )
    ((scorer, epochs),) = scored.items()
    rows = []
    for number, epoch in enumerate(epochs, start=1):
        begin, end = (as_number(text_of(epoch, name) or "") for name in ("epoch_start", "epoch_end"))
        if begin is None or end is None:
            raise file_error(path, f"epoch {number} has no <epoch_start> and <epoch_end> in seconds.")
        rows.append((number, begin, end - begin, text_of(epoch, "stage") or "?"))
    start = _start(next((text_of(each, "start_time") for each in children(root, "dataset")), None))
    return staged_rows(path, rows, options, what="epoch", start=start, scheme=AASM5, scorer=scorer or None)


def read_wonambi_csv(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the rows of an export: time of day, start and end in seconds, stage."""
    table = read_rows(path, WONAMBI_COLUMNS)
    onsets, stages = table.seconds("start"), table.column("stage")
    lasting = table.seconds("end") - onsets
    return staged_rows(path, zip(table.lines, onsets, lasting, stages, strict=True), options, scheme=AASM5)


def _start(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None


def _events(path: Path, root: Element) -> Iterable[Event]:
    """Yield events and bookmarks of the rater who scored the stages."""
    for rater in children(root, "rater"):
        if not any(True for parent in children(rater, "stages") for _ in children(parent, "epoch")):
            continue
        elements = [
            (each, kind.get("type") or "event", "event")
            for parent in children(rater, "events")
            for kind in children(parent, "event_type")
            for each in children(kind, "event")
        ]
        for parent in children(rater, "bookmarks"):
            marks = children(parent, "bookmark")
            elements += [(each, text_of(each, "bookmark_name") or "bookmark", "bookmark") for each in marks]
        for each, text, what in elements:
            onset, end = (as_number(text_of(each, f"{what}_{name}") or "") for name in ("start", "end"))
            if onset is None or end is None:
                raise file_error(path, f"has a {what} {text[:40]!r} without times in seconds.")
            channel = text_of(each, f"{what}_chan") or ""
            yield Event(onset, round(end - onset, 9) or None, text, "", channel)


FORMATS = (
    FileFormat(
        "visbrain-times",
        "Visbrain text of stages and end times",
        (".txt", ".csv"),
        _is_times,
        reader=of_stages(read_times),
        loses=_LOSES,
    ),
    FileFormat(
        "visbrain-samples",
        "Visbrain text of numbers with its description",
        (".txt",),
        lambda head, path: integers(head) is not None and description(path).is_file(),
        reader=of_stages(read_samples),
        loses=_LOSES,
    ),
    FileFormat(
        "elan-hyp",
        "Elan .hyp",
        (".hyp",),
        _is_elan,
        reader=of_stages(read_elan),
        loses=_LOSES,
        is_plain=True,
    ),
    FileFormat(
        "wonambi-xml",
        "wonambi XML",
        (".xml",),
        has_xml_root("annotations"),
        reader=Reader(ONLY_STAGES, read_wonambi_xml),
        loses=(PROBABILITIES,),
        has_events=True,
    ),
    FileFormat(
        "wonambi-csv",
        "CSV exported from wonambi",
        (".csv",),
        has_columns(*WONAMBI_COLUMNS),
        reader=of_stages(read_wonambi_csv),
        loses=_LOSES,
    ),
)
