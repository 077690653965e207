"""What the decoders do in one pass, or for several trials at once, against doing it one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from stageguard.guard import kernels
from stageguard.guard.decode import decode
from stageguard.guard.kernels import reference
from stageguard.guard.solver import Solver
from stageguard.profile.profile import Profile


def rules_of(rng, n_stages, longest, weights):
    """Stays and changes as probabilities, a row per transition weight; minima from 1 to `longest`."""
    transitions = rng.dirichlet(np.ones(n_stages), n_stages)
    if n_stages > 2:
        transitions[0, 1] = 0.0  # a switch that is forbidden
    stay = np.array([transitions.diagonal() ** tau for tau in weights])
    change = np.array([np.where(transitions > 0, transitions, 0.0).ravel() ** tau for tau in weights])
    minimum = rng.integers(1, longest + 1, n_stages).astype(np.int32)
    minimum[0] = longest
    return stay, change, minimum


def probabilities_of(rng, n_epochs, n_stages):
    logits = np.repeat(rng.normal(size=(n_epochs // 4 + 1, n_stages)) * 2, 4, axis=0)[:n_epochs]
    odds = np.exp(logits + rng.normal(size=logits.shape))
    return odds / odds.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("censored", [True, False])
@pytest.mark.parametrize("longest", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("n_stages", range(2, 6))
def test_trials_of_one_night_at_once_are_each_by_itself(backend, n_stages, longest, censored):
    rng = np.random.default_rng([n_stages, longest])
    n_epochs = 40 if backend == "reference" else int(rng.choice([1, 2, 9, 150]))
    weights = (0.0, 0.1, 0.3, 0.7, 1.0, 1.5)
    stay, change, minimum = rules_of(rng, n_stages, longest, weights)
    night = probabilities_of(rng, n_epochs, n_stages)
    other = probabilities_of(rng, 30, n_stages)
    weight = np.exp(rng.normal(size=(1, n_stages)))
    table = np.array([0, 1, 2, 3, 4, 5, 2], dtype=np.int32)
    pieces, apart = [night] * 6 + [other], [night.copy() for _ in range(6)] + [other]
    rules = (table, weight, stay, change, minimum, censored)
    together = kernels.active.structured(pieces, True, *rules, 2)
    by_itself = kernels.active.structured(apart, True, *rules, 1)
    assert together[0].tobytes() == by_itself[0].tobytes()
    assert together[1:] == by_itself[1:]


@pytest.mark.slow
@pytest.mark.parametrize("penalty_nats", [0.0, 1.5])
def test_trials_through_an_automaton_at_once_are_each_by_itself(backend, penalty_nats):
    # a flip-flop window makes so many states that the compiled core works through the long night in blocks
    rng = np.random.default_rng(5)
    profile = Profile.load("human-psg-5").replace(
        clock=None,
        transition_weight=1.0,
        durations={"W": rng.dirichlet(np.ones(12))[:-1].round(3).tolist()},
        flip_flop={"penalty_nats": penalty_nats, "window_epochs": 6},
    )
    solver = Solver(profile, profile.epoch_seconds)
    n_epochs = 30 if backend == "reference" else 3000
    night, other = (np.log(probabilities_of(rng, n, 5)) for n in (n_epochs, 20))
    tables = solver.automaton_tables([0.0, 0.1, 0.3, 0.7, 1.0, 1.5])
    table = np.array([0, 1, 2, 3, 4, 5, 2], dtype=np.int32)
    together = kernels.active.automaton([night] * 6 + [other], table, *tables, 2)
    by_itself = kernels.active.automaton([night.copy() for _ in range(6)] + [other], table, *tables, 1)
    assert len({together[0][i * n_epochs : (i + 1) * n_epochs].tobytes() for i in range(6)}) > 3
    assert together[0].tobytes() == by_itself[0].tobytes()
    assert together[1:] == by_itself[1:]


def test_trials_with_other_stage_weights_are_kept_apart(backend):
    rng = np.random.default_rng(3)
    stay, change, minimum = rules_of(rng, 3, 2, (0.3, 1.0))
    night, weight = probabilities_of(rng, 60, 3), np.array([[1.0, 1.0, 1.0], [1.0, 6.0, 1.0]])
    rules = (np.array([0, 1], dtype=np.int32), weight, stay, change, minimum, True)
    together = kernels.active.structured([night, night], True, *rules, 1)
    by_itself = kernels.active.structured([night, night.copy()], True, *rules, 1)
    assert together[0].tobytes() == by_itself[0].tobytes()
    assert together[1:] == by_itself[1:]


@pytest.mark.parametrize("censored", [True, False])
@pytest.mark.parametrize("longest", [1, 3, 8])
@pytest.mark.parametrize("n_stages", range(2, 6))
def test_nights_checked_and_decoded_at_once_are_each_by_itself(backend, n_stages, longest, censored):
    rng = np.random.default_rng([7, n_stages, longest])
    stay, change, minimum = rules_of(rng, n_stages, longest, (0.5,))
    pieces = [probabilities_of(rng, n, n_stages) for n in (50, 1, 30, 20, 50, 9, 2, 50, 33, 21)]
    pieces[2][4] = np.nan
    pieces[4][49, 0] = -0.1
    pieces[8] *= 1.01
    table, weight = np.zeros(1, dtype=np.int32), np.exp(rng.normal(size=(1, n_stages)))
    own, paths, outcomes = kernels.active.check_and_decode(
        pieces, table, weight, stay, change, minimum, censored, 2
    )
    argmax, switches, bad = kernels.active.argmax(pieces, np.ones((1, n_stages)), 1)
    assert np.flatnonzero(bad).tolist() == [2, 4, 8]
    assert own.tobytes() == argmax.tobytes()
    ends = np.cumsum([len(piece) for piece in pieces])
    for i, (piece, end) in enumerate(zip(pieces, ends, strict=True)):
        here = slice(end - len(piece), end)
        assert outcomes[i][:2] == (switches[i], bad[i])
        if bad[i]:
            assert outcomes[i][2:] == (-np.inf, 0, 0)
            continue
        rules = (table, weight, stay, change, minimum, censored)
        labels, (score,), (n_switches,) = kernels.active.structured([piece], True, *rules, 1)
        n_changed = np.count_nonzero(labels != own[here])
        assert paths[here].tobytes() == labels.tobytes()
        assert outcomes[i][2:] == (score, n_switches, n_changed)


@pytest.mark.parametrize("n_stages", [2, 3, 4, 5, 6, 8, 13, 127])
def test_both_implementations_choose_alike_for_any_number_of_stages(n_stages):
    rng = np.random.default_rng([13, n_stages])
    pieces = [probabilities_of(rng, n, n_stages) for n in (50, 1, 33, 6)]
    pieces[1][0] = 1.0 / n_stages  # a tie
    pieces[2][32, -1] -= 0.1
    pieces[3][2, 0] = np.nan
    weights = np.ones((1, n_stages)), np.exp(rng.normal(size=(4, n_stages)))
    clock = [np.exp(rng.normal(size=(n, n_stages))) for n in (20, 1, 0, 6)]
    for weight in weights:
        for options in ({}, {"clock": clock}):
            ours = kernels.active.argmax(pieces, weight, 2, **options)
            theirs = reference.argmax(pieces, weight, 1, **options)
            assert ours[2] == theirs[2] == [False, False, True, True]
            # a row that is no number has no best stage
            assert ours[0][:84].tolist() == theirs[0][:84].tolist()
            assert ours[1][:3] == theirs[1][:3]


@pytest.mark.filterwarnings("ignore::stageguard.StageGuardWarning")
@pytest.mark.parametrize("n_stages", [5, 6, 9])
@pytest.mark.parametrize("kind", ["free", "greedy"])
def test_more_stages_than_are_compiled_are_decoded_alike(monkeypatch, n_stages, kind):
    rng = np.random.default_rng([17, n_stages])
    names = [f"stage {i}" for i in range(n_stages)]
    rows = rng.dirichlet(np.ones(n_stages), n_stages).tolist()
    document = {
        "name": "many",
        "stages": names,
        "epoch_seconds": 30.0,
        "transitions": {a: dict(zip(names, row, strict=True)) for a, row in zip(names, rows, strict=True)},
        "transition_weight": 0.0 if kind == "free" else 0.5,
        "flip_flop": {"penalty_nats": 1.5 * (kind == "greedy"), "window_epochs": 4, "method": "greedy"},
    }
    night, quality = probabilities_of(rng, 60, n_stages), rng.random(60)
    quality[20:25] = 1.0  # nothing is known of these
    night[40:43] = np.nan

    def decoded():
        return decode(night, Profile.from_dict(document), quality=quality)

    ours = decoded()
    monkeypatch.setattr(kernels, "active", reference)
    theirs = decoded()
    assert ours.hypnogram.labels.tolist() == theirs.hypnogram.labels.tolist()
    assert ours.score == pytest.approx(theirs.score, abs=1e-9)


def test_both_implementations_find_the_same_trials():
    rng = np.random.default_rng(11)
    stay, change, minimum = rules_of(rng, 5, 3, (0.1, 0.3, 0.7))
    night = probabilities_of(rng, 80, 5)
    table, weight = np.arange(3, dtype=np.int32), np.ones((1, 5))
    rules = (table, weight, stay, change, minimum, True)
    ours = kernels.active.structured([night] * 3, True, *rules, 1)
    theirs = reference.structured([night] * 3, True, *rules, 1)
    assert ours[0].tolist() == theirs[0].tolist()
    assert ours[1] == pytest.approx(theirs[1], abs=1e-9)
    assert ours[2] == theirs[2]


@pytest.mark.parametrize("seed", range(20))
def test_both_implementations_read_and_set_the_same_clock(seed):
    rng = np.random.default_rng([17, seed])
    n_stages, n_epochs = int(rng.integers(2, 9)), int(rng.integers(1, 200))
    path = np.repeat(rng.integers(-1, n_stages, n_epochs), 3)[:n_epochs].astype(np.int8)
    start, stop = int(rng.integers(n_epochs)), n_epochs - int(seed % 3 == 0)
    wake, restart_epochs = int(rng.integers(n_stages)), float(rng.choice([2.5, 3.0, 6.0, np.inf]))
    onsets = kernels.active.sleep_onsets(path, wake, restart_epochs, start, stop)
    assert onsets == reference.sleep_onsets(path, wake, restart_epochs, start, stop)
    rows = np.exp(rng.normal(size=(30, n_stages)))
    onsets = onsets or (n_epochs // 2,)
    arguments = (rows, wake, onsets, min(start, onsets[0]), n_epochs)
    ours, theirs = kernels.active.clock_factors(*arguments), reference.clock_factors(*arguments)
    assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("longest", [1, 3])
@pytest.mark.parametrize("n_stages", [2, 3, 4, 5])
def test_a_clock_multiplies_the_first_rows(n_stages, longest):
    rng = np.random.default_rng([13, n_stages, longest])
    stay, change, minimum = rules_of(rng, n_stages, longest, (0.1, 0.5))
    night, other = probabilities_of(rng, 60, n_stages), probabilities_of(rng, 40, n_stages)
    factors, table = np.exp(rng.normal(size=(25, n_stages))), np.array([0, 1, 1], dtype=np.int32)
    pieces, clock = [night, night, other], [factors, factors, np.empty((0, n_stages))]
    timed = night / night.sum(axis=1, keepdims=True)
    timed[:25] *= factors
    logs, bouts = [np.log(timed), np.log(timed), np.log(other)], (minimum, True)
    weight = np.ones((1, n_stages))
    with np.errstate(divide="ignore"):
        expected = reference.structured(logs, False, table, weight, np.log(stay), np.log(change), *bouts, 1)
    for kernel in (kernels.active, reference):
        found = kernel.structured(pieces, True, table, weight, stay, change, *bouts, 1, clock=clock)
        assert found[0].tolist() == expected[0].tolist()
        assert found[1] == pytest.approx(expected[1], abs=1e-9)
        assert found[2] == expected[2]
        labels, switches, _ = kernel.argmax(pieces, weight, 1, clock=clock)
        own = [timed.argmax(axis=1)] * 2 + [other.argmax(axis=1)]
        assert labels.tolist() == np.concatenate(own).tolist()
        assert switches == [int(np.count_nonzero(np.diff(each))) for each in own]
    untimed, *_ = reference.structured(pieces, True, table, weight, stay, change, *bouts, 1)
    assert untimed.tolist() != expected[0].tolist()
