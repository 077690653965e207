"""Sleep-staging networks by name, built-in ones and those of other packages.

>>> from stageguard.nn.backbones import build_backbone
>>> network = build_backbone("usleep", n_frames=1, n_features=80, n_stages=5, small=True)
>>> network(features)  # (batch, epochs, frames, features) -> (batch, epochs, stages), logits
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, cast

from stageguard.base import checks
from stageguard.base.errors import InputError, did_you_mean
from stageguard.nn.backbones.recipes import TrainingRecipe, plain_name, training_recipe

if TYPE_CHECKING:
    from torch import nn

__all__ = ["TrainingRecipe", "backbones", "build_backbone", "training_recipe"]

# Another package adds its own with an entry point of this group: a name, and what builds the network.
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
# What a network is told by the features it is built for, and by no option of its own.
SET_BY_FEATURES = ("name", "n_frames", "n_features", "n_stages", "epoch_seconds")
WIDEST = 100


def backbones() -> list[str]:
    """Return the names `build_backbone` knows, sorted: the six built in and those other packages add."""
    return sorted({*BUILT_IN, *_added()})


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
) -> nn.Module:
    """Build a network that takes (batch, epochs, frames, features) to (batch, epochs, stages).

    Weights are drawn from torch's global generator: call ``torch.manual_seed`` first to draw the same again.

    Parameters
    ----------
    name : str
        One of `backbones`; case, spaces and dashes do not matter.
    n_frames, n_features, n_stages : int
        Frames per epoch, features per frame and stages. One feature vector per epoch has one frame; of
        raw samples the frames are the samples of an epoch and the features are the channels.
    width : float
        Multiplies the numbers of filters and units.
    depth : int, optional
        Layers or levels of the part each network is made deeper by; its own default otherwise.
    small : bool
        The size for a computer without a GPU. Width multiplies it further.
    epoch_seconds : float, optional
        Length of an epoch, 30 by default, for the networks that measure filters and windows in seconds;
        the others do without.
    **options
        What else the network of that name takes: see its class.

    Returns
    -------
    torch.nn.Module
        The network, with the attributes ``n_frames``, ``n_features``, ``n_stages`` and ``training_length``.
    """
    name, build = _find(name)
    given: dict[str, Any] = {
        "n_frames": checks.count(n_frames, "n_frames"),
        "n_features": checks.count(n_features, "n_features"),
        "n_stages": checks.count(n_stages, "n_stages", low=2),
    }
    width = checks.number(width, "width", positive=True, high=WIDEST)
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


def _added() -> dict[str, EntryPoint]:
    """Return what other packages provide."""
    return {plain_name(entry.name): entry for entry in entry_points(group=GROUP)}


def _find(name: str) -> tuple[str, Callable[..., nn.Module]]:
    plain = plain_name(checks.text(name, "the name of a backbone"))
    if plain in BUILT_IN:  # first, so that a name of ours stays ours
        return plain, getattr(import_module(f"{__name__}.{plain}"), BUILT_IN[plain])
    if (entry := _added().get(plain)) is not None:
        return plain, _loaded(plain, entry)
    known = backbones()
    raise InputError(f"there is no backbone {name!r}. Known: {', '.join(known)}.{did_you_mean(plain, known)}")


def _loaded(name: str, entry: EntryPoint) -> Callable[..., nn.Module]:
    """Return what another package provides, or say which package cannot."""
    try:
        return cast("Callable[..., nn.Module]", entry.load())
    except (ImportError, AttributeError) as error:
        package = entry.module.partition(".")[0] if entry.dist is None else entry.dist.name
        raise InputError(
            f"backbone {name!r} of package {package!r} cannot be loaded ({error}). Install {package} again, "
            "or remove it."
        ) from None


def _check_options(name: str, build: Callable[..., nn.Module], given: dict[str, Any]) -> None:
    parameters = inspect.signature(build).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    known = [option for option in parameters if option not in CONTRACT[:3]]
    for option in given:
        if option not in parameters:
            listed = ", ".join(known) or "none"
            hint = did_you_mean(option, known)
            raise InputError(f"backbone {name!r} has no option {option!r}. Its options: {listed}.{hint}")
