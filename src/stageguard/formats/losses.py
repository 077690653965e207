"""What a source tells that no night carries on: columns nobody reads, and two stages that become one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from stageguard.base.errors import FileFormatError
from stageguard.base.files import read_file
from stageguard.formats.bids import BOAS_COLUMNS, stage_column
from stageguard.formats.hypnogram import UNSCORED_WORDS
from stageguard.formats.tables.delimited import TextTable, read_rows
from stageguard.formats.xml import children, read_xml, text_of

TIMES = ("onset", "duration")
BOTH_N3 = "stages 3 and 4 of Rechtschaffen and Kales are both N3"
NUMBERED = ("profusion-xml", "numbers-rk")  # where a stage is the number alone
_STAGE_4 = re.compile(r"(?:(?:sleep[ _])?stage[ _]?|nrem|n|s)4(?: sleep)?(?:\|4)?", re.IGNORECASE)


def left_columns(path: Path, format: str) -> tuple[str, ...]:
    """Return the columns of a table of stages that are not carried on, as one loss."""
    if format not in ("bids-events", "boas-events", "stageguard-tsv"):
        return ()
    try:
        table = read_rows(path, TIMES)
    except FileFormatError:  # what is wrong with it, its reader says
        return ()
    read: tuple[str, ...]
    if format == "bids-events":
        read = (*TIMES, stage_column(path, table))
    elif format == "boas-events":
        read = (*TIMES, next(name for name in BOAS_COLUMNS if name in table.header))
    else:
        read = (*TIMES, "stage", "label")  # a label is the place of the stage in its scheme
    left = [name for name in table.header if name not in read and _tells(table, name)]
    many = len(left) > 1
    return (f"column{'s' * many} {', '.join(left)} of {path.name}",) if left else ()


def merged_stages(path: Path, format: str) -> tuple[str, ...]:
    """Say that a source has stage 4, which is N3 by the rules of today."""
    texts = TEXTS.get(format)
    if texts is None:
        return ()
    try:
        found = {text.strip() for text in texts(path)}
    except FileFormatError:  # what is wrong with it, its reader says
        return ()
    is_there = "4" in found if format in NUMBERED else any(map(_STAGE_4.fullmatch, found))
    return (BOTH_N3,) if is_there else ()


def _tells(table: TextTable, name: str) -> bool:
    return any(cell.casefold() not in UNSCORED_WORDS for cell in table.column(name))


def _edf(path: Path) -> Sequence[str]:
    from stageguard.formats.edf_annotations import read_edf_annotations

    return [each.text for each in read_edf_annotations(path)]


def _fif(path: Path) -> Sequence[str]:
    from stageguard.formats.mne import read_fif_annotations

    return [each.text for each in read_fif_annotations(path)[0]]


def _mne_text(path: Path) -> Sequence[str]:
    from stageguard.formats.mne import read_text_annotations

    return [each.text for each in read_text_annotations(path)[0]]


def _column(*names: str) -> Callable[[Path], Iterable[str]]:
    """Return cells of the first column of these that a table has."""

    def cells(path: Path) -> Iterable[str]:
        table = read_rows(path, ("onset",))
        return next((table.column(name) for name in names if name in table.header), ())

    return cells


def _nsrr(path: Path) -> Iterable[str]:
    for parent in children(read_xml(path, "PSGAnnotation"), "ScoredEvents"):
        for event in children(parent, "ScoredEvent"):
            if (text_of(event, "EventType") or "").startswith("Stages"):
                yield text_of(event, "EventConcept") or ""


def _profusion(path: Path) -> Iterable[str]:
    for parent in children(read_xml(path, "CMPStudyConfig"), "SleepStages"):
        yield from ((stage.text or "") for stage in children(parent, "SleepStage"))


def _lines(path: Path) -> Iterable[str]:
    data = read_file(path, "text")
    return () if b"\0" in data else data.decode("utf-8", errors="replace").replace(",", " ").split()


TEXTS: dict[str, Callable[[Path], Iterable[str]]] = {
    "edf-annotations": _edf,
    "mne-fif": _fif,
    "mne-txt": _mne_text,
    "mne-csv": _column("description"),
    "bids-events": _column("trial_type", "stage", "sleep_stage"),
    "edfbrowser-csv": _column("label"),
    "nsrr-xml": _nsrr,
    "profusion-xml": _profusion,
    "numbers-rk": _lines,
    "text": _lines,
}
