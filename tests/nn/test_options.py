"""Options of a run: what they refuse, and what they take from the network's training recipe."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from feature_nights import cohort, options
from messages import mentions
from stageguard.errors import FileFormatError, InputError
from stageguard.nn.backbones import training_recipe
from stageguard.nn.options import (
    TrainingOptions,
    count_in_steps,
    fill_from_recipe,
    rate_at,
    read_config,
    recipe_of,
)
from stageguard.nn.training import train
from stageguard.profile.profile import Profile, as_profile


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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"balanced": True}, "balanced is true"),
        ({"label_smoothing": 0.3}, "label_smoothing is 0.3"),
        ({"penalty_weight": 0.5}, "penalty_weight is 0.5"),
        ({"temperature": True}, "temperature is true"),
    ],
)
def test_the_semi_markov_loss_refuses_what_would_act_on_nothing(changes, said):
    assert mentions(
        message(InputError, options, loss="semi-markov", **changes), said, "'semi-markov'", "'penalty'"
    )


def test_the_penaltys_weight_is_one_half_unless_there_is_no_penalty():
    assert TrainingOptions("usleep", "human-psg-3").penalty_weight == 0.5
    assert TrainingOptions("usleep", "human-psg-3", loss="semi-markov").penalty_weight == 0.0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"absolute": 5}, ("absolute", 5, "brackets")),
        (
            {"seed": 99999999999999999999999},
            ("seed", "99999999999999999999999", 0, "4294967295"),
        ),
        (
            {"network": {"n_frames": 1}},
            ("network", "'n_frames'", "epoch_seconds"),
        ),
        ({"network": {"name": "x"}}, ("network", "'name'")),
        ({"network": {"epoch_seconds": 4}}, ("network", "'epoch_seconds'")),
        (
            {"optimiser": "adma"},
            ("optimiser", "'adma'", "'adamw'", "'adam'", "'adam-amsgrad'", "'sgd'"),
        ),
        ({"schedule": "cosine"}, ("schedule", "'cosine'", "'one-cycle'", "'constant'", "'decay'")),
        ({"clip": -1}, ("clip", -1, "least", 0)),
    ],
)
def test_a_wrong_option_is_one_line(changes, expected):
    assert mentions(message(InputError, options, **changes), *expected)


def test_a_whole_number_may_be_written_with_a_point(tmp_path):
    said = options(sequence_epochs=20.0, steps=2.0, evaluate_every=2.0, batch_size=4.0, seed=7.0)
    assert isinstance(said.sequence_epochs, int)
    again = options(sequence_epochs=20, steps=2, evaluate_every=2, batch_size=4, seed=7)
    assert said == again
    train(cohort(), said, tmp_path / "m")


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ({"small": "yes"}, ("small", "'yes'")),
        ({"spectrum": "no"}, ("spectrum", "'no'")),
        ({"width": 1e9}, ("width", "1000000000.0", 100)),
        ({"widht": 1}, ("'accusleep'", "'widht'")),
    ],
)
def test_a_wrong_option_of_the_network_is_one_line(tmp_path, network, expected):
    assert mentions(message(InputError, train, cohort(), options(network=network), tmp_path / "m"), *expected)
    assert not (tmp_path / "m").exists()


# ---- the recipe ----------------------------------------------------------------------------------


def test_what_the_options_leave_open_the_recipe_of_the_networks_size_says(tmp_path):
    for network in ({"small": True}, {}):
        said = TrainingOptions("usleep", "human-psg-3", network=network)
        recipe = training_recipe("usleep", small=bool(network))
        whole = count_in_steps(fill_from_recipe(said, recipe_of(said)), recipe_of(said), n_round=7)
        assert whole.learning_rate == recipe.learning_rate
        assert whole.optimiser == recipe.optimiser
        assert whole.batch_size == recipe.batch_size
        assert whole.sequence_epochs == recipe.sequence_epochs
        assert whole.clip == recipe.clip
        assert whole.steps == (recipe.steps or recipe.rounds * 7)
        assert whole.evaluate_every == (recipe.evaluate_every or 7)
    model = train(
        cohort(), TrainingOptions("accusleep", "human-psg-3", {"small": True}, sequence_epochs=20, steps=3,
                                  penalty_weight=0.0), tmp_path / "m"
    )  # fmt: skip
    card = json.loads((tmp_path / "m" / "model.json").read_text())["training"]["options"]
    recipe = training_recipe("accusleep", small=True)
    assert card["learning_rate"] == recipe.learning_rate
    assert (card["steps"], card["batch_size"], card["patience"]) == (3, recipe.batch_size, 1)
    assert (card["optimiser"], card["schedule"]) == ("adamw", "one-cycle")
    assert model.card.training["options"] == card


def test_what_the_options_say_the_recipe_does_not_change():
    said = TrainingOptions(
        "accusleep", "human-psg-3", optimiser="adam", schedule="drop", schedule_factor=0.5, schedule_steps=3,
        learning_rate=2.0, clip=0, weight_decay=0.0, steps=9, evaluate_every=2, patience=4, batch_size=5,
        sequence_epochs=6, decayed=("output.*",),
    )  # fmt: skip
    assert count_in_steps(fill_from_recipe(said, recipe_of(said)), recipe_of(said), n_round=7) == said


def test_a_network_of_another_package_is_trained_as_the_small_ones_are():
    assert recipe_of(TrainingOptions("someones", "human-psg-3")).optimiser == "adamw"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"momentum": 0.9},
            ("momentum", "0.9", "'adamw'", "'sgd'"),
        ),
        ({"schedule_steps": 5}, ("schedule_steps", 5, "'one-cycle'")),
        ({"schedule": "decay"}, ("schedule", "'decay'", "schedule_factor")),
    ],
)
def test_numbers_that_would_act_on_nothing_are_refused(changes, expected):
    said = TrainingOptions("usleep", "human-psg-3", network={"small": True}, **changes)
    assert mentions(message(InputError, fill_from_recipe, said, recipe_of(said)), *expected)


def test_schedules_are_what_they_are_called():
    said = options(schedule="decay", schedule_factor=0.5, schedule_steps=3, learning_rate=8.0)
    assert [rate_at(step, said) for step in range(7)] == [8, 8, 8, 4, 4, 4, 2]
    said = options(schedule="drop", schedule_factor=0.5, schedule_steps=3, learning_rate=8.0)
    assert [rate_at(step, said) for step in range(7)] == [8, 8, 8, 4, 4, 4, 4]
    assert rate_at(5, options(schedule="constant", learning_rate=8.0)) == 8
    assert rate_at(0, options(learning_rate=25.0)) == pytest.approx(1.0)


@pytest.mark.parametrize("optimiser", ["sgd", "adam", "adam-amsgrad"])
def test_every_optimiser_learns_and_goes_on_after_a_stop(tmp_path, optimiser):
    rate = 0.1 if optimiser == "sgd" else 1e-2
    said = options(optimiser=optimiser, learning_rate=rate, clip=0, momentum=0.5 if rate > 0.05 else None)

    class Stop(Exception):
        pass

    def stop(progress) -> None:
        if progress.step == 17:
            raise Stop

    whole = train(cohort(), said, tmp_path / "whole")
    with pytest.raises(Stop):
        train(cohort(), said, tmp_path / "stopped", report=stop)
    steps = []
    train(cohort(), said, tmp_path / "stopped", report=lambda p: steps.append(p.step))
    assert steps[0] == 17
    files = [tmp_path / name / "model.safetensors" for name in ("whole", "stopped")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert whole.card.training["best_kappa"] > 0.3


# ---- the configuration ---------------------------------------------------------------------------


def test_a_profile_of_ones_own_lies_beside_the_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "deep"
    folder.mkdir()
    own = Profile.load("human-psg-3").replace(name="own", rare=[["W", "R"]])
    own.save(folder / "own.toml")
    text = 'data = "d"\noutput = "o"\nbackbone = "usleep"\nprofile = "own.toml"\n'
    (folder / "c.toml").write_text(text)
    said = read_config(folder / "c.toml")
    assert as_profile(said.options.profile) == own
    assert said.options.to_dict()["profile"] == "own"  # a card names no folder
    assert said.data == folder / "d"


def test_a_wrong_entry_names_the_configuration(tmp_path):
    (tmp_path / "c.toml").write_text('data = 3\noutput = "o"\n')
    assert mentions(message(FileFormatError, read_config, tmp_path / "c.toml"), "c.toml", "data", 3)


def test_the_page_names_every_option():
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text("utf-8")
    named = set(re.findall(r"`(\w+)`", page)) | set(re.findall(r"^(\w+) = ", page, re.MULTILINE))
    assert [item.name for item in fields(TrainingOptions) if item.name not in named] == []
    small = training_recipe("usleep", small=True)
    assert f"| {small.steps}, {small.batch_size} |" in page
    assert f"`evaluate_every`, `patience` | {small.evaluate_every}, to the end |" in page
    rates = [
        f"{training_recipe(name, small=True).learning_rate:g}"
        for name in ("accusleep", "sleeptransformer", "usleep")
    ]
    assert rates == ["0.003", "0.001", "0.01"] and "3e-3 (SleepTransformer 1e-3, U-Sleep 1e-2)" in page
