"""A cohort under review: its order, its sample and its means."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from review_nights import FREE, asked, do
from stageguard.review.cohort import BLOCK, LEAST_REVIEWED, Cohort, CohortNight, blocks
from stageguard.review.review import ReviewSession

KEY = "tst_minutes"


def night(index, *, first=400.0, now=None, lack=2.0, is_met=False):
    now = first if now is None else now
    return CohortNight(index, f"night {index}", {KEY: first}, {KEY: now}, {KEY: 5.0}, lack, is_met, 3)


@given(st.lists(st.booleans(), min_size=1, max_size=23))
def test_the_sample_is_whole_blocks_however_nights_were_chosen(done):
    nights = [night(i, is_met=is_met) for i, is_met in enumerate(done)]
    cohort = Cohort(tuple(nights), {KEY: 10.0})
    assert sorted(cohort.order) == list(range(len(nights)))
    assert {one.index for one in cohort.sample} <= {i for i, is_met in enumerate(done) if is_met}
    in_blocks = blocks(nights)
    n_whole = 0
    while n_whole < len(in_blocks) and all(one.is_met for one in in_blocks[n_whole]):
        n_whole += 1
    assert len(cohort.sample) == sum(map(len, in_blocks[:n_whole]))


def test_blocks_do_not_depend_on_what_nights_lack_and_lack_decides_within():
    rng = np.random.default_rng(0)
    one = [night(i, lack=float(rng.uniform(1, 9))) for i in range(20)]
    other = [night(i, lack=float(rng.uniform(1, 9))) for i in range(20)]
    assert [[n.index for n in b] for b in blocks(one)] == [[n.index for n in b] for b in blocks(other)]
    order = Cohort(tuple(one), {KEY: 10.0}).order
    for place, block in enumerate(blocks(one)):
        mine = order[place * BLOCK : (place + 1) * BLOCK]
        assert sorted(mine) == sorted(n.index for n in block)
        lacks = [one[index].lack for index in mine]
        assert lacks == sorted(lacks, reverse=True)
    assert order != list(range(20))


def test_reviewed_nights_correct_the_others():
    names = [n.index for block in blocks([night(i) for i in range(20)]) for n in block]
    done = names[:LEAST_REVIEWED]
    shift = {index: 6.0 + (-1) ** place for place, index in enumerate(done)}
    nights = [
        night(i, first=400.0 + i, now=400.0 + i + shift.get(i, 0.0), is_met=i in shift) for i in range(20)
    ]
    (mean,) = Cohort(tuple(nights), {KEY: 1.0}).means
    assert mean.estimate == pytest.approx(409.5 + 6.0)
    sd = np.std([shift[i] for i in done], ddof=1)
    assert mean.high - mean.estimate == pytest.approx(1.8331 * sd * math.sqrt(0.5 / 10), rel=1e-3)
    assert mean.is_met is (mean.high - mean.estimate <= 1.0)


def test_too_few_reviewed_nights_promise_nothing_and_all_of_them_are_exact():
    (mean,) = Cohort(tuple(night(i) for i in range(20)), {KEY: 1000.0}).means
    assert math.isnan(mean.high) and not mean.is_met
    few = tuple(night(i, now=410.0 + i, is_met=True) for i in range(3))
    (mean,) = Cohort(few, {KEY: 0.1}).means
    assert (mean.low, mean.estimate, mean.high) == (411.0, 411.0, 411.0)
    assert mean.is_met


def test_the_interval_of_skewed_corrections_holds_the_mean_of_most_cohorts():
    """Most corrections are small and some are large: .86 of cohorts here, where .90 is nominal."""
    rng, held = np.random.default_rng(1), 0
    for trial in range(300):
        truth = 400 + rng.gamma(0.7, 12.0, 40)
        nights = [
            CohortNight(i, f"{trial} {i}", {KEY: 400.0}, {KEY: truth[i]}, {KEY: 1.0}, 1.0, False, 1)
            for i in range(40)
        ]
        done = {n.index for block in blocks(nights)[:4] for n in block}
        done_nights = tuple(
            CohortNight(n.index, n.name, n.first, n.now, n.off_by, 1.0, n.index in done, 1) for n in nights
        )
        (mean,) = Cohort(done_nights, {KEY: 5.0}).means
        held += mean.low <= truth.mean() <= mean.high
    assert held / 300 >= 0.84


def session_of(folder, n_nights=3, **more):
    for number in range(n_nights):
        density = sg.simulate_night(FREE, hours=1.5, seed=number).density
        lines = [",".join(map(repr, row)) for row in density.probabilities.tolist()]
        (folder / f"n{number}.csv").write_text("\n".join([",".join(density.scheme.names), *lines]) + "\n")
    paths = sorted(folder.glob("n*.csv"))
    return ReviewSession([asked(path, FREE) for path in paths], "anna", **more)


def test_nights_are_listed_by_what_they_lack_without_being_opened(tmp_path):
    session = session_of(tmp_path, until={"tst": 5})
    part = session.overview()["cohort"]
    lacks = [part["nights"][str(index)]["lack"] for index in part["order"]]
    assert lacks == sorted(lacks, reverse=True)  # one block
    assert not part["is_met"] and "Mean of 3 nights: TST" in part["text"]
    assert list(tmp_path.glob("*.jsonl")) == []
    session.close()


def test_a_cohort_is_done_when_its_nights_are_and_says_so_at_the_end(tmp_path):
    session = session_of(tmp_path, until={"tst": 5})
    before = session.cohort()
    for index, night in enumerate(session.nights):
        review = session.review(index)
        do(review, do="set", first=0, last=night.n_epochs - 1, stage=index + 1)
    session.close()
    after = session.last_cohort
    assert not before.is_met and after.is_met
    assert [night.n_looks for night in after.nights] == [1, 1, 1]
    (mean,) = after.means
    assert mean.estimate == mean.high == 90.0
    again = session_of(tmp_path, until={"tst": 5})  # from the journals alone
    assert again.cohort().means == after.means
    again.close()


@pytest.mark.parametrize("more", [{}, {"until": {"tst": 5}, "is_blind": True}])
def test_without_targets_and_while_nights_are_blind_nothing_is_said_of_the_cohort(tmp_path, more):
    session = session_of(tmp_path, **more)
    assert session.overview()["cohort"] is None
    session.close()


def test_one_night_is_no_cohort(tmp_path):
    session = session_of(tmp_path, 1, until={"tst": 5})
    assert session.cohort() is None
    session.close()
