"""The words: stages, hypnograms, hypnodensities, recordings, and how nights are aligned."""
