"""Tables of made-up folds against scipy, scikit-learn and what can be worked out by hand."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from made_up_study import STUDY, made_up, records
from stageguard.measures.samples import Estimate, estimate, paired
from stageguard.measures.validity import validity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import WNR3
from stageguard.profile.profile import Profile
from stageguard.study import tables
from stageguard.study.config import Job
from stageguard.study.run import compare_stages
from stageguard.study.store import (
    JOB,
    Results,
    distinct,
    joined,
    means,
    rows_of,
    select,
    stages_key,
    write_arrays,
)
from stageguard.study.tables import TABLES, TITLES
from stageguard.study.variants import measure, measure_panel, shape


def column_of(results, backbone, variant, metric):
    """A metric by subject, straight from the rows."""
    rows = [r for r in results.rows.to_pylist() if r["backbone"] == backbone and not r["change"]]
    if variant == "argmax":
        rows = [r for r in rows if r["loss"] == "base"]
    subjects = sorted({r["subject"] for r in rows})
    return np.array(
        [np.mean([r[metric] for r in rows if (r["subject"], r["variant"]) == (s, variant)]) for s in subjects]
    )


def lines(results, name, n=2):
    """The rows of a table by their first cells."""
    return {row[:n]: row for row in TABLES[name](results).rows}


def test_main_table_has_scipys_p_corrected_over_networks_and_guards():
    results = made_up()
    cell = lines(results, "main")["", "published method"][
        5
    ]  # of the last network, which overwrote the first's
    before, after = (column_of(results, "usleep", v, "kappa") for v in ("argmax", "paper"))
    assert isinstance(cell, Estimate)
    assert cell.mean == pytest.approx(after.mean())
    assert cell.sd == pytest.approx(after.std(ddof=1))
    n_tests = 6  # 2 networks x 3 guards
    assert cell.p == pytest.approx(min(1.0, n_tests * stats.wilcoxon(before, after).pvalue))


def test_rank_biserial_is_one_where_every_subject_gains_and_known_by_hand_else():
    reference = {str(k): 0.0 for k in range(5)}
    assert paired(reference, {str(k): 1.0 + k for k in range(5)}).effect == 1.0
    found = paired(reference, dict(zip("01234", (1.0, -2.0, 3.0, 4.0, 0.0), strict=True)))
    assert found.effect == pytest.approx((1 - 2 + 3 + 4) / 10)  # ranks of |d|, the 0 dropped
    assert paired(reference, reference).p == 1.0


def test_errors_are_against_the_same_recording():
    truth = {f"s03-{night}": {"tst_minutes": 100.0 * night} for night in (1, 2)}
    expert = lambda row: row["variant"] == "expert"  # noqa: E731
    results = made_up(change=lambda row: row | (truth.get(row["recording"], {}) if expert(row) else {}))
    rows = {(r["recording"], r["variant"]): r["tst_minutes"] for r in results.main("usleep").to_pylist()}
    errors = [abs(rows[name, "released"] - own["tst_minutes"]) for name, own in truth.items()]
    found = results.of("usleep", "released")
    assert means(found, "tst_minutes_error")["s03"] == pytest.approx(np.mean(errors))
    assert means(found, "rem_bout_minutes_error") == {}


def test_rem_that_is_never_shown_is_charged():
    """Else a method that removes all REM would have no error of REM latency at all."""
    rem = {"rem_bout_minutes": 9.0, "rem_latency_minutes": 70.0}
    none = dict.fromkeys(rem)
    results = made_up(2, change=lambda row: row | (rem if row["variant"] == "expert" else none))
    rows = results.of("usleep", "paper")
    assert means(rows, "rem_latency_minutes_error") == {"s00": 380.0, "s01": 380.0}
    assert means(rows, "rem_bout_minutes_error") == {"s00": 9.0, "s01": 9.0}


def test_contrasts_are_second_less_first_with_cohens_d_and_lose_no_row_without_rem():
    def without(row):
        return row | ({"rem_latency_minutes": None} if row["variant"] == "paper" else {})

    results = made_up(change=without)
    table = TABLES["contrasts"](results)
    titles = ["TST (min): sex F vs M", "REM latency (min): age 30-36 vs 38+"]
    assert [row[:3] for row in table.rows] == [(titles[0], "6", "6"), (titles[1], "6", "4")]
    groups = tables.groups_of(results, "sex")
    of_subject = means(results.of("accusleep", "expert"), "tst_minutes")
    f, m = ([v for s, v in of_subject.items() if groups[s] == sex] for sex in "FM")
    difference = np.mean(m) - np.mean(f)
    pooled = np.sqrt((np.var(m, ddof=1) + np.var(f, ddof=1)) / 2)
    for what, wanted in (("Δ", difference), ("d", difference / pooled)):
        assert table.rows[0][table.heads.index(f"{what}, expert")] == pytest.approx(wanted)
    # without REM, every subject's latency is the length of the recording
    assert table.rows[1][table.heads.index("Δ, published method")] == 0.0


def test_tables_say_where_the_guard_is_argmax_and_which_network_did_not_learn():
    def notes(own, majority):
        level = {"majority class": majority}
        results = made_up(change=lambda row: row | {"accuracy": level.get(row["variant"], own)})
        return " ".join(TABLES["main"](results).notes)

    assert "is argmax: accusleep 1 of 12, usleep 1 of 12." in notes(0.9, 0.8)
    assert "Less accurate" not in notes(0.9, 0.8)
    assert "Less accurate than the most frequent stage: accusleep, usleep." in notes(0.7, 0.8)


def test_a_chosen_lambda_is_apart_from_the_fixed_one():
    more = [row | {"is_tuned": True} for row in records(3)]
    results = made_up(3, more=more, study=STUDY | {"split": {"tuning_subject": "s99"}})
    assert all(results.of("usleep", "paper")["is_tuned"].to_pylist())
    assert [row[0] for row in TABLES["penalty"](results).rows] == ["0", "0.5", "0.5", "chosen", "chosen"]


def test_tables_over_studies_stand_side_by_side():
    studies = made_up(seed=0), made_up(seed=1, study=STUDY | {"name": "other"})
    table = tables.main_across(studies, "fi")
    assert table.heads == ["network", "stages by", "made-up", "other"]
    rows = {row[:2]: row for row in table.rows}
    own = tuple(estimate(means(each.of("usleep", "argmax"), "fi")) for each in studies)
    assert rows["usleep", "argmax"][2:] == own
    found = {row[:2] for row in tables.downstream_across(studies).rows}
    assert found == {(n, s) for n in ("accusleep", "usleep") for s in ("made-up", "other")}


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_markdown_latex_and_csv_of_the_same_rows(name):
    table = TABLES[name](made_up())
    n_rows = len(table.rows)
    assert n_rows or name == "networks"  # which needs the stages
    assert len(list(csv.reader(io.StringIO(table.text("csv"))))) == n_rows + 1
    assert sum(line.startswith("| ") for line in table.text("md").splitlines()) == n_rows + 2
    assert table.text("tex").count("\\\\\n") == n_rows + 1
    assert "SYNTHETIC" in table.text("md")


def test_a_row_has_scikit_learns_kappa_and_counts_what_the_expert_scored():
    rng = np.random.default_rng(0)
    truth, labels = (rng.integers(0, 3, 500).astype(np.int8) for _ in range(2))
    truth[:10] = -1
    row = measure(Hypnogram(truth, WNR3, 30.0), labels, [("W", "R"), ("R", "N")])
    seen = labels[10:]
    assert row["kappa"] == pytest.approx(cohen_kappa_score(truth[10:], seen))
    assert row["fi"] == pytest.approx(np.mean(seen[1:] != seen[:-1]))
    rare = ((seen[:-1] == 0) & (seen[1:] == 2)) | ((seen[:-1] == 2) & (seen[1:] == 1))
    assert row["tvr_percent"] == pytest.approx(100 * rare.mean())
    assert row["tst_minutes"] == np.count_nonzero(seen > 0) / 2


def test_a_row_counts_bouts_and_pairs_and_has_the_joint_score():
    labels = np.repeat([0, 1, 2, 1, 0], [3, 1, 9, 200, 30]).astype(np.int8)
    night, profile = Hypnogram(labels, WNR3, 30.0), Profile.load("human-psg-3")
    found = shape(night, labels, profile)
    assert found["bouts"] == [1, 0, 1, 0, 0, 0, 0, 0, 3]
    assert found["pairs"] == [2 + 29, 1, 0, 1, 199, 1, 0, 1, 8]
    assert found["joint"] == pytest.approx(validity(night, profile).joint.value, nan_ok=True)


@pytest.fixture
def staged(tmp_path) -> Results:
    """Three networks on two nights of two subjects, whose stages are drawn at random."""
    rng, names = np.random.default_rng(3), ["accusleep", "seqsleepnet", "usleep"]
    rows = [r | {"backbone": name} for name in names for r in records(2) if r["backbone"] == "usleep"]
    results = made_up(0, more=rows, study=STUDY | {"backbones": names}, n_jobs=12)
    for facts in distinct(results.rows, JOB):
        stages = {stages_key(r): rng.integers(0, 3, 360) for r in select(results.rows, **facts).to_pylist()}
        for key in [key for key in stages if "no flip-flop" in key]:
            if (facts["backbone"], facts["fold"]) != ("usleep", 1):
                stages[key] = stages[key.replace("no flip-flop/", "")]
        write_arrays(tmp_path / "stages" / f"{Job(**facts).key}.npz", stages, {})
    return Results(tmp_path, results.about, compare_stages(Results(tmp_path, results.about, results.rows)))


def test_every_two_networks_have_scikit_learns_kappa(staged):
    rows = lines(staged, "networks", 1)
    assert len(rows) == 3 + 2
    nights = [f"penalty/paper/s{fold:02d}-{night}" for fold in (0, 1) for night in (1, 2)]
    means_of_pairs = []
    for a, b in (("accusleep", "seqsleepnet"), ("accusleep", "usleep"), ("seqsleepnet", "usleep")):
        found = [[staged.stages(each)[night] for each in (a, b)] for night in nights]
        cells = rows[f"{a} and {b}",]
        assert cells[3].mean == pytest.approx(np.mean([cohen_kappa_score(*two) for two in found]), abs=1e-5)
        assert cells[4].mean == pytest.approx(np.mean([np.mean(x == y) for x, y in found]), abs=1e-5)
        means_of_pairs.append(cells[3].mean)
    assert rows["mean over pairs",][3] == pytest.approx(np.mean(means_of_pairs))
    assert rows["SD over pairs",][3] == pytest.approx(np.std(means_of_pairs, ddof=1))


def test_the_mean_over_pairs_is_that_of_the_pairs_with_numbers(staged):
    """A stager without the penalty has no pair by the published method, as boosting has none."""
    rows = [r for r in staged.rows.to_pylist() if (r["backbone"], r["loss"]) != ("usleep", "penalty")]
    results = Results(staged.folder, staged.about, joined([rows_of(rows)]))
    found = lines(Results(staged.folder, staged.about, compare_stages(results)), "networks", 1)
    assert found["accusleep and usleep",][3].n == 0
    assert found["mean over pairs",][3] == found["accusleep and seqsleepnet",][3].mean


def test_ablations_count_the_recordings_that_a_part_changes(staged):
    rows = lines(staged, "ablations")
    assert rows["flip-flop", "published method"][-1] == 0.0
    assert rows["progressive", "argmax"][-1] == 100.0
    found = rows["one left out", tables.NO_FLIP_FLOP][-1]
    assert found == pytest.approx(100 * 2 / 12)  # two of four recordings with one of three networks


def test_several_scorers_have_scikit_learns_kappas():
    rng = np.random.default_rng(1)
    scored = [rng.integers(0, 3, 300).astype(np.int8) for _ in range(3)]
    panel = [Hypnogram(labels, WNR3, 30.0, scorer=str(k)) for k, labels in enumerate(scored)]
    labels = rng.integers(0, 3, 300).astype(np.int8)
    own, theirs = measure_panel(panel, labels), measure_panel(panel, None)
    assert own["scorers_kappa"] == pytest.approx(np.mean([cohen_kappa_score(labels, s) for s in scored]))
    pairs = [cohen_kappa_score(scored[a], scored[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert theirs["scorers_kappa"] == pytest.approx(np.mean(pairs))
    assert measure_panel(panel[:1], labels) == {}


def test_rows_of_robustness_are_means_over_their_own_rows():
    """Lambda, noise, rules, subpopulations: every number from the rows it is about alone."""
    accusleep = [row for row in records() if row["backbone"] == "accusleep"]
    more = [r | {"label_noise": 0.1, "kappa": r["kappa"] / 4} for r in accusleep]
    more += [r | {"seed": 43, "kappa": r["kappa"] / 8} for r in accusleep]
    penalised = [row for row in accusleep if row["loss"] == "penalty"]
    more += [r | {"penalty_weight": 2.0, "kappa": r["kappa"] / 2} for r in penalised]
    epsilon = {"change": "epsilon", "value": 0.01}
    more += [
        r | epsilon | {"kappa": r["kappa"] / 16}
        for r in penalised
        if (r["variant"], r["change"]) == ("paper", "")
    ]
    results = made_up(more=more)
    own = column_of(made_up(), "accusleep", "paper", "kappa")
    for name, first, divisor in (
        *(("penalty", "0.5", 1), ("penalty", "2", 2), ("label-noise", "0 %", 1), ("label-noise", "10 %", 4)),
    ):
        cell = lines(results, name)[first, "published method"][5]
        assert cell.mean == pytest.approx(own.mean() / divisor), (name, first)
    assert lines(results, "rare-pairs")["accusleep", "as published"][5].mean == pytest.approx(own.mean())
    assert lines(results, "rare-pairs")["accusleep", "epsilon 0.01"][5].mean == pytest.approx(own.mean() / 16)
    men = lines(results, "populations", 4)["sex: M", "6", "accusleep", "published method"]
    assert men[7].mean == pytest.approx(own[1::2].mean())
    assert men[7].n == 6


def test_f1_and_transitions_are_what_the_rows_hold():
    results = made_up()
    row = lines(results, "f1")["usleep", "published method"]
    assert row[4].mean == pytest.approx(column_of(results, "usleep", "paper", "f1_R").mean())
    folds = TABLES["transitions"](results).rows
    assert len(folds) == 12 + 1
    assert folds[3][1 + 5] == pytest.approx(0.05 + 3)  # N to R, of the fourth fold
    assert folds[-1][1 + 5] == pytest.approx(11)


def test_a_stager_without_the_penalty_is_shown_with_the_rules_alone():
    def unpenalised(row):
        moved = row["backbone"] == "usleep" and row["variant"] in ("paper", "released")
        return row | ({"loss": "base", "penalty_weight": 0.0} if moved else {})

    results = made_up(change=unpenalised)
    titles = [row[1] for row in TABLES["main"](results).rows]
    assert titles[6:9] == ["argmax", tables.ALONE["paper"], tables.ALONE["released"]]
    across = [row for row in tables.main_across([results], "fi").rows if row[1] == TITLES["paper"]]
    assert [row[2].n for row in across] == [12, 12]
