"""A network with a card, of `stageguard train` or an ONNX file, as a stager: features, then probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.recording import Recording
from stageguard.nn.data import table_of
from stageguard.profile.stagers import KnownStager
from stageguard.staging import Stager

if TYPE_CHECKING:
    from stageguard.nn.model import CardedNetwork


def network_stager(model: CardedNetwork, *, temperature: bool) -> Stager:
    """Return a trained network as a stager, softened by the temperature found in training or not."""
    card = model.card
    known = KnownStager(
        name=card.backbone,
        title=f"{card.backbone}, a network with a card",
        scheme=card.scheme.name,
        epoch_seconds=card.epoch_seconds,
        profile=card.profile.name,
        trained=card.trained,
        trained_source="its card",
    )

    def run(recording: Recording) -> Hypnodensity:
        table = table_of(recording, card.feature_recipe(recording.id), epoch_seconds=card.epoch_seconds)
        return model.density(table, temperature=temperature)

    modality = "" if card.features.recipe_document is None else card.feature_recipe("").modality
    softened = f"temperature {card.temperature:.3f}" if temperature else "no temperature"
    return Stager(
        known, run, package="", extra=model.extra, roles=(), modality=modality, may_skip=True, remark=softened
    )
