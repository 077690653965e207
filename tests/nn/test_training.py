"""The training loop: it learns, repeats itself, goes on after a kill, refuses what it cannot learn from."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from feature_nights import cohort, feature_table, options
from messages import mentions, message
from stageguard.errors import FileFormatError, InputError, OutputExistsError
from stageguard.measures.agreement import cohen_kappa
from stageguard.nn.data import soften
from stageguard.nn.options import read_config
from stageguard.nn.training import best_temperature, score_probabilities, train
from stageguard.signals.features import Features

PAPER = "kdd2026-cardiorespiratory"


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Stop(Exception):
    pass


def steps_of(folder, *, stop_at: int = 0, overwrite: bool = False, **changes) -> list[int]:
    """Train, stop where told, and return the steps that were taken."""
    seen: list[int] = []

    def watch(progress) -> None:
        seen.append(progress.step)
        if progress.step == stop_at:
            raise Stop

    with contextlib.suppress(Stop):
        train(cohort(), options(**changes), folder, overwrite=overwrite, report=watch)
    return seen


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


FINISHED = ["log.jsonl", "model.json", "model.safetensors"]


def test_it_learns_logs_and_writes(tmp_path):
    seen = []
    model = train(cohort(), options(steps=60), tmp_path / "m", report=seen.append)
    held_out = feature_table(99)
    score = score_probabilities(model.probabilities(held_out), held_out.labels)
    assert score.kappa > 0.8
    assert [p.step for p in seen] == list(range(1, 61))
    assert {p.step for p in seen if p.score} == {8, 16, 24, 32, 40, 48, 56, 60}
    assert seen[0].parts["loss"] > seen[-1].parts["loss"]
    lines = [json.loads(line) for line in (tmp_path / "m" / "log.jsonl").read_text().splitlines()]
    assert lines[0]["options"]["backbone"] == "accusleep"
    assert [line["step"] for line in lines[1:]] == [8, 16, 24, 32, 40, 48, 56, 60]
    assert set(lines[1]["training"]) == {"loss", "cross_entropy", "penalty"}
    best = max(line["validation"]["kappa"] for line in lines[1:])
    assert best == pytest.approx(model.card.training["best_kappa"], abs=1e-6)
    assert names(tmp_path / "m") == FINISHED


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path):
    state = torch.get_rng_state()
    for name, seed in (("a", 42), ("b", 42), ("c", 43)):
        train(cohort(), options(seed=seed), tmp_path / name)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in "abc"]
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]
    assert torch.equal(torch.get_rng_state(), state)  # the caller's own random numbers are untouched
    assert not torch.are_deterministic_algorithms_enabled()


def test_scores_agree_with_hand_counts():
    # 9 of 10 right; chance agreement .5 * .4 + .5 * .6 = .5
    assert cohen_kappa(np.array([[4.0, 1.0], [0.0, 5.0]])) == pytest.approx((0.9 - 0.5) / 0.5)
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]])
    score = score_probabilities(p, np.array([0, 1, 1]))
    assert score.accuracy == pytest.approx(2 / 3)
    assert score.log_loss == pytest.approx(-np.log([0.9, 0.1, 0.8]).mean())


def test_the_temperature_undoes_overconfidence():
    rng = np.random.default_rng(0)
    honest = rng.dirichlet([2.0, 1.0, 1.0], size=20_000)
    labels = (honest.cumsum(axis=1) < rng.random(20_000)[:, None]).sum(axis=1)
    ones = np.ones(3, dtype=np.float32)
    assert best_temperature(honest, labels, ones) == pytest.approx(1.0, abs=0.05)
    assert best_temperature(soften(honest, 0.5), labels, ones) == pytest.approx(2.0, rel=0.05)
    assert best_temperature(honest[:0], labels[:0], ones) == 1.0


# ---- whom it sees


def test_a_held_out_subject_changes_nothing(tmp_path):
    nights = cohort()
    said = options(steps=8, held_out_subjects=["s3"])
    first = train(nights, said, tmp_path / "a")
    changed = replace(nights[3], values=nights[3].values * 50 + 7, labels=(nights[3].labels + 1) % 3)
    again = train([*nights[:3], changed, nights[4]], said, tmp_path / "b")
    without = train([*nights[:3], nights[4]], options(steps=8), tmp_path / "c")
    for other in (again, without):
        for name, tensor in first.network.state_dict().items():
            assert torch.equal(tensor, other.network.state_dict()[name]), name
    assert first.card.training["n_subjects"] == 4
    assert first.card.training["options"]["held_out_subjects"] == ["s3"]


@pytest.mark.filterwarnings("ignore::stageguard.errors.StageGuardWarning")
def test_the_paper_has_no_temperature(tmp_path):
    usual = train(cohort(), options(steps=16), tmp_path / "usual")
    paper = train(cohort(), options(profile=PAPER, steps=16), tmp_path / "paper")
    asked = train(cohort(), options(profile=PAPER, steps=16, temperature=True), tmp_path / "asked")
    assert usual.card.temperature != 1.0 != asked.card.temperature
    assert paper.card.temperature == 1.0
    assert paper.card.training["options"]["temperature"] is False


# ---- stopped and resumed

KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[3])
import torch
torch.set_num_threads(1)
from feature_nights import cohort, options
from stageguard.nn.training import train
def watch(progress):
    if progress.step == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
train(cohort(), options(**KILLED_OPTIONS), sys.argv[1], report=watch)
"""
KILLED_OPTIONS = {"backbone": "deepsleepnet", "network": {"small": True, "width": 0.25}}


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_network_as_one_left_alone(tmp_path):
    # dropout, batch statistics, AdamW's moments, the order of sequences and the best weights must return
    def run(name: str, kill_at: int) -> int:
        helpers = str(Path(__file__).parents[1])
        script = f"KILLED_OPTIONS = {KILLED_OPTIONS}\n{KILLED}"
        command = [sys.executable, "-c", script, str(tmp_path / name), str(kill_at), helpers]
        return subprocess.run(command, env=os.environ, check=False).returncode

    train(cohort(), options(**KILLED_OPTIONS), tmp_path / "whole")
    assert run("killed", 13) == -signal.SIGKILL
    assert names(tmp_path / "killed") == ["log.jsonl", "training.pt"]
    assert run("killed", 0) == 0
    files = [tmp_path / name / "model.safetensors" for name in ("whole", "killed")]
    assert files[0].read_bytes() == files[1].read_bytes()
    cards = [json.loads((tmp_path / name / "model.json").read_text()) for name in ("whole", "killed")]
    assert cards[0] == cards[1]
    logs = [(tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("whole", "killed")]
    without_time = [[json.loads(line) | {"seconds": 0} for line in log] for log in logs]
    assert without_time[0] == without_time[1]
    assert not (tmp_path / "killed" / "training.pt").exists()


def test_an_interrupted_run_goes_on_with_the_same_options_and_data_only(tmp_path):
    folder = tmp_path / "m"
    assert steps_of(folder, stop_at=13)[-1] == 13
    other = message(InputError, train, cohort(), options(learning_rate=1e-3), folder)
    assert mentions(other, "options", "overwrite=True")
    assert "with other data." in message(InputError, train, cohort(4), options(), folder)
    assert steps_of(folder) == list(range(9, 25))
    assert names(folder) == FINISHED
    steps_of(tmp_path / "alone")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("m", "alone")]
    assert weights[0] == weights[1]
    done = message(OutputExistsError, train, cohort(), options(), folder)
    assert mentions(done, "network", "already", "overwrite=True")


def test_overwrite_begins_another_run_anew_and_goes_on_with_its_own(tmp_path):
    folder = tmp_path / "m"
    steps_of(folder, seed=1)
    before = (folder / "model.safetensors").read_bytes()
    assert steps_of(folder, overwrite=True, stop_at=13)[0] == 1
    assert (folder / "model.safetensors").read_bytes() == before  # until there is another network
    assert steps_of(folder, overwrite=True, learning_rate=1e-3, stop_at=9)[0] == 1
    assert steps_of(folder, overwrite=True, learning_rate=1e-3)[0] == 9
    assert (folder / "model.safetensors").read_bytes() != before
    assert names(folder) == FINISHED


@pytest.mark.parametrize("content", [b"", b"nothing", "half", "a tensor", "a pickle"])
def test_a_file_that_is_no_state_is_one_line_and_trains_nothing(tmp_path, content):
    steps_of(tmp_path / "m", stop_at=9)
    state = tmp_path / "m" / "training.pt"
    if content == "half":
        state.write_bytes(state.read_bytes()[:-1000])
    elif content == "a tensor":
        torch.save(torch.zeros(3), state)
    elif content == "a pickle":
        torch.save({"identity": Path("x")}, state)  # which only an import could read
    else:
        state.write_bytes(content)
    before = state.read_bytes()
    assert mentions(message(FileFormatError, steps_of, tmp_path / "m"), "training.pt", "no state", "Delete")
    assert state.read_bytes() == before


def test_runs_that_share_their_first_steps_are_those_that_do_not(tmp_path):
    shared, weights = tmp_path / "shared", {}
    for weight in (0.0, 4.0):
        plan = options(profile=PAPER, steps=12, evaluate_every=2, penalty_after=6, penalty_weight=weight)
        alone = train(cohort(), plan, tmp_path / f"alone{weight}")
        steps = []
        together = train(
            cohort(),
            plan,
            tmp_path / f"together{weight}",
            shared=shared,
            report=lambda progress, steps=steps: steps.append(progress.step),
        )
        assert steps[0] == (7 if weight else 1)  # the second run goes on from the first one's state
        assert alone.card.training["best_step"] > 6
        weights[weight] = (tmp_path / f"alone{weight}" / "model.safetensors").read_bytes()
        assert (tmp_path / f"together{weight}" / "model.safetensors").read_bytes() == weights[weight]
        assert together.card.training["options"] == alone.card.training["options"]
    assert weights[0.0] != weights[4.0]


# ---- options


def without_rem(table: Features) -> Features:
    return feature_table(int(table.subject[1:]), labels=np.where(table.labels == 2, -1, table.labels))


UNTRAINABLE = {
    "one subject": (lambda: cohort(1), {}, ("s0", "least", 2)),
    "no REM": (lambda: [without_rem(t) for t in cohort()], {}, ("R", "occur")),
    "short nights": (
        lambda: [feature_table(k, n_epochs=15, labels=np.arange(15) % 3) for k in range(9)],
        {},
        ("15 epochs", 20, "sequence_epochs", "training_length"),
    ),
    "no GPU": (cohort, {"device": "cuda"}, ("device is 'cuda'",)),
    "other stages": (cohort, {"profile": "human-psg-5"}, ("'human-psg-5'", "W, N1, N2, N3, R")),
    "a rate too high": (cohort, {"learning_rate": 1e30}, ("loss", "learning_rate")),
    "unknown feature": (cohort, {"absolute": ("clocks",)}, ("'clocks'", "'clock'")),
    "another epoch length": (
        lambda: [feature_table(k, epoch_seconds=30.0) for k in range(4)],
        {"epoch_seconds": 20.0},
        ("night0", "30 s", "20 s"),
    ),
    "a subject on both sides": (
        cohort,
        {"held_out_subjects": ["s3"], "validation_subjects": ["s3"]},
        ("validation_subjects", "'s3'"),
    ),
    "no such option of the network": (
        cohort,
        {"network": {"colour": 1}},
        ("'colour'", "width, depth, small"),
    ),
}


@pytest.mark.parametrize(("tables", "changes", "expected"), UNTRAINABLE.values(), ids=UNTRAINABLE)
def test_what_cannot_be_learned_from_is_one_clear_line(tmp_path, tables, changes, expected):
    if changes.get("device") == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    assert mentions(message(Exception, train, tables(), options(**changes), tmp_path / "m"), *expected)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"learning_rate": -1}, ("learning_rate", "-1.0", 0)),
        ({"backbone": "usleap"}, ("'usleap'", "usleep")),
        ({"network": {"n_frames": 1}}, ("network", "'n_frames'")),
    ],
)
def test_a_wrong_option_is_one_line(changes, expected):
    assert mentions(message(InputError, options, **changes), *expected)


START = 'data = "d"\noutput = "o"\nbackbone = "usleep"\nprofile = "human-psg-3"\n'


def test_a_configuration_is_relative_to_its_file(tmp_path):
    config = tmp_path / "c.toml"
    said = 'dataset = "shhs"\nrecipe = "own"\ndataset_options = { sample = "paper" }\n'
    config.write_text(f"{START.replace('human-psg-3', 'own.toml')}{said}network = {{ small = true }}\n")
    read_back = read_config(config)
    assert (read_back.data, read_back.profile) == (str(tmp_path / "d"), str(tmp_path / "own.toml"))
    assert read_back.dataset_options == {"sample": "paper"}
    assert {item.name for item in fields(read_back.options)}.isdisjoint({"data", "output", "dataset"})
    assert dict(read_back.options.network) == {"small": True}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('data = "d"\n', ("c.toml", "'backbone'")),
        (START.replace('output = "o"\n', ""), ("c.toml", "'output'")),
        ("data = d", ("c.toml", "not valid TOML")),
        (f"{START}step = 3\n", ("c.toml", "'step'", "'steps'")),
        (f'{START}dataset = "shhs"\n', ("c.toml", "dataset", "recipe")),
        (f"{START}dataset_options = 3\n", ("c.toml", "dataset_options", 3)),
    ],
)
def test_a_wrong_configuration_is_one_line(tmp_path, text, expected):
    (tmp_path / "c.toml").write_text(text)
    assert mentions(message(FileFormatError, read_config, tmp_path / "c.toml"), *expected)


def test_named_subjects_decide_which_weights_are_kept(tmp_path):
    nights = cohort()
    made = train(nights, options(steps=16, validation_subjects=["s1"], temperature=False), tmp_path / "m")
    assert made.card.training["n_training_subjects"] == 4
    alone = score_probabilities(made.probabilities(nights[1]), nights[1].labels)
    assert alone.kappa == pytest.approx(made.card.training["best_kappa"], abs=1e-9)
