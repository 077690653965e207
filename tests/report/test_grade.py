"""The words and the page of a grade card."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import pages
import stageguard as sg
from browser import violations
from messages import mentions
from stageguard.measures.grade import Ratio
from stageguard.night.stages import AASM5
from stageguard.report.grade import (
    fact_rows,
    grade_page,
    grade_rows,
    group_words,
    lead_words,
    method_words,
)
from stageguard.report.words import accuracy_words, times


def made_card(n_people=30, n_scorers=5, skill=0.1):
    rng = np.random.default_rng(0)
    nights, experts = [], []
    for _ in range(n_people):
        truth = np.repeat(rng.choice([0, 1, 2, 2, 3, 4], size=26), 8)
        scored = [
            sg.Hypnogram(
                np.where(rng.random(len(truth)) < share, rng.integers(0, 5, len(truth)), truth), AASM5, 30.0
            )
            for share in (skill, *([0.1] * n_scorers))
        ]
        nights.append(scored[0])
        experts.append(scored[1:])
    return sg.grade(experts, nights, stager="<b>X</b> 1.0", cohort="healthy")


@pytest.fixture(scope="module")
def card():
    return made_card()


def test_the_conclusion_counts_every_statistic_once(card):
    verdicts = Counter(grade.verdict for grade in card.values())
    counts = [verdicts[each] for each in ("as an expert", "worse", "not shown")]
    found = re.fullmatch(
        r"(\d+) statistics? expert-level, (\d+) worse, (\d+) inconclusive with 30 people.", lead_words(card)
    )
    assert [*map(int, found.groups())] == counts and sum(counts) == len(card) == len(grade_rows(card))
    assert len(group_words(card)) == sum(map(bool, counts))


def test_each_verdict_has_its_sentence(card):
    grade, shown = card["tst_minutes"], made_card()
    close = replace(grade, key="tst_minutes", verdict="as an expert", people_needed=None)
    # of two readings, the one that says so
    far = replace(grade, key="rem_latency_minutes", verdict="worse", people_needed=None,
                  mean=Ratio(0.93, 0.6, 1.4), typical=Ratio(1.61, 1.2, 2.1))  # fmt: skip
    open_ = replace(grade, key="waso_minutes", verdict="not shown", people_needed=1385)
    object.__setattr__(shown, "grades", {each.key: each for each in (close, far, open_)})
    assert lead_words(shown) == "1 statistic expert-level, 1 worse, 1 inconclusive with 30 people."
    assert group_words(shown) == [
        "Expert-level (error at most 1.25 times an expert's): TST.",
        "Worse than an expert: REM latency (1.61 ×).",
        "Inconclusive with 30 people (about how many are needed): WASO (1,385).",
    ]
    marks = [accuracy_words(shown, key) for key in ("rem_latency_minutes", "tst_minutes", "x")]
    assert marks == ["worse than an expert (1.61 ×)", "expert-level", "not graded"]
    assert accuracy_words(None, "x") == ""


@pytest.mark.parametrize(
    ("value", "text"), [(0.744, ".74"), (1.0, "1.00"), (float("inf"), "∞"), (float("nan"), "–")]
)
def test_ratios_have_no_zero_before_the_point(value, text):
    assert times(value) == text


def test_the_card_says_whose_it_is_and_that_the_consensus_flatters(card):
    facts = dict(fact_rows(card))
    assert {"Stager", "Guard", "Cohort", "Nights", "Experts", "Cohen's κ", "StageGuard"} <= facts.keys()
    assert card.sha256 in facts["StageGuard"]
    assert sg.__version__ in facts["StageGuard"]
    assert mentions(facts["Nights"], 30)
    assert any("flatters" in sentence for sentence in method_words(card))


def test_the_page_is_safe_and_has_every_number(card):
    page = grade_page(card)
    assert "<b>X</b>" not in page
    assert "&lt;b&gt;X&lt;/b&gt; 1.0" in page
    assert not re.search(r"\bnan\b|\binf\b", page)
    for row in grade_rows(card):
        for cell in (row["heading"], row["mean"], row["typical"], row["limits"]):
            assert cell.replace("'", "&#39;") in page


def test_too_few_people_show_nothing_and_the_card_says_how_many_would():
    small = made_card(12)
    assert "No verdict with 12 people" in lead_words(small)
    assert {row["verdict"] for row in grade_rows(small)} == {"inconclusive"}
    needed = [each.people_needed for each in small.values() if each.people_needed is not None]
    assert needed
    assert all(mentions(group_words(small), 12, f"{number:,}") for number in needed)
    pairs = made_card(12, 2)
    assert {row["verdict"] for row in grade_rows(pairs)} == {"no verdict"}
    assert group_words(pairs) == []


@pytest.mark.parametrize(("n_people", "n_scorers"), [(1, 3), (3, 2), (9, 1)])
def test_cards_without_verdicts_are_pages_too(n_people, n_scorers):
    small = made_card(n_people, n_scorers)
    page = grade_page(small)
    assert not re.search(r"\bnan\b|\binf\b", page)
    assert "expert-level" not in pages.read(page).one("tbody").text
    assert {row["limits"] for row in grade_rows(small)} == {"–"}  # of fewer than ten people
    assert page.count("healthy adults") == (n_scorers == 1)  # the source of the table is said once


def test_a_card_prints_on_one_page_and_can_be_read_aloud(card, open_page):
    page = open_page(grade_page(card))
    assert violations(page) == []
    printed = page.pdf(prefer_css_page_size=True)
    assert re.findall(rb"/Type\s*/Pages\b.*?/Count (\d+)", printed, re.DOTALL) == [b"1"]


def test_a_wide_screen_shows_every_column_of_wide_numbers(open_page):
    shown = made_card(3)
    limits = {"bias": -21.7, "bias_low": -26.9, "bias_high": -16.5, "low": -179.0, "high": 131.5}
    wide = {"typical": Ratio(12.55, 11.84, 13.52), "mean": Ratio(11.98, 11.44, 12.71), "people_needed": 1734}
    grades = {
        key: replace(each, n_people=25, **wide, against_consensus=replace(each.against_consensus, **limits))
        for key, each in shown.items()
    }
    object.__setattr__(shown, "grades", grades)
    hidden = "(e => e.scrollWidth - e.clientWidth)(document.querySelector('.scroll'))"
    assert open_page(grade_page(shown)).evaluate(hidden) <= 0
