"""Tables of made-up folds against scipy, scikit-learn and what can be worked out by hand."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from cli_runner import Runner
from made_up_study import made_up
from messages import mentions, naming
from stageguard.errors import InputError
from stageguard.measures.samples import Estimate, estimate, paired
from stageguard.measures.validity import validity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import WNR3
from stageguard.profile.profile import Profile
from stageguard.study.across import downstream_across, main_across
from stageguard.study.comparison import (
    ablation_table,
    bland_altman_table,
    consolidated_table,
    cost_table,
    error_ratio,
    errors_of,
    experts_table,
    main_table,
    scorers_table,
    signed_errors,
)
from stageguard.study.derived import derive, write_derived
from stageguard.study.figures import FIGURES
from stageguard.study.groups import (
    contrasts_table,
    group_subjects,
    groups_of,
    populations_table,
    subgroup_table,
)
from stageguard.study.report import TABLES, publish
from stageguard.study.robustness import (
    agreement_table,
    bootstrap_interval,
    f1_table,
    penalty_table,
    resampling_table,
    transitions_table,
)
from stageguard.study.store import TITLES, Results, read_results, save_record, values
from stageguard.study.table import FORMATS, Table
from stageguard.study.variants import measure, measure_panel


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
    records = results.of("usleep")
    rows = {(r["recording"], r["variant"]): r for rec in records for r in rec["rows"]}
    wanted = np.mean(
        [
            abs(rows[f"s03-{n}", "paper"]["tst_minutes"] - rows[f"s03-{n}", "expert"]["tst_minutes"])
            for n in (1, 2)
        ]
    )
    assert errors_of(results, records, "paper", "tst_minutes")["s03"] == pytest.approx(wanted)
    assert errors_of(results, records, "paper", "rem_bout_minutes") == {}


def test_rem_that_is_never_shown_is_charged():
    """Else a method that removes all REM would have no error of REM latency at all."""
    results = made_up(n_subjects=2)
    rows = [r for record in results.records for r in record["rows"]]
    for row in rows:
        row["rem_bout_minutes"] = 9.0 if row["variant"] == "expert" else None
        row["rem_latency_minutes"] = 70.0 if row["variant"] == "expert" else None
    records = results.of("usleep")
    assert errors_of(results, records, "paper", "rem_latency_minutes") == {"s00": 380.0, "s01": 380.0}
    assert errors_of(results, records, "paper", "rem_bout_minutes") == {"s00": 9.0, "s01": 9.0}


def test_bland_altman_and_resampling():
    results = made_up()
    row = next(r for r in bland_altman_table(results).rows if r[:3] == ("usleep", "TST (min)", "argmax"))
    errors = [error for _, error in signed_errors(results, results.of("usleep"), "base", "tst_minutes")]
    bias, reach = np.mean(errors), 1.96 * np.std(errors, ddof=1)
    assert row[3:6] == pytest.approx((bias, bias - reach, bias + reach))
    assert row[6] == str(len(errors)) == "24"
    numbers = np.random.default_rng(1).normal(size=40).tolist()
    found = bootstrap_interval(numbers)
    wanted = stats.bootstrap((numbers,), np.mean, method="percentile", random_state=0).confidence_interval
    assert found == pytest.approx((wanted.low, wanted.high), abs=0.05)


def test_subgroups_are_second_less_first_with_welchs_interval():
    results = made_up()
    wanted = "sex: M (n = 6) less F (n = 6)", "TST (min)", "expert"
    row = next(r for r in subgroup_table(results).rows if r[:3] == wanted)
    of_subject = values(results.of("accusleep"), "expert", "tst_minutes")
    groups = groups_of(results, "sex")
    f, m = ([v for s, v in of_subject.items() if groups[s] == sex] for sex in "FM")
    wanted = stats.ttest_ind(m, f, equal_var=False)
    interval = wanted.confidence_interval(0.95)
    assert row[3:6] == pytest.approx((np.mean(m) - np.mean(f), interval.low, interval.high))
    pooled = np.sqrt((np.var(m, ddof=1) + np.var(f, ddof=1)) / 2)
    assert row[6] == pytest.approx((np.mean(m) - np.mean(f)) / pooled)


def test_numbers_are_split_by_bins_or_at_their_median():
    ages = {"a": 40.0, "b": 54.9, "c": 55.0, "d": 70.0, "e": None, "f": 20.0}
    assert group_subjects(ages, ["40-55", "55-70", "70+"]) == {
        **{"a": "40-55", "b": "40-55"},
        **{"c": "55-70", "d": "70+"},
    }
    assert group_subjects(ages) == {
        **dict.fromkeys("abf", "up to 54.9"),
        **dict.fromkeys("cd", "above 54.9"),
    }
    assert group_subjects({"a": "F", "b": None}) == {"a": "F"}
    for wrong in ("old", "55-40", "40 - 55"):
        with pytest.raises(InputError, match=naming("'40-55'")):
            group_subjects(ages, [wrong])


def test_named_contrasts_have_their_numbers_and_lose_no_row_without_rem():
    results = made_up()
    for record in results.records:
        for row in record["rows"]:
            row["rem_latency_minutes"] = None if row["variant"] == "paper" else row["rem_latency_minutes"]
    table = contrasts_table(results)
    titles = ["TST (min): sex F vs M", "REM latency (min): age 30-36 vs 38+"]
    assert [row[:3] for row in table.rows] == [(titles[0], "6", "6"), (titles[1], "6", "4")]
    groups = groups_of(results, "age")
    for variant in ("expert", "base", "calibrated"):
        column = table.columns.index(f"Δ, {TITLES[variant]}")
        by_subject = values(results.of("accusleep"), variant, "rem_latency_minutes")
        young, old = ([v for s, v in by_subject.items() if groups.get(s) == g] for g in ("30-36", "38+"))
        assert table.rows[1][column] == pytest.approx(np.mean(old) - np.mean(young))
    # without REM, every subject's latency is the length of the recording
    assert table.rows[1][table.columns.index(f"Δ, {TITLES['paper']}")] == 0.0


def test_populations_say_how_many_subjects_they_are():
    rows = populations_table(made_up()).rows
    assert {row[:2] for row in rows} == {
        *(("sex: F", "6"), ("sex: M", "6")),
        *(("age: 30-36", "6"), ("age: 38+", "4")),
    }


def test_tables_say_where_the_guard_stepped_aside_and_which_network_did_not_learn():
    results = made_up()
    assert any(
        mentions(note, "Folds", "guard stepped aside") and "usleep 1 of 12" in note
        for note in main_table(results).notes
    )
    assert not any(mentions(note, "most frequent stage") for note in _with_accuracy(0.9, 0.8))
    assert any(
        mentions(note, "most frequent stage") and "usleep" in note for note in _with_accuracy(0.7, 0.8)
    )


def _with_accuracy(own: float, majority: float) -> tuple[str, ...]:
    results = made_up()
    for record in results.records:
        for row in record["rows"]:
            row["accuracy"] = majority if row["variant"] == "majority class" else own
    return main_table(results).notes


def test_a_chosen_lambda_is_apart_from_the_fixed_one():
    results = made_up(n_subjects=3)
    results.study["split"]["tuning_subject"] = "s99"
    chosen = [
        {**record, "is_tuned": True, "chosen": {"penalty_weight": 0.1}, "key": f"{record['key']}-chosen"}
        for record in results.select(loss="penalty")
    ]
    results = replace(results, records=(*results.records, *chosen))
    assert all(record["is_tuned"] for record in results.main("usleep", "penalty"))
    assert [row[0] for row in penalty_table(results).rows] == ["0", "0.5", "0.5", "chosen", "chosen"]


def test_costs_are_the_shortest_times():
    row = next(r for r in cost_table(made_up()).rows if r[0] == "usleep")
    assert row[1] == pytest.approx(500)
    assert row[2:5] == pytest.approx((10, 10, 10))
    assert row[6:8] == pytest.approx((200, 5))


def test_tables_over_studies_stand_side_by_side_with_the_best_in_bold():
    first, second = made_up(seed=0), made_up(seed=1)
    second.study["name"] = "other"
    for metric, best_of in (("fi", min), ("kappa", max)):
        table = main_across([first, second], metric)
        assert table.columns == ("network", "stages by", "made-up", "other")
        rows = {(row[0], row[1]): row for row in table.rows}
        assert rows["usleep", "argmax"][2:] == tuple(
            estimate(values(results.of("usleep"), "base", metric)) for results in (first, second)
        )
        means = {
            k: row[3].mean
            for k, row in enumerate(table.rows)
            if row[1] not in ("expert", "most frequent stage")
        }
        best = best_of(means, key=means.get)
        assert (best, 3) in table.bold
        shown = table.text("md").splitlines()[4 + best].split(" | ")
        assert shown[3].startswith("**")
    rows = downstream_across([first, second]).rows
    assert {row[:2] for row in rows} == {
        (n, s) for n in ("accusleep", "usleep") for s in ("made-up", "other")
    }


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_markdown_latex_and_csv_of_the_same_rows(name):
    table = TABLES[name](made_up())
    assert table.rows or name in ("networks", "scorers")  # which need predictions, and several scorers
    n_rows = len(table.rows)
    assert len(list(csv.reader(io.StringIO(table.text("csv"))))) == n_rows + 1
    assert sum(line.startswith("| ") for line in table.text("md").splitlines()) == n_rows + 2
    assert table.text("tex").count("\\\\\n") == n_rows + 1
    assert "SYNTHETIC" in table.text("md")


def test_latex_escapes_and_csv_has_what_a_cell_hides():
    table = Table("50 % of κ", ("a_b", "x"), (("c & d", Estimate(0.5, 0.1, 3, 0.004, 1.0)),))
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
    assert row["fi"] == pytest.approx(np.mean(seen[1:] != seen[:-1]))
    rare = ((seen[:-1] == 0) & (seen[1:] == 2)) | ((seen[:-1] == 2) & (seen[1:] == 1))
    assert row["tvr_percent"] == pytest.approx(100 * rare.mean())
    assert row["tst_minutes"] == np.count_nonzero(seen > 0) / 2


@pytest.fixture
def staged(tmp_path) -> Results:
    """Three networks on two nights of three hours, whose predictions are drawn at random."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng, results = np.random.default_rng(3), made_up(n_subjects=2)
    names = ["accusleep", "seqsleepnet", "usleep"]
    about = {**results.about, "study": {**results.study, "backbones": names}}
    (tmp_path / "stages").mkdir()
    records = []
    for name in names:
        for record in results.of("usleep"):
            key = record["key"].replace("usleep", name)
            records.append({**record, "backbone": name, "key": key})
            variants = {row["variant"] for row in record["rows"]} - {"majority class"} | {"expert"}
            nights = [f"s{record['fold']:02d}-{number}" for number in (1, 2)]
            columns = {v: rng.integers(0, 3, 720).astype(np.int8) for v in sorted(variants)}
            columns |= {"recording": np.repeat(nights, 360), "epoch": np.tile(np.arange(360), 2)}
            columns |= {f"p_{stage}": np.full(720, 1 / 3) for stage in "WNR"}
            parquet.write_table(arrow.table(columns), tmp_path / "stages" / f"{key}.parquet")
    return Results(tmp_path, about, tuple(records))


def column(results, name, variant, recording):
    """Stages as they were written."""
    parquet = pytest.importorskip("pyarrow.parquet")
    loss = "base" if variant == "base" else "penalty"
    table = parquet.read_table(results.folder / "stages" / f"{name}-{loss}-{int(recording[1:3])}.parquet")
    return table[variant].to_numpy()[np.asarray(table["recording"]) == recording]


def test_every_two_networks_have_scikit_learns_kappa(staged):
    rows = {row[0]: row for row in agreement_table(staged).rows}
    assert len(rows) == 3 + 2
    nights = [f"s{fold:02d}-{number}" for fold in (0, 1) for number in (1, 2)]
    by_pair = []
    for a, b in (("accusleep", "seqsleepnet"), ("accusleep", "usleep"), ("seqsleepnet", "usleep")):
        found = [[column(staged, each, "paper", night) for each in (a, b)] for night in nights]
        cells = rows[f"{a} and {b}"]
        assert cells[3].mean == pytest.approx(np.mean([cohen_kappa_score(*two) for two in found]), abs=1e-5)
        assert cells[4].mean == pytest.approx(np.mean([np.mean(x == y) for x, y in found]), abs=1e-5)
        by_pair.append(cells[3].mean)
    assert rows["mean over pairs"][3] == pytest.approx(np.mean(by_pair))
    assert rows["SD over pairs"][3] == pytest.approx(np.std(by_pair, ddof=1))


def test_what_is_derived_is_read_back_where_predictions_are_not_kept(staged):
    found = derive(staged)
    write_derived(staged)
    table = agreement_table(staged).text("csv")
    for file in (staged.folder / "stages").iterdir():
        file.unlink()
    assert agreement_table(staged).text("csv") == table
    assert set(found["joint"]["usleep"]) >= {"expert", "base", "paper"}


def test_expert_bands_and_joint_scores_are_counted_night_by_night(staged):
    profile = Profile.load("human-psg-3")
    row = next(r for r in experts_table(staged).rows if r[:2] == ("usleep", "published method"))
    rows = {(r["recording"], r["variant"]): r for rec in staged.of("usleep") for r in rec["rows"]}
    nights = sorted({recording for recording, _ in rows})
    ratios = [rows[n, "paper"]["fi"] / rows[n, "expert"]["fi"] for n in nights]
    assert row[2] == pytest.approx(100 * np.mean([1 / 1.97 <= ratio <= 1.97 for ratio in ratios]))
    scores = [
        validity(Hypnogram(column(staged, "usleep", "paper", n), WNR3, 30.0), profile).joint.value
        for n in nights
    ]
    assert row[3].mean == pytest.approx(np.mean(scores), rel=1e-4)
    assert row[4] == pytest.approx(100 * np.mean(np.array(scores) <= profile.joint.threshold))


def test_several_scorers_have_scikit_learns_kappas_and_a_table():
    rng = np.random.default_rng(1)
    scored = [rng.integers(0, 3, 300).astype(np.int8) for _ in range(3)]
    panel = [Hypnogram(labels, WNR3, 30.0, scorer=str(k)) for k, labels in enumerate(scored)]
    labels = rng.integers(0, 3, 300).astype(np.int8)
    own, theirs = measure_panel(panel, labels), measure_panel(panel, None)
    assert own["scorers_kappa"] == pytest.approx(np.mean([cohen_kappa_score(labels, s) for s in scored]))
    pairs = [cohen_kappa_score(scored[a], scored[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert theirs["scorers_kappa"] == pytest.approx(np.mean(pairs))
    assert measure_panel(panel[:1], labels) == {}
    results = made_up(n_subjects=3)
    for row in (row for record in results.records for row in record["rows"]):
        row |= theirs if row["variant"] == "expert" else own
    first, second, *_ = scorers_table(results).rows
    assert mentions(first[1], "scorers with one", "another")
    assert (first[2].mean, second[2].mean) == pytest.approx((theirs["scorers_kappa"], own["scorers_kappa"]))


def test_consolidated_errors_pool_every_network_and_subject():
    results = made_up()
    row = next(r for r in consolidated_table(results).rows if r[0] == "TST (min)")
    before, after = (
        [
            e
            for name in ("accusleep", "usleep")
            for e in errors_of(results, results.of(name), v, "tst_minutes").values()
        ]
        for v in ("base", "paper")
    )
    assert row[1].mean == pytest.approx(np.mean(before))
    assert row[2].p == pytest.approx(min(1.0, 2 * stats.wilcoxon(after, before).pvalue))
    assert row[3] == pytest.approx(100 * (1 - np.mean(after) / np.mean(before)))


def test_error_ratio_is_the_geometric_mean_over_statistics():
    results = made_up()
    records = results.of("usleep")
    experts = results.experts()
    for record in records:
        for row in record["rows"]:
            if row["variant"] in ("base", "paper"):
                size = 4.0 if row["variant"] == "base" else 2.0
                row |= {k: experts[row["recording"]][k] + size for k in ("tst_minutes", "waso_minutes")}
                row |= dict.fromkeys(("se_percent", "rem_latency_minutes", "awakenings"))
                row["nrem_bout_minutes"] = experts[row["recording"]]["nrem_bout_minutes"] + size**2
                row["rem_latency_minutes"] = experts[row["recording"]]["rem_latency_minutes"]
    assert error_ratio(results, records, "paper") == pytest.approx((1 / 2 * 1 / 2 * 1 / 4) ** (1 / 3))


def test_ablations_count_the_recordings_that_a_part_changes(staged):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for path in (staged.folder / "stages").glob("*penalty*"):
        table = parquet.read_table(path)
        labels = table["paper"].to_numpy().copy()
        if path.stem == "usleep-penalty-1":
            labels[[3, 5, 7]] = (labels[[3, 5, 7]] + 1) % 3
        place = table.column_names.index("paper, no flip-flop")
        changed = table.set_column(place, "paper, no flip-flop", arrow.array(labels))
        parquet.write_table(changed, path)
    counts = derive(staged)["changed"]["usleep"]["paper, no flip-flop"]
    assert counts == {"s00-1": 0, "s00-2": 0, "s01-1": 3, "s01-2": 0}
    rows = {row[:2]: row for row in ablation_table(staged).rows}
    assert rows["flip-flop", "published method"][-1] == 0.0
    found = rows["one left out", "without flip-flop (penalty + transitions + minimum bouts)"][-1]
    assert found == pytest.approx(100 / 12)  # one of four recordings with one of three networks


def test_rows_of_robustness_are_means_over_their_own_records():
    """Lambda, noise, rules and subpopulations: every number from the rows it is about, and no others."""
    results = made_up()
    more = []
    for record in results.of("accusleep"):
        for changes in (
            ({"label_noise": 0.1}, {"weight": 2.0})
            if record["loss"] == "penalty"
            else ({"label_noise": 0.1},)
        ):
            rows = [{**row, "kappa": row["kappa"] / (2 + 2 * len(changes))} for row in record["rows"]]
            more.append({**record, **changes, "rows": rows})
    results = Results(results.folder, results.about, (*results.records, *more))
    own = column_of(made_up(), "accusleep", "paper", "kappa")
    shown = {
        name: {row[:2]: row for row in TABLES[name](results).rows}
        for name in ("penalty", "label-noise", "rare-pairs")
    }
    assert shown["penalty"]["0.5", "published method"][5].mean == pytest.approx(own.mean())
    assert shown["penalty"]["2", "published method"][5].mean == pytest.approx(own.mean() / 4)
    assert shown["label-noise"]["0 %", "published method"][5].mean == pytest.approx(own.mean())
    assert shown["label-noise"]["10 %", "published method"][5].mean == pytest.approx(own.mean() / 4)
    assert shown["rare-pairs"]["accusleep", "as published"][5].mean == pytest.approx(own.mean())
    men = next(
        r
        for r in TABLES["populations"](results).rows
        if r[0] == "sex: M" and r[2:4] == ("accusleep", "published method")
    )
    assert men[7].mean == pytest.approx(own[1::2].mean())
    assert men[7].n == 6


def test_f1_transitions_and_resampling_are_what_the_rows_hold():
    results = made_up()
    row = next(r for r in f1_table(results).rows if r[:2] == ("usleep", "published method"))
    assert row[4].mean == pytest.approx(column_of(results, "usleep", "paper", "f1_R").mean())
    folds = transitions_table(results).rows
    assert len(folds) == 12 + 1
    assert folds[3][1 + 5] == pytest.approx(0.05 + 3)  # N to R, of the fourth fold
    assert folds[-1][1 + 5] == pytest.approx(11)
    row = next(r for r in resampling_table(results).rows if r[:2] == ("usleep", "published method"))
    kappas = column_of(results, "usleep", "paper", "kappa")
    wanted = stats.bootstrap((kappas,), np.mean, method="percentile", random_state=0).confidence_interval
    assert row[8:10] == pytest.approx((wanted.low, wanted.high), abs=0.03)


@pytest.mark.slow
def test_published_results_give_the_same_tables(staged, tmp_path, monkeypatch):
    figures = {name: FIGURES[name] for name in ("transitions", "night")}
    monkeypatch.setattr("stageguard.study.report.FIGURES", figures)
    (staged.folder / "study.json").write_text(json.dumps(staged.about))
    for record in staged.records:
        save_record(staged.folder, record, None)
    results = read_results(staged.folder)
    page = publish(results, tmp_path / "shown")
    drawn = (tmp_path / "shown" / "figures" / "transitions.svg").read_bytes()
    publish(results, tmp_path / "shown")
    assert (tmp_path / "shown" / "figures" / "transitions.svg").read_bytes() == drawn
    assert not (tmp_path / "shown" / "figures" / "night.svg").exists()
    again = read_results(tmp_path / "shown")
    assert again.records == results.records
    assert {path.name for path in (tmp_path / "shown").iterdir()} == {
        *("study.json", "results.jsonl", "derived.json", "report.md", "tables", "figures")
    }
    for name, table in TABLES.items():
        assert table(again).text("csv") == table(results).text("csv"), name
    assert all(
        f"figures/{path.name}" in page.read_text() for path in (tmp_path / "shown" / "figures").iterdir()
    )


@pytest.mark.parametrize("n_more", [0, 3])
def test_what_is_shown_says_whether_the_study_is_finished(n_more, tmp_path, monkeypatch, capsys):
    made = made_up(n_subjects=3)
    n_done = len(made.records)
    about = {**made.about, "study": {**made.study, "smoke": True}, "n_jobs": n_done + n_more}
    (tmp_path / "study.json").write_text(json.dumps(about))
    for record in made.records:
        save_record(tmp_path, record, None)
    monkeypatch.setattr("stageguard.study.report.write_figures", lambda *_, **__: [])  # need predictions
    done = f"{n_done} of {n_done + n_more} jobs done"
    status = Runner(capsys)("study", "status", tmp_path).out
    assert status == f"made-up (smoke version): {done}, 0 failed\n"
    ran = Runner(capsys)("study", "report", tmp_path, "--publish", tmp_path / "shown")
    assert ran.code == 0, ran.err
    page = (tmp_path / "shown" / "report.md").read_text("utf-8")
    head = page.split("## ")[0]
    assert done in head
    tables = [
        Runner(capsys)("study", "table", tmp_path / "shown", "--name", "main", "--format", f) for f in FORMATS
    ]
    for text in (head, *(table.out + table.err for table in tables)):
        assert (f"UNFINISHED: {done}." in text) == bool(n_more)
        assert "SMOKE version" in text


def test_the_commands_on_stored_results(tmp_path, capsys):
    """What they print as JSON, write for several studies, and refuse."""
    made = made_up(n_subjects=3)
    (tmp_path / "study.json").write_text(json.dumps({**made.about, "n_jobs": len(made.records)}))
    for record in made.records:
        save_record(tmp_path, record, None)
    run = Runner(capsys)
    status = run("study", "status", tmp_path, "--json").json
    assert (status["done"], status["jobs"], status["failed"]) == (len(made.records), len(made.records), [])
    ran = run("study", "compare", tmp_path, tmp_path, "--output", tmp_path / "across")
    written = sorted((tmp_path / "across").iterdir())
    assert written and all(path.name in ran.out for path in written)
    ran = run("study", "table", tmp_path, "--name", "mian")
    assert ran.code == 1 and "'mian'" in ran.err and "main" in ran.err
    ran = run("study")
    assert ran.code != 0 and "status" in ran.err


def test_nothing_is_not_zero():
    assert np.isnan(estimate({}).mean)
    assert np.isnan(paired({}, {}).p)


def test_fewer_than_ten_subjects_have_a_t_interval():
    numbers = [1.0, 2.0, 4.0, 9.0]
    wanted = stats.ttest_1samp(numbers, 0.0).confidence_interval(0.95)
    assert bootstrap_interval(numbers) == pytest.approx((wanted.low, wanted.high))
    assert np.isnan(bootstrap_interval([1.0])).all()


def test_a_stager_without_the_penalty_is_shown_with_the_rules_alone():
    results = made_up()
    for record in results.main("usleep", "penalty"):
        for row in record["rows"]:
            if row["variant"] in ("paper", "released"):
                row["variant"] += ", no penalty"
    titles = [row[1] for row in main_table(results).rows]
    assert titles[6:9] == [TITLES[v] for v in ("base", "paper, no penalty", "released, no penalty")]
    rows = {row[0]: row for row in main_across([results], "fi").rows if row[1] == "argmax"}
    assert list(rows) == ["accusleep", "usleep"]
    guarded = [row for row in main_across([results], "fi").rows if row[1] == TITLES["paper"]]
    assert all(row[2].n == 12 for row in guarded)
