"""The shape of the package: which way imports point, what an import loads, how long files get."""

from __future__ import annotations

import ast
import graphlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import stageguard

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "stageguard"

# From the bottom to the top; a module imports from its own layer and those below it.
LAYERS = {
    "words": """errors stages hypnogram hypnodensity recording profile _checks _epochs _files _handing_over
        _input_files
        _optional         _profile_document _profile_parsing _profile_parts _synthetic _toml _units""",
    "machine": "automaton _core _reference _reference_stream _reference_sums _kernels",
    "verbs": """evidence strength decoding decoded _advance _nights _solver _path_score _smoother _snapshot
        explanation uncertainty smoothing streaming experts fitting bands merging measures simulate
        _common_epochs""",
    "world": "formats quality extraction datasets synthetic nn",
    "work": "engine study report review",
    "command line": "cli",
}
LEVEL = {name: level for level, names in enumerate(LAYERS.values()) for name in names.split()}
LEVEL["stageguard"] = LEVEL["cli"]  # the public names, made of everything

# Conveniences that reach upwards, inside a function or for the type checker only.
DEFERRED_UPWARD = {("profile", "automaton")}
# What a result can be written to, or handed to another library as.
DEFERRED_UPWARD |= {("_handing_over", "formats")}


class Import(NamedTuple):
    """One import of this package's own: from which top-level module, of which, and whether it is put off."""

    source: str
    target: str
    deferred: bool
    line: int


def own_imports(source: str, tree: ast.AST, *, deferred: bool = False) -> Iterator[Import]:
    """Imports of stageguard's own modules, named by their first component below the package."""
    for node in ast.iter_child_nodes(tree):
        later = (
            deferred or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or is_for_type_checker(node)
        )
        yield from own_imports(source, node, deferred=later)
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}, line {node.lineno}: write relative imports in full"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for parts in (name.split(".") for name in names):
            if parts[0] == "stageguard" and parts[1:] != ["__version__"]:
                yield Import(source, parts[min(1, len(parts) - 1)], deferred, node.lineno)


def is_for_type_checker(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def complaint(found: Import) -> str | None:
    """What is wrong with an import, or None."""
    where = f"{found.source}, line {found.line}"
    for module in (found.source, found.target):
        if module not in LEVEL:
            return f"{where}: imports {found.target!r}, but {module!r} is no module in LAYERS"
    if LEVEL[found.target] <= LEVEL[found.source]:
        return None
    if found.deferred and (found.source, found.target) in DEFERRED_UPWARD:
        return None
    return f"{where}: imports {found.target!r} from a higher layer"


def modules() -> dict[Path, str]:
    """Every Python file but the package's `__init__`, with the first component of its module name."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {
        f: f.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for f in files
        if f.parent != PACKAGE or f.stem[:2] != "__"
    }


def all_imports() -> list[Import]:
    return [i for f, name in modules().items() for i in own_imports(name, ast.parse(f.read_text("utf-8")))]


def test_every_module_has_a_layer():
    assert modules()
    assert set(modules().values()) - set(LEVEL) == set()


def test_imports_point_down():
    found = all_imports()
    assert found
    assert [text for text in map(complaint, found) if text] == []


@pytest.mark.parametrize(
    ("source", "code", "expected"),
    [
        ("stages", "from stageguard.decoding import decode", "from a higher layer"),
        ("stages", "import stageguard.cli.demo", "from a higher layer"),
        ("decoding", "def f():\n    from stageguard import formats", "from a higher layer"),
        ("profile", "from stageguard.automaton import Automaton", "from a higher layer"),
        ("decoding", "from stageguard import decode", "no module in LAYERS"),
        ("decoding", "import stageguard", "from a higher layer"),
        ("profile", "def f():\n    from stageguard.automaton import Automaton", None),
        ("cli", "from stageguard.report import hypnogram_svg\nfrom stageguard import __version__", None),
    ],
)
def test_an_import_that_points_up_is_found(source, code, expected):
    found = [text for text in map(complaint, own_imports(source, ast.parse(code))) if text]
    assert len(found) == (expected is not None)
    assert expected is None or expected in found[0]


def test_modules_do_not_import_each_other_in_circles():
    needs: dict[str, set[str]] = {}
    for found in all_imports():
        if not found.deferred and found.source != found.target:
            needs.setdefault(found.source, set()).add(found.target)
    assert needs
    graphlib.TopologicalSorter(needs).prepare()  # raises CycleError, which names the circle


def third_party_after(code: str) -> set[str]:
    """Installed packages, numpy and ours included, that some code loads in a fresh interpreter."""
    script = f"import json, sys\nold = set(sys.modules)\n{code}\nprint(json.dumps([*set(sys.modules) - old]))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(run.stdout)}
    return {name for name in loaded if name not in sys.stdlib_module_names and name[:2] != "__"}


def test_import_loads_numpy_and_nothing_heavier():
    assert third_party_after("import stageguard") <= {"stageguard", "numpy"}


def test_every_public_name_needs_numpy_only():
    loaded = third_party_after("import stageguard\nfor name in stageguard.__all__: getattr(stageguard, name)")
    assert loaded == {"stageguard", "numpy"}


def test_an_import_of_the_command_line_is_noticed():
    assert "typer" in third_party_after("import stageguard.cli")


@pytest.mark.parametrize("name", stageguard.__all__)
def test_public_name_resolves_and_is_listed(name):
    assert getattr(stageguard, name) is not None
    assert name in dir(stageguard)


def test_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = stageguard.no_such_name


def test_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    assert citation is not None
    assert project["version"] == stageguard.__version__ == citation[1]


def test_every_pin_is_exact_and_covers_what_we_ask_for():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    pinned = {re.sub(r"[-_.]+", "-", name).lower() for name in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"], "cmake", "ninja"]
    wanted += [need for extra in project["project"]["optional-dependencies"].values() for need in extra]
    asked = {re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", need)[0]).lower() for need in wanted}
    assert asked - pinned == set()
    assert pins["torch"] == "2.13.0"


def test_no_source_file_is_longer_than_400_lines():
    lengths = {
        str(f.relative_to(ROOT)): len(f.read_text("utf-8").splitlines())
        for f in PACKAGE.rglob("*")
        if f.suffix in {".py", ".cpp", ".hpp", ".h"}
    }
    assert lengths
    assert {name: length for name, length in lengths.items() if length > 400} == {}
