"""Events of a scorer: marked, changed, taken back and done again; artefacts fade the evidence of epochs."""

from __future__ import annotations

import json
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import stageguard as sg
from messages import naming
from review_nights import FREE, STRICT, asked, do, open_review, write_probabilities
from stageguard.errors import FileFormatError, InputError, StageGuardWarning
from stageguard.formats.hypnogram import UNSCORED_WORDS
from stageguard.night.stages import AASM5, canonical_name
from stageguard.review.events import (
    BY_WORD,
    KINDS,
    LOST_SHARE,
    MOST_EVENTS,
    ScoredEvent,
    kind_of_text,
    lost_shares,
    parse_event,
)
from stageguard.review.journal import read_journal, sealed_line
from stageguard.review.opening import open_night
from stageguard.review.review import ReviewSession
from stageguard.review.state import GuardSettings, ReviewState, act, parse_action
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.verify import verify_output

SPAN = (5.0, 605.0)
N_EPOCHS = 20
NAMES = [kind.name for kind in KINDS]


def times(low=SPAN[0], high=SPAN[1]):
    return st.integers(int(low * 1000), int(high * 1000)).map(lambda ms: ms / 1000)


def events():
    words = st.text(st.characters(categories=("L", "N", "P")), max_size=12).map(str.strip)
    return st.tuples(st.sampled_from(NAMES), times(), times(), words, words).map(
        lambda t: {
            **{"kind": t[0], "begin": min(t[1:3]), "end": max(t[1:3]), "channel": t[3]},
            "text": t[4] or "words",
        }
    )


def actions():
    numbers = st.integers(1, 12)
    return st.one_of(
        events().map(lambda event: {"do": "add_event", "event": event}),
        st.tuples(numbers, events()).map(lambda t: {"do": "change_event", "number": t[0], "event": t[1]}),
        numbers.map(lambda number: {"do": "remove_event", "number": number}),
        st.sampled_from([{"do": "undo"}, {"do": "redo"}]),
        st.integers(0, N_EPOCHS - 1).map(lambda e: {"do": "set", "first": e, "last": e, "stage": 2}),
    )


def parsed(said: dict):
    return parse_action(said, AASM5, N_EPOCHS, ("one",), SPAN)


@given(st.lists(actions(), max_size=25))
def test_undo_and_redo_of_events_are_exact(sequence):
    """Against a plain list of whole states, which knows nothing of steps."""
    state = ReviewState(GuardSettings("one"))
    past, future = [dict(state.events)], []
    for said in sequence:
        try:
            after = act(state, parsed(said), "anna", N_EPOCHS, "now")
        except InputError:  # nothing to undo, no such event, or no change
            continue
        if said["do"] == "undo":
            future.append(past.pop())
        elif said["do"] == "redo":
            past.append(future.pop())
        else:
            past.append(dict(after.events))
            future.clear()
        state = after
        assert dict(state.events) == past[-1]
    while state.done:
        state = act(state, parsed({"do": "undo"}), "anna", N_EPOCHS)
    assert not state.events


@given(events())
def test_an_event_comes_back_from_the_journal_as_it_was(said):
    event = parse_event(said, SPAN)
    assert parse_event(json.loads(json.dumps(event.to_dict())), SPAN) == event
    assert event.to_dict() == said


GOOD = {"kind": "arousal", "begin": 10, "end": 13.5, "channel": "C4-M1", "text": ""}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "sneeze"}, ("kind is 'sneeze', expected 'arousal'",)),
        ({"kind": None}, ("kind is None",)),
        ({"begin": 4.9}, ("begin is 4.9 s, expected 5 to 605 s",)),
        ({"end": 605.1}, ("end is 605.1 s, expected 5 to 605 s",)),
        ({"begin": 14}, ("from 14 s to 13.5 s, expected an end after",)),
        ({"begin": float("nan")}, ("begin is nan, expected a finite",)),
        ({"begin": True}, ("begin is True, expected a number",)),
        ({"begin": "10"}, ("begin is '10', expected a number",)),
        ({"end": 10**400}, ("expected a finite number",)),
        ({"channel": "a\nb"}, ("channel", "one line")),
        ({"channel": "c" * 81}, ("81 characters, expected at most 80",)),
        ({"text": "t" * 201}, ("201 characters, expected at most 200",)),
        ({"text": "\ud800"}, ("UTF-8",)),
        ({"text": "\x1b[2J"}, ("printable",)),
        ({"kind": "text", "text": " "}, ("text without words",)),
        ({"colour": "red"}, ("unknown key 'colour'",)),
    ],
)
def test_what_is_no_event_is_refused_in_one_line(change, words):
    with pytest.raises(InputError, match=naming(*words)) as refused:
        parse_event(GOOD | change, SPAN)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"do": "add_event"}, ("the event is None",)),
        ({"do": "change_event", "event": GOOD}, ("number is None",)),
        ({"do": "remove_event", "number": 0}, ("number is 0",)),
        ({"do": "remove_event", "number": True}, ("number is True",)),
        ({"do": "several", "actions": [{"do": "add_event", "event": GOOD}]}, ("stands alone",)),
    ],
)
def test_what_is_no_action_on_events_is_refused(said, words):
    with pytest.raises(InputError, match=naming(*words)):
        parsed(said)


def test_an_event_that_is_not_there_or_already_so_is_refused():
    state = act(ReviewState(GuardSettings("one")), parsed({"do": "add_event", "event": GOOD}), "anna", 20)
    (number,) = state.events
    assert number == state.revision == 1
    with pytest.raises(InputError, match="no event 2"):
        act(state, parsed({"do": "remove_event", "number": 2}), "anna", N_EPOCHS)
    with pytest.raises(InputError, match="nothing was changed"):
        act(state, parsed({"do": "change_event", "number": 1, "event": GOOD}), "bob", N_EPOCHS)
    changed = act(
        state, parsed({"do": "change_event", "number": 1, "event": GOOD | {"end": 14}}), "bob", N_EPOCHS, "t"
    )
    assert (changed.events[1].end, changed.events[1].who, changed.events[1].when) == (14, "bob", "t")
    assert not act(changed, parsed({"do": "remove_event", "number": 1}), "bob", N_EPOCHS).events


def test_there_is_a_most_of_events():
    full = replace(
        ReviewState(GuardSettings("one"), revision=MOST_EVENTS),
        events={number: ScoredEvent("spindle", 10, 11) for number in range(1, MOST_EVENTS + 1)},
    )
    with pytest.raises(InputError, match="remove some"):
        act(full, parsed({"do": "add_event", "event": GOOD}), "anna", N_EPOCHS)


def test_kinds_have_keys_and_words_of_their_own_that_are_no_stages():
    assert len({kind.key for kind in KINDS}) == len({kind.word for kind in KINDS}) == len(KINDS)
    for kind in KINDS:
        assert kind.word not in UNSCORED_WORDS and canonical_name(kind.word) is None
        assert kind_of_text(kind.word) == kind.name
        assert BY_WORD[kind.word] is kind
    assert kind_of_text("Obstructive apnea|Obstructive Apnea") == "apnoea"
    assert kind_of_text("Arousal|Arousal ()") == "arousal"
    assert kind_of_text("K-Complex") == "k_complex"
    assert kind_of_text("SpO2 desaturation") == "other"


@given(st.lists(st.tuples(times(0, 660), times(0, 660)), max_size=6), st.sampled_from([0.0, 5.0, 17.25]))
def test_the_share_that_artefacts_cover_is_counted_millisecond_by_millisecond(pairs, offset):
    spans = [(min(pair), max(pair)) for pair in pairs]
    covered = np.zeros(660_000 + 1, dtype=bool)
    for begin, end in spans:
        covered[round(begin * 1000) : round(end * 1000)] = True
    first = round(offset * 1000)
    shares = covered[first : first + N_EPOCHS * 30_000].reshape(N_EPOCHS, 30_000).mean(axis=1)
    expected = np.where(shares > LOST_SHARE, 1.0, shares)
    assert np.allclose(lost_shares(spans, N_EPOCHS, 30.0, offset), expected, atol=1e-6)


def test_half_an_epoch_is_faded_and_more_is_lost():
    assert lost_shares([(30, 45)], 3, 30.0).tolist() == [0, 0.5, 0]
    assert lost_shares([(30, 45.001)], 3, 30.0).tolist() == [0, 1, 0]


def mark(review, kind="artefact", begin=0.0, end=30.0, **more):
    return do(review, do="add_event", event={"kind": kind, "begin": begin, "end": end} | more)


def fade(n_epochs=80, **shares: float):
    quality = np.zeros(n_epochs)
    for epoch, share in shares.items():
        quality[int(epoch[1:])] = share
    return quality


def test_an_artefact_fades_the_evidence_of_its_epochs_at_once(tmp_path):
    session, review = open_review(tmp_path)
    before = review.now.result.labels
    at = mark(review, begin=120, end=249)  # epochs 4 to 7, and 9 s of 8
    quality = fade(e4=1, e5=1, e6=1, e7=1, e8=0.3)
    with pytest.warns(StageGuardWarning, match="changed"):
        expected = sg.decode(review.night.density, STRICT, quality=quality)
    assert (at.result.labels == expected.hypnogram.labels).all()
    assert (at.result.labels != before).any()
    assert (at.result.decoding.night.quality == quality).all()
    other = mark(review, "arousal", 600, 610)
    assert other.result is at.result  # only artefacts matter to the guard
    do(review, do="undo")
    do(review, do="undo")
    assert (review.now.result.labels == before).all()
    session.close()


def test_pins_hold_under_artefacts(tmp_path):
    session, review = open_review(tmp_path)
    do(review, do="set", first=10, last=12, stage=2)
    at = mark(review, begin=300, end=390)
    assert at.result.labels[10:13].tolist() == [2] * 3
    assert len(at.state.pins) == 3
    session.close()


def test_a_quality_that_was_given_is_never_made_better(tmp_path):
    given_quality = fade(e3=0.9, e4=0.1)
    path = write_probabilities(tmp_path / "night.csv", FREE)
    night = open_night(asked(path, FREE, options=DecodeOptions(quality=given_quality)))
    quality = night.quality_with(((90.0, 96.0), (120.0, 129.0)))
    assert quality.tolist() == fade(e3=0.9, e4=0.3).tolist()
    assert night.quality_with(()) is given_quality


def test_artefacts_everywhere_are_refused(tmp_path):
    for blind in (False, True):
        session, review = open_review(tmp_path, FREE, blind=blind, scorer=f"anna{blind}")
        with pytest.raises(InputError, match="no epoch with evidence"):
            mark(review, begin=0, end=80 * 30)
        mark(review, begin=0, end=79 * 30)
        session.close()


def weight_of(review) -> float:
    return review.now.result.decoding.strength.transition_weight


def test_verify_reproduces_a_night_with_artefacts(tmp_path):
    """The strength is the one of the night without them, until it is chosen again."""
    path = tmp_path / "night.csv"
    write_probabilities(path, FREE, n_epochs=400, seed=1)
    session, review = open_review(tmp_path, FREE)
    weight = weight_of(review)
    mark(review, begin=3000, end=7000)
    do(review, do="set", first=310, last=311, stage=1)
    assert weight_of(review) == weight
    first = review.export("stageguard-tsv")
    do(review, do="choose_strength")
    assert weight_of(review) != weight  # else this test shows nothing
    second = review.export("stageguard-tsv")
    do(review, do="undo")
    do(review, do="remove_event", number=1)
    third = review.export("stageguard-tsv")
    session.close()
    for written in (first, second, third):
        verified = verify_output(written.path)
        assert verified.ok, [check for check in verified.checks if not check.ok]
    rows = first.path.read_text().splitlines()
    quality = rows[0].split("\t").index("quality")
    values = [float(row.split("\t")[quality]) for row in rows[1:]]
    assert values == fade(400, **{f"e{epoch}": 1 for epoch in range(100, 233)}, e233=1 / 3).round(6).tolist()
    record = json.loads(first.files[1].read_text())["stageguard"]["options"]
    assert record["review"]["artefact_seconds"] == [[3000, 7000]]
    assert "quality" not in third.path.read_text().splitlines()[0].split("\t")
    # the output can be reviewed in turn, from the same night
    again = ReviewSession([replace(asked(first.path), profile=None)], "bob")
    assert again.errors == [None]
    assert weight_of(again.review(0)) == weight
    mark(again.review(0), begin=30, end=45)
    assert weight_of(again.review(0)) == weight
    fourth = again.review(0).export("stageguard-tsv")
    again.close()
    assert verify_output(fourth.path).ok


def test_events_of_a_blind_night_count_from_the_reveal_on(tmp_path):
    session, review = open_review(tmp_path, FREE, blind=True)
    hidden = review.now.result
    mark(review, begin=300, end=399)
    mark(review, "spindle", 10, 11)
    assert review.now.result is hidden
    at = do(review, do="reveal", anyway=True)
    assert at.result.decoding.night.quality.tolist() == fade(e10=1, e11=1, e12=1, e13=0.3).tolist()
    assert at.state.first_events == at.state.events
    session.close()


@given(st.lists(actions(), min_size=1, max_size=8))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_state_is_what_its_journal_replays_to(tmp_path, sequence):
    (tmp_path / "night.anna.review.jsonl").unlink(missing_ok=True)
    session, review = open_review(tmp_path, n_epochs=40)
    for said in sequence:
        try:
            do(review, **said)
        except InputError:
            continue
    state, labels = review.now.state, review.now.result.labels
    session.close()
    session, again = open_review(tmp_path, n_epochs=40)
    assert again.now.state == state
    assert (again.now.result.labels == labels).all()
    session.close()


def test_a_line_has_the_event_and_a_forged_one_is_refused(tmp_path):
    session, review = open_review(tmp_path)
    mark(review, "apnoea", 60, 72.5, channel="Flow", text="central")
    do(review, do="remove_event", number=1)
    session.close()
    path = review.journal.path
    added, removed = read_journal(path).actions
    assert (added["do"], added["who"]) == ("add_event", "anna")
    assert added["event"] == {
        **{"kind": "apnoea", "begin": 60.0, "end": 72.5},
        **{"channel": "Flow", "text": "central"},
    }
    assert (removed["do"], removed["number"], removed["changed"]) == ("remove_event", 1, 0)
    lines = path.read_bytes().splitlines()
    bare = {key: value for key, value in added.items() if key != "sha256"}
    for change in ({"event": added["event"] | {"end": 1e9}}, {"event": added["event"] | {"end": 72.50001}}):
        path.write_bytes(lines[0] + b"\n" + sealed_line(bare | change)[0])
        with pytest.raises(FileFormatError, match="line 2"):
            open_review(tmp_path)


def test_an_event_on_an_old_revision_changes_nothing(tmp_path):
    session, review = open_review(tmp_path, STRICT)
    mark(review, "spindle", 10, 11)
    with pytest.raises(InputError, match="another window"):
        review.act({"do": "remove_event", "number": 1}, 0)
    assert len(review.now.state.events) == 1
    session.close()
