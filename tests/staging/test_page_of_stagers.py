"""The page of stagers lists what the tables of stagers say, and its example works as an installed package."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

import stageguard as sg
from stageguard.profile.stagers import KNOWN_STAGERS, KnownStager
from stageguard.staging import BUILT_IN, WITH_FOLDER, Stager, stager_of

PAGE = (Path(__file__).parents[2] / "docs" / "stagers.md").read_text("utf-8")


@pytest.fixture
def built_in(tmp_path) -> dict[str, Stager]:
    """Return every stager of the package; the one with a folder of models has one that is never run."""
    (tmp_path / "s2.ch1.txt").write_text("")
    (tmp_path / "any.mod").write_text("")
    return {name: stager_of(f"{name}:{tmp_path}" if name in WITH_FOLDER else name) for name in BUILT_IN}


def row_of(known: KnownStager, stager: Stager | None) -> str:
    stages = f"{' '.join(sg.StageScheme.named(known.scheme).names)}, {known.epoch_seconds:g} s"
    needs, extra = "runs elsewhere", ""
    if stager is not None:
        roles = [" or ".join(group) for group in stager.roles]
        needs = f"{', '.join(roles)}, {stager.least_hz:g} Hz or more"
        if stager.optional:
            needs += f"; {' and '.join(stager.optional)} if recorded"
        if stager.asks:
            needs += f"; {', '.join(stager.asks)}"
        extra = f"`stageguard[{stager.extra}]`"
    files = ", ".join(f"`{name}`" for name in known.formats)
    cells = (
        f"`{known.name}`",
        stages,
        needs,
        extra,
        known.trained or "not known",
        f"`{known.profile}`",
        files,
    )
    return f"| {' | '.join(cells)} |"


def test_the_table_has_every_stager_as_it_is(built_in):
    rows = re.findall(r"^\| `.*\|$", PAGE, re.MULTILINE)
    assert rows == [row_of(known, built_in.get(name)) for name, known in KNOWN_STAGERS.items()]


def test_the_page_says_where_it_is_known_from_how_each_was_trained():
    listed = re.findall(r"^- `([\w-]+)`: (.*)$", PAGE, re.MULTILINE)
    assert listed == [(known.name, known.trained_source) for known in KNOWN_STAGERS.values()]


@pytest.mark.filterwarnings("ignore")
def test_the_example_is_a_stager_of_an_installed_package(tmp_path, monkeypatch, psg):
    (project,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (code,) = (
        text
        for text in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        if "def " in text
    )
    about = tomllib.loads(project)["project"]
    ((group, names),) = about["entry-points"].items()
    ((name, place),) = names.items()
    installed = tmp_path / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Name: {about['name']}\nVersion: {about['version']}\n")
    (installed / "entry_points.txt").write_text(f"[{group}]\n{name} = {place}\n")
    module = place.partition(":")[0]
    (tmp_path / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    assert name in sg.stagers()
    staged = sg.stage(psg, name)
    assert staged.density.n_epochs == 180
    assert f"{name} {about['version']}" in staged.notes[0]
    sys.modules.pop(module)
