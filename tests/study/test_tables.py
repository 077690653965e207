"""Tables of made-up folds against scipy, scikit-learn and what can be worked out by hand."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from made_up_study import made_up
from stageguard.measures.paired import Estimate, estimate, paired
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import WNR3
from stageguard.study.measuring import kappa_between, measure
from stageguard.study.rendering import Table
from stageguard.study.robustness import TABLES
from stageguard.study.statistics import bland_altman, bootstrap_interval
from stageguard.study.store import values
from stageguard.study.tables import all_records, errors_of, groups_of, main_table, subgroup_table


def column_of(results, backbone, variant, metric):
    """A metric by subject, straight from the rows."""
    rows = [r for rec in results.records if rec["backbone"] == backbone for r in rec["rows"]]
    subjects = sorted({r["subject"] for r in rows})
    return np.array(
        [np.mean([r[metric] for r in rows if (r["subject"], r["variant"]) == (s, variant)]) for s in subjects]
    )


def test_main_table_has_scipys_p_corrected_over_networks_and_guards():
    results = made_up()
    rows = {(row[0], row[1]): row for row in main_table(results).rows}
    cell = rows["", "published method"][5]  # of the last network, which overwrote the first's
    before, after = (column_of(results, "usleep", v, "kappa") for v in ("base", "paper"))
    assert isinstance(cell, Estimate)
    assert cell.mean == pytest.approx(after.mean())
    assert cell.sd == pytest.approx(after.std(ddof=1))
    assert cell.p == pytest.approx(
        min(1.0, 4 * stats.wilcoxon(before, after).pvalue)
    )  # 2 networks x 2 guards


def test_rank_biserial_is_one_where_every_subject_gains_and_known_by_hand_else():
    reference = {str(k): 0.0 for k in range(5)}
    assert paired(reference, {str(k): 1.0 + k for k in range(5)}).effect == 1.0
    found = paired(reference, dict(zip("01234", (1.0, -2.0, 3.0, 4.0, 0.0), strict=True)))
    assert found.effect == pytest.approx((1 - 2 + 3 + 4) / 10)  # ranks of |d|, the 0 dropped
    assert paired(reference, reference).p == 1.0


def test_stars_follow_the_corrected_p():
    reference = {str(k): 0.0 for k in range(8)}
    gains = {str(k): 1.0 + k for k in range(8)}
    assert paired(reference, gains).p == pytest.approx(2 / 2**8)  # exact, by enumeration of all signs
    assert [paired(reference, gains, n).stars for n in (1, 6, 7)] == ["**", "*", ""]


def test_errors_are_against_the_same_recording():
    results = made_up()
    records = all_records(results, "usleep")
    rows = {(r["recording"], r["variant"]): r for rec in records for r in rec["rows"]}
    wanted = np.mean(
        [
            abs(rows[f"s03-{n}", "paper"]["tst_minutes"] - rows[f"s03-{n}", "expert"]["tst_minutes"])
            for n in (1, 2)
        ]
    )
    assert errors_of(records, "paper", "tst_minutes")["s03"] == pytest.approx(wanted)
    assert errors_of(records, "paper", "rem_bout_minutes") == {}


def test_bland_altman_and_resampling():
    bias, low, high = bland_altman([1.0, 3.0])
    assert (bias, high - low) == (2.0, pytest.approx(2 * 1.96 * np.sqrt(2)))
    numbers = np.random.default_rng(1).normal(size=40).tolist()
    found = bootstrap_interval(numbers)
    wanted = stats.bootstrap((numbers,), np.mean, method="percentile", random_state=0).confidence_interval
    assert found == pytest.approx((wanted.low, wanted.high), abs=0.05)


def test_subgroups_are_second_less_first_with_welchs_interval():
    results = made_up()
    row = next(r for r in subgroup_table(results).rows if r[:3] == ("sex: M less F", "TST (min)", "expert"))
    of_subject = values(all_records(results, "accusleep"), "expert", "tst_minutes")
    groups = groups_of(results, "sex")
    f, m = ([v for s, v in of_subject.items() if groups[s] == sex] for sex in "FM")
    wanted = stats.ttest_ind(m, f, equal_var=False)
    interval = wanted.confidence_interval(0.95)
    assert row[3:6] == pytest.approx((np.mean(m) - np.mean(f), interval.low, interval.high))
    pooled = np.sqrt((np.var(m, ddof=1) + np.var(f, ddof=1)) / 2)
    assert row[6] == pytest.approx((np.mean(m) - np.mean(f)) / pooled)


def test_numbers_are_split_at_their_median():
    assert sorted(set(groups_of(made_up(), "age").values())) == ["above 35.5", "up to 35.5"]


@pytest.mark.parametrize("name", [name for name in TABLES if name != "networks"])
def test_every_table_is_markdown_latex_and_csv_of_the_same_rows(name):
    table = TABLES[name](made_up())
    assert table.name == name
    assert table.rows
    n_rows = len(table.rows)
    assert len(list(csv.reader(io.StringIO(table.text("csv"))))) == n_rows + 1
    assert sum(line.startswith("| ") for line in table.text("md").splitlines()) == n_rows + 2
    assert table.text("tex").count("\\\\\n") == n_rows + 1
    assert "SYNTHETIC" in table.text("md")


def test_latex_escapes_and_csv_has_what_a_cell_hides():
    table = Table("t", "50 % of κ", ("a_b", "x"), (("c & d", Estimate(0.5, 0.1, 3, 0.004, 1.0)),))
    assert r"c \& d & 0.500 $\pm$ 0.100**" in table.text("tex")
    assert r"50 \% of $\kappa$" in table.text("tex")
    assert table.text("csv").splitlines() == [
        'a_b,x,"x, sd","x, n","x, p","x, effect"',
        "c & d,0.5,0.1,3,0.004,1",
    ]


def test_a_row_has_scikit_learns_kappa_and_counts_what_the_expert_scored():
    rng = np.random.default_rng(0)
    truth, labels = (rng.integers(0, 3, 500).astype(np.int8) for _ in range(2))
    truth[:10] = -1
    row = measure(Hypnogram(truth, WNR3, 30.0), labels, [("W", "R"), ("R", "N")])
    seen = labels[10:]
    assert row["kappa"] == pytest.approx(cohen_kappa_score(truth[10:], seen))
    assert kappa_between(truth, labels) == pytest.approx(row["kappa"])
    assert row["fi"] == pytest.approx(np.mean(seen[1:] != seen[:-1]))
    rare = ((seen[:-1] == 0) & (seen[1:] == 2)) | ((seen[:-1] == 2) & (seen[1:] == 1))
    assert row["tvr_percent"] == pytest.approx(100 * rare.mean())
    assert row["tst_minutes"] == np.count_nonzero(seen > 0) / 2


def test_nothing_is_not_zero():
    assert np.isnan(estimate({}).mean)
    assert np.isnan(paired({}, {}).p)
