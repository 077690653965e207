"""`stageguard compare`: agreement numbers, before and after, one expert or a folder of them."""

from __future__ import annotations

import re
from datetime import datetime

import numpy as np
import pytest

import nights
import stageguard as sg
from cli_runner import error_line, write_night
from messages import mentions
from stageguard.formats.outputs import write_decoding
from stageguard.measures.experts import soft_agreement
from stageguard.synthetic.night import simulate_night

PROFILE = "human-psg-5"


def write_stages(path, text, names="W N1 N2 N3 R ?"):
    """A night in one letter per epoch: W 1 2 3 R ?."""
    by_letter = dict(zip("W123R?", names.split(), strict=True))
    path.write_text("".join(f"{by_letter[letter]}\n" for letter in text))
    return path


@pytest.fixture
def night(tmp_path):
    """Probabilities, what decode made of them, and an expert's scoring, all of one night."""
    (tmp_path / "experts").mkdir()
    for seed in (1, 2, 3):
        path = write_night(tmp_path / f"n{seed}.csv", seed=seed)
        write_decoding(nights.decode(sg.read_density(path), PROFILE), tmp_path / f"n{seed}", source_path=path)
        expert = simulate_night(PROFILE, hours=2.0, seed=seed).expert
        (tmp_path / "experts" / f"n{seed}.txt").write_text("\n".join(expert.stages.tolist()) + "\n")
    return tmp_path


def test_agreement_of_a_night_counted_by_hand(run, tmp_path):
    expert = write_stages(tmp_path / "expert.txt", "WW112222RR?W")
    other = write_stages(tmp_path / "other.txt", "WW122222RRWW")
    ran = run("compare", expert, other, "--json")
    assert ran.code == 0, ran.err
    (report,) = ran.lines
    own = report["agreement"]["scored"]
    assert (own["n_epochs"], own["n_left_out"]) == (11, 1)
    assert own["accuracy"] == pytest.approx(10 / 11)
    assert own["majority_accuracy"] == pytest.approx(4 / 11)
    assert own["majority_stage"] == "N2"
    chance = (3 * 3 + 2 * 1 + 4 * 5 + 2 * 2) / 11**2
    assert own["kappa"] == pytest.approx((10 / 11 - chance) / (1 - chance))
    f1 = {"W": 1.0, "N1": 2 / 3, "N2": 8 / 9, "N3": None, "R": 1.0}
    assert own["f1"] == pytest.approx(f1)
    assert own["macro_f1"] == pytest.approx((1 + 2 / 3 + 8 / 9 + 1) / 4)
    assert own["confusion"][1] == [0, 1, 1, 0, 0]
    shown = run("compare", expert, other).out
    assert re.search(r"Accuracy +0\.909\n", shown)
    assert re.search(r"Accuracy of the majority class +0\.364 \(N2\)", shown)
    assert re.search(r"Epochs one of them left unscored +1\n", shown)
    assert re.search(r"F1 N3 +n/a", shown)
    assert re.search(r"^N1 +0 +1 +1 +0 +0 +0\.500$", shown, re.MULTILINE)


def test_uncommon_transitions_are_found_at_their_place_or_nearby(run, tmp_path):
    expert = write_stages(tmp_path / "expert.txt", "2222WRRR22WRRRRR22WRRR222")
    other = write_stages(tmp_path / "other.txt", "2222WRRR22WWWRRR22222222R")
    own = run("compare", expert, other, "--json").lines[0]["agreement"]["scored"]
    assert (own["pairs"], own["n_rare"]) == ([["W", "R"]], 3)
    assert (own["rare_recall_0"], own["rare_recall_2"]) == pytest.approx((1 / 3, 2 / 3))
    shown = run("compare", expert, other).out
    assert re.search(r"Uncommon transitions found, same epoch +1 of 3 \(0\.333\)", shown)
    assert re.search(r"Uncommon transitions found, ± 2 epochs +2 of 3 \(0\.667\)", shown)
    assert mentions(shown, "uncommon", "W")
    named = run("compare", expert, other, "-p", PROFILE, "--json").lines[0]["agreement"]["scored"]
    assert [tuple(pair) for pair in named["pairs"]] == list(sg.Profile.load(PROFILE).tvr_pairs)
    merged = run("compare", expert, other, "-p", PROFILE, "--scheme", "wnr3", "--json")
    assert merged.code == 1  # five stages cannot be made of three


def test_what_decode_wrote_is_compared_before_and_after(run, night):
    ran = run("compare", night / "experts" / "n1.txt", night / "n1.hypnogram.tsv", "--json")
    found = ran.lines[0]["agreement"]
    truth = simulate_night(PROFILE, hours=2.0, seed=1).expert.labels
    decoding = nights.decode(sg.read_density(night / "n1.csv"), PROFILE)
    assert found["argmax"]["accuracy"] == pytest.approx(np.mean(decoding.argmax == truth))
    assert found["guard"]["accuracy"] == pytest.approx(np.mean(decoding.hypnogram.labels == truth))
    assert found["guard"]["accuracy"] > found["argmax"]["accuracy"]
    bare = run("compare", night / "experts" / "n1.txt", night / "n1.csv", "--json").lines[0]["agreement"]
    assert bare["argmax"]["confusion"] == found["argmax"]["confusion"]


def test_a_folder_of_experts_is_matched_by_name_and_averaged(run, night):
    files = sorted(night.glob("*.hypnogram.tsv"))
    ran = run("compare", night / "experts", *files)
    assert (ran.code, ran.err) == (0, "")
    assert "Agreement with 3 expert scorings" in ran.out
    found = [
        report["agreement"]["guard"] for report in run("compare", night / "experts", *files, "--json").lines
    ]
    kappas = [own["kappa"] for own in found]
    mean = f"{np.mean(kappas):.3f} ± {np.std(kappas, ddof=1):.3f}"
    assert re.search(rf"Cohen's κ +\d\.\d+ ± \d\.\d+ +{mean}", ran.out)
    n_rare = sum(own["n_rare"] for own in found)
    n_found = sum(round(own["rare_recall_2"] * own["n_rare"]) for own in found if own["n_rare"])
    assert n_rare > 0
    assert re.search(
        rf"± 2 epochs +\d+ of {n_rare} .* {n_found} of {n_rare} \({n_found / n_rare:.3f}\)", ran.out
    )
    assert re.search(r"^n1\.hypnogram\.tsv +stager +240 ", ran.out, re.MULTILINE)


def test_failures_are_rows_and_the_others_go_on(run, night):
    expert = night / "experts" / "n1.txt"
    short = write_stages(night / "short.txt", "WWW222")
    ran = run("compare", expert, night / "n1.csv", short, night / "gone.csv")
    assert ran.code == 3
    assert "n1.csv" in ran.out
    assert "2 of 3 files failed" in ran.err
    problem = "n1.txt has 240 epochs of unknown length, expected 6"
    assert problem in " ".join(ran.err.split())
    line = error_line(run("compare", night / "experts", short))
    assert mentions(line, "short.txt", "'short'")


def test_what_is_no_expert_is_one_line(run, night):
    assert mentions(
        error_line(run("compare", night / "gone.txt", night / "n1.csv")), "gone.txt", "file or directory"
    )
    (night / "empty").mkdir()
    line = error_line(run("compare", night / "empty", night / "n1.csv"))
    assert mentions(line, "empty", "night.tsv", "night.txt")
    (night / "experts" / "n1.tsv").write_text("stage\nW\n")
    line = error_line(run("compare", night / "experts", night / "n1.csv"))
    assert mentions(line, "n1.csv", "'n1'", "n1.tsv", "n1.txt")
    assert run("compare", night / "experts").code == 2


def timed(path, labels, start, seconds=30.0):
    sg.Hypnogram(np.array(labels), "aasm5", seconds, start=start).save(path)
    return path


def test_align_compares_the_time_both_scored(run, tmp_path):
    """By the clock, and at the expert's epoch length; by itself, the same pair is refused."""
    labels = np.random.default_rng(0).integers(0, 5, 100)
    expert = timed(tmp_path / "expert.edf", labels, datetime(2024, 5, 1, 22, 30))
    shifted = timed(tmp_path / "late.edf", labels[20:], datetime(2024, 5, 1, 22, 40))
    finer = timed(tmp_path / "fine.edf", np.repeat(labels[20:], 3), datetime(2024, 5, 1, 22, 40), 10.0)
    for other in (shifted, finer):
        assert run("compare", expert, other).code == 1
        ran = run("compare", expert, other, "--align", "--json")
        assert ran.code == 0, ran.err
        (found,) = ran.lines
        assert found["agreement"]["scored"]["n_epochs"] == 80
        assert found["agreement"]["scored"]["accuracy"] == 1.0
    assert "expert.edf: epochs 21 to 100 of 100 are kept" in run("compare", expert, shifted, "--align").out
    apart = timed(tmp_path / "apart.edf", labels, datetime(2024, 5, 3, 22, 30))
    assert mentions(error_line(run("compare", expert, apart, "--align")), "epoch in common")


def test_a_text_file_has_epochs_of_20_s_only_if_that_is_said(run, tmp_path):
    """Lines without a length are the other file's epochs only if they are as many."""
    labels = np.repeat(np.random.default_rng(0).integers(0, 5, 120), 2)  # a minute of each stage
    night = timed(tmp_path / "night.edf", labels, datetime(2024, 5, 1, 22, 30))
    names = np.array(sg.StageScheme.named("aasm5").names)
    expert = tmp_path / "expert.txt"
    expert.write_text("\n".join(np.repeat(names[labels[::2]], 3)) + "\n")
    for options in ((), ("--align",)):
        line = error_line(run("compare", expert, night, *options))
        assert mentions(line, "expert.txt", "360 epochs", 240)
        assert mentions(line, "20 s", "fit")
        assert line.endswith("stageguard compare --align --expert-epoch-seconds SECONDS.")
    said = ("--expert-epoch-seconds", "20")
    assert mentions(error_line(run("compare", expert, night, *said)), "epochs", "last", "20 s", "30 s")
    own = run("compare", expert, night, "--align", *said, "--json").lines[0]["agreement"]["scored"]
    assert (own["n_epochs"], own["accuracy"]) == (360, 1.0)
    line = error_line(run("compare", night, expert, "--align"))
    assert mentions(line, "--epoch-seconds", "SECONDS")
    expert.write_text("\n".join(names[labels]) + "\n")
    assert run("compare", expert, night, "--json").lines[0]["agreement"]["scored"]["accuracy"] == 1.0


GOOD = ["W", "W", "N1", "N2", "N2", "N2", "N3", "N3", "R", "R", "W", "N2", "N2", "R", "R", "W"] * 5


@pytest.fixture
def panel(run, tmp_path, monkeypatch):
    """Three nights by three scorers who nearly agree, and one who scored something else."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for scorer, rate in (("anna", 0.1), ("ben", 0.1), ("carl", 0.1), ("dora", 1.0)):
        (tmp_path / scorer).mkdir()
        for number in range(3):
            changed = rng.random(len(GOOD)) < rate
            stages = np.where(changed, rng.choice(["W", "N1", "N2", "N3", "R"], len(GOOD)), GOOD)
            (tmp_path / scorer / f"n{number}.txt").write_text("\n".join(stages) + "\n")
    return ["anna", "ben", "carl", "dora"]


def merge(run, *files, to="merged.tsv"):
    return run("compare", *files, "--consensus", to, "--overwrite")


@pytest.mark.parametrize("method", ["soft-agreement", "majority"])
def test_several_experts_become_one_scoring(run, panel, method):
    files = [f"{scorer}/n0.txt" for scorer in panel]
    assert merge(run, *files, "--method", method).code == 0
    experts = [sg.read_hypnogram(path) for path in files]
    labels = sg.consensus(experts, method=method).labels
    assert np.array_equal(sg.read_hypnogram("merged.tsv").labels, labels)
    (told,) = merge(run, *files, "--method", method, "--json").lines
    assert told["n_unscored"] == np.count_nonzero(labels < 0)
    soft = [scorer["soft_agreement"] for scorer in told["scorers"]]
    assert soft == pytest.approx(soft_agreement(experts))
    line = error_line(run("compare", *files, "--consensus", "merged.tsv"))
    assert line.startswith("merged.tsv")
    assert mentions(error_line(merge(run, files[0])), "scorings")


def test_a_scorer_who_disagrees_with_all_is_named(run, panel):
    files = [f"{scorer}/n0.txt" for scorer in panel]
    assert mentions(merge(run, *files).out, "Disagrees with all", "dora/n0.txt")
    told = merge(run, *files, "--json").lines[0]["scorers"]
    assert [scorer["disagrees"] for scorer in told] == [False, False, False, True]
    assert told[3]["kappa_with_others"] < 0.2 < told[0]["kappa_with_others"]
    assert "Disagrees" not in merge(run, files[0], files[3]).out  # of two, none is the odd one


def test_a_folder_for_each_scorer_gives_many_nights(run, panel, tmp_path):
    (tmp_path / "anna" / "n9.txt").write_text("W\n")
    ran = merge(run, *panel, to="out")
    assert ran.code == 0, ran.err
    assert mentions(ran.out, "4 scorers", "3 nights")
    assert mentions(ran.out, "left", "n9")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["n0.tsv", "n1.tsv", "n2.tsv"]
    assert merge(run, *(f"{scorer}/n1.txt" for scorer in panel), to="one.tsv").code == 0
    assert (tmp_path / "one.tsv").read_text() == (tmp_path / "out" / "n1.tsv").read_text()
    assert mentions(run("compare", *panel, "--consensus", "out").err, "n0.tsv")
