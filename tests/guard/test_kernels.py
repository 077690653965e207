"""The kernels: curves against paths, stretches against whole nights, one implementation against the other."""

import numpy as np
import pytest

from stageguard.guard import kernels
from stageguard.guard.decode import decode
from stageguard.guard.kernels import reference
from stageguard.profile.profile import Profile


def probabilities_of(rng, n_epochs, n_stages):
    logits = np.repeat(rng.normal(size=(n_epochs // 4 + 1, n_stages)) * 2, 4, axis=0)[:n_epochs]
    odds = np.exp(logits + rng.normal(size=logits.shape))
    return odds / odds.sum(axis=1, keepdims=True)


@pytest.mark.filterwarnings("ignore::stageguard.StageGuardWarning")
@pytest.mark.parametrize("n_stages", [5, 6, 9])
@pytest.mark.parametrize("kind", ["free", "greedy"])
def test_more_stages_than_are_compiled_are_decoded_alike(monkeypatch, n_stages, kind):
    rng = np.random.default_rng([17, n_stages])
    names = [f"stage {i}" for i in range(n_stages)]
    rows = rng.dirichlet(np.ones(n_stages), n_stages).tolist()
    document = {
        "name": "many",
        "stages": names,
        "epoch_seconds": 30.0,
        "transitions": {a: dict(zip(names, row, strict=True)) for a, row in zip(names, rows, strict=True)},
        "transition_weight": 0.0 if kind == "free" else 0.5,
        "flip_flop": {"penalty_nats": 1.5 * (kind == "greedy"), "window_epochs": 4, "method": "greedy"},
    }
    night, quality = probabilities_of(rng, 60, n_stages), rng.random(60)
    quality[20:25] = 1.0  # nothing is known of these
    night[40:43] = np.nan

    def decoded():
        return decode(night, Profile.from_dict(document), quality=quality)

    ours = decoded()
    monkeypatch.setattr(kernels, "active", reference)
    theirs = decoded()
    assert ours.hypnogram.labels.tolist() == theirs.hypnogram.labels.tolist()
    assert ours.score == pytest.approx(theirs.score, abs=1e-9)
