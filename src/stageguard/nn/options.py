"""The options of a training run, checked before any data is read, and their defaults from recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import ceil, cos, pi
from pathlib import Path
from typing import Any

from stageguard import checks, schema
from stageguard.errors import InputError
from stageguard.files import file_error
from stageguard.nn.backbones import (
    GENERIC,
    OPTIMISERS,
    SCHEDULES,
    TrainingRecipe,
    check_network,
    training_recipe,
)
from stageguard.profile.profile import Profile
from stageguard.schema import read_toml

LOSSES = ("penalty", "semi-markov")
DEVICES = ("auto", "cpu", "cuda")
LARGEST_SEED = 2**32 - 1
WARM_UP = 0.3  # share of the steps in which the learning rate of one cycle rises

# Options whose defaults a recipe has under the same name, whatever the other options are.
_OF_RECIPE = (
    *("sequence_epochs", "batch_size", "optimiser", "learning_rate", "weight_decay", "decayed", "clip"),
    "schedule",
)


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """All options of a training run; the card of the network records them.

    An option that is None is taken from the training recipe of the network in its size.
    """

    backbone: str = schema.text()  # one of `backbones`
    # gives stages, epoch length and rare pairs of the penalty; `predict` decodes with it
    profile: Profile | str = schema.declare(
        schema.REQUIRED,
        lambda value, where: value if isinstance(value, Profile) else checks.text(value, where, empty=False),
    )
    # further options of the backbone, such as width, depth, small, training_length
    network: Mapping[str, Any] = field(default_factory=dict, metadata={"check": check_network})
    # cross-entropy plus the transition penalty, or the likelihood of the constrained model
    loss: str = schema.choice("penalty", *LOSSES)
    # for the penalty loss: the paper's lambda, by default 0.5; whether stages are weighted inversely to their
    # frequency, which `predict` passes to the decoder; and the share of each label spread over all stages
    penalty_weight: float | None = schema.number(None, low=0)
    penalty_after: int = schema.count(0, low=0)  # steps of cross-entropy alone before the penalty counts
    balanced: bool = schema.flag(False)
    label_smoothing: float = schema.number(0.0, low=0, high=0.9)
    # features that keep their level, such as the clock; by default those named by the features' recipe
    absolute: Sequence[str] = schema.words()
    # name of the way in which features were computed; for recordings, the recipe's name or file
    recipe: str = schema.text("unnamed", empty=True)
    # by default that of the features, else that of the profile
    epoch_seconds: float | None = schema.declare(None, lambda value, where: checks.epoch_seconds(value))
    sequence_epochs: int | None = schema.count(None, low=2)  # for networks without a fixed length
    steps: int | None = schema.count(None)  # total number of optimiser steps
    batch_size: int | None = schema.count(None)  # sequences per step
    optimiser: str | None = schema.choice(None, *OPTIMISERS)
    learning_rate: float | None = schema.number(None, positive=True)  # the first, or the peak of one cycle
    momentum: float | None = schema.number(None, low=0, high=1)  # of "sgd"
    weight_decay: float | None = schema.number(None, low=0)  # decoupled from the gradient only for "adamw"
    decayed: Sequence[str] | None = schema.declare(None, schema.text_list)  # parameters, wildcards allowed
    clip: float | None = schema.number(None, low=0)  # largest norm of the gradient; 0 for no limit
    # "decay" multiplies the rate by `schedule_factor` every `schedule_steps`, "drop" does so once
    schedule: str | None = schema.choice(None, *SCHEDULES)
    schedule_factor: float | None = schema.number(None, positive=True)
    schedule_steps: int | None = schema.count(None)
    # subjects that the network never sees, for testing
    held_out_subjects: Sequence[str] = schema.words()
    # subjects that decide which weights to keep and when to stop: by name, or by default a share of all
    validation_subjects: Sequence[str] = schema.words()
    validation_share: float = schema.number(0.2, low=0.01, high=0.9)
    # whether they also set a temperature; by default yes, unless the profile reproduces the paper
    temperature: bool | None = schema.flag(None)
    evaluate_every: int | None = schema.count(None)  # steps
    patience: int | None = schema.count(None)  # stop after this many evaluations without improvement
    seed: int = schema.count(42, low=0, high=LARGEST_SEED)  # of weights, split, order and dropout
    device: str = schema.choice("auto", *DEVICES)  # a GPU uses bfloat16 if it can

    def __post_init__(self) -> None:
        """Check every option by name."""
        schema.check_fields(self)
        if self.penalty_weight is None:
            object.__setattr__(self, "penalty_weight", 0.5 if self.loss == "penalty" else 0.0)
        for name in ("balanced", "label_smoothing", "penalty_weight", "penalty_after", "temperature"):
            if self.loss == "semi-markov" and getattr(self, name):
                raise _idle(self, name, "loss", "loss 'penalty'")

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types, with the profile's name."""
        options = {item.name: getattr(self, item.name) for item in fields(self)}
        profile = self.profile.name if isinstance(self.profile, Profile) else self.profile
        lists = {name: list(value) for name, value in options.items() if isinstance(value, tuple)}
        return options | lists | {"profile": profile, "network": dict(self.network)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> TrainingOptions:
        """Return options by name; the error for an unknown name suggests the nearest one."""
        checks.known_keys(document, "the options", [item.name for item in fields(cls)])
        for key in ("backbone", "profile"):
            if key not in document:
                raise InputError(f"the options say no {key}. Add a line such as {_EXAMPLES[key]}.")
        return cls(**document)


_EXAMPLES = {
    "backbone": 'backbone = "usleep"',
    "profile": 'profile = "human-psg-3"',
    "data": 'data = "features"',
    "output": 'output = "model"',
}


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """The content of a configuration file."""

    data: Path  # folder with feature tables, or with the recordings of a dataset
    output: Path
    options: TrainingOptions
    dataset: str | None = None
    dataset_options: Mapping[str, Any] = field(default_factory=dict)


def read_config(path: Path) -> TrainingConfig:
    """Read a training configuration; paths in it are relative to the file."""
    try:
        return _config(read_toml(path, "a training configuration"), path)
    except InputError as error:
        raise file_error(path, error) from None


def _config(document: dict[str, Any], path: Path) -> TrainingConfig:
    dataset, dataset_options = document.pop("dataset", None), document.pop("dataset_options", {})
    folders = {}
    for key in ("data", "output"):
        if key not in document:
            raise InputError(f"says no {key} folder. Add a line such as {_EXAMPLES[key]}.")
        folders[key] = path.parent / checks.text(document.pop(key), key, empty=False)
    if dataset is not None:
        checks.text(dataset, "dataset", empty=False)
        if "recipe" not in document:
            raise InputError('names a dataset but no recipe for its features. Add recipe = "NAME".')
    elif dataset_options:
        raise InputError('has dataset_options but names no dataset. Add dataset = "NAME".')
    profile = document.get("profile")
    if isinstance(profile, str) and profile.endswith(".toml"):
        document["profile"] = Profile.load(path.parent / profile)
    options = TrainingOptions.from_dict(document)
    return TrainingConfig(
        **folders,
        options=options,
        dataset=dataset,
        dataset_options=checks.mapping(dataset_options, "dataset_options"),
    )


def recipe_of(options: TrainingOptions) -> TrainingRecipe:
    """Return the recipe of the network in its size; the generic one for networks of other packages."""
    try:
        return training_recipe(options.backbone, small=bool(options.network.get("small", False)))
    except InputError:
        return GENERIC


def fill_from_recipe(options: TrainingOptions, recipe: TrainingRecipe) -> TrainingOptions:
    """Return the options with the recipe's values for those that do not depend on the data."""
    options = _fill_defaults(options, {name: getattr(recipe, name) for name in _OF_RECIPE})
    is_stepwise = options.schedule in ("decay", "drop")
    if options.optimiser == "sgd":
        options = _fill_defaults(options, {"momentum": recipe.momentum})
    elif options.momentum:
        raise _idle(options, "momentum", "optimiser", "'sgd'")
    for name in ("schedule_factor", "schedule_steps"):
        if getattr(options, name) is not None and not is_stepwise:
            raise _idle(options, name, "schedule", "'decay' or 'drop'")
    if is_stepwise and options.schedule_factor is None and recipe.schedule_factor == 1:
        raise InputError(
            f"schedule is {options.schedule!r}, expected schedule_factor with it. Say by how much."
        )
    return options


def _idle(options: TrainingOptions, name: str, other: str, wanted: str) -> InputError:
    """Return the error for an option that has no effect because of another option."""
    value = str(getattr(options, name)).lower()
    return InputError(
        f"{name} is {value}, but {other} {getattr(options, other)!r} has no place for it. Leave it out, or "
        f"choose {wanted}."
    )


def count_in_steps(options: TrainingOptions, recipe: TrainingRecipe, n_round: int) -> TrainingOptions:
    """Return filled options with the recipe's counts of rounds as steps; a round has `n_round` steps."""
    steps = options.steps or recipe.steps or (recipe.rounds or 1) * n_round
    every = options.evaluate_every or recipe.evaluate_every or n_round
    counted: dict[str, Any] = {
        "steps": steps,
        "evaluate_every": every,
        "patience": recipe.patience or ceil(steps / every),
    }
    if options.schedule in ("decay", "drop"):
        counted["schedule_factor"] = recipe.schedule_factor
        counted["schedule_steps"] = recipe.schedule_rounds * n_round
    return _fill_defaults(options, counted)


def _fill_defaults(options: TrainingOptions, values: dict[str, Any]) -> TrainingOptions:
    return replace(options, **{k: v for k, v in values.items() if getattr(options, k) is None})


def rate_at(step: int, options: TrainingOptions) -> float:
    """Return the learning rate of a step, for complete options."""
    peak, factor, every = options.learning_rate, options.schedule_factor, options.schedule_steps
    assert peak is not None and options.steps is not None
    if options.schedule == "one-cycle":
        return one_cycle(step, options.steps, peak)
    if factor is None or every is None:  # constant
        return peak
    return peak * factor ** (step // every if options.schedule == "decay" else step >= every)


def one_cycle(step: int, n_steps: int, peak: float) -> float:
    """Return the learning rate: a cosine from peak/25 up to the peak, then down to almost 0."""
    n_up = max(1.0, WARM_UP * n_steps)
    if step < n_up:
        low, share = peak / 25, 1 - step / n_up
    else:
        low, share = peak / 25e4, (step - n_up) / max(1.0, n_steps - n_up)
    return low + (peak - low) * (1 + cos(pi * share)) / 2
