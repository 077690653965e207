"""Grades of a stager by experts: the definition by plain loops, verdicts by simulation, what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import stageguard as sg
from messages import mentions
from small import refusal
from stageguard.errors import InputError, OutputExistsError
from stageguard.measures.expert_errors import expert_errors
from stageguard.measures.grade import (
    LIMIT,
    Ratio,
    people_needed,
    ratio_of_means,
    typical_ratio,
    verdict_of,
)
from stageguard.night.quantities import quantity_of
from stageguard.night.stages import AASM5


def made_cohort(n_people=6, n_scorers=4, n_epochs=120, seed=0, skill=0.15):
    """A stager and experts who differ from one truth at random epochs."""
    rng = np.random.default_rng(seed)
    nights, experts = [], []
    for _ in range(n_people):
        truth = np.repeat(rng.choice([0, 1, 2, 2, 3, 4], size=n_epochs // 8 + 1), 8)[:n_epochs]

        def scored(who, truth=truth):
            labels = np.where(rng.random(n_epochs) < skill, rng.integers(0, 5, n_epochs), truth)
            return sg.Hypnogram(labels.astype(np.int8), AASM5, 30.0, scorer=who)

        nights.append(scored("stager"))
        experts.append([scored(f"scorer {j}") for j in range(n_scorers)])
    return nights, experts


def tst(night):
    return float(np.count_nonzero(night.labels > 0)) / 2


def test_the_ratio_is_that_of_the_definition():
    nights, experts = made_cohort()
    a = e = 0.0
    logs = []
    for night, panel in zip(nights, experts, strict=True):
        own = []
        for j, expert in enumerate(panel):
            rest = tst(sg.consensus([each for k, each in enumerate(panel) if k != j]))
            off, theirs = abs(tst(night) - rest), abs(tst(expert) - rest)
            a, e = a + off, e + theirs
            own.append(math.log(off + 1) - math.log(theirs + 1))
        logs.append(np.mean(own))
    found = sg.grade(experts, nights)["tst_minutes"]
    assert found.mean.value == pytest.approx(a / e)
    assert found.typical.value == pytest.approx(math.exp(np.mean(logs)))
    low, high = stats.t.interval(0.9, len(logs) - 1, np.mean(logs), stats.sem(logs))
    assert (found.typical.low, found.typical.high) == pytest.approx((math.exp(low), math.exp(high)))


def test_limits_of_the_ratio_of_means_are_where_a_t_test_turns():
    """At either limit r, the mean of stager - r * expert is just t standard errors from 0."""
    rng = np.random.default_rng(1)
    expert = rng.gamma(2.0, 3.0, 30)
    stager = 0.8 * expert + rng.gamma(1.0, 1.0, 30)
    ratio = ratio_of_means(stager, expert)
    for limit in (ratio.low, ratio.high):
        assert stats.ttest_1samp(stager - limit * expert, 0.0).pvalue == pytest.approx(0.1)
    assert ratio.low < ratio.value < ratio.high


def test_experts_who_hardly_differ_leave_every_ratio_possible():
    ratio = ratio_of_means(np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.0, 5.0]))
    assert (ratio.low, ratio.high) == (0.0, math.inf)


@pytest.mark.parametrize(
    ("mean", "typical", "verdict"),
    [
        ((0.5, 1.25), (0.5, 1.25), "as an expert"),
        ((0.5, 1.26), (0.5, 1.2), "not shown"),
        ((0.5, 1.2), (0.5, 1.26), "not shown"),
        ((1.01, 1.2), (0.5, 1.2), "worse"),
        ((0.5, 1.2), (1.01, 1.2), "worse"),
        ((1.0, 2.0), (1.0, 2.0), "not shown"),
        ((0.0, math.inf), (0.5, 1.2), "not shown"),
    ],
)
def test_both_readings_must_agree_that_it_is_as_an_expert(mean, typical, verdict):
    assert verdict_of(*(Ratio(1.0, low, high) for low, high in (mean, typical))) == verdict


def drawn(rng, n, factor):
    """Errors of n people: a stager's `factor` times as large as an exchangeable expert's, with heavy tails.

    Distances from a consensus that both share: people differ, and so do nights.
    """
    hard = rng.lognormal(0.0, 0.5, n)
    experts = np.abs(hard[:, None] * 10 * rng.standard_t(6, (n, 5)))
    stager = factor * np.abs(hard[:, None] * 10 * rng.standard_t(6, (n, 1)) * np.ones((n, 5)))
    logs = (np.log(stager + 1) - np.log(experts + 1)).mean(axis=1)
    return stager.mean(axis=1), experts.mean(axis=1), logs


def shares_of_verdicts(n, factor, n_draws=300):
    rng = np.random.default_rng(7)
    verdicts = []
    for _ in range(n_draws):
        a, e, logs = drawn(rng, n, factor)
        verdicts.append(verdict_of(ratio_of_means(a, e), typical_ratio(logs)))
    return {name: verdicts.count(name) / n_draws for name in ("as an expert", "worse", "not shown")}


def test_verdicts_seldom_err():
    assert shares_of_verdicts(25, 1.0)["worse"] <= 0.10
    assert shares_of_verdicts(25, 1.5)["as an expert"] <= 0.03
    small, large = (shares_of_verdicts(n, 0.7)["as an expert"] for n in (25, 50))
    assert 0.4 <= small < large


def test_the_people_needed_are_the_fewest_that_show_it():
    rng = np.random.default_rng(3)
    a, e, logs = drawn(rng, 30, 0.9)
    needed = people_needed(a, e, logs)
    assert needed is not None
    assert needed > 30

    def upper(n):
        t = stats.t.ppf(0.95, n - 1) / math.sqrt(n)
        mean = a.mean() / e.mean() * math.exp(t * (a / a.mean() - e / e.mean()).std(ddof=1))
        return max(mean, math.exp(logs.mean() + t * logs.std(ddof=1)))

    assert upper(needed) <= LIMIT < upper(needed - 1)
    assert people_needed(2 * a, e, logs + math.log(2)) is None


def test_a_verdict_needs_three_scorers_on_25_people():
    nights, experts = made_cohort(25, 4, skill=0.1)
    card = sg.grade(experts, nights)
    assert {each.verdict for each in card.values()} <= {"as an expert", "worse", "not shown"}
    few = sg.grade(experts[1:], nights[1:])
    assert {each.verdict for each in few.values()} == {None}
    assert all(each.people_needed is None or each.people_needed >= 25 for each in few.values())
    pairs = [panel[:2] for panel in experts]
    assert {each.verdict for each in sg.grade(pairs, nights).values()} == {None}
    # an expert who did not score one night leaves it with three
    gaps = [[None, *experts[0][1:]], *experts[1:]]
    assert sg.grade(gaps, nights)["tst_minutes"].verdict is not None


def test_nights_of_one_person_count_once():
    nights, experts = made_cohort(6)
    card = sg.grade([*experts, *experts], [*nights, *nights], subjects=[*"abcdef"] * 2)
    once = sg.grade(experts, nights)
    assert card.n_people == 6
    assert len(card.nights) == 12
    assert card["tst_minutes"].mean == once["tst_minutes"].mean
    assert card.kappa == pytest.approx(once.kappa)


def test_a_night_does_not_count_as_two_people():
    nights, experts = made_cohort(3)
    with pytest.raises(InputError) as error:
        sg.grade([*experts, experts[0]], [*nights, nights[0]])
    assert mentions(error.value, "night 1", "night 4")


def test_the_order_of_nights_and_experts_does_not_matter():
    nights, experts = made_cohort(3, n_epochs=1000)  # where no two experts agree alike with the others
    card = sg.grade(experts, nights)
    turned = sg.grade([panel[::-1] for panel in experts[::-1]], nights[::-1])
    for key in card:
        assert turned[key].mean.value == pytest.approx(card[key].mean.value, nan_ok=True)
        assert turned[key].errs_less_than == card[key].errs_less_than


def test_rem_that_never_comes_counts_as_coming_at_the_end():
    def night(text):
        return sg.read_hypnogram(["N2" if c == "N" else c for c in text])

    experts = [night("WNNRRN"), night("WNNRNN"), night("WNNNRN")]
    card = sg.grade([experts], [night("WNNNNN")])
    values = card.nights[0].statistics["rem_latency_minutes"]
    assert values.stager == 3.0  # the whole recording
    assert values.experts == (1.0, 1.0, 1.5)


def test_a_stager_that_sees_no_sleep_does_not_escape():
    _, experts = made_cohort(3)
    card = sg.grade(experts, [sg.Hypnogram(np.zeros(120, np.int8), AASM5, 30.0)] * 3)
    values = card.nights[0].statistics
    assert (values["waso_minutes"].stager, values["sol_minutes"].stager) == (0.0, 60.0)
    assert card["waso_minutes"].n_people == 3


@pytest.mark.parametrize(("scheme", "n_statistics"), [("aasm5", 21), ("wnr3", 15), ("ws2", 8)])
def test_experts_of_finer_stages_are_merged(scheme, n_statistics):
    nights, experts = made_cohort()
    card = sg.grade(experts, [night.merge(scheme) for night in nights])
    assert card.nights[0].scheme.name == scheme
    assert len(card) == n_statistics
    assert ("rem_latency_minutes" in card) == (scheme != "ws2")


def test_epochs_that_no_expert_scored_are_left_out():
    nights, experts = made_cohort(2, 3)
    for panel in experts:
        for scoring in panel:
            scoring.labels.flags.writeable = True
            scoring.labels[:20] = -1
    card = sg.grade(experts, nights)
    night = card.nights[0].statistics["tst_minutes"]
    assert night.stager == tst(sg.Hypnogram(nights[0].labels[20:], AASM5, 30.0))


def test_a_card_of_decodings_names_what_decoded_them():
    made = [sg.simulate_night("human-psg-5", hours=6, seed=seed) for seed in range(3)]
    decoded = [sg.decode(night.density, "human-psg-5", stager="a stager") for night in made]
    others = [sg.simulate_night("human-psg-5", hours=6, seed=seed + 3).expert for seed in range(3)]
    card = sg.grade([[night.expert, other] for night, other in zip(made, others, strict=True)], decoded)
    assert card.nights[0].statistics["tst_minutes"].stager == tst(decoded[0].hypnogram)
    assert card.facts.stager == "a stager"
    assert card.facts.profile == "human-psg-5"
    assert all(quantity_of(key).title for key in card)


def test_one_scorer_is_compared_with_the_table_and_gives_no_verdict():
    nights, experts = made_cohort(30)
    single = [panel[0] for panel in experts]
    card = sg.grade(single, nights)
    grade = card["tst_minutes"]
    error = np.mean([abs(tst(a) - tst(b)) for a, b in zip(nights, single, strict=True)])
    table = {each.cohort: each.errors["tst_minutes"] for each in expert_errors("aasm5")}
    assert table.keys() == {"DOD-H", "DOD-O"}
    assert grade.about == pytest.approx({name: error / each for name, each in table.items()})
    assert (grade.verdict, grade.people_needed, grade.n_experts) == (None, None, 1)
    assert math.isnan(grade.mean.value)
    assert math.isnan(card.expert_kappa)
    assert card.kappa == pytest.approx(
        np.mean([sg.agreement(b, a).kappa for a, b in zip(nights, single, strict=True)])
    )


@pytest.mark.parametrize(
    ("changes", "patterns"),
    [
        ({"nights": []}, ["0 nights"]),
        ({"experts": [[None] * 4] * 6}, ["night 1"]),
        ({"subjects": ["a"]}, ["1 subjects", "6"]),
        ({"scorers": ["a"]}, ["1 scorers", "4"]),
        ({"ids": [*"abcdea"]}, ["'a'"]),
        ({"scorers": [*"wxyx"]}, ["'x'"]),
        ({"stager": 3}, ["stager", "3"]),
    ],
)
def test_what_cannot_be_graded_is_one_line(changes, patterns):
    nights, experts = made_cohort()
    given = {"nights": nights, "experts": experts} | changes
    with pytest.raises(InputError) as error:
        sg.grade(given.pop("experts"), given.pop("nights"), **given)
    refusal(error, *patterns)


def test_unequal_experts_are_refused():
    nights, experts = made_cohort()
    with pytest.raises(InputError) as error:
        sg.grade([experts[0][:2], *experts[1:]], nights)
    assert mentions(error.value, 2, 4)
    with pytest.raises(InputError) as error:  # nobody to compare the only expert of a night with
        sg.grade([[experts[0][0], None, None, None], *experts[1:]], nights)
    assert mentions(error.value, "night 1")
    other = [sg.Hypnogram(night.labels, AASM5, 20.0) for night in nights]
    with pytest.raises(InputError) as error:
        sg.grade(experts, other)
    assert mentions(error.value, "night 1", "30 s", "20 s")


def test_a_card_is_read_as_it_was_written(tmp_path):
    nights, experts = made_cohort(5)
    card = sg.grade(experts, nights, stager="a 1.0", cohort="b", ids=[*"vwxyz"])
    card.save(tmp_path / "card.json")
    again = sg.GradeCard.load(tmp_path / "card.json")
    assert again.to_dict() == card.to_dict()
    assert again.sha256 == card.sha256
    assert again.facts == card.facts
    assert again.scorers == card.scorers == tuple(f"scorer {j}" for j in range(4))
    assert again["tst_minutes"].mean == card["tst_minutes"].mean
    with pytest.raises(OutputExistsError):
        card.save(tmp_path / "card.json")


def test_one_scoring_is_not_two_experts_nor_the_stager_and_an_expert():
    nights, experts = made_cohort(n_people=2)
    twice = [[*panel, panel[1]] for panel in experts]
    alike = [[panel[0]] * 3 for panel in experts]
    own = [[*panel, night] for panel, night in zip(experts, nights, strict=True)]
    both = ((twice, "expert 2 and expert 5"), (alike, "expert 1 and expert 2"))
    for panels, who in (*both, (own, "expert 5 and the stager")):
        with pytest.raises(InputError, match=who):
            sg.grade(panels, nights)
    for panels, who in both:
        with pytest.raises(InputError, match=who):
            sg.among_experts(panels, nights)
