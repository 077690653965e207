"""The page of a cohort: its rows hold what `stats` measures, worst first, and no name is markup."""

from __future__ import annotations

import json
import re
from functools import cache

import numpy as np
import pytest

import pages
import stageguard as sg
from messages import naming
from nights import decode
from report_samples import profile_with
from stageguard.errors import InputError
from stageguard.measures.cohort import CohortNight, measure, measure_night
from stageguard.report.cohort import cohort_row, spark_code
from stageguard.report.svg import ValueAxis

PROFILE = "human-psg-5"
HOSTILE = "</script><img src=x onerror=alert(1)>&\"'\u202e"


@cache
def simulated():
    return {f"n{k}": sg.simulate_night(PROFILE, hours=3.5, seed=k) for k in range(4)}


@cache
def decoded():
    return {name: decode(night.density, PROFILE) for name, night in simulated().items()}


@cache
def experts():
    return {name: night.expert for name, night in simulated().items()}


@cache
def full():
    groups = {"n0": "a", "n1": "a", "n2": "b", "n3": "b"}
    links = {"n1": "./n1.html"}
    return sg.cohort_report(decoded(), experts=experts(), groups=groups, links=links, title="Four nights")


def data_of(page):
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found)


def test_rows_hold_what_stats_measures():
    data = data_of(full())
    keys = [key for key, *_ in data["columns"]]
    assert {"joint_score", "fragmentation_index", "tst_minutes", "kappa"} <= set(keys)
    for row, name in enumerate(data["ids"]):
        night = decoded()[name]
        scorings = {
            "before": sg.Hypnogram(night.argmax, night.hypnogram.scheme, 30.0),
            "after": night.hypnogram,
        }
        for scoring, stages in scorings.items():
            measured = {**measure(stages, night.profile, period=night.period).values}
            measured["kappa"] = sg.agreement(experts()[name], stages).kappa
            for place, (key, _, decimals) in enumerate(data["columns"]):
                found = data["values"][scoring][place][row]
                assert found == pytest.approx(measured[key], abs=0.51 * 10 ** -(decimals + 2))
        valid = sg.validity(night)
        assert len(data["outside"][row]) / 3 == len(valid.outside)
        assert data["alike"][row] == int(valid.looks_like_experts)
        assert data["judged"][row] == sum(one.place != "no band" for one in valid.indicators.values())
        changed = 100 * np.count_nonzero(night.changed) / np.count_nonzero(night.argmax >= 0)
        assert data["changed"][row] == pytest.approx(changed, abs=0.001)


def test_the_night_farthest_from_experts_comes_first():
    data = data_of(full())
    place = [key for key, *_ in data["columns"]].index("joint_score")
    scores = data["values"]["after"][place]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 4


def test_a_night_that_cannot_be_judged_comes_last_and_says_why():
    short = decode(simulated()["n0"].density.probabilities[:100], PROFILE)
    data = data_of(sg.cohort_report({"short": short, **decoded()}))
    assert data["ids"][-1] == "short"
    assert data["alike"][-1] == -1
    (remark,) = (data["texts"][number] for number in data["remarks"][-1] if "judged" in data["texts"][number])
    assert remark.startswith("cannot be judged: 0.7 h are scored, expected 2 h or more")
    assert "No night has it" in sg.cohort_report({"short": short})  # of the joint score


def test_the_page_has_every_part():
    page = pages.read(full())
    headings = [node.text for node in page.all("h2")]
    parts = ["Nights", "Indicators against their expert bands", "Sleep statistics against the experts'"]
    assert headings == [*parts, "Differences between groups", "Notes", "Methods text"]
    titles = [node.text for node in page.all("title")]
    assert "Fragmentation index (FI)" in titles
    head, rows = pages.table(page, "Sleep statistics against the experts'")
    assert head[1:4] == ["Bias (95 %), stager", "Limits of agreement, stager", "n"]
    tst = next(row for row in rows if row[0] == "TST (min)")
    both = decoded().values(), experts().values()
    minutes = [[sg.sleep_statistics(night).tst_minutes for night in nights] for nights in both]
    assert float(tst[4].split()[0].replace("−", "-")) == pytest.approx(np.subtract(*minutes).mean(), abs=0.06)
    assert (tst[2], tst[3]) == ("–", "4")  # no limits of agreement with fewer than ten nights
    policy = next(node.attributes["content"] for node in page.all("meta") if "http-equiv" in node.attributes)
    assert "unsafe" not in policy
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", full())
    assert " style=" not in full()  # the policy would not let it through


def test_the_same_nights_give_the_same_page_in_any_order():
    turned = dict(reversed(decoded().items()))
    assert sg.cohort_report(turned) == sg.cohort_report(iter(decoded().items()))


def test_a_forest_has_the_differences_of_stats():
    head, rows = pages.table(pages.read(full()), "a (n = 2) minus b (n = 2)")
    assert head[:4] == ["Measure", "a", "b", "Difference"]
    by_name = {row[0]: row for row in rows}
    values = {name: sg.sleep_statistics(night.hypnogram).tst_minutes for name, night in decoded().items()}
    means = [np.mean([values["n0"], values["n1"]]), np.mean([values["n2"], values["n3"]])]
    row = by_name["TST (min)"]
    assert [float(cell.replace(",", "")) for cell in row[1:3]] == pytest.approx(means, abs=0.06)


def test_names_are_text_and_nothing_else():
    names = {HOSTILE: decoded()["n0"], "n1": decoded()["n1"]}
    page = sg.cohort_report(names, groups={HOSTILE: "<b>", "n1": "</table>"}, title="<i>")
    pages.read(page)
    assert page.count("<script") == 2
    assert "<img" not in page
    assert "<i>" not in page
    assert "\u202e" not in page
    assert HOSTILE.replace("\u202e", " ") in data_of(page)["ids"]


def test_stages_of_any_name_are_text():
    nights = {}
    for stages in (["<b>wake</b>", "'\"&<", "deep"], ["wake", "light", "deep"]):
        result = decode(np.full((600, 3), 1 / 3), profile_with("own", stages))
        nights[stages[1]] = pages.read(sg.cohort_report({"n": result}))
    hostile, tame = nights.values()
    ids = [node.attributes["id"] for node in hostile.all() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    assert [[*node.attributes] for node in hostile.all()] == [[*node.attributes] for node in tame.all()]


def test_a_bad_night_is_a_row_among_the_failures():
    nights = [*decoded().items(), ("n1", decoded()["n2"]), ("short", decoded()["n2"])]
    wrong = {"short": sg.Hypnogram([0, 1, 2], "aasm5", 30.0)}
    page = sg.cohort_report(nights, experts=wrong)
    head, rows = pages.table(pages.read(page), "Failures")
    assert head == ["Night", "What happened", "File"]
    assert [row[0] for row in rows] == ["n1", "short"]
    assert "two nights are named 'n1'" in rows[0][1]
    assert len(data_of(page)["ids"]) == 4


def test_without_a_night_there_is_no_page():
    with pytest.raises(InputError, match=naming("could be measured", "least")):
        sg.cohort_report({})
    with pytest.raises(InputError, match="The first: "):
        sg.cohort_report({"n": 3})


def test_nights_of_other_stages_have_bands_of_their_own():
    mouse = decode(sg.simulate_night("mouse-eeg-emg-3", hours=3, seed=1).density, "mouse-eeg-emg-3")
    bare = sg.Hypnogram([0, 1, 2, 3, 4] * 100, "aasm5", 30.0)
    page = sg.cohort_report({"mouse": mouse, "bare": bare, **decoded()})
    data = data_of(page)
    assert [scale["profile"] for scale in data["scales"]].count("") == 1
    headings = [node.text for node in pages.read(page).all("h3")]
    assert headings[:2] == [
        "human-psg-5, epochs of 30 s: 4 nights",
        "mouse-eeg-emg-3, epochs of 4 s: 1 night",
    ]


def test_a_hypnogram_in_few_letters():
    scheme = sg.StageScheme.named("aasm5")  # W, N1, N2, N3, R
    night = sg.Hypnogram([0] * 4 + [4] * 4 + [3] * 2 + [-1] * 2, scheme, 30.0)
    assert spark_code(night) == "a4b4e2-2"
    assert spark_code(night, 3) == "a1b1e1"
    assert spark_code(sg.Hypnogram([2], scheme, 30.0)) == "d1"


def test_ticks_are_round_and_on_the_axis():
    assert ValueAxis(0.0, 1.03, 0, 100).ticks() == (pytest.approx([0.0, 0.5, 1.0]), 1)
    assert ValueAxis(-12.0, 55.0, 0, 100).ticks() == (pytest.approx([0.0, 20.0, 40.0]), 0)
    values, decimals = ValueAxis(0.0, 0.1, 0, 100).ticks()
    assert [f"{value:.{decimals}f}" for value in values] == ["0.000", "0.025", "0.050", "0.075", "0.100"]


def test_a_row_keeps_early_rem_as_a_remark():
    night = sg.Hypnogram([0] * 10 + [2] * 4 + [4] * 4 + [2] * 400, "aasm5", 30.0)
    scorings = CohortNight("n", after=night)
    row = cohort_row(scorings, measure_night(scorings))
    assert row.remarks == ("early: REM 2 min after sleep onset, an error or a finding: look at it",)
    assert row.all_remarks[0] == "cannot be judged: no profile is recorded with it"
