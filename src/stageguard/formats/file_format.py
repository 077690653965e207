"""What a file format is: how to know it, who reads it, who writes it, what it cannot carry. Lists none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from stageguard.formats.sniffing import Sniff

Kind = Literal["density", "hypnogram", "write"]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A file format.

    Parameters
    ----------
    name : str
        What a caller says: ``format="gssc-csv"``.
    title : str
        What people call it, for messages and the documentation.
    suffixes : tuple of str
        What its files are usually called, in lower case. They only decide between formats of like content,
        and a name that promises other formats is an error.
    sniff : callable
        Whether the first bytes of a file, and its path, may be of this format.
    density, hypnogram, write : str or None
        ``"module:function"`` below this package, loaded when it is needed. A density reader takes the path
        and `DensityOptions` and returns a `RawDensity`; a hypnogram reader takes the path and
        `HypnogramOptions` and returns a `RawHypnogram`.
    loses : tuple of str
        What a file of this format cannot carry.
    test : str
        The test that proves it: ``"test_formats_density_gssc.py::test_name"``.
    is_general : bool
        It is read where no particular format recognises the content.
    sniff_hypnogram : callable, optional
        The same as `sniff` for reading it as a hypnogram, where that asks for other content.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    sniff: Sniff
    density: str | None = None
    hypnogram: str | None = None
    write: str | None = None
    loses: tuple[str, ...] = ()
    test: str = ""
    is_general: bool = False
    sniff_hypnogram: Sniff | None = None

    def does(self, kind: Kind) -> bool:
        """Whether it can be read as this, or written."""
        return getattr(self, kind) is not None

    def may_be(self, kind: Kind, head: bytes, path: Path) -> bool:
        """Whether a file that begins like this may be of this format, to be read as this."""
        sniff = self.sniff_hypnogram if kind == "hypnogram" else None
        return (sniff or self.sniff)(head, path)

    def load(self, kind: Kind) -> Callable[..., Any]:
        """Return the function that reads or writes it."""
        return load(getattr(self, kind))


def load(place: str) -> Callable[..., Any]:
    """Return a function by ``"module:function"`` below this package."""
    module, _, function = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"stageguard.formats.{module}"), function)
    return found
