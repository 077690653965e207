"""The kernels: curves against paths, stretches against whole nights, one implementation against the other."""

import re

import numpy as np
import pytest

from stageguard.guard import kernels
from stageguard.guard.decode import decode
from stageguard.guard.kernels import reference
from stageguard.profile.profile import Profile

WEIGHTS = (0.0, 0.1, 0.3, 0.7, 1.0, 1.5)


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


def logs(values):
    with np.errstate(divide="ignore"):
        return np.log(values)


def test_both_implementations_have_the_functions_of_the_contract():
    functions = kernels.__doc__.split("Functions\n", 1)[1].split("\n\n")[0]
    heads = [line for line in functions.splitlines() if not line.startswith(" ")]
    stated = set(re.findall(r"(\w+)\(", "\n".join(heads)))
    assert {"path", "curve", "smooth_automaton"} <= stated
    for module in (kernels.active, reference):
        assert stated | {"NAME", "MOST_STAGES", "LONGEST_MINIMUM"} <= set(vars(module))


@pytest.mark.parametrize("products", [True, False])
@pytest.mark.parametrize("censored", [True, False])
@pytest.mark.parametrize("longest", [1, 2, 5, 8])
@pytest.mark.parametrize("n_stages", range(2, 6))
def test_a_curve_counts_what_the_path_at_each_weight_has(backend, n_stages, longest, censored, products):
    rng = np.random.default_rng([n_stages, longest])
    n_epochs = 40 if backend == "reference" else int(rng.choice([30, 90, 150]))
    stay, change, minimum = rules_of(rng, n_stages, longest, WEIGHTS)
    night, weight = probabilities_of(rng, n_epochs, n_stages), np.exp(rng.normal(size=n_stages))
    if not products:
        night, stay, change = logs(night), logs(stay), logs(change)
    spans = ((0, 1), (3, 20), (20, n_epochs))
    switches, counts = kernels.active.curve(night, spans, products, weight, stay, change, minimum, censored)
    assert longest == 8 or len({tuple(each) for each in counts}) > 1
    for i in range(len(WEIGHTS)):
        tables = (stay[i : i + 1], change[i : i + 1], minimum, censored)
        labels, _ = kernels.active.path(night, spans, products, weight, *tables)
        assert labels[1:3].tolist() == [-1, -1]
        parts = [labels[first:end] for first, end in spans]
        assert switches[i] == sum(np.count_nonzero(np.diff(part)) for part in parts)
        assert counts[i] == np.bincount(np.concatenate(parts), minlength=n_stages).tolist()


def test_a_curve_says_where_no_path_exists(backend):
    stay, change = np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([[1.0] * 4, [0.0] * 4])
    rules = (np.ones(2), stay, change, np.ones(2, dtype=np.int32), True)
    switches, _ = kernels.active.curve(np.full((20, 2), 0.5), [(0, 20)], True, *rules)
    assert switches == [0, -1]
    lost = (np.ones(2), stay[1:], change[1:], *rules[3:])
    assert kernels.active.path(np.full((20, 2), 0.5), [(0, 20)], True, *lost)[1] == -np.inf


@pytest.mark.parametrize("censored", [True, False])
@pytest.mark.parametrize("longest", [1, 3, 8])
@pytest.mark.parametrize("n_stages", range(2, 6))
def test_stretches_are_decoded_each_by_itself(backend, n_stages, longest, censored):
    rng = np.random.default_rng([7, n_stages, longest])
    stay, change, minimum = rules_of(rng, n_stages, longest, (0.5,))
    night, weight = probabilities_of(rng, 90, n_stages), np.exp(rng.normal(size=n_stages))
    rules = (True, weight, stay, change, minimum, censored)
    spans = [(0, 33), (40, 41), (41, 90)]
    clock = np.exp(rng.normal(size=(60, n_stages)))
    together, score = kernels.active.path(night, spans, *rules, clock)
    total = 0.0
    for first, end in spans:
        piece = np.ascontiguousarray(night[first:end])
        labels, own = kernels.active.path(
            piece, [(0, end - first)], *rules, clock[first:end] if first < 60 else None
        )
        assert together[first:end].tobytes() == labels.tobytes()
        total += own
    assert score == total


@pytest.mark.parametrize("longest", [1, 3, 8])
@pytest.mark.parametrize("n_stages", range(2, 6))
def test_both_implementations_find_the_same_paths(n_stages, longest):
    rng = np.random.default_rng([11, n_stages, longest])
    stay, change, minimum = rules_of(rng, n_stages, longest, (0.3,))
    night, clock = probabilities_of(rng, 80, n_stages), np.exp(rng.normal(size=(25, n_stages)))
    rules = (True, np.exp(rng.normal(size=n_stages)), stay, change, minimum, True, clock)
    ours, our_score = kernels.active.path(night, [(0, 80)], *rules)
    theirs, their_score = reference.path(night, [(0, 80)], *rules)
    assert ours.tolist() == theirs.tolist()
    assert our_score == pytest.approx(their_score, abs=1e-9)
    assert kernels.active.path(night, [(0, 80)], *rules[:-1])[1] != our_score


@pytest.mark.parametrize("n_stages", [2, 3, 4, 5])
def test_a_clock_multiplies_the_first_rows(backend, n_stages):
    rng = np.random.default_rng([13, n_stages])
    stay, change, minimum = rules_of(rng, n_stages, 3, (0.5,))
    night, factors = probabilities_of(rng, 60, n_stages), np.exp(rng.normal(size=(25, n_stages)))
    timed = night.copy()
    timed[:25] *= factors
    weight, spans = np.ones(n_stages), [(0, 60)]
    by_hand = (logs(timed), spans, False, weight, logs(stay), logs(change), minimum, True)
    expected, score = reference.path(*by_hand)
    labels, own = kernels.active.path(night, spans, True, weight, stay, change, minimum, True, factors)
    assert labels.tolist() == expected.tolist()
    assert own == pytest.approx(score, abs=1e-9)
    assert kernels.active.argmax(night, weight, factors)[0].tolist() == timed.argmax(axis=1).tolist()


@pytest.mark.parametrize("n_stages", [2, 3, 4, 5, 6, 8, 13, 127])
def test_both_implementations_choose_alike_for_any_number_of_stages(n_stages):
    rng = np.random.default_rng([13, n_stages])
    pieces = [probabilities_of(rng, n, n_stages) for n in (50, 1, 33, 6)]
    pieces[1][0] = 1.0 / n_stages  # a tie
    pieces[2][32, -1] -= 0.1
    pieces[3][2, 0] = np.nan
    for weight in (np.ones(n_stages), np.exp(rng.normal(size=n_stages))):
        for rows, is_bad in zip(pieces, (False, False, True, True), strict=True):
            for clock in (None, np.exp(rng.normal(size=(len(rows) // 2, n_stages)))):
                ours, theirs = (k.argmax(rows, weight, clock) for k in (kernels.active, reference))
                assert ours[1] == theirs[1] == is_bad
                scored = ~np.isnan(rows[:, 0])  # a row that is no number has no best stage
                assert ours[0][scored].tolist() == theirs[0][scored].tolist()


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
