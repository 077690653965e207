"""The page of claims: numbers of made-up folds, worked out by hand."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from made_up_study import made_up
from stageguard.study.config import read_study, study_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def claims():
    spec = importlib.util.spec_from_file_location("claims", ROOT / "studies" / "claims.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_claim_says_what_was_found_and_where_it_holds(claims):
    results = made_up()
    for record in results.records:
        for row in record["rows"]:
            is_first = record["backbone"] == "accusleep"
            row["fi"] = {"base": 0.2, "paper": 0.08 if is_first else 0.14}.get(row["variant"], 0.1)
    claim = next(c for c in claims.CLAIMS if c.says.startswith("FI falls by 56"))
    assert claims.cell(claim, results, "paper") == "30 to 60; 1 of 2"  # 60 % and 30 %
    assert claims.cell(claim, results, "calibrated") == "50; 0 of 2"


def test_a_gain_is_the_difference_of_means_over_subjects(claims):
    results = made_up()
    rows = [r for record in results.of("usleep") for r in record["rows"]]
    before, after = (np.mean([r["accuracy"] for r in rows if r["variant"] == v]) for v in ("base", "paper"))
    (_, (gain, holds)) = claims.accuracy_kept(results, "paper")
    assert gain == pytest.approx(100 * (after - before))
    assert holds == (after >= before)


def test_the_page_has_every_claim_and_names_the_studies_that_are_missing(claims):
    page = claims.page({"mouse-sim": made_up()})
    kept = [claim for claim in claims.CLAIMS if claims.cell(claim, made_up(), "paper")]
    assert len(kept) > 12
    assert all(f"| {claim.says} |" in page for claim in kept)
    assert "Not run yet: sleep-accel-2, sleep-accel, sleep-edf, cardio-sim, radar-sim." in page
    assert "Subjects tested: mouse-sim 12." in page
    assert "nan" not in page
    assert "UNFINISHED" not in page


def test_the_page_names_studies_that_are_unfinished(claims):
    made = made_up(n_subjects=3)
    part = replace(made, about={**made.about, "n_jobs": 80})
    assert "UNFINISHED: mouse-sim, 12 of 80 jobs done." in claims.page({"mouse-sim": part})


def test_without_results_no_page_is_written(claims, monkeypatch, tmp_path):
    monkeypatch.setattr(claims, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(claims, "PAGE", tmp_path / "claims.md")
    with pytest.raises(SystemExit, match="holds none of the studies sleep-accel-2") as caught:
        claims.main()
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "claims.md").exists()


def test_a_network_that_never_changes_stage_has_no_reduction(claims):
    results = made_up()
    for record in results.records:
        for row in record["rows"]:
            row["fi"] = 0.0
    assert not any(holds for _, holds in claims.fi_reduction(results, "paper"))
    assert claims.page({"still": results})


@pytest.mark.parametrize(
    "folder", sorted((ROOT / "studies" / "results").iterdir()), ids=lambda path: path.name
)
def test_published_results_are_of_the_study_as_it_is_written(folder):
    said = json.loads((folder / "study.json").read_text("utf-8"))
    assert study_of(said["study"]) == read_study(ROOT / "studies" / f"{folder.name}.toml")
