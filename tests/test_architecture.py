"""The shape of the package: which way imports point, what an import loads."""

from __future__ import annotations

import ast
import dataclasses
import graphlib
import importlib
import inspect
import json
import re
import subprocess
import sys
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import stageguard
import stageguard.nn

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "stageguard"

# From the bottom to the top: a module imports from its own folder and from those before it.
ROOT_MODULES = {file.stem for file in PACKAGE.glob("*.py")} - {"__init__", "pipeline"}
LAYERS = [
    *("night", "profile", "guard", "measures", "fitting", "formats", "report", "signals", "datasets"),
    *("synthetic", "nn", "staging", "pipeline", "runner", "plots", "study", "review", "cli"),
]


class Import(NamedTuple):
    """One import of this package's own, module by module."""

    source: str
    target: str
    line: int


def module_name(file: Path) -> str:
    """Return the dotted name of a file below the package, such as `guard.decode`; the root has none."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def own_imports(source: str, tree: ast.AST) -> Iterator[Import]:
    """Imports of stageguard's own modules, those inside functions and for the type checker included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}, line {node.lineno}: write relative imports in full"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name == "stageguard" or name.startswith("stageguard."):
                yield Import(source, owner(name.removeprefix("stageguard").removeprefix(".")), node.lineno)


def owner(name: str) -> str:
    """Return the module that a dotted name is, or is defined in."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name


def level(module: str) -> int:
    """Return how high a module lies; the root, made of everything, is the highest."""
    if module in ROOT_MODULES:
        return -1  # errors, files and what else lies beside the folders, below them all
    return LAYERS.index(module.partition(".")[0]) if module else len(LAYERS)


def complaint(found: Import) -> str | None:
    """What is wrong with an import, or None."""
    if level(found.target) <= level(found.source):
        return None
    return f"{found.source}, line {found.line}: imports {found.target!r} from a higher layer"


def all_imports() -> list[Import]:
    return [
        i for name, f in MODULES.items() if name for i in own_imports(name, ast.parse(f.read_text("utf-8")))
    ]


def test_every_module_has_a_layer():
    assert len(MODULES) > 100
    assert {name.partition(".")[0] for name in MODULES if name} <= {*LAYERS, *ROOT_MODULES}


def test_imports_point_down():
    found = all_imports()
    assert len(found) > 1000
    assert [text for text in map(complaint, found) if text] == []


@pytest.mark.parametrize(
    ("source", "code", "expected"),
    [
        ("night.stages", "from stageguard.guard.decode import decode", "from a higher layer"),
        ("night.stages", "import stageguard.cli.app", "from a higher layer"),
        ("guard.decode", "def f():\n    from stageguard.formats import convert", "from a higher layer"),
        ("profile.profile", "from stageguard.guard.automaton import Automaton", "from a higher layer"),
        ("cli.app", "from stageguard.report import hypnogram_svg", None),
    ],
)
def test_an_import_that_points_up_is_found(source, code, expected):
    found = [text for text in map(complaint, own_imports(source, ast.parse(code))) if text]
    assert len(found) == (expected is not None)
    assert expected is None or expected in found[0]


def test_modules_do_not_import_each_other_in_circles():
    """Deferred imports count: what needs its importer belongs into one module with it, or below both."""
    needs: dict[str, set[str]] = {}
    for found in all_imports():
        if found.source != found.target:
            needs.setdefault(found.source, set()).add(found.target)
    assert needs
    graphlib.TopologicalSorter(needs).prepare()  # raises CycleError, which names the circle


# What layers up to fitting take from a higher one by name, when it is called: methods that people expect on
# a value, although they are written above it.
TAKEN_FROM_ABOVE = {
    "lazy": {"report.notebook:html_of"},
    "night.hypnogram": {
        *("formats.convert:save", "formats.tools.stageguard:to_frame"),
        *("formats.tools.yasa:to_yasa", "formats.tools.mne:to_mne"),
    },
    "guard.night": {"formats.read:night_for"},
}


def imports_by_name(tree: ast.AST) -> set[str]:
    """Objects that `load` of `lazy` is called for."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    loads = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "load"]
    return {call.args[0].value for call in loads if isinstance(call.args[0], ast.Constant)}


def test_imports_by_name_are_few_and_point_up():
    found = {
        name: taken
        for name, file in MODULES.items()
        if level(name) <= level("fitting") and (taken := imports_by_name(ast.parse(file.read_text("utf-8"))))
    }
    assert found == TAKEN_FROM_ABOVE
    for name, taken in found.items():
        for module, _, attribute in (each.partition(":") for each in taken):
            assert level(module) > level(name)
            assert hasattr(importlib.import_module(f"stageguard.{module}"), attribute)


def public_hints() -> Iterator[tuple[str, object]]:
    """Yield every public class and function, and the public methods of the classes, by name."""
    for package in (stageguard, stageguard.nn):
        for name in package.__all__:
            thing = getattr(package, name)
            yield name, thing
            for attribute, value in vars(thing).items() if inspect.isclass(thing) else ():
                method = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
                is_constructor = attribute == "__init__" and not dataclasses.is_dataclass(thing)
                if inspect.isfunction(method) and (is_constructor or attribute[0] != "_"):
                    yield f"{name}.{attribute}", method


# Hints that name what is imported only when it is used, since it needs torch.
HEAVY_HINTS = {"stage", "TrainedModel", "load_model"}


def test_type_hints_of_every_public_name_resolve():
    unresolved = set()
    for name, thing in public_hints():
        if inspect.isclass(thing) or inspect.isfunction(thing):
            try:
                typing.get_type_hints(thing)
            except NameError:
                unresolved.add(name)
    assert unresolved <= HEAVY_HINTS


VERSION = "from stageguard.version import __version__ as __version__"


@pytest.mark.parametrize(("package", "more"), [(stageguard, [VERSION]), (stageguard.nn, [])])
def test_type_checkers_see_the_public_names(package, more):
    lines = [
        f"from stageguard.{module} import {name} as {name}"
        for module, names in package.PUBLIC.items()
        for name in names.split()
    ]
    stub = Path(package.__file__).with_suffix(".pyi").read_text("utf-8").splitlines()
    assert sorted(line for line in stub if line.startswith("from")) == sorted([*more, *lines])


def third_party_after(code: str) -> set[str]:
    """Installed packages, numpy and ours included, that some code loads in a fresh interpreter."""
    script = f"import json, sys\nold = set(sys.modules)\n{code}\nprint(json.dumps([*set(sys.modules) - old]))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(run.stdout)}
    own = ("__", "_sysconfigdata")  # of Python itself, too, though not in its list
    return {name for name in loaded if name not in sys.stdlib_module_names and not name.startswith(own)}


def test_decoding_a_night_enters_few_functions():
    """On a night that is smoothed, with the clock; NumPy's own functions and generated ones do not count."""
    night = stageguard.simulate_night("human-psg-5", seed=0).density.probabilities.copy()
    assert stageguard.decode(night, "human-psg-5").strength.step == "lowered"  # and everything is loaded
    entered = set()

    def note(frame, event, _):
        if event == "call" and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
            entered.add(frame.f_code)

    sys.setprofile(note)
    stageguard.decode(night, "human-psg-5")
    sys.setprofile(None)
    assert len(entered) <= 40
    assert len({code.co_filename for code in entered}) <= 9


def test_import_loads_numpy_and_nothing_heavier():
    assert third_party_after("import stageguard") <= {"stageguard", "numpy"}


def test_every_public_name_needs_numpy_only():
    """But for SemiMarkovDecoder, which is an estimator of scikit-learn where that is installed."""
    names = [name for name in stageguard.__all__ if name != "SemiMarkovDecoder"]
    loaded = third_party_after(f"import stageguard\nfor name in {names}: getattr(stageguard, name)")
    assert loaded == {"stageguard", "numpy"}


def test_an_import_of_the_command_line_needs_no_library():
    assert third_party_after("import stageguard.cli") == {"stageguard"}
    assert "edfio" in third_party_after("import edfio")  # one would be noticed


def test_stagers_are_named_without_loading_their_packages(tmp_path):
    (tmp_path / "s2.ch1.txt").touch()
    (tmp_path / "any.mod").touch()
    names = ["yasa", "sleepecg", f"luna-pops:{tmp_path.as_posix()}"]
    code = (
        "import stageguard.cli.commands.stage\nfrom stageguard.staging import stager_of\n"
        f"for name in {names}: stager_of(name)"
    )
    heavy = {"yasa", "mne", "sleepecg", "keras", "torch", "lunapi", "scipy", "pandas", "sklearn"}
    assert third_party_after(code) & heavy == set()


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
