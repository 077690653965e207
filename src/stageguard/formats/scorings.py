"""Formats of expert scorings that are told apart by how their content begins. Reads no stages itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from stageguard.formats._density_file import file_error

HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class HypnogramReader:
    """A format: what it is called, how its content begins, and who reads it.

    ``read`` is ``"module:function"`` below this package, so that a reader's libraries are loaded when a file
    needs them. The function takes the path and `HypnogramOptions` and returns a `RawHypnogram`.
    """

    name: str
    begins: Callable[[bytes], bool]
    read: str

    def load(self) -> Callable[[Path, Any], Any]:
        """Return the function that reads it."""
        module, _, function = self.read.partition(":")
        found: Callable[[Path, Any], Any] = getattr(import_module(f"stageguard.formats.{module}"), function)
        return found


def xml_root(head: bytes) -> str | None:
    """Return the name of the first element of an XML file from its first bytes, or None for anything else."""
    encoding = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(head[:2], "utf-8-sig")
    text = head.decode(encoding, errors="replace").lstrip("\ufeff \t\r\n")
    if not text.startswith("<"):
        return None
    plain = re.sub(r"<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^<>[]*(\[.*?\]\s*)?>", "", text, flags=re.DOTALL)
    found = re.match(r"\s*<([^\s<>/!?]+)", plain)
    return found[1].rpartition(":")[2] if found is not None else ""


HYPNOGRAM_READERS = (
    HypnogramReader(
        "EDF+ annotations", lambda head: head.startswith(b"0       "), "edf_annotations:read_edf_hypnogram"
    ),
    HypnogramReader(
        "Compumedics Profusion XML",
        lambda head: xml_root(head) == "CMPStudyConfig",
        "profusion_xml:read_profusion_xml",
    ),
    HypnogramReader("NSRR XML", lambda head: xml_root(head) == "PSGAnnotation", "nsrr_xml:read_nsrr_xml"),
)


def reader_for(path: Path) -> Callable[[Path, Any], Any] | None:
    """Return who reads a scoring of this content; None for text, which is looked at line by line.

    XML of another kind is an error that names its first element.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    for reader in HYPNOGRAM_READERS:
        if reader.begins(head):
            return reader.load()
    root = xml_root(head)
    if root is not None:
        known = "CMPStudyConfig (Compumedics Profusion) or PSGAnnotation (NSRR)"
        raise file_error(
            path, f"is XML that begins with <{root[:40]}>, expected {known}. Export it as one of these."
        )
    return None
