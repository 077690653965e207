"""Bare arrays: by the caller's word or the tool's, never by guess."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from messages import mentions, message
from stageguard.errors import FileFormatError, InputError
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_density_file, read_density_object

FIVE = ["W", "N1", "N2", "N3", "R"]
RNG = np.random.default_rng(7)
P = RNG.dirichlet(np.ones(5), 24)


def notes_of(source: object, **options: object) -> tuple[str, ...]:
    return read_density_object(source, FileOptions(epoch_seconds=30, **options)).notes  # type: ignore[arg-type]


refused = partial(message, InputError, sg.read_density)


@pytest.mark.proves("object:numpy")
def test_an_array_with_the_names_of_its_columns():
    density = sg.read_density(P[:, ::-1], stages=FIVE[::-1], epoch_seconds=4)
    np.testing.assert_array_equal(density.probabilities, P)
    assert (density.epoch_seconds, density.source) == (4.0, "numpy.ndarray")
    assert sg.read_density(P.tolist(), stages="W,N1,N2,N3,R").n_epochs == 24


def test_an_array_without_names_is_refused():
    message = refused(P)
    assert mentions(message, "numpy.ndarray", "differs between tools")
    assert "stages=['W', 'N1', 'N2', 'N3', 'R']" in message
    assert mentions(message, "physioex", "braindecode")


def saved(folder: Path, array: np.ndarray, name: str = "night_PRED.npy") -> Path:
    np.save(folder / name, array)
    return folder / name


@pytest.mark.proves("usleep-npy")
@pytest.mark.parametrize("n_groups", [1, 2, 6])
def test_summed_softmaxes_of_u_time(tmp_path, n_groups):
    """`ut predict --no_argmax` sums over channel groups and does not divide."""
    groups = RNG.dirichlet(np.ones(5), (n_groups, 24)).astype(np.float32)
    path = saved(tmp_path, groups.sum(axis=0))
    found = read_density_file(path, FileOptions(format="usleep-npy"))
    np.testing.assert_allclose(found.density.probabilities, groups.mean(axis=0), atol=1e-6)
    said = "columns read as W, N1, N2, N3, R, the order of U-Sleep"
    assert found.notes[:2] == (
        said,
        "the file does not say how long an epoch is: 30 s assumed, as U-Sleep usually has",
    )
    assert found.notes[2:] == (() if n_groups == 1 else (f"rows sum to {n_groups}: divided by their sums",))
    with pytest.raises(FileFormatError, match="names no stages"):
        sg.read_density(path)


def test_sub_epoch_predictions_of_u_sleep_are_pooled(tmp_path):
    path = saved(tmp_path, P.astype(np.float32))
    density = sg.read_density(path, format="usleep-npy", epoch_seconds=5, pool_to_seconds=30)
    assert (density.n_epochs, density.epoch_seconds) == (4, 30.0)
    np.testing.assert_allclose(density.probabilities[0], P[:6].mean(axis=0), atol=1e-6)


@pytest.mark.proves("gssc")
def test_log_softmax_of_gssc(tmp_path):
    """`ArrayInfer.infer` returns what its authors call logits: some of them are log-probabilities."""
    for values, said in ((np.log(P), "natural log-probabilities"), (4 + np.log(P), "logits")):
        path = saved(tmp_path, values.astype(np.float32))
        found = read_density_file(path, FileOptions(format="gssc"))
        np.testing.assert_allclose(found.density.probabilities, P, atol=1e-5)
        assert said in found.notes[-1]


@pytest.mark.proves("object:torch")
def test_logits_of_torch():
    torch = pytest.importorskip("torch")
    logits = torch.tensor(2 + np.log(P))
    for tensor in (logits, logits.float(), logits.half(), logits.bfloat16(), logits.clone().requires_grad_()):
        values = sg.read_density(tensor, stages=FIVE).probabilities
        np.testing.assert_allclose(values, P, atol=0.02)
    softmax = torch.softmax(logits, dim=1)
    assert notes_of(softmax, stages=tuple(FIVE)) == ()
    np.testing.assert_allclose(sg.read_density(softmax, stages=FIVE).probabilities, P, atol=1e-12)
    assert sg.read_density(torch.nn.Parameter(logits), stages=FIVE).source == "torch.Parameter"


@pytest.mark.proves("braindecode", "physioex")
def test_windows_of_braindecode_and_physioex(tmp_path):
    logits = 2 + np.log(RNG.dirichlet(np.ones(5), (4, 35)))  # (windows, epochs, stages)
    expected = np.exp(logits - 2).reshape(140, 5)
    for source, format in ((logits, "physioex"), (np.swapaxes(logits, 1, 2), "braindecode")):
        found = read_density_object(source, FileOptions(stages=tuple(FIVE), format=format))
        np.testing.assert_allclose(found.density.probabilities, expected)
        assert mentions(found.notes, 4, "35 epochs", "joined")
        np.testing.assert_allclose(sg.read_density(source, stages=FIVE).probabilities, expected)
    path = saved(tmp_path, logits)
    np.testing.assert_allclose(sg.read_density(path, format="physioex").probabilities, expected)
    flat = sg.read_density(logits.reshape(140, 5), format="physioex")
    np.testing.assert_allclose(flat.probabilities, expected)


def test_windows_whose_axes_could_be_either_need_a_word():
    square = 2 + np.log(RNG.dirichlet(np.ones(5), (3, 5)))
    assert mentions(refused(square, stages=FIVE), "(3, 5, 5)")
    assert sg.read_density(square, stages=FIVE, format="braindecode").n_epochs == 15
    assert mentions(refused(square[:, :4, :4], stages=FIVE), 5, "the last two")
    assert mentions(refused(square, format="braindecode"), "order", "braindecode", "whoever")


@pytest.mark.proves("sleepecg")
@pytest.mark.parametrize(
    ("names", "scheme"),
    [
        (("SLEEP", "WAKE"), "ws2"),
        (("NREM", "REM", "WAKE"), "wnr3"),
        (("N3", "LIGHT", "REM", "WAKE"), "wldr4"),
        (("N3", "N2", "N1", "REM", "WAKE"), "aasm5"),
    ],
)
def test_arrays_of_sleepecg(tmp_path, names, scheme):
    values = np.hstack([np.full((9, 1), 1e-3), 0.999 * RNG.dirichlet(np.ones(len(names)), 9)])
    values[4] = [1] + [0] * len(names)  # UNDEFINED
    density = sg.read_density(values, format="sleepecg")
    assert density.scheme.name == scheme
    assert np.isnan(density.probabilities[4]).all()
    kept = np.delete(values, 4, axis=0).astype(float)
    rest = kept[:, 1:] / kept[:, 1:].sum(axis=1, keepdims=True)
    for place, name in enumerate(names):
        own = density.scheme.index("DEEP" if (name, scheme) == ("N3", "wldr4") else name)
        np.testing.assert_allclose(
            np.delete(density.probabilities, 4, axis=0)[:, own], rest[:, place], rtol=1e-6
        )
    path = saved(tmp_path, values, "prob.npy")
    again = sg.read_density(path, format="sleepecg")
    np.testing.assert_array_equal(again.probabilities, density.probabilities)


def test_the_order_of_sleepecg_is_that_of_the_installed_one():
    utils = pytest.importorskip("sleepecg.utils")
    from stageguard.formats.tools.arrays import SLEEPECG
    from stageguard.night.stages import canonical_name

    for names in utils._STAGE_NAMES.values():
        own = [canonical_name(name) for name in SLEEPECG[len(names)]]
        theirs = ["Deep" if name == "N3" and "LIGHT" in names else canonical_name(name) for name in names]
        assert own == theirs


@pytest.mark.proves("object:sklearn")
def test_probabilities_and_classes_of_scikit_learn():
    linear = pytest.importorskip("sklearn.linear_model")
    labels = np.array(["WAKE", "N1", "N2", "N3", "REM"])[np.arange(200) % 5]
    features = (np.arange(200) % 5)[:, None] == np.arange(5)
    model = linear.LogisticRegression().fit(features + RNG.normal(0, 0.1, (200, 5)), labels)
    predicted = model.predict_proba(features)
    density = sg.read_density((predicted, model.classes_))
    assert [density.scheme.names[label] for label in density.argmax[:5]] == ["W", "N1", "N2", "N3", "R"]
    assert model.classes_.tolist() == ["N1", "N2", "N3", "REM", "WAKE"]


def test_classes_that_are_numbers_must_be_named():
    assert mentions(refused((P, np.arange(5))), "tools", "number stages differently")
    np.testing.assert_array_equal(sg.read_density((P, np.arange(5)), stages=FIVE).probabilities, P)
    assert "(4,)" in refused((P, FIVE[:4]))
    assert mentions(refused((P, ["N9", "N1", "N2", "N3", "R"])), "class", "'N9'")
    assert "expected probabilities (epochs, classes)" in refused((P, P))


@pytest.mark.parametrize(
    ("source", "options", "expected"),
    [
        (P[0], {"stages": FIVE}, ("shape", "(5,)", "epochs", 5)),
        (P.T, {"stages": FIVE}, ("shape", "(5, 24)", "epochs", 5)),
        (P.astype(str), {"stages": FIVE}, ("text", "expected real numbers")),
        (P.astype(object), {"stages": FIVE}, ("are Python objects", "numbers")),
        ([[1, 2], [3]], {"stages": FIVE}, ("rows of different", "lengths")),
        (P, {"format": "usleep"}, ("'usleep'", "arrays")),
        (P, {"stages": FIVE, "format": "yasa-json"}, ("'yasa-json'", "arrays")),
        (P, {"stages": FIVE, "epoch_seconds": "30"}, ("epoch_seconds", "'30'")),
        (P, {"stages": FIVE, "logits": True, "log": True}, ("logits", "exclude each other")),
    ],
)
def test_bad_arrays_are_one_line(source, options, expected):
    assert mentions(refused(source, **options), *expected)


def test_a_hypnodensity_passes_through():
    own = sg.Hypnodensity(P, "aasm5", 30.0, source="mine")
    assert sg.read_density(own) is own
    assert sg.read_density(own, epoch_seconds=30) is own
    assert sg.read_density(own, pool_to_seconds=60).source == "mine"
    assert "got epoch_seconds=20" in refused(own, epoch_seconds=20)
    assert mentions(refused(own, stages=FIVE), "format", "logits and log")
