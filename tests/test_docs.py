"""The documents tell the truth: links lead somewhere, named code and tests exist."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
import tomllib
from pathlib import Path

import pytest

import stageguard as sg
from stageguard.profile.profile import Profile

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL
    )


def test_the_documents_are_short():
    pages = sorted((ROOT / "docs").rglob("*.md"))
    assert len(pages) <= 20
    assert sum(len(page.read_text("utf-8").split()) for page in pages) <= 23_000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_repository_lead_somewhere(page):
    """But for those into the reference, which the site's strict build makes and checks."""
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8"))
    local = [link for link in links if not link.startswith(("https://", "mailto:", "reference/"))]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_the_example_profile_is_valid_and_round_trips():
    (text,) = blocks("docs/profiles.md", "toml")
    profile = sg.Profile.from_dict(tomllib.loads(text))
    assert profile.name == "my-lab-3"
    assert sg.Profile.from_dict(profile.to_dict()) == profile


def test_the_page_of_profiles_explains_every_key():
    text = (ROOT / "docs" / "profiles.md").read_text("utf-8")
    keys = {each.name for each in dataclasses.fields(Profile) if each.init}
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == keys | {"stages", "wake", "rem"}


def test_fidelity_names_code_and_tests_that_exist():
    text = (ROOT / "docs" / "fidelity.md").read_text("utf-8")
    tests = re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", text)
    code = re.findall(r"`((?:[a-z_]+\.)+[A-Za-z_]+)`", text)
    code = [name for name in code if not name.endswith(".py")]
    assert len(tests) > 10
    assert len(code) > 10
    for file, function in tests:
        trees = [ast.parse(path.read_text("utf-8")) for path in (ROOT / "tests").rglob(file)]
        assert trees, f"there is no {file}"
        names = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert not function or function in names, f"{file} has no {function}"
    for name in code:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(f"stageguard.{module}"), attribute), name


def test_architecture_fits_a_page_and_names_files_that_exist():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    assert len(text.split()) <= 700
    named = set(re.findall(r"`([\w/]+/\w*\.(?:py|toml)|[\w/]+/\w+(?=`))", text))
    assert len(named) > 20
    places = (ROOT, ROOT / "src" / "stageguard")
    lost = [name for name in named if not any((p / n).exists() for p in places for n in (name, f"{name}.py"))]
    assert lost == []


FILES = [
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("docs/**/*.ipynb"),
    *ROOT.glob("examples/*.py"),
    ROOT / "README.md",
]


def test_every_public_name_is_used_in_a_page_or_an_example():
    said = "".join(file.read_text("utf-8") for file in FILES)
    used = {*re.findall(r"\bsg\.(\w+)", said), *re.findall(r"`([A-Z]\w+)", said)}  # types may be named alone
    assert set(sg.__all__) - used == set()
    assert len(sg.__all__) <= 60
