"""What a trained network is for and how it was made, as JSON and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from stageguard.base import checks
from stageguard.base.errors import InputError, ProfileError, did_you_mean
from stageguard.night.stages import StageScheme
from stageguard.nn.backbones import SET_BY_FEATURES, build_backbone
from stageguard.nn.document import Document
from stageguard.nn.normalise import Normalisation
from stageguard.nn.pytorch import nn
from stageguard.profile.profile import Profile
from stageguard.signals.features import Recipe

Trained = Literal["natural", "balanced"]


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a network is for and how it was made; everything but its weights.

    Parameters
    ----------
    backbone, network : str, mapping
        Name of the network and the options it was built with.
    scheme : StageScheme
        The stages its outputs mean, in order.
    epoch_seconds : float
        Length of the epochs it was trained on.
    recipe : str
        How the features were computed, in a name of the user's.
    recipe_document : mapping or None
        The recipe itself, as its file says it; None where features came without one.
    features : tuple of str
        Their names, in order.
    n_frames : int
        Frames per epoch.
    normalisation : Normalisation
        How features are scaled.
    length : int or None
        Epochs it is shown at a time; None for a whole stretch.
    temperature : float
        Found on the validation subjects; 1 leaves the probabilities as they are.
    trained : "natural" or "balanced"
        Whether stages were weighted in training; the decoder needs to know.
    profile : Profile
        Whose transitions were learned from, and the one to decode with.
    training : mapping
        Options, counts and validation results, for the record.
    """

    backbone: str
    network: Mapping[str, Any]
    scheme: StageScheme
    epoch_seconds: float
    recipe: str
    recipe_document: Mapping[str, Any] | None
    features: tuple[str, ...]
    n_frames: int
    normalisation: Normalisation
    length: int | None
    temperature: float
    trained: Trained
    profile: Profile
    training: Mapping[str, Any]

    def build(self) -> nn.Module:
        """Return the network, untrained."""
        return build_backbone(
            self.backbone,
            n_frames=self.n_frames,
            n_features=len(self.features),
            n_stages=self.scheme.n_stages,
            epoch_seconds=self.epoch_seconds,
            **self.network,
        )

    def feature_recipe(self) -> Recipe:
        """Return how the network's features are computed from a recording; an error where nobody knows."""
        if self.recipe_document is None:
            raise InputError(
                f"this network holds no recipe for its features (they were called {self.recipe!r}). Compute "
                "them as for training, and give the tables."
            )
        return Recipe.from_dict(self.recipe_document)

    def columns(self, names: Sequence[str]) -> list[int]:
        """Return where the network's features are among others, in its order, or say which is missing."""
        missing = [name for name in self.features if name not in names]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise InputError(
                f"has no feature {missing[0]!r}{more}, which this network was trained on "
                f"(recipe {self.recipe!r}, {len(self.features)} features).{did_you_mean(missing[0], names)}"
            )
        return [names.index(name) for name in self.features]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return {
            "backbone": self.backbone,
            "network": dict(self.network),
            "scheme": _scheme_document(self.scheme),
            "epoch_seconds": self.epoch_seconds,
            "features": {
                "recipe": self.recipe,
                "recipe_document": None if self.recipe_document is None else dict(self.recipe_document),
                "names": list(self.features),
                "n_frames": self.n_frames,
            },
            "normalisation": self.normalisation.to_dict(),
            "length": self.length,
            "temperature": self.temperature,
            "trained": self.trained,
            "profile": {
                "name": self.profile.name,
                "sha256": self.profile.sha256,
                "definition": self.profile.to_dict(),
            },
            "training": dict(self.training),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ModelCard:
        """Return what `to_dict` described; anything else is an InputError that names the key."""
        held = Document.of(document)
        backbone = held.text("backbone")
        network, features = held.table("network"), held.table("features")
        taken = [key for key in network.content if key in SET_BY_FEATURES]
        if taken:
            raise InputError(f"network has {taken[0]!r}, which follows from the features.")
        profile = _profile(held.table("profile"))
        scheme = held.table("scheme")
        if dict(scheme.content) != _scheme_document(profile.scheme):
            raise InputError(f"scheme is not that of its profile ({', '.join(profile.scheme.names)}).")
        names = features.texts("names")
        if len(set(names)) != len(names) or not names:
            raise InputError("features.names are not different from each other.")
        recipe = features.content.get("recipe_document")
        normalisation = Normalisation.from_dict(held.table("normalisation").content)
        strange = [name for name in normalisation.absolute if name not in names]
        if strange:
            raise InputError(f"normalisation.absolute names {strange[0]!r}, which is not among the features.")
        return cls(
            backbone=backbone,
            network=dict(network.content),
            scheme=profile.scheme,
            epoch_seconds=checks.epoch_seconds(held.entry("epoch_seconds")),
            recipe=features.text("recipe"),
            recipe_document=None if recipe is None else dict(features.table("recipe_document").content),
            features=names,
            n_frames=features.whole("n_frames"),
            normalisation=normalisation,
            length=None if held.entry("length") is None else held.whole("length"),
            temperature=held.number("temperature", positive=True),
            trained=cast(Trained, checks.choice(held.entry("trained"), "trained", ("natural", "balanced"))),
            profile=profile,
            training=dict(held.table("training").content),
        )


def _scheme_document(scheme: StageScheme) -> dict[str, Any]:
    return {"name": scheme.name, "names": list(scheme.names), "wake": scheme.wake, "rem": scheme.rem}


def _profile(held: Document) -> Profile:
    try:
        profile = Profile.from_dict(held.table("definition").content)
    except ProfileError as error:
        raise InputError(f"profile.definition: {error}") from None
    if held.text("sha256") != profile.sha256:
        raise InputError("profile.sha256 is not that of profile.definition.")
    return profile
