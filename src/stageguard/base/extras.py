"""Import libraries that come with an extra, when they are first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from stageguard.base.errors import MissingExtraError


def to_install(extra: str) -> str:
    """Return the command that adds an extra.

    pip takes the stageguard that is installed, from a clone or from a release, and fetches the libraries of
    the extra alone. Double quotes serve every shell, those of Windows too.
    """
    return f'pip install "stageguard[{extra}]"'


def library(name: str, what: str, extra: str | None = "recordings") -> Any:
    """Return a module ("scipy.signal") that `what` ("heartbeats from an ECG") needs, or say how to get it.

    `extra` is what brings it, None for a library of its own.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        command = f"pip install {package}" if extra is None else to_install(extra)
        raise MissingExtraError(f"{what} needs {package!r}. Install with: {command}") from None
