"""The list of docs/formats.md, made from the registry. Run this file to write it anew."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from stageguard.formats.file_format import EPOCH_LENGTH, NAMES, OTHER_PROBABILITIES, STAGES_ALONE
from stageguard.formats.objects import OBJECTS
from stageguard.formats.registry import formats

PAGE = Path(__file__).parents[1] / "docs" / "formats.md"
TESTS = Path(__file__).parent / "formats"
BEGIN, END = "<!-- formats: begin -->", "<!-- formats: end -->"
KINDS = {"density": "P", "hypnogram": "H", "write": "W"}
NEEDED = (NAMES, EPOCH_LENGTH, OTHER_PROBABILITIES)  # to read a night, if the file lacks them


def proofs() -> dict[str, list[str]]:
    """Tests by what they are marked to prove: a file format, or ``object:`` and a kind of object."""
    tests: dict[str, list[str]] = {}
    for file in sorted(TESTS.glob("test_*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.proves":
                    for name in map(ast.literal_eval, mark.args):
                        tests.setdefault(name, []).append(f"{file.name}::{node.name}")
    return tests


def listed() -> str:
    """A line for every file format, then one for every kind of object."""
    rows = [
        (f"`{form.name}`", f"{form.title}, {' '.join(f'`{s}`' for s in form.suffixes)}", form)
        for form in formats()
    ]
    rows += [("in memory", kind.title, kind) for kind in OBJECTS]
    lines = []
    for name, title, entry in rows:
        letters = "".join(letter for kind, letter in KINDS.items() if entry.does(kind))
        lost = [loss for loss in entry.loses if entry.does("write") or loss in NEEDED]
        missing = "all but the stages" if tuple(lost) == STAGES_ALONE else ", ".join(lost)
        lines.append(f"- {name} ({letters}): {title}" + (f"; without {missing}" if missing else ""))
    return "\n".join(lines)


def with_list(text: str) -> str:
    """The page with the list as it should be."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{listed()}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(with_list(PAGE.read_text("utf-8")), "utf-8")
    sys.stdout.write(f"wrote {PAGE.name}\n")
