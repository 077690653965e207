"""Stages, hypnograms, hypnodensities and recordings, and how nights are aligned."""
