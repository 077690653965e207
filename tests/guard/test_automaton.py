"""Sizes of the compiled automaton."""

import pytest

import oracle
import stageguard as sg
from nights import SCHEME, plain
from stageguard.errors import ProfileError
from stageguard.guard.automaton import compile_automaton


def flip_flop_profile(minimum, ends, window=5):
    names = oracle.SCHEMES[SCHEME[len(minimum)]]
    return sg.Profile.from_dict(
        plain(
            len(minimum),
            ends=ends,
            min_bout_seconds={name: 30.0 * m for name, m in zip(names, minimum, strict=True)},
            flip_flop={"penalty_nats": 2.0, "window_epochs": window, "method": "exact"},
        )
    )


def test_an_automaton_that_would_be_too_large_names_its_key():
    with pytest.raises(ProfileError, match=r"window_epochs .* 20,000"):
        compile_automaton(flip_flop_profile((1, 1, 1, 1, 1), "paper", window=30))
