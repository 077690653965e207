"""Every wrong thing in a profile, and the one line it is answered with."""

from __future__ import annotations

import copy
import datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents import FULL, MINIMAL
from messages import mentions
from stageguard.errors import ProfileError
from stageguard.profile.profile import Profile
from stageguard.profile.schema import KEYS

STAGES = "Known: W, N, R."
REQUIRED = "Required: name, scheme, epoch_seconds, transitions."
TABLE = "expected a table of keys and values."
LIST = "expected a list in square brackets."
TEXT = "expected text in quotes."
FREE = "expected text, a number, true, false, a list or a table. Write it as text, in quotes."
UNIT = "expected a number from 0 to 1."
INF, NAN = float("inf"), float("nan")
EITHER = "exclude each other. Keep one of them."
BAND_ONLY = "is given, but only rule = 'band' or 'target' has it. Drop it."
REMOVED = object()


def complaint(path, value, base=MINIMAL):
    """Return what is said about a document with one entry set, or removed."""
    document = copy.deepcopy(base)
    *parents, key = path if isinstance(path, tuple) else (path,)
    table = document
    for parent in parents:
        table = table.setdefault(parent, {})
    if value is REMOVED:
        del table[key]
    else:
        table[key] = value
    with pytest.raises(ProfileError) as caught:
        Profile.from_dict(document)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("document", [None, 3, "name", ["name"], [("name", "x")]])
def test_what_is_no_mapping_is_no_profile(document):
    with pytest.raises(ProfileError) as caught:
        Profile.from_dict(document)
    assert str(caught.value) == f"a profile is {document!r}, {TABLE}"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("name", ("key 'name' is missing.", REQUIRED)),
        ("scheme", ("'scheme'", "'stages'", REQUIRED)),
        ("epoch_seconds", ("key 'epoch_seconds' is missing.", REQUIRED)),
        ("transitions", ("key 'transitions' is missing.", REQUIRED)),
        (("transitions", "R"), ("'R'", "W, N, R")),
        (("prior", "N"), ("'N'", "W, N, R")),
        (("strength", "rule"), ("'rule'",)),
        (("strength", "fi_target"), ("'fi_target'",)),
        (("bands", "tvr_percent", "low"), ("'low'", "bands.tvr_percent")),
        (("bands", "tvr_percent", "high"), ("'high'", "bands.tvr_percent")),
        (("joint", "threshold"), ("'threshold'",)),
        (("joint", "indicators"), ("'indicators'",)),
        (
            ("joint", "indicators", "tvr_percent", "scale"),
            ("'scale'", "joint.indicators.tvr_percent"),
        ),
    ],
)
def test_missing_keys_are_named(path, message):
    assert mentions(complaint(path, REMOVED, FULL), *message)


@pytest.mark.parametrize("key", ["cohort", "reason"])
def test_caution_needs_a_cohort_and_a_reason(key):
    caution = {"cohort": "a", "reason": "b"}
    del caution[key]
    assert complaint("not_for", [caution]) == f"key {key!r} is missing in not_for[0]."


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("min_bout_secs", ("'min_bout_secs'", "'min_bout_seconds'")),
        ("Transitions_", ("'Transitions_'", "'transitions'")),
        (("flip_flop", "penalty"), ("'penalty'", "flip_flop", "'penalty_nats'")),
        (("flip_flop", "k"), ("'k'", "flip_flop", "penalty_nats", "window_epochs")),
        (("strength", "target"), ("'target'", "'fi_target'")),
        (("calibration", "temp"), ("'temp'",)),
        (("bands", "tvr"), ("unknown key 'tvr' in bands.",)),
        (("joint", "indicators", "tvr"), ("unknown key 'tvr' in joint.indicators.",)),
        (("joint", "treshold"), ("'treshold'", "'threshold'")),
        (("bands", "mean_bout_minutes_N2"), ("unknown key 'mean_bout_minutes_N2' in bands.",)),
        (("bands", "tvr_percent", "hi"), ("'hi'", "bands.tvr_percent", "'high'")),
        (3, ("profile", 3, TEXT)),
        (("provenance", 3), ("provenance", 3, TEXT)),
    ],
)
def test_unknown_keys_suggest_the_nearest_or_list_the_known(path, message):
    assert mentions(complaint(path, 1, FULL), *message)


def test_unknown_key_without_a_near_one_lists_all():
    assert mentions(complaint("zzz", 1), "'zzz'", ", ".join(KEYS))


def test_unknown_key_in_a_caution_suggests_the_nearest():
    caution = {"cohort": "a", "reason": "b", "alias": ["c"]}
    assert complaint("not_for", [caution]) == "unknown key 'alias' in not_for[0]. Did you mean 'aliases'?"


@pytest.mark.parametrize(
    ("path", "where"),
    [
        (("min_bout_seconds", "N2"), "min_bout_seconds"),
        (("transitions", "N2"), "transitions"),
        (("transitions", "W", "N2"), "transitions.W"),
        (("prior", "N2"), "prior"),
        (("calibration", "biases", "N2"), "calibration.biases"),
        (("durations", "N2"), "durations"),
    ],
)
def test_unknown_stage_is_named_wherever_it_stands(path, where):
    expected = f"{where}: 'N2' is not a stage of scheme 'wnr3'. {STAGES} Did you mean 'N'?"
    assert complaint(path, 0.1, FULL) == expected


@pytest.mark.parametrize("key", ["rare", "tvr_pairs"])
@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (["W", "REM"], f": 'REM' is not a stage of scheme 'wnr3'. {STAGES} Did you mean 'R'?"),
        (["zzz", "R"], f": 'zzz' is not a stage of scheme 'wnr3'. {STAGES}"),
        ([3, "R"], f": 3 is not a stage of scheme 'wnr3'. {STAGES}"),
        (["W", "W"], " goes from 'W' to itself, expected two different stages."),
        ("WR", f" is 'WR', {LIST}"),
        (["W"], " is ['W'], expected [from, to]"),
        (["W", "R", 0.1, 0.2], " is ['W', 'R', 0.1, 0.2], expected [from, to]"),
    ],
)
def test_bad_pairs_are_named_by_place(key, pair, message):
    got = complaint(key, [["N", "R"], pair])
    assert got.startswith(f"{key}[1]{message}")


def test_pair_forms_and_repeats():
    assert complaint("rare", [["W"]]).endswith("expected [from, to] or [from, to, probability].")
    assert (
        complaint("tvr_pairs", [["W", "R", 0.1]]) == "tvr_pairs[0] is ['W', 'R', 0.1], expected [from, to]."
    )
    assert mentions(complaint("rare", [["W", "R"], ["W", "R", 0.1]]), "lists", "W", "twice")
    assert mentions(complaint("tvr_pairs", [["W", "R"], ["W", "R"]]), "tvr_pairs", "W")
    assert complaint("rare", {"W": "R"}) == f"rare is {{'W': 'R'}}, {LIST}"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("transitions", "W"), {"W": 0.5, "N": 0.4}, ("transitions.W", "0.9", 1, "0.001")),
        (("transitions", "N", "N"), 1.0, ("transitions.N", "1.03", 1, "0.001")),
        (("prior", "N"), 0.5, ("0.9", 1, "0.001")),
        (
            ("durations", "R"),
            [0.6, 0.6],
            ("durations.R", "1.2", 1),
        ),
    ],
)
def test_wrong_sums_say_the_sum(path, value, message):
    assert mentions(complaint(path, value, FULL), *message)


@pytest.mark.parametrize("deviation", [9e-4, -9e-4])
def test_sums_may_miss_1_by_rounding(deviation):
    row = {"W": 0.5, "N": 0.5 + deviation}
    assert Profile.from_dict({**MINIMAL, "transitions": {**MINIMAL["transitions"], "N": row}})


NUMBERS = {  # every number of a profile: a value that is fine, and one out of its range with what is said
    ("epoch_seconds",): (20, 0, "expected a number from 0.001 to 86400."),
    ("transition_weight",): (0, -0.1, "expected a number from 0 to 1000."),
    ("prior_exponent",): (0, -1, "expected at least 0."),
    ("prior", "W"): (0.2, 0, "expected a number above 0."),
    ("rare_probability",): (1, 1.5, UNIT),
    ("min_bout_seconds", "R"): (0.1, -60, "expected a number above 0."),
    ("min_bout_seconds", "W"): (0.1, 0, "expected a number above 0."),
    ("flip_flop", "penalty_nats"): (0, -2.0, "expected a number from 0 to 1000."),
    ("strength", "fi_target"): (1, 0, "expected a number above 0."),
    ("strength", "floor"): (1, 1.5, UNIT),
    ("strength", "cap"): (1, 0.5, "expected at least 1."),
    ("transitions", "W", "W"): (0.883, -0.1, UNIT),
    ("transitions", "R", "N"): (0.03, 1.1, UNIT),
    ("calibration", "temperature"): (9, 0, "expected a number from 0.01 to 100."),
    ("calibration", "biases", "W"): (-9, 1e6, "expected a number from -1000 to 1000."),
    ("bands", "tvr_percent", "low"): (-9, None, None),
    ("bands", "tvr_percent", "high"): (9, None, None),
}


def base_for(path):
    if path == ("transition_weight",):
        return {key: value for key, value in FULL.items() if key != "strength"}
    return FULL


@pytest.mark.parametrize("path", NUMBERS, ids=".".join)
def test_every_number_has_its_range(path):
    fine, wrong, message = NUMBERS[path]
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        complaint(path, fine, base_for(path))
    if message is not None:
        assert complaint(path, wrong, base_for(path)) == f"{'.'.join(path)} is {wrong}, {message}"


@pytest.mark.parametrize("path", NUMBERS, ids=".".join)
@pytest.mark.parametrize("value", [True, False, "1", None, [1], {}, 1j, Decimal("0.5"), np.True_], ids=repr)
def test_what_is_no_number_is_refused_everywhere(path, value):
    assert complaint(path, value, base_for(path)) == f"{'.'.join(path)} is {value!r}, expected a number."


@pytest.mark.parametrize("path", NUMBERS, ids=".".join)
@pytest.mark.parametrize("value", [NAN, INF, -INF, np.float32("inf")], ids=repr)
def test_what_is_not_finite_is_refused_everywhere(path, value):
    assert mentions(complaint(path, value, base_for(path)), ".".join(path), f"{value!r}", "finite")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], ("durations.R", "empty", 1, 2)),
        (
            [0.5, 0.0],
            ("durations.R", 0, 0, "carries"),
        ),
        ([0.5, -0.1], ("durations.R[1] is -0.1", UNIT)),
        ([True], ("durations.R", 0, "True")),
        (0.5, ("durations.R is 0.5", LIST)),
    ],
)
def test_bad_duration_tables(value, message):
    assert mentions(complaint(("durations", "R"), value), *message)


def test_duration_table_needs_a_way_out_of_its_stage():
    document = {**MINIMAL, "transitions": {**MINIMAL["transitions"], "R": {"R": 1}}}
    expected = "durations.R says how bouts end, but transitions.R has no way out of it."
    assert complaint(("durations", "R"), [0.5], document) == expected


@pytest.mark.parametrize("value", [1, 61, 0, -5, 5.0, "5", True, None, NAN])
def test_flip_flop_window_is_a_whole_number_in_range(value):
    expected = f"flip_flop.window_epochs is {value!r}, expected a whole number from 2 to 60."
    assert complaint(("flip_flop", "window_epochs"), value) == expected


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("stay", "expected 'self' or 'free'."),
        ("ends", "expected 'censored' or 'paper'."),
        ("scheme", "expected 'aasm5' or 'wldr4' or 'wnr3' or 'ws2'."),
        (("strength", "rule"), "expected 'band' or 'match' or 'target'."),
        (("flip_flop", "method"), "expected 'greedy' or 'exact'."),
    ],
)
@pytest.mark.parametrize("value", ["zzz", "", 3, None, ["self"]], ids=repr)
def test_choices_list_their_options(path, message, value):
    where = path if isinstance(path, str) else ".".join(path)
    assert complaint(path, value, FULL) == f"{where} is {value!r}, {message}"


def test_choices_suggest_the_nearest():
    assert complaint("stay", "Self") == "stay is 'Self', expected 'self' or 'free'. Did you mean 'self'?"
    assert complaint("not_for", [{"cohort": "a", "reason": "b", "action": "refused"}]) == (
        "not_for[0].action is 'refused', expected 'warn' or 'refuse'. Did you mean 'refuse'?"
    )


@pytest.mark.parametrize("key", ["name", "summary", "intended_for"])
def test_words_are_text(key):
    assert complaint(key, 3) == f"{key} is 3, {TEXT}"
    assert mentions(complaint(key, "\ud800"), key, "'\\ud800'", "UTF-8")


def test_name_and_cautions_are_not_empty():
    assert mentions(complaint("name", " "), "name is empty", "text")
    for key in ("cohort", "reason"):
        caution = {"cohort": "a", "reason": "b", key: ""}
        assert mentions(complaint("not_for", [caution]), "not_for", 0, key)
    caution = {"cohort": "a", "reason": "b", "aliases": [""]}
    assert mentions(complaint("not_for", [caution]), "not_for", 0, 0)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("not_for", 3, ("not_for is 3", LIST)),
        ("not_for", {"cohort": "a"}, ("not_for is {'cohort': 'a'}", LIST)),
        ("not_for", ["narcolepsy"], ("not_for[0] is 'narcolepsy'", TABLE)),
        ("not_for", [{"cohort": "a", "reason": "b", "aliases": "c"}], ("not_for[0].aliases is 'c'", LIST)),
        ("transitions", [[1]], ("transitions is [[1]]", TABLE)),
        (("transitions", "W"), [0.5, 0.5, 0], ("transitions.W", "0.5", "0.5", 0, TABLE)),
        ("min_bout_seconds", 60, ("min_bout_seconds is 60", TABLE)),
        ("flip_flop", 2.0, ("flip_flop is 2.0", TABLE)),
        ("strength", "band", ("strength is 'band'", TABLE)),
        ("prior", [1], ("prior is [1]", TABLE)),
        ("calibration", 1.5, ("calibration is 1.5", TABLE)),
        (("calibration", "biases"), [0, 0, 0], ("calibration.biases", 0, 0, 0, TABLE)),
        ("durations", [0.5], ("durations is [0.5]", TABLE)),
        ("bands", [], ("bands is []", TABLE)),
        ("joint", [], ("joint is []", TABLE)),
        (
            ("joint", "indicators"),
            {},
            ("joint.indicators", "centre and scale"),
        ),
        ("shares", {"cohorts": {}}, ("shares.cohorts", "one cohort")),
        ("shares", {"cohorts": {"a": {"W": [0.1, 0.1]}}}, ("shares.cohorts.a", "W, N, R")),
        (
            "shares",
            {"cohorts": {"a": {"W": [0.1, 0.0], "N": [0.7, 0.1], "R": [0.2, 0.1]}}},
            ("shares.cohorts.a.W", "[0.1, 0.0]", "standard deviation"),
        ),
        (
            "shares",
            {"cohorts": {"a": {stage: [0.3, 0.1] for stage in "WNR"}}, "repair": {"n_people": 3}},
            ("'before'", "shares.repair"),
        ),
        (("bands", "tvr_percent"), [0, 1], ("bands.tvr_percent is [0, 1]", TABLE)),
        (("bands", "tvr_percent", "source"), 3, ("bands.tvr_percent.source is 3", TEXT)),
        ("provenance", "me", ("provenance is 'me'", TABLE)),
        (("provenance", "x"), None, ("provenance.x is None", FREE)),
        (("provenance", "x"), [1, {"y": {1}}], ("provenance.x[1].y is {1}", FREE)),
        (
            ("provenance", "x"),
            datetime.date(2024, 3, 1),
            ("provenance.x", "datetime.date", "(2024, 3, 1)", FREE),
        ),
        (("provenance", "x"), NAN, ("provenance.x", "expected a finite")),
        (("provenance", "x"), "\ud800", ("provenance.x", "'\\ud800'", "UTF-8")),
    ],
)
def test_wrong_kinds_of_values(path, value, message):
    assert mentions(complaint(path, value, {k: v for k, v in FULL.items() if k != "not_for"}), *message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"strength": FULL["strength"], "transition_weight": 1.0},
            ("keys 'transition_weight' and 'strength'", EITHER),
        ),
        ({"stages": ["W", "N", "R"]}, ("keys 'scheme' and 'stages'", EITHER)),
        ({"wake": "W"}, ("keys 'scheme' and 'wake'", EITHER)),
        ({"rem": "R"}, ("keys 'scheme' and 'rem'", EITHER)),
        (
            {"prior_exponent": 0.5},
            ("prior_exponent", "drop"),
        ),
        (
            {"prior_exponent": 0.5, "prior": FULL["prior"], "strength": FULL["strength"]},
            ("prior_exponent", "strength.rule", "'band'"),
        ),
        (
            {"strength": {"rule": "match", "fi_target": 0.05, "cap": 2}},
            ("strength.cap", "'band'"),
        ),
        ({"strength": {"rule": "match", "fi_target": 0.05, "floor": 0.5}}, ("strength.floor", BAND_ONLY)),
        ({"strength": {"rule": "band", "fi_target": 1.5}}, ("strength.fi_target", "1.5", 1)),
        (
            {"bands": {"tvr_percent": {"low": 2, "high": 1}}},
            ("bands.tvr_percent", 2, 1, "Swap"),
        ),
    ],
)
def test_keys_that_contradict_each_other(changes, message):
    with pytest.raises(ProfileError) as caught:
        Profile.from_dict({**MINIMAL, **changes})
    assert mentions(str(caught.value), *message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stages": "WNR"}, ("stages is 'WNR'", LIST)),
        ({"stages": ["W"]}, ("scheme", 1, 2, 127)),
        ({"stages": ["W", "W"]}, ("'W'", "listed")),
        ({"stages": ["W", "N"], "wake": "V"}, ("wake", "'V'", "W, N")),
        ({"stages": ["W", "N"], "rem": 3}, ("rem", 3, "W, N")),
    ],
)
def test_bad_stages_of_ones_own(changes, message):
    document = {key: value for key, value in MINIMAL.items() if key != "scheme"}
    with pytest.raises(ProfileError) as caught:
        Profile.from_dict({**document, **changes})
    assert mentions(str(caught.value), *message)


def test_long_values_are_cut_and_stay_on_one_line():
    assert complaint("rare", np.zeros((30, 30))).startswith("rare is array([[0., 0., 0., ")
    assert len(complaint("rare", np.zeros((30, 30)))) < 130


keys = st.text() | st.sampled_from(["W", "R"])
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | keys,
    lambda value: st.lists(value, max_size=3) | st.dictionaries(keys, value, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@given(st.sampled_from([*FULL, "transition_weight", "prior_exponent", "stages", "wake", "rem"]), junk)
def test_no_value_of_any_key_escapes_as_another_error(key, value):
    try:
        profile = Profile.from_dict({**FULL, key: value})
    except ProfileError as error:
        assert "\n" not in str(error)
        assert str(error)
    else:
        assert Profile.from_dict(profile.to_dict()) == profile


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("errors", "tst_minutes"), "abc", ("intervals.errors.tst_minutes is 'abc'", LIST)),
        (("errors", "tst_minutes"), 0.9, ("intervals.errors.tst_minutes is 0.9", LIST)),
        (
            ("errors", "tst_minutes"),
            [[0.5], [1.0, "a"]],
            ("intervals.errors.tst_minutes", 1, "'a'"),
        ),
        (("errors", "tst_minutes"), [1.0], ("intervals.errors.tst_minutes[0] is 1.0", LIST)),
        (("errors", "tst_minutes"), [[]], ("intervals.errors.tst_minutes[0]", "empty")),
        (("errors",), [1.0], ("intervals.errors is (1.0,)", TABLE)),
        (("coverage",), 0.9, ("intervals.coverage is 0.9", TABLE)),
        (("coverage", "tst_minutes"), 90, ("intervals.coverage.tst_minutes is 90", UNIT)),
        (
            ("model_coverage", "tst_minutes"),
            "x",
            ("intervals.model_coverage.tst_minutes", "'x'"),
        ),
        (("n_nights",), "x", ("intervals.n_nights", "'x'")),
        (("n_subjects",), -1, ("intervals.n_subjects", -1, "least", 0)),
        (("min_first_rem_seconds",), True, ("intervals.min_first_rem_seconds", "is True")),
        (("level_of_coverage",), 90, ("intervals.level_of_coverage is 90", UNIT)),
    ],
)
def test_errors_on_scored_nights_are_numbers(path, value, message):
    assert mentions(complaint(("intervals", *path), value), *message)


LABEL_ROWS = {
    "W": {"W": 0.8, "N": 0.2},
    "N": {"W": 0.1, "N": 0.8, "R": 0.1},
    "R": {"W": 0.2, "N": 0.2, "R": 0.6},
}


@pytest.mark.parametrize("key", ["shares", "own"])
@pytest.mark.parametrize(
    ("stage", "row", "parts"),
    [
        ("W", {"W": 0.5, "N": 0.5}, ("W has 0.5 for another stage", "most for the stage")),
        ("R", {"W": 0.6, "R": 0.4}, ("R has 0.6 for another stage and 0.4 for R",)),
        ("N", {"N": 0.9}, ("sums to 0.9",)),
        ("N", {"N": 1.0, "N2": 0.0}, ("'N2' is not a stage",)),
    ],
)
def test_labels_most_often_mean_what_they_say(key, stage, row, parts):
    labels = {"shares": LABEL_ROWS, key: LABEL_ROWS | {stage: row}}
    assert mentions(complaint("labels", labels), f"labels.{key}", *parts)


@pytest.mark.parametrize("labels", [{}, {"source": "x"}, {"shares": LABEL_ROWS, "refused": "why"}])
def test_labels_have_shares_or_the_reason_why_not(labels):
    assert mentions(complaint("labels", labels), "either shares or refused")


@pytest.mark.parametrize("key", ["estimators", "fingerprint", "taught_by"])
def test_a_key_that_was_removed_is_named(key):
    assert mentions(
        complaint(key, {"tst_minutes": "posterior"}), f"{key!r}", "removed from profiles", "Delete"
    )
