"""Quality of simulated recordings: artefacts that the simulator wrote down are found, and little else."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from stageguard.synthetic import simulate_recording

# Kinds that leave an epoch without a usable signal; apnoeas and small pops do not.
SPOILING = {"movement artefact", "muscle artefact", "sensor loss", "interference"}


@pytest.mark.parametrize(
    ("modality", "hours", "seeds"), [("eeg-emg", 1.0, (0, 1, 2)), ("bioradar", 4.0, (0, 1, 2))]
)
def test_artefacts_are_found_and_the_rest_is_left_alone(modality, hours, seeds):
    n_events = n_outside = n_epochs = 0
    for seed in seeds:
        made = simulate_recording(modality, hours=hours, seed=seed)
        found = sg.signal_quality(made.recording, modality, rules="graded")
        touched = np.zeros(found.n_epochs, dtype=bool)
        for event in made.events:
            first = int(event.start_seconds // found.epoch_seconds)
            end = min(found.n_epochs, int(np.ceil(event.end_seconds / found.epoch_seconds)))
            touched[first:end] = True
            if event.kind in SPOILING and event.seconds >= 1:
                n_events += 1
                assert found.beta[first:end].any(), (seed, event)
        n_outside += int(np.count_nonzero(found.is_bad & ~touched))
        n_epochs += found.n_epochs
    assert n_events
    assert n_outside <= 0.002 * n_epochs
