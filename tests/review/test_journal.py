from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import stageguard as sg
from messages import mentions, naming
from review_nights import STRICT, asked, do, open_review, write_probabilities
from stageguard.errors import FileFormatError, InputError, OutputError
from stageguard.formats.night import FileOptions
from stageguard.review.journal import read_journal
from stageguard.review.review import ConflictError, Review, ReviewSession
from stageguard.review.wire import explanation
from stageguard.runner.decode_one import DecodeOptions

N_EPOCHS = 40
WHERE = st.tuples(st.integers(0, N_EPOCHS - 1), st.integers(0, 6))
SETS = st.tuples(WHERE, st.integers(0, 2)).map(
    lambda t: {"do": "set", "first": t[0][0], "last": min(sum(t[0]), N_EPOCHS - 1), "stage": t[1]}
)
ACTIONS = st.one_of(
    SETS,
    WHERE.map(lambda w: {"do": "clear", "first": w[0], "last": min(sum(w), N_EPOCHS - 1)}),
    WHERE.map(lambda w: {"do": "agree", "first": w[0], "last": min(sum(w), N_EPOCHS - 1)}),
    st.sampled_from([{"do": "undo"}, {"do": "redo"}]),
    st.sampled_from([None, "off", 0.4]).map(lambda value: {"do": "strength", "value": value}),
)


@given(st.lists(ACTIONS, min_size=1, max_size=10))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_state_is_what_its_journal_replays_to_and_pins_always_hold(tmp_path, sequence):
    journal = tmp_path / "night.anna.review.jsonl"
    journal.unlink(missing_ok=True)
    session, review = open_review(tmp_path, n_epochs=N_EPOCHS)
    n_accepted = 0
    for said in sequence:
        try:
            at = do(review, **said)
        except InputError:  # a conflict, or nothing to undo
            continue
        n_accepted += 1
        assert all(at.result.labels[epoch] == pin.stage for epoch, pin in at.state.pins.items())
        assert at.result.conflict is None
    state, labels = review.now.state, review.now.result.labels
    session.close()
    assert journal.exists() == (n_accepted > 0)
    session, again = open_review(tmp_path, n_epochs=N_EPOCHS)
    assert again.now.state == state
    assert (again.now.result.labels == labels).all()
    assert len(again.journal.found.actions) == n_accepted
    session.close()


def test_a_line_says_who_when_before_after_and_why(tmp_path):
    session, review = open_review(tmp_path)
    before = review.now.result.labels
    do(review, do="set", first=10, last=12, stage=2, why="saw-tooth waves")
    after = review.now.result.labels
    session.close()
    head, line = (json.loads(text) for text in review.journal.path.read_text().splitlines())
    assert head["scorer"] == "anna"
    assert head["night"] == {
        "name": "night",
        "n_epochs": 80,
        "epoch_seconds": 30.0,
        "stages": ["W", "N", "R"],
    }
    assert head["source"]["file"] == "night.csv"
    assert {key: line[key] for key in ("who", "do", "first", "last", "stage", "why", "after")} == {
        **{"who": "anna", "do": "set", "first": 10, "last": 12, "stage": "R"},
        **{"why": "saw-tooth waves", "after": "R×3"},
    }
    assert line["changed"] == int((before != after).sum())
    assert line["when"].startswith("20") and "T" in line["when"]


def changed(lines: list[bytes], number: int, **changes: object) -> list[bytes]:
    """Change fields of one line."""
    record = json.loads(lines[number]) | changes
    return [*lines[:number], json.dumps(record).encode(), *lines[number + 1 :]]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda lines: [lines[0], b"{]", lines[2]], "line 2 is no record"),
        (lambda lines: [lines[0], b"[1]", lines[2]], "line 2 is no record"),
        (lambda lines: [*lines, b"", lines[2]], "line 4 is no record"),
        (lambda lines: [*lines, b"{]"], "line 4 is no record"),
        (lambda lines: [lines[0], lines[1] + lines[2]], "line 2 is no record"),
        (lambda lines: [*lines[:2], lines[2].replace(b'"when"', b'"x"')], "line 3 is no record"),
        (lambda lines: changed(lines, 2, who=[1]), "line 3 is no record"),
        (lambda lines: [lines[0][:200]], "line 1 is no record"),
        (lambda lines: [lines[0].replace(b'"layout": 3', b'"layout": 2'), *lines[1:]], "no review that this"),
        *(
            (lambda lines, key=key: changed(lines, 0, **{key: None}), "first line is incomplete")
            for key in ("scorer", "blind", "source", "profile", "begun", "pins", "options")
        ),
        (lambda lines: changed(lines, 0, pins={"1": "R"}), "with other pins"),
        (lambda lines: changed(lines, 1, first=999), "first is 999"),
        (lambda lines: changed(lines, 1, do="x"), "line 2 cannot be done again"),
        (lambda lines: changed(lines, 1, do="redo"), "line 2 cannot be done again"),
        (lambda lines: changed(lines, 2, stages=["Wach"]), "line 3 cannot be done again"),
        (lambda lines: changed(lines, 2, do="profile", name="../x.toml"), "line 3 cannot be done again"),
    ],
)
def test_a_journal_that_was_damaged_elsewhere_is_refused_and_left_as_it_is(tmp_path, damage, words):
    session, review = open_review(tmp_path)
    do(review, do="set", first=10, last=12, stage=2)
    do(review, do="agree", first=1, last=1)
    session.close()
    path = review.journal.path
    path.write_bytes(b"\n".join(damage(path.read_bytes().splitlines())) + b"\n")
    before = path.read_bytes()
    with pytest.raises(FileFormatError, match=words) as refused:
        open_review(tmp_path)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == before


QUALITY = np.linspace(0, 1, 80)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"options": DecodeOptions(quality=QUALITY)}, ("with another quality (--quality)",)),
        ({"options": DecodeOptions(pins={5: "W"})}, ("with other pins (--pins)",)),
        ({"options": DecodeOptions(cohort="adults")}, ("'adults'",)),
        ({"options": DecodeOptions(trained="natural")}, ("'natural'",)),
        ({"options": DecodeOptions(stager="yasa")}, ("'yasa'",)),
        ({"options": DecodeOptions(FileOptions(epoch_seconds=20.0))}, ("epochs or stages",)),
        ({"options": DecodeOptions(FileOptions(normalize=True))}, ("normalize", "True")),
        ({"start": datetime(2024, 1, 1, 22)}, ("'2024-01-01T22:00:00'",)),
        ({"options": DecodeOptions(lights_off=600.0)}, ("lights_off", "600.0")),
        ({"options": DecodeOptions(lights_on=1800.0)}, ("lights_on", "1800.0")),
        ({"profile": sg.Profile.load(STRICT).replace(transition_weight=0.3)}, ("under another profile",)),
    ],
)
def test_a_review_goes_on_only_with_what_it_was_begun_with(tmp_path, change, words):
    session, review = open_review(tmp_path)
    do(review, do="set", first=10, last=12, stage=2)
    session.close()
    before = review.journal.path.read_bytes()
    other = ReviewSession([replace(asked(tmp_path / "night.csv"), **change)], "anna")
    assert other.errors == [None]
    with pytest.raises(FileFormatError, match=naming(*words)) as refused:
        other.review(0)
    assert "name another file (-o)" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert review.journal.path.read_bytes() == before


@pytest.mark.parametrize(
    "text", [b"my own notes", b'{"layers": 3}', b"x\n{}", b'{"la', b'{"layout": 3, "s', b"\0" * 9]
)
def test_a_file_that_is_no_journal_is_refused_and_left_as_it_is(tmp_path, text):
    path = tmp_path / "notes.jsonl"
    path.write_bytes(text)
    session = ReviewSession([asked(write_probabilities(tmp_path / "night.csv"))], "anna", output=path)
    with pytest.raises(FileFormatError, match=r"notes\.jsonl"):
        session.review(0)
    assert path.read_bytes() == text


ENDS = {
    "a cut line": (lambda data: data + b'{"when": "20', "last line of 12 bytes"),
    "a cut line and zeros": (lambda data: data + b'{"wh\0\0', "last line of 6 bytes"),
    "zeros": (lambda data: data + bytes(40), "last line of 40 bytes"),
    "line ends of Windows": (lambda data: data.replace(b"\n", b"\r\n"), "Windows"),
}


@pytest.mark.parametrize(("damage", "remark"), ENDS.values(), ids=ENDS)
def test_what_was_never_acknowledged_goes_with_the_next_line(tmp_path, damage, remark):
    session, review = open_review(tmp_path)
    do(review, do="set", first=10, last=12, stage=2)
    session.close()
    path, state = review.journal.path, review.now.state
    path.write_bytes(damage(path.read_bytes()))
    session, review = open_review(tmp_path)
    assert mentions(review.journal.found.remarks, remark)
    assert review.now.state == state
    do(review, do="set", first=40, last=42, stage=1)
    state = review.now.state
    session.close()
    session, review = open_review(tmp_path)
    assert review.now.state == state
    session.close()
    assert len(read_journal(path).actions) == 2


@pytest.mark.parametrize("n_actions", [0, 1])
def test_a_whole_last_line_without_its_newline_is_kept(tmp_path, n_actions):
    session, review = open_review(tmp_path)
    do(review, do="set", first=10, last=12, stage=2)
    session.close()
    path = review.journal.path
    data = b"".join(path.read_bytes().splitlines(keepends=True)[: 1 + n_actions])
    path.write_bytes(data[:-1])
    session, review = open_review(tmp_path)
    assert review.now.state.revision == n_actions
    assert review.journal.found.remarks == ()
    session.close()
    assert path.read_bytes() == data[:-1]
    session, review = open_review(tmp_path)
    do(review, do="set", first=40, last=42, stage=1)
    session.close()
    assert path.read_bytes().startswith(data)
    assert len(read_journal(path).actions) == n_actions + 1


def test_an_empty_file_that_was_there_before_is_begun_and_not_removed(tmp_path):
    path = tmp_path / "night.anna.review.jsonl"
    path.touch()
    session, _ = open_review(tmp_path)
    session.close()
    assert read_journal(path).head["scorer"] == "anna"


@pytest.mark.parametrize("change", ["removed", "replaced", "lengthened"])
def test_nothing_is_acknowledged_when_the_journal_was_changed_from_outside(tmp_path, change):
    session, review = open_review(tmp_path)
    do(review, do="set", first=10, last=12, stage=2)
    path, state = review.journal.path, review.now.state
    data = path.read_bytes()
    if change != "lengthened":
        path.unlink()
    if change != "removed":
        data += b"{}\n"
        path.write_bytes(data)
    with pytest.raises(OutputError, match=naming("removed", "by another program")):
        do(review, do="set", first=20, last=22, stage=1)
    assert review.now.state == state
    session.close()
    assert not path.exists() if change == "removed" else path.read_bytes() == data


def test_another_file_in_the_place_of_an_empty_journal_is_not_removed(tmp_path):
    session, review = open_review(tmp_path)
    review.journal.path.unlink()
    review.journal.path.write_text("somebody's")
    session.close()
    assert review.journal.path.read_text() == "somebody's"


def test_the_review_of_another_night_scorer_or_profile_is_not_gone_on_with(tmp_path):
    session, review = open_review(tmp_path)
    do(review, do="agree", first=1, last=1)
    session.close()
    opened, path = review.night, review.journal.path
    path.write_bytes(data := path.read_bytes() + b'{"when": "20')
    with pytest.raises(FileFormatError, match=naming("'anna'")):
        Review(opened, path, "ben", is_blind=False)
    assert path.read_bytes() == data
    with pytest.raises(FileFormatError, match=naming("review", "is not blind")):
        Review(opened, path, "anna", is_blind=True)
    write_probabilities(tmp_path / "night.csv", seed=5)
    with pytest.raises(FileFormatError, match=naming("another file", "probabilities")):
        open_review(tmp_path)


def test_a_second_server_on_one_review_is_refused(tmp_path):
    session, review = open_review(tmp_path)
    with pytest.raises(OutputError, match=naming("server has this", "open")):
        open_review(tmp_path)
    assert review.journal.path.exists()
    session.close()
    session, _ = open_review(tmp_path)  # free again
    session.close()


def test_a_review_in_which_nothing_was_done_leaves_no_file(tmp_path):
    session, review = open_review(tmp_path)
    assert review.journal.path.exists()
    session.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["night.csv"]


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    session, review = open_review(tmp_path)
    do(review, do="set", first=10, last=12, stage=2)
    state, data = review.now.state, review.journal.path.read_bytes()
    real = os.fsync

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=naming("No space left", "device")):
        do(review, do="set", first=20, last=22, stage=1)
    assert review.now.state == state
    assert review.journal.path.read_bytes() == data
    monkeypatch.setattr(os, "fsync", real)
    do(review, do="set", first=20, last=22, stage=1)
    session.close()


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from review_nights import do, open_review
session, review = open_review(Path({folder!r}), "human-psg-3")
for number in range(10_000):
    do(review, do="set", first=number % 70, last=number % 70 + 3, stage=number % 3)
    print(number, flush=True)
"""


def test_what_was_acknowledged_survives_kill_9(tmp_path):
    """The same actions, killed somewhere and not, come to the same state."""
    script = SCRIPT.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path))
    write_probabilities(tmp_path / "night.csv", "human-psg-3")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(5)]
        time.sleep(0.05)  # somewhere in the middle of a later one
        process.send_signal(signal.SIGKILL)
        said += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    n_said = sum(line.endswith("\n") for line in said)
    session, review = open_review(tmp_path, "human-psg-3")
    n_kept = review.now.state.revision
    assert n_said <= n_kept <= n_said + 1  # at most one was on disk and not yet said
    killed = review.now.state
    session.close()
    review.journal.path.unlink()
    session, review = open_review(tmp_path, "human-psg-3")
    for number in range(n_kept):
        do(review, do="set", first=number % 70, last=number % 70 + 3, stage=number % 3)
    uninterrupted = review.now.state
    session.close()
    stages = [{epoch: pin.stage for epoch, pin in one.pins.items()} for one in (killed, uninterrupted)]
    assert stages[0] == stages[1]
    assert killed.settings == uninterrupted.settings


def test_a_conflict_is_not_in_the_journal(tmp_path):
    session, review = open_review(tmp_path)
    do(review, do="set", first=10, last=10, stage=0)
    do(review, do="set", first=12, last=12, stage=0)
    before = review.journal.path.read_bytes()
    with pytest.raises(ConflictError):
        do(review, do="set", first=11, last=11, stage=2)
    assert review.journal.path.read_bytes() == before
    session.close()


def test_control_characters_of_a_reason_are_kept_and_reach_the_page_escaped(tmp_path):
    session, review = open_review(tmp_path)
    do(review, do="set", first=10, last=12, stage=2, why="a\x1b[2Jb")
    session.close()
    session, review = open_review(tmp_path)
    assert review.now.state.pins[10].why == "a\x1b[2Jb"
    told = explanation(review, 10)
    session.close()
    assert told["pin"]["why"] == r"a\x1b[2Jb"
    assert all(line.isprintable() for line in told["text"])
