"""Profile documents for the tests: the smallest, one with every key, and any valid one at random."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from stageguard.profile.profile import Profile

MINIMAL = {
    "name": "minimal",
    "scheme": "wnr3",
    "epoch_seconds": 30,
    "transitions": {
        "W": {"W": 0.883, "N": 0.113, "R": 0.004},
        "N": {"W": 0.02, "N": 0.97, "R": 0.01},
        "R": {"W": 0.04, "N": 0.03, "R": 0.93},
    },
}
FULL = {
    **MINIMAL,
    "name": "full",
    "summary": "Every key.",
    "intended_for": "tests",
    "species": "mouse",
    "reproduces_paper": True,
    "cohort": "our clinic",
    "not_for": [
        {"cohort": "Narcolepsy", "aliases": ["NT1"], "action": "refuse", "reason": "Sudden REM is a sign."},
        {"cohort": "children", "reason": "Adults only."},
    ],
    "stay": "free",
    "ends": "paper",
    "strength": {"rule": "band", "fi_target": 0.056, "cap": 3, "lift": False},
    "prior": {"W": 0.2, "N": 0.6, "R": 0.2},
    "rare_probability": 0.01,
    "rare": [["W", "R"], ["R", "N", 0.1]],
    "tvr_pairs": [["N", "R"]],
    "min_bout_seconds": {"R": 60, "W": 30},
    "flip_flop": {"penalty_nats": 2, "window_epochs": 7, "method": "greedy"},
    "calibration": {"temperature": 1.5, "biases": {"R": 0.25}},
    "labels": {
        "shares": {
            "W": {"W": 0.8, "N": 0.15, "R": 0.05},
            "N": {"W": 0.05, "N": 0.9, "R": 0.05},
            "R": {"W": 0.1, "N": 0.2, "R": 0.7},
        },
        "source": "nights",
    },
    "durations": {"R": [0.25, 0.25]},
    "bands": {
        "tvr_percent": {"low": 0, "high": 1, "source": "nights", "unit": "%"},
        "mean_bout_minutes_R": {"low": 2.5, "high": 9},
    },
    "joint": {
        "threshold": 1.5,
        "indicators": {"tvr_percent": {"centre": 0.1, "scale": 0.05}},
        "source": "nights",
    },
    "intervals": {"errors": {"tst_minutes": [[-3.5, 0.0], [7.0]]}},
    "base": MINIMAL,
    "provenance": {
        "n_nights": 75,
        "share": 0.5,
        "is_open": True,
        "cohorts": [{"name": "a"}],
        "more": {"x": {}},
    },
}


def profile_of(**changes):
    return Profile.from_dict({**MINIMAL, **changes})


def exactly(value):
    """Return a value with its types, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return {key: exactly(item) for key, item in value.items()}
    return [exactly(item) for item in value] if isinstance(value, list) else (type(value), value)


def fields_of(profile):
    return {name: getattr(profile, name) for name in Profile.__slots__ if name != "_cache"}


names = st.text(min_size=1, max_size=8).filter(lambda text: text.strip() and text != "?")
words = st.text(max_size=30)
positive = st.floats(1e-6, 1e6)
finite = st.floats(allow_nan=False, allow_infinity=False)
bands = st.builds(
    lambda low, width, **words: {"low": low, "high": low + width, **words},
    st.floats(-1e6, 1e6),
    positive,
    source=words,
    unit=words,
)
scales = st.fixed_dictionaries({"centre": st.floats(-1e6, 1e6), "scale": positive})
trees = st.recursive(
    words | finite | st.integers() | st.booleans(),
    lambda tree: st.lists(tree, max_size=3) | st.dictionaries(words, tree, max_size=3),
    max_leaves=8,
)


@st.composite
def distributions(draw, stages):
    weights = draw(st.lists(st.floats(0.01, 1), min_size=len(stages), max_size=len(stages)))
    return {stage: weight / math.fsum(weights) for stage, weight in zip(stages, weights, strict=True)}


@st.composite
def schemes(draw):
    if draw(st.booleans()):
        name = draw(st.sampled_from(["aasm5", "wnr3", "ws2"]))
        return {"scheme": name}, {"aasm5": "W N1 N2 N3 R", "wnr3": "W N R", "ws2": "W S"}[name].split()
    stages = draw(st.lists(names, min_size=2, max_size=6, unique=True))
    given_roles = draw(st.sampled_from([(), ("wake",), ("rem",), ("wake", "rem")]))
    roles = dict(zip(given_roles, draw(st.permutations(stages)), strict=False))
    return {"stages": stages, **roles}, stages


@st.composite
def documents(draw):
    """Any valid profile: every optional key is there or not."""
    document, stages = draw(schemes())
    pairs = [[a, b] for a in stages for b in stages if a != b]
    rare = [[*p, draw(st.floats(0, 1))] if draw(st.booleans()) else p for p in draw(some_of(pairs))]
    own_stages = draw(some_of(stages))
    kinds = ("one_epoch_bouts_percent", "mean_bout_minutes", "median_bout_minutes")
    indicators = [f"{kind}_{s}" for kind in kinds for s in stages]
    cautions = st.fixed_dictionaries(
        {"cohort": names, "reason": names},
        optional={"aliases": st.lists(names, max_size=3), "action": st.sampled_from(["warn", "refuse"])},
    )
    prior = {"prior": draw(distributions(stages)), "prior_exponent": draw(st.floats(0, 2))}
    strength = draw(
        st.sampled_from(
            [
                {},
                {"transition_weight": draw(st.floats(0, 10)), **prior},
                {"strength": {"rule": "match", "fi_target": 0.05}, **prior},
                {
                    "strength": {
                        "rule": "band",
                        "fi_target": draw(st.floats(1e-3, 1)),
                        "floor": 0.25,
                        "lift": True,
                    }
                },
            ]
        )
    )
    optional = {
        "summary": draw(words),
        "intended_for": draw(words),
        "cohort": draw(names),
        "not_for": draw(st.lists(cautions, max_size=3)),
        "stay": draw(st.sampled_from(["self", "free"])),
        "ends": draw(st.sampled_from(["censored", "paper"])),
        "rare_probability": draw(st.floats(0, 1)),
        "rare": rare,
        "tvr_pairs": draw(some_of(pairs)),
        "min_bout_seconds": {s: draw(st.floats(1e-6, 86_400) | st.integers(1, 600)) for s in own_stages},
        "flip_flop": {
            "penalty_nats": draw(st.floats(0, 50)),
            "window_epochs": draw(st.integers(2, 60)),
            "method": draw(st.sampled_from(["greedy", "exact"])),
        },
        "calibration": {
            "temperature": draw(st.floats(0.01, 100)),
            "biases": {s: draw(st.floats(-1000, 1000)) for s in own_stages},
        },
        "durations": {s: draw(st.lists(st.floats(1e-3, 0.2), min_size=1, max_size=5)) for s in own_stages},
        "bands": {name: draw(bands) for name in draw(some_of(indicators))},
        "joint": {
            "threshold": draw(positive),
            "indicators": {name: draw(scales) for name in draw(some_of(indicators)) or indicators[:1]},
            "source": draw(words),
        },
        "intervals": draw(st.dictionaries(words, trees, max_size=2)),
        "provenance": draw(st.dictionaries(words, trees, max_size=4)),
    }
    chosen = draw(some_of(list(optional)))
    required = {
        "name": draw(names),
        "epoch_seconds": draw(st.floats(0.001, 3600)),
        "transitions": {s: draw(distributions(stages)) for s in stages},
    }
    return {**document, **required, **strength, **{key: optional[key] for key in chosen}}


def some_of(items):
    return st.lists(st.sampled_from(items), unique_by=str, max_size=len(items))
