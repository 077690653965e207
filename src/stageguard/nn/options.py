"""The options of a training run, checked before anything is read or trained."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from stageguard.base import checks
from stageguard.base.errors import FileFormatError, InputError, did_you_mean
from stageguard.base.files import read_text
from stageguard.nn.backbones import SET_BY_FEATURES
from stageguard.nn.backbones.recipes import OPTIMISERS, SCHEDULES
from stageguard.nn.values import flag, whole
from stageguard.profile.profile import Profile

LOSSES = ("penalty", "semi-markov")
DEVICES = ("auto", "cpu", "cuda")
LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """All that shapes a trained network besides the recordings.

    What is None here is taken from the training recipe of the network in its size (see
    `stageguard.nn.backbones.training_recipe`); a network's card has every number.

    Parameters
    ----------
    backbone : str
        Which network; see `stageguard.nn.backbones.backbones`.
    profile : Profile or str
        Stages, epoch length, rare pairs of the penalty, and the profile `predict` decodes with.
    network : mapping
        Further options of the backbone, such as `width`, `depth`, `small`, `training_length`.
    loss : "penalty" or "semi-markov"
        Cross-entropy plus `penalty_weight` times the transition penalty, or the likelihood of the
        constrained model.
    penalty_weight : float, optional
        The paper's lambda, 0.5 by default; for the penalty loss.
    balanced : bool
        Weight stages inversely to their frequency; for the penalty loss. `predict` tells the decoder.
    label_smoothing : float
        Share of each label that is spread evenly over all stages, at most 0.9; for the penalty loss.
    absolute : sequence of str
        Features that mean the same every night and keep their level, such as the clock; by default those
        the features' recipe names.
    recipe : str
        What to call the way the features were computed; to train from recordings, the name or the file of
        the recipe.
    epoch_seconds : float, optional
        Length of an epoch; by default the features', or else the profile's.
    sequence_epochs : int, optional
        Length of the training sequences, for networks that do not fix it.
    steps, batch_size : int, optional
        Optimiser steps in all, and sequences in each.
    optimiser : "adamw", "adam", "adam-amsgrad" or "sgd", optional
        Weight decay is decoupled from the gradient for "adamw" alone.
    learning_rate, momentum, weight_decay, clip : float, optional
        The first rate, or the peak of a one-cycle schedule; momentum of "sgd"; and the largest gradient
        norm, where 0 means any.
    schedule : "one-cycle", "constant", "decay" or "drop", optional
        "decay" multiplies the rate by `schedule_factor` every `schedule_steps` steps, "drop" once.
    schedule_factor, schedule_steps : float, int, optional
        See `schedule`.
    validation_share : float
        Share of the subjects kept aside to decide which weights to keep and when to stop.
    evaluate_every, patience : int, optional
        Steps between evaluations, and how many may pass without a better one.
    seed : int
        Weights, split, order and dropout all follow from it.
    device : "auto", "cpu" or "cuda"
        Where to compute. On a GPU that can, the network runs in bfloat16.
    """

    backbone: str
    profile: Profile | str
    network: Mapping[str, Any] = field(default_factory=dict)
    loss: str = "penalty"
    penalty_weight: float | None = None
    balanced: bool = False
    label_smoothing: float = 0.0
    absolute: Sequence[str] = ()
    recipe: str = "unnamed"
    epoch_seconds: float | None = None
    sequence_epochs: int | None = None
    steps: int | None = None
    batch_size: int | None = None
    optimiser: str | None = None
    learning_rate: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    clip: float | None = None
    schedule: str | None = None
    schedule_factor: float | None = None
    schedule_steps: int | None = None
    validation_share: float = 0.2
    evaluate_every: int | None = None
    patience: int | None = None
    seed: int = 42
    device: str = "auto"

    def __post_init__(self) -> None:
        """Check every option by name."""
        checks.text(self.backbone, "backbone", empty=False)
        if not isinstance(self.profile, Profile):
            checks.text(self.profile, "profile", empty=False)
        checks.text(self.recipe, "recipe")
        checks.choice(self.loss, "loss", LOSSES)
        checks.choice(self.device, "device", DEVICES)
        flag(self.balanced, "balanced")
        _check_network(self.network)
        is_list = isinstance(self.absolute, list | tuple)
        if not is_list or not all(isinstance(name, str) for name in self.absolute):
            raise InputError(f"absolute is {checks.shown(self.absolute)}, expected a list of feature names.")
        object.__setattr__(self, "absolute", tuple(self.absolute))
        for name, given in (("optimiser", OPTIMISERS), ("schedule", SCHEDULES)):
            if getattr(self, name) is not None:
                checks.choice(getattr(self, name), name, given)
        for name, low in _WHOLE.items():
            if getattr(self, name) is not None:
                high = LARGEST_SEED if name == "seed" else None
                object.__setattr__(self, name, whole(getattr(self, name), name, low=low, high=high))
        for name, limits in _NUMBERS.items():
            if getattr(self, name) is not None:
                checks.number(getattr(self, name), name, **limits)
        if self.epoch_seconds is not None:
            checks.epoch_seconds(self.epoch_seconds)
        if self.penalty_weight is None:
            object.__setattr__(self, "penalty_weight", 0.5 if self.loss == "penalty" else 0.0)
        if self.loss == "semi-markov":
            self._refuse_idle()

    def _refuse_idle(self) -> None:
        """Refuse what the semi-Markov likelihood has no place for, rather than let it act on nothing."""
        for name in ("balanced", "label_smoothing", "penalty_weight"):
            value = getattr(self, name)
            if value:
                raise InputError(
                    f"{name} is {str(value).lower()}, but loss 'semi-markov' has no place for it. Leave it "
                    "out, or choose loss 'penalty'."
                )

    def load_profile(self) -> Profile:
        """Return the profile, which may have been given by name."""
        return self.profile if isinstance(self.profile, Profile) else Profile.load(self.profile)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types; a profile is named."""
        said = {item.name: getattr(self, item.name) for item in fields(self)}
        profile = self.profile.name if isinstance(self.profile, Profile) else self.profile
        return said | {"profile": profile, "absolute": list(self.absolute), "network": dict(self.network)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], where: str = "options") -> TrainingOptions:
        """Return options by name; a name that is none is an error that suggests the nearest."""
        known = [item.name for item in fields(cls)]
        for key in document:
            if key not in known:
                hint = did_you_mean(key, known)
                raise InputError(f"{where}: there is no option {key!r}. Known: {', '.join(known)}.{hint}")
        for key in ("backbone", "profile"):
            if key not in document:
                raise InputError(f"{where}: says no {key}. Add a line such as {_EXAMPLES[key]}.")
        return cls(**document)


def _check_network(network: object) -> None:
    if not isinstance(network, Mapping):
        raise InputError(f"network is {checks.shown(network)}, expected a table of options.")
    for name in network:
        if name in SET_BY_FEATURES:
            raise InputError(
                f"network has {name!r}, which follows from the features. Leave it out; the length of an "
                "epoch is the option epoch_seconds."
            )


# Every whole number with its smallest value, every other one with its range.
_WHOLE = {
    "sequence_epochs": 2,
    "steps": 1,
    "batch_size": 1,
    "schedule_steps": 1,
    "evaluate_every": 1,
    "patience": 1,
    "seed": 0,
}
_NUMBERS: dict[str, dict[str, Any]] = {
    "penalty_weight": {"low": 0},
    "label_smoothing": {"low": 0, "high": 0.9},
    "learning_rate": {"positive": True},
    "momentum": {"low": 0, "high": 1},
    "weight_decay": {"low": 0},
    "clip": {"low": 0},
    "schedule_factor": {"positive": True},
    "validation_share": {"low": 0.01, "high": 0.9},
}
_EXAMPLES = {
    "backbone": 'backbone = "usleep"',
    "profile": 'profile = "human-psg-3"',
    "data": 'data = "features"',
    "output": 'output = "model"',
}


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """What a configuration file says: which folder to learn from, where to put the network, and how.

    With a `dataset` the folder holds that dataset's recordings and `recipe` says what is computed of them;
    without one it holds feature tables.
    """

    data: Path
    output: Path
    options: TrainingOptions
    dataset: str | None = None


def read_config(path: Path) -> TrainingConfig:
    """Read a training configuration; folders and files in it are relative to the file."""
    try:
        document = tomllib.loads(read_text(path, "TOML"))
    except UnicodeDecodeError:
        raise FileFormatError(f"{path.name}: is not UTF-8 text. Expected a TOML file.") from None
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(f"{path.name}: is not TOML ({error}).") from None
    try:
        return _config(document, path)
    except InputError as error:
        raise FileFormatError(f"{path.name}: {str(error).removeprefix(f'{path.name}: ')}") from None


def _config(document: dict[str, Any], path: Path) -> TrainingConfig:
    dataset = document.pop("dataset", None)
    folders = {}
    for key in ("data", "output"):
        if key not in document:
            raise InputError(f"says no {key} folder. Add a line such as {_EXAMPLES[key]}.")
        folders[key] = path.parent / checks.text(document.pop(key), key, empty=False)
    if dataset is not None:
        checks.text(dataset, "dataset", empty=False)
        if "recipe" not in document:
            raise InputError('names a dataset but no recipe for its features. Add recipe = "NAME".')
    profile = document.get("profile")
    if isinstance(profile, str) and profile.endswith(".toml"):
        document["profile"] = Profile.load(path.parent / profile)
    return TrainingConfig(**folders, options=TrainingOptions.from_dict(document, path.name), dataset=dataset)
