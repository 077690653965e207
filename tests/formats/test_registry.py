"""The registry is true: what it names exists, and the documentation says the same."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from messages import naming
from stageguard.errors import FileFormatError
from stageguard.formats import sniffing
from stageguard.formats.file_format import FileFormat
from stageguard.formats.objects import OBJECTS
from stageguard.formats.registry import detect, formats


def proofs() -> dict[str, list[str]]:
    """Tests by what they are marked to prove: a file format, or ``object:`` and a kind of object."""
    tests: dict[str, list[str]] = {}
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.proves":
                    for name in map(ast.literal_eval, mark.args):
                        tests.setdefault(name, []).append(f"{file.name}::{node.name}")
    return tests


def test_every_format_and_object_has_a_test_that_proves_it():
    known = {form.name for form in formats()} | {f"object:{kind.name}" for kind in OBJECTS}
    assert set(proofs()) == known


def test_a_plain_table_loads_no_tool(tmp_path):
    """What `decode night.csv` needs is found without the modules of the tools, with the same answer."""
    path = tmp_path / "night.csv"
    path.write_text("onset,W,N1,N2,N3,R\n0,1,0,0,0,0\n")
    code = (
        "import sys, pathlib; from stageguard.formats.registry import detect; "
        f"form = detect(pathlib.Path({str(path)!r}), 'density'); "
        "print(form.name, 'stageguard.formats.tools.yasa' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["csv", "False"]
    assert detect(path, "density", formats()).name == "csv"


def read(path, options):
    raise AssertionError


def form(name: str, magic: bytes, suffixes: tuple[str, ...] = (), **more: object) -> FileFormat:
    return FileFormat(
        name,
        f"file of {name}",
        suffixes,
        sniffing.begins_with(magic),
        probabilities=read,
        **more,
    )  # type: ignore[arg-type]


def test_content_decides_then_the_name_then_nobody(tmp_path):
    path = tmp_path / "n.aaa"
    path.write_bytes(b"MAGIC")
    one, two = form("one", b"MAG", (".aaa",)), form("two", b"MAGIC", (".bbb",))
    assert detect(path, "density", [one, two]) is one
    assert detect(path, "density", [two]) is two
    neither = path.rename(tmp_path / "n.ccc")
    with pytest.raises(FileFormatError, match=naming("fits", 2, "formats")):
        detect(neither, "density", [one, two])
    general = form("general", b"M", is_general=True)
    assert detect(neither, "density", [general, two]) is two
