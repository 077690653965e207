"""The options of a training run, checked before any data is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal

from stageguard.documents import (
    Count,
    EpochSeconds,
    NotNegative,
    Positive,
    Range,
    Text,
    check_fields,
    read_fields,
    read_toml,
)
from stageguard.errors import InputError
from stageguard.files import file_error
from stageguard.nn.backbones import BACKBONES, SET_BY_FEATURES, backbones
from stageguard.profile.profile import Profile

LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """All options of a training run; the card of the network records them.

    The defaults worked for the small networks on one feature vector per epoch.
    """

    backbone: Text  # one of `backbones`
    # name, or path of a TOML file: stages, epoch length and rare pairs; `stage` decodes with it
    profile: Text
    network: Mapping[str, Any] = field(default_factory=dict)  # options of the backbone: width, depth, small
    penalty_weight: NotNegative = 0.5  # the paper's lambda
    penalty_after: Annotated[int, Range(0)] = 0  # steps of cross-entropy alone before the penalty counts
    balanced: bool = False  # whether stages are weighted inversely to their frequency
    # features that keep their level, such as the clock; by default those named by the features' recipe
    absolute: tuple[str, ...] = ()
    recipe: str = "unnamed"  # how features were computed; for recordings, the recipe's name or file
    epoch_seconds: EpochSeconds | None = None  # by default that of the features, else that of the profile
    sequence_epochs: Annotated[int, Range(2)] = 100  # for networks without a fixed length
    steps: Count = 300  # of the optimiser
    batch_size: Count = 16  # sequences per step
    learning_rate: Positive | None = None  # the highest of a one-cycle schedule; by default the backbone's
    weight_decay: NotNegative = 1e-2
    clip: NotNegative = 5.0  # largest norm of the gradient; 0 for no limit
    held_out_subjects: tuple[str, ...] = ()  # subjects that the network never sees, for testing
    # subjects that decide which weights to keep and when to stop: by name, or by default a share of all
    validation_subjects: tuple[str, ...] = ()
    validation_share: Annotated[float, Range(0.01, 0.9)] = 0.2
    # whether they also set a temperature; by default yes, unless the profile reproduces the paper
    temperature: bool | None = None
    evaluate_every: Count = 50  # steps
    patience: Count | None = None  # stop after this many evaluations without improvement
    seed: Annotated[int, Range(0, LARGEST_SEED)] = 42  # of weights, split, order and dropout
    device: Literal["auto", "cpu", "cuda"] = "auto"  # a GPU uses bfloat16 if it can

    def __post_init__(self) -> None:
        """Check every option by name."""
        check_fields(self)
        if self.backbone not in BACKBONES:
            raise InputError(f"backbone is {self.backbone!r}, expected one of {', '.join(backbones())}.")
        for name in SET_BY_FEATURES:
            if name in self.network:
                raise InputError(f"network has {name!r}, which follows from the features.")

    def filled(self, profile: Profile) -> TrainingOptions:
        """Return the options with a value for each that follows from the others."""
        return replace(
            self,
            profile=profile.name,
            learning_rate=self.learning_rate or BACKBONES[self.backbone][1],
            patience=self.patience or ceil(self.steps / self.evaluate_every),
            temperature=not profile.reproduces_paper if self.temperature is None else self.temperature,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConfig(TrainingOptions):
    """A configuration file: the options, and where the data are."""

    data: Text  # folder with feature tables, or with the recordings of a dataset
    output: Text
    dataset: Text | None = None
    dataset_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> TrainingOptions:
        """The options alone."""
        return TrainingOptions(**{item.name: getattr(self, item.name) for item in fields(TrainingOptions)})


def read_config(path: Path) -> TrainingConfig:
    """Read a training configuration; paths in it are relative to the file."""
    document = read_toml(path, "a training configuration")
    try:
        config: TrainingConfig = read_fields(TrainingConfig, document)
        if config.dataset is not None and "recipe" not in document:
            raise InputError("dataset is given without recipe, expected the recipe of its features.")
    except InputError as error:
        raise file_error(path, error) from None
    profile, folder = config.profile, path.parent
    if profile.endswith(".toml"):
        profile = str(folder / profile)
    return replace(
        config, profile=profile, data=str(folder / config.data), output=str(folder / config.output)
    )
