"""Synthetic nights with a known truth, for demonstrations and tests. No evidence about real sleepers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats, Indices
from stageguard.errors import InputError
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import AASM5, WNR3
from stageguard.profile.profile import Profile, as_profile

SOURCE = "synthetic"
MOST_HOURS = 100_000  # eleven years: a longer recording is a slip of the keyboard


@dataclass(frozen=True, slots=True)
class SimulatedNight:
    """A synthetic night: the truth, and the hypnodensity of a stager without context."""

    density: Hypnodensity
    expert: Hypnogram


# Stretches of sleep: mean seconds of a bout of each stage, and weights of the next stages. They are our
# choice, set so that fragmentation and stage shares resemble scored adult nights.
Phase = Mapping[str, tuple[float, Mapping[str, float]]]
LIGHT: Phase = {
    "W": (60, {"N1": 0.8, "N2": 0.2}),
    "N1": (80, {"N2": 0.85, "W": 0.15}),
    "N2": (400, {"W": 0.4, "N1": 0.6}),
}
DEEP: Phase = {
    "W": (40, {"N1": 0.6, "N2": 0.4}),
    "N1": (45, {"N2": 1}),
    "N2": (130, {"N3": 0.9, "W": 0.1}),
    "N3": (480, {"N2": 0.9, "W": 0.1}),
}
REM: Phase = {
    "W": (40, {"N1": 0.7, "R": 0.3}),
    "N1": (50, {"R": 0.8, "N2": 0.2}),
    "N2": (60, {"R": 1}),
    "R": (480, {"W": 0.45, "N1": 0.4, "N2": 0.15}),
}
MOUSE_REST: Phase = {"W": (60, {"N": 1}), "N": (130, {"W": 0.8, "R": 0.2}), "R": (65, {"W": 0.94, "N": 0.06})}
MOUSE_ACTIVE: Phase = {
    stage: (seconds, MOUSE_REST[stage][1]) for stage, seconds in (("W", 600), ("N", 90), ("R", 50))
}

# Minutes of light, deep and REM sleep in the successive cycles of a night: deep sleep early, REM late.
CYCLES = ((14, 48, 10), (28, 36, 20), (42, 18, 28), (50, 8, 34), (52, 0, 40))

LONG_AWAKENING_CHANCE = 0.45  # after each cycle

# Position of each stage in the stager's feature plane, in units of its noise: neighbours are confused.
HUMAN_FEATURES = {"W": (0.0, 3.4), "N1": (0.2, 1.2), "N2": (2.3, 0.2), "N3": (4.9, 0.6), "R": (-1.0, -1.2)}
MOUSE_FEATURES = {"W": (0.0, 3.2), "N": (3.0, 0.4), "R": (0.0, 0.0)}
# Stages per scheme -> separation: signals scored in fewer stages (heart and breath, movement) do it worse.
SEPARATION = {5: 0.95, 3: 0.74, 2: 0.55}
SLOW_SHARE = 0.3  # of the noise variance: errors also come in short runs


def simulate_night(
    profile: Profile | str = "human-psg-5",
    *,
    hours: float = 8.0,
    seed: int | np.random.Generator = 0,
    sharpness: float = 1.0,
) -> SimulatedNight:
    """Return a synthetic night in a profile's scheme and epoch length.

    A semi-Markov sleeper (adult cycles of about 90 minutes, or a mouse's short bouts if the profile's species
    is mouse) is scored by a stager that sees each epoch alone, so that its argmax flickers.

    Parameters
    ----------
    profile : Profile or str
        Gives scheme and epoch length. The five AASM stages (W, N, R for mice) must merge into the scheme.
    hours : float
        Length of the recording.
    seed : int or numpy Generator
        The same seed gives the same night.
    sharpness : float
        With 1 the stager's probabilities are calibrated on balanced stages; more makes it overconfident.

    Returns
    -------
    SimulatedNight
        `density`, the stager's probabilities, and `expert`, the truth.

    Examples
    --------
    >>> import stageguard as sg
    >>> night = sg.simulate_night("human-psg-5", hours=2, seed=1)
    >>> night.density.probabilities.shape, night.expert.n_epochs
    ((240, 5), 240)
    """
    profile = as_profile(profile)
    hours = checks.number(hours, "hours", low=profile.epoch_seconds / 3600, high=MOST_HOURS)
    sharpness = checks.number(sharpness, "sharpness", positive=True)
    try:
        rng = np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InputError(f"seed is {checks.shown(seed)}, expected a whole number of at least 0.") from None
    n_epochs = int(hours * 3600 / profile.epoch_seconds)
    is_mouse = profile.species == "mouse"
    scheme = WNR3 if is_mouse else AASM5
    bouts = _mouse_bouts(rng, hours * 3600) if is_mouse else _human_bouts(rng, hours * 3600)
    # the stage at the middle of each epoch; shorter bouts may vanish, as arousals do in scoring
    ends, stages = np.cumsum([length for _, length in bouts]), [scheme.index(stage) for stage, _ in bouts]
    middles = (np.arange(n_epochs) + 0.5) * profile.epoch_seconds
    labels = np.array(stages)[np.minimum(np.searchsorted(ends, middles, side="right"), len(stages) - 1)]
    centres = MOUSE_FEATURES if is_mouse else HUMAN_FEATURES
    separation = 1.15 if is_mouse else SEPARATION.get(profile.scheme.n_stages, 0.95)
    features = separation * np.array([centres[name] for name in scheme.names])
    probabilities = _stager(rng, labels, features, sharpness)
    density = Hypnodensity(probabilities, scheme, profile.epoch_seconds, source=SOURCE)
    merge = scheme.merge_map(profile.scheme)
    expert = Hypnogram(merge[labels].astype(np.int8), profile.scheme, profile.epoch_seconds, scorer=SOURCE)
    return SimulatedNight(density.merge(profile.scheme), expert)


Bouts = list[tuple[str, float]]


def _human_bouts(rng: np.random.Generator, seconds: float) -> Bouts:
    bouts: Bouts = [("W", rng.gamma(3.0, 270.0)), ("N1", rng.gamma(3.0, 60.0))]
    cycle = 0
    while sum(length for _, length in bouts) < seconds:
        light, deep, rem = CYCLES[min(cycle, len(CYCLES) - 1)]
        for phase, minutes, first in ((LIGHT, light, "N2"), (DEEP, deep, "N3"), (REM, rem, "N2")):
            _run_phase(rng, bouts, phase, minutes * 60 * rng.gamma(16.0, 1 / 16.0), first)
        if rng.random() < LONG_AWAKENING_CHANCE:
            bouts.append(("W", rng.gamma(2.0, 240.0)))
        cycle += 1
    return bouts


def _mouse_bouts(rng: np.random.Generator, seconds: float) -> Bouts:
    bouts: Bouts = []
    while sum(length for _, length in bouts) < seconds:
        _run_phase(rng, bouts, MOUSE_ACTIVE, rng.gamma(4.0, 450.0), "W")
        _run_phase(rng, bouts, MOUSE_REST, rng.gamma(4.0, 1200.0), "N")
    return bouts


def _run_phase(rng: np.random.Generator, bouts: Bouts, phase: Phase, seconds: float, first: str) -> None:
    """Append bouts until the phase's time is used up."""
    stage, used = first, 0.0
    while used < seconds:
        mean_seconds, targets = phase[stage]
        length = mean_seconds * rng.gamma(1.3, 1 / 1.3)
        bouts.append((stage, length))
        used += length
        stage = str(rng.choice(list(targets), p=np.array(list(targets.values())) / sum(targets.values())))


def _stager(rng: np.random.Generator, labels: Indices, features: Floats, sharpness: float) -> Floats:
    """Return the softmax of a stager that knows the stages' positions and sees each epoch alone."""
    n_epochs, keep = len(labels), 0.9
    slow = rng.standard_normal((n_epochs, 2))
    for t in range(1, n_epochs):
        slow[t] = keep * slow[t - 1] + np.sqrt(1 - keep**2) * slow[t]
    noise = np.sqrt(SLOW_SHARE) * slow + np.sqrt(1 - SLOW_SHARE) * rng.standard_normal((n_epochs, 2))
    seen = features[labels] + noise
    distance = ((seen[:, None, :] - features[None, :, :]) ** 2).sum(axis=2)  # (epochs, stages)
    logits = -0.5 * sharpness * distance
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
