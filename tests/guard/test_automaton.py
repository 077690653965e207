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


@pytest.mark.parametrize(
    ("minimum", "ends", "n_states", "n_edges"),
    [
        ((2, 3, 2), "paper", 35, 77),
        ((2, 2, 3, 3, 2), "paper", 128, 428),
        ((1, 1, 1, 1, 1), "paper", 1045, 5225),
        ((2, 3, 2), "censored", 31, 73),
        ((2, 2, 3, 3, 2), "censored", 121, 421),
    ],
)
def test_flip_flop_automaton_has_the_stated_size(minimum, ends, n_states, n_edges):
    automaton = compile_automaton(flip_flop_profile(minimum, ends))
    assert (automaton.n_states, len(automaton.source)) == (n_states, n_edges)
    assert oracle.count_automaton(minimum, 5, ends) == (n_states, n_edges)


@pytest.mark.parametrize("window", [2, 3, 4, 6])
@pytest.mark.parametrize("ends", ["censored", "paper"])
@pytest.mark.parametrize("minimum", [(1, 1), (1, 2), (1, 4, 2), (3, 1, 1), (1, 2, 2, 5, 3)])
def test_flip_flop_automaton_has_the_size_of_its_definition(minimum, ends, window):
    automaton = compile_automaton(flip_flop_profile(minimum, ends, window))
    expected = oracle.count_automaton(minimum, window, ends)
    assert (automaton.n_states, len(automaton.source)) == expected


def test_an_automaton_that_would_be_too_large_names_its_key():
    with pytest.raises(ProfileError, match=r"window_epochs .* 20,000"):
        compile_automaton(flip_flop_profile((1, 1, 1, 1, 1), "paper", window=30))
