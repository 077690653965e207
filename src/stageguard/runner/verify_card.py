"""Check a grade card: its SHA-256, and the files it was made from."""

from __future__ import annotations

from pathlib import Path

from stageguard.errors import FileFormatError
from stageguard.files import file_sha256, load_json
from stageguard.measures.grade import KIND, GradeCard, read_card
from stageguard.runner.decode_again import Check
from stageguard.runner.verify import Verification, as_written, errors_of_record
from stageguard.storage import inside
from stageguard.version import __version__

MOST_NAMED = 3  # files in a finding
UNCHECKED = ("stager", "cohort", "people", "what was measured on each night")


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


def verify_card(path: Path) -> Verification:
    """Check a card's SHA-256, and its files where they are still beside it."""
    card, is_as_written = read_card(path)
    checks = [as_written("card", path, same=is_as_written)]
    if any(night.files for night in card.nights):
        with errors_of_record(path):
            checks.append(_files(path.parent, card))
    version = card.facts.version
    return Verification(tuple(checks), UNCHECKED, (), version if version != __version__ else None)


def _files(folder: Path, card: GradeCard) -> Check:
    """Check that the files are those of the card."""
    described = [
        each for night in card.nights for each in (night.files["night"], *night.files["experts"]) if each
    ]
    wrong = []
    for each in described:
        path = inside(folder, str(each.get("path") or each["file"]))
        if not path.is_file():
            wrong.append(f"{each['file']} (missing)")
        elif file_sha256(path) != each["sha256"]:
            wrong.append(f"{each['file']} (changed)")
    more = f" and {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else ""
    fine = f"{len(described)} as recorded"
    return Check("files", not wrong, f"other: {', '.join(wrong[:MOST_NAMED])}{more}" if wrong else fine)
