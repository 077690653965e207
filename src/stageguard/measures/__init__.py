"""Measures that a study reports of hypnograms: validity, statistics, agreement, rare events, cohorts."""
