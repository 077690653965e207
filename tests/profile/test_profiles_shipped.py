"""The profiles that ship: what they promise, and that their numbers are the paper's or the counted ones."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import sys
import tomllib
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import stageguard as sg
from messages import mentions
from stageguard.pipeline import default_rules
from stageguard.profile.profile import FOLDER, Profile, profiles

STUDY = Path(__file__).parents[2] / "studies" / "expert-scorings"
FITTED = [
    "human-actigraphy-2",
    "human-bioradar-3",
    "human-cardiorespiratory-3",
    "human-psg-3",
    "human-psg-5",
    "mouse-eeg-emg-3",
]
PUBLISHED = ["kdd2026-actigraphy", "kdd2026-bioradar", "kdd2026-cardiorespiratory", "kdd2026-mouse-eeg-emg"]
# the authors' released rules, and rules carried over to stages that the paper does not have
CARRIED = [
    "kdd2026-psg-5",
    "released-2026-actigraphy",
    "released-2026-cardiorespiratory",
    "released-2026-mouse-eeg-emg",
    "released-2026-psg-5",
]

HUMAN = [name for name in FITTED + PUBLISHED if "mouse" not in name]

# The appendix table of the paper, rows and columns W, N, R.
PAPER_MATRICES = {
    "kdd2026-mouse-eeg-emg": ((0.912, 0.085, 0.003), (0.052, 0.831, 0.117), (0.078, 0.018, 0.904)),
    "kdd2026-cardiorespiratory": ((0.883, 0.113, 0.004), (0.064, 0.806, 0.130), (0.097, 0.026, 0.877)),
    "kdd2026-bioradar": ((0.871, 0.124, 0.005), (0.071, 0.793, 0.136), (0.103, 0.031, 0.866)),
}
PAPER_MINIMA = {
    "kdd2026-mouse-eeg-emg": {"W": 8.0, "N": 12.0, "R": 8.0},
    "kdd2026-cardiorespiratory": {"W": 30.0, "N": 60.0, "R": 60.0},
    "kdd2026-bioradar": {"W": 30.0, "N": 60.0, "R": 60.0},
    "kdd2026-actigraphy": {"W": 30.0, "S": 60.0},
}


@pytest.fixture(scope="module")
def results() -> dict:
    return json.loads((STUDY / "results.json").read_text(encoding="utf-8"))


def test_every_profile_loads_under_its_own_name_and_says_for_whom_it_is(tmp_path: Path) -> None:
    assert profiles() == sorted(FITTED + PUBLISHED + CARRIED)
    for profile in map(Profile.load, profiles()):
        profile.save(tmp_path / f"{profile.name}.toml")
        assert Profile.load(tmp_path / f"{profile.name}.toml") == profile
        for row in profile.transitions:
            assert math.isclose(sum(row), 1, abs_tol=1e-5) and min(row) > 0
        if profile.name not in CARRIED:
            assert profile.summary.endswith(".") and profile.intended_for.endswith(".")
            made = profile.provenance
            assert made["source"] and made["n_nights"] > 0 and made["n_subjects"] > 0


CAUTIONS = {  # cohort: action of fitted profiles; the paper's refuse whomever it excludes
    **dict.fromkeys(("narcolepsy", "SOREMP", "RBD", "REM sleep behaviour disorder"), "warn"),
    **dict.fromkeys(("infants", "neonatal"), "refuse"),
    **dict.fromkeys(("severe OSA", "severe fragmentation", "rat", "other epoch length"), "care"),
}


@pytest.mark.parametrize("name", FITTED + PUBLISHED)
def test_cohorts_are_refused_or_warned_of(name: str) -> None:
    profile = Profile.load(name)
    people = {"pediatric": "warn", "healthy adults": None, "controls": None} if name in HUMAN else {}
    for cohort, action in (CAUTIONS | people).items():
        caution = profile.caution_for(cohort)
        refused = name in PUBLISHED and action == "warn"
        expected = "refuse" if refused else "warn" if action == "care" else action
        assert (caution and caution.action) == expected, cohort
    if profile.clock is not None:  # early REM is the finding
        assert not any(profile.caution_for(said).clock for said in ("depressed", "MDD", "bipolar"))


# As people write them: British and American, singular and plural, abbreviated, with words around.
FRAGMENTED = {
    "sleep apnoea": (
        "CPAP", "apnea", "mild OSA", "OSAHS", "moderate-to-severe OSA", "CSA", "UARS",
        "sleep-disordered breathing", "sleep_apnea_patients", "apnoeics", "hypopnoea",
    ),
    "insomnia": ("Insomnia", "insomniacs", "insomnia disorder", "poor sleepers"),
    "periodic limb movements": ("PLMD", "RLS/PLMD", "restless leg", "Willis-Ekbom disease"),
    "RBD": ("iRBD", "REM sleep behavior disorder", "RSWA"),
    "neurodegeneration": ("Parkinson's disease", "parkinsonian", "PD", "Alzheimer’s", "MCI"),
    "severe fragmentation": ("fragmented sleep", "high arousal index", "epileptic", "PTSD", "ICU"),
    "narcolepsy": ("NT1", "narcoleptics", "idiopathic hypersomnia", "cataplexy", "IH"),
}  # fmt: skip


@pytest.mark.parametrize("name", FITTED + PUBLISHED)
@pytest.mark.parametrize("meant", FRAGMENTED)
def test_cohorts_whose_finding_is_fragmentation_are_cautioned_under_every_name(name: str, meant: str) -> None:
    profile = Profile.load(name)
    caution = profile.caution_for(meant)
    assert caution is not None
    assert caution.cohort == meant
    assert [said for said in FRAGMENTED[meant] if profile.caution_for(said) != caution] == []


@pytest.mark.parametrize("name", FITTED)
def test_labels_have_the_counted_shares_or_are_refused(name: str) -> None:
    labels, names = Profile.load(name).labels, Profile.load(name).scheme.names
    if name not in ("human-psg-5", "human-psg-3", "mouse-eeg-emg-3"):
        assert labels.shares is None and labels.refused
        return
    counted = json.loads((STUDY.parent / "label-shares" / "results.json").read_text("utf-8"))[name]
    assert labels.source and not labels.refused
    assert labels.shares == tuple(tuple(counted["shares"][said][stage] for stage in names) for said in names)
    for one in (one for stagers in counted["figures"].values() for one in stagers.values()):
        assert one["kappa p"] >= 0.05 or one["kappa gain"] > 0  # else it would have to be refused


# Published profiles


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_profile_has_the_paper_s_numbers(name: str) -> None:
    profile = Profile.load(name)
    assert (profile.stay, profile.ends, profile.transition_weight) == ("free", "paper", 1.0)
    assert profile.strength is None
    assert profile.rare_probability == 0.001
    flip_flop = profile.flip_flop
    assert (flip_flop.penalty_nats, flip_flop.window_epochs, flip_flop.method) == (2.0, 5, "greedy")
    assert dict(profile.min_bout_seconds) == PAPER_MINIMA[name]
    assert profile.epoch_seconds == (4.0 if "mouse" in name else 30.0)
    assert profile.provenance["doi"] == "10.1145/3770855.3818916"


@pytest.mark.parametrize("name", PAPER_MATRICES)
def test_published_three_stage_profile_has_the_printed_matrix_and_rare_pairs(name: str) -> None:
    profile = Profile.load(name)
    assert profile.scheme.names == ("W", "N", "R")
    assert profile.transitions == PAPER_MATRICES[name]
    assert [(p.source, p.target, p.probability) for p in profile.rare] == [
        ("W", "R", 0.001),
        ("R", "N", 0.001),
    ]
    assert profile.tvr_pairs == (("W", "R"), ("R", "N"))


def test_published_actigraphy_has_no_rare_pair_and_says_its_matrix_was_counted(results: dict) -> None:
    profile = Profile.load("kdd2026-actigraphy")
    assert profile.scheme.names == ("W", "S")
    assert profile.rare == ()
    counted = results["cohorts"]["sleep-accel"]["counts"]["ws2"]["transitions"]
    assert [list(row) for row in profile.transitions] == counted
    assert mentions(profile.provenance["transitions"], "not printed", "paper")


# The authors' released rules


def released_score(labels: tuple[int, ...], log_probabilities: np.ndarray, rules: dict) -> float:
    """Score of a path by the rules of the released code, written down from their description.

    Changes and stays cost nothing, rare changes 5 nats, and a bout that is left must have its minimum.
    Returning to the stage before within fewer than 5 epochs costs `flip_flop` nats.
    """
    score, before, length = log_probabilities[0, labels[0]], None, 1
    for t in range(1, len(labels)):
        score += log_probabilities[t, labels[t]]
        if labels[t] == labels[t - 1]:
            length += 1
            continue
        if length < rules["minimum"][labels[t - 1]]:
            return -math.inf
        score -= 5.0 * ((labels[t - 1], labels[t]) in rules["rare"])
        score -= rules["flip_flop"] * (labels[t] == before and length < 5)
        before, length = labels[t - 1], 1
    return score


@pytest.mark.filterwarnings("ignore::stageguard.StageGuardWarning")  # half of a made-up night is changed
@pytest.mark.parametrize(
    ("name", "flip_flop"),
    [
        ("released-2026-actigraphy", 2.0),
        # with three stages ours also charges for A-B-C-A, so the flip-flop is left out
        *((name, 0.0) for name in CARRIED if name.startswith("released") and "5" not in name),
    ],
)
def test_released_profile_decodes_the_best_path_of_the_released_rules(name: str, flip_flop: float) -> None:
    profile = Profile.load(name)
    stages = profile.scheme.names
    pairs = {(stages.index(p.source), stages.index(p.target)) for p in profile.rare}
    minimum = [round(profile.min_bout_seconds[s] / profile.epoch_seconds) for s in stages]
    rules = {"rare": pairs, "minimum": minimum, "flip_flop": flip_flop}
    if not flip_flop:
        profile = profile.replace(flip_flop=None)
    rng, n_changed = np.random.default_rng(7), 0
    for _ in range(12):
        rows = rng.dirichlet(np.full(len(stages), 0.6), 8)
        scores = {
            path: released_score(path, np.log(rows), rules)
            for path in itertools.product(range(len(stages)), repeat=8)
        }
        best = max(scores, key=scores.__getitem__)
        found = sg.decode(sg.Hypnodensity(rows, profile.scheme, profile.epoch_seconds), profile)
        labels = tuple(found.hypnogram.labels.tolist())
        n_changed += labels != tuple(rows.argmax(axis=1))
        assert labels == best
    assert n_changed > 5


def test_carried_profiles_have_the_papers_pairs_and_minimum_bouts_of_five_stages() -> None:
    for name in ("kdd2026-psg-5", "released-2026-psg-5"):
        profile = Profile.load(name)
        assert [(p.source, p.target) for p in profile.rare] == [
            ("W", "R"),
            *(("R", f"N{k}") for k in (1, 2, 3)),
        ]
        assert dict(profile.min_bout_seconds) == {"W": 30.0, **dict.fromkeys(("N1", "N2", "N3", "R"), 60.0)}
    assert Profile.load("kdd2026-psg-5").rare_probability == 0.001
    released = Profile.load("released-2026-psg-5")
    assert released.rare_probability == pytest.approx(math.exp(-5) / 5)
    assert {p for row in released.transitions for p in row} == {0.2}


# Fitted profiles


@pytest.mark.parametrize("name", FITTED)
def test_fitted_profile_follows_the_recipe_of_its_species(name: str) -> None:
    profile = Profile.load(name)
    rule = profile.strength
    assert rule is not None
    if profile.species == "mouse":
        assert (rule.rule, rule.floor, rule.cap) == ("band", 0.5, 2.0)
    else:
        above = 1.986 if name == "human-psg-3" else 1.5
        assert (rule.rule, rule.floor, rule.act_above, rule.soft) == ("target", 0.5, above, 0.6)
        assert (rule.stager_fi, rule.typical, rule.exponent) == (None, 1.75, 0.5)
    assert profile.transition_weight is None
    assert (profile.stay, profile.ends) == ("self", "censored")
    assert profile.rare == ()
    assert profile.flip_flop.penalty_nats == 0
    assert not profile.min_bout_seconds


@pytest.mark.parametrize("name", FITTED + PUBLISHED)
def test_people_whose_rem_is_scored_have_rems_clock(name: str, results: dict) -> None:
    profile = Profile.load(name)
    if name in PUBLISHED or profile.species != "human" or profile.scheme.rem is None:
        assert profile.clock is None
        return
    clock = profile.clock
    assert (clock.weight, clock.spare_minutes, clock.restart_wake_minutes) == (0.75, 8.0, 60.0)
    assert clock.horizon_minutes == 40.0
    curve = results["clock"][profile.scheme.name]["curves"]["R"]
    assert dict(clock.curves) == {"R": tuple(curve[:9])}
    shares = dict(zip(range(0, 485, 5), (math.exp(nats) for nats in curve), strict=True))
    assert shares[0] < 0.03 and shares[15] < 0.03 and shares[30] < 0.05  # method: 2 %, 2 %, 5 %
    assert 0.4 < shares[60] < 0.8 and 0.9 < shares[90] < 1.3
    for cohort in ("narcolepsy", "MSLT", "naps", "shift work"):
        assert profile.for_nights_of(None, cohort).clock is None
    assert profile.for_nights_of(None, "adults").clock is not None


@pytest.mark.parametrize("name", FITTED)
def test_fitted_profile_counts_the_uncommon_pairs_of_its_species(name: str) -> None:
    pairs = {
        "human-psg-5": (("W", "R"), ("W", "N3"), ("N1", "N3"), ("R", "N3"), ("N3", "R")),
        "human-actigraphy-2": (),
        "mouse-eeg-emg-3": (("W", "R"), ("R", "N")),
    }
    assert Profile.load(name).tvr_pairs == pairs.get(name, (("W", "R"),))


@pytest.mark.parametrize("name", FITTED)
def test_bands_are_two_sided_sourced_and_hold_the_target(name: str) -> None:
    profile = Profile.load(name)
    stages = profile.scheme.names
    expected = {"fragmentation_index", "transitions_per_hour", "flips_per_hour"}
    expected |= {f"{key}_{s}" for key in ("one_epoch_bouts_percent", "mean_bout_minutes") for s in stages}
    expected |= {"tvr_percent"} if profile.tvr_pairs else set()
    assert set(profile.bands) == expected
    for band in profile.bands.values():
        assert 0 <= band.low < band.high
        assert band.source
        assert band.unit
    fi, per_hour = profile.bands["fragmentation_index"], profile.bands["transitions_per_hour"]
    assert profile.strength is not None
    assert fi.low < profile.strength.fi_target < fi.high
    assert math.isclose(per_hour.high, fi.high * 3600 / profile.epoch_seconds, rel_tol=1e-3)


@pytest.mark.parametrize("name", FITTED + PUBLISHED)
def test_human_profiles_have_the_counted_shares_of_every_cohort(name: str, results: dict) -> None:
    profile = Profile.load(name)
    if name in PUBLISHED or profile.species == "mouse" or profile.scheme.n_stages == 2:
        assert profile.shares is None
        return
    counted = results["shares"][profile.scheme.name]
    assert list(profile.shares.cohorts) == ["dod-h", "dod-o", "sleep-edf", "sleep-accel", "slpdb"]
    assert profile.shares.repair is None
    for cohort, table in profile.shares.cohorts.items():
        assert math.isclose(sum(mean for mean, _ in table), 1.0, abs_tol=1e-3)
        for pair, own in zip(table, counted[cohort]["mean_and_sd"].values(), strict=True):
            assert pair == pytest.approx(own, abs=1e-4)


@pytest.mark.parametrize("name", FITTED + PUBLISHED)
def test_fitted_profile_has_the_counted_joint_score_of_its_bands(name: str, results: dict) -> None:
    profile = Profile.load(name)
    if name in PUBLISHED:
        assert profile.joint is None
        return
    counted = results["profiles"][name]["joint"]
    mouse = profile.species == "mouse"
    assert counted["sources"] == (
        ["mouse/lab 1", "mouse/lab 2", "mouse/lab 3"] if mouse else ["dod-h", "dod-o", "sleep-edf"]
    )
    left_out = {"transitions_per_hour"}  # FI once more
    if profile.scheme.n_stages == 2:  # what tells flicker from experts poorly
        left_out |= {"flips_per_hour", "one_epoch_bouts_percent_W", "mean_bout_minutes_W"}
    assert set(profile.joint.indicators) == set(profile.bands) - left_out
    assert math.isclose(profile.joint.threshold, counted["threshold"], rel_tol=1e-3)
    for key, (centre, scale) in counted["indicators"].items():
        assert math.isclose(profile.joint.indicators[key].centre, centre, rel_tol=1e-3)
        assert math.isclose(profile.joint.indicators[key].scale, scale, rel_tol=1e-3)


@pytest.mark.parametrize("name", FITTED)
def test_provenance_adds_up_and_cites_every_cohort(name: str) -> None:
    provenance = Profile.load(name).provenance
    cohorts = provenance["cohorts"]
    assert sum(cohort["n_nights"] for cohort in cohorts.values()) == provenance["n_nights"]
    assert sum(cohort["n_subjects"] for cohort in cohorts.values()) == provenance["n_subjects"]
    assert all(cohort["citation"] for cohort in cohorts.values())


# Numbers against their source


@pytest.mark.parametrize("name", FITTED)
def test_numbers_of_a_fitted_profile_are_the_counted_ones(name: str, results: dict) -> None:
    profile, counted = Profile.load(name), results["profiles"][name]
    assert [list(row) for row in profile.transitions] == counted["transitions"]
    assert profile.strength is not None
    assert profile.strength.fi_target == round(counted["fi_target"], 4)
    assert set(profile.bands) == set(counted["bands"])
    for key, (low, high) in counted["bands"].items():
        assert math.isclose(profile.bands[key].low, low, rel_tol=1e-3)
        assert math.isclose(profile.bands[key].high, high, rel_tol=1e-3)


def test_shipped_files_are_what_the_writer_writes(results: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(STUDY)
    with patch.dict(sys.modules):
        for name in ("toml_text", "tables", "cohorts", "count"):  # scripts import each other by name
            sys.modules.pop(name, None)
        texts = importlib.import_module("write_profiles").all_profiles(results)
    for name, text in texts.items():
        shipped = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
        assert tomllib.loads(text) == shipped, f"{name}: run write_profiles.py"


def test_keys_and_not_names_say_species_and_origin():
    loaded = [Profile.load(name) for name in profiles()]
    assert {p.name for p in loaded if p.species == "mouse"} == {
        *("mouse-eeg-emg-3", "kdd2026-mouse-eeg-emg", "released-2026-mouse-eeg-emg")
    }
    assert [p.name for p in loaded if p.reproduces_paper] == [n for n in profiles() if "2026" in n]
    paper = Profile.load("kdd2026-bioradar").replace(name="our lab")
    assert default_rules(paper) == "kdd2026"
    assert default_rules(paper.replace(name="kdd2026", reproduces_paper=None)) == "graded"
