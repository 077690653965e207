"""Which subjects a caller asked for. Knows no dataset."""

from __future__ import annotations

from collections.abc import Sequence

from stageguard.errors import InputError


def wanted_subjects(subjects: Sequence[str] | str | None) -> frozenset[str] | None:
    """Return subjects in capitals, given as a list or as text with commas; None means all."""
    if subjects is None:
        return None
    parts = subjects.split(",") if isinstance(subjects, str) else [str(each) for each in subjects]
    names = frozenset(part.strip().upper() for part in parts if part.strip())
    if not names:
        raise InputError("subjects names nobody, expected a list such as SC400,SC401. Leave it out for all.")
    return names


def whole_number(value: int | str, what: str) -> int:
    """Return an option that may come as text from the command line."""
    try:
        number = int(str(value).strip())
    except ValueError:
        raise InputError(f"{what} is {value!r}, expected a whole number.") from None
    return number
