"""The first line of a journal: what the review was begun with, compared when the review goes on.

A review may go on only with the same probabilities, profile, quality, pins and options: with others, the
lines of the journal would be about another night.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base import checks
from stageguard.base.errors import FileFormatError
from stageguard.base.files import file_error
from stageguard.formats.outputs import (
    JSON_SUFFIX,
    describe_file,
    describe_profile,
    plain,
    read_sidecar,
    relative_path,
)
from stageguard.review.journal import REVIEW_SUFFIX, JournalFile
from stageguard.review.opening import OpenedNight

WHAT_TO_DO = "Start it as it was begun, or name another file (-o)."
PUT_BACK = "Put the whole log back, or name another file (-o)."


def head_of(opened: OpenedNight, folder: Path, scorer: str, *, is_blind: bool) -> dict[str, Any]:
    """Return the first line of a journal: the night, the scorer, and the options."""
    night = opened.night
    return {
        "scorer": scorer,
        "blind": is_blind,
        "night": {
            "name": night.name,
            "n_epochs": night.n_epochs,
            "epoch_seconds": night.density.epoch_seconds,
            "stages": list(night.scheme.names),
        },
        "probabilities": _sha256(night.density.probabilities),
        "source": describe_file(opened.source) | {"path": relative_path(opened.source, folder)},
        "options": plain(opened.recorded_options(None, opened.options.strength_pins)),
        "quality_sha256": None if night.options.quality is None else _sha256(night.options.quality),
        "quality": None if night.options.quality is None else plain(np.asarray(night.options.quality)),
        "pins": {str(epoch): night.scheme.names[pin.stage] for epoch, pin in night.pins.items()},
        "profile": describe_profile(night.profile, plain(night.profile.to_dict())),
    }


def _sha256(values: Any) -> str:
    return sha256(np.ascontiguousarray(values, dtype="<f8").tobytes()).hexdigest()


def check_head(journal: JournalFile, expected: Mapping[str, Any]) -> None:
    """Refuse to go on with a review that was begun with anything else."""
    differing = next(_differences(journal.head, expected), None)
    if differing is not None:
        raise file_error(journal.path, f"is a review {differing}. {WHAT_TO_DO}")


def _differences(head: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a review was begun with, where that differs from what is expected."""
    profiles = [one["profile"].get("sha256") for one in (head, expected)]
    files = [one["source"].get("sha256") for one in (head, expected)]
    facts = (
        ("of a night of other epochs or stages", head["night"], expected["night"]),
        ("of another file of probabilities", *files),
        (f"by the scorer {head['scorer']!r:.60}", head["scorer"], expected["scorer"]),
        (f"under another profile, {head['profile'].get('name')!r:.60}", *profiles),
        ("that is blind" if head["blind"] else "that is not blind", head["blind"], expected["blind"]),
        ("with another quality (--quality)", head.get("quality"), expected["quality"]),
        ("with other pins (--pins)", head.get("pins"), expected["pins"]),
    )
    for words, was, wanted in facts:
        if was != wanted:
            yield words
    options = head.get("options")
    was_options = options if isinstance(options, dict) else {}
    for key in sorted(was_options.keys() | expected["options"].keys()):
        was, wanted = was_options.get(key), expected["options"].get(key)
        if was != wanted:
            yield f"with {key} {_shown(was)}, not {_shown(wanted)}"
    for key in ("probabilities", "quality_sha256"):  # read from the same file in another way
        if head.get(key) != expected[key]:
            yield f"of other {key.removesuffix('_sha256')} values"


def _shown(value: object) -> str:
    return "not given" if value is None else f"{value!r:.60}"


def check_exports(journal: JournalFile) -> None:
    """Refuse a journal that has lost its last lines, or all of them, since a night was exported from it.

    The chain of hashes cannot show that. An exported `.hypnogram.json` beside the journal records the last
    line at that time. A log that was removed and begun anew is refused likewise: the export names it.
    """
    stem = journal.path.name.removesuffix(REVIEW_SUFFIX)
    for path in sorted(journal.path.parent.glob(f"*.reviewed*{JSON_SUFFIX}")):
        place = _recorded_place(path) if path.name.startswith(f"{stem}.reviewed") else None
        if place is None:
            continue
        if place.get("file") != journal.path.name and place.get("begun") != journal.head.get("begun"):
            continue
        n_lines, line_sha256 = place.get("lines"), place.get("sha256")
        if not isinstance(n_lines, int) or not 1 <= n_lines <= len(journal.hashes):
            raise file_error(
                journal.path,
                f"has {len(journal.hashes)} lines, but had {checks.shown(n_lines)} when {path.name} was "
                f"exported: lines were removed. {PUT_BACK}",
            )
        if journal.hashes[n_lines - 1] != line_sha256:
            raise file_error(
                journal.path,
                f"line {n_lines} is not the one it had when {path.name} was exported: the log was changed. "
                f"{PUT_BACK}",
            )


def _recorded_place(path: Path) -> dict[str, Any] | None:
    """Return the place in a journal that an export records, or None if it is no such export."""
    try:
        place = read_sidecar(path)["options"].get("review")
    except (FileFormatError, OSError, KeyError, TypeError, AttributeError):
        return None
    return place if isinstance(place, dict) else None
