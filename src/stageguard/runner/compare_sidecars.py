"""Compare a written sidecar, field by field, with the one that `decode` would write now."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from stageguard.base.version import __version__

NUMBER_TOLERANCE = 1e-6  # other processors may add numbers in another order
MOST_SHOWN = 5
OWN = "stageguard"  # holds all fields but the meanings of the columns
HASH = (OWN, "sha256")  # of the sidecar itself, checked on its own
# Nothing derives with which programs an output was made, who reviewed it, and how a network staged the
# recording; only the hash of the sidecar covers these fields.
UNDERIVED = (
    *("provenance.stageguard", "provenance.numpy", "provenance.python", "provenance.core"),
    *("run.stageguard", "options.reviewed_by", "options.review", "options.staging"),
)
VERSIONS = ((OWN, "provenance", "stageguard"), (OWN, "run", "stageguard"))  # of a night, of a table
_ABSENT = object()

# Keys and places in lists, not a dotted text: no key may pass for a path, and no list for a dictionary.
Way = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one comparison."""

    name: str
    ok: bool
    finding: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The fields of a sidecar that differ from those derived again, and those that could not be compared."""

    n_same: int
    differing: tuple[str, ...]  # each field with what is derived and what is recorded
    unchecked: tuple[str, ...]  # fields that nothing derives
    other_version: str | None  # that wrote the sidecar, as far as it says so

    @property
    def finding(self) -> str:
        """What to say about the fields, on one line."""
        if not self.differing:
            return f"{self.n_same} fields as recorded"
        n_more = len(self.differing) - MOST_SHOWN
        return "; ".join((*self.differing[:MOST_SHOWN], *([f"and {n_more} more"] if n_more > 0 else [])))


def compare_sidecars(
    fresh: dict[str, Any], content: dict[str, Any], underived: Collection[str] = ()
) -> Comparison:
    """Compare all fields; `underived` adds fields, or groups of them, to those that nothing derives.

    Whatever version a sidecar names, a difference is one: the version itself may be forged.
    """
    recorded, derived = _leaves(content), _leaves(fresh)
    without = [(OWN, *name.split(".")) for name in (*UNDERIVED, *underived)]
    unchecked = [path for path in recorded if any(path[: len(part)] == part for part in without)]
    paths = [path for path in {**derived, **recorded} if path != HASH and path not in unchecked]
    pairs = {path: (recorded.get(path, _ABSENT), derived.get(path, _ABSENT)) for path in paths}
    differing = {path: pair for path, pair in pairs.items() if not _same(*pair)}
    version = next((str(recorded[path]) for path in VERSIONS if path in recorded), "of an unknown version")
    return Comparison(
        len(paths) - len(differing),
        tuple(
            f"{_name(path)} is {_shown(now)}, but {_shown(was)} is recorded"
            for path, (was, now) in differing.items()
        ),
        tuple(map(_name, unchecked)),
        None if version == __version__ else version,
    )


def _name(path: Way) -> str:
    """Return the name of a field for people."""
    is_own = path[0] == OWN and len(path) > 1
    return ".".join(map(str, path[1:])) if is_own else f"{'.'.join(map(str, path))} at the top level"


def _leaves(content: Any, path: Way = ()) -> dict[Way, Any]:
    """Return all values inside nested dictionaries and lists, also empty ones of these, by their paths."""
    items: dict[Any, Any] = dict(enumerate(content)) if isinstance(content, list) else {}
    items = content if isinstance(content, dict) else items
    if not items:
        return {path: content}
    leaves: dict[Way, Any] = {}
    for key, item in items.items():
        leaves |= _leaves(item, (*path, key))
    return leaves


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(was: Any, now: Any) -> bool:
    if _is_number(was) and _is_number(now):
        return bool(abs(was - now) <= NUMBER_TOLERANCE * max(1.0, abs(now)))
    return type(was) is type(now) and bool(was == now)


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    return f"{value:.10g}" if isinstance(value, float) else str(value)[:60]
