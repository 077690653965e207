"""What a trained network is for and how it was made, as JSON and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from stageguard.base import checks, schema
from stageguard.base.errors import InputError, ProfileError, did_you_mean
from stageguard.base.schema import REQUIRED
from stageguard.night.stages import StageScheme
from stageguard.nn.backbones import SET_BY_FEATURES, build_backbone
from stageguard.nn.normalise import Normalisation
from stageguard.nn.pytorch import nn
from stageguard.profile.profile import Profile
from stageguard.signals.features import Recipe

Trained = Literal["natural", "balanced"]


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a network is for and how it was made; everything but its weights."""

    backbone: str
    network: Mapping[str, Any]  # the options it was built with
    epoch_seconds: float  # of the epochs it was trained on
    recipe: str  # how the features were computed, in a name of the user's
    recipe_document: Mapping[str, Any] | None  # the recipe itself; None where features came without one
    features: tuple[str, ...]  # their names, in order
    n_frames: int  # per epoch
    normalisation: Normalisation
    length: int | None  # epochs it is shown at a time; None for a whole stretch
    temperature: float  # found on the validation subjects; 1 leaves the probabilities as they are
    trained: Trained  # whether stages were weighted in training; the decoder needs to know
    profile: Profile  # whose transitions were learned from, and the one to decode with
    training: Mapping[str, Any]  # options, counts and validation results, for the record

    @property
    def scheme(self) -> StageScheme:
        """The stages its outputs mean, in order."""
        return self.profile.scheme

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

    def feature_recipe(self, recording: str) -> Recipe:
        """Return how the network's features are computed; where nobody knows, an error names a recording."""
        if self.recipe_document is None:
            raise InputError(
                f"{recording}: is a recording, and this network holds no recipe for its features (they were "
                f"called {self.recipe!r}). Compute them as for training, and give the tables."
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
        said = schema.read_table(_Document, document)
        taken = [key for key in said.network if key in SET_BY_FEATURES]
        if taken:
            raise InputError(f"network has {taken[0]!r}, which follows from the features.")
        profile, features = said.profile.load(), said.features
        if dict(said.scheme) != _scheme_document(profile.scheme):
            raise InputError(f"scheme is not that of its profile ({', '.join(profile.scheme.names)}).")
        if len(set(features.names)) != len(features.names) or not features.names:
            raise InputError("features.names are not different from each other.")
        strange = [name for name in said.normalisation.absolute if name not in features.names]
        if strange:
            raise InputError(f"normalisation.absolute names {strange[0]!r}, which is not among the features.")
        return cls(
            **{name: getattr(said, name) for name in _AS_WRITTEN},
            recipe=features.recipe,
            recipe_document=features.recipe_document,
            features=features.names,
            n_frames=features.n_frames,
            profile=profile,
        )


# What a document and a card both have.
_AS_WRITTEN = [
    "backbone",
    "network",
    "epoch_seconds",
    "normalisation",
    "length",
    "temperature",
    "trained",
    "training",
]


def _mapping(value: object, where: str) -> dict[str, Any]:
    return dict(checks.mapping(value, where))


@dataclass(frozen=True, slots=True)
class _Features:
    """What the card says of the features."""

    recipe: str = schema.text(empty=True)
    recipe_document: Mapping[str, Any] | None = schema.declare(REQUIRED, schema.optional(_mapping))
    names: tuple[str, ...] = schema.declare(REQUIRED, schema.text_list)
    n_frames: int = schema.count()


@dataclass(frozen=True, slots=True)
class _Profile:
    """What the card says of the profile."""

    name: str = schema.text()
    sha256: str = schema.text()
    definition: Mapping[str, Any] = schema.declare(REQUIRED, _mapping)

    def load(self) -> Profile:
        """Return the profile, if it is the one that was written."""
        try:
            profile = Profile.from_dict(self.definition)
        except ProfileError as error:
            raise InputError(f"profile.definition: {error}") from None
        if self.sha256 != profile.sha256:
            raise InputError("profile.sha256 is not that of profile.definition.")
        return profile


@dataclass(frozen=True, slots=True)
class _Document:
    """The card as JSON has it."""

    backbone: str = schema.text()
    network: Mapping[str, Any] = schema.declare(REQUIRED, _mapping)
    scheme: Mapping[str, Any] = schema.declare(REQUIRED, _mapping)
    epoch_seconds: float = schema.declare(REQUIRED, lambda value, where: checks.epoch_seconds(value))
    features: _Features = schema.declare(REQUIRED, partial(schema.read_table, _Features))
    normalisation: Normalisation = schema.declare(
        REQUIRED, lambda value, where: Normalisation.from_dict(value)
    )
    length: int | None = schema.declare(REQUIRED, schema.optional(checks.count))
    temperature: float = schema.number(positive=True)
    trained: Trained = schema.choice(REQUIRED, "natural", "balanced")
    profile: _Profile = schema.declare(REQUIRED, partial(schema.read_table, _Profile))
    training: Mapping[str, Any] = schema.declare(REQUIRED, _mapping)


def _scheme_document(scheme: StageScheme) -> dict[str, Any]:
    return {"name": scheme.name, "names": list(scheme.names), "wake": scheme.wake, "rem": scheme.rem}
