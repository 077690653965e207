"""The page of claims: numbers of made-up folds, worked out by hand, and figures that records must hold."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from made_up_study import made_up, records
from stageguard.study.config import read_study, study_of
from stageguard.study.store import JOB, WAY, by_night, read_rows

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "studies"
BOTH = [("argmax", "base"), ("paper", "penalty")]


@pytest.fixture(scope="module")
def claims():
    spec = importlib.util.spec_from_file_location("claims", STUDIES / "claims.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["claims"] = module  # where dataclasses look for annotations
    spec.loader.exec_module(module)
    yield module
    del sys.modules["claims"]


def real(accuracy: float = 1.0, change=dict):
    """Made-up results as of real nights, on which every network has this accuracy."""

    def row(made):
        made = made | {"accuracy": 0.5 if made["variant"] == "majority class" else accuracy}
        return change(made)

    return made_up(change=row, synthetic=False)


def claim_about(claims, measure):
    return next(claim for claim in claims.CLAIMS if claim.measure is measure)


def test_a_verdict_counts_where_the_claim_holds(claims):
    def fi(row):
        paper = 0.08 if row["backbone"] == "accusleep" else 0.14
        by = {("argmax", "base"): 0.2, ("paper", "penalty"): paper}
        return row | {"fi": by.get((row["variant"], row["loss"]), 0.1)}

    results = real(change=fi)
    claim = claim_about(claims, claims.fi_reduction)
    assert claims.cell(claim, results, claims.PUBLISHED) == "30 to 60; 1 of 2"  # 60 % and 30 %
    assert claims.verdict(claim, [results], claims.PUBLISHED) == "*holds in part*, 1 of 2"
    assert claims.cell(claim, results, claims.FITTED) == "50; 0 of 2"
    assert claims.verdict(claim, [results], claims.FITTED) == "*does not hold here*, 0 of 2"
    closer = claim_about(claims, claims.fi_of_experts)
    assert claims.verdict(closer, [results], claims.FITTED) == "*holds*, 2 of 2"


def test_networks_below_the_most_frequent_stage_and_simulated_nights_have_no_say(claims):
    claim = claim_about(claims, claims.accuracy_kept)
    assert claims.verdict(claim, [real()], claims.PUBLISHED) == "*holds*, 2 of 2"
    assert claims.verdict(claim, [real(accuracy=0.4)], claims.PUBLISHED) == "*cannot be tested here*"
    simulated = replace(real(), about=made_up().about)
    assert claims.cell(claim, simulated, claims.PUBLISHED).endswith("2 of 2")
    assert claims.verdict(claim, [simulated], claims.PUBLISHED) == "*cannot be tested here*"
    page = claims.page({"weak": real(accuracy=0.4), "mouse-sim": simulated})
    assert "~~usleep" in page
    assert "mouse-sim (simulated)" in page


def test_a_gain_is_the_difference_of_means_over_subjects(claims):
    def higher(row):  # so that everybody has a say
        return row | {"accuracy": row["accuracy"] + (row["variant"] != "majority class")}

    results = made_up(change=higher)
    rows = [row for row in results.main("usleep").to_pylist() if not row["change"]]
    of = {(v, n): [r["accuracy"] for r in rows if (r["variant"], r["loss"]) == (v, n)] for v, n in BOTH}
    before, after = (np.mean(of[each]) for each in BOTH)
    (_, (gain, holds)) = claims.accuracy_kept(results, claims.Way("paper", "penalty"))
    assert gain == pytest.approx(100 * (after - before))
    assert holds == (after >= before)


def test_the_page_has_every_claim_and_names_the_studies_that_are_missing(claims):
    page = claims.page({"sleep-edf": real(), "mouse-sim": made_up(3, n_jobs=80)})
    assert "UNFINISHED: mouse-sim, 12 of 80 jobs done." in page
    for claim, (number, text) in zip(claims.CLAIMS, claims.reasons({"sleep-edf": real()}), strict=True):
        assert f"| {number} | {claim.says} |" in page
        assert f"\n{number}. {text}\n" in page
    missing = [name for name in claims.NAMES if name not in ("sleep-edf", "mouse-sim")]
    assert f"Not run yet: {', '.join(missing)}." in page
    assert "| sleep-edf | 12 / 24 |" in page
    assert "nan" not in page and page.count("UNFINISHED") == 1


def test_error_ratio_is_the_geometric_mean_over_statistics(claims):
    truth = dict.fromkeys(("tst_minutes", "waso_minutes", "nrem_bout_minutes", "rem_latency_minutes"), 50.0)

    def with_error(row):
        size = {"argmax": 4.0, "paper": 2.0}.get(row["variant"], 0.0)
        own = {"tst_minutes": 50 + size, "waso_minutes": 50 + size, "nrem_bout_minutes": 50 + size**2}
        return row | dict.fromkeys(("se_percent", "awakenings")) | truth | own

    results = made_up(change=with_error)
    found = claims.error_ratio(results.of("usleep", "argmax"), results.of("usleep", "paper"))
    assert found == pytest.approx((1 / 2 * 1 / 2 * 1 / 4) ** (1 / 3))


def test_a_network_that_is_the_same_in_two_studies_is_counted_once(claims):
    before, after = (claims.read_results(STUDIES / "results" / name) for name in claims.REAL[:2])
    first, second = (by_night(each.of("seqsleepnet", "paper"), "kappa") for each in (before, after))
    assert first and first == second
    assert "seqsleepnet" in claims.networks(before)
    assert claims.networks(after) == ["usleep", "accusleep"]


def test_every_study_is_published_as_it_is_written():
    written = {path.stem for path in STUDIES.glob("*.toml")}
    published = {path.name: path for path in (STUDIES / "results").iterdir()}
    assert published.keys() <= written
    for name, folder in published.items():
        about = json.loads((folder / "results.json").read_text("utf-8"))
        assert study_of(about["study"]) == read_study(STUDIES / f"{name}.toml"), name


def test_published_results_hold_no_epochs():
    """No features, probabilities or stages of single epochs: rows are of nights and variants."""
    for folder in (STUDIES / "results").iterdir():
        assert {path.name for path in folder.rglob("*")} == {"results.json", "results.parquet"}
        rows = read_rows(folder)
        keys = {tuple(row.values()) for row in rows.select([*JOB, *WAY, "recording"]).to_pylist()}
        assert len(keys) == len(rows)


def test_the_table_of_claims_is_that_of_the_records(claims, monkeypatch, tmp_path):
    written = (ROOT / "docs" / "fidelity.md").read_text("utf-8")
    (tmp_path / "fidelity.md").write_text(re.sub(r"(?<=<!-- claims -->\n)(\|.*\n)+", "", written), "utf-8")
    monkeypatch.setattr(claims, "PAGE", tmp_path / "fidelity.md")
    monkeypatch.setattr(claims, "ACROSS", tmp_path / "across")
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    claims.main()
    assert (tmp_path / "fidelity.md").read_text("utf-8") == written
    assert (tmp_path / "across" / "claims.md").exists()
    assert {path.suffix for path in (tmp_path / "across").iterdir()} == {".md", ".csv"}


def test_figures_of_fidelity_are_those_of_the_records(claims):
    fidelity = _text(ROOT / "docs" / "fidelity.md")
    cohorts = json.loads((STUDIES / "expert-scorings" / "results.json").read_text("utf-8"))["cohorts"]
    adults = [cohort["counts"]["wnr3"] for name, cohort in cohorts.items() if name != "mouse"]
    assert len(adults) == 5
    exits = _span([counts["exits_percent"][2][1] for counts in adults])  # from R to N
    wake, nrem, rem = ([counts["shorter_percent"]["2"][stage] for counts in adults] for stage in range(3))
    assert f"It ends {exits} % of REM bouts (five cohorts)" in fidelity
    *usual, apnoea = sorted(rem)
    assert (
        f"score {_span(wake)} % of wake bouts, {_span(nrem)} % of NREM bouts and {_span(usual)} % of REM "
        f"bouts ({apnoea:.0f} % in slpdb, with apnoea)"
    ) in fidelity
    assert cohorts["slpdb"]["counts"]["wnr3"]["shorter_percent"]["2"][2] == apnoea


def test_figures_of_the_released_code_are_those_of_the_records():
    fidelity = _text(ROOT / "docs" / "fidelity.md")
    measured = json.loads((STUDIES / "released-code" / "results.json").read_text("utf-8"))
    plain, noisy, flip_flop = (
        measured[key] for key in ("as they are", "with noise", "with noise and flip-flop")
    )
    assert (
        f"equal on {noisy['equal_nights']} of {noisy['nights']} nights without the flip-flop term, and on "
        f"{flip_flop['equal_nights']} with it, where {flip_flop['different_epochs']} of "
        f"{flip_flop['epochs']:,} epochs differ"
    ) in fidelity
    n_different = plain["nights"] - plain["equal_nights"]
    assert f"{plain['different_epochs']} epochs of {n_different} nights differ, by exact ties" in fidelity
    assert max(plain["largest_score_gap"], noisy["largest_score_gap"]) < 1e-9


def test_errors_in_fidelity_are_those_of_the_records(claims):
    fidelity = _text(ROOT / "docs" / "fidelity.md")
    studies = [results for results in claims.read_studies().values() if not results.about["synthetic"]]
    ranges = []
    for guard in (claims.DECODER, claims.RELEASED_RULES, claims.FITTED):
        ratios = [claims.error_ratios(results, guard) for results in studies]
        means = [f"{np.mean(each):.2f}" for each in ratios if each]
        ranges.append(f"{min(means)} to {max(means)}".replace("0.", "."))
    printed, released, fitted = ranges
    assert f"are {printed} of argmax's with the printed rules, {released} with those" in fidelity
    assert f"and {fitted} with fitted profiles, by cohort" in fidelity


def _text(path: Path) -> str:
    """A page with its lines joined."""
    return " ".join(path.read_text("utf-8").split())


def _span(numbers: list[float]) -> str:
    return f"{min(numbers):.0f} to {max(numbers):.0f}"


def test_the_sd_over_seeds_is_that_of_the_means_over_subjects(claims):
    more = [r | {"seed": 43, "accuracy": 0.9} for r in records() if r["backbone"] == "accusleep"]
    results = made_up(change=lambda row: row | {"accuracy": 1.0}, more=more)
    for way in (claims.Way("paper", "penalty"), claims.Way("calibrated")):
        ((sd, holds),) = claims.seeds(results, way)
        assert sd == pytest.approx(100 * np.std([1.0, 0.9], ddof=1))
        assert not holds
