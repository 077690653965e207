from __future__ import annotations

import copy
import pickle
import tomllib

from hypothesis import HealthCheck, given, settings

from documents import MINIMAL, documents, exactly, fields_of, profile_of
from stageguard.profile.profile import Profile


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(documents())
def test_any_profile_survives_every_round_trip_exactly(tmp_path_factory, document):
    profile = Profile.from_dict(document)
    path = tmp_path_factory.mktemp("profile") / "p.toml"
    profile.save(path)
    copies = [Profile.from_dict(profile.to_dict()), Profile.load(path), pickle.loads(pickle.dumps(profile))]
    for other in [*copies, copy.deepcopy(profile), profile.replace()]:
        assert fields_of(other) == fields_of(profile)
        assert exactly(other.to_dict()) == exactly(profile.to_dict())
        assert other.sha256 == profile.sha256
        assert other == profile
        assert hash(other) == hash(profile)
    assert exactly(tomllib.loads(path.read_text("utf-8"))) == exactly(profile.to_dict())


def test_defaults_are_left_out_of_the_document():
    explicit = profile_of(
        summary="",
        not_for=[],
        stay="self",
        ends="censored",
        transition_weight=1,
        prior_exponent=0,
        rare_probability=0.001,
        rare=[],
        min_bout_seconds={},
        flip_flop={"penalty_nats": 0, "window_epochs": 5, "method": "exact"},
        calibration={"temperature": 1},
        durations={},
        bands={},
        provenance={},
    )
    assert explicit == profile_of()
    assert list(explicit.to_dict()) == ["name", "scheme", "epoch_seconds", "transitions"]


def test_the_hash_does_not_depend_on_order_or_on_how_numbers_are_written():
    one = profile_of(min_bout_seconds={"W": 30, "R": 60.0}, provenance={"a": 1, "b": 2})
    two = profile_of(provenance={"b": 2, "a": 1}, min_bout_seconds={"R": 60, "W": 30.0})
    assert one.sha256 == two.sha256
    assert profile_of(transition_weight=-0.0).sha256 == profile_of(transition_weight=0.0).sha256


def test_a_profile_is_no_other_thing():
    assert profile_of() != MINIMAL
    assert repr(profile_of()).startswith("<Profile 'minimal', wnr3, sha256 ")
