"""A night under a person's decisions: what holds, what is refused, what is hidden, what is written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

import stageguard as sg
from cli_runner import Runner
from messages import mentions, naming
from nights import decode
from review_nights import FREE, STRICT, asked, do, open_review, write_probabilities
from stageguard.errors import FileFormatError, InputError
from stageguard.review import wire
from stageguard.review.night import NightUnderReview, guard
from stageguard.review.opening import ReviewRequest, open_night
from stageguard.review.review import ConflictError, HiddenError, ReviewSession
from stageguard.review.scorings import read_reviewed
from stageguard.review.state import GuardSettings, Pin
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.verify import verify_output


def night_of(probabilities, profile):
    loaded = sg.Profile.load(profile)
    density = sg.Hypnodensity(np.asarray(probabilities), loaded.scheme, loaded.epoch_seconds)
    return NightUnderReview("night", density, loaded)


def random_night(profile, n_epochs=60, seed=0):
    n_stages = sg.Profile.load(profile).scheme.n_stages
    return night_of(np.random.default_rng(seed).dirichlet(np.ones(n_stages), n_epochs), profile)


def test_setting_an_epoch_decodes_the_night_around_it(tmp_path):
    session, review = open_review(tmp_path)
    pins = {11: "R", 40: "W"}
    do(review, do="set", first=11, last=11, stage=2)
    do(review, do="set", first=40, last=40, stage=0)
    expected = decode(review.night.density, STRICT, pins=pins)
    assert (review.now.result.labels == expected.hypnogram.labels).all()
    session.close()


def mark(review, first, last, value=True):
    return do(review, do="artefact", first=first, last=last, value=value)


def test_an_artefact_takes_the_evidence_of_its_epochs_away_at_once(tmp_path):
    session, review = open_review(tmp_path)
    before = review.now.result.labels
    do(review, do="set", first=10, last=12, stage=2)
    at = mark(review, 4, 10)
    quality = np.zeros(80)
    quality[4:11] = 1.0
    expected = decode(review.night.density, STRICT, quality=quality, pins={10: "R", 11: "R", 12: "R"})
    assert (at.result.labels == expected.hypnogram.labels).all()
    assert at.result.labels[10:13].tolist() == [2] * 3  # pins hold
    with pytest.raises(InputError, match="already"):
        mark(review, 5, 6)
    do(review, do="undo"), do(review, do="undo")
    assert (review.now.result.labels == before).all()
    session.close()


def test_a_quality_that_was_given_is_never_made_better(tmp_path):
    given = np.zeros(80)
    given[3:5] = 0.9, 0.1
    path = write_probabilities(tmp_path / "night.csv", FREE)
    night = open_night(asked(path, FREE, options=DecodeOptions(quality=given)))
    assert night.quality_with(frozenset({4}))[3:6].tolist() == [0.9, 1.0, 0.0]
    assert night.quality_with(frozenset()) is given


@pytest.mark.parametrize("blind", [False, True])
def test_artefacts_everywhere_are_refused(tmp_path, blind):
    session, review = open_review(tmp_path, FREE, blind=blind)
    with pytest.raises(InputError, match="no epoch with evidence"):
        mark(review, 0, 79)
    mark(review, 0, 78)
    session.close()


def test_artefacts_of_a_blind_night_count_from_the_reveal_on(tmp_path):
    session, review = open_review(tmp_path, FREE, blind=True)
    hidden = review.now.result
    assert mark(review, 10, 12).result is hidden
    at = do(review, do="reveal", anyway=True)
    assert np.flatnonzero(at.result.decoding.night.quality).tolist() == [10, 11, 12]
    assert at.state.first_artefacts == {10, 11, 12}
    session.close()


def weight_of(review) -> float:
    return review.now.result.decoding.strength.transition_weight


def test_verify_reproduces_a_night_with_artefacts(tmp_path):
    """The strength is the one of the night without them, until it is chosen again."""
    path = write_probabilities(tmp_path / "night.csv", FREE, n_epochs=400, seed=1)
    session, review = open_review(tmp_path, FREE)
    weight = weight_of(review)
    mark(review, 100, 232)
    do(review, do="set", first=310, last=311, stage=1)
    assert weight_of(review) == weight
    first = review.export("stageguard-tsv")
    do(review, do="choose_strength")
    assert weight_of(review) != weight  # else this test shows nothing
    second = review.export("stageguard-tsv")
    do(review, do="undo")
    mark(review, 100, 232, value=False)
    third = review.export("stageguard-tsv")
    session.close()
    for written in (first, second, third):
        verified = verify_output(written.path)
        assert verified.ok, [check for check in verified.checks if not check.ok]
    rows = [row.split("\t") for row in first.path.read_text().splitlines()]
    quality = [float(row[rows[0].index("quality")]) for row in rows[1:]]
    assert np.flatnonzero(quality).tolist() == list(range(100, 233))
    assert "quality" not in third.path.read_text().splitlines()[0].split("\t")
    # the output can be reviewed in turn, from the same night
    again = ReviewSession([replace(asked(first.path), profile=None)], "bob")
    assert again.errors == [None]
    mark(again.review(0), 1, 1)
    assert weight_of(again.review(0)) == weight
    fourth = again.review(0).export("stageguard-tsv")
    again.close()
    assert verify_output(fourth.path).ok
    assert path.exists()


def flickering(folder, seed=1):
    """A night that the rule calms, so that its strength depends on every epoch."""
    session, review = open_review(folder, FREE, n_epochs=400, seed=seed)
    assert review.now.result.decoding.strength.step == "lowered"
    return session, review


def far_decisions(review):
    """Yield decisions about stretches, one at a time, and the night under each."""
    labels = review.now.result.labels
    for first in range(0, 400, 40):
        for stage in (0, 4):
            if labels[first] != stage and first not in review.now.state.pins:
                yield first, do(review, do="set", first=first, last=first + 8, stage=stage)
                do(review, do="undo")


def test_a_decision_changes_nothing_at_the_other_end_of_the_night(tmp_path):
    """Strength and sleep onset stay as chosen at the opening; the night around the decision follows it."""
    session, review = flickering(tmp_path)
    opening = review.now.result
    reach = 60  # epochs; transitions forget their beginning long before
    n_near = 0
    for first, at in far_decisions(review):
        changed = np.flatnonzero(at.result.labels != opening.labels)
        assert changed.min() >= first - reach and changed.max() <= first + 8 + reach
        n_near += len(changed) > 9
        held, was = at.result.decoding.strength, opening.decoding.strength
        assert (held.transition_weight, held.balance_nats) == (was.transition_weight, was.balance_nats)
        assert held.clock_onsets == was.clock_onsets
    assert n_near > 0
    session.close()


def test_stages_that_were_agreed_with_stay_whatever_is_decided_elsewhere(tmp_path):
    session, review = flickering(tmp_path)
    agreed = do(review, do="agree", first=100, last=160).result.labels[100:161].tolist()
    assert len(set(agreed)) > 1
    for action in ({"do": "strength", "value": "off"}, {"do": "clock", "value": False}):
        assert do(review, **action).result.labels[100:161].tolist() == agreed
    for _, at in far_decisions(review):
        assert at.result.labels[100:161].tolist() == agreed
    pins = review.now.state.pins
    assert all(pins[epoch].is_agreed and pins[epoch].who == "anna" for epoch in range(100, 161))
    do(review, do="undo"), do(review, do="undo")
    assert review.now.state.n_agreed == 61
    assert not do(review, do="undo").state.pins
    session.close()


def test_agreeing_with_stages_that_are_not_those_of_the_night_is_refused(tmp_path):
    session, review = open_review(tmp_path)
    labels = review.now.result.labels[5:8]
    with pytest.raises(InputError, match="look again"):
        do(review, do="agree", first=5, last=7, stages=((labels + 1) % 3).tolist())
    assert review.now.state.revision == 0
    do(review, do="agree", first=5, last=7)
    with pytest.raises(InputError, match="decided already"):
        do(review, do="agree", first=5, last=7)
    session.close()


def test_the_strength_is_chosen_again_when_the_scorer_asks(tmp_path):
    session, review = flickering(tmp_path)
    opening = review.now.result.labels
    first = review.now.result.decoding.period[0]  # the strength is of the sleep period
    pins = dict.fromkeys(range(first, first + 30), 4)
    do(review, do="set", first=first, last=first + 29, stage=4)
    state = wire.moving_part(review, review.now)
    assert state["settings"]["can_choose"]
    at = do(review, do="choose_strength")
    fresh = decode(review.night.density, FREE, pins=pins)
    assert (at.result.labels == fresh.hypnogram.labels).all()
    assert at.result.decoding.strength.balance_nats == fresh.strength.balance_nats
    assert not wire.moving_part(review, at)["settings"]["can_choose"]
    changed = np.flatnonzero(at.result.labels != opening)
    assert changed.max() > first + 300  # at the other end, now that it was asked for
    queued = [one for one in review.queue().stretches if one.reason == "changed"]
    inside = {epoch for one in queued for epoch in range(one.first, one.last + 1)}
    assert inside == set(changed.tolist()) - set(pins)
    assert all(opening[one.first] == one.first_stage for one in queued)
    assert review.queue().stretches[: len(queued)] == tuple(queued)
    do(review, do="undo")
    do(review, do="undo")
    assert (review.now.result.labels == opening).all()
    assert not [one for one in review.queue().stretches if one.reason == "changed"]
    session.close()


def test_settings_chosen_before_the_first_decision_are_what_the_scorer_saw_first(tmp_path):
    session, review = flickering(tmp_path)
    do(review, do="strength", value="off")
    assert not [one for one in review.queue().stretches if one.reason == "changed"]
    do(review, do="set", first=0, last=0, stage=0)
    do(review, do="strength", value=None)
    assert [one for one in review.queue().stretches if one.reason == "changed"]
    session.close()


@pytest.mark.parametrize("profile", sg.profiles())
def test_with_the_guard_off_the_stager_stands_and_any_pins_hold(profile):
    night = random_night(profile)
    state = replace(night.opening_state(), settings=GuardSettings(profile, "off"))
    assert (guard(night, state).labels == night.argmax).all()
    stages = np.random.default_rng(1).integers(0, night.scheme.n_stages, night.n_epochs).tolist()
    pinned_labels = replace(state, pins={epoch: Pin(stage, "anna") for epoch, stage in enumerate(stages)})
    assert guard(night, pinned_labels).labels.tolist() == stages


def test_strength_and_clock_change_the_profile_that_decodes():
    night = random_night(FREE, 200)
    opening = night.opening_state()
    weak = replace(opening, settings=GuardSettings(FREE, 0.2, False))
    changed = sg.Profile.load(FREE).replace(transition_weight=0.2, clock=None)
    expected = decode(night.density, changed).hypnogram.labels
    assert (guard(night, weak).labels == expected).all()
    with pytest.raises(InputError, match="has no clock"):
        guard(random_night(STRICT), replace(opening, settings=GuardSettings(STRICT, None, True)))


def test_pins_that_contradict_one_another_offer_what_to_relax(tmp_path):
    session, review = open_review(tmp_path)
    do(review, do="set", first=10, last=10, stage=0)
    do(review, do="set", first=12, last=12, stage=0)
    before = review.now
    with pytest.raises(ConflictError) as refused:
        do(review, do="set", first=11, last=11, stage=1, why="spindle")
    assert review.now is before
    assert refused.value.error.pins == ((10, "W"), (11, "N"), (12, "W"))
    labels = [one.label for one in refused.value.relax]
    assert mentions(labels, 12, 13, "N")
    assert mentions(labels, "Take", "W", 11)
    assert mentions(labels, "Switch the guard")
    assert any(label.startswith("Use the profile ") for label in labels)
    for one in refused.value.relax:  # each of them does what it says, and is taken back in one step
        at = do(review, **one.action.to_dict(review.night.scheme))
        assert at.result.labels[11] == 1
        assert at.result.conflict is None
        assert do(review, do="undo").state.pins == before.state.pins
    state = review.now.state
    session.close()
    session, review = open_review(tmp_path)
    assert review.now.state == state
    session.close()


def test_a_night_without_any_evidence_is_scored_by_hand(tmp_path):
    path = tmp_path / "night.csv"
    path.write_text("W,N,R\n" + ",,\n" * 40)
    session = ReviewSession([asked(path)], "anna")
    review = session.review(0)
    assert (review.now.result.labels == -1).all()
    at = do(review, do="set", first=3, last=9, stage=1)
    assert at.result.labels.tolist() == [-1] * 3 + [1] * 7 + [-1] * 30
    state = wire.whole_state(review, 0)
    assert state["queue"]["epochs"] == []
    tst = next(row for row in state["statistics"] if row["name"] == "tst_minutes")
    assert (tst["stager"], tst["guard"]) == (None, 3.5)
    assert state["queue"]["expected_errors"] is None
    with pytest.raises(FileFormatError, match=naming(33, "40 epochs", "scored")):
        read_reviewed([review.journal.path])
    session.close()


HIDDEN = (
    *("stager", "guard", "expert", "probabilities", "posterior", "changes", "queue", "statistics"),
    *("indicators", "joint", "early_rem", "cycles", "agreement"),
)


def test_blind_scoring_withholds_stager_and_guard_until_it_is_revealed(tmp_path):
    session, review = open_review(tmp_path, blind=True)
    state = wire.whole_state(review, 0)
    assert {key: state[key] for key in HIDDEN} == dict.fromkeys(HIDDEN)
    do(review, do="set", first=10, last=10, stage=0)
    do(review, do="set", first=11, last=11, stage=1)  # no bout is too short for a scorer
    do(review, do="set", first=12, last=12, stage=0)
    answer = wire.moving_part(review, review.now)
    assert {answer[key] for key in HIDDEN if key in answer} == {None}
    with pytest.raises(HiddenError):
        review.export("text")
    lines = review.journal.path.read_text().splitlines()
    assert '"before": "?", "after": "N"' in lines[2]  # the journal tells no more than the page
    do(review, do="reveal", anyway=True)
    shown = wire.whole_state(review, 0)
    assert all(shown[key] is not None for key in HIDDEN if key != "expert")
    assert shown["conflict"] is not None  # the scorer's stages hold all the same
    assert review.now.result.labels[10:13].tolist() == [0, 1, 0]
    session.close()


def test_a_wholly_scored_blind_night_is_exported_as_it_was_scored(tmp_path):
    session, review = open_review(tmp_path, blind=True)
    do(review, do="set", first=0, last=79, stage=1)
    do(review, do="set", first=5, last=5, stage=2)
    written = review.export("text").path
    session.close()
    stages = sg.read_hypnogram(written, scheme="wnr3").stages.tolist()
    assert stages == ["N"] * 5 + ["R"] + ["N"] * 74


def test_two_scorers_are_compared_when_the_second_is_done(tmp_path):
    rng = np.random.default_rng(4)
    scores = [rng.integers(0, 3, 80).tolist() for _ in range(2)]
    for scorer, stages in zip(("anna", "ben"), scores, strict=True):
        session, review = open_review(tmp_path, scorer=scorer, blind=True)
        for epoch, stage in enumerate(stages):
            if scorer == "ben":
                told = wire.moving_part(review, review.now)["second_scorer"]
                assert told == {
                    **{"scorer": "anna", "scored": 80, "of": 80, "both": epoch, "least": 40},
                    **{"is_complete": False, "kappa": None},
                }
            do(review, do="set", first=epoch, last=epoch, stage=stage)
        told = wire.moving_part(review, review.now)["second_scorer"]
        assert (told is None) == (scorer == "anna")
        session.close()
    assert told["kappa"] == pytest.approx(cohen_kappa_score(*scores))


@pytest.mark.parametrize(("n_scored", "is_told"), [(8, False), (39, False), (40, True)])
def test_kappa_of_a_few_epochs_is_no_kappa(tmp_path, n_scored, is_told):
    """Also not of a review that agrees with the guard, whose other epochs the guard decided."""
    stages = np.random.default_rng(4).integers(0, 3, 80).tolist()
    session, review = open_review(tmp_path, scorer="anna")
    do(review, do="agree", first=0, last=n_scored - 1)
    labels = review.now.result.labels[:n_scored]
    session.close()
    session, review = open_review(tmp_path, scorer="ben", blind=True)
    for epoch, stage in enumerate(stages):
        do(review, do="set", first=epoch, last=epoch, stage=stage)
    told = wire.moving_part(review, review.now)["second_scorer"]
    session.close()
    assert {key: told[key] for key in ("scored", "of", "both", "least", "is_complete")} == {
        **{"scored": n_scored, "of": 80, "both": n_scored, "least": 40, "is_complete": True},
    }
    expected = cohen_kappa_score(labels, stages[:n_scored]) if is_told else None
    assert told["kappa"] == (pytest.approx(expected) if is_told else None)


def test_a_blind_scoring_is_compared_with_stager_and_guard(tmp_path):
    session, review = open_review(tmp_path, FREE, blind=True)
    stages = np.random.default_rng(5).integers(0, 5, 80).tolist()
    for epoch, stage in enumerate(stages):
        do(review, do="set", first=epoch, last=epoch, stage=stage)
    do(review, do="reveal")
    found = wire.queue_part(review, review.now)["agreement"]["kappa"]
    guarded = decode(review.night.density, FREE).hypnogram.labels
    assert found["guard"] == pytest.approx(cohen_kappa_score(stages, guarded))
    assert found["stager"] == pytest.approx(cohen_kappa_score(stages, review.night.argmax))
    session.close()


def test_an_export_never_replaces_a_file_and_the_original_stays(tmp_path):
    session, review = open_review(tmp_path)
    original = (tmp_path / "night.csv").read_bytes()
    do(review, do="set", first=10, last=12, stage=2)
    first, second = (review.export("stageguard-csv").path for _ in range(2))
    assert first.name == "night.anna.reviewed.csv"
    assert second.name == "night.anna.reviewed-2.csv"
    assert first.read_bytes() == second.read_bytes()
    assert (tmp_path / "night.csv").read_bytes() == original
    with pytest.raises(InputError, match="unknown format"):
        review.export("../../etc/passwd")
    session.close()


def test_an_export_records_with_which_stages_its_strength_was_chosen(tmp_path):
    session, review = flickering(tmp_path)
    do(review, do="set", first=0, last=8, stage=4)
    held = review.export("stageguard-tsv").path
    do(review, do="choose_strength")
    do(review, do="set", first=200, last=208, stage=0)
    chosen = review.export("stageguard-tsv").path
    labels = review.now.result.labels
    session.close()
    for tsv in (held, chosen):
        verified = verify_output(tsv)
        assert verified.ok, [check for check in verified.checks if not check.ok]
    opened = ReviewSession([ReviewRequest(chosen, night_name="again")], "ben").review(0)
    assert (opened.now.result.labels == labels).all()
    opened.close()


def test_an_export_does_not_record_probabilities_that_were_changed_meanwhile(tmp_path):
    session, review = open_review(tmp_path)
    write_probabilities(tmp_path / "night.csv", seed=3)
    with pytest.raises(FileFormatError, match=naming("since", "it was opened")):
        review.export("stageguard-tsv")
    assert not list(tmp_path.glob("*.reviewed*"))
    session.close()


def test_an_output_of_decode_is_opened_with_what_it_records(tmp_path):
    path = write_probabilities(tmp_path / "night.csv")
    night = decode(sg.read_density(path), STRICT, pins={20: "R"})
    from stageguard.formats.outputs import write_decoding
    from stageguard.runner.decode_one import DecodeOptions

    options = DecodeOptions(pins={20: "R"}).to_dict()
    written = write_decoding(night, tmp_path / "night", source_path=path, options=options)
    session = ReviewSession([ReviewRequest(written.tsv)], "anna")
    assert session.errors == [None]
    review = session.review(0)
    assert (review.now.result.labels == night.hypnogram.labels).all()
    assert review.now.state.pins == {20: Pin(2, "given before the review")}
    assert (tmp_path / "night.anna.review.jsonl").exists()
    session.close()


@pytest.mark.parametrize(
    "options", [("--lights-off", 1800, "--lights-on", 7200), ("--strength", 0.7), ("--strength", "off")]
)
def test_the_review_of_an_output_begins_with_its_stages_and_exports_what_verifies(tmp_path, capsys, options):
    path = write_probabilities(tmp_path / "night.csv", "human-psg-5", n_epochs=600, seed=1)
    ran = Runner(capsys)("decode", path, "--profile", "human-psg-5", *options)
    assert ran.code == 0, ran.err
    (written,) = tmp_path.glob("*.hypnogram.tsv")
    session = ReviewSession([ReviewRequest(written)], "anna")
    review = session.review(0)
    assert (review.now.result.labels == sg.read_hypnogram(written).labels).all()
    verified = verify_output(review.export("stageguard-tsv").path)
    assert verified.ok, [check for check in verified.checks if not check.ok]
    session.close()


def test_an_expert_of_another_length_is_refused(tmp_path):
    path = write_probabilities(tmp_path / "night.csv")
    scoring = tmp_path / "expert.txt"
    scoring.write_text("W\n" * 70)
    session = ReviewSession([asked(path, scoring=scoring)], "anna")
    assert mentions(session.errors[0], "epoch 70", "80 epochs")
    scoring.write_text("W\n" * 80)
    assert ReviewSession([asked(path, scoring=scoring)], "anna").errors == [None]
