"""Whom training sees, and whether it sets a temperature."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import stageguard as sg
from feature_nights import cohort, feature_table, options
from messages import mentions, naming
from stageguard.errors import FileFormatError, InputError
from stageguard.nn.data import dataset_tables
from stageguard.nn.inference import score_probabilities
from stageguard.nn.options import read_config
from stageguard.nn.training import train
from stageguard.profile.profile import Profile
from stageguard.signals.features import Recipe


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


PAPER = "kdd2026-cardiorespiratory"
pytestmark = pytest.mark.filterwarnings("ignore::stageguard.errors.StageGuardWarning")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return train(cohort(), options(steps=16), tmp_path_factory.mktemp("trained") / "m")


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


def test_named_subjects_decide_which_weights_are_kept(tmp_path):
    nights = cohort()
    made = train(nights, options(steps=16, validation_subjects=["s1"], temperature=False), tmp_path / "m")
    assert made.card.training["n_training_subjects"] == 4
    alone = score_probabilities(made.probabilities(nights[1]), nights[1].labels)
    assert alone.kappa == pytest.approx(made.card.training["best_kappa"], abs=1e-9)


def test_held_out_subjects_do_not_validate(tmp_path):
    with pytest.raises(InputError, match=naming("validation_subjects", "'s3'")):
        train(cohort(), options(held_out_subjects=["s3"], validation_subjects=["s3"]), tmp_path / "m")


def test_the_paper_has_no_temperature(model, tmp_path):
    assert model.card.temperature != 1.0  # found, since human-psg-3 is not the paper's
    paper = train(cohort(), options(profile=PAPER, steps=16), tmp_path / "paper")
    asked = train(cohort(), options(profile=PAPER, steps=16, temperature=True), tmp_path / "asked")
    assert paper.card.temperature == 1.0
    assert asked.card.temperature != 1.0
    assert paper.card.training["options"]["temperature"] is False


def test_a_paper_profile_is_given_the_networks_own_probabilities(model):
    night = feature_table(9)
    own, softened = (model.probabilities(night, temperature=on) for on in (False, True))
    assert np.abs(own - softened).max() > 1e-3
    for profile, said, expected in (
        (None, None, softened), (None, False, own), (PAPER, None, own), (PAPER, True, softened)
    ):  # fmt: skip
        staged = sg.stage(night, model, profile, temperature=said)
        np.testing.assert_array_equal(staged.density.probabilities, expected)
        is_soft = expected is softened
        assert any(("no temperature" in note) != is_soft for note in staged.notes if "staged by" in note)


def test_a_recounted_profile_of_the_paper_is_one_too(model):
    counted = sg.recount([cohort()[0].labels], Profile.load(PAPER))
    staged = sg.stage(feature_table(9), model, counted)
    np.testing.assert_array_equal(
        staged.density.probabilities, model.probabilities(feature_table(9), temperature=False)
    )


def test_a_table_is_said_to_carry_no_quality(model):
    notes = sg.stage(feature_table(9), model).notes
    assert mentions(notes, "carries no signal", "trusted")


def config(folder: Path, text: str) -> Path:
    said = 'data = "d"\noutput = "o"\nbackbone = "usleep"\nprofile = "human-psg-3"\n'
    (folder / "c.toml").write_text(said + text)
    return folder / "c.toml"


def test_a_configuration_says_the_options_of_its_dataset(tmp_path):
    said = 'dataset_options = { sample = "paper", seed = 2024 }\n'
    text = 'dataset = "shhs"\nrecipe = "cardiorespiratory"\n' + said
    assert read_config(config(tmp_path, text)).dataset_options == {"sample": "paper", "seed": 2024}
    for wrong, expected in (
        ("dataset_options = { unit = 'V' }", "c.toml: has dataset_options but names no dataset."),
        (
            'dataset = "shhs"\nrecipe = "x"\ndataset_options = 3',
            "c.toml: dataset_options is 3, expected a table",
        ),
    ):
        with pytest.raises(FileFormatError) as caught:
            read_config(config(tmp_path, wrong))
        assert str(caught.value).startswith(expected)


def test_the_options_reach_the_reader_of_the_dataset(tmp_path):
    recipe = Recipe.load("actigraphy")
    with pytest.raises(InputError, match=naming("'sample'", "'sleep-accel'")):
        dataset_tables(
            "sleep-accel", tmp_path, recipe, sg.Profile.load(PAPER).scheme, options={"sample": "paper"}
        )
