"""Check a grade card: its hash, its grades by its own nights, its page, and the files it was made from."""

from __future__ import annotations

from pathlib import Path

from stageguard import documents
from stageguard.errors import FileFormatError
from stageguard.files import file_sha256, load_json, read_text
from stageguard.measures.grade import KIND, GradeCard, card_of
from stageguard.report.grade import grade_page
from stageguard.runner.decode_again import Check
from stageguard.runner.verify import Verification, as_written, errors_of_record
from stageguard.storage import inside
from stageguard.version import __version__

MOST_NAMED = 3  # grades or files in a finding
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
    """Check a card by itself, and its files where they are still beside it."""
    content = load_json(path)
    card = card_of(path, content)
    fresh = card.to_dict()
    record = dict(content["stageguard"])
    same = record.pop("sha256", None) == documents.sha256_of(content | {"stageguard": record})
    grades = content.get("grades")
    grades = grades if isinstance(grades, dict) else {}
    keys = [key for key, grade in fresh["grades"].items() if grades.get(key) != grade]
    checks = [
        as_written("card", path, same=same),
        Check("grades", not keys, _words("as the nights give them", "other", keys)),
    ]
    page = path.with_suffix(".html")
    if page.is_file():
        same = read_text(page) == grade_page(card)
        checks.append(Check("page", same, "as the card gives it" if same else f"{page.name} was changed"))
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
    return Check("files", not wrong, _words(f"{len(described)} as recorded", "other", wrong))


def _words(fine: str, problem: str, names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{problem}: {', '.join(names[:MOST_NAMED])}{more}" if names else fine
