"""`Effect`: how much of one night decoding changed, how strongly, and by which of the profile's parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding

# In the order in which a change is looked for: the first part that alone gives the epoch its stage made it.
# "path" is the rest: transitions, bout rules and poor signals act on neighbours together.
Cause = Literal["pin", "biases", "stage weights", "clock", "path"]
CAUSES: tuple[Cause, ...] = get_args(Cause)
NIGHT_FACTS = ("n_unscored", "has_lights_off", "has_lights_on", "is_taught")  # in a sidecar


@dataclass(frozen=True, slots=True)
class Effect:
    """What decoding did to one night.

    Attributes
    ----------
    n_scored, n_changed : int
        Epochs with a stage of the stager's, and how many of them got another one.
    changed_by : mapping of str to int
        The changed epochs by cause: ``pin``, ``biases``, ``stage weights`` (of a prior, or to lift or balance
        stages), ``clock``, and ``path`` (transitions and bout rules); causes without a change are left out.
    step : str
        What the strength rule did, as in `Strength.step`.
    transition_weight : float
        The weight of the transitions.
    n_unscored : int
        Epochs that are left without a stage.
    has_lights_off, has_lights_on : bool
        Whether lights cut the recording.
    is_taught : bool
        Whether the profile was fitted to this night.
    """

    n_scored: int
    n_changed: int
    changed_by: Mapping[str, int]
    step: str
    transition_weight: float
    n_unscored: int = 0
    has_lights_off: bool = False
    has_lights_on: bool = False
    is_taught: bool = False

    @classmethod
    def of(cls, decoding: Decoding) -> Effect:
        """Return the effect on a decoded night."""
        strength = decoding.strength
        return cls(
            int(np.count_nonzero(decoding.argmax >= 0)),
            int(np.count_nonzero(decoding.changed)),
            changes_by_cause(decoding),
            strength.step,
            strength.transition_weight,
            int(np.count_nonzero(decoding.hypnogram.labels < 0)),
            decoding.night.lights_off > 0,
            decoding.night.lights_on is not None,
            decoding.profile.was_taught_by(replace(decoding.hypnogram, labels=decoding.argmax)),
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Effect | None:
        """Return the effect that a sidecar records, or None if an earlier version wrote it."""
        if "changed_by" not in record:
            return None
        strength = record["strength"]
        return cls(
            int(record["n_scored"]),
            int(record["n_changed"]),
            {cause: int(record["changed_by"].get(cause, 0)) for cause in CAUSES},
            str(strength["step"]),
            float(strength["transition_weight"]),
            int(record.get("n_unscored", 0)),  # this and the rest: missing in outputs of earlier versions
            *(bool(record.get(name, False)) for name in NIGHT_FACTS[1:]),
        )

    def night_facts(self) -> dict[str, Any]:
        """Return what a sidecar records of the night for its Methods paragraph."""
        return {name: getattr(self, name) for name in NIGHT_FACTS}


def changes_by_cause(decoding: Decoding) -> dict[str, int]:
    """Return how many changed epochs each cause made; causes without one are left out."""
    left = decoding.changed
    night, output = decoding.night, decoding.hypnogram.labels
    added, timeless = decoding.setting.stage_nats, night.timed(None)
    counts: dict[str, int] = {}
    for cause in CAUSES:
        if not left.any():
            break
        if cause == "pin":
            made = np.zeros(len(output), dtype=bool)
            made[list(night.pins)] = True
        elif cause == "biases" and night.calibration is not None:
            made = timeless.choices() == output
        elif cause == "stage weights" and added is not None:
            made = timeless.choices(added) == output
        elif cause == "clock" and night.clock is not None:
            made = night.choices(added) == output
        elif cause == "path":
            made = left
        else:
            continue
        if n_made := int(np.count_nonzero(left & made)):
            counts[cause] = n_made
        left = left & ~made
    return counts
