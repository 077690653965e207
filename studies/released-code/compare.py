"""Compare the `released-2026-*` rules with the decoder that the paper's authors released.

    git clone https://github.com/Q9gJYx/StageGuard authors && git -C authors checkout c9fb1d2
    STAGEGUARD_DATA=... python compare.py authors

50 nights of DOD-H in three stages: votes of 20 networks, and the stages of SimpleNet with .9 on its stage
and the rest shared. Such rows tie often, so both are decoded as they are and with a little noise. Writes
results.json.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np

import stageguard as sg
from stageguard.night.stages import AASM5, WNR3

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "guard-on-real-data"))

NOISE = 1e-6
SOFT = 0.1  # what stages without probabilities leave for all stages together
SETTINGS = {"num_classes": 3, "d_max": 6, "epsilon": 5.0, "k": 5}  # longer bouts do not differ beyond k
MINIMUM = (1, 2, 2)  # epochs of W, N and R
RARE = ((0, 2), (2, 1))  # W to R, R to N


def nights() -> Iterator[np.ndarray]:
    """Yield the probabilities of every night's staged epochs."""
    cohorts = import_module("cohorts")
    for stager in ("votes", "SimpleNet"):
        for night in cohorts.dod_h(stager):
            rows = np.zeros((len(night.probabilities), 3))
            for stage, target in enumerate(AASM5.merge_map(WNR3)):
                rows[:, target] += night.probabilities[:, stage]
            if stager != "votes":
                rows = (1 - SOFT) * rows + SOFT / 3
            yield rows[~np.isnan(rows[:, 0])]


def released_score(labels: np.ndarray, log_probabilities: np.ndarray) -> float:
    """Return the score of a path by the released rules without the flip-flop; -inf if a bout is too short."""
    terms = [float(log_probabilities[0, labels[0]])]
    length = 1
    for t in range(1, len(labels)):
        terms.append(float(log_probabilities[t, labels[t]]))
        if labels[t] == labels[t - 1]:
            length += 1
            continue
        if length < MINIMUM[labels[t - 1]]:
            return -math.inf
        if (labels[t - 1], labels[t]) in RARE:
            terms.append(-SETTINGS["epsilon"])
        length = 1
    return math.fsum(terms)


def best_score(log_probabilities: np.ndarray) -> float:
    """Return the best score of all paths by the same rules."""
    longest = max(MINIMUM)
    scores = np.full((3, longest + 1), -np.inf)  # by stage and length of the bout so far, up to the longest
    scores[:, 1] = log_probabilities[0]
    for row in log_probabilities[1:]:
        new = np.full_like(scores, -np.inf)
        for stage in range(3):
            for length in range(1, longest + 1):
                longer = min(length + 1, longest)
                new[stage, longer] = max(new[stage, longer], scores[stage, length] + row[stage])
                for target in range(3) if length >= MINIMUM[stage] else ():
                    if target != stage:
                        cost = SETTINGS["epsilon"] * ((stage, target) in RARE)
                        new[target, 1] = max(new[target, 1], scores[stage, length] - cost + row[target])
        scores = new
    return float(scores.max())


def their_decoder(folder: Path, flip_flop_nats: float) -> object:
    """Return the authors' decoder with the rules of released-2026-cardiorespiratory."""
    package = ModuleType("authors")  # without its __init__, which imports torch and all else
    package.__path__ = [str(folder / "stageguard")]
    sys.modules["authors"] = package
    rules = {"d_min": list(MINIMUM), "rare_transitions": list(RARE), "gamma": flip_flop_nats}
    return import_module("authors.decoder").SemiMarkovDecoder(SimpleNamespace(**SETTINGS, **rules))


def compare(folder: Path, *, noise: float, flip_flop: bool) -> dict[str, float]:
    """Count nights and epochs on which both differ; without the flip-flop, compare scores."""
    profile = sg.Profile.load("released-2026-cardiorespiratory")
    assert profile.scheme == WNR3 and profile.flip_flop is not None
    decoder = their_decoder(folder, profile.flip_flop.penalty_nats if flip_flop else 0.0)
    profile = profile if flip_flop else profile.replace(flip_flop=None)
    rng = np.random.default_rng(0)
    found = {"nights": 0, "equal_nights": 0, "epochs": 0, "different_epochs": 0}
    gaps = [0.0]
    for rows in nights():
        noisy = rows + noise * rng.random(rows.shape)
        probabilities = np.clip(noisy / noisy.sum(axis=1, keepdims=True), 1e-12, None)
        logs = np.log(probabilities)
        ours = np.asarray(sg.decode(probabilities, profile).hypnogram.labels, dtype=int)
        theirs = decoder.decode(logs)
        n_different = int((ours != theirs).sum())
        found["nights"] += 1
        found["equal_nights"] += n_different == 0
        found["epochs"] += len(rows)
        found["different_epochs"] += n_different
        if not flip_flop:
            best = best_score(logs)
            gaps += [abs(released_score(labels, logs) - best) for labels in (ours, theirs)]
    return found if flip_flop else found | {"largest_score_gap": max(gaps)}


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("say where the authors' repository is: python compare.py FOLDER")
    folder = Path(sys.argv[1])
    warnings.simplefilter("ignore", sg.StageGuardWarning)
    results = {
        "commit": "c9fb1d2",
        "as they are": compare(folder, noise=0.0, flip_flop=False),
        "with noise": compare(folder, noise=NOISE, flip_flop=False),
        "with noise and flip-flop": compare(folder, noise=NOISE, flip_flop=True),
    }
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
