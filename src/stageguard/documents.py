"""Documents as frozen dataclasses: profiles, recipes, cards and configurations.

The annotations of a dataclass are the schema of its document: type, bounds and default stand once, where the
field stands. `read` makes the dataclass from plain TOML or JSON values and checks each; `plain` gives plain
values back.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class FlipFlop:
        penalty_nats: Annotated[float, Range(0, 1000)] = 0.0
        window_epochs: Annotated[int, Range(2, 60)] = 5
        method: Literal["greedy", "exact"] = "exact"

Fields may be numbers, text, flags, literals, tuples, mappings from text, other such dataclasses, `Any` for
plain TOML values, and unions of these with None. What several fields must fulfil together is checked by
the class in ``__post_init__`` with an InputError. A class whose document is not a table of its fields has two
methods: ``read_document(value, where)``, a class method, and ``to_document()``.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import lru_cache, partial
from math import inf
from numbers import Integral
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from stageguard import checks
from stageguard.errors import InputError
from stageguard.files import file_error, read_file

T = TypeVar("T")
_CHECKS: Mapping[Any, Callable[[object, str], Any]] = {
    float: checks.number,
    int: checks.count,
    str: checks.text,
    bool: checks.flag,
}


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of a number, both included, and one that it must exceed; or of the length of a list or text."""

    low: float = -inf
    high: float = inf
    above: float = -inf

    def __call__(self, value: Any, where: str) -> Any:
        """Return the value, or raise an InputError with the bounds."""
        size, what = (value, "a number") if isinstance(value, int | float) else (len(value), "a length")
        if self.low <= size <= self.high and size > self.above:
            return value
        if self.low > -inf and self.high < inf:
            bounds = f"from {self.low:g} to {self.high:g}"
        elif self.high < inf:
            bounds = f"of at most {self.high:g}"
        else:
            bounds = f"above {self.above:g}" if self.above > -inf else f"of at least {self.low:g}"
        raise InputError(f"{where} is {checks.shown(value)}, expected {what} {bounds}.")


Positive = Annotated[float, Range(above=0)]
NotNegative = Annotated[float, Range(low=0)]
Share = Annotated[float, Range(0, 1)]
Text = Annotated[str, Range(low=1)]  # not empty
Count = Annotated[int, Range(low=1)]
EpochSeconds = Annotated[float, Range(0.001, 86_400)]


def read(kind: Any, value: object, where: str = "") -> Any:
    """Return a value of a document as `kind`; `where` is its place there, such as ``clock.weight``."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        result = (_read_whole if arguments[0] is int else partial(read, arguments[0]))(value, where)
        for rule in arguments[1:]:  # functions of a value and its place that return the value, or refuse it
            result = rule(result, where)
        return result
    if origin in (Union, UnionType):
        return _read_union(arguments, value, where)
    if origin is Literal:
        return checks.choice(value, where, arguments)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return checks.items(value, where, lambda item, at: read(arguments[0], item, at))
        if not isinstance(value, list | tuple) or len(value) != len(arguments):
            raise InputError(f"{where} is {checks.shown(value)}, expected a list of {len(arguments)} values.")
        return tuple(
            read(each, item, f"{where}[{i}]")
            for i, (each, item) in enumerate(zip(arguments, value, strict=True))
        )
    if origin is Mapping:
        table = checks.mapping(value, where)
        return MappingProxyType(
            {key: read(arguments[1], item, f"{where}.{key}") for key, item in table.items()}
        )
    if kind is Any:
        return _read_anything(value, where)
    if hasattr(kind, "read_document"):
        return kind.read_document(value, where)
    if is_dataclass(kind):
        return read_fields(cast(type, kind), value, where)
    return _CHECKS[kind](value, where)


def read_fields(kind: type[T], value: object, where: str = "") -> T:
    """Return a dataclass from a table of its fields; an InputError names an unknown or missing key."""
    declared = _fields(kind)
    table = checks.mapping(value, where or "the document", declared)
    prefix = f"{where}." if where else ""
    for name, (field, _) in declared.items():
        if name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise InputError(f"key {name!r} is missing in {where or 'the document'}.")
    values = {name: read(declared[name][1], item, prefix + name) for name, item in table.items()}
    try:
        return kind(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}" if where else str(error)) from None


def check_fields(value: Any) -> None:
    """Check a dataclass that was made in Python; called in its ``__post_init__``."""
    for name, (_, kind) in _fields(type(value)).items():
        object.__setattr__(value, name, read(kind, getattr(value, name), name))


def plain(value: Any, *, defaults: bool = False) -> Any:
    """Return a dataclass as plain TOML or JSON values, without fields that are None or their default."""
    if hasattr(value, "to_document"):
        return value.to_document()
    if is_dataclass(value):
        kept = {name: (field, getattr(value, name)) for name, (field, _) in _fields(type(value)).items()}
        return {
            name: plain(item, defaults=defaults)
            for name, (field, item) in kept.items()
            if item is not None and (defaults or item != _default(field))
        }
    if isinstance(value, Mapping):
        return {key: plain(item, defaults=defaults) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item, defaults=defaults) for item in value]
    return value


def sha256_of(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document, the same however it is formatted."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return a TOML file (`what`: "a profile"); a missing file raises Python's own FileNotFoundError."""
    data = read_file(path, "TOML")
    if not data.strip():
        raise file_error(path, f"the file is empty, expected {what} in TOML.")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        reason = f"not a text file (byte {error.start} is not UTF-8), expected {what} in TOML."
    except RecursionError:
        reason = "not valid TOML: nested too deeply."
    except ValueError as error:  # also a number of more digits than Python reads
        reason = f"not valid TOML: {error}."
    raise file_error(path, reason)


def toml_text(document: Mapping[str, object]) -> str:
    """Return a document as TOML that reads back equal, its keys in their order."""
    import tomli_w  # here, so that `import stageguard` loads numpy only

    return tomli_w.dumps(document)


def _declared(kind: Any) -> Mapping[str, tuple[Field[Any], Any]]:
    """Return the fields of a dataclass that its constructor takes, each with its type."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: (field, hints[field.name]) for field in fields(kind) if field.init}


_fields: Callable[[Any], Mapping[str, tuple[Field[Any], Any]]] = lru_cache(maxsize=None)(_declared)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _read_whole(value: object, where: str) -> int:
    """Return a whole number, which may be written with a point and may be 0 or negative."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{where} is {checks.shown(value)}, expected a whole number.")
    return int(value)


def _read_union(kinds: tuple[Any, ...], value: object, where: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    first_error: InputError | None = None
    for kind in kinds:
        if kind is not NoneType:
            try:
                return read(kind, value, where)
            except InputError as error:
                first_error = first_error or error
    assert first_error is not None
    raise first_error


def _read_anything(value: object, where: str) -> Any:
    """Return plain TOML values, read-only."""
    if isinstance(value, Mapping):
        table = checks.mapping(value, where)
        return MappingProxyType({key: _read_anything(item, f"{where}.{key}") for key, item in table.items()})
    if isinstance(value, list | tuple):
        return checks.items(value, where, _read_anything)
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    return checks.number(value, where)
