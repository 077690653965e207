"""Take checked entries out of a JSON document, so that a wrong one is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stageguard.base import checks
from stageguard.base.errors import InputError
from stageguard.nn.values import whole


@dataclass(frozen=True, slots=True)
class Document:
    """A table of a document; an entry that is missing or of another kind is an InputError with its key."""

    content: Mapping[str, Any]
    path: str = ""  # of this table in the document, with a dot behind it

    @classmethod
    def of(cls, content: object, path: str = "") -> Document:
        """Return a table that was found under a path."""
        if not isinstance(content, Mapping):
            raise InputError(
                f"{path.rstrip('.') or 'it'} is {checks.shown(content)}, expected a table of keys."
            )
        return cls(content, path)

    def entry(self, key: str) -> Any:
        """Return an entry as it is."""
        if key not in self.content:
            raise InputError(f"has no {self.path + key!r}.")
        return self.content[key]

    def table(self, key: str) -> Document:
        """Return an entry that is a table."""
        return Document.of(self.entry(key), f"{self.path}{key}.")

    def text(self, key: str) -> str:
        """Return a text."""
        return checks.text(self.entry(key), self.path + key)

    def number(self, key: str, *, positive: bool = False) -> float:
        """Return a finite number."""
        return checks.number(self.entry(key), self.path + key, positive=positive)

    def whole(self, key: str, *, low: int = 1) -> int:
        """Return a whole number."""
        return whole(self.entry(key), self.path + key, low=low)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        return tuple(checks.text(one, f"an entry of {self.path}{key}") for one in self._list(key))

    def numbers(self, key: str) -> tuple[float, ...]:
        """Return a list of finite numbers."""
        return tuple(checks.number(one, f"an entry of {self.path}{key}") for one in self._list(key))

    def _list(self, key: str) -> list[Any]:
        held = self.entry(key)
        if not isinstance(held, list | tuple):
            raise InputError(f"{self.path}{key} is {checks.shown(held)}, expected a list.")
        return list(held)
