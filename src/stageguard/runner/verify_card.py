"""Check a grade card: its hash, its grades by its own nights, and its nights by their files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stageguard.errors import FileFormatError, StageGuardError
from stageguard.files import file_sha256, load_json, read_text
from stageguard.measures.grade_card import (
    FEATURE_ARRAYS,
    FEATURES,
    KIND,
    GradeCard,
    GradedNight,
    GradeFacts,
    card_of,
    card_sha256,
    read_card,
)
from stageguard.report.grade import grade_page
from stageguard.runner.decode_again import Check
from stageguard.runner.verify import Verification, as_written, errors_of_record
from stageguard.version import __version__

MOST_NAMED = 3  # nights or files in a finding
_CLOSE = 1e-9  # relative difference of numbers that another machine may round otherwise

UNCHECKED = ("stager", "cohort", "people")  # nothing derives what they are called
MeasureAgain = Callable[[GradeCard, GradedNight], tuple[GradedNight, GradeFacts]]
FindFile = Callable[[Path, Mapping[str, Any]], Path]


def is_card(path: Path) -> bool:
    """Whether a file is a grade card, by its content."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    try:
        content = load_json(path)
    except FileFormatError:
        return False
    record = content.get("stageguard") if isinstance(content, dict) else None
    return isinstance(record, dict) and record.get("kind") == KIND


def verify_card(path: Path, measure_again: MeasureAgain, find_file: FindFile) -> Verification:
    """Check a card; `measure_again` measures a night from its files, `find_file` finds one of them.

    A card of nights that were not read from files is checked by its own numbers alone.
    """
    content = read_card(path)
    card = card_of(path, content)
    fresh = card.to_dict()
    record = content["stageguard"]
    recorded, derived = content["grades"], fresh["grades"]
    keys = dict.fromkeys([*derived, *recorded])
    differing = [key for key in keys if not _same(recorded.get(key), derived.get(key))]
    facts = {key: value for key, value in fresh["stageguard"].items() if key not in ("sha256", "version")}
    differing += [key for key, value in facts.items() if not _same(record.get(key), value)]
    checks = [
        as_written("card", path, same=record.get("sha256") == card_sha256(content)),
        Check("grades", not differing, _words("as the nights give them", "other", differing)),
    ]
    page = path.with_suffix(".html")
    if page.is_file():
        same = read_text(page, "text") == grade_page(card)
        checks.append(Check("page", same, "as the card gives it" if same else f"{page.name} was changed"))
    unchecked: tuple[str, ...] = UNCHECKED
    if any(night.files for night in card.nights):
        with errors_of_record(path):
            checks += _against_files(path.parent, card, measure_again, find_file)
    else:
        unchecked = ("nights", *unchecked)
    version = card.facts.version
    return Verification(tuple(checks), unchecked, (), version if version != __version__ else None)


def _against_files(
    folder: Path, card: GradeCard, measure_again: MeasureAgain, find_file: FindFile
) -> Iterator[Check]:
    """Check that the files are those of the card, and that they give its numbers."""
    missing, changed, differing = list[str](), list[str](), list[str]()
    n_files = 0
    for night in card.nights:
        for described in (night.files["night"], *night.files["experts"]):
            if described is None:
                continue
            n_files += 1
            try:
                found = find_file(folder, {key: described[key] for key in described if key != "night"})
            except FileFormatError:
                missing.append(str(described["file"]))
                continue
            if file_sha256(found, "a recording") != described["sha256"]:
                changed.append(str(described["file"]))
    wrong = [*(f"{name} (missing)" for name in missing), *(f"{name} (changed)" for name in changed)]
    yield Check("files", not wrong, _words(f"{n_files} as recorded", "other", wrong))
    if missing:
        return
    decoded_by = card.facts.profile, card.facts.profile_sha256
    others = list[str]()
    for night in card.nights:
        try:
            again, facts = measure_again(card, night)
        except StageGuardError as error:
            differing.append(f"{night.id} ({error})")
            continue
        is_seen = again.features is None or _same(_features(night), _features(again))
        if not is_seen or not _same(_numbers(night), _numbers(again)):
            differing.append(night.id)
        if (facts.profile, facts.profile_sha256) != decoded_by:
            others.append(night.id)
    if others:
        yield Check("profile", ok=False, finding=_words("", "not that of", others))
    yield Check("nights", not differing, _words(f"{card.n_nights} measured again", "other", differing))


def _numbers(night: GradedNight) -> list[Any]:
    """Return everything that was measured on a night."""
    values = [[v.stager, v.consensus, *v.experts, *v.others] for v in night.statistics.values()]
    return [list(night.statistics), values, list(night.scored_by), [list(pair) for pair in night.kappas]]


def _features(night: GradedNight) -> list[Any]:
    """Return how a stager's night looks."""
    if night.features is None:
        return []
    arrays = [getattr(night.features, name).tolist() for name in FEATURE_ARRAYS]
    return [*(getattr(night.features, name) for name in FEATURES), *arrays]


def _words(fine: str, problem: str, names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{problem}: {', '.join(names[:MOST_NAMED])}{more}" if names else fine


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal, but for the last digits of numbers."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float | int) and isinstance(other, float | int) and not isinstance(one, bool):
        try:
            both_missing = math.isnan(one) and math.isnan(other)
            return both_missing or math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE)
        except OverflowError:  # an edited card may have a number that no float holds
            return False
    return bool(one == other)
