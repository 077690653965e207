"""Every wrong thing in a profile, and the one line it is answered with."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents import FULL, MINIMAL
from messages import mentions
from stageguard.errors import ProfileError
from stageguard.profile.profile import Profile

TABLE = "expected a table of keys and values."
LIST = "expected a list in square brackets."
UNIT = "expected a number from 0 to 1."
INF, NAN = float("inf"), float("nan")
EITHER = "exclude each other. Keep one of them."
REMOVED = object()
OPEN = {key: value for key, value in FULL.items() if key not in ("strength", "base")}


def complaint(path, value, base=MINIMAL):
    """Return what is said about a document with one entry set, or removed."""
    document = copy.deepcopy(base)
    *parents, key = path.split(".")
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


@pytest.mark.parametrize(
    "path",
    [
        *("name", "scheme", "epoch_seconds", "transitions", "transitions.R", "prior.N", "strength.rule"),
        *("strength.fi_target", "bands.tvr_percent.low", "joint.threshold"),
        "joint.indicators.tvr_percent.scale",
    ],
)
def test_missing_keys_are_named(path):
    table, _, key = path.rpartition(".")
    assert mentions(complaint(path, REMOVED, FULL), f"'{key}'", "missing", table or "")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("min_bout_secs", 1, "unknown key 'min_bout_secs' in a profile. Did you mean 'min_bout_seconds'?"),
        ("flip_flop.penalty", 1, "unknown key 'penalty' in flip_flop. Did you mean 'penalty_nats'?"),
        ("flip_flop.k", 1, "unknown key 'k' in flip_flop. Known: penalty_nats, window_epochs, method."),
        ("strength.target", 1, "unknown key 'target' in strength. Did you mean 'fi_target'?"),
        ("bands.tvr", {"low": 0, "high": 1}, "unknown key 'tvr' in bands."),
        ("joint.indicators.tvr", {"centre": 0, "scale": 1}, "unknown key 'tvr' in joint.indicators."),
        ("provenance", {3: 1}, "a key of provenance is 3, expected text in quotes."),
        ("posterior.coverage", {"bad": {}}, "unknown key 'bad' in posterior.coverage."),
        # stages
        ("min_bout_seconds.N2", 1, "unknown key 'N2' in min_bout_seconds. Did you mean 'N'?"),
        ("transitions.N2", {}, "unknown key 'N2' in transitions."),
        ("transitions.W.N2", 0.1, "unknown key 'N2' in transitions.W."),
        ("calibration.biases.N2", 0.1, "unknown key 'N2' in calibration.biases."),
        # keys that profiles had
        ("estimators", {}, "key 'estimators' was removed from profiles: every statistic is counted"),
    ],
)
def test_unknown_keys_suggest_the_nearest_or_list_the_known(path, value, message):
    rules = {"stage_sd": dict.fromkeys("WNR", 1), "weight": 1, "presleep_stay": 0.9}
    assert complaint(path, value, {**FULL, "posterior": rules}).startswith(message)


NUMBERS = {  # numbers of a profile: a value that is fine, and one out of its range with what is said
    "epoch_seconds": (20, 0, "expected a number from 0.001 to 86400."),
    "transition_weight": (0, -0.1, "expected a number from 0 to 1000."),
    "prior_exponent": (0, -1, "expected a number of at least 0."),
    "prior.W": (0.2, 0, "expected a number above 0 and at most 1."),
    "rare_probability": (1, 1.5, UNIT),
    "min_bout_seconds.R": (0.1, -60, "expected a number above 0 and at most 86400."),
    "flip_flop.penalty_nats": (0, -2.0, "expected a number from 0 to 1000."),
    "flip_flop.window_epochs": (60, 61, "expected a number from 2 to 60."),
    "transitions.W.W": (0.883, -0.1, UNIT),
    "calibration.temperature": (9, 0, "expected a number from 0.01 to 100."),
    "calibration.biases.W": (-9, 1e6, "expected a number from -1000 to 1000."),
    "intervals.coverage.tst_minutes": (0.9, 90, UNIT),
    "intervals.n_subjects": (1, -1, "expected a number of at least 0."),
}


@pytest.mark.parametrize("path", NUMBERS)
def test_every_number_has_its_range(path):
    fine, wrong, message = NUMBERS[path]
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        complaint(path, fine, OPEN)
    assert mentions(complaint(path, wrong, OPEN), path, message)
    for other in (True, "1", {}, np.True_, NAN, INF, np.float32("inf")):
        assert mentions(complaint(path, other, OPEN), path, repr(other), "number")


@pytest.mark.parametrize(
    ("path", "value", "parts"),
    [
        # other kinds of values
        ("name", 3, ("name is 3, expected text",)),
        ("name", " ", ("name is empty",)),
        ("summary", "\ud800", ("summary", "UTF-8")),
        ("stay", "Self", ("stay is 'Self', expected 'self' or 'free'. Did you mean 'self'?",)),
        ("ends", None, ("ends is None", "'censored' or 'paper'")),
        ("scheme", "zzz", ("scheme is 'zzz'", "'aasm5' or 'wldr4' or 'wnr3' or 'ws2'")),
        ("strength.rule", "zzz", ("strength.rule is 'zzz'", "'band' or 'match' or 'target'")),
        ("strength", "band", ("strength is 'band'", TABLE)),
        ("transitions", [[1]], ("transitions is [[1]]", TABLE)),
        ("transitions.W", [0.5, 0.5, 0], ("transitions.W is [0.5, 0.5, 0]", TABLE)),
        ("not_for", "Infants.", ("not_for is 'Infants.'", LIST)),
        ("not_for", ["narcolepsy"], ("not_for[0] is 'narcolepsy'", TABLE)),
        ("not_for", [{"cohort": "a"}], ("'reason'", "missing", "not_for[0]")),
        ("not_for", [{"cohort": "", "reason": "b"}], ("not_for[0].cohort is empty",)),
        (
            "not_for",
            [{"cohort": "a", "reason": "b", "action": "no"}],
            ("not_for[0].action is 'no'", "'warn'"),
        ),
        ("provenance", "me", ("provenance is 'me'", TABLE)),
        ("provenance.x", [1, {"y": {1}}], ("provenance.x[1].y is {1}, expected text, a number",)),
        ("provenance.x", NAN, ("provenance.x", "finite")),
        ("provenance.x", "\ud800", ("provenance.x", "UTF-8")),
        ("rare", {"W": "R"}, (f"rare is {{'W': 'R'}}, {LIST}",)),
        ("rare", np.zeros((30, 30)), ("rare is array([[0., 0., 0., ", "...")),
        # pairs
        ("rare", [["N", "R"], ["W", "REM"]], ("rare[1] is 'REM', expected 'W' or 'N' or 'R'.",)),
        ("rare", [["W"]], ("rare[0] is ['W'], expected a list of 2 values.",)),
        ("rare", [["W", "R", 2]], ("rare[0][2] is 2.0", UNIT)),
        ("rare", [["W", "W"]], ("rare[0] goes from 'W' to itself",)),
        ("rare", [["W", "R"], ["W", "R", 0.1]], ("rare lists W -> R twice",)),
        ("tvr_pairs", [["W", "R", 0.1]], ("tvr_pairs[0] is ['W', 'R', 0.1], expected a list of 2",)),
        # sums and lists
        ("transitions.W", {"W": 0.5, "N": 0.4}, ("transitions.W sums to 0.9, expected 1 (within 0.001).",)),
        ("prior", {"W": 0.2, "N": 0.5, "R": 0.2}, ("prior sums to 0.9",)),
        ("durations.R", [0.6, 0.6], ("durations.R sums to 1.2, expected at most 1",)),
        ("durations.R", [], ("durations.R", "length", "at least 1")),
        ("durations.R", [0.5, 0.0], ("durations.R ends in 0",)),
        ("durations.R", [0.5, -0.1], ("durations.R[1] is -0.1", UNIT)),
        ("joint", {"threshold": 1, "indicators": {}}, ("joint.indicators", "at least 1")),
        ("shares", {"cohorts": {}}, ("shares.cohorts", "at least 1")),
        ("shares", {"cohorts": {"a": {"W": [0.1, 0.1]}}}, ("'N'", "missing", "shares.cohorts.a")),
        (
            "shares",
            {"cohorts": {"a": {"W": [0.1, 0.0], "N": [0.7, 0.1], "R": [0.2, 0.1]}}},
            ("shares.cohorts.a.W[1] is 0.0, expected a number above 0",),
        ),
        (
            "intervals.errors",
            {"tst_minutes": [[0.5], [1.0, "a"]]},
            ("intervals.errors.tst_minutes[1][1]", "'a'"),
        ),
        ("intervals.errors", {"tst_minutes": [[]]}, ("intervals.errors.tst_minutes[0]", "at least 1")),
        # what contradicts something else
        ("transition_weight", 1, ("keys 'transition_weight' and 'strength'", EITHER)),
        ("stages", ["W", "N", "R"], ("keys 'scheme' and 'stages'", EITHER)),
        ("wake", "W", ("keys 'scheme' and 'wake'", EITHER)),
        ("prior_exponent", 0.5, ("prior_exponent is given, but prior",)),
        ("bands.tvr_percent", {"low": 2, "high": 1}, ("bands.tvr_percent: low is 2, above high, 1.",)),
        ("clock", {"curves": {"R": [1, 2], "N": [1, 2, 3]}}, ("clock: curves have 2 and 3 values",)),
        ("labels", {"source": "x"}, ("labels: expected either shares or refused",)),
        ("base", {**MINIMAL, "transitions": {}}, ("base: key 'W' is missing in transitions.",)),
    ],
)
def test_wrong_values_are_named_with_their_place(path, value, parts):
    base = FULL if path.startswith("strength") or path == "transition_weight" else MINIMAL
    assert mentions(complaint(path, value, base), *parts)


@pytest.mark.parametrize("deviation", [9e-4, -9e-4])
def test_sums_may_miss_1_by_rounding(deviation):
    row = {"W": 0.5, "N": 0.5 + deviation}
    assert Profile.from_dict({**MINIMAL, "transitions": {**MINIMAL["transitions"], "N": row}})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stages": "WNR"}, ("stages is 'WNR'", LIST)),
        ({"stages": ["W"]}, ("scheme", 1, 2, 127)),
        ({"stages": ["W", "W"]}, ("W, W", "different")),
        ({"stages": ["W", "N"], "wake": "V"}, ("wake", "'V'", "'W' or 'N'")),
        ({"stages": ["A", "B"], "clock": {"curves": {"A": [1, 2]}}}, ("clock", "wake")),
    ],
)
def test_bad_stages_of_ones_own(changes, message):
    rows = {"A": {"A": 0.5, "B": 0.5}, "B": {"A": 0.5, "B": 0.5}}
    with pytest.raises(ProfileError) as caught:
        Profile.from_dict({"name": "own", "epoch_seconds": 30, "transitions": rows, **changes})
    assert mentions(str(caught.value), *message)


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
