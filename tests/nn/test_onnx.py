"""Networks as ONNX files: exported they compute the same; others are taken by what they say of themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import stageguard as sg
from cli_runner import error_line
from feature_nights import NAMES, feature_table, write_csv
from messages import mentions
from stageguard.errors import (
    FileFormatError,
    InputError,
    OutputExistsError,
    StageGuardError,
)
from stageguard.nn.backbones import BACKBONES
from stageguard.nn.data import Normalisation
from stageguard.nn.model import FeatureSet, ModelCard, TrainedModel, save_model
from stageguard.nn.onnx import METADATA, export_onnx, load_onnx
from stageguard.synthetic import simulate_recording

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT

ROOT = Path(__file__).parents[2]
CLOSE = 1e-5  # probability
pytestmark = pytest.mark.filterwarnings("ignore:.*the rest was padded")


def network(name: str, *, n_frames: int = 1, length: int | None = 20, **options) -> TrainedModel:
    """An untrained network with random weights and running statistics, and a card."""
    torch.manual_seed(7)
    card = ModelCard(
        backbone=name,
        network=options,
        epoch_seconds=30.0,
        features=FeatureSet("toy-4", None, NAMES, n_frames),
        normalisation=Normalisation(("clock",), (0.4,), (0.2,)),
        length=length,
        temperature=1.4,
        trained="natural",
        profile=sg.Profile.load("human-psg-3"),
        training={},
    )
    built = card.build().eval()
    with torch.no_grad():
        for key, value in built.named_buffers():
            if key.endswith("running_mean"):
                value.normal_()
            elif key.endswith("running_var"):
                value.uniform_(0.5, 2.0)
    fixed = built.training_length
    return TrainedModel(built, card if fixed is None else replace(card, length=fixed))


@pytest.fixture(scope="module")
def model():
    return network("accusleep", width=0.5, window_epochs=3)


@pytest.fixture(scope="module")
def file(model, tmp_path_factory):
    return export_onnx(model, tmp_path_factory.mktemp("onnx") / "model.onnx")


@pytest.mark.parametrize("name", BACKBONES)
def test_an_exported_network_gives_the_same_probabilities(name, tmp_path):
    model = network(name, small=True)
    exported = load_onnx(export_onnx(model, tmp_path / "model.onnx"))
    assert exported.card == model.card
    gap = feature_table(
        3, values=np.where(np.arange(90)[:, None] == 40, np.nan, feature_table(3).values[:, 0])
    )
    for table in (feature_table(1), feature_table(2, n_epochs=9), feature_table(4, n_epochs=230), gap):
        for temperature in (True, False):
            expected = model.probabilities(table, temperature=temperature)
            found = exported.probabilities(table, temperature=temperature)
            np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE)
    assert np.isnan(exported.probabilities(gap)[40]).all()


def test_the_file_says_what_it_takes_and_gives(file, model):
    proto = onnx.load(file)
    onnx.checker.check_model(proto, full_check=True)
    (inputs,), (outputs,) = proto.graph.input, proto.graph.output
    assert (inputs.name, outputs.name) == ("features", "logits")
    sizes = [dim.dim_param or dim.dim_value for dim in inputs.type.tensor_type.shape.dim]
    assert sizes == ["windows", "epochs", 1, 4]
    document = json.loads({item.key: item.value for item in proto.metadata_props}[METADATA])
    assert document["output"] == "logits"
    assert document["scheme"]["names"] == ["W", "N", "R"]
    assert document["versions"]["stageguard"] == sg.__version__
    assert model.card == load_onnx(file).card


def test_a_file_is_not_replaced_or_named_otherwise(file, model, tmp_path):
    with pytest.raises(OutputExistsError):
        export_onnx(model, file)
    export_onnx(model, file, overwrite=True)
    with pytest.raises(InputError) as error:
        export_onnx(model, tmp_path / "model.pt")
    assert mentions(str(error.value), "model.pt", ".onnx")
    assert list(tmp_path.iterdir()) == []


class Untraceable(torch.nn.Module):
    training_length = None

    def forward(self, x):
        return (
            torch.linalg.eigh(x.mean(dim=2)[:, :4, :] @ torch.eye(4))
            .eigenvalues[:, None]
            .expand(-1, x.shape[1], 3)
        )


class Baked(torch.nn.Module):
    """Its trace keeps the number of epochs that it was traced with."""

    training_length = None

    def forward(self, x):
        return x[..., 0, :3] * float(x.shape[1])


@pytest.mark.parametrize(("bad", "words"), [(Untraceable(), ("exported",)), (Baked(), ("differs",))])
def test_a_network_that_cannot_be_exported_leaves_no_file(model, bad, words, tmp_path, capsys):
    with pytest.raises(InputError) as error:
        export_onnx(TrainedModel(bad, model.card), tmp_path / "model.onnx")
    assert mentions(str(error.value), "'accusleep'", *words)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""


def test_stage_by_a_file_from_the_command_line(run, model, tmp_path):
    save_model(model, tmp_path / "model")
    output = export_onnx(model, tmp_path / "model.onnx")
    night = write_csv(tmp_path / "night.csv", feature_table(8), with_stage=False)
    for stager, place in ((tmp_path / "model", "by-torch"), (output, "by-onnx")):
        ran = run("stage", night, "--stager", stager, "-o", tmp_path / place)
        assert ran.code == 0, ran.err
    rows = [sg.read_density(tmp_path / place / "night.hypnodensity.csv") for place in ("by-torch", "by-onnx")]
    np.testing.assert_allclose(rows[0].probabilities, rows[1].probabilities, rtol=0, atol=1e-4)
    again = run("stage", night, "--stager", output, "-o", tmp_path / "by-onnx")
    assert again.code == 0, again.err
    export_onnx(network("accusleep", width=0.25, window_epochs=3), output, overwrite=True)
    other = error_line(run("stage", night, "--stager", output, "-o", tmp_path / "by-onnx"))
    assert mentions(other, "another stager", "--overwrite")
    missing = error_line(run("stage", night, "--stager", tmp_path / "no.onnx", "-o", tmp_path / "x"))
    assert mentions(missing, "no.onnx", "No such file")


def test_torch_is_not_loaded_to_stage_an_onnx_file(file, tmp_path):
    night = write_csv(tmp_path / "night.csv", feature_table(8), with_stage=False)
    code = f"""
import sys
sys.modules["torch"] = None
import stageguard as sg
from stageguard.nn import load_onnx
model = load_onnx({str(file)!r})
staged = sg.stage(model.read({str(night)!r}), model)
assert staged.decoding.hypnogram.n_epochs == 90
again = sg.stage(model.read({str(night)!r}), {str(file)!r})
assert again.density == staged.density
from stageguard.cli import main
sys.argv = ["stageguard", "stage", {str(night)!r}, "--stager", {str(file)!r}, "-o", {str(tmp_path / "out")!r}]
main()
"""
    place = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | place)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "out" / "night.hypnogram.tsv").is_file()


# Networks of other people: a linear layer, written without torch.
FACTS = {
    "stages": ["W", "N", "R"],
    "epoch_seconds": 30,
    "recipe": "human-eeg",
    "features": list(NAMES),
    "profile": "human-psg-3",
    "output": "logits",
    "layout": ["windows", "epochs", "features"],
    "normalisation": "none",
}
WEIGHTS = np.random.default_rng(2).normal(size=(4, 3)).astype(np.float32)


def linear(
    path, facts=FACTS, *, shape=("windows", "epochs", 4), weights=WEIGHTS, nodes=None, metadata=None, **more
):
    """Write a network with one linear layer, and return the path."""
    initial = onnx.numpy_helper.from_array(weights, "weights")
    made = nodes or [helper.make_node("MatMul", ["x", "weights"], ["y"])]
    graph = helper.make_graph(
        made,
        "linear",
        [helper.make_tensor_value_info("x", more.get("type", FLOAT), shape)],
        [helper.make_tensor_value_info("y", FLOAT, more.get("gives"))],
        [initial],
    )
    opsets = [
        helper.make_opsetid("", 17),
        *(helper.make_opsetid(name, 1) for name in more.get("domains", ())),
    ]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    text = json.dumps(facts) if metadata is None else metadata
    if facts is not None or metadata is not None:
        helper.set_model_props(model, {METADATA: text})
    path.write_bytes(model.SerializeToString())
    return path


def expected_rows(table, weights=WEIGHTS):
    logits = table.values[:, 0].astype(np.float32) @ weights
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def test_a_network_of_somebody_else_is_a_stager_by_what_it_says(tmp_path):
    table = feature_table(1)
    model = load_onnx(linear(tmp_path / "a.onnx"))
    np.testing.assert_allclose(model.probabilities(table), expected_rows(table), rtol=0, atol=CLOSE)
    staged = sg.stage(table, tmp_path / "a.onnx")
    assert staged.profile.name == "human-psg-3"
    assert staged.trained is None
    # the columns in another order, by other names of the stages
    turned = FACTS | {"stages": ["REM", "Wake", "NREM"], "trained": "balanced", "name": "mine"}
    other = load_onnx(linear(tmp_path / "b.onnx", turned, weights=WEIGHTS[:, [2, 0, 1]]))
    np.testing.assert_allclose(other.probabilities(table), expected_rows(table), rtol=0, atol=CLOSE)
    assert (other.card.trained, other.card.backbone) == ("balanced", "mine")


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (("epochs", "features"), ("n", 4)),
        (("windows", "epochs", "features"), (1, "n", 4)),
        (("windows", "epochs", "frames", "features"), ("w", "n", 1, 4)),
        (("windows", "frames", "epochs", "features"), ("w", 1, "n", 4)),
    ],
)
@pytest.mark.parametrize("length", [None, 25])
def test_layouts(layout, shape, length, tmp_path):
    facts = FACTS | {"layout": list(layout), "length": length}
    table = feature_table(1)
    model = load_onnx(linear(tmp_path / "a.onnx", facts, shape=shape))
    np.testing.assert_allclose(model.probabilities(table), expected_rows(table), rtol=0, atol=CLOSE)


def test_probabilities_are_taken_as_they_are_and_night_scores_are_the_default(tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"], axis=-1),
    ]
    table = feature_table(1)
    model = load_onnx(linear(tmp_path / "a.onnx", FACTS | {"output": "probabilities"}, nodes=nodes))
    np.testing.assert_allclose(model.probabilities(table), expected_rows(table), rtol=0, atol=CLOSE)
    usual = {key: value for key, value in FACTS.items() if key != "normalisation"}
    scaled = load_onnx(linear(tmp_path / "b.onnx", usual)).probabilities(table)
    rows = table.values[:, 0]
    standard = np.clip((rows - rows.mean(axis=0)) / rows.std(axis=0), -5, 5)
    by_hand = replace(table, values=standard.astype(np.float32)[:, None])
    np.testing.assert_allclose(scaled, expected_rows(by_hand), rtol=0, atol=CLOSE)
    with pytest.raises(FileFormatError) as error:
        load_onnx(linear(tmp_path / "c.onnx", FACTS | {"output": "probabilities"}))
    assert "\n" not in str(error.value)


def external(path):
    tensor = onnx.TensorProto(name="weights", data_type=FLOAT, dims=[4, 3])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "/etc/passwd"
    linear(path)
    model = onnx.load(path)
    del model.graph.initializer[:]
    model.graph.initializer.append(tensor)
    path.write_bytes(model.SerializeToString())


TURNED = [
    helper.make_node("MatMul", ["x", "weights"], ["z"]),
    helper.make_node("Transpose", ["z"], ["y"], perm=[0, 2, 1]),
]
CAST = helper.make_node("Cast", ["x"], ["z"], to=FLOAT)
FROM_CAST = [helper.make_node("MatMul", ["z", "weights"], ["y"])]
HOSTILE = {
    "empty": (lambda path: path.write_bytes(b""), ("onnxruntime",)),
    "text": (lambda path: path.write_text("not a network"), ("onnxruntime",)),
    "no metadata": (lambda path: linear(path, None), ("no card", "'stageguard'")),
    "no JSON": (lambda path: linear(path, metadata="{"), ()),
    "a list": (lambda path: linear(path, metadata="[1]"), ("'stageguard'",)),
    "another layout": (lambda path: linear(path, {"stageguard_model": 99}), ("layout", "99")),
    "half a card": (lambda path: linear(path, {"stageguard_model": 1, "output": "logits"}), ("'backbone'",)),
    "external data": (external, ("onnxruntime",)),
    "unknown operator": (
        lambda path: linear(path, nodes=[helper.make_node("NoSuchThing", ["x"], ["y"])]),
        ("onnxruntime",),
    ),
    "wrong rank": (lambda path: linear(path, shape=(4,)), ("run",)),
    "wrong features": (lambda path: linear(path, FACTS | {"features": ["a", "b"]}), ("run", 2, 4)),
    "wrong type": (
        lambda path: linear(path, type=onnx.TensorProto.INT64, nodes=[CAST, *FROM_CAST]),
        ("int64",),
    ),
    "wrong stages": (
        lambda path: linear(path, weights=np.ones((4, 5), np.float32), gives=("w", "n", 5)),
        ("(1, 12, 5)", "(1, 12, 3)"),
    ),
    "stages not last": (lambda path: linear(path, nodes=TURNED), ("(1, 3, 12)", "(1, 12, 3)")),
    "not a number": (
        lambda path: linear(path, weights=np.full((4, 3), np.nan, np.float32)),
        ("NaN", "12 of 12"),
    ),
    "other stages": (lambda path: linear(path, FACTS | {"stages": ["W", "N"]}), ("W, N", "human-psg-3")),
    "no such profile": (lambda path: linear(path, FACTS | {"profile": "/etc/passwd"}), ("profile",)),
    "a recipe in a file": (lambda path: linear(path, FACTS | {"recipe": "/etc/passwd.toml"}), ("recipe",)),
    "unknown key": (lambda path: linear(path, FACTS | {"pickle": "x"}), ("'pickle'",)),
    "fixed windows": (lambda path: linear(path, shape=(8, "n", 4)), ("run", 1, 8)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_trusted_is_refused_in_one_line(name, tmp_path, capfd):
    make, words = HOSTILE[name]
    path = tmp_path / "bad.onnx"
    make(path)
    with pytest.raises(StageGuardError) as error:
        load_onnx(path)
    text = str(error.value)
    assert "\n" not in text and len(text) < 600
    assert mentions(text, "bad.onnx", *words)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_recording_is_staged_by_the_features_of_the_recipe(tmp_path):
    """Of a watch, whose measurements come at uneven times: its epochs are those of its features."""
    recording = simulate_recording("actigraphy", hours=1, seed=5).recording
    table = sg.features(recording, "actigraphy")
    weights = np.random.default_rng(4).normal(size=(len(table.names), 2)).astype(np.float32)
    facts = FACTS | {
        "stages": ["S", "W"],
        "recipe": "actigraphy",
        "features": list(table.names),
        "profile": "human-actigraphy-2",
    }
    shape = ("windows", "epochs", len(table.names))
    path = linear(tmp_path / "a.onnx", facts, shape=shape, weights=weights)
    staged = sg.stage(recording, path)
    assert staged.density.n_epochs == table.n_epochs
    used = ~np.isnan(staged.density.probabilities[:, 0])
    np.testing.assert_allclose(
        staged.density.probabilities[used], expected_rows(table, weights)[used][:, ::-1], rtol=0, atol=CLOSE
    )
    assert mentions(staged.notes[0], "staged by network")
