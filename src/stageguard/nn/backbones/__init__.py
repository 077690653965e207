"""Sleep-staging networks by name: built in, or from other packages.

>>> from stageguard.nn.backbones import build_backbone
>>> network = build_backbone("usleep", n_frames=1, n_features=80, n_stages=5, small=True)
>>> network(features)  # (batch, epochs, frames, features) -> (batch, epochs, stages), logits
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from stageguard import checks
from stageguard.errors import InputError, did_you_mean
from stageguard.night.stages import MAX_STAGES

if TYPE_CHECKING:
    from torch.nn import Module
else:
    Module = Any  # torch is loaded when a network is built

__all__ = ["TrainingRecipe", "backbones", "build_backbone", "training_recipe"]

# Entry points of this group add networks of other packages: a name, and a function that builds the network.
GROUP = "stageguard.backbones"
BUILT_IN = {
    "accusleep": "AccuSleep",
    "attnsleep": "AttnSleep",
    "deepsleepnet": "DeepSleepNet",
    "seqsleepnet": "SeqSleepNet",
    "sleeptransformer": "SleepTransformer",
    "usleep": "USleep",
}
_DEFAULTS = {"width": 1.0, "depth": None, "small": False}
CONTRACT = ("n_frames", "n_features", "n_stages", "training_length")
# Arguments that follow from the features and cannot be options of a network.
SET_BY_FEATURES = ("name", "n_frames", "n_features", "n_stages", "epoch_seconds")
WIDEST = 100
MOST_INPUTS = 1_000_000_000  # frames, or features: the sizes of layers stay countable


def check_network(value: object, where: str) -> dict[str, Any]:
    """Return the options of a network; refuse those that follow from the features."""
    options = dict(checks.mapping(value, where))
    for name in options:
        if name in SET_BY_FEATURES:
            raise InputError(
                f"network has {name!r}, which follows from the features. Leave it out; the length of an "
                "epoch is the option epoch_seconds."
            )
    return options


def backbones() -> list[str]:
    """Return the names that `build_backbone` knows, sorted: six built in, and those of other packages."""
    return sorted({*BUILT_IN, *_added_backbones()})


def build_backbone(
    name: str,
    *,
    n_frames: int,
    n_features: int,
    n_stages: int,
    width: float = 1.0,
    depth: int | None = None,
    small: bool = False,
    epoch_seconds: float | None = None,
    **options: Any,
) -> Module:
    """Build a network that takes (batch, epochs, frames, features) to (batch, epochs, stages).

    Weights come from torch's global generator: call ``torch.manual_seed`` first to get the same weights
    again.

    Parameters
    ----------
    name : str
        One of `backbones`; case, spaces and dashes do not matter.
    n_frames, n_features, n_stages : int
        Frames per epoch, features per frame, and stages. One feature vector per epoch is one frame. For
        raw samples, frames are the samples of an epoch and features are the channels.
    width : float
        Multiplies the numbers of filters and units.
    depth : int, optional
        Number of layers or levels, see each network. Default: the network's own.
    small : bool
        Whether to build the small size for a computer without a GPU. ``width`` multiplies it further.
    epoch_seconds : float, optional
        Length of an epoch, 30 by default, for networks that measure filters and windows in seconds. The
        others ignore it.
    **options
        Further options of the network: see its class.

    Returns
    -------
    torch.nn.Module
        The network, with the attributes ``n_frames``, ``n_features``, ``n_stages`` and ``training_length``.
    """
    name, build = _find(name)
    given: dict[str, Any] = {
        "n_frames": checks.count(n_frames, "n_frames", high=MOST_INPUTS),
        "n_features": checks.count(n_features, "n_features", high=MOST_INPUTS),
        "n_stages": checks.count(n_stages, "n_stages", low=2, high=MAX_STAGES),
    }
    width = checks.number(width, "width", positive=True, high=WIDEST)
    depth = None if depth is None else checks.count(depth, "depth")
    sizes = {"width": width, "depth": depth, "small": checks.flag(small, "small")}
    given |= {key: value for key, value in sizes.items() if value != _DEFAULTS[key]}
    _check_options(name, build, {**given, **options})
    if epoch_seconds is not None:
        seconds = checks.epoch_seconds(epoch_seconds)
        given |= {"epoch_seconds": seconds} if "epoch_seconds" in inspect.signature(build).parameters else {}
    try:
        network = build(**given, **options)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate" not in str(error):
            raise
        raise InputError(
            f"backbone {name!r} of this size does not fit into memory. Give a smaller width or depth."
        ) from None
    missing = [attribute for attribute in CONTRACT if not hasattr(network, attribute)]
    if missing:
        raise InputError(
            f"backbone {name!r} has no attribute {missing[0]!r}, expected {', '.join(CONTRACT)}. "
            "Ask the package that provides it to set them."
        )
    return network


def _added_backbones() -> dict[str, EntryPoint]:
    """Return the entry points of other packages by plain name."""
    return {plain_name(entry.name): entry for entry in entry_points(group=GROUP)}


def _find(name: str) -> tuple[str, Callable[..., Module]]:
    plain = plain_name(checks.text(name, "the name of a backbone"))
    if plain in BUILT_IN:  # first, so that no other package can replace a built-in network
        return plain, getattr(import_module(f"{__name__}.{plain}"), BUILT_IN[plain])
    if (entry := _added_backbones().get(plain)) is not None:
        return plain, _load_entry(plain, entry)
    known = backbones()
    raise InputError(f"there is no backbone {name!r}. Known: {', '.join(known)}.{did_you_mean(plain, known)}")


def _load_entry(name: str, entry: EntryPoint) -> Callable[..., Module]:
    """Load the network of another package; the error names the package."""
    try:
        return cast("Callable[..., Module]", entry.load())
    except (ImportError, AttributeError) as error:
        package = entry.module.partition(".")[0] if entry.dist is None else entry.dist.name
        raise InputError(
            f"backbone {name!r} of package {package!r} cannot be loaded ({error}). Install {package} again, "
            "or remove it."
        ) from None


def _check_options(name: str, build: Callable[..., Module], given: dict[str, Any]) -> None:
    parameters = inspect.signature(build).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    known = [option for option in parameters if option not in CONTRACT[:3]]
    for option in given:
        if option not in parameters:
            listed = ", ".join(known) or "none"
            hint = did_you_mean(option, known)
            raise InputError(f"backbone {name!r} has no option {option!r}. Its options: {listed}.{hint}")


Optimiser = Literal["adamw", "adam", "adam-amsgrad", "sgd"]
Schedule = Literal["one-cycle", "constant", "decay", "drop"]
OPTIMISERS, SCHEDULES = get_args(Optimiser), get_args(Schedule)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecipe:
    """How to train a network: defaults of the options of the same names, and counts of rounds."""

    optimiser: Optimiser
    learning_rate: float  # the first, or the highest of a one-cycle schedule
    batch_size: int  # sequences per step
    sequence_epochs: int
    source: str  # source of the numbers, and differences from it
    # for a loss that is the mean over epochs; decoupled from the gradient only for "adamw"
    weight_decay: float = 0.0
    decayed: tuple[str, ...] = ("*",)  # parameters that decay, by name, wildcards allowed
    # "decay" multiplies the rate by `schedule_factor` every `schedule_rounds`, "drop" does so once
    schedule: Schedule = "constant"
    rounds: int | None = None  # largest number of passes over the training data, or
    steps: int | None = None  # of optimiser steps
    patience: int | None = None  # stop after this many evaluations without improvement
    clip: float = 0.0  # largest norm of the gradient; 0 for no limit
    evaluate_every: int | None = None  # steps; None: once per round
    momentum: float = 0.0  # of "sgd"
    balanced: bool = False  # whether rare and frequent stages count alike, by weights or by resampling
    schedule_factor: float = 1.0
    schedule_rounds: int = 1


# Common to the code of Phan et al.
_by_phan = partial(TrainingRecipe, optimiser="adam", learning_rate=1e-4, batch_size=32, evaluate_every=100)
PUBLISHED = {
    "accusleep": TrainingRecipe(
        optimiser="sgd",
        learning_rate=0.015,
        momentum=0.9,
        weight_decay=1e-4,
        decayed=("*.weight", "picture.[159].bias"),  # of biases only those of normalisation, as in MATLAB
        schedule="decay",
        schedule_factor=0.85,
        batch_size=4,
        sequence_epochs=64,
        rounds=10,
        patience=15,
        evaluate_every=200,
        balanced=True,
        source="AccuSleep_train.m of Barger et al. 2019, with MATLAB's defaults for the rest. Its 256 "
        "pictures per step are 4 sequences of 64 here; rare stages were repeated until equally frequent.",
    ),
    "attnsleep": TrainingRecipe(
        optimiser="adam-amsgrad",
        learning_rate=1e-3,
        weight_decay=1e-3,
        schedule="drop",
        schedule_factor=0.1,
        schedule_rounds=10,
        batch_size=4,
        sequence_epochs=32,
        rounds=100,
        balanced=True,
        source="config.json and trainer.py of Eldele et al. 2021. Its 128 epochs per step are 4 sequences of "
        "32 here, so that there are transitions. The weights of the stages in its loss are their rarity "
        "times factors set by hand.",
    ),
    "deepsleepnet": TrainingRecipe(
        optimiser="adam",
        learning_rate=1e-4,
        batch_size=10,
        sequence_epochs=25,
        rounds=200,
        weight_decay=1e-3 / 25,
        decayed=("fine.0.weight",),
        clip=10 / 25,
        source="trainer.py and model.py of Supratak et al. 2017, second stage. The first trains the "
        "convolutions alone, 100 rounds on batches of 100 with all stages equally frequent; they go on at a "
        "rate of 1e-6. The loss is summed over the 25 epochs of a sequence, so that decay (1e-3, of the "
        "first fine filters alone) and clip (10) are a 25th of theirs for a mean.",
    ),
    "seqsleepnet": _by_phan(
        weight_decay=1e-3 / 32,
        decayed=("within.[!b]*", "between.*", "output.*"),  # all but within.bank
        sequence_epochs=20,
        rounds=10,
        source="seqsleepnet_sleep_config.py of Phan et al. 2019. The loss is summed over the 32 sequences of "
        "a batch, so that its decay of 1e-3 is a 32nd of that for a mean; the filter bank does not decay. "
        "The state with the best validation is kept.",
    ),
    "sleeptransformer": _by_phan(
        weight_decay=1e-4 / 32,
        sequence_epochs=21,
        rounds=210,
        patience=200,
        source="config.py and run_seq21_block4.sh of Phan et al. 2022. The loss is summed over the 32 "
        "sequences of a batch, so that its decay of 1e-4 is a 32nd of that for a mean. A round there is "
        "a 21st of all overlapping sequences, and training stops after 100,000 steps at the earliest.",
    ),
    "usleep": TrainingRecipe(
        optimiser="adam-amsgrad",
        learning_rate=1e-7,
        batch_size=64,
        sequence_epochs=35,
        rounds=12_000,
        patience=200,
        balanced=True,
        source="usleep/hparams.yaml of Perslev et al. 2021. Sequences are drawn so that stages come up "
        "alike; parts of them are erased and channels dropped at random.",
    ),
}


def _small(learning_rate: float) -> TrainingRecipe:
    return TrainingRecipe(
        optimiser="adamw",
        learning_rate=learning_rate,
        weight_decay=1e-2,
        schedule="one-cycle",
        batch_size=16,
        sequence_epochs=100,
        steps=300,
        evaluate_every=50,
        clip=5.0,
        source="Our choice, on one feature vector per epoch of Sleep-EDF cassette and of Sleep-Accel.",
    )


# Also for networks of other packages, which have no recipe here.
GENERIC = _small(3e-3)
SMALL = dict.fromkeys(PUBLISHED, GENERIC) | {"sleeptransformer": _small(1e-3), "usleep": _small(1e-2)}


def training_recipe(name: str, *, small: bool = False) -> TrainingRecipe:
    """Return the recipe of a built-in network.

    Parameters
    ----------
    name : str
        One of the six built in; case, spaces and dashes do not matter.
    small : bool
        The recipe for its small size; by default that of its authors.

    Returns
    -------
    TrainingRecipe
        Numbers for the optimiser, and in `source` where they come from.
    """
    recipes = SMALL if small else PUBLISHED
    plain = plain_name(checks.text(name, "the name of a backbone"))
    if plain not in recipes:
        hint = did_you_mean(plain, recipes)
        raise InputError(f"there is no recipe for {name!r}. Known: {', '.join(recipes)}.{hint}")
    return recipes[plain]


def plain_name(name: str) -> str:
    """Return a network's name in lower case, without spaces, dashes and underscores."""
    return "".join(letter for letter in name.lower() if letter not in " -_")
