"""The registry is true: what it names exists, and the documentation says the same."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from formats_table import BEGIN, END, PAGE, with_table
from stageguard.base.errors import FileFormatError, InputError
from stageguard.formats import sniffing as sniffing
from stageguard.formats.file_format import FileFormat
from stageguard.formats.objects import OBJECTS
from stageguard.formats.registry import FORMATS, detect, joined, named

TESTS = Path(__file__).parent
ENTRIES = [*FORMATS, *OBJECTS]
KINDS = ("density", "hypnogram", "write")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_what_reads_and_writes_a_format_exists(entry):
    from stageguard.formats.file_format import load

    places = [getattr(entry, kind) for kind in KINDS if getattr(entry, kind) is not None]
    assert places
    for place in places:
        assert callable(load(place))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_test_that_proves_a_format_exists(entry):
    tests = [test.strip() for test in entry.test.split(",")]
    assert all(tests)
    for test in tests:
        file, _, function = test.partition("::")
        tree = ast.parse((TESTS / file).read_text("utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert function in names, f"{file} has no {function!r}"


def test_names_are_short_and_unique():
    names = [form.name for form in FORMATS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)
    assert all(suffix == suffix.lower() for form in FORMATS for suffix in form.suffixes)


def test_the_documentation_lists_every_format():
    """`python tests/formats_table.py` writes the table anew."""
    text = PAGE.read_text("utf-8")
    assert (text.count(BEGIN), text.count(END)) == (1, 1)
    assert with_table(text) == text


def form(name: str, magic: bytes, suffixes: tuple[str, ...] = (), **more: object) -> FileFormat:
    return FileFormat(name, f"file of {name}", suffixes, sniffing.begins_with(magic), density="x:y", **more)  # type: ignore[arg-type]


def test_content_decides_then_the_name_then_nobody(tmp_path):
    path = tmp_path / "n.aaa"
    path.write_bytes(b"MAGIC")
    one, two = form("one", b"MAG", (".aaa",)), form("two", b"MAGIC", (".bbb",))
    assert detect(path, "density", [one, two]) is one
    assert detect(path, "density", [two]) is two
    neither = path.rename(tmp_path / "n.ccc")
    with pytest.raises(
        FileFormatError, match=r"may be file of one \(format='one'\) or file of two \(format='two'\)"
    ):
        detect(neither, "density", [one, two])
    general = form("general", b"M", is_general=True)
    assert detect(neither, "density", [general, two]) is two
    wrong = form("three", b"OTHER", (".ccc",))
    with pytest.raises(FileFormatError, match=r"holds file of two, not file of three as its name says"):
        detect(neither, "density", [two, wrong])


def test_a_format_of_two_tables_does_both():
    first = form("both", b"A", (".a",), loses=("x",), test="t1")
    second = FileFormat(
        "both", "title", (".b",), sniffing.begins_with(b"B"), hypnogram="z:y", loses=("y",), test="t2"
    )
    (both,) = joined([first], [second])
    assert (both.density, both.hypnogram, both.suffixes, both.loses) == (
        "x:y",
        "z:y",
        (".a", ".b"),
        ("x", "y"),
    )
    assert both.may_be("density", b"A", Path()) and not both.may_be("density", b"B", Path())
    assert both.may_be("hypnogram", b"B", Path()) and not both.may_be("hypnogram", b"A", Path())
    with pytest.raises(AssertionError, match="both: "):
        joined([first], [form("both", b"A")])


def test_names_that_nobody_knows():
    with pytest.raises(InputError, match=r"unknown format 'yasa'\. Known for hypnograms: .*"):
        named("yasa", "hypnogram")
    assert named("yasa-json", "density").name == "yasa-json"
