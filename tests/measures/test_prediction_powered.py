"""Prediction-powered estimates: closed forms, what scored nights alone give, coverage, and odd input."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import stageguard as sg
from messages import mentions
from small import refusal
from stageguard.measures.cohort import CohortTable
from stageguard.measures.powered_fit import MIN_RESAMPLED, MIN_SCORED, Units, fits
from stageguard.measures.prediction_powered import MOST_WIDER, cohort_estimates

NAN = float("nan")


def named(values):
    return {f"n{k}": float(value) for k, value in enumerate(values)}


def made(rng, n_scored=12, n_unscored=60, *, noise=0.3, bias=20.0):
    """Minutes of sleep by experts, and by a stager that is biased and too flat, of nights in random order."""
    truth = rng.normal(400, 50, n_scored + n_unscored)
    automatic = 0.7 * truth + bias + rng.normal(0, 50 * noise, len(truth))
    return named(truth[:n_scored]), named(automatic), truth


def values(*mappings):
    return [np.array(list(mapping.values())) for mapping in mappings]


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_estimate_and_error_of_a_mean_are_the_closed_forms_of_ppi(weight):
    rng = np.random.default_rng(0)
    expert, automatic, _ = made(rng)
    y, f = values(expert, automatic)
    n, n_unscored = len(y), len(f) - len(y)
    of_ppi = weight * n_unscored / len(f)  # PPI++ weighs against the unscored nights alone
    mean = y.mean() - of_ppi * (f[:n].mean() - f[n:].mean())
    variance = np.var(y - of_ppi * f[:n], ddof=1) / n + of_ppi**2 * np.var(f[n:], ddof=1) / n_unscored
    result = sg.prediction_powered(expert, automatic, weight=weight)
    assert result.estimate == pytest.approx(mean)
    units = Units(np.r_[y, [NAN] * n_unscored], np.r_[f[:n], [NAN] * n_unscored], f, NAN * f, (n, n_unscored))
    powered, _ = fits("mean", units, np.ones((1, len(f))), weight)
    assert powered.error[0] ** 2 == pytest.approx(variance)


def test_the_tuned_weight_is_the_best_of_a_grid():
    rng = np.random.default_rng(1)
    for noise in (0.2, 1.0, 2.0):
        expert, automatic, _ = made(rng, noise=noise)
        y, f = values(expert, automatic)
        n, m = len(y), len(f) - len(y)
        grid = np.linspace(0, 1, 2001)
        share = grid * m / (m + n)
        variance = [np.var(y - a * f[:n], ddof=1) / n + a**2 * np.var(f[n:], ddof=1) / m for a in share]
        result = sg.prediction_powered(expert, automatic)
        best = grid[int(np.argmin(variance))]
        assert result.weight == pytest.approx(best, abs=1e-3) or "would widen" in result.reason


def test_weight_0_is_the_scored_nights_alone():
    expert, automatic, _ = made(np.random.default_rng(2))
    alone = sg.prediction_powered(expert, automatic, weight=0)
    assert alone.estimate == alone.scored_estimate == pytest.approx(np.mean(list(expert.values())), rel=1e-15)
    assert (alone.low, alone.high) == (alone.scored_low, alone.scored_high)
    assert alone.width_ratio == 1.0
    other = dict.fromkeys(automatic, 7.0)  # whatever the stager says
    assert sg.prediction_powered(expert, other, weight=0).high == alone.high


def test_perfect_nights_of_weight_1_are_the_whole_cohort():
    rng = np.random.default_rng(3)
    _, _, truth = made(rng)
    expert, automatic = named(truth[:12]), named(truth)
    assert sg.prediction_powered(expert, automatic, weight=1).estimate == pytest.approx(truth.mean())
    age = named(truth / 10 + rng.normal(0, 5, len(truth)))
    found = sg.prediction_powered(expert, automatic, weight=1, covariate=age)
    assert found.estimate == pytest.approx(np.corrcoef(truth, list(age.values()))[0, 1])
    group = {name: "ab"[k % 2] for k, name in enumerate(automatic)}
    found = sg.prediction_powered(expert, automatic, weight=1, groups=group)
    assert found.estimate == pytest.approx(truth[::2].mean() - truth[1::2].mean())
    assert found.width_ratio < 0.6


def test_the_bias_of_the_stager_does_not_matter():
    expert, automatic, _ = made(np.random.default_rng(4))
    shifted = {name: value + 1000 for name, value in automatic.items()}
    a, b = (sg.prediction_powered(expert, each) for each in (automatic, shifted))
    assert (a.estimate, a.low, a.high, a.weight) == pytest.approx((b.estimate, b.low, b.high, b.weight))
    assert a.width_ratio < 0.8


def test_the_error_of_a_difference_is_welchs_and_that_of_a_correlation_fishers():
    rng = np.random.default_rng(5)
    y = rng.normal(size=400)
    sizes = (200, 0, 200, 0)
    ones = np.ones((1, 400))
    _, scored = fits("difference", Units(y, y, y, NAN * y, sizes), ones, None)
    assert scored.error[0] ** 2 == pytest.approx(
        np.var(y[:200], ddof=1) / 200 + np.var(y[200:], ddof=1) / 200
    )
    x = 0.5 * y + rng.normal(size=400)
    _, scored = fits("correlation", Units(y, y, y, x, (400, 0)), ones, None)
    assert scored.estimate[0] == pytest.approx(np.arctanh(np.corrcoef(x, y)[0, 1]))
    assert scored.error[0] == pytest.approx(1 / math.sqrt(397), rel=0.1)  # Fisher's, for normal values


def test_nights_of_one_subject_count_once():
    rng = np.random.default_rng(6)
    expert, automatic, _ = made(rng)
    single = sg.prediction_powered(expert, automatic)
    twice = {f"{name}-{k}": value for name, value in automatic.items() for k in (1, 2)}
    scored = {f"{name}-{k}": value for name, value in expert.items() for k in (1, 2)}
    subject = {name: name.split("-")[0] for name in twice}
    assert sg.prediction_powered(scored, twice, subjects=subject) == single
    naive = sg.prediction_powered(scored, twice)
    assert naive.high - naive.low < 0.9 * (single.high - single.low)


def test_unscored_nights_of_scored_subjects_count():
    """Everyone has one scored and one unscored night."""
    rng = np.random.default_rng(7)
    truth = rng.normal(400, 10, 40)[:, None] + rng.normal(0, 40, (40, 2))
    night = {f"s{k}-{j}": truth[k, j] for k in range(40) for j in (0, 1)}
    expert = {name: value for name, value in night.items() if name.endswith("-0")}
    subject = {name: name.split("-")[0] for name in night}
    result = sg.prediction_powered(expert, night, subjects=subject)
    assert (result.n_scored, result.n_unscored) == (40, 0)
    assert result.width_ratio < 0.9
    assert sg.prediction_powered(expert, night, subjects=subject, weight=1).estimate == pytest.approx(
        truth.mean()
    )


def test_what_does_not_exist_on_some_nights_is_not_biased_by_them():
    """The stager is far off just where the experts see no REM: leaving these nights out would be wrong."""
    rng = np.random.default_rng(8)
    estimates = []
    for _ in range(120):
        y = rng.normal(80, 10, 160)
        f = y + rng.normal(0, 3, 160)
        is_absent = rng.random(160) < 0.3
        f[is_absent] += 100
        y[is_absent] = NAN
        estimates.append(sg.prediction_powered(named(y[:60]), named(f), weight=1, n_resamples=199).estimate)
    assert np.mean(estimates) == pytest.approx(80, abs=5 * np.std(estimates) / math.sqrt(120))


@pytest.mark.parametrize("kind", ["mean", "difference", "correlation"])
def test_intervals_cover_the_truth_whatever_the_bias(kind):
    """As often as those of scored nights alone, with a stager that is biased and too flat."""
    rng = np.random.default_rng(9)
    n_trials, covered, alone, ratios = 150, 0, 0, []
    for trial in range(n_trials):
        age = rng.normal(size=72)
        truth = 0.6 * age + 0.8 * rng.normal(size=72)
        group = {f"n{k}": "ab"[k % 2] for k in range(72)}
        target = {"mean": 0.0, "difference": 0.5, "correlation": 0.6}[kind]
        if kind == "difference":
            truth[::2] += 0.5
        automatic = 0.7 * truth - 3 + rng.normal(0, 0.2, 72) + (0.5 * (np.arange(72) % 2))
        options = {"difference": {"groups": group}, "correlation": {"covariate": named(age)}}.get(kind, {})
        found = sg.prediction_powered(
            named(truth[:16]), named(automatic), n_resamples=499, seed=trial, **options
        )
        covered += found.low <= target <= found.high
        alone += found.scored_low <= target <= found.scored_high
        ratios.append(found.width_ratio)
    assert covered / n_trials >= 0.9
    assert covered >= alone - 0.04 * n_trials
    assert np.median(ratios) < 0.8


def test_a_stager_that_knows_nothing_does_not_widen():
    rng = np.random.default_rng(10)
    said = set()
    for seed in range(25):
        expert, automatic, _ = made(rng, n_scored=10, noise=50)
        found = sg.prediction_powered(expert, automatic, n_resamples=499, seed=seed)
        assert found.width_ratio <= MOST_WIDER
        if found.reason:
            assert (found.weight, found.width_ratio) == (0.0, 1.0)
            assert (found.estimate, found.low) == (found.scored_estimate, found.scored_low)
            said.add(found.reason)
    assert said == {
        "the automatic nights would widen the interval: scored nights alone",
        "the automatic nights do not follow the scored ones: scored nights alone",
    }


def test_every_night_scored_leaves_nothing_to_add():
    expert, _, truth = made(np.random.default_rng(11), n_unscored=0)
    found = sg.prediction_powered(expert, named(truth))
    assert (found.n_unscored, found.width_ratio, found.reason) == (0, 1.0, "no night is unscored")


EXPERT, AUTOMATIC, _ = made(np.random.default_rng(12))
TWO = {name: "ab"[k >= 12] for k, name in enumerate(AUTOMATIC)}


@pytest.mark.parametrize(
    ("expert", "options", "words"),
    [
        ({"n1": 400.0}, {}, "1 subject is scored by an expert, expected 5 or more"),
        ({}, {}, "0 subjects are scored by an expert, expected 5 or more"),
        ({"other": 1.0}, {}, "night 'other' is scored, but has no automatic value"),
        (EXPERT, {"groups": TWO}, "0 subjects are scored by an expert in group 'b', expected 5 or more"),
        (EXPERT, {"groups": dict.fromkeys(AUTOMATIC, "a")}, "of 72 nights all are in 'a'"),
        (
            EXPERT,
            {"groups": {name: "abc"[k % 3] for k, name in enumerate(AUTOMATIC)}},
            "3 groups .a, b, c., expected two. Pick a pair",
        ),
        (EXPERT, {"groups": TWO, "covariate": AUTOMATIC}, "groups and a covariate are given"),
        (EXPERT, {"covariate": {"n1": 30.0}}, "1 subject is scored by an expert, expected 5"),
        (EXPERT, {"weight": 2}, "weight is 2, expected a number from 0 to 1"),
        (EXPERT, {"confidence": 95}, "confidence is 95"),
        (np.ones(8), {}, "expert is a numpy.ndarray, expected a mapping by night"),
        (EXPERT, {"subjects": ["a"]}, "subjects is a list, expected a mapping by night"),
    ],
)
def test_what_cannot_be_estimated_is_one_line(expert, options, words):
    with pytest.raises(sg.InputError) as error:
        sg.prediction_powered(expert, AUTOMATIC, **options)
    refusal(error, words)


numbers = st.one_of(st.just(NAN), st.floats(0, 600), st.sampled_from([0.0, 1.0]))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(numbers, numbers, st.booleans(), st.sampled_from("abcdefgh")), max_size=24),
    st.sampled_from(["mean", "difference", "correlation"]),
    st.booleans(),
)
def test_any_nights_give_an_interval_or_a_reason(nights, kind, has_subjects):
    expert = {f"n{k}": y for k, (y, _, is_scored, _) in enumerate(nights) if is_scored}
    automatic = {f"n{k}": f for k, (_, f, _, _) in enumerate(nights)}
    who = {f"n{k}": name for k, (*_, name) in enumerate(nights)}
    options = {
        "mean": {},
        "difference": {"groups": {k: "ab"[v > "d"] for k, v in who.items()}},
        "correlation": {"covariate": {k: float(ord(v)) for k, v in who.items()}},
    }[kind]
    subjects = who if has_subjects else None
    try:
        found = sg.prediction_powered(expert, automatic, subjects=subjects, n_resamples=199, **options)
    except sg.InputError as error:
        assert "expected" in str(error) and "\n" not in str(error)
        return
    if math.isnan(found.low):
        assert math.isnan(found.high) and "too few scored" in found.reason
    else:
        assert found.low <= found.high
        assert not found.width_ratio > MOST_WIDER + 1e-9
    assert 0 <= found.weight <= 1
    assert found.n_scored >= MIN_SCORED


def cohort(**scorings):
    n = len(next(iter(scorings.values())))
    by_scoring = {name: np.array(column, dtype=float)[:, None] for name, column in scorings.items()}
    return CohortTable(tuple(f"n{k}" for k in range(n)), ("tst_minutes",), by_scoring)


def test_a_cohort_has_means_differences_and_correlations():
    rng = np.random.default_rng(13)
    expert, automatic, truth = made(rng, n_scored=24)
    column = [*expert.values(), *[NAN] * 60]
    own = cohort(before=truth, after=list(automatic.values()), expert=column)
    groups = {f"n{k}": "ab"[k % 2] for k in range(84)}
    found = cohort_estimates(own, expert, groups=groups, covariates={"age": named(truth)})
    assert [each.title for each in found] == ["a", "b", "a minus b", "correlation with age"]
    assert [each.result.kind for each in found] == ["mean", "mean", "difference", "correlation"]
    assert found[2].result == sg.prediction_powered(expert, automatic, groups=groups)
    assert found[0].result.n_scored == 12
    (alone,) = cohort_estimates(own, expert)
    assert alone.title == "all nights"
    assert alone.result == sg.prediction_powered(expert, automatic)


def test_nights_of_two_automatic_scorings_are_refused():
    own = cohort(before=[1, 2, NAN], after=[1, NAN, 3], expert=[1, 2, 3])
    with pytest.raises(sg.InputError) as error:
        cohort_estimates(own, {"n0"})
    refusal(error, "some nights are decoded and others are not")


SIX = {"n0": 14.0, "n1": 15.0, "n2": 15.0, "n3": 15.0, "n4": 16.0, "n5": 41.0}  # awakenings


@pytest.mark.parametrize("n_more", [0, 30])
def test_fewer_than_ten_people_get_a_t_interval(n_more):
    """Resamples of six people repeat one of them so often that a studentised interval has no bounds."""
    automatic = {f"n{i}": 20.0 + i % 7 for i in range(6 + n_more)}
    found = sg.prediction_powered(SIX, automatic)
    values = np.array([*SIX.values()])
    interval = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (found.scored_low, found.scored_high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert found.high - found.low < values.max()


def test_few_people_of_two_groups_get_welchs_interval():
    rng = np.random.default_rng(0)
    values = {f"n{i}": float(value) for i, value in enumerate(rng.normal(60, 20, 13))}
    groups = {name: "a" if i < 6 else "b" for i, name in enumerate(values)}
    found = sg.prediction_powered(values, values, groups=groups)
    a, b = (np.array([value for name, value in values.items() if groups[name] == each]) for each in "ab")
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (found.scored_low, found.scored_high) == pytest.approx((interval.low, interval.high), rel=1e-6)


@given(
    st.lists(st.integers(0, 300), min_size=5, max_size=14),
    st.lists(st.integers(0, 300), min_size=1, max_size=30),
)
@settings(max_examples=60)
def test_an_interval_wider_than_the_numbers_says_so(scored, unscored):
    """Independent oracle: the highest less the lowest of all numbers that went in."""
    numbers = [*scored, *unscored]
    automatic = {f"n{i}": float(value) for i, value in enumerate(numbers)}
    expert = {f"n{i}": float(value) + 2.0 for i, value in enumerate(scored)}
    found = sg.prediction_powered(expert, automatic, n_resamples=199)
    span = max(*expert.values(), *automatic.values()) - min(*expert.values(), *automatic.values())
    assert (mentions(found.reason, "wider than", "numbers")) == (found.high - found.low > span)


def test_ten_people_are_resampled():
    rng = np.random.default_rng(1)
    values = {f"n{i}": float(value) for i, value in enumerate(rng.lognormal(3, 1, MIN_RESAMPLED))}
    found = sg.prediction_powered(values, values)
    above, below = found.high - found.estimate, found.estimate - found.low
    assert above != pytest.approx(below, rel=0.01)  # as no t interval is


def test_means_of_a_cohort_and_their_intervals_stay_where_nights_can_be():
    names = [f"n{k}" for k in range(12)]
    rare = np.array([0.0] * 11 + [30.0])
    values = np.column_stack([rare, 100.0 - rare, 400.0 + np.arange(12)])
    quantities = ("sol_minutes", "se_percent", "tst_minutes")
    table = CohortTable(tuple(names), quantities, {"after": values, "expert": values})
    sol, se, tst = (each.result for each in cohort_estimates(table, names[4:]))
    assert (sol.low, sol.scored_low) == (0.0, 0.0)
    assert (se.high, se.scored_high) == (100.0, 100.0)
    assert 0.0 < tst.low < tst.estimate < tst.high
