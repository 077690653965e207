"""Two scorers of a night, and who decides between them: merge, journal, files and commands."""

from __future__ import annotations

import base64
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, confusion_matrix

from cli_runner import error_line
from messages import mentions, naming
from review_nights import FREE, asked, do, open_review, served, write_probabilities
from stageguard.errors import FileFormatError, InputError
from stageguard.review import wire
from stageguard.review.dispute import CONSENSUS, Dispute, Opinion
from stageguard.review.journal import read_journal
from stageguard.review.review import ReviewSession
from stageguard.review.scorings import find_reviews, read_reviewed

N_EPOCHS = 40
NAMES = ("W", "N1", "N2", "N3", "R")
TWO = ("anna", "ben")


def score(folder: Path, scorer: str, labels: list[int], *, blind: bool = True) -> Path:
    """Score the night of a folder, epoch by epoch; returns the journal."""
    session, review = open_review(folder, FREE, scorer=scorer, blind=blind, n_epochs=N_EPOCHS)
    for epoch, stage in enumerate(labels):
        do(review, do="set", first=epoch, last=epoch, stage=stage)
    session.close()
    return review.journal.path


@pytest.fixture
def scores(tmp_path) -> dict[str, list[int]]:
    """Two scorings of one night, which differ in a fifth of the epochs or so."""
    rng = np.random.default_rng(3)
    first = np.repeat(rng.integers(0, 5, N_EPOCHS // 4), 4)
    second = np.where(rng.random(N_EPOCHS) < 0.25, rng.integers(0, 5, N_EPOCHS), first)
    labels = {"anna": first.tolist(), "ben": second.tolist()}
    for scorer, stages in labels.items():
        score(tmp_path, scorer, stages)
    return labels


def adjudicate(folder: Path, scorer: str = "carl", **more):
    session = ReviewSession([asked(folder / "night.csv", FREE)], scorer, adjudicates=TWO, **more)
    assert session.errors == [None], session.errors
    return session, session.review(0)


def decide_all(review, stage: int = 4) -> None:
    for one in review.night.dispute.stretches(review.now.state.pins):
        do(review, do="set", first=one.first, last=one.last, stage=stage)


def differing(scores) -> list[int]:
    return [epoch for epoch in range(N_EPOCHS) if scores["anna"][epoch] != scores["ben"][epoch]]


# ---- the merge


def opinion(scorer: str, labels: list[int]) -> Opinion:
    return Opinion(scorer, np.array(labels, dtype=np.int8), ("",) * len(labels), True, {})


pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60)


@given(pairs=pairs, data=st.data())
def test_every_epoch_is_settled_decided_or_in_one_stretch(pairs, data):
    first, second = (list(labels) for labels in zip(*pairs, strict=True))
    dispute = Dispute((opinion("anna", first), opinion("ben", second)))
    assert {epoch: pin.stage for epoch, pin in dispute.settled.items()} == {
        epoch: one for epoch, (one, other) in enumerate(pairs) if one == other
    }
    decided = data.draw(st.sets(st.sampled_from(range(len(pairs)))))
    pins = dispute.settled | {
        epoch: next(iter(dispute.settled.values()), None) for epoch in decided if epoch not in dispute.settled
    }
    stretches = dispute.stretches(pins)
    covered = [epoch for one in stretches for epoch in range(one.first, one.last + 1)]
    assert covered == [epoch for epoch in range(len(pairs)) if epoch not in pins]  # once each, in order
    assert all(pairs[epoch] == one.stages for one in stretches for epoch in range(one.first, one.last + 1))
    for one, after in pairwise(stretches):  # none could be longer
        assert after.first > one.last + 1 or one.stages != after.stages
    assert dispute.n_left(pins) == len(covered)


@given(pairs=pairs)
def test_kappas_and_confusion_are_those_of_another_library(pairs):
    first, second = (list(labels) for labels in zip(*pairs, strict=True))
    dispute = Dispute((opinion("anna", first), opinion("ben", second)))
    (found, *more) = dispute.comparisons(NAMES, dispute.settled)
    assert bool(more) == (first == second)  # the consensus is there if nothing is left
    assert (found.confusion == confusion_matrix(first, second, labels=range(5))).all()
    with np.errstate(invalid="ignore"):
        is_defined = len({*first, *second}) > 1
        assert found.kappa == pytest.approx(
            cohen_kappa_score(first, second) if is_defined else np.nan, nan_ok=True
        )
        for stage, name in enumerate(NAMES):
            one, other = ([label == stage for label in labels] for labels in (first, second))
            expected = cohen_kappa_score(one, other) if len({*one, *other}) > 1 else np.nan
            assert found.stage_kappas[name] == pytest.approx(expected, nan_ok=True)


# ---- state and journal


def test_agreed_epochs_are_settled_and_only_the_others_are_decided(tmp_path, scores):
    session, review = adjudicate(tmp_path)
    assert sorted(review.now.state.pins) == sorted(set(range(N_EPOCHS)) - set(differing(scores)))
    settled = next(iter(review.night.dispute.settled))
    for action in ({"do": "set", "stage": 0}, {"do": "clear"}):
        with pytest.raises(InputError, match=naming("anna and ben agree", settled + 1)):
            do(review, **action, first=settled, last=settled)
    with pytest.raises(InputError, match="reveal"):
        do(review, do="blind", value=False)
    assert review.now.state.revision == 0
    epoch = differing(scores)[0]
    do(review, do="set", first=epoch, last=epoch, stage=2, why="spindles")
    do(review, do="undo")
    do(review, do="redo")
    session.close()
    session, review = adjudicate(tmp_path)  # goes on
    pin = review.now.state.pins[epoch]
    assert (pin.stage, pin.who, pin.why, bool(pin.when)) == (2, "carl", "spindles", True)
    session.close()
    head = read_journal(tmp_path / "night.carl.adjudication.review.jsonl").head
    logs = [read_journal(tmp_path / f"night.{who}.review.jsonl") for who in TWO]
    assert [(one["scorer"], one["sha256"]) for one in head["adjudicates"]] == [
        (log.scorer, log.place["sha256"]) for log in logs
    ]


def test_the_consensus_is_exported_when_everything_is_decided(tmp_path, scores):
    session, review = adjudicate(tmp_path)
    with pytest.raises(InputError, match=naming(len(differing(scores)), "not decided")):
        review.export("stageguard-csv")
    decide_all(review)
    expected = [scores["anna"][epoch] if epoch not in differing(scores) else 4 for epoch in range(N_EPOCHS)]
    assert review.stages(review.now).labels.tolist() == expected
    for form in review.formats:
        written = review.export(form.name)
        assert written.path.name.startswith("night.carl.adjudication.reviewed"), form
    assert review.stages(review.now).scorer == "carl"
    by_hand = {"anna": scores["anna"], "ben": scores["ben"], CONSENSUS: expected}
    assert len(review.comparisons) == 3
    for one in review.comparisons:
        assert one.kappa == pytest.approx(cohen_kappa_score(by_hand[one.reference], by_hand[one.scorer]))
    session.close()


# ---- what is refused


def test_a_log_that_goes_on_or_is_edited_is_refused(tmp_path, scores):
    session, review = adjudicate(tmp_path)
    decide_all(review)
    log = tmp_path / "night.ben.review.jsonl"
    original = log.read_bytes()
    other, mine = open_review(tmp_path, FREE, scorer="ben", blind=True)
    do(mine, do="set", first=0, last=0, stage=(scores["ben"][0] + 1) % 5)
    other.close()
    with pytest.raises(FileFormatError, match=naming("changed", N_EPOCHS + 2, N_EPOCHS + 1)):
        review.export("stageguard-csv")  # while the page is open
    session.close()
    with pytest.raises(FileFormatError, match=naming("logs", "changed")):
        adjudicate(tmp_path)
    with pytest.raises(FileFormatError, match=naming("changed", "Put the log back")):
        read_reviewed(find_reviews(tmp_path)["night"])
    log.write_bytes(original)
    session, _ = adjudicate(tmp_path)  # put back
    session.close()
    log.write_bytes(original.replace(b'"who": "ben"', b'"who": "bob"', 1))
    with pytest.raises(FileFormatError, match=naming("logs", "changed")):
        adjudicate(tmp_path)
    log.unlink()
    session = ReviewSession([asked(tmp_path / "night.csv", FREE)], "carl", adjudicates=TWO)
    assert mentions(session.errors[0], "ben", "not there")


def test_a_scoring_in_part_cannot_be_adjudicated(tmp_path):
    score(tmp_path, "anna", [0] * N_EPOCHS)
    score(tmp_path, "ben", [0] * (N_EPOCHS - 3))
    session = ReviewSession([asked(tmp_path / "night.csv", FREE)], "carl", adjudicates=TWO)
    assert mentions(session.errors[0], "ben", "3 of 40 epochs")


def test_scorings_of_another_night_cannot_be_adjudicated(tmp_path, scores):
    write_probabilities(tmp_path / "night.csv", FREE, n_epochs=N_EPOCHS, seed=9)
    session = ReviewSession([asked(tmp_path / "night.csv", FREE)], "carl", adjudicates=TWO)
    assert mentions(session.errors[0], "another file")


def test_an_adjudication_is_no_scorer(tmp_path, scores):
    session, review = adjudicate(tmp_path)
    decide_all(review)
    session.close()
    session = ReviewSession(
        [asked(tmp_path / "night.csv", FREE)], "dora", adjudicates=("anna", "carl.adjudication")
    )
    assert mentions(session.errors[0], "no review by one scorer")
    session, review = open_review(tmp_path, FREE, scorer="dora", blind=True)
    told = wire.moving_part(review, review.now)["second_scorer"]
    assert told["scorer"] in TWO
    for who in TWO:
        (tmp_path / f"night.{who}.review.jsonl").unlink()
    assert wire.moving_part(review, review.now)["second_scorer"] is None  # carl only decided between them
    session.close()


def test_a_scorer_may_decide_in_an_own_journal(tmp_path, scores):
    before = (tmp_path / "night.anna.review.jsonl").read_bytes()
    session, review = adjudicate(tmp_path, "anna")
    decide_all(review)
    session.close()
    assert (tmp_path / "night.anna.review.jsonl").read_bytes() == before
    assert len(read_reviewed(find_reviews(tmp_path)["night"]).experts) == 1


# ---- what is hidden


def without_names(told: dict) -> dict:
    return {key: value for key, value in told.items() if key != "saved"}


def test_a_blind_second_scorer_sees_nothing_of_the_first(tmp_path):
    """The page gets the same, whatever the first has scored."""
    told = []
    for number, stages in enumerate(([0] * N_EPOCHS, [4, 1] * (N_EPOCHS // 2))):
        folder = tmp_path / str(number)
        folder.mkdir()
        score(folder, "anna", stages)
        session, review = open_review(folder, FREE, scorer="ben", blind=True)
        do(review, do="set", first=0, last=3, stage=2)
        told.append(without_names(wire.whole_state(review, 0)))
        session.close()
    assert told[0] == told[1]


def test_stager_and_guard_are_hidden_until_they_are_revealed(tmp_path, scores):
    session, _ = adjudicate(tmp_path)
    with served(session) as (_, client):
        told = client.get("/api/nights/0").json()
        hidden = ("stager", "guard", "probabilities", "posterior", "expert", "statistics", "changes")
        assert [told[name] for name in hidden] == [None] * len(hidden)
        opinions = [np.frombuffer(base64.b64decode(one["stages"]), np.int8) for one in told["opinions"]]
        assert [labels.tolist() for labels in opinions] == [scores[who] for who in TWO]
        queue = client.get("/api/nights/0/queue").json()["queue"]
        assert queue["left"] == len(differing(scores))
        assert queue["epochs"][0]["first"] == differing(scores)[0]
        assert client.get("/api/nights/0/explain/0").status_code == 403
        body = {"revision": 0, "action": {"do": "reveal"}}
        assert client.post("/api/nights/0/actions", json=body).status_code == 400
        body["action"]["anyway"] = True
        revealed = client.post("/api/nights/0/actions", json=body).json()
        assert revealed["stager"] is not None
        assert client.get("/api/nights/0/queue").json()["queue"]["left"] == len(differing(scores))
    actions = read_journal(tmp_path / "night.carl.adjudication.review.jsonl").actions
    assert [action["do"] for action in actions] == ["reveal"]


def test_scorers_who_were_not_blind_are_named(tmp_path):
    score(tmp_path, "anna", [0] * N_EPOCHS)
    score(tmp_path, "ben", [1] * N_EPOCHS, blind=False)
    session, review = adjudicate(tmp_path)
    assert [one["blind"] for one in wire.whole_state(review, 0)["opinions"]] == [True, False]
    session.close()


# ---- commands


def test_fit_takes_the_consensus_instead_of_the_two(tmp_path, scores):
    both = read_reviewed(find_reviews(tmp_path)["night"])
    assert [expert.scorer for expert in both.experts] == ["anna", "ben"]
    session, review = adjudicate(tmp_path)
    first = review.night.dispute.stretches()[0]
    do(review, do="set", first=first.first, last=first.last, stage=0)
    session.close()
    with pytest.raises(FileFormatError, match=naming("anna and ben", "not decided")):
        read_reviewed(find_reviews(tmp_path)["night"])
    session, review = adjudicate(tmp_path)
    decide_all(review)
    labels = review.stages(review.now).labels
    session.close()
    found = read_reviewed(find_reviews(tmp_path)["night"])
    assert [expert.scorer for expert in found.experts] == ["carl"]
    assert (found.experts[0].labels == labels).all()
    assert found.reviews[0]["how"] == "adjudicated between anna and ben"
    assert found.reviews[0]["epochs_set"] == len(differing(scores))


def test_consensus_takes_reviews(run, tmp_path, scores):
    journals = [tmp_path / f"night.{who}.review.jsonl" for who in TWO]
    to = "--consensus", tmp_path / "merged.tsv"
    ran = run("compare", *journals, *to, "--json")
    assert ran.code == 0, ran.err
    (told,) = ran.lines
    kappa = cohen_kappa_score(scores["anna"], scores["ben"])
    assert [one["kappa_with_others"] for one in told["scorers"]] == pytest.approx([kappa, kappa])
    session, review = adjudicate(tmp_path)
    decide_all(review)
    session.close()
    ran = run("compare", *journals, review.journal.path, *to)
    assert mentions(error_line(ran), "carl", "twice")
    score(tmp_path, "dora", [1] * 5)
    ran = run("compare", *journals, tmp_path / "night.dora.review.jsonl", *to)
    assert mentions(error_line(ran), "35 of 40")


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["--adjudicate", "anna"], 2, "two scorers"),
        (["--adjudicate", "anna,anna"], 2, "two scorers"),
        (["--adjudicate", "anna,ben", "--blind"], 2, "blind already"),
        (["--adjudicate", "anna,ben"], 1, "not there"),
    ],
)
def test_what_cannot_be_adjudicated_is_one_line(run, tmp_path, words, code, expected):
    night = write_probabilities(tmp_path / "night.csv", FREE, n_epochs=N_EPOCHS)
    ran = run("review", night, "--profile", FREE, "--no-open", *words)
    assert ran.code == code
    assert expected in ran.err
    assert ran.err.count("\n") == 1
