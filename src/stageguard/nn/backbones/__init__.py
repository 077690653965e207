"""Six published sleep-staging networks by name.

>>> from stageguard.nn.backbones import build_backbone
>>> network = build_backbone("usleep", n_frames=1, n_features=80, n_stages=5, small=True)
>>> network(features)  # (batch, epochs, frames, features) -> (batch, epochs, stages), logits
"""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from stageguard import checks
from stageguard.errors import InputError, did_you_mean
from stageguard.night.stages import MAX_STAGES

if TYPE_CHECKING:
    from torch.nn import Module
else:
    Module = Any  # torch is loaded when a network is built

__all__ = ["backbones", "build_backbone"]

# By name: the class, in the module of that name, and the learning rate that worked for its small size on one
# feature vector per epoch of Sleep-EDF cassette and of Sleep-Accel.
BACKBONES = {
    "accusleep": ("AccuSleep", 3e-3),
    "attnsleep": ("AttnSleep", 3e-3),
    "deepsleepnet": ("DeepSleepNet", 3e-3),
    "seqsleepnet": ("SeqSleepNet", 3e-3),
    "sleeptransformer": ("SleepTransformer", 1e-3),
    "usleep": ("USleep", 1e-2),
}
SET_BY_FEATURES = ("n_frames", "n_features", "n_stages", "epoch_seconds")  # no options of a network


def backbones() -> list[str]:
    """Return the names that `build_backbone` knows, sorted."""
    return sorted(BACKBONES)


def build_backbone(
    name: str,
    *,
    n_frames: int,
    n_features: int,
    n_stages: int,
    epoch_seconds: float = 30.0,
    **options: Any,
) -> Module:
    """Build a network that takes (batch, epochs, frames, features) to (batch, epochs, stages).

    Weights come from torch's global generator: call ``torch.manual_seed`` first to get the same weights
    again.

    Parameters
    ----------
    name : str
        One of `backbones`.
    n_frames, n_features, n_stages : int
        Frames per epoch, features per frame, and stages. One feature vector per epoch is one frame. For
        raw samples, frames are the samples of an epoch and features are the channels.
    epoch_seconds : float
        Length of an epoch, for networks that measure filters and windows in seconds.
    **options
        ``width`` multiplies the numbers of filters and units, ``depth`` is the number of layers or levels,
        ``small=True`` builds the size for a computer without a GPU; for further options of the network see
        its class.

    Returns
    -------
    torch.nn.Module
        The network, with the attributes ``n_frames``, ``n_features``, ``n_stages`` and ``training_length``.
    """
    checks.choice(name, "backbone", BACKBONES)
    build = getattr(import_module(f"{__name__}.{name}"), BACKBONES[name][0])
    constructors = [signature(each.__init__).parameters.values() for each in build.__mro__[1::-1]]
    known = [p.name for each in constructors for p in each if p.kind is Parameter.KEYWORD_ONLY]
    known = [option for option in known if option not in SET_BY_FEATURES]
    for option in options:
        if option not in known:
            raise InputError(
                f"backbone {name!r} has no option {option!r}, expected one of {', '.join(known)}."
                f"{did_you_mean(option, known)}"
            )
    network: Module = build(
        n_frames=checks.count(n_frames, "n_frames"),
        n_features=checks.count(n_features, "n_features"),
        n_stages=checks.count(n_stages, "n_stages", low=2, high=MAX_STAGES),
        epoch_seconds=checks.epoch_seconds(epoch_seconds),
        **options,
    )
    return network
