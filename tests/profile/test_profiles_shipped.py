"""The profiles that ship: what they promise, and that their numbers are the paper's or the counted ones."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

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
def study() -> Iterator[dict[str, ModuleType]]:
    """The study's scripts, which import each other by name as scripts do."""
    names = ("toml_text", "tables", "cohorts", "count", "write_profiles")
    before = {name: sys.modules.pop(name, None) for name in names}
    sys.path.insert(0, str(STUDY))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(STUDY))
        for name in names:
            sys.modules.pop(name, None)
            if before[name] is not None:
                sys.modules[name] = before[name]


@pytest.fixture(scope="module")
def results() -> dict:
    return json.loads((STUDY / "results.json").read_text(encoding="utf-8"))


def test_these_profiles_ship() -> None:
    assert profiles() == sorted(FITTED + PUBLISHED + CARRIED)


@pytest.mark.parametrize("name", FITTED + PUBLISHED + CARRIED)
def test_profile_loads_under_its_own_name_and_survives_a_round_trip(name: str, tmp_path: Path) -> None:
    profile = Profile.load(name)
    assert profile.name == name
    profile.save(tmp_path / "copy.toml")
    assert Profile.load(tmp_path / "copy.toml") == profile


@pytest.mark.parametrize("name", FITTED + PUBLISHED + CARRIED)
def test_rows_sum_to_one_and_no_switch_is_forbidden(name: str) -> None:
    for row in Profile.load(name).transitions:
        assert math.isclose(sum(row), 1, abs_tol=1e-5)
        assert min(row) > 0


@pytest.mark.parametrize("name", FITTED + PUBLISHED)
def test_profile_says_for_whom_it_is_and_where_it_comes_from(name: str) -> None:
    profile = Profile.load(name)
    assert profile.summary.endswith(".")
    assert profile.intended_for.endswith(".")
    assert profile.provenance["source"]
    assert profile.provenance["n_nights"] > 0
    assert profile.provenance["n_subjects"] > 0


@pytest.mark.parametrize("name", FITTED + PUBLISHED + CARRIED)
def test_no_word_names_two_cautions(name: str) -> None:
    words = [w.casefold() for c in Profile.load(name).not_for for w in (c.cohort, *c.aliases)]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("name", FITTED + PUBLISHED)
@pytest.mark.parametrize(
    ("cohort", "refused_by_fitted"),
    [
        ("narcolepsy", False),
        ("SOREMP", False),
        ("RBD", False),
        ("REM sleep behaviour disorder", False),
        ("infants", True),
        ("neonatal", True),
    ],
)
def test_checklist_refuses_what_the_paper_excludes(name: str, cohort: str, refused_by_fitted: bool) -> None:
    caution = Profile.load(name).caution_for(cohort)
    assert caution is not None
    assert caution.action == ("refuse" if name in PUBLISHED or refused_by_fitted else "warn")


@pytest.mark.parametrize("name", FITTED + PUBLISHED)
@pytest.mark.parametrize("cohort", ["severe OSA", "severe fragmentation", "rat", "other epoch length"])
def test_checklist_warns_where_results_need_care(name: str, cohort: str) -> None:
    caution = Profile.load(name).caution_for(cohort)
    assert caution is not None
    assert caution.action == "warn"


@pytest.mark.parametrize("name", HUMAN)
def test_children_are_cautioned_and_ordinary_adults_are_not(name: str) -> None:
    profile = Profile.load(name)
    caution = profile.caution_for("pediatric")
    assert caution is not None
    assert caution.action == ("refuse" if name in PUBLISHED else "warn")
    for cohort in ("healthy adults", "controls", "adults"):
        assert profile.caution_for(cohort) is None


# As people write them: British and American, singular and plural, abbreviated, with words around.
FRAGMENTED = {
    "sleep apnoea": (
        "CPAP", "COMISA",
        "apnoea", "apnea", "Sleep Apnea", "mild OSA", "OSA", "OSAS", "OSAHS", "obstructive sleep apnoea",
        "moderate-to-severe OSA", "severe apnoea", "central sleep apnea", "CSA", "SDB", "UARS", "apneic",
        "sleep-disordered breathing", "sleep_apnea_patients", "apnoeics", "hypopnoea",
    ),
    "insomnia": ("Insomnia", "insomniacs", "chronic insomnia", "insomnia disorder", "poor sleepers"),
    "periodic limb movements": (
        "PLMD", "PLMS", "PLM", "RLS", "RLS/PLMD", "restless legs syndrome", "restless leg",
        "periodic limb movement disorder", "periodic leg movements", "Willis-Ekbom disease",
    ),
    "RBD": ("iRBD", "REM sleep behavior disorder", "REM sleep behaviour disorder", "RSWA"),
    "neurodegeneration": (
        "Parkinson", "Parkinson's disease", "parkinsonian", "PD", "Alzheimer’s", "dementia", "MCI", "DLB",
        "MSA",
    ),
    "severe fragmentation": (
        "fragmented sleep", "sleep fragmentation", "high arousal index", "epilepsy", "epileptic", "PTSD",
        "chronic pain", "fibromyalgia", "ICU",
    ),
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


@pytest.mark.parametrize("name", ["human-psg-5", "human-psg-3", "human-cardiorespiratory-3"])
@pytest.mark.parametrize("cohort", ["depression", "depressed", "MDD", "major depressive disorder", "bipolar"])
def test_clock_stops_where_early_rem_is_the_finding(name: str, cohort: str) -> None:
    caution = Profile.load(name).caution_for(cohort)
    assert caution is not None
    assert not caution.clock


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


@pytest.mark.parametrize("name", [name for name in FITTED if name != "mouse-eeg-emg-3"])
def test_experts_of_a_cohort_that_was_not_counted_pass(name: str, results: dict) -> None:
    joint = results["profiles"][name]["joint"]
    assert max(joint["flagged_if_left_out_percent"].values()) <= 12.0
    for cohort, percent in joint["flagged_never_counted_percent"].items():
        assert percent < joint["outside_a_band_percent"][cohort]


@pytest.mark.parametrize("name", FITTED)
def test_target_is_near_the_fragmentation_its_own_transitions_imply(name: str) -> None:
    """A stationary chain with these transitions changes stage about as often as the experts do."""
    profile = Profile.load(name)
    shares = [1 / len(profile.transitions)] * len(profile.transitions)
    for _ in range(5000):
        columns = zip(*profile.transitions, strict=True)
        shares = [sum(s * p for s, p in zip(shares, column, strict=True)) for column in columns]
    implied = sum(
        s * (1 - row[i]) for i, (s, row) in enumerate(zip(shares, profile.transitions, strict=True))
    )
    assert profile.strength is not None
    assert 0.5 < implied / profile.strength.fi_target < 2


@pytest.mark.parametrize("name", FITTED)
def test_provenance_adds_up_and_cites_every_cohort(name: str) -> None:
    provenance = Profile.load(name).provenance
    cohorts = provenance["cohorts"]
    assert sum(cohort["n_nights"] for cohort in cohorts.values()) == provenance["n_nights"]
    assert sum(cohort["n_subjects"] for cohort in cohorts.values()) == provenance["n_subjects"]
    assert all(cohort["citation"] for cohort in cohorts.values())


def test_profile_for_radar_says_that_no_radar_was_at_hand() -> None:
    assert "No radar" in Profile.load("human-bioradar-3").provenance["modality"]


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


def test_shipped_files_are_what_the_writer_writes(study: dict[str, ModuleType], results: dict) -> None:
    for name, text in study["write_profiles"].all_profiles(results).items():
        shipped = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
        assert tomllib.loads(text) == shipped, f"{name}: run write_profiles.py"


def test_counts_never_span_a_gap_and_cut_bouts_are_left_out(study: dict[str, ModuleType]) -> None:
    import numpy as np

    count = study["count"]
    labels = np.array([0, 0, 1, 2, -1, 2, 1, 1, 0, 1])
    pairs = count.pair_counts(labels, 3)
    assert pairs.tolist() == [[1, 2, 0], [1, 1, 1], [0, 1, 0]]
    stages, lengths = count.complete_bouts(labels)
    assert list(zip(stages.tolist(), lengths.tolist(), strict=True)) == [(1, 1), (1, 2), (0, 1)]


def test_minimum_is_supported_only_if_every_scorer_keeps_to_it(study: dict[str, ModuleType]) -> None:
    def scorer(percent_below_two: float, n_bouts: int = 100) -> dict:
        shorter = {str(m): [percent_below_two if m == 2 else 50.0] for m in range(2, 9)}
        return {"stages": ["R"], "n_complete_bouts": [n_bouts], "shorter_percent": shorter}

    supported = study["count"].supported_minimum
    assert supported([scorer(9.0), scorer(10.0)]) == [2]
    assert supported([scorer(9.0), scorer(10.1)]) == [1]
    assert supported([scorer(9.0), scorer(90.0, n_bouts=5)]) == [2]  # too few bouts to tell


def test_threshold_holds_nine_of_ten_nights_scored_by_the_other_cohorts(study: dict[str, ModuleType]) -> None:
    import numpy as np

    rng, count = np.random.default_rng(3), study["count"]
    sizes, weights = {"a": 50, "b": 30, "c": 40}, {"a": 0.2, "b": 1.0, "c": 1.0}
    nights = {}
    for shift, (name, n_nights) in enumerate(sizes.items()):
        values = rng.normal(shift * 0.3, 1 + 0.2 * shift, (2, n_nights))
        values[1, :5] = np.nan  # a stage that these nights do not have
        nights[name] = {"x": values[0], "y": values[1]}, np.full(n_nights, weights[name])
    scores, night_weights = [], []
    for name, (own, weight) in nights.items():
        others = [figures for other, (figures, _) in nights.items() if other != name]
        squares = []
        for key in ("x", "y"):
            means = [values[~np.isnan(values)].mean() for values in (o[key] for o in others)]
            within = [values[~np.isnan(values)].var(ddof=1) for values in (o[key] for o in others)]
            between = (means[0] - means[1]) ** 2 / 2
            z = (own[key] - sum(means) / 2) / math.sqrt(sum(within) / 2 + between)
            squares.append(z**2)
        existing = np.isfinite(squares).sum(axis=0)
        scores += np.sqrt(np.nansum(squares, axis=0) / existing).tolist()
        night_weights += weight.tolist()
    expected = np.percentile(scores, 90, weights=night_weights, method="inverted_cdf")
    assert math.isclose(count.joint_threshold(nights), float(expected), rel_tol=1e-12)
    held = np.array(scores) <= expected
    assert 0.9 <= np.average(held, weights=night_weights) < 0.92


def test_the_study_and_the_package_score_a_night_alike(study: dict[str, ModuleType]) -> None:
    import numpy as np

    import stageguard as sg

    count, labels = study["count"], sg.simulate_night("human-psg-5", seed=4).expert.labels.astype(int)
    profile = Profile.load("human-psg-5")
    scoring = study["cohorts"].Scoring("sleep-edf", "", "s", "n", labels)
    figures, weights = count.joint_nights([scoring], "aasm5", profile.joint.indicators)
    scales = {key: (s.centre, s.scale) for key, s in profile.joint.indicators.items()}
    (score,) = count.joint_scores(figures, scales)
    night = sg.Hypnogram(labels.astype(np.int8), "aasm5", 30.0)
    assert weights.tolist() == [1.0]
    assert math.isclose(score, sg.validity(night, profile).joint.value, rel_tol=1e-9)


@pytest.mark.parametrize("cohort", ["dod-h", "sleep-accel", "slpdb", "mouse"])
def test_real_scorings_of_a_cohort_give_its_committed_counts(
    cohort: str, study: dict[str, ModuleType], results: dict, data_dir: Path
) -> None:
    count, readers = study["count"], study["cohorts"]
    scorings = list(getattr(readers, f"read_{cohort.replace('-', '_')}")(data_dir))
    assert_same(plain(count.tidy(count.count_cohort(cohort, scorings))), results["cohorts"][cohort])


@pytest.mark.slow
def test_real_scorings_give_all_committed_results(
    study: dict[str, ModuleType], results: dict, data_dir: Path
) -> None:
    pytest.importorskip("pyarrow", reason="Sleep-EDF's scorings come in a Parquet file")
    count, readers = study["count"], study["cohorts"]
    counted = count.count_all(readers.read_all(data_dir))
    counted["windows"] = count.sleep_edf_windows(data_dir)
    assert_same(plain(counted), results)


def test_experts_contradict_the_published_rare_pairs_in_humans(results: dict) -> None:
    """Why no human profile discourages REM to NREM: it is how half of all REM bouts end."""
    for name, cohort in results["cohorts"].items():
        exits = cohort["counts"]["wnr3"]["exits_percent"]
        rem_to_nrem, wake_to_rem = exits[2][1], exits[0][2]
        if name == "mouse":
            assert rem_to_nrem < 10
            assert wake_to_rem < 1
        else:
            assert rem_to_nrem > 45
            assert 1 < wake_to_rem < 10


def plain(tree: dict) -> dict:
    """A tree as it is after a trip through JSON."""
    return json.loads(json.dumps(tree))


def assert_same(found: object, expected: object, where: str = "results") -> None:
    """Equal trees, numbers to five digits."""
    if isinstance(expected, dict):
        assert isinstance(found, dict)
        assert set(found) == set(expected), where
        for key, value in expected.items():
            assert_same(found[key], value, f"{where}.{key}")
    elif isinstance(expected, list):
        assert isinstance(found, list)
        assert len(found) == len(expected), where
        for place, value in enumerate(expected):
            assert_same(found[place], value, f"{where}[{place}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-5), where
    else:
        assert found == expected, where


def test_keys_and_not_names_say_species_and_origin():
    loaded = [Profile.load(name) for name in profiles()]
    assert {p.name for p in loaded if p.species == "mouse"} == {
        *("mouse-eeg-emg-3", "kdd2026-mouse-eeg-emg", "released-2026-mouse-eeg-emg")
    }
    assert [p.name for p in loaded if p.reproduces_paper] == [n for n in profiles() if "2026" in n]
    paper = Profile.load("kdd2026-bioradar").replace(name="our lab")
    assert default_rules(paper) == "kdd2026"
    assert default_rules(paper.replace(name="kdd2026", reproduces_paper=None)) == "graded"
