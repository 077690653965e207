from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from messages import naming
from stageguard.errors import InputError
from stageguard.night.stages import AASM5
from stageguard.review.state import Action, GuardSettings, Pin, ReviewState, act, parse_action

N_EPOCHS = 12
PROFILES = ("one", "two")
START = ReviewState(GuardSettings("one"), pins={3: Pin(1, "before")})


def stretches():
    return st.tuples(st.integers(0, N_EPOCHS - 1), st.integers(0, 3)).map(
        lambda pair: {"first": pair[0], "last": min(pair[0] + pair[1], N_EPOCHS - 1)}
    )


def simple_actions():
    return st.one_of(
        st.tuples(stretches(), st.integers(0, 4), st.text(max_size=4)).map(
            lambda t: {"do": "set", **t[0], "stage": t[1], "why": t[2]}
        ),
        stretches().map(lambda where: {"do": "clear", **where}),
        st.sampled_from(PROFILES).map(lambda name: {"do": "profile", "name": name}),
        st.sampled_from([None, "off", 0.5, 2]).map(lambda value: {"do": "strength", "value": value}),
        st.sampled_from([None, True, False]).map(lambda value: {"do": "clock", "value": value}),
    )


ACTIONS = st.one_of(
    simple_actions(),
    stretches().map(lambda w: {"do": "agree", **w, "stages": [1] * (w["last"] - w["first"] + 1)}),
    st.lists(simple_actions(), min_size=1, max_size=4).map(lambda few: {"do": "several", "actions": few}),
    st.tuples(stretches(), st.booleans()).map(lambda t: {"do": "artefact", **t[0], "value": t[1]}),
    st.sampled_from([{"do": "undo"}, {"do": "redo"}, {"do": "choose_strength"}]),
)


def apply(state: ReviewState, said: dict) -> ReviewState | None:
    try:
        return act(state, parse_action(said, AASM5, N_EPOCHS, PROFILES), "anna", N_EPOCHS, "now")
    except InputError:
        return None


def decisions(state: ReviewState) -> tuple:
    return dict(state.pins), state.settings, state.artefacts


@given(st.lists(ACTIONS, max_size=25))
@settings(max_examples=150)
def test_undo_is_the_exact_inverse_and_redo_the_inverse_of_that(sequence):
    """Against a plain list of whole states, which knows nothing of steps."""
    state, past, future = START, [decisions(START)], []
    for said in sequence:
        after = apply(state, said)
        if after is None:  # refused: nothing to undo or redo, or nothing to take back
            continue
        if said["do"] == "undo":
            future.append(past.pop())
        elif said["do"] == "redo":
            past.append(future.pop())
        else:
            past.append(decisions(after))
            future.clear()
        state = after
        assert decisions(state) == past[-1]
        assert (bool(state.done), bool(state.undone)) == (len(past) > 1, bool(future))
    revision = state.revision
    while state.done:
        state = apply(state, {"do": "undo"})
    assert decisions(state) == decisions(START)
    assert state.revision == revision + len(past) - 1


@given(ACTIONS)
def test_an_action_comes_back_from_the_journal_as_it_was(said):
    action = parse_action(said, AASM5, N_EPOCHS, PROFILES)
    assert parse_action(action.to_dict(AASM5), AASM5, N_EPOCHS, PROFILES) == action


def test_several_actions_are_one_step():
    said = [
        {"do": "set", "first": 3, "last": 5, "stage": 2},
        {"do": "clear", "first": 4, "last": 4},
        {"do": "profile", "name": "two"},
    ]
    state = apply(START, {"do": "several", "actions": said})
    assert {epoch: pin.stage for epoch, pin in state.pins.items()} == {3: 2, 5: 2}
    assert state.settings.profile == "two"
    assert decisions(apply(state, {"do": "undo"})) == decisions(START)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (None, ("expected an object",)),
        ({"do": "format disk"}, ("clear",)),
        ({"do": "set", "first": 12, "last": 12, "stage": 0}, ("first is 12, expected", "0 to 11")),
        ({"do": "set", "first": -1, "last": 2, "stage": 0}, ("first is -1",)),
        ({"do": "set", "first": True, "last": 2, "stage": 0}, ("first is True",)),
        ({"do": "set", "first": 1.0, "last": 2, "stage": 0}, ("first is 1.0",)),
        ({"do": "set", "first": 5, "last": 2, "stage": 0}, ("from epoch 5 to 2",)),
        ({"do": "set", "first": 5, "last": 5, "stage": 5}, ("stage", 5, 0, 4)),
        ({"do": "set", "first": 5, "last": 5, "stage": True}, ("stage is True",)),
        ({"do": "set", "first": 5, "last": 5, "stage": "Wach"}, ("not a stage",)),
        ({"do": "set", "first": 5, "last": 5, "stage": 1, "why": "x" * 501}, ("501 characters",)),
        ({"do": "set", "first": 5, "last": 5, "stage": 1, "why": "\ud800"}, ("UTF-8",)),
        ({"do": "agree", "first": 1, "last": 2, "stages": [1]}, ("expected a list", 2)),
        ({"do": "agree", "first": 1, "last": 1, "stages": [-1]}, ("stage", -1, 0, 4)),
        ({"do": "artefact", "first": 1, "last": 1}, ("value is None",)),
        ({"do": "profile", "name": "../../etc/passwd"}, ("expected 'one' or 'two'",)),
        ({"do": "strength", "value": -1}, ("strength",)),
        ({"do": "strength", "value": float("nan")}, ("finite",)),
        ({"do": "clock", "value": 1}, ("clock is 1", "true or false")),
        ({"do": "targets", "targets": {"tst": 5}}, ("targets are missing", "expected a value")),
        ({"do": "several", "actions": []}, ("expected a list",)),
        ({"do": "several", "actions": [{"do": "undo"}]}, ("stands alone",)),
        ({"do": "several", "actions": [{"do": "clock", "value": None}] * 9}, ("1 to 8",)),
    ],
)
def test_what_is_no_action_is_refused_in_one_line(said, words):
    with pytest.raises(InputError, match=naming(*words)) as refused:
        parse_action(said, AASM5, N_EPOCHS, PROFILES)
    assert "\n" not in str(refused.value)


def test_blind_scoring_begins_before_the_first_epoch_and_ends_when_all_are_scored():
    fresh = replace(START, pins={})
    blind = act(fresh, Action("blind", value=True), "anna", N_EPOCHS)
    assert blind.is_blind
    with pytest.raises(InputError, match=naming("12 epochs", "scored")):
        act(blind, Action("reveal", value=False), "anna", N_EPOCHS)
    assert act(blind, Action("reveal", value=True), "anna", N_EPOCHS).is_revealed
    with pytest.raises(InputError, match="score the epoch"):
        act(blind, Action("agree", 1, 1, stages=(1,)), "anna", N_EPOCHS)
    scored = act(blind, Action("set", 0, N_EPOCHS - 1, 2), "anna", N_EPOCHS)
    shown = act(scored, Action("reveal", value=False), "anna", N_EPOCHS)
    assert not shown.is_blind
    with pytest.raises(InputError, match=naming("before the first", "epoch")):
        act(shown, Action("blind", value=True), "anna", N_EPOCHS)
    undone = act(shown, Action("undo"), "anna", N_EPOCHS)
    assert undone.is_revealed  # what was seen cannot be taken back
    assert not undone.pins
