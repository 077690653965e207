"""Schemas of documents: dataclasses whose fields declare the keys of a document and how they are checked.

Each field is declared by a function of this module with its default; a key without a default is required.
`read_table` makes such a dataclass from a mapping; `plain_table` turns it back into a mapping. Documents of
users are TOML: `read_toml` reads one, `toml_text` writes it.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import partial
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from stageguard import checks
from stageguard.errors import InputError
from stageguard.files import file_error, read_file, write_text_atomic

Table = TypeVar("Table")
Made = TypeVar("Made")
Check = Callable[[object, str], Any]
REQUIRED: Any = MISSING  # in place of a default
MOST_BINS = 10_000  # of equal width, in a row
MOST_KEY_PARTS = 100  # as in "a.b.c"; the time to read a key grows with the square of its parts
_KEY_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_KEY_PART}(?:\.[ \t]*+{_KEY_PART}){{{MOST_KEY_PARTS}}}")


class Document:
    """An immutable object made from one document; it is saved, compared and pickled as that document."""

    __slots__ = ()
    _cache: dict[Any, Any]

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the document: plain TOML types."""

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the document as a TOML file that `load` reads back exactly."""
        write_text_atomic(path, toml_text(self.to_dict()), overwrite=overwrite)

    @property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the document, the same however it is formatted."""
        return self._once("sha256", self._hash)

    def _hash(self) -> str:
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def _once(self, key: Hashable, make: Callable[..., Made], *arguments: Any) -> Made:
        """Return the result of `make`, which is not None; only the first call with this key runs it."""
        made: Made | None = self._cache.get(key)
        if made is None:
            made = self._cache[key] = make(*arguments)
        return made

    def __eq__(self, other: object) -> bool:
        """Compare by document."""
        return self.sha256 == other.sha256 if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        """Hash by document."""
        return hash(self.sha256)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the document, without anything compiled."""
        return type(self), (self.to_dict(),)


def number(
    default: float | None = REQUIRED, *, low: float = -inf, high: float = inf, positive: bool = False
) -> Any:
    """Declare a number within a range."""
    return declare(default, partial(checks.number, low=low, high=high, positive=positive))


def whole(default: int = REQUIRED, *, low: int = 0, high: int = 1_000_000) -> Any:
    """Declare a whole number within a range."""
    return declare(default, partial(checks.whole, low=low, high=high))


def count(default: int | None = REQUIRED, *, low: int = 1, high: float = inf) -> Any:
    """Declare a count; 20.0 is accepted, too."""
    return declare(default, partial(checks.count, low=low, high=high))


def flag(default: bool | None = REQUIRED) -> Any:
    """Declare true or false."""
    return declare(default, checks.flag)


def text(default: str | None = REQUIRED, *, empty: bool = False) -> Any:
    """Declare a text."""
    return declare(default, partial(checks.text, empty=empty))


def choice(default: str | None, *options: str) -> Any:
    """Declare a choice among words; the default may be `REQUIRED`."""
    return declare(default, partial(checks.choice, options=options))


def words(*default: str) -> Any:
    """Declare a list of words, such as roles of channels."""
    return declare(default, text_list)


def numbers(*default: float, low: float = -inf, high: float = inf) -> Any:
    """Declare a list of numbers within a range."""
    return declare(default, partial(checks.items, check=partial(checks.number, low=low, high=high)))


def band(low: float, high: float) -> Any:
    """Declare two frequencies in Hz, the lower first."""
    return declare((low, high), _band)


def runs(*default: tuple[float, float, float]) -> Any:
    """Declare runs of bins of one width in Hz: lower end, upper end, width."""
    return declare(default, partial(checks.items, check=_run))


def bands(default: Mapping[str, tuple[float, float]]) -> Any:
    """Declare named pairs of frequencies in Hz."""
    return _named_field(default, _band, "name = [lower, upper]")


def shares(default: Mapping[str, float]) -> Any:
    """Declare named shares of a whole; they are used relative to their sum."""
    return _named_field(default, partial(checks.number, positive=True), "stage = share")


def table(of: type) -> Any:
    """Declare a table within the document, whose keys the dataclass `of` declares."""
    return field(default_factory=of, metadata={"check": lambda value, where: read_table(of, value, where)})


def optional(check: Check) -> Check:
    """Return a check that lets None pass."""
    return lambda value, where: None if value is None else check(value, where)


def declare(default: Any, check: Check) -> Any:
    """Declare a field with any check, which gets the value and its name for messages."""
    return field(default=default, metadata={"check": check})


def read_table(of: type[Table], given: object, where: str = "", *, complete: bool = False) -> Table:
    """Return a dataclass declared by these functions from a mapping; a wrong key or value is an InputError.

    `where` is the name of the table in the document, for messages. With `complete`, keys that have a default
    are required, too, as in the output of `plain_table`.
    """
    assert is_dataclass(of)
    declared: dict[str, Field[Any]] = {item.name: item for item in fields(of)}
    inside = where or "the document"
    values = checks.mapping(given, inside, declared)
    for key, item in declared.items():
        is_required = complete or (item.default is MISSING and item.default_factory is MISSING)
        if key not in values and is_required:
            raise InputError(f"key {key!r} is missing in {inside}.")
    prefix = f"{where}." if where else ""
    return of(**{key: declared[key].metadata["check"](value, prefix + key) for key, value in values.items()})


def check_fields(table: Any) -> None:
    """Check the fields of a dataclass declared by these functions that was not read from a document.

    Called from ``__post_init__``; fields are set to what their checks return. A default of None is kept.
    """
    for item in fields(table):
        value = getattr(table, item.name)
        if value is not None or item.default is not None:
            object.__setattr__(table, item.name, item.metadata["check"](value, item.name))


def plain_table(value: object, *, defaults: bool = True) -> Any:
    """Return a dataclass and its content as mappings and lists, with or without values that are defaults."""
    if is_dataclass(value):
        named = {item: getattr(value, item.name) for item in fields(value)}
        return {
            item.name: plain_table(kept, defaults=defaults)
            for item, kept in named.items()
            if defaults or item.default is MISSING or kept != item.default
        }
    if isinstance(value, Mapping):
        return {str(key): plain_table(item, defaults=defaults) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain_table(item, defaults=defaults) for item in value]
    return value


def text_list(value: object, where: str) -> tuple[str, ...]:
    """Return a list of words as a tuple."""
    return checks.items(value, where, partial(checks.text, empty=False))


def _band(value: object, where: str) -> tuple[float, float]:
    pair = checks.items(value, where, partial(checks.number, low=0))
    if len(pair) != 2 or not pair[0] < pair[1]:
        raise InputError(f"{where} is {checks.shown(value)}, expected [lower, upper] in Hz.")
    return pair[0], pair[1]


def _run(value: object, where: str) -> tuple[float, float, float]:
    triple = checks.items(value, where, partial(checks.number, low=0))
    low, high, width = triple if len(triple) == 3 else (0.0, 0.0, 0.0)
    n_bins = (high - low) / width if width else 0.0
    if not 1 - 1e-6 <= n_bins <= MOST_BINS or abs(n_bins - round(n_bins)) > 1e-6:
        raise InputError(
            f"{where} is {checks.shown(value)}, expected [lower, upper, width] in Hz, of 1 to {MOST_BINS:,} "
            "whole widths."
        )
    return low, high, width


def _named_field(default: Mapping[str, Any], check_item: Check, entries: str) -> Any:
    def check(value: object, where: str) -> Mapping[str, Any]:
        if not isinstance(value, Mapping) or not value:
            raise InputError(f"{where} is {checks.shown(value)}, expected a table of {entries}.")
        return MappingProxyType({str(key): check_item(item, f"{where}.{key}") for key, item in value.items()})

    kept = MappingProxyType(dict(default))
    return field(default_factory=lambda: kept, metadata={"check": check})


def parse_toml(text: str) -> dict[str, Any]:
    """Return a TOML document; whatever cannot be read is a `tomllib.TOMLDecodeError`."""
    if _LONG_KEY.search(text):
        raise tomllib.TOMLDecodeError(f"a key has more than {MOST_KEY_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("tables or lists are nested too deeply") from None
    except ValueError as error:  # also a number of more digits than Python reads
        raise tomllib.TOMLDecodeError(str(error)) from None


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return a TOML document (`what`: "a profile"); a missing file raises Python's own FileNotFoundError."""
    try:
        data = read_file(path)
    except IsADirectoryError:
        raise file_error(path, "is a folder, expected a .toml file.") from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise file_error(path, f"cannot be read: {error.strerror or error}.") from None
    if not data.strip():
        raise file_error(path, f"the file is empty ({len(data)} bytes), expected {what} in TOML.")
    try:
        return parse_toml(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        reason = f"not a text file (byte {error.start} is not UTF-8), expected {what} in TOML."
    except tomllib.TOMLDecodeError as error:
        reason = f"not valid TOML: {error}."
    raise file_error(path, reason)


def toml_text(document: Mapping[str, object]) -> str:
    """Return a document as TOML that reads back equal, its keys in their order."""
    import tomli_w  # here, so that `import stageguard` loads numpy only

    return tomli_w.dumps(document)
