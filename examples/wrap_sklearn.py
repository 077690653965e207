"""Put StageGuard behind a scikit-learn classifier: its probabilities are all that is needed, no torch.

Run: python examples/wrap_sklearn.py
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

import stageguard as sg

PROFILE = "human-psg-3"


def features_of(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return four noisy features per epoch, and the names of the stages behind them."""
    night = sg.simulate_night(PROFILE, seed=seed).expert
    rng = np.random.default_rng(seed)
    shown = np.eye(3, 4)[night.labels]
    return shown + 0.55 * rng.standard_normal(shown.shape), night.stages


def main() -> None:
    """Fit on five nights, decode a sixth."""
    nights = [features_of(seed) for seed in range(5)]
    x, stages = (np.concatenate(parts) for parts in zip(*nights, strict=True))
    classifier = LogisticRegression(max_iter=200).fit(x, stages)

    features, truth = features_of(99)
    probabilities = classifier.predict_proba(features)
    # scikit-learn sorts its classes by name: say which column is which, and decode puts them in order.
    result = sg.decode(probabilities, PROFILE, stages=list(classifier.classes_), trained="natural")
    print(f"columns: {', '.join(classifier.classes_)}")
    print(f"classifier: {np.mean(classifier.predict(features) == truth):.1%} of epochs as simulated")
    print(f"decoded: {np.mean(result.stages == truth):.1%} of epochs as simulated")
    print(result.strength)


if __name__ == "__main__":
    main()
