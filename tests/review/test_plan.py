"""A review with targets: in the journal, in what the page gets, and on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner, error_line
from review_nights import FREE, STRICT, asked, do, open_review, write_probabilities
from stageguard.errors import InputError
from stageguard.review import plan as plan_module
from stageguard.review import wire
from stageguard.review.plan import n_looks
from stageguard.review.review import ReviewSession

TARGETS = {"tst_minutes": 10.0, "rem_latency_minutes": 5.0}


def opened(folder, **more):
    """A night of three hours, as a stager and its sleeper might have it."""
    density = sg.simulate_night(FREE, hours=3, seed=4).density
    path = folder / "night.csv"
    rows = [
        ",".join(density.scheme.names),
        *(",".join(map(repr, row)) for row in density.probabilities.tolist()),
    ]
    path.write_text("\n".join(rows) + "\n")
    session = ReviewSession([asked(path, FREE)], "anna", **more)
    return session, session.review(0)


def test_targets_are_recorded_and_change_no_stage(tmp_path):
    session, review = opened(tmp_path, until={"tst": 10, "rem_latency": 5})
    labels = review.now.result.labels
    assert review.now.state.targets == TARGETS
    do(review, do="agree", first=5, last=9)
    do(review, do="targets", value={"sol": 3})
    do(review, do="targets", value=None)
    do(review, do="undo")  # takes back the agreement: targets are no decision about the night
    assert review.now.state.pins == {}
    assert (review.now.result.labels == labels).all()
    do(review, do="targets", value={"N3": 7})
    lines = [json.loads(line) for line in review.journal.path.read_text("utf-8").splitlines()]
    assert [line["value"] for line in lines[1:] if line["do"] == "targets"] == [
        *(TARGETS, {"sol_minutes": 3.0}, None, {"stage_minutes_N3": 7.0})
    ]
    assert all(line["changed"] == 0 for line in lines[1:] if line["do"] == "targets")
    plan = review.plan()
    session.close()
    again = ReviewSession(session.requests, "anna")
    assert again.review(0).now.state == review.now.state
    assert again.review(0).plan() == plan
    again.close()


def test_a_review_that_was_only_aimed_leaves_no_file(tmp_path):
    session, review = opened(tmp_path, until={"tst": 10})
    path = review.journal.path
    assert path.exists()
    session.close()
    assert not path.exists()


def test_looks_narrow_the_intervals_until_the_targets_are_met(tmp_path):
    session, review = opened(tmp_path, until={"tst": 8, "sol": 5})
    expert = sg.simulate_night(FREE, hours=3, seed=4).expert.labels
    start = review.plan()
    assert not start.is_met and start.n_looks == 0 and start.lack > 1
    for _ in range(80):
        plan = review.plan()
        if plan.is_met:
            break
        look = plan.looks[0]
        for epoch in range(look.first, look.last + 1):
            do(review, do="set", first=epoch, last=epoch, stage=int(expert[epoch]))
    assert plan.is_met and plan.lack <= 1
    reach = plan.reached["tst_minutes"]
    assert reach.high - reach.low < start.reached["tst_minutes"].high - start.reached["tst_minutes"].low
    for key, each in start.reached.items():  # the beginning stays what it was
        assert (plan.start[key].low, plan.start[key].high) == (each.low, each.high)
    part = wire.queue_part(review, review.now)["plan"]
    assert part["is_met"] and part["text"].endswith(f" after {plan.n_looks} looks")
    assert part["text"].startswith(f"TST {int(reach.low + 0.5)}–{int(reach.high + 0.5)} min, SOL ")
    session.close()


def test_the_queue_of_the_page_is_in_the_order_of_value(tmp_path):
    session, review = opened(tmp_path)
    assert review.plan() is None
    before = wire.queue_part(review, review.now)
    assert before["plan"] is None
    do(review, do="targets", value={})
    plan, part = review.plan(), wire.queue_part(review, review.now)
    assert [(row["first"], row["last"]) for row in part["queue"]["epochs"]] == [
        (look.first, look.last) for look in plan.looks[: wire.MOST_LOOKS]
    ]
    assert part["plan"]["text"] == "" and not part["plan"]["is_met"]
    assert {row["name"] for row in part["plan"]["rows"]} >= {"tst", "sol", "waso", "rem_latency", "N3"}
    json.dumps(part, allow_nan=False)
    session.close()


def test_nothing_of_it_is_sent_while_a_night_is_scored_blind(tmp_path):
    session, review = opened(tmp_path, is_blind=True, until={"tst": 10})
    assert review.now.state.targets == {"tst_minutes": 10.0}
    state = wire.whole_state(review, 0)
    assert state["plan"] is None and state["queue"] is None
    assert "target" not in json.dumps(state)
    session.close()


def test_a_night_of_which_nothing_is_promised_never_stops(tmp_path, monkeypatch):
    monkeypatch.setattr(plan_module, "why_withheld", lambda decoding: "it is of another stager")
    session, review = opened(tmp_path, until={"tst": 1000})
    plan = review.plan()
    assert not plan.is_met and plan.looks and plan.withheld == "it is of another stager"
    part = wire.queue_part(review, review.now)["plan"]
    assert {row["low"] for row in part["rows"]} == {None}
    assert part["text"] == "TST not known after 0 looks"
    session.close()


def test_decisions_about_touching_epochs_are_one_look(tmp_path):
    session, review = opened(tmp_path)
    for first, last in ((10, 12), (13, 13), (9, 14), (100, 101), (10, 10)):
        do(review, do="set", first=first, last=last, stage=2)
    do(review, do="strength", value=0.5)
    assert n_looks(review.now.state) == 3
    session.close()


def test_targets_under_a_profile_that_promises_nothing_are_refused(tmp_path):
    session, review = open_review(tmp_path, STRICT)
    with pytest.raises(InputError, match="no posterior rules"):
        do(review, do="targets", value={"tst": 5})
    assert review.journal.n_actions == 0
    session.close()


def test_time_in_bed_bounds_the_looks(tmp_path):
    path = write_probabilities(tmp_path / "night.csv", FREE, n_epochs=200)
    request = asked(path, FREE)
    options = request.options.__class__(lights_off=1500.0, lights_on=4500.0)
    session = ReviewSession([asked(path, FREE, options=options)], "anna", until={"tst": 5})
    looks = session.review(0).plan().looks
    assert looks and min(look.first for look in looks) >= 50 and max(look.last for look in looks) < 150
    session.close()


def test_a_profile_without_promise_is_one_line_and_no_file(capsys, tmp_path):
    night = write_probabilities(tmp_path / "night.csv", STRICT)
    ran = Runner(capsys)("review", night, "--profile", STRICT, "--no-open", "--until", "tst=5")
    assert ran.code == 1 and "posterior rules" in error_line(ran)
    assert list(tmp_path.iterdir()) == [night]


def test_conflicting_answers_hold_in_the_numbers(tmp_path):
    session, review = opened(tmp_path, until={"R": 5})
    state = review.now.state
    assert state.targets == {"stage_minutes_R": 5.0}
    do(review, do="set", first=0, last=359, stage=4)
    plan = review.plan()
    assert plan.is_met and plan.reached["stage_minutes_R"].value == 180.0
    assert np.isclose(plan.lack, 0.0)
    session.close()
