"""A comparison with experts on nights that taught the profile says so, shows held-out figures, has no p."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner
from stageguard.measures.taught import held_out_words, taught_by, taught_words
from stageguard.profile.fingerprint import mark_of

BASE = "human-psg-3"
N_TAUGHT = 6


@pytest.fixture(scope="module")
def nights():
    return [sg.simulate_night(BASE, hours=3, seed=seed) for seed in range(N_TAUGHT + 2)]


@pytest.fixture(scope="module")
def profile(nights):
    taught = nights[:N_TAUGHT]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.StageGuardWarning)  # whether it steps aside is no matter here
        return sg.fit([n.expert for n in taught], [n.density for n in taught], base=BASE, name="lab")


@pytest.fixture
def run(capsys):
    return Runner(capsys)


@pytest.fixture
def folder(tmp_path, nights, profile):
    """Decoded nights, their experts, and the profile that all but two of them taught."""
    profile.save(tmp_path / "lab.toml")
    for name in ("nights", "experts"):
        (tmp_path / name).mkdir()
    for number, night in enumerate(nights):
        night.density.save(tmp_path / "nights" / f"n{number}.csv")
        night.expert.save(tmp_path / "experts" / f"n{number}.txt")
    return tmp_path


def decoded(night, profile):
    return sg.decode(night.density, profile)


def test_a_night_is_known_by_its_expert_and_by_its_argmax(nights, profile):
    for number, night in enumerate(nights):
        argmax = sg.Hypnogram(night.density.argmax, night.density.scheme, 30.0)
        is_taught = number < N_TAUGHT
        assert profile.was_taught_by(night.expert) is profile.was_taught_by(argmax) is is_taught
        assert not sg.Profile.load(BASE).was_taught_by(night.expert, argmax)
    five = sg.simulate_night("human-psg-5", hours=3, seed=1).expert
    assert profile.was_taught_by(five, None)  # merged, it is the expert of the same seed
    assert not profile.was_taught_by(nights[0].expert.merge("ws2"))


def test_marks_survive_the_file_and_another_fit(nights, profile, tmp_path):
    profile.save(tmp_path / "lab.toml")
    again = sg.Profile.load(tmp_path / "lab.toml")
    assert again.taught_by == profile.taught_by
    assert again.at_strength(0.5).was_taught_by(nights[0].expert)
    second = sg.fit([nights[-1].expert], base=again, name="second")
    assert all(second.was_taught_by(night.expert) for night in (nights[0], nights[-1]))
    counted = sg.recount([night.expert for night in nights[1:]], sg.Profile.load(BASE))
    assert counted.was_taught_by(nights[1].expert)
    assert not counted.was_taught_by(nights[0].expert)


def test_unscored_epochs_at_either_end_do_not_change_a_mark():
    labels = np.array([0, 1, -1, 2], dtype=np.int8)
    padded = np.concatenate([[-1, -1], labels, [-1]]).astype(np.int8)
    assert mark_of(labels) == mark_of(padded) != mark_of(np.array([0, 1, 2], dtype=np.int8))
    assert mark_of(padded[:2]) is None


@pytest.mark.parametrize("wrong", [["abc"], ["0" * 15 + "G"], "0" * 16, [3]])
def test_a_mark_has_sixteen_digits(profile, wrong):
    with pytest.raises(sg.ProfileError, match="taught_by"):
        profile.replace(taught_by=wrong)


def test_words_count_nights_and_show_held_out_figures(nights, profile):
    taught = taught_by(profile, nights[0].expert)
    rows = {row[0]: row[1] for row in profile.provenance["cross_validation"]["rows"]}
    held_out = held_out_words(profile)
    assert f"κ {rows[profile.provenance['chosen']]:.3f} (argmax {rows['argmax']:.3f})" in held_out
    error = np.mean(np.abs(profile.intervals["errors"]["tst_minutes"]))
    assert f"TST {error:.1f} min" in held_out
    assert taught_words([taught]).startswith("This night taught profile 'lab': ")
    assert taught_words([taught, taught]).startswith("These 2 nights taught profile 'lab': ")
    assert taught_words([taught, None]).startswith("1 of these 2 nights taught profile 'lab': ")
    assert taught_words([None]) == ""
    assert "no figures on other nights" in held_out_words(sg.Profile.load(BASE))


def another(expert):
    return sg.Hypnogram(np.roll(expert.labels, 1), expert.scheme, expert.epoch_seconds)


@pytest.mark.parametrize("compare", [sg.agreement, lambda e, d: sg.among_experts([e, another(e)], d)])
def test_python_warns(nights, profile, compare):
    with pytest.warns(sg.StageGuardWarning, match="This night taught profile 'lab'"):
        compare(nights[0].expert, decoded(nights[0], profile))
    compare(nights[-1].expert, decoded(nights[-1], profile))


def test_pages_say_so_first(nights, profile):
    both = {f"n{i}": decoded(nights[i], profile) for i in (0, N_TAUGHT)}
    experts = {name: nights[int(name[1:])].expert for name in both}
    page = sg.cohort_report(both, experts=experts)
    assert page.count("1 of these 2 nights taught profile &#39;lab&#39;") == 2  # on top, and beside the plots
    assert "taught profile" not in sg.cohort_report(both)
    assert "This night taught profile" in sg.night_report(both["n0"], expert=experts["n0"])
    assert "taught profile" not in sg.night_report(both["n6"], expert=experts["n6"])


def test_stats_says_so_first_and_tests_nothing(run, folder):
    arguments = ("--profile", folder / "lab.toml", "--expert", folder / "experts")
    ran = run("stats", folder / "nights", *arguments)
    assert ran.out.startswith("6 of these 8 nights taught profile 'lab': this is no test of it, and no p is")
    assert "improvement (%)\n" in ran.out
    assert "Wilcoxon" not in ran.out
    found = run("stats", folder / "nights", *arguments, "--json").json
    assert [night["taught"] for night in found["nights"]] == [True] * 6 + [False] * 2
    assert all(row["p"] is None for row in found["errors"])
    assert found["taught"].startswith("6 of these 8 nights")
    others = [folder / "nights" / f"n{number}.csv" for number in (6, 7)]
    found = run("stats", *others, *arguments, "--json").json
    assert "taught" not in found
    assert any(row["p"] is not None for row in found["errors"])


def test_outputs_of_decode_are_known_without_their_probabilities(run, folder):
    run("decode", folder / "nights", "-p", folder / "lab.toml", "-o", folder / "out")
    for file in (folder / "nights").iterdir():
        file.unlink()
    ran = run("compare", folder / "experts", folder / "out")
    assert ran.out.startswith("6 of these 8 nights taught profile 'lab': ")
    ran = run("compare", folder / "experts", folder / "out" / "n7.hypnogram.tsv")
    assert "taught" not in ran.out
    ran = run("report", folder / "out", "--expert", folder / "experts")
    assert "6 of these 8 nights taught profile" in (folder / "out" / "cohort.report.html").read_text()


def test_what_biases_steer_is_marked(nights):
    biased = sg.Profile.load(BASE).replace(
        calibration={"temperature": 1.0, "biases": {"W": 0.5, "N": 0.0, "R": 0.0}}
    )
    decoding = decoded(nights[0], biased)
    assert "totals" in decoding.steered
    assert "totals" not in decoded(nights[0], BASE).steered
    page = sg.night_report(decoding)
    assert "by the stage biases or shares of the profile" in page
