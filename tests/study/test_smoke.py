"""Shipped studies in their small version, from the command to the last table and figure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli_runner import Runner
from stageguard.study.figures import FORMATS
from stageguard.study.store import read_results
from stageguard.study.tables import TABLES

STUDIES = Path(__file__).parents[2] / "studies"
needs_data = pytest.mark.skipif("STAGEGUARD_DATA" not in os.environ, reason="needs STAGEGUARD_DATA")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            path.stem,
            marks=[
                *([] if path.stem.endswith("-sim") else [needs_data]),
                *([] if path.stem == "sleep-accel-2" else [pytest.mark.slow]),
            ],
        )
        for path in sorted(STUDIES.glob("*.toml"))
    ],
)
def test_a_study_ends_with_all_tables_and_figures(name, capsys, tmp_path):
    folder = tmp_path / "out"
    ran = Runner(capsys)("study", "run", STUDIES / f"{name}.toml", "--smoke", "--output", folder)
    assert ran.code == 0, ran.err
    results = read_results(folder)
    assert not results.about["failures"]
    assert results.about["synthetic"] == name.endswith("-sim")
    tables = {path.name for path in (folder / "tables").iterdir()}
    assert tables == {f"{table}.{form}" for table in TABLES for form in FORMATS}
    assert {path.name for path in (folder / "figures").iterdir()} == {
        "effect.png",
        "effect.pdf",
        "effect.svg",
    }
