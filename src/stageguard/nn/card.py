"""A network's card, everything but its weights, and how a network with a card stages. Without torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from stageguard import checks, schema
from stageguard.arrays import Floats, Floats32
from stageguard.errors import FileFormatError, InputError, ProfileError, did_you_mean, warn
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.stages import StageScheme
from stageguard.nn.backbones import build_backbone, check_network
from stageguard.nn.data import read_features
from stageguard.nn.tables import Normalisation
from stageguard.nn.windows import soften, stretch_by_stretch
from stageguard.profile.profile import Profile
from stageguard.schema import REQUIRED
from stageguard.signals.features import Features, Recipe
from stageguard.version import __version__

if TYPE_CHECKING:
    from torch import nn

Trained = Literal["natural", "balanced"]


def plain_mapping(value: object, where: str) -> dict[str, Any]:
    """Return a table of a document."""
    return dict(checks.mapping(value, where))


def different_names(value: object, where: str) -> tuple[str, ...]:
    """Return a list of names of a document, none of them twice."""
    names = schema.text_list(value, where)
    if len(set(names)) != len(names) or not names:
        raise InputError(f"{where} are not different from each other.")
    return names


@dataclass(frozen=True, slots=True)
class _ProfileEntry:
    """The profile's entry in the card."""

    name: str = schema.text()
    sha256: str = schema.text()
    definition: Mapping[str, Any] = schema.declare(REQUIRED, plain_mapping)


def _profile(value: object, where: str) -> Profile:
    """Return the profile of the card, after checking its SHA-256."""
    entry = schema.read_table(_ProfileEntry, value, where)
    try:
        profile = Profile.from_dict(entry.definition)
    except ProfileError as error:
        raise InputError(f"profile.definition: {error}") from None
    if entry.sha256 != profile.sha256:
        raise InputError("profile.sha256 is not that of profile.definition.")
    return profile


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """The features that a network takes."""

    recipe: str = schema.text(empty=True)  # name of the recipe
    # the recipe itself; None if the features came without one
    recipe_document: Mapping[str, Any] | None = schema.declare(REQUIRED, schema.optional(plain_mapping))
    names: tuple[str, ...] = schema.declare(REQUIRED, different_names)  # in order
    n_frames: int = schema.count()  # per epoch


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A network's purpose and training: everything but its weights."""

    backbone: str = schema.text()
    network: Mapping[str, Any] = schema.declare(REQUIRED, check_network)  # options of the backbone
    # length of the training epochs
    epoch_seconds: float = schema.declare(REQUIRED, lambda value, where: checks.epoch_seconds(value))
    features: FeatureSet = schema.declare(REQUIRED, partial(schema.read_table, FeatureSet))
    normalisation: Normalisation = schema.declare(
        REQUIRED, partial(schema.read_table, Normalisation, complete=True)
    )
    # number of epochs in the network's window; None for a whole stretch
    length: int | None = schema.declare(REQUIRED, schema.optional(checks.count))
    # found on the validation subjects; 1 leaves the probabilities unchanged
    temperature: float = schema.number(positive=True)
    # whether stages were weighted in training, which the decoder needs to know
    # None only in ONNX files of other people, who may not know
    trained: Trained | None = schema.choice(REQUIRED, "natural", "balanced")
    profile: Profile = schema.declare(REQUIRED, _profile)  # used in training, and by default for decoding
    # options, counts and validation results, for the record
    training: Mapping[str, Any] = schema.declare(REQUIRED, plain_mapping)

    @property
    def scheme(self) -> StageScheme:
        """The stages of the network's outputs, in order."""
        return self.profile.scheme

    def build(self) -> nn.Module:
        """Return the network, untrained."""
        return build_backbone(
            self.backbone,
            n_frames=self.features.n_frames,
            n_features=len(self.features.names),
            n_stages=self.scheme.n_stages,
            epoch_seconds=self.epoch_seconds,
            **self.network,
        )

    def feature_recipe(self, recording: str) -> Recipe:
        """Return the recipe of the network's features; the error for a missing recipe names the recording."""
        if self.features.recipe_document is None:
            raise InputError(
                f"{recording}: is a recording, and this network holds no recipe for its features (they were "
                f"called {self.features.recipe!r}). Compute them as for training, and give the tables."
            )
        return Recipe.from_dict(self.features.recipe_document)

    def columns(self, names: Sequence[str]) -> list[int]:
        """Return the indices of the network's features among names; the error names a missing feature."""
        wanted = self.features.names
        missing = [name for name in wanted if name not in names]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise InputError(
                f"has no feature {missing[0]!r}{more}, which this network was trained on (recipe "
                f"{self.features.recipe!r}, {len(wanted)} features).{did_you_mean(missing[0], names)}"
            )
        return [names.index(name) for name in wanted]

    def accept(self, table: Features) -> Features:
        """Return the table with the network's features in the network's order; check that it fits."""
        where = table.recording
        try:
            columns = self.columns(table.names)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        if table.values.shape[1] != self.features.n_frames:
            raise InputError(
                f"{where}: has {table.values.shape[1]} frames per epoch, but this network was trained on "
                f"{self.features.n_frames}. Compute the features by the recipe {self.features.recipe!r}."
            )
        if table.epoch_seconds is not None and table.epoch_seconds != self.epoch_seconds:
            raise InputError(
                f"{where}: has epochs of {table.epoch_seconds:g} s, but this network was trained on "
                f"{self.epoch_seconds:g} s. Compute the features anew."
            )
        if table.scheme is not None and table.scheme != self.scheme:
            raise InputError(
                f"{where}: has the stages {', '.join(table.scheme.names)}, but this network was trained on "
                f"{', '.join(self.scheme.names)}. Read the table in that scheme."
            )
        if table.names == self.features.names:
            return table
        return replace(table, values=table.values[..., columns], names=self.features.names)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return {
            "backbone": self.backbone,
            "network": dict(self.network),
            "scheme": _scheme_document(self.scheme),
            "epoch_seconds": self.epoch_seconds,
            "features": schema.plain_table(self.features),
            "normalisation": schema.plain_table(self.normalisation),
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
        """Return the card of a document that `to_dict` made; the error names the wrong key."""
        card = schema.read_table(cls, {key: value for key, value in document.items() if key != "scheme"})
        if "scheme" not in document:
            raise InputError("key 'scheme' is missing in the document.")
        if plain_mapping(document["scheme"], "scheme") != _scheme_document(card.scheme):
            raise InputError(f"scheme is not that of its profile ({', '.join(card.scheme.names)}).")
        strange = [name for name in card.normalisation.absolute if name not in card.features.names]
        if strange:
            raise InputError(f"normalisation.absolute names {strange[0]!r}, which is not among the features.")
        return card


def _scheme_document(scheme: StageScheme) -> dict[str, Any]:
    return {"name": scheme.name, "names": list(scheme.names), "wake": scheme.wake, "rem": scheme.rem}


MODEL_LAYOUT = 1  # of the documents that `train` and `export` write


def plain_document(document: Any, file: str) -> dict[str, Any]:
    """Return the document of a card without its layout and versions; refuse what is none, or of another."""
    version = document.get("stageguard_model") if isinstance(document, dict) else None
    if version is None:
        raise FileFormatError(f"{file}: does not describe a network of stageguard. Name the right folder.")
    if type(version) is not int or version != MODEL_LAYOUT:
        versions = document.get("versions")
        made_by = versions.get("stageguard") if isinstance(versions, Mapping) else None
        made_by = made_by or "another version"
        raise FileFormatError(
            f"{file}: has layout {version!r}, written by stageguard {made_by}; this version "
            f"({__version__}) reads layout {MODEL_LAYOUT}. Use that version, or train again."
        )
    return {key: value for key, value in document.items() if key not in ("stageguard_model", "versions")}


class CardedNetwork(ABC):
    """A network with a card: it stages tables of the features that the card names."""

    __slots__ = ()
    card: ModelCard
    extra: ClassVar[str]  # the extra that installs what runs it

    @abstractmethod
    def stage_stretch(self, features: Floats32) -> Floats:
        """Return probabilities (n_epochs, n_stages) of normalised features of an unbroken stretch."""

    def read(self, path: str | Path) -> Features:
        """Read the network's features from a file; other features are ignored."""
        return read_features(Path(path), choose=self.card.columns)

    def probabilities(self, table: Features, *, temperature: bool = True) -> Floats:
        """Return stage probabilities per row of a table; NaN in epochs without a signal.

        With `temperature`, the temperature found in training is applied.
        """
        card = self.card
        accepted = card.accept(table)
        raw = stretch_by_stretch(self.stage_stretch, accepted, card.normalisation, card.scheme.n_stages)
        return soften(raw, card.temperature if temperature else 1.0)

    def density(self, table: Features, *, temperature: bool = True) -> Hypnodensity:
        """Return stage probabilities from the table's first epoch to its last; NaN in gaps."""
        longest = max((b - a for a, b in table.stretches()), default=0)
        if self.card.length is not None and longest < self.card.length:
            warn(
                f"{table.recording}: at most {longest} epochs follow each other, fewer than the "
                f"{self.card.length} the network was trained on; the rest was padded."
            )
        assert table.epochs is not None
        rows = self.probabilities(table, temperature=temperature)
        index = table.epochs - table.epochs[0]
        densities = np.full((int(index[-1]) + 1, rows.shape[1]), np.nan)
        densities[index] = rows
        seconds = self.card.epoch_seconds
        offset = seconds * int(table.epochs[0])
        start = None if table.start is None else table.start + timedelta(seconds=offset)
        return Hypnodensity(
            densities, self.card.scheme, seconds, start, table.recording, offset_seconds=offset
        )
