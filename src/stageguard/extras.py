"""Import libraries that come with an extra, when they are first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from stageguard.errors import MissingExtraError


def to_install(extra: str) -> str:
    """Return the command that adds an extra.

    pip keeps the installed stageguard, whether from a clone or from a release, and fetches only the libraries
    of the extra. Double quotes work in every shell, also on Windows.
    """
    return f'pip install "stageguard[{extra}]"'


def library(name: str, what: str, extra: str | None = "recordings") -> Any:
    """Return a module ("scipy.signal") that `what` ("heartbeats from an ECG") needs, or say how to get it.

    `extra` is the extra that installs the module; None for a library that is in no extra.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        command = f"pip install {package}" if extra is None else to_install(extra)
        raise MissingExtraError(f"{what} needs {package!r}. Install with: {command}") from None
