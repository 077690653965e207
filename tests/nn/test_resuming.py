"""A run that was stopped: what goes on, what begins anew, and states that cannot be read."""

from __future__ import annotations

import contextlib
import json
import shutil

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save

from feature_nights import cohort, options
from messages import mentions, naming
from stageguard.errors import FileFormatError, InputError, OutputError, OutputExistsError
from stageguard.nn.run_state import check_output
from stageguard.nn.training import train


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Stop(Exception):
    pass


def steps_of(folder, *, stop_at: int = 0, **changes) -> list[int]:
    """Train, stop where told, and return the steps that were taken."""
    seen: list[int] = []
    overwrite = changes.pop("overwrite", False)

    def watch(progress) -> None:
        seen.append(progress.step)
        if progress.step == stop_at:
            raise Stop

    with contextlib.suppress(Stop):
        train(cohort(), options(**changes), folder, overwrite=overwrite, report=watch)
    return seen


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


UNFINISHED = ["log.jsonl", "training.safetensors"]
FINISHED = ["log.jsonl", "model.json", "model.safetensors"]


def test_the_same_command_with_overwrite_goes_on_after_a_kill(tmp_path):
    steps_of(tmp_path / "m", seed=1)
    steps_of(tmp_path / "alone")
    assert steps_of(tmp_path / "m", overwrite=True, stop_at=13)[0] == 1
    assert names(tmp_path / "m") == UNFINISHED  # no old network beside the new log
    assert steps_of(tmp_path / "m", overwrite=True)[0] == 9
    assert names(tmp_path / "m") == FINISHED
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("m", "alone")]
    assert weights[0] == weights[1]
    # it was finished: once more from the beginning
    assert steps_of(tmp_path / "m", overwrite=True, stop_at=1) == [1]


def test_without_overwrite_it_goes_on_too(tmp_path):
    steps_of(tmp_path / "m", seed=1)
    steps_of(tmp_path / "m", overwrite=True, stop_at=9)
    assert steps_of(tmp_path / "m")[0] == 9
    assert names(tmp_path / "m") == FINISHED


def test_overwrite_begins_anew_over_a_run_that_did_not(tmp_path):
    steps_of(tmp_path / "m", stop_at=9)
    assert steps_of(tmp_path / "m", overwrite=True, stop_at=9)[0] == 1
    assert steps_of(tmp_path / "m", overwrite=True, learning_rate=1e-3, stop_at=9)[0] == 1
    assert steps_of(tmp_path / "m", overwrite=True, learning_rate=1e-3, stop_at=9)[0] == 9


def test_an_old_network_stays_until_there_is_something_to_go_on_from(tmp_path):
    steps_of(tmp_path / "m")
    before = (tmp_path / "m" / "model.safetensors").read_bytes()
    steps_of(tmp_path / "m", overwrite=True, seed=1, stop_at=5)
    assert names(tmp_path / "m") == FINISHED
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == before


def edited(path, change) -> None:
    """Write a state again after a change of its numbers and tensors."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    run = json.loads(metadata["run"])
    change(run, tensors)
    path.write_bytes(save(tensors, metadata=metadata | {"run": json.dumps(run)}))


CHANGES = {
    "no numbers": (lambda run, _: run.clear(), "key 'step' is missing in the document"),
    "no step": (lambda run, _: run.pop("step"), "key 'step' is missing in the document"),
    "step as text": (
        lambda run, _: run.update(step="8"),
        "step is '8', expected a whole number of at least 0",
    ),
    "unknown number": (
        lambda run, _: run.update(colour=1),
        "unknown key 'colour' in the document. Known: step, best_step, best_kappa, n_stale, history",
    ),
    "history as text": (
        lambda run, _: run.update(history="x"),
        "history is 'x', expected a list in square brackets",
    ),
    "no weight": (
        lambda _, tensors: tensors.pop("network.output.bias"),
        "'network.output.bias' is missing or unknown",
    ),
    "no moment": (
        lambda _, tensors: tensors.pop("optimizer.0.exp_avg"),
        "'optimizer.0.exp_avg' is missing or unknown",
    ),
    "another tensor": (
        lambda _, tensors: tensors.update(more=torch.zeros(1)),
        "'more' is missing or unknown",
    ),
    "another shape": (
        lambda _, tensors: tensors.update({"best.output.bias": torch.zeros(7)}),
        "best.*: 'output.bias' has shape (7,), expected (3,)",
    ),
    "moment of another shape": (
        lambda _, tensors: tensors.update({"optimizer.0.exp_avg": torch.zeros(7)}),
        "'optimizer.0.exp_avg' has another shape than its parameter",
    ),
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped") / "m"
    steps_of(folder, stop_at=9)
    return folder


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_state_that_is_incomplete_is_one_line_and_trains_nothing(stopped, tmp_path, change, reason):
    folder = shutil.copytree(stopped, tmp_path / "m")
    edited(folder / "training.safetensors", change)
    with pytest.raises(FileFormatError) as caught:
        steps_of(folder)
    assert mentions(str(caught.value), "training.safetensors", reason, "overwrite=True")


def test_overwrite_begins_anew_over_a_state_that_cannot_be_read(stopped, tmp_path):
    folder = shutil.copytree(stopped, tmp_path / "m")
    (folder / "training.safetensors").write_bytes(b"nothing")
    assert steps_of(folder, overwrite=True, stop_at=1) == [1]


def test_a_state_of_something_else_is_one_line(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "training.safetensors").write_bytes(save({"x": torch.zeros(1)}))
    with pytest.raises(FileFormatError, match=naming("training.safetensors", "not a readable")):
        steps_of(tmp_path / "m")


# ---- where it is written -------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_is_said_before_training(tmp_path):
    (tmp_path / "file").write_text("x")
    for folder, reason in ((tmp_path / "file", "it is a file"), (tmp_path / "file" / "m", "Not a directory")):
        seen: list[object] = []
        with pytest.raises(OutputError) as caught:
            train(cohort(), options(), folder, report=seen.append)
        assert mentions(str(caught.value), "cannot", folder, reason, "Choose")
        assert seen == []


def test_looking_whether_a_folder_can_be_written_leaves_nothing(tmp_path):
    check_output(tmp_path / "a" / "b" / "c", overwrite=False)
    assert names(tmp_path) == []
    (tmp_path / "there").mkdir()
    check_output(tmp_path / "there" / "in", overwrite=False)
    assert names(tmp_path / "there") == []
    (tmp_path / "there" / "model.json").write_text("{}")
    with pytest.raises(OutputExistsError, match=naming("a network already")):
        check_output(tmp_path / "there", overwrite=False)
    check_output(tmp_path / "there", overwrite=True)


def test_other_data_are_named_before_what_follows_from_them(tmp_path):
    steps_of(tmp_path / "m", stop_at=9)
    with pytest.raises(InputError, match=naming("unfinished", "overwrite=True")):
        train(cohort(4), options(), tmp_path / "m")
