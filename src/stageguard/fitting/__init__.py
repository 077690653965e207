"""Learn a profile from scored nights: counts, calibration, strength, all by subject-wise cross-validation."""
