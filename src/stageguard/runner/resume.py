"""The rule by which a run goes on where an earlier one ended.

An output is kept if its record says that the same version, options, profile and input made it, and if its
files still are as the record describes them. Any other output is left alone, unless it may be overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stageguard.formats.outputs import describe_file

# Exceptions that reading a record may raise when its values are not what `decode` wrote.
MALFORMED = (KeyError, TypeError, AttributeError, ValueError, OverflowError)
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that affects an output, as far as it can be compared."""

    options: Mapping[str, Any]  # in JSON types
    profile_name: str
    profile_sha256: str
    input_file: str
    input_sha256: str
    version: str  # of this package

    def difference(self, now: Recipe, other_profile_sha256: str | None = None) -> str:
        """Return how this recipe, of an existing output, differs from that of now; empty if it does not.

        `other_profile_sha256` is another form of the profile that may have been used.
        """
        keys = sorted(now.options.keys() | self.options.keys())
        differing = [key for key in keys if now.options.get(key, _ABSENT) != self.options.get(key, _ABSENT)]
        if differing:
            return f"was decoded with other options ({', '.join(differing)})"
        if self.profile_sha256 not in (now.profile_sha256, other_profile_sha256):
            same = self.profile_name == now.profile_name
            return f"was decoded with {'another version of ' * same}the profile {self.profile_name}"
        if self.version != now.version:
            return f"was decoded by stageguard {self.version}, this is {now.version}"
        if self.input_sha256 != now.input_sha256:
            return f"{now.input_file} has changed since"
        return ""


def is_as_described(folder: Path, described: Mapping[str, Any]) -> bool:
    """Whether a file that was written beside an output is there and has not changed."""
    path = folder / Path(described["file"]).name
    return path.is_file() and describe_file(path) == described
