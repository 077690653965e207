"""What every public name promises: types that other tools can read."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import typing
import warnings
from functools import cached_property

import numpy as np
import pydantic
import pytest

import stageguard as sg

OF_SKLEARN = ("set_fit_request", "set_predict_request", "set_predict_proba_request", "set_score_request")
checked = pydantic.validate_call(config={"arbitrary_types_allowed": True})


def public_functions():
    for name in sg.__all__:
        found = getattr(sg, name)
        if inspect.isfunction(found):
            yield name, found
        elif inspect.isclass(found):
            for method in vars(found):
                if not method.startswith("_") and method not in OF_SKLEARN:
                    value = getattr(found, method)
                    if inspect.isroutine(value) and not isinstance(value, cached_property):
                        yield f"{name}.{method}", value


def public_classes():
    for name in sg.__all__:
        found = getattr(sg, name)
        if inspect.isclass(found) and not issubclass(found, Exception):  # errors are built in, without one
            yield name, found


FUNCTIONS, CLASSES = dict(public_functions()), dict(public_classes())


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_types_of_public_callables_can_be_looked_up(name):
    found = {**FUNCTIONS, **CLASSES}[name]
    types = typing.get_type_hints(found)
    parameters = inspect.signature(found, eval_str=True).parameters.values()
    assert not [parameter.name for parameter in parameters if isinstance(parameter.annotation, str)]
    if name in FUNCTIONS:
        assert "return" in types
        untyped = {parameter.name for parameter in parameters} - set(types) - {"self", "cls"}
        assert not untyped


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pydantic_can_check_calls_of_public_functions(name):
    assert callable(checked(FUNCTIONS[name]))


def test_a_call_that_pydantic_checked_gives_the_same_result():
    night = sg.simulate_night(hours=1, seed=1)
    quality = np.zeros(night.density.n_epochs)
    result = checked(sg.decode)(night.density, "human-psg-5", quality=quality, pins={3: "W"})
    assert result == sg.decode(night.density, "human-psg-5", quality=quality, pins={3: "W"})
    with pytest.raises(pydantic.ValidationError) as caught:
        checked(sg.decode)(night.density, "human-psg-5", logits="perhaps")
    assert [error["loc"] for error in caught.value.errors()] == [("logits",)]


NIGHT = sg.simulate_night(hours=6, seed=1)
RESULTS = {
    "Agreement": lambda: sg.agreement(NIGHT.expert, sg.decode(NIGHT.density, "human-psg-5")),
    "Change": lambda: sg.explain(sg.decode(NIGHT.density, "human-psg-5"))[0],
    "Decoding": lambda: sg.decode(NIGHT.density, "human-psg-5"),
    "Intervals": lambda: sg.intervals(sg.decode(NIGHT.density, "human-psg-5"), method="model", n=50),
    "Posterior": lambda: sg.posterior(NIGHT.density, "human-psg-5"),
    "SleepStatistics": lambda: sg.sleep_statistics(sg.decode(NIGHT.density, "human-psg-5")),
    "Strength": lambda: sg.decode(NIGHT.density, "human-psg-5").strength,
    "Validity": lambda: sg.validity(sg.decode(NIGHT.density, "human-psg-5")),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_of_equal_calls_are_equal(name):
    first, second = RESULTS[name](), RESULTS[name]()
    assert type(first).__name__ == name
    for other in (second, pickle.loads(pickle.dumps(first))):
        assert other is not first
        assert other == first
        assert hash(other) == hash(first)
    assert first != NIGHT


def test_results_that_differ_in_one_number_are_not_equal():
    decoding = RESULTS["Decoding"]()
    other = NIGHT.density.probabilities.copy()
    other[0] = np.roll(other[0], 1)
    assert decoding != sg.decode(NIGHT.density.with_rows(other), "human-psg-5")
    strength = decoding.strength
    assert np.isnan(dataclasses.replace(strength, fi_after=float("nan")).fi_after)
    assert dataclasses.replace(strength, fi_after=float("nan")) != strength
    statistics = RESULTS["SleepStatistics"]()
    assert dataclasses.replace(statistics, labels=statistics.labels[::-1].copy()) != statistics


def a_caution():
    sg.decode(NIGHT.density, "human-psg-5", cohort="narcolepsy")


def a_rest_of_an_epoch():
    NIGHT.expert.reepoch(37.0)


def an_odd_unit():
    loud = sg.Signal("C4", 1e6 * np.sin(np.arange(128.0 * 600)), 128.0, "uV")
    sg.signal_quality(sg.Recording("a", "b", {"eeg": loud, "emg": loud}), "eeg-emg", epoch_seconds=30)


def a_cross_validation():
    nights = [sg.simulate_night(hours=1, seed=seed) for seed in range(4)]
    densities, experts = [night.density for night in nights], [night.expert.labels for night in nights]
    decoder = sg.SemiMarkovDecoder("human-psg-5", transition_weight=0.3, cohort="narcolepsy")
    selection = pytest.importorskip("sklearn.model_selection")
    selection.cross_val_score(decoder, densities, experts, cv=selection.KFold(2))


CALLS = (
    a_caution,
    a_rest_of_an_epoch,
    an_odd_unit,
    a_cross_validation,
)


@pytest.mark.parametrize("call", CALLS)
def test_warnings_point_to_the_line_of_the_caller(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert caught
    for warning in caught:
        assert issubclass(warning.category, sg.StageGuardWarning)
        assert warning.filename == __file__
        lines, first = inspect.getsourcelines(call)
        assert first < warning.lineno < first + len(lines)
