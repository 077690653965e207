"""Compare a written sidecar, field by field, with the one that `decode` would write now."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from stageguard.base.records import dataclass
from stageguard.base.version import __version__

NUMBER_TOLERANCE = 1e-6  # other processors may add numbers in another order
MOST_SHOWN = 5
HASH = "sha256"  # of the sidecar itself, checked on its own
# Nothing derives with which programs an output was made, who reviewed it, and how a network staged the
# recording; only the hash of the sidecar covers these fields.
UNDERIVED = (
    *("provenance.stageguard", "provenance.numpy", "provenance.python", "provenance.core"),
    *("run.stageguard", "options.reviewed_by", "options.review", "options.staging"),
)
MAY_BE_ABSENT = ("joint_score", "measured")  # `save` writes neither
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The fields of a sidecar that differ from those derived again, and those that could not be compared."""

    n_same: int
    differing: dict[str, str]  # by field: what is derived and what is recorded
    unchecked: tuple[str, ...]  # fields that nothing derives
    notes: tuple[str, ...]

    @property
    def finding(self) -> str:
        """What to say about the fields, on one line."""
        if not self.differing:
            return f"{self.n_same} fields as recorded"
        shown = [f"{name} is {text}" for name, text in self.differing.items()]
        more = [f"and {len(shown) - MOST_SHOWN} more"] if len(shown) > MOST_SHOWN else []
        return "; ".join(shown[:MOST_SHOWN] + more)


def compare_sidecars(
    fresh: dict[str, Any], content: dict[str, Any], underived: Collection[str] = ()
) -> Comparison:
    """Compare all fields; `underived` adds fields, or groups of them, to those that nothing derives.

    Another version may have written other texts and other fields. Those are not counted, but named.
    """
    recorded, derived = _leaves(content), _leaves(fresh)
    for name in MAY_BE_ABSENT:
        if name not in content["stageguard"]:
            derived = {leaf: value for leaf, value in derived.items() if leaf.split(".")[0] != name}
    without = (*UNDERIVED, *underived)
    unchecked = [name for name in recorded if any(f"{name}.".startswith(f"{part}.") for part in without)]
    names = [name for name in {**derived, **recorded} if name not in (*unchecked, HASH)]
    pairs = {name: (recorded.get(name, _ABSENT), derived.get(name, _ABSENT)) for name in names}
    differing = {name: pair for name, pair in pairs.items() if not _same(*pair)}
    notes = []
    if (version := _version(recorded)) != __version__:
        tolerated = [name for name, pair in differing.items() if not all(map(_is_number, pair))]
        differing = {name: pair for name, pair in differing.items() if name not in tolerated}
        shown = ", ".join(tolerated[:MOST_SHOWN]) + (", …" if len(tolerated) > MOST_SHOWN else "")
        differ = f"; these texts and fields differ: {shown}" if tolerated else ""
        notes.append(f"written by stageguard {version}, compared by {__version__}{differ}.")
    return Comparison(
        len(names) - len(differing),
        {name: f"{_shown(now)}, but {_shown(was)} is recorded" for name, (was, now) in differing.items()},
        tuple(unchecked),
        tuple(notes),
    )


def _version(recorded: dict[str, Any]) -> str:
    return str(recorded.get("provenance.stageguard", recorded.get("run.stageguard", "of an unknown version")))


def _leaves(content: Any, name: str = "") -> dict[str, Any]:
    """Return all values inside nested dictionaries and lists, by their dotted paths without "stageguard"."""
    is_list = isinstance(content, list)
    items = enumerate(content) if is_list else content.items() if isinstance(content, dict) else ()
    if not items:
        return {name.removeprefix("stageguard."): content}
    leaves: dict[str, Any] = {}
    for key, item in items:
        leaves |= _leaves(item, f"{name}.{key}" if name else str(key))
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
