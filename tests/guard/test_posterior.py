"""The posterior: against every path written out, against hmmlearn, and where products of numbers give out."""

import numpy as np
import pytest
from test_decode_exact import COMBINATIONS, random_case

import oracle
import stageguard as sg
from messages import mentions
from nights import SCHEME, decode, one_hot, plain, random_mapping, random_probabilities, random_transitions
from peers import hmm_of_likelihoods
from stageguard.errors import PinError, StageGuardError
from stageguard.guard import kernels
from stageguard.guard.kernels import reference as reference_module
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.synthetic.night import simulate_night


def by_enumeration(evidence, rules, parts):
    """Log-evidence and marginals (NaN outside the parts), by adding up every path."""
    total, marginals = 0.0, np.full(evidence.shape, np.nan)
    for a, b in parts:
        scores = oracle.score_all(evidence[a:b], rules)
        own = np.logaddexp.reduce(scores)
        total += own
        paths = oracle.all_paths(evidence.shape[1], b - a)
        share = np.exp(scores - own)
        for s in range(evidence.shape[1]):
            marginals[a:b, s] = share @ (paths == s)
    return total, marginals


@pytest.mark.parametrize(("n_stages", "ends", "stay", "flip", "durations", "minimum"), COMBINATIONS)
def test_posterior_adds_up_every_path(backend, n_stages, ends, stay, flip, durations, minimum):
    n_summed = 0
    for seed in range(2):
        case = random_case(n_stages, ends, stay, flip, durations, minimum, seed)
        mapping, probabilities, options, evidence, rules, parts, _, gap, (best, _, _) = case
        profile = sg.Profile.from_dict(mapping)
        if best == -np.inf:
            with pytest.raises(PinError if "pins" in options else StageGuardError):
                sg.posterior(probabilities, profile, **options)
            continue
        n_summed += 1
        total, marginals = by_enumeration(evidence, rules, parts)
        found = sg.posterior(probabilities, profile, **options)
        assert found.log_evidence == pytest.approx(total, abs=1e-9), (seed, mapping)
        np.testing.assert_allclose(found.probabilities, marginals, atol=1e-9, equal_nan=True)
        assert (np.isnan(found.probabilities[:, 0]) == gap).all()
        assert found.log_evidence > best
    assert n_summed >= 1


@pytest.mark.parametrize("n_stages", [2, 3, 5])
def test_a_plain_chain_equals_hmmlearn(backend, n_stages):
    rng = np.random.default_rng(51)
    names = oracle.SCHEMES[SCHEME[n_stages]]
    rows = random_transitions(rng, names)
    probabilities = random_probabilities(rng, 150, n_stages)
    model = hmm_of_likelihoods(n_stages)
    model.startprob_ = np.full(n_stages, 1 / n_stages)
    model.transmat_ = np.array([[rows[a][b] for b in names] for a in names])
    score, marginals = model.score_samples(np.log(probabilities))
    found = sg.posterior(probabilities, sg.Profile.from_dict(plain(n_stages, transitions=rows)))
    np.testing.assert_allclose(found.probabilities, marginals, atol=1e-10)
    assert found.log_evidence == pytest.approx(score + np.log(n_stages), abs=1e-8)  # ours has no start term


@pytest.mark.parametrize("seed", range(30))
def test_kernels_agree_on_longer_nights(seed):
    rng = np.random.default_rng([52, seed])
    n_stages = int(rng.choice([2, 3, 5]))
    mapping = random_mapping(
        rng,
        n_stages,
        ends="paper" if seed % 2 else "censored",
        stay="self" if seed % 3 else "free",
        flip=seed % 5 == 0,
        durations=seed % 7 == 0,
        minimum=True,
    )
    names = oracle.SCHEMES[SCHEME[n_stages]]
    if seed % 4 == 0:
        mapping["min_bout_seconds"] = {name: 30.0 * int(rng.integers(1, 9)) for name in names}
    probabilities = random_probabilities(rng, 90, n_stages, sharpness=float(rng.choice([1, 4, 20])))
    probabilities[rng.integers(90, size=4)] = np.nan
    quality = rng.random(90) * (rng.random(90) < 0.3)
    options = {"quality": quality} if seed % 2 else {}
    compiled, reference = both(lambda: sg.posterior(probabilities, sg.Profile.from_dict(mapping), **options))
    np.testing.assert_allclose(compiled.probabilities, reference.probabilities, atol=1e-9)
    assert compiled.log_evidence == pytest.approx(reference.log_evidence, rel=1e-12)


def both(run):
    """What a call gives with the compiled kernels and with the reference."""
    compiled = kernels.active
    if compiled is reference_module:
        pytest.skip("the compiled core is not installed")
    own = run()
    try:
        kernels.active = reference_module
        return own, run()
    finally:
        kernels.active = compiled


@pytest.mark.parametrize("n_stages", [2, 3, 4, 5, 6, 7, 8, 9, 12])
@pytest.mark.parametrize("longest", [1, 2, 3, 8, 11])
def test_any_number_of_stages_and_any_minimum(n_stages, longest):
    rng = np.random.default_rng([53, n_stages, longest])
    names = [f"stage {i}" for i in range(n_stages)]
    mapping = {
        "name": "many",
        "stages": names,
        "epoch_seconds": 30.0,
        "transitions": random_transitions(rng, names),
        "min_bout_seconds": {names[0]: 30.0 * longest, names[-1]: 30.0 * max(1, longest - 1)},
    }
    probabilities = random_probabilities(rng, 40, n_stages, sharpness=2.5)
    compiled, reference = both(lambda: sg.posterior(probabilities, sg.Profile.from_dict(mapping)))
    np.testing.assert_allclose(compiled.probabilities, reference.probabilities, atol=1e-10)
    assert compiled.log_evidence == pytest.approx(reference.log_evidence, rel=1e-12)


@pytest.mark.parametrize("kind", ["minimum", "flip-flop"])
def test_a_million_epochs_neither_underflow_nor_forget(backend, kind):
    if backend == "reference":
        pytest.skip("the reference is too slow for a million epochs")
    keys = {"min_bout_seconds": {"N": 90.0, "R": 60.0}}
    if kind == "flip-flop":
        keys["flip_flop"] = {"penalty_nats": 2.0, "window_epochs": 4, "method": "exact"}
    profile = sg.Profile.from_dict(plain(3, **keys))
    rows = random_probabilities(np.random.default_rng(4), 1000, 3, sharpness=3)
    long, short = (sg.posterior(np.tile(rows, (n, 1)), profile) for n in (1000, 10))
    np.testing.assert_allclose(long.probabilities.sum(axis=1), 1.0, atol=1e-12)
    # far from both ends every round of the same rows is like any other
    np.testing.assert_allclose(
        long.probabilities[700_000:701_000], short.probabilities[5000:6000], atol=1e-11
    )
    np.testing.assert_allclose(long.probabilities[:5000], short.probabilities[:5000], atol=1e-11)
    per_round = (sg.posterior(np.tile(rows, (20, 1)), profile).log_evidence - short.log_evidence) / 10
    assert long.log_evidence == pytest.approx(short.log_evidence + 990 * per_round, rel=1e-10)


def no_way_back(**keys):
    """Sleep that is never entered again: staying in it from the start on is the only way to have it."""
    rows = {"W": {"W": 1.0, "S": 0.0}, "S": {"W": 0.5, "S": 0.5}}
    return sg.Profile.from_dict(plain(2, transitions=rows, **keys))


FLIPS = {"flip_flop": {"penalty_nats": 1.0, "window_epochs": 3, "method": "exact"}}  # makes it an automaton


@pytest.mark.parametrize(
    "options",
    [{}, {"pins": {100: "S"}}, {"quality": [0.5] * 2 + [0.0] * 258}],
    ids=["plain", "pinned", "faded"],
)
@pytest.mark.parametrize("keys", [{}, FLIPS], ids=["structured", "automaton"])
def test_a_path_that_products_lose_is_summed_all_the_same(backend, keys, options):
    probabilities = np.repeat([[1.0, 0.0], [0.0, 1.0]], [60, 200], axis=0)
    found = sg.posterior(probabilities, no_way_back(**keys), **options)
    # all sleep: 60 epochs against the evidence; anything else: 200
    assert found.probabilities[:, 1].min() > 1 - 1e-9
    evidence = oracle.evidence_of(probabilities, plain(2), **options)
    assert found.log_evidence == pytest.approx(evidence[:, 1].sum() + 259 * np.log(0.5), rel=1e-12)


@pytest.mark.parametrize("kind", ["minimum", "durations", "flip-flop"])
@pytest.mark.parametrize("seed", range(4))
def test_pins_against_certain_evidence_lose_no_precision(kind, seed):
    rng = np.random.default_rng([54, seed])
    keys = {
        "minimum": {"min_bout_seconds": {"W": 60.0, "N": 210.0, "R": 90.0}},
        "durations": {"durations": {"N": [0.0] * 30 + [0.5], "W": [0.3, 0.2]}},
        "flip-flop": {"flip_flop": {"penalty_nats": 800.0, "window_epochs": 5, "method": "exact"}},
    }[kind]
    profile = sg.Profile.from_dict(plain(3, **keys))
    labels = np.repeat(rng.integers(3, size=30), rng.integers(1, 12, size=30))[:120]
    probabilities = one_hot(labels, confidence=1.0)
    pins = {int(t): int((labels[t] + 1) % 3) for t in rng.choice(len(labels), size=5, replace=False)}
    try:
        compiled, reference = both(lambda: sg.posterior(probabilities, profile, pins=pins))
    except PinError:
        pins = dict(list(pins.items())[:1])
        compiled, reference = both(lambda: sg.posterior(probabilities, profile, pins=pins))
    np.testing.assert_allclose(compiled.probabilities, reference.probabilities, atol=1e-9)
    assert compiled.log_evidence == pytest.approx(reference.log_evidence, rel=1e-12)
    assert compiled.log_evidence < -100
    for t, stage in pins.items():
        assert compiled.probabilities[t, stage] == pytest.approx(1.0, abs=1e-12)


def test_a_band_profile_is_summed_at_the_strength_decode_chooses(backend):
    whole = simulate_night("human-psg-5", hours=1, seed=2).density
    profile = sg.Profile.load("human-psg-5").replace(posterior=None)
    asleep = slice(*decode(whole, profile).period)  # nothing else, so that there is nothing to cut
    night = Hypnodensity(whole.probabilities[asleep], whole.scheme, whole.epoch_seconds)
    chosen = decode(night, profile, trained="balanced").strength
    assert chosen.step == "lowered"
    found = sg.posterior(night, profile, trained="balanced")
    shares = np.exp(-np.array(chosen.balance_nats))  # a prior that adds the same nats, and a constant
    names = profile.scheme.names
    prior = dict(zip(names, (shares / shares.sum()).tolist(), strict=True))
    added = {"transition_weight": chosen.transition_weight, "prior_exponent": 1.0, "prior": prior}
    fixed = sg.posterior(night, profile.replace(**added))
    assert found.transition_weight == chosen.transition_weight > 0
    np.testing.assert_allclose(found.probabilities, fixed.probabilities, atol=1e-12)
    constant = night.n_epochs * np.log(shares.sum())
    assert found.log_evidence == pytest.approx(fixed.log_evidence - constant, rel=1e-12)
    assert mentions(found.assumed[-1], "chooses", chosen.step, f"{chosen.transition_weight:g}")
    assert not any("strength" in line for line in fixed.assumed)


def test_a_night_that_is_left_alone_keeps_its_probabilities(backend):
    profile = sg.Profile.load("human-psg-3").replace(clock=None, posterior=None)
    probabilities = one_hot(np.repeat([0, 1, 0, 2, 1], 12), confidence=0.8)
    assert sg.decode(probabilities, profile).strength.step == "untouched"
    found = sg.posterior(probabilities, profile, pins={3: "R"})
    expected = probabilities.copy()
    expected[3] = [0, 0, 1]
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-12)
    assert found.log_evidence == pytest.approx(np.log(probabilities[3, 2]), abs=1e-9)
    assert mentions(found.assumed[-1], "untouched", "transition weight 0")


def test_a_greedy_profile_is_summed_with_the_exact_window(backend):
    profile = sg.Profile.load("kdd2026-mouse-eeg-emg")
    flip = profile.to_dict()["flip_flop"]
    assert flip["method"] == "greedy"
    exact = profile.replace(flip_flop=flip | {"method": "exact"})
    night = random_probabilities(np.random.default_rng(7), 60, 3)
    found, wanted = sg.posterior(night, profile), sg.posterior(night, exact)
    assert np.array_equal(found.probabilities, wanted.probabilities)
    note = "the flip-flop window is exact: the profile's greedy one exists for decode alone"
    assert found.assumed == (*wanted.assumed, note)


def test_nights_of_a_list_are_summed_as_if_alone(backend):
    rng = np.random.default_rng(8)
    profile = sg.Profile.from_dict(plain(3, min_bout_seconds={"N": 90.0}))
    nights = [random_probabilities(rng, n, 3) for n in (1, 40, 7, 90)]
    nights[1][10:30] = np.nan
    quality = [None, None, np.linspace(0, 1, 7), None]
    pins = [None, {3: "N"}, None, {0: "R"}]
    segments = [None, None, None, [0, 50]]
    together = sg.posterior(nights, profile, quality=quality, pins=pins, segments=segments)
    for one, *said in zip(nights, quality, pins, segments, strict=True):
        options = dict(zip(("quality", "pins", "segments"), said, strict=True))
        alone, found = sg.posterior(one, profile, **options), together.pop(0)
        assert found == alone
        assert np.array_equal(found.probabilities, alone.probabilities, equal_nan=True)
    assert sg.posterior([], profile) == []


def test_a_density_keeps_its_names_and_times(backend):
    night = simulate_night("human-psg-5", hours=0.5, seed=1).density
    profile = sg.Profile.load("human-psg-3").replace(transition_weight=0.3)
    found = sg.posterior(night, profile)
    assert (found.scheme, found.start, found.source) == (profile.scheme, night.start, night.source)
    assert mentions(found.assumed, "W, N1, N2, N3, R", "merged", "W, N, R")
    assert decode(found, profile).hypnogram.n_epochs == 60  # what comes out can go in again


def test_a_switch_too_costly_for_a_double_is_still_a_way(backend):
    rows = {"W": {"W": 0.5, "S": 0.5}, "S": {"W": 1e-30, "S": 1.0}}
    keys = {"transitions": rows, "transition_weight": 20.0, "min_bout_seconds": {"W": 90.0}}
    profile = sg.Profile.from_dict(plain(2, **keys))
    probabilities = random_probabilities(np.random.default_rng(14), 12, 2)
    pins = {2: "S", 9: "W"}
    evidence = oracle.evidence_of(probabilities, plain(2, **keys), pins=pins)
    total, marginals = by_enumeration(evidence, oracle.rules_of(plain(2, **keys)), [(0, 12)])
    assert total < -1300  # exp of it is 0
    found = sg.posterior(probabilities, profile, pins=pins)
    assert found.log_evidence == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(found.probabilities, marginals, atol=1e-9)
    assert (sg.sample(probabilities, profile, n=5, pins=pins)[:, [2, 9]] == [1, 0]).all()
