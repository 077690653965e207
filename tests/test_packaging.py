"""What a release rests on: metadata, the release script, workflows that parse, and the citation."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = DOCUMENT["project"]
CONSTRAINTS = (ROOT / "constraints.txt").read_text("utf-8")
ADDRESS = "https://example.org/stageguard"


def script(name: str) -> ModuleType:
    """A script of .ci as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_targets() -> set[str]:
    """Every target of the Makefile that is not a file."""
    lines = re.findall(r"^([a-z-]+(?: [a-z-]+)*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    return {name for names in lines for name in names.split()}


def test_a_released_readme_has_no_relative_link():
    page = script("release").absolute((ROOT / "README.md").read_text("utf-8"), ADDRESS, "v1.2.3")
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", page)
    assert len(links) > 10
    assert [target for _, target in links if not target.startswith("https://")] == []
    pictures = [target for mark, target in links if mark]
    assert pictures and all(target.startswith(f"{ADDRESS}/raw/v1.2.3/") for target in pictures)
    assert f"]({ADDRESS}/blob/v1.2.3/CHANGELOG.md)" in page


def test_a_release_names_its_repository():
    text = script("release").with_addresses((ROOT / "pyproject.toml").read_text("utf-8"), ADDRESS, "v1.2.3")
    urls = tomllib.loads(text)["project"]["urls"]
    assert urls["Repository"] == ADDRESS
    assert {"Changelog", "Documentation", "Issues", "Paper"} <= urls.keys()


@pytest.mark.parametrize(
    ("tag", "changelog", "words"),
    [
        ("1.2.3", "## [1.2.3] - 2027-01-31\n", "the tag is '1.2.3', expected 'v1.2.3'"),
        ("v1.2.4", "## [1.2.3] - 2027-01-31\n", "expected 'v1.2.3'"),
        ("v1.2.3", "## [1.2.3]\n", "has no section '## [1.2.3] - YYYY-MM-DD'"),
        ("v1.2.3", "## [1.2.30] - 2027-01-31\n", "has no section"),
    ],
)
def test_a_tag_that_is_not_the_version_is_refused(tag, changelog, words):
    with pytest.raises(SystemExit) as refused:
        script("release").check_tag(tag, "1.2.3", changelog)
    assert words in str(refused.value)
    script("release").check_tag("v1.2.3", "1.2.3", "## [Unreleased]\n\n## [1.2.3] - 2027-01-31\n")


def test_the_oldest_versions_are_those_of_pyproject():
    run = subprocess.run(
        [sys.executable, ROOT / ".ci" / "minimum.py"], capture_output=True, text=True, check=True
    )
    oldest = run.stdout.split()
    assert {need.replace(">=", "==") for need in PROJECT["dependencies"]} <= set(oldest)
    assert len({line.partition("==")[0] for line in oldest}) == len(oldest)


def test_libraries_are_ranges_and_pinned_by_constraints_alone():
    needs = [*PROJECT["dependencies"], *(n for e in PROJECT["optional-dependencies"].values() for n in e)]
    exact = [need for need in needs if re.search(r"==\d[\d.]*$", need)]
    assert exact == []
    assert "torch>=2.4" in PROJECT["optional-dependencies"]["torch"]


def test_every_supported_python_is_named_and_tested():
    named = {
        line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: Python :: 3\.\d+$", line)
    }
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    assert set(matrix["python"]) == named
    assert PROJECT["requires-python"] == f">={min(named)}"
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda p: p.name)
def test_workflows_are_well_formed(path):
    """Steps do one thing each, jobs that are waited for exist, and make has every target that is called."""
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load(path.read_text("utf-8"))
    on = True  # as YAML reads the word
    assert set(workflow) - {"concurrency", "env"} == {"name", on, "permissions", "jobs"}
    for job in workflow["jobs"].values():
        assert set(job.get("needs", [])) <= workflow["jobs"].keys()
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[\w./-]+", step.get("uses", "a/b@c"))
            if called := re.match(r"make .*?([a-z-]+)$", step.get("run", "")):
                assert called[1] in make_targets()
            for file in re.findall(r"\.ci/\w+(?:\.py)?", step.get("run", "")):
                assert (ROOT / file).exists()


def test_the_citation_has_what_its_format_asks_for():
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert cited["cff-version"] == "1.2.0" and cited["type"] in ("software", "dataset")
    assert cited["keywords"] == PROJECT["keywords"]
    assert (cited["version"], cited["license"]) == (PROJECT["version"], PROJECT["license"])
    assert cited["abstract"]
    paper = cited["preferred-citation"]
    assert {"type", "title", "authors"} <= paper.keys()
    assert all({"given-names", "family-names"} <= author.keys() for author in paper["authors"])
    assert re.fullmatch(r"10\.\d{4,}/\S+", paper["doi"])


def test_the_conda_recipe_needs_what_the_package_needs():
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text("utf-8"))
    needs = recipe["requirements"]
    assert recipe["context"]["version"] == PROJECT["version"]
    assert {need.replace(" ", "") for need in needs["run"]} == {*PROJECT["dependencies"], "python"}
    host = {need.replace(" ", "") for need in needs["host"]}
    assert host == {*DOCUMENT["build-system"]["requires"], "pip", "python"}
    assert recipe["about"]["summary"] == PROJECT["description"]
    (name, target), *others = PROJECT["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [f"{name} = {target}"] and not others
