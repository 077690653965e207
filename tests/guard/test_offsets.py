"""Draws and posteriors with one error of the stager per night, against every path written out."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from test_decode_exact import COMBINATIONS, random_case
from test_sample import KINDS, assert_drawn_in_proportion

import oracle
import stageguard as sg
from nights import decode, plain, random_probabilities
from stageguard.errors import InputError, StageGuardError
from stageguard.guard import kernels
from stageguard.guard.posterior import (
    N_FIXED,
    Offsets,
    draw_night,
    fixed_offsets,
    path_marginals,
    random_offsets,
    sample_like,
    smooth_night,
)

RULES = {"weight": 0.5, "weight_sd": 0.4, "floor": 0.02, "presleep_stay": 0.9}


def with_rules(mapping, **changes):
    spreads = {name: 0.4 + 0.3 * i for i, name in enumerate(oracle.stage_names(mapping))}
    return mapping | {"posterior": RULES | {"stage_sd": spreads} | changes}


def enumerated(mapping, probabilities, options, offset, weight, epoch):
    """Log-sum and marginals at one offset (NaN in gaps), by adding up every path of every part."""
    own = mapping["posterior"]
    evidence = oracle.evidence_of(
        probabilities,
        mapping,
        options.get("quality"),
        options.get("pins"),
        floor=own["floor"],
        offset=offset,
    )
    rules = oracle.rules_of(mapping, epoch, weight)
    parts, _, _ = oracle.parts_of(probabilities, epoch, options.get("segments"))
    total, marginals = 0.0, np.full(evidence.shape, np.nan)
    for number, (a, b) in enumerate(parts):
        stay = own["presleep_stay"] ** (epoch / mapping["epoch_seconds"])
        scored = replace(rules, presleep_stay=stay if number == 0 else None)
        paths = oracle.all_paths(evidence.shape[1], b - a)
        scores = np.array([oracle.score_part(evidence[a:b], path, scored) for path in paths.tolist()])
        log_sum = np.logaddexp.reduce(scores)
        total += log_sum
        share = np.exp(scores - log_sum)
        for s in range(evidence.shape[1]):
            marginals[a:b, s] = share @ (paths == s)
    return total, marginals


def shortened(case, n_epochs):
    """The first epochs of a random night, few enough to score every path one by one."""
    mapping, probabilities, options, *_ = case
    options = dict(options)
    if "quality" in options:
        options["quality"] = options["quality"][:n_epochs]
    for key in ("pins", "segments"):
        if key in options:
            own = options[key]
            kept = [t for t in own if t < n_epochs]
            options[key] = {t: own[t] for t in kept} if key == "pins" else kept
    return mapping, probabilities[:n_epochs], options


@pytest.mark.parametrize(("n_stages", "ends", "stay", "flip", "durations", "minimum"), COMBINATIONS)
def test_marginals_at_one_offset_add_up_every_path(backend, n_stages, ends, stay, flip, durations, minimum):
    n_summed = 0
    for seed in range(4):
        case = random_case(n_stages, ends, stay, flip, durations, minimum, seed)
        mapping, probabilities, options = shortened(case, {2: 8, 3: 6, 5: 4}[n_stages])
        mapping = with_rules(mapping)
        profile = sg.Profile.from_dict(mapping)
        rng = np.random.default_rng([70, seed])
        offset, weight = rng.normal(size=n_stages), float(rng.uniform(0.2, 1.5))
        try:
            night = decode(probabilities, profile, **options).night
        except StageGuardError:  # nothing to decode, or pins that cannot hold
            continue
        total, marginals = enumerated(mapping, probabilities, options, offset, weight, night.epoch_seconds)
        offsets = Offsets(offset[None], np.array([weight]))
        if total == -np.inf:
            with pytest.raises(InputError):
                smooth_night(profile, night, offsets)
            with pytest.raises(InputError):
                draw_night(profile, night, offsets, 0)
            continue
        n_summed += 1
        found, log_sum = smooth_night(profile, night, offsets)
        np.testing.assert_allclose(found, marginals, atol=1e-9, equal_nan=True)
        assert log_sum == pytest.approx(total, abs=1e-9)
    assert n_summed >= 1


@pytest.mark.parametrize("kind", ["plain", "minimum", "lengths"])
def test_the_posterior_is_the_mean_over_fixed_offsets(backend, kind):
    mapping = with_rules(plain(3, **KINDS[kind]))
    profile = sg.Profile.from_dict(mapping)
    probabilities = random_probabilities(np.random.default_rng(71), 6, 3)
    options = {"quality": [0, 0.5, 0, 0, 1, 0], "pins": {3: "N"}}
    offsets = fixed_offsets(profile)
    assert len(offsets.weights) == N_FIXED
    each = [enumerated(mapping, probabilities, options, *own, 30.0) for own in zip(*offsets, strict=True)]
    found = sg.posterior(probabilities, profile, **options)
    np.testing.assert_allclose(found.probabilities, np.mean([m for _, m in each], axis=0), atol=1e-9)
    assert found.log_evidence == pytest.approx(np.mean([total for total, _ in each]), abs=1e-9)
    assert found.transition_weight == RULES["weight"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "free"])
@pytest.mark.parametrize("options", [{}, {"quality": [0, 0.5, 0, 0, 1, 0], "pins": {3: "N"}}], ids=str)
def test_every_path_is_drawn_as_often_as_it_is_probable(backend, kind, options):
    mapping = with_rules(plain(3, **KINDS[kind]))
    profile = sg.Profile.from_dict(mapping)
    probabilities = random_probabilities(np.random.default_rng(72), 6, 3)
    offset, weight = np.array([0.8, -0.5, 0.2]), 0.6
    rules = replace(oracle.rules_of(mapping, 30.0, weight), presleep_stay=RULES["presleep_stay"])
    evidence = oracle.evidence_of(
        probabilities, mapping, options.get("quality"), options.get("pins"), floor=0.02, offset=offset
    )
    paths = oracle.all_paths(3, 6).tolist()
    scores = np.array([oracle.score_part(evidence, path, rules) for path in paths])
    chance = np.exp(scores - np.logaddexp.reduce(scores))
    n = 20_000 if backend == "compiled" else 2_000
    night = decode(probabilities, profile, **options).night
    drawn = draw_night(profile, night, Offsets(np.tile(offset, (n, 1)), np.full(n, weight)), 5)
    assert_drawn_in_proportion(drawn, chance)


def test_offsets_have_the_spread_of_the_profile():
    profile = sg.Profile.from_dict(with_rules(plain(3)))
    nats, weights = random_offsets(profile, 40_000, 1)
    assert np.abs(nats.mean(axis=0)).max() < 0.02
    np.testing.assert_allclose(nats.std(axis=0), [0.4, 0.7, 1.0], rtol=0.02)
    assert np.abs(np.corrcoef(np.column_stack([nats, np.log(weights)]).T) - np.eye(4)).max() < 0.02
    np.testing.assert_allclose(np.log(weights / 0.5).std(), 0.4, rtol=0.02)


@pytest.mark.parametrize("kind", ["minimum", "lengths"])
def test_draws_depend_on_the_seed_alone(backend, kind, monkeypatch):
    profile = sg.Profile.from_dict(with_rules(plain(3, **KINDS[kind])))
    nights = [random_probabilities(np.random.default_rng(75), n, 3) for n in (30, 12)]
    draw = partial(sg.sample, nights[0], profile)
    first = draw(n=20, seed=9)
    for n_threads in (1, 2, 7):
        monkeypatch.setattr(kernels, "threads_for", lambda n_items, n=n_threads: n)
        assert np.array_equal(draw(n=20, seed=9), first)
    assert np.array_equal(draw(n=5, seed=9), first[:5])
    assert not np.array_equal(draw(n=20, seed=8), first)
    assert np.array_equal(sg.sample(nights, profile, n=20, seed=9)[0], first)


def test_draws_of_all_stretches_share_their_offset():
    mapping = with_rules(plain(2), stage_sd={"W": 6.0, "S": 6.0}, weight_sd=0.0)
    rows = np.full((400, 2), 0.5)
    drawn = sg.sample(rows, sg.Profile.from_dict(mapping), n=300, segments=[0, 200])
    asleep = [(drawn[:, part] == 1).mean(axis=1) for part in (slice(0, 200), slice(200, 400))]
    assert np.corrcoef(*asleep)[0, 1] > 0.9


def test_the_strength_of_the_path_does_not_count(backend):
    night = random_probabilities(np.random.default_rng(77), 40, 3)
    draws = [
        sg.sample(night, sg.Profile.from_dict(with_rules(plain(3, transition_weight=weight))), n=9)
        for weight in (0.0, 0.3, 1.5)
    ]
    assert np.array_equal(draws[0], draws[1])
    assert np.array_equal(draws[0], draws[2])
    own = decode(night, sg.Profile.from_dict(with_rules(plain(3))))
    without = decode(night, sg.Profile.from_dict(plain(3)))
    assert np.array_equal(path_marginals(own), sg.posterior(night, without.profile).probabilities)


def test_a_night_cut_by_the_rule_is_drawn_whole():
    rule = {"rule": "target", "fi_target": 0.02, "floor": 0.5, "act_above": 1.5, "soft": 0.6}
    mapping = with_rules(plain(3))
    profile = sg.Profile.from_dict(mapping).replace(strength=rule)
    probabilities = random_probabilities(np.random.default_rng(78), 200, 3)
    probabilities[:40] = probabilities[160:] = [0.9, 0.05, 0.05]
    acting = decode(probabilities, profile)
    assert len(acting.night.spans) > 1  # else the test shows nothing
    plain_draws = sg.sample(probabilities, sg.Profile.from_dict(mapping), n=9)
    assert np.array_equal(sample_like(acting, n=9), plain_draws)


def test_offsets_do_not_count_where_the_stager_does_not(backend):
    night = random_probabilities(np.random.default_rng(79), 30, 3)
    lost = np.ones(30)
    lost[15] = 0.999999
    spreads = [{"W": 0.0, "N": 0.0, "R": 0.0}, {"W": 3.0, "N": 3.0, "R": 3.0}]
    profiles = [sg.Profile.from_dict(with_rules(plain(3), stage_sd=each)) for each in spreads]
    lost_draws = [sg.sample(night, each, n=20, quality=lost) for each in profiles]
    assert np.array_equal(*lost_draws)
    seen = [sg.sample(night, each, n=20) for each in profiles]
    assert not np.array_equal(*seen)
