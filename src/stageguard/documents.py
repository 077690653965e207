"""Documents as frozen dataclasses: profiles, recipes, cards and configurations.

The annotations of a dataclass are the schema of its document: type, bounds and default stand once, where the
field stands. `read` makes the dataclass from plain TOML or JSON values and checks each; `plain` gives plain
values back.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class FlipFlop:
        penalty_nats: Annotated[float, Range(0, 1000)] = 0.0
        window_epochs: Annotated[int, Range(2, 60)] = 5
        method: Literal["greedy", "exact"] = "exact"

Fields may be numbers, text, flags, times, literals, tuples, mappings from text, other such dataclasses, `Any`
for plain TOML values, and unions of these with None. What several fields must fulfil together is checked by
the class in ``__post_init__`` with an InputError. A class whose document is not a table of its fields has two
methods: ``read_document(value, where)``, a class method, and ``to_document()``. Tuples and mappings marked
`ByName` are tables with a value for each name of a list, such as the stages, that the document itself gives.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import datetime
from functools import lru_cache, partial
from math import inf
from numbers import Integral, Real
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from stageguard import checks
from stageguard.errors import InputError
from stageguard.files import file_error, read_file

T = TypeVar("T")
Names = Sequence[str]
_CHECKS: Mapping[Any, Callable[[object, str], Any]] = {
    float: checks.number,
    int: checks.count,
    str: checks.text,
    bool: checks.flag,
    datetime: checks.moment,
    object: lambda value, where: value,  # what is compared as a whole
}


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of a number, both included, and one that it must exceed; or of the length of a list or text."""

    low: float = -inf
    high: float = inf
    above: float = -inf

    def __call__(self, value: Any, where: str) -> Any:
        """Return the value, or raise an InputError with the bounds."""
        is_number = isinstance(value, int | float)
        size = value if is_number else len(value)
        if self.low <= size <= self.high and size > self.above:
            return value
        if self.low > -inf and self.high < inf:
            bounds = f"from {self.low:g} to {self.high:g}"
        else:
            limits = {"above": self.above, "of at least": self.low, "of at most": self.high}
            words = " and ".join(f"{limit} {n:g}" for limit, n in limits.items() if abs(n) < inf)
            bounds = words.replace("and of", "and")
        if is_number:
            raise InputError(f"{where} is {checks.shown(value)}, expected a number {bounds}.")
        raise InputError(f"{where} has a length of {size}, expected a length {bounds}.")


@dataclass(frozen=True, slots=True)
class ByName:
    """Marks a tuple or mapping whose document is a table, with a value for each name that `read` gets."""

    complete: bool = True  # else the table may leave names out, which are 0 in a tuple

    def read(self, kind: Any, value: object, where: str, names: Names) -> Any:
        """Return the values in the order of the names."""
        table = checks.mapping(value, where, names)
        for name in names:
            if self.complete and name not in table:
                raise InputError(f"key {name!r} is missing in {where}.")
        item_kind, is_tuple = _item_kind(kind), get_origin(kind) is tuple
        items = {
            name: read(item_kind, table.get(name, 0.0), f"{where}.{name}", names)
            for name in names
            if is_tuple or name in table
        }
        return tuple(items.values()) if is_tuple else MappingProxyType(items)


Positive = Annotated[float, Range(above=0)]
NotNegative = Annotated[float, Range(low=0)]
Share = Annotated[float, Range(0, 1)]
Text = Annotated[str, partial(checks.text, empty=False)]
Count = Annotated[int, Range(low=1)]
EpochSeconds = Annotated[float, Range(0.001, 86_400)]


def read(kind: Any, value: object, where: str = "", names: Names = ()) -> Any:
    """Return a value of a document as `kind`; `where` is its place there, such as ``clock.weight``."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        inner, *rules = arguments
        by_name = next((rule for rule in rules if isinstance(rule, ByName)), None)
        if by_name is not None:
            result = by_name.read(inner, value, where, names)
        elif inner is int:  # which a rule bounds
            result = checks.whole(value, where, low=-inf)
        else:
            result = read(inner, value, where, names)
        for rule in rules:  # functions of a value and its place that return the value, or refuse it
            result = result if rule is by_name else rule(result, where)
        return result
    if origin in (Union, UnionType):
        return _read_union(arguments, value, where, names)
    if origin is Literal:
        return checks.choice(value, where, arguments)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return checks.items(value, where, lambda item, at: read(arguments[0], item, at, names))
        if not isinstance(value, list | tuple) or len(value) != len(arguments):
            raise InputError(f"{where} is {checks.shown(value)}, expected a list of {len(arguments)} values.")
        return tuple(
            read(each, item, f"{where}[{i}]", names)
            for i, (each, item) in enumerate(zip(arguments, value, strict=True))
        )
    if origin is Mapping:
        table = checks.mapping(value, where)
        return MappingProxyType(
            {key: read(arguments[1], item, f"{where}.{key}", names) for key, item in table.items()}
        )
    if kind is Any:
        return _read_anything(value, where)
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, kind):
        return value
    if hasattr(kind, "read_document"):
        return kind.read_document(value, where)
    if is_dataclass(kind):
        return read_fields(cast(type, kind), value, where, names)
    return _CHECKS[kind](value, where)


def read_fields(kind: type[T], value: object, where: str = "", names: Names = ()) -> T:
    """Return a dataclass from a table of its fields; an InputError names an unknown or missing key."""
    declared = _fields(kind)
    table = checks.mapping(value, where or "the document", declared)
    prefix = f"{where}." if where else ""
    for name, (field, _) in declared.items():
        if name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise InputError(f"key {name!r} is missing in {where or 'the document'}.")
    values = {name: read(declared[name][1], item, prefix + name, names) for name, item in table.items()}
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
    return _plain(value, type(value), defaults, ())


def plain_fields(value: Any, *, defaults: bool = False, names: Names = ()) -> dict[str, Any]:
    """Return the table of a dataclass's fields as `plain` does, also if the class has ``to_document``."""
    kept = [(name, field, kind, getattr(value, name)) for name, (field, kind) in _fields(type(value)).items()]
    return {
        name: _plain(item, kind, defaults, names)
        for name, field, kind, item in kept
        if item is not None and (defaults or item != _default(field))
    }


def sha256_of(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document, the same however it is formatted."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return a TOML file (`what`: "a profile"); a missing file raises Python's own FileNotFoundError."""
    try:
        data = read_file(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise file_error(path, f"cannot be read: {error.strerror or error}.") from None
    try:
        document = tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise file_error(path, f"not valid TOML: {error}.") from None
    if not document:
        raise file_error(path, f"is empty, expected {what} in TOML.")
    return document


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


def _item_kind(kind: Any) -> Any:
    """Return what a tuple or mapping holds."""
    arguments = get_args(kind)
    return arguments[get_origin(kind) is Mapping] if arguments else Any


def _plain(value: Any, kind: Any, defaults: bool, names: Names) -> Any:
    if hasattr(value, "to_document"):
        return value.to_document()
    if is_dataclass(value):
        return plain_fields(value, defaults=defaults, names=names)
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    kind, *rules = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    inside = _item_kind(kind)
    if isinstance(value, Mapping):
        return {key: _plain(item, inside, defaults, names) for key, item in value.items()}
    if isinstance(value, tuple | list):
        items = [_plain(item, inside, defaults, names) for item in value]
        is_table = any(isinstance(rule, ByName) for rule in rules)
        return dict(zip(names, items, strict=True)) if is_table else items
    return value


def _read_union(kinds: tuple[Any, ...], value: object, where: str, names: Names) -> Any:
    if value is None and NoneType in kinds:
        return None
    errors = []
    for kind in kinds:
        if kind is not NoneType:
            try:
                return read(kind, value, where, names)
            except InputError as error:
                errors.append(error)
    raise errors[0]


def _read_anything(value: object, where: str) -> Any:
    """Return plain TOML values, read-only."""
    if isinstance(value, Mapping):
        table = checks.mapping(value, where)
        return MappingProxyType({key: _read_anything(item, f"{where}.{key}") for key, item in table.items()})
    if isinstance(value, list | tuple):
        return checks.items(value, where, _read_anything)
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return checks.text(value, where)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return checks.number(value, where)
    raise InputError(f"{where} is {checks.shown(value)}, expected text, a number, a flag, a list or a table.")
