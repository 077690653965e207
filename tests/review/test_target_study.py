"""The pages show what the study of targets found."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

STUDY = Path(__file__).parents[2] / "studies" / "review-targets"


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("review_target_tables", STUDY / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results():
    return json.loads((STUDY / "results.json").read_text("utf-8"))


def test_p_is_that_of_scipy_without_ties(tables):
    from scipy.stats import wilcoxon

    one = np.array([0.3, -1.2, 2.5, 0.9, 4.1, -0.2, 3.3, 1.7])
    assert tables.p_value(one, np.zeros(8)) == pytest.approx(wilcoxon(one, method="exact").pvalue)
    assert tables.p_value(one, one) == 1.0


def test_the_table_of_the_docs_is_what_the_results_give(tables, results):
    (shown,) = tables.IN_DOCS.finditer(tables.DOCS.read_text("utf-8"))
    assert shown[0] == f"{tables.docs_table(results)}\n"


def test_looks_by_value_are_better_than_the_queue_and_lowest_confidence(tables, results):
    """What the page claims of all numbers together, after 20 and 40 looks."""
    for stager, nights in results.items():
        by_value = tables.combined(nights, "value").mean(axis=0)[2:]
        for other in ("queue", "confidence"):
            assert (by_value < tables.combined(nights, other).mean(axis=0)[2:]).all(), (stager, other)
