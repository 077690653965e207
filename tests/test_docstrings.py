"""Docstrings of public names, which are the reference: parameters and examples are true."""

from __future__ import annotations

import doctest
import inspect
import re

import pytest

import stageguard as sg

NAMES = sorted(set(sg.__all__) - {"__version__"})
MOST_USED = {
    *("Hypnodensity", "Hypnogram", "Profile", "StreamingDecoder", "agreement", "decode", "explain", "fit"),
    *("intervals", "posterior", "sample", "sleep_statistics", "tune", "validity"),
}
AS_IN_FIT = {"fit_report"}  # whose parameters are those of `fit`, and its docstring says so


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::stageguard.StageGuardWarning")
def test_examples_are_true(name, capsys):
    thing = getattr(sg, name)
    found = doctest.DocTestFinder(recurse=False).find(thing, name, globs={})
    examples = [each for each in found if each.examples] if inspect.getdoc(thing) else []
    assert examples or name not in MOST_USED
    for each in examples:
        failed = doctest.DocTestRunner().run(each).failed
        assert not failed, capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isfunction(getattr(sg, name))])
def test_every_parameter_of_a_function_is_explained(name):
    text = inspect.getdoc(getattr(sg, name))
    parameters = inspect.signature(getattr(sg, name)).parameters
    if name in AS_IN_FIT or not parameters:
        return
    section = text.partition("Parameters\n----------\n")[2]
    explained = set(re.findall(r"\w+", " ".join(re.findall(r"^(\S[^:\n]*)", section, re.MULTILINE))))
    assert set(parameters) - {"options"} <= explained
