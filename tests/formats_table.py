"""The table of docs/formats.md, made from the registry. Run this file to write it anew."""

from __future__ import annotations

import sys
from pathlib import Path

from stageguard.formats.objects import OBJECTS
from stageguard.formats.registry import FORMATS

PAGE = Path(__file__).parents[1] / "docs" / "formats.md"
BEGIN, END = "<!-- formats: begin -->", "<!-- formats: end -->"
HEADER = ("format", "what it is", "probabilities", "hypnogram", "written", "what it cannot carry", "test")


def table() -> str:
    """One row per file format, then one per kind of object."""
    rows = [
        (f"`{form.name}`", f"{form.title} ({', '.join(f'`{s}`' for s in form.suffixes)})", form)
        for form in FORMATS
    ]
    rows += [("in memory", kind.title, kind) for kind in OBJECTS]
    lines = ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    for name, title, entry in rows:
        can = ["" if getattr(entry, kind) is None else "yes" for kind in ("density", "hypnogram", "write")]
        tests = ", ".join(f"`{test.strip()}`" for test in entry.test.split(",") if test.strip())
        cells = (name, title, *can, "; ".join(entry.loses), tests)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def with_table(text: str) -> str:
    """The page with the table as it should be."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
    sys.stdout.write(f"wrote {PAGE.name}\n")
