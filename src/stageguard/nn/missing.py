"""What to say where the extra is not installed. Imports nothing heavy."""

from __future__ import annotations

from stageguard.base.errors import MissingExtraError


def missing(error: ModuleNotFoundError) -> MissingExtraError:
    """Return the error that says which library is missing and how to install it."""
    return MissingExtraError(
        f"stageguard.nn needs {error.name!r}. Install with: pip install 'stageguard[torch]'"
    )
