"""The guard: from stage probabilities and a profile to hypnograms, posteriors and explanations."""
