"""The options of a training run, checked before anything is read or trained. Runs nothing."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from stageguard import _checks
from stageguard.errors import FileFormatError, InputError, did_you_mean
from stageguard.nn.data import check_number

LOSSES = ("penalty", "semi-markov")
DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """All that shapes a trained network besides the recordings.

    Parameters
    ----------
    backbone : str
        Which network; see `stageguard.nn.backbones.backbones`.
    profile : str
        Stages, epoch length, rare pairs of the penalty, and the profile `predict` decodes with.
    network : mapping
        Further options of the backbone, such as `width`, `depth`, `small`, `training_length`.
    loss : "penalty" or "semi-markov"
        Cross-entropy plus `penalty_weight` times the transition penalty, or the likelihood of the
        constrained model.
    penalty_weight : float
        The paper's lambda.
    balanced : bool
        Weight stages inversely to their frequency. `predict` hands this to the decoder.
    label_smoothing : float
        Share of each target given to the other stages; for the penalty loss.
    absolute : sequence of str
        Features that mean the same every night and keep their level, such as the clock; by default those
        the features' recipe names.
    recipe : str
        What to call the way the features were computed; to train from recordings, the name or the file of
        the recipe.
    epoch_seconds : float, optional
        Length of an epoch; the profile's by default.
    sequence_epochs : int
        Length of the training sequences, for networks that do not fix it.
    steps, batch_size : int
        Optimiser steps in all, and sequences in each.
    learning_rate, weight_decay, clip : float
        Peak of the one-cycle schedule, AdamW's decay, and the largest gradient norm.
    validation_share : float
        Share of the subjects kept aside to decide when to stop.
    evaluate_every, patience : int
        Steps between evaluations, and how many may pass without a better one.
    seed : int
        Weights, split, order and dropout all follow from it.
    device : "auto", "cpu" or "cuda"
        Where to compute. On a GPU that can, the network runs in bfloat16.
    """

    backbone: str
    profile: str
    network: Mapping[str, Any] = field(default_factory=dict)
    loss: str = "penalty"
    penalty_weight: float = 0.5
    balanced: bool = False
    label_smoothing: float = 0.0
    absolute: Sequence[str] = ()
    recipe: str = "unnamed"
    epoch_seconds: float | None = None
    sequence_epochs: int = 100
    steps: int = 300
    batch_size: int = 16
    learning_rate: float = 2e-3
    weight_decay: float = 1e-2
    clip: float = 5.0
    validation_share: float = 0.2
    evaluate_every: int = 50
    patience: int = 5
    seed: int = 42
    device: str = "auto"

    def __post_init__(self) -> None:
        """Check every option by name."""
        _checks.text(self.backbone, "backbone", empty=False)
        _checks.text(self.profile, "profile", empty=False)
        _checks.text(self.recipe, "recipe")
        _checks.choice(self.loss, "loss", LOSSES)
        _checks.choice(self.device, "device", DEVICES)
        if not isinstance(self.balanced, bool):
            raise InputError(f"balanced is {_checks.shown(self.balanced)}, expected true or false.")
        if not isinstance(self.network, Mapping):
            raise InputError(f"network is {_checks.shown(self.network)}, expected a table of options.")
        if isinstance(self.absolute, str) or not all(isinstance(name, str) for name in self.absolute):
            raise InputError(f"absolute is {_checks.shown(self.absolute)}, expected a list of feature names.")
        object.__setattr__(self, "absolute", tuple(self.absolute))
        _checks.number(self.penalty_weight, "penalty_weight", low=0)
        _checks.number(self.label_smoothing, "label_smoothing", low=0, high=0.9)
        _checks.number(self.weight_decay, "weight_decay", low=0)
        for name in ("learning_rate", "clip"):
            _checks.number(getattr(self, name), name, positive=True)
        _checks.number(self.validation_share, "validation_share", low=0.01, high=0.9)
        for name, low in _WHOLE.items():
            check_number(getattr(self, name), name, low=low)
        if self.epoch_seconds is not None:
            _checks.epoch_seconds(self.epoch_seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return asdict(self) | {"absolute": list(self.absolute), "network": dict(self.network)}

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


_WHOLE = {
    "sequence_epochs": 2,
    "steps": 1,
    "batch_size": 1,
    "evaluate_every": 1,
    "patience": 1,
    "seed": 0,
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
    """Read a training configuration; folders in it are relative to the file."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise FileFormatError(f"{path.name}: is not UTF-8 text. Expected a TOML file.") from None
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(f"{path.name}: is not TOML ({error}).") from None
    dataset = document.pop("dataset", None)
    places = {}
    for key in ("data", "output"):
        if key not in document:
            raise FileFormatError(f"{path.name}: says no {key} folder. Add a line such as {_EXAMPLES[key]}.")
        places[key] = path.parent / _checks.text(document.pop(key), key, empty=False)
    try:
        if dataset is not None:
            _checks.text(dataset, "dataset", empty=False)
            if "recipe" not in document:
                raise InputError('names a dataset but no recipe for its features. Add recipe = "NAME".')
        options = TrainingOptions.from_dict(document, path.name)
    except InputError as error:
        raise FileFormatError(f"{path.name}: {str(error).removeprefix(f'{path.name}: ')}") from None
    return TrainingConfig(places["data"], places["output"], options, dataset)
