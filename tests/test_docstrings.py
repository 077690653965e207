"""Docstrings of public names, which are the reference: parameters and examples are true."""

from __future__ import annotations

import doctest
import inspect
import re

import pytest

import stageguard as sg
from stageguard import datasets, nn, synthetic
from stageguard.nn import backbones

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


@pytest.mark.parametrize(
    ("package", "name"),
    [(package, name) for package in (sg, datasets, synthetic, backbones, nn) for name in package.__all__],
)
def test_every_parameter_of_a_function_is_explained(package, name):
    if package is nn:
        pytest.importorskip("torch")
    function = getattr(package, name)
    if not inspect.isfunction(function) or name in AS_IN_FIT:
        return
    text, parameters = inspect.getdoc(function), inspect.signature(function).parameters
    section = text.partition("Parameters\n----------\n")[2]
    explained = set(re.findall(r"\w+", " ".join(re.findall(r"^(\S[^:\n]*)", section, re.MULTILINE))))
    assert set(parameters) - {"options"} <= explained
