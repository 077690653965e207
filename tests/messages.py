"""Compare messages by what they name, in order, and not by how they word it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest


def naming(*values: object) -> str:
    """A pattern for a line that names these values in this order, whatever stands between them."""
    return ".*".join(map(_whole, map(str, values)))


def mentions(text: object, *values: object) -> bool:
    """Whether a text, or one of several texts, has a line that names these values in this order."""
    is_many = isinstance(text, Iterable) and not isinstance(text, str)
    return any(re.search(naming(*values), str(one)) for one in (text if is_many else [text]))


def each_mentions(texts: Iterable[object], *groups: tuple[object, ...]) -> bool:
    """Whether there is a text for each group of values, in order, and it names them."""
    texts = list(texts)
    return len(texts) == len(groups) and all(
        mentions(text, *g) for text, g in zip(texts, groups, strict=True)
    )


def message(
    error: type[Exception] | tuple[type[Exception], ...],
    call: Callable[..., object],
    *given: object,
    **options: object,
) -> str:
    """The error that a call raises: one line."""
    with pytest.raises(error) as caught:
        call(*given, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def _whole(value: str) -> str:
    """A pattern for a value that is no part of a longer word or number."""
    before = r"(?<!\w)(?<!\d[.,])" if re.match(r"\w", value) else ""
    after = r"(?!\w)(?![.,]\d)" if re.search(r"\w\Z", value) else ""
    return before + re.escape(value) + after
