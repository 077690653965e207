"""The training loop: it learns, repeats itself, goes on after a kill, refuses what it cannot learn from."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from feature_nights import cohort, feature_table, options
from messages import mentions
from stageguard.errors import FileFormatError, InputError, OutputExistsError
from stageguard.guard.decode import decode
from stageguard.measures.agreement import cohen_kappa
from stageguard.nn.backbones import build_backbone
from stageguard.nn.inference import Validation, score_probabilities
from stageguard.nn.options import TrainingOptions, one_cycle, read_config
from stageguard.nn.tables import Normalisation
from stageguard.nn.training import Objective, train
from stageguard.profile.profile import Profile
from stageguard.signals.features import Features


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def message(error: type[Exception], function, *arguments, **keywords) -> str:
    with pytest.raises(error) as caught:
        function(*arguments, **keywords)
    text = str(caught.value)
    assert "\n" not in text
    return text


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
    assert max(line["validation"]["kappa"] for line in lines[1:]) == pytest.approx(
        model.card.training["best_kappa"], abs=1e-6
    )
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == [
        "log.jsonl",
        "model.json",
        "model.safetensors",
    ]


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path):
    state = torch.get_rng_state()
    for name, seed in (("a", 42), ("b", 42), ("c", 43)):
        train(cohort(), options(seed=seed), tmp_path / name)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in "abc"]
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]
    assert torch.equal(torch.get_rng_state(), state)  # the caller's own random numbers are untouched
    assert not torch.are_deterministic_algorithms_enabled()


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
    left = sorted(p.name for p in (tmp_path / "killed").iterdir())
    assert left == ["log.jsonl", "training.safetensors"]
    assert run("killed", 0) == 0
    files = [tmp_path / name / "model.safetensors" for name in ("whole", "killed")]
    assert files[0].read_bytes() == files[1].read_bytes()
    cards = [json.loads((tmp_path / name / "model.json").read_text()) for name in ("whole", "killed")]
    assert cards[0] == cards[1]
    logs = [(tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("whole", "killed")]
    without_time = [[json.loads(line) | {"seconds": 0} for line in log] for log in logs]
    assert without_time[0] == without_time[1]
    assert not (tmp_path / "killed" / "training.safetensors").exists()


class Stop(Exception):
    pass


def interrupt(progress) -> None:
    if progress.step == 9:
        raise Stop


def test_an_unfinished_run_goes_on_with_the_same_options_and_data_only(tmp_path):
    with pytest.raises(Stop):
        train(cohort(), options(), tmp_path / "m", report=interrupt)
    other = message(InputError, train, cohort(), options(learning_rate=1e-3), tmp_path / "m")
    assert mentions(other, "learning_rate", "overwrite=True")
    assert "with other data." in message(InputError, train, cohort(4), options(), tmp_path / "m")
    state = tmp_path / "m" / "training.safetensors"
    whole = state.read_bytes()
    state.write_bytes(whole[: len(whole) // 2])
    assert mentions(
        message(FileFormatError, train, cohort(), options(), tmp_path / "m"),
        "training.safetensors",
        "not a readable",
    )
    steps = []
    train(cohort(), options(), tmp_path / "m", overwrite=True, report=lambda p: steps.append(p.step))
    assert steps[0] == 1
    assert mentions(
        message(OutputExistsError, train, cohort(), options(), tmp_path / "m"),
        "network",
        "already",
        "overwrite=True",
    )


def test_runs_that_share_their_first_steps_are_those_that_do_not(tmp_path):
    shared, weights = tmp_path / "shared", {}
    for weight in (0.0, 4.0):
        plan = options(
            profile="kdd2026-cardiorespiratory",
            steps=12,
            evaluate_every=2,
            penalty_after=6,
            penalty_weight=weight,
        )
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


def test_patience_ends_a_run_that_no_longer_improves(tmp_path):
    rng = np.random.default_rng(0)
    noise = [feature_table(k, labels=rng.integers(0, 3, 90)) for k in range(5)]  # nothing to learn
    model = train(noise, options(steps=400, evaluate_every=2, patience=3), tmp_path / "m")
    said = model.card.training
    assert said["stopped_at"] < 400
    assert said["stopped_at"] - said["best_step"] == 3 * 2


def test_padding_and_unscored_epochs_do_not_change_the_loss():
    profile = Profile.load("kdd2026-cardiorespiratory")
    objective = Objective(profile, options(penalty_weight=0.5), np.array([1, 1, 1]))
    logits = torch.randn(2, 10, 3, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[0, 1, 2, 1, 0, 2, 1, -1, -1, -1]] * 2)
    before = objective(logits, targets, targets >= 0)
    changed = logits.clone()
    changed[:, 7:] = 50.0
    after = objective(changed, targets, targets >= 0)
    assert before["penalty"] > 0
    for part in before:
        assert torch.equal(before[part], after[part])
    assert before["loss"] == before["cross_entropy"] + 0.5 * before["penalty"]


def test_balanced_weights_count_every_stage_alike():
    counts = np.array([100, 300, 50])
    balanced = Objective(Profile.load("human-psg-3"), options(balanced=True), counts)
    assert torch.allclose(balanced.stage_weights * torch.tensor([100.0, 300.0, 50.0]), torch.tensor(150.0))
    logits = torch.zeros(1, 4, 3)
    logits[0, :, 1] = 2.0
    targets = torch.tensor([[1, 1, 1, 2]])
    natural = Objective(Profile.load("human-psg-3"), options(), counts)
    mask = targets >= 0
    assert balanced(logits, targets, mask)["loss"] > natural(logits, targets, mask)["loss"]


def test_the_semi_markov_loss_trains_too(tmp_path):
    model = train(cohort(), options(loss="semi-markov", steps=40), tmp_path / "m")
    assert model.card.training["best_kappa"] > 0.5
    # evidence and transitions were weighed against each other, and are judged and decoded together
    assert model.card.temperature == 1.0
    assert model.card.profile.transition_weight == 1.0
    assert model.card.profile.clock is None  # no loss knows the time
    held_out = feature_table(99)
    result = decode(model.density(held_out), model.card.profile, trained=model.card.trained)
    assert (result.hypnogram.labels == held_out.labels).mean() > 0.8
    assert train(cohort(), options(steps=40), tmp_path / "other").card.temperature != 1.0


def test_with_a_decoder_the_decoded_stages_are_judged():
    table = feature_table(1)
    smooth = Profile.load("human-psg-3").replace(transition_weight=50.0)  # no change is worth its price
    scale = Normalisation.fit([table])
    network = build_backbone("attnsleep", n_frames=1, n_features=4, n_stages=3, small=True)
    plain = Validation([table], scale, 3, None).score(network)
    decoded = Validation([table], scale, 3, None, smooth).score(network)
    assert decoded.accuracy == pytest.approx(1 / 3)  # one stage throughout
    assert decoded.log_loss == plain.log_loss


def test_one_cycle_rises_to_its_peak_and_falls_to_nothing():
    rates = [one_cycle(step, 100, 1e-3) for step in range(100)]
    assert rates[0] == pytest.approx(1e-3 / 25)
    assert max(rates) == rates[30] == pytest.approx(1e-3)
    assert rates[-1] < 1e-5
    assert (np.diff(rates[:31]) > 0).all()
    assert (np.diff(rates[30:]) < 0).all()


def without_rem(table: Features) -> Features:
    labels = np.where(table.labels == 2, -1, table.labels)
    return feature_table(int(table.subject[1:]), labels=labels)


@pytest.mark.parametrize(
    ("tables", "changes", "expected"),
    [
        (lambda: cohort(1), {}, ("s0", "least", 2)),
        (
            lambda: [without_rem(t) for t in cohort()],
            {},
            ("R", "occur", 4),
        ),
        (
            lambda: [feature_table(k, n_epochs=15, labels=np.arange(15) % 3) for k in range(9)],
            {},
            ("15 epochs", 20, "sequence_epochs", "training_length", 15),
        ),
        (
            lambda: [feature_table(k, n_epochs=1, labels=np.array([k % 3])) for k in range(9)],
            {},
            ("longest", 1, 20),
        ),
        (cohort, {"device": "cuda"}, ("device is 'cuda', but torch ",)),
        (
            cohort,
            {"profile": "human-psg-5"},
            ("W, N, R", "'human-psg-5'"),
        ),
        (cohort, {"learning_rate": 1e30}, ("NaN", "learning")),
        (cohort, {"backbone": "usleap"}, ("'usleap'",)),
        (
            cohort,
            {"absolute": ("clocks",)},
            ("'clocks'",),
        ),
    ],
)
def test_what_cannot_be_learned_from_is_one_clear_line(tmp_path, tables, changes, expected):
    if changes.get("device") == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    got = message(Exception, train, tables(), options(**changes), tmp_path / "m")
    assert mentions(got, *expected)


def test_short_stretches_among_long_ones_are_padded_not_refused(tmp_path):
    tables = [*cohort(4), feature_table(7, subject="s0", n_epochs=1, labels=np.array([1]))]
    model = train(tables, options(), tmp_path / "m")
    assert model.card.training["n_recordings"] == 5


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"steps": 0}, ("steps", 0, 1)),
        ({"batch_size": 2.5}, ("batch_size", "2.5", 1)),
        ({"learning_rate": -1}, ("learning_rate", -1, 0)),
        ({"loss": "crf"}, ("loss", "'crf'", "'penalty'", "'semi-markov'")),
        ({"device": "gpu"}, ("device", "'gpu'", "'auto'", "'cpu'", "'cuda'", "'cpu'")),
        ({"balanced": "yes"}, ("balanced", "'yes'")),
        ({"absolute": "clock"}, ("absolute", "'clock'")),
        ({"sequence_epochs": 1}, ("sequence_epochs", 1, 2)),
    ],
)
def test_a_wrong_option_is_named(changes, expected):
    assert mentions(message(InputError, options, **changes), *expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('data = "d"\n', ("c.toml", "says no output")),
        ('data = "d"\noutput = "o"\nprofile = "human-psg-3"\n', ("c.toml", "say no backbone")),
        ("data = d", ("c.toml", "not valid TOML")),
        (
            'data = "d"\noutput = "o"\nbackbone = "usleep"\nprofile = "human-psg-3"\nstep = 3\n',
            ("c.toml", "'step'", "'steps'"),
        ),
    ],
)
def test_a_wrong_configuration_is_one_line(tmp_path, text, expected):
    (tmp_path / "c.toml").write_text(text)
    assert mentions(message(FileFormatError, read_config, tmp_path / "c.toml"), *expected)


def test_options_survive_json():
    said = options(balanced=True)
    assert TrainingOptions.from_dict(json.loads(json.dumps(said.to_dict()))) == said


def test_scores_agree_with_hand_counts():
    # 9 of 10 right; chance agreement .5 * .4 + .5 * .6 = .5
    assert cohen_kappa(np.array([[4.0, 1.0], [0.0, 5.0]])) == pytest.approx((0.9 - 0.5) / 0.5)
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [np.nan, np.nan]])
    score = score_probabilities(p, np.array([0, 1, 1, 1]))
    assert score.accuracy == pytest.approx(2 / 3)
    assert score.log_loss == pytest.approx(-np.log([0.9, 0.1, 0.8]).mean())
